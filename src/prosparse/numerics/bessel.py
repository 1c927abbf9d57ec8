"""Logarithm and ratios of the Bessel function of the second kind, K_nu(x).

The evidence of [MBL16] requires log K_nu(x) and K_{nu-1}(x) / K_nu(x) for orders up to half the
number of variables, for which K_nu overflows or underflows. The functions accept any array library
and orders from 0 to more than 1e5.

Orders of at least 25 use the uniform (Debye, Olver) expansion [DLMF 10.41.4]. With
w = x / nu and t = 1 / sqrt(1 + w^2),

    log K_nu(x) = 1/2 log(pi / (2 nu)) - nu (1/t - asinh(1/w)) + 1/2 log t
                  + sum_k (-1)^k l_k(t) / nu^k ,

where sum_k l_k(t) / nu^k is the logarithm of Debye's series sum_k U_k(t) / nu^k. Each l_k is t^k
times a polynomial in t^2 and requires only a few multiplications. Because K_{nu-1}/K_nu = -d log
K_nu / dx - nu/x, the same coefficients yield the ratio

    w / (1 + 1/t) + w t^2 / (2 nu) + w t^2 / nu sum_k (-1)^k t l_k'(t) / nu^k ,

in which the two terms of size nu/x cancel analytically. The relative error is close to
machine precision even if the ratio is 1e-10.

Smaller orders, unless all arguments are large, use the upward recurrence
K_{nu+1} = K_{nu-1} + 2 nu/x K_nu from SciPy's scaled K at an order in [0, 1). All terms are
positive. SciPy requires CPU memory; at most fifty such orders occur for a dataset.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace
from scipy.special import k0e, k1e, kve

from ..data.arrays import from_numpy, to_numpy

Array = Any

DEBYE_ORDER = 25.0  # minimum order for the uniform expansion
# (minimum order, number of terms for a truncation error below 1e-14)
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


@cache
def _debye_log_coefficients(n_terms: int) -> list[np.ndarray]:
    """Compute the coefficients of l_k(t) / t^k in powers of t^2.

    For k = 1, ..., n_terms, U_{k+1}(t) = t^2 (1 - t^2) U_k'(t) / 2 + 1/8 int_0^t (1 - 5 s^2) U_k(s)
    ds [DLMF 10.41.9] is computed in exact fractions. The logarithm of the series follows from k l_k
    = k U_k - sum_{j<k} j l_j U_{k-j}.
    """
    U: list[dict[int, Fraction]] = [{0: Fraction(1)}]
    for _ in range(n_terms):
        U_next: dict[int, Fraction] = {}
        for power, value in U[-1].items():
            added = value * (Fraction(power, 2) + Fraction(1, 8 * (power + 1)))
            subtracted = value * (Fraction(power, 2) + Fraction(5, 8 * (power + 3)))
            U_next[power + 1] = U_next.get(power + 1, Fraction(0)) + added
            U_next[power + 3] = U_next.get(power + 3, Fraction(0)) - subtracted
        U.append(U_next)
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
    """Evaluate a polynomial of degree at least 1, in place."""
    value = float(coefficients[-1]) * x
    value += float(coefficients[-2])
    for c in coefficients[-3::-1]:
        value *= x
        value += float(c)
    return value


class _Debye(NamedTuple):
    """Uniform expansion at orders ``nu``."""

    nu: Array
    w: Array  # x / nu
    root: Array  # sqrt(1 + w^2)
    t: Array  # 1 / root
    n_terms: int
    xp: Any  # array namespace

    @classmethod
    def at(cls, nu: Array, x: Array, n_terms: int, xp: Any) -> _Debye:
        """Prepare the expansion at arguments ``x``."""
        w = x / nu
        # Above 1e8, sqrt(1 + w^2) equals w to machine precision; clipping avoids overflow.
        clipped = xp.clip(w, None, 1e8)
        root = xp.sqrt(1.0 + clipped * clipped) + (w - clipped)
        return cls(nu, w, root, 1.0 / root, n_terms, xp)

    def log_kv(self) -> Array:
        """Return log K_nu(x)."""
        nu, w, root, t, n_terms, xp = self
        t2, step = t * t, -t / nu
        series = xp.zeros_like(w)
        for coefficients in reversed(_debye_log_coefficients(n_terms)):
            series += _horner(coefficients, t2)
            series *= step
        constant = 0.5 * xp.log(np.pi / (2.0 * nu))
        return 0.5 * xp.log(t) + constant - nu * (root - xp.asinh(1.0 / w)) + series

    def ratio(self) -> Array:
        """Return K_{nu-1}(x) / K_nu(x)."""
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
    """Return exp(x) K_order(x) for orders in [0, 1]."""
    # For arguments above about 1e9, SciPy returns NaN, and the asymptotic series has machine
    # precision.
    asymptotic = np.sqrt(np.pi / (2.0 * x)) * (
        1.0 + (4.0 * order**2 - 1.0) / (8.0 * x)  # DLMF 10.40.2
    )
    return np.where(x > 1e8, asymptotic, kve(order, np.minimum(x, 1e8)))


def _scaled_pair(fraction: float, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return exp(x) K_a(x) and exp(x) K_{1-a}(x) for a = ``fraction``."""
    # The orders of the evidence are multiples of 1/2, for which faster functions exist.
    if fraction == 0.0:
        return k0e(x), k1e(x)
    if fraction == 0.5:
        half = np.sqrt(np.pi / (2.0 * x))
        return half, half
    a = np.asarray(fraction)
    return scaled_k(a, x), scaled_k(1.0 - a, x)


