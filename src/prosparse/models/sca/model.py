"""Sparse probabilistic projections: sparse PCA, sparse CCA, and factors of many views.

[AB08]  C. Archambeau, F. Bach. Sparse probabilistic projections. NIPS 21, 2008.

Model: x = Lambda z + mu + noise. The columns of the table form views; z holds latents shared by
all views and latents private to one, so Lambda has fixed zeros where a view does not see
another view's own latents. z ~ N(0, I). Noise of variance 1/tau: one tau for all columns of a view
(the paper's), or one for every column (factor analysis). Columns with the same tau form a class.

"ard" (SCA-1): l_ij ~ N(0, t_ij), variational posterior of the weights, t learned; which of them
are zero has a prior that the weights of a view and a latent share (`inclusion_prior`). Only the
product of a column of Lambda and its latent matters: the precisions Phi of the latents are
learned, (27), and at once folded into Lambda and t, so that latents have unit variance.
"hyperbolic" (SCA-2): generalised hyperbolic prior on l_ij, weights at the maximum of the exact
log posterior. Latents have unit variance here too, Phi = I: were it learned as in (19), the
weights could shrink to nothing, the latents grow to match, and the posterior rise without end.
Correlated latents (Phi with full blocks) buy nothing: no lower error in the denoising experiment
of the paper, and fifteen times the passes.

Symbols: n samples, p variables, Q latents; L (p, Q) weights, C (p, Q, Q) their
covariances, t (p, Q) their prior variances, tau (K,) precisions of the K classes of noise, mu (p,)
offsets from the observed column means (zero when nothing is missing).
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, Protocol

import numpy as np
from array_api_compat import array_namespace, device

from ...data import Array
from ...data.arrays import as_like
from ...errors import ParameterError
from ...inference.acceleration import Anderson
from .hyperbolic import HyperbolicPrior
from .loadings import LoadingPosteriors, loadings_divergence, update_ard_rows, update_map_rows
from .samples import FactorMoments, Samples

MAX_FACTORS = 10_000

# The noise variance may not fall below this share of a class's mean square: where the weights fit
# a view exactly, the likelihood would rise without end.
MIN_NOISE_RATIO = 1e-10

# A single column is fitted exactly by a latent of its own (a Heywood case), and the likelihood of
# its noise alone then rises without end. So the noise of a column has a prior, worth as much as one
# sample in which all of the column's variance is noise, and ten samples with the level of noise of
# its view: enough for ten columns of equal noise to be denoised as well as by one noise variance,
# too little to be seen where noise differs.
N_PSEUDO_SAMPLES_COLUMN = 1.0
N_PSEUDO_SAMPLES_VIEW = 10.0

# A weight of a view and a latent is zero or not with a probability that these weights share, as
# if so many more of them had been zero, and so many not.
N_PSEUDO_LOADINGS = 0.5

# The first noise variance is at least this share of a class's mean square: from less, latents move
# by little at a time.
MIN_INITIAL_NOISE_RATIO = 1e-3

# Visits to every weight in one step under the hyperbolic prior: the moments of the latents, which
# cost a pass over the table, serve for more than one.
N_SWEEPS = 2


Noise = Literal["view", "feature"]


class ViewLayout(NamedTuple):
    """What belongs to what: columns to views, latents to views, columns to classes of noise."""

    view: Array  # (p,) the view of every column
    allowed: Array  # (p, Q) False at the fixed zeros of Lambda
    block: np.ndarray  # (Q,) 0 for shared latents, v + 1 for those of view v
    noise: Array  # (p,) the class of noise of every column
    member: Array  # (V, p) 1 where a column belongs to a view, else 0

    @property
    def noise_has_prior(self) -> bool:
        """Whether every column has noise of its own."""
        return self.noise is not self.view

    def total(self, values: Array) -> Array:
        """Sums of a number per column over the columns of every class of noise."""
        return values if self.noise_has_prior else self.member @ values

    def of_columns(self, values: Array) -> Array:
        """From a number per class of noise to one per column."""
        if self.noise_has_prior:
            return values
        return array_namespace(values).take(values, self.view, axis=0)

    def to_device_of(self, like: Array) -> ViewLayout:
        """The same, of the library and on the device of ``like``; ``block`` stays on the host."""
        view, allowed, member = (as_like(p, like) for p in (self.view, self.allowed, self.member))
        noise = as_like(self.noise, like) if self.noise_has_prior else view
        return ViewLayout(view, allowed, self.block, noise, member)


class FactorParameters(NamedTuple):
    """The weights, with what is known of them, and the noise."""

    L: Array  # (p, Q) weights: posterior means (ard) or maximum a posteriori (hyperbolic)
    C: Array | None  # (p, Q, Q) posterior covariances (ard)
    t: Array | None  # (p, Q) prior variances 1/gamma (ard), exactly 0 out of the model
    tau: Array  # (K,) noise precisions
    mu: Array  # (p,)


class State(NamedTuple):
    """Where the iterations stand."""

    fitted: FactorParameters  # what `bound` belongs to
    ahead: FactorParameters  # where the next step starts
    bound: float  # ard: lower bound of the log evidence; hyperbolic: the exact log posterior


def view_layout(
    groups: list[np.ndarray], n_shared: int, private: list[int], noise: Noise = "view"
) -> ViewLayout:
    """Shared latents first, then those of each view's own.

    Parameters
    ----------
    groups : list of int arrays
        The columns of every view.
    n_shared : int
        Latents that all views share.
    private : list of int
        Latents of every view's own.
    noise : {"view", "feature"}, default="view"
        One noise variance for every view, or one for every column.

    Returns
    -------
    ViewLayout
    """
    if n_shared + sum(private) > MAX_FACTORS:
        raise ParameterError(
            f"`n_components` and `n_private` ask for {n_shared + sum(private)} latents; at most "
            f"{MAX_FACTORS} are allowed"
        )
    view = np.empty(sum(g.size for g in groups), dtype=int)
    for v, columns in enumerate(groups):
        view[columns] = v
    block = np.concatenate(
        [np.zeros(n_shared, int), np.repeat(np.arange(len(private)) + 1, private)]
    )
    allowed = (block == 0) | (block == view[:, None] + 1)
    noise_class = view if noise == "view" else np.arange(view.size)
    return ViewLayout(view, allowed, block, noise_class, membership(view))


def membership(view: np.ndarray) -> np.ndarray:
    """(V, p) 1 where a column belongs to a view, else 0."""
    return (view == np.arange(view.max() + 1)[:, None]).astype(float)


def init(
    samples: Samples,
    lay: ViewLayout,
    L: np.ndarray,
    left: np.ndarray,
    prior: HyperbolicPrior | None,
) -> State:
    """The state before the first step.

    Parameters
    ----------
    samples : Samples
    lay : ViewLayout
    L : array (p, Q)
        Weights, on the host.
    left : array (p,)
        The variance that they leave in every column.
    prior : HyperbolicPrior or None
        None stands for relevance determination.

    Returns
    -------
    State
    """
    L, left = (as_like(part, samples.squares) for part in (L, left))
    xp, (p, Q) = array_namespace(L), L.shape
    t = C = None
    if prior is None:
        t = L**2 + xp.mean(L**2)
        C = xp.zeros((p, Q, Q), dtype=L.dtype, device=device(L))
    count = lay.total(samples.observed)
    min_noise = MIN_INITIAL_NOISE_RATIO * lay.total(samples.squares) / count
    noise = xp.maximum(lay.total(samples.observed * left) / count, min_noise)
    first = FactorParameters(L, C, t, 1.0 / noise, xp.zeros_like(L[:, 0]))
    return State(first, first, -math.inf)


# --- SCA-1, relevance determination


def ard_step(samples: Samples, lay: ViewLayout, state: State) -> State:
    """SCA-1: q(z), then q(Lambda) with its relevances, then mu, tau and the scale of z."""
    now = state.ahead
    assert now.t is not None
    xp, tau = array_namespace(now.L), lay.of_columns(now.tau)
    m = samples.moments(now.L, now.C, tau, now.mu)  # (25)
    cost = xp.take(inclusion_prior(lay, now.t).cost, lay.view, axis=0)
    rows = update_ard_rows(now.t, tau, m.A, m.G, lay.allowed, cost)  # (26) and gamma of (27)
    mu, new_tau, residual = update_offsets_and_noise(samples, lay, now, m, rows.L, rows.C)
    variance = xp.linalg.diagonal(m.zz) / samples.n  # 1/Phi, (27)
    bound = ard_bound(samples, lay, m, rows, new_tau, residual, variance)
    following = _rescale_factors(rows, new_tau, xp.sqrt(variance), mu)
    return State(following, following, bound)


def ard_bound(
    samples: Samples,
    lay: ViewLayout,
    m: FactorMoments,
    rows: LoadingPosteriors,
    tau: Array,
    residual: Array,
    variance: Array,
) -> float:
    """The lower bound of the log evidence: E log p(X | z, Lambda) - KL(z) - KL(Lambda) + log p(tau)
    + log p(which weights are zero).

    ``residual`` (K,) holds the expected squared residuals of the classes of noise, ``variance``
    (Q,) the prior variances 1/Phi of the latents, at their best.
    """
    xp, count = array_namespace(tau), lay.total(samples.observed)
    fit = 0.5 * float(xp.sum(count * xp.log(tau / (2.0 * math.pi)) - tau * residual))
    fit += noise_prior(samples, lay, tau)[2]
    divergence_z = 0.5 * (samples.n * float(xp.sum(xp.log(variance))) - m.log_det)
    return fit - divergence_z - loadings_divergence(rows) + inclusion_prior(lay, rows.t).log_prior


class InclusionPrior(NamedTuple):
    """How many weights of every view and latent are not zero, and what follows for the next."""

    cost: Array  # (V, Q) what a weight must add to the evidence to be let in
    log_prior: float  # of which weights are zero, with the shares at their best


def inclusion_prior(lay: ViewLayout, t: Array) -> InclusionPrior:
    """The prior of which weights are zero.

    By itself, relevance determination keeps a weight wherever q^2 > s, which noise alone exceeds
    once in three times. So a weight is not zero with probability pi, which all weights of a view
    and a latent share, and which is at its best given how many are not. Where a view has nothing
    of a latent, pi falls from pass to pass and takes the weights that noise let in with it. Above
    one half it does not rise: a weight should pay for itself.
    """
    xp = array_namespace(t)
    inside = lay.member @ xp.astype(t > 0, t.dtype)
    possible = lay.member @ xp.astype(lay.allowed, t.dtype)
    inside, outside = inside + N_PSEUDO_LOADINGS, possible - inside + N_PSEUDO_LOADINGS
    share = xp.clip(inside / (inside + outside), None, 0.5)
    log_prior = inside * xp.log(share) + outside * xp.log1p(-share)
    total = xp.sum(xp.where(possible > 0, log_prior, 0.0))
    return InclusionPrior(xp.log1p(-share) - xp.log(share), float(total))


def _rescale_factors(rows: LoadingPosteriors, tau: Array, r: Array, mu: Array) -> FactorParameters:
    """The same model with latents of unit variance: weights, and t with them, take the scale.

    The covariances, which are large, are changed in place.
    """
    C = rows.C
    C *= r[:, None] * r
    return FactorParameters(rows.L * r, C, rows.t * r**2, tau, mu)


# --- SCA-2, the hyperbolic prior


def hyperbolic_step(
    samples: Samples, lay: ViewLayout, prior: HyperbolicPrior, state: State
) -> State:
    """SCA-2: the exact log posterior where the step starts, and EM's next parameters."""
    now = state.ahead
    tau = lay.of_columns(now.tau)
    m = samples.moments(now.L, None, tau, now.mu)  # (17)
    bound = log_posterior(samples, lay, prior, now, m)
    L = now.L
    for _ in range(N_SWEEPS):
        L = update_map_rows(L, tau, m.A, m.G, lay.allowed, prior)  # (20)
    mu, new_tau, _ = update_offsets_and_noise(samples, lay, now, m, L, None)
    return State(now, FactorParameters(L, None, None, new_tau, mu), bound)


