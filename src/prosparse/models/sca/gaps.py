"""A table with holes: rows grouped by what they miss, a block of groups at a time.

Every row has a posterior of its own, of precision I + sum of tau_i <l_i l_i'> over the variables
observed in it. Rows that miss the same share it. All sums over rows are products with the 0/1
table of patterns, of which only the lower triangles of the symmetric matrices take part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack

from ...data import Columns, DenseOperator, Operator, kind_of
from ...data.arrays import precision_of
from ...data.columns import Deviations, Extent, standardise
from ...errors import InputError

Array = np.ndarray

# Covariances of a block of patterns should stay in the cache, and bound the memory.
ENTRIES_PER_BLOCK = 2**19
# From this size on, one call of LAPACK per matrix costs less than inverting a stack by LU.
FROM_CHOLESKY = 24


class Moments(NamedTuple):
    """The latents given the weights, as far as the weights and the noise need them."""

    A: Array  # (1 or p, Q, Q) sum of <z z'> over the samples in which variable i was observed
    G: Array  # (p, Q) sum of (x - mu) <z>
    z_sum: Array  # (1 or p, Q) sum of <z> over the same samples
    zz: Array  # (Q, Q) sum of <z z'> over all samples
    log_det: float  # sum over samples of log det S_n
    explained: float  # sum over samples of <z_n>' S_n^-1 <z_n>


class Posteriors(NamedTuple):
    """q(z_n) of the rows of a block of patterns."""

    patterns: slice
    rows: Array  # positions of the rows, pattern after pattern
    parts: list[slice] | None  # where in ``rows`` each pattern is; None: one row each
    S: Array  # (patterns, Q, Q) covariances
    log_det: Array  # (patterns,) of S
    Y: Array  # (rows, Q) S^-1 <z_n>
    Z: Array  # (rows, Q) <z_n>


class GappyTable:
    """Some entries are missing: the posterior of z_n uses the observed coordinates only.

    Rows that miss the same variables share S_n, so a view that is missing altogether costs one
    more covariance, not one per sample.
    """

    def __init__(self, X: Array, seen: Array):
        self.X = np.where(seen, X, 0.0)  # observed entries minus their column mean
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

    def centred(self, mu: Array) -> Array:
        return np.where(self.seen, self.X - mu, 0.0)

    def posteriors(
        self, L: Array, C: Array | None, tau: Array, centred: Array
    ) -> Iterator[Posteriors]:
        """q(z_n) of all rows, [AB08] (17) or, with the covariances C of the weights, (25)."""
        Q = L.shape[1]
        lower = np.tril_indices(Q)
        outer = L[:, lower[0]] * L[:, lower[1]]  # (p, Q (Q + 1) / 2)
        if C is not None:
            outer += C[:, lower[0], lower[1]]
        outer *= tau[:, None]
        Y = centred @ (tau[:, None] * L)
        ends = np.cumsum(self.in_pattern)
        step = max(1, ENTRIES_PER_BLOCK // (Q * Q))
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
            if parts is None:
                z = (S @ y[:, :, None])[:, :, 0]
            else:
                z = np.concatenate([y[part] @ S[k] for k, part in enumerate(parts)])
            yield Posteriors(block, rows, parts, S, log_det, y, z)

    def moments(self, L: Array, C: Array | None, tau: Array, mu: Array) -> Moments:
        """Sums over the rows of what the weights and the noise need."""
        p, Q = L.shape
        lower = np.tril_indices(Q)
        centred = self.centred(mu)
        half, zz = np.zeros((p, lower[0].size)), np.zeros((Q, Q))
        Z, log_det, explained = np.empty((self.n, Q)), 0.0, 0.0
        for q in self.posteriors(L, C, tau, centred):
            count = self.in_pattern[q.patterns]
            second = _squares(q) + count[:, None, None] * q.S
            half += self.patterns[q.patterns].T @ second[:, lower[0], lower[1]]
            zz += second.sum(axis=0)
            log_det += float(count @ q.log_det)
            explained += float(np.sum(q.Y * q.Z))
            Z[q.rows] = q.Z
        A = np.empty((p, Q, Q))
        A[:, lower[0], lower[1]] = half
        A[:, lower[1], lower[0]] = half
        z_sum = self.seen.T.astype(float) @ Z
        return Moments(A, centred.T @ Z, z_sum, zz, log_det, explained)


def _parts(counts: Array) -> list[slice] | None:
    if counts.max() == 1:
        return None
    ends = np.cumsum(counts).tolist()
    return [slice(b - m, b) for b, m in zip(ends, counts.tolist(), strict=True)]


def _squares(q: Posteriors) -> Array:
    """Sums of <z><z>' over the rows of every pattern."""
    if q.parts is None:
        return q.Z[:, :, None] * q.Z[:, None, :]
    return np.stack([q.Z[part].T @ q.Z[part] for part in q.parts])


