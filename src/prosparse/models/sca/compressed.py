"""A table of few rows in place of one of many, for the passes before those over the whole table.

Most passes only turn the latents to where the weights are sparse. The latents lie among the leading
directions of the views, and what is left beside these is noise of every column by itself. So

    X'X  ~  Y'Y + diag(rest),    Y = U'X (k x p),

where the columns of U, orthonormal, span the leading scores of all views, and ``rest`` holds what Y
lacks of every column's squares. A pass over Y costs as much as one over k samples. From the fit of
this table a handful of passes over the whole table are left, where there would be dozens or
hundreds. The directions need not be exact: the passes over the whole table mend what they lack.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...data import Array, DenseOperator, Operator
from ...data.arrays import host, in_kind
from ...numerics.spectrum import EXACT_SIDE, leading_directions

# Directions of every view beyond its latents: among equally strong ones the weights decide.
MORE_DIRECTIONS = 10
# Products with the table that the directions may take; each counts two.
PRODUCTS = 4
# A table of this many times more rows than the compressed one is worth compressing.
WORTH = 8


class Compressed(NamedTuple):
    """A table with nearly the same X'X: Y'Y + diag(rest)."""

    table: Operator  # Y (k, p); it remembers the column squares of X
    rest: np.ndarray  # (p,) what Y lacks of them


def compressed(
    op: Operator, groups: Sequence[np.ndarray], latents: Sequence[int]
) -> Compressed | None:
    """The table in few rows.

    Parameters
    ----------
    op : Operator
        The centred table (n, p).
    groups : sequence of int arrays
        The columns of every view.
    latents : sequence of int
        How many latents every view sees.

    Returns
    -------
    Compressed or None
        None where a pass over the table itself costs little more.
    """
    wanted = [count + MORE_DIRECTIONS for count in latents]
    if min(op.shape) <= max(EXACT_SIDE, WORTH * sum(wanted)):
        return None
    xp, rough = op.xp, op.rough()
    scores = [
        xp.astype(_leading_scores(rough.take_columns(columns), count), xp.float64)
        for columns, count in zip(groups, wanted, strict=True)
    ]
    U = xp.linalg.qr(xp.concat(scores, axis=1))[0]
    Y = xp.astype(op.rmatmul(xp.astype(U, op.dtype)), xp.float64).T
    squares = host(op.column_squares()).astype(float)
    rest = np.clip(squares - host(xp.sum(Y * Y, axis=0)), 0.0, None)
    table = DenseOperator(Y)
    table.remember_column_squares(in_kind(squares, Y))
    return Compressed(table, rest)


def _leading_scores(part: Operator, count: int) -> Array:
    """Scores of a view along its leading directions, about; all columns of a narrow view."""
    if part.shape[1] <= 2 * count:
        directions = in_kind(np.eye(part.shape[1]), part.column_squares())
    else:
        directions = leading_directions(part, count, max_passes=PRODUCTS)[1]
    return part.gathered_matmul(part.xp.astype(directions, part.dtype))
