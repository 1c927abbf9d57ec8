"""Steps of the model against slow dense computations of the equations of [AB08]."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import gammaln
from scipy.stats import gamma, multivariate_normal

from prosparse.data import DenseOperator
from prosparse.data.missing_values import standardise_observed
from prosparse.inference.loop import iterate
from prosparse.models.sca.hyperbolic import HyperbolicPrior
from prosparse.models.sca.loadings import row_covariances, update_ard_rows, update_map_rows
from prosparse.models.sca.missing_e_step import IncompleteSamples
from prosparse.models.sca.model import (
    accelerator,
    init,
    log_likelihood,
    max_precisions,
    step,
    view_layout,
)
from prosparse.models.sca.samples import CompleteSamples
from prosparse.models.sca.start import initial_loadings, varimax
from prosparse.numerics.spectrum import spectrum

# n, columns of the views, shared factors, private factors, proportion of missing values
CASES = {
    "one view": (30, [8], 3, [0], 0.0),
    "wide": (12, [40], 2, [0], 0.0),
    "two views": (40, [6, 9], 2, [1, 2], 0.0),
    "three views": (25, [5, 4, 30], 2, [1, 0, 1], 0.0),
    "one view, missing values": (30, [8], 2, [0], 0.3),
    "two views, missing values": (35, [6, 7], 2, [1, 1], 0.2),
    "missing view": (30, [5, 6], 2, [0, 1], "view"),
}
PRIORS = {
    "ard": None,
    "point-normal": None,
    "jeffreys": (0.0, 0.0),
    "spiky": (0.2, 0.5),
    "bridge": (0.7, 2.0),
    "laplace": (1.0, 4.0),
    "smooth": (1.4, 3.0),
}


def table(n, widths, k, private, missing, seed=0):
    """Return centred data, the mask of observed entries and the columns of the views."""
    rng = np.random.default_rng(seed)
    edges = np.cumsum([0, *widths])
    groups = [np.arange(a, b) for a, b in pairwise(edges)]
    p = edges[-1]
    X = rng.standard_normal((n, k)) @ np.where(
        rng.random((k, p)) < 0.5, rng.normal(0, 2, (k, p)), 0
    )
    for columns, own in zip(groups, private):
        X[:, columns] += rng.standard_normal((n, own)) @ rng.standard_normal((own, columns.size))
    X += rng.standard_normal((n, p)) * np.repeat(0.3 + rng.random(len(widths)), widths)
    seen = np.ones((n, p), dtype=bool)
    if missing == "view":
        seen[: n // 3, groups[1]] = False
    elif missing:
        seen = rng.random((n, p)) > missing
    return np.where(seen, X, np.nan), seen, groups


def step_of(samples, lay, prior):
    return partial(step, samples, lay, prior)


def problem(case, prior, seed=0, noise="view"):
    n, widths, k, private, missing = CASES[case]
    X, seen, groups = table(n, widths, k, private, missing, seed)
    if missing:
        op, _, seen = standardise_observed(X)
        Z = op.whole
        data = IncompleteSamples(Z, seen)
    else:
        Z = X - X.mean(axis=0)
        op = DenseOperator(Z)
        data = CompleteSamples(op, n)
    lay = view_layout(groups, k, private, noise)
    name = prior if PRIORS[prior] is None else "hyperbolic"
    prior = None if PRIORS[prior] is None else HyperbolicPrior(*PRIORS[prior])
    start = init(data, lay, *initial_loadings(op, n, groups, k, private), name)
    return Z, seen, lay, data, prior, start, step_of(data, lay, prior)


def slow_noise_prior(X, seen, lay, tau):
    """Log prior of the noise by Gamma densities, without constants.

    One pseudo-sample with the variance of the column, ten with the typical noise of the view, which
    is optimised numerically.
    """
    if tau.size == lay.view.max() + 1:  # one for each view
        return 0.0
    variance = np.array([np.mean(x[s] ** 2) for x, s in zip(X.T, seen.T)])
    total = np.sum(gamma.logpdf(tau * variance, 0.5, scale=2.0) + np.log(tau * variance))
    total += tau.size * (gammaln(0.5) + 0.5 * np.log(2.0))
    for v in range(lay.view.max() + 1):
        mine = tau[lay.view == v]

        def lacking(log_level, mine=mine):
            units = mine * np.exp(log_level)
            return -np.sum(gamma.logpdf(units, 5.0, scale=0.2) + np.log(units))

        found = minimize_scalar(lacking, bounds=(-30, 30), method="bounded").x
        found = minimize_scalar(lacking, bracket=(found - 0.1, found + 0.1)).x
        total += -lacking(found) + mine.size * (gammaln(5.0) - 5.0 * np.log(5.0))
    return total


def slow_inclusion_prior(lay, t):
    """Log prior of the zeros with inclusion probabilities at most 1/2, by grid search."""
    total = 0.0
    grid = np.linspace(1e-4, 0.5, 40_000)
    for v in range(lay.view.max() + 1):
        for j in range(t.shape[1]):
            open_rows = lay.allowed[lay.view == v, j]
            if open_rows.any():
                inside = np.sum(t[lay.view == v, j] > 0)
                outside = open_rows.size - inside
                values = (inside + 0.5) * np.log(grid) + (outside + 0.5) * np.log(1 - grid)
                total += values.max()
    return total


def slow_bound(X, seen, lay, before, after):
    """E log p(X | z, L) - KL(z) - KL(L) + log p(tau) + log p(zeros), entry by entry.

    q(z) is optimal for the parameters ``before`` the step, (25); loadings, noise and offsets are
    those ``after`` it.
    """
    n, p = X.shape
    Q = before.L.shape[1]
    tau_before, tau = before.tau[lay.noise], after.tau[lay.noise]
    total = slow_noise_prior(X, seen, lay, after.tau) + slow_inclusion_prior(lay, after.t)
    moments = []
    for row in range(n):
        precision, y = np.eye(Q), np.zeros(Q)
        for i in np.flatnonzero(seen[row]):
            precision += tau_before[i] * (np.outer(before.L[i], before.L[i]) + before.C[i])
            y += tau_before[i] * before.L[i] * (X[row, i] - before.mu[i])
        S = np.linalg.inv(precision)
        moments.append((S @ y, S))
    # Factors have unit variance after the step: rescale q(z).
    scale = np.sqrt(np.mean([np.diagonal(S) + z**2 for z, S in moments], axis=0))
    moments = [(z / scale, S / np.outer(scale, scale)) for z, S in moments]
    for row, (z, S) in enumerate(moments):
        total -= 0.5 * (np.trace(S) + z @ z - Q - np.linalg.slogdet(S)[1])
        for i in np.flatnonzero(seen[row]):
            second = np.outer(z, z) + S
            loadings = np.outer(after.L[i], after.L[i]) + after.C[i]
            r = X[row, i] - after.mu[i]
            square = r**2 - 2 * r * after.L[i] @ z + np.trace(second @ loadings)
            total += 0.5 * np.log(tau[i] / (2 * np.pi)) - 0.5 * tau[i] * square
    for i in range(p):
        a = np.flatnonzero(after.t[i] > 0)
        if a.size:
            C, m, t = after.C[i][np.ix_(a, a)], after.L[i][a], after.t[i][a]
            total -= 0.5 * (
                np.sum((np.diagonal(C) + m**2) / t) - a.size - np.linalg.slogdet(C / t)[1]
            )
    return total


def slow_posterior(X, seen, lay, now, prior):
    """sum_n log N(x_n; mu, L L' + Psi^-1) + sum_ij log p(l_ij) with dense covariances."""
    covariance = now.L @ now.L.T + np.diag(1 / now.tau[lay.noise])
    total = slow_noise_prior(X, seen, lay, now.tau)
    for row in range(X.shape[0]):
        a = np.flatnonzero(seen[row])
        if a.size:
            total += multivariate_normal.logpdf(X[row, a], now.mu[a], covariance[np.ix_(a, a)])
    return total + sum(float(prior.log_density(w)) for w in now.L[lay.allowed])


NOISES = ["view", "feature"]


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("case", CASES)
def test_ard_bound_matches_slow_formula(case, noise):
    X, seen, lay, _, _, state, step = problem(case, "ard", noise=noise)
    seen = np.ones_like(X, dtype=bool) if CASES[case][-1] == 0 else seen
    for _ in range(3):
        result = step(state)
        expected = slow_bound(X, seen, lay, state.ahead, result.fitted)
        # The grid search for the inclusion probability has this accuracy.
        assert result.bound == pytest.approx(expected, rel=1e-9, abs=1e-5)
        state = result


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("prior", "noise"),
    [*((name, "view") for name in PRIORS if PRIORS[name]), ("jeffreys", "feature")],
)
def test_log_posterior_matches_slow_formula(case, prior, noise):
    X, seen, lay, _, prior, state, step = problem(case, prior, noise=noise)
    seen = np.ones_like(X, dtype=bool) if CASES[case][-1] == 0 else seen
    for _ in range(3):
        state = step(state)
        expected = slow_posterior(X, seen, lay, state.fitted, prior)
        assert state.bound == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("noise", NOISES)
