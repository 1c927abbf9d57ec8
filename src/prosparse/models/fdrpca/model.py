"""From a standardised table to the columns that share structure, and their principal components.

Symbols: X (n x p) with centred columns of one variance; S the chosen columns; d components. The
*communality* of a column is the share of its variance that the first d principal components of the
chosen columns explain, the column itself left out of them: R2(d) of `leave_one_out`. Chance
alone gives d / (n - 1) on average.

The test that chooses S is in `structure.search`; nothing is iterated here.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from ...errors import ParameterError
from ...structure.false_discoveries import qvalues
from ...structure.leading_components import FINE, Sample
from ...structure.leave_one_out import left_out_shares
from ...structure.search import Structure, count_components, find_structure


class Options(NamedTuple):
    """What the user decides; see `FDRPCA`."""

    n_components: int | Literal["auto"]
    rate: float  # of false discoveries
    min_communality: float
    seed: int  # of the random orders of rows


class Solution(NamedTuple):
    """All that a fit finds, in the operator's columns."""

    structure: Structure
    qvalues: np.ndarray  # (p,)
    communality: np.ndarray  # (p,)
    chosen: np.ndarray  # (q,) places
    order: np.ndarray  # (p,) columns, the chosen first, by their communality
    components: np.ndarray  # (d, q) orthonormal rows
    squares: np.ndarray  # (d,) sums of squares along them


def solve(tested: Sample, table: Sample, options: Options) -> Solution:
    """Choose columns by the test and decompose them.

    Parameters
    ----------
    tested : Sample
        What the test looks at: the table, or its normal scores.
    table : Sample
        What the components are those of; mostly the same.
    options : Options

    Returns
    -------
    Solution
    """
    structure = find_structure(tested, options.rate, options.seed)
    d = dimension(tested, structure.chosen, options)
    communality = communalities(tested, structure.chosen, d)
    kept = structure.chosen & (communality >= options.min_communality)
    chosen = np.flatnonzero(kept)
    components, squares = leading_components(table, chosen, min(d, chosen.size))
    q = qvalues(structure.pvalues)
    return Solution(
        structure=structure,
        qvalues=q,
        communality=communality,
        chosen=chosen,
        order=np.lexsort((structure.pvalues, -communality, ~kept)),
        components=components,
        squares=squares,
    )


def dimension(sample: Sample, chosen: np.ndarray, options: Options) -> int:
    """The number of components asked for, or counted; none if nothing was chosen."""
    width = int(chosen.sum())
    if isinstance(options.n_components, str):
        return max(count_components(sample, chosen), 1) if width else 0
    limit = min(sample.freedom, sample.p)
    if options.n_components >= limit:
        raise ParameterError(
            "`n_components` must be smaller than the number of rows and of columns that vary, "
            f"here {limit} at most (groups take one each), got {options.n_components}"
        )
    return min(int(options.n_components), width)


def communalities(sample: Sample, chosen: np.ndarray, d: int) -> np.ndarray:
    """R2(d) of every column with the components of the chosen ones, itself left out, (p,)."""
    members = chosen & (sample.squares > 0.0)
    count = min(d, int(members.sum()) - 1)
    if count < 1:
        return np.zeros(sample.p)
    found = sample.components(members, count, FINE)
    count = min(count, found.values.size)
    squares = np.where(sample.squares > 0.0, sample.squares, 1.0)
    R2 = np.sum(found.seen[:, :count] ** 2, axis=1) / squares
    shares = left_out_shares(found.values, found.z, squares[members], count, found.ceiling)
    R2[members] = np.sum(shares.lower, axis=1)
    return np.clip(R2, 0.0, 1.0)


def leading_components(sample: Sample, chosen: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray]:
    """The first d principal components (d, q) of the chosen columns, and their sums of squares.

    The largest weight of each is positive.
    """
    if d < 1:
        return np.zeros((0, chosen.size)), np.zeros(0)
    if chosen.size == 1:
        return np.ones((1, 1)), sample.squares[chosen]
    members = np.zeros(sample.p, dtype=bool)
    members[chosen] = True
    found = sample.components(members, min(d, chosen.size - 1), FINE)
    d = min(d, found.values.size)
    V = np.linalg.qr(found.filters[:, :d] * np.sqrt(found.values[:d]))[0]
    strongest = V[np.argmax(np.abs(V), axis=0), np.arange(d)]
    return (V * np.where(strongest < 0.0, -1.0, 1.0)).T, found.values[:d]
