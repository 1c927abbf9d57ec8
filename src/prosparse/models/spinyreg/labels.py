"""Two classes as a model sees them: zeros and ones, and how often each row counts."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import column_or_1d

from ...errors import InputError


class Labels(NamedTuple):
    """The classes of the rows that count."""

    classes: np.ndarray  # (2,) rising
    t: np.ndarray  # (n,) 1.0 for the second class, 0.0 for the first
    counts: np.ndarray  # (n,) how many observations a row stands for, positive
    root: np.ndarray  # (n,) its square root

    @property
    def n(self) -> float:
        """Observations."""
        return float(self.counts.sum())

    @property
    def share(self) -> float:
        """Of the second class."""
        return float(self.counts @ self.t) / self.n


def checked_classes(y: ArrayLike, n: int) -> np.ndarray:
    """One label for each of the n rows."""
    if np.ma.is_masked(y):
        raise InputError("y must hold one class for each row of X: some values are masked")
    try:
        values = column_or_1d(y, warn=True)
    except (TypeError, ValueError) as error:
        raise InputError(f"y must hold one class for each row of X: {error}") from error
    if values.size != n:
        raise InputError(
            "X and y must have one row per sample: Found input variables with inconsistent "
            f"numbers of samples: {[n, values.size]}"
        )
    _refuse_missing(values)
    return values


def labels_of(values: np.ndarray, weights: np.ndarray | None) -> Labels:
    """The two classes among the rows whose weight is not zero; ``values`` are checked."""
    count = np.ones(values.size) if weights is None else weights[weights > 0]
    kept = values if weights is None else values[weights > 0]
    try:
        with np.errstate(invalid="ignore"):  # of numbers that are too large to be whole
            check_classification_targets(values)
    except ValueError as error:
        raise InputError(
            f"{error}. y must hold the classes of the rows, of which there are two; for numbers "
            "that are measured, use SpinyRegressor."
        ) from error
    classes = np.unique(kept)
    if classes.size > 2:
        raise InputError(
            "Only binary classification is supported. The type of the target is "
            f"{type_of_target(values)}: y has {classes.size} classes. Fit one class against the "
            "others: sklearn.multiclass.OneVsRestClassifier(SpinyClassifier())."
        )
    if classes.size < 2:
        only = f"one class only, {str(classes[0])!r}" if classes.size else "no class"
        weighed = "" if weights is None else " among the rows whose weight is not zero"
        raise InputError(f"y has {only}{weighed}: two classes are needed to tell them apart.")
    if classes.dtype.kind == "O" and not all(isinstance(each, str) for each in classes):
        classes = np.array(classes.tolist())  # numbers that were kept as objects
    return Labels(classes, (kept == classes[1]).astype(float), count, np.sqrt(count))


def _refuse_missing(values: np.ndarray) -> None:
    """Refuse gaps, which NumPy would take for a class of their own."""
    if values.dtype.kind == "f":
        bad = np.flatnonzero(~np.isfinite(values))
    elif values.dtype.kind == "O":
        gaps = [v is None or (isinstance(v, float) and not math.isfinite(v)) for v in values]
        bad = np.flatnonzero(gaps)
    else:
        return
    if bad.size:
        value = values[bad[0]]
        infinite = isinstance(value, float | np.floating) and math.isinf(value)
        raise InputError(
            f"Input y contains {'infinity' if infinite else 'NaN'}: {bad.size} value(s), the "
            f"first in row {bad[0]}. Drop these rows."
        )
