"""Views that are not Gaussian: passes over the rows, and the step of the model.

Every entry has a quadratic bound (`likelihood`), so a precision w and a linear term b of its own;
of a Gaussian entry they are tau and tau x, of one that is missing zero. The posterior of a row's
latents has the precision I + sum_i w_ni <l_i l_i'>. Bounds are best for the moments of eta that the
last q(z), q(Lambda) give, and are found anew in every pass, block of rows by block of rows: nothing
of the size of the table is kept.

Symbols as in `model`; the rows' posteriors are Z (n, Q) means and S (n, Q, Q) covariances.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from ...inference.acceleration import Anderson
from .hyperbolic import HyperbolicPrior
from .likelihood import Likelihood, Quadratic, bernoulli_bound, link, poisson_bound
from .loadings import loadings_divergence, update_ard_rows, update_map_rows
from .missing_e_step import invert_stack
from .model import (
    MIN_NOISE_RATIO,
    N_SWEEPS,
    FactorParameters,
    ViewLayout,
    inclusion_prior,
    noise_prior,
)

# Entries of a block of rows, which bound the memory.
MAX_BLOCK_ENTRIES = 2**20


class Rows(NamedTuple):
    """A table of views of several view_likelihoods, in blocks of rows."""

    n: int
    p: int
    read: Callable[[slice], np.ndarray]  # a block of rows, NaN where nothing was observed
    likelihood: np.ndarray  # (p,) of texts
    linear_threshold: np.ndarray  # (p,) of Poisson columns
    observed: np.ndarray  # (p,) how many entries were observed
    squares: np.ndarray  # (p,) the sums of their squares

    @property
    def gaussian(self) -> np.ndarray:
        """(p,) which columns are."""
        which: np.ndarray = self.likelihood == "gaussian"
        return which

    def blocks(self, latents: int) -> Iterator[tuple[slice, np.ndarray]]:
        """All rows, some at a time."""
        size = max(1, MAX_BLOCK_ENTRIES // (self.p + latents * latents))
        for start in range(0, self.n, size):
            rows = slice(start, min(start + size, self.n))
            yield rows, self.read(rows)


class NonGaussianState(NamedTuple):
    """Where the iterations stand."""

    fitted: FactorParameters
    ahead: FactorParameters
    Z: np.ndarray  # (n, Q)
    S: np.ndarray  # (n, Q, Q)
    bound: float


class Moments(NamedTuple):
    """Sums over the rows, of entries weighed by their precisions."""

    A: np.ndarray  # (p, Q, Q) sum of w <z z'>
    G: np.ndarray  # (p, Q) sum of (b - w mu) <z>
    z_sum: np.ndarray  # (p, Q) sum of w <z>
    w_sum: np.ndarray  # (p,)
    b_sum: np.ndarray  # (p,)
    k_sum: float  # constants of the bounds of the entries that are not Gaussian
    zz: np.ndarray  # (Q, Q)
    log_det: float
    Z: np.ndarray
    S: np.ndarray


def non_gaussian_init(
    rows: Rows, lay: ViewLayout, L: np.ndarray, mu: np.ndarray, prior: HyperbolicPrior | None
) -> NonGaussianState:
    """The state before the first step: the rows' posteriors are the prior."""
    p, Q = L.shape
    t = C = None
    if prior is None:
        t, C = L**2 + np.mean(L**2), np.zeros((p, Q, Q))
    mean_square = rows.squares / rows.observed
    noise = lay.total(np.where(rows.gaussian, mean_square, 1.0)) / np.bincount(lay.noise)
    first = FactorParameters(L, C, t, 1.0 / noise, mu)
    return NonGaussianState(
        first, first, np.zeros((rows.n, Q)), np.tile(np.eye(Q), (rows.n, 1, 1)), -math.inf
    )


