"""Knockoff filter for any importance measure.

`select` appends randomised copies of the columns (*shadows*) to a data matrix, and passes the
result to a function that measures the importance of columns. Variables that are more important than
their shadows are selected. If null variables are independent of all others and their rows are
exchangeable, the false discovery rate is at most ``fdr`` in finite samples. This holds for any
function and any distribution of the columns.

R. F. Barber, E. J. Candes. Controlling the false discovery rate via knockoffs. Annals of Statistics
43, 2015.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .data import container_of
from .data.arrays import TableLike, to_numpy
from .data.operators.shadows import Centre, Shadows, draw_shadows
from .data.row_groups import row_groups, single_group
from .errors import InputError, ParameterError, check_choice, check_integer, check_non_negative
from .structure import Knockoffs, apply_knockoffs

__all__ = ["Selection", "select"]

Importance = Callable[[Any], ArrayLike]  # matrix (n, m) -> importance of each column (m,)


class Selection(NamedTuple):
    """Result of `select`. Columns of the same variable have equal results."""

    support: np.ndarray  #: (n_features,) Mask of the selected columns.
    statistics: np.ndarray  #: (n_draws, n_features) Knockoff statistics.
    evalues: np.ndarray  #: (n_features,) E-values, averaged over the draws.
    rates: np.ndarray  #: (n_features,) Least rate at which each column is selected.


def select(
    statistic: Importance,
    X: TableLike,
    *,
    fdr: float = 0.05,
    n_shadows: int = 1,
    n_draws: int = 1,
    null: Literal["exchangeable", "robust"] = "exchangeable",
    groups: ArrayLike | None = None,
    variables: Sequence[Hashable] | np.ndarray | None = None,
    random_state: int = 0,
) -> Selection:
    """Select the variables that are more important than their shadows.

    Parameters
    ----------
    statistic : callable
        Function of a data matrix with shadows, of shape (n_samples, m), that returns the importance
        of the m columns as non-negative numbers, larger for more important columns. Originals and
        shadows are in random order. The matrix is a CSR array if ``X`` is sparse, and otherwise a
        NumPy array.
    X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features)
        Data matrix. Shadows have the missing values of their columns.
    fdr : float, default=0.05
        False discovery rate.
    n_shadows : int, default=1
        Number of shadows of each column. Either none or at least 1 / (``fdr`` * ``n_shadows``)
        variables are selected.
    n_draws : int, default=1
        Number of times that the shadows are drawn. The e-values of all draws are averaged.
    null : {"exchangeable", "robust"}, default="exchangeable"
        Null hypothesis. With "exchangeable", the rows of a null variable are exchangeable, and its
        shadows have permuted rows. With "robust", deviations from the mean (for sparse ``X``,
        stored entries) have random signs and arbitrary magnitudes. Because the mean is estimated,
        the rate is controlled up to an error of the order of 1 / n_samples (for each group).
    groups : array-like of shape (n_samples,) or None, default=None
        Group labels of the rows. Rows are exchangeable within groups.
    variables : sequence of labels of shape (n_features,) or None, default=None
        Label of the variable to which each column belongs, for example for indicators of a
        categorical variable. All columns of a variable have the same permutation or signs, and the
        importance of the variable is that of the most important column. By default, each column is
        a variable.
    random_state : int, default=0
        Seed for the shadows.

    Returns
    -------
    Selection

    Notes
    -----
    A null variable must be independent of all other variables, and of the response if
    ``statistic`` uses one. Rows must be exchangeable; the rate is not controlled for time series or
    repeated measures.

    Examples
    --------
    >>> import numpy as np
    >>> from prosparse import datasets, knockoffs
    >>> X, truth, _ = datasets.make_globally_sparse(100, 50, scale=True, random_state=0)
    >>> def largest_correlation(X):
    ...     R = np.abs(np.corrcoef(X, rowvar=False))
    ...     return np.max(R - np.eye(len(R)), axis=0)
    >>> found = knockoffs.select(largest_correlation, X, fdr=0.2, n_shadows=4)
    >>> int(found.support.sum()), int(truth[found.support].sum())
    (10, 10)
    """
    check_non_negative("fdr", fdr)
    if not 0.0 < fdr < 1.0:
        raise ParameterError(f"`fdr` must be in (0, 1), got {fdr!r}.")
    check_integer("n_shadows", n_shadows, 1)
    check_integer("n_draws", n_draws, 1)
    check_integer("random_state", random_state, 0)
    check_choice("null", null, ("exchangeable", "robust"))
    table = _to_matrix(X)
    n, p = table.shape
    rows = row_groups(groups, n) or single_group(n)
    variable_index = _variable_index(variables, p)
    none = np.zeros((n, 0)), np.zeros((0, p))
    means = _group_means(table, rows.codes) if null == "robust" else None
    centre = None if means is None else Centre(rows.codes, means, *none)
    seen = None if container_of(table).is_sparse else ~np.isnan(table)
    if seen is not None and seen.all():
        seen = None

    def draw(rng: np.random.Generator) -> Shadows:
        return draw_shadows(rows.codes, variable_index, n_shadows, rng, centre, seen)

    def statistics(shadows: Shadows) -> np.ndarray:
        importance = _check_importance(
            statistic(shadows.append_to(table, np.arange(n))), p * (n_shadows + 1)
        ).reshape(n_shadows + 1, p)
        largest = np.zeros((n_shadows + 1, int(variable_index.max()) + 1))
        for layer, values in zip(largest, importance, strict=True):
            np.maximum.at(layer, variable_index, values)
        return largest

    options = Knockoffs(float(fdr), n_shadows, n_draws, random_state, null == "robust")
    found = apply_knockoffs(draw, statistics, options)
    return Selection(
        found.selected[variable_index],
        found.statistics[:, variable_index],
        found.evalues[variable_index],
        found.rates[variable_index],
    )


def _to_matrix(X: TableLike) -> Any:
    """Convert to a NumPy or CSR array of floats."""
    container = container_of(X)
    if not container.in_memory:
        raise InputError(
            f"Shadows are passed to `statistic` in memory, but X is a {container.name}, which is "
            "read in blocks of rows. Pass a sample of its rows in memory."
        )
    table = X.tocsr().astype(float) if container.is_sparse else container.to_dense(X)
    if table.ndim != 2 or table.shape[1] < 1:
        raise InputError(f"X must have two dimensions and columns, got shape {table.shape}.")
    return table


def _variable_index(variables: Sequence[Hashable] | np.ndarray | None, p: int) -> np.ndarray:
    if variables is None:
        return np.arange(p)
    index: dict[Hashable, int] = {}
    found = np.array([index.setdefault(label, len(index)) for label in variables], dtype=int)
    if found.shape != (p,):
        raise ParameterError(
            f"`variables` must have one label for each of the {p} columns of X, got {found.size}."
        )
    return found


def _group_means(table: Any, codes: np.ndarray) -> np.ndarray:
    """Compute the means of observed values in each group, (n_groups, p)."""
    means = []
    for code in range(int(codes.max()) + 1):
        block = table[codes == code]
        if container_of(block).is_sparse:
            means.append(to_numpy(block.mean(axis=0)).ravel())
            continue
        observed = ~np.isnan(block)
        total = np.sum(np.where(observed, block, 0.0), axis=0)
        means.append(total / np.maximum(observed.sum(axis=0), 1))
    return np.array(means)


def _check_importance(values: ArrayLike, size: int) -> np.ndarray:
    importance = np.asarray(values, dtype=float)
    if importance.shape != (size,):
        raise ParameterError(
            f"`statistic` must return one number for each of the {size} columns, got shape "
            f"{importance.shape}."
        )
    if not np.all(np.isfinite(importance)) or np.any(importance < 0.0):
        raise ParameterError(
            "`statistic` must return finite non-negative numbers, larger for more important "
            f"columns, got {np.min(importance):g}."
        )
    return importance