def _recurrence(nu: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return log K_nu(x) and K_{nu-1}(x) / K_nu(x) by upward recurrence."""
    log_k, ratio = np.empty_like(x), np.empty_like(x)
    fractions = nu - np.floor(nu)
    for fraction in np.unique(fractions):
        columns = np.flatnonzero(fractions == fraction)
        columns = columns[np.argsort(-nu[columns], kind="stable")]  # largest orders first
        z = x[..., columns]
        first, other = _scaled_pair(float(fraction), z)
        log_first, rho = np.log(first) - z, other / first  # K_{-a} = K_a
        n_steps = np.floor(nu[columns]).astype(int)
        for k in range(int(n_steps.max(initial=0))):
            active = (..., slice(0, int(np.sum(n_steps > k))))
            rho[active] = 1.0 / (rho[active] + 2.0 * (fraction + k) / z[active])  # K_m / K_{m+1}
            log_first[active] -= np.log(rho[active])
        log_k[..., columns], ratio[..., columns] = log_first, rho
    return log_k, ratio


def _in_cpu_memory(nu: np.ndarray, x: Array) -> tuple[Array, Array]:
    """Compute `log_kv_and_ratio` at small orders with SciPy."""
    log_k, ratio = _recurrence(nu, to_numpy(x).astype(float))
    return from_numpy(log_k, x, x.dtype), from_numpy(ratio, x, x.dtype)


def _bands(nu: np.ndarray, x: Array, xp: Any) -> np.ndarray:
    """Return the band of each column; 0 if the expansion is inaccurate.

    The terms of the series decrease as powers of 1/sqrt(nu^2 + x^2). For small orders, the
    expansion is therefore accurate if all arguments are large.
    """
    band = np.searchsorted([low for low, _ in _BANDS], nu, side="right")
    small = np.flatnonzero((band == 0) & (nu > 0))
    if small.size and np.prod(x.shape) > 0:
        min_x = to_numpy(xp.min(xp.reshape(x, (-1, nu.size)), axis=0))[small]
        band[small[np.hypot(nu[small], min_x) >= DEBYE_ORDER]] = 1
    return band


def log_kv_and_ratio(nu: Any, x: Array) -> tuple[Array, Array]:
    """Return log K_nu(x) and K_{nu-1}(x) / K_nu(x).

    Orders have shape (m,), and positive arguments have shape (..., m). A formula is chosen for each
    group of columns.
    """
    xp = array_namespace(x)
    nu = np.broadcast_to(np.asarray(nu, dtype=float), (x.shape[-1],))
    if not np.all(nu >= 0):
        raise ValueError(f"`nu` must be non-negative, got {nu.min()}.")
    band = _bands(nu, x, xp)
    order = np.argsort(band, kind="stable")
    is_sorted = bool(np.all(np.diff(order) == 1))
    groups = np.split(order, np.flatnonzero(np.diff(band[order])) + 1)
    parts: list[tuple[Array, ...]] = []
    for columns in groups:
        if len(groups) == 1:
            z = x
        elif is_sorted:
            z = x[..., int(columns[0]) : int(columns[-1]) + 1]
        else:
            z = xp.take(x, from_numpy(columns, x), axis=-1)
        orders, index = nu[columns], band[columns[0]]
        if index == 0:
            values = _in_cpu_memory(orders, z)
        else:
            series = _Debye.at(from_numpy(orders, x, x.dtype), z, _BANDS[index - 1][1], xp)
            values = series.log_kv(), series.ratio()
        parts.append(values)
    log_k, ratio = (p[0] if len(p) == 1 else xp.concat(list(p), axis=-1) for p in zip(*parts))
    if is_sorted:
        return log_k, ratio
    inverse = from_numpy(np.argsort(order), x)
    return xp.take(log_k, inverse, axis=-1), xp.take(ratio, inverse, axis=-1)
