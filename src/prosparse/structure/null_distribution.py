"""Null distribution of R2(d) under random permutation of a column.

Symbols: u_1, ..., u_D orthonormal centred scores of n rows; h_a(d) = sum_{i <= d} u_ai^2 the
leverage of row a; y a centred column of unit length; R2(d) = sum_{i <= d} (u_i'y)^2. Under random
permutation of the rows of y, E[R2(d)] = d / (n - 1). The variance is known exactly and depends on
the scores only through sum_a h_a(d)^2, and on the column only through sum_a y_a^4 [K95]. If the
column or the scores are Gaussian, R2(d) follows Beta(d / 2, (n - 1 - d) / 2) exactly.

Two null distributions are available:

* *moment-matched*: the beta distribution with the mean and variance under permutation. It equals
  the Gaussian one if the variances agree;
* *permutation*: Monte Carlo permutation of the column. Columns with few entries off their mode, or
  with outliers, need it: their null distribution has a heavier tail than any beta distribution.

[K95]  F. Kazi-Aoual, S. Hitier, R. Sabatier, J.-D. Lebreton. Refined approximations to permutation
       tests for multivariate inference. Computational Statistics & Data Analysis 20, 1995.
[BC91] J. Besag, P. Clifford. Sequential Monte Carlo p-values. Biometrika 78, 1991.
[WH31] E. B. Wilson, M. M. Hilferty. The distribution of chi-square. Proceedings of the National
       Academy of Sciences 17, 1931.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import betainc, betainccinv

from ..data.operators.sparse import placed_sums
from ..parallel import in_parallel, slices_of

_MAX_ENTRIES = 2**21  # entries of the largest temporary array
# Columns per thread: few where p-values are computed, so that all cores are busy; many where they
# are interpolated, as each operation is short.
_COMPUTED_CHUNK, _INTERPOLATED_CHUNK = 1024, 8192
# Number of excess variances and of R2 values of the grid from which p-values are bounded.
_FINE_GRID, _COARSE_GRID, _FINE_GRID_MIN_COLUMNS = (8, 128), (8, 32), 8192
_GRID_MIN_PVALUE = 1e-4  # p-value at the last R2 of the grid
_VARIANCE_STEP = 0.01  # increment of the variance that shows whether a tail increases with it
_SPARSE_RATIO = 16  # rows per non-zero entry at which sparse products are faster
_MAX_CACHED = 2**23  # entries of the permutations that are cached for the next column
_TIE_TOLERANCE = 1e-5  # difference of two standardised statistics that is rounding
_MIN_VARIANCE_RATIO = 1e-3  # relative to the Gaussian variance


def excess_variance(
    squared_leverages: np.ndarray, fourth_moments: np.ndarray, n: int
) -> np.ndarray:
    """Compute the relative excess of Var[R2(d)] over the Gaussian one, [K95].

    Parameters
    ----------
    squared_leverages : ndarray of shape (D,)
        sum_a h_a(d)^2.
    fourth_moments : ndarray of shape (n_columns,)
        sum_a y_a^4 of each column of unit length.
    n : int
        Number of rows.

    Returns
    -------
    ndarray of shape (n_columns, D)
    """
    d = np.arange(1.0, squared_leverages.size + 1.0)
    gaussian = 2.0 * d * (n - 1.0 - d) / ((n - 1.0) ** 2 * (n + 1.0))
    of_scores = n * (n + 1.0) * squared_leverages - (n - 1.0) * d * (d + 2.0)
    of_column = n * (n + 1.0) * fourth_moments - 3.0 * (n - 1.0)
    excess = of_column[:, None] * of_scores / ((n + 1.0) * n * (n - 1.0) * (n - 2.0) * (n - 3.0))
    return excess / gaussian  # [K95] (2)


def moment_matched_pvalues(R2: np.ndarray, excess: np.ndarray, dof: int) -> np.ndarray:
    """Compute P(R2(d) >= observed) under the moment-matched beta distribution.

    Parameters
    ----------
    R2 : ndarray of shape (n_columns, D)
    excess : ndarray of shape (n_columns, D)
        Relative excess variance, see `excess_variance`; 0 for the Gaussian distribution.
    dof : int
        Degrees of freedom of a column: n - 1, or n minus the number of groups.

    Returns
    -------
    ndarray of shape (n_columns, D)
    """
    a, b = _beta_parameters(excess, dof)
    pvalues = np.empty(R2.shape)

    def fill(chunk: slice) -> None:
        pvalues[chunk] = betainc(b[chunk], a[chunk], 1.0 - np.clip(R2[chunk], 0.0, 1.0))

    in_parallel(fill, slices_of(R2.shape[0], _COMPUTED_CHUNK))
    return pvalues


def _beta_parameters(excess: np.ndarray, dof: int) -> tuple[np.ndarray, np.ndarray]:
    """Match a beta distribution to the permutation mean and variance of R2(d)."""
    mean = np.arange(1, excess.shape[-1] + 1) / dof
    # Mean m and variance v give a + b = m (1 - m) / v - 1, which is dof / 2 without excess.
    concentration = (0.5 * dof + 1.0) / np.maximum(1.0 + excess, _MIN_VARIANCE_RATIO) - 1.0
    concentration = np.maximum(concentration, 1e-3)
    return mean * concentration, (1.0 - mean) * concentration


class PValueBounds(NamedTuple):
    """Bounds on p-values, or on a function of them."""

    lower: np.ndarray  # (n_columns, D) or (n_columns,)
    upper: np.ndarray  # of the same shape


def bound_moment_matched_pvalues(
    lower_R2: np.ndarray,
    upper_R2: np.ndarray,
    excess: np.ndarray,
    dof: int,
    transform: Callable[[np.ndarray], np.ndarray] = np.asarray,
    combine: Callable[[np.ndarray], np.ndarray] = np.asarray,
) -> PValueBounds:
    """Bound `moment_matched_pvalues` by table lookup, fast for many columns.

    Parameters
    ----------
    lower_R2 : ndarray of shape (n_columns, D)
        Lower bound of R2.
    upper_R2 : ndarray of shape (n_columns, D)
        Upper bound of R2.
    excess : ndarray of shape (n_columns, D)
        Relative excess variance, see `excess_variance`. The rows must be multiples of each other.
    dof : int
        Degrees of freedom of a column.
    transform : callable
        Monotone function that is applied to each p-value. It is evaluated on the grid only.
    combine : callable
        Monotone function of the transformed p-values of a column: (n_columns, D) to (n_columns,).

    Returns
    -------
    PValueBounds
        Tight for p-values above 1e-4. For smaller ones, the lower bound is 0.

    Notes
    -----
    The tail probability is computed on a grid of excess variances and of R2. It decreases with R2,
    so that the values at the neighbouring grid points are bounds. With the variance it increases,
    decreases, or increases and then decreases. Between two grid points it is therefore at least the
    smaller of the two values. It is at most the larger one if it still increases at the point with
    the larger variance. Below the mean it decreases from 1. Otherwise it is at most 1/2, because
    the mean is less than 1/2 and the median is less than the mean.
    """
    n_columns, D = upper_R2.shape
    n_excess, n_sizes = _FINE_GRID if n_columns > _FINE_GRID_MIN_COLUMNS else _COARSE_GRID
    if n_columns <= 2 * n_excess * n_sizes:  # direct computation is cheaper than the grid
        return PValueBounds(
            combine(transform(moment_matched_pvalues(upper_R2, excess, dof))),
            combine(transform(moment_matched_pvalues(lower_R2, excess, dof))),
        )
    # Intervals of the excess variance, between quantiles of the columns.
    is_gaussian = not excess.any()
    sort_key = excess[:, np.argmax(np.max(np.abs(excess), axis=0))]
    order = np.arange(n_columns) if is_gaussian else np.argsort(sort_key, kind="stable")
    ends = np.unique(
        np.linspace(0, n_columns - 1, (0 if is_gaussian else n_excess) + 1).astype(int)
    )
    n_intervals = max(1, ends.size - 1)
    first, last = excess[order[ends[:n_intervals]]], excess[order[ends[-n_intervals:]]]
    low, high = np.minimum(first, last), np.maximum(first, last)  # (n_intervals, D)
    max_R2 = np.maximum(
        *(betainccinv(*_beta_parameters(end, dof), _GRID_MIN_PVALUE) for end in (low, high))
    )
    max_R2 *= 1.0 + 1e-9
    sizes = max_R2[:, :, None] * (np.arange(1, n_sizes + 1) / n_sizes)

    def tail(end: np.ndarray) -> np.ndarray:
        a, b = _beta_parameters(end, dof)
        return np.asarray(betainc(b[:, :, None], a[:, :, None], 1.0 - np.minimum(sizes, 1.0)))

    at_low = tail(low)
    at_high = at_low if is_gaussian else tail(high)
    lower_tail = np.zeros((n_intervals, D, n_sizes + 1))  # 0 beyond the last size
    lower_tail[:, :, :n_sizes] = (1.0 - 1e-9) * np.minimum(at_low, at_high)
    mean = (np.arange(1, D + 1) / dof)[:, None]
    is_between = sizes <= mean
    if is_gaussian:
        is_between[:] = True
    else:
        is_between |= tail(high + _VARIANCE_STEP * (1.0 + np.abs(high))) > at_high
    upper_tail = np.ones((n_intervals, D, n_sizes + 1))  # 1 before the first size
    upper_tail[:, :, 1:] = np.where(
        is_between, (1.0 + 1e-9) * np.maximum(at_low, at_high), np.where(mean < 0.5, 0.5, 1.0)
    )
    interval = np.zeros(1 if is_gaussian else n_columns, dtype=np.intp)
    if not is_gaussian:
        position = np.searchsorted(ends, np.arange(n_columns), side="right") - 1
        interval[order] = np.clip(position, 0, n_intervals - 1)
    lower_values, upper_values = transform(lower_tail), transform(upper_tail)

    def look_up(chunk: slice) -> PValueBounds:
        rows = interval if is_gaussian else interval[chunk]
        offset = (rows[:, None] * D + np.arange(D)) * (n_sizes + 1)
        sizes_per_R2 = (n_sizes / max_R2)[rows]

        def values_at(R2: np.ndarray, values: np.ndarray, rounding: float) -> np.ndarray:
            index = np.minimum(R2[chunk] * (rounding * sizes_per_R2), n_sizes).astype(np.intp)
            return combine(np.take(values, offset + index))

        return PValueBounds(
            values_at(upper_R2, lower_values, 1.0 + 1e-9),
            values_at(lower_R2, upper_values, 1.0 - 1e-9),
        )

    parts = in_parallel(look_up, slices_of(n_columns, _INTERPOLATED_CHUNK))
    return PValueBounds(*(np.concatenate(bounds) for bounds in zip(*parts, strict=True)))


class RowPermutations:
    """Random permutations of the rows, in chunks, the same for each column.

    Parameters
    ----------
    n : int
        Number of rows.
    groups : int ndarray of shape (n,) or None
        Groups within which the rows are permuted.
    seed : int
        Seed for the permutations.
    """

    def __init__(self, n: int, groups: np.ndarray | None = None, seed: int = 0):
        self.n, self.groups, self.seed = n, groups, seed
        self.chunk_size = max(16, min(256, _MAX_ENTRIES // n))
        self._cache: dict[int, np.ndarray] = {}

    def chunk(self, number: int) -> np.ndarray:
        """Return permutations (chunk_size, n)."""
        if number not in self._cache:
            permutations = self._draw(number)
            if len(self._cache) * permutations.size >= _MAX_CACHED:
                return permutations
            self._cache[number] = permutations
        return self._cache[number]

    def _draw(self, number: int) -> np.ndarray:
        rng = np.random.default_rng([self.seed, number])
        if self.groups is None:
            rows = np.arange(self.n)  # of NumPy's index dtype, which np.take does not copy
            return rng.permuted(np.tile(rows, (self.chunk_size, 1)), axis=1)
        # Rows sorted by group, in random order within each, fill the positions of their group.
        shuffled = np.argsort(self.groups + rng.random((self.chunk_size, self.n)), axis=1)
        permutations = np.empty_like(shuffled)
        permutations[:, np.argsort(self.groups, kind="stable")] = shuffled
        return permutations


class LeaveOneOutScores(NamedTuple):
    """Orthonormal centred scores U T_j + y_j o_j' for each column y_j."""

    U: np.ndarray  # (n, m) common to all columns
    rotations: np.ndarray  # (n_columns, m, D) T
    own_weights: np.ndarray  # (n_columns, D) o


