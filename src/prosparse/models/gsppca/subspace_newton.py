"""Newton steps of the factors, orthogonal to their current span.

The columns of Y span d directions of the n-dimensional sample space. Variational iterations change
this span slowly, because they rotate its weakest directions towards others of nearly equal
strength. Let u be a unit vector orthogonal to the span, and j a direction in the basis Q (see
`model`). With t and sigma2 fixed, the bound has the second derivative

    -P_jj + c^2 sum_k S_jk (u'x_k)^2,        P = I + c E[W'W],

along u e_j', because Y'u = 0 changes A = E[Y'Y] only in second order. A variational iteration uses
the first term alone, which guarantees ascent. In the basis Q, the matrix P is nearly diagonal.
Newton's step is therefore 1 / (1 - r) times as long as the plain step, where r is the ratio of the
second term to P_jj. The S_jk of different j are nearly proportional, so that one basis u_1, u_2,
... of the orthogonal complement makes the Hessian nearly diagonal for all j. At a saddle, r exceeds
1; with the absolute value of 1 - r, the step leads away from the saddle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...data import Array
from ...data.arrays import from_numpy, to_numpy

MAX_DIRECTIONS = 8  # maximum number of directions; the weakest, which converge slowly, are used
MAX_LENGTH = 20.0  # maximum length of Newton's step, relative to the plain step
# Minimum of the largest ratio r in the first iteration. If all ratios are smaller, plain steps
# converge fast, and Newton steps are not computed.
MIN_RATIO = 0.25
# Directions whose squared norm is below this proportion of the largest are rounding errors.
MIN_RELATIVE_NORM = 1e-8
RELATIVE_RIDGE = 1e-10  # ridge of the projection onto the span of Y, relative to tr(Y'Y)


class Curvature(NamedTuple):
    """Second derivatives of the bound before an iteration, in the basis Q."""

    Q: np.ndarray  # (d, d), the weakest direction first
    S: Array  # (d, p) posterior variances of W
    P: np.ndarray  # (d,) the diagonal of P
    c: float  # 1 / noise variance


def projection_coefficients(YY: np.ndarray, YF: np.ndarray) -> np.ndarray:
    """Compute C (d, d) such that F - Y C is orthogonal to the columns of Y."""
    ridge = max(RELATIVE_RIDGE * float(np.trace(YY)), 1e-300) * np.eye(YY.shape[0])
    C: np.ndarray = np.linalg.solve(YY + ridge, YF)
    return C


def newton_correction(
    orthogonal: Array, curvature: Curvature, multiply_columns: Callable[[np.ndarray], Array]
) -> tuple[np.ndarray, float]:
    """Compute the difference between Newton's and the plain step, and max r.

    ``orthogonal`` (n, d) is the part of the plain step that is orthogonal to the span of Y.
    ``multiply_columns`` maps B (d, m) to (orthogonal B)' X. Newton's step adds ``orthogonal @
    correction`` for the returned correction (d, d).
    """
    gram, weak = to_numpy(orthogonal.T @ orthogonal), curvature.Q[:, :MAX_DIRECTIONS]
    values, vectors = np.linalg.eigh(weak.T @ gram @ weak)
    present = values > max(MIN_RELATIVE_NORM * float(values[-1]), 0.0)
    if not np.any(present):
        return np.zeros_like(gram), 0.0
    basis = weak @ (vectors[:, present] / np.sqrt(values[present]))
    images = multiply_columns(basis)  # u'x_k, (m, p)
    # Rotate the basis to the eigenvectors of the average over j of the second term.
    S, P = curvature.S, curvature.P
    average = from_numpy(1.0 / P, S, S.dtype) @ S
    rotation = np.linalg.eigh(to_numpy((images * average) @ images.T).astype(float))[1]
    basis, images = basis @ rotation, from_numpy(rotation.T, images, images.dtype) @ images
    images *= images
    ratio = curvature.c**2 * to_numpy(images @ S.T).astype(float) / P  # r, (m, d)
    if not np.all(np.isfinite(ratio)):
        return np.zeros_like(gram), 0.0
    extension = 1.0 / np.maximum(np.abs(1.0 - ratio), 1.0 / MAX_LENGTH) - 1.0
    slopes = basis.T @ gram @ curvature.Q
    return basis @ (extension * slopes) @ curvature.Q.T, float(ratio.max())
