"""Groups of rows: donors, batches, studies, repeated measures."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..errors import ParameterError
from .arrays import from_numpy, to_numpy
from .operators.base import Operator

# Kinds of NumPy dtypes that labels keep; labels of all other dtypes become strings.
LABEL_TYPES = "biufcSUMm"
# Proportion of a sum of squares within groups below which the difference of sums has lost digits.
_MIN_WITHIN = 1e-4


class RowGroups(NamedTuple):
    """Partition of the rows into groups."""

    codes: np.ndarray  # (n,) group of each row: 0, 1, ...
    sizes: np.ndarray  # (n_groups,) number of rows in each group
    labels: np.ndarray  # (n_groups,) labels as given; strings unless of one of `LABEL_TYPES`

    def column_means(self, op: Operator) -> np.ndarray:
        """Compute the mean of each column in each group, (n_groups, p)."""
        sums = to_numpy(op.rmatmul(self._indicators(op))).astype(float).T
        return np.asarray(sums / self.sizes[:, None])

    def centre(self, values: np.ndarray) -> np.ndarray:
        """Subtract from each row of an array (n, k) the mean of its group."""
        sums = np.zeros((self.sizes.size, values.shape[1]))
        np.add.at(sums, self.codes, values)
        return values - (sums / self.sizes[:, None])[self.codes]

    def centre_operator(self, op: Operator) -> Operator:
        """Subtract the group means from a data matrix; sparse data stay sparse."""
        means, squares = self.column_means(op), to_numpy(op.column_squares()).astype(float)
        like = op.column_squares()
        centred = op.shifted(self._indicators(op), from_numpy(means, like, op.dtype))
        within = np.maximum(squares - self.sizes @ means**2, 0.0)
        cancelled = np.flatnonzero(within < _MIN_WITHIN * squares)
        if cancelled.size:
            summed = centred.take_columns(cancelled).column_squares()
            within[cancelled] = to_numpy(summed).astype(float)
        centred.remember_column_squares(within)
        return centred

    def _indicators(self, op: Operator) -> np.ndarray:
        """Return the indicator matrix (n, n_groups) in the array library of ``op``."""
        indicators = np.eye(self.sizes.size)[self.codes]
        return from_numpy(indicators, op.column_squares(), op.dtype)


def single_group(n: int) -> RowGroups:
    """Return one group of all n rows."""
    return RowGroups(np.zeros(n, dtype=int), np.array([n]), np.array(["all"]))


def row_groups(labels: object, n: int, parameter: str = "groups") -> RowGroups | None:
    """Group n rows by their labels, given as ``parameter``."""
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
    if given.dtype.kind not in LABEL_TYPES:  # objects of several types have no order
        given = np.array([str(label) for label in given.tolist()])
    unique_labels, codes, sizes = np.unique(given, return_inverse=True, return_counts=True)
    return RowGroups(codes.reshape(-1), sizes, unique_labels)


def is_missing(label: object) -> bool:
    """Return whether a label is None, NaN, NaT or pandas' NA."""
    if label is None:
        return True
    differs = label != label  # noqa: PLR0124
    return bool(differs) if isinstance(differs, bool | np.bool_) else True
