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

Smaller orders, unless all arguments are large, start from SciPy's scaled K at an order in
[0, 1) and climb by K_{nu+1} = K_{nu-1} + 2 nu/x K_nu, all of whose terms are positive. SciPy
works on the host; a data set has at most fifty such orders. Arrays on a GPU stay there: the
integral of K [DLMF 10.32.9] around its peak, by the trapezoid rule, is a few products and
exponentials a node (`_quadrature`).
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace
from scipy.special import k0e, k1e, kve

from ..data.arrays import from_numpy, on_accelerator, to_numpy

Array = Any

DEBYE_ORDER = 25.0
# (smallest order, number of terms that bring the truncation error below 1e-14)
_BANDS = (
    (DEBYE_ORDER, 12),
    (50.0, 9),
    (70.0, 7),
    (110.0, 6),
    (210.0, 5),
    (560.0, 4),
    (2700.0, 3),
    (37000.0, 2),
)
# The nodes of the trapezoid rule lie this far apart: its error is below 1e-14 where
# sqrt(nu^2 + x^2) is at most `DEBYE_ORDER`, and 1e-11 with nodes 0.16 apart.
_SPACING = 0.135
# Terms below exp(-this) of the largest are left out.
_NEGLIGIBLE = 40.0


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
    value = float(coefficients[-1]) * x
    value += float(coefficients[-2])
    for c in coefficients[-3::-1]:
        value *= x
        value += float(c)
    return value


class _Debye(NamedTuple):
    """The uniform expansion at orders ``nu``, arguments ``x``, and what both functions share."""

    nu: Array
    w: Array
    root: Array
    t: Array
    n_terms: int
    xp: Any

    @classmethod
    def at(cls, nu: Array, x: Array, n_terms: int, xp: Any) -> _Debye:
        w = x / nu
        # sqrt(1 + w^2) without overflow: beyond 1e8 it is w to machine precision.
        moderate = xp.clip(w, None, 1e8)
        root = xp.sqrt(1.0 + moderate * moderate) + (w - moderate)
        return cls(nu, w, root, 1.0 / root, n_terms, xp)

    def log_kv(self) -> Array:
        nu, w, root, t, n_terms, xp = self
        t2, step = t * t, -t / nu
        series = xp.zeros_like(w)
        for coefficients in reversed(_debye_log_coefficients(n_terms)):
            series += _horner(coefficients, t2)
            series *= step
        constant = 0.5 * xp.log(np.pi / (2.0 * nu))
        return 0.5 * xp.log(t) + constant - nu * (root - xp.asinh(1.0 / w)) + series

    def ratio(self) -> Array:
        nu, w, root, t, n_terms, xp = self
        t2, step = t * t, -t / nu
        series = xp.zeros_like(w)
        for k, coefficients in reversed(list(enumerate(_debye_log_coefficients(n_terms), start=1))):
            # t l_k'(t) = t^k sum_i (k + 2 i) c_i t^(2 i)
            slope = coefficients * (k + 2 * np.arange(k + 1))
            series += _horner(slope, t2)
            series *= step
        return w * (1.0 / (1.0 + root) + t2 / nu * (0.5 + series))


def scaled_k(order: np.ndarray, x: np.ndarray) -> np.ndarray:
    """exp(x) K_order(x) for orders in [0, 1]; SciPy gives up somewhere above 1e9."""
    far = np.sqrt(np.pi / (2.0 * x)) * (1.0 + (4.0 * order**2 - 1.0) / (8.0 * x))  # DLMF 10.40.2
    return np.where(x > 1e8, far, kve(order, np.minimum(x, 1e8)))


