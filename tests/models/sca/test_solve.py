"""The fit as a pure function: no estimator, the operator's units."""

from functools import partial
from typing import NamedTuple

import numpy as np
import pytest

from prosparse import SCA
from prosparse.data import DenseOperator, standardise
from prosparse.inference.loop import Run, StopReason, iterate
from prosparse.models.sca.imputed_init import fit_imputed
from prosparse.models.sca.missing_data import standardise_observed
from prosparse.models.sca.missing_e_step import IncompleteSamples
from prosparse.models.sca.model import (
    FactorParameters,
    State,
    ard_step,
    init,
    view_layout,
)
from prosparse.models.sca.samples import CompleteSamples, reduce_rows
from prosparse.models.sca.solve import (
    FactorCounts,
    SCAOptions,
    _run_towards,
    _select_n_factors,
    compare_after_equal_iterations,
    solve,
)
from prosparse.models.sca.start import initial_loadings
from prosparse.selection.dimension import variational_count

pytestmark = pytest.mark.quick


@pytest.fixture
def table(rng):
    Z = rng.standard_normal((50, 2))
    W = rng.standard_normal((2, 9)) * (rng.random((2, 9)) < 0.6)
    return 100.0 * (Z @ W + 0.3 * rng.standard_normal((50, 9)))


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize(("prior", "noise"), [("ard", "feature"), ("hyperbolic", "view")])
def test_the_estimator_is_the_solution_in_the_units_of_the_table(prior, noise, gaps, table, rng):
    if gaps:
        table = np.where(rng.random(table.shape) < 0.1, np.nan, table)
        op, columns, seen = standardise_observed(table, noise == "feature")
    else:
        (op, columns), seen = standardise(table, noise == "feature"), None
    size = columns.unit * columns.scale
    groups = [np.arange(4), np.arange(4, 9)]
    options = SCAOptions(1, [1, 0], prior, 0.0, columns.per_variance(1e-4), 9, 1000, 1e-9, noise)
    solution = solve(op, seen, groups, options)
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
        model.objective_path_, solution.bounds - numbers @ np.log(size), rtol=1e-12
    )
    again = solve(op, seen, groups, options)
    for one, other in zip(solution, again, strict=True):
        np.testing.assert_array_equal(one, other)


def test_latents_are_ordered_and_the_dead_are_gone(table):
    op, _ = standardise(table)
    options = SCAOptions(6, [2, 2], "ard", 0.0, 0.0, 9, 1000, 1e-9, "feature")
    solution = solve(op, None, [np.arange(4), np.arange(4, 9)], options)
    strength = np.sum(solution.L**2, axis=0)
    assert np.all(strength > 0)
    assert solution.n_pruned == 10 - strength.size
    assert np.all(np.diff(solution.factor_view) >= 0)
    for block in np.unique(solution.factor_view):
        here = solution.factor_view == block
        linked = solution.view_correlation[here]
        assert np.all(np.diff(linked) <= 0)
        assert np.all(np.diff(strength[here][linked == 0]) <= 0)
    largest = np.argmax(np.abs(solution.L), axis=0)
    assert np.all(solution.L[largest, np.arange(strength.size)] > 0)


def test_a_filled_in_table_leads_to_the_same_fit_in_fewer_passes(rng, monkeypatch):
    X = rng.standard_normal((200, 4)) @ np.where(
        rng.random((4, 30)) < 0.4, rng.standard_normal((4, 30)), 0.0
    ) + 0.7 * rng.standard_normal((200, 30))
    X[rng.random(X.shape) < 0.1] = np.nan
    op, _, seen = standardise_observed(X)
    options = SCAOptions(4, [0], "ard", 0.0, 0.0, 30, 1000, 1e-9, "view")
    warm = solve(op, seen, [np.arange(30)], options)
    monkeypatch.setattr(
        "prosparse.models.sca.solve.fit_imputed",
        lambda filled, lay, first, step_of, max_iter, tol: first,
    )
    cold = solve(op, seen, [np.arange(30)], options)
    assert warm.bounds[-1] == pytest.approx(cold.bounds[-1], rel=1e-6)
    assert warm.bounds.size < 0.7 * cold.bounds.size


