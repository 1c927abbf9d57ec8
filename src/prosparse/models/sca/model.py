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

Symbols: n samples, p variables, V views, Q latents; L (p, Q) weights, C (p, Q, Q) their
covariances, t (p, Q) their prior variances, tau (V,) precisions, mu (p,) offsets from the
observed column means (zero when nothing is missing).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...errors import ParameterError
from ...inference.acceleration import Anderson
from .hyperbolic import HyperbolicPrior
from .samples import LatentMoments, Samples
from .weights import WeightPosteriors, hyperbolic_rows, relevance_rows, weights_divergence

MOST_LATENTS = 10_000

# The noise variance may not fall below this share of a view's mean square: where the weights fit
# a view exactly, the likelihood would rise without end.
SMALLEST_NOISE_SHARE = 1e-10

# Visits to every weight in one step under the hyperbolic prior: the moments of the latents, which
# cost a pass over the table, serve for more than one.
VISITS = 2


class ViewLayout(NamedTuple):
    """What belongs to what: columns to views, latents to views."""

    view: np.ndarray  # (p,) the view of every column
    allowed: np.ndarray  # (p, Q) False at the fixed zeros of Lambda
    block: np.ndarray  # (Q,) 0 for shared latents, v + 1 for those of view v

    def total(self, values: np.ndarray) -> np.ndarray:
        """Sums of a number per column over the columns of every view."""
        return np.bincount(self.view, weights=values)


class FactorParameters(NamedTuple):
    """The weights, with what is known of them, and the noise."""

    L: np.ndarray  # (p, Q) weights: posterior means (ard) or maximum a posteriori (hyperbolic)
    C: np.ndarray | None  # (p, Q, Q) posterior covariances (ard)
    t: np.ndarray | None  # (p, Q) prior variances 1/gamma (ard), exactly 0 out of the model
    tau: np.ndarray  # (V,) noise precisions
    mu: np.ndarray  # (p,)


class State(NamedTuple):
    """Where the iterations stand."""

    fitted: FactorParameters  # what `bound` belongs to
    ahead: FactorParameters  # where the next step starts
    bound: float  # ard: lower bound of the log evidence; hyperbolic: the exact log posterior


def view_layout(groups: list[np.ndarray], n_shared: int, private: list[int]) -> ViewLayout:
    """Shared latents first, then those of each view's own.

    Parameters
    ----------
    groups : list of int arrays
        The columns of every view.
    n_shared : int
        Latents that all views share.
    private : list of int
        Latents of every view's own.

    Returns
    -------
    ViewLayout
    """
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
    return ViewLayout(view, (block == 0) | (block == view[:, None] + 1), block)


def init(L: np.ndarray, noise: np.ndarray, prior: HyperbolicPrior | None) -> State:
    """The state before the first step.

    Parameters
    ----------
    L : array (p, Q)
        Weights.
    noise : array (V,)
        The noise variance of every view.
    prior : HyperbolicPrior or None
        None stands for relevance determination.

    Returns
    -------
    State
    """
    p, Q = L.shape
    t = C = None
    if prior is None:
        t = L**2 + np.mean(L**2)
        C = np.zeros((p, Q, Q))
    first = FactorParameters(L, C, t, 1.0 / np.asarray(noise), np.zeros(p))
    return State(first, first, -math.inf)


# --- SCA-1, relevance determination


def relevance_step(samples: Samples, lay: ViewLayout, state: State) -> State:
    """SCA-1: q(z), then q(Lambda) with its relevances, then mu, tau and the scale of z."""
    now = state.ahead
    assert now.t is not None
    tau = now.tau[lay.view]
    m = samples.moments(now.L, now.C, tau, now.mu)  # (25)
    rows = relevance_rows(now.t, tau, m.A, m.G, lay.allowed)  # (26) and gamma of (27)
    mu, new_tau, residual = _offsets_and_noise(samples, lay, now, m, rows.L, rows.C)
    variance = np.diagonal(m.zz) / samples.n  # 1/Phi, (27)
    bound = relevance_bound(samples, lay, m, rows, new_tau, residual, variance)
    following = _unit_latents(rows, new_tau, np.sqrt(variance), mu)
    return State(following, following, bound)


def relevance_bound(
    samples: Samples,
    lay: ViewLayout,
    m: LatentMoments,
    rows: WeightPosteriors,
    tau: np.ndarray,
    residual: np.ndarray,
    variance: np.ndarray,
) -> float:
    """The lower bound of the log evidence: E log p(X | z, Lambda) - KL(z) - KL(Lambda).

    ``residual`` (V,) holds the expected squared residuals of the views, ``variance`` (Q,) the
    prior variances 1/Phi of the latents, at their best.
    """
    count = lay.total(samples.observed)
    fit = 0.5 * float(np.sum(count * np.log(tau / (2.0 * np.pi)) - tau * residual))
    divergence_z = 0.5 * (samples.n * float(np.sum(np.log(variance))) - m.log_det)
    return fit - divergence_z - weights_divergence(rows)


