"""Bayesian model averaging, compared with dense sums over all sets."""

import itertools
import pickle
from typing import NamedTuple

import numpy as np
import pytest
from regressions import correlated_design, model_of, problem
from scipy import sparse
from scipy.special import softmax
from sklearn.linear_model import RidgeCV

from prosparse import NoStructureWarning, ParameterError, SpinyRegressor, load, save
from prosparse.datasets import make_sparse_regression
from prosparse.models.spinyreg import averaging as av
from prosparse.models.spinyreg import screening
from prosparse.models.spinyreg import slab_scales as ss
from prosparse.models.spinyreg.linear_states import JumpTargets, LinearVisit
from prosparse.models.spinyreg.screening import max_linear_sizes
from prosparse.models.spinyreg.size_prior import log_size_prior
from prosparse.models.spinyreg.stepwise import rules_for, search


def searched(data, n, p):
    """Return the best set of the search and the states of the average."""
    rules = rules_for(p, max_linear_sizes(n, p, True), max_iter=1000, tol=1e-6)
    fit = search(data, lambda: data.B[:, 0], rules)[-1].state.fit
    return fit, data.states(rules.log_prior, fit)


def sum_all(space):
    """Average over all sets by enumeration."""
    sums, by_size, sizes = space.enumerate_sets()
    inclusion = av.Inclusion(sums.weight, by_size, sizes)
    return av.summarise(space, inclusion, np.arange(space.n_variables), sums, True)


class Term(NamedTuple):
    """Marked set at one grid point, computed with n x n matrices."""

    log_posterior: float
    active: np.ndarray
    m: np.ndarray
    S: np.ndarray
    noise: float
    state: tuple  # variables, marks, grid point


def label_prior(labels):
    """Compute the prior of labels, a Beta(1/2, 1/2) mixture of binomials."""
    theta = np.sin(np.pi / 4 * (1 + np.polynomial.legendre.leggauss(60)[0])) ** 2
    share = np.polynomial.legendre.leggauss(60)[1] / 2
    return float(share @ (theta ** sum(labels) * (1 - theta) ** (len(labels) - sum(labels))))


def priors_of(q, rho, common=False):
    """Yield marks, prior covariance of q coefficients relative to sigma2 / lambda, and prior."""
    for marks in itertools.product((0, 1), repeat=q):
        if rho:
            s = 2.0 * np.array(marks) - 1.0
            first = tuple(int(mark == marks[0]) for mark in marks)
            yield first, np.eye(q) + rho * np.outer(s, s), label_prior(marks) if common else 0.5**q
        else:
            yield marks, np.diag(np.where(marks, 64.0, 1.0)), label_prior(marks)


def slow_terms(X, y, prior, common=False):
    """Enumerate all sets, marks and grid points; centred y has n - 1 degrees of freedom."""
    n, p = X.shape
    free, log_prior = n - 1, log_size_prior(p)
    terms = []
    for q in range(p + 1):
        cases, states = [], []
        for a, (log_ratio, rho, log_kind) in enumerate(zip(*prior.grid, strict=True)):
            for marks, covariance, share in priors_of(q, rho, common):
                cases.append((covariance.reshape(q, q) / np.exp(log_ratio), log_kind, share))
                states.append((marks, a))
        B = np.array([case[0] for case in cases])
        log_posterior_of = log_prior[q] + np.array([case[1] + np.log(case[2]) for case in cases])
        for v in itertools.combinations(range(p), q):
            Z = X[:, v]
            C = np.eye(n) + Z @ B @ Z.T
            inverse = np.linalg.inv(C)
            R = np.einsum("i,tij,j->t", y, inverse, y)
            m, S = np.zeros((len(B), p)), np.zeros((len(B), p, p))
            m[:, v] = B @ Z.T @ inverse @ y
            noise = R / (free - 2)
            S[np.ix_(range(len(B)), v, v)] = noise[:, None, None] * (B - B @ Z.T @ inverse @ Z @ B)
            log_posteriors = log_posterior_of - 0.5 * (free * np.log(R) + np.linalg.slogdet(C)[1])
            active = np.isin(np.arange(p), v)
            terms += [
                Term(log_posteriors[t], active, m[t], S[t], noise[t], (v, *states[t]))
                for t in range(len(B))
            ]
    return terms


