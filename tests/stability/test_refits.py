"""Tables and responses that a model was not fitted to are refused, not counted as selections."""

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

pytestmark = pytest.mark.quick

X = make_globally_sparse(60, 12, n_components=2, n_informative=5, random_state=0).X
Y = X[:, 0] - X[:, 3]
CLASSES = np.where(Y > 0, "b", "a")
FUNCTIONS = pytest.mark.parametrize("function", [stability_selection, permutation_null])


def missing(value):
    table = X.copy()
    table[0, 5] = value
    return table


@FUNCTIONS
@pytest.mark.parametrize(
    ("table", "message"),
    [
        (missing(np.nan), "NaN"),
        (missing(np.inf), "infinit"),
        (pd.DataFrame(X).assign(city="x").iloc[:, 1:], "city"),
        (np.ones_like(X), "refuses every .*constant"),
        (None, r"rows and columns, got shape \(\)"),
        (X[0], r"rows and columns, got shape \(12,\)"),
        ([], r"rows and columns, got shape \(0,\)"),
        ([X[:, :6], X[:30, 6:]], "the same rows, got 60, 30 rows"),
    ],
)
def test_tables_that_the_method_refuses(function, table, message):
    """Every part of such a table is refused, as if nothing were selected in permuted tables."""
    with pytest.raises(InputError, match=message):
        function(FDRPCA().fit(X), table, 4, random_state=0)


@FUNCTIONS
@pytest.mark.parametrize(
    ("response", "message"),
    [
        (np.where(Y.max() <= Y, np.nan, Y), "missing or infinite"),
        (CLASSES, "must hold numbers"),
        (np.c_[Y, Y], "`y` has 2 columns, and this SpinyRegressor was fitted to 1"),
    ],
)
def test_responses_that_the_model_was_not_fitted_to(function, response, message):
    with pytest.raises(InputError, match=message):
        function(SpinyRegressor().fit(X, Y), X, 2, y=response)


@FUNCTIONS
@pytest.mark.parametrize("response", [Y > 0, np.where(Y.max() <= Y, "c", CLASSES), [1, "a"] * 30])
def test_classes_that_the_model_was_not_fitted_to(function, response):
    with pytest.raises(InputError, match=r"`y` must hold the classes of the fit, \['a', 'b'\]"):
        function(SpinyClassifier().fit(X, CLASSES), X, 2, y=response)


@FUNCTIONS
def test_models_that_cannot_be_fitted_again(function):
    for model in (PCA(2).fit(X), None):
        with pytest.raises(InputError, match="is not an estimator of prosparse"):
            function(model, X)
    with pytest.raises(ParameterError, match="`tol` must be"):
        function(GSPPCA(2).fit(X).set_params(tol="small"), X)


def test_halves_have_two_rows():
    with pytest.raises(InputError, match="X has 3 rows: at least 4 are needed"):
        stability_selection(SCA(1).fit(X), X[:3], 2)


def test_halves_with_too_few_rows_in_a_group_count_as_refused():
    """One label has most rows: the half without it has as many labels as rows."""
    groups = np.array([0] * 54 + [1, 2, 3, 4, 5, 6])
    found = stability_selection(FDRPCA().fit(X), X, 4, groups=groups, random_state=0)
    assert found.n_refused == 2


def test_seconds_are_a_number():
    for seconds in (None, "1", -1.0, np.nan):
        with pytest.raises(ParameterError, match="`max_seconds` must be"):
            permutation_null(FDRPCA().fit(X), X, 2, max_seconds=seconds)
