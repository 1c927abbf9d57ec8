"""What must be true of every fit: it is valid, or it is refused in words."""

from __future__ import annotations

import warnings
from collections import Counter
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from prosparse import (
    DuplicateRowsWarning,
    FewerComponentsWarning,
    FewVariablesWarning,
    InputError,
    ManyComponentsWarning,
    NoStructureWarning,
    OutlyingRowsWarning,
    ParameterError,
    RowOrderWarning,
    ShortPanelWarning,
    UnequalUnitsWarning,
)
from prosparse.inference.loop import StopReason

REFUSALS = (InputError, ParameterError, NotFittedError)
WORDS = (
    DuplicateRowsWarning,
    FewerComponentsWarning,
    FewVariablesWarning,
    ManyComponentsWarning,
    NoStructureWarning,
    OutlyingRowsWarning,
    RowOrderWarning,
    ShortPanelWarning,
    UnequalUnitsWarning,
    ConvergenceWarning,
)
ORTHONORMAL = {"GSPPCA", "SSPCA"}
UNIT = {"EMPCA"}

OUTCOMES: dict[str, Counter] = {}
"""How often every estimator ended in which way, for the record of a long run."""


def outcome(estimator: Any, X: Any, y: Any = None) -> str:
    """Fit, and check what came of it: "valid", or the name of the error that refused."""
    name = type(estimator).__name__
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            estimator.fit(X, y)
        except REFUSALS as error:
            assert_in_words(error)
            result = type(error).__name__
        except (ValueError, TypeError) as error:
            if not from_validation(error):
                raise
            result = f"{type(error).__name__} of scikit-learn"
        else:
            assert_valid(estimator, X)
            result = "valid"
    assert_actionable(name, said)
    OUTCOMES.setdefault(name, Counter())[result] += 1
    return result


def assert_in_words(error: Exception) -> None:
    """A sentence, not a number or a name."""
    assert len(str(error).split()) >= 5, f"{type(error).__name__} says only {str(error)!r}"


def from_validation(error: Exception) -> bool:
    """Whether scikit-learn's own input validation raised it, and not the mathematics."""
    trace, places = error.__traceback__, []
    while trace is not None:
        places.append(Path(trace.tb_frame.f_code.co_filename).parts[-3:])
        trace = trace.tb_next
    return ("sklearn", "utils", "validation.py") in places


def assert_actionable(name: str, said: list[Any]) -> None:
    for one in said:
        text = str(one.message)
        ours = issubclass(one.category, WORDS) and text.startswith(name)
        assert ours, f"{one.category.__name__} leaked: {text}"


def attributes(estimator: Any) -> dict[str, Any]:
    return {
        name: value
        for name, value in vars(estimator).items()
        if name.endswith("_") and not name.startswith("_")
    }


def assert_finite(name: str, value: Any) -> None:
    if isinstance(value, StopReason | str | bool) or value is None:
        return
    if isinstance(value, list | tuple | dict):
        for one in value.values() if isinstance(value, dict) else value:
            assert_finite(name, one)
        return
    if isinstance(value, Number | np.ndarray):
        array = np.asarray(value)
        if array.dtype.kind in "fc":
            assert np.all(np.isfinite(array)), f"{name} is not finite: {value}"
        return
    raise AssertionError(f"{name} is a {type(value).__name__}")


def assert_valid(model: Any, X: Any) -> None:
    X = np.asarray(X, dtype=float) if isinstance(X, list) else X
    p = X.shape[1]
    for name, value in attributes(model).items():
        assert_finite(name, value)
    assert model.support_.shape == model.mean_.shape == model.scale_.shape == (p,)
    assert np.all(model.scale_ > 0)
    if hasattr(model, "ranking_"):
        assert sorted(model.ranking_) == list(range(1, p + 1))
        assert np.all((model.relevance_ >= 0) & (model.relevance_ <= 1))
    assert_rising(getattr(model, "objective_path_", []))
    if hasattr(model, "components_"):
        assert_projection(model, X)
    elif hasattr(model, "classes_"):
        assert_classifier(model, X)
    else:
        assert_regression(model, X)


