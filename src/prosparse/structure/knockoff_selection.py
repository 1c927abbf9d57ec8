"""Selection of variables with shared variance by the knockoff filter.

Each variable is compared with its shadows (`data.operators.shadows`) by the statistics of
`knockoff_search`, and the false discovery rate is controlled by `knockoff_filter`.

*Theorem.* Let every null variable be exchangeable with its shadows, given all other variables. The
false discovery rate is then at most ``fdr``, for any number of rows, shadows and draws.

Permuted shadows satisfy the assumption if a null variable is independent of all others and its rows
are exchangeable (within groups). Random signs satisfy it if the deviations of a null variable from
its centre have independent random signs, given their magnitudes and all other variables. The centre
is the mean, or the fit of groups and covariates, by least squares with weights of one over the
squared scales of the rows. Noisy rows would otherwise shift the centres of all variables, and
centres divided by the scales of the rows would be shared variance.

Missing values are part of Z, the matrix with shadows: a shadow has those of its variable. The
assumptions then concern the observed entries, given the pattern of missing values.
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
from .knockoff_search import search_statistics
from .leading_components import StandardisedData
from .prepared_data import divide_rows, prepare_data
from .row_scale import estimate_row_scale


class Knockoffs(NamedTuple):
    """Parameters of the knockoff filter."""

    fdr: float
    n_shadows: int
    n_draws: int
    seed: int
    signs: bool  # whether shadows have random signs; otherwise permuted rows


class KnockoffSelection(NamedTuple):
    """Result of the knockoff filter for p variables."""

    selected: np.ndarray  # (p,) bool
    statistics: np.ndarray  # (n_draws, p) W
    evalues: np.ndarray  # (p,)
    rates: np.ndarray  # (p,) least rate at which each variable is selected


class SharedByKnockoffs(NamedTuple):
    """Result of `select_shared_by_knockoffs`."""

    pvalues: np.ndarray  # (p,) median over the draws of the p-values that give the statistics
    selected: np.ndarray  # (p,) bool
    filtered: KnockoffSelection


# (shadows) -> statistics of all layers (K + 1, p)
Statistics = Callable[[Shadows], np.ndarray]


def apply_knockoffs(
    draw: Callable[[np.random.Generator], Shadows], statistics: Statistics, options: Knockoffs
) -> KnockoffSelection:
    """Draw shadows, compare each variable with its shadows, and select variables."""
    rng = np.random.default_rng(options.seed)
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
    op: Operator, adjustment: RowAdjustment, options: Knockoffs, seen: np.ndarray | None = None
) -> SharedByKnockoffs:
    """Select the variables with shared variance.

    Parameters
    ----------
    op : Operator
        Data matrix with columns of equal variance.
    adjustment : RowAdjustment
        Groups within which rows are exchangeable, and covariates, for random signs only.
    options : Knockoffs
    seen : bool ndarray of shape (n, p) or None
        Mask of the observed entries; see `prepare_data`.

    Returns
    -------
    SharedByKnockoffs
    """
    codes, variables = adjustment.groups.codes, np.arange(op.shape[1])
    centre = estimate_centre(op, adjustment, seen) if options.signs else None
    logarithms = []

    def draw(rng: np.random.Generator) -> Shadows:
        return draw_shadows(codes, variables, options.n_shadows, rng, centre, seen)

    def statistics(shadows: Shadows) -> np.ndarray:
        data = data_with_shadows(op, adjustment, shadows, seen)
        found = search_statistics(data, options.n_shadows + 1, options.signs)
        logarithms.append(found[shadows.original_layer, variables])
        return found

    filtered = apply_knockoffs(draw, statistics, options)
    selected = filtered.selected
    if selected.sum() == 1:  # a single variable cannot share variance with others
        selected = np.zeros_like(selected)
    return SharedByKnockoffs(np.exp(-np.median(logarithms, axis=0)), selected, filtered)


def data_with_shadows(
    op: Operator, adjustment: RowAdjustment, shadows: Shadows, seen: np.ndarray | None = None
) -> StandardisedData:
    """Append shadows; rows are equalised if the shadows have random signs."""
    if seen is not None:
        seen = seen[:, shadows.columns % op.shape[1]]
    robust = shadows.centre is not None
    return prepare_data(op.with_shadows(shadows), adjustment, robust, seen).data


def estimate_centre(
    op: Operator, adjustment: RowAdjustment, seen: np.ndarray | None = None
) -> Centre:
    """Estimate the centre of each entry by weighted least squares, see above."""
    scale = estimate_row_scale(op, adjustment, seen)
    divided, weighted = divide_rows(op, adjustment, scale, seen)
    means, effects = weighted.fit(divided)
    return Centre(adjustment.groups.codes, means, adjustment.covariates, effects)
