"""Pairs of suppressor variables.

The response may be the difference of two nearly equal variables. Each is hardly correlated with
the response, and a search that adds one variable at a time misses both. Such variables are
strongly correlated with each other: for a correlation c, the better one alone explains at least
(1 - |c|) / 2 of the variance that both explain together. Only strongly correlated pairs need to
be examined. With e, s and H as in `model.Additions`, and s_ij = x_i'x_j - H_i'X_v'x_j, the pair
(i, j) reduces R by

    (e_i^2 s_j + e_j^2 s_i - 2 e_i e_j s_ij) / D ,      D = s_i s_j - s_ij^2 ,

and increases the log evidence, at the same lambda, by -n/2 log(1 - reduction / R)
- 1/2 log(D / lambda^2).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .model import (
    COARSE,
    MIN_NOISE_RATIO,
    RegressionFit,
    RegressionMoments,
    evaluate,
    optimise,
    score_additions,
)

MIN_PAIR_CORRELATION = 0.7  # minimum absolute correlation of a pair
PAIR_SHRINKAGE = 0.01  # lambda of a model of one pair, relative to the mean of x_j'x_j


class Pairs(NamedTuple):
    """Pairs of correlated variables."""

    i: np.ndarray  # (K,)
    j: np.ndarray  # (K,) larger than i


def correlated_pairs(data: RegressionMoments) -> Pairs:
    """Find all pairs with an absolute correlation of at least `MIN_PAIR_CORRELATION`."""
    size = np.sqrt(data.d)
    high = np.abs(data.G) >= (MIN_PAIR_CORRELATION * size)[:, None] * size
    i, j = np.nonzero(high)
    above = i < j
    return Pairs(i[above], j[above])


def pair_gains(
    data: RegressionMoments, fit: RegressionFit, pairs: Pairs, log_ratio: float, n: float
) -> np.ndarray:
    """Compute the (K,) increases of the log evidence of ``fit`` by each pair.

    Lambda is exp(``log_ratio``). Pairs that overlap with the model have a gain of -inf.
    """
    fit, lam = fit._replace(log_ratio=log_ratio), math.exp(log_ratio)
    i, j = pairs
    cross = data.G.take(fit.v, axis=1)
    additions = score_additions(fit, cross, data.d, data.b, n)
    e, s = additions.e, additions.s
    s_ij = data.G[i, j] - np.einsum("kq,kq->k", additions.H[i], cross[j])
    # s includes lambda, so the determinant is at least lambda (s_i + s_j - lambda).
    D = np.maximum(s[i] * s[j] - s_ij**2, lam * np.maximum(s[i], s[j]))
    explained = (e[i] ** 2 * s[j] + e[j] ** 2 * s[i] - 2.0 * e[i] * e[j] * s_ij) / D
    remaining = np.maximum(1.0 - explained / fit.R, MIN_NOISE_RATIO)
    gain: np.ndarray = -0.5 * (n * np.log(remaining) + np.log(D / lam**2))
    included = np.zeros(data.b.size, dtype=bool)
    included[fit.v] = True
    gain[included[i] | included[j]] = -np.inf
    return gain


def add_best_pair(
    data: RegressionMoments, fit: RegressionFit, pairs: Pairs, n: float
) -> RegressionFit | None:
    """Add the pair with the largest positive gain; return None if there is none."""
    if pairs.i.size == 0:
        return None
    log_ratio = fit.log_ratio if fit.v.size else math.log(PAIR_SHRINKAGE * float(data.d.mean()))
    gain = pair_gains(data, fit, pairs, log_ratio, n)
    best = int(gain.argmax())
    if not gain[best] > 0.0:
        return None
    v = np.append(fit.v, [pairs.i[best], pairs.j[best]])
    return optimise(data, evaluate(data, v, log_ratio), COARSE)
