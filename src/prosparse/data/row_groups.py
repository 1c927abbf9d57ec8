"""Rows that belong together: donors, batches, studies, repeated measures."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..errors import ParameterError

# The kinds of NumPy's types that labels keep; all others become texts.
LABEL_TYPES = "biufcSUMm"


class RowGroups(NamedTuple):
    """Which rows belong together."""

    codes: np.ndarray  # (n,) 0, 1, ...
    sizes: np.ndarray  # (groups,)
    labels: np.ndarray  # (groups,) as they were given; texts unless of one of `LABEL_TYPES`


def row_groups(labels: object, n: int) -> RowGroups | None:
    """The groups of n rows that a user gives as labels; None if there are none.

    Raises
    ------
    ParameterError
        If there is not one label for every row, or one is missing.
    """
    if labels is None:
        return None
    given = np.asarray(labels)
    if given.shape != (n,):
        raise ParameterError(
            f"`groups` must have one label for each of the {n} rows, got shape {given.shape}"
        )
    lacking = sum(_is_missing(label) for label in np.asarray(labels, dtype=object))
    if lacking:
        raise ParameterError(
            f"`groups` must have a label for each row, {lacking} of the {n} have none: give these "
            "rows one, or leave them out"
        )
    if given.dtype.kind not in LABEL_TYPES:  # objects of several types have no order
        given = np.array([str(label) for label in given.tolist()])
    kept, codes, sizes = np.unique(given, return_inverse=True, return_counts=True)
    return RowGroups(codes.reshape(-1), sizes, kept)


def _is_missing(label: object) -> bool:
    """Whether a label is None, NaN, NaT or pandas' NA, none of which equals itself."""
    if label is None:
        return True
    differs = label != label  # noqa: PLR0124
    return bool(differs) if isinstance(differs, bool | np.bool_) else True
