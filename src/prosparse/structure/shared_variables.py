"""Selection of variables with shared variance at a false discovery rate.

A variable has shared variance if the principal components of the *other* variables explain more of
its variance than expected under the null hypothesis (`leave_one_out_pvalues`). Because noise
variables make the components less accurate, the test is iterated with the components of the
selected variables:

1. **Candidates.** Each variable is tested against the components of all others, then against the
  components of the discoveries. The rate decreases to ``fdr``, until the set converges. The larger
  initial rates detect factors with few variables.
2. **Confirmation.** A candidate has influenced the selection of the others, and false candidates
   can support each other. Each candidate is therefore tested again against a set selected *without
   it*: the candidate is removed, followed by backward elimination of all variables that are no
   longer significant. If the candidate is independent of the others, this set depends little on it,
   and the p-value is uniform. With more than 100 candidates, a single candidate has little effect
   on the components, and the leave-one-out test is sufficient.
3. **Decision.** The Benjamini-Hochberg procedure is applied to the confirmed p-values; variables
   that are not candidates are not selected.

With many rows and columns, candidates are found in a sample of the rows. All variables are then
tested on all rows against the components of the discoveries in the sample, which a single variable
hardly influences.

Because the p-values are dependent, control of the FDR is established by simulation (experiments E17
and E18), not by proof.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .false_discoveries import benjamini_hochberg
from .leading_components import StandardisedData
from .leave_one_out_pvalues import LeaveOneOutTest, LeaveOneOutTester
from .observed_data import ObservedData

# Rates of the first iterations, chosen on simulations that are not part of the experiments.
_SCREENING_RATES = (0.5, 0.4, 0.3, 0.2, 0.1)
_FIRST_PROPORTIONS = (0.5, 0.25)  # proportions of the variables tested first if there are shadows
_MAX_ITERATIONS = 10
_MIN_SCREENED = 10  # minimum number of variables that screening retains
_MIN_MEMBERS = 5  # minimum number of variables whose components are computed
_MANY_DISCOVERIES = 100  # number of initial discoveries above which screening is omitted
_SET_TOLERANCE = 0.05  # proportion of a set that may change at convergence
# Number of rows in which members are searched if there are at least twice as many. Components of
# thousands of rows are accurate enough for the test of all rows.
SEARCHED_ROWS = 2**14
_MAX_CONFIRMED = 100  # maximum number of candidates that are confirmed individually


class SharedVariables(NamedTuple):
    """Result of `select_shared_variables`."""

    pvalues: np.ndarray  # (p,)
    selected: np.ndarray  # (p,) bool


def select_shared_variables(
    data: StandardisedData, fdr: float, robust: bool = True
) -> SharedVariables:
    """Select the variables with shared variance at a given FDR.

    ``robust`` states whether rows may have unequal noise (`leave_one_out_pvalues`).
    """
    tester = LeaveOneOutTester(data, robust)
    sampled = search_sample(tester, fdr)
    test = find_candidates(tester, fdr) if sampled is None else sampled
    candidates, none = test.discoveries(fdr), np.zeros(data.p, dtype=bool)
    if not candidates.any():
        return SharedVariables(tester.against_all.pvalues, none)
    if test is sampled and candidates.sum() > _MAX_CONFIRMED:
        pvalues = test.pvalues
    else:
        pvalues = confirm_candidates(tester, test, candidates, fdr)
    selected = candidates & benjamini_hochberg(np.where(candidates, pvalues, 1.0), fdr)
    if selected.sum() == 1:  # a single variable cannot share variance with others
        selected = none
    # Without convergence, some variables are significant but not selected. Their p-values are
    # increased to at least `fdr`.
    not_selected = benjamini_hochberg(pvalues, fdr) & ~selected
    pvalues[not_selected] = np.maximum(pvalues[not_selected], fdr)
    return SharedVariables(pvalues, selected)


def search_sample(tester: LeaveOneOutTester, fdr: float) -> LeaveOneOutTest | None:
    """Test on all rows against components of the discoveries in a sample.

    The result is None if there are too few rows or discoveries.
    """
    data = tester.data
    is_small = data.n < 2 * SEARCHED_ROWS or data.gram is not None
    if is_small or isinstance(data, ObservedData):
        return None
    sample = data.sample_rows(SEARCHED_ROWS)
    members = find_candidates(LeaveOneOutTester(sample, tester.robust), fdr).discoveries(fdr)
    if members.sum() < _MANY_DISCOVERIES:
        return None
    data.start_from(sample)
    return tester.against(members)


def find_candidates(tester: LeaveOneOutTester, fdr: float) -> LeaveOneOutTest:
    """Test against the components of the discoveries until the set converges.

    The result is the last test, whose discoveries are the candidates.
    """
    test = tester.against_all
    if test.discoveries(fdr, flips=False).sum() < _MANY_DISCOVERIES:
        test = iterate_members(tester, screen_variables(tester, fdr), fdr, flips=False)
    return iterate_members(tester, test, fdr, flips=True)


def screen_variables(tester: LeaveOneOutTester, fdr: float) -> LeaveOneOutTest:
    """Test against the discoveries at decreasing rates, under permutation."""
    test = tester.against_all
    if tester.n_layers > 1:
        # Most columns are shadows (`knockoff_selection`), which make the components less accurate.
        for proportion in _FIRST_PROPORTIONS:
            count = max(_MIN_SCREENED, int(proportion * tester.data.p / tester.n_layers))
            test = tester.against(test.most_significant(count))
    for k, rate in enumerate(_SCREENING_RATES):
        members = test.discoveries(rate, flips=False)
        if members.sum() < _MIN_SCREENED and k == 0:
            members = test.most_significant(_MIN_SCREENED)
        if rate > fdr and members.sum() >= _MIN_MEMBERS:
            test = tester.against(members)
    return test


def iterate_members(
    tester: LeaveOneOutTester, test: LeaveOneOutTest, fdr: float, flips: bool
) -> LeaveOneOutTest:
    """Test against the components of the discoveries until the set converges."""
    tried = [test.members]
    for _ in range(_MAX_ITERATIONS):
        members = test.discoveries(fdr, flips=flips)
        if members.sum() < _MIN_MEMBERS or any(_is_same_set(members, other) for other in tried):
            break
        tried.append(members)
        test = tester.against(members)
    return test


def _is_same_set(members: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two sets are equal up to `_SET_TOLERANCE`."""
    return bool(np.sum(members != other) <= _SET_TOLERANCE * np.sum(members))


