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
from ...data.arrays import Namespace, decomposition_errors, host, in_kind
from ...numerics.spectrum import Spectrum, across, latents
from .expansion import expand
from .relevance import VarianceUpdate, update_variances

# The noise variance may not fall below this share of the mean square of X: when d components
# fit X exactly the bound has no maximum, and the residual of double-precision products is noise.
LEAST_RELAXED_NOISE = 1e-14
# Rounding of every column's share of the bound is independent of that of the others: it moves the
# bound by half an epsilon of the root of the sum of their squares. So many are allowed for.
_ROUNDING = 2.0


class State(NamedTuple):
    """Where the variational iterations of the relaxed model stand, with q(W) at hand."""

    M: Array  # (p, d) posterior means of the rows of W
    S_sum: np.ndarray  # (d, d) sum of their covariances S_k
    sigma2: float  # noise variance
    t: Array  # (p,) prior variance of each row, exactly 0 for variables out of the model
    slope: Array  # (p,) h_k'(0): would variable k raise the bound if it came (back) in?
    bound: float  # lower bound of log p(X | t, sigma2)


class LatentState(NamedTuple):
    """The same with q(Y) at hand: of a table with fewer rows than columns, fewer numbers."""

    Y: Array  # (n, d) posterior means of the rows of Y
    root: np.ndarray  # (d, d) lower triangular; their covariance is Sigma = root' root
    sigma2: float
    t: Array  # (p,)
    slope: Array  # (p,)
    bound: float  # in single precision, less what rounding may have added
    rounding: float = 0.0  # how much that is
    single: bool = False  # whether the next pass may be in single precision
    proposed: bool = False  # whether an accelerator chose Y and sigma2: the bound may then fall


def init(parts: Spectrum, d: int) -> State:
    """Start from probabilistic PCA's maximum likelihood loadings; t = column variance / d."""
    n, p = parts.n, parts.table.shape[1]
    squares = parts.table.column_squares()
    values = host(parts.eigenvalues) / n
    sigma2 = max(float(np.sum(values[d:])) / (p - d), 1e-3 * float(np.sum(values)) / p)
    signal = np.maximum(values[:d] - sigma2, 1e-3 * sigma2)
    M = parts.directions(d) * in_kind(np.sqrt(signal), squares)
    return State(M, np.zeros((d, d)), sigma2, squares / (n * d), 0.0 * squares, -math.inf)


def with_latents(state: State, op: Operator) -> LatentState:
    """The same place on the cycle, after q(Y)."""
    M, S_sum, sigma2, t, slope, bound = state
    root = _root(host(M.T @ M) + S_sum, sigma2)
    XM = op.matmul(op.xp.astype(M @ in_kind(root.T, M), op.dtype))
    Y = op.xp.astype(XM, M.dtype) @ in_kind(root / sigma2, M)
    return LatentState(Y, root, sigma2, t, slope, bound)


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
        root = _root(host(M.T @ M) + state.S_sum, state.sigma2)
        rows = latents(op, M @ in_kind(root.T, M))  # M alone can be far from orthogonal
        about = _about_rows(n, root, c * c * root.T @ rows.squares() @ root)
        cG = rows.onto_columns(in_kind(c * c * root @ about.Q, M))
        weights = _weights(cG, about, state, op, n, total)
        M = weights.means.T @ in_kind(weights.turn.T, M)
        return State(M, weights.S_sum, *weights.others)

    return step


def make_latent_step(
    op: Operator, n: int, rough: Operator | None = None
) -> Callable[[LatentState], LatentState]:
    """The same pass over a table in memory, from q(Y) to q(Y).

    With ``rough``, the table in single precision, all arrays of length p are in that precision,
    and so is the product with W. The other product makes G, of which the bound is a sum of squares:
    rounding of Y, which all columns share, would not average out.
    """
    xp, total = op.xp, float(op.xp.sum(op.column_squares()))
    behind, work = (op, xp.float64) if rough is None else (rough, xp.float32)

    def step(state: LatentState) -> LatentState:
        Y, c = state.Y, 1.0 / state.sigma2
        about = _about_rows(n, state.root, host(Y.T @ Y))
        G = across(op, xp.astype(Y @ in_kind(c * about.Q, Y), op.dtype, copy=False))
        cG = xp.astype(G, work, copy=False)
        state = state._replace(t=xp.astype(state.t, work, copy=False))
        weights = _weights(cG, about, state, op, n, total)
        # q(Y), as in `make_step`; in the basis of the means these are nearly orthogonal
        turn, (sigma2, t, slope, bound) = weights.turn, weights.others
        root = _root(turn @ weights.squares @ turn.T + weights.S_sum, sigma2)
        XM = behind.matmul(xp.astype(weights.means.T, behind.dtype, copy=False))
        back = in_kind(turn.T @ (root.T @ root) / sigma2, Y)
        Y = xp.astype(XM, Y.dtype, copy=False) @ back
        rounding = 0.0 if rough is None else weights.rounding
        return LatentState(
            Y, root, sigma2, t, slope, bound - rounding, rounding, single=rough is not None
        )

    return step


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
        return result if tells and bool(xp.any(result.t > 0)) else fine(state)

    return step


