"""Partitions of the columns by names, slices, positions or masks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ..errors import ParameterError

# One or several names, a slice, positions (from the end if negative), or a mask.
ColumnGroup = str | slice | Iterable[str] | Iterable[int] | np.ndarray


def column_groups(
    groups: Sequence[ColumnGroup] | None,
    width: int,
    names: Sequence[str] | np.ndarray | None = None,
    noun: str = "view",
) -> list[np.ndarray]:
    """Convert groups of columns to positions; check that they are a partition.

    ``noun`` is the singular of the parameter's name. If ``groups`` is None, all columns form one
    group.
    """
    if groups is None:
        return [np.arange(width)]
    if not isinstance(groups, list | tuple) or len(groups) == 0:
        raise ParameterError(
            f"`{noun}s` must be a list of column groups (names, slices or positions), one per "
            f"{noun}, got {groups!r}."
        )
    labels = None if names is None else np.asarray(names).tolist()
    found = [
        column_positions(group, f"{noun} {number} of `{noun}s`", width, labels)
        for number, group in enumerate(groups)
    ]
    count = np.bincount(np.concatenate(found), minlength=width)
    for wrong, where in ((count > 1, f"more than one {noun}"), (count == 0, f"no {noun}")):
        if np.any(wrong):
            first = int(np.flatnonzero(wrong)[0])
            label = first if labels is None else labels[first]
            n_wrong = int(wrong.sum())
            verb = "is" if n_wrong == 1 else "are"
            raise ParameterError(
                f"`{noun}s` must assign each column to exactly one {noun}, but {n_wrong} of "
                f"{width} columns {verb} in {where}, such as {label!r}."
            )
    return found


def column_positions(
    group: ColumnGroup, where: str, width: int, names: list[str] | None
) -> np.ndarray:
    """Convert a group of columns to positions; ``where`` names it in errors."""
    if isinstance(group, slice):
        found = np.arange(width)[group]
    else:
        try:
            items = np.asarray([group] if isinstance(group, str) else list(group))
        except (TypeError, ValueError) as error:  # not iterable, or ragged
            raise ParameterError(
                f"{where} must be names, a slice or positions, got {group!r}."
            ) from error
        if items.dtype.kind in "UO" and all(isinstance(item, str) for item in items.tolist()):
            found = _positions_of_names(items.tolist(), where, names)
        elif items.dtype == bool and items.shape == (width,):
            found = np.flatnonzero(items)
        elif items.dtype.kind in "iu" and items.ndim == 1:
            wrong = items[(items < -width) | (items >= width)]
            if wrong.size:
                raise ParameterError(f"{where} has column {wrong[0]}, but X has {width} columns.")
            found = items % width
        elif items.size:
            raise ParameterError(f"{where} must be names, a slice or positions, got {group!r}.")
        else:
            found = np.zeros(0, dtype=int)
    if found.size == 0:
        raise ParameterError(f"{where} is empty. Remove it, or check the names and positions.")
    return found


def _positions_of_names(items: list[str], where: str, names: list[str] | None) -> np.ndarray:
    if names is None:
        raise ParameterError(f"{where} has column names, but X has none. Use slices or positions.")
    position_of = {name: position for position, name in enumerate(names)}
    unknown = [item for item in items if item not in position_of]
    if unknown:
        raise ParameterError(f"{where} has {unknown[0]!r}, which is not a column of X.")
    return np.array([position_of[item] for item in items])
