"""Coding of covariates of the rows, such as age and batch.

Numeric covariates are used unchanged. Categorical, string and boolean columns become one indicator
for each level but the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..errors import ParameterError, plural
from ..phrases import list_items
from .containers import container_of
from .row_adjustment import RowAdjustment
from .row_groups import is_missing, row_groups, single_group


class Covariate(NamedTuple):
    """Values of one covariate."""

    name: str
    values: np.ndarray  # (n,) floats, or labels of a categorical covariate
    levels: tuple[str, ...] | None  # ordered levels; None if the covariate is numeric


class CovariateCoding(NamedTuple):
    """Names and levels of the covariates of a fit."""

    names: tuple[str, ...]
    levels: tuple[tuple[str, ...] | None, ...]  # levels; None if the covariate is numeric

    @property
    def blocks(self) -> list[slice]:
        """Coded columns of each covariate."""
        widths = [1 if levels is None else len(levels) - 1 for levels in self.levels]
        ends = np.cumsum([0, *widths])
        return [slice(start, stop) for start, stop in pairwise(ends.tolist())]

    @property
    def column_names(self) -> list[str]:
        """Names of the coded columns: "age", "sex[male]"."""
        names = []
        for name, levels in zip(self.names, self.levels, strict=True):
            names += [name] if levels is None else [f"{name}[{level}]" for level in levels[1:]]
        return names

    def encode(self, covariates: Sequence[Covariate]) -> np.ndarray:
        """Code covariates as numbers, (n, k)."""
        columns = []
        for covariate, levels in zip(covariates, self.levels, strict=True):
            if levels is None:
                columns.append(covariate.values[:, None])
            else:
                columns.append(covariate.values[:, None] == np.array(levels[1:], dtype=object))
        return np.column_stack(columns).astype(float)

    def match(self, covariates: Any, n: int) -> list[Covariate]:
        """Read the covariates of n new rows, matched by name if possible."""
        given = read_covariates(covariates, n)
        by_name = {covariate.name: covariate for covariate in given}
        if _column_names(covariates) is not None and not _is_positional(self.names):
            absent = [name for name in self.names if name not in by_name]
            if absent:
                raise ParameterError(
                    f"`covariates` lacks {_list_names(absent)}, which the fit used. Pass the same "
                    "covariates as in `fit`."
                )
            given = [by_name[name] for name in self.names]
        if len(given) != len(self.names):
            raise ParameterError(
                f"`covariates` must have the {plural(len(self.names), 'column')} of `fit` "
                f"({_list_names(self.names)}), got {len(given)}."
            )
        return [
            _match_levels(covariate, name, levels)
            for covariate, name, levels in zip(given, self.names, self.levels, strict=True)
        ]


class RowDesign(NamedTuple):
    """Groups and covariates of the rows of a fit."""

    adjustment: RowAdjustment
    coding: CovariateCoding | None  # None without covariates
    mean: np.ndarray  # (k,) of the coded covariates
    scale: np.ndarray  # (k,) divisors of the coded covariates in the adjustment


def row_design(groups: Any, covariates: Any, n: int) -> RowDesign:
    """Read the groups and the covariates of n rows; either may be None."""
    rows = row_groups(groups, n)
    rows = single_group(n) if rows is None else rows
    if covariates is None:
        return RowDesign(RowAdjustment(rows), None, np.zeros(0), np.zeros(0))
    values = read_covariates(covariates, n)
    coding = coding_of(values)
    coded = coding.encode(values)
    mean, deviation = np.mean(coded, axis=0), np.std(coded, axis=0)
    # Indicators remain zeros and ones, which makes products with sparse data faster.
    is_number = np.zeros(mean.size, dtype=bool)
    for block, levels in zip(coding.blocks, coding.levels, strict=True):
        is_number[block] = levels is None
    scale = np.where(is_number & (deviation > 0.0), deviation, 1.0)
    adjustment = RowAdjustment(rows, (coded - np.where(is_number, mean, 0.0)) / scale)
    return RowDesign(adjustment, coding, mean, scale)


def take_rows(covariates: Any, n: int, rows: np.ndarray) -> dict[str, np.ndarray] | None:
    """Select rows of covariates as a dictionary of columns."""
    if covariates is None:
        return None
    return {name: values[rows] for name, values, _ in read_covariates(covariates, n)}


def coding_of(covariates: Sequence[Covariate]) -> CovariateCoding:
    """Return the coding of the covariates of a fit."""
    return CovariateCoding(
        tuple(covariate.name for covariate in covariates),
        tuple(covariate.levels for covariate in covariates),
    )


def read_covariates(covariates: Any, n: int) -> list[Covariate]:
    """Read the covariates of n rows from any supported type."""
    columns = _split_columns(covariates)
    if not columns:
        raise ParameterError(
            "`covariates` has no columns. Omit it, or pass at least one covariate."
        )
    names = [name for name, _ in columns]
    if len(set(names)) < len(names):
        raise ParameterError(f"`covariates` has duplicate column names: {_list_names(names)}.")
    return [_covariate(name, values, n) for name, values in columns]


def _split_columns(covariates: Any) -> list[tuple[str, Any]]:
    """Return the names and the values of the columns."""
    names = _column_names(covariates)
    if names is not None:
        return [(str(name), covariates[name]) for name in names]
    if getattr(covariates, "name", None) is not None and np.ndim(covariates) == 1:
        return [(str(covariates.name), covariates)]  # a Series
    values = covariates if _is_categorical(covariates) else np.asarray(covariates)
    if np.ndim(values) == 1:
        return [("covariate0", values)]
    if np.ndim(values) != 2:
        raise ParameterError(
            "`covariates` must be a DataFrame, or an array with one row for each row of X, got "
            f"shape {np.shape(values)}."
        )
    return [(f"covariate{k}", values[:, k]) for k in range(values.shape[1])]


def _column_names(covariates: Any) -> list[Any] | None:
    """Return the names of the columns of a DataFrame; None for arrays and Series."""
    if isinstance(covariates, Mapping):
        return list(covariates)
    if np.ndim(covariates) == 1 and not hasattr(covariates, "columns"):
        return None
    return container_of(covariates).column_names(covariates)


def _is_positional(names: Sequence[str]) -> bool:
    return all(name == f"covariate{k}" for k, name in enumerate(names))


def _is_categorical(values: Any) -> bool:
    return str(getattr(values, "dtype", "")) == "category"


def _covariate(name: str, given: Any, n: int) -> Covariate:
    """Read one column as a numeric or categorical covariate."""
    values = np.asarray(given)
    if values.shape != (n,):
        raise ParameterError(
            f"`covariates` must have one row for each of the {n} rows of X, got {values.shape[0]}."
        )
    is_number = values.dtype.kind in "iuf"
    if is_number and not _is_categorical(given):
        missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(n, dtype=bool)
    else:
        entries = values.astype(object)
        missing = np.array([is_missing(entry) for entry in entries])
    if missing.any():
        raise ParameterError(
            f"`covariates` has {plural(int(missing.sum()), 'missing value')} in {name!r}, first in "
            f"row {int(np.flatnonzero(missing)[0])}. Drop these rows, or impute the values: the "
            "median for numbers, a level 'unknown' for categories."
        )
    if values.dtype.kind in "Mm":
        raise ParameterError(
            f"`covariates` has dates or times in {name!r}. Convert them to numbers, e.g. days "
            "since a reference date."
        )
    if _is_categorical(given):
        return _category(name, values, _category_order(given))
    if values.dtype.kind == "O" and all(
        isinstance(entry, int | float | np.number) and not isinstance(entry, bool)
        for entry in values
    ):
        values, is_number = values.astype(float), True
    if not is_number:
        if values.dtype.kind not in "bOUST":
            raise ParameterError(
                f"`covariates` must hold numbers or categories, but {name!r} has dtype "
                f"{values.dtype}."
            )
        return _category(name, values, None)
    numbers = values.astype(float)
    if not np.isfinite(numbers).all():
        raise ParameterError(f"`covariates` has infinite values in {name!r}. Drop these rows.")
    return Covariate(name, numbers, None)


def _category_order(given: Any) -> list[str]:
    """Return the levels of a pandas categorical in their order."""
    return [str(level) for level in getattr(given, "cat", given).categories]


def _category(name: str, values: np.ndarray, order: list[str] | None) -> Covariate:
    labels = np.array([str(entry) for entry in values.tolist()], dtype=object)
    present = set(labels.tolist())
    levels = sorted(present) if order is None else [level for level in order if level in present]
    return Covariate(name, labels, tuple(levels))


def _match_levels(covariate: Covariate, name: str, levels: tuple[str, ...] | None) -> Covariate:
    """Check a covariate of new rows against the fit."""
    if levels is None and covariate.levels is not None:
        raise ParameterError(
            f"`covariates` must have numbers in {name!r}, as in `fit`, got {covariate.levels[0]!r}."
        )
    if levels is None:
        return covariate
    values = covariate.values
    if covariate.levels is None:  # numeric here, categorical in the fit
        values = np.array([f"{value:g}" for value in values], dtype=object)
    unknown = sorted(set(values.tolist()) - set(levels))
    if unknown:
        raise ParameterError(
            f"`covariates` has {'an unknown level' if len(unknown) == 1 else 'unknown levels'} of "
            f"{name!r}: {_list_names(unknown)}. The fit had {_list_names(levels)}. Effects of new "
            "levels cannot be removed: fit again with rows of these levels."
        )
    return Covariate(name, values, levels)


def _list_names(names: Sequence[str]) -> str:
    return list_items([*map(repr, names)])
