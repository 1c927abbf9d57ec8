"""`Selector`: the selected columns as the output of a transformer."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from prosparse import EMPCA, FDRPCA, SCA, Panel, ParameterError, Selector, SpinyRegressor
from prosparse.datasets import make_globally_sparse

TRUTH = make_globally_sparse(80, 12, n_components=2, n_informative=5, noise=0.3, random_state=0)
NAMES = [f"v{k}" for k in range(12)]
FRAME = pd.DataFrame(TRUTH.X, columns=NAMES)


@pytest.mark.parametrize(
    "make", [np.asarray, sparse.csr_array, pd.DataFrame, pl.DataFrame, np.ndarray.tolist]
)
def test_columns_come_in_the_container_of_the_data(make):
    X = make(TRUTH.X)
    selector = Selector(FDRPCA()).fit(X)
    columns = selector.transform(X)
    expected = np.ndarray if isinstance(X, list) else type(X)
    assert isinstance(columns, expected)
    values = columns.toarray() if sparse.issparse(columns) else np.asarray(columns)
    np.testing.assert_array_equal(values, TRUTH.X[:, selector.get_support()])
    assert 0 < values.shape[1] < 12


def test_the_estimator_is_cloned_and_the_selection_is_its_own():
    estimator = EMPCA(n_nonzero=4, random_state=0)
    selector = Selector(estimator).fit(FRAME)
    assert not hasattr(estimator, "support_")
    expected = clone(estimator).fit(FRAME)
    np.testing.assert_array_equal(selector.get_support(), expected.support_)
    np.testing.assert_array_equal(selector.get_support(indices=True), expected.get_support(True))
    assert selector.get_feature_names_out().tolist() == expected.select(FRAME).columns.tolist()
    assert selector.n_features_in_ == 12
    assert selector.feature_names_in_.tolist() == NAMES


def test_names_of_an_earlier_fit_are_removed():
    selector = Selector(EMPCA(n_nonzero=4, random_state=0)).fit(FRAME).fit(TRUTH.X)
    assert not hasattr(selector, "feature_names_in_")
    assert selector.get_feature_names_out()[0].startswith("x")


def test_inverse_transform_fills_with_zeros():
    selector = Selector(FDRPCA()).fit(TRUTH.X)
    support = selector.get_support()
    np.testing.assert_array_equal(
        selector.inverse_transform(selector.transform(TRUTH.X)), TRUTH.X * support
    )


@pytest.mark.parametrize(
    ("container", "kind"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)]
)
def test_set_output(container, kind):
    selector = Selector(FDRPCA()).set_output(transform=container).fit(FRAME)
    columns = selector.transform(FRAME)
    assert isinstance(columns, pd.DataFrame if container == "pandas" else pl.DataFrame)
    assert list(columns.columns) == selector.get_feature_names_out().tolist()


def test_pipelines_and_searches_reach_the_parameters_of_the_estimator():
    y = FRAME["v0"] + FRAME["v1"]
    pipe = make_pipeline(Selector(Panel(3)), LinearRegression()).fit(FRAME, y)
    assert pipe[-1].coef_.shape == (3,)
    grid = {"selector__estimator__n_features_to_select": [2, 4]}
    search = GridSearchCV(pipe, grid, cv=3, error_score="raise").fit(FRAME, y)
    assert search.best_estimator_[-1].coef_.shape[0] in (2, 4)
    both = ColumnTransformer(
        [("few", Selector(Panel(2)), NAMES[:10]), ("all", "passthrough", [11])]
    )
    assert both.fit_transform(FRAME).shape == (80, 3)


def test_a_response_reaches_the_estimator():
    y = TRUTH.X[:, 0] - TRUTH.X[:, 3]
    selector = Selector(SpinyRegressor()).fit(TRUTH.X, y)
    expected = SpinyRegressor().fit(TRUTH.X, y)
    np.testing.assert_array_equal(selector.get_support(), expected.support_)


def test_missing_values_pass_if_the_estimator_allows_them():
    X = FRAME.mask(np.random.default_rng(0).random(FRAME.shape) < 0.05)
    columns = Selector(SCA(2)).fit_transform(X)
    assert columns.isna().to_numpy().any()


def test_arguments_of_fit_reach_the_estimator():
    groups = np.arange(80) % 4
    shifted = FRAME + 10.0 * groups[:, None]
    selector = Selector(FDRPCA()).fit(shifted, groups=groups)
    expected = FDRPCA().fit(shifted, groups=groups)
    np.testing.assert_array_equal(selector.estimator_.pvalues_, expected.pvalues_)
    with config_context(enable_metadata_routing=True):
        routed = Selector(FDRPCA().set_fit_request(groups=True))
        pipe = make_pipeline(routed, LinearRegression())
        pipe.fit(shifted, np.zeros(80), groups=groups)
        np.testing.assert_array_equal(pipe[0].estimator_.pvalues_, expected.pvalues_)
        with pytest.raises(UnsetMetadataPassedError, match="groups"):
            Selector(FDRPCA()).fit(shifted, groups=groups)


def test_other_estimators_raise_an_error():
    with pytest.raises(ParameterError, match="`estimator` must be an estimator of prosparse"):
        Selector(LinearRegression()).fit(FRAME)


def test_nothing_is_known_before_fit():
    selector = Selector(FDRPCA())
    assert not hasattr(selector, "n_features_in_")
    for ask in (selector.get_support, lambda: selector.transform(FRAME)):
        with pytest.raises(NotFittedError):
            ask()
