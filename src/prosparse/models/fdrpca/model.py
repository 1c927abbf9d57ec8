"""FDRPCA: variables with shared variance and their principal components.

Symbols: X (n x p) standardised data; S the selected variables; d the number of components. The
*communality* of a variable is R2(d), its R2 given the first d principal components of the other
variables in S. Its null expectation is d / (n - 1).

The package `structure` contains the test that selects S.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from ...errors import ParameterError
from ...structure import (
    FIT_TOLERANCE,
    SharedByKnockoffs,
    SharedVariables,
    StandardisedData,
    adjust_pvalues,
    component_pvalues,
    component_qvalues,
    compute_communalities,
    count_components,
    count_supported_components,
    select_shared_variables,
)


class Options(NamedTuple):
    """Parameters of `FDRPCA`."""

    n_components: int | Literal["auto"]
    fdr: float
    min_communality: float
    max_features: int | None
    robust: bool  # whether rows may have unequal noise


class Solution(NamedTuple):
    """Result of a fit, for the columns or variables of the operator."""

    test: SharedVariables | SharedByKnockoffs
    qvalues: np.ndarray  # (p,)
    communality: np.ndarray  # (p,)
    selected: np.ndarray  # (q,) indices of the selected columns
    order: np.ndarray  # (p,) columns by decreasing communality, the selected ones first
    component_pvalues: np.ndarray  # (p, d)
    component_qvalues: np.ndarray  # (p, d)
    selected_columns: np.ndarray  # indices of the columns of the selected variables
    components: np.ndarray  # orthonormal rows, (d, number of selected columns)
    data: StandardisedData  # data of the components, without missing values
    sums_of_squares: np.ndarray  # (d,) along the components


def solve(
    tested: StandardisedData,
    data: StandardisedData,
    rounding: np.ndarray,
    options: Options,
    by_knockoffs: SharedByKnockoffs | None = None,
) -> Solution:
    """Select variables by the test and compute their principal components.

    Parameters
    ----------
    tested : StandardisedData
        Data to be tested: ``data`` or its normal scores.
    data : StandardisedData
        Data whose components are computed. Missing values of the selected variables are imputed
        after the test. Each column is one variable in the components.
    rounding : ndarray of shape (n_columns,)
        Sum of squares of the rounding errors in each column of ``data``.
    options : Options
    by_knockoffs : SharedByKnockoffs or None
        Selection by the knockoff filter, which replaces the test.

    Returns
    -------
    Solution
    """
    test: SharedVariables | SharedByKnockoffs
    if by_knockoffs is None:
        test = select_shared_variables(tested, options.fdr, options.robust)
        qvalues = adjust_pvalues(test.pvalues)
    else:
        test, qvalues = by_knockoffs, by_knockoffs.filtered.rates
    data = data.imputed(test.selected)
    data.start_from(tested)
    d = number_of_components(tested, data, test.selected, options)
    d = min(d, numerical_rank(data, tested.columns_of(test.selected), d, rounding))
    communality = compute_communalities(tested, test.selected, d)
    is_selected = test.selected & (communality >= options.min_communality)
    if options.max_features is not None:
        strongest = np.lexsort((test.pvalues, -communality, ~is_selected))
        is_selected[strongest[options.max_features :]] = False
    is_column = tested.columns_of(is_selected)
    d = min(d, numerical_rank(data, is_column, d, rounding))
    columns = np.flatnonzero(is_column)
    components, sums_of_squares = leading_components(data, columns, d)
    of_components = component_pvalues(tested, is_selected, components.shape[0], options.robust)
    return Solution(
        test=test,
        qvalues=qvalues,
        communality=communality,
        selected=np.flatnonzero(is_selected),
        selected_columns=columns,
        order=np.lexsort((test.pvalues, -communality, ~is_selected)),
        component_pvalues=of_components,
        component_qvalues=component_qvalues(of_components),
        components=components,
        data=data,
        sums_of_squares=sums_of_squares,
    )


def number_of_components(
    tested: StandardisedData, data: StandardisedData, selected: np.ndarray, options: Options
) -> int:
    """Return the number of components; 0 if no variables are selected.

    Rows of unequal noise have more eigenvalues above those of white noise. Division of rows by a
    scale to which the components contribute also makes the noise unequal. Components are therefore
    counted with and without this division, and the smaller count is used.

    Selection favours variables that are correlated by chance, and the last components above the
    noise may consist of such variables. "auto" therefore counts components only up to the last one
    that is associated with at least two selected variables.
    """
    columns = tested.columns_of(selected)
    n_selected = int(columns.sum())
    if isinstance(options.n_components, str):
        if n_selected == 0:
            return 0
        d = count_components(data, columns)
        d = min(d, count_components(tested.imputed(selected), columns, max_count=d))
        of_components = component_pvalues(tested, selected, d, options.robust)
        return max(count_supported_components(of_components, selected, options.fdr), 1)
    limit = min(tested.dof, columns.size)
    if options.n_components >= limit:
        raise ParameterError(
            f"`n_components` must be less than {limit}, the smaller of the degrees of freedom of "
            f"the rows and the number of varying columns, got {options.n_components}."
        )
    return min(int(options.n_components), n_selected)


def numerical_rank(
    data: StandardisedData, selected: np.ndarray, d: int, rounding: np.ndarray
) -> int:
    """Count the first d components with variance above the rounding errors.

    The result is at least 1 if a column is selected.
    """
    n_selected = int(selected.sum())
    if min(d, n_selected) <= 1:
        return min(d, n_selected)
    found = data.principal_components(selected, min(d, n_selected - 1), FIT_TOLERANCE)
    rank = int(np.sum(found.eigenvalues[:d] > float(np.sum(rounding[selected]))))
    return max(1, rank)


def leading_components(
    data: StandardisedData, selected: np.ndarray, d: int
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the first d principal components of the selected columns.

    Returns
    -------
    components : ndarray of shape (d, n_selected)
        Orthonormal rows; the entry of largest magnitude in each is positive.
    sums_of_squares : ndarray of shape (d,)
        Sums of squares along the components.
    """
    if d < 1:
        return np.zeros((0, selected.size)), np.zeros(0)
    if selected.size == 1:
        return np.ones((1, 1)), data.sums_of_squares[selected]
    members = np.zeros(data.p, dtype=bool)
    members[selected] = True
    found = data.principal_components(members, min(d, selected.size - 1), FIT_TOLERANCE)
    d = min(d, found.eigenvalues.size)
    V = np.linalg.qr(found.score_weights[:, :d] * np.sqrt(found.eigenvalues[:d]))[0]
    largest = V[np.argmax(np.abs(V), axis=0), np.arange(d)]
    return (V * np.where(largest < 0.0, -1.0, 1.0)).T, found.eigenvalues[:d]
