"""Every column of a table seen from the principal components of all other columns, at once.

Symbols: X (n x p) centred; X X' = U diag(L) U'; x one column, z = U'x. The other columns have
X X' - x x', in the basis U: diag(L) - z z'. Its eigenvalues l_i interlace, L_{i+1} <= l_i <= L_i,
and are the roots of the secular equation

    sum_k z_k^2 / (L_k - l) = 1,

with eigenvectors (diag(L) - l_i)^-1 z. At a root z'(diag(L) - l_i)^-1 z = 1, so that the squared
correlation of x with the i-th principal component of the other columns, its share c_i, is

    c_i = 1 / (|x|^2 sum_k z_k^2 / (L_k - l_i)^2).

No eigenvector is formed and no column is deleted. Of a large table only the leading m pairs are
known. The rest of x then has the known length rho = |x|^2 - sum_k z_k^2 and lies where the
eigenvalues are between 0 and a known ceiling; putting all of rho at the one or at the other end
brackets every root and every share.

[G73]    G. H. Golub. Some modified matrix eigenvalue problems. SIAM Review 15, 1973.
[BNS78]  J. R. Bunch, C. P. Nielsen, D. C. Sorensen. Rank-one modification of the symmetric
         eigenproblem. Numerische Mathematik 31, 1978.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..parallel import in_parallel, slices_of, usable_cores

_MOST_ITERATIONS = 60
# A step of this share of the drop of an eigenvalue is the last: each squares the error before it.
_TOLERANCE = 1e-6
# Squared parts of a column along a component below this share of its square are rounding. They are
# raised to it: without any part there the root could leave its interval, or come so close to its
# end that the distance is lost.
_NOTHING = 1e-15
# A root this close to zero, as a share of the eigenvalue, is no component: the others have a rank
# less.
_ZERO = 1e-6
# Poles at least this many half widths from the middle of a root's interval are expanded in powers
# of the distance from the middle: 4^-26 is below rounding.
_FAR = 4.0
_ORDER = 26
# Of the weights of the columns that one thread treats at a time: many, as each operation on them
# is short.
_ENTRIES = 2**20


# Fewer of them are not worth a thread.
_FEWEST = 2**17
# Up to this many distances of roots and poles, all roots are found at once.
_TOGETHER = 2**18


class Shares(NamedTuple):
    """Shares of every column on the first components of the others, between two bounds."""

    lower: np.ndarray  # (columns, count)
    upper: np.ndarray  # (columns, count), the same array where the whole spectrum is known


class Poles(NamedTuple):
    """One secular equation for each column: the same poles, weights of their own."""

    places: np.ndarray  # (m,) falling
    weights: np.ndarray  # (columns, m), squares z_k^2


def left_out_shares(
    values: np.ndarray,
    z: np.ndarray,
    squares: np.ndarray,
    count: int,
    ceiling: float | None = None,
) -> Shares:
    """Shares c_1, ..., c_count of every column on the components of the others.

    Parameters
    ----------
    values : array (m,)
        Leading eigenvalues of X X', in falling order.
    z : array (columns, m)
        U'x of every column.
    squares : array (columns,)
        |x|^2 of every column.
    count : int
        How many components; fewer than there are columns in X, and than m.
    ceiling : float or None
        What the eigenvalues beyond the first m do not exceed; None if there are none.

    Returns
    -------
    Shares
    """
    if squares.size == 0 or count == 0:
        nothing = np.zeros((squares.size, count))
        return Shares(nothing, nothing)
    weights = np.maximum(z * z, _NOTHING * squares[:, None])

    def shares(some: slice) -> Shares:
        poles = Poles(values, weights[some])
        if ceiling is None:
            exact = _exact(poles, squares[some], count)
            return Shares(exact, exact)
        return _bracketed(poles, squares[some], count, ceiling)

    columns_each = -(-squares.size // usable_cores())
    step = max(
        _FEWEST // max(values.size, 1), min(columns_each, _ENTRIES // max(values.size, _ORDER))
    )
    parts = in_parallel(shares, slices_of(z.shape[0], step))
    lower = np.concatenate([part.lower for part in parts])
    if ceiling is None:
        return Shares(lower, lower)
    return Shares(lower, np.concatenate([part.upper for part in parts]))


def bounds_of_left_out_shares(
    values: np.ndarray,
    z: np.ndarray,
    squares: np.ndarray,
    count: int,
    ceiling: float | None = None,
) -> Shares:
    """Bounds of ``left_out_shares(...).lower``, by matrix products and no root.

    The equation itself says how far an eigenvalue falls: t = L_i - l_i is z_i^2 / D(t), with

        D(t) = 1 - sum_{k < i} z_k^2 / (L_k - L_i + t) + sum_{k > i} z_k^2 / (L_i - L_k - t).

    A pole above L_i is farther from the root than from L_i, one below is nearer: D(t) >= D(0), so
    that t <= z_i^2 / D(0) where D(0) is positive, and

        c_i <= 1 / (|x|^2 (D(0)^2 / z_i^2 + sum_{k > i} z_k^2 / (L_i - L_k)^2)).

    With t known to be at most the share a of the distance to the pole above and the share b of
    that to the pole below, no distance is more than 1 + a times, or less than 1 - b times, as long
    as from L_i. This bounds D(t) and all sums from the other side. Both bounds are close where a
    column is a small part of the table.

    Parameters
    ----------
    values : array (m,)
        As in `left_out_shares`.
    z : array (columns, m)
        As in `left_out_shares`.
    squares : array (columns,)
        As in `left_out_shares`.
    count : int
        As in `left_out_shares`.
    ceiling : float or None
        As in `left_out_shares`.

    Returns
    -------
    Shares
        0 and 1 where nothing is known.
    """
    weights = np.maximum(z * z, _NOTHING * squares[:, None])
    own, places = weights[:, :count], values
    if ceiling is not None:  # the rest where it lifts the lower bound of a share most, or lowers it
        rest = np.maximum(squares - weights.sum(axis=1), _NOTHING * squares)
        weights = np.column_stack([weights, rest])
        places = np.append(values, min(ceiling, float(values[-1])))
    roots = np.arange(count)
    is_above = np.arange(places.size)[:, None] < roots
    is_below = np.arange(places.size)[:, None] > roots
    padded = np.concatenate([[np.inf], places, [0.0]])
    to_above, to_below = padded[:count] - values[:count], values[:count] - padded[2 : count + 2]
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        inverse = np.abs(1.0 / (values[:count] - places[:, None]))  # of L_i - L_k, (m, count)
        from_above = np.where(is_above, inverse, 0.0)
        from_below = np.where(is_below, inverse, 0.0)
        above, below = weights @ from_above, weights @ from_below
        below_squared = weights @ from_below**2
        D = 1.0 - above + below
        upper = 1.0 / (squares[:, None] * (D * D / own + below_squared))
        # where the rest lies is not known: at zero the eigenvalue falls most
        least_D = D if ceiling is None else D - rest[:, None] * from_below[-1]
        drop = own / least_D
        nearer = 1.0 - drop / to_below
        most_D = 1.0 - above / (1.0 + drop / to_above) + below / nearer
        slope = most_D**2 / own + weights @ from_above**2 + below_squared / nearer**2
        lower = 1.0 / (squares[:, None] * slope)
    known = (least_D > 0.0) & (nearer > 0.0) & (drop < (1.0 - _ZERO) * values[:count])
    return Shares(
        np.where(known & np.isfinite(lower), lower, 0.0),
        np.where(D > 0.0, np.minimum(upper, 1.0), 1.0),
    )


def left_out_coordinates(values: np.ndarray, z: np.ndarray, count: int) -> np.ndarray:
    """The first principal components of all columns but one, for every one, in the basis U.

    Parameters
    ----------
    values : array (m,)
        Eigenvalues of X X', in falling order: all of them, or others beside them at which the
        rest of a column is taken to lie.
    z : array (columns, m)
        U'x of every column that is left out.
    count : int
        How many components.

    Returns
    -------
    array (columns, m, count)
        Unit vectors: U times these are the scores.
    """
    floor = np.sqrt(_NOTHING) * np.linalg.norm(z, axis=1, keepdims=True)
    z = np.where(np.abs(z) < floor, floor, z)
    poles = Poles(values, z * z)
    coordinates = np.empty((*z.shape, count))
    for i in range(count):
        distances = (values - values[i]) + _roots(poles, i).drop[:, None]
        equal = np.any(distances == 0.0, axis=1)
        vectors = z / np.where(distances == 0.0, 1.0, distances)
        if equal.any():  # one of the vectors of equal eigenvalues has no part of x
            first, second = np.flatnonzero(values == values[i])[:2]
            vectors[equal] = 0.0
            vectors[equal, first], vectors[equal, second] = z[equal, second], -z[equal, first]
        coordinates[:, :, i] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return coordinates


def _exact(poles: Poles, squares: np.ndarray, count: int) -> np.ndarray:
    """Shares where the whole spectrum is known."""
    if count * poles.weights.size <= _TOGETHER:
        drop, slope = _roots_together(poles, count)
    else:
        roots = [_roots(poles, i) for i in range(count)]
        drop, slope = (np.column_stack(each) for each in zip(*roots, strict=True))
    there = drop < (1.0 - _ZERO) * poles.places[:count]
    shares = np.where(there, 1.0 / (squares[:, None] * slope), 0.0)
    return np.minimum(shares, 1.0)


def _bracketed(poles: Poles, squares: np.ndarray, count: int, ceiling: float) -> Shares:
    """Bounds of the shares where the eigenvalues beyond the first m are between 0 and a ceiling."""
    rest = np.maximum(squares - poles.weights.sum(axis=1), _NOTHING * squares)
    weights = np.column_stack([poles.weights, rest])
    top = min(ceiling, float(poles.places[-1]))
    at_zero = Poles(np.append(poles.places, 0.0), weights)
    at_ceiling = Poles(np.append(poles.places, top), weights)
    lower, upper = np.zeros((squares.size, count)), np.zeros((squares.size, count))
    for i in range(count):
        # the more of the rest lies high, the less the root falls
        most = _roots(at_zero, i).drop
        least = np.minimum(_roots(at_ceiling, i).drop, most)
        above = poles.places[: i + 1] - poles.places[i]
        below = poles.places[i + 1 :] - poles.places[i]
        near = above + least[:, None], below + most[:, None]  # each pole at its nearest
        far = above + most[:, None], below + least[:, None]  # and at its farthest
        w_above, w_below = poles.weights[:, : i + 1], poles.weights[:, i + 1 :]
        to_rest = poles.places[i] - most - top
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            largest = np.sum(w_above / near[0] ** 2, axis=1) + np.sum(
                w_below / near[1] ** 2, axis=1
            )
            largest += np.where(to_rest > 0.0, rest / to_rest**2, np.inf)
            smallest = np.sum(w_above / far[0] ** 2, axis=1) + np.sum(w_below / far[1] ** 2, axis=1)
            smallest += rest / (poles.places[i] - least) ** 2
            lower[:, i] = 1.0 / (squares * largest)
            upper[:, i] = 1.0 / (squares * smallest)
    return Shares(lower, np.minimum(upper, 1.0))


class _Roots(NamedTuple):
    drop: np.ndarray  # (columns,) by how much the eigenvalue falls, L_i - l_i
    slope: np.ndarray  # (columns,) sum of z_k^2 / (L_k - l_i)^2


def _roots(poles: Poles, i: int) -> _Roots:
    """The i-th root of the secular equation of every column."""
    places, weights = poles
    columns = weights.shape[0]
    gap = float(places[i] - places[i + 1]) if i + 1 < places.size else float(places[i])
    if columns == 0 or gap <= 0.0:
        return _Roots(np.zeros(columns), np.full(columns, np.inf))
    most = np.minimum(gap, weights.sum(axis=1))
    above, below = _sides(poles, i, float(most.max()))

    def sums(drop: np.ndarray, some: np.ndarray) -> tuple[_Sum, _Sum]:
        return above.at(drop, some), below.at(drop, some)

    return _solved(weights[:, i], most, np.full(columns, gap), sums)


def _roots_together(poles: Poles, count: int) -> _Roots:
    """The first roots of the secular equation of every column, (columns, count), at once: for few
    columns and poles, where one root after another would be many short operations."""
    places, weights = poles
    columns = weights.shape[0]
    gaps = places[:count] - np.append(places, 0.0)[1 : count + 1]
    drop, slope = np.zeros((columns, count)), np.full((columns, count), np.inf)
    row, root = np.nonzero(np.broadcast_to(gaps > 0.0, drop.shape))  # each an equation of its own
    distances = (places - places[:count, None])[root]
    is_above = np.arange(places.size) <= np.arange(count)[:, None]
    # the weights of the poles above, and those of the poles below; zero for the others
    above = np.where(is_above[root], weights[row], 0.0)
    below = np.where(is_above[root], 0.0, weights[row])

    def sums(t: np.ndarray, some: np.ndarray) -> tuple[_Sum, _Sum]:
        whole = some.size == row.size
        inverse = 1.0 / ((distances if whole else distances[some]) + t[:, None])
        squared = inverse * inverse
        sides = (side if whole else side[some] for side in (above, below))
        up, down = (
            _Sum(np.einsum("ij,ij->i", side, inverse), np.einsum("ij,ij->i", side, squared))
            for side in sides
        )
        return up, down

    most = np.minimum(gaps[root], weights.sum(axis=1)[row])
    drop[row, root], slope[row, root] = _solved(weights[row, root], most, gaps[root], sums)
    return _Roots(drop, slope)


def _solved(
    start: np.ndarray,
    most: np.ndarray,
    gap: np.ndarray,
    sums: Callable[[np.ndarray, np.ndarray], tuple[_Sum, _Sum]],
) -> _Roots:
    """Roots of some equations; ``sums`` are those above and below a root, for some equations.

    [BNS78]: the poles above and below the root are each replaced by one pole that agrees in value
    and slope, the quadratic equation of the two is solved, and so on. Each step stays between
    the last one and the root.
    """
    last = np.nextafter(gap, 0.0)  # the pole below is not reached
    drop = np.clip(start, np.finfo(float).tiny, 0.999 * most)
    active = np.arange(drop.size)
    for _ in range(_MOST_ITERATIONS):
        t, width = drop[active], gap[active]
        up, down = sums(t, active)
        a, b = up.slope * t * t, down.slope * (width - t) ** 2
        constant = 1.0 - (up.value - a / t) - (down.value + b / (width - t))
        linear = constant * width + a + b
        root = np.sqrt(np.maximum(linear * linear - 4.0 * constant * a * width, 0.0))
        denominator = linear + root
        usable = denominator > 0.0
        new = 2.0 * a * width / np.where(usable, denominator, 1.0)
        new = np.where(usable, new, 0.5 * (t + width))
        new = np.clip(new, np.finfo(float).tiny, last[active])
        drop[active] = new
        active = active[np.abs(new - t) > _TOLERANCE * new]
        if active.size == 0:
            break
    up, down = sums(drop, np.arange(drop.size))
    return _Roots(drop, up.slope + down.slope)


class _Sum(NamedTuple):
    value: np.ndarray  # (columns,) sum of z_k^2 / (L_k - l) over some poles
    slope: np.ndarray  # (columns,) sum of z_k^2 / (L_k - l)^2 over them


class _Side(NamedTuple):
    """The poles above a root, or those below it.

    Those near the interval of the root are summed one by one; the others, most of them, stand in
    a polynomial in (l - middle) / half, made for all columns by one matrix product.
    """

    near: np.ndarray  # (k,) places, from L_i
    weights: np.ndarray  # (columns, k) of these
    middle: float  # of the interval, from L_i
    half: float  # its half width
    coefficients: np.ndarray | None  # (columns, _ORDER) of the polynomial

    def at(self, drop: np.ndarray, columns: np.ndarray) -> _Sum:
        """Value and slope at l = L_i - drop, for some of the columns."""
        whole = columns.size == self.weights.shape[0]
        inverse = 1.0 / (self.near + drop[:, None])
        terms = (self.weights if whole else self.weights[columns]) * inverse
        value, slope = terms.sum(axis=1), np.einsum("ij,ij->i", terms, inverse)
        if self.coefficients is None:
            return _Sum(value, slope)
        coefficients = self.coefficients if whole else self.coefficients[columns]
        s = (-drop - self.middle) / self.half
        far, far_slope = np.zeros_like(s), np.zeros_like(s)
        for r in range(_ORDER - 1, -1, -1):  # Horner's rule
            far_slope = far_slope * s + far
            far = far * s + coefficients[:, r]
        return _Sum(value + far, slope + far_slope / self.half)


def _sides(poles: Poles, i: int, width: float) -> tuple[_Side, _Side]:
    """The poles above and below the i-th root, which falls by at most ``width``."""
    places = poles.places - poles.places[i]
    middle, half = -0.5 * width, 0.5 * width
    # places fall: far ones above come first, far ones below come last
    first = min(int(np.sum(places >= middle + _FAR * half)), i)
    last = max(int(np.sum(places > middle - _FAR * half)), i + 1)
    first, last = _if_many(first, 0), places.size - _if_many(places.size - last, 0)
    return (
        _side(poles, places, slice(first, i + 1), slice(0, first), middle, half),
        _side(poles, places, slice(i + 1, last), slice(last, places.size), middle, half),
    )


def _if_many(count: int, otherwise: int) -> int:
    """An expansion is worth its while for many poles only."""
    return count if count > 2 * _ORDER else otherwise


def _side(
    poles: Poles, places: np.ndarray, near: slice, far: slice, middle: float, half: float
) -> _Side:
    """Sort the poles of one side into near and far ones."""
    coefficients = None
    if far.stop > far.start:
        # 1 / (L - l) = sum_r (l - middle)^r / (L - middle)^(r + 1), weighted and summed
        distance = (places[far] - middle)[:, None]
        coefficients = poles.weights[:, far] @ ((half / distance) ** np.arange(_ORDER) / distance)
        coefficients = np.asfortranarray(coefficients)
    return _Side(places[near], poles.weights[:, near], middle, half, coefficients)
