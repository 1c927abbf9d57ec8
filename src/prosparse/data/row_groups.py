"""Rows that belong together: donors, batches, studies, repeated measures."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..errors import ParameterError


class RowGroups(NamedTuple):
    """Which rows belong together."""

    codes: np.ndarray  # (n,) 0, 1, ...
    sizes: np.ndarray  # (groups,)
    labels: np.ndarray  # (groups,) as they were given


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
    if given.dtype.kind == "f" and np.isnan(given).any():
        raise ParameterError("`groups` has missing labels: give these rows one, or leave them out")
    kept, codes, sizes = np.unique(given, return_inverse=True, return_counts=True)
    return RowGroups(codes.reshape(-1), sizes, kept)
