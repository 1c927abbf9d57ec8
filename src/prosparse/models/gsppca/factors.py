"""Variational iterations of the relaxed model, parametrised by q(Y).

The iterations alternate between updates of q(W) and q(Y), and a state may follow either update. If
the data matrix has fewer rows than columns, Y is smaller than W, and acceleration over Y is
cheaper.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from array_api_compat import device

from ...data import Array, Operator
from ...data.arrays import Namespace, from_numpy, to_numpy
from ...numerics.spectrum import product_and_transpose, transposed_product
from .model import (
    State,
    covariance_root,
    rounded_factor_moments,
    update_loadings,
)
from .quasi_newton import QuasiNewton


class FactorState(NamedTuple):
    """State of the relaxed model between two iterations, given by q(Y)."""

    Y: Array  # (n, d) posterior means of the rows of Y
    root: np.ndarray  # (d, d) lower triangular; their covariance is Sigma = root' root
    sigma2: float
    t: Array  # (p,)
    slope: Array  # (p,)
    bound: float
    YX: Array | None = None  # (d, p) Y'X if the data matrix is read in blocks


def to_factor_state(state: State, op: Operator) -> FactorState:
    """Return the state after the update of q(Y)."""
    M, S_sum, sigma2, t, slope, bound = state
    root = covariance_root(to_numpy(M.T @ M) + S_sum, sigma2)
    F, back, YX = M @ from_numpy(root.T, M), from_numpy(root / sigma2, M), None
    if op.whole is None:
        XF, FXX = product_and_transpose(op, F)
        YX = back.T @ FXX
    else:
        XF = op.xp.astype(op.matmul(op.xp.astype(F, op.dtype)), M.dtype)
    Y = XF @ back
    return FactorState(Y, root, sigma2, t, slope, bound, YX)


def make_factor_step(op: Operator, n: int) -> Callable[[FactorState], FactorState]:
    """Return the function that updates q(W) and then q(Y).

    A matrix in blocks is read once per iteration, because the new Y and Y'X are computed together
    and stored in the state.
    """
    xp, total = op.xp, float(op.xp.sum(op.column_squares()))

    def step(state: FactorState) -> FactorState:
        Y, root = state.Y, state.root
        YY = to_numpy(Y.T @ Y)
        Q = np.linalg.eigh(n * (root.T @ root) + YY)[1]
        basis = from_numpy(Q / state.sigma2, Y)
        if state.YX is not None:
            cG, squares = basis.T @ state.YX, Q.T @ YY @ Q
        else:
            cYQ = Y @ basis
            cG = transposed_product(op, xp.astype(cYQ, op.dtype, copy=False))
            cG = xp.astype(cG, xp.float64, copy=False)
            squares = state.sigma2**2 * to_numpy(cYQ.T @ cYQ)
        moments = rounded_factor_moments(n, root, Q, squares)
        loadings = update_loadings(cG, moments, state.t, state.sigma2, op, n, total)
        # q(Y), as in `make_step`. The means are nearly orthogonal in the basis Q.
        change, sigma2 = loadings.basis_change, loadings.sigma2
        root = covariance_root(change @ loadings.squares @ change.T + loadings.S_sum, sigma2)
        back = from_numpy(change.T @ (root.T @ root) / sigma2, Y)
        if state.YX is not None:
            Y_new, YX = product_and_transpose(op, loadings.means.T @ back)
        else:
            XM = op.matmul(xp.astype(loadings.means.T, op.dtype, copy=False))
            Y_new, YX = xp.astype(XM, Y.dtype, copy=False) @ back, None
        t, slope, bound = loadings.t, loadings.slope, loadings.bound
        return FactorState(Y_new, root, sigma2, t, slope, bound, YX)

    return step


def over_factors(start: FactorState, xp: Namespace) -> QuasiNewton:
    """Accelerate the iterations over Y and log ``sigma2``.

    If the data matrix is read in blocks, Y'X is combined with the same coefficients as Y.
    """
    shape, YX_shape = start.Y.shape, None if start.YX is None else start.YX.shape
    size = math.prod(shape)

    def pack(state: FactorState) -> Array:
        Y, YX = state.Y, state.YX
        log_sigma2 = xp.full(1, math.log(state.sigma2), dtype=Y.dtype, device=device(Y))
        parts = [xp.reshape(Y, (-1,)), log_sigma2]
        return xp.concat(parts if YX is None else [*parts, xp.reshape(YX, (-1,))])

    def unpack(vector: Array, state: FactorState) -> FactorState:
        # With an exact fit, log sigma2 decreases without bound; its change per iteration is
        # limited.
        change = max(-2.0, min(2.0, float(vector[size]) - math.log(state.sigma2)))
        return state._replace(
            Y=xp.reshape(vector[:size], shape),
            YX=None if YX_shape is None else xp.reshape(vector[size + 1 :], YX_shape),
            sigma2=state.sigma2 * math.exp(change),
        )

    return QuasiNewton(pack, unpack, xp, n_compared=size + 1)
