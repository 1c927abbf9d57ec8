"""E22 with random places and signs: what a rule could do that is told more than any fit can know.

    python -m benchmarks.spiny_oracles            # 40 draws of each cell, an hour on two cores
    python -m benchmarks.spiny_oracles --draws 5

Five coefficients are c or -c. Three rules are told so, and take the mean over all sets of variables
and signs, each with its probability given the response:

    told all        that there are five, c = 1, and the variance of the noise is one of ten, those
                    with which independent columns have the ratios of the grid; hardly a rule could
                    have a lower mean error over the ten ratios
    told the kind   that there are five, of one size; c and the noise are not known
    told alike      that they are of one size; their number, which has a geometric prior of mean
                    five, c and the noise are not known

For all of them, the response of a set with signs s depends on z = X_v s alone, y = c z + noise,
through z'y and z'z: the probabilities of all places and signs of one variable, given the others,
come from one product. These are drawn in turn (Gibbs), and start at the truth, so that a run that
is too short errs to the rules' favour. Where their number is not known, a variable comes with the
probability that it has among all that could, or one leaves, and either is accepted as detailed
balance asks (Metropolis & Hastings). What is minimised is an error over the variance of the
noise: so the mean of the coefficients weighs every set by its precision,
E[b / sigma2] / E[1 / sigma2]. (Where little is told this can be worse than the mean itself, whose
error is shown if it is the lower one of the two.)

Beside them are the errors of SpinyRegressor and of the relaxed lasso in docs/results/E22.json.
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
    OURS,
    RANDOM,
    RATIOS,
    RELAXED,
    SETTINGS,
    TRUE,
    draw,
    relative_error,
)

RECORD = Path(__file__).parents[1] / "docs" / "results" / "E22.json"
STEPS = 2000
SETTLING = 100  # steps that are not counted
MOST = 40  # variables, where their number is not told


class Told(NamedTuple):
    """Of many z at once, from z'y and z'z."""

    log_density: np.ndarray  # log p(y | z), up to a constant
    precision: np.ndarray  # E[1 / sigma2]
    weighted: np.ndarray  # E[c / sigma2]
    mean: np.ndarray  # E[c]


Rule = Callable[[np.ndarray, np.ndarray], Told]


def told_all(yy: float, free: int) -> Rule:
    """c = 1; sigma2 is one of ten."""
    sigma2 = TRUE / np.array(RATIOS)

    def rule(zy: np.ndarray, zz: np.ndarray) -> Told:
        R = yy - 2.0 * zy + zz
        share, log_density = shares(-0.5 * (free * np.log(sigma2) + R[:, None] / sigma2))
        precision = share @ (1.0 / sigma2)
        return Told(log_density, precision, precision, np.ones_like(precision))

    return rule


def told_the_kind(yy: float, free: int) -> Rule:
    """c ~ N(0, tau^2 sigma2), p(sigma2) ~ 1 / sigma2; tau is half-Cauchy, over doublings."""
    log_tau = np.log(2.0) * np.arange(-4, 4)
    log_prior, inverse = log_tau - np.logaddexp(0.0, 2.0 * log_tau), np.exp(-2.0 * log_tau)
    log_prior -= np.logaddexp.reduce(log_prior)

    def rule(zy: np.ndarray, zz: np.ndarray) -> Told:
        grown = zz[:, None] + inverse
        R = yy - zy[:, None] ** 2 / grown
        height = log_prior - 0.5 * (free * np.log(R) + np.log(grown / inverse))
        share, log_density = shares(height)
        size, precise = zy[:, None] / grown, share * (free / R)
        sums = [part.sum(axis=1) for part in (precise, precise * size, share * size)]
        return Told(log_density, *sums)

    return rule


def shares(height: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Along every row, the exponentials over their sum, and its logarithm."""
    top = height.max(axis=1, keepdims=True)
    share = np.exp(height - top)
    total = share.sum(axis=1, keepdims=True)
    return share / total, (top + np.log(total))[:, 0]


class Moments(NamedTuple):
    """Of centred data."""

    G: np.ndarray  # (p, p) X'X
    b: np.ndarray  # (p,) X'y
    yy: float
    free: int  # degrees of freedom of y


class Beside(NamedTuple):
    """One variable more beside some with signs: all places, with either sign, positive first."""

    told: Told  # (2 p,) each, of y given the place
    log_total: float  # of the densities of all places together
    share: np.ndarray  # (2 p,) of each


def beside(data: Moments, rule: Rule, v: np.ndarray, signs: np.ndarray) -> Beside:
    both, along = np.array([1.0, -1.0])[:, None], signs @ data.G[v]  # X'z of the others
    zy = float(signs @ data.b[v]) + both * data.b
    zz = float(signs @ along[v]) + 2.0 * both * along + data.G.diagonal()
    told = rule(zy.ravel(), zz.ravel())
    log_density = told.log_density.reshape(2, -1).copy()
    log_density[:, v] = -np.inf
    top = float(log_density.max())
    share = np.exp(log_density - top).ravel()
    total = float(share.sum())
    return Beside(told, top + math.log(total), share / total)


def log_density(data: Moments, rule: Rule, v: np.ndarray, signs: np.ndarray) -> float:
    """Of y, given a set with signs."""
    if v.size == 0:
        return -0.5 * data.free * math.log(data.yy)
    zy, zz = float(signs @ data.b[v]), float(signs @ data.G[np.ix_(v, v)] @ signs)
    return float(rule(np.array([zy]), np.array([zz])).log_density[0])


class Means(NamedTuple):
    """Sums over draws; see `told_means`."""

    weighted: np.ndarray  # (p,) of b / sigma2
    plain: np.ndarray  # (p,) of b
    precision: float  # of 1 / sigma2
    draws: int


