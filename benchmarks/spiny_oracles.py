"""Oracle rules for E22 with random positions and signs: lower bounds on the test error.

    python -m benchmarks.spiny_oracles            # 40 datasets per cell, an hour on two cores
    python -m benchmarks.spiny_oracles --datasets 5

Five coefficients are c or -c. Three oracles use part of this knowledge and average over all sets of
variables and signs by their posterior probability:

    complete oracle   five variables, c = 1, and ten candidate noise variances, which give the SNRs
                      of the grid for independent columns; close to the smallest possible error
    size oracle       five variables of common magnitude; c and the noise variance are unknown
    magnitude oracle  common magnitude; the number of variables (geometric prior with mean five), c
                      and the noise variance are unknown

For all of them the likelihood of a set with signs s depends on z = X_v s through z'y and z'z. One
product therefore gives the probabilities of all positions and signs of one variable given the
others. A Gibbs sampler draws these in turn. It starts at the truth, so short runs favour the
oracles. If the number of variables is unknown, Metropolis-Hastings steps add or remove a variable.
The relative test error is weighted by the noise precision, so the optimal mean is
E[b / sigma2] / E[1 / sigma2]. With little knowledge the plain mean can be better; the smaller error
of the two is shown.

The errors of SpinyRegressor and of the relaxed lasso are read from papers/results/E22.json.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln
from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import threadpool_limits

from papers.regression_grid import (
    N_TRUE,
    OURS,
    RANDOM,
    RELAXED,
    SETTINGS,
    SNRS,
    relative_error,
    simulate,
)

RECORD = Path(__file__).parents[1] / "papers" / "results" / "E22.json"
N_STEPS = 2000
N_BURN_IN = 100
MAX_SIZE = 40  # maximum number of variables if it is unknown


class Posterior(NamedTuple):
    """Posterior quantities for several z, from z'y and z'z."""

    log_density: np.ndarray  # log p(y | z), up to a constant
    precision: np.ndarray  # E[1 / sigma2]
    weighted: np.ndarray  # E[c / sigma2]
    mean: np.ndarray  # E[c]


Rule = Callable[[np.ndarray, np.ndarray], Posterior]


def complete_oracle(yy: float, degrees: int) -> Rule:
    """Return the rule for c = 1 and ten candidate values of sigma2."""
    sigma2 = N_TRUE / np.array(SNRS)

    def rule(zy: np.ndarray, zz: np.ndarray) -> Posterior:
        R = yy - 2.0 * zy + zz
        probability, log_density = normalise(
            -0.5 * (degrees * np.log(sigma2) + R[:, None] / sigma2)
        )
        precision = probability @ (1.0 / sigma2)
        return Posterior(log_density, precision, precision, np.ones_like(precision))

    return rule


def magnitude_rule(yy: float, degrees: int) -> Rule:
    """Return the rule for c ~ N(0, tau^2 sigma2), p(sigma2) ~ 1 / sigma2, half-Cauchy tau."""
    log_tau = np.log(2.0) * np.arange(-4, 4)
    log_prior, inverse = log_tau - np.logaddexp(0.0, 2.0 * log_tau), np.exp(-2.0 * log_tau)
    log_prior -= np.logaddexp.reduce(log_prior)

    def rule(zy: np.ndarray, zz: np.ndarray) -> Posterior:
        grown = zz[:, None] + inverse
        R = yy - zy[:, None] ** 2 / grown
        log_weight = log_prior - 0.5 * (degrees * np.log(R) + np.log(grown / inverse))
        probability, log_density = normalise(log_weight)
        size, precise = zy[:, None] / grown, probability * (degrees / R)
        sums = [part.sum(axis=1) for part in (precise, precise * size, probability * size)]
        return Posterior(log_density, *sums)

    return rule


def normalise(log_weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the softmax and the log-sum-exp of each row."""
    top = log_weight.max(axis=1, keepdims=True)
    probability = np.exp(log_weight - top)
    total = probability.sum(axis=1, keepdims=True)
    return probability / total, (top + np.log(total))[:, 0]


