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

import numpy as np
from scipy.special import betainc, betainccinv

from ..data.operators.sparse import placed_sums
from ..numerics.parallel import in_parallel, slices_of

_ENTRIES = 2**21  # of the largest temporary array
_ROWS = 4096  # of p-values at a time
# The grid of tails that bounds of p-values are taken from: laws, sizes of R2, and the tail beyond
# the largest.
_FINE_GRID, _COARSE_GRID, _MANY_COLUMNS = (8, 128), (4, 64), 8192
_SELDOM = 1e-4
_SPARSE = 16  # times fewer entries than rows are worth a sparse product
_KEPT = 2**24  # entries of orders that are kept for the next column
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


def least_matched_pvalues(R2: np.ndarray, excess: np.ndarray, freedom: int) -> np.ndarray:
    """Lower bounds of `matched_pvalues`, many times as fast where there are many columns: close
    where they are above 0.0001, and zero below.

    The tail is calculated on a grid: for some columns of every excess, and at some sizes. It falls
    with R2, so that its value at the next size of the grid is a lower bound; with the excess it
    rises, or falls, or rises and then falls, so that it is nowhere below the smaller of its values
    for the next column with a smaller and with a larger excess.

    Parameters
    ----------
    R2 : array (columns, D)
    excess : array (columns, D)
        See `excess_variance`: rows are multiples of each other.
    freedom : int
        Dimension of the space that the columns live in.

    Returns
    -------
    array (columns, D)
    """
    columns, D = R2.shape
    most_laws, n_sizes = _FINE_GRID if columns > _MANY_COLUMNS else _COARSE_GRID
    if columns <= 2 * most_laws * n_sizes:  # fewer than the grid has places
        return matched_pvalues(R2, excess, freedom)
    # in order of the excess, columns between two of the grid
    by = excess[:, np.argmax(np.max(np.abs(excess), axis=0))]
    order = np.argsort(by, kind="stable")
    laws = most_laws if by.any() else 0  # one law for all
    ends = np.unique(np.linspace(0, columns - 1, laws + 1).astype(int))
    steps = max(1, ends.size - 1)
    a, b = _matched_law(excess[order[ends]], freedom)
    far = betainccinv(a, b, _SELDOM)
    far = np.maximum(far[:steps], far[-steps:]) * (1.0 + 1e-9)  # of both ends
    sizes = far[:, :, None] * (np.arange(1, n_sizes + 1) / n_sizes)
    tails = [
        betainc(b[some][:, :, None], a[some][:, :, None], 1.0 - np.minimum(sizes, 1.0))
        for some in (slice(0, steps), slice(ends.size - steps, ends.size))
    ]
    grid = np.zeros((steps, D, n_sizes + 1))  # zero beyond the last
    grid[:, :, :n_sizes] = (1.0 - 1e-9) * np.minimum(*tails)
    law = np.empty(columns, dtype=np.intp)
    law[order] = np.clip(np.searchsorted(ends, np.arange(columns), side="right") - 1, 0, steps - 1)
    least = np.empty((columns, D))

    def fill(some: slice) -> None:
        size = np.minimum(R2[some] * (n_sizes / far)[law[some]], n_sizes).astype(np.intp)
        place = (law[some, None] * D + np.arange(D)) * (n_sizes + 1) + size
        least[some] = np.take(grid, place)

    in_parallel(fill, slices_of(columns, _ROWS))
    return least