def test_objective_is_non_decreasing(case, prior, noise):
    *_, state, step = problem(case, prior, 1, noise)
    for _ in range(40):
        result = step(state)
        assert result.bound >= state.bound - 1e-9 * abs(result.bound)
        state = result


@pytest.mark.parametrize("case", ["two views", "two views, missing values"])
def test_acceleration_respects_the_minimum_noise(case):
    _, _, lay, data, _, state, _ = problem(case, "jeffreys")
    largest = max_precisions(data, lay)
    near = state._replace(ahead=state.ahead._replace(tau=0.9 * largest))
    anderson = accelerator(largest)
    far = anderson.unpack(anderson.pack(near) + 1.0, near)
    np.testing.assert_array_equal(far.ahead.tau, largest)


@pytest.mark.parametrize("case", ["one view", "two views", "two views, missing values"])
@pytest.mark.parametrize("prior", PRIORS)
def test_fixed_and_estimated_zeros_are_exact(case, prior):
    _, _, lay, data, _, state, step = problem(case, prior)
    run = iterate(
        step, state, max_iter=300, tol=1e-8, accelerator=accelerator(max_precisions(data, lay))
    )
    L = run.state.fitted.L
    assert np.all(np.isfinite(L))
    assert np.all(L[~lay.allowed] == 0)
    if prior == "ard":
        np.testing.assert_array_equal(L == 0, run.state.fitted.t == 0)
    if prior not in ("smooth", "point-normal"):
        assert np.any(L[lay.allowed] == 0)


