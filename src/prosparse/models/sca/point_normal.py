"""Point-normal prior: unknowns are either zero or Gaussian.

The same update applies to loadings (one row per column of the data) and to scores (one row per
sample). An unknown u_rk of row r and factor k has the prior

    u_rk = 0 with probability 1 - pi_k,   u_rk ~ N(0, v_k) with probability pi_k.

pi and v are specific to each view and factor; v may be multiplied by a known unit of each row. The
posterior is a product over all unknowns (mean field). Given the others, the expected log-likelihood
of one unknown is h u - e u^2 / 2, and with log B = (h^2 v / (1 + e v) - log(1 + e v)) / 2

    w = pi B / (1 - pi + pi B),   u | u != 0 ~ N(b, c),   c = v / (1 + e v),   b = c h,

where w is the inclusion probability. Factors are updated in turn. pi and v maximise the marginal
likelihood, the sum of log(1 - pi + pi B), as in empirical Bayes matrix factorisation (Wang &
Stephens 2021). If the marginal likelihood does not exceed that of pi = 0, all unknowns of the view
and the factor are zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace
from scipy.special import expit, ndtr

from ...data import Array
from ...data.arrays import is_numpy

# Number of EM iterations of pi and v per update of a factor.
N_PRIOR_UPDATES = 3
# Initial inclusion probability.
INITIAL_PROBABILITY = 0.5
# Limits of the inclusion probability of a factor, which keep logarithms finite.
MIN_PROBABILITY, MAX_PROBABILITY = 1e-10, 1.0 - 1e-10


# Fields of `PointNormal` with one column per factor.
FACTOR_FIELDS = ("mean", "variance", "inclusion", "probability", "slab")


class PointNormal(NamedTuple):
    """Posterior of all unknowns, and their prior."""

    mean: Array  # (r, Q)
    variance: Array  # (r, Q)
    inclusion: Array  # (r, Q) probabilities w
    probability: Array  # (V, Q) pi
    slab: Array  # (V, Q) v
    divergence: float  # KL(posterior | prior)
    unit: Array | None = None  # (r,) multipliers of the variances v; None for ones

    def rescale(self, r: Array) -> PointNormal:
        """Return the posterior of ``r`` (Q,) times the unknowns."""
        return self._replace(
            mean=self.mean * r, variance=self.variance * r**2, slab=self.slab * r**2
        )

    def take(self, keep: Array) -> PointNormal:
        """Return the posterior of some factors, without the divergence."""
        xp = array_namespace(self.mean)
        parts = {name: xp.take(getattr(self, name), keep, axis=1) for name in FACTOR_FIELDS}
        return self._replace(**parts, divergence=0.0)

    def without_support(self) -> PointNormal:
        """Return the posterior in which all unknowns are zero."""
        zeros = {name: 0.0 * getattr(self, name) for name in FACTOR_FIELDS if name != "slab"}
        return self._replace(**zeros, divergence=0.0)

    @property
    def second_moment(self) -> Array:
        """Prior second moments (V, Q)."""
        return self.probability * self.slab


def initial_posterior(mean: Array, member: Array, allowed: Array | None = None) -> PointNormal:
    """Build a posterior without uncertainty from ``mean`` (r, Q)."""
    xp = array_namespace(mean)
    open_entries = xp.ones_like(mean) if allowed is None else xp.astype(allowed, mean.dtype)
    count = member @ open_entries
    square = member @ (open_entries * mean**2) / xp.where(count > 0, count, 1.0)
    probability = xp.where(square > 0, INITIAL_PROBABILITY, 0.0)
    return PointNormal(
        mean,
        xp.zeros_like(mean),
        xp.ones_like(mean) * INITIAL_PROBABILITY,
        probability,
        square / INITIAL_PROBABILITY,
        0.0,
    )


def update_unknowns(
    now: PointNormal,
    tau: Array,
    A: Array,
    G: Array,
    view: Array,
    member: Array,
    allowed: Array | None = None,
    learn: bool = True,
) -> PointNormal:
    """Update the unknowns of each factor in turn, with the prior of the factor.

    The expected log-likelihood of row u (Q,) is tau (u' g - u' A u / 2). For loadings, A (1 or r,
    Q, Q) contains second moments of the scores and G (r, Q) the products of the scores with the
    data; for scores, those of the loadings. tau (r,) are precisions. ``view`` (r,) is the view of
    each row, with indicators ``member`` (V, r). Unknowns are fixed at zero where ``allowed`` (r, Q)
    is False. The prior is updated if ``learn``.
    """
    xp = array_namespace(G)
    copy = np.array if is_numpy(G) else lambda part: xp.asarray(part, copy=True)
    mean, variance, inclusion = copy(now.mean.T), copy(now.variance.T), copy(now.inclusion.T)
    probability, slab = copy(now.probability.T), copy(now.slab.T)
    g = copy(G.T)
    divergence = 0.0
    for k in range(mean.shape[0]):
        possible = None if allowed is None else xp.astype(allowed[:, k], G.dtype)
        if not bool(xp.any(probability[k, :] > 0)):
            mean[k, :], variance[k, :], inclusion[k, :] = 0.0, 0.0, 0.0
            continue
        if A.shape[0] == 1:
            along = A[0, k, :] @ mean
            square = A[0, k, k]
        else:
            along = xp.sum(A[:, k, :].T * mean, axis=0)
            square = A[:, k, k]
        e = tau * square
        h = tau * (g[k, :] - along) + e * mean[k, :]
        entry = _update_factor(
            h, e, probability[k, :], slab[k, :], now.unit, view, member, possible, learn
        )
        mean[k, :], variance[k, :], inclusion[k, :] = entry.mean, entry.variance, entry.inclusion
        probability[k, :], slab[k, :] = entry.probability, entry.slab
        divergence += entry.divergence
    return PointNormal(mean.T, variance.T, inclusion.T, probability.T, slab.T, divergence, now.unit)


def _update_factor(
    h: Array,
    e: Array,
    pi: Array,
    v: Array,
    unit: Array | None,
    view: Array,
    member: Array,
    possible: Array | None,
    learn: bool,
) -> PointNormal:
    """Update the unknowns (r,) of one factor and its prior (V,)."""
    xp = array_namespace(h)
    possible = xp.ones_like(h) if possible is None else possible
    count = member @ possible
    count = xp.where(count > 0, count, 1.0)

    def posterior(pi: Array, v: Array) -> tuple[Array, Array, Array, Array]:
        """Compute w, b, c and the log marginal likelihood of each unknown."""
        pi = xp.where(pi < MIN_PROBABILITY, MIN_PROBABILITY, pi)
        pi = xp.where(pi > MAX_PROBABILITY, MAX_PROBABILITY, pi)
        zero, one = xp.log1p(-pi), xp.log(pi)
        if v.shape[0] > 1:
            zero, one, v = (xp.take(part, view, axis=0) for part in (zero, one, v))
        v = v if unit is None else v * unit
        spread = 1.0 + e * v
        c = v / spread
        b = c * h
        slab = one + 0.5 * (b * h - xp.log(spread))
        log_total = xp.logaddexp(zero + 0.0 * slab, slab)
        return possible * xp.exp(slab - log_total), b, c, possible * log_total

    for _ in range(N_PRIOR_UPDATES if learn else 0):
        w, b, c, _ = posterior(pi, v)
        total = member @ w
        some = total > 0
        pi = total / count
        square = w * (b * b + c) if unit is None else w * (b * b + c) / unit
        v = xp.where(some, member @ square / xp.where(some, total, 1.0), v)
    w, b, c, log_marginal = posterior(pi, v)
    if learn:
        supported = member @ log_marginal > 0
        pi = xp.where(supported, pi, 0.0)
        inside = xp.astype(supported, h.dtype) @ member
        w, log_marginal = inside * w, inside * log_marginal
    mean = w * b
    second = w * (b * b + c)
    divergence = float(xp.sum(h * mean - 0.5 * e * second - log_marginal))
    return PointNormal(mean, second - mean * mean, w, pi, v, divergence)


def observed_posterior(q: PointNormal, view: np.ndarray, proportion: np.ndarray) -> PointNormal:
    """Correct the posterior for the uncertainty of the other side.

    The mean-field posterior of loadings treats the scores as known up to their variance, and vice
    versa, and is too narrow. By the identity of Louis (1982), the information about an unknown near
    zero is the complete information e minus the missing information. The remainder is the
    ``proportion`` (Q,) of the second moment of the other side due to its means.
    """
    some = q.inclusion > 0
    w = np.where(some, q.inclusion, 1.0)
    b = q.mean / w
    c = (q.variance + q.mean**2) / w - b**2
    v, pi = q.slab[view], np.clip(q.probability[view], MIN_PROBABILITY, MAX_PROBABILITY)
    v = v if q.unit is None else v * q.unit[:, None]
    known = some & (c > 0) & (c < v)
    c = np.where(known, c, 1.0)
    v = np.where(known, v, 2.0)
    e, h = proportion * (1.0 / c - 1.0 / v), proportion * b / c
    c = v / (1.0 + e * v)
    b = c * h
    log_odds = np.log(pi) - np.log1p(-pi) + 0.5 * (b * h - np.log1p(e * v))
    w = expit(log_odds)
    mean = w * b
    found = q._replace(mean=mean, variance=w * (b * b + c) - mean**2, inclusion=w)
    parts = {
        name: np.where(known, getattr(found, name), getattr(q, name))
        for name in ("mean", "variance", "inclusion")
    }
    return q._replace(**parts)


def local_false_sign_rate(mean: np.ndarray, variance: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Compute the posterior probability of zero or of the opposite sign."""
    safe = np.where(w > 0, w, 1.0)
    b = mean / safe
    c = np.maximum((variance + mean**2) / safe - b**2, 0.0)
    z = np.abs(b) / np.sqrt(np.where(c > 0, c, 1.0))
    same = np.where(c > 0, ndtr(z), np.where(b != 0, 1.0, 0.5))
    return np.where(w > 0, 1.0 - w * same, 1.0)
