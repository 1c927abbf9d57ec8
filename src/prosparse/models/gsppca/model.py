"""Globally sparse probabilistic PCA: components that share one set of variables.

[MBL16]  P.-A. Mattei, C. Bouveyron, P. Latouche. Globally sparse probabilistic PCA.
         AISTATS 2016.
[BLM18]  C. Bouveyron, P. Latouche, P.-A. Mattei. Bayesian variable selection for globally
         sparse probabilistic PCA. Electronic Journal of Statistics 12(2), 2018.

Model: x = V W y + noise, V = diag(v), v in {0,1}^p, y ~ N(0, I_d), w_kj ~ N(0, 1/alpha^2).
Relaxing v to u in [0,1]^p leaves only t_k = u_k^2 / alpha^2, the prior variance of row k of
W, in the likelihood: the relaxed model is probabilistic PCA with one relevance variance per
variable. It ranks the variables; the exact evidence of the binary models along that ranking
(`evidence`) says how many to keep; PCA on those columns gives the components (`solve`).

Symbols: X (n, p) centred; sigma2 noise variance, c = 1/sigma2; row k of W has posterior mean
m_k (rows of M, (p, d)) and covariance S_k; row i of Y has mean mu_i and covariance Sigma;
A = E[Y'Y] = Q diag(a) Q'; G = Q' E[Y]' X (d, p). In the basis Q every S_k is diagonal, and with

    D_jk = 1 / (1 + c a_j t_k)        T_jk = c^2 g_jk^2 t_k D_jk

everything about variable k is a sum over j of D, T, T D or log D. Arrays are (d, p), so that
numbers of neighbouring variables are neighbours in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from ...data import Array, Operator
from ...data.arrays import Namespace, host, in_kind
from ...numerics.spectrum import Spectrum, latents
from .expansion import expand
from .relevance import VarianceUpdate, update_variances

# The noise variance may not fall below this share of the mean square of X: when d components
# fit X exactly the bound has no maximum, and the residual of double-precision products is noise.
LEAST_RELAXED_NOISE = 1e-14


class State(NamedTuple):
    """Where the variational iterations of the relaxed model stand."""

    M: Array  # (p, d) posterior means of the rows of W
    S_sum: np.ndarray  # (d, d) sum of their covariances S_k
    sigma2: float  # noise variance
    t: Array  # (p,) prior variance of each row, exactly 0 for variables out of the model
    slope: Array  # (p,) h_k'(0): would variable k raise the bound if it came (back) in?
    bound: float  # lower bound of log p(X | t, sigma2)


def init(parts: Spectrum, d: int) -> State:
    """Start from probabilistic PCA's maximum likelihood loadings; t = column variance / d."""
    n, p = parts.n, parts.table.shape[1]
    squares = parts.table.column_squares()
    values = host(parts.eigenvalues) / n
    sigma2 = max(float(np.sum(values[d:])) / (p - d), 1e-3 * float(np.sum(values)) / p)
    signal = np.maximum(values[:d] - sigma2, 1e-3 * sigma2)
    M = parts.directions(d) * in_kind(np.sqrt(signal), squares)
    return State(M, np.zeros((d, d)), sigma2, squares / (n * d), 0.0 * squares, -math.inf)


def least_noise(parts: Spectrum) -> float:
    """The least noise variance allowed."""
    return LEAST_RELAXED_NOISE * float(parts.table.xp.mean(parts.table.column_squares())) / parts.n


