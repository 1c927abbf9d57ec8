"""Of columns that gain about as much, the one that varies more in the table's own units.

Many columns of a table are nearly as good as the best, so that another choice among them costs
little: near a maximum the loss is of second order. Where columns come in comparable units
(logarithms of expressions, grey values) those that vary much tend to be those that rows differ in,
beyond what communalities say. So what a column gains is taken times (1 + F_k) / 2, where

    F_k = 1/p  sum_j P(column k varies more than column j)

is the share of all columns that vary less: as if the units meant something with even odds. Only the
order of the spreads counts, so that no unit can dwarf another, and no column is taken for less than
half of what it gains. And the order counts as far as the rows tell it: the logarithm of a standard
deviation of n Gaussian rows has the variance 1 / (2 (n - 1)), so that

    P(column k varies more than column j) = Phi((log s_k - log s_j) (n - 1)^1/2).

Columns of equal spread, as those of a table that was standardised, are all taken times the same.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

# What is taken of the gain of a column that varies less than all others.
LEAST = 0.5
# Spreads are put on a grid: so many steps for one standard error, and in all at most.
_STEPS, _MOST_STEPS = 8, 1_000


def favour(spread: np.ndarray, n: int) -> np.ndarray:
    """What the gain of every column is taken times, (p,).

    Parameters
    ----------
    spread : array (p,)
        Standard deviations of the columns in the table's own units.
    n : int
        Rows.

    Returns
    -------
    array (p,)
        Between `LEAST` and 1.
    """
    return np.asarray(LEAST + (1.0 - LEAST) * shares_that_vary_less(spread, n))


def shares_that_vary_less(spread: np.ndarray, n: int) -> np.ndarray:
    """The expected share of all columns that vary less than each, (p,); itself counts half.

    The sum over pairs is one over a grid of the logarithms of the spreads.
    """
    logs = np.log(spread)
    per_error = np.sqrt(max(n - 1.0, 1.0))
    least, reach = float(logs.min()), float(np.ptp(logs))
    steps = int(np.clip(np.ceil(_STEPS * reach * per_error), 1, _MOST_STEPS))
    if reach == 0.0:
        return np.full(logs.size, 0.5)
    grid = np.linspace(least, least + reach, steps + 1)
    nearest = np.rint((logs - least) * (steps / reach)).astype(int)
    columns = np.bincount(nearest, minlength=grid.size)
    share = ndtr((grid[:, None] - grid) * per_error) @ columns / logs.size
    return np.interp(logs, grid, share)
