"""Weights that are alike: of about one size, each with a sign of its own.

Weights are believed to be drawn each for itself, w_j ~ N(0, sigma2 / lambda), or, as probably, to
be alike: w_j = s_j (mu + u_j) with signs s_j, a size mu ~ N(0, rho sigma2 / lambda) that they have
in common, and u_j ~ N(0, sigma2 / lambda). With w and mu integrated out, q variables v with the
signs s have

    Cov w = sigma2 / lambda (I + rho s s') ,      its inverse  lambda / sigma2 (I - g_q s s') ,

with g_q = rho / (1 + rho q): one direction, X_v s, more than the weights on their own have. Write

    W = X_v'X_v + lambda (I - g_q s s') ,    P = W^-1 ,    m = P X_v'y ,    R = y'y - (X_v'y)'m ;

    log p(y | v, s, lambda, rho) = -f/2 log R - 1/2 log det(W / lambda) - 1/2 log(1 + rho q)

up to a constant; rho = 0 is a weight of its own for every variable, without any sign. From
P_0 = (X_v'X_v + lambda I)^-1, t = s'P_0 s and c = s'P_0 X_v'y, with h = lambda g_q,

    P = P_0 + h / (1 - h t) P_0 s s'P_0 ,    R = R_0 - h c^2 / (1 - h t) ,
    log det W = log det W_0 + log(1 - h t) ,

so that the eigenvalues of X_v'X_v give the density at every lambda and rho.

Signs. A share theta of them is positive, theta ~ Beta(1/2, 1/2): all alike, or as many of either
kind, and the data find out. s and -s are the same model (mu may be negative), which has the prior
2 B(1/2 + k, 1/2 + q - k) / B(1/2, 1/2) if k signs are positive, and is written with s_1 = 1.
One variable alone has no sign, and the same density whatever rho is: tau^2 = (1 + rho) / lambda
is its variance (of a column of unit variance, over that of the noise).

Neighbours. With one variable more g_q becomes g = g_(q+1), which changes W by
(h - lambda g) s s' before x_j comes: let P, m and R be those after this. Then, as for weights of
their own (`model`), with the sign s_j,

    k_j = X_v'x_j - lambda g s_j s ,    S_j = x_j'x_j + lambda (1 - g) - k_j'P k_j ,
    e_j = x_j'y - k_j'm ,    R falls by e_j^2 / S_j ,    det W grows by the factor S_j ,

and k_j'P k_j needs, for all j at once, only P X_v'x_j and one more vector, X'X_v P s. Without
variable i of the set, the inverse of the rest of W is T = P - P_i P_i' / P_ii, of which

    s'T s = s'P s - (P s)_i^2 / P_ii ,        s'T X_v'y = s'm - (P s)_i m_i / P_ii ,

and then g_q becomes g_(q-1). With the other sign of i instead, k_i'T s = s_i - (P s)_i / P_ii
gives S_i and e_i after the change of k_i by 2 lambda g_q s_i s.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dsyevd
from scipy.special import betaln, expit

from .model import MIN_NOISE_RATIO, RegressionMoments

SCATTER = 0.25  # of weights that are alike, over the size they have in common: rho = 1 / SCATTER^2
COMMON_PROBABILITY = 0.5  # probability, before y is seen, that weights are alike
SIGN_SHAPE = 0.5  # parameter of the beta distribution of the share of positive signs
DOUBLINGS = 4  # of tau, on either side of its best value
MAX_DOUBLING = 16  # doublings of tau: beyond, lambda is n_intercepts in the rounding of X'X
GRID_RATE = 0.25  # of a change to a kind of the same density: else most jumps would be such


class PriorGrid(NamedTuple):
    """What the weights of a set may be like: a grid of lambda and rho, and its prior."""

    log_ratio: np.ndarray  # (A,) log lambda
    rho: np.ndarray  # (A,) 0 for weights of their own, which come first
    log_prior: np.ndarray  # (A,) log prior mass

    @property
    def n_independent(self) -> int:
        """How many have weights of their own."""
        return int(np.count_nonzero(self.rho == 0.0))

    def independent(self) -> PriorGrid:
        """Those of weights of their own."""
        return PriorGrid(*(each[: self.n_independent] for each in self))

    def common(self) -> PriorGrid:
        """Those of weights that are alike."""
        return PriorGrid(*(each[self.n_independent :] for each in self))


class SetPrior(NamedTuple):
    """What is believed before y is seen."""

    log_prior: np.ndarray  # (p + 1,) of each set of 0 .. p variables, -inf for those too large
    grid: PriorGrid
    dof: float  # degrees of freedom of y


def make_prior_grid(data: RegressionMoments, best: float) -> PriorGrid:
    """Doublings of tau, the deviation of a weight of a column of unit variance over that of the
    noise, around that of the log lambda ``best`` of weights of their own, weighed by the
    half-Cauchy density 2 / (pi (1 + tau^2)); each for weights of their own and weights alike.

    The doublings lie on one lattice for all tables: a rounding of ``best`` changes nothing.
    Weights far below 1/sqrt(n) cannot be seen, and the grid does not go there.
    """
    unit = math.log(float(data.d.mean()) / data.n)  # lambda of tau = 1
    lowest = math.floor(-0.5 * math.log2(data.n)) - 1
    middle = (unit - best) / (2.0 * math.log(2.0))  # log2 of the best tau
    centre = round(min(max(middle, lowest + DOUBLINGS), MAX_DOUBLING - DOUBLINGS))
    log_tau = math.log(2.0) * np.arange(max(centre - DOUBLINGS, lowest), centre + DOUBLINGS + 1)
    # density of log tau: tau times that of tau
    log_prior = log_tau - np.logaddexp(0.0, 2.0 * log_tau)
    log_prior -= np.logaddexp.reduce(log_prior)
    rho = np.repeat([0.0, 1.0 / SCATTER**2], log_tau.size)
    return PriorGrid(
        np.tile(unit - 2.0 * log_tau, 2) + np.log1p(rho),  # tau^2 = (1 + rho) / lambda
        rho,
        np.tile(log_prior, 2)
        + np.log(np.where(rho > 0.0, COMMON_PROBABILITY, 1.0 - COMMON_PROBABILITY)),
    )


@cache
def log_sign_prior(q: int) -> np.ndarray:
    """(q + 1,) of signs (and their opposites) of which 0 .. q are positive."""
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
    """The signs of weights, (q,) or (q, K), the first of which (in every column) counts as
    positive."""
    s = np.where(m < 0.0, -1.0, 1.0)
    return s * s[:1]


def sign_patterns(q: int) -> np.ndarray:
    """(M, q) all signs whose first is positive."""
    bits = (np.arange(2 ** max(q - 1, 0))[:, None] >> np.arange(max(q - 1, 0))) & 1
    patterns = np.ones((bits.shape[0], q))
    patterns[:, 1:] -= 2.0 * bits
    return patterns


class Spectrum(NamedTuple):
    """Sets of one size, ready for every kind of weights: from eigenvalues of X_v'X_v."""

    e: np.ndarray  # (S, q) eigenvalues
    U: np.ndarray  # (S, q, q) eigenvectors
    c: np.ndarray  # (S, q) U'X_v'y


