"""Gaussian laws whose covariance is a plane plus noise, evaluated block by block."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..data import Operator
from ..data.arrays import from_numpy

Array = Any


class NoisyPlane(NamedTuple):
    """Some columns near a plane, the others pure noise, all around zero."""

    components: Array  # (d, q) orthonormal rows, on the first kind of columns
    variances: np.ndarray  # (d,) along them
    around: float  # variance of the same columns around the plane
    outside: float  # variance of the others


def log_density(op: Operator, law: NoisyPlane, inside: np.ndarray, outside: np.ndarray) -> Array:
    """log p of every row; ``inside`` and ``outside`` are the columns of either kind."""
    like, (d, q) = law.components, law.components.shape
    distances = partial(
        _squared_distances,
        law=law._replace(variances=from_numpy(law.variances, like, like.dtype)),
        inside=from_numpy(inside, like),
        outside=from_numpy(outside, like),
        xp=op.xp,
    )
    log_variances = (
        np.sum(np.log(law.variances))
        + (q - d) * np.log(law.around)
        + outside.size * np.log(law.outside)
    )
    constant = float(log_variances + (q + outside.size) * np.log(2.0 * np.pi))
    with np.errstate(over="ignore"):  # a row too far away has log density -inf
        return -0.5 * (op.map_rows(distances, entrywise=True) + constant)


def _squared_distances(
    block: Array, law: NoisyPlane, inside: Array, outside: Array, xp: Any
) -> Array:
    chosen, rest = xp.take(block, inside, axis=1), xp.take(block, outside, axis=1)
    scores = chosen @ law.components.T
    off = chosen - scores @ law.components
    return (
        xp.sum(scores * scores / law.variances, axis=1)
        + xp.sum(off * off, axis=1) / law.around
        + xp.sum(rest * rest, axis=1) / law.outside
    )
