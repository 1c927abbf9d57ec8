"""The E step of a table with gaps: rows grouped by what they miss, a block of groups at a time.

Every row has a posterior of its own, of precision I + sum of tau_i <l_i l_i'> over the variables
observed in it. Rows that miss the same share it. All sums over rows are products with the 0/1
table of patterns, of which only the lower triangles of the symmetric matrices take part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from .samples import LatentMoments

# Covariances of a block of patterns should stay in the cache, and bound the memory.
PATTERN_ENTRIES_PER_BLOCK = 2**19
# From this size on, one call of LAPACK per matrix costs less than inverting a stack by LU.
FROM_CHOLESKY = 24


class PatternPosteriors(NamedTuple):
    """q(z_n) of the rows of a block of patterns."""

    patterns: slice
    rows: np.ndarray  # positions of the rows, pattern after pattern
    parts: list[slice] | None  # where in ``rows`` each pattern is; None: one row each
    S: np.ndarray  # (patterns, Q, Q) covariances
    log_det: np.ndarray  # (patterns,) of S
    Y: np.ndarray  # (rows, Q) S^-1 <z_n>
    Z: np.ndarray  # (rows, Q) <z_n>


class SamplesWithGaps:
    """Some entries are missing: the posterior of z_n uses the observed coordinates only.

    Rows that miss the same variables share S_n, so a view that is missing altogether costs one
    more covariance, not one per sample.

    Parameters
    ----------
    X : array (n, p)
        Entries minus the mean of those observed in their column; what stands where nothing was
        observed does not matter.
    seen : bool array (n, p)
        What was observed.
    """

    def __init__(self, X: np.ndarray, seen: np.ndarray):
        self.X = np.where(seen, X, 0.0)
        self.n, self.p = X.shape
        self.seen = seen
        packed = np.packbits(seen, axis=1)  # rows of bits sort eight times as fast
        _, first, pattern_of = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        self.pattern_of = pattern_of.reshape(-1)
        self.patterns = seen[first].astype(float)  # (r, p)
        self.in_pattern = np.bincount(self.pattern_of)  # (r,)
        self.order = np.argsort(self.pattern_of, kind="stable")  # rows, pattern after pattern
        self.observed = seen.sum(axis=0).astype(float)
        self.squares = np.sum(self.X**2, axis=0)

    def centred(self, mu: np.ndarray) -> np.ndarray:
        """x - mu, zero where nothing was observed."""
        return np.where(self.seen, self.X - mu, 0.0)

    def posteriors(
        self, L: np.ndarray, C: np.ndarray | None, tau: np.ndarray, centred: np.ndarray
    ) -> Iterator[PatternPosteriors]:
        """q(z_n) of all rows, [AB08] (17) or, with the covariances C of the weights, (25)."""
        Q = L.shape[1]
        lower = np.tril_indices(Q)
        outer = L[:, lower[0]] * L[:, lower[1]]  # (p, Q (Q + 1) / 2)
        if C is not None:
            outer += C[:, lower[0], lower[1]]
        outer *= tau[:, None]
        Y = centred @ (tau[:, None] * L)
        ends = np.cumsum(self.in_pattern)
        step = max(1, PATTERN_ENTRIES_PER_BLOCK // (Q * Q))
        for start in range(0, ends.size, step):
            block = slice(start, min(start + step, ends.size))
            precision = np.empty((block.stop - start, Q, Q))
            half = self.patterns[block] @ outer
            precision[:, lower[0], lower[1]] = half
            precision[:, lower[1], lower[0]] = half
            diagonal = np.arange(Q)
            precision[:, diagonal, diagonal] += 1.0
            S, log_det = inverses(precision)
            begin = ends[start - 1] if start else 0
            rows = self.order[begin : ends[block.stop - 1]]
            parts = _parts(self.in_pattern[block])
            y = Y[rows]
            z = _each_times(S, y, parts)
            # Where there is little noise, S has lost digits; one step of refinement finds them.
            z = z + _each_times(S, y - _each_times(precision, z, parts), parts)
            yield PatternPosteriors(block, rows, parts, S, log_det, y, z)

    def misfits(
        self, L: np.ndarray, tau: np.ndarray, centred: np.ndarray, Z: np.ndarray
    ) -> np.ndarray:
        """x' (L L' + 1/tau)^-1 x of the observed entries of every row, from the means Z of q(z).

        This is the smallest value of tau |x - L z|^2 + |z|^2, and q's mean is where it is: an
        error in z hardly counts. In tau |x|^2 - <z>' S^-1 <z>, which is the same, little noise
        and gaps leave no digit: S then holds numbers near 1 and near the noise variance.
        """
        left = np.where(self.seen, centred - Z @ L.T, 0.0)
        misfits: np.ndarray = (left * left) @ tau + np.sum(Z * Z, axis=1)
        return misfits

    def moments(
        self, L: np.ndarray, C: np.ndarray | None, tau: np.ndarray, mu: np.ndarray
    ) -> LatentMoments:
        """Sums over the rows of what the weights and the noise need; see `Samples.moments`."""
        p, Q = L.shape
        lower = np.tril_indices(Q)
        centred = self.centred(mu)
        half, zz = np.zeros((p, lower[0].size)), np.zeros((Q, Q))
        Z, log_det, explained = np.empty((self.n, Q)), 0.0, 0.0
        for q in self.posteriors(L, C, tau, centred):
            count = self.in_pattern[q.patterns]
            second = _sums_of_outer_products(q) + count[:, None, None] * q.S
            half += self.patterns[q.patterns].T @ second[:, lower[0], lower[1]]
            zz += second.sum(axis=0)
            log_det += float(count @ q.log_det)
            explained += float(np.sum(q.Y * q.Z))
            Z[q.rows] = q.Z
        if C is None:  # the likelihood of points is exact: it should keep its digits
            squares = np.sum(centred * centred, axis=0)
            explained = float(tau @ squares) - float(np.sum(self.misfits(L, tau, centred, Z)))
        A = np.empty((p, Q, Q))
        A[:, lower[0], lower[1]] = half
        A[:, lower[1], lower[0]] = half
        z_sum = self.seen.T.astype(float) @ Z
        return LatentMoments(A, centred.T @ Z, z_sum, zz, log_det, explained)


def _parts(counts: np.ndarray) -> list[slice] | None:
    """Where each pattern of a block is among its rows; None where each has one row."""
    if counts.max() == 1:
        return None
    ends = np.cumsum(counts).tolist()
    return [slice(b - m, b) for b, m in zip(ends, counts.tolist(), strict=True)]


def _each_times(M: np.ndarray, rows: np.ndarray, parts: list[slice] | None) -> np.ndarray:
    """Every row times the symmetric matrix of its pattern."""
    if parts is None:
        products: np.ndarray = M @ rows[:, :, None]
        return products[:, :, 0]
    return np.concatenate([rows[part] @ M[k] for k, part in enumerate(parts)])


def _sums_of_outer_products(q: PatternPosteriors) -> np.ndarray:
    """Sums of <z><z>' over the rows of every pattern."""
    if q.parts is None:
        single: np.ndarray = q.Z[:, :, None] * q.Z[:, None, :]
        return single
    return np.stack([q.Z[part].T @ q.Z[part] for part in q.parts])


def inverses(P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inverses of a stack of positive definite matrices, and the log determinants of these."""
    if P.shape[1] < FROM_CHOLESKY:
        S = np.linalg.inv(P)
        return 0.5 * (S + S.transpose(0, 2, 1)), -np.linalg.slogdet(P)[1]
    S, log_det = np.empty_like(P), np.empty(P.shape[0])
    for k, matrix in enumerate(P):
        factor, wrong = lapack.dpotrf(matrix, lower=1, clean=0)
        if wrong:  # an overflow: the objective is then no number, and the loop says so
            S[k] = log_det[k] = np.nan
            continue
        log_det[k] = -2.0 * np.sum(np.log(np.diagonal(factor)))
        S[k] = lapack.dpotri(factor, lower=1, overwrite_c=1)[0]
    upper = np.triu_indices(P.shape[1], 1)  # which LAPACK leaves as it was
    S[:, upper[0], upper[1]] = S[:, upper[1], upper[0]]
    return S, log_det
