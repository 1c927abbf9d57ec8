"""Model of globally sparse probabilistic PCA.

[MBL16]  P.-A. Mattei, C. Bouveyron, P. Latouche. Globally sparse probabilistic PCA.
         AISTATS 2016.
[BLM18]  C. Bouveyron, P. Latouche, P.-A. Mattei. Bayesian variable selection for globally
         sparse probabilistic PCA. Electronic Journal of Statistics 12(2), 2018.

Model: x = V W y + noise, V = diag(v), v in {0,1}^p, y ~ N(0, I_d), w_kj ~ N(0, 1/alpha^2).
If v is relaxed to u in [0,1]^p, the likelihood depends on u and alpha through t_k = u_k^2 / alpha^2
alone, the prior variance of row k of W. The relaxed model is probabilistic PCA with one prior
variance per variable. This model ranks the variables. The exact evidence of the binary models along
the ranking (`evidence`) determines the number of selected variables, and PCA on these columns gives
the components (`solve`).

Symbols: X (n, p) centred; sigma2 noise variance, c = 1/sigma2; row k of W has posterior mean
m_k (rows of M, (p, d)) and covariance S_k; row i of Y has mean mu_i and covariance Sigma;
A = E[Y'Y] = Q diag(a) Q'; G = Q' E[Y]' X (d, p). In the basis Q every S_k is diagonal, and with

    D_jk = 1 / (1 + c a_j t_k)        T_jk = c^2 g_jk^2 t_k D_jk

all quantities of variable k are sums over j of D, T, T D or log D. Arrays have shape (d, p), so
that the entries of neighbouring variables are contiguous in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dtrtri

from ...data import Array, Operator
from ...data.arrays import Namespace, from_numpy, to_numpy
from ...numerics.spectrum import Spectrum, factor_products
from .parameter_expansion import expand
from .relevance import VarianceUpdate, update_variances

# Minimum noise variance, relative to the mean square of X. If d components fit X exactly, the bound
# has no maximum, and the residual consists of rounding errors.
MIN_RELATIVE_NOISE = 1e-14


class State(NamedTuple):
    """State of the relaxed model between two iterations, given by q(W)."""

    M: Array  # (p, d) posterior means of the rows of W
    S_sum: np.ndarray  # (d, d) sum of their covariances S_k
    sigma2: float  # noise variance
    t: Array  # (p,) prior variance of each row, exactly 0 for variables out of the model
    slope: Array  # (p,) h_k'(0), positive if variable k would enter the model
    bound: float  # lower bound of log p(X | t, sigma2)


def init(parts: Spectrum, d: int) -> State:
    """Initialise with ML probabilistic PCA, and t = column variance / d."""
    n, p = parts.n, parts.op.shape[1]
    squares = parts.op.column_squares()
    values = to_numpy(parts.eigenvalues) / n
    sigma2 = max(float(np.sum(values[d:])) / (p - d), 1e-3 * float(np.sum(values)) / p)
    signal = np.maximum(values[:d] - sigma2, 1e-3 * sigma2)
    M = parts.directions(d) * from_numpy(np.sqrt(signal), squares)
    return State(M, np.zeros((d, d)), sigma2, squares / (n * d), 0.0 * squares, -math.inf)


def min_noise(parts: Spectrum) -> float:
    """Return the minimum noise variance."""
    return MIN_RELATIVE_NOISE * float(parts.op.xp.mean(parts.op.column_squares())) / parts.n


def make_step(op: Operator, n: int) -> Callable[[State], State]:
    """Return the function that updates q(Y) and then q(W).

    An iteration costs two products with X and O(p d + d^3) operations. ``op`` is any data matrix
    with the same X'X as the n observed rows.
    """
    total = float(op.xp.sum(op.column_squares()))

    def step(state: State) -> State:
        M, c = state.M, 1.0 / state.sigma2
        # q(Y), [MBL16] Prop. 1 with 1/sigma^2 for the misprinted 1/sigma: mu = X M c Sigma
        root = covariance_root(to_numpy(M.T @ M) + state.S_sum, state.sigma2)
        # M root' is better conditioned than M.
        rows = factor_products(op, M @ from_numpy(root.T, M))
        A = n * (root.T @ root) + c * c * root.T @ rows.squares() @ root
        moments = FactorMoments(*np.linalg.eigh(A), _factor_divergence(n, root, A))
        cG = from_numpy(c * c * root @ moments.Q, M).T @ rows.YX
        new = update_loadings(cG, moments, state.t, state.sigma2, op, n, total)
        M = new.means.T @ from_numpy(new.basis_change.T, M)
        return State(M, new.S_sum, new.sigma2, new.t, new.slope, new.bound)

    return step


def covariance_root(WW: np.ndarray, sigma2: float) -> np.ndarray:
    """Compute lower triangular L with L'L = (I + E[W'W] / sigma2)^-1."""
    factor = np.linalg.cholesky(WW / sigma2 + np.eye(WW.shape[0]))
    inverse: np.ndarray = dtrtri(factor, lower=1)[0]
    return inverse


class FactorMoments(NamedTuple):
    """Moments of q(Y) that determine q(W)."""

    a: np.ndarray  # (d,) eigenvalues of A = E[Y'Y]
    Q: np.ndarray  # (d, d) its eigenvectors
    divergence: float  # Kullback-Leibler divergence of q(Y) from its prior
    remainder: np.ndarray | None = None  # (d, d) Q'A Q - diag(a), None if it is zero


def rounded_factor_moments(
    n: int, root: np.ndarray, Q: np.ndarray, squares: np.ndarray
) -> FactorMoments:
    """Compute the moments of q(Y) for rounded Y Q; ``squares`` is Q'Y'Y Q.

    The rounding error is common to all columns and would accumulate. The bound is valid for any
    approximation diag(a) of Q'A Q, provided that ``remainder`` is the exact difference.
    """
    A = n * (Q.T @ root.T @ root @ Q) + squares
    a = np.diagonal(A)
    return FactorMoments(a, Q, _factor_divergence(n, root, A), A - np.diag(a))


def _factor_divergence(n: int, root: np.ndarray, A: np.ndarray) -> float:
    log_det = 2.0 * float(np.sum(np.log(np.diagonal(root))))  # of Sigma
    return 0.5 * (float(np.trace(A)) - n * (root.shape[0] + log_det))


class Loadings(NamedTuple):
    """q(W) after an update, and the quantities that are updated with it."""

    means: Array  # (d, p) in the basis Q
    squares: np.ndarray  # (d, d) means means'
    basis_change: np.ndarray  # (d, d) from the basis Q to the one after parameter expansion
    S_diagonal: np.ndarray  # (d,) their sums
    S_sum: np.ndarray  # (d, d) sum of the covariances after parameter expansion
    sigma2: float
    t: Array  # (p,) after parameter expansion
    slope: Array  # (p,)
    bound: float


def update_loadings(
    cG: Array, moments: FactorMoments, t: Array, sigma2: float, op: Operator, n: int, total: float
) -> Loadings:
    """Update t, q(W) and sigma2, expand the parameters, and compute the bound.

    The rows of W are integrated out for the update of t. Then S_jk = t_k D_jk and m_jk = c g_jk
    S_jk. ``cG`` (d, p) is G / sigma2, and ``total`` is the sum of squares of X.
    """
    xp, (d, p) = op.xp, cG.shape
    e = from_numpy(moments.a / sigma2, cG, cG.dtype)
    summarise = partial(_summarise, cG=cG, xp=xp)
    update, sums, means = update_variances(t, e, cG * cG, xp, summarise)
    sum_T, sum_TD, sum_D, sum_log_D, q, VV, squares, S_diagonal, D_active = sums
    n_effective = p * d - sum_D  # effective number of parameters
    # sigma2, [MBL16] (13) with the missing factor -2 and square
    residual = total - sigma2 * (sum_T + sum_TD - n_effective)
    if moments.remainder is not None:
        residual += float(np.sum(moments.remainder * (squares + np.diag(S_diagonal))))
    sigma2 = max(residual, MIN_RELATIVE_NOISE * total) / (n * p)
    divergence_W = 0.5 * (sum_TD - n_effective - sum_log_D)
    # Expected log-likelihood minus the divergences of q(Y) and q(W) from their priors
    fit = -0.5 * n * p * math.log(2.0 * math.pi * sigma2) - 0.5 * residual / sigma2
    bound = fit - moments.divergence - divergence_W
    R, scale = expand(moments.a, VV + np.diag(D_active), n, q)
    # R is unique up to a rotation, and the one that is triangular in the basis of Y is used. With
    # equal eigenvalues, as at the start, Q is arbitrary, and rounding errors would otherwise
    # determine the iterations.
    QR = moments.Q @ R
    basis_change = np.linalg.cholesky(QR @ QR.T).T @ moments.Q
    return Loadings(
        means=means,
        squares=squares,
        basis_change=basis_change,
        S_diagonal=S_diagonal,
        S_sum=(basis_change * S_diagonal) @ basis_change.T,
        sigma2=sigma2,
        t=update.t * scale,
        slope=update.slope,
        bound=bound,
    )


def _summarise(update: VarianceUpdate, cG: Array, xp: Namespace) -> tuple[tuple[Array, ...], Array]:
    """Compute the means of q(W), and its summaries for CPU memory.

    The summaries are the sums of T, T D, D and log D; the number of variables in the model;
    V V', where the columns of V are m_k / sqrt(t_k); the same product for the means m_k; D t; and
    the sum of D over the variables in the model.
    """
    t, D = update.t, update.D
    columns = (update.T, update.TD, update.D_sum, update.log_D)
    sums = [xp.sum(part, dtype=xp.float64) for part in columns]
    root_t, active = xp.sqrt(t), xp.astype(t > 0, t.dtype)
    V = cG * D
    V *= root_t
    means = V * root_t
    small = V @ V.T, means @ means.T, D @ t, D @ active
    return (*sums, xp.sum(active), *small), means


def rank_variables(t: Array, slope: Array) -> np.ndarray:
    """Sort the variables by decreasing t, and by h_k'(0) if t is zero."""
    return np.lexsort((-to_numpy(slope), -to_numpy(t)))


def relative_relevance(t: Array) -> np.ndarray:
    """Compute u in [0, 1] with maximum 1, where u_k^2 is proportional to t_k."""
    t = to_numpy(t).astype(float)
    return np.sqrt(t / t.max()) if t.max() > 0 else np.zeros_like(t)