def make_step(op: Operator, n: int) -> Callable[[State], State]:
    """One variational pass over ``op``: two products with X, then O(p d + d^3).

    ``op`` may be any table with the same X'X as the n rows observed. Arrays of length p stay where
    the table is, in double precision; d x d matrices take the host microseconds.
    """
    xp, p, total = op.xp, op.shape[1], float(op.xp.sum(op.column_squares()))

    def step(state: State) -> State:
        M, c, d = state.M, 1.0 / state.sigma2, state.M.shape[1]
        # q(Y), [MBL16] Prop. 1 with 1/sigma^2 for the misprinted 1/sigma: mu = X M c Sigma
        root = np.linalg.inv(np.linalg.cholesky(c * (host(M.T @ M) + state.S_sum) + np.eye(d)))
        Sigma = root.T @ root
        rows = latents(op, M @ in_kind(root.T, M))  # M alone can be far from orthogonal
        YY = c * c * root.T @ rows.squares() @ root
        a, Q = np.linalg.eigh(n * Sigma + YY)
        turn = in_kind(c * np.column_stack([c * root @ Q, a]), M)
        cG, e = rows.onto_columns(turn[:, :d]), turn[:, d]
        # t, with the rows of W integrated out; then q(W): S_jk = t_k D_jk, m_jk = c g_jk S_jk
        update, sums = update_variances(state.t, e, cG * cG, xp, partial(_summaries, cG=cG, xp=xp))
        sum_T, sum_TD, sum_log_D, q, VV, S_diagonal, D_rows = sums
        in_model = D_rows - (p - q)  # as D = 1 outside
        lost = p * d - float(np.sum(D_rows))
        # sigma2, [MBL16] (13) with the missing factor -2 and square
        residual = total - state.sigma2 * (sum_T + sum_TD - lost)
        sigma2 = max(residual, LEAST_RELAXED_NOISE * total) / (n * p)
        log_det = 2.0 * float(np.sum(np.log(np.diagonal(root))))  # of Sigma
        divergence_Y = 0.5 * (float(np.trace(n * Sigma + YY)) - n * (d + log_det))
        divergence_W = 0.5 * (sum_TD - lost - sum_log_D)
        bound = lower_bound(n, p, residual, sigma2, divergence_Y, divergence_W)
        # the next start, with the scale and shape of Y and W balanced
        R, stretch = expand(a, VV + np.diag(in_model), n, q)
        QR = Q @ R.T
        S_sum = (QR * S_diagonal) @ QR.T
        cG *= update.D
        cG *= update.t
        means = cG.T @ in_kind(QR.T, M)
        return State(means, S_sum, sigma2, update.t * stretch, update.slope, bound)

    return step


def lower_bound(
    n: int, p: int, residual: float, sigma2: float, divergence_Y: float, divergence_W: float
) -> float:
    """The expected log-likelihood less how far q(Y) and q(W) are from their priors.

    ``residual`` is the expected squared distance of X from Y W'.
    """
    fit = -0.5 * n * p * math.log(2.0 * math.pi * sigma2) - 0.5 * residual / sigma2
    return fit - divergence_Y - divergence_W


def _summaries(update: VarianceUpdate, cG: Array, xp: Namespace) -> tuple[Array, ...]:
    """What the host needs to know of q(W): sums of T, T D and log D, the number of variables in
    the model, V V' of V = m_k / sqrt(t_k), and D times t and 1."""
    t, D, T, log_D, _ = update
    inside = xp.astype(t > 0, t.dtype)
    V = cG * D
    V *= xp.sqrt(t)
    sum_TD = xp.vecdot(xp.reshape(T, (-1,)), xp.reshape(D, (-1,)))
    return xp.sum(T), sum_TD, xp.sum(log_D), xp.sum(inside), V @ V.T, D @ t, xp.sum(D, axis=1)


def ranking(state: State) -> np.ndarray:
    """Variables from most to least relevant: by t, ties (zeros) by the slope h_k'(0)."""
    return np.lexsort((-host(state.slope), -host(state.t)))


def relevance(state: State) -> np.ndarray:
    """u in [0, 1]: u_k^2 is proportional to t_k, and the most relevant variable has 1."""
    t = host(state.t)
    return np.sqrt(t / t.max()) if t.max() > 0 else np.zeros_like(t)
