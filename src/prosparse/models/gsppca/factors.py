"""Variational iterations of the relaxed model, parametrised by q(Y).

The iterations alternate between updates of q(W) and q(Y), and a state may follow either update. If
the data matrix has fewer rows than columns, Y is smaller than W, and acceleration over Y is
cheaper. Iterations over Y also compute Newton steps (`subspace_newton`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from array_api_compat import device

from ...data import Array, Operator
from ...data.arrays import Namespace, decomposition_errors, from_numpy, to_numpy
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
    Y_newton: Array  # (n, d) the same after a Newton step; the accelerator starts from it
    root: np.ndarray  # (d, d) lower triangular; their covariance is Sigma = root' root
    sigma2: float
    t: Array  # (p,)
    slope: Array  # (p,)
    bound: float  # lower bound; in single precision, minus ``rounding``
    YX: Array | None = None  # (d, p) Y'X if the data matrix is read in blocks
    YX_newton: Array | None = None  # (d, p) Y_newton'X
    rounding: float = 0.0  # rounding error of the bound in single precision
    single: bool = False  # whether the next iteration may use single precision
    newton: bool = True  # whether the next iteration computes a Newton step
    proposed: bool = (
        False  # whether an accelerator set Y and sigma2, so that the bound may decrease
    )


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


def make_factor_step(
    op: Operator, n: int, single: Operator | None = None
) -> Callable[[FactorState], FactorState]:
    """Return the function that updates q(W) and then q(Y).

    A matrix in blocks is read once per iteration, because the new Y and Y'X are computed together
    and stored in the state. With a copy ``single`` of the matrix, products with X and arrays of
    length p are in single precision.
    """
    xp, total = op.xp, float(op.xp.sum(op.column_squares()))
    table, work = (op, xp.float64) if single is None else (single, xp.float32)
    precision = np.float64 if single is None else np.float32

    def multiply_columns(Y: Array) -> Array:
        return xp.astype(
            transposed_product(table, xp.astype(Y, table.dtype, copy=False)), work, copy=False
        )

    def step(state: FactorState) -> FactorState:
        Y, c, root = state.Y, 1.0 / state.sigma2, state.root
        YY = to_numpy(Y.T @ Y)
        Q = np.linalg.eigh(n * (root.T @ root) + YY)[1]
        basis = from_numpy(c * Q, Y)
        if state.YX is not None:
            cG, squares = basis.T @ state.YX, Q.T @ YY @ Q
        else:
            cYQ = xp.astype(Y @ basis, work, copy=False)
            wide = xp.astype(cYQ, xp.float64, copy=False)
            cG, squares = multiply_columns(cYQ), state.sigma2**2 * to_numpy(wide.T @ wide)
        moments = rounded_factor_moments(n, root, Q, squares, state.sigma2, precision)
        t = xp.astype(state.t, work, copy=False)
        loadings = update_loadings(cG, moments, t, state.sigma2, op, n, total)
        # q(Y), as in `make_step`. The means are nearly orthogonal in the basis Q.
        change, sigma2 = loadings.basis_change, loadings.sigma2
        root = covariance_root(change @ loadings.squares @ change.T + loadings.S_sum, sigma2)
        back = from_numpy(change.T @ (root.T @ root) / sigma2, Y)
        if state.YX is not None:
            Y_new, YX = product_and_transpose(op, loadings.means.T @ back)
        else:
            XM = table.matmul(xp.astype(loadings.means.T, table.dtype, copy=False))
            Y_new, YX = xp.astype(XM, Y.dtype, copy=False) @ back, None
        Y_newton, YX_newton, newton = Y_new, YX, state.newton
        if newton:
            curvature = bound_curvature(state, moments, loadings)
            Y_newton, YX_newton, ratio = extend_step(
                state, YY, Y_new, YX, curvature, multiply_columns
            )
            # The first iteration, whose bound is not yet finite, determines this for all others.
            newton = math.isfinite(state.bound) or ratio >= MIN_RATIO
        rounding = 0.0 if single is None else loadings.rounding
        return FactorState(
            Y=Y_new,
            Y_newton=Y_newton,
            root=root,
            sigma2=sigma2,
            t=loadings.t,
            slope=loadings.slope,
            bound=loadings.bound - rounding,
            YX=YX,
            YX_newton=YX_newton,
            rounding=rounding,
            single=single is not None,
            newton=newton,
        )

    return step


def bound_curvature(state: FactorState, moments: FactorMoments, loadings: Loadings) -> Curvature:
    """Return the second derivatives of the bound at ``state``."""
    c = 1.0 / state.sigma2
    if math.isfinite(state.bound):
        P = 1.0 + c * (loadings.S_diagonal + np.diagonal(loadings.squares))
        return Curvature(moments.Q, loadings.S, P, c)
    # At the start, A is nearly n I and any basis diagonalises it; the eigenvectors of P are used.
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
    The result is the factors, their product with X, and the largest ratio r of `newton_correction`.
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


def make_mixed_precision_step(
    op: Operator, n: int, single: Operator, min_increase: float
) -> Callable[[FactorState], FactorState]:
    """Return a step that uses single precision until rounding errors matter.

    A result in single precision is accepted if the bound increases by more than its rounding error
    and ``min_increase``. It is also accepted if the bound decreases by more than this sum from a
    proposal of the accelerator. Otherwise all later iterations are in double precision. The
    rounding error is subtracted from the bound, so that the bound does not decrease at the change
    of precision.
    """
    xp = op.xp
    double_step, single_step = make_factor_step(op, n), make_factor_step(op, n, single)

    def step(state: FactorState) -> FactorState:
        if not state.single:
            return double_step(state)
        try:
            with np.errstate(all="ignore"):  # Overflow is detected in the result.
                result = single_step(state)
        except ArithmeticError:
            return double_step(state)
        except decomposition_errors():
            return double_step(state)
        increase = result.bound - state.bound
        resolution = max(result.rounding, min_increase)
        resolved = increase > resolution or (state.proposed and increase < -resolution)
        valid = math.isfinite(result.bound) and bool(xp.any(result.t > 0))
        return result if valid and resolved else double_step(state)

    return step


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
        # With an exact fit, log sigma2 decreases without bound; its change per iteration is
        # limited.
        change = max(-2.0, min(2.0, float(vector[size]) - math.log(state.sigma2)))
        return state._replace(
            Y=xp.reshape(vector[:size], shape),
            YX=None if YX_shape is None else xp.reshape(vector[size + 1 :], YX_shape),
            sigma2=state.sigma2 * math.exp(change),
            proposed=True,
        )

    return QuasiNewton(
        lambda state: pack(state.Y, state.YX, state.sigma2),
        unpack,
        xp,
        n_compared=size + 1,
        ahead=lambda state: pack(state.Y_newton, state.YX_newton, state.sigma2),
    )