def permutation_pvalues(
    Y: np.ndarray,
    scores: LeaveOneOutScores,
    permutations: RowPermutations,
    max_permutations: int,
    n_exceedances: int = 10,
) -> np.ndarray:
    """Compute P(R2 >= observed) by random permutation of the rows of each column.

    R2(1), R2(2), ... are transformed to a common scale by the cube root of [WH31], and the test
    statistic is their maximum. Permutations are drawn sequentially [BC91].

    Parameters
    ----------
    Y : ndarray of shape (n, n_columns)
        Columns, none of which is constant; centred (within groups) if ``own_weights`` is not zero.
    scores : LeaveOneOutScores
        Scores for these columns.
    permutations : RowPermutations
        Permutations of the n rows.
    max_permutations : int
        Approximate maximum number of permutations.
    n_exceedances : int
        Number of permutations reaching the observed statistic after which the test stops.

    Returns
    -------
    ndarray of shape (n_columns,)
        Valid p-values, at least 1 / (1 + the number of permutations).
    """
    pvalues = np.empty(Y.shape[1])
    # The median is the mode of nearly constant columns; centred scores are invariant to a constant.
    median = np.sort(Y, axis=0)[Y.shape[0] // 2]
    Z = (Y - median) / np.std(Y, axis=0, ddof=1)  # unit variance: (u_i'y)^2 is 1 on average
    is_sparse = _SPARSE_RATIO * np.count_nonzero(Z, axis=0) <= Y.shape[0]
    n_chunks = max(1, round(max_permutations / permutations.chunk_size))
    for columns, projection_type, width in (
        (np.flatnonzero(is_sparse), _SparseProjection, scores.U.shape[1]),
        (np.flatnonzero(~is_sparse), _DenseProjection, Y.shape[0]),
    ):
        step = max(1, _MAX_ENTRIES // (permutations.chunk_size * width))
        for part in (columns[chunk] for chunk in slices_of(columns.size, step)):
            part_scores = LeaveOneOutScores(
                scores.U, scores.rotations[part], scores.own_weights[part]
            )
            project = projection_type(Z[:, part], Y[:, part], part_scores)
            pvalues[part] = _sequential_pvalues(
                project, part.size, permutations, n_chunks, n_exceedances
            )
    return pvalues


class _Projection(Protocol):
    """Projections u_i'y of permuted columns y."""

    def __call__(self, columns: np.ndarray, permutations: np.ndarray) -> np.ndarray:
        """Project the columns in each permutation, (n_columns, n_permutations, D)."""


class _DenseProjection:
    """Projections by dense products."""

    def __init__(self, Z: np.ndarray, Y: np.ndarray, scores: LeaveOneOutScores):
        # Most of the time is spent on moving entries: single precision halves it.
        U, rotations, own = (part.astype(np.float32) for part in scores)
        self.Z = np.ascontiguousarray(Z.T, dtype=np.float32)
        self.U = U @ rotations + Y.T.astype(np.float32)[:, :, None] * own[:, None, :]

    def __call__(self, columns: np.ndarray, permutations: np.ndarray) -> np.ndarray:
        return np.asarray(np.take(self.Z[columns], permutations, axis=1) @ self.U[columns])


class _SparseProjection:
    """Projections of sparse columns; only the nonzero entries are permuted."""

    def __init__(self, Z: np.ndarray, Y: np.ndarray, scores: LeaveOneOutScores):
        self.rows = [np.flatnonzero(z) for z in Z.T]
        self.entries = [z[rows] for z, rows in zip(Z.T, self.rows, strict=True)]
        self.Y, self.scores = np.ascontiguousarray(Y.T), scores

    def __call__(self, columns: np.ndarray, permutations: np.ndarray) -> np.ndarray:
        rows = [np.take(permutations, self.rows[j], axis=1) for j in columns]
        entries = [self.entries[j] for j in columns]
        sums = placed_sums(entries, rows, self.scores.U)  # (n_columns, n_permutations, m)
        own = [self.Y[j][at] @ y for j, at, y in zip(columns, rows, entries, strict=True)]
        return np.asarray(
            sums @ self.scores.rotations[columns]
            + np.array(own)[:, :, None] * self.scores.own_weights[columns, None, :]
        )


def _sequential_pvalues(
    project: _Projection,
    n_columns: int,
    permutations: RowPermutations,
    n_chunks: int,
    n_exceedances: int,
) -> np.ndarray:
    """Permute all columns until each has reached ``n_exceedances``, [BC91]."""
    identity = np.arange(permutations.n)[None, :]
    thresholds = _exceedance_thresholds(project(np.arange(n_columns), identity)[:, 0, :])
    exceeded, drawn = np.zeros(n_columns, dtype=int), np.zeros(n_columns, dtype=int)
    active = np.arange(n_columns)
    for number in range(n_chunks):
        squares = project(active, permutations.chunk(number))
        squares *= squares
        total = np.zeros(squares.shape[:2])
        exceeds = np.zeros(total.shape, dtype=bool)
        for d in range(squares.shape[2]):  # cumulative sums without an array of them
            total += squares[:, :, d]
            exceeds |= total >= thresholds[active, d, None]
        exceeded[active] += np.count_nonzero(exceeds, axis=1)
        drawn[active] += permutations.chunk_size
        active = active[exceeded[active] < n_exceedances]
        if active.size == 0:
            break
    return (1.0 + exceeded) / (1.0 + drawn)


def _exceedance_thresholds(projections: np.ndarray) -> np.ndarray:
    """Compute the sum of d squares that equals the observed statistic.

    The result has shape (..., D), for d = 1, ..., D.

    The statistic is the maximum over d of the cube root of the mean square, standardised as for a
    chi-square variable [WH31]. It is transformed back to the scale of the sums.
    """
    d = np.arange(1.0, projections.shape[-1] + 1.0)
    centre, scale = 1.0 - 2.0 / (9.0 * d), np.sqrt(2.0 / (9.0 * d))
    sums = np.cumsum(projections**2, axis=-1)
    observed = np.max((np.cbrt(sums / d) - centre) / scale, axis=-1, keepdims=True)
    observed = observed - _TIE_TOLERANCE * np.maximum(1.0, np.abs(observed))
    return np.asarray(d * np.maximum(centre + scale * observed, 0.0) ** 3)
