"""Variational passes of the relaxed model from q(Y) to q(Y); symbols are those of ``model``.

The passes are a cycle from q(W) to q(Y) and back. It may be cut at either end. A table with fewer
rows than columns has fewer latents than loadings, and what accelerates the passes then compares
short vectors. It also knows how the bound bends along some of them (`turning`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from array_api_compat import device

from ...data import Array, Operator
from ...data.arrays import Namespace, decomposition_errors, from_numpy, to_numpy
from ...numerics.spectrum import across, there_and_back
from .model import (
    Rows,
    State,
    Weights,
    about_rounded_rows,
    lower_root,
    update_weights,
)
from .quasi_newton import QuasiNewton
from .subspace_newton import SLOW, Curvature, inside, turned


class LatentState(NamedTuple):
    """Where the variational iterations of the relaxed model stand, with q(Y) at hand."""

    Y: Array  # (n, d) posterior means of the rows of Y
    ahead: Array  # (n, d) further along, where another pass may begin
    root: np.ndarray  # (d, d) lower triangular; their covariance is Sigma = root' root
    sigma2: float
    t: Array  # (p,)
    slope: Array  # (p,)
    bound: float  # in single precision, less what rounding may have added
    YX: Array | None = None  # (d, p) Y'X, of a table in blocks: one pass brings it with Y
    aheadX: Array | None = None  # (d, p) the same of what is ahead
    rounding: float = 0.0  # how far single precision can have moved the bound
    single: bool = False  # whether the next pass may be in single precision
    turning: bool = True  # whether passes look further out
    proposed: bool = False  # whether an accelerator chose Y and sigma2: the bound may then fall


def with_latents(state: State, op: Operator) -> LatentState:
    """The same place on the cycle, after q(Y)."""
    M, S_sum, sigma2, t, slope, bound = state
    root = lower_root(to_numpy(M.T @ M) + S_sum, sigma2)
    F, back, YX = M @ from_numpy(root.T, M), from_numpy(root / sigma2, M), None
    if op.whole is None:
        XF, FXX = there_and_back(op, F)
        YX = back.T @ FXX
    else:
        XF = op.xp.astype(op.matmul(op.xp.astype(F, op.dtype)), M.dtype)
    Y = XF @ back
    return LatentState(Y, Y, root, sigma2, t, slope, bound, YX, YX)


def make_latent_step(
    op: Operator, n: int, rough: Operator | None = None
) -> Callable[[LatentState], LatentState]:
    """One pass, from q(Y) to q(Y).

    Over a table in memory these are two products with X, and a narrow one for `turning` where
    passes are slow; over blocks, one pass makes the next Y and Y'X with it, so that the state has
    both.

    With ``rough``, the table in single precision, all arrays of length p are in that precision,
    and so are the products.
    """
    xp, total = op.xp, float(op.xp.sum(op.column_squares()))
    table, work = (op, xp.float64) if rough is None else (rough, xp.float32)
    precision = np.float64 if rough is None else np.float32

    def across_in(Y: Array) -> Array:
        return xp.astype(across(table, xp.astype(Y, table.dtype, copy=False)), work, copy=False)

    def step(state: LatentState) -> LatentState:
        Y, c, root = state.Y, 1.0 / state.sigma2, state.root
        YY = to_numpy(Y.T @ Y)
        Q = np.linalg.eigh(n * (root.T @ root) + YY)[1]
        basis = from_numpy(c * Q, Y)
        if state.YX is not None:
            cG, squares = basis.T @ state.YX, Q.T @ YY @ Q
        else:
            cYQ = xp.astype(Y @ basis, work, copy=False)
            wide = xp.astype(cYQ, xp.float64, copy=False)
            cG, squares = across_in(cYQ), state.sigma2**2 * to_numpy(wide.T @ wide)
        about = about_rounded_rows(n, root, Q, squares, state.sigma2, precision)
        t = xp.astype(state.t, work, copy=False)
        weights = update_weights(cG, about, t, state.sigma2, op, n, total)
        # q(Y), as in `make_step`; in the basis of the means these are nearly orthogonal
        turn, (sigma2, t, slope, bound) = weights.turn, weights.others
        root = lower_root(turn @ weights.squares @ turn.T + weights.S_sum, sigma2)
        back = from_numpy(turn.T @ (root.T @ root) / sigma2, Y)
        if state.YX is not None:
            there, YX = there_and_back(op, weights.means.T @ back)
        else:
            XM = table.matmul(xp.astype(weights.means.T, table.dtype, copy=False))
            there, YX = xp.astype(XM, Y.dtype, copy=False) @ back, None
        ahead, aheadX, turning = there, YX, state.turning
        if turning:
            at, F = curvature(state, about, weights), there - Y
            C = inside(YY, to_numpy(Y.T @ F))
            outside = F - Y @ from_numpy(C, Y)
            if state.YX is not None:
                outsideX = YX - state.YX - from_numpy(C.T, Y) @ state.YX
                further, share = turned(outside, at, lambda B: from_numpy(B.T, Y) @ outsideX)
                aheadX = YX + from_numpy(further.T, Y) @ outsideX
            else:
                further, share = turned(
                    outside, at, lambda B: across_in(outside @ from_numpy(B, Y))
                )
            ahead = there + outside @ from_numpy(further, Y)
            turning = math.isfinite(state.bound) or share >= SLOW
        rounding = 0.0 if rough is None else weights.rounding
        return LatentState(
            Y=there,
            ahead=ahead,
            root=root,
            sigma2=sigma2,
            t=t,
            slope=slope,
            bound=bound - rounding,
            YX=YX,
            aheadX=aheadX,
            rounding=rounding,
            single=rough is not None,
            turning=turning,
        )

    return step


def curvature(state: LatentState, rows: Rows, weights: Weights) -> Curvature:
    """What `turning` needs to know of the bound around ``state``."""
    c = 1.0 / state.sigma2
    if math.isfinite(state.bound):
        P = 1.0 + c * (weights.S_diagonal + np.diagonal(weights.squares))
        return Curvature(rows.Q, weights.S, P, c)
    # At the start A is about n I. Any basis is one of its eigenvectors: take that of P.
    WW, turn = np.linalg.eigh(weights.squares + np.diag(weights.S_diagonal))
    return Curvature(rows.Q @ turn, weights.S, 1.0 + c * WW, c)


def make_mixed_step(
    op: Operator, n: int, rough: Operator, least_rise: float
) -> Callable[[LatentState], LatentState]:
    """`make_latent_step` in single precision, for half the price, as long as the bound tells more
    than rounding; then in double precision.

    A pass counts in single precision if it raises the bound by more than rounding can, and by more
    than ``least_rise``, or if it lowers the bound by more than that from a start that an
    accelerator proposed. Any other is done again in double precision, and so are all that go on
    from there. In single precision the bound is less by what rounding may have added, so that it
    does not fall where double precision begins.
    """
    xp, fine, quick = op.xp, make_latent_step(op, n), make_latent_step(op, n, rough)

    def step(state: LatentState) -> LatentState:
        if not state.single:
            return fine(state)
        try:
            with np.errstate(all="ignore"):  # what is beyond its range is found out here
                result = quick(state)
        except ArithmeticError:
            return fine(state)
        except decomposition_errors():
            return fine(state)
        rise = result.bound - state.bound
        clear = max(result.rounding, least_rise)
        tells = rise > clear or (state.proposed and rise < -clear)
        sound = math.isfinite(result.bound) and bool(xp.any(result.t > 0))
        return result if sound and tells else fine(state)

    return step


def over_latents(start: LatentState, xp: Namespace) -> QuasiNewton:
    """Acceleration over Y and log sigma2, of tables in blocks with Y'X; all other parts of the
    state follow within one step."""
    shape, YX_shape = start.Y.shape, None if start.YX is None else start.YX.shape
    size = math.prod(shape)

    def flat(Y: Array, YX: Array | None, sigma2: float) -> Array:
        log_sigma2 = xp.full(1, math.log(sigma2), dtype=Y.dtype, device=device(Y))
        parts = [xp.reshape(Y, (-1,)), log_sigma2]
        return xp.concat(parts if YX is None else [*parts, xp.reshape(YX, (-1,))])

    def unpack(vector: Array, state: LatentState) -> LatentState:
        # An exact fit sends log sigma2 down a straight line: follow, but not out of sight.
        change = max(-2.0, min(2.0, float(vector[size]) - math.log(state.sigma2)))
        return state._replace(
            Y=xp.reshape(vector[:size], shape),
            YX=None if YX_shape is None else xp.reshape(vector[size + 1 :], YX_shape),
            sigma2=state.sigma2 * math.exp(change),
            proposed=True,
        )

    return QuasiNewton(
        lambda state: flat(state.Y, state.YX, state.sigma2),
        unpack,
        xp,
        n_compared=size + 1,
        ahead=lambda state: flat(state.ahead, state.aheadX, state.sigma2),
    )