def slow_average(terms):
    """Compute inclusion probabilities, means, covariances and noise variance."""
    weights = softmax([term.log_posterior for term in terms])
    inclusion, mean, noise = (
        np.tensordot(weights, np.array([getattr(term, name) for term in terms]), 1)
        for name in ("active", "m", "noise")
    )
    squares = np.array([term.S + np.outer(term.m, term.m) for term in terms])
    return inclusion, mean, np.tensordot(weights, squares, 1) - np.outer(mean, mean), noise


@pytest.fixture(scope="module")
def terms():
    """Terms of a small problem with high uncertainty."""
    X, y, data, _ = problem(25, 5, seed=3, q=2, noise=3.0)
    fit, space = searched(data, 25, 5)
    return data, fit, space, slow_terms(X, y, space.prior)


@pytest.fixture(scope="module")
def summed(terms):
    """Average of the same problem."""
    data, fit, space, all_terms = terms
    return data, fit, space, slow_average(all_terms)


def test_enumeration_equals_dense_sums(summed):
    _, _, space, (inclusion, mean, covariance, noise) = summed
    found = sum_all(space)
    assert 0.05 < inclusion.min() < inclusion.max() < 1.0  # The problem is informative.
    np.testing.assert_allclose(found.inclusion, inclusion, rtol=1e-9)
    np.testing.assert_allclose(found.mean[0], mean, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(found.covariance[0, 1:, 1:], covariance, rtol=1e-8, atol=1e-12)
    assert found.covariance[0, 0, 0] == pytest.approx(noise / 25, rel=1e-9)
    assert found.sigma2[0] == pytest.approx(noise, rel=1e-9)
    assert found.excluded_variance == 0.0


@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
def test_common_sign():
    """Effects of one sign are more probable; flipped columns change the result."""
    X, y, data, _ = problem(25, 4, seed=3, q=2, noise=3.0)
    data = data._replace(common_sign=True)
    _, space = searched(data, 25, 4)
    inclusion, mean, _, _ = slow_average(slow_terms(X, y, space.prior, common=True))
    found = sum_all(space)
    np.testing.assert_allclose(found.inclusion, inclusion, rtol=1e-9)
    np.testing.assert_allclose(found.mean[0], mean, rtol=1e-8, atol=1e-12)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 30))
    y = 0.4 * X[:, :5].sum(axis=1) + rng.standard_normal(60)
    probabilities = [
        SpinyRegressor(common_sign=same).fit(X * signs, y).inclusion_probability_[:5].sum()
        for same, signs in ((False, 1.0), (True, 1.0), (True, rng.choice([-1.0, 1.0], 30)))
    ]
    assert probabilities[1] > max(probabilities[0], probabilities[2])


def test_jump_process_agrees_with_enumeration(summed, monkeypatch):
    _, fit, space, (inclusion, mean, covariance, noise) = summed
    monkeypatch.setattr(av, "STABILITY_TOL", 0.0)
    monkeypatch.setattr(av, "MAX_STATES", 16_000)
    found, _ = av.sample(space, fit.v, np.random.default_rng(0), [])
    np.testing.assert_allclose(found.inclusion, inclusion, atol=0.02)
    size = np.sqrt(np.diagonal(covariance))
    np.testing.assert_allclose(found.mean[0], mean, atol=0.05 * size.max())
    np.testing.assert_allclose(found.covariance[0, 1:, 1:], covariance, atol=0.05 * size.max() ** 2)
    assert found.sigma2[0] == pytest.approx(noise, rel=0.02)
    exact = sum_all(space)
    numbers = exact.size_probability.size
    np.testing.assert_allclose(found.by_size[:, :numbers], exact.by_size, atol=0.02)
    np.testing.assert_allclose(found.size_probability[:numbers], exact.size_probability, atol=0.03)


def test_inclusion_over_the_second_half_of_a_run():
    """The third state is visited in the second half only."""
    states = [
        LinearVisit(np.zeros(1, dtype=int), 0.0, np.ones(1), np.array([q]), np.zeros(0))
        for q in (0.1, 0.5, 0.9)
    ]
    visits = av.Visits({}, [], states, [2.0, 3.0, 5.0])
    np.testing.assert_allclose(visits.inclusion(np.zeros(0)), [(0.2 + 1.5 + 4.5) / 10.0])
    np.testing.assert_allclose(visits.inclusion(np.array([2.0, 1.0])), [(0.0 + 1.0 + 4.5) / 7.0])


