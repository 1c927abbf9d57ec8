"""Markers of labelled rows.

The score of variable j for label l is the difference between its mean in l and its largest mean in
another label, divided by the standard deviation within labels. Markers of l have positive scores;
those with the largest scores come first.
"""

from __future__ import annotations

import numpy as np

from ...data import Columns, Operator
from ...data.arrays import to_numpy
from ...data.row_groups import RowGroups, row_groups
from ...errors import ParameterError, ShortPanelWarning, warn
from .folds import project_columns
from .greedy import Constraints


def marker_scores(op: Operator, labels: RowGroups) -> np.ndarray:
    """Compute the score of each variable for each label, (n_labels, p)."""
    indicators = np.eye(labels.sizes.size)[labels.codes]
    means = project_columns(op, indicators).T / labels.sizes[:, None]
    squares = to_numpy(op.column_squares()).astype(float)
    within = np.maximum(squares - labels.sizes @ means**2, 1e-12 * squares) / op.shape[0]
    ordered = np.sort(means, axis=0)
    largest_other = np.where(means == ordered[-1], ordered[-2], ordered[-1])
    return np.asarray((means - largest_other) / np.sqrt(within))


def select_markers(
    scores: np.ndarray, count: int, constraints: Constraints
) -> tuple[np.ndarray, np.ndarray]:
    """Select ``count`` markers of each label by their scores (n_labels, p).

    Included variables count as markers of the label for which their score is positive. The result
    is the included variables and markers, (k,), and the label of which each variable is a marker or
    -1, (p,).
    """
    best = np.where(scores.max(axis=0) > 0.0, np.argmax(scores, axis=0), -1)
    label_of = np.full(best.size, -1)
    label_of[constraints.include] = best[constraints.include]
    selected = constraints.include
    for label, own_scores in enumerate(scores):
        for _ in range(count - int(np.sum(label_of[selected] == label))):
            candidates = constraints.find_addable(selected) & (best == label)
            candidates[selected] = False
            if not candidates.any():
                break  # the caller compares the numbers of markers
            k = int(np.argmax(np.where(candidates, own_scores, -np.inf)))
            selected, label_of[k] = np.append(selected, k), label
    return selected, label_of


def label_rows(labels: object, n: int, count: int) -> RowGroups | None:
    """Group n rows by their labels; return None if ``count`` is zero."""
    if count == 0:
        return None
    if labels is None:
        raise ParameterError(
            f"`labels` is required if `markers_per_label`={count}. Pass one label for each row to "
            "`fit`."
        )
    found = row_groups(labels, n, "labels")
    if found is None or found.sizes.size < 2:
        raise ParameterError("`labels` must have at least two different labels.")
    return found


def add_markers(
    op: Operator,
    columns: Columns,
    labels: RowGroups | None,
    count: int,
    constraints: Constraints,
) -> tuple[Constraints, np.ndarray]:
    """Include ``count`` markers of each label in the constraints.

    Also return the label of which each column of the data is a marker, or "". Without labels,
    nothing is included.
    """
    width = columns.mean.shape[0]
    if labels is None:
        return constraints, np.full(width, "")
    selected, label_of = select_markers(marker_scores(op, labels), int(count), constraints)
    names = np.append(labels.labels.astype(str), "")
    marker_of = np.full(width, "", dtype=names.dtype)
    marker_of[columns.varying_index] = names[label_of]
    found = np.bincount(label_of[label_of >= 0], minlength=labels.sizes.size)
    lacking = np.flatnonzero(found < count)
    if lacking.size:
        warn(
            f"Panel: label {str(labels.labels[lacking[0]])!r} has {found[lacking[0]]} of "
            f"{count} markers. No other allowed variable has its largest mean in this label.",
            ShortPanelWarning,
        )
    if selected.size > constraints.n_features:
        raise ParameterError(
            f"`n_features_to_select` must be at least {selected.size}, the number of columns in "
            f"`include` and of markers, got {constraints.n_features}."
        )
    return constraints._replace(include=selected), marker_of
