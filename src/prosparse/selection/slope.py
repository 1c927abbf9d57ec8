"""The slope heuristic: calibrate a penalty by the data themselves.

[BM07]   L. Birge, P. Massart. Minimal penalties for Gaussian model selection. PTRF 138, 2007.
[BMM12]  J.-P. Baudry, C. Maugis, B. Michel. Slope heuristics: overview and implementation.
         Statistics and Computing 22(2), 2012.

For large models the log-likelihood grows linearly with the number of parameters: what is
fitted there is noise. Its slope s is the minimal penalty per parameter, and twice that is a
good one: choose the model with the largest log-likelihood - 2 s dimension. Two ways to find s,
both usable on any collection of models:

* `robust_slope`: regress the log-likelihood of the m largest models on their dimension, for
  every m; believe the slope whose choice of model stays the same over the longest run of m.
* `dimension_jump`: the penalty per parameter at which the dimension of the chosen model falls
  most is the minimal one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.stats import theilslopes

from ..errors import InputError

# [BMM12] section 4.2: a choice is stable if it holds for this share of the windows.
_STABLE_SHARE = 0.15
_FEWEST_MODELS = 10
_FEWEST_POINTS = 5


class Slope(NamedTuple):
    slope: float  # s, the minimal penalty per parameter
    intercept: float  # of the line through the linear part (nan for the dimension jump)
    n_points: int  # how many of the largest models lie on that line (0 for the dimension jump)
    best: int  # position of the chosen model in the arrays given
    criterion: np.ndarray  # log-likelihood - 2 s dimension of every model


def robust_slope(dimension: Any, log_likelihood: Any) -> Slope:
    """Data-driven slope estimation with the stability window of [BMM12].

    Refuses, in words, a collection with fewer than ten different dimensions and one whose
    choice never settles: there is no linear part to estimate a slope from.
    """
    D, L, position = _best_of_each_dimension(dimension, log_likelihood)
    windows = np.arange(_FEWEST_POINTS, D.size + 1)
    lines = [theilslopes(L[-m:], D[-m:])[:2] for m in windows]
    slopes = np.array([max(slope, 0.0) for slope, _ in lines])
    choices = np.array([np.argmax(L - 2.0 * s * D) for s in slopes])
    start, length = _longest_run(choices, slopes > 0)
    if length < max(2, _STABLE_SHARE * windows.size):
        raise InputError(
            "the log-likelihood has no linear part: the model chosen by the slope heuristic "
            f"never stays the same for {_STABLE_SHARE:.0%} of the {windows.size} windows tried "
            f"(longest run: {length}). Add larger models (smaller penalties), or use another "
            "criterion."
        )
    # The window of the run with most models: the steadiest estimate.
    last = start + length - 1
    s = float(slopes[last])
    criterion = np.asarray(log_likelihood, dtype=float) - 2.0 * s * np.asarray(dimension, float)
    return Slope(
        s, float(lines[last][1]), int(windows[last]), int(position[choices[last]]), criterion
    )


def dimension_jump(dimension: Any, log_likelihood: Any) -> Slope:
    """The slope at the largest fall of the chosen dimension as the penalty grows, [BM07]."""
    D, L, position = _best_of_each_dimension(dimension, log_likelihood)
    current, kappa, largest, at = D.size - 1, 0.0, -1.0, 0.0
    while current > 0:  # along the upper hull of (dimension, log-likelihood)
        slopes = (L[current] - L[:current]) / (D[current] - D[:current])
        following = int(np.argmin(slopes))
        kappa = max(kappa, float(slopes[following]))
        if D[current] - D[following] > largest:
            largest, at = float(D[current] - D[following]), kappa
        current = following
    if at <= 0.0:
        raise InputError(
            "the log-likelihood does not grow with the dimension, so that there is no jump to "
            "find. Check that larger models were fitted to convergence."
        )
    best = int(position[np.argmax(L - 2.0 * at * D)])
    return Slope(at, float("nan"), 0, best, _penalised(dimension, log_likelihood, at))


def _penalised(dimension: Any, log_likelihood: Any, slope: float) -> np.ndarray:
    return np.asarray(log_likelihood, float) - 2.0 * slope * np.asarray(dimension, float)


def _best_of_each_dimension(
    dimension: Any, log_likelihood: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Dimensions in rising order, the best log-likelihood of each, and where it was."""
    D, L = np.asarray(dimension, dtype=float), np.asarray(log_likelihood, dtype=float)
    if D.shape != L.shape or D.ndim != 1:
        raise InputError(
            f"dimension and log_likelihood must be two lists of one length, got shapes {D.shape} "
            f"and {L.shape}"
        )
    if not (np.all(np.isfinite(D)) and np.all(np.isfinite(L))):
        raise InputError("dimension and log_likelihood must be finite")
    order = np.lexsort((-L, D))
    first = np.r_[True, np.diff(D[order]) > 0]
    position = order[first]
    if position.size < _FEWEST_MODELS:
        raise InputError(
            f"the slope heuristic needs at least {_FEWEST_MODELS} models of different dimension, "
            f"got {position.size}. Fit more penalties, or use another criterion."
        )
    return D[position], L[position], position


def _longest_run(values: np.ndarray, allowed: np.ndarray) -> tuple[int, int]:
    """Start and length of the longest run of equal, allowed values; the last of equals."""
    best, start = (0, 0), 0
    for i in range(1, values.size + 1):
        if i == values.size or values[i] != values[start] or not allowed[i]:
            if allowed[start] and i - start >= best[1]:
                best = (start, i - start)
            start = i
    return best