@pytest.mark.parametrize("case", ["one view", "two views", "wide", "two views, missing values"])
@pytest.mark.parametrize("prior", [name for name in PRIORS if PRIORS[name] is not None])
def test_gradient_is_zero_at_nonzero_loadings(case, prior):
    _, _, lay, data, prior, state, step = problem(case, prior)
    run = iterate(
        step,
        state,
        max_iter=1500,
        tol=1e-12,
        accelerator=accelerator(max_precisions(data, lay)),
    )
    now = run.state.fitted

    def objective(L):
        trial = now._replace(L=L)
        m = data.moments(L, None, now.tau[lay.noise], now.mu)
        return log_likelihood(data, lay, trial, m) + np.sum(prior.log_density(L[lay.allowed]))

    stiffness = data.n * now.tau[lay.noise]
    for i, j in zip(*np.nonzero(now.L)):
        h = 1e-5 * max(abs(now.L[i, j]), 0.01)
        up, down = now.L.copy(), now.L.copy()
        up[i, j] += h
        down[i, j] -= h
        gradient = (objective(up) - objective(down)) / (2 * h)
        # In units of the curvature of the likelihood times the largest loading.
        assert abs(gradient) < 1e-4 * stiffness[i] * np.abs(now.L).max()
    # Zero loadings satisfy the optimality condition of the Laplace prior.
    if prior.shape == 1.0:
        m = data.moments(now.L, None, now.tau[lay.noise], now.mu)
        AL = np.einsum("ijk,ik->ij", np.broadcast_to(m.A, (len(now.L), *m.A.shape[1:])), now.L)
        gradient_at_zero = now.tau[lay.noise][:, None] * (m.G - AL)
        zero = (now.L == 0) & lay.allowed
        assert np.all(np.abs(gradient_at_zero[zero]) <= prior.l1 * (1 + 1e-6))


def random_rows(rng, p=12, Q=4, shared=True):
    root = rng.standard_normal((1 if shared else p, Q, 30))
    A = root @ root.transpose(0, 2, 1)
    return A, rng.normal(0, 12, (p, Q)), rng.uniform(0.5, 3, p)


def row_evidence(t, tau, A, g):
    """log int exp(tau (g'l - l'A l / 2)) N(l; 0, diag t) dl over the included loadings."""
    a = np.flatnonzero(t > 0)
    if a.size == 0:
        return 0.0
    C = np.linalg.inv(np.diag(1 / t[a]) + tau * A[np.ix_(a, a)])
    return 0.5 * (np.linalg.slogdet(C)[1] - np.log(t[a]).sum()) + 0.5 * tau**2 * g[a] @ C @ g[a]