def _beta_tail(x: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """P(Beta(a, b) > x), also where it is tiny."""
    a, b = np.broadcast_to(a, x.shape), np.broadcast_to(b, x.shape)
    tail = np.empty(x.shape)

    def fill(some: slice) -> None:
        tail[some] = betainc(b[some], a[some], 1.0 - np.clip(x[some], 0.0, 1.0))

    in_parallel(fill, slices_of(x.shape[0], _ROWS))
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
            rows = np.arange(self.n, dtype=np.int32)
            return rng.permuted(np.tile(rows, (self.size, 1)), axis=1)
        # sorted by group and at random within it, the rows of a group fill the places of that group
        shuffled = np.argsort(self.groups + rng.random((self.size, self.n)), axis=1)
        made = np.empty_like(shuffled)
        made[:, np.argsort(self.groups, kind="stable")] = shuffled
        return made


def sampled_pvalue(
    y: np.ndarray, scores: np.ndarray, orders: Orders, most: int, enough: int = 10
) -> float:
    """P(R2 at least this large) with the rows of the column in random order.

    The sizes R2(1), R2(2), ... are put on one scale by Wilson and Hilferty's cube root [WH31],
    and the largest counts. Orders are tried until ``enough`` of them explain as much of the
    column as the given one, [BC91], or until ``most`` were tried.

    Parameters
    ----------
    y : array (n,)
        The column; its mean does not matter.
    scores : array (n, D)
        Orthonormal and centred (in each group).
    orders : Orders
        Of the n rows.
    most : int
        About how many orders to try at most.
    enough : int
        How many at least as large ones decide.

    Returns
    -------
    float
        At least 1 / (1 + the number of orders tried): a p-value that holds as it is.
    """
    values, counts = np.unique(y, return_counts=True)
    # centred scores do not see a constant; with unit variance (u_i'y)^2 is 1 on average
    y = (y - values[np.argmax(counts)]) / np.std(y, ddof=1)
    off = np.flatnonzero(y)
    limits = _limits(y @ scores)
    tried = reached = 0
    for number in range(max(1, round(most / orders.size))):
        sums = _projected(y, off, scores, orders.chunk(number))
        sizes = np.cumsum(sums * sums, axis=1)
        reached += int(np.sum(np.any(sizes >= limits, axis=1)))
        tried += orders.size
        if reached >= enough:
            break
    return (1.0 + reached) / (1.0 + tried)


def sampled_together(
    Y: np.ndarray, scores: np.ndarray, orders: Orders, most: int, enough: int = 10
) -> np.ndarray:
    """`sampled_pvalue` of many columns, each with scores of its own, at once.

    Parameters
    ----------
    Y : array (n, columns)
        None of them constant.
    scores : array (columns, n, D)
        As in `sampled_pvalue`, for every column.
    orders : Orders
        The same for all columns.
    most : int
        As in `sampled_pvalue`.
    enough : int
        As in `sampled_pvalue`.

    Returns
    -------
    array (columns,)
    """
    pvalues = np.empty(Y.shape[1])
    # a value that nearly all rows have is the median
    middle = np.sort(Y, axis=0)[Y.shape[0] // 2]
    few = _SPARSE * np.count_nonzero(Y - middle, axis=0) <= Y.shape[0]
    for j in np.flatnonzero(few):
        pvalues[j] = sampled_pvalue(Y[:, j], scores[j], orders, most, enough)
    step = max(1, _ENTRIES // (orders.size * Y.shape[0]))
    rest = np.flatnonzero(~few)
    for some in (rest[part] for part in slices_of(rest.size, step)):
        y = ((Y[:, some] - middle[some]) / np.std(Y[:, some], axis=0, ddof=1)).T
        pvalues[some] = _in_orders(y, scores[some], orders, most, enough)
    return pvalues


def _in_orders(
    y: np.ndarray, scores: np.ndarray, orders: Orders, most: int, enough: int
) -> np.ndarray:
    """P-values of standardised columns, the rows of y (columns, n), all in the same orders."""
    limits = _limits((y[:, None, :] @ scores)[:, 0, :])
    reached, tried = np.zeros(y.shape[0], dtype=int), np.zeros(y.shape[0], dtype=int)
    open_ones = np.arange(y.shape[0])
    for number in range(max(1, -(-most // orders.size))):
        sums = np.take(y[open_ones], orders.chunk(number), axis=1) @ scores[open_ones]
        sizes = np.cumsum(sums * sums, axis=2)
        beyond = np.any(sizes >= limits[open_ones, None, :], axis=2)
        reached[open_ones] += np.sum(beyond, axis=1)
        tried[open_ones] += orders.size
        open_ones = open_ones[reached[open_ones] < enough]
        if open_ones.size == 0:
            break
    return (1.0 + reached) / (1.0 + tried)


def _projected(
    y: np.ndarray, off: np.ndarray, scores: np.ndarray, orders: np.ndarray
) -> np.ndarray:
    """u_i'y for the column in every one of the orders, (orders, D); ``off`` are the places where
    it is not zero."""
    if _SPARSE * off.size > y.size:
        return np.take(y, orders) @ scores
    return placed_sums(y[off], np.take(orders, off, axis=1), scores)


def _limits(projections: np.ndarray) -> np.ndarray:
    """For d = 1, 2, ..., the sum of d squares that counts as much as the given ones, (..., D).

    Sums are compared by the cube root of their mean, standardised as that of a chi square, and
    the largest counts; here the limits are put back on the scale of the sums.
    """
    d = np.arange(1.0, projections.shape[-1] + 1.0)
    centre, scale = 1.0 - 2.0 / (9.0 * d), np.sqrt(2.0 / (9.0 * d))
    sums = np.cumsum(projections**2, axis=-1)
    given = np.max((np.cbrt(sums / d) - centre) / scale, axis=-1, keepdims=True)
    given = given * (1.0 - 1e-12)  # equal ones differ by rounding
    return np.asarray(d * np.maximum(centre + scale * given, 0.0) ** 3)
