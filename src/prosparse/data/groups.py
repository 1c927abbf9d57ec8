"""Groups of columns: a partition of a table's columns, given in whatever way is at hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ..errors import ParameterError

# One name or several, a slice, positions (counted from the end if negative), or a mask.
ColumnGroup = str | slice | Iterable[str] | Iterable[int] | np.ndarray


def column_groups(
    groups: Sequence[ColumnGroup] | None,
    width: int,
    names: Sequence[str] | np.ndarray | None = None,
    kind: str = "view",
) -> list[np.ndarray]:
    """Positions of the columns of every group; every column must belong to exactly one.

    Parameters
    ----------
    groups : list of column groups, or None
        Names, a slice, a mask or positions for every group. None: one group of all columns.
    width : int
        Columns of the table.
    names : array-like of str or None, default=None
        Names of the table's columns, where it has any.
    kind : str, default="view"
        What a group is called in messages; the parameter is taken to be called that, plus "s".

    Returns
    -------
    list of int arrays

    Raises
    ------
    ParameterError
        If ``groups`` is no list of groups, or a column is in none of them or in several.
    """
    if groups is None:
        return [np.arange(width)]
    if not isinstance(groups, list | tuple) or len(groups) == 0:
        raise ParameterError(
            f"`{kind}s` must be a list of column groups (names, slices or positions), "
            f"one per {kind}, got {groups!r}"
        )
    labels = None if names is None else np.asarray(names).tolist()
    found = [
        positions(group, f"{kind} {number} of `{kind}s`", width, labels)
        for number, group in enumerate(groups)
    ]
    count = np.bincount(np.concatenate(found), minlength=width)
    for wrong, what in ((count > 1, f"more than one {kind}"), (count == 0, f"no {kind}")):
        if np.any(wrong):
            first = int(np.flatnonzero(wrong)[0])
            label = first if labels is None else labels[first]
            raise ParameterError(
                f"`{kind}s` must put every column into exactly one {kind}; {int(wrong.sum())} of "
                f"{width} columns are in {what}, the first of them {label!r}"
            )
    return found


def positions(group: ColumnGroup, where: str, width: int, names: list[str] | None) -> np.ndarray:
    """Positions of the columns of one group; ``where`` is what messages call it."""
    if isinstance(group, slice):
        found = np.arange(width)[group]
    else:
        try:
            items = np.asarray([group] if isinstance(group, str) else list(group))
        except (TypeError, ValueError) as error:  # nothing to go through, or lists of all lengths
            raise ParameterError(
                f"{where} must be names, a slice or positions, got {group!r}"
            ) from error
        if items.dtype.kind in "UO" and all(isinstance(item, str) for item in items.tolist()):
            found = _named(items.tolist(), where, names)
        elif items.dtype == bool and items.shape == (width,):
            found = np.flatnonzero(items)
        elif items.dtype.kind in "iu" and items.ndim == 1:
            wrong = items[(items < -width) | (items >= width)]
            if wrong.size:
                raise ParameterError(f"{where} names column {wrong[0]}; X has {width} columns")
            found = items % width
        elif items.size:
            raise ParameterError(f"{where} must be names, a slice or positions, got {group!r}")
        else:
            found = np.zeros(0, dtype=int)
    if found.size == 0:
        raise ParameterError(f"{where} is empty; leave it out, or check the names and positions")
    return found


def _named(items: list[str], where: str, names: list[str] | None) -> np.ndarray:
    if names is None:
        raise ParameterError(f"{where} has column names, but X has none: use slices or positions")
    place = {name: position for position, name in enumerate(names)}
    unknown = [item for item in items if item not in place]
    if unknown:
        raise ParameterError(f"{where} names {unknown[0]!r}, which is not a column of X")
    return np.array([place[item] for item in items])
