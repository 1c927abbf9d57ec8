"""Validation of the parameters of `Panel`, and their use as constraints."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from ...data.column_groups import ColumnGroup, column_positions
from ...errors import ParameterError, check_bool, check_integer
from .greedy import Constraints


class ColumnNames(NamedTuple):
    """Number and names of the columns of ``X``."""

    width: int
    names: list[str] | None

    def label(self, column: int) -> str:
        """Return the name or position by which messages refer to a column."""
        return str(int(column)) if self.names is None else repr(self.names[column])

    def positions(self, given: Any, parameter: str) -> np.ndarray:
        """Return the positions of the columns in a parameter, possibly none."""
        is_empty = given is None or (isinstance(given, list | tuple) and not given)
        if isinstance(given, np.ndarray):
            is_empty = given.size == 0 or (given.dtype == bool and not given.any())
        if is_empty:
            return np.zeros(0, dtype=int)
        return np.unique(column_positions(given, f"`{parameter}`", self.width, self.names))

    def groups(
        self, given: Sequence[ColumnGroup] | None, parameter: str, noun: str
    ) -> list[np.ndarray]:
        """Return the positions of groups of columns."""
        if given is None:
            return []
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise ParameterError(
                f"`{parameter}` must be a list of column groups (names, slices or positions), got "
                f"{given!r}."
            )
        return [
            np.unique(
                column_positions(group, f"{noun} {number} of `{parameter}`", self.width, self.names)
            )
            for number, group in enumerate(given)
        ]

    def bundles(self, given: Sequence[ColumnGroup] | None) -> list[np.ndarray]:
        """Return the positions of bundles, which must not overlap."""
        found = self.groups(given, "bundles", "bundle")
        counts = np.bincount(np.concatenate([*found, np.zeros(0, int)]), minlength=self.width)
        if np.any(counts > 1):
            repeated = int(np.flatnonzero(counts > 1)[0])
            raise ParameterError(
                f"`bundles` contains column {self.label(repeated)} {counts[repeated]} times. Keep "
                "it in one bundle."
            )
        return found

    def costs(self, given: Any) -> np.ndarray:
        """Return one positive cost for each column."""
        if given is None:
            return np.ones(self.width)
        try:
            costs = np.asarray(given, dtype=float)
        except (TypeError, ValueError) as error:
            raise ParameterError(f"`costs` must contain numbers, got {given!r}.") from error
        if costs.shape != (self.width,) or not np.all(np.isfinite(costs) & (costs > 0.0)):
            raise ParameterError(
                f"`costs` must contain a positive number for each of the {self.width} columns of "
                f"X, got shape {costs.shape}"
                + (f" and minimum {costs.min():g}." if costs.size else ".")
            )
        return costs

    def conflicts(self, given: Sequence[ColumnGroup] | None) -> list[np.ndarray]:
        """Return the positions of groups of which at most one column is selected."""
        return self.groups(given, "conflicts", "group")


def check_parameters(parameters: dict[str, Any]) -> None:
    """Check the parameters of `Panel` that do not refer to columns."""
    if parameters["n_features_to_select"] is not None:
        check_integer("n_features_to_select", parameters["n_features_to_select"], 1, " or None")
    for name in ("target_recovery", "coverage"):
        value = parameters[name]
        if not (isinstance(value, Real) and 0.0 < float(value) < 1.0):
            raise ParameterError(f"`{name}` must be in (0, 1), got {value!r}.")
    check_bool("counts", parameters["counts"])
    check_integer("markers_per_label", parameters["markers_per_label"], 0)
    mean_range, max_total = parameters["mean_range"], parameters["max_total"]
    if mean_range is not None:
        is_pair = isinstance(mean_range, list | tuple) and len(mean_range) == 2
        ends = [end for end in mean_range if end is not None] if is_pair else []
        is_number = all(isinstance(end, Real) and not np.isnan(float(end)) for end in ends)
        if not is_pair or not is_number or (len(ends) == 2 and ends[0] > ends[1]):
            raise ParameterError(
                "`mean_range` must be a pair (low, high), in which None sets no limit, got "
                f"{mean_range!r}."
            )
    if max_total is not None and not (isinstance(max_total, Real) and float(max_total) > 0.0):
        raise ParameterError(f"`max_total` must be positive or None, got {max_total!r}.")


def build_constraints(
    given: dict[str, Any], names: ColumnNames, varying: np.ndarray, means: np.ndarray | None
) -> Constraints:
    """Translate parameters to constraints on the varying columns.

    ``means`` are the column means in their original units, required if a limit refers to them.
    ``n_features`` is the number of allowed columns if no number is given.
    """
    bundles, costs = names.bundles(given["bundles"]), names.costs(given["costs"])
    conflicts = names.conflicts(given["conflicts"])
    include = _add_bundles(names.positions(given["include"], "include"), bundles)
    exclude = _add_bundles(names.positions(given["exclude"], "exclude"), bundles)
    _check_include(include, exclude, varying, names)
    allowed = np.ones(names.width, dtype=bool)
    allowed[exclude] = False
    if given["mean_range"] is not None and means is not None:
        low, high = given["mean_range"]
        outside = means < (-np.inf if low is None else low)
        outside |= means > (np.inf if high is None else high)
        outside[include] = False
        allowed[_add_bundles(np.flatnonzero(outside), bundles)] = False
    if not np.any(allowed & varying):
        others = ", and the others are constant" if exclude.size < names.width else ""
        if given["mean_range"] is not None:
            others = f", and `mean_range`={given['mean_range']!r} leaves none of the others"
        raise ParameterError(
            f"`exclude` leaves no column to select: it contains {exclude.size} of the "
            f"{names.width} columns of X, including those of their bundles{others}. Exclude fewer "
            "columns."
        )
    kept = np.flatnonzero(varying)
    index = np.full(names.width, -1)
    index[kept] = np.arange(kept.size)
    bundles = [bundle[varying[bundle]] for bundle in bundles]
    bundles = [bundle for bundle in bundles if bundle.size > 1]
    available = allowed & varying
    count = int(np.sum(available)) + int(np.sum(~available[include]))
    if given["n_features_to_select"] is not None:
        _check_size(given["n_features_to_select"], include, available, bundles)
        count = given["n_features_to_select"]
    has_total = given["max_total"] is not None and means is not None
    constraints = Constraints(
        n_features=count,
        include=index[include],
        allowed=allowed[kept],
        costs=costs[kept],
        bundles=[index[bundle] for bundle in bundles],
        conflicts=tuple(index[group[varying[group]]] for group in conflicts),
        signal=np.maximum(means[kept], 0.0) if has_total and means is not None else None,
        max_signal=float(given["max_total"]) if given["max_total"] is not None else np.inf,
    )
    if not constraints.is_feasible(constraints.include):
        raise ParameterError(
            "`include` contains columns that conflict, or whose means sum to more than "
            "`max_total`. Remove columns from `include`."
        )
    return constraints


def _check_include(
    include: np.ndarray, exclude: np.ndarray, varying: np.ndarray, names: ColumnNames
) -> None:
    """Raise an error if a column cannot be included."""
    both = np.intersect1d(include, exclude)
    if both.size:
        raise ParameterError(
            f"`include` and `exclude` both contain column {names.label(both[0])}, directly or in a "
            "bundle. Remove it from one of them."
        )
    constant = include[~varying[include]]
    if constant.size:
        raise ParameterError(
            f"`include` contains column {names.label(constant[0])}, which is constant in X and "
            "predicts no other column. Remove it from `include`."
        )


def _check_size(
    n_features: int, include: np.ndarray, available: np.ndarray, bundles: list[np.ndarray]
) -> None:
    """Raise an error if no panel can have ``n_features`` variables."""
    n_available = int(available.sum())
    if n_features > n_available:
        raise ParameterError(
            f"`n_features_to_select` must be at most {n_available}, the number of varying columns "
            f"that are not excluded, got {n_features}."
        )
    if include.size > n_features:
        raise ParameterError(
            f"`n_features_to_select` must be at least {include.size}, the number of columns in "
            f"`include` and their bundles, got {n_features}."
        )
    is_single = available.copy()
    is_single[np.concatenate([*bundles, np.zeros(0, dtype=int)])] = False
    sizes = [bundle.size for bundle in bundles if available[bundle].all()]
    if not is_single.any() and min(sizes) > n_features:
        raise ParameterError(
            f"`n_features_to_select` must be at least {min(sizes)}, the size of the smallest "
            f"bundle, because all columns are in bundles, got {n_features}."
        )


def _add_bundles(columns: np.ndarray, bundles: list[np.ndarray]) -> np.ndarray:
    """Add all columns in the bundles of the given columns."""
    touched = [bundle for bundle in bundles if np.isin(bundle, columns).any()]
    return np.unique(np.concatenate([columns, *touched]))
