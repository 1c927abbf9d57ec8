"""Leave-one-out R2 of each column given the components of the others.

Symbols: X (n x p) centred; X X' = U diag(L) U'; x one column, z = U'x. Without x, X X' becomes X X'
- x x', which is diag(L) - z z' in the basis U. The eigenvalues l_i of this matrix interlace,
L_{i+1} <= l_i <= L_i, and are the roots of the secular equation

    sum_k z_k^2 / (L_k - l) = 1,

with eigenvectors (diag(L) - l_i)^-1 z [G73]. At a root, z'(diag(L) - l_i)^-1 z = 1. The squared
correlation of x with the i-th principal component of the other columns is therefore

    c_i = 1 / (|x|^2 sum_k z_k^2 / (L_k - l_i)^2),

and R2(d) = c_1 + ... + c_d. No eigenvector is formed and no column is deleted.

If X is large, only the m leading eigenpairs are known. The remainder of x has the known squared
length rho = |x|^2 - sum_k z_k^2, and the corresponding eigenvalues lie between 0 and an upper
bound. Placing all of rho at either end of this interval brackets each root and each c_i.

[G73]    G. H. Golub. Some modified matrix eigenvalue problems. SIAM Review 15, 1973.
[BNS78]  J. R. Bunch, C. P. Nielsen, D. C. Sorensen. Rank-one modification of the symmetric
         eigenproblem. Numerische Mathematik 31, 1978.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..parallel import in_parallel, slices_of, usable_cores

MAX_ITERATIONS = 60
# Relative change of a root at convergence; each iteration squares the error.
_TOLERANCE = 1e-6
# Relative lower bound of z_k^2. Smaller values are rounding errors; without this bound, a root
# could leave its interval, or approach the end so closely that the distance is lost.
_MIN_WEIGHT = 1e-15
# Roots below this proportion of the eigenvalue are zero, which means that the other columns have a
# lower rank.
_ZERO_ROOT = 1e-6
# Poles at a distance of at least this many half widths from the centre of a root's interval are
# expanded in powers of the distance from the centre; 4^-26 is below the rounding error.
_FAR_DISTANCE = 4.0
_EXPANSION_ORDER = 26
_BOUND_TOLERANCE = 0.01  # relative distance of bounds that replace a root
# Number of weights that one thread processes at a time, and minimum number for a further thread.
_MAX_CHUNK = 2**20
_MIN_CHUNK = 2**17
# Maximum number of distances between roots and poles for which all roots are computed at once.
_MAX_JOINT = 2**18


class R2Bounds(NamedTuple):
    """Bounds on the R2 of each column with each component of the other columns."""

    lower: np.ndarray  # (n_columns, count)
    upper: np.ndarray  # (n_columns, count); the same array if all eigenvalues are known


class SecularEquations(NamedTuple):
    """Secular equations of several columns, which have common poles."""

    poles: np.ndarray  # (m,) in decreasing order
    weights: np.ndarray  # (n_columns, m) z_k^2


def leave_one_out_r2(
    eigenvalues: np.ndarray,
    z: np.ndarray,
    squares: np.ndarray,
    count: int,
    eigenvalue_bound: float | None = None,
) -> R2Bounds:
    """Compute c_1, ..., c_count of each column with the components of the others.

    ``eigenvalues`` (m,) are the leading eigenvalues of X X' in decreasing order, ``z`` (n_columns,
    m) is U'x, and ``squares`` (n_columns,) is |x|^2. ``count`` is less than the number of columns
    of X and at most m. ``eigenvalue_bound`` limits the eigenvalues beyond the first m, if there are
    any.
    """
    if squares.size == 0 or count == 0:
        zeros = np.zeros((squares.size, count))
        return R2Bounds(zeros, zeros)
    weights = np.maximum(z * z, _MIN_WEIGHT * squares[:, None])

    def compute(chunk: slice) -> R2Bounds:
        equations = SecularEquations(eigenvalues, weights[chunk])
        if eigenvalue_bound is None:
            exact = _solve_complete(equations, squares[chunk], count)
            return R2Bounds(exact, exact)
        return _bound_truncated(equations, squares[chunk], count, eigenvalue_bound)

    columns_per_core = -(-squares.size // usable_cores())
    m = eigenvalues.size
    step = max(
        _MIN_CHUNK // max(m, 1), min(columns_per_core, _MAX_CHUNK // max(m, _EXPANSION_ORDER))
    )
    parts = in_parallel(compute, slices_of(z.shape[0], step))
    lower = np.concatenate([part.lower for part in parts])
    if eigenvalue_bound is None:
        return R2Bounds(lower, lower)
    return R2Bounds(lower, np.concatenate([part.upper for part in parts]))


def bound_leave_one_out_r2(
    eigenvalues: np.ndarray,
    z: np.ndarray,
    squares: np.ndarray,
    count: int,
    eigenvalue_bound: float | None = None,
) -> R2Bounds:
    """Bound ``leave_one_out_r2(...).lower`` without root finding.

    The decrease t = L_i - l_i of an eigenvalue satisfies t = z_i^2 / D(t), with

        D(t) = 1 - sum_{k < i} z_k^2 / (L_k - L_i + t) + sum_{k > i} z_k^2 / (L_i - L_k - t).

    Poles above L_i are farther from the root than from L_i; poles below are nearer. Therefore, D(t)
    >= D(0), t <= z_i^2 / D(0) if D(0) is positive, and

        c_i <= 1 / (|x|^2 (D(0)^2 / z_i^2 + sum_{k > i} z_k^2 / (L_i - L_k)^2)).

    Let t be at most a times the distance to the pole above and b times the distance to the pole
    below. Distances from the root are then at most 1 + a, and at least 1 - b, times those from L_i.
    This yields the opposite bounds of D(t) and of all sums. Both bounds are tight if a column
    contributes little to X X'. If these equations yield no bounds, the bounds are 0 and 1.
    """
    weights = np.maximum(z * z, _MIN_WEIGHT * squares[:, None])
    own_weights, poles = weights[:, :count], eigenvalues
    if eigenvalue_bound is not None:
        # With the remainder at its upper limit, upper bounds increase and lower bounds decrease.
        rest = np.maximum(squares - weights.sum(axis=1), _MIN_WEIGHT * squares)
        weights = np.column_stack([weights, rest])
        poles = np.append(eigenvalues, min(eigenvalue_bound, float(eigenvalues[-1])))
    roots, leading = np.arange(count), eigenvalues[:count]
    is_above = np.arange(poles.size)[:, None] < roots
    is_below = np.arange(poles.size)[:, None] > roots
    padded = np.concatenate([[np.inf], poles, [0.0]])
    to_above, to_below = padded[:count] - leading, leading - padded[2 : count + 2]
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        inverse = np.abs(1.0 / (leading - poles[:, None]))  # 1 / |L_i - L_k|, (m, count)
        from_above = np.where(is_above, inverse, 0.0)
        from_below = np.where(is_below, inverse, 0.0)
        above, below = weights @ from_above, weights @ from_below
        below_squared = weights @ from_below**2
        D = 1.0 - above + below
        upper = 1.0 / (squares[:, None] * (D * D / own_weights + below_squared))
        # The decrease is largest if the remainder is at zero.
        min_D = D if eigenvalue_bound is None else D - rest[:, None] * from_below[-1]
        drop = own_weights / min_D
        nearer = 1.0 - drop / to_below
        max_D = 1.0 - above / (1.0 + drop / to_above) + below / nearer
        slope = max_D**2 / own_weights + weights @ from_above**2 + below_squared / nearer**2
        lower = 1.0 / (squares[:, None] * slope)
    has_bound = (min_D > 0.0) & (nearer > 0.0) & (drop < (1.0 - _ZERO_ROOT) * leading)
    return R2Bounds(
        np.where(has_bound & np.isfinite(lower), lower, 0.0),
        np.where(D > 0.0, np.minimum(upper, 1.0), 1.0),
    )


def approximate_leave_one_out_r2(
    eigenvalues: np.ndarray,
    z: np.ndarray,
    squares: np.ndarray,
    count: int,
    eigenvalue_bound: float | None = None,
) -> np.ndarray:
    """Compute ``leave_one_out_r2(...).lower``, exactly if bounds are loose."""
    r2 = bound_leave_one_out_r2(eigenvalues, z, squares, count, eigenvalue_bound)
    loose = np.any(r2.upper - r2.lower > _BOUND_TOLERANCE * r2.upper, axis=1)
    exact = leave_one_out_r2(eigenvalues, z[loose], squares[loose], count, eigenvalue_bound)
    r2.lower[loose] = exact.lower
    return r2.lower


def leave_one_out_eigenvectors(eigenvalues: np.ndarray, z: np.ndarray, count: int) -> np.ndarray:
    """Compute leading eigenvectors of X X' - x x' in the basis U.

    The result contains unit vectors (n_columns, m, count). ``eigenvalues`` (m,) are in decreasing
    order; the last may be an assumed value for the remainder of a column. ``z`` (n_columns, m) is
    U'x of each column x.
    """
    floor = np.sqrt(_MIN_WEIGHT) * np.linalg.norm(z, axis=1, keepdims=True)
    z = np.where(np.abs(z) < floor, floor, z)
    equations = SecularEquations(eigenvalues, z * z)
    eigenvectors = np.empty((*z.shape, count))
    for i in range(count):
        distances = (eigenvalues - eigenvalues[i]) + _find_root(equations, i).drop[:, None]
        is_equal = np.any(distances == 0.0, axis=1)
        vectors = z / np.where(distances == 0.0, 1.0, distances)
        if is_equal.any():  # equal eigenvalues have an eigenvector that is orthogonal to x
            first, second = np.flatnonzero(eigenvalues == eigenvalues[i])[:2]
            vectors[is_equal] = 0.0
            vectors[is_equal, first] = z[is_equal, second]
            vectors[is_equal, second] = -z[is_equal, first]
        eigenvectors[:, :, i] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return eigenvectors


def leave_block_out_eigenvectors(eigenvalues: np.ndarray, z: np.ndarray, count: int) -> np.ndarray:
    """Compute leading eigenvectors of X X' - B B' in the basis U.

    The result contains unit vectors (n_blocks, m, count). ``z`` (n_blocks, n_columns, m) is B'U of
    each block that is left out.
    """
    deflated = np.diag(eigenvalues) - np.swapaxes(z, 1, 2) @ z
    return np.asarray(np.linalg.eigh(deflated)[1][:, :, ::-1][:, :, :count])


def _solve_complete(equations: SecularEquations, squares: np.ndarray, count: int) -> np.ndarray:
    """Compute c_1, ..., c_count if all eigenvalues are known."""
    if count * equations.weights.size <= _MAX_JOINT:
        drop, slope = _find_roots_jointly(equations, count)
    else:
        roots = [_find_root(equations, i) for i in range(count)]
        drop, slope = (np.column_stack(each) for each in zip(*roots, strict=True))
    is_component = drop < (1.0 - _ZERO_ROOT) * equations.poles[:count]
    r2 = np.where(is_component, 1.0 / (squares[:, None] * slope), 0.0)
    return np.minimum(r2, 1.0)


def _bound_truncated(
    equations: SecularEquations, squares: np.ndarray, count: int, eigenvalue_bound: float
) -> R2Bounds:
    """Bound c_1, ..., c_count if the other eigenvalues lie between 0 and a bound."""
    poles = equations.poles
    rest = np.maximum(squares - equations.weights.sum(axis=1), _MIN_WEIGHT * squares)
    weights = np.column_stack([equations.weights, rest])
    highest = min(eigenvalue_bound, float(poles[-1]))
    rest_at_zero = SecularEquations(np.append(poles, 0.0), weights)
    rest_at_bound = SecularEquations(np.append(poles, highest), weights)
    lower, upper = np.zeros((squares.size, count)), np.zeros((squares.size, count))
    for i in range(count):
        # The decrease of the eigenvalue is smaller if the remainder is at a larger eigenvalue.
        max_drop = _find_root(rest_at_zero, i).drop
        min_drop = np.minimum(_find_root(rest_at_bound, i).drop, max_drop)
        above, below = poles[: i + 1] - poles[i], poles[i + 1 :] - poles[i]
        nearest = above + min_drop[:, None], below + max_drop[:, None]
        farthest = above + max_drop[:, None], below + min_drop[:, None]
        w_above, w_below = equations.weights[:, : i + 1], equations.weights[:, i + 1 :]
        to_rest = poles[i] - max_drop - highest
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            max_slope = np.sum(w_above / nearest[0] ** 2, axis=1)
            max_slope += np.sum(w_below / nearest[1] ** 2, axis=1)
            max_slope += np.where(to_rest > 0.0, rest / to_rest**2, np.inf)
            min_slope = np.sum(w_above / farthest[0] ** 2, axis=1)
            min_slope += np.sum(w_below / farthest[1] ** 2, axis=1)
            min_slope += rest / (poles[i] - min_drop) ** 2
            lower[:, i] = 1.0 / (squares * max_slope)
            upper[:, i] = 1.0 / (squares * min_slope)
    return R2Bounds(lower, np.minimum(upper, 1.0))


class _Roots(NamedTuple):
    drop: np.ndarray  # L_i - l_i
    slope: np.ndarray  # sum_k z_k^2 / (L_k - l_i)^2


def _find_root(equations: SecularEquations, i: int) -> _Roots:
    """Find the i-th root of each secular equation, (n_columns,)."""
    poles, weights = equations
    n_columns = weights.shape[0]
    gap = float(poles[i] - poles[i + 1]) if i + 1 < poles.size else float(poles[i])
    if n_columns == 0 or gap <= 0.0:
        return _Roots(np.zeros(n_columns), np.full(n_columns, np.inf))
    max_drop = np.minimum(gap, weights.sum(axis=1))
    above, below = _split_poles(equations, i, float(max_drop.max()))

    def evaluate(drop: np.ndarray, columns: np.ndarray) -> tuple[_PoleSum, _PoleSum]:
        return above.evaluate(drop, columns), below.evaluate(drop, columns)

    return _iterate(weights[:, i], max_drop, np.full(n_columns, gap), evaluate)


def _find_roots_jointly(equations: SecularEquations, count: int) -> _Roots:
    """Find the first roots of all secular equations, (n_columns, count).

    With few columns and poles, separate iterations for each root would consist of many short
    operations.
    """
    poles, weights = equations
    n_columns = weights.shape[0]
    gaps = poles[:count] - np.append(poles, 0.0)[1 : count + 1]
    drop, slope = np.zeros((n_columns, count)), np.full((n_columns, count), np.inf)
    column, root = np.nonzero(np.broadcast_to(gaps > 0.0, drop.shape))
    distances = (poles - poles[:count, None])[root]
    is_above = np.arange(poles.size) <= np.arange(count)[:, None]
    above = np.where(is_above[root], weights[column], 0.0)
    below = np.where(is_above[root], 0.0, weights[column])

    def evaluate(t: np.ndarray, active: np.ndarray) -> tuple[_PoleSum, _PoleSum]:
        all_active = active.size == column.size
        inverse = 1.0 / ((distances if all_active else distances[active]) + t[:, None])
        squared = inverse * inverse
        sides = (side if all_active else side[active] for side in (above, below))
        sum_above, sum_below = (
            _PoleSum(np.einsum("ij,ij->i", side, inverse), np.einsum("ij,ij->i", side, squared))
            for side in sides
        )
        return sum_above, sum_below

    max_drop = np.minimum(gaps[root], weights.sum(axis=1)[column])
    drop[column, root], slope[column, root] = _iterate(
        weights[column, root], max_drop, gaps[root], evaluate
    )
    return _Roots(drop, slope)


def _iterate(
    start: np.ndarray,
    max_drop: np.ndarray,
    gap: np.ndarray,
    evaluate: Callable[[np.ndarray, np.ndarray], tuple[_PoleSum, _PoleSum]],
) -> _Roots:
    """Find roots by the rational interpolation of [BNS78].

    The poles above the root are replaced by one pole with the same value and slope, as are those
    below. The iteration solves the quadratic equation of the two poles. The iterates are monotone.
    """
    last = np.nextafter(gap, 0.0)  # excludes the pole below
    drop = np.clip(start, np.finfo(float).tiny, 0.999 * max_drop)
    active = np.arange(drop.size)
    for _ in range(MAX_ITERATIONS):
        t, width = drop[active], gap[active]
        above, below = evaluate(t, active)
        a, b = above.slope * t * t, below.slope * (width - t) ** 2
        constant = 1.0 - (above.value - a / t) - (below.value + b / (width - t))
        linear = constant * width + a + b
        root = np.sqrt(np.maximum(linear * linear - 4.0 * constant * a * width, 0.0))
        denominator = linear + root
        is_usable = denominator > 0.0
        new = 2.0 * a * width / np.where(is_usable, denominator, 1.0)
        new = np.where(is_usable, new, 0.5 * (t + width))
        new = np.clip(new, np.finfo(float).tiny, last[active])
        drop[active] = new
        active = active[np.abs(new - t) > _TOLERANCE * new]
        if active.size == 0:
            break
    above, below = evaluate(drop, np.arange(drop.size))
    return _Roots(drop, above.slope + below.slope)


class _PoleSum(NamedTuple):
    value: np.ndarray  # (n_columns,) sum over poles of z_k^2 / (L_k - l)
    slope: np.ndarray  # (n_columns,) sum over poles of z_k^2 / (L_k - l)^2


class _PoleSide(NamedTuple):
    """Poles on one side of a root.

    Poles near the interval of the root are summed individually. The others are combined in a
    polynomial in (l - centre) / half_width, computed for all columns by one matrix product.
    """

    near: np.ndarray  # (k,) poles relative to L_i
    weights: np.ndarray  # (n_columns, k) of the near poles
    centre: float  # of the interval, relative to L_i
    half_width: float
    coefficients: np.ndarray | None  # (n_columns, _EXPANSION_ORDER) of the polynomial

    def evaluate(self, drop: np.ndarray, columns: np.ndarray) -> _PoleSum:
        """Compute value and slope at l = L_i - drop, for some of the columns."""
        all_columns = columns.size == self.weights.shape[0]
        inverse = 1.0 / (self.near + drop[:, None])
        terms = (self.weights if all_columns else self.weights[columns]) * inverse
        value, slope = terms.sum(axis=1), np.einsum("ij,ij->i", terms, inverse)
        if self.coefficients is None:
            return _PoleSum(value, slope)
        coefficients = self.coefficients if all_columns else self.coefficients[columns]
        s = (-drop - self.centre) / self.half_width
        far, far_slope = np.zeros_like(s), np.zeros_like(s)
        for r in range(_EXPANSION_ORDER - 1, -1, -1):  # Horner's rule
            far_slope = far_slope * s + far
            far = far * s + coefficients[:, r]
        return _PoleSum(value + far, slope + far_slope / self.half_width)


def _split_poles(equations: SecularEquations, i: int, width: float) -> tuple[_PoleSide, _PoleSide]:
    """Split the poles into those above and below the i-th root.

    The root is at most ``width`` below L_i.
    """
    poles = equations.poles - equations.poles[i]
    centre, half_width = -0.5 * width, 0.5 * width
    # Poles decrease: distant poles above come first, distant poles below come last.
    n_far_above = min(int(np.sum(poles >= centre + _FAR_DISTANCE * half_width)), i)
    last_near = max(int(np.sum(poles > centre - _FAR_DISTANCE * half_width)), i + 1)
    n_far_below = poles.size - last_near
    # An expansion is faster only for many poles.
    first = n_far_above if n_far_above > 2 * _EXPANSION_ORDER else 0
    last = last_near if n_far_below > 2 * _EXPANSION_ORDER else poles.size

    def make_side(near: slice, far: slice) -> _PoleSide:
        coefficients = None
        if far.stop > far.start:
            # 1 / (L - l) = sum_r (l - centre)^r / (L - centre)^(r + 1), weighted and summed
            distance = (poles[far] - centre)[:, None]
            powers = (half_width / distance) ** np.arange(_EXPANSION_ORDER) / distance
            coefficients = np.asfortranarray(equations.weights[:, far] @ powers)
        return _PoleSide(poles[near], equations.weights[:, near], centre, half_width, coefficients)

    return (
        make_side(slice(first, i + 1), slice(0, first)),
        make_side(slice(i + 1, last), slice(last, poles.size)),
    )
