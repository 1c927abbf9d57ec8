"""Several groups of samples (batches, donors): the step of the model.

Model: x = Lambda z + mu_g + noise for a sample of group g, with z ~ N(0, diag(v_g)) and noise
variance 1/tau_g. All groups share the loadings; means, noise variances and factor variances v_g are
specific to each group. A factor with v_gk = 0 is inactive in group g. The scale of a factor is
fixed by sum_g n_g v_gk = n, unit variance over all samples.

The objective is the lower bound of the log evidence of `model.variational_step`, summed over the
groups: E log p(X | z, Lambda) - KL(z) - KL(Lambda) + log p(tau) + log p(zeros).

The multi-group model is that of [AABD20], who use mean-field updates. Here the factors are
integrated out in the update of v, which can be exactly zero. Columns that are constant or entirely
missing in a group are not part of the model of this group.

Symbols as in `model`, with G groups of n_g samples; v (G, Q), tau (G, p) and mu (G, p).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...inference.acceleration import Anderson
from .model import (
    FactorParameters,
    State,
    ViewLayout,
    max_precisions,
    membership,
    update_loadings,
    update_offsets_and_noise,
)
from .point_normal import PointNormal
from .samples import CompleteSamples, FactorMoments, Samples

# Factor variances below this value count as zero.
MIN_VARIANCE = 1e-12


class GroupSamples(NamedTuple):
    """Samples of one group."""

    samples: Samples  # centred by the means of the group, on its varying columns
    columns: np.ndarray  # positions of these columns


class GroupedParameters(NamedTuple):
    """Shared loadings and parameters of each group."""

    L: np.ndarray  # (p, Q) posterior means of the loadings
    C: np.ndarray  # (p, Q, Q) posterior covariances of the loadings
    t: np.ndarray | None  # (p, Q) prior variances (ard), 0 for excluded loadings
    tau: np.ndarray  # (G, p) noise precisions; 1 for columns constant in a group
    mu: np.ndarray  # (G, p) offsets from the observed means of the group
    v: np.ndarray  # (G, Q) variances of the factors
    sparse: PointNormal | None = None  # posterior of the loadings (point-normal)


class GroupedState(NamedTuple):
    """State of the iterations."""

    fitted: GroupedParameters
    ahead: GroupedParameters
    bound: float


def grouped_init(members: list[GroupSamples], lay: ViewLayout, pooled: State) -> GroupedState:
    """Return the initial state from that of all samples as one group."""
    now = pooled.ahead
    assert now.C is not None
    groups = len(members)
    tau = np.ones((groups, now.L.shape[0]))
    for row, (_, columns) in zip(tau, members, strict=True):
        row[columns] = now.tau[lay.noise][columns]
    tau = np.minimum(tau, max_group_precisions(members, lay))
    first = GroupedParameters(
        now.L,
        now.C,
        now.t,
        tau,
        np.zeros(tau.shape),
        np.ones((groups, now.L.shape[1])),
        now.sparse,
    )
    return GroupedState(first, first, -math.inf)


def grouped_step(
    members: list[GroupSamples], lay: ViewLayout
) -> Callable[[GroupedState], GroupedState]:
    """Return the step: v and q(z) per group, q(Lambda), then mu, tau and v."""
    parts = [sub_layout(lay, member.columns) for member in members]
    n = float(sum(member.samples.n for member in members))

    def step(state: GroupedState) -> GroupedState:
        now = state.ahead
        p, Q = now.L.shape
        A, G = np.zeros((p, Q, Q)), np.zeros((p, Q))
        posteriors = []
        for g, (member, part) in enumerate(zip(members, parts, strict=True)):
            columns = member.columns
            parameters = group_parameters(now, part, columns, g)
            v, m = update_factors(member.samples, parameters, part, now.v[g])
            tau = now.tau[g, columns]
            A[columns] += tau[:, None, None] * m.A
            G[columns] += tau[:, None] * m.G
            posteriors.append((parameters, v, m))
        ones = np.ones(p)  # A and G are already weighted by the precisions
        rows = update_loadings(lay, now, ones, A, G)
        bound, C = rows.log_prior, rows.C
        assert C is not None
        new_tau, new_mu, new_v = np.ones(now.tau.shape), np.zeros(now.mu.shape), now.v.copy()
        for g, (member, part) in enumerate(zip(members, parts, strict=True)):
            columns, samples = member.columns, member.samples
            parameters, v, m = posteriors[g]
            mu, noise = update_offsets_and_noise(
                samples, part, parameters, m, rows.L[columns], C[columns]
            )
            new_mu[g, columns], new_tau[g, columns] = mu, noise.tau[part.noise]
            # The optimal v given q(z). A factor that is inactive in a group stays inactive.
            new_v[g] = np.diagonal(m.zz) / samples.n
            active = v > 0
            bound += noise.log_density
            spread = np.log(new_v[g, active] / v[active])
            bound -= 0.5 * (samples.n * float(np.sum(spread)) - m.log_det)
        sizes = np.array([member.samples.n for member in members])
        variance = sizes @ new_v / n
        variance = np.where(variance > 0, variance, 1.0)
        updated = now._replace(tau=new_tau, mu=new_mu, v=new_v / variance)
        updated = rows.rescale(np.sqrt(variance), updated)
        return GroupedState(updated, updated, bound)

    return step


def sub_layout(lay: ViewLayout, columns: np.ndarray) -> ViewLayout:
    """Return the layout of some columns, with renumbered views and noise classes."""
    view = np.unique(lay.view[columns], return_inverse=True)[1].reshape(-1)
    noise = np.arange(columns.size) if lay.noise_has_prior else view
    return ViewLayout(view, lay.allowed[columns], lay.block, noise, membership(view))


def group_parameters(
    now: GroupedParameters, part: ViewLayout, columns: np.ndarray, g: int
) -> FactorParameters:
    """Return the parameters of group g, with one noise precision per noise class."""
    tau = np.empty(int(part.noise.max()) + 1)
    tau[part.noise] = now.tau[g, columns]
    return FactorParameters(now.L[columns], now.C[columns], None, tau, now.mu[g, columns])


def update_factors(
    samples: Samples, parameters: FactorParameters, part: ViewLayout, v: np.ndarray
) -> tuple[np.ndarray, FactorMoments]:
    """Return the factor variances of a group and the moments of the factors.

    For complete data all samples share one posterior covariance, and the optimal variance of one
    factor given the others has a closed form. With missing values the variances stay as they are;
    their update from q(z) increases the bound as well.
    """
    tau = parameters.tau[part.noise]
    assert parameters.C is not None
    if not isinstance(samples, CompleteSamples):
        r = np.sqrt(v)
        m = samples.moments(parameters.L * r, parameters.C * (r[:, None] * r), tau, parameters.mu)
        scaled = r[:, None] * r
        return v, m._replace(A=m.A * scaled, G=m.G * r, z_sum=m.z_sum * r, zz=m.zz * scaled)
    n = samples.n
    P = (tau[:, None] * parameters.L).T @ parameters.L + np.tensordot(tau, parameters.C, axes=1)
    XY, YY = samples.projections(tau[:, None] * parameters.L)
    v = optimal_factor_variances(v, P, YY / n)
    S, log_det = covariance(v, P)
    zz = n * S + S @ YY @ S
    explained = float(np.sum(S * YY))
    return v, FactorMoments(zz[None], XY @ S, np.zeros((1, v.size)), zz, n * log_det, explained)


def covariance(v: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, float]:
    """Return (diag(1/v) + P)^-1, finite for v = 0, and -log det(I + diag(v) P)."""
    r = np.sqrt(v)
    B = np.eye(v.size) + r[:, None] * P * r
    S = r[:, None] * np.linalg.inv(B) * r
    return 0.5 * (S + S.T), -float(np.linalg.slogdet(B)[1])


def optimal_factor_variances(v: np.ndarray, P: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Update each factor variance to its optimum given the others, in one sweep.

    With the factors integrated out, the bound of a sample has the form of
    `loadings.update_ard_rows` as a function of v_k, and s is the same for all samples. The maximum
    is at (<q^2> - s) / s^2, or at zero if the mean <q^2> over the samples is below s.

    P (Q, Q) is <Lambda' diag(tau) Lambda>, and ``second`` (Q, Q) is the mean of y y' over the
    samples, y = Lambda' diag(tau) (x - mu).
    """
    v = v.copy()
    for k in range(v.size):
        v[k] = 0.0
        a = -covariance(v, P)[0] @ P[:, k]
        a[k] += 1.0
        s = float(P[k] @ a)
        if s > 0:
            v[k] = max(float(a @ second @ a) - s, 0.0) / (s * s)
    return v


