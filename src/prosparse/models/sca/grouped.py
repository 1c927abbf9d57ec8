"""Model of several groups of samples, such as batches or donors.

Model: x = Lambda z + mu_g + noise for a sample of group g, with z ~ N(0, diag(v_g)) and noise
variance 1/tau_g. The loadings are common to all groups; means, noise variances and factor variances
v_g are specific to each group. A factor with v_gk = 0 is inactive in group g. The scale of a factor
is fixed by sum_g n_g v_gk = n, that is, unit variance over all samples.

The objective is the lower bound of the log evidence of `model.step`, summed over the groups.

The multi-group model is that of [AABD20], who use mean-field updates. Here, the factors are
integrated out in the update of v, so that v can be exactly zero. Columns that are constant or
entirely missing in a group are excluded from the model of this group.

Symbols as in `model`, with G groups of n_g samples; v (G, Q), tau (G, p) and mu (G, p).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...data import Array
from .model import FactorParameters, Scores, State, UpdatedNoise, ViewLayout, membership
from .samples import CompleteSamples, FactorMoments, Samples


class GroupSamples(NamedTuple):
    """Samples of one group."""

    samples: Samples  # centred by the means of the group, on its varying columns
    columns: np.ndarray  # positions of the varying columns


class FactorVariances(NamedTuple):
    """Variances of the scores in each group."""

    v: np.ndarray  # (G, Q)

    def rescale(self, r: np.ndarray) -> FactorVariances:
        """Return the variances of ``r`` (Q,) times the scores."""
        return FactorVariances(self.v * r**2)

    def take(self, keep: np.ndarray) -> FactorVariances:
        """Return the variances of some factors."""
        return FactorVariances(self.v[:, keep])


class GroupedSamples(Samples):
    """Samples of several groups, with parameters tau (G, p) and mu (G, p)."""

    def __init__(self, members: list[GroupSamples], p: int):
        self.members, self.p = members, p
        self.n = sum(member.samples.n for member in members)
        self.observed, self.squares = np.zeros(p), np.zeros(p)
        for member in members:
            self.observed[member.columns] += member.samples.observed
            self.squares[member.columns] += member.samples.squares

    def initial(self, lay: ViewLayout, pooled: State) -> State:
        """Convert the state of all samples as one group to an initial state."""
        now = pooled.ahead
        G, Q = len(self.members), now.L.shape[1]
        tau = np.ones((G, self.p))
        for row, (_, columns) in zip(tau, self.members, strict=True):
            row[columns] = now.tau[lay.noise][columns]
        tau = np.minimum(tau, self.max_precisions(lay))
        first = now._replace(
            tau=tau, mu=np.zeros(tau.shape), scores=FactorVariances(np.ones((G, Q)))
        )
        return State(first, first, pooled.bound)

    def moments(
        self,
        L: Array,
        C: Array | None,
        tau: Array,
        mu: Array,
        scores: Scores | None = None,
    ) -> FactorMoments:
        """Compute the moments of all groups, multiplied by noise precisions."""
        assert isinstance(scores, FactorVariances)
        assert C is not None
        Q = L.shape[1]
        A, G, zz = np.zeros((self.p, Q, Q)), np.zeros((self.p, Q)), np.zeros((Q, Q))
        new_v, groups, log_det, divergence = scores.v.copy(), [], 0.0, 0.0
        mean_squares = np.zeros(Q)
        for g, (samples, at) in enumerate(self.members):
            v, m = update_factors(samples, L[at], C[at], tau[g, at], mu[g, at], scores.v[g])
            A[at] += tau[g, at, None, None] * m.A
            G[at] += tau[g, at, None] * m.G
            zz += m.zz
            mean_squares += m.mean_squares
            # This v is optimal given q(z). A factor that is inactive in a group remains inactive.
            new_v[g] = np.diagonal(m.zz) / samples.n
            active = v > 0
            ratio = float(np.sum(np.log(new_v[g, active] / v[active])))
            divergence += 0.5 * (samples.n * ratio - m.log_det)
            log_det += m.log_det
            groups.append(m)
        return FactorMoments(
            A,
            G,
            np.zeros((1, Q)),
            zz,
            log_det,
            None,
            mean_squares,
            FactorVariances(new_v),
            divergence=divergence,
            weight=np.ones(self.p),
            groups=tuple(groups),
        )

    def update_offsets_and_noise(
        self, lay: ViewLayout, now: FactorParameters, m: FactorMoments, L: Array, C: Array | None
    ) -> tuple[Array, UpdatedNoise]:
        """Update mu and the noise of each group."""
        assert C is not None
        mu, tau, log_density = np.zeros(now.mu.shape), np.ones(now.tau.shape), 0.0
        for g, ((samples, at), moments) in enumerate(zip(self.members, m.groups, strict=True)):
            part = sub_layout(lay, at)
            of_class = np.empty(int(part.noise.max()) + 1)
            of_class[part.noise] = now.tau[g, at]
            before = now._replace(tau=of_class, mu=now.mu[g, at])
            mu[g, at], noise = samples.update_offsets_and_noise(part, before, moments, L[at], C[at])
            tau[g, at] = noise.tau[part.noise]
            log_density += noise.log_density
        return mu, UpdatedNoise(tau, None, log_density)

    def max_precisions(self, lay: ViewLayout) -> np.ndarray:
        """Compute maximum noise precisions (G, p); 1 for columns outside a group."""
        largest = np.ones((len(self.members), self.p))
        for row, (samples, at) in zip(largest, self.members, strict=True):
            part = sub_layout(lay, at)
            row[at] = samples.max_precisions(part)[part.noise]
        return largest


def sub_layout(lay: ViewLayout, columns: np.ndarray) -> ViewLayout:
    """Return the layout of some columns, with renumbered views and noise classes."""
    view = np.unique(lay.view[columns], return_inverse=True)[1].reshape(-1)
    noise = np.arange(columns.size) if lay.noise_has_prior else view
    return ViewLayout(view, lay.allowed[columns], lay.block, noise, membership(view))


def update_factors(
    samples: Samples,
    L: np.ndarray,
    C: np.ndarray,
    tau: np.ndarray,
    mu: np.ndarray,
    v: np.ndarray,
) -> tuple[np.ndarray, FactorMoments]:
    """Update the factor variances of a group and the moments of the factors.

    For complete data, all samples have the same posterior covariance, and the optimal variance of
    one factor given the others has a closed form. With missing values, the variances are unchanged
    here; their later update from q(z) also increases the bound.
    """
    if not isinstance(samples, CompleteSamples):
        r = np.sqrt(v)
        scaled = r[:, None] * r
        m = samples.moments(L * r, C * scaled, tau, mu)
        return v, m._replace(
            A=m.A * scaled,
            G=m.G * r,
            z_sum=m.z_sum * r,
            zz=m.zz * scaled,
            mean_squares=m.mean_squares * v,
        )
    n = samples.n
    P = (tau[:, None] * L).T @ L + np.tensordot(tau, C, axes=1)
    XY, YY = samples.projections(tau[:, None] * L)
    v = optimal_factor_variances(v, P, YY / n)
    S, log_det = covariance(v, P)
    ZZ = S @ YY @ S
    zz = n * S + ZZ
    explained = float(np.sum(S * YY))
    no_sum, squares = np.zeros((1, v.size)), np.diagonal(ZZ)
    return v, FactorMoments(zz[None], XY @ S, no_sum, zz, n * log_det, explained, squares)


def covariance(v: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, float]:
    """Compute (diag(1/v) + P)^-1, also for v = 0, and -log det(I + diag(v) P)."""
    r = np.sqrt(v)
    B = np.eye(v.size) + r[:, None] * P * r
    S = r[:, None] * np.linalg.inv(B) * r
    return 0.5 * (S + S.T), -float(np.linalg.slogdet(B)[1])


def optimal_factor_variances(v: np.ndarray, P: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Update each factor variance to its optimum given the others, in one sweep.

    With the factors integrated out, the bound of a sample has the form of
    `loadings.update_ard_rows` as a function of v_k, where s is the same for all samples. The
    maximum is at (<q^2> - s) / s^2, or at zero if <q^2>, the mean over the samples, is below s.

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