def spectrum(data: RegressionMoments, v: np.ndarray) -> Spectrum:
    """Of the sets ``v``, (S, q)."""
    e, U = np.linalg.eigh(data.G[v[:, :, None], v[:, None, :]])
    return Spectrum(np.maximum(e, 0.0), U, np.einsum("sij,si->sj", U, data.b[v]))


class Densities(NamedTuple):
    """Sets with M patterns of signs each at all kinds of weights of a grid."""

    signs: np.ndarray  # (S or 1, M, q)
    eigenvalues: np.ndarray  # (S, A, q) eigenvalues of X_v'X_v + lambda I
    gain_factor: np.ndarray  # (S, M, A) h / (1 - h t)
    c: np.ndarray  # (S, M, A)
    R: np.ndarray  # (S, M, A)
    log_density: np.ndarray  # (S, M, A) log p(y | v, s, lambda, rho) + log p(s, lambda, rho)


def densities(
    data: RegressionMoments,
    prior: SetPrior,
    grid: PriorGrid,
    spectra: Spectrum,
    signs: np.ndarray | None = None,
) -> Densities:
    """Of the sets ``of`` at weights of their own, or with ``signs``, (S or 1, M, q), alike."""
    lam, q = np.exp(grid.log_ratio), spectra.e.shape[1]
    eigenvalues = spectra.e[:, None, :] + lam[:, None]
    R = data.yy - ((spectra.c * spectra.c)[:, None, :] / eigenvalues).sum(axis=-1)[:, None, :]
    log_det = np.log(eigenvalues / lam[:, None]).sum(axis=-1)[:, None, :] + np.log1p(grid.rho * q)
    if signs is None:
        signs, log_prior = np.zeros((1, 1, q)), np.zeros((1, 1))
    else:
        log_prior = log_sign_prior(q)[np.count_nonzero(signs > 0.0, axis=-1)]
    u, inverse = signs @ spectra.U, np.swapaxes(1.0 / eigenvalues, 1, 2)  # (S, M, q), (S, q, A)
    t, c = (u * u) @ inverse, (u * spectra.c[:, None, :]) @ inverse
    h = lam * grid.rho / (1.0 + grid.rho * q)
    gain_factor = h / (1.0 - h * t)
    R = np.maximum(R - gain_factor * c * c, prior.dof * data.noise_floor)
    log_det = log_det + np.log1p(-h * t)
    height = -0.5 * (prior.dof * np.log(R) + log_det) + grid.log_prior + log_prior[:, :, None]
    return Densities(signs, eigenvalues, gain_factor, c, R, height)


