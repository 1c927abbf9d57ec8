"""Sparse probabilistic projections: sparse PCA, sparse CCA, and factors of many views.

[AB08]  C. Archambeau, F. Bach. Sparse probabilistic projections. NIPS 21, 2008.

Model: x = Lambda z + mu + noise. The columns of the table form views; z holds latents shared by
all views and latents private to one, so Lambda has fixed zeros where a view does not see
another view's own latents. z ~ N(0, I), noise of variance 1/tau in each view.

"ard" (SCA-1): l_ij ~ N(0, t_ij), variational posterior of the weights, t learned. Only the
product of a column of Lambda and its latent matters: the precisions Phi of the latents are
learned, (27), and at once folded into Lambda and t, so that latents have unit variance.
"hyperbolic" (SCA-2): generalised hyperbolic prior on l_ij, weights at the maximum of the exact
log posterior. Latents have unit variance here too, Phi = I: were it learned as in (19), the
weights could shrink to nothing, the latents grow to match, and the posterior rise without end.
Correlated latents (Phi with full blocks) buy nothing: no lower error in the denoising experiment
of the paper, and fifteen times the passes.

Symbols: L (p, Q) weights, C (p, Q, Q) their covariances, tau (V,) precisions,
mu (p,) offsets from the observed column means (zero when nothing is missing).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...errors import ParameterError
from ...inference.acceleration import Anderson
from .gaps import Moments
from .gig import HyperbolicPrior
from .rows import Rows, divergence, hyperbolic_rows, relevance_rows
from .views import Table

Array = np.ndarray

MOST_LATENTS = 10_000

# The noise variance may not fall below this share of a view's mean square: see `gsppca`.
NOISE_FLOOR = 1e-10


class Layout(NamedTuple):
    """What belongs to what."""

    view: Array  # (p,) the view of every column
    allowed: Array  # (p, Q) False at the fixed zeros of Lambda
    block: Array  # (Q,) 0 for shared latents, v + 1 for those of view v

    def total(self, values: Array) -> Array:
        """Sums of a number per column over the columns of every view."""
        return np.bincount(self.view, weights=values)


class Parameters(NamedTuple):
    L: Array  # (p, Q) weights: posterior means (ard) or maximum a posteriori (hyperbolic)
    C: Array | None  # (p, Q, Q) posterior covariances (ard)
    t: Array | None  # (p, Q) prior variances 1/gamma (ard), exactly 0 out of the model
    tau: Array  # (V,) noise precisions
    mu: Array  # (p,)


class State(NamedTuple):
    fitted: Parameters  # what `bound` belongs to
    ahead: Parameters  # where the next step starts
    bound: float  # ard: lower bound of the log evidence; hyperbolic: the exact log posterior


def layout(groups: list[Array], n_shared: int, private: list[int]) -> Layout:
    if n_shared + sum(private) > MOST_LATENTS:
        raise ParameterError(
            f"`n_components` and `n_private` ask for {n_shared + sum(private)} latents; at most "
            f"{MOST_LATENTS} are allowed"
        )
    view = np.empty(sum(g.size for g in groups), dtype=int)
    for v, columns in enumerate(groups):
        view[columns] = v
    block = np.concatenate(
        [np.zeros(n_shared, int), np.repeat(np.arange(len(private)) + 1, private)]
    )
    return Layout(view, (block == 0) | (block == view[:, None] + 1), block)


def init(L: Array, noise: Array, prior: HyperbolicPrior | None) -> State:
    """``prior`` None stands for relevance determination."""
    p, Q = L.shape
    t = C = None
    if prior is None:
        t = L**2 + np.mean(L**2)
        C = np.zeros((p, Q, Q))
    first = Parameters(L, C, t, 1.0 / np.asarray(noise), np.zeros(p))
    return State(first, first, -math.inf)


def _offsets_and_noise(
    table: Table, lay: Layout, now: Parameters, m: Moments, L: Array, C: Array | None
) -> tuple[Array, Array, Array]:
    """(mu, tau, expected squared residuals per view), [AB08] (19), (21) or (27), (28)."""
    mu = -np.sum(L * m.z_sum, axis=1) / table.observed
    cross = np.sum(L * m.G, axis=1) - (mu - now.mu) * np.sum(L * m.z_sum, axis=1)
    if m.A.shape[0] == 1:
        square = np.sum((L @ m.A[0]) * L, axis=1)
        square = square if C is None else square + C.reshape(len(L), -1) @ m.A[0].ravel()
    else:
        square = np.einsum("ijk,ij,ik->i", m.A, L, L, optimize=True)
        square = square if C is None else square + np.einsum("ijk,ijk->i", m.A, C)
    spread = table.squares + table.observed * mu**2
    residual = lay.total(spread - 2.0 * cross + square)
    count = lay.total(table.observed)
    floor = NOISE_FLOOR * lay.total(table.squares)
    return mu, count / np.maximum(residual, floor), residual


def make_relevance_step(table: Table, lay: Layout) -> Callable[[State], State]:
    """SCA-1: q(z), then q(Lambda) with its relevances, then mu, tau and the scale of z."""
    count = lay.total(table.observed)

    def step(state: State) -> State:
        now = state.ahead
        assert now.t is not None
        tau = now.tau[lay.view]
        m = table.moments(now.L, now.C, tau, now.mu)  # (25)
        rows = relevance_rows(now.t, tau, m.A, m.G, lay.allowed)  # (26) and gamma of (27)
        mu, new_tau, residual = _offsets_and_noise(table, lay, now, m, rows.L, rows.C)
        variance = np.diagonal(m.zz) / table.n  # 1/Phi, (27)
        fit = 0.5 * float(np.sum(count * np.log(new_tau / (2.0 * np.pi)) - new_tau * residual))
        divergence_z = 0.5 * (table.n * float(np.sum(np.log(variance))) - m.log_det)
        bound = fit - divergence_z - divergence(rows)
        following = _unit_latents(rows, new_tau, np.sqrt(variance), mu)
        return State(following, following, float(bound))

    return step


def _unit_latents(rows: Rows, tau: Array, r: Array, mu: Array) -> Parameters:
    """The same model with latents of unit variance: weights, and t with them, take the scale."""
    return Parameters(rows.L * r, rows.C * (r[:, None] * r), rows.t * r**2, tau, mu)


def log_likelihood(table: Table, lay: Layout, now: Parameters, m: Moments) -> float:
    """sum_n log N(x_n; mu, Lambda Lambda' + Psi^-1) by Woodbury, observed entries only."""
    spread = lay.total(table.squares + table.observed * now.mu**2)
    noise = np.sum(lay.total(table.observed) * np.log(now.tau / (2.0 * np.pi)) - now.tau * spread)
    return 0.5 * float(noise + m.log_det + m.explained)


def make_hyperbolic_step(
    table: Table, lay: Layout, prior: HyperbolicPrior, sweeps: int = 2
) -> Callable[[State], State]:
    """SCA-2: the exact log posterior where the step starts, and EM's next parameters."""

    def step(state: State) -> State:
        now = state.ahead
        tau = now.tau[lay.view]
        m = table.moments(now.L, None, tau, now.mu)  # (17)
        log_prior = float(np.sum(prior.log_density(now.L[lay.allowed])))
        bound = log_likelihood(table, lay, now, m) + log_prior
        L = now.L
        for _ in range(sweeps):
            L = hyperbolic_rows(L, tau, m.A, m.G, lay.allowed, prior)  # (20)
        mu, new_tau, _ = _offsets_and_noise(table, lay, now, m, L, None)
        return State(now, Parameters(L, None, None, new_tau, mu), bound)

    return step


def accelerator() -> Anderson:
    """Anderson acceleration over the weights, offsets and log precisions."""

    def pack(state: State) -> Array:
        now = state.ahead
        return np.concatenate([now.L.ravel(), now.mu, np.log(now.tau)])

    def unpack(vector: Array, state: State) -> State:
        now = state.ahead
        size, V = now.L.size, now.tau.size
        L = np.where(now.L == 0, 0.0, vector[:size].reshape(now.L.shape))
        change = np.clip(vector[-V:] - np.log(now.tau), -2.0, 2.0)
        ahead = now._replace(L=L, mu=vector[size:-V], tau=now.tau * np.exp(change))
        return state._replace(ahead=ahead)

    return Anderson(pack, unpack, np)
