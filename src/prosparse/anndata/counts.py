"""Detection of raw counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data import container_of
from ..errors import ParameterError, RawCountsWarning, check_bool, warn
from .annotated import Annotated, entries_to_check
from .log_messages import Report


def holds_counts(X: Any) -> bool:
    """Return whether all entries are non-negative integers.

    For a matrix in a file, only the first rows are checked.
    """
    return first_non_count(X) is None


def first_non_count(X: Any) -> float | None:
    """Return the first entry that is not a non-negative integer, or None."""
    entries = entries_to_check(X)
    if entries.dtype.kind == "b":
        return None
    if entries.dtype.kind in "iu":
        wrong = entries[entries < 0]
    else:
        wrong = entries[~((entries >= 0) & (entries == np.floor(entries)))]
    return float(wrong.flat[0]) if wrong.size else None


def name_of(table: Annotated) -> str:
    """Return the name of the data matrix in messages."""
    layer, modality = table.source["layer"], table.source["modality"]
    name = "X" if layer is None else f"layer {layer!r}"
    return name if modality is None else f"{name} of modality {modality!r}"


def detect_counts(table: Annotated, given: Any, report: Report, otherwise: str) -> bool:
    """Return whether the data are counts, as given or as detected.

    ``counts=True`` raises a `ParameterError` if the data are not counts. ``otherwise`` completes
    the log message about data that are not counts.
    """
    if given is not None:
        check_bool("counts", given)
        if given:
            require_counts(table)
        return bool(given)
    found = holds_counts(table.X)
    if found:
        report.log(f"{name_of(table)} has non-negative integers: treated as counts")
    else:
        report.log(f"{name_of(table)} has no counts: {otherwise}")
    return found


def require_counts(table: Annotated) -> None:
    """Raise an error if the data are not counts."""
    value = first_non_count(table.X)
    if value is not None:
        raise ParameterError(
            f"`counts=True` requires non-negative integers, but {name_of(table)} contains "
            f"{value:.4g}. Pass the layer of the raw counts as `layer`, round estimated counts, or "
            "set `counts=False` for normalised data."
        )


def warn_about_raw_counts(table: Annotated, method: str, alternative: str = "") -> None:
    """Warn if a method for measurements receives counts."""
    if container_of(table.X).is_sparse and table.X.nnz == 0:
        return
    if entries_to_check(table.X).dtype.kind == "b" or not holds_counts(table.X):
        return
    warn(
        f"{method}: {name_of(table)} contains non-negative integers, which appear to be raw "
        "counts. Differences in sequencing depth make all variables correlated, so most are "
        "selected. "
        f"Normalise the counts (sc.pp.normalize_total, sc.pp.log1p){alternative}.",
        RawCountsWarning,
    )


__all__ = [
    "detect_counts",
    "first_non_count",
    "holds_counts",
    "name_of",
    "require_counts",
    "warn_about_raw_counts",
]
