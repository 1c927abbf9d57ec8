"""Priors on the coefficients: two scales, or a common magnitude.

Both priors have probability 1/2 and are compared by evidence.

Two scales. The coefficients are independent, w_j ~ N(0, c_j^2 sigma2 / lambda), where c_j is 1
(small) or `SCALE_RATIO` (large). With a single scale, a few large coefficients among many small
ones would be shrunk too much, or the small coefficients would be too improbable. Each active
variable has the large scale with probability theta ~ Beta(1/2, 1/2). A given set of k large
variables has the prior B(1/2 + k, 1/2 + q - k) / B(1/2, 1/2), which favours equal scales. For the
columns c_j x_j, denoted by X_v, all coefficients have the same variance.

Common magnitude. w_j = s_j (mu + u_j) with signs s_j of probability 1/2,
mu ~ N(0, rho sigma2 / lambda) and u_j ~ N(0, sigma2 / lambda). With a common sign, each sign is
positive with probability theta ~ Beta(1/2, 1/2). With mu integrated out, the q coefficients have

    Cov w = sigma2 / lambda (I + rho s s') ,      its inverse  lambda / sigma2 (I - g_q s s') ,

with g_q = rho / (1 + rho q). s and -s are the same model, because mu may be negative; by
convention, s_1 = 1. The coefficient of a single variable has prior variance tau^2 = (1 + rho) /
lambda, for a column of unit variance and relative to the noise.

Density. With s = 0 for independent coefficients,

    W = X_v'X_v + lambda (I - g_q s s') ,    P = W^-1 ,    m = P X_v'y ,    R = y'y - (X_v'y)'m ;

    log p(y | v, ...) = -f/2 log R - 1/2 log det(W / lambda) - 1/2 log(1 + rho q)

up to a constant, with f degrees of freedom of y. From P_0 = (X_v'X_v + lambda I)^-1,
t = s'P_0 s and c = s'P_0 X_v'y, with h = lambda g_q,

    P = P_0 + h / (1 - h t) P_0 s s'P_0 ,    R = R_0 - h c^2 / (1 - h t) ,
    log det W = log det W_0 + log(1 - h t) ,

so that the density at every lambda and rho follows from the eigenvalues of X_v'X_v. With several
responses, coefficients are always independent, and the logarithms of the residual sums R_k and of
the determinants are added.

Neighbours. With one additional variable, g_q becomes g = g_(q+1), which changes W by (h - lambda g)
s s' before x_j is added. Let P, m and R denote the values after this change. With the scale c_j or
the sign s_j,

    k_j = c_j X_v'x_j - lambda g s_j s ,    S_j = c_j^2 x_j'x_j + lambda (1 - g) - k_j'P k_j ,
    e_j = c_j x_j'y - k_j'm ,    R decreases by e_j^2 / S_j ,    det W is multiplied by S_j .

Without variable i of the set, the inverse of the remaining part of W is T = P - P_i P_i' / P_ii,
with S_i = 1 / P_ii and e_i = m_i / P_ii, and

    s'T s = s'P s - (P s)_i^2 / P_ii ,        s'T X_v'y = s'm - (P s)_i m_i / P_ii ,

followed by the change of g_q to g_(q-1). A change of the scale by a factor r changes S_i to lambda
+ r^2 (1 / P_ii - lambda) and e_i by r. For a change of the sign of i, k_i'T s = s_i - (P s)_i /
P_ii gives S_i and e_i after the change of k_i by 2 lambda g_q s_i s.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg.lapack import dsyevd
from scipy.special import betaln, expit

if TYPE_CHECKING:
    from .linear import LinearModel

SCALE_RATIO = 8.0  # ratio of the large to the small scale
LABEL_SHAPE = 0.5  # parameter of the beta prior of the proportion of large coefficients
SCATTER = 0.25  # standard deviation of u_j relative to mu: rho = 1 / SCATTER^2
MIN_REMAINING = 1e-12  # minimum residual proportion of R
DOUBLINGS = 4  # number of powers of two of tau on either side of its best value
MAX_DOUBLING = 16  # maximum log2 of tau; for larger tau, lambda is below the rounding error of X'X
GRID_RATE = 0.25  # rate of jumps between grid points of equal density; 1 would dominate the process

# Each variable of a set has a mark, 0 or 1, for a small or large scale, or for a negative or
# positive sign.
SCALES, SIGNS = np.array([1.0, SCALE_RATIO]), np.array([-1.0, 1.0])


class PriorGrid(NamedTuple):
    """Grid of lambda, first for two scales, then for a common magnitude."""

    log_ratio: np.ndarray  # (A,) log lambda
    rho: np.ndarray  # (A,) 0 for two scales
    log_prior: np.ndarray  # (A,) log prior probability

    @property
    def n_independent(self) -> int:
        """Number of grid points with independent coefficients of two scales."""
        return int(np.count_nonzero(self.rho == 0.0))

    def part(self, common: bool) -> PriorGrid:
        """Return the grid points of a common magnitude, or of independence."""
        at = slice(self.n_independent, None) if common else slice(self.n_independent)
        return PriorGrid(*(each[at] for each in self))


class SetPrior(NamedTuple):
    """Prior on sets and coefficients."""

    log_prior: np.ndarray  # (p + 1,) log prior of a set of 0, ..., p variables; -inf if too large
    grid: PriorGrid
    dof: float  # degrees of freedom of y


def make_prior_grid(model: LinearModel, best: float) -> PriorGrid:
    """Build a grid of powers of two of tau around the log lambda ``best``.

    tau is the prior standard deviation of a (small) coefficient of a column of unit variance,
    relative to the noise. The prior probabilities follow from the half-Cauchy density 2 / (pi (1 +
    tau^2)). The powers are the same for all data, so that rounding of ``best`` has no effect.
    Coefficients below 1/sqrt(n) in each of m responses, or 1/sqrt(n m), are not detectable and are
    excluded.
    """
    unit = math.log(float(model.d.mean()) / model.n)  # log lambda for tau = 1
    lowest = math.ceil(-0.5 * math.log2(model.n * model.yy.size))
    middle = (unit - best) / (2.0 * math.log(2.0))  # log2 of the best tau
    centre = round(min(max(middle, lowest + DOUBLINGS), MAX_DOUBLING - DOUBLINGS))
    log_tau = math.log(2.0) * np.arange(max(centre - DOUBLINGS, lowest), centre + DOUBLINGS + 1)
    # The density of log tau is tau times the density of tau.
    log_prior = log_tau - np.logaddexp(0.0, 2.0 * log_tau)
    log_prior -= np.logaddexp.reduce(log_prior)
    kinds = [0.0, 1.0 / SCATTER**2] if model.yy.size == 1 else [0.0]
    rho = np.repeat(kinds, log_tau.size)
    return PriorGrid(
        np.tile(unit - 2.0 * log_tau, len(kinds)) + np.log1p(rho),  # tau^2 = (1 + rho) / lambda
        rho,
        np.tile(log_prior, len(kinds)) - math.log(len(kinds)),
    )


@cache
def log_label_prior(q: int) -> np.ndarray:
    """Compute the log prior of labels of which 0, ..., q are large, (q + 1,)."""
    k = np.arange(q + 1)
    log_prior: np.ndarray = betaln(LABEL_SHAPE + k, LABEL_SHAPE + q - k) - betaln(
        LABEL_SHAPE, LABEL_SHAPE
    )
    return log_prior


@cache
def log_sign_prior(q: int, common: bool) -> np.ndarray:
    """Compute the log prior of 0, ..., q positive signs with s_1 = 1, (q + 1,)."""
    if common and q:
        return math.log(2.0) + log_label_prior(q)
    return np.full(q + 1, -max(q - 1, 0) * math.log(2.0))


def positive_signs(m: np.ndarray) -> np.ndarray:
    """Return the marks of the signs of m, (q,) or (q, K), first positive."""
    positive = m >= 0.0
    marks: np.ndarray = (positive == positive[:1]).astype(int)
    return marks


def mark_patterns(q: int, common: bool) -> np.ndarray:
    """List the patterns of labels, or of signs with the first positive, (M, q)."""
    free = max(q - 1, 0) if common else q
    bits = (np.arange(2**free)[:, None] >> np.arange(free)) & 1
    patterns = np.ones((bits.shape[0], q), dtype=int)
    patterns[:, q - free :] = bits
    return patterns


class SetDensities(NamedTuple):
    """Marked sets of equal size at the A grid points of one prior."""

    v: np.ndarray  # (S, q)
    U: np.ndarray  # (S, q, q) C U, with eigenvectors U of C X_v'X_v C and C = diag(c)
    c: np.ndarray  # (S, q, m) U'C X_v'Y
    eigenvalues: np.ndarray  # (S, A, q) of C X_v'X_v C + lambda I
    signs: np.ndarray  # (S, q), zero for independent coefficients
    gain_factor: np.ndarray  # (S, A) h / (1 - h t)
    R: np.ndarray  # (S, A, m)
    log_density: np.ndarray  # (S, A) log p(Y | v, marks, lambda, rho) + log p(marks, lambda, rho)


def set_densities(
    model: LinearModel, prior: SetPrior, v: np.ndarray, marks: np.ndarray, common: bool
) -> SetDensities:
    """Compute the log densities of sets ``v`` with ``marks``, both (S, q)."""
    grid, q, m = prior.grid.part(common), v.shape[1], model.yy.size
    lam, scale = np.exp(grid.log_ratio), np.ones(v.shape) if common else SCALES[marks]
    G = model.G[v[:, :, None], v[:, None, :]] * (scale[:, :, None] * scale[:, None, :])
    e, U = np.linalg.eigh(G)
    c = np.swapaxes(U, 1, 2) @ (scale[:, :, None] * model.B[v])
    eigenvalues = np.maximum(e, 0.0)[:, None, :] + lam[:, None]
    inverse = 1.0 / eigenvalues
    R = model.yy - inverse @ (c * c)
    log_det = np.log(eigenvalues / lam[:, None]).sum(axis=-1)
    signs = SIGNS[marks] if common else np.zeros(v.shape)
    if common:
        u = np.einsum("sij,si->sj", U, signs)[:, None]
        t, cross = (u * u * inverse).sum(axis=-1), (u * c[:, None, :, 0] * inverse).sum(axis=-1)
        h = lam * grid.rho / (1.0 + grid.rho * q)
        gain_factor = h / (1.0 - h * t)
        R = R - (gain_factor * cross * cross)[..., None]
        log_det = log_det + np.log1p(grid.rho * q) + np.log1p(-h * t)
        log_signs = log_sign_prior(q, model.common_sign)
        log_prior = log_signs[marks.sum(axis=1)]
    else:
        gain_factor = np.zeros(log_det.shape)
        log_prior = log_label_prior(q)[marks.sum(axis=1)]
    R = np.maximum(R, prior.dof * model.noise_floor)
    log_density = -0.5 * (prior.dof * np.log(R).sum(axis=-1) + m * log_det)
    log_density += grid.log_prior + log_prior[:, None]
    return SetDensities(
        v, scale[:, :, None] * U, c, eigenvalues, signs, gain_factor, R, log_density
    )


class StateRates(NamedTuple):
    """Jump rates of a state, that is, of a marked set at one grid point."""

    # Rates (2 p + q + A,) of flips of each variable with mark 0, flips with mark 1, changes of the
    # mark of each variable of the set, and jumps to each grid point. Rates of other jumps are
    # appended by `linear_states`.
    rates: np.ndarray
    inclusion: np.ndarray  # (p,) inclusion probability of each variable given all others
    signs: np.ndarray  # (q,) marks after a jump to a common magnitude
    log_density: np.ndarray  # (A,) log density after a jump to each grid point


class SetPosterior(NamedTuple):
    """P, m and R of a set at one grid point, in the notation of the module."""

    v: np.ndarray  # (q,)
    marks: np.ndarray  # (q,)
    b: np.ndarray  # (q, m) X_v'Y
    P: np.ndarray  # (q, q)
    m: np.ndarray  # (q, m)
    R: np.ndarray  # (m,)
    lam: float
    rho: float
    common_sign: bool  # whether the prior favours equal signs

    @property
    def scales(self) -> np.ndarray:
        """Scales c, (q,)."""
        scales: np.ndarray = np.ones(self.v.size) if self.rho else SCALES[self.marks]
        return scales

    @property
    def signs(self) -> np.ndarray:
        """Signs s, (q,); zero for independent coefficients."""
        signs: np.ndarray = SIGNS[self.marks] if self.rho else np.zeros(self.v.size)
        return signs

    def magnitude_precision(self, q: int) -> float:
        """Compute lambda g_q for q variables."""
        return self.lam * self.rho / (1.0 + self.rho * q)

    def log_mark_prior(self, q: int, n_large: np.ndarray) -> np.ndarray:
        """Compute the log prior of q marks by number of large coefficients, (K,)."""
        if self.rho:
            return log_sign_prior(q, self.common_sign)[n_large]
        return log_label_prior(q)[n_large]


def state_rates(
    model: LinearModel, prior: SetPrior, v: np.ndarray, marks: np.ndarray, a: int
) -> StateRates:
    """Compute the jump rates of the sorted set ``v`` at grid point ``a``.

    A jump from small coefficients to a common magnitude sets the signs to those of m, and the
    reverse jump is possible only from these signs, so that every jump is reversible. This function
    dominates the run time. P at this grid point and the density at all grid points follow from one
    eigendecomposition, as in `set_densities` but with fewer calls.
    """
    grid, q, independent = prior.grid, v.size, prior.grid.n_independent
    lams, rho = np.exp(grid.log_ratio), float(grid.rho[a])
    scale = np.ones(q) if rho else SCALES[marks]
    signs, reachable = np.zeros(0, dtype=int), np.ones(grid.rho.size, dtype=bool)
    b = model.B.take(v, axis=0) * scale[:, None]
    if q:
        e, U, _ = dsyevd(model.gram(v) * scale * scale[:, None])
        inverse = 1.0 / (np.maximum(e, 0.0)[:, None] + lams)
        c = U.T.dot(b)  # (q, m)
        R = model.yy - inverse.T.dot(c * c)  # (A, m)
        log_det = -np.log(inverse * lams).sum(axis=0)
        P = (U * inverse[:, a]).dot(U.T)
        n_large = 0 if rho else int(marks.sum())
        log_prior = np.full(lams.size, log_label_prior(q)[n_large])
        if independent < lams.size:
            if n_large:  # A common magnitude is reached only from small coefficients.
                reachable[independent:] = False
            means = U.dot(c * inverse[:, :independent])  # for small coefficients
            signs = marks if rho else positive_signs(means[:, a])
            s = SIGNS[signs]
            if rho:
                reachable[:independent] = (positive_signs(means) == signs[:, None]).all(axis=0)
            u, h = s.dot(U), lams * grid.rho / (1.0 + grid.rho * q)
            t, cross = (u * u).dot(inverse), (u * c[:, 0]).dot(inverse)
            R = R - (h / (1.0 - h * t) * cross * cross)[:, None]
            log_det += np.log1p(grid.rho * q) + np.log1p(-h * t)
            log_prior[independent:] = log_sign_prior(q, model.common_sign)[signs.sum()]
            if rho:
                Ps = P.dot(s)
                P += np.outer(Ps, (h[a] / (1.0 - h[a] * t[a])) * Ps)
        R = np.maximum(R, prior.dof * model.noise_floor)
        log_density = prior.dof * np.log(R).sum(axis=1) + model.yy.size * log_det
        log_density = grid.log_prior + log_prior - 0.5 * log_density
        R_a = R[a]
    else:
        P, R_a = np.zeros((0, 0)), model.yy
        log_density = grid.log_prior - 0.5 * prior.dof * float(np.log(model.yy).sum())
    to_grid = np.where(reachable, GRID_RATE * expit(log_density - log_density[a]), 0.0)
    to_grid[a] = 0.0
    lam, common_sign = float(lams[a]), model.common_sign
    posterior = SetPosterior(v, marks, b, P, P.dot(b), R_a, lam, rho, common_sign)
    additions = mark_additions(model, prior, posterior)
    removals, changes = mark_removals(prior, posterior)
    odds = np.logaddexp.reduce(additions, axis=0)  # log odds of each variable given all others
    odds[v] = np.logaddexp(0.0, changes) - removals
    additions[:, v] = -math.inf
    additions[-1, v] = removals
    rates = np.concatenate([expit(additions).ravel(), expit(changes), to_grid])
    return StateRates(rates, expit(odds), signs, log_density)


def mark_additions(model: LinearModel, prior: SetPrior, posterior: SetPosterior) -> np.ndarray:
    """Compute the gains of adding each variable with each mark, (2, p).

    A single variable with a common magnitude has a positive sign by convention.
    """
    P, m, R, lam, rho = posterior[3:8]
    q, s, n_large = posterior.v.size, posterior.signs, int(posterior.marks.sum())
    scales, signs = (np.ones(2), SIGNS) if rho else (SCALES, np.zeros(2))
    more = prior.log_prior[q + 1] - prior.log_prior[q] if q < model.d.size else -math.inf
    more += posterior.log_mark_prior(q + 1, n_large + np.arange(2))
    more -= posterior.log_mark_prior(q, np.array(n_large))
    if rho and not q:
        more[0] = -math.inf
    cross, log_det, h = model.G.take(posterior.v, axis=1) * posterior.scales, 0.0, 0.0
    if rho:
        h = posterior.magnitude_precision(q + 1)
        Ps, change = P.dot(s), posterior.magnitude_precision(q) - h
        factor = 1.0 + change * float(Ps.dot(s))
        P = P - np.outer(Ps, (change / factor) * Ps)
        m = P.dot(posterior.b)
        R = model.yy - (posterior.b * m).sum(axis=0)
        log_det = math.log(factor * (1.0 + rho * (q + 1)) / (1.0 + rho * q))
    rest = np.maximum(model.d - np.einsum("ij,ij->i", cross.dot(P), cross), 0.0)
    S = np.multiply.outer(scales**2, rest) + (lam - h)
    e = scales[:, None, None] * (model.B - cross.dot(m))
    if rho and q:
        Ps = P.dot(s)
        S += np.multiply.outer(2.0 * h * signs, cross.dot(Ps)) - h**2 * float(Ps.dot(s))
        e += (h * signs)[:, None, None] * s.dot(m)
    # S is bounded below by its prior term, so that copies of active variables have no gain due to
    # rounding errors.
    S = np.maximum(S, lam / (1.0 + rho))
    remaining = np.maximum((R - e * e / S[..., None]) / posterior.R, MIN_REMAINING)
    fits = prior.dof * np.log(remaining).sum(axis=-1)
    gains: np.ndarray = more[:, None] - 0.5 * (fits + R.size * (np.log(S / lam) + log_det))
    return gains


def mark_removals(prior: SetPrior, posterior: SetPosterior) -> tuple[np.ndarray, np.ndarray]:
    """Compute the gains of removals and of changes of the mark, (q,)."""
    _, marks, _, P, m, R, lam, rho, _ = posterior
    q, s, dof, n_large = marks.size, posterior.signs, prior.dof, int(marks.sum())
    if q == 0:
        return np.zeros(0), np.zeros(0)
    P_ii, now = P.diagonal(), posterior.log_mark_prior(q, np.array(n_large))
    S, e = 1.0 / P_ii, m / P_ii[:, None]  # S_i and e_i given all others
    growth = 1.0 + m * e / R  # residual sums without variable i, relative to R
    Ps = P.dot(s)
    total = float(Ps.dot(s)) - Ps * Ps * S  # s'T s
    c = s.dot(m) - Ps[:, None] * e  # s'T X_v'y
    h = posterior.magnitude_precision(q)
    change = posterior.magnitude_precision(q - 1) - h
    shrunk = 1.0 - change * total
    remaining = np.maximum(growth - (change / shrunk)[:, None] * c * c / R, MIN_REMAINING)
    log_det = np.log(lam * P_ii * shrunk * (1.0 + rho * (q - 1)) / (1.0 + rho * q))
    removals = prior.log_prior[q - 1] - prior.log_prior[q] - now
    removals = removals + posterior.log_mark_prior(q - 1, n_large - marks)
    removals = removals - 0.5 * (dof * np.log(remaining).sum(axis=1) + R.size * log_det)
    if rho:
        after = S - 4.0 * h * (1.0 - s * Ps * S) - 4.0 * h**2 * total
        e = e - 2.0 * h * s[:, None] * c
    else:
        ratios = SCALES[1 - marks] / SCALES[marks]
        after, e = lam + ratios**2 * np.maximum(S - lam, 0.0), ratios[:, None] * e
    after = np.maximum(after, lam / (1.0 + rho))
    remaining = np.maximum(growth - e * e / (after[:, None] * R), MIN_REMAINING)
    changes = posterior.log_mark_prior(q, n_large + 1 - 2 * marks) - now
    changes = changes - 0.5 * (dof * np.log(remaining).sum(axis=1) + R.size * np.log(after * P_ii))
    if rho and q == 1:  # s and -s are the same model.
        changes = np.full(1, -np.inf)
    return removals, changes
