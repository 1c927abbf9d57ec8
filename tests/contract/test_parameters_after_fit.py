"""Parameters set after the fit do not change a fitted estimator."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier

from prosparse import (
    EMPCA,
    FDRPCA,
    GSPPCA,
    SCA,
    SPPCA,
    Panel,
    SpinyClassifier,
    SpinyRegressor,
)
from prosparse.datasets import make_globally_sparse
from prosparse.registry import METHODS

X = make_globally_sparse(60, 12, n_components=2, n_informative=5, random_state=0).X + 3.0
Y = X[:, 0] - X[:, 3] + np.random.default_rng(1).normal(size=60) + 5.0
MISSING = np.where(np.random.default_rng(2).random(X.shape) < 0.1, np.nan, X)
NAMES = [f"v{k}" for k in range(12)]
MODELS = [
    FDRPCA(),
    FDRPCA(2, fdr=0.1, rank_transform=True),
    GSPPCA(2),
    GSPPCA(2, scale=True, noise="ml", model_prior="sparse"),
    SCA(2),
    SCA(1, n_private=[1, 0], views=[slice(0, 6), slice(6, 12)]),
    SCA(2, prior="hyperbolic", shape=1.0, rate=1.0),
    SPPCA(2, penalty=10.0),
    EMPCA(2, n_nonzero=4, random_state=0),
    EMPCA(2, n_nonzero=4, nonnegative=True, scale=True, random_state=0),
    EMPCA(2, n_nonzero=4, orthogonality="disjoint", renormalize=False, random_state=0),
    Panel(4),
    SpinyRegressor(),
    SpinyRegressor(fit_intercept=False),
    SpinyRegressor(refit="ols", scale=False),
    SpinyClassifier(),
    SpinyClassifier(selection_rule="map", average=False, scale=False),
]


def response(model):
    """Return a numeric or a binary response."""
    return Y > 5.0 if is_classifier(model) else Y


def results(model):
    """Return all results of a fitted estimator."""
    answers = {
        "select": model.select(X),
        "support": model.get_support(indices=True),
        "importances": model.feature_importances_,
        "score": model.score(X, response(model)),
    }
    if hasattr(model, "predict_proba"):
        answers["predict"], answers["probability"] = model.predict(X), model.predict_proba(X)
    elif hasattr(model, "predict"):
        answers["predict"], answers["deviation"] = model.predict(X, return_std=True)
    if hasattr(model, "transform"):
        answers["scores"] = model.transform(X)
        answers["reconstruction"] = model.inverse_transform(answers["scores"])
        answers["names"] = model.get_feature_names_out()
    if hasattr(model, "score_samples"):
        answers["density"] = model.score_samples(X)
    if hasattr(model, "optimality_gap_"):
        answers["gap"] = model.optimality_gap_
    if hasattr(model, "predict_unmeasured"):
        answers["unmeasured"], answers["std"] = model.predict_unmeasured(
            model.select(X), return_std=True
        )
        answers["proxies"] = str(model.proxied_variables())
    if hasattr(model, "impute"):
        answers["imputed"] = model.impute(MISSING)
        answers["density with missing values"] = model.score_samples(MISSING)
        last = len(model.view_columns_) - 1
        answers["view"], answers["variance"] = model.predict_view(X, last)
    return answers


def other(value):
    """Return a different value."""
    if isinstance(value, bool):
        return not value
    return {"none": "at all"}


def test_every_estimator_is_covered():
    assert {type(model) for model in MODELS} == {method.estimator for method in METHODS.values()}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_parameters_set_after_fit_change_nothing(model):
    expected = results(clone(model).fit(X, response(model)))
    for name, value in model.get_params().items():
        fitted = clone(model).fit(X, response(model))
        fitted.set_params(**{name: other(value)})
        for result, answer in results(fitted).items():
            np.testing.assert_array_equal(answer, expected[result], err_msg=f"{name}: {result}")


def test_views_set_after_the_fit_change_nothing():
    frame = pd.DataFrame(X, columns=NAMES)
    fitted = SCA(1, views=[NAMES[:6], NAMES[6:]]).fit(frame)
    expected = fitted.transform([frame[NAMES[:6]], frame[NAMES[6:]]])
    fitted.set_params(views=None, n_components=9)
    np.testing.assert_array_equal(fitted.transform([frame[NAMES[:6]], frame[NAMES[6:]]]), expected)
