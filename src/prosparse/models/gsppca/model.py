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
from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg.lapack import dtrtri

from ...data import Array, Operator
from ...data.arrays import Namespace, from_numpy, to_numpy
from ...numerics.spectrum import Spectrum, latents
from .parameter_expansion import expand
from .relevance import VarianceUpdate, update_variances

# The noise variance may not fall below this share of the mean square of X: when d components
# fit X exactly the bound has no maximum, and the residual of double-precision products is noise.
LEAST_RELAXED_NOISE = 1e-14
# Rounding of every column's share of the bound is independent of that of the others: it moves the
# bound by half an epsilon of the root of the sum of their squares. So many are allowed for: columns
# of very different size average out less.
_ROUNDING = 4.0


class State(NamedTuple):
    """Where the variational iterations of the relaxed model stand, with q(W) at hand."""

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
    values = to_numpy(parts.eigenvalues) / n
    sigma2 = max(float(np.sum(values[d:])) / (p - d), 1e-3 * float(np.sum(values)) / p)
    signal = np.maximum(values[:d] - sigma2, 1e-3 * sigma2)
    M = parts.directions(d) * from_numpy(np.sqrt(signal), squares)
    return State(M, np.zeros((d, d)), sigma2, squares / (n * d), 0.0 * squares, -math.inf)


def least_noise(parts: Spectrum) -> float:
    """The least noise variance allowed."""
    return LEAST_RELAXED_NOISE * float(parts.table.xp.mean(parts.table.column_squares())) / parts.n


def make_step(op: Operator, n: int) -> Callable[[State], State]:
    """One variational pass over ``op``, from q(W) to q(W): two products with X, then
    O(p d + d^3).

    ``op`` may be any table with the same X'X as the n rows observed. Arrays of length p stay where
    the table is, in double precision; d x d matrices take the host microseconds.
    """
    total = float(op.xp.sum(op.column_squares()))

    def step(state: State) -> State:
        M, c = state.M, 1.0 / state.sigma2
        # q(Y), [MBL16] Prop. 1 with 1/sigma^2 for the misprinted 1/sigma: mu = X M c Sigma
        root = lower_root(to_numpy(M.T @ M) + state.S_sum, state.sigma2)
        rows = latents(op, M @ from_numpy(root.T, M))  # M alone can be far from orthogonal
        about = about_rows(n, root, c * c * root.T @ rows.squares() @ root)
        cG = from_numpy(c * c * root @ about.Q, M).T @ rows.YX
        weights = update_weights(cG, about, state.t, state.sigma2, op, n, total)
        M = weights.means.T @ from_numpy(weights.turn.T, M)
        return State(M, weights.S_sum, *weights.others)

    return step


def lower_root(WW: np.ndarray, sigma2: float) -> np.ndarray:
    """The lower triangular factor of Sigma = (I + E[W'W] / sigma2)^-1 = root' root."""
    factor = np.linalg.cholesky(WW / sigma2 + np.eye(WW.shape[0]))
    inverse: np.ndarray = dtrtri(factor, lower=1)[0]
    return inverse


class Rows(NamedTuple):
    """What the columns need to know of q(Y)."""

    a: np.ndarray  # (d,) eigenvalues of A = E[Y'Y]
    Q: np.ndarray  # (d, d) its eigenvectors
    divergence: float  # of q(Y) from its prior
    rest: np.ndarray | None = None  # (d, d) Q'A Q - diag(a), unless that is zero


def about_rows(n: int, root: np.ndarray, YY: np.ndarray) -> Rows:
    A = n * (root.T @ root) + YY
    return Rows(*np.linalg.eigh(A), _divergence_of_rows(n, root, A))


def about_rounded_rows(
    n: int, root: np.ndarray, Q: np.ndarray, squares: np.ndarray, sigma2: float, precision: type
) -> Rows:
    """The same where the columns meet Y Q as it was rounded, with its ``squares``, (d, d), and
    a / sigma2 in the same ``precision``.

    All columns share this rounding, which would add up. But any Y is as good as any other, and so
    is any A that the columns think there is, if the bound is told what A is.
    """
    A = n * (Q.T @ root.T @ root @ Q) + squares
    a = sigma2 * (np.diagonal(A) / sigma2).astype(precision).astype(float)
    return Rows(a, Q, _divergence_of_rows(n, root, A), A - np.diag(a))


def _divergence_of_rows(n: int, root: np.ndarray, A: np.ndarray) -> float:
    log_det = 2.0 * float(np.sum(np.log(np.diagonal(root))))  # of Sigma
    return 0.5 * (float(np.trace(A)) - n * (root.shape[0] + log_det))