def _root(WW: np.ndarray, sigma2: float) -> np.ndarray:
    """The lower triangular factor of Sigma = (I + E[W'W] / sigma2)^-1 = root' root."""
    inverse: np.ndarray = np.linalg.inv(np.linalg.cholesky(WW / sigma2 + np.eye(WW.shape[0])))
    return inverse


class _Rows(NamedTuple):
    """What the columns need to know of q(Y)."""

    a: np.ndarray  # (d,) eigenvalues of A = E[Y'Y]
    Q: np.ndarray  # (d, d) its eigenvectors
    divergence: float  # of q(Y) from its prior


def _about_rows(n: int, root: np.ndarray, YY: np.ndarray) -> _Rows:
    A = n * (root.T @ root) + YY
    log_det = 2.0 * float(np.sum(np.log(np.diagonal(root))))  # of Sigma
    divergence = 0.5 * (float(np.trace(A)) - n * (root.shape[0] + log_det))
    return _Rows(*np.linalg.eigh(A), divergence)


class _Weights(NamedTuple):
    """q(W) after an update, with the scale and shape of Y and W balanced."""

    means: Array  # (d, p) in the basis Q
    squares: np.ndarray  # (d, d) means means'
    turn: np.ndarray  # (d, d) from that basis to the next one
    S_sum: np.ndarray  # (d, d) in the next one
    others: tuple[float, Array, Array, float]  # sigma2, t, slope, bound
    rounding: float  # how far single precision can move the bound


def _weights(
    cG: Array, rows: _Rows, state: State | LatentState, op: Operator, n: int, total: float
) -> _Weights:
    """t, with the rows of W integrated out; then q(W): S_jk = t_k D_jk, m_jk = c g_jk S_jk; then
    sigma2, and the bound."""
    xp, (d, p) = op.xp, cG.shape
    single = cG.dtype == xp.float32
    e = np.asarray(rows.a / state.sigma2, dtype=np.float32 if single else np.float64)
    summaries = partial(_summaries, cG=cG, xp=xp)
    update, sums, means = update_variances(state.t, in_kind(e, cG), cG * cG, xp, summaries)
    sum_T, sum_TD, sum_D, sum_log_D, sum_T2, q, VV, squares, S_diagonal, D_rows = sums
    lost = p * d - sum_D
    # sigma2, [MBL16] (13) with the missing factor -2 and square
    residual = total - state.sigma2 * (sum_T + sum_TD - lost)
    if single:  # all columns share the rounding of the eigenvalues: put back what it cost
        lost_a = rows.a - state.sigma2 * e.astype(float)
        residual += float(lost_a @ (S_diagonal + np.diagonal(squares)))
    sigma2 = max(residual, LEAST_RELAXED_NOISE * total) / (n * p)
    divergence_W = 0.5 * (sum_TD - lost - sum_log_D)
    bound = lower_bound(n, p, residual, sigma2, rows.divergence, divergence_W)
    in_model = D_rows - (p - q)  # as D = 1 outside
    R, stretch = expand(rows.a, VV + np.diag(in_model), n, q)
    turn = rows.Q @ R.T
    others = sigma2, update.t * stretch, update.slope, bound
    rounding = _ROUNDING * float(np.finfo(np.float32).eps) * math.sqrt(sum_T2)
    return _Weights(means, squares, turn, (turn * S_diagonal) @ turn.T, others, rounding)


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
    variables in the model, V V' of V = m_k / sqrt(t_k), that of the means m_k, and D times t and 1.
    And the means, which stay where they are."""
    t, D = update.t, update.D
    columns = (update.T, update.TD, update.D_sum, update.log_D, update.T * update.T)
    sums = [xp.sum(part, dtype=xp.float64) for part in columns]
    root_t, inside = xp.sqrt(t), xp.astype(t > 0, t.dtype)
    V = cG * D
    V *= root_t
    means = V * root_t
    ones = xp.ones_like(t)
    return (*sums, xp.sum(inside), V @ V.T, means @ means.T, D @ t, D @ ones), means


def ranking(state: State | LatentState) -> np.ndarray:
    """Variables from most to least relevant: by t, ties (zeros) by the slope h_k'(0)."""
    return np.lexsort((-host(state.slope), -host(state.t)))


def relevance(state: State | LatentState) -> np.ndarray:
    """u in [0, 1]: u_k^2 is proportional to t_k, and the most relevant variable has 1."""
    t = host(state.t).astype(float)
    return np.sqrt(t / t.max()) if t.max() > 0 else np.zeros_like(t)
