"""Data that a model was not fitted to raise errors in both functions."""

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA

from prosparse import (
    FDRPCA,
    GSPPCA,
    SCA,
    InputError,
    ParameterError,
    SpinyClassifier,
    SpinyRegressor,
)
from prosparse.datasets import make_globally_sparse
from prosparse.stability import permutation_null, stability_selection
from prosparse.stability.refitting import Refitter

pytestmark = pytest.mark.quick

X = make_globally_sparse(60, 12, n_components=2, n_informative=5, random_state=0).X
Y = X[:, 0] - X[:, 3]
CLASSES = np.where(Y > 0, "b", "a")
FUNCTIONS = pytest.mark.parametrize("function", [stability_selection, permutation_null])


def with_entry(value):
    data = X.copy()
    data[0, 5] = value
    return data


@FUNCTIONS
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (with_entry(np.inf), "infinit"),
        (pd.DataFrame(X).assign(city="x").iloc[:, 1:], "city"),
        (np.ones_like(X), "cannot be fitted to .*constant"),
        (None, r"rows and columns, got shape \(\)"),
        (X[0], r"rows and columns, got shape \(12,\)"),
        ([], r"rows and columns, got shape \(0,\)"),
        ([X[:, :6], X[:30, 6:]], "the same number of rows, got 60, 30"),
    ],
)
def test_invalid_data(function, data, message):
    """Failing refits must not count as empty selections."""
    with pytest.raises(InputError, match=message):
        function(FDRPCA().fit(X), data, 4, random_state=0)


@FUNCTIONS
@pytest.mark.parametrize(
    ("response", "message"),
    [
        (np.where(Y.max() <= Y, np.nan, Y), "missing or infinite"),
        (CLASSES, "must contain numbers"),
        (np.c_[Y, Y], "`y` has 2 columns, but this SpinyRegressor was fitted to 1"),
    ],
)
def test_invalid_responses(function, response, message):
    with pytest.raises(InputError, match=message):
        function(SpinyRegressor().fit(X, Y), X, 2, y=response)


@FUNCTIONS
@pytest.mark.parametrize("response", [Y > 0, np.where(Y.max() <= Y, "c", CLASSES), [1, "a"] * 30])
def test_unknown_classes(function, response):
    with pytest.raises(InputError, match=r"`y` must contain the classes of the fit, \['a', 'b'\]"):
        function(SpinyClassifier().fit(X, CLASSES), X, 2, y=response)


@FUNCTIONS
def test_models_that_cannot_be_refitted(function):
    for model in (PCA(2).fit(X), None):
        with pytest.raises(InputError, match="is not an estimator of prosparse"):
            function(model, X)
    with pytest.raises(ParameterError, match="`tol` must be"):
        function(GSPPCA(2).fit(X).set_params(tol="small"), X)


def test_halves_need_two_rows():
    with pytest.raises(InputError, match="X has 3 rows: at least 4 are needed"):
        stability_selection(SCA(1).fit(X), X[:3], 2)


def test_halves_without_repeated_labels_count_as_failed():
    """Most rows have the same label; halves without it have as many labels as rows."""
    groups = np.array([0] * 54 + [1, 2, 3, 4, 5, 6])
    found = stability_selection(FDRPCA().fit(X), X, 4, groups=groups, random_state=0)
    assert found.n_failed == 2


def test_invalid_time_limit():
    for seconds in (None, "1", -1.0, np.nan):
        with pytest.raises(ParameterError, match="`max_seconds` must be"):
            permutation_null(FDRPCA().fit(X), X, 2, max_seconds=seconds)


def test_null_datasets_of_incomplete_data_with_covariates():
    """The residuals of the observed values of a column are those of a regression on these rows."""
    data = X.copy()
    data[::7, 3] = np.nan
    age = np.linspace(0.0, 1.0, len(X))
    model = FDRPCA(2).fit(data, covariates={"age": age})
    refitter = Refitter(model, data, None, None, {"age": age})
    (adjusted,) = refitter._adjusted_views
    observed = ~np.isnan(data[:, 3])
    design = np.column_stack([np.ones_like(age), age])[observed]
    column = data[observed, 3]
    expected = column - design @ np.linalg.lstsq(design, column)[0]
    np.testing.assert_allclose(adjusted[observed, 3], expected, atol=1e-10)
    assert np.isnan(adjusted[~observed, 3]).all()
    assert permutation_null(model, data, 2, covariates={"age": age}).n_permutations == 2
