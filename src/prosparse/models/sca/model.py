"""Sparse probabilistic projections: PCA, CCA and group factor analysis.

[AB08]  C. Archambeau, F. Bach. Sparse probabilistic projections. NIPS 21, 2008.

Model: x = Lambda z + mu + noise with z ~ N(0, I). The columns of x form views. Each factor is
shared by all views or private to one view; loadings of private factors are fixed at zero in the
other views. The noise precision tau is common to the columns of a view [AB08] or specific to each
column (factor analysis). Columns with the same tau form a noise class.

"ard" (SCA-1): l_ij ~ N(0, t_ij) with a variational posterior of the loadings and estimated t.
The loadings of a view on a factor have a common inclusion probability (`inclusion_prior`). The
factor precisions Phi of (27) are absorbed into Lambda and t, so that factors have unit variance.

"hyperbolic" (SCA-2): generalised hyperbolic prior of l_ij, with loadings at the maximum of the log
posterior. Phi = I is fixed. With Phi as in (19), the posterior would be unbounded, because the
loadings could shrink while the factors grow.

Symbols: n samples, p variables, Q factors, V views, K noise classes; L (p, Q) loadings, C (p, Q, Q)
their covariances, t (p, Q) their prior variances, tau (K,) noise precisions, mu (p,) offsets from
the observed column means (zero for complete data).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np
from array_api_compat import array_namespace, device

from ...data import Array
from ...data.arrays import as_like, to_numpy
from ...errors import ParameterError
from ...inference.acceleration import Anderson
from ...numerics.spectrum import eye_like
from .hyperbolic import HyperbolicPrior
from .loadings import loadings_divergence, update_ard_rows, update_map_rows
from .noise import NoisePrior, initial_noise_prior, update_noise
from .point_normal import PointNormal, initial_posterior, update_unknowns

if TYPE_CHECKING:
    from .samples import FactorMoments, Samples

MAX_FACTORS = 10_000

# Factor variances of a group below this value are set to zero.
MIN_VARIANCE = 1e-12

# Minimum noise variance, relative to the mean square of a noise class. The likelihood is unbounded
# if the loadings fit a view exactly.
MIN_NOISE_RATIO = 1e-10

# Prior of the noise variance of a column, in pseudo-samples with the variance of the column and
# with the typical noise variance of its view. It excludes Heywood cases, in which one factor fits a
# single column exactly and the likelihood is unbounded.
N_PSEUDO_SAMPLES_COLUMN = 1.0
N_PSEUDO_SAMPLES_VIEW = 10.0
# With learned noise variances, c observed entries have (N_PSEUDO_LEARNED / c)^2 pseudo-samples, at
# most 1. With more pseudo-samples, the noise of nearly collinear columns would be overestimated.
N_PSEUDO_LEARNED = 20.0

# Pseudo-counts of zero and non-zero loadings in the prior of the inclusion probability of a view
# and a factor.
N_PSEUDO_LOADINGS = 0.5

# Minimum initial noise variance, relative to the mean square of a noise class. With less noise, the
# factors converge slowly.
MIN_INITIAL_NOISE_RATIO = 1e-3

# Number of sweeps over the loadings per iteration under the hyperbolic prior. All sweeps use the
# same moments of the factors, which dominate the cost.
N_SWEEPS = 2


Noise = Literal["view", "feature", "learned"]
Prior = Literal["ard", "point-normal", "hyperbolic"]


class ViewLayout(NamedTuple):
    """Assignment of columns to views and noise classes, and of factors to views."""

    view: Array  # (p,) view of each column
    allowed: Array  # (p, Q) False for loadings fixed at zero
    block: np.ndarray  # (Q,) 0 for shared factors, v + 1 for private factors of view v
    noise: Array  # (p,) noise class of each column
    member: Array  # (V, p) indicators of the columns of each view
    units: np.ndarray | None = None  # (H, p) systems of units of learned noise variances

    @property
    def noise_has_prior(self) -> bool:
        """Whether each column has its own noise variance."""
        return self.noise is not self.view

    def total(self, values: Array) -> Array:
        """Sum a value per column over each noise class."""
        return values if self.noise_has_prior else self.member @ values

    def of_columns(self, values: Array) -> Array:
        """Expand a value per noise class to a value per column.

        Values of several groups, (G, p), are already values per column.
        """
        if self.noise_has_prior or values.ndim > 1:
            return values
        return array_namespace(values).take(values, self.view, axis=0)

    def to_device_of(self, like: Array) -> ViewLayout:
        """Return the layout in the array library of ``like``, except ``block``."""
        view, allowed, member = (as_like(p, like) for p in (self.view, self.allowed, self.member))
        noise = as_like(self.noise, like) if self.noise_has_prior else view
        return ViewLayout(view, allowed, self.block, noise, member, self.units)


class Scores(Protocol):
    """Posterior or prior of scores that differ from N(0, I)."""

    def rescale(self, r: Array) -> Any:
        """Return the scores times ``r`` (Q,)."""

    def take(self, keep: Array) -> Any:
        """Return the scores of some factors."""


class FactorParameters(NamedTuple):
    """Parameters of the model, possibly with G groups of samples."""

    L: Array  # (p, Q) loadings: posterior means (ard) or maximum a posteriori (hyperbolic)
    C: Array | None  # (p, Q, Q) posterior covariances (ard)
    t: Array | None  # (p, Q) prior variances 1/gamma (ard), 0 for excluded loadings
    tau: Array  # (K,) noise precisions; (G, p) of groups
    mu: Array  # (p,) or (G, p)
    sparse: PointNormal | None = None  # posterior of the loadings (point-normal)
    scores: Scores | None = None  # None if they are Gaussian with unit variance
    noise: NoisePrior | None = None  # learned prior of the noise precisions


class State(NamedTuple):
    """State of the iterations."""

    fitted: FactorParameters  # parameters with objective `bound`
    ahead: FactorParameters  # start of the next step
    bound: float  # ard: lower bound of the log evidence; hyperbolic: the exact log posterior


def view_layout(
    groups: list[np.ndarray],
    n_shared: int,
    private: list[int],
    noise: Noise = "view",
    scale: np.ndarray | None = None,
) -> ViewLayout:
    """Build the layout of shared factors followed by private factors.

    ``scale`` (p,) contains the divisors of the columns, by default ones.
    """
    if n_shared + sum(private) > MAX_FACTORS:
        raise ParameterError(
            f"`n_components` and `n_private` must add up to at most {MAX_FACTORS} factors, got "
            f"{n_shared + sum(private)}."
        )
    view = np.empty(sum(g.size for g in groups), dtype=int)
    for v, columns in enumerate(groups):
        view[columns] = v
    block = np.concatenate(
        [np.zeros(n_shared, int), np.repeat(np.arange(len(private)) + 1, private)]
    )
    allowed = (block == 0) | (block == view[:, None] + 1)
    noise_class = view if noise == "view" else np.arange(view.size)
    units = None
    if noise == "learned":
        units = np.ones((1, view.size))
        if scale is not None and np.any(scale != scale[0]):
            units = np.stack([units[0], np.mean(scale**2) / scale**2])
    return ViewLayout(view, allowed, block, noise_class, membership(view), units)


def membership(view: np.ndarray) -> np.ndarray:
    """Return the (V, p) indicators of the columns of each view."""
    return (view == np.arange(view.max() + 1)[:, None]).astype(float)


def init(
    samples: Samples,
    lay: ViewLayout,
    L: np.ndarray,
    residual_variance: np.ndarray,
    prior: Prior,
    system: int = 0,
) -> State:
    """Compute the state before the first step.

    Learned noise variances are initially nearly equal in the units ``system``.
    """
    L, residual_variance = (as_like(part, samples.squares) for part in (L, residual_variance))
    xp = array_namespace(L)
    count = lay.total(samples.observed)
    min_noise = MIN_INITIAL_NOISE_RATIO * lay.total(samples.squares) / count
    noise = xp.maximum(lay.total(samples.observed * residual_variance) / count, min_noise)
    first = initial_parameters(lay, L, 1.0 / noise, xp.zeros_like(L[:, 0]), prior)
    if lay.units is not None and prior != "hyperbolic":
        member, variance = to_numpy(lay.member), to_numpy(noise)
        learned = initial_noise_prior(variance, member, lay.units, system)
        found = update_noise(
            variance * to_numpy(count), to_numpy(count), member, lay.units, learned
        )
        first = first._replace(tau=as_like(found.tau, noise), noise=found.prior)
    return State(first, first, -math.inf)


def initial_parameters(
    lay: ViewLayout, L: Array, tau: Array, mu: Array, prior: Prior
) -> FactorParameters:
    """Compute the parameters before the first step."""
    if prior == "hyperbolic":
        return FactorParameters(L, None, None, tau, mu)
    xp, (p, Q) = array_namespace(L), L.shape
    C = xp.zeros((p, Q, Q), dtype=L.dtype, device=device(L))
    if prior == "ard":
        return FactorParameters(L, C, L**2 + xp.mean(L**2), tau, mu)
    return FactorParameters(L, C, None, tau, mu, initial_posterior(L, lay.member, lay.allowed))


# --- step


def step(samples: Samples, lay: ViewLayout, prior: HyperbolicPrior | None, state: State) -> State:
    """Update q(z), the loadings and their prior, mu, tau and the scale of z.

    ``prior`` is None for variational posteriors of the loadings (SCA-1). With a hyperbolic prior
    (SCA-2), the bound is the log posterior of the parameters before the step or, if q(z) is not
    exact, a lower bound of the log posterior after the step.
    """
    now = state.ahead
    xp, tau = array_namespace(now.L), lay.of_columns(now.tau)
    m = samples.moments(now.L, now.C, tau, now.mu, now.scores)  # (17), (25)
    weight = tau if m.weight is None else m.weight
    found = update_loadings(lay, now, prior, weight, m.A, m.G)  # (20), (26) and gamma of (27)
    mu, noise = samples.update_offsets_and_noise(lay, now, m, found.L, found.C)
    updated = now._replace(tau=noise.tau, noise=noise.prior, mu=mu)
    if prior is not None:
        if m.explained is not None:
            bound = log_posterior(samples, lay, prior, now, m)
            return State(now, updated._replace(L=found.L), bound)
        variance = xp.ones_like(now.L[0, :])
        divergence = 0.5 * (float(xp.sum(xp.linalg.diagonal(m.zz) - samples.n)) - m.log_det)
        log_prior = float(np.sum(prior.log_density(found.L[lay.allowed])))
    else:
        log_prior = found.log_prior
        variance = xp.linalg.diagonal(m.zz) / samples.n if m.variance is None else m.variance
        variance = xp.where(variance > 0, variance, 1.0)  # 1/Phi, (27)
        divergence = (
            0.5 * (samples.n * float(xp.sum(xp.log(variance))) - m.log_det)
            if m.divergence is None
            else m.divergence
        )
    r = xp.sqrt(variance)
    updated = updated._replace(scores=None if m.scores is None else m.scores.rescale(1.0 / r))
    updated = found.rescale(r, updated)
    return State(updated, updated, noise.log_density - divergence + log_prior)


class UpdatedLoadings(NamedTuple):
    """Updated posterior q(Lambda) and its log prior."""

    L: Array
    C: Array | None
    t: Array | None
    sparse: PointNormal | None
    log_prior: float  # variational: log prior of the zeros minus KL(q(Lambda) | prior)

    def rescale(self, r: Array, parameters: FactorParameters) -> FactorParameters:
        """Return ``parameters`` with these loadings times ``r`` (Q,); overwrites C."""
        C = self.C
        if C is not None:
            C *= r[:, None] * r
        return parameters._replace(
            L=self.L * r,
            C=C,
            t=None if self.t is None else self.t * r**2,
            sparse=None if self.sparse is None else self.sparse.rescale(r),
        )


def update_loadings(
    lay: ViewLayout,
    now: FactorParameters,
    prior: HyperbolicPrior | None,
    tau: Array,
    A: Array,
    G: Array,
) -> UpdatedLoadings:
    """Update q(Lambda) and its prior, given the moments of the factors.

    A (1 or p, Q, Q) contains sums of <z z'>, G (p, Q) sums of (x - mu) <z>, and tau (p,) noise
    precisions.
    """
    xp = array_namespace(G)
    if prior is not None:
        L = now.L
        for _ in range(N_SWEEPS):
            L = update_map_rows(L, tau, A, G, lay.allowed, prior)
        return UpdatedLoadings(L, None, None, None, 0.0)
    if now.sparse is None:
        assert now.t is not None
        cost = xp.take(inclusion_prior(lay, now.t).cost, lay.view, axis=0)
        rows = update_ard_rows(now.t, tau, A, G, lay.allowed, cost)
        log_prior = inclusion_prior(lay, rows.t).log_prior - loadings_divergence(rows)
        return UpdatedLoadings(rows.L, rows.C, rows.t, None, log_prior)
    sparse = update_unknowns(
        now.sparse._replace(mean=now.L), tau, A, G, lay.view, lay.member, lay.allowed
    )
    C = sparse.variance[:, :, None] * eye_like(A[0, :, :], xp)
    return UpdatedLoadings(sparse.mean, C, None, sparse, -sparse.divergence)


class InclusionPrior(NamedTuple):
    """Prior on which loadings are zero."""

    cost: Array  # (V, Q) minimum gain in log evidence of an included loading
    log_prior: float  # log prior of the zeros, at the optimal inclusion probabilities


def inclusion_prior(lay: ViewLayout, t: Array) -> InclusionPrior:
    """Compute the prior on which loadings are zero.

    ARD alone includes a loading if q^2 > s, which has probability of about 1/3 under noise. The
    loadings of a view on a factor therefore have a common inclusion probability, set to its optimum
    given the number of included loadings. If a view does not depend on a factor, this probability
    decreases over the iterations and excludes the remaining loadings. The probability is at most
    1/2, so that each loading must increase the evidence.
    """
    xp = array_namespace(t)
    inside = lay.member @ xp.astype(t > 0, t.dtype)
    possible = lay.member @ xp.astype(lay.allowed, t.dtype)
    inside, outside = inside + N_PSEUDO_LOADINGS, possible - inside + N_PSEUDO_LOADINGS
    probability = xp.clip(inside / (inside + outside), None, 0.5)
    log_prior = inside * xp.log(probability) + outside * xp.log1p(-probability)
    total = xp.sum(xp.where(possible > 0, log_prior, 0.0))
    return InclusionPrior(xp.log1p(-probability) - xp.log(probability), float(total))


# --- hyperbolic prior: exact log posterior


def log_posterior(
    samples: Samples,
    lay: ViewLayout,
    prior: HyperbolicPrior,
    now: FactorParameters,
    m: FactorMoments,
) -> float:
    """Compute log p(X | Lambda, mu, tau) + log p(Lambda) + log p(tau)."""
    log_prior = float(np.sum(prior.log_density(now.L[lay.allowed])))
    log_prior += noise_prior(samples, lay, now.tau)[2]
    return log_likelihood(samples, lay, now, m) + log_prior


def log_likelihood(
    samples: Samples, lay: ViewLayout, now: FactorParameters, m: FactorMoments
) -> float:
    """Compute sum_n log N(x_n; mu, Lambda Lambda' + Psi^-1), observed entries."""
    spread = lay.total(samples.squares + samples.observed * now.mu**2)
    count = lay.total(samples.observed)
    noise = np.sum(count * np.log(now.tau / (2.0 * np.pi)) - now.tau * spread)
    return 0.5 * float(noise + m.log_det + m.explained)


# --- offsets and noise


class UpdatedNoise(NamedTuple):
    """Updated noise precisions.

    The lower bound of the log evidence is ``log_density`` minus the divergences of q(z) and
    q(Lambda) from their priors, plus the log prior of the zeros.
    """

    tau: Array  # (K,)
    prior: NoisePrior | None
    log_density: float  # E log p(X | z, Lambda) + log p(tau)


def update_offsets_and_noise(
    samples: Samples,
    lay: ViewLayout,
    now: FactorParameters,
    m: FactorMoments,
    L: Array,
    C: Array | None,
) -> tuple[Array, UpdatedNoise]:
    """Update mu and the noise, [AB08] (19), (21), (27), (28).

    The expected log density of a column with precision tau is tau (value - squares / 2), up to
    constants of the noise. For samples with weights, the moments are multiplied by tau.
    """
    xp = array_namespace(L)
    projected = xp.sum(L * m.z_sum, axis=1)
    w_sum = samples.observed if m.w_sum is None else m.w_sum
    mu = (m.b_sum - projected) / w_sum
    if m.A.shape[0] == 1:
        A = m.A[0, ...]
        square = xp.sum((L @ A) * L, axis=1)
        if C is not None:
            square = square + xp.reshape(C, (L.shape[0], -1)) @ xp.reshape(A, (-1,))
    else:  # values are missing, or entries have weights
        square = np.einsum("ijk,ij,ik->i", m.A, L, L, optimize=True)
        square = square if C is None else square + np.einsum("ijk,ijk->i", m.A, C)
    cross = xp.sum(L * m.G, axis=1) - (mu - now.mu) * projected
    value = mu * m.b_sum + cross - 0.5 * (mu**2 * w_sum + square)
    if samples.gaussian is None:
        residual = lay.total(samples.squares - 2.0 * value)
        return mu, update_noise_classes(samples, lay, now, residual)
    # All entries of a Gaussian column have weight tau, so that the residual does not depend on tau.
    residual = lay.total(samples.squares - 2.0 * value / lay.of_columns(now.tau))
    noise = update_noise_classes(samples, lay, now, residual)
    bounds = m.k_sum + float(value[~samples.gaussian].sum())
    return mu, noise._replace(log_density=noise.log_density + bounds)


def update_noise_classes(
    samples: Samples, lay: ViewLayout, now: FactorParameters, residual: Array
) -> UpdatedNoise:
    """Update the noise precisions given expected squared residuals (K,)."""
    xp, count = array_namespace(residual), lay.total(samples.observed)
    floor = MIN_NOISE_RATIO * lay.total(samples.squares)
    if now.noise is not None:
        assert lay.units is not None
        variance = samples.squares / samples.observed
        pseudo = xp.clip((N_PSEUDO_LEARNED / count) ** 2, None, 1.0)
        learned = update_noise(
            to_numpy(xp.maximum(residual, floor) + pseudo * variance),
            to_numpy(count + pseudo),
            to_numpy(lay.member),
            lay.units,
            now.noise,
        )
        constant = 0.5 * float(xp.sum(pseudo * xp.log(2.0 * math.pi * variance)))
        tau = as_like(learned.tau, residual)
        return UpdatedNoise(tau, learned.prior, learned.log_marginal + constant)
    more, square_more, _ = noise_prior(samples, lay, now.tau)
    tau = (count + more) / xp.maximum(residual + square_more, floor)
    if samples.gaussian is not None:  # noise precisions of other classes are one
        gaussian = np.bincount(lay.noise, weights=samples.gaussian) > 0
        tau, residual = np.where(gaussian, tau, 1.0), np.where(gaussian, residual, 0.0)
        count = np.where(gaussian, count, 0.0)
    fit = 0.5 * float(xp.sum(count * xp.log(tau / (2.0 * math.pi)) - tau * residual))
    return UpdatedNoise(tau, None, fit + noise_prior(samples, lay, tau, samples.gaussian)[2])


class ColumnSquares(Protocol):
    """Data with the number of observed entries and the sum of squares per column."""

    @property
    def observed(self) -> Array: ...

    @property
    def squares(self) -> Array: ...


def noise_prior(
    samples: ColumnSquares, lay: ViewLayout, tau: Array, among: np.ndarray | None = None
) -> tuple[float, Array, float]:
    """Compute pseudo-samples, their squared residuals (K,) and the log prior.

    The log prior refers to log tau and omits a constant. ``among`` (p,) marks the columns with
    noise, by default all. The typical noise variance of a view is set to its optimum, the harmonic
    mean of the noise variances.
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
    terms = logs - tau * squares
    log_prior = 0.5 * float(xp.sum(terms if among is None else terms[among]))
    return N_PSEUDO_SAMPLES_VIEW + N_PSEUDO_SAMPLES_COLUMN, squares, log_prior


def max_precisions(samples: ColumnSquares, lay: ViewLayout) -> Array:
    """Compute the noise precisions at `MIN_NOISE_RATIO`, (K,)."""
    mean_squares = lay.total(samples.squares) / lay.total(samples.observed)
    return 1.0 / (MIN_NOISE_RATIO * mean_squares)


def accelerator(largest: Array) -> Anderson:
    """Build the Anderson acceleration of all parameters.

    The vector contains loadings, offsets, log precisions and, for several groups, log factor
    variances. Precisions are limited to ``largest``, the maximum that a step can reach.
    """
    xp = array_namespace(largest)

    def parts(now: FactorParameters) -> list[Array]:
        v = getattr(now.scores, "v", None)
        logs = [] if v is None else [xp.log(xp.clip(v, MIN_VARIANCE, None))]
        return [now.L, now.mu, xp.log(now.tau), *logs]

    def pack(state: State) -> Array:
        return xp.concat([xp.reshape(part, (-1,)) for part in parts(state.ahead)])

    def unpack(vector: Array, state: State) -> State:
        now, moved, first = state.ahead, [], 0
        before = parts(now)
        for part in before:
            size = math.prod(part.shape)
            moved.append(xp.reshape(vector[first : first + size], part.shape))
            first += size
        L = xp.where(now.L == 0, 0.0, moved[0])
        changes = [xp.clip(a - b, -2.0, 2.0) for a, b in zip(moved[2:], before[2:], strict=True)]
        ahead = now._replace(
            L=L, mu=moved[1], tau=xp.minimum(now.tau * xp.exp(changes[0]), largest)
        )
        if len(changes) > 1:
            scores: Any = now.scores
            v = xp.where(scores.v > MIN_VARIANCE, scores.v * xp.exp(changes[1]), scores.v)
            ahead = ahead._replace(scores=scores._replace(v=v))
        return state._replace(ahead=ahead)

    return Anderson(pack, unpack, xp)
