"""Pairs of variables that help only together.

The response may be the difference of two variables that are nearly the same: each of them alone
is hardly correlated with it, and a search that adds one variable at a time passes both by. Such
variables are strongly correlated with each other: of two whose correlation is c, the better one
alone explains at least (1 - |c|) / 2 of what both explain together. So few pairs need be looked
at. With e, s and H as in `model.Neighbours`, and s_ij = x_i'x_j - H_i'X_v'x_j, the pair (i, j)
lowers R by

    (e_i^2 s_j + e_j^2 s_i - 2 e_i e_j s_ij) / D ,      D = s_i s_j - s_ij^2 ,

and the evidence rises, at the same lambda, by -n/2 log(1 - that / R) - 1/2 log(D / lambda^2).
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
    score_additions,
    optimise,
)

MIN_PAIR_CORRELATION = 0.7  # least correlation of the variables of a pair
PAIR_SHRINKAGE = 0.01  # lambda of a pair on its own, as a share of the mean square of the columns


class Pairs(NamedTuple):
    """Pairs of correlated variables."""

    i: np.ndarray  # (K,)
    j: np.ndarray  # (K,) larger than i


def correlated_pairs(data: RegressionMoments) -> Pairs:
    """All that are correlated by at least `CANCELLING`."""
    size = np.sqrt(data.d)
    high = np.abs(data.G) >= (MIN_PAIR_CORRELATION * size)[:, None] * size
    i, j = np.nonzero(high)
    above = i < j
    return Pairs(i[above], j[above])


def pair_gains(
    data: RegressionMoments, fit: RegressionFit, pairs: Pairs, log_ratio: float, n: float
) -> np.ndarray:
    """(K,) rise of the log evidence of ``fit`` with each of the pairs, at the lambda of
    ``log_ratio``; -inf where one is in it already."""
    fit, lam = fit._replace(log_ratio=log_ratio), math.exp(log_ratio)
    i, j = pairs
    cross = data.G.take(fit.v, axis=1)
    additions = score_additions(fit, cross, data.d, data.b, n)
    e, s = additions.e, additions.s
    s_ij = data.G[i, j] - np.einsum("kq,kq->k", additions.H[i], cross[j])
    # s has lambda in it, so that the determinant is at least lambda (s_i + s_j - lambda)
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
    """``fit`` and the pair that adds most to it, at its best lambda; None without any pair."""
    if pairs.i.size == 0:
        return None
    log_ratio = fit.log_ratio if fit.v.size else math.log(PAIR_SHRINKAGE * float(data.d.mean()))
    gain = pair_gains(data, fit, pairs, log_ratio, n)
    best = int(gain.argmax())
    if not gain[best] > 0.0:
        return None
    v = np.append(fit.v, [pairs.i[best], pairs.j[best]])
    return optimise(data, evaluate(data, v, log_ratio), COARSE)
