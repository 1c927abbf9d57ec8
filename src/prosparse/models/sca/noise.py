"""Learned noise variances, between equal and free variances.

The noise precisions of a view have a common prior, as for the moderated variances of limma (Smyth
2004):

    tau_i ~ Gamma(d / 2, d s u_i / 2),   mean 1 / (s u_i)

with strength d, level s and known units u_i. For d -> infinity, the noise is equal in these units;
for d -> 0, it is free. The posterior of tau_i given its expected squared residuals r_i over c_i
entries is Gamma((c_i + d) / 2, (r_i + d s u_i) / 2). With tau integrated out, the log marginal
likelihood of a column is

    log Gamma((c + d) / 2) - log Gamma(d / 2) + d / 2 log(d s u) - (c + d) / 2 log(r + d s u)
    - c / 2 log pi ,

which is maximised over (d, s), with d on a grid. Two systems of units are compared: a common unit
for all columns (equal noise variances in the units of the data), and the standard deviations of the
columns (equal proportions of noise).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

# Limits of the strength, in pseudo-samples. At the upper limit, the noise is equal.
MIN_STRENGTH, MAX_STRENGTH = 1.0, 2.0**20
INITIAL_STRENGTH = 2.0**16  # nearly equal noise
# Factors by which the strength is multiplied for comparison in an update.
STRENGTH_FACTORS = (2.0**-6, 0.25, 0.5, 1.0, 2.0, 4.0, 2.0**6)
# Number of updates of the level given the strength.
N_LEVEL_UPDATES = 2


class NoisePrior(NamedTuple):
    """Prior of the noise precisions of each view, in each system of units."""

    strength: np.ndarray  # (H, V) d
    level: np.ndarray  # (H, V) s
    system: int | None = 0  # units in which the noise is nearly equal; None if learned


class LearnedNoise(NamedTuple):
    """Posterior of the noise precisions."""

    tau: np.ndarray  # (p,) means
    prior: NoisePrior
    log_marginal: float


def initial_noise_prior(
    noise: np.ndarray, member: np.ndarray, units: np.ndarray, system: int = 0
) -> NoisePrior:
    """Initialise a prior of nearly equal noise from noise variances (p,)."""
    counts = member.sum(axis=1)
    level = np.stack([counts / (member @ (u / noise)) for u in units])
    return NoisePrior(np.full(level.shape, INITIAL_STRENGTH), level, system)


def update_noise(
    residual: np.ndarray,
    count: np.ndarray,
    member: np.ndarray,
    units: np.ndarray,
    prior: NoisePrior,
) -> LearnedNoise:
    """Update the noise precisions and their prior.

    ``residual`` (p,) contains expected sums of squared residuals of ``count`` (p,) entries, and
    ``member`` (V, p) indicators of the columns of each view. ``units`` has shape (H, p).
    """
    view = np.argmax(member, axis=0)
    strength, level = prior.strength.copy(), prior.level.copy()
    value = np.empty(strength.shape)
    tau = np.empty(units.shape)
    for h, u in enumerate(units):
        for v, rows in enumerate(member.astype(bool)):
            part = residual[rows], count[rows], u[rows]
            strength[h, v], level[h, v], value[h, v] = _update_view(
                *part, float(strength[h, v]), float(level[h, v]), prior.system is None
            )
        d, s = strength[h, view], level[h, view]
        tau[h] = (count + d) / (residual + d * s * u)
    best = np.argmax(value, axis=0)
    if prior.system is not None:
        best[:] = prior.system
    return LearnedNoise(
        tau[best[view], np.arange(view.size)],
        NoisePrior(strength, level, prior.system),
        float(value[best, np.arange(best.size)].sum()),
    )


def _update_view(
    r: np.ndarray, c: np.ndarray, u: np.ndarray, d: float, s: float, learned: bool
) -> tuple[float, float, float]:
    """Update strength and level of a view; also return the log likelihood."""
    for _ in range(N_LEVEL_UPDATES):
        # This is the stationary point given the weights; the log marginal likelihood is concave in
        # log s.
        weight = 1.0 / (r + d * s * u)
        level = float(np.sum(weight * r) / np.sum(weight * c * u))
        if not log_marginal(r, c, u, d, level) > log_marginal(r, c, u, d, s):
            break
        s = level
    factors = np.array(STRENGTH_FACTORS if learned else (1.0,))
    options = np.clip(d * factors, MIN_STRENGTH, MAX_STRENGTH)
    values = [log_marginal(r, c, u, float(option), s) for option in options]
    best = int(np.argmax(values))
    return float(options[best]), s, float(values[best])


def log_marginal(r: np.ndarray, c: np.ndarray, u: np.ndarray, d: float, s: float) -> float:
    """Compute the log marginal likelihood of the residuals of a view."""
    shared = d * s * u
    entries = gammaln(0.5 * (c + d)) - gammaln(0.5 * d) - 0.5 * c * np.log(math.pi * shared)
    return float(np.sum(entries - 0.5 * (c + d) * np.log1p(r / shared)))