def assert_rising(bounds: Any) -> None:
    for one in bounds if isinstance(bounds, list) else [bounds]:
        assert np.all(np.diff(one) >= 0), f"objective_path_ falls: {one}"


def assert_regression(model: Any, X: Any) -> None:
    several = model.coef_.shape[:-1]  # responses, if there is more than one
    nonzero = np.any(np.atleast_2d(model.selected_coef_) != 0, axis=0)
    np.testing.assert_array_equal(nonzero, model.support_)
    assert model.n_selected_ == model.support_.sum() == model.selected_coef_covariance_.shape[-1]
    prediction, deviation = model.predict(X, return_std=True)
    assert prediction.shape == deviation.shape == (X.shape[0], *several)
    assert np.all(np.isfinite(prediction))
    assert np.all(np.isfinite(deviation))


def assert_classifier(model: Any, X: Any) -> None:
    np.testing.assert_array_equal(model.selected_coef_[0] != 0, model.support_)
    assert model.n_selected_ == model.support_.sum()
    both = model.predict_log_proba(X)
    assert both.shape == (X.shape[0], 2)
    assert np.all(np.isfinite(both))
    np.testing.assert_allclose(np.exp(both).sum(axis=1), 1.0)
    assert np.all(np.isfinite(model.decision_function(X)))
    assert set(model.predict(X)) <= set(model.classes_)


def assert_projection(model: Any, X: Any) -> None:
    name, W, (n, p) = type(model).__name__, model.components_, X.shape
    d = W.shape[0]
    assert d >= 1 or name in UNIT | {"FDRPCA", "Panel"}
    assert W.shape == (d, p)
    used = np.any(W != 0, axis=0)
    # A selected variable that is orthogonal to the others may have zero loadings.
    assert not np.any(used & ~model.support_)
    assert np.array_equal(used, model.support_) or name in ("GSPPCA", "FDRPCA", "Panel")
    if name in ORTHONORMAL:
        np.testing.assert_allclose(W @ W.T, np.eye(d), atol=1e-9)
    if name in UNIT:
        np.testing.assert_allclose(np.linalg.norm(W, axis=1), 1.0, atol=1e-9)
        np.testing.assert_array_equal(np.count_nonzero(W, axis=1), model.n_nonzero_)
    assert_constraints(model, W)
    assert np.all(model.explained_variance_ >= 0)
    if hasattr(model, "explained_variance_ratio_"):
        assert np.all(model.explained_variance_ratio_ >= 0)
        assert np.sum(model.explained_variance_ratio_) <= 1 + 1e-9
    scores = model.transform(X)
    assert scores.shape == (n, d)
    assert np.all(np.isfinite(scores)), "scores are not finite"
    if d:
        rebuilt = model.inverse_transform(scores)
        assert rebuilt.shape == (n, p)
        assert np.all(np.isfinite(rebuilt)), "rebuilt rows are not finite"
    assert model.select(X).shape == (n, int(model.support_.sum()))
    assert model.get_feature_names_out().shape == (d,)
    if hasattr(model, "optimality_gap_"):
        assert np.all((model.optimality_gap_ >= 0) & (model.optimality_gap_ <= 1))
    if hasattr(model, "score_samples"):
        assert np.all(np.isfinite(model.score_samples(X))), "densities are not finite"


def assert_constraints(model: Any, W: np.ndarray) -> None:
    """Those that the parameters ask for, exactly."""
    asked = model.get_params()
    if asked.get("nonnegative"):
        assert np.all(W >= 0)
    most = asked.get("n_nonzero")
    if most is not None:
        assert np.all(np.count_nonzero(W, axis=1) <= np.ravel(most)[: W.shape[0]])
    if asked.get("n_features_to_select") is not None:
        assert 1 <= model.support_.sum() <= asked["n_features_to_select"]
    if asked.get("orthogonality") == "disjoint":
        assert np.all(np.count_nonzero(W, axis=0) <= 1)
    if asked.get("orthogonality") == "quasi":
        cosines = np.abs(W @ W.T - np.diag(np.sum(W**2, axis=1)))
        assert np.all(cosines <= np.cos(np.radians(asked["min_angle"])) + 1e-8)
