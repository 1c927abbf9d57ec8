"""Posterior probabilities of variables given scores: densities, EM, calibration."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import comb

from prosparse.models.gsppca.inclusion import (
    NOISE_DOF,
    Explained,
    _Mixture,
    _normalise,
    infer_inclusion,
    initial_proportions,
    log_number_prior,
)

pytestmark = pytest.mark.quick


def exact(squares, r2, d, dof):
    p = len(squares)
    return Explained(
        np.asarray(squares, float), np.asarray(r2, float), d, dof, np.full(p, d), np.full(p, dof)
    )


def simulate(rng, p=400, dof=60, d=3, active=0.1, gain=100.0, noise=None):
    """Simulate sums of squares and R2 from the model."""
    noise = np.ones(p) if noise is None else noise
    truth = rng.random(p) < active
    g = np.where(truth, gain, 0.0)
    explained = noise * (1.0 + g) * rng.chisquare(d, p)
    unexplained = noise * rng.chisquare(dof - d, p)
    squares = explained + unexplained
    return exact(squares, explained / squares, d, dof), truth


def test_densities_are_those_of_the_regression(rng):
    """Compare all classes with multivariate normal densities, integrated over psi."""
    n, d, g, noise = 8, 2, 20.0, 0.7
    Z = np.linalg.qr(rng.standard_normal((n, d)))[0]
    x = rng.standard_normal(n)
    explained = exact([x @ x], [np.sum((Z.T @ x) ** 2) / (x @ x)], d, n)
    start = initial_proportions(0.5, noise, n, common=True)
    mixture = _Mixture(explained, start, 0.0)
    mixture.gains, mixture.log_gains = np.array([g]), np.log1p(np.array([g]))
    mixture.own_factors = mixture._own_factors(np.array([float(d)]), np.array([float(n)]))
    found = mixture.log_densities(noise)[0]

    def density(psi, g):
        return stats.multivariate_normal(np.zeros(n), psi * (np.eye(n) + g * Z @ Z.T)).pdf(x)

    def vague(g):
        return quad(lambda t: density(np.exp(t), g), -9, 12)[0]

    prior = stats.invgamma(0.5 * NOISE_DOF, scale=0.5 * NOISE_DOF * noise)
    own = quad(lambda t: density(np.exp(t), 0.0) * prior.pdf(np.exp(t)) * np.exp(t), -9, 12)[0]
    expected = [density(noise, 0.0), own, density(noise, g), own * vague(g) / vague(0.0)]
    np.testing.assert_allclose(found, np.log(expected), rtol=1e-6)


@pytest.mark.parametrize("common", [True, False])
def test_em_does_not_decrease_the_posterior(rng, common):
    noise = None if common else rng.lognormal(0.0, 1.0, 400)
    explained, _ = simulate(rng, noise=noise)
    proportions = initial_proportions(0.5, 2.0, explained.dof, common)
    mixture = _Mixture(explained, proportions, 0.0)
    values = []
    for _ in range(30):
        joint = mixture.log_joint(proportions)
        values.append(np.logaddexp.reduce(joint, axis=1).sum() + mixture.log_prior(proportions))
        densities = mixture.relative_densities(proportions.noise)
        proportions, active = mixture.update(proportions, densities)
        assert active == pytest.approx(np.sum(_normalise(joint)[1][:, 2:]))
        proportions = proportions._replace(noise=mixture.common_noise(proportions, densities))
    assert np.all(np.diff(values) >= -1e-8 * np.abs(values[1:]))
    assert values[-1] > values[0]


@pytest.mark.parametrize("equal_noise", [True, False])
def test_probabilities_are_calibrated(equal_noise):
    """Weak effects, so that many probabilities are neither 0 nor 1."""
    probabilities, truths = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        noise = None if equal_noise else rng.lognormal(0.0, 1.0, 400)
        explained, truth = simulate(rng, gain=12.0, noise=noise)
        start = initial_proportions(0.2, 1.0, explained.dof, common=True)
        probabilities.append(infer_inclusion(explained, start).probability)
        truths.append(truth)
    probability, truth = np.concatenate(probabilities), np.concatenate(truths)
    bins = np.minimum((10 * probability).astype(int), 9)
    for k in range(10):
        inside = bins == k
        error = 3.0 * np.sqrt(0.25 / inside.sum())
        assert abs(probability[inside].mean() - truth[inside].mean()) <= 0.05 + error


def test_common_noise_makes_variance_informative(rng):
    """A large variance is evidence only if the inactive variables have equal ones."""
    equal, _ = simulate(rng, active=0.0)
    squares = np.append(equal.squares, 20.0 * equal.dof)
    r2 = np.append(equal.r2, 0.25)
    unequal = np.append(equal.squares * rng.lognormal(0.0, 1.5, 400), 20.0 * equal.dof)
    start = initial_proportions(0.1, 1.0, equal.dof, common=True)
    informative = infer_inclusion(exact(squares, r2, 3, equal.dof), start)
    uninformative = infer_inclusion(exact(unequal, r2, 3, equal.dof), start)
    assert informative.probability[-1] > 0.95
    assert uninformative.probability[-1] < informative.probability[-1]
    assert uninformative.proportions.own_noise > 0.9
    assert informative.proportions.noise == pytest.approx(1.0, rel=0.05)


def test_heavy_tails_under_flips_decrease_probabilities(rng):
    explained, _ = simulate(rng)
    flipped = explained._replace(dof_flips=np.full(400, 10.0))
    start = initial_proportions(0.1, 1.0, explained.dof, common=False)
    plain, heavy = infer_inclusion(explained, start), infer_inclusion(flipped, start)
    assert heavy.probability.sum() < plain.probability.sum()
    assert np.all(infer_inclusion(flipped.without_flips(), start).probability == plain.probability)


def test_prior_of_the_number_of_variables():
    p = 6
    prior = np.exp(log_number_prior(np.arange(p + 1.0), p))
    np.testing.assert_allclose(prior * comb(p, np.arange(p + 1)), 1.0 / (p + 1))