def confirm_candidates(
    tester: LeaveOneOutTester, test: LeaveOneOutTest, candidates: np.ndarray, fdr: float
) -> np.ndarray:
    """Test each candidate against a set selected without it.

    All other variables have the p-values of ``test``, which selected the candidates.
    """
    columns = np.flatnonzero(candidates)
    if columns.size == 0:
        return test.pvalues
    if columns.size > _MAX_CONFIRMED:
        if not _is_same_set(candidates, test.members):
            test = tester.against(candidates)
        return test.pvalues
    limit = fdr * columns.size / candidates.size
    pvalues = test.pvalues
    among_candidates = tester.take_columns(columns)
    for k, j in enumerate(columns):
        remaining = eliminate_without(among_candidates, k, limit)
        final, index = (tester.against_all, j) if remaining is None else (remaining, k)
        pvalues[j] = final.pvalues_of(np.array([index]))[0]
    return pvalues


def eliminate_without(tester: LeaveOneOutTester, j: int, limit: float) -> LeaveOneOutTest | None:
    """Remove column j, then all columns that are not significant without it.

    Returns the test against the remaining columns; None if fewer than 2 remain.
    """
    remaining = np.ones(tester.data.p, dtype=bool)
    remaining[j] = False
    while remaining.sum() >= 2:
        test = tester.against(remaining)
        columns = np.flatnonzero(remaining)
        not_significant = columns[test.pvalues_of(columns, without=j) > limit]
        if not_significant.size == 0:
            return test
        remaining[not_significant] = False
    return None
