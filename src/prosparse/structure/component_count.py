"""Number of components of variables with unequal noise variances."""

from __future__ import annotations

import math

import numpy as np

from ..selection.dimension import MAX_COUNTED, count_signals
from .leading_components import FIT_TOLERANCE, TEST_TOLERANCE, StandardisedData
from .leave_one_out_pvalues import max_tested_components

_MAX_ITERATIONS = 10
_MIN_UNIQUENESS = 1e-6  # lower bound of the uniqueness of a variable
# Rows per variable above which leave-one-out uniquenesses are accurate enough.
_MANY_ROWS = 10
_MIN_FREE_PROPORTION = 0.05  # minimum proportion of residual degrees of freedom of a variable


def count_components(
    data: StandardisedData, selected: np.ndarray, max_count: int = MAX_COUNTED
) -> int:
    """Count the components that the selected variables share.

    The residual variance of a variable given the components estimates its *uniqueness* (unique
    variance). Each variable is divided by the square root of its uniqueness, which makes the noise
    white, and the eigenvalues that exceed white noise are counted (`count_signals`).

    If few variables share many components, leave-one-out residuals overestimate the uniqueness, and
    the count is too small. Residuals given components that include the variable depend on the
    number of components, so that the count is iterated. This second count is used if there are few
    rows per variable. The count is at most the number of components in the test of the variables,
    because further components may be significant but are of no practical use.
    """
    members = selected & (data.sums_of_squares > 0.0)
    n_members, dof = int(members.sum()), data.dof
    if n_members < 2:
        return 0
    limit = max(1, min(max_tested_components(dof), ledermann_bound(n_members)))
    squares = data.sums_of_squares[members]
    requested, tolerance = limit, TEST_TOLERANCE
    if (n_known := _count_known_signals(data, members)) > limit:
        requested, tolerance = min(2 * n_known, max_count), FIT_TOLERANCE
    while True:
        found = data.principal_components(members, requested, tolerance)
        n_known = found.eigenvalues.size
        limit = min(limit, n_known)
        r2 = data.member_r2(found, limit).lower
        # Variables of unit variance in the basis U.
        columns = found.member_projections / np.sqrt(squares / dof)[:, None]
        uniqueness = (1.0 - np.sum(r2, axis=1)) * dof / (dof - limit)
        uniqueness = np.maximum(uniqueness, _MIN_UNIQUENESS)
        spectrum = _WhitenedSpectrum(columns, uniqueness)
        leave_one_out_count = count_signals(spectrum.eigenvalues, dof + 1, n_members, 1.0)
        is_complete = found.eigenvalue_bound is None or n_known < requested
        if is_complete or leave_one_out_count < n_known or n_known >= max_count:
            break
        # All known components are signals, and there may be more, which are computed with the
        # accuracy of fitted components.
        requested, tolerance = min(2 * n_known, max_count), FIT_TOLERANCE
    if dof >= _MANY_ROWS * n_members:
        return min(leave_one_out_count, max_count)
    count = limit
    for _ in range(_MAX_ITERATIONS):
        V = spectrum.loadings(count)
        # The sum of squares is dof even if not all components of a variable are known.
        residual = dof / uniqueness - V**2 @ spectrum.eigenvalues[:count]
        # d components of noise use d degrees of freedom, of each variable in proportion.
        free = np.maximum(1.0 - np.sum(V**2, axis=1), _MIN_FREE_PROPORTION)
        uniqueness = uniqueness * np.maximum(residual, 0.0) / ((dof - count) * free)
        uniqueness = np.maximum(uniqueness, _MIN_UNIQUENESS)
        previous = count
        spectrum = _WhitenedSpectrum(columns, uniqueness)
        count = count_signals(spectrum.eigenvalues, dof + 1, n_members, 1.0)
        count = max(1, min(count, limit))
        if count >= previous:
            break
    return min(max(leave_one_out_count, count), max_count)


def _count_known_signals(data: StandardisedData, members: np.ndarray) -> int:
    """Return the number of components of the last test if all are signals.

    Otherwise, the result is 0. This shortcut saves a decomposition and does not change the count.
    The check is approximate, because the last test was of another set and in-sample residuals
    underestimate the uniqueness.
    """
    last = data.last_components
    if last is None or last.eigenvalue_bound is None:
        return 0
    inside = members[last.members]
    z = last.member_projections[inside]
    squares = data.sums_of_squares[last.members][inside]
    limit = max_tested_components(data.dof)
    uniqueness = 1.0 - np.sum(z[:, :limit] ** 2, axis=1) / squares
    columns = z / np.sqrt(squares / data.dof)[:, None]
    spectrum = _WhitenedSpectrum(columns, np.maximum(uniqueness, _MIN_UNIQUENESS))
    n_known = last.eigenvalues.size
    count = count_signals(spectrum.eigenvalues, data.dof + 1, int(inside.sum()), 1.0)
    return n_known if count >= n_known else 0


class _WhitenedSpectrum:
    """Spectrum of the columns divided by the square roots of their uniquenesses."""

    def __init__(self, columns: np.ndarray, uniqueness: np.ndarray):
        self._columns = columns / np.sqrt(uniqueness)[:, None]
        self._is_wide = self._columns.shape[0] <= self._columns.shape[1]
        columns = self._columns if self._is_wide else self._columns.T
        eigenvalues, vectors = np.linalg.eigh(columns @ columns.T)
        self.eigenvalues = np.maximum(eigenvalues[::-1], 0.0)
        self._vectors = vectors[:, ::-1]

    def loadings(self, count: int) -> np.ndarray:
        """Compute the first principal axes, (n_columns, count)."""
        vectors = self._vectors[:, :count]
        if self._is_wide:
            return vectors
        lengths = np.sqrt(np.maximum(self.eigenvalues[:count], 1e-300))
        return np.asarray(self._columns @ vectors / lengths)


def ledermann_bound(p: int) -> int:
    """Return the maximum number of identifiable factors (Ledermann, 1937)."""
    return max(1, int((2 * p + 1 - math.sqrt(8 * p + 1)) / 2))