def initial_offsets(rows: Rows, means: np.ndarray) -> np.ndarray:
    """mu of columns without latents, from their means; zero in Gaussian columns."""
    mu = np.zeros(rows.p)
    view_likelihoods: tuple[Likelihood, ...] = ("bernoulli", "poisson")
    for name in view_likelihoods:
        own = rows.likelihood == name
        mu[own] = link(name, means[own], rows.linear_threshold[own])
    return mu


def fisher_information(rows: Rows, means: np.ndarray) -> np.ndarray:
    """(p,) What an entry tells of its linear predictor at the mean of its column: the variance of
    the entry; NaN in Gaussian columns, whose noise says it."""
    found = np.full(rows.p, np.nan)
    zero_or_one, count = (rows.likelihood == name for name in ("bernoulli", "poisson"))
    found[zero_or_one] = means[zero_or_one] * (1.0 - means[zero_or_one])
    found[count] = means[count]
    return found


def quadratic_bounds(
    rows: Rows, X: np.ndarray, mean: np.ndarray, variance: np.ndarray, tau: np.ndarray
) -> Quadratic:
    """The bounds of a block of rows, given the moments of eta; zero where nothing was observed.

    The constants of Gaussian entries are left out: the noise is yet to move.
    """
    seen = ~np.isnan(X)
    x = np.where(seen, X, 0.0)
    w, b = np.broadcast_to(tau, X.shape).copy(), x * tau
    k = np.zeros(X.shape)
    own = np.flatnonzero(rows.likelihood == "bernoulli")
    if own.size:
        w[:, own], b[:, own], k[:, own] = bernoulli_bound(x[:, own], mean[:, own], variance[:, own])
    own = np.flatnonzero(rows.likelihood == "poisson")
    if own.size:
        w[:, own], b[:, own], k[:, own] = poisson_bound(
            x[:, own], mean[:, own], variance[:, own], rows.linear_threshold[own]
        )
    if seen.all():
        return Quadratic(w, b, k)
    return Quadratic(np.where(seen, w, 0.0), np.where(seen, b, 0.0), np.where(seen, k, 0.0))


class PackedMoments(NamedTuple):
    """<l l'> of every column as lower triangles, for products with those of the rows."""

    lower: tuple[np.ndarray, np.ndarray]
    outer: np.ndarray  # (p, Q (Q + 1) / 2)
    twice: np.ndarray  # 1 on the diagonal, else 2: a trace counts both triangles


def pack_second_moments(L: np.ndarray, C: np.ndarray | None) -> PackedMoments:
    """The second moments of the weights."""
    lower = np.tril_indices(L.shape[1])
    outer = L[:, lower[0]] * L[:, lower[1]]
    if C is not None:
        outer = outer + C[:, lower[0], lower[1]]
    return PackedMoments(lower, outer, np.where(lower[0] == lower[1], 1.0, 2.0))


