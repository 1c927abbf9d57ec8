"""Numbers of variables whose evidence is close to the maximum."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..errors import InputError, check_non_negative
from ..findings import Findings, findings_of
from ..models._base import VariableSelector

# A difference of 3 in log evidence is a factor of 20, at the boundary between "positive" and
# "strong" evidence in Kass and Raftery (1995, Bayes factors, JASA 90).
DEFAULT_WITHIN = 3.0
_MAX_WRITTEN_LOG = 20.0  # larger differences of log evidence are written as a power of e


@dataclass(frozen=True)
class NearOptimalSizes:
    """Numbers of variables whose evidence is close to the maximum.

    Parameters
    ----------
    best : int
        Selected number of variables.
    sizes : tuple of int
        All numbers of variables within ``within`` of the maximum, including ``best``.
    within : float
        Maximum difference of log evidence (natural logarithm).
    n_compared : int
        Number of compared models between the first and the last of ``sizes``.
    """

    best: int
    sizes: tuple[int, ...]
    within: float
    n_compared: int

    @property
    def lowest(self) -> int:
        """Smallest near-optimal number of variables."""
        return self.sizes[0]

    @property
    def highest(self) -> int:
        """Largest near-optimal number of variables."""
        return self.sizes[-1]

    def summary(self) -> str:
        """Describe the result in one sentence for a report."""
        written = self.within < _MAX_WRITTEN_LOG
        size = f"{math.exp(self.within):.0f}" if written else f"exp({self.within:g})"
        factor = f"within a factor of {size} of the best"
        if len(self.sizes) == 1:
            return f"No other number of variables has evidence {factor}."
        n_between = self.highest - self.lowest + 1
        interval = f"from {self.lowest:,} to {self.highest:,}"
        if len(self.sizes) == n_between:
            return f"Any number of variables {interval} has evidence {factor}."
        compared = "" if self.n_compared == n_between else f" {self.n_compared:,} compared"
        return (
            f"{len(self.sizes):,} of the{compared} numbers of variables {interval} have evidence "
            f"{factor}."
        )


def near_optimal_sizes(
    model: VariableSelector | Findings, within: float = DEFAULT_WITHIN
) -> NearOptimalSizes:
    """List the numbers of variables whose evidence is close to the maximum.

    Parameters
    ----------
    model : fitted estimator or Findings
        Model that selects the number of variables by evidence: `GSPPCA` or `SpinyRegressor`.
    within : float, default=3.0
        Maximum difference of log evidence; 3 is a factor of 20.

    Returns
    -------
    NearOptimalSizes

    Raises
    ------
    InputError
        If the model did not select the number of variables by evidence.

    Examples
    --------
    >>> from prosparse import GSPPCA, datasets
    >>> from prosparse.stability import near_optimal_sizes
    >>> X = datasets.make_globally_sparse(random_state=0).X
    >>> near_optimal_sizes(GSPPCA(5).fit(X)).summary()
    'Any number of variables from 10 to 11 has evidence within a factor of 20 of the best.'
    """
    check_non_negative("within", within)
    found = model if isinstance(model, Findings) else findings_of(model)
    path = found.comparison
    if path is None or not found.by_evidence:
        raise InputError(
            f"this {found.method} did not select its number of variables by evidence; use GSPPCA "
            "or SpinyRegressor without a given number of variables."
        )
    evidence = np.asarray(path.criterion, dtype=float)
    maximum = np.max(evidence[np.isfinite(evidence)], initial=-np.inf)
    close = evidence >= maximum - within  # False if the evidence is NaN
    close[path.best] = True
    sizes = np.sort(path.x[close].astype(int))
    between = (path.x >= sizes[0]) & (path.x <= sizes[-1])
    return NearOptimalSizes(
        best=int(path.x[path.best]),
        sizes=tuple(sizes.tolist()),
        within=float(within),
        n_compared=int(between.sum()),
    )
