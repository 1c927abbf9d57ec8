"""E step for data with missing values, by patterns of missing values.

The posterior of a row has precision I + sum of tau_i <l_i l_i'> over its observed variables, which
is the same for all rows with the same pattern. Sums over rows are products with the binary matrix
of patterns, and use the lower triangles of symmetric matrices.

Let r be the number of patterns, and g the number of missing (or observed, if fewer) entries of the
patterns. An iteration requires 2 g Q^2 multiplications for the sums, 4 n p Q for products with the
data and about r Q^3 for the inverses. In addition to the data, g positions, n Q means and the
matrices of one block are stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from ...data.observation_mask import Observed
from .model import Scores
from .packed import pack, pack_outer, unpack
from .samples import FactorMoments, Samples

# Maximum size of the covariances of a block of patterns.
MAX_PATTERN_ENTRIES = 2**19
# Maximum size of the residuals of a block of rows.
MAX_RESIDUAL_ENTRIES = 2**17
# Minimum matrix size for one Cholesky factorisation per matrix instead of a stacked LU inverse.
MIN_CHOLESKY_SIZE = 12
# Maximum precision computed as a difference of two sums, so that the cancellation error remains far
# below 1, the smallest eigenvalue.
MAX_SUBTRACTED_PRECISION = 1e-9 / np.finfo(float).eps
# Signal-to-noise ratio above which the likelihood is computed from explicit residuals.
MAX_SIGNAL_TO_NOISE = 1e4


class PatternPosteriors(NamedTuple):
    """Posterior q(z_n) of the rows of a block of patterns."""

    patterns: slice
    rows: np.ndarray  # positions of the rows, ordered by pattern
    parts: list[slice] | None  # rows of each pattern; None if each has one row
    S: np.ndarray  # (patterns, Q, Q) covariances
    log_det: np.ndarray  # (patterns,) of S
    Y: np.ndarray  # (rows, Q) S^-1 <z_n>
    Z: np.ndarray  # (rows, Q) <z_n>


class IncompleteSamples(Samples):
    """Samples with missing values, grouped by pattern.

    q(z_n) depends on the observed entries of a row, but rows with the same missing variables have
    the same covariance S_n. A missing view therefore requires one additional covariance instead of
    one per sample.
    """

    def __init__(self, X: np.ndarray, seen: np.ndarray):
        self.X = np.where(seen, X, 0.0)
        self.n, self.p = X.shape
        self.seen = seen
        bits = np.packbits(seen, axis=1)  # packed rows sort faster
        _, first, pattern_of = np.unique(bits, axis=0, return_index=True, return_inverse=True)
        self.pattern_of = pattern_of.reshape(-1)
        self.patterns = Observed(seen[first])  # (r, p)
        self.in_pattern = np.bincount(self.pattern_of)  # (r,)
        self.order = np.argsort(self.pattern_of, kind="stable")  # rows ordered by pattern
        self.observed = seen.sum(axis=0).astype(float)
        self.sums = self.X.sum(axis=0)
        self.squares = np.einsum("ij,ij->j", self.X, self.X)

    def posteriors(
        self, L: np.ndarray, C: np.ndarray | None, tau: np.ndarray, mu: np.ndarray
    ) -> Iterator[PatternPosteriors]:
        """Yield q(z_n) by [AB08] (17) or, with covariances C of the loadings, (25)."""
        Q = L.shape[1]
        outer = tau[:, None] * pack_outer(L, C)
        weighted = tau[:, None] * L
        direct = not np.max(outer.sum(axis=0), initial=0.0) < MAX_SUBTRACTED_PRECISION
        # The contribution of the offsets to tau L'(x - mu) depends only on the pattern.
        terms = np.hstack([outer, mu[:, None] * weighted])
        Y = self.X @ weighted
        ends = np.cumsum(self.in_pattern)
        step = max(1, MAX_PATTERN_ENTRIES // (Q * Q))
        for start in range(0, ends.size, step):
            block = slice(start, min(start + step, ends.size))
            sums = self.patterns.sums(block, terms, direct)
            precision = unpack(sums[:, :-Q], Q)
            precision.reshape(len(sums), -1)[:, :: Q + 1] += 1.0
            S, log_det = invert_stack(precision)
            begin = ends[start - 1] if start else 0
            rows = self.order[begin : ends[block.stop - 1]]
            parts = _pattern_slices(self.in_pattern[block])
            y = Y[rows] - np.repeat(sums[:, -Q:], self.in_pattern[block], axis=0)
            z = _multiply_rows(S, y, parts)
            # One step of iterative refinement is used, because S is inaccurate if the noise is
            # small.
            z = z + _multiply_rows(S, y - _multiply_rows(precision, z, parts), parts)
            yield PatternPosteriors(block, rows, parts, S, log_det, y, z)

    def squared_distances(
        self, L: np.ndarray, tau: np.ndarray, mu: np.ndarray, Z: np.ndarray
    ) -> np.ndarray:
        """Compute x' (L L' + 1/tau)^-1 x of observed entries from the means Z.

        The value is the minimum of tau |x - L z|^2 + |z|^2, attained at the mean of q(z), so that
        errors of z have only a second-order effect. The equivalent tau |x|^2 - <z>' S^-1 <z>
        suffers from cancellation if the noise is small.
        """
        squared_distances: np.ndarray = np.sum(Z * Z, axis=1)
        step = max(1, MAX_RESIDUAL_ENTRIES // self.p)
        for start in range(0, self.n, step):
            rows = slice(start, start + step)
            residual = Z[rows] @ L.T
            residual += mu
            np.subtract(self.X[rows], residual, out=residual)
            residual *= self.seen[rows]
            residual *= residual
            squared_distances[rows] += residual @ tau
        return squared_distances

    def moments(
        self,
        L: np.ndarray,
        C: np.ndarray | None,
        tau: np.ndarray,
        mu: np.ndarray,
        scores: Scores | None = None,
    ) -> FactorMoments:
        """Compute the sums over the rows of the moments of q(z) (E step)."""
        p, Q = L.shape
        sums = np.zeros((p, Q * (Q + 1) // 2 + Q))  # lower triangles of <z z'>, and <z>
        zz = np.zeros((Q, Q))
        Z, log_det, explained = np.empty((self.n, Q)), 0.0, 0.0
        for q in self.posteriors(L, C, tau, mu):
            count = self.in_pattern[q.patterns]
            second = _sums_of_outer_products(q)
            second += count[:, None, None] * q.S
            zz += second.sum(axis=0)
            terms = np.hstack([pack(second), _sums_of_means(q)])
            sums += self.patterns.sums_over_rows(q.patterns, terms)
            log_det += float(count @ q.log_det)
            explained += float(np.sum(q.Y * q.Z))
            Z[q.rows] = q.Z
        squares = float(tau @ (self.squares + mu * (self.observed * mu - 2.0 * self.sums)))
        if C is None and squares > MAX_SIGNAL_TO_NOISE * self.observed.sum():
            # This avoids cancellation in the exact likelihood of point estimates.
            explained = squares - float(np.sum(self.squared_distances(L, tau, mu, Z)))
        A, z_sum = unpack(sums[:, :-Q], Q), sums[:, -Q:]
        G = self.X.T @ Z - mu[:, None] * z_sum
        return FactorMoments(A, G, z_sum, zz, log_det, explained, np.sum(Z * Z, axis=0))


def _pattern_slices(counts: np.ndarray) -> list[slice] | None:
    """Return the rows of each pattern of a block; None if each has one row."""
    if counts.max() == 1:
        return None
    ends = np.cumsum(counts).tolist()
    return [slice(b - m, b) for b, m in zip(ends, counts.tolist(), strict=True)]


def _multiply_rows(M: np.ndarray, rows: np.ndarray, parts: list[slice] | None) -> np.ndarray:
    """Multiply each row by the symmetric matrix of its pattern."""
    if parts is None:
        products: np.ndarray = M @ rows[:, :, None]
        return products[:, :, 0]
    return np.concatenate([rows[part] @ M[k] for k, part in enumerate(parts)])


def _sums_of_outer_products(q: PatternPosteriors) -> np.ndarray:
    """Compute the sums of <z><z>' over the rows of each pattern."""
    if q.parts is None:
        single: np.ndarray = q.Z[:, :, None] * q.Z[:, None, :]
        return single
    return np.stack([q.Z[part].T @ q.Z[part] for part in q.parts])


def _sums_of_means(q: PatternPosteriors) -> np.ndarray:
    """Compute the sums of <z> over the rows of each pattern."""
    if q.parts is None:
        return q.Z
    return np.stack([q.Z[part].sum(axis=0) for part in q.parts])


def invert_stack(P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute inverses and log determinants of positive definite matrices."""
    if P.shape[1] < MIN_CHOLESKY_SIZE:
        S = np.linalg.inv(P)
        return 0.5 * (S + S.transpose(0, 2, 1)), -np.linalg.slogdet(P)[1]
    S, log_det = np.empty_like(P), np.empty(P.shape[0])
    for k, matrix in enumerate(P):
        factor, failed = lapack.dpotrf(matrix.T, lower=1, clean=0)
        if failed:  # after an overflow, the objective is NaN and the loop stops
            S[k] = log_det[k] = np.nan
            continue
        log_det[k] = -2.0 * np.sum(np.log(np.diagonal(factor)))
        S[k] = lapack.dpotri(factor, lower=1, overwrite_c=1)[0]
    upper = np.triu_indices(P.shape[1], 1)  # not set by LAPACK
    S[:, upper[0], upper[1]] = S[:, upper[1], upper[0]]
    return S, log_det
