"""Test of each variable against each principal component.

A variable y is tested for its partial correlation with component i given the d - 1 others. The
components for a selected variable are computed without it (`leave_one_out`). With squared
correlations c_1, ..., c_d, the statistic is

    r_i = c_i / (1 - sum_{k != i} c_k),

which follows Beta(1/2, (dof - d) / 2) for Gaussian columns. For a block of m columns, r_i is the
squared multiple correlation of the component with the block, given the other components. It follows
Beta(m/2, (dof - d - m + 1) / 2). Under random signs of the residuals of y given the other
components, with magnitudes proportional to those of y, the mean of r_i is M_ii = sum_a u_ai^2
y_a^2. Its variance is at most 2 M_ii^2 (1 - 1/n), and about 1/m of this bound for blocks. The
larger of both p-values is used.
"""

from __future__ import annotations

import numpy as np

from .false_discoveries import adjust_pvalues
from .leading_components import FIT_TOLERANCE, StandardisedData
from .null_distribution import Moments, beta_tail, gaussian_variance

_MIN_SUPPORT = 2  # minimum number of variables that are associated with a component


def component_pvalues(
    data: StandardisedData, selected: np.ndarray, d: int, robust: bool
) -> np.ndarray:
    """Test each variable against each of d components, (p, d)."""
    members = selected & (data.sums_of_squares > 0.0)
    count = min(d, data.max_count(members), data.dof - 1)
    pvalues = np.ones((data.p, d))
    if count < 1:
        return pvalues
    partial = data.partial_r2(members, count)
    count = partial.shape[1]
    dof = data.dofs[:, None] - count + 1.0
    sizes = data.sizes[:, None]
    mean = np.broadcast_to(sizes / np.maximum(dof, sizes + 1.0), partial.shape)
    tested = beta_tail(partial, Moments(mean, gaussian_variance(mean, dof)))
    if robust:
        found = data.principal_components(members, count, FIT_TOLERANCE)
        mean = data.flip_means(found, count)
        flips = beta_tail(partial, Moments(mean, 2.0 * mean**2 / sizes * (1.0 - 1.0 / data.n)))
        tested = np.maximum(tested, flips)
    pvalues[:, :count] = tested
    pvalues[data.sums_of_squares <= 0.0] = 1.0
    return pvalues


def component_qvalues(pvalues: np.ndarray) -> np.ndarray:
    """Compute Benjamini-Hochberg q-values for each component, (p, d)."""
    qvalues = np.ones(pvalues.shape)
    for k, column in enumerate(pvalues.T):
        qvalues[:, k] = adjust_pvalues(column)
    return qvalues


def count_supported_components(pvalues: np.ndarray, selected: np.ndarray, fdr: float) -> int:
    """Count components up to the last with at least two associated variables."""
    is_associated = (component_qvalues(pvalues) <= fdr) & selected[:, None]
    supported = np.flatnonzero(np.sum(is_associated, axis=0) >= _MIN_SUPPORT)
    return int(supported[-1]) + 1 if supported.size else 0
