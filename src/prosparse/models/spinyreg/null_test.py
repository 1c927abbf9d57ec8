"""Monte Carlo test of the null hypothesis that the response is noise.

[BC91]  J. Besag, P. Clifford. Sequential Monte Carlo p-values. Biometrika 78, 1991.

Posterior probabilities of sets do not control how often a response of pure noise selects
variables. This test does. The statistic is the sum over variables of the Bayes factor of a
single-variable model against the empty model, with lambda = x_j'x_j:

    S = sum_j (1 - r_j^2 / 2)^(-f/2) ,

where r_j is the correlation of x_j and y and f are the degrees of freedom. The statistic is
sensitive to many weak correlations as well as to a single strong one. Its null distribution is
simulated by Gaussian responses for the given X, so columns may have any correlations. Simulation
stops early if the outcome is clear, [BC91].
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from .screening import Candidates

NULL_LEVEL = 0.025  # level of the test
SEED = 90_137_562_241  # unlikely to be used for simulated data, whose columns would equal the noise
MAX_DRAWS = 399  # maximum number of simulated responses
BATCH_SIZE = 50  # number of responses simulated at a time
MAX_BATCH_ENTRIES = 10_000_000  # maximum size of a batch of products X'y


def log_bayes_factor_sum(b: np.ndarray, d: np.ndarray, yy: np.ndarray, dof: float) -> np.ndarray:
    """Compute log S for m responses.

    ``b`` of shape (p, m) holds their products with the columns, ``yy`` of shape (m,) their squared
    norms.
    """
    squared = np.minimum(b * b / (d[:, None] * yy), 1.0)
    log_sum: np.ndarray = logsumexp(-0.5 * dof * np.log1p(-0.5 * squared), axis=0)
    return log_sum


def rejects_null(pool: Candidates, root: np.ndarray | None, n_intercepts: int) -> bool:
    """Test at level `NULL_LEVEL` whether S of y exceeds that of Gaussian noise.

    ``root`` holds the square roots of the row weights, if any; ``n_intercepts`` is 1 with an
    intercept. If rows represent more or fewer observations, the squared norms of the simulated
    responses are scaled to the same degrees of freedom.
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
