"""Prior on the coefficients: independent, or of a common magnitude.

With prior probability 1/2 the coefficients are independent, w_j ~ N(0, sigma2 / lambda).
Otherwise they have a common magnitude, w_j = s_j (mu + u_j) with signs s_j,
mu ~ N(0, rho sigma2 / lambda) and u_j ~ N(0, sigma2 / lambda). With mu integrated out, the q
coefficients of a set v with signs s have

    Cov w = sigma2 / lambda (I + rho s s') ,      its inverse  lambda / sigma2 (I - g_q s s') ,

with g_q = rho / (1 + rho q). Write

    W = X_v'X_v + lambda (I - g_q s s') ,    P = W^-1 ,    m = P X_v'y ,    R = y'y - (X_v'y)'m ;

    log p(y | v, s, lambda, rho) = -f/2 log R - 1/2 log det(W / lambda) - 1/2 log(1 + rho q)

up to a constant, with f degrees of freedom of y; rho = 0 gives independent coefficients, without
signs. From P_0 = (X_v'X_v + lambda I)^-1, t = s'P_0 s and c = s'P_0 X_v'y, with h = lambda g_q,

    P = P_0 + h / (1 - h t) P_0 s s'P_0 ,    R = R_0 - h c^2 / (1 - h t) ,
    log det W = log det W_0 + log(1 - h t) ,

so the eigenvalues of X_v'X_v give the density at every lambda and rho. Several responses have
independent coefficients: the logarithms of their residual sums R_k and of the determinants add up.

Signs. A proportion theta of the signs is positive, theta ~ Beta(1/2, 1/2). s and -s are the same
model, because mu may be negative. The model has the prior
2 B(1/2 + k, 1/2 + q - k) / B(1/2, 1/2) if k signs are positive, and is written with s_1 = 1. A
single variable has no sign, and its density does not depend on rho: its prior variance is
tau^2 = (1 + rho) / lambda, for a column of unit variance and relative to the noise.

Neighbours. With one additional variable g_q becomes g = g_(q+1), which changes W by
(h - lambda g) s s' before x_j is added. Let P, m and R be those after this change. As for
independent coefficients (`linear`), with the sign s_j,

    k_j = X_v'x_j - lambda g s_j s ,    S_j = x_j'x_j + lambda (1 - g) - k_j'P k_j ,
    e_j = x_j'y - k_j'm ,    R decreases by e_j^2 / S_j ,    det W is multiplied by S_j ,

and k_j'P k_j needs, for all j at once, only P X_v'x_j and one more vector, X'X_v P s. Without
variable i of the set, the inverse of the remaining part of W is T = P - P_i P_i' / P_ii, with

    s'T s = s'P s - (P s)_i^2 / P_ii ,        s'T X_v'y = s'm - (P s)_i m_i / P_ii ,

and then g_q becomes g_(q-1). For a change of the sign of i, k_i'T s = s_i - (P s)_i / P_ii gives
S_i and e_i after the change of k_i by 2 lambda g_q s_i s.
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

MIN_REMAINING = 1e-12  # minimum of the remaining proportion of R
SCATTER = 0.25  # standard deviation of u_j relative to mu: rho = 1 / SCATTER^2
COMMON_PROBABILITY = 0.5  # prior probability of a common magnitude
SIGN_SHAPE = 0.5  # parameter of the beta prior of the proportion of positive signs
DOUBLINGS = 4  # number of powers of two of tau on either side of its best value
MAX_DOUBLING = 16  # maximum log2 of tau; beyond, lambda is lost in the rounding of X'X
GRID_RATE = 0.25  # rate of jumps between grid points of equal density; 1 would dominate the process


class PriorGrid(NamedTuple):
    """Grid of lambda and rho with prior probabilities."""

    log_ratio: np.ndarray  # (A,) log lambda
    rho: np.ndarray  # (A,) 0 for independent coefficients, which come first
    log_prior: np.ndarray  # (A,) log prior probability

    @property
    def n_independent(self) -> int:
        """Number of grid points with independent coefficients."""
        return int(np.count_nonzero(self.rho == 0.0))

    def independent(self) -> PriorGrid:
        """Return the grid points with independent coefficients."""
        return PriorGrid(*(each[: self.n_independent] for each in self))

    def common(self) -> PriorGrid:
        """Return the grid points with a common magnitude."""
        return PriorGrid(*(each[self.n_independent :] for each in self))


class SetPrior(NamedTuple):
    """Prior on sets and coefficients."""

    log_prior: np.ndarray  # (p + 1,) of a set of 0 .. p variables, -inf if too large
    grid: PriorGrid
    dof: float  # degrees of freedom of y


def make_prior_grid(model: LinearModel, best: float) -> PriorGrid:
    """Build a grid of powers of two of tau around the log lambda ``best``.

    tau is the prior standard deviation of the coefficient of a column of unit variance, relative to
    the noise. Its half-Cauchy density 2 / (pi (1 + tau^2)) gives the prior probabilities. The
    powers are the same for all data, so rounding of ``best`` has no effect. Coefficients far below
    1/sqrt(n) are not detectable and are excluded. Several responses have independent coefficients.
    """
    unit = math.log(float(model.d.mean()) / model.n)  # log lambda for tau = 1
    lowest = math.floor(-0.5 * math.log2(model.n)) - 1
    middle = (unit - best) / (2.0 * math.log(2.0))  # log2 of the best tau
    centre = round(min(max(middle, lowest + DOUBLINGS), MAX_DOUBLING - DOUBLINGS))
    log_tau = math.log(2.0) * np.arange(max(centre - DOUBLINGS, lowest), centre + DOUBLINGS + 1)
    # The density of log tau is tau times the density of tau.
    log_prior = log_tau - np.logaddexp(0.0, 2.0 * log_tau)
    log_prior -= np.logaddexp.reduce(log_prior)
    if model.yy.size > 1:
        return PriorGrid(unit - 2.0 * log_tau, np.zeros(log_tau.size), log_prior)
    rho = np.repeat([0.0, 1.0 / SCATTER**2], log_tau.size)
    return PriorGrid(
        np.tile(unit - 2.0 * log_tau, 2) + np.log1p(rho),  # tau^2 = (1 + rho) / lambda
        rho,
        np.tile(log_prior, 2)
        + np.log(np.where(rho > 0.0, COMMON_PROBABILITY, 1.0 - COMMON_PROBABILITY)),
    )


@cache
def log_sign_prior(q: int) -> np.ndarray:
    """Compute the (q + 1,) log prior of signs of which 0 .. q are positive."""
    if q == 0:
        return np.zeros(1)
    plus = np.arange(q + 1)
    log_prior: np.ndarray = (
        math.log(2.0)
        + betaln(SIGN_SHAPE + plus, SIGN_SHAPE + q - plus)
        - betaln(SIGN_SHAPE, SIGN_SHAPE)
    )
    return log_prior


def normalise_signs(m: np.ndarray) -> np.ndarray:
    """Return the signs of m, (q,) or (q, K); the first is positive."""
    s = np.where(m < 0.0, -1.0, 1.0)
    return s * s[:1]


def sign_patterns(q: int) -> np.ndarray:
    """Return the (M, q) sign patterns with a positive first sign."""
    bits = (np.arange(2 ** max(q - 1, 0))[:, None] >> np.arange(max(q - 1, 0))) & 1
    patterns = np.ones((bits.shape[0], q))
    patterns[:, 1:] -= 2.0 * bits
    return patterns


class Spectrum(NamedTuple):
    """Eigendecompositions of X_v'X_v for sets of equal size."""

    e: np.ndarray  # (S, q) eigenvalues
    U: np.ndarray  # (S, q, q) eigenvectors
    c: np.ndarray  # (S, q, m) U'X_v'Y