class Moments(NamedTuple):
    """Cross products of centred data."""

    G: np.ndarray  # (p, p) X'X
    b: np.ndarray  # (p,) X'y
    yy: float
    degrees: int  # degrees of freedom of y


class Additions(NamedTuple):
    """All additions of one variable to a signed set; positive signs first."""

    posterior: Posterior  # (2 p,) each
    log_total: float  # log sum of the densities
    probability: np.ndarray  # (2 p,)


def additions(data: Moments, rule: Rule, v: np.ndarray, signs: np.ndarray) -> Additions:
    """Return the posterior probabilities of all additions to a signed set."""
    both, along = np.array([1.0, -1.0])[:, None], signs @ data.G[v]  # X'z of the others
    zy = float(signs @ data.b[v]) + both * data.b
    zz = float(signs @ along[v]) + 2.0 * both * along + data.G.diagonal()
    posterior = rule(zy.ravel(), zz.ravel())
    log_density = posterior.log_density.reshape(2, -1).copy()
    log_density[:, v] = -np.inf
    top = float(log_density.max())
    probability = np.exp(log_density - top).ravel()
    total = float(probability.sum())
    return Additions(posterior, top + math.log(total), probability / total)


def log_density(data: Moments, rule: Rule, v: np.ndarray, signs: np.ndarray) -> float:
    """Return the log density of y given a signed set."""
    if v.size == 0:
        return -0.5 * data.degrees * math.log(data.yy)
    zy, zz = float(signs @ data.b[v]), float(signs @ data.G[np.ix_(v, v)] @ signs)
    return float(rule(np.array([zy]), np.array([zz])).log_density[0])


class Means(NamedTuple):
    """Sums over samples; see `posterior_means`."""

    weighted: np.ndarray  # (p,) of b / sigma2
    plain: np.ndarray  # (p,) of b
    precision: float  # of 1 / sigma2
    n_samples: int


def log_prior_of_sets(p: int) -> np.ndarray:
    """Return the log prior of a signed set of 0 .. MAX_SIZE variables; geometric in its size."""
    q = np.arange(min(p, MAX_SIZE) + 1)
    size_prior = -q * math.log(1.0 + 1.0 / N_TRUE)  # mean N_TRUE
    log_sets = gammaln(p + 1.0) - gammaln(q + 1.0) - gammaln(p - q + 1.0) + q * math.log(2.0)
    prior: np.ndarray = size_prior - np.logaddexp.reduce(size_prior) - log_sets
    return prior


def posterior_means(
    data: Moments, truth: np.ndarray, rule: Rule, log_prior: np.ndarray | None, seed: int
) -> Means:
    """Sample from ``truth`` on; without ``log_prior`` the number of variables is known."""
    rng = np.random.default_rng(seed)
    v, signs = np.flatnonzero(truth), np.sign(truth[truth != 0.0])
    weighted, plain, precision = np.zeros(truth.size), np.zeros(truth.size), 0.0
    for step in range(N_STEPS):
        after_burn_in = step >= N_BURN_IN
        if v.size:  # Resample position and sign of one variable.
            order = rng.permutation(v.size)
            v, signs = v[order], signs[order]
            others, other_signs = v[1:], signs[1:]
            candidates = additions(data, rule, others, other_signs)
            if after_burn_in:
                accumulate(weighted, candidates, candidates.posterior.weighted, others, other_signs)
                accumulate(plain, candidates, candidates.posterior.mean, others, other_signs)
                precision += float(candidates.probability @ candidates.posterior.precision)
            v, signs = sample_addition(others, other_signs, candidates, rng)
        elif after_burn_in:
            precision += data.degrees / data.yy
        if log_prior is not None:
            v, signs = add_or_remove(data, rule, log_prior, v, signs, rng)
    return Means(weighted, plain, precision, N_STEPS - N_BURN_IN)