@pytest.mark.parametrize("shared", [True, False])
def test_sweeps_converge_to_optimal_prior_variances(shared, rng):
    """No change of a single prior variance increases the evidence of a row."""
    A, G, tau = random_rows(rng, shared=shared)
    allowed = rng.random((12, 4)) < 0.8
    t = np.where(allowed, 1.0, 0.0)
    for _ in range(300):
        rows = update_ard_rows(t, tau, A, G, allowed, np.zeros((12, 4)))
        t = rows.t
    assert np.any(t[allowed] == 0)
    assert np.any(t > 0)
    for i in range(12):
        A_i = A[0] if shared else A[i]
        best = row_evidence(t[i], tau[i], A_i, G[i])
        for j in np.flatnonzero(allowed[i]):
            for value in (0.0, t[i, j] * 0.7, t[i, j] * 1.4, 1e-5, 0.1):
                other = t[i].copy()
                other[j] = value
                assert row_evidence(other, tau[i], A_i, G[i]) <= best + 1e-9


@pytest.mark.parametrize("shared", [True, False])
def test_rows_after_a_sweep_are_the_posterior(shared, rng):
    """Rank-one updates agree with a new factorisation, (26)."""
    A, G, tau = random_rows(rng, shared=shared)
    everywhere = np.ones((12, 4))
    rows = update_ard_rows(everywhere, tau, A, G, everywhere > 0, 0.5 * everywhere)
    C, log_det = row_covariances(rows.t, tau, A)
    np.testing.assert_allclose(rows.C, C, atol=1e-12)
    np.testing.assert_allclose(rows.L, tau[:, None] * np.einsum("ijk,ik->ij", C, G), atol=1e-10)
    np.testing.assert_allclose(rows.log_det, log_det, rtol=1e-10, atol=1e-12)
    for i in range(12):
        a = np.flatnonzero(rows.t[i] > 0)
        A_i = (A[0] if shared else A[i])[np.ix_(a, a)]
        slow = np.linalg.inv(np.diag(1 / rows.t[i][a]) + tau[i] * A_i)
        np.testing.assert_allclose(rows.C[i][np.ix_(a, a)], slow, rtol=1e-8, atol=1e-14)


def test_map_rows_with_a_flat_prior_are_least_squares(rng):
    A, G, tau = random_rows(rng)
    L = np.zeros((12, 4))
    for _ in range(200):
        L = update_map_rows(L, tau, A, G, np.ones((12, 4), bool), HyperbolicPrior(1.0, 0.0))
    np.testing.assert_allclose(L, np.linalg.solve(A[0], G.T).T, rtol=1e-8)


@pytest.mark.parametrize("prior", PRIORS)
def test_reduced_rows_give_the_same_steps(prior):
    X, _, _, _, _, state, _ = problem("one view", prior)
    lay = view_layout([np.arange(8)], 3, [0])
    prior = None if PRIORS[prior] is None else HyperbolicPrior(*PRIORS[prior])
    op = DenseOperator(X)
    reduced = spectrum(op).op
    assert reduced.shape == (8, 8)
    steps = [step_of(CompleteSamples(one, 30), lay, prior) for one in (op, reduced)]
    a = b = state
    for _ in range(8):
        a, b = steps[0](a), steps[1](b)
        assert a.bound == pytest.approx(b.bound, rel=1e-10)


@pytest.mark.parametrize("prior", PRIORS)
def test_complete_data_as_incomplete_samples(prior):
    X, _, lay, _, prior, state, step = problem("two views", prior)
    data = IncompleteSamples(X, np.ones_like(X, dtype=bool))
    other = step_of(data, lay, prior)
    a = b = state
    for _ in range(6):
        a, b = step(a), other(b)
        assert a.bound == pytest.approx(b.bound, rel=1e-9)
        np.testing.assert_allclose(a.ahead.L, b.ahead.L, atol=1e-8)


def test_varimax_finds_a_sparse_basis(rng):
    L = np.kron(np.eye(3), np.ones((4, 1))) * rng.uniform(1, 2, (12, 1))
    turned = L @ np.linalg.qr(rng.standard_normal((3, 3)))[0]
    R = varimax(turned)
    np.testing.assert_allclose(R.T @ R, np.eye(3), atol=1e-12)
    back = np.abs(turned @ R)
    assert np.sum(back > 1e-4) == 12
