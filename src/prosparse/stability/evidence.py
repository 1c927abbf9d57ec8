"""Which other numbers of variables have nearly the evidence of the best?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..errors import InputError, check_non_negative
from ..findings import Findings, findings_of
from ..models._base import VariableSelector

# A difference of 3 in log evidence is a factor of 20: less than that is hardly worth a mention on
# the scale of Kass and Raftery (1995, Bayes factors, JASA 90), who call it "positive" evidence.
WITHIN = 3.0
_LARGE = 20.0  # a difference of log evidence that is written as a power of e


@dataclass(frozen=True)
class NearOptimalSizes:
    """Numbers of variables whose evidence is nearly that of the best.

    Parameters
    ----------
    best : int
        The number that was chosen.
    sizes : tuple of int
        All numbers within ``within`` of the best, itself among them.
    within : float
        In units of the natural logarithm.
    tried : int
        Numbers between the first and the last of ``sizes`` whose evidence was calculated.
    """

    best: int
    sizes: tuple[int, ...]
    within: float
    tried: int

    @property
    def lowest(self) -> int:
        """The fewest variables."""
        return self.sizes[0]

    @property
    def highest(self) -> int:
        """The most variables."""
        return self.sizes[-1]

    def summary(self) -> str:
        """What it says, in one sentence."""
        size = f"{math.exp(self.within):.0f}" if self.within < _LARGE else f"exp({self.within:g})"
        factor = f"within a factor of {size} of the best"
        if len(self.sizes) == 1:
            return f"No other number of variables has evidence {factor}."
        between = self.highest - self.lowest + 1
        if len(self.sizes) == between:
            return (
                f"Any number of variables from {self.lowest:,} to {self.highest:,} has evidence "
                f"{factor}."
            )
        tried = "" if self.tried == between else f" {self.tried:,} tried"
        return (
            f"{len(self.sizes):,} of the{tried} numbers of variables from {self.lowest:,} to "
            f"{self.highest:,} have evidence {factor}."
        )


def near_optimal_sizes(
    model: VariableSelector | Findings, within: float = WITHIN
) -> NearOptimalSizes:
    """The numbers of variables whose evidence is within a factor of the best.

    Parameters
    ----------
    model : fitted estimator, or Findings
        Of a method that chooses the number by evidence: GSPPCA or SpinyRegressor.
    within : float, default=3.0
        In units of the natural logarithm: 3 is a factor of 20.

    Returns
    -------
    NearOptimalSizes

    Raises
    ------
    InputError
        If the number was not chosen by evidence.

    Examples
    --------
    >>> from prosparse import GSPPCA, datasets
    >>> from prosparse.stability import near_optimal_sizes
    >>> X = datasets.make_globally_sparse(random_state=0).X
    >>> near_optimal_sizes(GSPPCA(5).fit(X)).summary()
    'No other number of variables has evidence within a factor of 20 of the best.'
    """
    check_non_negative("within", within)
    found = model if isinstance(model, Findings) else findings_of(model)
    choice = found.comparison
    if choice is None or not found.by_evidence:
        raise InputError(
            f"this {found.method} did not choose its number of variables by evidence: there is no "
            "path of evidence to compare numbers on"
        )
    evidence = np.asarray(choice.criterion, dtype=float)
    largest = np.max(evidence[np.isfinite(evidence)], initial=-np.inf)
    close = evidence >= largest - within  # False where the evidence is not a number
    close[choice.best] = True
    near = np.sort(choice.x[close].astype(int))
    between = (choice.x >= near[0]) & (choice.x <= near[-1])
    return NearOptimalSizes(
        best=int(choice.x[choice.best]),
        sizes=tuple(near.tolist()),
        within=float(within),
        tried=int(between.sum()),
    )