def max_group_precisions(members: list[GroupSamples], lay: ViewLayout) -> np.ndarray:
    """Return the (G, p) maximum noise precisions; 1 for columns outside a group."""
    largest = np.ones((len(members), lay.view.size))
    for row, (samples, columns) in zip(largest, members, strict=True):
        part = sub_layout(lay, columns)
        row[columns] = max_precisions(samples, part)[part.noise]
    return largest


def grouped_accelerator(members: list[GroupSamples], lay: ViewLayout) -> Anderson:
    """Return the Anderson acceleration of loadings, offsets and log variances."""
    largest = max_group_precisions(members, lay)

    def pack(state: GroupedState) -> np.ndarray:
        now = state.ahead
        logs = np.log(now.tau), np.log(np.maximum(now.v, MIN_VARIANCE))
        return np.concatenate([part.ravel() for part in (now.L, now.mu, *logs)])

    def unpack(vector: np.ndarray, state: GroupedState) -> GroupedState:
        now = state.ahead
        ends = np.cumsum([now.L.size, now.mu.size, now.tau.size])
        L, mu, log_tau, log_v = np.split(vector, ends)
        L = np.where(now.L == 0, 0.0, L.reshape(now.L.shape))
        tau = np.minimum(_limited_update(now.tau, log_tau), largest)
        v = np.where(now.v > MIN_VARIANCE, _limited_update(now.v, log_v), now.v)
        return state._replace(ahead=now._replace(L=L, tau=tau, mu=mu.reshape(now.mu.shape), v=v))

    return Anderson(pack, unpack, np)


def _limited_update(values: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """Move positive values to exp(``logs``), by a factor of at most e^2."""
    before = np.log(np.maximum(values, MIN_VARIANCE))
    moved: np.ndarray = values * np.exp(np.clip(logs.reshape(values.shape) - before, -2.0, 2.0))
    return moved
