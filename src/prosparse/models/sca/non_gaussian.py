"""Views that are not Gaussian: sums over rows and the step of the model.

Each entry has a quadratic bound (`likelihood`) with precision w and linear term b. For a Gaussian
entry these are tau and tau x, for a missing entry zero. The posterior of a row has precision
I + sum_i w_ni <l_i l_i'>. The bounds are optimal for the moments of eta under the last q(z) and
q(Lambda). They are recomputed in each iteration, block by block, and never stored for all rows.

Symbols as in `model`; the posteriors of the rows are Z (n, Q) means and S (n, Q, Q) covariances.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from .hyperbolic import HyperbolicPrior
from .likelihood import Likelihood, Quadratic, bernoulli_bound, link, poisson_bound
from .loadings import update_map_rows
from .missing_e_step import invert_stack
from .model import (
    MIN_NOISE_RATIO,
    N_SWEEPS,
    FactorParameters,
    Prior,
    UpdatedLoadings,
    ViewLayout,
    initial_parameters,
    noise_prior,
    update_loadings,
)

# Maximum number of entries of a block of rows, whose temporary arrays then fit into the cache.
MAX_BLOCK_ENTRIES = 2**17


class Rows(NamedTuple):
    """Data of several likelihoods, in blocks of rows."""

    n: int
    p: int
    read: Callable[[slice], np.ndarray]  # reads a block of rows, NaN for missing values
    likelihood: np.ndarray  # (p,) names
    linear_threshold: np.ndarray  # (p,) for Poisson columns
    observed: np.ndarray  # (p,) numbers of observed entries
    squares: np.ndarray  # (p,) sums of squares of the observed entries

    @property
    def gaussian(self) -> np.ndarray:
        """Mask (p,) of the Gaussian columns."""
        which: np.ndarray = self.likelihood == "gaussian"
        return which

    def blocks(self, n_factors: int) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield blocks of rows."""
        size = max(1, MAX_BLOCK_ENTRIES // (self.p + n_factors * n_factors))
        for start in range(0, self.n, size):
            rows = slice(start, min(start + size, self.n))
            yield rows, self.read(rows)


class NonGaussianState(NamedTuple):
    """State of the iterations."""

    fitted: FactorParameters
    ahead: FactorParameters
    Z: np.ndarray  # (n, Q)
    S: np.ndarray  # (n, Q, Q)
    bound: float


class Moments(NamedTuple):
    """Sums over the rows, weighted by the precisions of the entries."""

    A: np.ndarray  # (p, Q, Q) sum of w <z z'>
    G: np.ndarray  # (p, Q) sum of (b - w mu) <z>
    z_sum: np.ndarray  # (p, Q) sum of w <z>
    w_sum: np.ndarray  # (p,)
    b_sum: np.ndarray  # (p,)
    k_sum: float  # constants of the bounds of non-Gaussian entries
    zz: np.ndarray  # (Q, Q)
    log_det: float
    Z: np.ndarray
    S: np.ndarray


def non_gaussian_init(
    rows: Rows, lay: ViewLayout, L: np.ndarray, mu: np.ndarray, prior: Prior
) -> NonGaussianState:
    """Return the state before the first step; the posteriors equal the prior."""
    Q = L.shape[1]
    mean_square = rows.squares / rows.observed
    noise = lay.total(np.where(rows.gaussian, mean_square, 1.0)) / np.bincount(lay.noise)
    first = initial_parameters(lay, L, 1.0 / noise, mu, prior)
    return NonGaussianState(
        first, first, np.zeros((rows.n, Q)), np.tile(np.eye(Q), (rows.n, 1, 1)), -math.inf
    )


def initial_offsets(rows: Rows, means: np.ndarray) -> np.ndarray:
    """Return mu of columns without factors from their means; zero if Gaussian."""
    mu = np.zeros(rows.p)
    view_likelihoods: tuple[Likelihood, ...] = ("bernoulli", "poisson")
    for name in view_likelihoods:
        columns = rows.likelihood == name
        mu[columns] = link(name, means[columns], rows.linear_threshold[columns])
    return mu


def fisher_information(rows: Rows, means: np.ndarray) -> np.ndarray:
    """Return the (p,) Fisher information of an entry about its linear predictor.

    At the column mean it equals the variance of the entry. It is NaN for Gaussian columns.
    """
    found = np.full(rows.p, np.nan)
    zero_or_one, count = (rows.likelihood == name for name in ("bernoulli", "poisson"))
    found[zero_or_one] = means[zero_or_one] * (1.0 - means[zero_or_one])
    found[count] = means[count]
    return found


def quadratic_bounds(
    rows: Rows, X: np.ndarray, mean: np.ndarray, variance: np.ndarray, tau: np.ndarray
) -> Quadratic:
    """Return the bounds of a block of rows given the moments of eta.

    Coefficients of missing entries are zero. The constants of Gaussian entries are omitted, because
    the noise is updated later.
    """
    seen = ~np.isnan(X)
    x = np.where(seen, X, 0.0)
    if seen.all() and np.all(rows.likelihood == "poisson"):  # avoids copies of the columns
        return poisson_bound(x, mean, variance, rows.linear_threshold)
    w, b = np.broadcast_to(tau, X.shape).copy(), x * tau
    k = np.zeros(X.shape)
    columns = np.flatnonzero(rows.likelihood == "bernoulli")
    if columns.size:
        w[:, columns], b[:, columns], k[:, columns] = bernoulli_bound(
            x[:, columns], mean[:, columns], variance[:, columns]
        )
    columns = np.flatnonzero(rows.likelihood == "poisson")
    if columns.size:
        w[:, columns], b[:, columns], k[:, columns] = poisson_bound(
            x[:, columns], mean[:, columns], variance[:, columns], rows.linear_threshold[columns]
        )
    if seen.all():
        return Quadratic(w, b, k)
    return Quadratic(np.where(seen, w, 0.0), np.where(seen, b, 0.0), np.where(seen, k, 0.0))


class PackedMoments(NamedTuple):
    """Second moments <l l'> of each column as lower triangles."""

    lower: tuple[np.ndarray, np.ndarray]
    outer: np.ndarray  # (p, Q (Q + 1) / 2)
    twice: np.ndarray  # 1 on the diagonal, else 2: a trace counts both triangles


def pack_second_moments(L: np.ndarray, C: np.ndarray | None) -> PackedMoments:
    """Return the second moments of the loadings."""
    lower = np.tril_indices(L.shape[1])
    outer = L[:, lower[0]] * L[:, lower[1]]
    if C is not None:
        outer = outer + C[:, lower[0], lower[1]]
    return PackedMoments(lower, outer, np.where(lower[0] == lower[1], 1.0, 2.0))


def predictor_moments(
    L: np.ndarray, mu: np.ndarray, second_moments: PackedMoments, Z: np.ndarray, S: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of the linear predictors of a block of rows."""
    projected = Z @ L.T
    i, j = second_moments.lower
    second = (S[:, i, j] + Z[:, i] * Z[:, j]) * second_moments.twice
    return projected + mu, np.maximum(second @ second_moments.outer.T - projected * projected, 0.0)


def row_posteriors(
    L: np.ndarray, mu: np.ndarray, second_moments: PackedMoments, q: Quadratic
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return Z, S and log det S of a block of rows, given their bounds."""
    i, j = second_moments.lower
    half = q.w @ second_moments.outer
    precision = np.empty((q.w.shape[0], L.shape[1], L.shape[1]))
    precision[:, i, j] = half
    precision[:, j, i] = half
    diagonal = np.arange(L.shape[1])
    precision[:, diagonal, diagonal] += 1.0
    S, log_det = invert_stack(precision)
    Z = (S @ ((q.b - q.w * mu) @ L)[:, :, None])[:, :, 0]
    return Z, S, log_det


def moments(rows: Rows, lay: ViewLayout, state: NonGaussianState) -> Moments:
    """Compute new bounds, new posteriors and their sums over the rows."""
    now, Q = state.ahead, state.Z.shape[1]
    tau = now.tau[lay.noise]
    second_moments = pack_second_moments(now.L, now.C)
    i, j = second_moments.lower
    half, G, z_sum = np.zeros((rows.p, i.size)), np.zeros((rows.p, Q)), np.zeros((rows.p, Q))
    w_sum, b_sum, k_sum, log_det = np.zeros(rows.p), np.zeros(rows.p), 0.0, 0.0
    new_Z, new_S, zz = np.empty_like(state.Z), np.empty_like(state.S), np.zeros((Q, Q))
    for block, X in rows.blocks(Q):
        mean, variance = predictor_moments(
            now.L, now.mu, second_moments, state.Z[block], state.S[block]
        )
        q = quadratic_bounds(rows, X, mean, variance, tau)
        Z, S, log_dets = row_posteriors(now.L, now.mu, second_moments, q)
        second = S + Z[:, :, None] * Z[:, None, :]
        half += q.w.T @ second[:, i, j]
        z_sum += q.w.T @ Z
        G += q.b.T @ Z
        w_sum += q.w.sum(axis=0)
        b_sum += q.b.sum(axis=0)
        k_sum += float(q.k.sum())
        log_det += float(log_dets.sum())
        zz += second.sum(axis=0)
        new_Z[block], new_S[block] = Z, S
    A = np.empty((rows.p, Q, Q))
    A[:, i, j] = half
    A[:, j, i] = half
    G -= now.mu[:, None] * z_sum
    return Moments(A, G, z_sum, w_sum, b_sum, k_sum, zz, log_det, new_Z, new_S)


def non_gaussian_step(
    rows: Rows, lay: ViewLayout, prior: HyperbolicPrior | None, state: NonGaussianState
) -> NonGaussianState:
    """Update bounds, q(z), loadings, offsets, noise and, under ARD, the scale."""
    now = state.ahead
    m = moments(rows, lay, state)
    ones = np.ones(rows.p)  # A and G are already weighted by the precisions
    if prior is None:
        found = update_loadings(lay, now, ones, m.A, m.G)
        variance = np.diagonal(m.zz) / rows.n
    else:
        L = now.L
        for _ in range(N_SWEEPS):
            L = update_map_rows(L, ones, m.A, m.G, lay.allowed, prior)
        variance = np.ones(L.shape[1])
        log_prior = float(np.sum(prior.log_density(L[lay.allowed])))
        found = UpdatedLoadings(L, None, None, None, log_prior)
    mu, tau, fit = _update_offsets_and_noise(rows, lay, now, m, found.L, found.C)
    ratio = float(np.sum(np.diagonal(m.zz) / variance + rows.n * np.log(variance)))
    divergence_z = 0.5 * (ratio - rows.n * variance.size - m.log_det)
    bound = fit + m.k_sum - divergence_z + found.log_prior
    r = np.sqrt(variance)
    updated = found.rescale(r, now._replace(tau=tau, mu=mu))
    return NonGaussianState(updated, updated, m.Z / r, m.S / (r[:, None] * r), bound)


def _update_offsets_and_noise(
    rows: Rows,
    lay: ViewLayout,
    now: FactorParameters,
    m: Moments,
    L: np.ndarray,
    C: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return mu, tau and the expected log density up to the bounds' constants."""
    projected = np.sum(L * m.z_sum, axis=1)
    mu = (m.b_sum - projected) / m.w_sum
    square = np.einsum("ijk,ij,ik->i", m.A, L, L, optimize=True)
    if C is not None:
        square = square + np.einsum("ijk,ijk->i", m.A, C)
    value = mu * m.b_sum - 0.5 * mu * mu * m.w_sum - 0.5 * square
    value += np.sum(L * m.G, axis=1) + (now.mu - mu) * projected
    gaussian = rows.gaussian
    if not gaussian.any():
        return mu, now.tau, float(value.sum())
    # All entries of a Gaussian column have weight tau: the residual does not depend on it.
    residual = rows.squares - 2.0 * value / now.tau[lay.noise]
    floor = MIN_NOISE_RATIO * lay.total(rows.squares)
    n_pseudo, pseudo_squares, _ = noise_prior(rows, lay, now.tau)
    residuals, count = lay.total(residual), lay.total(rows.observed)
    tau = (count + n_pseudo) / np.maximum(residuals + pseudo_squares, floor)
    gaussian_classes = np.bincount(lay.noise, weights=gaussian) > 0
    tau = np.where(gaussian_classes, tau, 1.0)
    fit = 0.5 * np.sum((count * np.log(tau / (2.0 * np.pi)) - tau * residuals)[gaussian_classes])
    log_prior = noise_prior(rows, lay, tau, gaussian)[2]
    return mu, tau, float(fit) + float(value[~gaussian].sum()) + log_prior


def infer_rows(
    rows: Rows, L: np.ndarray, tau: np.ndarray, mu: np.ndarray, max_iter: int = 200
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return Z, S and lower bounds of the log densities of new rows."""
    Q = L.shape[1]
    second_moments = pack_second_moments(L, None)
    Z, S, bounds = np.zeros((rows.n, Q)), np.empty((rows.n, Q, Q)), np.empty(rows.n)
    constants = np.where(rows.gaussian, 0.5 * np.log(tau / (2.0 * np.pi)), 0.0)
    for block, X in rows.blocks(Q):
        z, s = Z[block], np.tile(np.eye(Q), (X.shape[0], 1, 1))
        for _ in range(max_iter):
            q = quadratic_bounds(rows, X, *predictor_moments(L, mu, second_moments, z, s), tau)
            before = z
            z, s, log_det = row_posteriors(L, mu, second_moments, q)
            if np.max(np.abs(z - before), initial=0.0) < 1e-7:
                break
        mean, variance = predictor_moments(L, mu, second_moments, z, s)
        seen = ~np.isnan(X)
        x = np.where(seen & rows.gaussian, X, 0.0)
        q = quadratic_bounds(rows, X, mean, variance, tau)
        entries = q.k + q.b * mean - 0.5 * q.w * (mean * mean + variance)
        entries += np.where(seen, constants - 0.5 * tau * x * x, 0.0)
        trace = np.trace(s, axis1=1, axis2=2) + np.sum(z * z, axis=1)
        Z[block], S[block] = z, s
        bounds[block] = entries.sum(axis=1) - 0.5 * (trace - Q - log_det)
    return Z, S, bounds
