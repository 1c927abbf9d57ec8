"""The command ``apply``: columns by name, missing values, predictions, and drift."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

typer_testing = pytest.importorskip("typer.testing")

import prosparse  # noqa: E402
from prosparse.app.application import compare_means  # noqa: E402
from prosparse.app.cli import app  # noqa: E402

pytestmark = pytest.mark.quick

run = typer_testing.CliRunner().invoke
QUICK = ["--permutations", "0", "--quiet"]
NAMES = [f"m{k}" for k in range(12)]


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def draw(n, seed, shift=0.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 12))
    X[:, :6] += 2.0 * (rng.standard_normal((n, 1)) + shift)
    return 10.0 + X


def write(name, X, names=NAMES, **extra):
    with Path(name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["sample", *names, *extra])
        for i, row in enumerate(X.tolist()):
            cells = ["" if np.isnan(v) else repr(v) for v in row]
            writer.writerow([f"N{i}", *cells, *(column[i] for column in extra.values())])
    return name


def read(path):
    with Path(path).open(newline="", encoding="utf-8") as file:
        header, *rows = list(csv.reader(file))
    return header, rows


def numbers(path, column):
    header, rows = read(path)
    k = header.index(column)
    return np.array([float(row[k]) if row[k] else np.nan for row in rows])


def fitted(command="select", X=None, *options, **extra):
    result = run(app, [command, write("old.csv", draw(90, 0) if X is None else X, **extra), *QUICK,
                       *options])  # fmt: skip
    assert result.exit_code == 0, result.output
    folder = options[-1] if "--output" in options else "old-prosparse"
    model = prosparse.load(f"{folder}/model.prosparse")
    del model.feature_names_in_  # the tests pass arrays
    return model


def test_columns_are_matched_by_name():
    model = fitted()
    new = draw(30, 1)
    # Another order, a further text column, and without the columns that the model does not use.
    columns = [k for k in np.random.default_rng(0).permutation(12) if model.support_[k]]
    write("new.csv", new[:, columns], [NAMES[k] for k in columns], comment=["x"] * 30)
    result = run(app, ["apply", "old-prosparse", "new.csv"])
    assert result.exit_code == 0, result.output
    assert f"{12 - len(columns)} variables that the model does not use are absent" in result.stdout
    scores = numbers("new-applied/scores.csv", "component_1")
    np.testing.assert_allclose(scores, model.transform(new)[:, 0], rtol=1e-8)
    assert read("new-applied/scores.csv")[1][3][0] == "N3"
    page = Path("new-applied/report.html").read_text(encoding="utf-8")
    assert "Model old-prosparse applied to new.csv" in page


def test_missing_variable_is_named_with_a_suggestion():
    fitted()
    write("new.csv", draw(5, 1), ["m0", "M1", *NAMES[2:]])
    result = run(app, ["apply", "old-prosparse", "new.csv"])
    assert result.exit_code == 1
    assert "1 variable of the model is missing: 'm1'. Is m1 the column M1?" in result.stderr


def test_missing_values():
    model = fitted()
    new = draw(30, 1)
    new[4, 0] = np.nan  # of a variable that the model uses
    new[5, 11] = np.nan  # of another one
    assert model.support_[0]
    assert not model.support_[11]
    assert run(app, ["apply", "old-prosparse", write("new.csv", new)]).exit_code == 0
    scores = numbers("new-applied/scores.csv", "component_1")
    np.testing.assert_allclose(scores, model.transform(new)[:, 0], rtol=1e-8)
    assert np.isfinite(scores).all()  # FDRPCA allows missing values
    model = fitted("select", None, "--method", "sppca", "--output", "sppca")
    result = run(app, ["apply", "sppca", "new.csv", "--output", "second"])
    assert result.exit_code == 0, result.output
    assert np.isnan(numbers("second/scores.csv", "component_1")[4])
    assert "no results" in result.stdout


def test_predictions_of_a_regression():
    X = draw(90, 0)
    y = X[:, 2] - 0.5 * X[:, 8] + 0.2 * np.random.default_rng(5).standard_normal(90)
    model = fitted("regress", X, "--response", "y", y=y.tolist())
    new = draw(200, 1)
    assert run(app, ["apply", "old-prosparse", write("new.csv", new)]).exit_code == 0
    path = "new-applied/predictions.csv"
    np.testing.assert_allclose(numbers(path, "predicted"), model.predict(new), rtol=1e-7)
    truth = new[:, 2] - 0.5 * new[:, 8] + 0.2 * np.random.default_rng(6).standard_normal(200)
    inside = (numbers(path, "lower") < truth) & (truth < numbers(path, "upper"))
    assert 0.9 < inside.mean() < 0.99


def test_reconstructions_of_a_panel():
    model = fitted("panel", draw(200, 0), "--variables", "3")
    new = draw(300, 1)
    panel = np.flatnonzero(model.support_)
    write("new.csv", new[:, panel], [NAMES[k] for k in panel])
    result = run(app, ["apply", "old-prosparse", "new.csv"])
    assert result.exit_code == 0, result.output
    path = "new-applied/reconstructions.csv"
    others = np.flatnonzero(~model.support_)
    inside = [
        (numbers(path, f"{NAMES[k]} (lower)") < new[:, k])
        & (new[:, k] < numbers(path, f"{NAMES[k]} (upper)"))
        for k in others
    ]
    assert 0.9 < np.mean(inside) < 0.99


def test_drift_is_reported():
    fitted()
    result = run(app, ["apply", "old-prosparse", write("same.csv", draw(60, 1)), "--json"])
    assert json.loads(result.stdout)["drift"] == []
    result = run(app, ["apply", "old-prosparse", write("shifted.csv", draw(60, 2, 1.5)), "--json"])
    drift = json.loads(result.stdout)["drift"]
    assert drift[0]["name"] == "component 1"
    assert abs(drift[0]["shift"]) > 1.0


def test_drift_is_rarely_reported_for_rows_of_the_same_population():
    rng = np.random.default_rng(0)
    reported = sum(
        compare_means(["a", "b"], new, old.mean(axis=0), old.std(axis=0), 30).shifted.size > 0
        for old, new in (np.split(rng.standard_t(4, (70, 2)), [30]) for _ in range(200))
    )
    assert reported <= 2
