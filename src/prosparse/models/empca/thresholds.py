"""Thresholding to K loadings, and renormalisation on a support.

    maximise  w'Cw  subject to  |w| = 1,  at most K nonzeros,  and, optionally,  w >= 0

[MWA06] B. Moghaddam, Y. Weiss, S. Avidan. Spectral bounds for sparse PCA. NeurIPS 2006.

Symbols: F (r, p) rows to threshold, usually images Cw; K the maximum number of nonzeros of a row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .quadratic import Floats, Indices, Mask, Quadratic


class Constraint(NamedTuple):
    """Constraint on one component, in addition to its unit norm."""

    K: int  # maximum number of nonzeros
    nonnegative: bool
    allowed: Mask  # (p,) variables that may have a loading


def selection_score(F: Floats, c: Constraint) -> Floats:
    """Compute |F| or the positive part of F; -1 for excluded variables."""
    gain = np.maximum(F, 0.0) if c.nonnegative else np.abs(F)
    return np.where(c.allowed, gain, -1.0)


def threshold(F: Floats, c: Constraint, *, soft: bool = True) -> Floats:
    """Threshold rows (r, p) to K entries and unit norm, [SB08] Algorithm 2.

    A soft threshold subtracts the next largest entry from the K largest, unless ties would remove
    all of them.
    """
    gain = selection_score(F, c)
    p = gain.shape[1]
    if p <= c.K:
        retained = np.maximum(gain, 0.0)
    elif soft:
        next_largest = np.partition(gain, p - c.K - 1, axis=1)[:, p - c.K - 1, None]
        retained = np.maximum(gain - np.maximum(next_largest, 0.0), 0.0)
        lost = retained.max(axis=1) <= 1e-12 * gain.max(axis=1)
        if lost.any():
            retained[lost] = _largest_entries(gain[lost], c.K)
    else:
        retained = _largest_entries(gain, c.K)
    norms: Floats = np.sqrt(np.einsum("rp,rp->r", retained, retained))[:, None]
    return np.copysign(retained, F) / np.where(norms > 0, norms, 1.0)


def _largest_entries(gain: Floats, K: int) -> Floats:
    """Retain the K largest positive entries of each row; others become zero."""
    top = np.argpartition(gain, gain.shape[1] - K, axis=1)[:, -K:]
    retained = np.zeros_like(gain)
    np.put_along_axis(retained, top, np.maximum(np.take_along_axis(gain, top, axis=1), 0.0), axis=1)
    return retained


def renormalise(quadratic: Quadratic, w: Floats, *, near: bool = False) -> tuple[float, Floats]:
    """Compute the optimal loadings of any sign on the nonzeros of ``w``.

    The optimal value comes first. [MWA06] calls this variational renormalisation. If ``w`` is
    ``near`` the optimum, the loadings are computed faster, to eight digits.
    """
    S = np.flatnonzero(w)
    value, v = quadratic.leading(S, w[S] if near else None)
    return value, embed(v, S, w.size)


def embed(v: Floats, S: Indices, p: int) -> Floats:
    """Return a vector of length p with entries ``v`` at ``S``, zero elsewhere."""
    w = np.zeros(p)
    w[S] = v
    return w
