"""Gaussian densities with a low-rank plus diagonal covariance matrix."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..data import Operator
from ..data.arrays import from_numpy, to_numpy

Array = Any


class FactorCovariance(NamedTuple):
    """Covariance matrix of a factor model with one or two noise variances.

    For the columns ``inside``, the matrix is V' diag(variances - noise) V + noise I with
    orthonormal rows of V; the columns ``outside`` are independent noise.
    """

    components: Array  # (d, q) V, on the columns `inside`
    variances: np.ndarray  # (d,) along the components
    noise: float  # variance of the columns `inside` around the components
    noise_outside: float  # variance of the columns `outside`
    inside: np.ndarray  # (q,) positions of columns
    outside: np.ndarray  # positions of columns

    def matrix(self, width: int) -> np.ndarray:
        """Compute the covariance of ``width`` columns, zero outside both groups."""
        return self._assemble(width, self.variances, self.noise, self.noise_outside)

    def inverse(self, width: int) -> np.ndarray:
        """Compute the precision of ``width`` columns, zero outside both groups."""
        # Both matrices have the same eigenvectors, with reciprocal eigenvalues.
        return self._assemble(width, 1.0 / self.variances, 1.0 / self.noise, 1 / self.noise_outside)

    def _assemble(self, width: int, along: np.ndarray, around: float, outside: float) -> np.ndarray:
        diagonal = np.zeros(width)
        diagonal[self.inside], diagonal[self.outside] = around, outside
        V = to_numpy(self.components).astype(float)
        matrix = np.diag(diagonal)
        matrix[np.ix_(self.inside, self.inside)] += (V.T * (along - around)) @ V
        return matrix


def log_density(op: Operator, covariance: FactorCovariance) -> Array:
    """Compute the log density of each centred row."""
    like, (d, q) = covariance.components, covariance.components.shape
    distances = partial(
        _squared_distances,
        covariance=covariance._replace(
            variances=from_numpy(covariance.variances, like, like.dtype),
            inside=from_numpy(covariance.inside, like),
            outside=from_numpy(covariance.outside, like),
        ),
        xp=op.xp,
    )
    log_det = (
        np.sum(np.log(covariance.variances))
        + (q - d) * np.log(covariance.noise)
        + covariance.outside.size * np.log(covariance.noise_outside)
    )
    constant = float(log_det + (q + covariance.outside.size) * np.log(2.0 * np.pi))
    with np.errstate(over="ignore"):  # the log density of a very distant row is -inf
        return -0.5 * (op.map_rows(distances, entrywise=True) + constant)


def _squared_distances(block: Array, covariance: FactorCovariance, xp: Any) -> Array:
    inside = xp.take(block, covariance.inside, axis=1)
    outside = xp.take(block, covariance.outside, axis=1)
    scores = inside @ covariance.components.T
    residual = inside - scores @ covariance.components
    return (
        xp.sum(scores * scores / covariance.variances, axis=1)
        + xp.sum(residual * residual, axis=1) / covariance.noise
        + xp.sum(outside * outside, axis=1) / covariance.noise_outside
    )
