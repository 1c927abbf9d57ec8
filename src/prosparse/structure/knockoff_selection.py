"""Selection of variables with shared variance by the knockoff filter.

Each variable is compared with its shadows (`data.operators.shadows`), and the false discovery rate
is controlled by `knockoff_filter`. The statistic is -log p, where p is the p-value of
`leave_one_out_pvalues` against the components of candidate variables. Candidates are found as in
`shared_variables`, with at most one column per variable. The p-values, which need not be valid, are
computed without knowledge of the rate and of which columns are shadows.

*Theorem.* Let every null variable be exchangeable with its shadows, given all other variables. The
false discovery rate is then at most ``fdr``, for any number of rows, shadows and draws.

Permuted shadows satisfy the assumption if a null variable is independent of all others and its rows
are exchangeable (within groups). Random signs satisfy it if the deviations of a null variable from
its centre have independent random signs, given their magnitudes and all other variables. The centre
is the mean, or the fit of groups and covariates, by least squares weighted by the inverse squared
scales of the rows. Without weights, noisy rows would shift the centres of all variables, and
centres divided by the row scales would appear as shared variance. The rows of a categorical
variable are permuted if there are no covariates, because its deviations are not symmetric and its
rows have no scales.

A shadow has the missing values of its variable. The assumptions then concern the observed entries,
given the pattern of missing values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..data import Operator
from ..data.operators.shadows import Centre, Shadows, draw_shadows
from ..data.row_adjustment import RowAdjustment
from .knockoff_filter import (
    THRESHOLD_RATE,
    adjust_evalues,
    compare_with_shadows,
    knockoff_evalues,
    knockoff_rates,
)
from .leading_components import StandardisedData
from .leave_one_out_pvalues import LeaveOneOutTester
from .prepared_data import divide_rows, prepare_data, scale_of_numbers
from .shared_variables import find_candidates

_SEARCH_RATE = 0.1  # rate at which candidates are found; chosen on separate simulations
# P-values under permutation above which sign flips are not considered. The statistics of such
# columns are too small to matter.
_MAX_FLIPPED_PVALUE = 0.1
_STREAM = 0x5AD0  # separates the random numbers from those of other generators with the same seed


class Knockoffs(NamedTuple):
    """Parameters of the knockoff filter."""

    fdr: float
    n_shadows: int
    n_draws: int
    seed: int
    signs: bool  # whether shadows have random signs; otherwise permuted rows


class Blocks(NamedTuple):
    """Blocks of columns of a coded matrix (`data.categories`)."""

    sizes: np.ndarray  # (p,) number of columns of each variable
    is_category: np.ndarray  # (p,) bool


class KnockoffSelection(NamedTuple):
    """Result of the knockoff filter for p variables."""

    selected: np.ndarray  # (p,) bool
    statistics: np.ndarray  # (n_draws, p) W
    evalues: np.ndarray  # (p,)
    rates: np.ndarray  # (p,) smallest rate at which each variable is selected


class SharedByKnockoffs(NamedTuple):
    """Result of `select_shared_by_knockoffs`."""

    pvalues: np.ndarray  # (p,) median p-values over the draws
    selected: np.ndarray  # (p,) bool
    filtered: KnockoffSelection


# (shadows) -> statistics of all layers (K + 1, p)
Statistics = Callable[[Shadows], np.ndarray]


def apply_knockoffs(
    draw: Callable[[np.random.Generator], Shadows], statistics: Statistics, options: Knockoffs
) -> KnockoffSelection:
    """Draw shadows, compare the variables with them, and select variables."""
    rng = np.random.default_rng([_STREAM, options.seed])
    W = []
    for _ in range(options.n_draws):
        shadows = draw(rng)
        W.append(compare_with_shadows(statistics(shadows), shadows.original_layer))
    return select_variables(np.array(W), options)


def select_variables(W: np.ndarray, options: Knockoffs) -> KnockoffSelection:
    """Select variables by the knockoff filter, or by e-BH with several draws."""
    K = options.n_shadows
    if W.shape[0] == 1:
        evalues, rates = knockoff_evalues(W[0], K, options.fdr), knockoff_rates(W[0], K)
    else:
        rate = THRESHOLD_RATE * options.fdr
        evalues = np.mean([knockoff_evalues(draw, K, rate) for draw in W], axis=0)
        rates = adjust_evalues(evalues)
    return KnockoffSelection(rates <= options.fdr, W, evalues, rates)


def select_shared_by_knockoffs(
    op: Operator,
    adjustment: RowAdjustment,
    options: Knockoffs,
    seen: np.ndarray | None = None,
    blocks: Blocks | None = None,
) -> SharedByKnockoffs:
    """Select the variables with shared variance by the knockoff filter.

    Columns must have equal variance. Rows are exchangeable within the groups of ``adjustment``;
    covariates require random signs. ``seen`` (n, n_columns) marks the observed entries
    (`prepare_data`). Without ``blocks``, each column is a numeric variable.
    """
    sizes = np.ones(op.shape[1], dtype=int) if blocks is None else blocks.sizes
    variables = np.arange(sizes.size)
    # Deviations of indicators are not symmetric, but given covariates they are not exchangeable
    # either.
    permuted = None
    if blocks is not None and adjustment.used.size == 0:
        permuted = blocks.is_category
    own_sizes = None if blocks is None else sizes
    centre = estimate_centre(op, adjustment, seen, own_sizes) if options.signs else None
    logarithms = []

    def draw(rng: np.random.Generator) -> Shadows:
        of_columns = np.repeat(variables, sizes)
        codes = adjustment.groups.codes
        return draw_shadows(codes, of_columns, options.n_shadows, rng, centre, seen, permuted)

    def statistics(shadows: Shadows) -> np.ndarray:
        data = data_with_shadows(op, adjustment, shadows, seen, own_sizes)
        found = search_statistics(data, options.n_shadows + 1, options.signs)
        logarithms.append(found[shadows.original_layer, variables])
        return found

    filtered = apply_knockoffs(draw, statistics, options)
    # A single variable cannot share variance with others, so that at least two are selected, or
    # none.
    rates = np.maximum(filtered.rates, np.max(np.sort(filtered.rates)[:2]))
    filtered = filtered._replace(selected=rates <= options.fdr, rates=rates)
    return SharedByKnockoffs(np.exp(-np.median(logarithms, axis=0)), filtered.selected, filtered)


def data_with_shadows(
    op: Operator,
    adjustment: RowAdjustment,
    shadows: Shadows,
    seen: np.ndarray | None = None,
    sizes: np.ndarray | None = None,
) -> StandardisedData:
    """Append shadows; equalise the rows if shadows have random signs."""
    if seen is not None:
        seen = seen[:, shadows.columns % op.shape[1]]
    if sizes is not None:
        sizes = np.tile(sizes, shadows.n_shadows + 1)
    robust = shadows.centre is not None
    return prepare_data(op.with_shadows(shadows), adjustment, robust, seen, sizes).data


def estimate_centre(
    op: Operator,
    adjustment: RowAdjustment,
    seen: np.ndarray | None = None,
    sizes: np.ndarray | None = None,
) -> Centre:
    """Estimate the centre of each entry by weighted least squares."""
    scale = scale_of_numbers(op, adjustment, seen, sizes)
    divided, weighted = divide_rows(op, adjustment, scale, seen)
    means, effects = weighted.fit(divided)
    return Centre(adjustment.groups.codes, means, adjustment.covariates, effects)


def search_statistics(data: StandardisedData, n_layers: int, robust: bool) -> np.ndarray:
    """Compute the statistics of all columns with shadows, (n_layers, p).

    ``robust`` states whether rows may have unequal noise (`leave_one_out_pvalues`).
    """
    tester = LeaveOneOutTester(data, robust, n_layers=n_layers)
    test, columns = find_candidates(tester, _SEARCH_RATE), np.arange(data.p)
    pvalues = test.pvalues_of(columns, flips=False)
    notable = columns[pvalues <= _MAX_FLIPPED_PVALUE]
    pvalues[notable] = test.pvalues_of(notable)
    return -np.log(np.maximum(pvalues, np.finfo(float).tiny)).reshape(n_layers, -1)