def log_prior_of_sets(p: int) -> np.ndarray:
    """(MOST + 1,) of each set with signs of 0 .. MOST variables: their number is geometric."""
    q = np.arange(min(p, MOST) + 1)
    number = -q * math.log(1.0 + 1.0 / TRUE)  # a mean of TRUE
    log_sets = gammaln(p + 1.0) - gammaln(q + 1.0) - gammaln(p - q + 1.0) + q * math.log(2.0)
    prior: np.ndarray = number - np.logaddexp.reduce(number) - log_sets
    return prior


def told_means(
    data: Moments, truth: np.ndarray, rule: Rule, log_prior: np.ndarray | None, seed: int
) -> Means:
    """By draws that start at ``truth``; without ``log_prior`` the number of variables is told."""
    rng = np.random.default_rng(seed)
    v, signs = np.flatnonzero(truth), np.sign(truth[truth != 0.0])
    weighted, plain, precision = np.zeros(truth.size), np.zeros(truth.size), 0.0
    for step in range(STEPS):
        counts = step >= SETTLING
        if v.size:  # another place for one of them
            order = rng.permutation(v.size)
            v, signs = v[order], signs[order]
            others, kept = v[1:], signs[1:]
            one = beside(data, rule, others, kept)
            if counts:
                add(weighted, one, one.told.weighted, others, kept)
                add(plain, one, one.told.mean, others, kept)
                precision += float(one.share @ one.told.precision)
            v, signs = joined(others, kept, one, rng)
        elif counts:
            precision += data.free / data.yy
        if log_prior is not None:
            v, signs = more_or_less(data, rule, log_prior, v, signs, rng)
    return Means(weighted, plain, precision, STEPS - SETTLING)


def add(
    sums: np.ndarray, one: Beside, size: np.ndarray, others: np.ndarray, signs: np.ndarray
) -> None:
    """The mean of all coefficients over the places of one variable, ``size`` (2 p,) being theirs in
    each."""
    mean = (one.share * size).reshape(2, -1)
    sums += mean[0] - mean[1]
    sums[others] += signs * mean.sum()


def joined(
    v: np.ndarray, signs: np.ndarray, one: Beside, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The set with a variable and a sign that are drawn."""
    drawn = min(int(np.searchsorted(np.cumsum(one.share), rng.random())), one.share.size - 1)
    sign, place = divmod(drawn, one.share.size // 2)
    return np.append(v, place), np.append(signs, 1.0 - 2.0 * sign)


def more_or_less(
    data: Moments,
    rule: Rule,
    log_prior: np.ndarray,
    v: np.ndarray,
    signs: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """A variable more or less, or the same set: with W the sum of pi over all sets that have one
    more, a set of q gains one with the probability min(1, W / ((q + 1) pi)), and one with one more
    loses each with that of the way back, min(1, (q + 1) pi / W)."""
    more = rng.random() < 0.5
    if (v.size + 1 == log_prior.size) if more else (v.size == 0):
        return v, signs
    order = rng.permutation(v.size)
    v, signs = v[order], signs[order]
    rest, kept = (v, signs) if more else (v[1:], signs[1:])
    one = beside(data, rule, rest, kept)
    q = rest.size
    here = log_density(data, rule, rest, kept) + log_prior[q]
    ratio = one.log_total + log_prior[q + 1] - here - math.log(q + 1.0)
    if math.log(rng.random()) >= (ratio if more else -ratio):
        return v, signs
    return joined(rest, kept, one, rng) if more else (rest, kept)


RULES = {
    "told all": (told_all, False),
    "told the kind": (told_the_kind, False),
    "told alike": (told_the_kind, True),
}


def errors(setting: str, ratio: float, seed: int) -> list[tuple[float, float]]:
    """The relative test errors of both means of every rule on one draw."""
    one = draw(setting, ratio, RANDOM, seed)
    X, y = one.X - one.X.mean(axis=0), one.y - one.y.mean()
    data = Moments(X.T @ X, X.T @ y, float(y @ y), y.size - 1)
    found = []
    with threadpool_limits(1):
        for make, number_unknown in RULES.values():
            log_prior = log_prior_of_sets(one.coef.size) if number_unknown else None
            means = told_means(data, one.coef, make(data.yy, data.free), log_prior, seed)
            both = means.weighted / means.precision, means.plain / means.draws
            found.append(tuple(relative_error(mean, one) for mean in both))
    return found


def recorded(setting: str, method: str) -> float:
    rows = json.loads(RECORD.read_text())["rows"]
    wanted = f"{RANDOM}, {setting}, {method}"
    return next(float(row["ours"]) for row in rows if row["quantity"] == wanted)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    names = (*RULES, OURS, RELAXED)
    print(f"{'':12s}" + "".join(f"{name:>18s}" for name in names))
    means = []
    for setting in SETTINGS:
        calls = [(setting, ratio, seed) for ratio in RATIOS for seed in range(options.draws)]
        found = Parallel(n_jobs=options.jobs)(delayed(errors)(*call) for call in calls)
        rules = np.mean(found, axis=0).min(axis=1)
        row = [*rules, recorded(setting, OURS), recorded(setting, RELAXED)]
        means.append(row)
        print(f"{setting:12s}" + "".join(f"{value:18.4f}" for value in row), flush=True)
    overall = np.mean(means, axis=0)
    print(f"{'mean':12s}" + "".join(f"{value:18.4f}" for value in overall))
    print(f"{'':12s}" + "".join(f"{value / overall[-1] - 1.0:18.1%}" for value in overall))


if __name__ == "__main__":
    main()
