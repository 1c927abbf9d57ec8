"""E22 with random places and signs: what a rule could do that is told more than any fit can know.

    python benchmarks/spiny_told.py            # 40 draws of each cell, a quarter of an hour
    python benchmarks/spiny_told.py --draws 5

Five coefficients are c or -c. Two rules are told so, and take the mean over all sets of five
variables and signs, each with its probability given the response:

    told all        c = 1, too, and the variance of the noise is one of ten, those with which
                    independent columns have the ratios of the grid; hardly a rule could have a
                    lower mean error over the ten ratios
    told the kind   c and the noise are not known

For both, the response of a set with signs s depends on z = X_v s alone, y = c z + noise, through
z'y and z'z: the probabilities of all places and signs of one of the five, given the other four,
come from one product. These are drawn in turn (Gibbs), and start at the truth, so that a run that
is too short errs to the rules' favour. What is minimised is an error over the variance of the
noise: so the mean of the coefficients weighs every set by its precision,
E[b / sigma2] / E[1 / sigma2].

Beside them are the errors of SpinyRegressor and of the relaxed lasso in docs/results/E22.json.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import threadpool_limits

from prosparse.experiments.regression_grid import (
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


class Told(NamedTuple):
    """Of many z at once, from z'y and z'z."""

    log_density: np.ndarray  # log p(y | z), up to a constant
    precision: np.ndarray  # E[1 / sigma2]
    weighted: np.ndarray  # E[c / sigma2]


Rule = Callable[[np.ndarray, np.ndarray], Told]


def told_all(yy: float, free: int) -> Rule:
    """c = 1; sigma2 is one of ten."""
    sigma2 = TRUE / np.array(RATIOS)

    def rule(zy: np.ndarray, zz: np.ndarray) -> Told:
        R = yy - 2.0 * zy + zz
        share, log_density = shares(-0.5 * (free * np.log(sigma2) + R[:, None] / sigma2))
        precision = share @ (1.0 / sigma2)
        return Told(log_density, precision, precision)

    return rule


def told_the_kind(yy: float, free: int) -> Rule:
    """c ~ N(0, tau^2 sigma2), p(sigma2) ~ 1 / sigma2; tau is half-Cauchy, over doublings."""
    log_tau = np.log(2.0) * np.arange(-4, 4)
    log_prior, inverse = log_tau - np.logaddexp(0.0, 2.0 * log_tau), np.exp(-2.0 * log_tau)

    def rule(zy: np.ndarray, zz: np.ndarray) -> Told:
        grown = zz[:, None] + inverse
        R = yy - zy[:, None] ** 2 / grown
        height = log_prior - 0.5 * (free * np.log(R) + np.log(grown / inverse))
        share, log_density = shares(height)
        share *= free / R
        return Told(log_density, share.sum(axis=1), (share * zy[:, None] / grown).sum(axis=1))

    return rule


def shares(height: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Along every row, the exponentials over their sum, and its logarithm."""
    top = height.max(axis=1, keepdims=True)
    share = np.exp(height - top)
    total = share.sum(axis=1, keepdims=True)
    return share / total, (top + np.log(total))[:, 0]


RULES = {"told all": told_all, "told the kind": told_the_kind}


def mean_coefficients(
    X: np.ndarray, y: np.ndarray, truth: np.ndarray, make: Callable[[float, int], Rule], seed: int
) -> np.ndarray:
    """(p,) E[b / sigma2] / E[1 / sigma2] of centred data, by draws that start at ``truth``."""
    G, b, rng = X.T @ X, X.T @ y, np.random.default_rng(seed)
    rule = make(float(y @ y), y.size - 1)
    v, signs = np.flatnonzero(truth), np.sign(truth[truth != 0.0])
    weighted, precision = np.zeros(b.size), 0.0
    both, lengths = np.array([1.0, -1.0])[:, None], G.diagonal()
    for step in range(STEPS):
        i = int(rng.integers(v.size))
        others, kept = np.delete(v, i), np.delete(signs, i)
        along = kept @ G[others]  # X'z of the others
        zy = float(kept @ b[others]) + both * b
        zz = float(kept @ along[others]) + 2.0 * both * along + lengths
        told = rule(zy.ravel(), zz.ravel())
        open_places = np.ones((2, b.size))
        open_places[:, others] = 0.0
        share = np.exp(told.log_density - told.log_density.max()) * open_places.ravel()
        share /= share.sum()
        if step >= SETTLING:
            mean = (share * told.weighted).reshape(2, -1)
            weighted += mean[0] - mean[1]
            weighted[others] += kept * mean.sum()
            precision += float(share @ told.precision)
        drawn = int(np.searchsorted(np.cumsum(share), rng.random()))
        sign, place = divmod(min(drawn, share.size - 1), b.size)
        v[i], signs[i] = place, 1.0 - 2.0 * sign
    return weighted / precision


def errors(setting: str, ratio: float, seed: int) -> list[float]:
    """The relative test error of every rule on one draw."""
    one = draw(setting, ratio, RANDOM, seed)
    X, y = one.X - one.X.mean(axis=0), one.y - one.y.mean()
    with threadpool_limits(1):
        means = [mean_coefficients(X, y, one.coef, make, seed) for make in RULES.values()]
    return [relative_error(mean, one) for mean in means]


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
        row = [*np.mean(found, axis=0), recorded(setting, OURS), recorded(setting, RELAXED)]
        means.append(row)
        print(f"{setting:12s}" + "".join(f"{value:18.4f}" for value in row), flush=True)
    overall = np.mean(means, axis=0)
    print(f"{'mean':12s}" + "".join(f"{value:18.4f}" for value in overall))
    print(f"{'':12s}" + "".join(f"{value / overall[-1] - 1.0:18.1%}" for value in overall))


if __name__ == "__main__":
    main()
