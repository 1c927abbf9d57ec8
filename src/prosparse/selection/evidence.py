"""How many variables? The evidence of every cardinality along a ranking, at once.

[MBL16] Theorems 1 and 2, [BLM18]. For a ranking of the variables, the model of cardinality q
makes the first q active, x_v = W y (+ noise), and the others Gaussian noise of variance
sigma_1^2. With W integrated out, an observation depends on its active part only through
r = |x_v|:

* noiseless (Theorem 2, with its misprints mended): x_v has a multivariate Bessel law. With
  nu = (q - d)/2 and b the prior precision's square root (alpha of [BLM18]),

      log p(x_v) = log K_nu(b r) - nu log r + (1 - (q+d)/2) log 2 - lgamma(d/2)
                   - q/2 log pi + (q+d)/2 log b .

* noisy (Theorem 1): given g = |y|^2 ~ chi2_d, x_v ~ N(0, (sigma^2 + g/b^2) I_q), so
  p(x_v) is a positive integral over g. (The papers' Bessel-J integral oscillates.)

Both are maximised over log b by Newton's method, all cardinalities at once, one pass over
the rows per step. The evidence treats observations as independent given the model, each with
its own W integrated out: it is the papers' criterion for comparing models, not the joint
density of the table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device
from scipy.special import gammaln

from ..engine.special import kv_ratio, log_kv
from ..operators import Operator
from .noisy import NoisyTerms

Array = Any

# The noiseless density has a pole at zero. Rows closer to the mean than a tenth of the noise (or
# than rounding) count as being that far away.
_SMALLEST_NOISE = 0.1
_SMALLEST_ROW = 1e-12
# How far log b may go from its moment estimate.
_REACH = 12.0

EVIDENCES = ("noiseless", "noisy")


class EvidencePath(NamedTuple):
    cardinalities: np.ndarray  # (m,) q
    log_evidence: np.ndarray  # (m,)
    log_b: np.ndarray  # (m,) the maximiser, log of the square root of the prior precision


class NoiselessTerms(NamedTuple):
    """The log density of every row under every cardinality, and its slopes in log b."""

    q: np.ndarray
    d: int
    xp: Any

    def value(self, r2: Array, log_b: Array) -> Array:
        q, d, xp = self.q, self.d, self.xp
        constant = (1 - 0.5 * (q + d)) * np.log(2) - gammaln(0.5 * d) - 0.5 * q * np.log(np.pi)
        like = {"dtype": r2.dtype, "device": device(r2)}
        nu = 0.5 * (q - d)
        log_k = log_kv(nu, xp.exp(log_b) * xp.sqrt(r2))
        shape = xp.asarray(constant, **like) + xp.asarray(0.5 * (q + d), **like) * log_b
        return log_k - xp.asarray(0.5 * nu, **like) * xp.log(r2) + shape

    def slopes(self, r2: Array, log_b: Array) -> tuple[Array, Array]:
        # From K_nu' = -K_{nu-1} - nu/z K_nu: d - z rho, rho = K_{nu-1}/K_nu; and from
        # z rho' = z (rho^2 - 1) + (2 nu - 1) rho.
        xp, nu = self.xp, 0.5 * (self.q - self.d)
        z2 = xp.exp(2.0 * log_b) * r2
        z = xp.sqrt(z2)
        y = z * kv_ratio(nu, z)
        twice_nu = xp.asarray(2.0 * nu, dtype=r2.dtype, device=device(r2))
        return self.d - y, z2 - y * (y + twice_nu)


def evidence_path(
    op: Operator,
    order: Array,
    d: int,
    noise_variance: float,
    cardinalities: np.ndarray,
    *,
    kind: str = "noiseless",
) -> EvidencePath:
    """Log evidence of the models made of the first q variables of ``order``.

    Works through blocks of rows; memory is a few blocks, whatever the size of the table.
    """
    xp, (n, p) = op.xp, op.shape
    q = np.asarray(cardinalities)
    columns = op.column_squares()
    order = xp.asarray(order, device=device(columns))
    columns = xp.take(columns, order)
    like = {"dtype": columns.dtype, "device": device(columns)}
    last = xp.asarray(q - 1, device=device(columns))
    widest = int(q.max())
    active = xp.take(xp.cumulative_sum(columns), last)  # sum_i r_i^2
    floor = _SMALLEST_ROW**2 / n * active
    floor = xp.maximum(floor, _SMALLEST_NOISE**2 * noise_variance * xp.asarray(q, **like))

    def radii(block: Array) -> Array:
        chosen = xp.take(block, order[:widest], axis=1)
        squares = xp.take(xp.cumulative_sum(chosen * chosen, axis=1), last, axis=1)
        return xp.where(squares > floor, squares, floor)

    terms: NoiselessTerms | NoisyTerms = (
        NoiselessTerms(q, d, xp) if kind == "noiseless" else NoisyTerms(q, d, noise_variance, xp)
    )

    def slopes(block: Array, log_b: Array) -> tuple[Array, Array]:
        first, second = terms.slopes(radii(block), log_b)
        return xp.sum(first, axis=0), xp.sum(second, axis=0)

    start = 0.5 * xp.log(d * n * xp.asarray(q, **like) / xp.clip(active, 1e-300, None))
    log_b = _maximise(op, slopes, start)
    (inside,) = op.sum_rows(
        lambda block: (xp.sum(terms.value(radii(block), log_b), axis=0),), entrywise=True
    )
    # Sums from the far end: a difference of totals would drown small inactive columns.
    beyond = xp.flip(xp.cumulative_sum(xp.flip(columns)))
    rest = xp.take(xp.concat([beyond, xp.zeros(1, **like)]), last + 1)
    outside = -0.5 * n * (p - xp.asarray(q, **like)) * float(np.log(2 * np.pi * noise_variance))
    total = inside + outside - 0.5 * rest / noise_variance
    return EvidencePath(q, np.asarray(total), np.asarray(log_b))


def _maximise(
    op: Operator,
    slopes: Callable[[Array, Array], tuple[Array, Array]],
    start: Array,
    tol: float = 1e-6,
    max_steps: int = 50,
) -> Array:
    """Newton's method in log b for all cardinalities at once, one pass over the rows a step.

    Convergence is quadratic: when the last step was 1e-6, the error is some 1e-12.
    """
    xp, log_b = op.xp, start
    for _ in range(max_steps):
        at = log_b
        first, second = op.sum_rows(lambda block, at=at: slopes(block, at), entrywise=True)
        newton = -first / xp.where(second < 0, second, -xp.abs(first) - 1e-300)
        # Under the noisy model pure noise is best explained by b = infinity: stay near.
        log_b = xp.clip(at + xp.clip(newton, -1.0, 1.0), start - _REACH, start + _REACH)
        if float(xp.max(xp.abs(log_b - at))) < tol:
            break
    return log_b