def predictor_moments(
    L: np.ndarray, mu: np.ndarray, weights: PackedMoments, Z: np.ndarray, S: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the linear predictors of a block of rows."""
    along = Z @ L.T
    i, j = weights.lower
    second = (S[:, i, j] + Z[:, i] * Z[:, j]) * weights.twice
    return along + mu, np.maximum(second @ weights.outer.T - along * along, 0.0)


def row_posteriors(
    L: np.ndarray, mu: np.ndarray, weights: PackedMoments, q: Quadratic
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(Z, S, log det S) of a block of rows, given the bounds of their entries."""
    i, j = weights.lower
    half = q.w @ weights.outer
    precision = np.empty((q.w.shape[0], L.shape[1], L.shape[1]))
    precision[:, i, j] = half
    precision[:, j, i] = half
    diagonal = np.arange(L.shape[1])
    precision[:, diagonal, diagonal] += 1.0
    S, log_det = invert_stack(precision)
    Z = (S @ ((q.b - q.w * mu) @ L)[:, :, None])[:, :, 0]
    return Z, S, log_det


def moments(rows: Rows, lay: ViewLayout, state: NonGaussianState) -> Moments:
    """One pass: bounds from the last posteriors, new posteriors, and the sums that follow."""
    now, Q = state.ahead, state.Z.shape[1]
    tau = now.tau[lay.noise]
    weights = pack_second_moments(now.L, now.C)
    i, j = weights.lower
    half, G, z_sum = np.zeros((rows.p, i.size)), np.zeros((rows.p, Q)), np.zeros((rows.p, Q))
    w_sum, b_sum, k_sum, log_det = np.zeros(rows.p), np.zeros(rows.p), 0.0, 0.0
    new_Z, new_S, zz = np.empty_like(state.Z), np.empty_like(state.S), np.zeros((Q, Q))
    for at, X in rows.blocks(Q):
        mean, variance = predictor_moments(now.L, now.mu, weights, state.Z[at], state.S[at])
        q = quadratic_bounds(rows, X, mean, variance, tau)
        Z, S, log_dets = row_posteriors(now.L, now.mu, weights, q)
        second = S + Z[:, :, None] * Z[:, None, :]
        half += q.w.T @ second[:, i, j]
        z_sum += q.w.T @ Z
        G += q.b.T @ Z
        w_sum += q.w.sum(axis=0)
        b_sum += q.b.sum(axis=0)
        k_sum += float(q.k.sum())
        log_det += float(log_dets.sum())
        zz += second.sum(axis=0)
        new_Z[at], new_S[at] = Z, S
    A = np.empty((rows.p, Q, Q))
    A[:, i, j] = half
    A[:, j, i] = half
    G -= now.mu[:, None] * z_sum
    return Moments(A, G, z_sum, w_sum, b_sum, k_sum, zz, log_det, new_Z, new_S)


def non_gaussian_step(
    rows: Rows, lay: ViewLayout, prior: HyperbolicPrior | None, state: NonGaussianState
) -> NonGaussianState:
    """Bounds and q(z), then the weights, offsets, noise and, under relevance determination, the
    scale of z: each is the best given what came before it."""
    now = state.ahead
    m = moments(rows, lay, state)
    ones = np.ones(rows.p)  # A and G are weighed by the precisions already
    if prior is None:
        assert now.t is not None
        cost = inclusion_prior(lay, now.t).cost[lay.view]
        found = update_ard_rows(now.t, ones, m.A, m.G, lay.allowed, cost)
        L, C, t = found.L, found.C, found.t
        variance = np.diagonal(m.zz) / rows.n
        of_weights = inclusion_prior(lay, t).log_prior - loadings_divergence(found)
    else:
        L, C, t = now.L, None, None
        for _ in range(N_SWEEPS):
            L = update_map_rows(L, ones, m.A, m.G, lay.allowed, prior)
        variance = np.ones(L.shape[1])
        of_weights = float(np.sum(prior.log_density(L[lay.allowed])))
    mu, tau, fit = _offsets_and_noise(rows, lay, now, m, L, C)
    ratio = float(np.sum(np.diagonal(m.zz) / variance + rows.n * np.log(variance)))
    divergence_z = 0.5 * (ratio - rows.n * L.shape[1] - m.log_det)
    bound = fit + m.k_sum - divergence_z + of_weights
    r = np.sqrt(variance)
    after = FactorParameters(
        L * r, None if C is None else C * (r[:, None] * r), None if t is None else t * r**2, tau, mu
    )
    return NonGaussianState(after, after, m.Z / r, m.S / (r[:, None] * r), bound)


def _offsets_and_noise(
    rows: Rows,
    lay: ViewLayout,
    now: FactorParameters,
    m: Moments,
    L: np.ndarray,
    C: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray, float]:
    """(mu, tau, the expected log density of the entries without the constants of their bounds)."""
    along = np.sum(L * m.z_sum, axis=1)
    mu = (m.b_sum - along) / m.w_sum
    square = np.einsum("ijk,ij,ik->i", m.A, L, L, optimize=True)
    if C is not None:
        square = square + np.einsum("ijk,ijk->i", m.A, C)
    value = mu * m.b_sum - 0.5 * mu * mu * m.w_sum - 0.5 * square
    value += np.sum(L * m.G, axis=1) + (now.mu - mu) * along
    gaussian = rows.gaussian
    if not gaussian.any():
        return mu, now.tau, float(value.sum())
    # In Gaussian columns all weights are tau: what is left of x^2 is free of it.
    residual = rows.squares - 2.0 * value / now.tau[lay.noise]
    floor = MIN_NOISE_RATIO * lay.total(rows.squares)
    more, square_more, _ = noise_prior(rows, lay, now.tau)
    residuals, count = lay.total(residual), lay.total(rows.observed)
    tau = (count + more) / np.maximum(residuals + square_more, floor)
    mine = np.bincount(lay.noise, weights=gaussian) > 0  # classes of Gaussian columns
    tau = np.where(mine, tau, 1.0)
    fit = 0.5 * np.sum((count * np.log(tau / (2.0 * np.pi)) - tau * residuals)[mine])
    log_prior = noise_prior(rows, lay, tau, gaussian)[2]
    return mu, tau, float(fit) + float(value[~gaussian].sum()) + log_prior


def non_gaussian_accelerator(rows: Rows, lay: ViewLayout) -> Anderson:
    """Anderson acceleration over the weights, offsets and log precisions."""
    mean_squares = lay.total(rows.squares) / lay.total(rows.observed)
    largest = 1.0 / (MIN_NOISE_RATIO * np.maximum(mean_squares, 1e-300))

    def pack(state: NonGaussianState) -> np.ndarray:
        now = state.ahead
        return np.concatenate([now.L.ravel(), now.mu, np.log(now.tau)])

    def unpack(vector: np.ndarray, state: NonGaussianState) -> NonGaussianState:
        now = state.ahead
        size, K = now.L.size, now.tau.size
        L = np.where(now.L == 0, 0.0, vector[:size].reshape(now.L.shape))
        change = np.clip(vector[-K:] - np.log(now.tau), -2.0, 2.0)
        tau = np.minimum(now.tau * np.exp(change), largest)
        return state._replace(ahead=now._replace(L=L, mu=vector[size:-K], tau=tau))

    return Anderson(pack, unpack, np)


def infer_rows(
    rows: Rows, L: np.ndarray, tau: np.ndarray, mu: np.ndarray, max_iter: int = 200
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(Z, S, lower bounds of the log densities) of new rows, given the weights."""
    Q = L.shape[1]
    weights = pack_second_moments(L, None)
    Z, S, bounds = np.zeros((rows.n, Q)), np.empty((rows.n, Q, Q)), np.empty(rows.n)
    constants = np.where(rows.gaussian, 0.5 * np.log(tau / (2.0 * np.pi)), 0.0)
    for at, X in rows.blocks(Q):
        z, s = Z[at], np.tile(np.eye(Q), (X.shape[0], 1, 1))
        for _ in range(max_iter):
            q = quadratic_bounds(rows, X, *predictor_moments(L, mu, weights, z, s), tau)
            before = z
            z, s, log_det = row_posteriors(L, mu, weights, q)
            if np.max(np.abs(z - before), initial=0.0) < 1e-7:
                break
        mean, variance = predictor_moments(L, mu, weights, z, s)
        seen = ~np.isnan(X)
        x = np.where(seen & rows.gaussian, X, 0.0)
        q = quadratic_bounds(rows, X, mean, variance, tau)
        entries = q.k + q.b * mean - 0.5 * q.w * (mean * mean + variance)
        entries += np.where(seen, constants - 0.5 * tau * x * x, 0.0)
        trace = np.trace(s, axis1=1, axis2=2) + np.sum(z * z, axis=1)
        Z[at], S[at] = z, s
        bounds[at] = entries.sum(axis=1) - 0.5 * (trace - Q - log_det)
    return Z, S, bounds
