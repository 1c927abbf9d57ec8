"""Validation of class labels, and encoding as zeros and ones."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import column_or_1d

from ...data.row_groups import is_missing
from ...errors import InputError, end_sentence, plural


class Labels(NamedTuple):
    """Encoded classes of the rows with positive weight."""

    classes: np.ndarray  # (2,) labels in increasing order
    t: np.ndarray  # (n,) 1.0 for the second class, 0.0 for the first
    counts: np.ndarray  # (n,) positive number of observations represented by each row
    root: np.ndarray  # (n,) square roots of `counts`

    @property
    def n(self) -> float:
        """Number of observations."""
        return float(self.counts.sum())

    @property
    def proportion(self) -> float:
        """Proportion of the second class."""
        return float(self.counts @ self.t) / self.n


def check_classes(y: ArrayLike, n: int) -> np.ndarray:
    """Validate labels, one for each of the n rows."""
    if np.ma.is_masked(y):
        raise InputError("`y` must contain one class for each row of X: some values are masked.")
    try:
        values = column_or_1d(y, warn=True)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"`y` must contain one class for each row of X: {end_sentence(error)}"
        ) from error
    if values.size != n:
        raise InputError(
            "X and y must have one row per sample: Found input variables with inconsistent "
            f"numbers of samples: {[n, values.size]}."
        )
    if values.dtype.kind == "V":
        raise InputError(
            f"`y` must contain one label per row, got dtype {values.dtype}. Pass one field."
        )
    _check_missing(values)
    # scikit-learn does not support NumPy's StringDType.
    return np.array(values.tolist()) if values.dtype.kind == "T" else values


def encode_labels(values: np.ndarray, weights: np.ndarray | None) -> Labels:
    """Encode validated labels of the rows with positive weight."""
    counts = np.ones(values.size) if weights is None else weights[weights > 0]
    used = values if weights is None else values[weights > 0]
    try:
        with np.errstate(invalid="ignore"):  # Large floats overflow when checked for integers.
            check_classification_targets(values)
    except TypeError as error:
        raise InputError(
            f"`y` must contain the labels of two classes: {end_sentence(error)}"
        ) from error
    except ValueError as error:
        raise InputError(
            f"{end_sentence(error)} `y` must contain the labels of two classes; use "
            "SpinyRegressor for a continuous response."
        ) from error
    classes = np.unique(used)
    if classes.size > 2:
        raise InputError(
            "Only binary classification is supported. The type of the target is "
            f"{type_of_target(values)}: y has {classes.size} classes. Use "
            "sklearn.multiclass.OneVsRestClassifier(SpinyClassifier())."
        )
    if classes.size < 2:
        found = f"one class, {str(classes[0])!r}" if classes.size else "no class"
        where = "" if weights is None else " among the rows with positive weight"
        raise InputError(f"`y` must contain two classes, got {found}{where}.")
    if classes.dtype.kind == "O" and not all(isinstance(label, str) for label in classes):
        classes = np.array(classes.tolist())  # numbers stored as objects
    return Labels(classes, (used == classes[1]).astype(float), counts, np.sqrt(counts))


def _check_missing(values: np.ndarray) -> None:
    """Raise an error for missing values, which NumPy would treat as a class."""
    if values.dtype.kind == "f":
        bad = np.flatnonzero(~np.isfinite(values))
    else:
        bad = np.flatnonzero([is_missing(value) or _is_infinite(value) for value in values])
    if bad.size:
        what = "infinity" if _is_infinite(values[bad[0]]) else "NaN"
        raise InputError(
            f"Input y contains {what}: {plural(bad.size, 'value')}, "
            f"first in row {bad[0]}. Drop these rows."
        )


def _is_infinite(value: object) -> bool:
    return isinstance(value, float | np.floating) and math.isinf(value)
