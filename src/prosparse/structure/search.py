"""Which columns of a table share structure with others, at a stated false discovery rate?

A column carries common structure if the principal components *of the other columns* explain more
of it than chance. All p decompositions without one column follow from one (`leave_one_out`);
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

[F49]  K. Fan. On a theorem of Weyl concerning eigenvalues of linear transformations I. Proceedings
       of the National Academy of Sciences 35, 1949.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace

from ..data.arrays import Array, from_numpy, to_numpy
from ..data.operators.base import Block
from ..parallel import in_parallel, slices_of, usable_cores
from ..selection.dimension import MAX_COUNTED, count_signals
from .false_discoveries import cauchy_terms, combined, discoveries, from_cauchy_terms
from .leading_components import FINE, ROUGH, Components, Sample
from .leave_one_out import (
    bounds_of_left_out_shares,
    left_out_coordinates,
    left_out_shares,
)
from .null_distribution import (
    Orders,
    OwnScores,
    bounds_of_matched_pvalues,
    excess_variance,
    matched_pvalues,
    sampled_pvalues,
)

# Degrees of freedom that the test needs: one less than rows, or rows less groups.
MIN_FREEDOM = 4
# The most components that a column is tested against; weaker ones seldom help and cost power.
MAX_TESTED = 16
# Rates at which the set grows before the stated one; chosen on draws of simulated tables that are
# not among those of the experiments.
GENEROUS = (0.5, 0.4, 0.3, 0.2, 0.1)
_ROUNDS = 10  # of the stated rate, at most
_FEWEST = 5  # columns to take components of
# With that many discoveries at once, no structure hides so well that a generous start is needed.
_PLENTY = 100
_SETTLED = 0.01  # of a set may change when it is taken for the last
# Up to this many chosen columns, each is confirmed against the set that stands without it.
_CONFIRMED = 100
# Columns whose sum of fourth powers is that of more entries than this follow the Gaussian law.
_SMOOTH = 1000.0
# A law whose variance exceeds the Gaussian one by more than this share has a tail of its own ...
_ROUGH = 0.03
# ... and so has that of a column which is carried by fewer entries than this, and by fewer than a
# Gaussian column of so many rows, whose sum of fourth powers is about 3 / n.
_FEW_ENTRIES = 10.0
# Rows below which no column has enough: those with few values have so few different orders that
# the tail of no smooth law says how seldom one is. 0/1 columns that share nothing, a third of them
# ones, made a discovery in 14 %, 9 %, 4 % and 3 % of tables with 12, 14, 16 and 18 rows.
_FEW_ROWS = 16
_MORE_ORDERS = 4.0  # random orders for each that a p-value at the limit would need
_MOST_ORDERS = 2_000_000
_ENTRIES = 2**22  # of the largest temporary array
_MOST_ROWS = 200_000  # beyond, no order of rows is sampled
# A column that the others determine has this share of noise at least, when components are counted.
_LEAST_UNIQUE = 1e-6
# With so many rows for each column the components of the others tell its noise well enough.
_MANY_ROWS = 10
_LEAST_FREE = 0.05  # of a column's dimensions that components leave
_ROUNDING = 1e-9  # of a p-value, more than it carries


class Structure(NamedTuple):
    """What a search found."""

    pvalues: np.ndarray  # (p,)
    chosen: np.ndarray  # (p,) bool
    sampled: np.ndarray  # (p,) bool: random orders decided
    rounds: int  # of growing


def components_tested(freedom: int) -> int:
    """How many components columns of that many degrees of freedom are tested against, at most."""
    return max(1, min(MAX_TESTED, (freedom + 1) // 3))


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
    tests = ColumnTests(sample, seed)
    grown = grow(tests, rate)
    chosen = grown.chosen
    if not chosen.any():
        nothing = np.zeros(sample.p, dtype=bool)
        return Structure(tests.against_all.pvalues, nothing, nothing, grown.rounds)
    sampled = np.zeros(sample.p, dtype=bool)
    for _ in range(_ROUNDS):
        before = chosen
        pvalues, sampled = confirm(tests, grown, before, rate)
        chosen = before & discoveries(np.where(before, pvalues, 1.0), rate)
        if chosen.sum() == 1:  # nobody shares structure with nobody
            chosen = np.zeros(sample.p, dtype=bool)
        # orders were drawn for the rate of that many columns: fewer need more of them
        if 2 * chosen.sum() >= before.sum() or not chosen.any():
            break
    # a set that did not settle leaves columns that would pass beside it: they stay out
    beside = discoveries(pvalues, rate) & ~chosen
    pvalues[beside] = np.maximum(pvalues[beside], rate)
    return Structure(pvalues, chosen, sampled, grown.rounds)


# --- one test of every column


class Tested:
    """Every column against the components of some, each left out of its own.

    A p-value is calculated when it is asked for. Which columns are discoveries is known from a few
    of them, as bounds of all p-values cost little: see `_bounds`.
    """

    def __init__(self, tests: ColumnTests, members: np.ndarray):
        sample = tests.sample
        self.tests = tests
        self.members = members & tests.alive
        most = min(tests.most, int(self.members.sum()) - 1)
        self.found = sample.components(self.members, most)
        self.tried = min(most, self.found.values.size)  # components
        self.excess = tests.excess(self.found, self.tried)  # (p, tried): see `excess_variance`
        self._squares = np.where(tests.alive, sample.squares, 1.0)
        self._place = np.cumsum(self.members) - 1  # of a member among the members
        self._known = ~tests.alive  # columns whose p-value is calculated
        self._pvalues = np.ones(sample.p)

    @property
    def pvalues(self) -> np.ndarray:
        """Of all columns, (p,); 1 for those that do not vary."""
        return self.pvalues_of(np.arange(self._pvalues.size))

    def pvalues_of(self, which: np.ndarray) -> np.ndarray:
        """Of the columns at some places."""
        new = which[~self._known[which]]
        shares = self.found.seen[new, : self.tried] ** 2 / self._squares[new, None]
        inside = self.members[new]
        shares[inside] = left_out_shares(
            self.found.values,
            self.found.z[self._place[new[inside]]],
            self._squares[new[inside]],
            self.tried,
            self.found.ceiling,
        ).lower
        R2 = np.cumsum(shares, axis=1)
        self._pvalues[new] = combined(
            matched_pvalues(R2, self.excess[new], self.tests.sample.freedom)
        )
        self._known[new] = True
        return self._pvalues[which]

    def discoveries(self, rate: float) -> np.ndarray:
        """`false_discoveries.discoveries` of all p-values, (p,).

        Lower p-values make more discoveries, never others. So what is a discovery by upper bounds
        is one, whatever its p-value, and what is none by lower bounds is none: only the p-values
        of columns between are calculated.
        """
        least, most = self._bounds
        certain = discoveries(most, rate)
        between = np.flatnonzero(discoveries(least, rate) & ~certain)
        pvalues = np.where(certain, 0.0, 1.0)
        pvalues[between] = self.pvalues_of(between)
        return discoveries(pvalues, rate)

    @cached_property
    def _bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds of the p-values, (p,), from bounds of what components explain.

        The components of the members explain at least as much of a member as those of the other
        members do, for any number of them (Ky Fan's theorem, [F49]); and what each of the latter
        explains is bounded by `bounds_of_left_out_shares`.
        """
        most_R2 = np.cumsum(self.found.seen[:, : self.tried] ** 2, axis=1) / self._squares[:, None]
        least_R2 = most_R2.copy()
        shares = bounds_of_left_out_shares(
            self.found.values,
            self.found.z,
            self._squares[self.members],
            self.tried,
            self.found.ceiling,
        )
        least_R2[self.members] = np.cumsum(shares.lower, axis=1)
        of_members = most_R2[self.members]
        for d in range(self.tried):
            so_far = of_members[:, d - 1] if d else 0.0
            of_members[:, d] = np.minimum(of_members[:, d], so_far + shares.upper[:, d])
        most_R2[self.members] = of_members
        bounds = bounds_of_matched_pvalues(
            least_R2,
            most_R2,
            self.excess,
            self.tests.sample.freedom,
            cauchy_terms,
            from_cauchy_terms,
        )
        least = (1.0 - _ROUNDING) * bounds.least
        most = np.minimum((1.0 + _ROUNDING) * bounds.most, 1.0)
        alive = self.tests.alive
        return np.where(alive, least, 1.0), np.where(alive, most, 1.0)


