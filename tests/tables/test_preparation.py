"""Preparation of tables: logarithms and missing values."""

from pathlib import Path

import numpy as np
import pytest

from prosparse import ParameterError, TableError
from prosparse.tables import Table, prepare_table
from prosparse.tables.preparation import impute_components


def make_table(X, response=None):
    names = [f"v{k}" for k in range(X.shape[1])]
    return Table(Path("t.csv"), X, names, None, {}, [], response=response)


@pytest.mark.parametrize("side", [0, 10**9])
def test_imputation_error(rng, side, monkeypatch):
    monkeypatch.setattr("prosparse.tables.preparation.MAX_EXACT_SIDE", side)
    monkeypatch.setattr("prosparse.tables.preparation.N_LEADING", 1)
    X = rng.normal(size=(200, 1)) * [1.0, 20.0, -300.0, 1.0] + rng.normal(size=(200, 4)) * [
        0.1, 2.0, 30.0, 0.1,
    ] + [0, 100, 0, 1e4]  # fmt: skip
    incomplete = X.copy()
    incomplete[::5, 1] = np.nan
    filled = impute_components(incomplete)
    observed = ~np.isnan(incomplete)
    np.testing.assert_array_equal(filled[observed], X[observed])
    assert np.std((filled - X)[::5, 1]) < 0.25 * np.std(X[:, 1])


@pytest.mark.parametrize("missing", ["components", "allow", "drop"])
def test_missing_values(rng, missing):
    X = rng.normal(size=(20, 4))
    X[3, 1] = np.nan
    prepared = prepare_table(make_table(X.copy()), missing=missing)
    if missing == "components":
        np.testing.assert_array_equal(prepared.X, impute_components(X))
    elif missing == "allow":
        np.testing.assert_array_equal(prepared.X, X)
    else:
        np.testing.assert_array_equal(prepared.X, np.delete(X, 3, axis=0))
    assert prepared.notes[0].startswith("1 value in 1 column is missing; ")


def test_missing_values_raise_an_error_by_default(rng):
    X = rng.normal(size=(20, 4))
    X[3, 1] = np.nan
    with pytest.raises(TableError, match="row 4 of the data, column 'v1': the value is missing"):
        prepare_table(make_table(X))
    with pytest.raises(ParameterError, match="`missing` must be one of"):
        prepare_table(make_table(X), missing="guess")


def test_log1p(rng):
    X = rng.exponential(size=(20, 4))
    np.testing.assert_allclose(prepare_table(make_table(X.copy()), log1p=True).X, np.log1p(X))
    X[2, 3] = -1.0
    with pytest.raises(TableError, match=r"row 3 of the data, column 'v3': -1 is not above -1"):
        prepare_table(make_table(X), log1p=True)


def test_rows_without_a_response_are_dropped(rng):
    X = rng.normal(size=(4, 3))
    table = make_table(X, response=[1.0, float("nan"), 2.0, 3.0])
    with pytest.raises(TableError, match="row 2 of the data: the response is missing"):
        prepare_table(table)
    prepared = prepare_table(table, missing="drop")
    assert prepared.response == [1.0, 2.0, 3.0]
    np.testing.assert_array_equal(prepared.X, X[[0, 2, 3]])
