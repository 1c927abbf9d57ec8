"""Class labels of every dtype are encoded or raise an informative error."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from packaging.version import parse as parse_version

from prosparse import InputError, SpinyClassifier

pytestmark = pytest.mark.quick

X = np.random.default_rng(0).standard_normal((40, 4))
Y = X[:, 0] > 0


def fit(y):
    return SpinyClassifier(selection_rule="map", average=False).fit(X, y)


def insert(y, value):
    y = np.asarray(y).copy()
    y[3] = value
    return y


DATES = np.where(Y, np.datetime64("2020-01-01"), np.datetime64("2021-01-01"))
NAMES = np.where(Y, "yes", "no").astype(object)


@pytest.mark.parametrize(
    "y",
    [
        insert(DATES, np.datetime64("NaT")),
        insert(DATES - DATES[0], np.timedelta64("NaT")),
        insert(NAMES, pd.NaT),
        insert(NAMES, pd.NA),
        pd.Series(insert(NAMES, pd.NA), dtype="string"),
    ],
    ids=["NaT", "timedelta NaT", "pandas NaT", "pandas NA", "pandas string"],
)
def test_missing_labels_raise(y):
    with pytest.raises(InputError, match="Input y contains NaN: 1 value, first in row 3"):
        fit(y)


def test_infinite_labels_raise():
    with pytest.raises(InputError, match="Input y contains infinity: 1 value, first in row 3"):
        fit(insert(Y.astype(float), np.inf))
    with pytest.raises(InputError, match="Input y contains infinity: 1 value, first in row 3"):
        fit(insert(NAMES, np.inf))


def test_structured_labels_raise():
    y = np.array([(int(label), "a") for label in Y], dtype=[("class", int), ("name", "U1")])
    with pytest.raises(InputError, match="`y` must contain one label per row, got dtype"):
        fit(y)
    assert fit(y["class"]).classes_.tolist() == [0, 1]


@pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.9"), reason="scikit-learn accepts bytes"
)
@pytest.mark.parametrize("dtype", ["S", object])
def test_bytes_raise(dtype):
    with pytest.raises(InputError, match="bytes"):
        fit(np.where(Y, b"yes", b"no").astype(dtype))


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="StringDType needs NumPy 2")
def test_numpy_strings_of_variable_width():
    y = NAMES.astype(np.dtypes.StringDType())
    model = fit(y)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.predict(X).tolist() == y.tolist()
    assert model.score(X, y) == 1.0
    y = NAMES.astype(np.dtypes.StringDType(na_object=np.nan))
    with pytest.raises(InputError, match="Input y contains NaN: 1 value, first in row 3"):
        fit(insert(y, np.nan))
