"""Fit as a pure function, in the units of the operator."""

from functools import partial
from typing import NamedTuple

import numpy as np
import pytest

from prosparse import SCA
from prosparse.data import DenseOperator, standardise
from prosparse.data.missing_values import standardise_observed
from prosparse.inference.loop import Run, StopReason, iterate
from prosparse.models.sca.imputed_init import fit_imputed
from prosparse.models.sca.missing_e_step import IncompleteSamples
from prosparse.models.sca.model import (
    FactorParameters,
    State,
    init,
    step,
    view_layout,
)
from prosparse.models.sca.n_factors import (
    FactorCounts,
    SCAOptions,
    compare_after_equal_iterations,
    select_n_factors,
)
from prosparse.models.sca.samples import CompleteSamples, reduce_rows
from prosparse.models.sca.solve import gaussian_data, solve
from prosparse.models.sca.start import initial_loadings
from prosparse.selection.dimension import variational_count

pytestmark = pytest.mark.quick


@pytest.fixture
def table(rng):
    Z = rng.standard_normal((50, 2))
    W = rng.standard_normal((2, 9)) * (rng.random((2, 9)) < 0.6)
    return 100.0 * (Z @ W + 0.3 * rng.standard_normal((50, 9)))


@pytest.mark.parametrize("incomplete", [False, True])
@pytest.mark.parametrize(("prior", "noise"), [("ard", "feature"), ("hyperbolic", "view")])
def test_estimator_is_the_solution_in_the_units_of_the_data(prior, noise, incomplete, table, rng):
    if incomplete:
        table = np.where(rng.random(table.shape) < 0.1, np.nan, table)
        op, columns, seen = standardise_observed(table, noise == "feature")
    else:
        (op, columns), seen = standardise(table, noise == "feature"), None
    size = columns.unit * columns.scale
    groups = [np.arange(4), np.arange(4, 9)]
    options = SCAOptions(1, [1, 0], prior, 0.0, columns.per_variance(1e-4), 9, 1000, 1e-9, noise)
    solution = solve(gaussian_data(op, seen, groups, options), groups, options)
    views = [slice(0, 4), slice(4, 9)]
    model = SCA(1, prior=prior, rate=1e-4, n_private=[1, 0], noise=noise, views=views, tol=1e-9)
    model.fit(table)
    np.testing.assert_array_equal(model.components_, size * solution.L.T)
    np.testing.assert_array_equal(model.feature_noise_variance_, size**2 * solution.noise)
    means = [model.feature_noise_variance_[view].mean() for view in views]
    np.testing.assert_allclose(model.noise_variance_, means, rtol=1e-14)
    assert np.unique(solution.noise).size == (2 if noise == "view" else 9)
    np.testing.assert_array_equal(model.factor_view_, solution.factor_view)
    # what a density of so many numbers changes by in other units
    numbers = np.isfinite(table).sum(axis=0)
    if prior == "hyperbolic":
        numbers += np.r_[np.full(4, 2), np.ones(5, int)]
    np.testing.assert_array_equal(solution.n_densities, numbers)
    np.testing.assert_allclose(
        model.objective_path_, solution.objective_path - numbers @ np.log(size), rtol=1e-12
    )
    again = solve(gaussian_data(op, seen, groups, options), groups, options)
    for one, other in zip(solution, again, strict=True):
        np.testing.assert_array_equal(one, other)


def test_factors_are_ordered_and_not_empty(table):
    op, _ = standardise(table)
    options = SCAOptions(6, [2, 2], "ard", 0.0, 0.0, 9, 1000, 1e-9, "feature")
    solution = solve(
        gaussian_data(op, None, [np.arange(4), np.arange(4, 9)], options),
        [np.arange(4), np.arange(4, 9)],
        options,
    )
    strength = np.sum(solution.L**2, axis=0)
    assert np.all(strength > 0)
    assert solution.n_pruned == 10 - strength.size
    assert np.all(np.diff(solution.factor_view) >= 0)
    for block in np.unique(solution.factor_view):
        members = solution.factor_view == block
        correlation = solution.view_correlation[members]
        assert np.all(np.diff(correlation) <= 0)
        assert np.all(np.diff(strength[members][correlation == 0]) <= 0)
    largest = np.argmax(np.abs(solution.L), axis=0)
    assert np.all(solution.L[largest, np.arange(strength.size)] > 0)


