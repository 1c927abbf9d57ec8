"""Pairs of suppressor variables.

The response may be the difference of two nearly equal variables. Each is weakly correlated with the
response, and a search that adds one variable at a time misses both. Such variables are strongly
correlated. If their correlation is c, the better one alone explains at least (1 - |c|) / 2 of the
variance that the pair explains. Only strongly correlated pairs are therefore examined. With E, s
and H as in `linear.Additions`, and s_ij = x_i'x_j - H_i'X_v'x_j, the pair (i, j) reduces R_k by

    (E_ik^2 s_j + E_jk^2 s_i - 2 E_ik E_jk s_ij) / D ,      D = s_i s_j - s_ij^2 ,

and increases the log evidence, at the same lambda, by -n/2 sum_k log(1 - reduction / R_k)
- m/2 log(D / lambda^2).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from .linear import LinearFit, LinearModel

MIN_PAIR_CORRELATION = 0.7  # minimum absolute correlation of a pair
PAIR_SHRINKAGE = 0.01  # lambda of a model of one pair, relative to the mean of x_j'x_j
MIN_REMAINING = 1e-12  # minimum residual proportion of R


class Pairs(NamedTuple):
    """Pairs of correlated variables."""

    i: np.ndarray  # (K,)
    j: np.ndarray  # (K,) larger than i


def correlated_pairs(G: np.ndarray, d: np.ndarray) -> Pairs:
    """Find all strongly correlated pairs."""
    size = np.sqrt(d)
    high = np.abs(G) >= (MIN_PAIR_CORRELATION * size)[:, None] * size
    i, j = np.nonzero(high)
    above = i < j
    return Pairs(i[above], j[above])


def pair_gains(model: LinearModel, fit: LinearFit, pairs: Pairs, log_ratio: float) -> np.ndarray:
    """Compute the increase of the log evidence of ``fit`` by each pair, (K,).

    Lambda is exp(``log_ratio``). Pairs that overlap with the model have a gain of -inf.
    """
    lam = math.exp(log_ratio)
    i, j = pairs
    cross = model.G.take(fit.v, axis=1)
    H = cross.dot(fit.P)
    s = np.maximum(lam + model.d - np.einsum("ij,ij->i", H, cross), lam)
    E = model.B - cross.dot(fit.M)
    s_ij = model.G[i, j] - np.einsum("kq,kq->k", H[i], cross[j])
    # s includes lambda, so that the determinant is at least lambda (s_i + s_j - lambda).
    D = np.maximum(s[i] * s[j] - s_ij**2, lam * np.maximum(s[i], s[j]))
    explained = E[i] ** 2 * s[j, None] + E[j] ** 2 * s[i, None] - 2.0 * E[i] * E[j] * s_ij[:, None]
    remaining = np.maximum(1.0 - explained / (D[:, None] * fit.R), MIN_REMAINING)
    gain: np.ndarray = -0.5 * (
        model.dof * np.log(remaining).sum(axis=1) + fit.R.size * np.log(D / lam**2)
    )
    included = np.zeros(model.d.size, dtype=bool)
    included[fit.v] = True
    gain[included[i] | included[j]] = -np.inf
    return gain


def best_pair(model: LinearModel, fit: LinearFit) -> tuple[int, int, float] | None:
    """Find the pair with the largest positive gain, if any."""
    pairs = correlated_pairs(model.G, model.d)
    if pairs.i.size == 0:
        return None
    log_ratio = fit.log_ratio if fit.v.size else math.log(PAIR_SHRINKAGE * float(model.d.mean()))
    gain = pair_gains(model, fit, pairs, log_ratio)
    best = int(gain.argmax())
    if not gain[best] > 0.0:
        return None
    return int(pairs.i[best]), int(pairs.j[best]), log_ratio