class ColumnTests:
    """The test of the columns of one table, whatever the components."""

    def __init__(self, sample: Sample, seed: int):
        self.sample, self.seed = sample, seed
        self.fourth = sample.fourth_powers()
        self.orders = Orders(sample.n, None if sample.groups is None else sample.groups.codes, seed)
        self.most = components_tested(sample.freedom)
        self.alive = sample.squares > 1e-9 * float(np.max(sample.squares))
        enough = min(_FEW_ENTRIES, sample.n / 4.0) if sample.n >= _FEW_ROWS else math.inf
        self.few_entries = 1.0 / self.fourth < enough  # (p,)

    @cached_property
    def against_all(self) -> Tested:
        """All columns against the components of all others."""
        return self.against(np.ones(self.sample.p, dtype=bool))

    def against(self, members: np.ndarray) -> Tested:
        """All columns against the components of the members, each left out of its own."""
        return Tested(self, members)

    def within(self, columns: np.ndarray) -> ColumnTests:
        """The same on some columns alone."""
        return ColumnTests(self.sample.take_columns(columns), self.seed)

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
        rough = (np.max(np.abs(excess), axis=1) > _ROUGH) | self.few_entries
        return np.asarray(rough & (entries < _SMOOTH) & self.alive)


def squared_leverages(sample: Sample, found: Components, count: int) -> np.ndarray:
    """sum_a h_a(d)^2 for d = 1, ..., count: how unevenly the scores are spread over the rows."""
    if sample.groups is not None or found.rows is not None:
        return np.asarray(np.sum(np.cumsum(sample.scores(found, count) ** 2, axis=1) ** 2, axis=0))
    chosen = sample.chosen(found.members)
    filters = from_numpy(found.filters[:, :count], chosen.column_squares(), chosen.dtype)
    upwards = from_numpy(np.triu(np.ones((count, count))), chosen.column_squares(), chosen.dtype)

    def squares(block: Block) -> tuple[Array]:  # h = running sums of squared scores
        scores = block @ filters
        return (array_namespace(scores).sum(((scores * scores) @ upwards) ** 2, axis=0),)

    return to_numpy(chosen.sum_rows(squares)[0]).astype(float)


