"""Statistic of the knockoff filter: test of each column of a matrix with shadows.

The statistic of a column is -log p, with the p-value of `leave_one_out_pvalues` against the
components of the most significant columns. The p-values need not be valid: the comparison with the
shadows controls the false discovery rate. They are computed from the matrix alone, without
knowledge of which columns are shadows, and do not depend on the rate.

Shadows are noise, and most columns of the matrix are shadows. The search begins with the columns
that have the smallest p-value of their variable: those of the better half of all variables, then of
the better quarter. It continues as `shared_variables`, with at most one column of each variable.
"""

from __future__ import annotations

import numpy as np

from .leading_components import StandardisedData
from .leave_one_out_pvalues import LeaveOneOutTest, LeaveOneOutTester
from .shared_variables import MANY_DISCOVERIES, MIN_MEMBERS, SCREENING_RATES, is_same_set

# Selected on simulations that the experiments do not use.
_FIRST_PROPORTIONS = (0.5, 0.25)
_RATE = 0.1  # of the last members
_MIN_FIRST = 10  # minimum number of variables of the first members
_MAX_ITERATIONS = 10
# P-values under permutation above which sign flips are not considered. The statistics of such
# columns are too small to matter.
_MAX_FLIPPED_PVALUE = 0.1


def search_statistics(data: StandardisedData, n_layers: int, robust: bool) -> np.ndarray:
    """Compute the statistics of all columns.

    Parameters
    ----------
    data : StandardisedData
        Matrix with shadows, (n, p * n_layers).
    n_layers : int
    robust : bool
        Whether rows may have unequal noise; see `leave_one_out_pvalues`.

    Returns
    -------
    ndarray of shape (n_layers, p)
    """
    tester = LeaveOneOutTester(data, robust)
    test = tester.against_all
    if best_discoveries(test, _RATE, n_layers, flips=False).sum() < MANY_DISCOVERIES:
        test = screen_layers(tester, n_layers)
    for flips in (False, True):
        test = iterate_layers(tester, test, n_layers, flips=flips)
    columns = np.arange(data.p)
    pvalues = test.pvalues_of(columns, flips=False)
    notable = columns[pvalues <= _MAX_FLIPPED_PVALUE]
    pvalues[notable] = test.pvalues_of(notable)
    return -np.log(np.maximum(pvalues, np.finfo(float).tiny)).reshape(n_layers, -1)


def screen_layers(tester: LeaveOneOutTester, n_layers: int) -> LeaveOneOutTest:
    """Test against the best columns of fewer and fewer variables, by permutation alone."""
    test = tester.against_all
    p = tester.data.p // n_layers
    for proportion in _FIRST_PROPORTIONS:
        test = tester.against(best_variables(test, max(_MIN_FIRST, int(proportion * p)), n_layers))
    for rate in SCREENING_RATES:
        members = best_discoveries(test, rate, n_layers, flips=False)
        if members.sum() >= MIN_MEMBERS:
            test = tester.against(members)
    return test


def iterate_layers(
    tester: LeaveOneOutTester, test: LeaveOneOutTest, n_layers: int, *, flips: bool
) -> LeaveOneOutTest:
    """Test against the best columns of the discoveries until the set converges."""
    tried = [test.members]
    for _ in range(_MAX_ITERATIONS):
        members = best_discoveries(test, _RATE, n_layers, flips=flips)
        if members.sum() < MIN_MEMBERS or any(is_same_set(members, other) for other in tried):
            break
        tried.append(members)
        test = tester.against(members)
    return test


def best_variables(test: LeaveOneOutTest, count: int, n_layers: int) -> np.ndarray:
    """Return the mask of the best columns of the ``count`` most significant variables."""
    pvalues = test.pvalues_of(np.arange(test.members.size), flips=False).reshape(n_layers, -1)
    variables = np.argsort(np.min(pvalues, axis=0), kind="stable")[:count]
    mask = np.zeros(pvalues.shape, dtype=bool)
    mask[np.argmin(pvalues, axis=0)[variables], variables] = True
    return mask.ravel()


def best_discoveries(
    test: LeaveOneOutTest, rate: float, n_layers: int, *, flips: bool
) -> np.ndarray:
    """Return the mask of the discoveries that have the smallest p-value of their variable."""
    columns = np.flatnonzero(test.discoveries(rate, flips=flips))
    pvalues = np.full(test.members.size, np.inf)
    pvalues[columns] = test.pvalues_of(columns, flips=flips)
    by_layer = pvalues.reshape(n_layers, -1)
    is_best = np.arange(n_layers)[:, None] == np.argmin(by_layer, axis=0)
    return np.asarray(is_best & np.isfinite(by_layer)).ravel()
