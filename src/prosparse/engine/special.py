"""log K_nu(x) and K_{nu-1}(x) / K_nu(x), for orders 0 to 1e5 and beyond, on any array library.

The evidence of [MBL16] needs the modified Bessel function of the second kind at orders
as large as half the number of variables, where K itself overflows or underflows.

Orders of at least 25 use the uniform (Debye, Olver) expansion [DLMF 10.41.4]. With
w = x / nu and t = 1 / sqrt(1 + w^2),

    log K_nu(x) = 1/2 log(pi / (2 nu)) - nu (1/t - asinh(1/w)) + 1/2 log t
                  + sum_k (-1)^k l_k(t) / nu^k ,

where sum_k l_k(t) / nu^k is the logarithm of Debye's series sum_k U_k(t) / nu^k. Every
l_k is t^k times a polynomial in t^2, so each costs a few multiplications. Because
K_{nu-1}/K_nu = -d log K_nu / dx - nu/x, the same coefficients give the ratio

    w / (1 + 1/t) + w t^2 / (2 nu) + w t^2 / nu sum_k (-1)^k t l_k'(t) / nu^k ,

in which the two terms of size nu/x have been cancelled by hand: the relative error
stays near machine precision even when the ratio is 1e-10.

Smaller orders start from SciPy's scaled K at an order in [0, 1) and climb by
K_{nu+1} = K_{nu-1} + 2 nu/x K_nu, all of whose terms are positive. SciPy works on the
host; a data set has at most fifty such orders.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from scipy.special import kve

Array = Any

DEBYE_ORDER = 25.0
# (smallest order, number of terms that bring the truncation error below 1e-14)
_BANDS = ((DEBYE_ORDER, 12), (50.0, 9), (150.0, 7), (1000.0, 4), (20000.0, 3))


@cache
def _debye_log_coefficients(n_terms: int) -> list[np.ndarray]:
    """Coefficients of l_k(t) / t^k in powers of t^2, k = 1 .. n_terms.

    U_{k+1}(t) = t^2 (1 - t^2) U_k'(t) / 2 + 1/8 int_0^t (1 - 5 s^2) U_k(s) ds
    [DLMF 10.41.9], in exact fractions; then the logarithm of the series,
    k l_k = k U_k - sum_{j<k} j l_j U_{k-j}.
    """
    U: list[dict[int, Fraction]] = [{0: Fraction(1)}]
    for _ in range(n_terms):
        following: dict[int, Fraction] = {}
        for power, value in U[-1].items():
            up = value * (Fraction(power, 2) + Fraction(1, 8 * (power + 1)))
            down = value * (Fraction(power, 2) + Fraction(5, 8 * (power + 3)))
            following[power + 1] = following.get(power + 1, Fraction(0)) + up
            following[power + 3] = following.get(power + 3, Fraction(0)) - down
        U.append(following)
    logs: list[dict[int, Fraction]] = [{}]
    for k in range(1, n_terms + 1):
        total = dict(U[k])
        for j in range(1, k):
            for power_l, value_l in logs[j].items():
                for power_u, value_u in U[k - j].items():
                    power = power_l + power_u
                    total[power] = (
                        total.get(power, Fraction(0)) - Fraction(j, k) * value_l * value_u
                    )
        logs.append(total)
    return [
        np.array([float(logs[k].get(k + 2 * i, Fraction(0))) for i in range(k + 1)])
        for k in range(1, n_terms + 1)
    ]


def _horner(coefficients: np.ndarray, x: Array) -> Array:
    value = float(coefficients[-1]) * x + float(coefficients[-2])
    for c in coefficients[-3::-1]:
        value = value * x + float(c)
    return value


def _debye_variables(nu: Array, x: Array, xp: Any) -> tuple[Array, Array, Array]:
    w = x / nu
    # sqrt(1 + w^2) without overflow: beyond 1e8 it is w to machine precision.
    moderate = xp.minimum(w, xp.asarray(1e8, dtype=w.dtype))
    root = xp.sqrt(1.0 + moderate * moderate) + (w - moderate)
    return w, root, 1.0 / root


def _debye_log_kv(nu: Array, x: Array, n_terms: int, xp: Any) -> Array:
    w, root, t = _debye_variables(nu, x, xp)
    t2, step = t * t, -t / nu
    series = xp.zeros_like(x)
    for coefficients in reversed(_debye_log_coefficients(n_terms)):
        series = (series + _horner(coefficients, t2)) * step
    return 0.5 * (xp.log(t) + xp.log(np.pi / (2.0 * nu))) - nu * (root - xp.asinh(1.0 / w)) + series


def _debye_ratio(nu: Array, x: Array, n_terms: int, xp: Any) -> Array:
    w, root, t = _debye_variables(nu, x, xp)
    t2, step = t * t, -t / nu
    series = xp.zeros_like(x)
    for k, coefficients in reversed(list(enumerate(_debye_log_coefficients(n_terms), start=1))):
        # t l_k'(t) = t^k sum_i (k + 2 i) c_i t^(2 i)
        slope = coefficients * (k + 2 * np.arange(k + 1))
        series = (series + _horner(slope, t2)) * step
    return w * (1.0 / (1.0 + root) + t2 / nu * (0.5 + series))


def _scaled_k(order: np.ndarray, x: np.ndarray) -> np.ndarray:
    """exp(x) K_order(x) for orders in [0, 1]; SciPy gives up somewhere above 1e9."""
    far = np.sqrt(np.pi / (2.0 * x)) * (1.0 + (4.0 * order**2 - 1.0) / (8.0 * x))  # DLMF 10.40.2
    return np.where(x > 1e8, far, kve(order, np.minimum(x, 1e8)))


def _climb(nu: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(log K_nu(x), K_{nu-1}(x)/K_nu(x)) for small orders, by upward recurrence."""
    order = np.broadcast_to(nu - np.floor(nu), x.shape)
    bottom = _scaled_k(order, x)
    log_k = np.log(bottom) - x
    ratio = _scaled_k(1.0 - order, x) / bottom  # K_{-a} = K_a
    for _ in range(int(nu.max())):
        climbing = order < nu - 0.5
        higher = 1.0 / (ratio + 2.0 * order / x)  # K_order / K_{order+1}
        log_k = np.where(climbing, log_k - np.log(higher), log_k)
        ratio = np.where(climbing, higher, ratio)
        order = np.where(climbing, order + 1.0, order)
    return log_k, ratio