def test_factors_lost_on_imputed_data_are_restored(table, rng):
    """The observed entries decide which factors are needed."""
    incomplete = np.where(rng.random(table.shape) < 0.1, np.nan, table)
    op, _, seen = standardise_observed(incomplete)
    samples, start = IncompleteSamples(op.whole, seen), DenseOperator(op.whole)
    lay = view_layout([np.arange(9)], 6, [0])
    loadings = initial_loadings(start, 50, [np.arange(9)], 6, [0])
    first = init(samples, lay, *loadings, "ard")
    found = fit_imputed(start, lay, first, 200, 1e-9).ahead
    alone = CompleteSamples(start, 50)
    end = iterate(partial(step, alone, lay, None), first, max_iter=200, tol=1e-7).state.fitted
    gone = ~np.any(end.L, axis=0)
    assert gone.any()
    assert not gone.all()
    np.testing.assert_array_equal(found.L[:, gone], first.fitted.L[:, gone])
    np.testing.assert_array_equal(found.t[:, gone], first.fitted.t[:, gone])
    assert np.any(found.L == 0)
    assert np.isfinite(step(samples, lay, None, State(found, found, -np.inf)).bound)


def test_many_columns_without_gram_matrix(table, monkeypatch):
    """X'X of many columns would exceed the memory."""
    op, _ = standardise(table)
    few = reduce_rows(op)
    assert few.shape == (9, 9)
    np.testing.assert_allclose(few.whole.T @ few.whole, op.whole.T @ op.whole, atol=1e-10)
    options = SCAOptions(2, [0], "ard", 0.0, 0.0, 9, 1000, 1e-9, "feature")
    expected = solve(gaussian_data(op, None, [np.arange(9)], options), [np.arange(9)], options)
    monkeypatch.setattr("prosparse.models.sca.samples.EXACT_SIDE", 8)
    assert reduce_rows(op) is op
    found = solve(gaussian_data(op, None, [np.arange(9)], options), [np.arange(9)], options)
    assert found.objective_path[-1] == pytest.approx(expected.objective_path[-1], rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["view", "feature"])
@pytest.mark.parametrize("sizes", [(4, 5), (9, 60)])
def test_loadings_in_the_array_library_of_the_data(noise, sizes, rng):
    """Loadings of Torch data are tensors and equal those of NumPy data."""
    torch = pytest.importorskip("torch", reason="Torch is not installed")
    Z, p = rng.standard_normal((50, 2)), sum(sizes)
    X = Z @ (rng.standard_normal((2, p)) * (rng.random((2, p)) < 0.6))
    X = standardise(X + 0.3 * rng.standard_normal((50, p)))[0].whole
    groups = [np.arange(sizes[0]), np.arange(sizes[0], p)]
    plain = view_layout(groups, 2, [1, 0], noise)
    states = []
    for table in (X, torch.asarray(X)):
        op = DenseOperator(table)
        samples = CompleteSamples(op, 50, on_device=True)
        lay = plain.to_device_of(samples.squares)
        first = init(samples, lay, *initial_loadings(op, 50, groups, 2, [1, 0]), "ard")
        run = iterate(partial(step, samples, lay, None), first, max_iter=8, tol=0.0)
        states.append(run)
    ours, theirs = states
    assert all(isinstance(part, torch.Tensor) for part in theirs.state.fitted[:5])
    np.testing.assert_allclose(theirs.bounds, ours.bounds, rtol=1e-12)
    for one, other in zip(ours.state.fitted[:5], theirs.state.fitted[:5], strict=True):
        np.testing.assert_allclose(other.numpy(), one, atol=1e-8)
    fits = [SCA("auto", noise=noise).fit([t[:, g] for g in groups]) for t in (X, torch.asarray(X))]
    np.testing.assert_allclose(fits[1].components_.numpy(), fits[0].components_, atol=1e-8)
    assert fits[1].n_iter_ == fits[0].n_iter_


class LinearState(NamedTuple):
    """State whose bound increases linearly."""

    bound: float
    speed: float


