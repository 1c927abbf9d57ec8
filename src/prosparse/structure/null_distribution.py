"""How much of a column would d given scores explain if the column's rows were in random order?

Symbols: u_1, ..., u_D orthonormal scores (n rows, centred), h_a(d) = sum_{i <= d} u_ai^2 the
leverage of row a, y a centred column of length 1, R2(d) = sum_{i <= d} (u_i'y)^2. Under all orders
of the rows of y the mean of R2(d) is d / (n - 1), and its variance is known exactly: it needs of
the scores only sum_a h_a(d)^2 and of the column only sum_a y_a^4 [K95]. If the column is
Gaussian, or the scores are, R2(d) follows Beta(d / 2, (n - 1 - d) / 2) exactly.

Three laws, from smooth to rough:

* *Gaussian*: that beta law;
* *matched*: the beta law with the exact mean and variance under permutation, which is the Gaussian
  one where the variances agree;
* *sampled*: the column is put in random order many times. Needed for columns with few entries off
  their commonest value, or with outliers, whose law has a longer tail than any beta law.

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

_ENTRIES = 2**21  # of the largest temporary array
# P-values that a thread calculates at a time, few, so that all cores have some; or looks up, many,
# as each operation on them is short.
_CALCULATED, _LOOKED_UP = 1024, 8192
# The grid of tails that bounds of p-values are taken from: laws, sizes of R2, and the tail beyond
# the largest.
_FINE_GRID, _COARSE_GRID, _MANY_COLUMNS = (8, 128), (8, 32), 8192
_SELDOM = 1e-4
_A_LITTLE = 0.01  # more variance, to see whether a tail rises with it
_SPARSE = 16  # times fewer entries than rows are worth a sparse product
_KEPT = 2**23  # entries of orders that are kept for the next column
_TIES = 1e-5  # sizes that differ by less, on their standard scale, are equal but for rounding
_LEAST_VARIANCE = 1e-3  # of the Gaussian one


def gaussian_pvalues(R2: np.ndarray, freedom: int) -> np.ndarray:
    """P(R2(d) at least this large) for d = 1, 2, ..., where the column or the scores are Gaussian.

    Parameters
    ----------
    R2 : array (columns, D)
    freedom : int
        Dimension of the space that the columns live in: n - 1, or n less the number of groups.

    Returns
    -------
    array (columns, D)
    """
    d = np.arange(1, R2.shape[1] + 1)
    return _beta_tail(R2, 0.5 * d, 0.5 * (freedom - d))


def excess_variance(squared_leverages: np.ndarray, fourth_powers: np.ndarray, n: int) -> np.ndarray:
    """By which share the variance of R2(d) under permutation exceeds that of a Gaussian column.

    Parameters
    ----------
    squared_leverages : array (D,)
        sum_a h_a(d)^2.
    fourth_powers : array (columns,)
        sum_a y_a^4 of every column of length 1.
    n : int
        Rows.

    Returns
    -------
    array (columns, D)
    """
    d = np.arange(1.0, squared_leverages.size + 1.0)
    gaussian = 2.0 * d * (n - 1.0 - d) / ((n - 1.0) ** 2 * (n + 1.0))
    of_scores = n * (n + 1.0) * squared_leverages - (n - 1.0) * d * (d + 2.0)
    of_column = n * (n + 1.0) * fourth_powers - 3.0 * (n - 1.0)
    more = of_column[:, None] * of_scores / ((n + 1.0) * n * (n - 1.0) * (n - 2.0) * (n - 3.0))
    return more / gaussian  # [K95] (2)


def matched_pvalues(R2: np.ndarray, excess: np.ndarray, freedom: int) -> np.ndarray:
    """P(R2(d) at least this large) by the beta law with the mean and variance under permutation.

    Parameters
    ----------
    R2 : array (columns, D)
    excess : array (columns, D)
        See `excess_variance`.
    freedom : int
        Dimension of the space that the columns live in.

    Returns
    -------
    array (columns, D)
    """
    return _beta_tail(R2, *_matched_law(excess, freedom))


def _matched_law(excess: np.ndarray, freedom: int) -> tuple[np.ndarray, np.ndarray]:
    """The two parameters of the beta law with the mean and variance under permutation."""
    mean = np.arange(1, excess.shape[-1] + 1) / freedom
    # a beta law with mean m and variance v has a + b = m (1 - m) / v - 1, here freedom / 2 + 1 - 1
    concentration = (0.5 * freedom + 1.0) / np.maximum(1.0 + excess, _LEAST_VARIANCE) - 1.0
    concentration = np.maximum(concentration, 1e-3)
    return mean * concentration, (1.0 - mean) * concentration


class PValueBounds(NamedTuple):
    """P-values that are not known exactly, or what is made of them."""

    least: np.ndarray  # (columns, D), or (columns,)
    most: np.ndarray  # likewise


def bounds_of_matched_pvalues(
    least_R2: np.ndarray,
    most_R2: np.ndarray,
    excess: np.ndarray,
    freedom: int,
    of: Callable[[np.ndarray], np.ndarray] = np.asarray,
    together: Callable[[np.ndarray], np.ndarray] = np.asarray,
) -> PValueBounds:
    """Bounds of `matched_pvalues`, many times as fast where there are many columns: close where
    p-values are above 0.0001, and the least is zero below.

    The tail is calculated on a grid: for some columns of every excess, and at some sizes. It falls
    with R2, so that its values at the sizes before and after are bounds. With the variance it
    rises, or falls, or rises and then falls: between two columns of the grid it is nowhere below
    the smaller of the values at these, nor above the larger, if it is still rising at the one
    with more variance. Of sizes below the mean it falls from 1. Otherwise it is at most a half:
    the mean of these laws is less than a half, and their median is less than the mean.

    Parameters
    ----------
    least_R2 : array (columns, D)
    most_R2 : array (columns, D)
        What R2 lies between.
    excess : array (columns, D)
        See `excess_variance`: rows are multiples of each other.
    freedom : int
        Dimension of the space that the columns live in.
    of : function of arrays
        What is made of each p-value; of those on the grid it costs next to nothing.
    together : function of arrays (columns, D)
        What is made of the rows of these.

    Returns
    -------
    PValueBounds
        At most 1 where nothing is known.
    """
    columns, D = most_R2.shape
    most_laws, n_sizes = _FINE_GRID if columns > _MANY_COLUMNS else _COARSE_GRID
    if columns <= 2 * most_laws * n_sizes:  # fewer than the grid has places
        return PValueBounds(
            together(of(matched_pvalues(most_R2, excess, freedom))),
            together(of(matched_pvalues(least_R2, excess, freedom))),
        )
    # in order of the excess, columns between two of the grid
    one_law = not excess.any()
    by = excess[:, np.argmax(np.max(np.abs(excess), axis=0))]
    order = np.arange(columns) if one_law else np.argsort(by, kind="stable")
    laws = 0 if one_law else most_laws
    ends = np.unique(np.linspace(0, columns - 1, laws + 1).astype(int))
    steps = max(1, ends.size - 1)
    first, last = excess[order[ends[:steps]]], excess[order[ends[-steps:]]]
    lower, upper = np.minimum(first, last), np.maximum(first, last)  # (steps, D)
    far = np.maximum(*(betainccinv(*_matched_law(end, freedom), _SELDOM) for end in (lower, upper)))
    far *= 1.0 + 1e-9
    sizes = far[:, :, None] * (np.arange(1, n_sizes + 1) / n_sizes)

    def tail(end: np.ndarray) -> np.ndarray:
        a, b = _matched_law(end, freedom)
        return np.asarray(betainc(b[:, :, None], a[:, :, None], 1.0 - np.minimum(sizes, 1.0)))

    at_lower = tail(lower)
    at_upper = at_lower if one_law else tail(upper)
    least_tail = np.zeros((steps, D, n_sizes + 1))  # zero beyond the last size
    least_tail[:, :, :n_sizes] = (1.0 - 1e-9) * np.minimum(at_lower, at_upper)
    mean = (np.arange(1, D + 1) / freedom)[:, None]
    plain = sizes <= mean
    if one_law:
        plain[:] = True
    else:
        plain |= tail(upper + _A_LITTLE * (1.0 + np.abs(upper))) > at_upper
    most_tail = np.ones((steps, D, n_sizes + 1))  # one before the first size
    most_tail[:, :, 1:] = np.where(
        plain, (1.0 + 1e-9) * np.maximum(at_lower, at_upper), np.where(mean < 0.5, 0.5, 1.0)
    )
    law = np.zeros(1 if one_law else columns, dtype=np.intp)
    if not one_law:
        place = np.searchsorted(ends, np.arange(columns), side="right") - 1
        law[order] = np.clip(place, 0, steps - 1)
    of_least, of_most = of(least_tail), of(most_tail)

    def looked_up(some: slice) -> PValueBounds:
        its_law = law if one_law else law[some]
        first = (its_law[:, None] * D + np.arange(D)) * (n_sizes + 1)
        per_size = (n_sizes / far)[its_law]

        def at(R2: np.ndarray, tail: np.ndarray, step: float) -> np.ndarray:
            size = np.minimum(R2[some] * (step * per_size), n_sizes).astype(np.intp)
            return together(np.take(tail, first + size))

        return PValueBounds(at(most_R2, of_least, 1.0 + 1e-9), at(least_R2, of_most, 1.0 - 1e-9))

    parts = in_parallel(looked_up, slices_of(columns, _LOOKED_UP))
    return PValueBounds(*(np.concatenate(sides) for sides in zip(*parts, strict=True)))


def _beta_tail(x: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """P(Beta(a, b) > x), also where it is tiny."""
    a, b = np.broadcast_to(a, x.shape), np.broadcast_to(b, x.shape)
    tail = np.empty(x.shape)

    def fill(some: slice) -> None:
        tail[some] = betainc(b[some], a[some], 1.0 - np.clip(x[some], 0.0, 1.0))

    in_parallel(fill, slices_of(x.shape[0], _CALCULATED))
    return tail


class Orders:
    """Random orders of the rows, the same for every column that asks: chunk after chunk.

    Parameters
    ----------
    n : int
        Rows.
    groups : int array (n,) or None
        Rows change places within their group only.
    seed : int
        Of the orders.
    """

    def __init__(self, n: int, groups: np.ndarray | None = None, seed: int = 0):
        self.n, self.groups, self.seed = n, groups, seed
        self.size = max(16, min(256, _ENTRIES // n))
        self._kept: dict[int, np.ndarray] = {}

    def chunk(self, number: int) -> np.ndarray:
        """Orders (size, n): the value of row a goes to row ``order[a]``."""
        if number not in self._kept:
            made = self._made(number)
            if len(self._kept) * made.size >= _KEPT:
                return made
            self._kept[number] = made
        return self._kept[number]

    def _made(self, number: int) -> np.ndarray:
        rng = np.random.default_rng([self.seed, number])
        if self.groups is None:
            rows = np.arange(self.n)  # of the integers that NumPy takes places by, without a copy
            return rng.permuted(np.tile(rows, (self.size, 1)), axis=1)
        # sorted by group and at random within it, the rows of a group fill the places of that group
        shuffled = np.argsort(self.groups + rng.random((self.size, self.n)), axis=1)
        made = np.empty_like(shuffled)
        made[:, np.argsort(self.groups, kind="stable")] = shuffled
        return made


class OwnScores(NamedTuple):
    """Scores of the rows for each of some columns: U T_j + y_j o_j', orthonormal and centred."""

    U: np.ndarray  # (n, m) for all columns
    turns: np.ndarray  # (columns, m, D) T
    own: np.ndarray  # (columns, D) o


