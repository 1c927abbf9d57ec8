"""Several views of the same samples: which columns belong together, and what was not observed.

A model of views sees a `Table`: it asks for the moments of its latents and never for single
entries. `CompleteTable` wraps an `Operator` (dense or sparse, n > p reduced to p rows); a table
with holes is a `GappyTable`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from ...data import Operator, kind_of, side_by_side, take_columns
from ...data.arrays import host, in_kind
from ...errors import InputError, ParameterError, check_integer, warn
from .gaps import GappyTable, Moments

Array = np.ndarray


def column_groups(views: Any, width: int, names: Any = None, kind: str = "view") -> list[Array]:
    """Positions of the columns of every view, from names, slices, masks or positions.

    Every column must belong to exactly one view, or whatever the ``kind`` of groups is called.
    """
    if views is None:
        return [np.arange(width)]
    if not isinstance(views, list | tuple) or len(views) == 0:
        raise ParameterError(
            f"`{kind}s` must be a list of column groups (names, slices or positions), "
            f"one per {kind}, got {views!r}"
        )
    groups = [
        _positions(group, f"{kind} {number} of `{kind}s`", width, names)
        for number, group in enumerate(views)
    ]
    count = np.bincount(np.concatenate(groups), minlength=width)
    for wrong, what in ((count > 1, f"more than one {kind}"), (count == 0, f"no {kind}")):
        if np.any(wrong):
            label = np.asarray(names)[wrong] if names is not None else np.flatnonzero(wrong)
            raise ParameterError(
                f"`{kind}s` must put every column into exactly one {kind}; {int(wrong.sum())} of "
                f"{width} columns are in {what}, the first of them {label.tolist()[0]!r}"
            )
    return groups


def _positions(group: Any, where: str, width: int, names: Any) -> Array:
    if isinstance(group, slice):
        found = np.arange(width)[group]
    elif not hasattr(group, "__iter__"):
        raise ParameterError(f"{where} must be names, a slice or positions, got {group!r}")
    else:
        items = np.asarray([group] if isinstance(group, str) else list(group))
        if items.dtype.kind in "UO" and all(isinstance(item, str) for item in items.tolist()):
            found = _named(items, where, names)
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


def _named(items: Array, where: str, names: Any) -> Array:
    if names is None:
        raise ParameterError(f"{where} has column names, but X has none: use slices or positions")
    place = {name: i for i, name in enumerate(names)}
    unknown = [item for item in items.tolist() if item not in place]
    if unknown:
        raise ParameterError(f"{where} names {unknown[0]!r}, which is not a column of X")
    return np.array([place[item] for item in items.tolist()])


def varying_groups(groups: list[Array], varying: Array) -> list[Array]:
    """The columns of every view, counted among those that vary."""
    place = np.cumsum(varying) - 1
    kept = [place[columns[varying[columns]]] for columns in groups]
    for number, group in enumerate(kept):
        if group.size == 0:
            raise InputError(f"every column of view {number} is constant: leave that view out")
    return kept


def private_counts(given: Any, n_views: int) -> list[int]:
    """Latents of each view's own, from one number for all or one per view."""
    counts = [given] * n_views if np.ndim(given) == 0 else list(given)
    if len(counts) != n_views:
        raise ParameterError(
            f"`n_private` must be one integer or one per view; there are {n_views} views, "
            f"got {given!r}"
        )
    for count in counts:
        check_integer("n_private", count, 0)
    return [int(count) for count in counts]


def is_list_of_tables(X: Any) -> bool:
    if not isinstance(X, list | tuple) or not X:
        return False
    return any(t is None or (hasattr(t, "shape") and len(t.shape) == 2) for t in X)


def one_table(X: Any, views: Any) -> tuple[Any, Any]:
    """A list of tables as one table and its column groups; anything else as it is."""
    if not is_list_of_tables(X):
        return X, views
    if views is not None:
        raise ParameterError("give either `views` or a list of tables, not both")
    if any(t is None for t in X):
        raise InputError("`fit` needs every view; give rows of NaN to samples that miss one")
    return side_by_side(list(X))


