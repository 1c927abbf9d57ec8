"""Variational iterations of the relaxed model from q(Y) to q(Y).

The iterations alternate between q(W) and q(Y), and a state may be stored after either. If the data
matrix has fewer rows than columns, Y is smaller than W, and acceleration over Y is cheaper.
Iterations over Y also compute Newton steps (`subspace_newton`).
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
    FactorMoments,
    Loadings,
    State,
    covariance_root,
    rounded_factor_moments,
    update_loadings,
)
from .quasi_newton import QuasiNewton
from .subspace_newton import MIN_RATIO, Curvature, newton_correction, projection_coefficients


class FactorState(NamedTuple):
    """State of the relaxed model between two iterations, given by q(Y)."""

    Y: Array  # (n, d) posterior means of the rows of Y
    Y_newton: Array  # (n, d) the same after a Newton step, from which an accelerator starts
    root: np.ndarray  # (d, d) lower triangular; their covariance is Sigma = root' root
    sigma2: float
    t: Array  # (p,)
    slope: Array  # (p,)
    bound: float
    YX: Array | None = None  # (d, p) Y'X if the data matrix is read in blocks
    YX_newton: Array | None = None  # (d, p) Y_newton'X
    newton: bool = True  # whether the next iteration computes a Newton step


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
    return FactorState(Y, Y, root, sigma2, t, slope, bound, YX, YX)


def make_factor_step(op: Operator, n: int) -> Callable[[FactorState], FactorState]:
    """Return one variational iteration, from q(Y) to q(W) to q(Y).

    A matrix in blocks is read once per iteration: the new Y and Y'X are computed together, and the
    state contains both.
    """
    xp, total = op.xp, float(op.xp.sum(op.column_squares()))

    def multiply_columns(Y: Array) -> Array:
        return xp.astype(
            transposed_product(op, xp.astype(Y, op.dtype, copy=False)), xp.float64, copy=False
        )

    def step(state: FactorState) -> FactorState:
        Y, root = state.Y, state.root
        YY = to_numpy(Y.T @ Y)
        Q = np.linalg.eigh(n * (root.T @ root) + YY)[1]
        basis = from_numpy(Q / state.sigma2, Y)
        if state.YX is not None:
            cG, squares = basis.T @ state.YX, Q.T @ YY @ Q
        else:
            cYQ = Y @ basis
            cG, squares = multiply_columns(cYQ), state.sigma2**2 * to_numpy(cYQ.T @ cYQ)
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
        Y_newton, YX_newton, newton = Y_new, YX, state.newton
        if newton:
            curvature = bound_curvature(state, moments, loadings)
            Y_newton, YX_newton, ratio = extend_step(
                state, YY, Y_new, YX, curvature, multiply_columns
            )
            # The first iteration, whose bound is not finite yet, decides for all others.
            newton = math.isfinite(state.bound) or ratio >= MIN_RATIO
        return FactorState(
            Y=Y_new,
            Y_newton=Y_newton,
            root=root,
            sigma2=sigma2,
            t=loadings.t,
            slope=loadings.slope,
            bound=loadings.bound,
            YX=YX,
            YX_newton=YX_newton,
            newton=newton,
        )

    return step


def bound_curvature(state: FactorState, moments: FactorMoments, loadings: Loadings) -> Curvature:
    """Return the second derivatives of the bound at ``state``."""
    c = 1.0 / state.sigma2
    if math.isfinite(state.bound):
        P = 1.0 + c * (loadings.S_diagonal + np.diagonal(loadings.squares))
        return Curvature(moments.Q, loadings.S, P, c)
    # At the start A is nearly n I, and any basis diagonalises it. Use the eigenvectors of P.
    WW, vectors = np.linalg.eigh(loadings.squares + np.diag(loadings.S_diagonal))
    return Curvature(moments.Q @ vectors, loadings.S, 1.0 + c * WW, c)


def extend_step(
    state: FactorState,
    YY: np.ndarray,
    Y_new: Array,
    YX_new: Array | None,
    curvature: Curvature,
    multiply_columns: Callable[[Array], Array],
) -> tuple[Array, Array | None, float]:
    """Replace the plain step by Newton's step orthogonal to the factors.

    ``YY`` is Y'Y before the step, and ``YX_new`` is Y_new'X if the data matrix is read in blocks.
    Returns the factors, their product with X, and the largest ratio r of `newton_correction`.
    """
    Y, YX = state.Y, YX_new
    F = Y_new - Y
    C = projection_coefficients(YY, to_numpy(Y.T @ F))
    orthogonal = F - Y @ from_numpy(C, Y)
    if state.YX is not None:
        orthogonalX = YX_new - state.YX - from_numpy(C.T, Y) @ state.YX
        correction, ratio = newton_correction(
            orthogonal, curvature, lambda B: from_numpy(B.T, Y) @ orthogonalX
        )
        YX = YX_new + from_numpy(correction.T, Y) @ orthogonalX
    else:
        correction, ratio = newton_correction(
            orthogonal, curvature, lambda B: multiply_columns(orthogonal @ from_numpy(B, Y))
        )
    return Y_new + orthogonal @ from_numpy(correction, Y), YX, ratio


def over_factors(start: FactorState, xp: Namespace) -> QuasiNewton:
    """Accelerate the iterations over Y and log ``sigma2``.

    If the data matrix is read in blocks, Y'X is combined with the same coefficients as Y.
    """
    shape, YX_shape = start.Y.shape, None if start.YX is None else start.YX.shape
    size = math.prod(shape)

    def pack(Y: Array, YX: Array | None, sigma2: float) -> Array:
        log_sigma2 = xp.full(1, math.log(sigma2), dtype=Y.dtype, device=device(Y))
        parts = [xp.reshape(Y, (-1,)), log_sigma2]
        return xp.concat(parts if YX is None else [*parts, xp.reshape(YX, (-1,))])

    def unpack(vector: Array, state: FactorState) -> FactorState:
        # With an exact fit log sigma2 decreases without bound; limit its change per iteration.
        change = max(-2.0, min(2.0, float(vector[size]) - math.log(state.sigma2)))
        return state._replace(
            Y=xp.reshape(vector[:size], shape),
            YX=None if YX_shape is None else xp.reshape(vector[size + 1 :], YX_shape),
            sigma2=state.sigma2 * math.exp(change),
        )

    return QuasiNewton(
        lambda state: pack(state.Y, state.YX, state.sigma2),
        unpack,
        xp,
        n_compared=size + 1,
        ahead=lambda state: pack(state.Y_newton, state.YX_newton, state.sigma2),
    )