def log_posterior(
    samples: Samples,
    lay: ViewLayout,
    prior: HyperbolicPrior,
    now: FactorParameters,
    m: FactorMoments,
) -> float:
    """log p(X | Lambda, mu, tau) + log p(Lambda) + log p(tau), with the moments ``m`` at these
    parameters."""
    log_prior = float(np.sum(prior.log_density(now.L[lay.allowed])))
    log_prior += noise_prior(samples, lay, now.tau)[2]
    return log_likelihood(samples, lay, now, m) + log_prior


def log_likelihood(
    samples: Samples, lay: ViewLayout, now: FactorParameters, m: FactorMoments
) -> float:
    """sum_n log N(x_n; mu, Lambda Lambda' + Psi^-1) by Woodbury, observed entries only."""
    spread = lay.total(samples.squares + samples.observed * now.mu**2)
    count = lay.total(samples.observed)
    noise = np.sum(count * np.log(now.tau / (2.0 * np.pi)) - now.tau * spread)
    return 0.5 * float(noise + m.log_det + m.explained)


# --- both


def update_offsets_and_noise(
    samples: Samples,
    lay: ViewLayout,
    now: FactorParameters,
    m: FactorMoments,
    L: Array,
    C: Array | None,
) -> tuple[Array, Array, Array]:
    """(mu, tau, expected squared residuals per class), [AB08] (19), (21) or (27), (28)."""
    xp = array_namespace(L)
    mu = -xp.sum(L * m.z_sum, axis=1) / samples.observed
    cross = xp.sum(L * m.G, axis=1) - (mu - now.mu) * xp.sum(L * m.z_sum, axis=1)
    if m.A.shape[0] == 1:
        A = m.A[0, ...]
        square = xp.sum((L @ A) * L, axis=1)
        if C is not None:
            square = square + xp.reshape(C, (L.shape[0], -1)) @ xp.reshape(A, (-1,))
    else:  # entries are missing: on the host
        square = np.einsum("ijk,ij,ik->i", m.A, L, L, optimize=True)
        square = square if C is None else square + np.einsum("ijk,ijk->i", m.A, C)
    spread = samples.squares + samples.observed * mu**2
    residual = lay.total(spread - 2.0 * cross + square)
    count = lay.total(samples.observed)
    floor = MIN_NOISE_RATIO * lay.total(samples.squares)
    more, square_more, _ = noise_prior(samples, lay, now.tau)
    return mu, (count + more) / xp.maximum(residual + square_more, floor), residual