class StateRates(NamedTuple):
    """A set, its signs and a kind of weights, as a state of the jump process."""

    # (2 p + q + A,) to flip each variable, one that comes with a positive sign; the same with a
    # negative sign; to change the sign of each of the set; to change to each kind of weights.
    # Where jumps start, others follow: see `averaging.JumpTargets`
    rates: np.ndarray
    inclusion: np.ndarray  # (p,) of each variable given all others
    signs: np.ndarray  # (q,) with which the weights become alike, if they are not
    log_density: np.ndarray  # (A,) with these signs, at every kind of weights


class SetPosterior(NamedTuple):
    """P, m and R of a set at one kind of weights, in the words of the docstring of this file."""

    v: np.ndarray  # (q,)
    s: np.ndarray  # (q,)
    P: np.ndarray  # (q, q)
    m: np.ndarray  # (q,)
    R: float
    lam: float
    rho: float

    def magnitude_precision(self, q: int) -> float:
        """lambda g of q variables."""
        return self.lam * self.rho / (1.0 + self.rho * q)


def state_rates(
    data: RegressionMoments, prior: SetPrior, v: np.ndarray, signs: np.ndarray | None, a: int
) -> StateRates:
    """The set ``v``, rising, with the kind of weights of number ``a``: with ``signs`` if these are
    alike.

    From weights of their own to weights alike the signs are those of m; back it goes only from
    those signs, so that every change can be undone. The run spends its time here: one
    eigendecomposition gives P at this kind and the density at all of them, as in `densities`,
    with fewer calls.
    """
    grid, q, n_independent = prior.grid, v.size, prior.grid.n_independent
    lams = np.exp(grid.log_ratio)
    lam, rho, b = float(lams[a]), float(grid.rho[a]), data.b.take(v)
    if q:
        e, U, _ = dsyevd(data.gram(v))
        inverse = 1.0 / (np.maximum(e, 0.0)[:, None] + lams)
        c = b.dot(U)
        weights = U.dot(
            c[:, None] * inverse[:, :n_independent]
        )  # m of weights of their own, (q, K)
        s = normalise_signs(weights[:, a]) if signs is None else signs
        u, h = s.dot(U), lams * grid.rho / (1.0 + grid.rho * q)
        t, cross = (u * u).dot(inverse), (u * c).dot(inverse)
        R = data.yy - (c * c).dot(inverse) - h / (1.0 - h * t) * cross * cross
        R = np.maximum(R, prior.dof * data.noise_floor)
        log_det = np.log1p(grid.rho * q) + np.log1p(-h * t) - np.log(inverse * lams).sum(axis=0)
        log_density = grid.log_prior - 0.5 * (prior.dof * np.log(R) + log_det)
        log_density[n_independent:] += log_sign_prior(q)[np.count_nonzero(s > 0.0)]
        P = (U * inverse[:, a]).dot(U.T)
        if rho:
            Ps = P.dot(s)
            P += np.outer(Ps, (h[a] / (1.0 - h[a] * t[a])) * Ps)
        posterior = SetPosterior(v, s, P, P.dot(b), float(R[a]), lam, rho)
    else:
        log_density = grid.log_prior - 0.5 * prior.dof * math.log(data.yy)
        posterior = SetPosterior(v, b, np.zeros((0, 0)), b, data.yy, lam, rho)
    to_grid = GRID_RATE * expit(log_density - log_density[a])
    to_grid[a] = 0.0
    if signs is not None and q:
        to_grid[:n_independent][(normalise_signs(weights) != signs[:, None]).any(axis=0)] = 0.0
    additions = addition_gains(data, prior, posterior, b)
    removals, sign_changes = removal_and_sign_gains(prior, posterior)
    odds = np.logaddexp.reduce(additions, axis=0)  # of each variable, given all others
    odds[v] = np.logaddexp(0.0, sign_changes) - removals
    rates = expit(additions)
    rates[:, v] = 0.0
    rates[0, v] = expit(removals)
    if rates.shape[0] == 1:
        rates = np.concatenate([rates, np.zeros_like(rates)])
    all_rates = np.concatenate([rates.ravel(), expit(sign_changes), to_grid])
    return StateRates(all_rates, expit(odds), posterior.s, log_density)


