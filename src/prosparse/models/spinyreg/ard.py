"""Automatic relevance determination: one prior variance per coefficient.

[FT02]  A. C. Faul, M. E. Tipping. Analysis of sparse Bayesian learning. Advances in Neural
        Information Processing Systems 14, 2002.

The coefficients are integrated out: y ~ N(0, C) with C = sigma2 I + X diag(t) X'. As a function
of a single t_j, log p(y) is

    h(t) = -1/2 log(1 + t s) + 1/2 q^2 t / (1 + t s) ,   s = x_j'C_j^-1 x_j,  q = x_j'C_j^-1 y

where C_j is C without variable j. The maximum is at t = (q^2 - s) / s^2, or exactly at zero if
q^2 <= s, [FT02]. One step updates all variables in turn, and log p(y) is non-decreasing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dger
from scipy.linalg.lapack import dpotrf, dtrtrs

from ...inference.loop import Run, iterate
from ...inference.progress import Progress
from .linear import LinearFit, LinearModel

# Rounding error of the residual of a variable regressed on the others, relative to the variable.
RATIO_ROUNDING = 1e-15
MIN_NOISE_RATIO = 1e-4  # minimum noise variance relative to y'y / n


class State(NamedTuple):
    """Prior variances after an update of all variables."""

    t: np.ndarray  # (p,) prior variances, exactly 0 for excluded variables
    bound: float  # log p(y)


def log_likelihood(
    G: np.ndarray, b: np.ndarray, yy: float, n: float, sigma2: float, t: np.ndarray
) -> float:
    """Compute log N(y; 0, sigma2 I + X diag(t) X') from X'X, X'y and y'y."""
    root = np.sqrt(t)
    M = np.eye(t.size) + root[:, None] * G * (root / sigma2)
    L = np.linalg.cholesky(M)
    explained = np.linalg.solve(M, root * b) @ (root * b) / sigma2
    log_det = n * math.log(2.0 * math.pi * sigma2) + 2.0 * float(np.sum(np.log(L.diagonal())))
    return -0.5 * (log_det + (yy - float(explained)) / sigma2)


def init(G: np.ndarray, b: np.ndarray, yy: float, n: float, sigma2: float, t: np.ndarray) -> State:
    """Compute the initial state with variances ``t``."""
    return State(t, log_likelihood(G, b, yy, n, sigma2, t))


def make_step(
    G: np.ndarray, b: np.ndarray, yy: float, n: float, sigma2: float
) -> Callable[[State], State]:
    """Build the update of all variables, which costs O(p^2) for each."""
    p = b.size
    Gb = np.empty((p, p + 1))  # y is an additional column that never enters the model
    Gb[:, :p], Gb[:, p] = G, b
    Gb /= sigma2

    def step(state: State) -> State:
        # [A c] = X'C^-1 [X y] by Woodbury's identity.
        root = np.sqrt(state.t)
        U = root[:, None] * Gb
        M = U[:, :p] * root
        M.flat[:: p + 1] += 1.0
        U, _ = dtrtrs(dpotrf(M, lower=1)[0], U, lower=1) if p else (U, 0)
        Ac = np.asfortranarray(Gb - U[:, :p].T @ U)
        t, bound = state.t.tolist(), state.bound
        for j, t_j in enumerate(t):
            a, c = Ac.item(j, j), Ac.item(j, p)
            ratio = 1.0 - t_j * a  # C_j^-1 from C^-1 by the Sherman-Morrison formula
            if not (a > 0.0 and RATIO_ROUNDING * t_j * Gb.item(j, j) < ratio <= 1.0):
                continue  # s and q are inaccurate because of rounding.
            s, q = a / ratio, c / ratio
            best = (q * q - s) / (s * s) if q * q > s else 0.0
            change = best - t_j
            if change == 0.0:
                continue
            after, before = 1.0 + best * s, 1.0 + t_j * s
            bound += 0.5 * (q * q * (best / after - t_j / before) - math.log(after / before))
            row = Ac[j].copy()
            Ac = dger(-change / (1.0 + change * a), row[:p], row, a=Ac, overwrite_a=True)
            t[j] = best
        return State(np.array(t), bound)

    return step


def fit_ard(
    model: LinearModel,
    order: np.ndarray,
    fit: LinearFit,
    *,
    max_iter: int,
    tol: float,
    verbose: int = 0,
) -> Run[State]:
    """Fit the prior variances of the variables ``order``, given the noise."""
    listed = order if fit.v.size else order[:0]
    G, b = model.gram(listed), model.B[listed, 0]
    yy, sigma2 = float(model.yy[0]), float(fit.sigma2[0])
    t = np.zeros(listed.size)
    t[: fit.v.size] = sigma2 / math.exp(fit.log_ratio)
    # With less noise, residuals of variables regressed on each other would be rounding errors.
    noise = max(sigma2, MIN_NOISE_RATIO * yy / model.n)
    unchanged = noise == sigma2  # The initial evidence is then known.
    start = State(t, fit.log_evidence) if unchanged else init(G, b, yy, model.n, noise, t)
    return iterate(
        make_step(G, b, yy, model.n, noise),
        start,
        max_iter=max_iter,
        tol=tol,
        progress=Progress(max_iter, "SpinyRegressor", verbose),
    )