def test_jump_targets_do_not_change_the_average(summed, monkeypatch):
    _, fit, space, (inclusion, mean, covariance, _) = summed
    monkeypatch.setattr(av, "STABILITY_TOL", 0.0)
    monkeypatch.setattr(av, "MAX_STATES", 4000)
    intermediate_sets = [np.array(v) for v in ([0, 3], [3, 1, 2], [4], [0, 1, 2, 3, 4])]
    found, _ = av.sample(space, fit.v, np.random.default_rng(1), intermediate_sets)
    np.testing.assert_allclose(found.inclusion, inclusion, atol=0.03)
    size = np.sqrt(np.diagonal(covariance)).max()
    np.testing.assert_allclose(found.mean[0], mean, atol=0.1 * size)


def test_jump_targets_connect_distant_sets():
    """The response is the difference of two nearly equal variables."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 6))
    X[:, 1] = X[:, 0] + 0.001 * X[:, 1]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = X[:, 0] - X[:, 1]
    y -= X[:, 0] * (X[:, 0] @ y) / 40
    y = y / y.std() + rng.standard_normal(40)
    y -= y.mean()
    data = model_of(X, y, len(y) - 1)
    _, space = searched(data, 40, 6)
    exact = sum_all(space).inclusion
    assert exact[:2].min() > 0.6
    nothing, draws = np.zeros(0, dtype=int), np.random.default_rng(1)
    stuck = av.sample(space, nothing, draws, [])[0].inclusion
    assert stuck[:2].max() < 0.5  # The problem is informative.
    found = av.sample(space, nothing, draws, [np.array([0, 1])])[0].inclusion
    np.testing.assert_allclose(found, exact, atol=0.05)


def test_rates_follow_from_densities(terms):
    """Rates are pi(new) / (pi(old) + pi(new)); s and -s are the same model."""
    data, _, space, all_terms = terms
    prior, log_posteriors = space.prior, {}
    for term in all_terms:
        log_posteriors[term.state] = np.logaddexp(
            log_posteriors.get(term.state, -np.inf), term.log_posterior
        )
    p, grid = data.n_variables, prior.grid
    independent = grid.n_independent
    states = [((0, 3), (1, 0), 3), ((1,), (0,), 0), ((), (), 5), ((), (), independent + 3)]
    states += [((0, 2, 3), (0, 0, 0), 4), ((2,), (1,), independent + 3)]
    states += [((0, 1, 2, 3, 4), (1, 1, 1, 0, 1), independent), ((0, 1, 2, 3, 4), (1,) * 5, 1)]
    states += [((0, 1, 4), (1, 0, 0), a) for a in range(0, grid.rho.size, 4)]
    space.targets = JumpTargets([], [], [], independent, np.zeros((0, grid.rho.size)))
    for v, marks, a in states:
        at = ss.state_rates(data, prior, np.array(v, int), np.array(marks, int), a)
        q, common = len(v), a >= independent
        assert at.rates.size == 2 * p + q + grid.rho.size
        led = 0
        for j in np.flatnonzero(at.rates):
            (there, new), b, _ = space.move(((v, marks), a, 0), at, int(j))
            expected = 1.0 / (
                1.0 + np.exp(log_posteriors[v, marks, a] - log_posteriors[there, new, b])
            )
            rate = ss.GRID_RATE if j >= 2 * p + q else 1.0
            assert at.rates[j] == pytest.approx(rate * expected, rel=1e-7)
            led += there != v
        assert led == q + (p - q) * (1 if common and not q else 2)
        changes = np.count_nonzero(at.rates[2 * p : 2 * p + q])
        assert changes == (0 if common and q == 1 else q)
        log_density = at.log_density[a] + prior.log_prior[q]
        np.testing.assert_allclose(log_density, log_posteriors[v, marks, a])
        given = [conditional(log_posteriors, v, marks, a, j, common) for j in range(p)]
        np.testing.assert_allclose(at.inclusion, given, rtol=1e-7)


def conditional(log_posteriors, v, marks, a, j, common):
    """Compute the probability of variable j given all others and their marks."""
    others = {i: mark for i, mark in zip(v, marks, strict=True) if i != j}

    def log_posterior_of(marked):
        members = tuple(sorted(marked))
        new = tuple(marked[i] for i in members)
        if common and new and not new[0]:
            new = tuple(1 - mark for mark in new)
        return log_posteriors[members, new, a]

    cases = (1,) if common and not others else (0, 1)
    having = [log_posterior_of({**others, j: mark}) for mark in cases]
    return 1.0 / (1.0 + np.exp(log_posterior_of(others) - np.logaddexp.reduce(having)))


def test_jumps_between_priors_are_reversible(summed):
    """Detailed balance requires reversible jumps."""
    data, _, space, _ = summed
    prior, p, grid = space.prior, data.n_variables, space.prior.grid
    independent = grid.n_independent
    space.targets = JumpTargets([], [], [], independent, np.zeros((0, grid.rho.size)))
    v = (0, 1, 4)

    def targets(marks, a):
        at = ss.state_rates(data, prior, np.array(v), np.array(marks), a)
        start = 2 * p + len(v)
        to = start + np.flatnonzero(at.rates[start:])
        return {space.move(((v, marks), a, 0), at, int(j)) for j in to}

    for a in range(independent):
        there = [state for state in targets((0, 0, 0), a) if state[1] >= independent]
        assert len(there) == grid.rho.size - independent
        for (_, signs), b, _ in there[::5]:
            assert ((v, (0, 0, 0)), a, 0) in targets(signs, b)
        assert all(b < independent for _, b, _ in targets((0, 1, 0), a))
    unlike = [
        all(b >= independent for _, b, _ in targets(signs, independent + 2))
        for signs in ((1, 1, 1), (1, 1, 0))
    ]
    assert any(unlike)


def dense_terms(X, y, space):
    """Enumerate all sets, marks, grid points and levels of total coefficients."""
    n, p = X.shape
    free, prior, log_prior = n - 1, space.prior, log_size_prior(p)
    terms = []
    for q, level in itertools.product(range(p + 1), range(space.n_levels)):
        kappa, log_level = space.dense.kappa[level], space.dense.log_prior[level]
        for log_ratio, rho, log_kind in zip(*prior.grid, strict=True):
            for marks, covariance, share in priors_of(q, rho):
                for v in itertools.combinations(range(p), q):
                    B = np.eye(p) / kappa
                    B[np.ix_(v, v)] += covariance.reshape(q, q) / np.exp(log_ratio)
                    C = np.eye(n) + X @ B @ X.T
                    gain = B @ X.T @ np.linalg.inv(C)
                    R = float(y @ np.linalg.solve(C, y))
                    fit = -0.5 * (free * np.log(R) + np.linalg.slogdet(C)[1])
                    log_posterior = log_prior[q] + log_kind + np.log(share) + log_level + fit
                    noise = R / (free - 2)
                    S = noise * (B - gain @ X @ B)
                    active = np.isin(np.arange(p), v)
                    terms.append(Term(log_posterior, active, gain @ y, S, noise, (v, marks)))
    return terms


def test_dense_component_agrees_with_dense_sums(monkeypatch):
    X, y, data, _ = problem(25, 3, seed=3, q=2, noise=3.0)
    fit, sparse_space = searched(data, 25, 3)
    grid = sparse_space.prior.grid
    few = ss.PriorGrid(*(each[::4] for each in grid))
    assert few.rho.any()
    sparse_space.prior = sparse_space.prior._replace(grid=few)
    space = sparse_space.with_dense_component()
    assert space.with_dense_component() is None
    terms = dense_terms(X, y, space)
    inclusion, mean, covariance, noise = slow_average(terms)
    monkeypatch.setattr(av, "STABILITY_TOL", 0.0)
    monkeypatch.setattr(av, "MAX_STATES", 8000)
    order = np.array([2, 0, 1])
    found, log_evidence = av.sample(
        space.take(order), np.argsort(order)[fit.v], np.random.default_rng(0), []
    )
    found = av.spread(found, order, 3)
    np.testing.assert_allclose(found.inclusion, inclusion, atol=0.03)
    size = np.sqrt(np.diagonal(covariance))
    np.testing.assert_allclose(found.mean[0], mean, atol=0.05 * size.max())
    np.testing.assert_allclose(found.variance[0], size**2, rtol=0.1)
    assert found.sigma2[0] == pytest.approx(noise, rel=0.03)
    exact = float(np.logaddexp.reduce([term.log_posterior for term in terms]))
    assert exact - 0.2 < log_evidence < exact + 1.0  # The entropy is an upper bound.


def test_mixture_of_two_averages():
    """Mean and covariance are those of a mixture with different candidates."""
    rng = np.random.default_rng(0)

    def average(candidates):
        p, k = 4, len(candidates)
        mean = np.zeros((1, p))
        mean[:, candidates] = rng.standard_normal(k)
        A = rng.standard_normal((1, 1 + k, 1 + k))
        covariance = A @ np.swapaxes(A, 1, 2)
        variance = np.zeros((1, p))
        variance[:, candidates] = np.diagonal(covariance[0])[1:]
        none = np.zeros(1)
        return av.Average(
            *[np.ones(p)] * 2, np.ones((p, 2)), np.ones(2), rng.standard_normal(1), mean, variance,
            mean, variance, np.array(candidates), covariance, np.ones((k, k)), none, np.ones(1),
        )  # fmt: skip

    first, second = average([0, 2]), average([1, 2, 3])
    found = av.mix(first, second, 0.3, np.ones(4))
    assert found.candidates.tolist() == [0, 1, 2, 3]
    expected = np.zeros((5, 5))
    for weight, each in ((0.3, first), (0.7, second)):
        at = np.concatenate([[0], 1 + each.candidates])
        full = np.zeros((5, 5))
        full[np.ix_(at, at)] = each.covariance[0]
        total = np.append(each.intercept, each.mean[0])
        expected += weight * (full + np.outer(total, total))
    total = np.append(found.intercept, found.mean[0])
    np.testing.assert_allclose(found.covariance[0], expected - np.outer(total, total))
    np.testing.assert_allclose(found.variance[0], np.diagonal(found.covariance[0])[1:])
    np.testing.assert_allclose(found.active_variance, found.variance)


@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
def test_many_small_effects(monkeypatch):
    """Three large effects and small effects of all variables are predicted well."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 150))
    coef = 0.1 * rng.standard_normal(150)
    coef[:3] += [2.0, -2.0, 2.0]
    y = X @ coef + rng.standard_normal(200)
    model = SpinyRegressor().fit(X, y)
    assert model.dense_probability_ > 0.5
    assert np.all(model.support_[:3])
    ridge = RidgeCV(np.geomspace(1.0, 1e4, 20)).fit(X, y)
    assert np.sum((model.coef_ - coef) ** 2) < 0.9 * np.sum((ridge.coef_ - coef) ** 2)
    low, high = model.coef_interval().T
    assert np.mean((low <= coef) & (coef <= high)) > 0.85
    new = rng.standard_normal((2000, 150))
    mean, std = model.predict(new, return_std=True)
    error = np.abs(new @ coef + rng.standard_normal(2000) - mean)
    assert 0.92 < np.mean(error < 1.96 * std) < 0.98
    few = SpinyRegressor().fit(X[:, :5], y)
    assert few.dense_probability_ == 0.0
    monkeypatch.setattr(screening, "MAX_SHORTLIST", 100)
    assert SpinyRegressor().fit(X, y).dense_probability_ == 0.0


