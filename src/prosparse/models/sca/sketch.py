"""A table of few rows in place of one of many, for the passes before those over the whole table.

Most passes only turn the n_factors to where the weights are sparse. The n_factors lie among the leading
directions of the views, and what is left beside these is noise of every column by itself. So

    X'X  ~  Y'Y + P diag(rest) P,    Y = U'X (k x p),    P = I - V V',

where V (p x k) holds the leading directions of all views, the columns of U, orthonormal, span the
scores X V, and ``rest`` is what Y lacks of every column's squares. Y'Y V is X'X V, noise and all,
so that the rest must not see V. A pass over Y costs as much as one over k samples. From the fit of
this table a handful of passes over the whole table are left, where there would be dozens or
hundreds. The directions need not be exact: the passes over the whole table mend what they lack.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...data import Array, DenseOperator, Operator
from ...data.arrays import from_numpy, to_numpy
from ...numerics.spectrum import EXACT_SIDE, leading_directions, spectrum
from .samples import ResidualSquares

# Directions of every view beyond its n_factors: among equally strong ones the weights decide.
N_EXTRA_DIRECTIONS = 10
# Products with the table that the directions may take; each counts two.
MAX_PRODUCTS = 4
# A table of this many times more rows than the sketch_rows one is worth compressing.
MIN_ROW_RATIO = 8


class Sketch(NamedTuple):
    """A table with nearly the same X'X."""

    table: Operator  # Y (k, p); it remembers the column squares of X
    rest: ResidualSquares


def sketch_rows(
    op: Operator, groups: Sequence[np.ndarray], n_factors: Sequence[int]
) -> Sketch | None:
    """The table in few rows.

    Parameters
    ----------
    op : Operator
        The centred table (n, p).
    groups : sequence of int arrays
        The columns of every view.
    n_factors : sequence of int
        How many n_factors every view sees.

    Returns
    -------
    Sketch or None
        None where a pass over the table itself costs little more.
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
    """The leading directions of a view, about; of a view of fewer columns, all there are."""
    if part.shape[1] <= count:
        return from_numpy(np.eye(part.shape[1]), part.column_squares())
    if part.shape[1] <= 2 * count:
        return spectrum(part).directions(count)
    return leading_directions(part, count, max_passes=MAX_PRODUCTS)[1]