def _on_host(nu: np.ndarray, x: Array, which: int, xp: Any) -> Array:
    value = _climb(nu, np.asarray(x, dtype=float))[which]
    return xp.asarray(value, dtype=x.dtype, device=device(x))


def _by_band(nu: Any, x: Array, small: Callable, large: Callable) -> Array:
    """Split the last axis of ``x`` into the groups of columns whose orders share a formula."""
    xp = array_namespace(x)
    nu = np.broadcast_to(np.asarray(nu, dtype=float), (x.shape[-1],))
    if not np.all(nu >= 0):
        raise ValueError(f"`nu` must be non-negative, got {nu.min()}")
    band = np.searchsorted([low for low, _ in _BANDS], nu, side="right")
    by_band = np.argsort(band, kind="stable")
    pieces = []
    for columns in np.split(by_band, np.flatnonzero(np.diff(band[by_band])) + 1):
        part = xp.take(x, xp.asarray(columns, device=device(x)), axis=-1)
        which = band[columns[0]]
        if which == 0:
            pieces.append(small(nu[columns], part, xp))
        else:
            order = xp.asarray(nu[columns], dtype=x.dtype, device=device(x))
            pieces.append(large(order, part, _BANDS[which - 1][1], xp))
    back = xp.asarray(np.argsort(by_band), device=device(x))
    return pieces[0] if len(pieces) == 1 else xp.take(xp.concat(pieces, axis=-1), back, axis=-1)


def log_kv(nu: Any, x: Array) -> Array:
    """log K_nu(x), where ``nu`` (on the host) goes along the last axis of ``x`` > 0."""
    return _by_band(nu, x, lambda order, part, xp: _on_host(order, part, 0, xp), _debye_log_kv)


def kv_ratio(nu: Any, x: Array) -> Array:
    """K_{nu-1}(x) / K_nu(x), where ``nu`` (on the host) goes along the last axis of ``x`` > 0."""
    return _by_band(nu, x, lambda order, part, xp: _on_host(order, part, 1, xp), _debye_ratio)
