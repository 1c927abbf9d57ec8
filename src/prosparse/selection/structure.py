"""Which columns of a table share structure with others, at a stated false discovery rate?

A column carries common structure if the principal components *of the other columns* explain more
of it than chance. All p decompositions without one column follow from one (`numerics.secular`);
what chance explains is known for any column (`permutation`); no number of components is chosen,
as the tests with 1, 2, ..., D of them are combined (`false_discoveries`).

Columns of pure noise blur the components, so the search is repeated with the components of the
columns that it chose:

1. **Grow.** Test every column against the components of all others. Take those that pass at a
   generous rate, test all against the components of these, and so on with a falling rate until it
   is the stated one and the set stays. The generous start finds structure that most columns hide.
2. **Confirm.** A column that was chosen helped to choose the others: false ones can hold each other
   up. So each is tested once more against the set that stands *without it*: from the chosen set
   it is taken out, then those that no longer pass, until the rest stays. If the column is
   independent of the others, that rest hardly knows of it, and its p-value is uniform. Where a
   hundred and more were chosen, one of them hardly moves the components, and the test that
   leaves it out of them is enough.
3. **Decide.** Benjamini and Hochberg's rule on the confirmed p-values; columns that were not chosen
   in the first step stay out.

That the rate holds after these steps is shown by simulation (``prosparse reproduce E17 E18``),
not by proof: p-values of different columns depend on each other.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace

from ..data.arrays import host, in_kind
from ..numerics.secular import left_out_scores, left_out_shares
from .false_discoveries import combined, discoveries
from .leading import Components, Sample
from .permutation import Orders, excess_variance, matched_pvalues, sampled_pvalue

# The most components that a column is tested against; weaker ones seldom help and cost power.
MOST_TESTED = 16
# Rates at which the set grows before the stated one; chosen on draws of simulated tables that are
# not among those of the experiments.
GENEROUS = (0.5, 0.4, 0.3, 0.2, 0.1)
_ROUNDS = 10  # of the stated rate, at most
_FEWEST = 5  # columns to take components of
# Up to this many chosen columns, each is confirmed against the set that stands without it.
_CONFIRMED = 100
# Columns whose sum of fourth powers is that of more entries than this follow the Gaussian law.
_SMOOTH = 1000.0
# A law whose variance exceeds the Gaussian one by more than this share has a tail of its own ...
_ROUGH = 0.03
# ... and so has that of a column which is carried by fewer entries than this.
_FEW_ENTRIES = 10.0
_MORE_ORDERS = 8.0  # random orders for each that a p-value at the limit would need
_MOST_ORDERS = 2_000_000
_MOST_ROWS = 200_000  # beyond, no order of rows is sampled


class Structure(NamedTuple):
    """What a search found."""

    pvalues: np.ndarray  # (p,)
    chosen: np.ndarray  # (p,) bool
    sampled: np.ndarray  # (p,) bool: random orders decided
    rounds: int  # of growing


def tested_components(freedom: int) -> int:
    """How many components columns of that many degrees of freedom are tested against, at most."""
    return max(1, min(MOST_TESTED, (freedom + 1) // 3))


def find_structure(sample: Sample, rate: float, seed: int = 0) -> Structure:
    """The columns that share structure with others.

    Parameters
    ----------
    sample : Sample
        The table.
    rate : float
        The false discovery rate allowed.
    seed : int
        Of the random orders of rows.

    Returns
    -------
    Structure
    """
    tests = Tests(sample, seed)
    grown = grow(tests, rate)
    chosen, pvalues = grown.chosen, grown.pvalues
    sampled = np.zeros(sample.p, dtype=bool)
    for _ in range(_ROUNDS):
        before = chosen
        pvalues, sampled = confirm(tests, grown, before, rate)
        chosen = before & discoveries(np.where(before, pvalues, 1.0), rate)
        # orders were drawn for the rate of that many columns: fewer need more of them
        if 2 * chosen.sum() >= before.sum() or not chosen.any():
            break
    return Structure(pvalues, chosen, sampled, grown.rounds)


# --- one test of every column


class Tested(NamedTuple):
    """Every column against the components of some."""

    found: Components
    count: int  # components
    pvalues: np.ndarray  # (p,)
    excess: np.ndarray  # (p, count): of the variance of R2 over the Gaussian one


class Tests:
    """The test of the columns of one table, whatever the components."""

    def __init__(self, sample: Sample, seed: int):
        self.sample = sample
        self.fourth = sample.fourth_powers()
        self.orders = Orders(sample.n, None if sample.groups is None else sample.groups.codes, seed)
        self.most = tested_components(sample.freedom)
        self.alive = sample.squares > 1e-9 * float(np.max(sample.squares))

    def against(self, members: np.ndarray) -> Tested:
        """All columns against the components of the members, each left out of its own."""
        sample = self.sample
        members = members & self.alive
        count = min(self.most, int(members.sum()) - 1)
        found = sample.components(members, count)
        count = min(count, found.values.size - (found.ceiling is None))
        R2 = np.zeros((sample.p, count))
        R2[self.alive] = (found.seen[self.alive, :count] ** 2) / sample.squares[self.alive, None]
        R2[members] = left_out_shares(
            found.values, found.z, sample.squares[members], count, found.ceiling
        ).lower
        R2 = np.cumsum(R2, axis=1)
        excess = self.excess(found, count)
        pvalues = combined(matched_pvalues(R2, excess, sample.freedom))
        return Tested(found, count, np.where(self.alive, pvalues, 1.0), excess)

    def excess(self, found: Components, count: int) -> np.ndarray:
        """See `excess_variance`; zero where all columns are smooth."""
        if np.min(1.0 / self.fourth[self.alive]) >= _SMOOTH:
            return np.zeros((self.sample.p, count))
        leverages = squared_leverages(self.sample, found, count)
        excess = excess_variance(leverages, self.fourth, self.sample.n)
        return np.where(1.0 / self.fourth[:, None] >= _SMOOTH, 0.0, excess)

    def rough(self, excess: np.ndarray) -> np.ndarray:
        """Columns whose law no beta law describes, (p,)."""
        if self.sample.n > _MOST_ROWS:
            return np.zeros(self.sample.p, dtype=bool)
        entries = 1.0 / self.fourth
        rough = (np.max(np.abs(excess), axis=1) > _ROUGH) | (entries < _FEW_ENTRIES)
        return np.asarray(rough & (entries < _SMOOTH) & self.alive)


def squared_leverages(sample: Sample, found: Components, count: int) -> np.ndarray:
    """sum_a h_a(d)^2 for d = 1, ..., count: how unevenly the scores are spread over the rows."""
    if sample.groups is not None:
        return np.asarray(np.sum(np.cumsum(sample.scores(found, count) ** 2, axis=1) ** 2, axis=0))
    chosen = sample.op.take_columns(np.flatnonzero(found.members))
    filters = in_kind(found.filters[:, :count], chosen.column_squares(), chosen.dtype)
    upwards = in_kind(np.triu(np.ones((count, count))), chosen.column_squares(), chosen.dtype)

    def squares(block):  # h = running sums of squared scores
        scores = block @ filters
        return (array_namespace(scores).sum(((scores * scores) @ upwards) ** 2, axis=0),)

    return host(chosen.sum_rows(squares)[0]).astype(float)


# --- the three steps


class Grown(NamedTuple):
    """The set that the first step ends with."""

    first: Tested  # against the components of all columns
    last: Tested  # against those of the last set
    chosen: np.ndarray  # (p,) bool
    pvalues: np.ndarray  # (p,)
    rounds: int


def grow(tests: Tests, rate: float) -> Grown:
    """Columns that pass against the components of columns that pass, at a falling rate."""
    first = last = tests.against(np.ones(tests.sample.p, dtype=bool))
    rounds = 1
    for generous in GENEROUS:
        members = discoveries(last.pvalues, generous)
        if generous > rate and members.sum() >= _FEWEST:
            last = tests.against(members)
            rounds += 1
    seen: list[np.ndarray] = []
    for _ in range(_ROUNDS):
        chosen = discoveries(last.pvalues, rate)
        if chosen.sum() < _FEWEST or any(np.array_equal(chosen, one) for one in seen):
            break
        seen.append(chosen)
        last = tests.against(chosen)
        rounds += 1
    return Grown(first, last, discoveries(last.pvalues, rate), last.pvalues, rounds)


def confirm(
    tests: Tests, grown: Grown, chosen: np.ndarray, rate: float
) -> tuple[np.ndarray, np.ndarray]:
    """P-values of all columns, those of the chosen ones without what they chose themselves.

    Returns
    -------
    tuple of array (p,) and bool array (p,)
        P-values, and which of them come from random orders.
    """
    pvalues, sampled = grown.pvalues.copy(), np.zeros(chosen.size, dtype=bool)
    which = np.flatnonzero(chosen)
    limit = rate * which.size / chosen.size
    if which.size == 0:
        return pvalues, sampled
    if which.size > _CONFIRMED:
        tested = tests.against(chosen)
        pvalues = tested.pvalues.copy()
        rough = which[tests.rough(tested.excess)[which]]
        rough = rough[pvalues[rough] > _overwhelming(limit)[0]]
        scores = Scores(tests.sample, tested)
        for j in rough:
            pvalues[j] = _sampled(tests, j, scores.without(j), limit)
            sampled[j] = True
        return pvalues, sampled
    for j in which:
        tested = standing_without(tests, grown, chosen, j, limit)
        pvalues[j] = tested.pvalues[j]
        if pvalues[j] <= 2.0 * limit and tests.rough(tested.excess)[j]:
            pvalues[j] = _sampled(tests, j, Scores(tests.sample, tested).without(j), limit)
            sampled[j] = True
    return pvalues, sampled


def standing_without(
    tests: Tests, grown: Grown, chosen: np.ndarray, j: int, limit: float
) -> Tested:
    """The test of column j against those of the chosen that pass without it."""
    rest = chosen.copy()
    rest[j] = False
    while rest.sum() >= 2:
        tested = tests.against(rest)
        fails = rest & (tested.pvalues > limit)
        if not fails.any():
            return tested
        rest &= ~fails
    return grown.first


def _overwhelming(limit: float) -> tuple[float]:
    """P-values so small that no tail of the permutation law could lift them above the limit."""
    return ((0.1 * limit) ** 3,)


def _sampled(tests: Tests, j: int, scores: np.ndarray, limit: float) -> float:
    most = min(_MOST_ORDERS, math.ceil(_MORE_ORDERS / limit))
    column = tests.sample.columns(np.array([j]))[:, 0]
    return sampled_pvalue(column, scores, tests.orders, most)


class Scores:
    """The scores of the rows, with any column left out of their components."""

    def __init__(self, sample: Sample, tested: Tested):
        self.sample, self.tested = sample, tested
        found = tested.found
        self.place = np.cumsum(found.members) - 1  # of a member among the members
        self.U = sample.scores(found, found.values.size)

    def without(self, j: int) -> np.ndarray:
        """Scores (n, count) on the components of the members other than column j."""
        found, count = self.tested.found, self.tested.count
        if not found.members[j]:
            return self.U[:, :count]
        values, U, z = found.values, self.U, found.z[self.place[j]]
        if found.ceiling is not None:
            # what the known components leave of the column, where it does most harm
            x = self.sample.columns(np.array([j]))[:, 0]
            rest = x - U @ z
            length = float(np.linalg.norm(rest))
            if length > 1e-9 * float(np.linalg.norm(x)):
                values = np.append(values, found.ceiling)
                U, z = np.column_stack([U, rest / length]), np.append(z, length)
        return left_out_scores(values, U, z, count)