def addition_gains(
    data: RegressionMoments, prior: SetPrior, posterior: SetPosterior, b: np.ndarray
) -> np.ndarray:
    """(1 or 2, p): rise of the log posterior if each variable comes with a positive sign, and with
    a negative one; as the first one, and with a weight of its own, it has no sign."""
    q, lam = posterior.v.size, posterior.lam
    P, m, R, magnitude_precision = (
        posterior.P,
        posterior.m,
        posterior.R,
        posterior.magnitude_precision(q + 1),
    )
    log_det = math.log((1.0 + posterior.rho * (q + 1)) / (1.0 + posterior.rho * q)) - math.log(lam)
    more = prior.log_prior[q + 1] - prior.log_prior[q] if q < data.b.size else -math.inf
    cross = data.G.take(posterior.v, axis=1)
    signed = posterior.rho > 0.0 and q > 0
    if signed:
        Ps, change = P.dot(posterior.s), posterior.magnitude_precision(q) - magnitude_precision
        eigenvalues = 1.0 + change * float(Ps.dot(posterior.s))
        P = P - np.outer(Ps, (change / eigenvalues) * Ps)
        m = P.dot(b)
        R = data.yy - float(b.dot(m))
        log_det += math.log(eigenvalues)
    S = data.d + (lam - magnitude_precision) - np.einsum("ij,ij->i", cross.dot(P), cross)
    e = data.b - cross.dot(m)
    if signed:
        Ps = P.dot(posterior.s)
        both, shift = (
            2.0 * magnitude_precision * cross.dot(Ps),
            magnitude_precision * float(posterior.s.dot(m)),
        )
        S = S - magnitude_precision**2 * float(Ps.dot(posterior.s)) + np.stack([both, -both])
        e = e + np.array([[shift], [-shift]])
        plus, to = np.count_nonzero(posterior.s > 0.0), log_sign_prior(q + 1)
        more = more + np.array([[to[plus + 1]], [to[plus]]]) - log_sign_prior(q)[plus]
    else:
        S, e = S[None], e[None]
    # Rounding must not make a copy of an active variable look new: the prior alone gives this much.
    S = np.maximum(S, lam / (1.0 + posterior.rho))
    remaining = np.maximum((R - e * e / S) / posterior.R, MIN_NOISE_RATIO)
    rise: np.ndarray = more - 0.5 * (prior.dof * np.log(remaining) + np.log(S) + log_det)
    return rise


def removal_and_sign_gains(
    prior: SetPrior, posterior: SetPosterior
) -> tuple[np.ndarray, np.ndarray]:
    """(q,) and (q,): rise (mostly a fall) of the log posterior if each variable of the set leaves,
    and if its sign changes."""
    q, lam, s, m, dof = posterior.v.size, posterior.lam, posterior.s, posterior.m, prior.dof
    if q == 0:
        return np.zeros(0), np.zeros(0)
    P_ii, less = posterior.P.diagonal(), prior.log_prior[q - 1] - prior.log_prior[q]
    R = posterior.R + m * m / P_ii  # of T
    removals = less - 0.5 * (np.log(P_ii) + math.log(lam))
    if not posterior.rho:
        return removals - 0.5 * dof * np.log(R / posterior.R), np.full(q, -np.inf)
    Ps, magnitude_precision = posterior.P.dot(s), posterior.magnitude_precision(q)
    total = float(Ps.dot(s)) - Ps * Ps / P_ii  # s'T s
    c = float(s.dot(m)) - Ps * m / P_ii  # s'T X_v'y
    plus, now = np.count_nonzero(s > 0.0), log_sign_prior(q)
    change = posterior.magnitude_precision(q - 1) - magnitude_precision
    shrunk = 1.0 - change * total
    remaining = np.maximum((R - change * c * c / shrunk) / posterior.R, MIN_NOISE_RATIO)
    factor = shrunk * ((1.0 + posterior.rho * (q - 1)) / (1.0 + posterior.rho * q))
    removals -= 0.5 * (dof * np.log(remaining) + np.log(factor))
    removals += log_sign_prior(q - 1)[plus - (s > 0.0)] - now[plus]
    if q == 1:  # s and -s are the same
        return removals, np.full(1, -np.inf)
    S = (
        1.0 / P_ii
        - 4.0 * magnitude_precision * (1.0 - s * Ps / P_ii)
        - 4.0 * magnitude_precision**2 * total
    )
    S = np.maximum(S, lam / (1.0 + posterior.rho))
    e = m / P_ii - 2.0 * magnitude_precision * s * c
    remaining = np.maximum((R - e * e / S) / posterior.R, MIN_NOISE_RATIO)
    sign_changes = (
        now[plus - s.astype(int)] - now[plus] - 0.5 * (dof * np.log(remaining) + np.log(S * P_ii))
    )
    return removals, sign_changes
