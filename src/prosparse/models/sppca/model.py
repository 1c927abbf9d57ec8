"""Sparse probabilistic PCA with an l1 penalty on the loadings.

[BJ15]  C. Bouveyron, J. Jacques. Un algorithme EM pour une version parcimonieuse de l'analyse en
        composantes principales probabiliste. EGC 2015.

Model: y = W x + noise, x ~ N(0, I_d), noise variance sigma2. Maximise, over W (p, d) and sigma2,

    sum_i log N(y_i; 0, W W' + sigma2 I) - lambda |W|_1 .

EM: with M = W'W + sigma2 I, e_i = M^-1 W' y_i, the M-step in row j of W is a lasso in d
dimensions whose Gram matrix s = n sigma2 M^-1 + sum_i e_i e_i' is the same for all rows:

    w_jl = soft( (Y'e)_jl - sum_{k != l} s_lk w_jk , sigma2 lambda ) / s_ll ,

Coordinate descent solves this exactly for all rows at once, with exact zeros. (The quadratic
approximation (8) in [BJ15] never reaches zero, and (9) has an additional factor 1/2.) If few
loadings are nonzero, or the noise is small, `newton` is many times faster and reaches the same
optimum.

The likelihood is invariant under rotations of W, but the penalty is not. Between penalties, the
axes are therefore rotated to minimise |W|_1. W = 0 is stationary for every lambda > 0. Paths
therefore start from the maximum likelihood estimate of probabilistic PCA, and the penalty
increases.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from ...data import Array, Operator
from ...inference.loop import residual_rounding
from ...numerics.spectrum import Spectrum, eye_like, products
from .l1 import lasso_rows, sparsest_rotation, violation

MIN_NOISE = 1e-12  # minimum noise variance, relative to the mean square of X
N_SWEEPS = 2  # sweeps of coordinate descent per M-step; more sweeps do not reduce the total time


class State(NamedTuple):
    """Loadings and noise variance after an EM iteration."""

    W: Array  # (d, p) loadings, transposed relative to [BJ15]
    sigma2: float  # noise variance
    bound: float  # lower bound of the penalised log-likelihood; equal to it at convergence


def init(parts: Spectrum, d: int) -> State:
    """Initialise by probabilistic PCA (Tipping & Bishop 1999), rotated."""
    xp, n, p = parts.op.xp, parts.n, parts.op.shape[1]
    values = parts.eigenvalues / n
    least = MIN_NOISE * float(xp.sum(values)) / p
    sigma2 = max(float(xp.sum(values[d:])) / (p - d), least)
    W = (parts.directions(d) * xp.sqrt(xp.clip(values[:d] - sigma2, 0.0, None))).T
    return State(sparsest_rotation(W), sigma2, -math.inf)


def log_likelihood(op: Operator, n: int, state: State) -> float:
    """Compute sum_i log N(y_i; 0, W'W + sigma2 I) by Woodbury's identity."""
    W, sigma2 = state.W, state.sigma2
    xp, (d, p) = op.xp, W.shape
    M = W @ W.T + sigma2 * eye_like(W @ W.T, xp)
    explained = products(op, W.T)[1]
    total = float(xp.sum(op.column_squares()))
    distance = (total - float(xp.linalg.trace(xp.linalg.solve(M, explained)))) / sigma2
    log_det = (p - d) * math.log(sigma2) + float(xp.linalg.slogdet(M)[1])
    return -0.5 * float(n * p * math.log(2.0 * math.pi) + n * log_det + distance)


def make_step(
    op: Operator, n: int, penalty: float, allowed: Array | None = None, sweeps: int = N_SWEEPS
) -> Callable[[State], State]:
    """Return the function that performs one EM iteration.

    ``op`` may be any matrix with the same X'X as the n observed rows. Entries of W outside
    ``allowed`` (d, p) remain zero.
    """
    xp, p = op.xp, op.shape[1]
    total = float(xp.sum(op.column_squares()))

    def step(state: State) -> State:
        W, sigma2 = state.W, state.sigma2
        d = W.shape[0]
        # E-step, [BJ15] (7): B = sum_i e_i y_i', s = sum_i S_i
        M = W @ W.T + sigma2 * eye_like(W @ W.T, xp)
        M_inverse = xp.linalg.inv(M)
        M_inverse = 0.5 * (M_inverse + M_inverse.T)
        B, s = products(op, W.T @ M_inverse)
        B, s = B.T, s + n * sigma2 * M_inverse
        # M-step: exact maximum of (6) instead of (8) and (9), then (10)
        W = lasso_rows(W, B, s, sigma2 * penalty, xp, sweeps=sweeps, allowed=allowed)
        residual = total - 2.0 * float(xp.sum(B * W)) + float(xp.sum((s @ W) * W))
        new_sigma2 = max(residual, MIN_NOISE * total) / (n * p)
        log_det = d * math.log(sigma2) - float(xp.linalg.slogdet(M)[1])  # of sigma2 M^-1
        divergence = 0.5 * (float(xp.linalg.trace(s)) - n * d - n * log_det)
        price = penalty * float(xp.sum(xp.abs(W)))
        # Expected log-likelihood minus the divergence of q(X) from its prior and the penalty
        fit = -0.5 * n * p * math.log(2.0 * math.pi * new_sigma2) - 0.5 * residual / new_sigma2
        return State(W, new_sigma2, fit - divergence - price)

    return step


def subgradient_gap(op: Operator, n: int, state: State, penalty: float) -> float:
    """Return the largest relative violation of the optimality conditions."""
    xp, W, sigma2 = op.xp, state.W, state.sigma2
    M_inverse = xp.linalg.inv(W @ W.T + sigma2 * eye_like(W @ W.T, xp))
    B, s = products(op, W.T @ M_inverse)
    gradient = (B.T - (s + n * sigma2 * M_inverse) @ W) / sigma2  # Fisher's identity
    return max(0.0, violation(W, gradient, penalty, xp)) / max(penalty, 1e-300)


def rounding_error(op: Operator) -> Callable[[State], float]:
    """Return a function that bounds the rounding error of an objective."""
    total = float(op.xp.sum(op.column_squares()))
    return lambda state: residual_rounding(state, total, state.sigma2, op.epsilon)
