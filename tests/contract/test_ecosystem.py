"""Every registered estimator in scikit-learn's meta-estimators and containers."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from prosparse.datasets import make_globally_sparse
from prosparse.models._base import SparseProjection
from prosparse.registry import METHODS

TRUTH = make_globally_sparse(60, 12, n_components=2, n_informative=6, noise=0.3, random_state=0)
NAMES = [f"gene {k}" for k in range(12)]
X = pd.DataFrame(TRUTH.X, columns=NAMES)
Y = TRUTH.X[:, np.flatnonzero(TRUTH.support)[:2]] @ [2.0, -1.0]
Y = Y + 0.1 * np.random.default_rng(0).standard_normal(60)

CLASSES = np.where(Y > 0, "tumour", "normal")

ALL = sorted(METHODS)
# Variables are ranked by their incremental contribution, not by their own relevance.
SEQUENTIAL = {"Panel", "SpinyClassifier", "SpinyRegressor"}
TRANSFORMERS = [name for name in ALL if METHODS[name].projects]


def made(name):
    """Return an estimator that is fast and selects some of the variables of these data."""
    return METHODS[name].estimator(**METHODS[name].example)


def response(name):
    """Return a numeric or a binary response."""
    return CLASSES if METHODS[name].classifies else Y


def test_every_method_has_a_grid_and_an_example():
    assert all(len(METHODS[name].grid) == 1 for name in ALL)
    assert all(METHODS[name].example for name in TRANSFORMERS)


@pytest.mark.parametrize("name", ALL)
def test_clone(name):
    model = made(name).fit(X, response(name))
    again = clone(model)
    assert again.get_params() == model.get_params()
    assert not [key for key in vars(again) if key.endswith("_")]


@pytest.mark.parametrize("name", ALL)
def test_select_from_model(name):
    """Importances of variables that are not selected are zero."""
    selector = SelectFromModel(made(name)).set_output(transform="pandas").fit(X, response(name))
    model = selector.estimator_
    assert selector.get_support().any()
    assert set(selector.get_feature_names_out()) <= set(X.columns[model.support_])
    assert list(selector.transform(X).columns) == list(selector.get_feature_names_out())


@pytest.mark.parametrize("name", ALL)
def test_select_from_model_with_a_tiny_threshold_equals_the_selection(name):
    """By ``feature_importances_``: ``coef_`` of a regression averages over several sets."""
    selector = SelectFromModel(
        made(name),
        threshold=np.finfo(float).tiny,
        importance_getter="feature_importances_",
    ).fit(X, response(name))
    assert 0 < selector.get_support().sum() < 12
    np.testing.assert_array_equal(selector.get_support(), selector.estimator_.support_)


@pytest.mark.parametrize("name", ALL)
def test_select_from_model_by_relevance(name):
    """``relevance_`` ranks all variables, also those that are not selected."""
    selector = SelectFromModel(
        made(name), importance_getter="relevance_", threshold=-np.inf, max_features=3
    ).fit(X, response(name))
    best = np.argsort(-selector.estimator_.relevance_, kind="stable")[:3]
    assert set(selector.get_support(indices=True)) == set(best)


@pytest.mark.parametrize("name", ALL)
def test_importances_exist_after_fit(name):
    model = made(name)
    assert not hasattr(model, "feature_importances_")
    model.fit(X, response(name))
    importances = model.feature_importances_
    np.testing.assert_array_equal(importances > 0, model.support_)
    np.testing.assert_array_equal(importances[model.support_], model.relevance_[model.support_])


@pytest.mark.parametrize("name", ALL)
def test_ranking_and_relevance(name):
    model = made(name).fit(X, response(name))
    assert sorted(model.ranking_) == list(range(1, 13))
    assert model.relevance_.min() >= 0
    assert model.relevance_.max() == pytest.approx(1.0)
    relevance = model.relevance_[np.argsort(model.ranking_)]
    selected = model.support_[np.argsort(model.ranking_)]
    assert np.all(np.diff(relevance[selected]) <= 1e-12) or name in SEQUENTIAL


@pytest.mark.parametrize("name", ["GSPPCA", "SpinyClassifier", "SpinyRegressor"])
def test_recursive_elimination(name):
    model = METHODS[name].estimator(**({"n_components": 1} if name == "GSPPCA" else {}))
    assert RFE(model, n_features_to_select=5, step=2).fit(X, response(name)).support_.sum() == 5


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_pipeline_with_a_regression(name):
    pipe = Pipeline(
        [("scale", StandardScaler()), ("sparse", made(name)), ("fit", LinearRegression())]
    )
    assert pipe.fit(X, Y).predict(X).shape == (60,)
    names = pipe[:-1].get_feature_names_out()
    assert list(names) == [f"{name.lower()}{k}" for k in range(len(names))]


def test_pipeline_with_the_regressor_last():
    pipe = make_pipeline(StandardScaler(), made("SpinyRegressor"))
    assert pipe.fit(X, Y).score(X, Y) > 0.95


@pytest.mark.parametrize("name", ALL)
def test_pipeline_passes_column_names(name):
    scaler = StandardScaler().set_output(transform="pandas")
    pipe = make_pipeline(scaler, made(name)).fit(X, response(name))
    assert list(pipe[-1].feature_names_in_) == NAMES
    assert list(pipe[-1].select(pipe[:-1].transform(X)).columns) == [
        name for name, selected in zip(NAMES, pipe[-1].support_, strict=True) if selected
    ]


@pytest.mark.parametrize("name", ALL)
def test_grid_search(name):
    grid = METHODS[name].grid
    search = GridSearchCV(made(name), grid, cv=3, error_score="raise").fit(X, response(name))
    ((parameter, values),) = grid.items()
    assert search.best_params_[parameter] in values
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_grid_search_inside_a_pipeline(name):
    pipe = make_pipeline(StandardScaler(), made(name), LinearRegression())
    ((parameter, values),) = METHODS[name].grid.items()
    grid = {f"{name.lower()}__{parameter}": values}
    search = GridSearchCV(pipe, grid, cv=3, error_score="raise").fit(X, Y)
    assert search.best_score_ <= 1


@pytest.mark.parametrize("name", ALL)
def test_cross_val_score(name):
    scores = cross_val_score(made(name), X, response(name), cv=3, error_score="raise")
    assert np.all(np.isfinite(scores))
    if not hasattr(made(name), "score_samples"):  # the proportion of variance, or R^2, or accuracy
        assert np.all(scores > 0)
        assert np.all(scores < 1) or is_classifier(made(name))


@pytest.mark.parametrize("name", ALL)
def test_cross_val_score_of_a_selection(name):
    classes = METHODS[name].classifies
    last = LogisticRegression() if classes else LinearRegression()
    pipe = make_pipeline(SelectFromModel(made(name)), last)
    scores = cross_val_score(pipe, X, response(name), cv=3, error_score="raise")
    assert np.all(np.isfinite(scores))


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_column_transformer(name):
    table = X.assign(label=np.arange(60) % 3)
    both = ColumnTransformer(
        [("genes", made(name), NAMES), ("rest", "passthrough", ["label"])]
    ).set_output(transform="pandas")
    out = both.fit_transform(table)
    genes = [column for column in out.columns if column.startswith("genes__")]
    assert genes[0] == f"genes__{name.lower()}0"
    assert list(out.columns[len(genes) :]) == ["rest__label"]
    expected = made(name).fit(X).transform(X)
    np.testing.assert_allclose(out[genes].to_numpy(), expected, atol=1e-9)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_feature_union(name):
    union = FeatureUnion(
        [
            ("sparse", made(name)),
            ("identity", FunctionTransformer(feature_names_out="one-to-one")),
        ]
    )
    out = union.set_output(transform="pandas").fit_transform(X)
    assert out.columns[0] == f"sparse__{name.lower()}0"
    assert list(out.columns[-12:]) == [f"identity__{name}" for name in NAMES]


@pytest.mark.parametrize("name", TRANSFORMERS)
@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_set_output(name, container):
    given = X if container == "pandas" else pl.DataFrame(X)
    model = made(name).set_output(transform=container)
    out = model.fit_transform(given)
    assert type(out) is (pd.DataFrame if container == "pandas" else pl.DataFrame)
    assert list(out.columns) == list(model.get_feature_names_out())
    plain = made(name).fit(X).transform(X)
    np.testing.assert_allclose(out.to_numpy(), plain, atol=1e-9)
    assert list(model.select(given).columns) == list(np.array(NAMES)[model.support_])


@pytest.mark.parametrize("name", ALL)
def test_other_column_names_raise_an_error(name):
    model = made(name).fit(X, response(name))
    use = model.predict if METHODS[name].supervised else model.transform
    with pytest.raises(ValueError, match="feature names should match"):
        use(X.rename(columns={"gene 0": "gene zero"}))


PROPORTION_OF_VARIANCE = [
    name for name in TRANSFORMERS if METHODS[name].estimator.score is SparseProjection.score
]


@pytest.mark.parametrize(
    ("name", "scale"),
    [
        (name, scale)
        for name in PROPORTION_OF_VARIANCE
        for scale in ([False, True] if METHODS[name].has_parameter("scale") else [None])
    ],
)
def test_score_is_the_proportion_of_variance_by_least_squares(name, scale):
    model = made(name)
    if scale is not None:
        model.set_params(scale=scale)
    model.fit(X[:40])
    new = (X[40:].to_numpy() - model.mean_) / model.scale_
    coefficients = np.linalg.lstsq(model.components_.T, new.T, rcond=None)[0]
    residual = new - coefficients.T @ model.components_
    assert model.score(X[40:]) == pytest.approx(1 - np.sum(residual**2) / np.sum(new**2), rel=1e-9)
    assert model.score(X[:40]) == pytest.approx(model.explained_variance_ratio_.sum(), rel=1e-9)


def arrow(frame):
    return pa.Table.from_pandas(pd.DataFrame(frame), preserve_index=False)


def values_of(found):
    return np.asarray(found.to_pandas() if hasattr(found, "column_names") else found)


@pytest.mark.parametrize("fitted_to", ["pandas", "pyarrow"])
@pytest.mark.parametrize("name", ALL)
def test_every_method_accepts_a_pyarrow_table(name, fitted_to):
    table, y = arrow(X), response(name)
    frame_model = made(name).fit(X, y)
    model = frame_model if fitted_to == "pandas" else made(name).fit(table, y)
    assert list(model.feature_names_in_) == NAMES
    assert type(model.select(table)) is pa.Table
    assert model.select(table).column_names == frame_model.select(X).columns.tolist()
    arguments = {
        "transform": (X,),
        "score": (X, y),
        "score_samples": (X,),
        "impute": (X,),
        "select": (X,),
        "predict": (X,),
        "predict_proba": (X,),
        "predict_unmeasured": (frame_model.select(X),),
    }
    if hasattr(model, "inverse_transform"):
        arguments["inverse_transform"] = (
            pd.DataFrame(frame_model.transform(X)).add_prefix("score "),
        )
    for method, (frame, *others) in arguments.items():
        if hasattr(model, method):
            expected = getattr(frame_model, method)(frame, *others)
            found = getattr(model, method)(arrow(frame), *others)
            np.testing.assert_array_equal(values_of(found), np.asarray(expected), method)