def spectrum(model: LinearModel, v: np.ndarray) -> Spectrum:
    """Compute the eigendecompositions of the sets ``v`` of shape (S, q)."""
    e, U = np.linalg.eigh(model.G[v[:, :, None], v[:, None, :]])
    return Spectrum(np.maximum(e, 0.0), U, np.swapaxes(U, 1, 2) @ model.B[v])


class Densities(NamedTuple):
    """Log densities of sets with M sign patterns at all points of a grid."""

    signs: np.ndarray  # (S or 1, M, q)
    eigenvalues: np.ndarray  # (S, A, q) eigenvalues of X_v'X_v + lambda I
    gain_factor: np.ndarray  # (S, M, A) h / (1 - h t)
    c: np.ndarray  # (S, M, A)
    R: np.ndarray  # (S, M, A, m)
    log_density: np.ndarray  # (S, M, A) log p(Y | v, s, lambda, rho) + log p(s, lambda, rho)


def densities(
    model: LinearModel,
    prior: SetPrior,
    grid: PriorGrid,
    spectra: Spectrum,
    signs: np.ndarray | None = None,
) -> Densities:
    """Compute log densities of sets, without ``signs`` if independent.

    ``signs`` of shape (S or 1, M, q) holds the signs of coefficients of a common magnitude.
    """
    lam, q, m = np.exp(grid.log_ratio), spectra.e.shape[1], model.yy.size
    eigenvalues = spectra.e[:, None, :] + lam[:, None]
    inverse = 1.0 / eigenvalues  # (S, A, q)
    R = (model.yy - inverse @ (spectra.c * spectra.c))[:, None]  # (S, 1, A, m)
    log_det = np.log(eigenvalues / lam[:, None]).sum(axis=-1)[:, None, :] + np.log1p(grid.rho * q)
    if signs is None:
        signs, log_prior = np.zeros((1, 1, q)), np.zeros((1, 1))
    else:
        log_prior = log_sign_prior(q)[np.count_nonzero(signs > 0.0, axis=-1)]
    u, inverse = signs @ spectra.U, np.swapaxes(inverse, 1, 2)  # (S, M, q), (S, q, A)
    t, c = (u * u) @ inverse, (u * spectra.c[:, None, :, 0]) @ inverse
    h = lam * grid.rho / (1.0 + grid.rho * q)
    gain_factor = h / (1.0 - h * t)
    R = np.maximum(R - (gain_factor * c * c)[..., None], prior.dof * model.noise_floor)
    log_det = log_det + np.log1p(-h * t)
    log_density = -0.5 * (prior.dof * np.log(R).sum(axis=-1) + m * log_det)
    log_density = log_density + grid.log_prior + log_prior[:, :, None]
    return Densities(signs, eigenvalues, gain_factor, c, R, log_density)