def test_latents_that_a_filled_in_table_loses_are_tried_again(table, rng):
    """Whether the observed entries need a latent is for these to say."""
    gaps = np.where(rng.random(table.shape) < 0.1, np.nan, table)
    op, _, seen = standardise_observed(gaps)
    samples, start = IncompleteSamples(op.whole, seen), DenseOperator(op.whole)
    lay = view_layout([np.arange(9)], 6, [0])
    weights = initial_loadings(start, 50, [np.arange(9)], 6, [0])
    first = init(samples, lay, *weights, None)
    steps = partial(partial, ard_step)
    found = fit_imputed(start, lay, first, lambda s: steps(s, lay), 200, 1e-9).ahead
    alone = CompleteSamples(start, 50)
    end = iterate(steps(alone, lay), first, max_iter=200, tol=1e-7).state.fitted
    gone = ~np.any(end.L, axis=0)
    assert gone.any()
    assert not gone.all()
    np.testing.assert_array_equal(found.L[:, gone], first.fitted.L[:, gone])
    np.testing.assert_array_equal(found.t[:, gone], first.fitted.t[:, gone])
    assert np.any(found.L == 0)
    assert np.isfinite(ard_step(samples, lay, State(found, found, -np.inf)).bound)


def test_the_square_of_many_columns_is_never_made(table, monkeypatch):
    """100,000 cells and 33,000 columns: X'X takes 9 GB, and hours to decompose."""
    op, _ = standardise(table)
    few = reduce_rows(op)
    assert few.shape == (9, 9)
    np.testing.assert_allclose(few.whole.T @ few.whole, op.whole.T @ op.whole, atol=1e-10)
    options = SCAOptions(2, [0], "ard", 0.0, 0.0, 9, 1000, 1e-9, "feature")
    expected = solve(op, None, [np.arange(9)], options)
    monkeypatch.setattr("prosparse.models.sca.samples.EXACT_SIDE", 8)
    assert reduce_rows(op) is op
    found = solve(op, None, [np.arange(9)], options)
    assert found.bounds[-1] == pytest.approx(expected.bounds[-1], rel=1e-9)


@pytest.mark.parametrize("noise", ["view", "feature"])
@pytest.mark.parametrize("sizes", [(4, 5), (9, 60)])
def test_weights_stay_where_the_table_is(noise, sizes, rng):
    """Of a Torch table they are Torch's, and the same as NumPy's, pass by pass and at the end."""
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
        first = init(samples, lay, *initial_loadings(op, 50, groups, 2, [1, 0]), None)
        run = iterate(partial(ard_step, samples, lay), first, max_iter=8, tol=0.0)
        states.append(run)
    ours, theirs = states
    assert all(isinstance(part, torch.Tensor) for part in theirs.state.fitted)
    np.testing.assert_allclose(theirs.bounds, ours.bounds, rtol=1e-12)
    for one, other in zip(ours.state.fitted, theirs.state.fitted, strict=True):
        np.testing.assert_allclose(other.numpy(), one, atol=1e-8)
    fits = [SCA("auto", noise=noise).fit([t[:, g] for g in groups]) for t in (X, torch.asarray(X))]
    np.testing.assert_allclose(fits[1].components_.numpy(), fits[0].components_, atol=1e-8)
    assert fits[1].n_iter_ == fits[0].n_iter_


class Climber(NamedTuple):
    """A state of which only the bound matters."""

    bound: float
    speed: float


@pytest.mark.parametrize(
    ("below", "speed", "wins"), [(3.0, 1.0, False), (3.0, 2.0, True), (500.0, 2.0, False)]
)
def test_fewer_latents_are_not_taken_for_passes_that_the_others_did_not_have(below, speed, wins):
    """All still rise: a trial that starts lower must rise faster, and soon enough."""
    taken = []

    def run_from(state, lay, passes):
        taken.append(passes)
        bounds = [state.bound + state.speed * (k + 1) for k in range(passes)]
        return Run(state._replace(bound=bounds[-1]), bounds, StopReason.MAX_ITER)

    held, trial = compare_after_equal_iterations(
        Climber(0.0, 1.0), None, Climber(-below, speed), None, run_from
    )
    assert (trial.bound > held.bound) is wins
    assert sum(taken) <= 20  # and it is seen early


