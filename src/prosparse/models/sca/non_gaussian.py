"""E step for non-Gaussian views.

Each entry has a quadratic bound (`likelihood`) with precision w and linear term b. For a Gaussian
entry, these are tau and tau x; for a missing entry, both are zero. The posterior of a row has
precision I + sum_i w_ni <l_i l_i'>. The bounds are optimal for the moments of eta under the last
q(z) and q(Lambda). Bounds are recomputed in each iteration by blocks of rows and are not stored.

Symbols as in `model`; the posteriors of the rows are Z (n, Q) means and S (n, Q, Q) covariances.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...data import Array
from .likelihood import Likelihood, Quadratic, bernoulli_bound, link, poisson_bound
from .missing_e_step import invert_stack
from .model import Prior, Scores, State, ViewLayout, initial_parameters
from .packed import pack_outer, unpack
from .samples import FactorMoments, Samples

# Maximum number of entries of a block of rows, whose temporary arrays then fit into the cache.
MAX_BLOCK_ENTRIES = 2**17


@dataclass(frozen=True)
class Rows(Samples):
    """Data of several likelihoods, in blocks of rows."""

    n: int
    p: int
    read: Callable[[slice], np.ndarray]  # reads a block of rows, NaN for missing values
    likelihood: np.ndarray  # (p,) names
    linear_threshold: np.ndarray  # (p,) for Poisson columns
    observed: np.ndarray  # (p,) numbers of observed entries
    squares: np.ndarray  # (p,) sums of squares of the observed entries

    @property
    def gaussian(self) -> np.ndarray:  # type: ignore[override]
        """Mask (p,) of the Gaussian columns."""
        which: np.ndarray = self.likelihood == "gaussian"
        return which

    def blocks(self, n_factors: int) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield blocks of rows."""
        size = max(1, MAX_BLOCK_ENTRIES // (self.p + n_factors * n_factors))
        for start in range(0, self.n, size):
            rows = slice(start, min(start + size, self.n))
            yield rows, self.read(rows)

    def moments(
        self, L: Array, C: Array | None, tau: Array, mu: Array, scores: Scores | None = None
    ) -> FactorMoments:
        """Update bounds and posteriors; return sums over the rows."""
        assert isinstance(scores, GaussianScores)
        Q = L.shape[1]
        outer = pack_outer(L, C)
        A, G, z_sum = np.zeros(outer.shape), np.zeros((self.p, Q)), np.zeros((self.p, Q))
        w_sum, b_sum, k_sum, log_det = np.zeros(self.p), np.zeros(self.p), 0.0, 0.0
        new_Z, new_S, zz = (
            np.empty_like(scores.Z),
            np.empty_like(scores.S),
            np.zeros(outer.shape[1]),
        )
        for block, X in self.blocks(Q):
            eta = predictor_moments(L, mu, outer, scores.Z[block], scores.S[block])
            q = quadratic_bounds(self, X, *eta, tau)
            Z, S, log_dets = row_posteriors(L, mu, outer, q)
            second = pack_outer(Z, S)
            A += q.w.T @ second
            z_sum += q.w.T @ Z
            G += q.b.T @ Z
            w_sum += q.w.sum(axis=0)
            b_sum += q.b.sum(axis=0)
            k_sum += float(q.k.sum())
            log_det += float(log_dets.sum())
            zz += second.sum(axis=0)
            new_Z[block], new_S[block] = Z, S
        G -= mu[:, None] * z_sum
        return FactorMoments(
            unpack(A, Q),
            G,
            z_sum,
            unpack(zz, Q),
            log_det,
            None,
            np.sum(new_Z * new_Z, axis=0),
            GaussianScores(new_Z, new_S),
            weight=np.ones(self.p),
            w_sum=w_sum,
            b_sum=b_sum,
            k_sum=k_sum,
        )


class GaussianScores(NamedTuple):
    """Posterior of the scores of each row."""

    Z: np.ndarray  # (n, Q) means
    S: np.ndarray  # (n, Q, Q) covariances

    def rescale(self, r: np.ndarray) -> GaussianScores:
        """Return the posterior of ``r`` (Q,) times the scores."""
        return GaussianScores(self.Z * r, self.S * (r[:, None] * r))

    def take(self, keep: np.ndarray) -> GaussianScores:
        """Return the posterior of some factors."""
        return GaussianScores(self.Z[:, keep], self.S[:, keep][:, :, keep])


def non_gaussian_init(
    rows: Rows, lay: ViewLayout, L: np.ndarray, mu: np.ndarray, prior: Prior
) -> State:
    """Compute the state before the first step, with posteriors at the prior."""
    Q = L.shape[1]
    mean_square = rows.squares / rows.observed
    noise = lay.total(np.where(rows.gaussian, mean_square, 1.0)) / np.bincount(lay.noise)
    scores = GaussianScores(np.zeros((rows.n, Q)), np.tile(np.eye(Q), (rows.n, 1, 1)))
    first = initial_parameters(lay, L, 1.0 / noise, mu, prior)._replace(scores=scores)
    return State(first, first, -math.inf)


def initial_offsets(rows: Rows, means: np.ndarray) -> np.ndarray:
    """Compute mu of columns without factors from column means; 0 if Gaussian."""
    mu = np.zeros(rows.p)
    view_likelihoods: tuple[Likelihood, ...] = ("bernoulli", "poisson")
    for name in view_likelihoods:
        columns = rows.likelihood == name
        mu[columns] = link(name, means[columns], rows.linear_threshold[columns])
    return mu


def fisher_information(rows: Rows, means: np.ndarray) -> np.ndarray:
    """Compute the Fisher information of an entry on its predictor, (p,).

    At the column mean, the information equals the variance of the entry. It is NaN for Gaussian
    columns.
    """
    found = np.full(rows.p, np.nan)
    zero_or_one, count = (rows.likelihood == name for name in ("bernoulli", "poisson"))
    found[zero_or_one] = means[zero_or_one] * (1.0 - means[zero_or_one])
    found[count] = means[count]
    return found


def quadratic_bounds(
    rows: Rows, X: np.ndarray, mean: np.ndarray, variance: np.ndarray, tau: np.ndarray
) -> Quadratic:
    """Compute the bounds of a block of rows given the moments of eta.

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


def predictor_moments(
    L: np.ndarray, mu: np.ndarray, outer: np.ndarray, Z: np.ndarray, S: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Compute mean and variance of linear predictors of a block of rows.

    ``outer`` (p, Q (Q + 1) / 2) are the second moments of the loadings.
    """
    lower = np.tril_indices(L.shape[1])
    twice = np.where(lower[0] == lower[1], 1.0, 2.0)  # a trace counts both triangles
    projected = Z @ L.T
    second = (pack_outer(Z, S) * twice) @ outer.T
    return projected + mu, np.maximum(second - projected * projected, 0.0)


def row_posteriors(
    L: np.ndarray, mu: np.ndarray, outer: np.ndarray, q: Quadratic
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute Z, S and log det S of a block of rows, given the bounds."""
    Q = L.shape[1]
    S, log_det = invert_stack(unpack(q.w @ outer, Q) + np.eye(Q))
    Z = (S @ ((q.b - q.w * mu) @ L)[:, :, None])[:, :, 0]
    return Z, S, log_det


def infer_rows(
    rows: Rows, L: np.ndarray, tau: np.ndarray, mu: np.ndarray, max_iter: int = 200
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute Z, S and lower bounds of the log densities of new rows."""
    Q = L.shape[1]
    outer = pack_outer(L)
    Z, S, bounds = np.zeros((rows.n, Q)), np.empty((rows.n, Q, Q)), np.empty(rows.n)
    constants = np.where(rows.gaussian, 0.5 * np.log(tau / (2.0 * np.pi)), 0.0)
    for block, X in rows.blocks(Q):
        z, s = Z[block], np.tile(np.eye(Q), (X.shape[0], 1, 1))
        for _ in range(max_iter):
            q = quadratic_bounds(rows, X, *predictor_moments(L, mu, outer, z, s), tau)
            before = z
            z, s, log_det = row_posteriors(L, mu, outer, q)
            if np.max(np.abs(z - before), initial=0.0) < 1e-7:
                break
        mean, variance = predictor_moments(L, mu, outer, z, s)
        seen = ~np.isnan(X)
        x = np.where(seen & rows.gaussian, X, 0.0)
        q = quadratic_bounds(rows, X, mean, variance, tau)
        entries = q.k + q.b * mean - 0.5 * q.w * (mean * mean + variance)
        entries += np.where(seen, constants - 0.5 * tau * x * x, 0.0)
        trace = np.trace(s, axis1=1, axis2=2) + np.sum(z * z, axis=1)
        Z[block], S[block] = z, s
        bounds[block] = entries.sum(axis=1) - 0.5 * (trace - Q - log_det)
    return Z, S, bounds