def _unit_latents(
    rows: WeightPosteriors, tau: np.ndarray, r: np.ndarray, mu: np.ndarray
) -> FactorParameters:
    """The same model with latents of unit variance: weights, and t with them, take the scale."""
    return FactorParameters(rows.L * r, rows.C * (r[:, None] * r), rows.t * r**2, tau, mu)


# --- SCA-2, the hyperbolic prior


def hyperbolic_step(
    samples: Samples, lay: ViewLayout, prior: HyperbolicPrior, state: State
) -> State:
    """SCA-2: the exact log posterior where the step starts, and EM's next parameters."""
    now = state.ahead
    tau = now.tau[lay.view]
    m = samples.moments(now.L, None, tau, now.mu)  # (17)
    bound = log_posterior(samples, lay, prior, now, m)
    L = now.L
    for _ in range(VISITS):
        L = hyperbolic_rows(L, tau, m.A, m.G, lay.allowed, prior)  # (20)
    mu, new_tau, _ = _offsets_and_noise(samples, lay, now, m, L, None)
    return State(now, FactorParameters(L, None, None, new_tau, mu), bound)


def log_posterior(
    samples: Samples,
    lay: ViewLayout,
    prior: HyperbolicPrior,
    now: FactorParameters,
    m: LatentMoments,
) -> float:
    """log p(X | Lambda, mu, tau) + log p(Lambda), with the moments ``m`` at these parameters."""
    log_prior = float(np.sum(prior.log_density(now.L[lay.allowed])))
    return rows_log_likelihood(samples, lay, now, m) + log_prior


def rows_log_likelihood(
    samples: Samples, lay: ViewLayout, now: FactorParameters, m: LatentMoments
) -> float:
    """sum_n log N(x_n; mu, Lambda Lambda' + Psi^-1) by Woodbury, observed entries only."""
    spread = lay.total(samples.squares + samples.observed * now.mu**2)
    count = lay.total(samples.observed)
    noise = np.sum(count * np.log(now.tau / (2.0 * np.pi)) - now.tau * spread)
    return 0.5 * float(noise + m.log_det + m.explained)


# --- both


def _offsets_and_noise(
    samples: Samples,
    lay: ViewLayout,
    now: FactorParameters,
    m: LatentMoments,
    L: np.ndarray,
    C: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mu, tau, expected squared residuals per view), [AB08] (19), (21) or (27), (28)."""
    mu = -np.sum(L * m.z_sum, axis=1) / samples.observed
    cross = np.sum(L * m.G, axis=1) - (mu - now.mu) * np.sum(L * m.z_sum, axis=1)
    if m.A.shape[0] == 1:
        square = np.sum((L @ m.A[0]) * L, axis=1)
        square = square if C is None else square + C.reshape(len(L), -1) @ m.A[0].ravel()
    else:
        square = np.einsum("ijk,ij,ik->i", m.A, L, L, optimize=True)
        square = square if C is None else square + np.einsum("ijk,ijk->i", m.A, C)
    spread = samples.squares + samples.observed * mu**2
    residual = lay.total(spread - 2.0 * cross + square)
    count = lay.total(samples.observed)
    floor = SMALLEST_NOISE_SHARE * lay.total(samples.squares)
    return mu, count / np.maximum(residual, floor), residual


def largest_precisions(samples: Samples, lay: ViewLayout) -> np.ndarray:
    """(V,) the noise precisions at `SMALLEST_NOISE_SHARE`."""
    mean_squares = lay.total(samples.squares) / lay.total(samples.observed)
    largest: np.ndarray = 1.0 / (SMALLEST_NOISE_SHARE * mean_squares)
    return largest


def accelerator(largest: np.ndarray) -> Anderson:
    """Anderson acceleration over the weights, offsets and log precisions.

    Precisions stay below ``largest`` (V,): from a start beyond, where no step ends, the next
    step could only fall.
    """

    def pack(state: State) -> np.ndarray:
        now = state.ahead
        return np.concatenate([now.L.ravel(), now.mu, np.log(now.tau)])

    def unpack(vector: np.ndarray, state: State) -> State:
        now = state.ahead
        size, V = now.L.size, now.tau.size
        L = np.where(now.L == 0, 0.0, vector[:size].reshape(now.L.shape))
        change = np.clip(vector[-V:] - np.log(now.tau), -2.0, 2.0)
        tau = np.minimum(now.tau * np.exp(change), largest)
        ahead = now._replace(L=L, mu=vector[size:-V], tau=tau)
        return state._replace(ahead=ahead)

    return Anderson(pack, unpack, np)