def test_columns_may_change_sign(uncertain):
    """The average does not depend on the signs of columns."""
    X, y, _, model = uncertain
    signs = np.where(np.arange(40) % 3 == 0, -1.0, 1.0)
    flipped = SpinyRegressor().fit(X * signs, y)
    np.testing.assert_allclose(flipped.coef_, signs * model.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(flipped.support_, model.support_)


@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
def test_one_large_coefficient_beside_small_ones(monkeypatch):
    """Two scales predict better than one."""
    errors = []
    for ratio in (8.0, 1.0):
        monkeypatch.setattr(ss, "SCALES", np.array([1.0, ratio]))
        for seed in range(3):
            rng = np.random.default_rng(seed)
            X, coef = rng.standard_normal((200, 50)), np.zeros(50)
            coef[:11] = np.r_[2.0, np.full(10, 0.15)]
            model = SpinyRegressor().fit(X, X @ coef + 0.6 * rng.standard_normal(200))
            errors.append(np.sum((model.coef_ - coef) ** 2))
    assert np.sum(errors[:3]) < 0.9 * np.sum(errors[3:])


def test_predictions_average_over_all_sets(rng, summed):
    """Predictions are in the units of the data, for dense and sparse input."""
    X, y, _ = make_sparse_regression(25, 5, n_informative=2, noise=3.0, random_state=3)
    X, y = 3.0 * X + 1.0, 100.0 * y + 7.0
    model = SpinyRegressor().fit(X, y)
    _, mean, covariance, noise = summed[-1]
    mean, covariance, noise = 100.0 * mean, 1e4 * covariance, 1e4 * noise
    new = 3.0 * rng.standard_normal((10, 5))
    z = (new - X.mean(axis=0)) / X.std(axis=0)
    variance = noise * (1 + 1 / 25) + np.einsum("ij,jk,ik->i", z, covariance, z)
    for table in (new, sparse.csr_array(new)):
        prediction, deviation = model.predict(table, return_std=True)
        np.testing.assert_allclose(prediction, y.mean() + z @ mean, rtol=1e-7)
        np.testing.assert_allclose(deviation, np.sqrt(variance), rtol=1e-7)
    np.testing.assert_allclose(model.coef_, mean / X.std(axis=0), rtol=1e-7)
    std = np.sqrt(np.diagonal(covariance)) / X.std(axis=0)
    np.testing.assert_allclose(model.coef_std_, std, rtol=1e-7)
    assert model.noise_variance_ == pytest.approx(noise, rel=1e-7)


@pytest.fixture(scope="module")
def uncertain():
    """Fit of forty variables with weak signals, whose sets are sampled."""
    X, y, coef = make_sparse_regression(60, 40, n_informative=4, noise=2.5, random_state=0)
    return X, y, coef, SpinyRegressor().fit(X, y)


def test_random_state_determines_the_average(uncertain):
    X, y, _, model = uncertain
    again = SpinyRegressor().fit(X, y)
    np.testing.assert_array_equal(again.coef_, model.coef_)
    other = SpinyRegressor(random_state=1).fit(X, y)
    assert np.any(other.coef_ != model.coef_)
    np.testing.assert_allclose(
        other.inclusion_probability_, model.inclusion_probability_, atol=0.15
    )
    assert np.sum(other.support_ != model.support_) <= 1


def test_column_order_does_not_change_the_average(uncertain, rng):
    X, y, _, model = uncertain
    columns = rng.permutation(40)
    moved = SpinyRegressor().fit(X[:, columns], y)
    np.testing.assert_allclose(moved.predict(X[:, columns]), model.predict(X), rtol=1e-6)
    np.testing.assert_allclose(
        moved.inclusion_probability_, model.inclusion_probability_[columns], rtol=1e-6
    )
    both = [
        each.predict(table, return_std=True)[1]
        for each, table in ((moved, X[:, columns]), (model, X))
    ]
    np.testing.assert_allclose(both[0], both[1], rtol=1e-6)


def test_saved_and_pickled_models_predict_the_same(uncertain, tmp_path):
    X, _, _, model = uncertain
    for again in (load(save(model, tmp_path / "model")), pickle.loads(pickle.dumps(model))):
        for one, other in zip(
            again.predict(X, return_std=True), model.predict(X, return_std=True), strict=True
        ):
            np.testing.assert_array_equal(one, other)
        for group, same in zip(again.credible_sets_, model.credible_sets_, strict=True):
            np.testing.assert_array_equal(group, same)


def test_predictions_without_averaging(uncertain):
    X, y, _, model = uncertain
    alone = SpinyRegressor(selection_rule="map", average=False).fit(X, y)
    averaged = SpinyRegressor(selection_rule="map").fit(X, y)
    np.testing.assert_array_equal(alone.selected_coef_, averaged.selected_coef_)
    np.testing.assert_array_equal(alone.coef_, alone.selected_coef_)
    assert not hasattr(alone, "inclusion_probability_")
    ols = SpinyRegressor(refit="ols").fit(X, y)
    np.testing.assert_array_equal(ols.coef_, ols.selected_coef_)
    np.testing.assert_array_equal(ols.inclusion_probability_, model.inclusion_probability_)


def test_median_probability_model(uncertain):
    X, y, _, model = uncertain
    median = SpinyRegressor(selection_rule="median").fit(X, y)
    np.testing.assert_array_equal(median.support_, model.inclusion_probability_ > 0.5)
    np.testing.assert_array_equal(median.selected_coef_ != 0, median.support_)
    assert median.n_selected_ == median.support_.sum()
    order = np.argsort(median.ranking_)
    assert set(order[: median.n_selected_]) == set(np.flatnonzero(median.support_))


@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
@pytest.mark.parametrize(
    ("options", "least", "most"),
    [({}, 0.92, 0.97), ({"selection_rule": "map", "average": False}, 0.0, 0.92)],
)
def test_intervals_cover(options, least, most):
    """Intervals without averaging are too short, because they ignore model uncertainty."""
    covered = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((560, 60))
        y = X[:, :5].sum(axis=1) + 1.6 * rng.standard_normal(560)
        model = SpinyRegressor(**options).fit(X[:60], y[:60])
        mean, std = model.predict(X[60:], return_std=True)
        covered.append(np.mean(np.abs(y[60:] - mean) < 1.96 * std))
    assert least < np.mean(covered) < most


def test_copies_share_a_credible_set():
    X, y, coef = make_sparse_regression(60, 20, n_informative=3, random_state=0)
    true = np.flatnonzero(coef)
    model = SpinyRegressor().fit(np.hstack([X, X[:, true[:1]]]), y)
    assert model.n_selected_ == len(model.credible_sets_) == 3
    groups = {frozenset(group.tolist()) for group in model.credible_sets_}
    assert groups == {frozenset({true[0], 20}), frozenset({true[1]}), frozenset({true[2]})}
    halves = model.inclusion_probability_[[true[0], 20]]
    assert halves.sum() == pytest.approx(1.0, abs=0.2)
    assert model.inclusion_probability_[true[1:]].min() > 0.95


def test_suppressor_variables_have_high_probability():
    """The response depends on the difference of two nearly equal variables."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 40))
    X[:, 1] = X[:, 0] + 0.1 * rng.standard_normal(60)
    y = 10.0 * (X[:, 1] - X[:, 0]) + 0.3 * rng.standard_normal(60)
    model = SpinyRegressor().fit(X, y)
    assert np.flatnonzero(model.support_).tolist() == [0, 1]
    assert model.inclusion_probability_[:2].min() > 0.95
    assert model.score(X, y) > 0.85


@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
def test_averaged_predictions_of_noise_are_close_to_the_mean():
    shares = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((50, 10)), rng.standard_normal(50)
        model = SpinyRegressor(selection_rule="median").fit(X, y)
        shares.append((model.n_selected_, np.var(model.predict(X)) / np.var(y)))
    assert np.mean([n == 0 for n, _ in shares]) >= 0.85
    assert np.median([share for _, share in shares]) < 0.05


def test_promising_variables_are_sampled():
    X, y, coef = make_sparse_regression(60, 600, n_informative=3, random_state=0)
    _, _, data, _ = problem(60, 600, q=3)
    fit, space = searched(data, 60, 600)
    visited = av.select_promising(data, fit, space.max_visited)
    assert space.max_visited / 2 <= visited.size <= space.max_visited + fit.v.size
    assert set(np.flatnonzero(coef)) <= set(visited.tolist())
    assert np.all(np.diff(np.abs(data.B[visited, 0])) <= 0)
    model = SpinyRegressor().fit(X, y)
    assert model.inclusion_probability_[coef != 0].min() > 0.95
    others = np.setdiff1d(np.arange(600), visited)
    assert not model.inclusion_probability_[others].any()
    assert np.all(np.diff(model.candidate_indices_) > 0)


def test_jointly_relevant_variables_are_found():
    """Five of a thousand variables are relevant jointly but not one by one."""
    truth = correlated_design(1009)
    model = SpinyRegressor().fit(truth.X, truth.y)
    true = truth.coef != 0.0
    assert model.inclusion_probability_[true].min() > 0.5
    assert truth.relative_error(model.coef_) < 2.0


def test_invalid_parameters():
    X, y, _ = make_sparse_regression(20, 5, n_informative=2, random_state=0)
    with pytest.raises(
        ParameterError, match="`selection_rule` must be one of 'f-score', 'map', 'median'"
    ):
        SpinyRegressor(selection_rule="best").fit(X, y)
    with pytest.raises(ParameterError, match="`average` must be True or False, got 1"):
        SpinyRegressor(average=1).fit(X, y)


def test_constant_response():
    X = make_sparse_regression(20, 15, n_informative=2, random_state=0).X
    with pytest.warns(NoStructureWarning):
        model = SpinyRegressor().fit(X, np.full(20, 3.0))
    assert model.credible_sets_ == []
    assert np.all(np.isfinite(model.inclusion_probability_))
    np.testing.assert_allclose(model.predict(X), 3.0)