def _bottom(fraction: float, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """exp(x) K_a(x) and exp(x) K_{1-a}(x), a = ``fraction``; the orders of the evidence are
    multiples of 1/2, for which there is something much faster than the general function."""
    if fraction == 0.0:
        return k0e(x), k1e(x)
    if fraction == 0.5:
        half = np.sqrt(np.pi / (2.0 * x))
        return half, half
    a = np.asarray(fraction)
    return scaled_k(a, x), scaled_k(1.0 - a, x)


def _climb(nu: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(log K_nu(x), K_{nu-1}(x)/K_nu(x)) for small orders, by upward recurrence."""
    log_k, ratio = np.empty_like(x), np.empty_like(x)
    fractions = nu - np.floor(nu)
    for fraction in np.unique(fractions):
        here = np.flatnonzero(fractions == fraction)
        here = here[np.argsort(-nu[here], kind="stable")]  # those that climb longest come first
        z = x[..., here]
        first, other = _bottom(float(fraction), z)
        up, rho = np.log(first) - z, other / first  # K_{-a} = K_a
        steps = np.floor(nu[here]).astype(int)
        for k in range(int(steps.max(initial=0))):
            some = (..., slice(0, int(np.sum(steps > k))))
            rho[some] = 1.0 / (rho[some] + 2.0 * (fraction + k) / z[some])  # K_order / K_{order+1}
            up[some] -= np.log(rho[some])
        log_k[..., here], ratio[..., here] = up, rho
    return log_k, ratio


def _quadrature(nu: np.ndarray, x: Array, least: np.ndarray, xp: Any) -> tuple[Array, Array]:
    """(log K_nu(x), K_{nu-1}(x)/K_nu(x)) where sqrt(nu^2 + x^2) is at most `DEBYE_ORDER`.

    K_nu(x) = 1/2 int exp(nu t - x cosh t) dt over the real line. Its peak is at t* = asinh(nu/x);
    with t = t* + u and s = sqrt(nu^2 + x^2) the exponent becomes

        nu t* - s - (s - nu) (cosh u - 1) - nu (exp(u) - 1 - u) ,  s - nu = x^2 / (s + nu) ,

    in which nothing cancels. K_{nu-1} has the same terms times exp(-t* - u). The trapezoid rule
    converges geometrically. ``least`` (m,) are the smallest arguments of the columns, whose
    integrands reach furthest.
    """
    gap = least**2 / (np.hypot(nu, least) + nu)
    furthest = np.arccosh(1.0 + 2.0 * _NEGLIGIBLE / np.maximum(gap, 1e-300)).max()
    count = int(min(furthest, 300.0) / _SPACING) + 1
    u = _SPACING * np.arange(-count, count + 1)
    symmetric, skew = 2.0 * np.sinh(0.5 * u) ** 2, np.expm1(u) - u
    exponent = np.outer(gap, symmetric) + np.outer(nu, skew)
    kept = np.min(exponent + np.minimum(u, 0.0), axis=0) < _NEGLIGIBLE
    order = from_numpy(nu, x, x.dtype)
    s = xp.hypot(order, x)
    gap_of = x * x / (s + order)
    total = xp.zeros_like(x)
    below = xp.zeros_like(x)
    for a, b, shift in zip(symmetric[kept], skew[kept], u[kept], strict=True):
        term = xp.exp(-(float(a) * gap_of + float(b) * order))
        total = total + term
        below = below + float(np.exp(-shift)) * term
    mode = xp.asinh(order / x)
    log_k = order * mode - s + xp.log(0.5 * _SPACING * total)
    return log_k, xp.exp(-mode) * below / total


def _near_or_far(nu: np.ndarray, x: Array, xp: Any) -> tuple[Array, Array]:
    """Both functions at small positive orders where the arguments are: by quadrature or, where
    sqrt(nu^2 + x^2) is large, by the expansion."""
    least = to_numpy(xp.min(xp.reshape(x, (-1, nu.size)), axis=0)).astype(float)
    order = from_numpy(nu, x, x.dtype)
    far = xp.hypot(order, x) >= DEBYE_ORDER
    series = _Debye.at(order, xp.where(far, x, DEBYE_ORDER), _BANDS[0][1], xp)
    near = _quadrature(nu, xp.where(far, DEBYE_ORDER, x), np.minimum(least, DEBYE_ORDER), xp)
    log_k, ratio = (
        xp.where(far, f(), value)
        for f, value in zip((series.log_kv, series.ratio), near, strict=True)
    )
    return log_k, ratio


def _on_host(nu: np.ndarray, x: Array) -> tuple[Array, Array]:
    log_k, ratio = _climb(nu, to_numpy(x).astype(float))
    return from_numpy(log_k, x, x.dtype), from_numpy(ratio, x, x.dtype)


def _bands(nu: np.ndarray, x: Array, xp: Any) -> np.ndarray:
    """The band of every column; 0 for those that must climb.

    The terms of the series fall like powers of 1/sqrt(nu^2 + x^2): a small order is no obstacle
    where all arguments are large.
    """
    band = np.searchsorted([low for low, _ in _BANDS], nu, side="right")
    small = np.flatnonzero((band == 0) & (nu > 0))
    if small.size and np.prod(x.shape) > 0:
        least = to_numpy(xp.min(xp.reshape(x, (-1, nu.size)), axis=0))[small]
        band[small[np.hypot(nu[small], least) >= DEBYE_ORDER]] = 1
    return band


def _by_band(nu: Any, x: Array, wanted: tuple[bool, bool]) -> list[Array]:
    """Split the last axis of ``x`` into the groups of columns whose orders share a formula."""
    xp = array_namespace(x)
    nu = np.broadcast_to(np.asarray(nu, dtype=float), (x.shape[-1],))
    if not np.all(nu >= 0):
        raise ValueError(f"`nu` must be non-negative, got {nu.min()}")
    band = _bands(nu, x, xp)
    by_band = np.argsort(band, kind="stable")
    sorted_already = bool(np.all(np.diff(by_band) == 1))
    groups = np.split(by_band, np.flatnonzero(np.diff(band[by_band])) + 1)
    pieces: list[tuple[Array, ...]] = []
    for columns in groups:
        if len(groups) == 1:
            part = x
        elif sorted_already:
            part = x[..., int(columns[0]) : int(columns[-1]) + 1]
        else:
            part = xp.take(x, from_numpy(columns, x), axis=-1)
        which = band[columns[0]]
        if which == 0:
            stays = on_accelerator(x) and bool(np.all(nu[columns] > 0))
            values = _near_or_far(nu[columns], part, xp) if stays else _on_host(nu[columns], part)
        else:
            series = _Debye.at(from_numpy(nu[columns], x, x.dtype), part, _BANDS[which - 1][1], xp)
            values = tuple(f() if w else x for f, w in zip((series.log_kv, series.ratio), wanted))
        pieces.append(tuple(value for value, w in zip(values, wanted) if w))
    whole = [p[0] if len(p) == 1 else xp.concat(list(p), axis=-1) for p in zip(*pieces)]
    if sorted_already:
        return whole
    back = from_numpy(np.argsort(by_band), x)
    return [xp.take(values, back, axis=-1) for values in whole]


def log_kv(nu: Any, x: Array) -> Array:
    """log K_nu(x), where ``nu`` (on the host) goes along the last axis of ``x`` > 0."""
    return _by_band(nu, x, (True, False))[0]


def kv_ratio(nu: Any, x: Array) -> Array:
    """K_{nu-1}(x) / K_nu(x), where ``nu`` (on the host) goes along the last axis of ``x`` > 0."""
    return _by_band(nu, x, (False, True))[0]


def log_kv_and_ratio(nu: Any, x: Array) -> tuple[Array, Array]:
    """Both, for little more than the price of one."""
    log_k, ratio = _by_band(nu, x, (True, True))
    return log_k, ratio