@pytest.mark.parametrize(
    ("below", "speed", "wins"), [(3.0, 1.0, False), (3.0, 2.0, True), (500.0, 2.0, False)]
)
def test_models_are_compared_after_equal_iterations(below, speed, wins):
    """A trial that starts lower wins only if it increases fast enough."""

    def run_from(state, lay, n_iter):
        bounds = [state.bound + state.speed * (k + 1) for k in range(n_iter)]
        return Run(state._replace(bound=bounds[-1]), bounds, StopReason.MAX_ITER)

    held, trial = compare_after_equal_iterations(
        LinearState(0.0, 1.0), None, LinearState(-below, speed), None, run_from
    )
    assert (trial.bound > held.bound) is wins


def select_factors(bound_of, initial, maximum, n=100):
    """Select the number of factors for a bound that depends on their number only."""

    def begin(shared, how):
        lay = view_layout([np.arange(6)], shared, [0], "feature")
        L = np.ones((6, 1)) * np.arange(shared, 0, -1)
        C, t = np.zeros((6, shared, shared)), np.ones((6, shared))
        now = FactorParameters(L, C, t, np.ones(6), np.zeros(6))
        return State(now, now, -np.inf), lay

    def run(state, lay, how):
        bound = float(bound_of(np.count_nonzero(state.ahead.L.any(axis=0))))
        return Run(state._replace(bound=bound), [bound], StopReason.CONVERGED)

    options = SCAOptions("auto", [0], "ard", 0.0, 0.0, 6, 1000, 1e-9, "feature", np.ones(6))
    state, lay = select_n_factors(FactorCounts(initial, maximum), n, begin, run, options)
    return np.count_nonzero(state.ahead.L.any(axis=0)), bool(lay.allowed.any())


@pytest.mark.parametrize(
    ("gain", "initial", "true", "found"),
    [
        (60.0, 4, 10, 10),  # the gain exceeds half of the 100 samples
        (40.0, 4, 10, 4),  # the gain is smaller
        (60.0, 16, 3, 3),  # far fewer than the initial number
        (60.0, 8, 7, 7),
        (60.0, 20, 20, 20),  # the maximum number
    ],
)
def test_selected_number_of_factors(gain, initial, true, found):
    count, is_open = select_factors(
        lambda q: gain * min(q, true) - 5.0 * max(q - true, 0), initial, 20
    )
    assert (count, is_open) == (found, True)


def test_no_factors_if_each_decreases_the_bound():
    count, is_open = select_factors(lambda q: -5.0 * q, 4, 20)
    assert (count, is_open) == (0, False)


def sparse_views(seed, n, widths, n_factors, proportion, spread):
    """Simulate views with unequal noise."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, n_factors))
    views = []
    for width in widths:
        W = np.where(
            rng.random((width, n_factors)) < proportion,
            rng.standard_normal((width, n_factors)),
            0.0,
        )
        noise = np.exp(spread * rng.standard_normal(width))
        views.append(Z @ W.T + noise * rng.standard_normal((n, width)))
    return views


def initial_number(views):
    """Number of components of variational PCA."""
    X = np.hstack(views)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return variational_count(np.linalg.svd(X, compute_uv=False) ** 2, *X.shape)


@pytest.mark.parametrize(
    ("views", "initial", "found"),
    [
        (sparse_views(100, 100, (400, 300), 6, 0.05, 0.5), 5, 6),
        (sparse_views(0, 2000, (30, 20), 4, 0.2, 0.5), 41, 4),
        (sparse_views(101, 200, (60, 40), 4, 0.3, 0.8), 4, 4),
    ],
    ids=["more", "far fewer", "as many"],
)
def test_auto_selects_the_number_of_factors_from_any_start(views, initial, found):
    assert initial_number(views) == initial
    assert SCA().fit(views).n_components_ == found


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_small_max_iter_uses_the_initial_number():
    views = sparse_views(101, 200, (60, 40), 4, 0.3, 0.8)
    model = SCA(max_iter=3).fit(views)
    fixed = SCA(initial_number(views), max_iter=3).fit(views)
    np.testing.assert_array_equal(model.objective_path_, fixed.objective_path_)
    np.testing.assert_array_equal(model.components_, fixed.components_)
