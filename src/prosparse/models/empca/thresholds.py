"""Sparse weights from dense ones: the K largest entries, and the best weights on a support.

    maximise  w'Cw  subject to  |w| = 1,  at most K nonzeros,  and, if asked,  w >= 0

[SB08]  C. D. Sigg, J. M. Buhmann. Expectation-maximization for sparse and non-negative PCA.
        ICML 2008.
[MWA06] B. Moghaddam, Y. Weiss, S. Avidan. Spectral bounds for sparse PCA. NeurIPS 2006.

Symbols: F (r, p) rows to be thresholded, often images Cw; K the most nonzeros of a row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .quadratic import Floats, Indices, Mask, Quadratic


class Constraint(NamedTuple):
    """What a single component must satisfy, besides its length."""

    K: int  # most nonzeros
    nonnegative: bool
    allowed: Mask  # (p,) variables that may be used


def strength(F: Floats, c: Constraint) -> Floats:
    """What an entry of Cw promises: its size, or its positive part; -1 where not allowed.

    Parameters
    ----------
    F : array (r, p)
        Images Cw, one in each row.
    c : Constraint

    Returns
    -------
    array (r, p)
    """
    gain = np.maximum(F, 0.0) if c.nonnegative else np.abs(F)
    return np.where(c.allowed, gain, -1.0)


def threshold(F: Floats, c: Constraint, *, soft: bool = True) -> Floats:
    """Rows of F reduced to K entries each and to unit length, [SB08] Algorithm 2.

    Parameters
    ----------
    F : array (r, p)
    c : Constraint
    soft : bool, default=True
        True: the K largest entries minus the next largest, which a partial sort finds in O(p).
        Ties can leave nothing of a row; such a row is thresholded hard. False (hard): the K
        largest as they are.

    Returns
    -------
    array (r, p)
        Unit rows; rows of zeros where no entry is of any use.
    """
    gain = strength(F, c)
    p = gain.shape[1]
    if p <= c.K:
        kept = np.maximum(gain, 0.0)
    elif soft:
        next_largest = np.partition(gain, p - c.K - 1, axis=1)[:, p - c.K - 1, None]
        kept = np.maximum(gain - np.maximum(next_largest, 0.0), 0.0)
        lost = kept.max(axis=1) <= 1e-12 * gain.max(axis=1)
        if lost.any():
            kept[lost] = _largest_entries(gain[lost], c.K)
    else:
        kept = _largest_entries(gain, c.K)
    norms: Floats = np.sqrt(np.einsum("rp,rp->r", kept, kept))[:, None]
    return np.copysign(kept, F) / np.where(norms > 0, norms, 1.0)


def _largest_entries(gain: Floats, K: int) -> Floats:
    """The K largest entries of every row, if positive; zero elsewhere."""
    top = np.argpartition(gain, gain.shape[1] - K, axis=1)[:, -K:]
    kept = np.zeros_like(gain)
    np.put_along_axis(kept, top, np.maximum(np.take_along_axis(gain, top, axis=1), 0.0), axis=1)
    return kept


def renormalised(quadratic: Quadratic, w: Floats, *, near: bool = False) -> tuple[float, Floats]:
    """The best weights, of any sign, on the nonzeros of ``w``: the "variational
    renormalisation" of [MWA06].

    Parameters
    ----------
    quadratic : Quadratic
    w : array (p,)
    near : bool
        Whether ``w`` is near the best already; they are then found to eight digits, sooner.

    Returns
    -------
    value : float
        The largest eigenvalue of the block of C on the nonzeros.
    w : array (p,)
        Its unit vector, with zeros elsewhere.
    """
    S = np.flatnonzero(w)
    value, v = quadratic.leading(S, w[S] if near else None)
    return value, spread_weights(v, S, w.size)


def spread_weights(v: Floats, S: Indices, p: int) -> Floats:
    """The vector of length p with the entries ``v`` at ``S``, and zeros elsewhere."""
    w = np.zeros(p)
    w[S] = v
    return w
