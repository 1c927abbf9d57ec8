"""The E step of a table with gaps: rows grouped by what they miss, a block of groups at a time.

Every row has a posterior of its own, of precision I + sum of tau_i <l_i l_i'> over the variables
observed in it. Rows that miss the same share it. All sums over rows are products with the 0/1
table of patterns, of which only the lower triangles of the symmetric matrices take part.

With r patterns, p variables, Q latents and g gaps in the patterns (or observed entries, if these
are fewer), a pass costs 2 g Q^2 multiplications for the sums over what was observed, 4 n p Q for
the products with the table and about r Q^3 for the invert_stack; besides the table it holds g
positions, n Q means and the matrices of one block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from ...data.observation_mask import Observed
from .samples import FactorMoments

# Covariances of a block of patterns should stay in the cache, and bound the memory.
MAX_PATTERN_ENTRIES = 2**19
# Residuals of a block of rows, too.
MAX_RESIDUAL_ENTRIES = 2**17
# From this size on, one call of LAPACK per matrix costs less than inverting a stack by LU.
MIN_CHOLESKY_SIZE = 12
# Precisions up to this may be found as a difference of two sums: what is lost is far below one,
# their smallest eigenvalue.
MAX_SUBTRACTED_PRECISION = 1e-9 / np.finfo(float).eps
# Where signal is so many times the noise, a likelihood needs the residuals themselves.
MAX_SIGNAL_TO_NOISE = 1e4


class PatternPosteriors(NamedTuple):
    """q(z_n) of the rows of a block of patterns."""

    patterns: slice
    rows: np.ndarray  # positions of the rows, pattern after pattern
    parts: list[slice] | None  # where in ``rows`` each pattern is; None: one row each
    S: np.ndarray  # (patterns, Q, Q) covariances
    log_det: np.ndarray  # (patterns,) of S
    Y: np.ndarray  # (rows, Q) S^-1 <z_n>
    Z: np.ndarray  # (rows, Q) <z_n>


class IncompleteSamples:
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
        bits = np.packbits(seen, axis=1)  # rows of bits sort eight times as fast
        _, first, pattern_of = np.unique(bits, axis=0, return_index=True, return_inverse=True)
        self.pattern_of = pattern_of.reshape(-1)
        self.patterns = Observed(seen[first])  # (r, p)
        self.in_pattern = np.bincount(self.pattern_of)  # (r,)
        self.order = np.argsort(self.pattern_of, kind="stable")  # rows, pattern after pattern
        self.observed = seen.sum(axis=0).astype(float)
        self.sums = self.X.sum(axis=0)
        self.squares = np.einsum("ij,ij->j", self.X, self.X)

    def posteriors(
        self, L: np.ndarray, C: np.ndarray | None, tau: np.ndarray, mu: np.ndarray
    ) -> Iterator[PatternPosteriors]:
        """q(z_n) of all rows, [AB08] (17) or, with the covariances C of the weights, (25)."""
        Q = L.shape[1]
        lower = np.tril_indices(Q)
        outer = L[:, lower[0]] * L[:, lower[1]]  # (p, Q (Q + 1) / 2)
        if C is not None:
            outer += C[:, lower[0], lower[1]]
        outer *= tau[:, None]
        weighted = tau[:, None] * L
        direct = not np.max(outer.sum(axis=0), initial=0.0) < MAX_SUBTRACTED_PRECISION
        # what the offsets take from tau L'(x - mu) depends on the pattern alone
        terms = np.hstack([outer, mu[:, None] * weighted])
        place = np.empty((Q, Q), dtype=int)  # of every entry of a matrix in its lower triangle
        place[lower] = place.T[lower] = np.arange(lower[0].size)
        Y = self.X @ weighted
        ends = np.cumsum(self.in_pattern)
        step = max(1, MAX_PATTERN_ENTRIES // (Q * Q))
        for start in range(0, ends.size, step):
            block = slice(start, min(start + step, ends.size))
            sums = self.patterns.sums(block, terms, direct)
            precision = sums[:, place]
            precision.reshape(len(sums), -1)[:, :: Q + 1] += 1.0
            S, log_det = invert_stack(precision)
            begin = ends[start - 1] if start else 0
            rows = self.order[begin : ends[block.stop - 1]]
            parts = _pattern_slices(self.in_pattern[block])
            y = Y[rows] - np.repeat(sums[:, -Q:], self.in_pattern[block], axis=0)
            z = _multiply_rows(S, y, parts)
            # Where there is little noise, S has lost digits; one step of refinement finds them.
            z = z + _multiply_rows(S, y - _multiply_rows(precision, z, parts), parts)
            yield PatternPosteriors(block, rows, parts, S, log_det, y, z)

    def squared_distances(
        self, L: np.ndarray, tau: np.ndarray, mu: np.ndarray, Z: np.ndarray
    ) -> np.ndarray:
        """x' (L L' + 1/tau)^-1 x of the observed entries of every row, from the means Z of q(z).

        This is the smallest value of tau |x - L z|^2 + |z|^2, and q's mean is where it is: an
        error in z hardly counts. In tau |x|^2 - <z>' S^-1 <z>, which is the same, little noise
        and gaps leave no digit: S then holds numbers near 1 and near the noise variance.
        """
        squared_distances: np.ndarray = np.sum(Z * Z, axis=1)
        step = max(1, MAX_RESIDUAL_ENTRIES // self.p)
        for start in range(0, self.n, step):
            rows = slice(start, start + step)
            left = Z[rows] @ L.T
            left += mu
            np.subtract(self.X[rows], left, out=left)
            left *= self.seen[rows]
            left *= left
            squared_distances[rows] += left @ tau
        return squared_distances

    def moments(
        self, L: np.ndarray, C: np.ndarray | None, tau: np.ndarray, mu: np.ndarray
    ) -> FactorMoments:
        """Sums over the rows of what the weights and the noise need; see `Samples.moments`."""
        p, Q = L.shape
        lower = np.tril_indices(Q)
        half = lower[0].size
        sums = np.zeros((p, half + Q))  # of <z z'>, its lower triangle, and of <z>
        zz = np.zeros((Q, Q))
        Z, log_det, explained = np.empty((self.n, Q)), 0.0, 0.0
        for q in self.posteriors(L, C, tau, mu):
            count = self.in_pattern[q.patterns]
            second = _sums_of_outer_products(q)
            second += count[:, None, None] * q.S
            zz += second.sum(axis=0)
            terms = np.hstack([second[:, lower[0], lower[1]], _sums_of_means(q)])
            sums += self.patterns.sums_over_rows(q.patterns, terms)
            log_det += float(count @ q.log_det)
            explained += float(np.sum(q.Y * q.Z))
            Z[q.rows] = q.Z
        squares = float(tau @ (self.squares + mu * (self.observed * mu - 2.0 * self.sums)))
        if C is None and squares > MAX_SIGNAL_TO_NOISE * self.observed.sum():
            # the likelihood of points is exact: it should keep its digits
            explained = squares - float(np.sum(self.squared_distances(L, tau, mu, Z)))
        A = np.empty((p, Q, Q))
        A[:, lower[0], lower[1]] = sums[:, :half]
        A[:, lower[1], lower[0]] = sums[:, :half]
        z_sum = sums[:, half:]
        G = self.X.T @ Z - mu[:, None] * z_sum
        return FactorMoments(A, G, z_sum, zz, log_det, explained)


def _pattern_slices(counts: np.ndarray) -> list[slice] | None:
    """Where each pattern of a block is among its rows; None where each has one row."""
    if counts.max() == 1:
        return None
    ends = np.cumsum(counts).tolist()
    return [slice(b - m, b) for b, m in zip(ends, counts.tolist(), strict=True)]


def _multiply_rows(M: np.ndarray, rows: np.ndarray, parts: list[slice] | None) -> np.ndarray:
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


def _sums_of_means(q: PatternPosteriors) -> np.ndarray:
    """Sums of <z> over the rows of every pattern."""
    if q.parts is None:
        return q.Z
    return np.stack([q.Z[part].sum(axis=0) for part in q.parts])


def invert_stack(P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inverses of a stack of positive definite matrices, and the log determinants of these."""
    if P.shape[1] < MIN_CHOLESKY_SIZE:
        S = np.linalg.inv(P)
        return 0.5 * (S + S.transpose(0, 2, 1)), -np.linalg.slogdet(P)[1]
    S, log_det = np.empty_like(P), np.empty(P.shape[0])
    for k, matrix in enumerate(P):
        factor, wrong = lapack.dpotrf(matrix.T, lower=1, clean=0)
        if wrong:  # an overflow: the objective is then no number, and the loop says so
            S[k] = log_det[k] = np.nan
            continue
        log_det[k] = -2.0 * np.sum(np.log(np.diagonal(factor)))
        S[k] = lapack.dpotri(factor, lower=1, overwrite_c=1)[0]
    upper = np.triu_indices(P.shape[1], 1)  # which LAPACK leaves as it was
    S[:, upper[0], upper[1]] = S[:, upper[1], upper[0]]
    return S, log_det