def sampled_pvalues(
    Y: np.ndarray, scores: OwnScores, orders: Orders, most: int, enough: int = 10
) -> np.ndarray:
    """P(R2 at least this large) of some columns, with their rows in random order.

    The sizes R2(1), R2(2), ... are put on one scale by Wilson and Hilferty's cube root [WH31],
    and the largest counts. Orders are tried until ``enough`` of them explain as much of the
    column as the given one, [BC91], or until ``most`` were tried.

    Parameters
    ----------
    Y : array (n, columns)
        None of them constant; centred (in each group) where the scores have a part of their own.
    scores : OwnScores
        Of these columns.
    orders : Orders
        Of the n rows, the same for all columns.
    most : int
        About how many orders to try at most.
    enough : int
        How many at least as large ones decide.

    Returns
    -------
    array (columns,)
        At least 1 / (1 + the number of orders tried): p-values that hold as they are.
    """
    pvalues = np.empty(Y.shape[1])
    # a value that nearly all rows have is the median; centred scores do not see a constant
    middle = np.sort(Y, axis=0)[Y.shape[0] // 2]
    Z = (Y - middle) / np.std(Y, axis=0, ddof=1)  # with unit variance (u_i'y)^2 is 1 on average
    few = _SPARSE * np.count_nonzero(Z, axis=0) <= Y.shape[0]
    chunks = max(1, round(most / orders.size))
    for which, Projected, width in (
        (np.flatnonzero(few), _FewEntries, scores.U.shape[1]),
        (np.flatnonzero(~few), _ManyEntries, Y.shape[0]),
    ):
        step = max(1, _ENTRIES // (orders.size * width))
        for some in (which[part] for part in slices_of(which.size, step)):
            mine = OwnScores(scores.U, scores.turns[some], scores.own[some])
            projected = Projected(Z[:, some], Y[:, some], mine)
            pvalues[some] = _counted(projected, some.size, orders, chunks, enough)
    return pvalues


class _Projected(Protocol):
    """u_i'y of some columns y in some orders of their rows."""

    def __call__(self, some: np.ndarray, orders: np.ndarray) -> np.ndarray:
        """Of the columns at ``some`` places, with their rows in every one of the ``orders``,
        (columns, orders, D)."""


class _ManyEntries:
    """Of any columns, by dense products."""

    def __init__(self, Z: np.ndarray, Y: np.ndarray, scores: OwnScores):
        # moving entries about is most of the work: in single precision it is half of that
        U, turns, own = (part.astype(np.float32) for part in scores)
        self.Z = np.ascontiguousarray(Z.T, dtype=np.float32)
        self.U = U @ turns + Y.T.astype(np.float32)[:, :, None] * own[:, None, :]

    def __call__(self, some: np.ndarray, orders: np.ndarray) -> np.ndarray:
        return np.asarray(np.take(self.Z[some], orders, axis=1) @ self.U[some])


class _FewEntries:
    """Of columns with few entries that are not zero: only these are moved."""

    def __init__(self, Z: np.ndarray, Y: np.ndarray, scores: OwnScores):
        self.places = [np.flatnonzero(z) for z in Z.T]
        self.entries = [z[places] for z, places in zip(Z.T, self.places, strict=True)]
        self.Y, self.scores = np.ascontiguousarray(Y.T), scores

    def __call__(self, some: np.ndarray, orders: np.ndarray) -> np.ndarray:
        places = [np.take(orders, self.places[j], axis=1) for j in some]
        entries = [self.entries[j] for j in some]
        sums = placed_sums(entries, places, self.scores.U)  # (columns, orders, m)
        own = [self.Y[j][at] @ y for j, at, y in zip(some, places, entries, strict=True)]
        return np.asarray(
            sums @ self.scores.turns[some]
            + np.array(own)[:, :, None] * self.scores.own[some, None, :]
        )


def _counted(
    projected: _Projected, columns: int, orders: Orders, chunks: int, enough: int
) -> np.ndarray:
    """P-values of some columns, all in the same orders."""
    as_they_are = np.arange(orders.n)[None, :]
    limits = _limits(projected(np.arange(columns), as_they_are)[:, 0, :])
    reached, tried = np.zeros(columns, dtype=int), np.zeros(columns, dtype=int)
    open_ones = np.arange(columns)
    for number in range(chunks):
        sums = projected(open_ones, orders.chunk(number))
        sums *= sums
        size = np.zeros(sums.shape[:2])
        beyond = np.zeros(size.shape, dtype=bool)
        for d in range(sums.shape[2]):  # running sums, without an array of them
            size += sums[:, :, d]
            beyond |= size >= limits[open_ones, d, None]
        reached[open_ones] += np.count_nonzero(beyond, axis=1)
        tried[open_ones] += orders.size
        open_ones = open_ones[reached[open_ones] < enough]
        if open_ones.size == 0:
            break
    return (1.0 + reached) / (1.0 + tried)


def _limits(projections: np.ndarray) -> np.ndarray:
    """For d = 1, 2, ..., the sum of d squares that counts as much as the given ones, (..., D).

    Sums are compared by the cube root of their mean, standardised as that of a chi square, and
    the largest counts; here the limits are put back on the scale of the sums.
    """
    d = np.arange(1.0, projections.shape[-1] + 1.0)
    centre, scale = 1.0 - 2.0 / (9.0 * d), np.sqrt(2.0 / (9.0 * d))
    sums = np.cumsum(projections**2, axis=-1)
    given = np.max((np.cbrt(sums / d) - centre) / scale, axis=-1, keepdims=True)
    given = given - _TIES * np.maximum(1.0, np.abs(given))
    return np.asarray(d * np.maximum(centre + scale * given, 0.0) ** 3)
