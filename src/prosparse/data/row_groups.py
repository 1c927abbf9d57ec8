"""Groups of rows, such as donors, batches, studies or repeated measures."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..errors import ParameterError

if TYPE_CHECKING:
    from .operators.base import Operator

# Kinds of NumPy dtypes that are retained for labels; other labels become strings.
LABEL_TYPES = "biufcSUMm"


class RowGroups(NamedTuple):
    """Partition of the rows into groups."""

    codes: np.ndarray  # (n,) group of each row: 0, 1, ...
    sizes: np.ndarray  # (n_groups,) number of rows in each group
    labels: np.ndarray  # (n_groups,) labels as given, or strings for dtypes outside `LABEL_TYPES`

    def take_rows(self, rows: slice) -> RowGroups:
        """Restrict the partition to some rows; groups without rows are dropped."""
        present, codes, sizes = np.unique(self.codes[rows], return_inverse=True, return_counts=True)
        return RowGroups(codes.reshape(-1), sizes, self.labels[present])

    def centre_operator(self, op: Operator) -> Operator:
        """Subtract the group means from a data matrix; sparse data stay sparse."""
        from .row_adjustment import RowAdjustment

        return RowAdjustment(self).adjust_operator(op)


def single_group(n: int) -> RowGroups:
    """Build one group of all n rows."""
    return RowGroups(np.zeros(n, dtype=int), np.array([n]), np.array(["all"]))


def row_groups(labels: object, n: int, parameter: str = "groups") -> RowGroups | None:
    """Group n rows by labels; errors refer to them as ``parameter``."""
    if labels is None:
        return None
    given = np.asarray(labels)
    if given.shape != (n,):
        raise ParameterError(
            f"`{parameter}` must have one label for each of the {n} rows, got shape {given.shape}."
        )
    n_missing = sum(is_missing(label) for label in np.asarray(labels, dtype=object))
    if n_missing:
        raise ParameterError(
            f"`{parameter}` must have a label for each row, but {n_missing} of {n} labels are "
            "missing. Label these rows or drop them."
        )
    if given.dtype.kind not in LABEL_TYPES:  # objects of several types cannot be sorted
        given = np.array([str(label) for label in given.tolist()])
    unique_labels, codes, sizes = np.unique(given, return_inverse=True, return_counts=True)
    return RowGroups(codes.reshape(-1), sizes, unique_labels)


def is_missing(label: object) -> bool:
    """Return whether a label is None, NaN, NaT or pandas' NA."""
    if label is None:
        return True
    differs = label != label  # noqa: PLR0124
    return bool(differs) if isinstance(differs, bool | np.bool_) else True
