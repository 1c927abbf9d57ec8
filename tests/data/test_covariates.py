"""Coding of covariates."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from prosparse import ParameterError
from prosparse.data.covariates import coding_of, read_covariates

pytestmark = pytest.mark.quick

AGE, SEX = [31.0, 42.0, 53.0, 64.0], ["m", "f", "f", "m"]
CODED = np.column_stack([AGE, [1.0, 0.0, 0.0, 1.0]])


def encode(covariates, n=4):
    values = read_covariates(covariates, n)
    return coding_of(values).encode(values)


@pytest.mark.parametrize(
    "make",
    [
        pd.DataFrame,
        pl.DataFrame,
        pa.table,
        lambda columns: pd.DataFrame(columns).astype({"sex": "category", "age": "Float64"}),
        lambda columns: pd.DataFrame(columns).astype({"sex": "string"}),
        lambda columns: np.array(list(columns.values()), dtype=object).T,
    ],
)
def test_data_frames_and_arrays(make):
    np.testing.assert_array_equal(encode(make({"age": AGE, "sex": SEX})), CODED)


def test_series_numbers_and_booleans():
    assert encode(pd.Series(AGE, name="age")).tolist() == [[v] for v in AGE]
    assert encode([True, False, True, True]).tolist() == [[1.0], [0.0], [1.0], [1.0]]
    assert encode(np.arange(8).reshape(4, 2)).shape == (4, 2)


def test_levels_of_a_categorical_keep_their_order():
    dose = pd.Categorical(["low", "high", "low", "mid"], ["none", "low", "mid", "high"])
    coding = coding_of(read_covariates(pd.DataFrame({"dose": dose, "age": AGE}), 4))
    assert coding.levels == (("low", "mid", "high"), None)
    assert coding.column_names == ["dose[mid]", "dose[high]", "age"]
    assert encode(dose).tolist() == [[0.0, 0.0], [0.0, 1.0], [0.0, 0.0], [1.0, 0.0]]


@pytest.mark.parametrize(
    ("covariates", "message"),
    [
        ({"age": [1.0, np.nan, 3.0, np.nan]}, "2 missing values in 'age', first in row 1"),
        ({"sex": ["m", None, "f", "f"]}, "1 missing value in 'sex', first in row 1"),
        ({"sex": pd.Categorical(["m", None, "f", "f"])}, "1 missing value in 'sex'"),
        ({"age": [1.0, np.inf, 3.0, 4.0]}, "infinite values in 'age'"),
        ({"day": pd.to_datetime(["2020-01-01"] * 4)}, "dates or times in 'day'"),
        ({"z": [1j, 2j, 3j, 4j]}, "'z' has dtype complex128"),
        ({"age": [1.0, 2.0, 3.0]}, "each of the 4 rows of X, got 3"),
        ({}, "no columns"),
    ],
)
def test_invalid_covariates(covariates, message):
    with pytest.raises(ParameterError, match=message):
        read_covariates(pd.DataFrame(covariates), 4)


def test_invalid_arrays():
    with pytest.raises(ParameterError, match=r"got shape \(4, 1, 1\)"):
        read_covariates(np.zeros((4, 1, 1)), 4)
    repeated = pd.DataFrame(np.zeros((4, 2)), columns=["a", "a"])
    with pytest.raises(ParameterError, match="duplicate column names"):
        read_covariates(repeated, 4)


def test_new_rows_are_matched_by_name():
    coding = coding_of(read_covariates(pd.DataFrame({"age": AGE, "sex": SEX}), 4))
    new = pd.DataFrame({"city": ["x", "y"], "sex": ["m", "f"], "age": [20, 30]})
    np.testing.assert_array_equal(coding.encode(coding.match(new, 2)), [[20, 1], [30, 0]])
    array = np.array([[20, "m"], [30, "f"]], dtype=object)
    np.testing.assert_array_equal(coding.encode(coding.match(array, 2)), [[20, 1], [30, 0]])


@pytest.mark.parametrize(
    ("covariates", "message"),
    [
        ({"age": [1.0]}, "lacks 'sex'"),
        ({"age": [1.0], "sex": ["x"]}, "unknown level of 'sex': 'x'. The fit had 'f' and 'm'"),
        ({"age": ["old"], "sex": ["f"]}, "numbers in 'age', as in `fit`, got 'old'"),
        (np.zeros((1, 3)), r"the 2 columns of `fit` \('age' and 'sex'\), got 3"),
    ],
)
def test_new_rows_that_do_not_match(covariates, message):
    coding = coding_of(read_covariates(pd.DataFrame({"age": AGE, "sex": SEX}), 4))
    given = pd.DataFrame(covariates) if isinstance(covariates, dict) else covariates
    with pytest.raises(ParameterError, match=message):
        coding.match(given, 1)


def test_labels_that_are_numbers():
    coding = coding_of(read_covariates(pd.DataFrame({"batch": pd.Categorical([1, 2, 3])}), 3))
    np.testing.assert_array_equal(
        coding.encode(coding.match(pd.DataFrame({"batch": [2.0, 3.0]}), 2)), [[1, 0], [0, 1]]
    )