# --- the three steps


class Grown(NamedTuple):
    """The set that the first step ends with."""

    chosen: np.ndarray  # (p,) bool
    tested: Tested  # against the components of the last set
    rounds: int


def grow(tests: ColumnTests, rate: float) -> Grown:
    """Columns that pass against the components of columns that pass, at a falling rate."""
    last = tests.against_all
    rounds = 1
    hidden = last.discoveries(rate).sum() < _PLENTY
    for generous in GENEROUS if hidden else ():
        members = last.discoveries(generous)
        if generous > rate and members.sum() >= _FEWEST:
            last = tests.against(members)
            rounds += 1
    seen: list[np.ndarray] = []
    for _ in range(_ROUNDS):
        chosen = last.discoveries(rate)
        if chosen.sum() < _FEWEST or any(_settled(chosen, one) for one in seen):
            break
        seen.append(chosen)
        last = tests.against(chosen)
        rounds += 1
    return Grown(last.discoveries(rate), last, rounds)


def _settled(chosen: np.ndarray, before: np.ndarray) -> bool:
    """Whether a set hardly differs from one before."""
    return bool(np.sum(chosen != before) <= _SETTLED * np.sum(chosen))


def confirm(
    tests: ColumnTests, grown: Grown, chosen: np.ndarray, rate: float
) -> tuple[np.ndarray, np.ndarray]:
    """P-values of all columns, those of the chosen ones without what they chose themselves.

    Returns
    -------
    tuple of array (p,) and bool array (p,)
        P-values, and which of them come from random orders.
    """
    which, sampled = np.flatnonzero(chosen), np.zeros(chosen.size, dtype=bool)
    if which.size == 0:
        return grown.tested.pvalues, sampled
    limit = rate * which.size / chosen.size
    if which.size > _CONFIRMED:
        # a set that hardly differs from the one that these were tested against is not tested again
        settled = _settled(chosen, grown.tested.members)
        tested = grown.tested if settled else tests.against(chosen)
        pvalues = tested.pvalues
        pvalues[which], sampled[which] = decided(tested, which, limit)
        return pvalues, sampled
    pvalues = grown.tested.pvalues
    among = tests.within(which)
    for k, j in enumerate(which):
        standing = standing_without(among, np.ones(which.size, dtype=bool), k, limit)
        tested, place = (tests.against_all, j) if standing is None else (standing, k)
        pvalues[[j]], sampled[[j]] = decided(tested, np.array([place]), limit)
    return pvalues, sampled


