"""How far the latents should turn out of their space: Newton's step, where it is nearly diagonal.

The columns of Y span d directions of the n rows. What a variational pass changes slowly is which
ones: it turns the weakest directions towards others that are nearly as strong, a little further
each time. Along u e_j', with u a unit vector outside that span and j one of the directions in the
basis Q (see ``model``), and with t and the noise as they are, the bound has the second derivative

    -P_jj + c^2 sum_k S_jk (u'x_k)^2,        P = I + c E[W'W],

as Y'u = 0 leaves A = E[Y'Y] alone up to the square of the step. A pass takes the first term alone
for the curvature, which is safe. In the basis Q the matrix P is nearly diagonal: Newton's method
would go 1 / (1 - r) times as far, r the share of the second term. The S_jk of different j are
nearly proportional: one basis u_1, u_2, ... of the outside makes this diagonal for all j. Where
r > 1 the bound curves upwards, at a saddle: the step is as long, and leads on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...data import Array
from ...data.arrays import from_numpy, to_numpy

# Only the weakest directions turn slowly.
_MOST_DIRECTIONS = 8
# How many times as far as a pass Newton's step may go.
_FARTHEST = 20.0
# Where no share of the second term is as large at the start, one seldom becomes so.
SLOW = 0.25
# Directions outside, of which a step has less than this share of the largest, squared, are
# rounding.
_PRESENT = 1e-8
# What Y has less of than this share of its squares counts as outside.
_ABSENT = 1e-10


class Curvature(NamedTuple):
    """What a pass knows of the bound around its start, in the basis Q."""

    Q: np.ndarray  # (d, d), the weakest direction first
    S: Array  # (d, p) variances of W
    P: np.ndarray  # (d,) the diagonal of P
    c: float  # 1 / noise variance


def inside(YY: np.ndarray, YF: np.ndarray) -> np.ndarray:
    """The matrix C, (d, d), for which F - Y C is the part of F outside of the span of Y, from the
    products Y'Y and Y'F."""
    ridge = max(_ABSENT * float(np.trace(YY)), 1e-300) * np.eye(YY.shape[0])
    C: np.ndarray = np.linalg.solve(YY + ridge, YF)
    return C


def turned(
    outside: Array, at: Curvature, onto_columns: Callable[[np.ndarray], Array]
) -> tuple[np.ndarray, float]:
    """How much further than a pass Newton's step goes: by ``outside`` times this matrix, (d, d).
    And the largest share r.

    ``outside`` is what the pass adds to Y outside of its span, and ``onto_columns(B)`` are the
    products of the columns of ``outside`` B with those of X.
    """
    squares, weak = to_numpy(outside.T @ outside), at.Q[:, :_MOST_DIRECTIONS]
    values, vectors = np.linalg.eigh(weak.T @ squares @ weak)
    present = values > max(_PRESENT * float(values[-1]), 0.0)
    if not np.any(present):
        return np.zeros_like(squares), 0.0
    basis = weak @ (vectors[:, present] / np.sqrt(values[present]))
    images = onto_columns(basis)  # u'x_k, (m, p)
    # turn the basis to the one that suits all j
    common = from_numpy(1.0 / at.P, at.S, at.S.dtype) @ at.S
    best = np.linalg.eigh(to_numpy((images * common) @ images.T).astype(float))[1]
    basis, images = basis @ best, from_numpy(best.T, images, images.dtype) @ images
    images *= images
    share = at.c**2 * to_numpy(images @ at.S.T).astype(float) / at.P  # r, (m, d)
    if not np.all(np.isfinite(share)):
        return np.zeros_like(squares), 0.0
    longer = 1.0 / np.maximum(np.abs(1.0 - share), 1.0 / _FARTHEST) - 1.0
    slopes = basis.T @ squares @ at.Q
    return basis @ (longer * slopes) @ at.Q.T, float(share.max())
