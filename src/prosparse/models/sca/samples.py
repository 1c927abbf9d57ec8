"""Interface between model and data: sums of factor moments over samples.

`Samples` is implemented by `CompleteSamples` for complete data, `missing_e_step.IncompleteSamples`
for data with missing values, `scores.SparseScores` for point-normal scores, `non_gaussian.Rows` for
other likelihoods and `grouped.GroupedSamples` for several groups of samples.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace

from ...data import Array, Operator
from ...data.arrays import as_like, to_numpy
from ...numerics.spectrum import EXACT_SIDE, eye_like, spectrum
from .model import (
    FactorParameters,
    Scores,
    UpdatedNoise,
    ViewLayout,
    max_precisions,
    update_offsets_and_noise,
)


class FactorMoments(NamedTuple):
    """Sums of the posterior moments of the factors.

    The sums A, G and z_sum refer to a variable with unit noise precision, unless entries have
    weights. In that case, w is the precision of an entry, b its linear term and k a constant
    (`non_gaussian`).
    """

    A: Array  # (1 or p, Q, Q) sum of <z z'> over the samples with variable i observed
    G: Array  # (p, Q) sum of (x - mu) <z>
    z_sum: Array  # (1 or p, Q) sum of <z> over the same samples
    zz: Array  # (Q, Q) sum of <z z'> over all samples
    log_det: float  # sum over samples of log det S_n
    explained: float | None  # sum over samples of <z_n>' S_n^-1 <z_n>; None if q(z) is not exact
    mean_squares: Array  # (Q,) sum of <z>^2 over all samples
    scores: Scores | None = None  # updated scores; None if Gaussian with unit variance
    variance: Array | None = None  # (Q,) variances of the factors, None for the diagonal of zz / n
    divergence: float | None = None  # KL(q(z) | p(z)) at these variances, None if Gaussian
    weight: Array | None = None  # (p,) precisions that multiply the sums; None for the noise
    w_sum: Array | None = None  # (p,) sum of w, None for the number of observed entries
    b_sum: Array | float = 0.0  # (p,) sum of b
    k_sum: float = 0.0
    groups: tuple[FactorMoments, ...] = ()  # moments of each group of samples


class Samples:
    """Centred data of n samples and p variables."""

    n: int
    p: int
    observed: Array  # (p,) numbers of observed entries
    squares: Array  # (p,) sums of squares of the observed entries
    gaussian: np.ndarray | None = None  # (p,) mask of Gaussian columns, None for all

    def moments(
        self, L: Array, C: Array | None, tau: Array, mu: Array, scores: Scores | None = None
    ) -> FactorMoments:
        """Compute the sums over the samples of the moments of q(z) (E step).

        L (p, Q) are the loadings, C (p, Q, Q) the posterior covariances of each row (None for point
        estimates), tau (p,) the noise precisions and mu (p,) the offsets from the observed means.
        ``scores`` are the previous scores, or None if scores are Gaussian with unit variance.
        """
        raise NotImplementedError

    def update_offsets_and_noise(
        self, lay: ViewLayout, now: FactorParameters, m: FactorMoments, L: Array, C: Array | None
    ) -> tuple[Array, UpdatedNoise]:
        """Update mu and the noise, given the moments and the updated loadings."""
        return update_offsets_and_noise(self, lay, now, m, L, C)

    def max_precisions(self, lay: ViewLayout) -> Array:
        """Return the maximum noise precisions."""
        return max_precisions(self, lay)


def reduce_rows(op: Operator) -> Operator:
    """Reduce data to at most p rows with the same X'X, if worthwhile.

    The cost of an iteration on the reduced data does not depend on n. The factorisation of X'X
    requires O(p^2) memory and O(p^3) time and is omitted for large p.
    """
    n, p = op.shape
    return spectrum(op).op if n > p and p <= EXACT_SIDE else op


class ResidualSquares(NamedTuple):
    """Part of X'X not in a sketch: P diag(squares) P with P = I - V V'."""

    squares: Array  # (p,) residual sum of squares of each column
    V: Array  # (p, k) orthonormal directions without residual

    def product(self, F: Array) -> Array:
        """Compute the product with F (p, Q)."""
        scaled = self.squares[:, None] * self._project_out(F)
        return self._project_out(scaled)

    def _project_out(self, F: Array) -> Array:
        """Compute P F."""
        return F - self.V @ (self.V.T @ F)


class CompleteSamples(Samples):
    """Complete data, for which all samples have the same posterior covariance.

    ``op`` is the centred data matrix of n samples, or a matrix of fewer rows with the same X'X up
    to ``residual``. With ``on_device``, loadings and moments stay on the device of the data.
    """

    def __init__(
        self, op: Operator, n: int, residual: ResidualSquares | None = None, on_device: bool = False
    ):
        self.op = op
        self.n = n
        self.p = op.shape[1]
        self.on_device = on_device
        self.squares = self._to_loadings_device(op.column_squares())
        self.observed = array_namespace(self.squares).full_like(self.squares, float(n))
        self.residual = (
            None
            if residual is None
            else ResidualSquares(*(self._to_loadings_device(part) for part in residual))
        )

    def _to_loadings_device(self, part: Array) -> Array:
        """Return an array in double precision on the device of the loadings."""
        if not self.on_device:
            return to_numpy(part).astype(float)
        xp = self.op.xp
        return xp.astype(as_like(part, self.op.column_squares()), xp.float64, copy=False)

    def moments(
        self, L: Array, C: Array | None, tau: Array, mu: Array, scores: Scores | None = None
    ) -> FactorMoments:
        """Compute the moments by [AB08] (17) or, with covariances C, (25)."""
        xp, Q = array_namespace(L), L.shape[1]
        weighted = tau[:, None] * L
        precision = weighted.T @ L + eye_like(weighted.T @ L, xp)
        if C is not None:
            precision = precision + xp.reshape(tau @ xp.reshape(C, (self.p, -1)), (Q, Q))
        S = xp.linalg.inv(precision)
        S = 0.5 * (S + S.T)
        G, ZZ = self.projections(weighted @ S)
        zz = self.n * S + ZZ
        log_det = -self.n * float(xp.linalg.slogdet(precision)[1])
        explained = float(xp.sum(precision * ZZ))
        no_sum = xp.zeros_like(L[:1, :])
        mean_squares = xp.linalg.diagonal(ZZ)
        return FactorMoments(zz[None, ...], G, no_sum, zz, log_det, explained, mean_squares)

    def projections(self, F: Array) -> tuple[Array, Array]:
        """Compute X'Y and Y'Y with Y = X F, for F (p, Q)."""
        F_device = as_like(F, self.op.column_squares())
        filters = self.op.xp.astype(F_device, self.op.dtype, copy=False)

        def products(block: Array) -> tuple[Array, Array]:
            Y = block @ filters
            return block.T @ Y, Y.T @ Y

        XY, YY = (self._to_loadings_device(part) for part in self.op.sum_rows(products))
        if self.residual is None:
            return XY, YY
        extra = self.residual.product(F)
        return XY + extra, YY + F.T @ extra
