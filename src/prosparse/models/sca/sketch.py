"""Sketches of large data, with few rows that approximate X'X.

Most iterations only rotate the factors towards sparse loadings. The factors are close to the
leading directions of the views, and the remainder is approximated by independent noise:

    X'X  ~  Y'Y + P diag(residual) P,    Y = U'X (k x p),    P = I - V V',

where V (p x k) contains the leading directions of all views, the orthonormal columns of U span the
scores X V, and ``residual`` is the residual sum of squares of each column. Because Y'Y V = X'X V,
the residual must be orthogonal to V. An iteration on Y costs as much as an iteration on k samples.
A few iterations on the complete data then correct the approximation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...data import Array, DenseOperator, Operator
from ...data.arrays import from_numpy, to_numpy
from ...numerics.spectrum import EXACT_SIDE, leading_directions, spectrum
from .samples import ResidualSquares

# Number of directions per view in addition to the number of factors.
N_EXTRA_DIRECTIONS = 10
# Maximum number of products with the data for the directions.
MAX_PRODUCTS = 4
# Minimum ratio of the rows of the data to those of the sketch.
MIN_ROW_RATIO = 8


class Sketch(NamedTuple):
    """Data of few rows with approximately the same X'X."""

    table: Operator  # Y (k, p), with the column squares of X
    residual: ResidualSquares


def sketch_rows(
    op: Operator, groups: Sequence[np.ndarray], n_factors: Sequence[int]
) -> Sketch | None:
    """Build a sketch of centred data (n, p); None if it would save little.

    ``n_factors`` includes shared factors in each view.
    """
    wanted = [count + N_EXTRA_DIRECTIONS for count in n_factors]
    if min(op.shape) <= max(EXACT_SIDE, MIN_ROW_RATIO * sum(wanted)):
        return None
    xp, rough = op.xp, op.rough()
    V, scores = np.zeros((op.shape[1], sum(wanted))), []
    first = 0
    for columns, count in zip(groups, wanted, strict=True):
        part = rough.take_columns(columns)
        directions = _leading(part, count)
        V[columns, first : first + directions.shape[1]] = to_numpy(directions)
        along = part.gathered_matmul(xp.astype(directions, part.dtype))
        scores.append(xp.astype(along, xp.float64))
        first += count
    U = xp.linalg.qr(xp.concat(scores, axis=1))[0]
    Y = xp.astype(op.rmatmul(xp.astype(U, op.dtype)), xp.float64).T
    squares = to_numpy(op.column_squares()).astype(float)
    lacking = np.clip(squares - to_numpy(xp.sum(Y * Y, axis=0)), 0.0, None)
    table = DenseOperator(Y)
    table.remember_column_squares(squares)
    return Sketch(table, ResidualSquares(lacking, V))


def _leading(part: Operator, count: int) -> Array:
    """Compute approximate leading directions of a view."""
    if part.shape[1] <= count:
        return from_numpy(np.eye(part.shape[1]), part.column_squares())
    if part.shape[1] <= 2 * count:
        return spectrum(part).directions(count)
    return leading_directions(part, count, max_products=MAX_PRODUCTS)[1]
