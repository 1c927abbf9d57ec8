"""Slope heuristic: calibration of a penalty by the data.

[BM07]   L. Birge, P. Massart. Minimal penalties for Gaussian model selection. PTRF 138, 2007.
[BMM12]  J.-P. Baudry, C. Maugis, B. Michel. Slope heuristics: overview and implementation.
         Statistics and Computing 22(2), 2012.

In large models, the log-likelihood increases linearly with the *shape* of the penalty, because only
noise is fitted. The slope s is the minimal penalty, and the optimal penalty is twice as large, so
that the selected model maximises log-likelihood - 2 s shape. Models in a fixed order, such as the
first D variables, have shape D, their dimension. If the D parameters are selected among P by the
data, the selection also fits noise, and the log-likelihood is not linear in D. The shape is then
`selection_shape`. `robust_slope` regresses the log-likelihood of the m largest models on their
shape, for each m. The function uses the slope for which the selected model is constant over the
longest run of m.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm, theilslopes

from ..errors import InputError

_MIN_STABLE_PROPORTION = 0.15  # minimum proportion of windows with one model, [BMM12] section 4.2
_MIN_MODELS = 10
_MIN_POINTS = 5
# Models whose shapes differ by less than this proportion of the largest shape are treated as one,
# because many similar models would otherwise dominate.
_MIN_SPACING = 0.002
_MAX_SLOPE_RATIO = 3.0  # maximum ratio of the slopes of the halves of a straight line


class Slope(NamedTuple):
    """Result of the slope heuristic.

    Attributes
    ----------
    slope : float
        Minimal penalty s per unit of shape.
    intercept : float
        Intercept of the regression line.
    n_points : int
        Number of the largest models on the regression line.
    best : int
        Index of the selected model.
    criterion : ndarray of shape (n_models,)
        Log-likelihood - 2 s shape of each model.
    """

    slope: float
    intercept: float
    n_points: int
    best: int
    criterion: np.ndarray


def selection_shape(dimension: Any, total: int) -> np.ndarray:
    """Compute the penalty shape for parameters selected by the data.

    The D largest of P standard normal estimates of zero increase the log-likelihood by half the sum
    of their squares. The mean increase is about ``P E[Z^2; |Z| > z] / 2`` with ``P(|Z| > z) = D /
    P``. This is D log(P / D) for small D ([BM07]), and P / 2 for D = P. ``dimension`` (n_models,)
    contains D for each model, and ``total`` is P.
    """
    proportion = np.asarray(dimension, dtype=float) / total
    z = norm.isf(0.5 * np.maximum(proportion, 1e-300))
    return 0.5 * total * (2.0 * z * norm.pdf(z) * (proportion > 0) + proportion)


def robust_slope(shape: Any, log_likelihood: Any) -> Slope:
    """Estimate the slope by robust regression and stability window, [BMM12].

    Only windows of models along which the log-likelihood is linear are used. An `InputError` is
    raised if there are fewer than ten models of different shape, no linear part, no stable
    selection, or no model that is larger than necessary.
    """
    D, L = _best_of_each_shape(shape, log_likelihood)
    windows = np.arange(_MIN_POINTS, D.size + 1)
    lines = [theilslopes(L[-m:], D[-m:])[:2] for m in windows]
    slopes = np.array([slope for slope, _ in lines])
    straight = np.array([_is_straight(D[-m:], L[-m:]) for m in windows])
    selected = np.array([np.argmax(L - 2.0 * max(s, 0.0) * D) for s in slopes])
    start, length = _longest_run(selected, straight & (slopes > 0))
    if length < max(2, _MIN_STABLE_PROPORTION * windows.size):
        raise InputError(
            "The log-likelihood has no linear part, which the slope heuristic requires: "
            f"{np.sum(straight)} of {windows.size} windows are linear, and at most {length} "
            "consecutive windows select the same model. Add larger models (smaller penalties) or "
            "use another criterion. If the data selected the parameters of each model, pass "
            "`selection_shape` of the dimension."
        )
    # The estimate of the longest window of the run has the smallest variance.
    last = start + length - 1
    if selected[last] == 0:
        raise InputError(
            "The slope heuristic selects the smallest model, because the log-likelihood is linear "
            "in the shape of all models. Either the data are pure noise, or all models are "
            "too small. Use AIC or BIC, or add larger models (smaller penalties, more components)."
        )
    s, intercept = float(slopes[last]), float(lines[last][1])
    criterion = np.asarray(log_likelihood, float) - 2.0 * s * np.asarray(shape, float)
    return Slope(s, intercept, int(windows[last]), int(np.argmax(criterion)), criterion)


def _is_straight(D: np.ndarray, L: np.ndarray) -> bool:
    """Return whether the slopes of the lower and upper halves are similar."""
    middle = D.size // 2
    if middle < 2:
        return True
    lower, upper = (
        theilslopes(L[half], D[half]) for half in (slice(0, middle + 1), slice(middle, None))
    )
    intervals_overlap = lower[2] <= upper[3] and upper[2] <= lower[3]
    ratio = _MAX_SLOPE_RATIO
    return intervals_overlap or bool(upper[0] / ratio <= lower[0] <= upper[0] * ratio)


def _best_of_each_shape(shape: Any, log_likelihood: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return distinct shapes in increasing order, with the best likelihoods."""
    D, L = np.asarray(shape, dtype=float), np.asarray(log_likelihood, dtype=float)
    order = np.lexsort((-L, D))
    spacing = _MIN_SPACING * float(np.max(D, initial=0.0))
    indices: list[int] = []
    for k in order[::-1]:  # the largest model is an end point of the line
        if indices and D[indices[-1]] - D[k] <= spacing:
            indices[-1] = int(k) if L[k] > L[indices[-1]] else indices[-1]
        else:
            indices.append(int(k))
    best = np.array(indices[::-1])
    if best.size < _MIN_MODELS:
        raise InputError(
            f"The slope heuristic requires at least {_MIN_MODELS} models of different shape, got "
            f"{best.size}. Fit more penalties or use another criterion."
        )
    return D[best], L[best]


def _longest_run(values: np.ndarray, allowed: np.ndarray) -> tuple[int, int]:
    """Return start and length of the last longest run of equal allowed values."""
    best, start = (0, 0), 0
    for i in range(1, values.size + 1):
        if i == values.size or values[i] != values[start] or allowed[i] != allowed[start]:
            if allowed[start] and i - start >= best[1]:
                best = (start, i - start)
            start = i
    return best
