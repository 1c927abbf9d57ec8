"""Covariates in the command, the readers of tables and the report."""

import json

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyarrow")
typer_testing = pytest.importorskip("typer.testing")

from prosparse import FDRPCA, TableError, load  # noqa: E402
from prosparse.app.cli import app  # noqa: E402
from prosparse.report import write_report  # noqa: E402
from prosparse.tables import ReadOptions, read_table  # noqa: E402

run = typer_testing.CliRunner().invoke
N, P = 120, 12


@pytest.fixture
def frame():
    """Age, sex and batch drive all columns; five share a factor."""
    rng = np.random.default_rng(0)
    age, sex = rng.uniform(20.0, 80.0, N).round(1), rng.choice(["f", "m"], N)
    batch = rng.integers(1, 5, N)
    X = rng.standard_normal((N, P)) + rng.standard_normal((5, P))[batch]
    X[:, :5] += 1.3 * rng.standard_normal((N, 1))
    X += np.outer((age - 50.0) / 15.0, rng.normal(0.0, 2.0, P))
    X += np.outer(sex == "m", rng.normal(0.0, 2.0, P))
    table = pd.DataFrame(X, columns=[f"v{k}" for k in range(P)])
    return table.assign(age=age, sex=sex, batch=batch)


@pytest.fixture
def path(frame, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame.to_csv("t.csv", index=False)
    return tmp_path / "t.csv"


def test_select_and_scores_of_new_rows(frame, path):
    printed = run(app, ["select", str(path), "--covariates", "age,sex,C(batch)", "--json"])
    result = json.loads(printed.stdout)
    covariates = frame[["age", "sex", "batch"]].astype({"batch": str})
    X = frame.iloc[:, :P]
    model = FDRPCA().fit(X, covariates=covariates)
    assert sorted(result["selected"]) == ["v0", "v1", "v2", "v3", "v4"]
    assert result["variables"] == P
    expected = dict(zip(X.columns, model.covariate_r2_, strict=True))
    assert result["covariate_r2"] == pytest.approx([expected[v] for v in result["selected"]])
    folder = path.parent / "t-prosparse"
    found = pd.read_csv(folder / "selected.csv").set_index("variable")
    np.testing.assert_allclose(found.loc[X.columns, "covariate_r2"], model.covariate_r2_)
    scores = pd.read_csv(folder / "scores.csv")["component_1"]
    np.testing.assert_allclose(
        scores, model.transform(X, covariates=covariates)[:, 0], rtol=1e-6, atol=1e-8
    )
    saved = load(folder / "model.prosparse")
    np.testing.assert_allclose(saved.covariate_coef_, model.covariate_coef_)
    text = (folder / "report.html").read_text()
    assert "The covariates age, sex and batch explain" in text
    assert "age (number), sex (2 levels), batch (4 levels)" in text
    frame[::3].to_csv("new.csv", index=False)
    report = [
        "report",
        str(folder / "model.prosparse"),
        "--data",
        "new.csv",
        "--output",
        "new.html",
    ]
    assert run(app, report).exit_code == 0
    frame[::3].assign(sex="x").to_csv("new.csv", index=False)
    refused = run(app, report)
    assert "unknown level of 'sex': 'x'" in " ".join(refused.stderr.split())


def test_printed_summary(path):
    printed = " ".join(
        run(app, ["select", str(path), "--covariates", "age,sex,C(batch)"]).stdout.split()
    )
    assert "covariates The covariates age, sex and batch explain" in printed


def test_other_methods_refuse_covariates(path):
    refused = run(app, ["select", str(path), "--method", "gsppca", "--covariates", "age,sex,batch"])
    assert refused.exit_code == 2
    message = " ".join(refused.stderr.split())
    assert "--covariates has no effect with --method gsppca; use fdrpca." in message


def test_columns_become_covariates(frame, path):
    options = ReadOptions(covariates=("age, sex", "C(batch)"), label="sex")
    table = read_table(path, options)
    assert table.names == [f"v{k}" for k in range(P)]
    assert table.label == frame["sex"].tolist()
    assert list(table.covariates) == ["age", "sex", "batch"]
    np.testing.assert_allclose(table.covariates["age"], frame["age"])
    assert table.covariates["batch"].tolist() == frame["batch"].astype(str).tolist()
    assert ReadOptions(**options.to_json()).annotations == options.annotations
    assert options.without_annotations() == ReadOptions()
    with pytest.raises(TableError, match="there is no column 'ag'; did you mean 'age'"):
        read_table(path, ReadOptions(covariates=("ag,sex",)))
    frame.loc[3, "age"] = np.nan
    frame.to_csv(path, index=False)
    with pytest.raises(TableError, match=r"row 4 of the data.*covariate 'age' is missing"):
        read_table(path, options)


def test_covariates_of_other_formats(frame, tmp_path):
    frame.to_parquet(tmp_path / "t.parquet")
    np.savez(
        tmp_path / "t.npz", X=frame.iloc[:, :P], age=frame["age"], sex=frame["sex"].to_numpy(str)
    )
    for name in ("t.parquet", "t.npz"):
        drop = () if name == "t.npz" else ("batch",)
        table = read_table(tmp_path / name, ReadOptions(covariates=("age,sex",), ignore=drop))
        np.testing.assert_allclose(table.covariates["age"], frame["age"])
        assert table.covariates["sex"].tolist() == frame["sex"].tolist()
        assert len(table.names) == P
    transposed = frame.drop(columns="batch").T
    transposed.columns = [f"s{k}" for k in range(N)]
    transposed.to_csv(tmp_path / "rows.csv")
    table = read_table(tmp_path / "rows.csv", ReadOptions(transpose=True, covariates=("age,sex",)))
    np.testing.assert_allclose(table.covariates["age"], frame["age"])


def test_report_of_a_model(frame, tmp_path):
    X, covariates = frame.iloc[:, :P], frame[["age", "sex"]]
    model = FDRPCA().fit(X, covariates=covariates)
    page = write_report(model, tmp_path / "r.html", X=X, covariates=covariates).read_text()
    assert "age and sex explain" in page
