"""``prosparse report`` of model files, some of them edited."""

import numpy as np
import pandas as pd
import pytest

typer_testing = pytest.importorskip("typer.testing")
pytest.importorskip("pyarrow")

from prosparse import (  # noqa: E402
    EMPCA,
    FDRPCA,
    GSPPCA,
    SCA,
    SPPCA,
    InputError,
    Panel,
    SpinyRegressor,
    save,
)
from prosparse.app.cli import app  # noqa: E402
from prosparse.report import render  # noqa: E402
from saved_models import X, changed  # noqa: E402

FRAME = pd.DataFrame(X, columns=[f"v{k}" for k in range(12)])
MODELS = {
    "FDRPCA": FDRPCA(),
    "GSPPCA": GSPPCA(2),
    "SCA": SCA(1, views=[slice(0, 6), slice(6, 12)]),
    "SPPCA": SPPCA(2, penalty=10.0, penalties=[1.0, 10.0]),
    "EMPCA": EMPCA(2, n_nonzero=4, random_state=0),
    "Panel": Panel(4),
    "SpinyRegressor": SpinyRegressor(),
}


@pytest.fixture(autouse=True)
def change_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*arguments):
    return typer_testing.CliRunner().invoke(app, ["report", *map(str, arguments)])


def assert_error(result, *fragments):
    """Check for exit code 1 and a message without a traceback."""
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)
    line = " ".join(result.stderr.split())
    assert line.startswith("prosparse: "), line
    for fragment in fragments:
        assert fragment in line
    return line


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    FRAME.to_csv(folder / "table.csv", index=False)
    for name, model in MODELS.items():
        save(model.fit(FRAME, X[:, 0] - X[:, 3]), folder / name)
    return folder


def test_every_model_has_a_report(files):
    for name in MODELS:
        assert run(files / name, "--output", files / "page.html").exit_code == 0


def test_invalid_model_is_an_error_without_a_traceback(files):
    path = changed(files, "GSPPCA", arrays={"mean_": lambda a: a[:-1]})
    assert_error(run(path), "changed.prosparse", "`mean_` has shape (11,)")


@pytest.mark.parametrize("path", ["log_evidence_path_", "log_posterior_path_"])
def test_unknown_evidence(files, path):
    """Model sizes with unknown evidence are not compared."""
    name = "GSPPCA" if path == "log_evidence_path_" else "SpinyRegressor"

    def first_unknown(values):
        return np.concatenate([[np.nan], values[1:]])

    assert run(changed(files, name, arrays={path: first_unknown})).exit_code == 0
    assert run(changed(files, name, arrays={path: lambda a: a + np.nan})).exit_code == 0
    assert run(changed(files, name, arrays={path: lambda a: a.astype(int)})).exit_code == 0


@pytest.mark.parametrize("data", [False, True])
def test_unfitted_model_has_no_report(tmp_path, files, data):
    path = save(GSPPCA(), tmp_path / "model")
    options = ["--data", files / "table.csv"] if data else []
    assert_error(run(path, *options), "this GSPPCA is not fitted")
    with pytest.raises(InputError, match="not fitted"):
        render(SpinyRegressor())


def test_regression_has_no_scores(files):
    result = run(files / "SpinyRegressor", "--data", files / "table.csv")
    assert_error(result, "SpinyRegressor computes no scores")


@pytest.mark.parametrize("scales", [["a"] * 12, [0.0] * 12, [None] * 12, [float("nan")] * 12])
def test_invalid_scales(files, scales):
    def header(content):
        content["about"] = {"column_scales": scales}

    path = changed(files, "SPPCA", header)
    result = run(path, "--data", files / "table.csv")
    assert_error(result, "`column_scales` must contain positive numbers")


def test_unknown_proportions_are_not_reported(files):
    path = changed(
        files,
        "GSPPCA",
        arrays={"explained_variance_ratio_": lambda a: a + np.nan},
    )
    page = files / "page.html"
    assert run(path, "--output", page).exit_code == 0
    assert "<dt>explained variance</dt><dd>unknown</dd>" in page.read_text("utf-8")
