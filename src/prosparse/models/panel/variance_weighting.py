"""Weights that prefer variables with large variance.

Many variables have nearly the largest gain, and the choice among these costs little. If the
variables have comparable units (log expression, grey values), those with large variance tend to
distinguish the rows. The gain of variable k is therefore multiplied by (1 + F_k) / 2, where

    F_k = 1/p  sum_j P(variable k has a larger variance than variable j)

is the expected proportion of variables with a smaller variance. F_k depends mainly on the order of
the standard deviations, so that no unit dominates, and no gain is reduced by more than half. The
logarithm of the standard deviation of n Gaussian rows has variance 1 / (2 (n - 1)), so that

    P(variable k has a larger variance than variable j) = Phi((log s_k - log s_j) (n - 1)^1/2).

Variables with equal standard deviations, as in standardised data, have equal weights.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

MIN_WEIGHT = 0.5  # weight of a variable whose variance is smaller than that of all others
# Grid of the logarithms: steps per standard error, and maximum number of steps.
_STEPS_PER_ERROR, _MAX_STEPS = 8, 1_000


def variance_weights(scale: np.ndarray, n: int) -> np.ndarray:
    """Compute the factors that multiply the gains of the variables, (p,).

    ``scale`` (p,) are the standard deviations in the original units, from n rows. The factors are
    between `MIN_WEIGHT` and 1.
    """
    return np.asarray(MIN_WEIGHT + (1.0 - MIN_WEIGHT) * proportion_less_variable(scale, n))


def proportion_less_variable(scale: np.ndarray, n: int) -> np.ndarray:
    """Compute the expected proportion of smaller variances, F, (p,).

    The comparison of a variable with itself counts one half. The sum over pairs is computed on a
    grid.
    """
    logs = np.log(scale)
    per_error = np.sqrt(max(n - 1.0, 1.0))
    smallest, width = float(logs.min()), float(np.ptp(logs))
    n_steps = int(np.clip(np.ceil(_STEPS_PER_ERROR * width * per_error), 1, _MAX_STEPS))
    if width == 0.0:
        return np.full(logs.size, 0.5)
    grid = np.linspace(smallest, smallest + width, n_steps + 1)
    nearest = np.rint((logs - smallest) * (n_steps / width)).astype(int)
    counts = np.bincount(nearest, minlength=grid.size)
    proportion = ndtr((grid[:, None] - grid) * per_error) @ counts / logs.size
    return np.interp(logs, grid, proportion)
