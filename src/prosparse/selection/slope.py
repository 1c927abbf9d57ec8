"""The slope heuristic: calibrate a penalty by the data themselves.

[BM07]   L. Birge, P. Massart. Minimal penalties for Gaussian model selection. PTRF 138, 2007.
[BMM12]  J.-P. Baudry, C. Maugis, B. Michel. Slope heuristics: overview and implementation.
         Statistics and Computing 22(2), 2012.

In large models the log-likelihood grows linearly with the *shape* of the penalty: what is fitted
there is noise. The slope s of that growth is the minimal penalty, and twice that is a good one:
choose the model with the largest log-likelihood - 2 s shape. Models in a fixed order, the first D
variables say, have shape D, their dimension. Where the D parameters were picked among P by the
data, picking fits noise as well, and the log-likelihood bends when it is drawn against D; its
shape is `choice_shape`. Two ways to find s, both usable on any collection of models fitted by
maximum likelihood:

* `robust_slope`: regress the log-likelihood of the m largest models on their shape, for every
  m; believe the slope whose choice of model stays the same over the longest run of m.
* `dimension_jump`: the penalty at which the shape of the chosen model falls most is the
  minimal one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm, theilslopes

from ..errors import InputError

# [BMM12] section 4.2: a choice is stable if it holds for this share of the windows.
_STABLE_SHARE = 0.15
_FEWEST_MODELS = 10
_FEWEST_POINTS = 5
# Models closer than this share of the largest shape count as one: many in one place would
# decide for the others.
_SPACING = 0.002
# On a straight line the slopes of the two halves differ by less than this factor.
_BEND = 3.0


class Slope(NamedTuple):
    """What the slope heuristic found.

    Attributes
    ----------
    slope : float
        The minimal penalty s per unit of shape.
    intercept : float
        Of the line through the linear part (nan for the dimension jump).
    n_points : int
        How many of the largest models lie on that line (0 for the dimension jump).
    best : int
        Position of the chosen model in the arrays given.
    criterion : array
        Log-likelihood - 2 s shape of every model.
    """

    slope: float
    intercept: float
    n_points: int
    best: int
    criterion: np.ndarray


def choice_shape(dimension: Any, total: int) -> np.ndarray:
    """The shape of the penalty for models whose parameters were picked by the data.

    The best D of P standard normal estimates of zero raise the log-likelihood by half the sum of
    their squares, on average about ``P E[Z^2; |Z| > z] / 2`` with ``P(|Z| > z) = D / P``. That is
    D log(P / D) for small D ([BM07] and their successors for complete variable selection), and
    P / 2 when all are taken.

    Parameters
    ----------
    dimension : array of int
        D, the number of parameters that each model uses.
    total : int
        P, how many there were to pick from.

    Returns
    -------
    array

    Examples
    --------
    >>> choice_shape([1, 10, 100], 100).round(1)
    array([ 4.2, 22. , 50. ])
    """
    share = np.asarray(dimension, dtype=float) / total
    z = norm.isf(0.5 * np.maximum(share, 1e-300))
    return 0.5 * total * (2.0 * z * norm.pdf(z) * (share > 0) + share)


def robust_slope(shape: Any, log_likelihood: Any) -> Slope:
    """Data-driven slope estimation with the stability window of [BMM12].

    Only windows of models along which the log-likelihood is straight are trusted. Refuses, in
    words, a collection with fewer than ten models of different shape, one without a linear
    part, one whose choice never settles, and one that has no model larger than needed.

    Parameters
    ----------
    shape : array
        The shape of the penalty of every model: its dimension, or `choice_shape` of it.
    log_likelihood : array
        The largest of every model.

    Returns
    -------
    Slope
    """
    D, L = _best_of_each_shape(shape, log_likelihood)
    windows = np.arange(_FEWEST_POINTS, D.size + 1)
    lines = [theilslopes(L[-m:], D[-m:])[:2] for m in windows]
    slopes = np.array([slope for slope, _ in lines])
    straight = np.array([_is_straight(D[-m:], L[-m:]) for m in windows])
    choices = np.array([np.argmax(L - 2.0 * max(s, 0.0) * D) for s in slopes])
    start, length = _longest_run(choices, straight & (slopes > 0))
    if length < max(2, _STABLE_SHARE * windows.size):
        raise InputError(
            "the log-likelihood has no linear part from which the slope heuristic could choose: "
            f"{np.sum(straight)} of {windows.size} sets of largest models lie on a rising line, "
            f"and their choice stays the same for at most {length} of them in a row. Add larger "
            "models (smaller penalties), or use another criterion. (Were the parameters picked by "
            "the data? Then the shape to use is `choice_shape` of the dimension.)"
        )
    # The window of the run with most models: the steadiest estimate.
    last = start + length - 1
    if choices[last] == 0:
        raise InputError(
            "the slope heuristic would choose the smallest of all models: the log-likelihood is "
            "one straight line, as it is where there is nothing but noise, and also where no model "
            "is larger than needed. Use another criterion to tell the two apart (AIC, BIC), or "
            "add larger models (smaller penalties, more components)."
        )
    s, intercept = float(slopes[last]), float(lines[last][1])
    criterion = _penalised(shape, log_likelihood, s)
    return Slope(s, intercept, int(windows[last]), int(np.argmax(criterion)), criterion)


def _is_straight(D: np.ndarray, L: np.ndarray) -> bool:
    """Whether the slopes of the lower and the upper half could be the same."""
    middle = D.size // 2
    if middle < 2:
        return True  # too few to tell
    (low, _, low_from, low_to), (high, _, high_from, high_to) = (
        theilslopes(L[half], D[half]) for half in (slice(0, middle + 1), slice(middle, None))
    )
    apart = low_from > high_to or high_from > low_to
    return not apart or bool(high / _BEND <= low <= high * _BEND)


def dimension_jump(shape: Any, log_likelihood: Any) -> Slope:
    """The slope at the largest fall of the chosen shape as the penalty grows, [BM07].

    Parameters
    ----------
    shape : array
        The shape of the penalty of every model: its dimension, or `choice_shape` of it.
    log_likelihood : array
        The largest of every model.

    Returns
    -------
    Slope
    """
    D, L = _best_of_each_shape(shape, log_likelihood)
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
            "the log-likelihood does not grow with the shape, so that there is no jump to "
            "find. Check that larger models were fitted to convergence."
        )
    criterion = _penalised(shape, log_likelihood, at)
    return Slope(at, float("nan"), 0, int(np.argmax(criterion)), criterion)


def _penalised(shape: Any, log_likelihood: Any, slope: float) -> np.ndarray:
    return np.asarray(log_likelihood, float) - 2.0 * slope * np.asarray(shape, float)


def _best_of_each_shape(shape: Any, log_likelihood: Any) -> tuple[np.ndarray, np.ndarray]:
    """Shapes in rising order and the best log-likelihood of each."""
    D, L = np.asarray(shape, dtype=float), np.asarray(log_likelihood, dtype=float)
    if D.shape != L.shape or D.ndim != 1:
        raise InputError(
            f"shape and log_likelihood must be two lists of one length, got shapes {D.shape} "
            f"and {L.shape}"
        )
    if not (np.all(np.isfinite(D)) and np.all(np.isfinite(L))):
        raise InputError("shape and log_likelihood must be finite")
    order = np.lexsort((-L, D))
    spacing = _SPACING * float(np.max(D, initial=0.0))
    kept: list[int] = []
    for k in order[::-1]:  # the largest first: it is the end of the line
        if kept and D[kept[-1]] - D[k] <= spacing:
            kept[-1] = int(k) if L[k] > L[kept[-1]] else kept[-1]
        else:
            kept.append(int(k))
    position = np.array(kept[::-1])
    if position.size < _FEWEST_MODELS:
        raise InputError(
            f"the slope heuristic needs at least {_FEWEST_MODELS} models of different shape, "
            f"got {position.size}. Fit more penalties, or use another criterion."
        )
    return D[position], L[position]


def _longest_run(values: np.ndarray, allowed: np.ndarray) -> tuple[int, int]:
    """Start and length of the longest run of equal, allowed values; the last of equals."""
    best, start = (0, 0), 0
    for i in range(1, values.size + 1):
        if i == values.size or values[i] != values[start] or allowed[i] != allowed[start]:
            if allowed[start] and i - start >= best[1]:
                best = (start, i - start)
            start = i
    return best