def inverses(P: Array) -> tuple[Array, Array]:
    """Inverses of a stack of positive definite matrices, and the log determinants of these."""
    if P.shape[1] < FROM_CHOLESKY:
        S = np.linalg.inv(P)
        return 0.5 * (S + S.transpose(0, 2, 1)), -np.linalg.slogdet(P)[1]
    S, log_det = np.empty_like(P), np.empty(P.shape[0])
    for k, matrix in enumerate(P):
        factor, wrong = lapack.dpotrf(matrix, lower=1, clean=0)
        if wrong:  # an overflow, which the loop counts as a fall of the objective
            S[k] = log_det[k] = np.nan
            continue
        log_det[k] = -2.0 * np.sum(np.log(np.diagonal(factor)))
        S[k] = lapack.dpotri(factor, lower=1, overwrite_c=1)[0]
    upper = np.triu_indices(P.shape[1], 1)  # which LAPACK leaves as it was
    S[:, upper[0], upper[1]] = S[:, upper[1], upper[0]]
    return S, log_det


def with_gaps(X: Any) -> Array:
    """A table in which entries are missing (NaN) as a dense one on the host."""
    if not kind_of(X).on_host:
        raise InputError(
            "X has missing entries (NaN), which only NumPy tables may have here: rows are grouped "
            "by what they miss on the host. Pass a NumPy array, or fill the entries in."
        )
    return kind_of(X).dense(X)


class GappyRows:
    """Raw rows with NaN where nothing was observed; sums are over what was (see `RawRows`)."""

    centred_in_products = False
    working = "float64"

    def __init__(self, X: Any):
        if kind_of(X).is_sparse:
            raise InputError("a sparse X may not hold NaN: missing entries need a dense table")
        self.given = precision_of(X)
        self.like = np.empty(0)
        Z = with_gaps(X)
        self.seen = ~np.isnan(Z)
        self.Z = np.where(self.seen, Z, 0.0)

    def extent(self) -> Extent:
        count = self.seen.sum(axis=0).astype(float)
        empty = np.flatnonzero(count == 0)
        if empty.size:
            raise InputError(
                f"{empty.size} columns of X have no observed entry, the first of them column "
                f"{empty[0]}: leave them out"
            )
        low = np.where(self.seen, self.Z, np.inf).min(axis=0)
        high = np.where(self.seen, self.Z, -np.inf).max(axis=0)
        return Extent(low, high, self.Z.sum(axis=0), count)

    def deviations(self, centre: Array, size: Array) -> Deviations:
        Z = np.where(self.seen, (self.Z - centre) / size, 0.0)
        return Deviations(Z.sum(axis=0), np.einsum("ij,ij->j", Z, Z))

    def operator(self, kept: Array, shift: Array, factor: Array) -> Operator:
        Z = (self.Z[:, kept] - shift) * factor
        return DenseOperator(np.where(self.seen[:, kept], Z, 0.0))


def filled(X: Any) -> tuple[Operator, Columns, Array]:
    """The operator of a table with NaN, centred by the observed means, zero where missing, without
    its constant columns; the record that leads back; and what was observed of these columns."""
    rows = GappyRows(X)
    op, columns = standardise(rows)
    return op, columns, rows.seen[:, columns.kept]
