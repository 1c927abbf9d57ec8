"""Stop reasons and warnings of EMPCA."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from prosparse import EMPCA, FewerComponentsWarning
from prosparse.errors import ManyComponentsWarning
from prosparse.inference.loop import StopReason
from prosparse.models.empca import nonnegative, search
from prosparse.models.empca.exchange import best_swap, exact_swaps, make_polish_step, rough_swaps
from prosparse.models.empca.model import Support
from prosparse.models.empca.quadratic import Gram
from prosparse.models.empca.thresholds import Constraint


def noise(n=30, p=40, seed=16):
    return np.random.default_rng(seed).standard_normal((n, p))


MANY = noise(400, 230) * np.logspace(0, 6, 230)


@pytest.mark.parametrize(
    ("X", "options", "category", "found"),
    [
        (noise(), {"n_nonzero": 10, "max_iter": 1, "tol": 0}, ConvergenceWarning, 1),
        (
            noise(30, 7),
            {"n_components": 3, "n_nonzero": 4, "orthogonality": "disjoint"},
            FewerComponentsWarning,
            2,
        ),
        (MANY, {"n_components": "auto", "n_nonzero": 1}, ManyComponentsWarning, 100),
    ],
    ids=["max_iter", "exhausted", "many"],
)
def test_a_warning_raised_as_error_leaves_a_fitted_model(X, options, category, found):
    model = EMPCA(random_state=0, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(category):
            model.fit(X)
    assert model.n_components_ == found
    assert model.transform(X).shape == (X.shape[0], found)
    assert model.optimality_gap_.shape == (found,)


def test_a_path_warns_after_all_models_are_fitted(monkeypatch):
    described, set_components = [], EMPCA._set_components

    def record(self, *arguments):
        described.append(self)
        set_components(self, *arguments)

    monkeypatch.setattr(EMPCA, "_set_components", record)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ConvergenceWarning):
            EMPCA(max_iter=1, tol=0, random_state=0).path(noise(), [9, 5, 12])
    assert [model.n_nonzero for model in described] == [5, 9, 12]
    assert all(model.stop_reason_ is StopReason.MAX_ITER for model in described)


def test_max_iter_takes_precedence_over_exhausted_variance():
    model = EMPCA(3, n_nonzero=4, orthogonality="disjoint", max_iter=1, tol=0, random_state=0)
    with pytest.warns() as caught:
        model.fit(noise(30, 7))
    assert model.stop_reason_ is StopReason.MAX_ITER
    assert {w.category for w in caught} == {ConvergenceWarning, FewerComponentsWarning}


def falling(*arguments):
    return lambda state: state._replace(bound=0.5 * state.bound)


def failing(*arguments):
    def step(state):
        if state.bound > failing.start:
            raise np.linalg.LinAlgError
        failing.start = state.bound
        return state._replace(bound=state.bound * 1.1)

    failing.start = np.inf
    return step


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("make_polish_step", {"n_nonzero": 5}),
        ("make_polish_step", {"n_nonzero": 5, "nonnegative": True}),
        ("make_angle_step", {"n_nonzero": 5, "orthogonality": "quasi", "min_angle": 70}),
    ],
    ids=["polish", "nonnegative", "angle"],
)
def test_a_decreasing_objective_is_reported(monkeypatch, name, options):
    monkeypatch.setattr(search, name, falling)
    with pytest.warns(ConvergenceWarning, match="objective decreased"):
        model = EMPCA(2, random_state=0, **options).fit(noise())
    assert model.stop_reason_ is StopReason.DECREASED
    # The result is the last state before the decrease.
    assert model.explained_variance_.min() > 0.9


def test_a_failed_decomposition_is_reported(monkeypatch):
    monkeypatch.setattr(search, "make_polish_step", failing)
    with pytest.warns(ConvergenceWarning, match="decomposition failed"):
        model = EMPCA(n_nonzero=5, random_state=0, n_restarts=0).fit(noise())
    assert model.stop_reason_ is StopReason.DECOMPOSITION_FAILED


def test_unfinished_loadings_are_reported(monkeypatch):
    monkeypatch.setattr(nonnegative, "MAX_STEPS", 1)
    with pytest.warns(ConvergenceWarning):
        model = EMPCA(n_nonzero=20, nonnegative=True, random_state=0).fit(noise())
    assert model.stop_reason_ is StopReason.MAX_ITER


@pytest.mark.parametrize("wrong", [3.0, [1.0, 2.0, 3.0], np.zeros((3, 3, 3))])
def test_sample_weights_do_not_hide_invalid_data(wrong):
    with pytest.raises(ValueError, match=r"Expected 2D array|dim 3"):
        EMPCA().fit(wrong, sample_weight=np.ones(3))


@pytest.mark.parametrize("n_nonzero", [2, 6])
@pytest.mark.parametrize("seed", range(3))
def test_steps_return_their_argument_at_a_local_optimum(n_nonzero, seed):
    """Every step returns its argument at the result of the search."""
    X = noise(30, 12, seed)
    X = X - X.mean(axis=0)
    model = EMPCA(n_nonzero=n_nonzero, random_state=0).fit(X)
    C, w = X.T @ X, model.components_[0]
    c = Constraint(n_nonzero, False, np.ones(12, dtype=bool))
    state = Support(w, float(w @ C @ w))
    for exchange in (None, best_swap, rough_swaps, exact_swaps):
        assert make_polish_step(Gram(C), c, exchange, {})(state) is state