def decided(tested: Tested, which: np.ndarray, limit: float) -> tuple[np.ndarray, np.ndarray]:
    """P-values of some columns, by random orders where these may decide, and where that was."""
    pvalues, tests = tested.pvalues_of(which), tested.tests
    doubtful = (pvalues > _overwhelming(limit)) & (pvalues <= 2.0 * limit)
    sampled = tests.rough(tested.excess)[which] & (doubtful | tests.few_entries[which])
    pvalues[sampled] = by_random_orders(tested, which[sampled], limit)
    return pvalues, sampled


def by_random_orders(tested: Tested, which: np.ndarray, limit: float) -> np.ndarray:
    """P-values of some columns by random orders of their rows, enough of them for the limit."""
    most = min(_MOST_ORDERS, math.ceil(_MORE_ORDERS / limit))
    if which.size == 0:
        return np.empty(0)
    sample, orders = tested.tests.sample, tested.tests.orders
    scores = Scores(sample, tested)

    def pvalues(some: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return sampled_pvalues(columns, scores.without(some, columns), orders, most)

    taken = sample.op.take_columns(which)  # once: every time is a pass over a sparse table

    def on_all_cores(places: slice) -> np.ndarray:
        some = which[places]
        columns = sample.columns(np.arange(which.size)[places], taken)
        pieces = slices_of(some.size, -(-some.size // usable_cores()))
        parts = in_parallel(lambda piece: pvalues(some[piece], columns[:, piece]), pieces)
        return np.concatenate(parts)

    step = max(1, _ENTRIES // (sample.n * max(tested.tried, 1)))
    return np.concatenate([on_all_cores(places) for places in slices_of(which.size, step)])


def standing_without(tests: ColumnTests, chosen: np.ndarray, j: int, limit: float) -> Tested | None:
    """The test of column j against those of the chosen that pass without it; None if they are too
    few to have a component."""
    rest = chosen.copy()
    rest[j] = False
    while rest.sum() >= 2:
        tested = tests.against(rest)
        places = np.flatnonzero(rest)
        fails = places[tested.pvalues_of(places) > limit]
        if fails.size == 0:
            return tested
        rest[fails] = False
    return None


def _overwhelming(limit: float) -> float:
    """A p-value so small that the tail of the permutation law does not lift it above the limit.

    On word counts, the roughest columns tried, true p-values were down to the matched ones to the
    power 0.77 at 0.001; 0.6 leaves room.
    """
    return float((0.5 * limit) ** (1.0 / 0.6))


class Scores:
    """The scores of the rows, with any column left out of their components."""

    def __init__(self, sample: Sample, tested: Tested):
        self.found, self.count = tested.found, tested.tried
        self.place = np.cumsum(self.found.members) - 1  # of a member among the members
        self.U = sample.scores(self.found, self.found.values.size)

    def without(self, which: np.ndarray, columns: np.ndarray) -> OwnScores:
        """Scores on the components of the members, each column left out of its own.

        ``columns`` (n, k) are those at ``which``; one that is no member is in no component.
        """
        known = self.found.values.size
        turns = np.zeros((which.size, known, self.count))
        turns[:] = np.eye(known, self.count)
        own = np.zeros((which.size, self.count))
        inside = np.flatnonzero(self.found.members[which])
        z = self.found.z[self.place[which[inside]]]
        if self.found.ceiling is None:
            turns[inside] = left_out_coordinates(self.found.values, z, self.count)
            return OwnScores(self.U, turns, own)
        # what the known components leave of a column, y - U z, where it does most harm
        rest = np.sum(columns[:, inside] ** 2, axis=0) - np.sum(z**2, axis=1)
        lengths = np.sqrt(np.maximum(rest, np.finfo(float).tiny))
        coordinates = left_out_coordinates(
            np.append(self.found.values, self.found.ceiling),
            np.column_stack([z, lengths]),
            self.count,
        )
        own[inside] = coordinates[:, known] / lengths[:, None]
        turns[inside] = coordinates[:, :known] - z[:, :, None] * own[inside, None, :]
        return OwnScores(self.U, turns, own)


# --- how many components


def count_components(sample: Sample, chosen: np.ndarray, most: int = MAX_COUNTED) -> int:
    """How many components the chosen columns share, each column measured in its own noise.

    What components leave of a column estimates its own noise, its *uniqueness* in the language of
    factor analysis. Divided by its root, all columns have noise of one variance, and the
    eigenvalues that stand out from that are counted (`dimension.count_signals`), whatever the
    variances were. Left by the components of the other columns, the noise is overestimated where
    few columns share many components, and the count is too small; left by components that the
    column is part of, it depends on their number, which is counted again until it stays. The
    second count is made where rows are few, and believed up to as many components as columns are
    tested against: beyond, it goes on into components that are significant and of no use.

    Parameters
    ----------
    sample : Sample
    chosen : bool array (p,)
        The columns to look at.
    most : int
        Where to stop counting.

    Returns
    -------
    int
        0 if fewer than two columns were chosen.
    """
    members = chosen & (sample.squares > 0.0)
    width, m = int(members.sum()), sample.freedom
    if width < 2:
        return 0
    limit = max(1, min(components_tested(m), ledermann(width)))
    squares = sample.squares[members]
    asked, residual = limit, ROUGH
    if (more := _seen_to_stand_out(sample, members)) > limit:
        asked, residual = min(2 * more, most), FINE
    while True:
        found = sample.components(members, asked, residual)
        known = found.values.size
        limit = min(limit, known)
        shares = left_out_shares(found.values, found.z, squares, limit, found.ceiling).lower
        columns = found.z / np.sqrt(squares / m)[:, None]  # of unit variance, in the basis U
        noise = np.maximum((1.0 - np.sum(shares, axis=1)) * m / (m - limit), _LEAST_UNIQUE)
        cautious = count_signals(_own_noise(columns, noise).values, m + 1, width, 1.0)
        all_known = found.ceiling is None or known < asked
        if all_known or cautious < known or known >= most:
            break
        # all that are known stand out: there may be more, and these will be shown
        asked, residual = min(2 * known, most), FINE
    if m >= _MANY_ROWS * width:  # enough to know the noise by the other columns
        return min(cautious, most)
    count = limit
    for _ in range(_ROUNDS):
        values, V = _own_noise(columns, noise)
        # of a sum of squares m, whether or not all components of a column are known
        left = m / noise - V[:, :count] ** 2 @ values[:count]
        # d components of noise take d of its m dimensions, and of each column its share of them
        free = (m - count) * np.maximum(1.0 - np.sum(V[:, :count] ** 2, axis=1), _LEAST_FREE)
        noise = np.maximum(noise * np.maximum(left, 0.0) / free, _LEAST_UNIQUE)
        before = count
        count = count_signals(_own_noise(columns, noise).values, m + 1, width, 1.0)
        count = max(1, min(count, limit))
        if count >= before:
            break
    return min(max(cautious, count), most)


def _seen_to_stand_out(sample: Sample, members: np.ndarray) -> int:
    """As many components as the last test knew, if all of them seem to stand out; else 0.

    A guess that only saves a decomposition: the test was of another set, and what components
    leave of a column that they are made of is less than its noise.
    """
    last = sample.last
    if last is None or last.ceiling is None:
        return 0
    some = members[last.members]
    z, squares = last.z[some], sample.squares[last.members][some]
    limit = components_tested(sample.freedom)
    left = 1.0 - np.sum(z[:, :limit] ** 2, axis=1) / squares
    columns = z / np.sqrt(squares / sample.freedom)[:, None]
    values = _own_noise(columns, np.maximum(left, _LEAST_UNIQUE)).values
    known = last.values.size
    counted = count_signals(values, sample.freedom + 1, int(some.sum()), 1.0)
    return known if counted >= known else 0


class _Spectrum(NamedTuple):
    values: np.ndarray  # falling
    vectors: np.ndarray  # (columns, r)


def _own_noise(columns: np.ndarray, noise: np.ndarray) -> _Spectrum:
    """The spectrum of columns that are each divided by the root of their noise."""
    weighted = columns / np.sqrt(noise)[:, None]
    if weighted.shape[0] <= weighted.shape[1]:
        values, vectors = np.linalg.eigh(weighted @ weighted.T)
        return _Spectrum(np.maximum(values[::-1], 0.0), vectors[:, ::-1])
    values, turn = np.linalg.eigh(weighted.T @ weighted)
    values = np.maximum(values[::-1], 0.0)
    return _Spectrum(values, weighted @ turn[:, ::-1] / np.sqrt(np.maximum(values, 1e-300)))


def ledermann(p: int) -> int:
    """The most common factors that p variables can tell apart (W. Ledermann, 1937)."""
    return max(1, int((2 * p + 1 - math.sqrt(8 * p + 1)) / 2))