class StateRates(NamedTuple):
    """Jump rates of a state: a set with signs at one grid point."""

    # (2 p + q + A,) rates of: flips of each variable, added with a positive sign; flips with a
    # negative sign; sign changes of the variables of the set; jumps to each grid point. Rates of
    # jumps between distant sets are appended by `linear_states.JumpTargets`.
    rates: np.ndarray
    inclusion: np.ndarray  # (p,) inclusion probability of each variable given all others
    signs: np.ndarray  # (q,) signs of a common magnitude, also if coefficients are independent
    log_density: np.ndarray  # (A,) at every grid point, with these signs


class SetPosterior(NamedTuple):
    """P, m and R of a set at one grid point, in the notation of the module."""

    v: np.ndarray  # (q,)
    s: np.ndarray  # (q,)
    P: np.ndarray  # (q, q)
    m: np.ndarray  # (q, m)
    R: np.ndarray  # (m,)
    lam: float
    rho: float

    def magnitude_precision(self, q: int) -> float:
        """Return lambda g_q for q variables."""
        return self.lam * self.rho / (1.0 + self.rho * q)


def state_rates(
    model: LinearModel, prior: SetPrior, v: np.ndarray, signs: np.ndarray | None, a: int
) -> StateRates:
    """Compute the jump rates of the set ``v`` at grid point ``a``.

    A jump from independent coefficients to a common magnitude sets the signs to those of m. The
    reverse jump is possible only from these signs, so every jump is reversible. This function
    dominates the running time. One eigendecomposition gives P at this grid point and the density at
    all of them, as in `densities` but with fewer calls.
    """
    grid, q, n_independent = prior.grid, v.size, prior.grid.n_independent
    lams = np.exp(grid.log_ratio)
    lam, rho, b = float(lams[a]), float(grid.rho[a]), model.B.take(v, axis=0)
    if q:
        e, U, _ = dsyevd(model.gram(v))
        inverse = 1.0 / (np.maximum(e, 0.0)[:, None] + lams)
        c = U.T.dot(b)  # (q, m)
        R = model.yy - inverse.T.dot(c * c)  # (A, m)
        log_det = -np.log(inverse * lams).sum(axis=0)
        P, s = (U * inverse[:, a]).dot(U.T), np.ones(q)
        if n_independent < lams.size:
            # (q, K) posterior means of independent coefficients
            means = U.dot(c * inverse[:, :n_independent])
            s = normalise_signs(means[:, a]) if signs is None else signs
            u, h = s.dot(U), lams * grid.rho / (1.0 + grid.rho * q)
            t, cross = (u * u).dot(inverse), (u * c[:, 0]).dot(inverse)
            R = R - (h / (1.0 - h * t) * cross * cross)[:, None]
            log_det += np.log1p(grid.rho * q) + np.log1p(-h * t)
            if rho:
                Ps = P.dot(s)
                P += np.outer(Ps, (h[a] / (1.0 - h[a] * t[a])) * Ps)
        R = np.maximum(R, prior.dof * model.noise_floor)
        log_density = prior.dof * np.log(R).sum(axis=1) + model.yy.size * log_det
        log_density = grid.log_prior - 0.5 * log_density
        log_density[n_independent:] += log_sign_prior(q)[np.count_nonzero(s > 0.0)]
        posterior = SetPosterior(v, s, P, P.dot(b), R[a], lam, rho)
    else:
        log_density = grid.log_prior - 0.5 * prior.dof * float(np.log(model.yy).sum())
        posterior = SetPosterior(v, np.zeros(0), np.zeros((0, 0)), b, model.yy, lam, rho)
    to_grid = GRID_RATE * expit(log_density - log_density[a])
    to_grid[a] = 0.0
    if signs is not None and q:
        to_grid[:n_independent][(normalise_signs(means) != signs[:, None]).any(axis=0)] = 0.0
    additions = addition_gains(model, prior, posterior, b)
    removals, sign_changes = removal_and_sign_gains(prior, posterior)
    odds = np.logaddexp.reduce(additions, axis=0)  # log odds of each variable given all others
    odds[v] = np.logaddexp(0.0, sign_changes) - removals
    rates = expit(additions)
    rates[:, v] = 0.0
    rates[0, v] = expit(removals)
    if rates.shape[0] == 1:
        rates = np.concatenate([rates, np.zeros_like(rates)])
    all_rates = np.concatenate([rates.ravel(), expit(sign_changes), to_grid])
    return StateRates(all_rates, expit(odds), posterior.s, log_density)


