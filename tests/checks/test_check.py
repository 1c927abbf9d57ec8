"""The check of arrays and DataFrames: planted defects are found, clean tables are not accused."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris, load_wine

import prosparse
from prosparse.checks import Finding, Severity, TableCheck

pytestmark = pytest.mark.quick


def test_ignored_rows_are_not_checked(tmp_path):
    from prosparse.checks import check_file
    from prosparse.tables import ReadOptions

    X = np.random.default_rng(0).normal(size=(40, 12))
    X[7] *= 12.0
    rows = [["sample", *[f"v{k}" for k in range(12)]]]
    rows += [[f"S{i}", *map("{:.4f}".format, row)] for i, row in enumerate(X)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(map(",".join, rows)))
    found = check_file(path)
    assert any(finding.rows == ("S7",) for finding in found.check.findings)
    found = check_file(path, ReadOptions(ignore_rows=("S7,S9",)))
    assert found.check.shape == (38, 12)
    assert not any(finding.rows for finding in found.check.findings)


def test_incomplete_rows_are_not_noise():
    X = np.random.default_rng(0).normal(size=(60, 30))
    X[:12, :24] = np.nan
    assert "unequal-noise" not in codes_of(X)
    X[12:36] *= 9.0
    assert "unequal-noise" in codes_of(X)


def factor_table(n=80, p=24, seed=0):
    """Two factors in half of the columns, of unequal means and units."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    X[:, : p // 2] += 1.5 * rng.standard_normal((n, 2)) @ rng.choice([-1.0, 1.0], (2, p // 2))
    return 10.0 + X * np.exp(rng.normal(size=p))


def codes_of(X):
    return {found.code for found in prosparse.check(X).findings}


@pytest.mark.parametrize("seed", range(5))
def test_clean_tables_have_no_findings(seed):
    assert codes_of(factor_table(seed=seed)) == set()


def test_clean_data_of_scikit_learn_have_no_findings():
    assert codes_of(load_wine(as_frame=True).data) == set()
    assert codes_of(load_iris(as_frame=True).data) <= {"duplicate-rows"}


def test_code_for_missing_values():
    X = factor_table()
    X[3, 5] = X[9, 7] = -999
    (found,) = prosparse.check(X).findings
    assert (found.code, found.columns, found.fix) == ("missing-codes", ("x5", "x7"), "--na -999")


def test_outlying_row_is_named():
    X = factor_table()
    X[17] = X.mean(axis=0) + 8 * (X[17] - X.mean(axis=0))
    (found,) = prosparse.check(X).findings
    assert (found.code, found.rows) == ("outlying-rows", ("17",))
    assert "Row 17 is outlying" in found.message


def test_misplaced_decimal_mark():
    X = factor_table()
    X[4, 3] *= 1000
    (found,) = prosparse.check(X).findings
    assert (found.code, found.columns, found.rows) == ("outlying-cells", ("x3",), ("4",))


def test_equal_and_nearly_equal_rows():
    X = factor_table()
    X[30], X[31] = X[10], X[11]
    assert codes_of(X) == {"duplicate-rows"}
    X = factor_table(n=200)
    X[30] = X[10] + 0.02 * X.std(axis=0) * np.random.default_rng(1).standard_normal(24)
    assert codes_of(X) == {"near-duplicate-rows"}


def test_columns_that_repeat_or_add_up_others():
    X = factor_table()
    X[:, 20] = 2.54 * X[:, 3]
    assert codes_of(X) == {"duplicate-columns"}
    X = factor_table()
    X[:, 20] = X[:, 2:7].sum(axis=1)
    (found,) = prosparse.check(X).findings
    assert (found.code, found.columns) == ("sum-columns", ("x20",))
    X = factor_table(n=200)
    X[:, 20] = X[:, [1, 4, 9]].sum(axis=1)
    (found,) = prosparse.check(X.round(2)).findings
    assert (found.code, found.columns) == ("sum-columns", ("x20",))


