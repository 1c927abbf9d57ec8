"""Markers of labelled rows.

The score of variable j for label l is the difference between its mean in l and its largest mean in
another label, divided by the standard deviation within labels. Markers of l have positive scores;
those with the largest scores come first.
"""

from __future__ import annotations

import numpy as np

from ...data import Operator
from ...data.arrays import to_numpy
from ...data.row_groups import RowGroups
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
    """Select ``count`` markers of each label.

    Parameters
    ----------
    scores : ndarray of shape (n_labels, p)
        Scores of `marker_scores`.
    count : int
        Number of markers of each label.
    constraints : Constraints
        Included variables count as markers of the label for which their score is positive.

    Returns
    -------
    selected : int ndarray of shape (k,)
        Included variables and markers.
    label_of : int ndarray of shape (p,)
        Label of the selected variables that are markers; -1 for all others.
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