def addition_gains(
    model: LinearModel, prior: SetPrior, posterior: SetPosterior, b: np.ndarray
) -> np.ndarray:
    """Compute (1 or 2, p) increases of the log posterior by additions.

    The rows are positive and negative signs. There is one row for the first variable of a set and
    for independent coefficients, which have no sign.
    """
    q, lam, n_responses = posterior.v.size, posterior.lam, model.yy.size
    P, m, R = posterior.P, posterior.m, posterior.R
    h = posterior.magnitude_precision(q + 1)
    log_det = math.log((1.0 + posterior.rho * (q + 1)) / (1.0 + posterior.rho * q)) - math.log(lam)
    more = prior.log_prior[q + 1] - prior.log_prior[q] if q < model.d.size else -math.inf
    cross = model.G.take(posterior.v, axis=1)
    signed = posterior.rho > 0.0 and q > 0
    if signed:
        Ps, change = P.dot(posterior.s), posterior.magnitude_precision(q) - h
        factor = 1.0 + change * float(Ps.dot(posterior.s))
        P = P - np.outer(Ps, (change / factor) * Ps)
        m = P.dot(b)
        R = model.yy - (b * m).sum(axis=0)
        log_det += math.log(factor)
    S = (model.d + (lam - h) - np.einsum("ij,ij->i", cross.dot(P), cross))[None]
    e = (model.B - cross.dot(m))[None]  # (1, p, m)
    if signed:
        Ps = P.dot(posterior.s)
        both, shift = 2.0 * h * cross.dot(Ps), h * float(posterior.s.dot(m[:, 0]))
        S = S - h**2 * float(Ps.dot(posterior.s)) + np.stack([both, -both])
        e = e + np.array([[[shift]], [[-shift]]])
        plus, to = np.count_nonzero(posterior.s > 0.0), log_sign_prior(q + 1)
        more = more + np.array([[to[plus + 1]], [to[plus]]]) - log_sign_prior(q)[plus]
    # Rounding must not make a copy of an active variable look new; the prior alone gives this.
    S = np.maximum(S, lam / (1.0 + posterior.rho))
    remaining = np.maximum((R - e * e / S[..., None]) / posterior.R, MIN_REMAINING)
    fits = prior.dof * np.log(remaining).sum(axis=-1)
    gains: np.ndarray = more - 0.5 * (fits + n_responses * (np.log(S) + log_det))
    return gains