class Weights(NamedTuple):
    """q(W) after an update, with the scale and shape of Y and W balanced."""

    means: Array  # (d, p) in the basis Q
    squares: np.ndarray  # (d, d) means means'
    turn: np.ndarray  # (d, d) from that basis to the next one
    S: Array  # (d, p) variances in the basis Q
    S_diagonal: np.ndarray  # (d,) their sums
    S_sum: np.ndarray  # (d, d) in the next basis
    others: tuple[float, Array, Array, float]  # sigma2, t, slope, bound
    rounding: float  # how far single precision can move the bound


def update_weights(
    cG: Array, rows: Rows, t: Array, sigma2: float, op: Operator, n: int, total: float
) -> Weights:
    """t, with the rows of W integrated out; then q(W): S_jk = t_k D_jk, m_jk = c g_jk S_jk; then
    sigma2, and the bound."""
    xp, (d, p) = op.xp, cG.shape
    e = from_numpy(rows.a / sigma2, cG, cG.dtype)
    summaries = partial(_summaries, cG=cG, xp=xp)
    update, sums, means = update_variances(t, e, cG * cG, xp, summaries)
    sum_T, sum_TD, sum_D, sum_log_D, sum_T2, q, VV, squares, S_diagonal, in_model = sums
    lost = p * d - sum_D
    # sigma2, [MBL16] (13) with the missing factor -2 and square
    residual = total - sigma2 * (sum_T + sum_TD - lost)
    if rows.rest is not None:
        residual += float(np.sum(rows.rest * (squares + np.diag(S_diagonal))))
    before, sigma2 = sigma2, max(residual, LEAST_RELAXED_NOISE * total) / (n * p)
    divergence_W = 0.5 * (sum_TD - lost - sum_log_D)
    bound = lower_bound(n, p, residual, sigma2, rows.divergence, divergence_W)
    R, stretch = expand(rows.a, VV + np.diag(in_model), n, q)
    # Of all such R take the one that is triangular in the basis of Y. That of Q is anyone's where
    # eigenvalues are equal, as they are at the start: rounding would decide where passes lead.
    QR = rows.Q @ R
    turn = np.linalg.cholesky(QR @ QR.T).T @ rows.Q
    others = sigma2, update.t * stretch, update.slope, bound
    # what rounding adds to T moves the residual by as much of the noise before, and that the bound
    rounding = _ROUNDING * float(np.finfo(np.float32).eps) * math.sqrt(sum_T2)
    rounding *= max(1.0, before / sigma2)
    S_sum = (turn * S_diagonal) @ turn.T
    return Weights(means, squares, turn, update.D * update.t, S_diagonal, S_sum, others, rounding)


def lower_bound(
    n: int, p: int, residual: float, sigma2: float, divergence_Y: float, divergence_W: float
) -> float:
    """The expected log-likelihood less how far q(Y) and q(W) are from their priors.

    ``residual`` is the expected squared distance of X from Y W'.
    """
    fit = -0.5 * n * p * math.log(2.0 * math.pi * sigma2) - 0.5 * residual / sigma2
    return fit - divergence_Y - divergence_W


def _summaries(update: VarianceUpdate, cG: Array, xp: Namespace) -> tuple[tuple[Array, ...], Array]:
    """What the host needs to know of q(W): sums of T, T D, D, log D and T^2, the number of
    variables in the model, V V' of V = m_k / sqrt(t_k), that of the means m_k, and D times t and
    times 1 for these variables. And the means, which stay where they are."""
    t, D = update.t, update.D
    columns = (update.T, update.TD, update.D_sum, update.log_D, update.T * update.T)
    sums = [xp.sum(part, dtype=xp.float64) for part in columns]
    root_t, inside = xp.sqrt(t), xp.astype(t > 0, t.dtype)
    V = cG * D
    V *= root_t
    means = V * root_t
    small = V @ V.T, means @ means.T, D @ t, D @ inside
    return (*sums, xp.sum(inside), *small), means


class Relaxed(Protocol):
    """Where passes of either kind end."""

    @property
    def t(self) -> Array: ...

    @property
    def slope(self) -> Array: ...


def ranking(state: Relaxed) -> np.ndarray:
    """Variables from most to least relevant: by t, ties (zeros) by the slope h_k'(0)."""
    return np.lexsort((-to_numpy(state.slope), -to_numpy(state.t)))


def relevance(state: Relaxed) -> np.ndarray:
    """u in [0, 1]: u_k^2 is proportional to t_k, and the most relevant variable has 1."""
    t = to_numpy(state.t).astype(float)
    return np.sqrt(t / t.max()) if t.max() > 0 else np.zeros_like(t)