class ColumnSquares(Protocol):
    """What the prior of the noise asks of a table."""

    @property
    def observed(self) -> Array: ...

    @property
    def squares(self) -> Array: ...


def noise_prior(
    samples: ColumnSquares, lay: ViewLayout, tau: Array, among: np.ndarray | None = None
) -> tuple[float, Array, float]:
    """(samples, (K,) sums of their squared residuals) that the prior of the noise is worth, and
    its logarithm up to a constant, of log tau, so that it does not depend on units.

    ``among`` (p,) says which columns have noise; None: all of them. The level of noise in a
    view is at its best, the harmonic mean of the noise variances.
    """
    xp = array_namespace(tau)
    if not lay.noise_has_prior:
        return 0.0, xp.zeros_like(tau), 0.0
    levels = xp.sum(lay.member, axis=1) / (lay.member @ tau)
    level = xp.take(levels, lay.view, axis=0)
    variance = samples.squares / samples.observed
    squares = N_PSEUDO_SAMPLES_VIEW * level + N_PSEUDO_SAMPLES_COLUMN * variance
    logs = N_PSEUDO_SAMPLES_VIEW * xp.log(tau * level) + N_PSEUDO_SAMPLES_COLUMN * xp.log(
        tau * variance
    )
    parts = logs - tau * squares
    log_prior = 0.5 * float(xp.sum(parts if among is None else parts[among]))
    return N_PSEUDO_SAMPLES_VIEW + N_PSEUDO_SAMPLES_COLUMN, squares, log_prior


