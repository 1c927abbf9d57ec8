"""`to_frame` of every registered estimator."""

import sys

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from prosparse import SCA, Panel, SpinyRegressor
from prosparse.registry import METHODS
from tests.contract.test_ecosystem import ALL, NAMES, TRANSFORMERS, X, Y, made, response

# Results per variable that a default fit of each method reports, besides the common columns.
SPECIFIC = {
    "FDRPCA": {"communality", "pvalue", "qvalue"},
    "Panel": {"communality", "heldout_r2", "proxy", "unmeasured_std", "loading_0"},
    "SCA": {"noise_variance"},
    "SpinyClassifier": {"coef", "selected_coef", "inclusion_probability"},
    "SpinyRegressor": {"coef", "coef_std", "selected_coef", "inclusion_probability"},
}
COMMON = ["selected", "ranking", "relevance"]


@pytest.mark.parametrize("name", ALL)
def test_one_row_per_variable(name):
    model = made(name).fit(X, response(name))
    frame = model.to_frame()
    assert frame.index.tolist() == NAMES
    assert frame.index.name == "variable"
    assert frame.columns.tolist()[:3] == COMMON
    np.testing.assert_array_equal(frame["selected"], model.support_)
    np.testing.assert_array_equal(frame["ranking"], model.ranking_)
    np.testing.assert_array_equal(frame["relevance"], model.relevance_)
    np.testing.assert_array_equal(frame["mean"], model.mean_)
    np.testing.assert_array_equal(frame["scale"], model.scale_)


@pytest.mark.parametrize("name", ALL)
def test_every_declared_attribute_has_its_values_in_a_column(name):
    model = made(name).fit(X, response(name))
    frame = model.to_frame()
    assert set(frame.columns) >= SPECIFIC.get(name, set())
    declared = METHODS[name].estimator._variable_attributes
    for column, attribute in declared:
        if column in model._variable_references or not hasattr(model, attribute):
            continue
        values = np.atleast_2d(getattr(model, attribute))
        columns = [column] if column in frame else [f"{column}{k}" for k in range(len(values))]
        np.testing.assert_array_equal(frame[columns].to_numpy().T, values)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_components_follow_the_single_columns(name):
    model = made(name).fit(X)
    frame = model.to_frame()
    columns = [f"component_{k}" for k in range(len(model.components_))]
    np.testing.assert_array_equal(frame[columns].to_numpy().T, model.components_)
    assert frame.columns.get_loc("scale") < frame.columns.get_loc("component_0")


def test_proxies_are_names():
    model = Panel(4).fit(X)
    proxy = model.to_frame()["proxy"]
    for name, position in zip(proxy, model.proxy_, strict=True):
        assert name == (NAMES[position] if position >= 0 else None)


def test_several_responses_have_one_column_each():
    model = SpinyRegressor(selection_rule="map").fit(X, np.column_stack([Y, -Y]))
    frame = model.to_frame()
    np.testing.assert_array_equal(frame[["coef_0", "coef_1"]].to_numpy().T, model.coef_)


def test_columns_without_names_are_numbered():
    frame = SCA(1).fit([X.to_numpy()[:, :5], X.to_numpy()[:, 5:]]).to_frame()
    assert frame.index.tolist() == [f"x{k}" for k in range(12)]


def test_an_unfitted_estimator_raises_an_error():
    with pytest.raises(NotFittedError):
        Panel().to_frame()


def test_without_pandas_the_error_names_it(monkeypatch):
    model = Panel(4).fit(X.to_numpy())
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        model.to_frame()