def test_drift_is_distinguished_from_sorted_rows():
    X = factor_table()
    drift = X + np.linspace(-1.5, 1.5, 80)[:, None] * X.std(axis=0)
    assert codes_of(drift) == {"row-order"}
    groups = X + (np.arange(80) >= 40)[:, None] * 2.0 * X.std(axis=0)
    assert "row-order" not in codes_of(groups)


def test_counts_of_unequal_totals():
    rng = np.random.default_rng(0)
    depth = np.exp(rng.normal(size=60))[:, None]
    counts = rng.poisson(rng.gamma(1.0, 8.0, 30) * depth)
    (found,) = [f for f in prosparse.check(counts).findings if f.code != "constant-columns"]
    assert (found.code, found.fix) == ("unequal-totals", "--counts")
    equal = rng.poisson(rng.gamma(1.0, 8.0, 30) * np.ones((60, 1)))
    assert codes_of(equal) <= {"constant-columns"}


def test_roles_of_columns_in_a_frame():
    frame = pd.DataFrame(factor_table(n=90), columns=[f"v{k}" for k in range(24)])
    frame["patient"] = np.repeat([f"P{k:02d}" for k in range(30)], 3)
    frame["Batch"] = ["A", "B", "C"] * 30
    frame["diagnosis"] = ["case", "control"] * 45
    frame["comment"] = [f"note {k}" for k in range(90)]
    frame["nr"] = np.arange(1, 91)
    fixes = {found.code: found.fix for found in prosparse.check(frame).findings}
    assert fixes == {
        "repeated-ids": "--groups patient",
        "text-covariate": "--covariates Batch",
        "text-label": "--label diagnosis",
        "text-ignored": "--ignore comment",
        "row-numbers": "--ignore nr",
    }


def test_numeric_ids_and_covariates():
    rng = np.random.default_rng(0)
    X = factor_table(n=90)
    age = rng.integers(20, 80, 90)
    X += 0.05 * age[:, None] * X.std(axis=0)
    frame = pd.DataFrame(X, columns=[f"v{k}" for k in range(24)])
    frame["age"], frame["subject_id"] = age, np.repeat(np.arange(30), 3)
    fixes = {found.code: found.fix for found in prosparse.check(frame).findings}
    assert fixes["covariate-columns"] == "--covariates age"
    assert fixes["repeated-ids"] == "--groups subject_id"


@pytest.mark.parametrize("container", ["polars", "arrow", "sparse", "list"])
def test_containers(container):
    X = factor_table()
    X[3, 5] = -999
    names = [f"x{k}" for k in range(24)]
    if container == "polars":
        polars = pytest.importorskip("polars")
        table = polars.DataFrame(dict(zip(names, X.T)))
    elif container == "arrow":
        pyarrow = pytest.importorskip("pyarrow")
        table = pyarrow.table(dict(zip(names, X.T)))
    elif container == "sparse":
        from scipy import sparse

        table = sparse.csr_array(X)
    else:
        table = X.tolist()
    (found,) = prosparse.check(table).findings
    assert (found.code, found.columns) == ("missing-codes", ("x5",))


def test_result_is_shown_as_text_html_and_frame():
    X = factor_table()
    X[3, 5] = -999
    result = prosparse.check(pd.DataFrame(X, columns=[f"<b{k}>" for k in range(24)]))
    assert str(result).startswith("80 rows and 24 variables: 1 warning.\nwarning: ")
    assert "&lt;b5&gt;" in result._repr_html_()
    assert "<b5>" not in result._repr_html_()
    assert result.to_frame()["code"].tolist() == ["missing-codes"]
    again = TableCheck.from_json(result.to_json())
    assert again is not None
    assert again.findings == result.findings
    assert TableCheck.from_json({"shape": "no"}) is None


def test_findings_are_ordered_by_severity():
    findings = [Finding("b", Severity.NOTE, "B."), Finding("a", Severity.STOP, "A.")]
    assert [found.code for found in TableCheck(findings, (1, 2)).findings] == ["a", "b"]