def max_precisions(samples: Samples, lay: ViewLayout) -> Array:
    """(K,) the noise precisions at `MIN_NOISE_RATIO`."""
    mean_squares = lay.total(samples.squares) / lay.total(samples.observed)
    return 1.0 / (MIN_NOISE_RATIO * mean_squares)


def accelerator(largest: Array) -> Anderson:
    """Anderson acceleration over the weights, offsets and log precisions.

    Precisions stay below ``largest`` (K,): from a start beyond, where no step ends, the next
    step could only fall.
    """

    xp = array_namespace(largest)

    def pack(state: State) -> Array:
        now = state.ahead
        return xp.concat([xp.reshape(now.L, (-1,)), now.mu, xp.log(now.tau)])

    def unpack(vector: Array, state: State) -> State:
        now = state.ahead
        size, K = now.L.shape[0] * now.L.shape[1], now.tau.shape[0]
        L = xp.where(now.L == 0, 0.0, xp.reshape(vector[:size], now.L.shape))
        change = xp.clip(vector[-K:] - xp.log(now.tau), -2.0, 2.0)
        tau = xp.minimum(now.tau * xp.exp(change), largest)
        ahead = now._replace(L=L, mu=vector[size:-K], tau=tau)
        return state._replace(ahead=ahead)

    return Anderson(pack, unpack, xp)
