"""Data to be tested: residuals with rows of equal scale."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..data import Operator
from ..data.arrays import from_numpy
from ..data.row_adjustment import RowAdjustment
from .leading_components import StandardisedData
from .observed_data import fill_by_design, observed_data
from .row_scale import equalise_rows, estimate_row_scale


class PreparedData(NamedTuple):
    """Data to be tested, and the scales of the rows."""

    data: StandardisedData
    row_scale: np.ndarray  # (n,) relative to the median row


def prepare_data(
    op: Operator,
    adjustment: RowAdjustment,
    robust: bool,
    seen: np.ndarray | None = None,
    sizes: np.ndarray | None = None,
) -> PreparedData:
    """Adjust a data matrix for groups and covariates, and equalise its rows.

    The columns have equal variance. If ``robust``, rows are divided by their scale. ``seen`` (n,
    n_columns) marks the observed entries if some are missing; missing entries are imputed by
    `fill_by_design`. ``sizes`` are the numbers of columns of the variables if there are blocks;
    ``sizes`` requires ``seen``.
    """
    if seen is None:
        if robust:
            equalised = equalise_rows(op, adjustment)
            data = StandardisedData(equalised.op, equalised.adjustment)
            return PreparedData(data, equalised.row_scale)
        data = StandardisedData(adjustment.adjust_operator(op), adjustment)
        return PreparedData(data, estimate_row_scale(op, adjustment))
    scale = scale_of_numbers(op, adjustment, seen, sizes)
    if robust:
        op, adjustment = divide_rows(op, adjustment, scale, seen)
    data = observed_data(adjustment.adjust_operator(op), seen, adjustment, sizes).data
    return PreparedData(data, scale)


def scale_of_numbers(
    op: Operator,
    adjustment: RowAdjustment,
    seen: np.ndarray | None = None,
    sizes: np.ndarray | None = None,
) -> np.ndarray:
    """Estimate the scale of each row from numeric variables, (n,).

    Indicators are not used, because their magnitudes depend only on the frequencies of the levels.
    """
    single = None if sizes is None else np.flatnonzero(np.repeat(sizes, sizes) == 1)
    return estimate_row_scale(op, adjustment, seen, single)


def divide_rows(
    op: Operator, adjustment: RowAdjustment, scale: np.ndarray, seen: np.ndarray | None = None
) -> tuple[Operator, RowAdjustment]:
    """Divide the rows and their design by scales.

    Missing values are imputed again.
    """
    weighted = adjustment.weight_rows(1.0 / scale)
    divided = op.scale_rows(from_numpy(1.0 / scale, op.like, op.dtype))
    return (divided if seen is None else fill_by_design(divided, seen, weighted)), weighted
