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
the rows per step. Some cardinalities go first: between them the maximiser is interpolated, so
that the many others need a pass or two. The evidence treats observations as independent given
the model, each with its own W integrated out: it is the papers' criterion for comparing models,
not the joint density of the table.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy.special import gammaln

from ...data import Array, DenseOperator, Operator
from ...data.arrays import Namespace, from_numpy, on_accelerator, to_numpy
from ...numerics.bessel import log_kv_and_ratio
from .noisy import NoisyTerms

# The noiseless density has a pole at zero. Rows closer to the mean than a tenth of the noise (or
# than rounding) count as being that far away.
_SMALLEST_NOISE = 0.1
_SMALLEST_ROW = 1e-12
# How far log b may go from its moment estimate.
_REACH = 12.0
# A Newton step this small leaves an error of its square in log b; the evidence at its end, from
# the quadratic at its start, is off by its cube.
_SMALL_STEP = 3e-4
_MAX_STEPS = 50
# Cardinalities for which log b is sought first, and for which it is interpolated afterwards.
_GUIDES = 256
# Rows from which log b is guessed where there are many more.
_SAMPLE = 4096
# Entries of the tables of radii that are kept, and of the tiles on which densities are computed:
# from 128 KiB on, allocators may take every temporary from the system anew (on Dask's workers
# they do, which costs six times the arithmetic).
_KEPT = 2**23
_TILE = 2**13
# On a GPU half a gigabyte is little, and a pass over the table costs more.
_KEPT_ON_ACCELERATOR = 2**26
# Entries of a table up to which the evidence of every cardinality is computed.
WHOLE_PATH = 2e7
# Cardinalities of one round of the search from coarse to fine.
GRID = 120

EvidenceKind = Literal["noiseless", "noisy"]
EVIDENCES: tuple[str, ...] = get_args(EvidenceKind)


class CardinalityPath(NamedTuple):
    """The evidence of the models along a ranking."""

    cardinalities: np.ndarray  # (m,) q
    log_evidence: np.ndarray  # (m,)
    log_b: np.ndarray  # (m,) the maximiser, log of the square root of the prior precision


class NoiselessTerms(NamedTuple):
    """The log density of every row under every cardinality, and its slopes in log b."""

    q: np.ndarray  # (m,) cardinalities
    d: int
    xp: Namespace

    def derivatives(self, r2: Array, log_b: Array) -> tuple[Array, Array, Array]:
        """log p and its first two derivatives in log b."""
        q, d, xp = self.q, self.d, self.xp
        constant = (1 - 0.5 * (q + d)) * np.log(2) - gammaln(0.5 * d) - 0.5 * q * np.log(np.pi)
        nu = 0.5 * (q - d)
        z2 = xp.exp(2.0 * log_b) * r2
        z = xp.sqrt(z2)
        log_k, ratio = log_kv_and_ratio(nu, z)
        shape = from_numpy(constant, r2) + from_numpy(0.5 * (q + d), r2) * log_b
        value = log_k - from_numpy(0.5 * nu, r2) * xp.log(r2) + shape
        # From K_nu' = -K_{nu-1} - nu/z K_nu: d - z rho, rho = K_{nu-1}/K_nu; and from
        # z rho' = z (rho^2 - 1) + (2 nu - 1) rho.
        y = z * ratio
        return value, d - y, z2 - y * (y + from_numpy(2.0 * nu, r2))


Terms = NoiselessTerms | NoisyTerms


def _radii(block: Array, order: Array, last: Array, xp: Namespace) -> Array:
    """r^2 of every row under every cardinality, by running sums along the ranking."""
    chosen = xp.take(block, order, axis=1)
    squares = xp.cumulative_sum(chosen * chosen, axis=1, dtype=xp.float64)
    return xp.take(squares, last, axis=1)


