"""Marginal likelihood (evidence) of each number of variables in a ranking.

[MBL16] Theorems 1 and 2, [BLM18]. In the model of cardinality q the first q variables of the
ranking are active, x_v = W y (+ noise), and the others are Gaussian noise of variance sigma_1^2.
With W integrated out, the density of the active part of an observation depends on r = |x_v| alone:

* noiseless (Theorem 2, misprints corrected): x_v has a multivariate Bessel distribution. With
  nu = (q - d)/2 and b the square root of the prior precision (alpha of [BLM18]),

      log p(x_v) = log K_nu(b r) - nu log r + (1 - (q+d)/2) log 2 - lgamma(d/2)
                   - q/2 log pi + (q+d)/2 log b .

* noisy (Theorem 1): given g = |y|^2 ~ chi2_d, x_v ~ N(0, (sigma^2 + g/b^2) I_q), so that
  p(x_v) is a positive integral over g. The Bessel-J integral of the papers oscillates.

Both densities are maximised over log b by Newton's method for all cardinalities at once. Each
Newton iteration reads the rows once. The maximiser is first computed for a subset of the
cardinalities and interpolated for the others, which then require one or two iterations. As in the
papers, the evidence treats observations as independent given the model, each with W integrated out.
This evidence compares models; it is not the joint density of the data matrix.
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
from .noisy_density import NoisyDensity

# The noiseless density has a pole at zero. The radius r is therefore bounded below by the first
# multiple of the noise standard deviation times sqrt(q), and by the second multiple of its root
# mean square.
MIN_RADIUS_TO_NOISE = 0.1
MIN_RELATIVE_RADIUS = 1e-12
MAX_LOG_B_CHANGE = 12.0  # maximum distance of log b from its moment estimate
# Newton's method stops at steps below this tolerance. The error of log b is then of the order of
# the squared step. The evidence is extrapolated to the end of the step, with an error of the order
# of its cube.
STEP_TOLERANCE = 3e-4
MAX_NEWTON_ITERATIONS = 50
N_NODES = 256  # number of cardinalities between which log b is interpolated
MAX_SAMPLED_ROWS = 4096  # maximum number of rows from which log b is initialised
# Maximum number of squared radii in memory. The limit is larger on a GPU, where half a gigabyte is
# available and reading the data matrix is slower.
MAX_RADII = 2**23
MAX_RADII_ON_ACCELERATOR = 2**26
# Number of entries for which densities are computed at once. For temporaries above 128 KiB,
# allocators may request memory from the system each time; with Dask, this took six times as long as
# the arithmetic.
TILE_SIZE = 2**13
# Maximum number of entries of a data matrix for which all cardinalities are compared.
MAX_ENTRIES_EXHAUSTIVE = 2e7
GRID_SIZE = 120  # number of cardinalities per round of the coarse-to-fine search

EvidenceKind = Literal["noiseless", "noisy"]
EVIDENCES: tuple[str, ...] = get_args(EvidenceKind)


class CardinalityPath(NamedTuple):
    """Evidence of the models along a ranking."""

    cardinalities: np.ndarray  # (m,) q
    log_evidence: np.ndarray  # (m,)
    log_b: np.ndarray  # (m,) the maximiser, log of the square root of the prior precision


class NoiselessDensity(NamedTuple):
    """Log density of the active variables of every row for every cardinality."""

    q: np.ndarray  # (m,) cardinalities
    d: int
    xp: Namespace

    def derivatives(self, r2: Array, log_b: Array) -> tuple[Array, Array, Array]:
        """Return the log density and its first two derivatives in log b."""
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


Density = NoiselessDensity | NoisyDensity


def _squared_radii(block: Array, order: Array, last: Array, xp: Namespace) -> Array:
    """Return r^2 of every row and cardinality, by cumulative sums."""
    ranked = xp.take(block, order, axis=1)
    squares = xp.cumulative_sum(ranked * ranked, axis=1, dtype=xp.float64)
    return xp.take(squares, last, axis=1)


def _sum_derivatives(r2: Array, log_b: Array, floor: Array, density: Density) -> tuple[Array, ...]:
    """Sum the log density and its derivatives over rows, for each cardinality.

    Cardinalities are processed in tiles whose temporaries fit into the cache.
    """
    xp, m = density.xp, density.q.size
    width = max(1, m if on_accelerator(r2) else TILE_SIZE // r2.shape[0])
    tiles = []
    for tile in (slice(low, min(low + width, m)) for low in range(0, m, width)):
        r2_tile = xp.maximum(r2[:, tile], floor[tile])
        parts = density._replace(q=density.q[tile]).derivatives(r2_tile, log_b[tile])
        tiles.append([xp.sum(part, axis=0) for part in parts])
    return tuple(xp.concat(list(parts)) for parts in zip(*tiles, strict=True))


def _sum_block_derivatives(
    block: Array, order: Array, last: Array, log_b: Array, floor: Array, density: Density
) -> tuple[Array, ...]:
    """Sum the log density and its derivatives over a block of rows."""
    return _sum_derivatives(_squared_radii(block, order, last, density.xp), log_b, floor, density)


class NestedModels:
    """Models of the first q variables of a ranking.

    ``order`` (p,) has the most relevant variable first, and ``noise`` is the variance of the
    inactive variables. ``report`` receives the largest log evidence after every Newton iteration.
    """

    def __init__(
        self,
        op: Operator,
        order: np.ndarray,
        d: int,
        noise: float,
        kind: EvidenceKind,
        report: Callable[[float], None] = lambda log_evidence: None,
    ):
        self.op, self.order, self.d, self.noise, self.kind = op, order, d, noise, kind
        self.report = report
        self.column_squares = op.column_squares()
        accelerator = on_accelerator(self.column_squares)
        self.max_radii = MAX_RADII_ON_ACCELERATOR if accelerator else MAX_RADII
        squares = to_numpy(self.column_squares)[order]
        self.active_squares = np.cumsum(squares)  # sum_i r_i^2
        # Sums start at the end, because a difference of totals would lose the digits of small
        # columns.
        self.inactive_squares = np.append(np.cumsum(squares[::-1])[::-1], 0.0)
        # Cardinalities, increasing, and log b minus its moment estimate.
        self.nodes = np.zeros((2, 0))

    def path(self, cardinalities: np.ndarray) -> CardinalityPath:
        """Compute the log evidence of the given cardinalities."""
        q = np.asarray(cardinalities)
        if self.nodes.shape[1] == 0:
            self._initialise_nodes(q)
        offset = np.interp(q, *self.nodes) if self.nodes.shape[1] else np.zeros(q.size)
        value, log_b = self.maximise(q, offset)
        self._add_nodes(q, log_b - self.moment_estimate(q))
        return CardinalityPath(q, value + self.inactive_log_density(q), log_b)

    def search(
        self, cardinalities: np.ndarray, log_prior: Callable[[np.ndarray], np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Evaluate the log evidence plus log prior; return it with cardinalities.

        For large data matrices, the cardinalities are those of a coarse-to-fine search.
        """

        def log_posterior(q: np.ndarray) -> np.ndarray:
            values: np.ndarray = self.path(q).log_evidence + log_prior(q)
            return values

        q = np.asarray(cardinalities)
        n, p = self.op.shape
        if n * p <= MAX_ENTRIES_EXHAUSTIVE:
            return q, log_posterior(q)
        return search_coarse_to_fine(log_posterior, q)

    def _initialise_nodes(self, q: np.ndarray) -> None:
        """Compute log b for a sample of the cardinalities and of the rows."""
        n, p = self.op.shape
        nodes = q if q.size <= 2 * N_NODES else q[_spaced_indices(0, q.size - 1, N_NODES)]
        n_rows = min(MAX_SAMPLED_ROWS, max(self.max_radii // p, 1))
        models = self
        if n >= 4 * n_rows and n * nodes.size > self.max_radii:
            sample = self.op.sample_rows(n_rows)
            models = NestedModels(sample, self.order, self.d, self.noise, self.kind)
        if nodes.size < q.size or models is not self:
            log_b = models.maximise(nodes, np.zeros(nodes.size))[1]
            self._add_nodes(nodes, log_b - models.moment_estimate(nodes))

    def _add_nodes(self, q: np.ndarray, offset: np.ndarray) -> None:
        retained = ~np.isin(self.nodes[0], q)
        nodes = np.hstack([self.nodes[:, retained], np.stack([q, offset])])
        self.nodes = nodes[:, np.argsort(nodes[0])]

    def moment_estimate(self, q: np.ndarray) -> np.ndarray:
        """Estimate log b by the method of moments: E r^2 = d q / b^2."""
        n = self.op.shape[0]
        squares = np.maximum(self.active_squares[q - 1], 1e-300)
        log_b: np.ndarray = 0.5 * np.log(self.d * n * q / squares)
        return log_b

    def cache_radii(self, q: np.ndarray) -> Operator | None:
        """Compute r^2 of all rows, read instead of X; None if the array is large."""
        n, p = self.op.shape
        if 8 * q.size > p or n * q.size > self.max_radii:
            return None
        order, last = self._column_indices(q)
        f = partial(_squared_radii, order=order, last=last, xp=self.op.xp)
        return DenseOperator(self.op.gather_rows(f, entrywise=True))

    def _column_indices(self, q: np.ndarray) -> tuple[Array, Array]:
        """Return the ranked columns and the last active one of each cardinality."""
        like = self.column_squares
        return from_numpy(self.order[: int(q.max())], like), from_numpy(q - 1, like)

    def sum_derivatives(
        self, q: np.ndarray, log_b: np.ndarray, radii: Operator | None
    ) -> tuple[np.ndarray, ...]:
        """Return the log density of all rows and its derivatives in log b."""
        xp, like = self.op.xp, self.column_squares
        min_squares = np.maximum(
            MIN_RELATIVE_RADIUS**2 / self.op.shape[0] * self.active_squares[q - 1],
            MIN_RADIUS_TO_NOISE**2 * self.noise * q,
        )
        density: Density = (
            NoiselessDensity(q, self.d, xp)
            if self.kind == "noiseless"
            else NoisyDensity(q, self.d, self.noise, xp)
        )
        given = {
            "log_b": from_numpy(log_b, like),
            "floor": from_numpy(min_squares, like),
            "density": density,
        }
        if radii is not None:
            parts = radii.sum_rows(partial(_sum_derivatives, **given), entrywise=True)
        else:
            order, last = self._column_indices(q)
            f = partial(_sum_block_derivatives, order=order, last=last, **given)
            parts = self.op.sum_rows(f, entrywise=True)
        return tuple(to_numpy(part) for part in parts)

    def maximise(self, q: np.ndarray, offset: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Maximise the log density over log b; return the maximum and maximiser.

        Newton's method starts from the moment estimate plus ``offset``.
        """
        centre = self.moment_estimate(q)
        log_b, value = centre + offset, np.empty(q.size)
        radii, active = self.cache_radii(q), np.arange(q.size)  # indices that have not converged
        for _ in range(MAX_NEWTON_ITERATIONS):
            current = log_b[active]
            total, first, second = self.sum_derivatives(q[active], current, radii)
            self.report(float(np.max(total + self.inactive_log_density(q[active]))))
            newton = -first / np.where(second < 0, second, -np.abs(first) - 1e-300)
            # Under the noisy model, b = infinity maximises the density of pure noise.
            low, high = centre[active] - MAX_LOG_B_CHANGE, centre[active] + MAX_LOG_B_CHANGE
            log_b[active] = np.clip(current + np.clip(newton, -1.0, 1.0), low, high)
            step = log_b[active] - current
            value[active] = total + step * (first + 0.5 * step * second)
            remaining = np.flatnonzero(np.abs(step) > STEP_TOLERANCE)
            if remaining.size == 0:
                break
            active = active[remaining]
            if radii is not None:
                radii = radii.take_columns(remaining)
        return value, log_b

    def inactive_log_density(self, q: np.ndarray) -> np.ndarray:
        """Return the log density of the inactive variables."""
        n, p = self.op.shape
        constant = n * (p - q) * np.log(2 * np.pi * self.noise)
        log_density: np.ndarray = -0.5 * (constant + self.inactive_squares[q] / self.noise)
        return log_density


def _spaced_indices(low: int, high: int, count: int) -> np.ndarray:
    """Return about ``count`` indices from low to high, denser near ``low``."""
    half = count // 2
    even = np.linspace(low, high, half)
    dense = low - 1 + np.geomspace(1, high - low + 1, half)
    return np.unique(np.concatenate([even, dense]).round().astype(int))


def search_coarse_to_fine(
    evaluate: Callable[[np.ndarray], np.ndarray], cardinalities: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Search for the maximum on successively finer grids; return all points."""
    q = np.asarray(cardinalities)
    values = np.full(q.size, np.nan)
    low, high = 0, q.size - 1
    while True:
        whole = high - low < GRID_SIZE
        grid = np.arange(low, high + 1) if whole else _spaced_indices(low, high, GRID_SIZE)
        new = grid[np.isnan(values[grid])]
        values[new] = evaluate(q[new])
        evaluated = np.flatnonzero(~np.isnan(values))
        best = int(np.argmax(values[evaluated]))
        # Two neighbours on each side are included, because the maximum may lie beyond the nearest
        # ones.
        low, high = (int(evaluated[np.clip(best + k, 0, evaluated.size - 1)]) for k in (-2, 2))
        if not np.any(np.isnan(values[low : high + 1])):
            return q[evaluated], values[evaluated]
