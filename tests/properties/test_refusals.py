"""What is no table, and what is no parameter, is refused with words that say so."""

import datetime
import inspect
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from prosparse.registry import METHODS

from .checks import outcome
from .tables import Spec, build

GOOD = build(Spec(12, 6, "noisy low rank", 2))


# Parameters that only increase the run time.
QUICK = {
    "SPPCA": {"penalties": [0.0, 1.0, 10.0]},
    "SpinyClassifier": {"selection_rule": "map", "average": False},
}


def with_entry(value):
    X = GOOD.copy()
    X[3, 2] = value
    return X


def matrix_of(X):
    """NumPy warns of its own class, which some tables still are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        return np.asmatrix(X)


TABLES = {
    "none": None,
    "number": 3.0,
    "words": "a table",
    "set": {1.0, 2.0},
    "dictionary": {"a": [1.0, 2.0], "b": [3.0, 4.0]},
    "empty list": [],
    "empty rows": [[], []],
    "ragged": [[1.0, 2.0], [3.0]],
    "no rows": np.empty((0, 5)),
    "no columns": np.empty((5, 0)),
    "one row": GOOD[:1],
    "one entry": np.ones((1, 1)),
    "vector": GOOD[0],
    "cube": np.zeros((3, 4, 5)),
    "NaN": with_entry(np.nan),
    "infinity": with_entry(np.inf),
    "all NaN": np.full((6, 4), np.nan),
    "column of NaN": np.where(np.arange(6) == 2, np.nan, GOOD),
    "sparse NaN": sparse.csr_array(with_entry(np.nan)),
    "sparse infinity": sparse.csc_matrix(with_entry(-np.inf)),
    "complex": GOOD + 1j,
    "strings": np.array([["a", "b"], ["c", "d"], ["e", "f"]]),
    "numbers as strings": GOOD.astype(str),
    "objects": np.array([[object(), 1.0], [2.0, 3.0]], dtype=object),
    "decimals": np.array([[Decimal(1), Decimal(2)], [Decimal(3), Decimal(5)]], dtype=object),
    "dates": np.array([["2020-01-01", "2020-01-02"]] * 3, dtype="datetime64[D]"),
    "records": np.zeros(4, dtype=[("a", float), ("b", float)]),
    "masked": np.ma.masked_less(GOOD, 0.0),
    "matrix": matrix_of(GOOD),
    "half precision": GOOD.astype(np.float16),
    "long double": GOOD.astype(np.longdouble),
    "constant": np.ones((8, 4)),
    "zeros": np.zeros((8, 4)),
    "sparse zeros": sparse.csr_array((8, 4)),
    "near overflow": 1e300 * GOOD,
    "overflow in float32": (1e38 * np.sign(GOOD)).astype(np.float32),
    "denormal": 1e-310 * GOOD,
    "frame with words": pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": ["x", "y", "z"]}),
    "frame with gaps": pd.DataFrame(with_entry(np.nan)),
    "frame with copies of names": pd.DataFrame(GOOD, columns=list("aabbcc")),
    "frame with mixed names": pd.DataFrame(GOOD, columns=["a", 1, 2, 3, 4, 5]),
    "frame with dates": pd.DataFrame({"a": [datetime.date(2020, 1, 1)] * 3, "b": [1, 2, 3]}),
    "nullable frame": pd.DataFrame({"a": [1, None, 3], "b": [1, 2, 3]}, dtype="Int64"),
    "categories": pd.DataFrame({"a": pd.Categorical(list("xyx")), "b": [1.0, 2.0, 4.0]}),
    "lazy frame": pl.LazyFrame({"a": [1.0, 2.0], "b": [3.0, 5.0]}),
    "polars with words": pl.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}),
    "list of rows": GOOD.tolist(),
    "integers beyond int64": [[10**30, 1], [3, 2], [5, 10**25]],
}


@pytest.mark.parametrize("what", TABLES)
@pytest.mark.parametrize("name", METHODS)
def test_what_is_no_table(name, what):
    X = TABLES[what]
    rows = X.shape[0] if hasattr(X, "shape") and X.shape else 4
    y = None
    if METHODS[name].supervised:
        y = np.arange(rows) % 2 if METHODS[name].classifies else np.arange(float(rows))
    outcome(METHODS[name].estimator(**QUICK.get(name, {})), X, y)


RESPONSES = {
    "none": None,
    "words": "predict this",
    "strings": list("abcdefghijkl"),
    "too short": np.arange(5.0),
    "two columns": np.ones((12, 2)),
    "NaN": np.where(np.arange(12) == 4, np.nan, 1.0),
    "infinity": np.where(np.arange(12) == 4, np.inf, 1.0),
    "complex": np.arange(12) + 1j,
    "constant": np.ones(12),
    "zero": np.zeros(12),
    "bool": GOOD[:, 0] > 0,
    "huge": 1e300 * GOOD[:, 0],
    "tiny": 1e-300 * GOOD[:, 0],
    "objects": np.array([object()] * 12),
}


@pytest.mark.parametrize("what", RESPONSES)
@pytest.mark.parametrize("name", ["SpinyRegressor", "SpinyClassifier"])
def test_what_is_no_response(name, what):
    outcome(METHODS[name].estimator(), GOOD, RESPONSES[what])


VALUES = [
    None,
    "abc",
    b"auto",
    -1,
    0,
    1,
    10**9,
    2.5,
    1e308,
    np.inf,
    np.nan,
    True,
    [],
    [1, 2, 3],
    ["a"],
    [[0, 1, 2], [3, 4, 5]],
    [[0, 1, 2], [3, 4, 500]],
    (2, None),
    {"a": 1},
    np.array([1.0, np.nan]),
    np.array(2),
    np.float32(0.5),
    1 + 1j,
    lambda: 1,
]
# These settle only how long to try and what to print; anything huge would only take its time.
PATIENCE = {"max_iter": [10**9, 1e308], "n_restarts": [10**9], "n_penalties": [10**9]}


def parameters():
    for name, method in METHODS.items():
        for parameter in inspect.signature(method.estimator).parameters:
            yield name, parameter


@pytest.mark.parametrize("value", range(len(VALUES)), ids=[repr(v)[:20] for v in VALUES])
@pytest.mark.parametrize(("name", "parameter"), list(parameters()))
def test_what_is_no_parameter(name, parameter, value):
    value = VALUES[value]
    if isinstance(value, int | float) and value in PATIENCE.get(parameter, []):
        pytest.skip("allowed, and takes for ever")
    y = None
    if METHODS[name].supervised:
        y = GOOD[:, 0] > 0 if METHODS[name].classifies else GOOD[:, 0]
    outcome(METHODS[name].estimator(**{**QUICK.get(name, {}), parameter: value}), GOOD, y)