def _sums(r2: Array, log_b: Array, floor: Array, terms: Terms) -> tuple[Array, ...]:
    """Sums over rows of the log density and its derivatives, per cardinality, a few
    cardinalities at a time so that the many temporaries stay in the cache."""
    xp, m = terms.xp, terms.q.size
    width = max(1, m if on_accelerator(r2) else _TILE // r2.shape[0])
    tiles = []
    for some in (slice(low, min(low + width, m)) for low in range(0, m, width)):
        r2_some = xp.maximum(r2[:, some], floor[some])
        parts = terms._replace(q=terms.q[some]).derivatives(r2_some, log_b[some])
        tiles.append([xp.sum(part, axis=0) for part in parts])
    return tuple(xp.concat(list(parts)) for parts in zip(*tiles, strict=True))


def _block_sums(
    block: Array, order: Array, last: Array, log_b: Array, floor: Array, terms: Terms
) -> tuple[Array, ...]:
    """The same from the rows themselves."""
    return _sums(_radii(block, order, last, terms.xp), log_b, floor, terms)


class NestedModels:
    """The models made of the first variables of ``order``.

    What is known of log b at some cardinalities is the start at others. ``told`` hears the highest
    log evidence after every pass over the rows.
    """

    def __init__(
        self,
        op: Operator,
        order: np.ndarray,
        d: int,
        noise: float,
        kind: EvidenceKind,
        told: Callable[[float], None] = lambda highest: None,
    ):
        self.told = told
        self.op, self.order, self.d, self.noise, self.kind = op, order, d, noise, kind
        self.columns = op.column_squares()
        self.room = _KEPT_ON_ACCELERATOR if on_accelerator(self.columns) else _KEPT
        squares = to_numpy(self.columns)[order]
        self.inside = np.cumsum(squares)  # sum_i r_i^2
        # Sums from the far end: a difference of totals would drown small inactive columns.
        self.beyond = np.append(np.cumsum(squares[::-1])[::-1], 0.0)
        self.known = np.zeros((2, 0))  # cardinalities, in order, and log b there minus `start`

    def path(self, cardinalities: np.ndarray) -> CardinalityPath:
        """Log evidence of the models made of the first q variables.

        Works through blocks of rows; memory is a few blocks, whatever the size of the table.
        """
        q = np.asarray(cardinalities)
        if self.known.shape[1] == 0:
            self._look_ahead(q)
        ahead = np.interp(q, *self.known) if self.known.shape[1] else np.zeros(q.size)
        value, log_b = self.maximise(q, ahead)
        self._remember(q, log_b - self.start(q))
        return CardinalityPath(q, value + self.outside(q), log_b)

    def search(
        self, cardinalities: np.ndarray, log_prior: Callable[[np.ndarray], np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Cardinalities and their log evidence with the prior's share: all of them, or those
        that lead to the best where the table is too large for all."""

        def weigh(q: np.ndarray) -> np.ndarray:
            log_posterior: np.ndarray = self.path(q).log_evidence + log_prior(q)
            return log_posterior

        q = np.asarray(cardinalities)
        n, p = self.op.shape
        return (q, weigh(q)) if n * p <= WHOLE_PATH else coarse_to_fine(weigh, q)

    def _look_ahead(self, q: np.ndarray) -> None:
        """Find log b for some cardinalities, or from some rows, where all would take long."""
        n, p = self.op.shape
        guides = q if q.size <= 2 * _GUIDES else q[_spaced(0, q.size - 1, _GUIDES)]
        count = min(_SAMPLE, max(self.room // p, 1))
        models = self
        if n >= 4 * count and n * guides.size > self.room:
            some = self.op.sample_rows(count)
            models = NestedModels(some, self.order, self.d, self.noise, self.kind)
        if guides.size < q.size or models is not self:
            self._remember(guides, models.maximise(guides, np.zeros(guides.size))[1])
            self.known[1] -= models.start(guides)

    def _remember(self, q: np.ndarray, ahead: np.ndarray) -> None:
        new = ~np.isin(self.known[0], q)
        both = np.hstack([self.known[:, new], np.stack([q, ahead])])
        self.known = both[:, np.argsort(both[0])]

    def start(self, q: np.ndarray) -> np.ndarray:
        """log b by the method of moments: E r^2 = d q / b^2."""
        n = self.op.shape[0]
        squares = np.maximum(self.inside[q - 1], 1e-300)
        start: np.ndarray = 0.5 * np.log(self.d * n * q / squares)
        return start

    def radii(self, q: np.ndarray) -> Operator | None:
        """r^2 of all rows under a few models, if they are small beside the table and in memory:
        several passes over these then cost one over the table."""
        n, p = self.op.shape
        if 8 * q.size > p or n * q.size > self.room:
            return None
        order, last = self._places(q)
        f = partial(_radii, order=order, last=last, xp=self.op.xp)
        return DenseOperator(self.op.gather_rows(f, entrywise=True))

    def _places(self, q: np.ndarray) -> tuple[Array, Array]:
        like = self.columns
        return from_numpy(self.order[: int(q.max())], like), from_numpy(q - 1, like)

    def sums(
        self, q: np.ndarray, log_b: np.ndarray, radii: Operator | None
    ) -> tuple[np.ndarray, ...]:
        """The log density of all rows and its derivatives in log b: one pass over the rows."""
        xp, like = self.op.xp, self.columns
        floor = np.maximum(
            _SMALLEST_ROW**2 / self.op.shape[0] * self.inside[q - 1],
            _SMALLEST_NOISE**2 * self.noise * q,
        )
        terms: Terms = (
            NoiselessTerms(q, self.d, xp)
            if self.kind == "noiseless"
            else NoisyTerms(q, self.d, self.noise, xp)
        )
        at, floor = from_numpy(log_b, like), from_numpy(floor, like)
        if radii is not None:
            f = partial(_sums, log_b=at, floor=floor, terms=terms)
            parts = radii.sum_rows(f, entrywise=True)
        else:
            order, last = self._places(q)
            g = partial(_block_sums, order=order, last=last, log_b=at, floor=floor, terms=terms)
            parts = self.op.sum_rows(g, entrywise=True)
        return tuple(to_numpy(part) for part in parts)

    def maximise(self, q: np.ndarray, ahead: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(largest log density, its log b) by Newton's method from ``start + ahead``.

        Cardinalities whose last step was small take no part in the following passes.
        """
        start = self.start(q)
        log_b, value = start + ahead, np.empty(q.size)
        radii, open_ = self.radii(q), np.arange(q.size)
        for _ in range(_MAX_STEPS):
            at = log_b[open_]
            total, first, second = self.sums(q[open_], at, radii)
            self.told(float(np.max(total + self.outside(q[open_]))))
            newton = -first / np.where(second < 0, second, -np.abs(first) - 1e-300)
            # Under the noisy model pure noise is best explained by b = infinity: stay near.
            near, far = start[open_] - _REACH, start[open_] + _REACH
            log_b[open_] = np.clip(at + np.clip(newton, -1.0, 1.0), near, far)
            step = log_b[open_] - at
            value[open_] = total + step * (first + 0.5 * step * second)
            moving = np.flatnonzero(np.abs(step) > _SMALL_STEP)
            if moving.size == 0:
                break
            open_ = open_[moving]
            if radii is not None:
                radii = radii.take_columns(moving)
        return value, log_b

    def outside(self, q: np.ndarray) -> np.ndarray:
        """The log density of the inactive variables."""
        n, p = self.op.shape
        gaussian = n * (p - q) * np.log(2 * np.pi * self.noise)
        log_density: np.ndarray = -0.5 * (gaussian + self.beyond[q] / self.noise)
        return log_density


def evidence_path(
    op: Operator,
    order: np.ndarray,
    d: int,
    noise_variance: float,
    cardinalities: np.ndarray,
    *,
    kind: EvidenceKind = "noiseless",
) -> CardinalityPath:
    """Log evidence of the models made of the first q variables of ``order``."""
    return NestedModels(op, np.asarray(order), d, noise_variance, kind).path(cardinalities)


def _spaced(low: int, high: int, count: int) -> np.ndarray:
    """About ``count`` of the positions low .. high, both included, denser towards ``low``."""
    half = count // 2
    even = np.linspace(low, high, half)
    dense = low - 1 + np.geomspace(1, high - low + 1, half)
    return np.unique(np.concatenate([even, dense]).round().astype(int))


def coarse_to_fine(
    evaluate: Callable[[np.ndarray], np.ndarray], cardinalities: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The cardinalities tried and their values: some hundred first, in the end every one around
    the maximum."""
    q = np.asarray(cardinalities)
    values = np.full(q.size, np.nan)
    low, high = 0, q.size - 1
    while True:
        some = np.arange(low, high + 1) if high - low < GRID else _spaced(low, high, GRID)
        new = some[np.isnan(values[some])]
        values[new] = evaluate(q[new])
        tried = np.flatnonzero(~np.isnan(values))
        best = int(np.argmax(values[tried]))
        # two neighbours on either side: the values between may be a little higher still
        low, high = (int(tried[np.clip(best + k, 0, tried.size - 1)]) for k in (-2, 2))
        if not np.any(np.isnan(values[low : high + 1])):
            return q[tried], values[tried]
