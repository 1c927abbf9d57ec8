"""Comparison of two classes, one variable at a time.

A joint selection contains the variables that predict the class given the other variables. If many
variables differ between the classes, a few may be sufficient to predict the class, or no single set
may stand out. Separate tests answer another question: which variables differ between the classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from sklearn.preprocessing import StandardScaler

from ..errors import plural
from ..phrases import quote_name
from ..structure.false_discoveries import adjust_pvalues

LEVEL = 0.05  # false discovery rate of the tests
MAX_NAMED = 5  # maximum number of variables in the note
MIN_ROWS = 2  # minimum number of rows per class, for a variance


class ClassComparison(NamedTuple):
    """Welch's t-tests of all variables."""

    difference: np.ndarray  # (p,) mean of the second class minus that of the first
    pvalues: np.ndarray  # (p,), 1 for constant variables
    qvalues: np.ndarray  # (p,) adjusted by Benjamini & Hochberg


def compare_classes(X: Any, y: np.ndarray) -> ClassComparison | None:
    """Test whether the mean of each variable differs between two classes.

    The result is None unless there are two classes of at least two rows.
    """
    classes, codes = np.unique(y, return_inverse=True)
    counts = np.bincount(codes)
    if classes.size != 2 or counts.min() < MIN_ROWS:
        return None
    mean, variance = np.empty((2, X.shape[1])), np.empty((2, X.shape[1]))
    for k in range(2):
        rows = StandardScaler(with_mean=False).fit(X[np.flatnonzero(codes == k)])
        mean[k], variance[k] = rows.mean_, rows.var_ * (counts[k] / (counts[k] - 1))
    error = variance / counts[:, None]
    total = error.sum(axis=0)
    varies = total > np.finfo(float).eps * (mean**2).sum(axis=0)
    difference = mean[1] - mean[0]
    pvalues = np.ones(X.shape[1])
    t = difference[varies] / np.sqrt(total[varies])
    dof = total[varies] ** 2 / (error[:, varies] ** 2 / (counts[:, None] - 1)).sum(axis=0)
    pvalues[varies] = 2.0 * stats.t.sf(np.abs(t), dof)
    return ClassComparison(difference, pvalues, adjust_pvalues(pvalues))


def describe_comparison(
    found: ClassComparison, names: Sequence[str], classes: Sequence[object]
) -> str:
    """Describe in a sentence which variables differ between the classes."""
    different = np.flatnonzero(found.qvalues <= LEVEL)
    top = different[np.argsort(found.pvalues[different], kind="stable")][:MAX_NAMED]
    listed = ", ".join(quote_name(names[k]) for k in top)
    if different.size > MAX_NAMED:
        listed += ", …"
    verb = "differs" if different.size == 1 else "differ"
    between = " and ".join(repr(str(each)) for each in classes)
    which = f" ({listed})" if different.size else ""
    return (
        f"tested one at a time, {plural(int(different.size), 'variable')}{which} {verb} in mean "
        f"between {between} (Welch's t-test, false discovery rate {LEVEL:.0%}); the selected "
        "variables predict the class jointly"
    )