def names_of(table: Any, number: int) -> Array | None:
    """The column names of view ``number`` that scikit-learn would remember, if it has any."""
    columns = getattr(table, "columns", None)
    if columns is not None and len(set(columns)) < len(columns):
        twice = next(name for name in columns if list(columns).count(name) > 1)
        raise InputError(f"view {number} has more than one column named {twice!r}: rename them")
    probe = BaseEstimator()
    try:
        validate_data(probe, table, skip_check_array=True)
    except TypeError as error:  # names of several types
        raise InputError(f"view {number}: {error}") from error
    return getattr(probe, "feature_names_in_", None)


def check_names(tables: list[Any], fitted: list[Array | None], who: str) -> None:
    """Refuse views whose columns have other names than in ``fit``, or another order, as
    scikit-learn does with one table; where one of the two has no names, say so."""
    for number, (table, expected) in enumerate(zip(tables, fitted, strict=True)):
        given = None if table is None else names_of(table, number)
        if table is None or (given is None and expected is None):
            continue
        if given is None:
            warn(
                f"view {number} does not have valid feature names, but {who} was fitted with "
                "feature names",
                UserWarning,
            )
        elif expected is None:
            warn(
                f"view {number} has feature names, but {who} was fitted without feature names",
                UserWarning,
            )
        elif list(given) != list(expected):
            raise InputError(_difference(number, list(given), list(expected)))


def _difference(number: int, given: list[str], expected: list[str]) -> str:
    message = f"view {number}: the feature names should match those that were passed during fit."
    for what, names in (
        ("Feature names unseen at fit time", _lacking(given, expected)),
        ("Feature names seen at fit time, yet now missing", _lacking(expected, given)),
    ):
        if names:
            more = f", and {len(names) - 5} more" if len(names) > 5 else ""
            message += f" {what}: {', '.join(map(repr, names[:5]))}{more}."
    if set(given) == set(expected):
        message += " They must be in the same order as they were in fit."
    return message


def _lacking(names: list[str], others: list[str]) -> list[str]:
    known = set(others)
    return [name for name in names if name not in known]


def in_old_places(tables: list[Any], groups: list[Array]) -> Any:
    """New rows of fitted views as one table, its columns in their old places; None is missing."""
    if len(tables) != len(groups):
        raise InputError(
            f"{len(groups)} views were fitted, got {len(tables)}; give None for a view that is "
            "missing"
        )
    n = next((t.shape[0] for t in tables if t is not None), 0)
    pairs = zip(tables, groups, strict=True)
    like = next((t for t in tables if t is not None and not kind_of(t).on_host), None)

    def missing(width: int) -> Any:
        holes = np.full((n, width), np.nan)
        return holes if like is None else in_kind(holes, like, like.dtype)

    full = [missing(c.size) if t is None else t for t, c in pairs]
    for number, (part, columns) in enumerate(zip(full, groups, strict=True)):
        if part.shape[1] != columns.size:
            raise InputError(
                f"view {number} was fitted with {columns.size} columns, got {part.shape[1]}"
            )
    return take_columns(side_by_side(full)[0], np.argsort(np.concatenate(groups)))


class CompleteTable:
    """Nothing is missing: S_n is the same for all samples, and two products with X suffice."""

    def __init__(self, op: Operator, n: int):
        self.op, self.n, self.p = op, n, op.shape[1]
        self.squares = host(op.column_squares())  # (p,)
        self.observed = np.full(self.p, float(n))  # (p,)

    def moments(self, L: Array, C: Array | None, tau: Array, mu: Array) -> Moments:
        """[AB08] (17) or, with the covariances C of the weights, (25). ``mu`` is zero here."""
        weighted = tau[:, None] * L
        precision = weighted.T @ L + np.eye(L.shape[1])
        if C is not None:
            precision = precision + np.tensordot(tau, C, axes=1)
        S = np.linalg.inv(precision)
        S = 0.5 * (S + S.T)
        filters = in_kind(weighted @ S, self.op.column_squares(), self.op.dtype)

        def products(block: Any) -> tuple[Any, Any]:
            Z = block @ filters
            return block.T @ Z, Z.T @ Z

        G, ZZ = (host(part).astype(float) for part in self.op.sum_rows(products))
        zz = self.n * S + ZZ
        log_det = -self.n * float(np.linalg.slogdet(precision)[1])
        explained = float(np.sum(precision * ZZ))
        return Moments(zz[None], G, np.zeros((1, L.shape[1])), zz, log_det, explained)


Table = CompleteTable | GappyTable