@pytest.mark.parametrize(
    ("goal", "speed", "passes", "there"),
    [(3.0, 1.0, 5, True), (20.0, 1.0, 25, True), (500.0, 1.0, 5, False)],
)
def test_a_number_of_latents_is_given_up_where_its_passes_will_not_do(goal, speed, passes, there):
    taken = []

    def run_from(state, lay, count):
        taken.append(count)
        bounds = [state.bound + state.speed * (k + 1) for k in range(count)]
        return Run(state._replace(bound=bounds[-1]), bounds, StopReason.MAX_ITER)

    state, _ = _run_towards(goal, Climber(0.0, speed), None, run_from)
    assert (state.bound > goal) is there
    assert sum(taken) == passes


def latents_for(bound_of, likely, most, n=100):
    """How many are kept where the bound of the model depends on their number alone, and what is
    open of the weights; and the numbers that were tried, each time."""
    tried = []

    def begin(shared):
        lay = view_layout([np.arange(6)], shared, [0], "feature")
        L = np.ones((6, 1)) * np.arange(shared, 0, -1)
        C, t = np.zeros((6, shared, shared)), np.ones((6, shared))
        now = FactorParameters(L, C, t, np.ones(6), np.zeros(6))
        return State(now, now, -np.inf), lay

    def run_from(state, lay, passes):
        tried.append(np.count_nonzero(state.ahead.L.any(axis=0)))
        bound = float(bound_of(tried[-1]))
        return Run(state._replace(bound=bound), [bound], StopReason.CONVERGED)

    state, lay = _select_n_factors(FactorCounts(likely, most), n, begin, run_from, 1000)
    return np.count_nonzero(state.ahead.L.any(axis=0)), bool(lay.allowed.any()), tried


@pytest.mark.parametrize(
    ("gain", "likely", "true", "found"),
    [
        (60.0, 4, 10, 10),  # worth more than half of the 100 samples: more are taken
        (40.0, 4, 10, 4),  # worth less
        (60.0, 16, 3, 3),  # far fewer than likely, by halves and then one by one
        (60.0, 8, 7, 7),
        (60.0, 20, 20, 20),  # the most there may be
    ],
)
def test_as_many_latents_as_are_worth_it(gain, likely, true, found):
    count, is_open, tried = latents_for(
        lambda q: gain * min(q, true) - 5.0 * max(q - true, 0), likely, 20
    )
    assert (count, is_open) == (found, True)
    assert tried[0] == likely
    assert max(tried) <= 20
    if likely == 16:
        assert {8, 4, 2} <= set(tried)


def test_no_latents_where_each_costs_more_than_it_adds():
    count, is_open, tried = latents_for(lambda q: -5.0 * q, 4, 20)
    assert (count, is_open) == (0, False)
    assert 0 in tried


def sparse_views(seed, n, widths, latents, share, spread):
    """Views whose columns have noise of different size."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, latents))
    views = []
    for width in widths:
        W = np.where(
            rng.random((width, latents)) < share, rng.standard_normal((width, latents)), 0.0
        )
        noise = np.exp(spread * rng.standard_normal(width))
        views.append(Z @ W.T + noise * rng.standard_normal((n, width)))
    return views


def likely_number(views):
    """As many as variational PCA keeps."""
    X = np.hstack(views)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return variational_count(np.linalg.svd(X, compute_uv=False) ** 2, *X.shape)


@pytest.mark.parametrize(
    ("views", "likely", "found"),
    [
        (sparse_views(100, 100, (400, 300), 6, 0.05, 0.5), 5, 6),
        (sparse_views(0, 2000, (30, 20), 4, 0.2, 0.5), 41, 4),
        (sparse_views(101, 200, (60, 40), 4, 0.3, 0.8), 4, 4),
    ],
    ids=["more", "far fewer", "as many"],
)
def test_auto_finds_the_latents_whatever_it_begins_with(views, likely, found):
    assert likely_number(views) == likely
    assert SCA().fit(views).n_components_ == found


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_few_passes_are_all_of_the_likely_number():
    views = sparse_views(101, 200, (60, 40), 4, 0.3, 0.8)
    model, told = SCA(max_iter=3).fit(views), SCA(likely_number(views), max_iter=3).fit(views)
    np.testing.assert_array_equal(model.objective_path_, told.objective_path_)
    np.testing.assert_array_equal(model.components_, told.components_)
