"""Is there anything to be found, or would noise do as well?

Probabilities of sets cannot promise that a response of noise selects nothing: that depends on the
prior. Here the table is asked what it makes of noise. The statistic is the sum, over all
variables, of the Bayes factor of the set of one variable against the empty set, at weights as
large as their errors (lambda = x_j'x_j): with r_j the correlation of x_j and y, and f degrees of
freedom,

    S = sum_j (1 - r_j^2 / 2)^(-f/2) .

Many weak correlations count as well as a single strong one. How often noise has as large a sum
is counted on responses of Gaussian noise, for this very table: columns may be correlated in any
way (Besag & Clifford 1991, Biometrika 78, on counting only until the answer is clear).
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from .screening import Candidates

NULL_LEVEL = 0.025  # share of noise responses, at most, that may look as much like a signal as y
SEED = 90_137_562_241  # that no table is likely to be drawn with, or its columns were the noise
MAX_DRAWS = 399  # responses of noise
BATCH_SIZE = 50  # of them
MAX_BATCH_ENTRIES = 10_000_000  # products of columns with responses that are held at once


def log_bayes_factor_sum(b: np.ndarray, d: np.ndarray, yy: np.ndarray, dof: float) -> np.ndarray:
    """log S of the responses whose products with the columns are ``b``, (p, m), and whose squares
    are ``yy``, (m,)."""
    squared = np.minimum(b * b / (d[:, None] * yy), 1.0)
    log_sum: np.ndarray = logsumexp(-0.5 * dof * np.log1p(-0.5 * squared), axis=0)
    return log_sum


def rejects_null(pool: Candidates, root: np.ndarray | None, n_intercepts: int) -> bool:
    """Whether at most a share `BY_CHANCE` of responses of noise has as large a sum as y.

    ``root`` are the roots of the weights of the rows, if there are any; ``n_intercepts`` is one if an
    intercept was fitted. The rows of noise are as many as those of y: where they stand for more
    observations, or fewer, their squares are scaled to so many degrees of freedom.
    """
    rows, p = pool.op.shape
    dof = pool.n - n_intercepts
    if rows - n_intercepts < 2 or dof < 2:
        return False
    observed = log_bayes_factor_sum(pool.b[:, None], pool.d, np.array([pool.yy]), dof)[0]
    constant = np.ones(rows) if root is None else root
    constant = constant / np.linalg.norm(constant)
    rng = np.random.default_rng(SEED)
    allowed_exceeding, drawn, exceeding = int(NULL_LEVEL * (MAX_DRAWS + 1)) - 1, 0, 0
    while drawn < MAX_DRAWS and exceeding <= allowed_exceeding:
        m = min(BATCH_SIZE, MAX_DRAWS - drawn, max(MAX_BATCH_ENTRIES // p, 1))
        noise = rng.standard_normal((rows, m))
        if n_intercepts:
            noise -= np.outer(constant, constant @ noise)
        squares = np.einsum("ij,ij->j", noise, noise) * dof / (rows - n_intercepts)
        b = np.asarray(pool.op.rmatmul(noise))
        exceeding += int(
            np.count_nonzero(log_bayes_factor_sum(b, pool.d, squares, dof) >= observed)
        )
        drawn += m
    return exceeding <= allowed_exceeding