def accumulate(
    sums: np.ndarray, candidates: Additions, size: np.ndarray, others: np.ndarray, signs: np.ndarray
) -> None:
    """Add the mean coefficients over all additions, with magnitudes ``size`` (2 p,)."""
    mean = (candidates.probability * size).reshape(2, -1)
    sums += mean[0] - mean[1]
    sums[others] += signs * mean.sum()


def sample_addition(
    v: np.ndarray, signs: np.ndarray, candidates: Additions, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Add a sampled variable with a sampled sign."""
    probability = candidates.probability
    index = int(np.searchsorted(np.cumsum(probability), rng.random()))
    sign, position = divmod(min(index, probability.size - 1), probability.size // 2)
    return np.append(v, position), np.append(signs, 1.0 - 2.0 * sign)


def add_or_remove(
    data: Moments,
    rule: Rule,
    log_prior: np.ndarray,
    v: np.ndarray,
    signs: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Propose to add or to remove a variable (Metropolis-Hastings).

    Let W be the sum of the posterior pi over all sets with one more variable. Additions to a set of
    size q are accepted with probability min(1, W / ((q + 1) pi)), the reverse removals with
    probability min(1, (q + 1) pi / W).
    """
    adding = rng.random() < 0.5
    if (v.size + 1 == log_prior.size) if adding else (v.size == 0):
        return v, signs
    order = rng.permutation(v.size)
    v, signs = v[order], signs[order]
    rest, rest_signs = (v, signs) if adding else (v[1:], signs[1:])
    candidates = additions(data, rule, rest, rest_signs)
    q = rest.size
    log_current = log_density(data, rule, rest, rest_signs) + log_prior[q]
    log_ratio = candidates.log_total + log_prior[q + 1] - log_current - math.log(q + 1.0)
    if math.log(rng.random()) >= (log_ratio if adding else -log_ratio):
        return v, signs
    return sample_addition(rest, rest_signs, candidates, rng) if adding else (rest, rest_signs)


RULES = {
    "complete oracle": (complete_oracle, False),
    "size oracle": (magnitude_rule, False),
    "magnitude oracle": (magnitude_rule, True),
}


def errors(setting: str, snr: float, seed: int) -> list[tuple[float, float]]:
    """Return the relative test errors of both means of each oracle on one dataset."""
    dataset = simulate(setting, snr, RANDOM, seed)
    X, y = dataset.X - dataset.X.mean(axis=0), dataset.y - dataset.y.mean()
    data = Moments(X.T @ X, X.T @ y, float(y @ y), y.size - 1)
    results = []
    with threadpool_limits(1):
        for make, number_unknown in RULES.values():
            log_prior = log_prior_of_sets(dataset.coef.size) if number_unknown else None
            means = posterior_means(
                data, dataset.coef, make(data.yy, data.degrees), log_prior, seed
            )
            both = means.weighted / means.precision, means.plain / means.n_samples
            results.append(tuple(relative_error(mean, dataset) for mean in both))
    return results


def recorded_error(setting: str, method: str) -> float:
    """Return the mean error of a method in the record of E22."""
    rows = json.loads(RECORD.read_text())["rows"]
    quantity = f"{RANDOM}, {setting}, {method}"
    return next(float(row["ours"]) for row in rows if row["quantity"] == quantity)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    names = (*RULES, OURS, RELAXED)
    print(f"{'':12s}" + "".join(f"{name:>18s}" for name in names))
    means = []
    for setting in SETTINGS:
        calls = [(setting, snr, seed) for snr in SNRS for seed in range(options.datasets)]
        results = Parallel(n_jobs=options.jobs)(delayed(errors)(*call) for call in calls)
        rules = np.mean(results, axis=0).min(axis=1)
        row = [*rules, recorded_error(setting, OURS), recorded_error(setting, RELAXED)]
        means.append(row)
        print(f"{setting:12s}" + "".join(f"{value:18.4f}" for value in row), flush=True)
    overall = np.mean(means, axis=0)
    print(f"{'mean':12s}" + "".join(f"{value:18.4f}" for value in overall))
    print(f"{'':12s}" + "".join(f"{value / overall[-1] - 1.0:18.1%}" for value in overall))


if __name__ == "__main__":
    main()
