"""Validation of the columns of X, common to regression and classification."""

from __future__ import annotations

import math

import numpy as np

from ...data import Columns, Operator
from ...data.row_groups import row_groups
from ...errors import InputError

MAX_SCALE_RATIO = 1e6  # maximum ratio of column norms if the columns are not scaled


def check_columns(op: Operator, columns: Columns, scaled: bool) -> None:
    """Raise an error if columns do not vary, or differ too much in scale."""
    if op.shape[1] == 0:
        raise InputError(
            f"X must have at least one column that varies, but all {columns.varying.size} columns "
            "are constant. Check how the data were read."
        )
    if scaled:
        return
    squares = np.asarray(op.column_squares())
    ratio = math.sqrt(float(squares.max()) / max(float(squares.min()), 1e-300))
    if ratio > MAX_SCALE_RATIO:
        raise InputError(
            f"X has columns whose norms differ by a factor of {ratio:.3g}, for which a common "
            "prior is inadequate. Set `scale=True`, or use similar units for the columns."
        )


def group_codes(groups: object, n: int, weights: np.ndarray | None) -> np.ndarray | None:
    """Validate groups of n rows; return codes of rows with positive weight."""
    rows = row_groups(groups, n)
    if rows is None:
        return None
    return rows.codes if weights is None else rows.codes[weights > 0]