def removal_and_sign_gains(
    prior: SetPrior, posterior: SetPosterior
) -> tuple[np.ndarray, np.ndarray]:
    """Compute (q,) gains of removals and of changes of a sign."""
    q, lam, s, dof = posterior.v.size, posterior.lam, posterior.s, prior.dof
    if q == 0:
        return np.zeros(0), np.zeros(0)
    P_ii, less = posterior.P.diagonal(), prior.log_prior[q - 1] - prior.log_prior[q]
    # Residual sums without variable i, relative to those with it.
    growth = 1.0 + posterior.m**2 / (P_ii[:, None] * posterior.R)
    removals = less - 0.5 * posterior.R.size * (np.log(P_ii) + math.log(lam))
    if not posterior.rho:
        return removals - 0.5 * dof * np.log(growth).sum(axis=1), np.full(q, -np.inf)
    m, R = posterior.m[:, 0], float(posterior.R[0])
    Ps, h = posterior.P.dot(s), posterior.magnitude_precision(q)
    total = float(Ps.dot(s)) - Ps * Ps / P_ii  # s'T s
    c = float(s.dot(m)) - Ps * m / P_ii  # s'T X_v'y
    plus, now = np.count_nonzero(s > 0.0), log_sign_prior(q)
    change = posterior.magnitude_precision(q - 1) - h
    shrunk = 1.0 - change * total
    remaining = np.maximum(growth[:, 0] - change * c * c / (shrunk * R), MIN_REMAINING)
    factor = shrunk * ((1.0 + posterior.rho * (q - 1)) / (1.0 + posterior.rho * q))
    removals -= 0.5 * (dof * np.log(remaining) + np.log(factor))
    removals += log_sign_prior(q - 1)[plus - (s > 0.0)] - now[plus]
    if q == 1:  # s and -s are the same model.
        return removals, np.full(1, -np.inf)
    S = 1.0 / P_ii - 4.0 * h * (1.0 - s * Ps / P_ii) - 4.0 * h**2 * total
    S = np.maximum(S, lam / (1.0 + posterior.rho))
    e = m / P_ii - 2.0 * h * s * c
    remaining = np.maximum(growth[:, 0] - e * e / (S * R), MIN_REMAINING)
    sign_changes = (
        now[plus - s.astype(int)] - now[plus] - 0.5 * (dof * np.log(remaining) + np.log(S * P_ii))
    )
    return removals, sign_changes
