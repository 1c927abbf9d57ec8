"""Selection of the number of nonzero loadings by extended BIC.

[CC08]  J. Chen, Z. Chen. Extended Bayesian information criteria for model selection with large
        model spaces. Biometrika 95(3), 2008.

Probabilistic PCA with the factors in the span of the d components and isotropic noise has the
maximum log-likelihood

    -n/2 ( log det A + (p - d) log sigma2 + p (1 + log 2 pi) ),

with A = Q'CQ / n, Q (p, d) an orthonormal basis of the span, sigma2 = (tr C / n - tr A) / (p - d).
For one component, this is an increasing function of w'Cw, so that the sparse component is the
maximum likelihood estimate of a factor with at most K loadings. The criterion subtracts log(n) / 2
for each nonzero loading, and the logarithm of the number of sets of loadings of this size. The
second term corrects for the selection of the loadings by the data [CC08].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ...selection.criteria import ebic
from .quadratic import Floats, Indices, Quadratic
from .solve import RANK_TOL, EmpcaOptions, solve_form


class CardinalityPath(NamedTuple):
    """Compared numbers of nonzeros per component, and their extended BIC."""

    cardinalities: Indices  # (m,) increasing
    criterion: Floats  # (m,)

    @property
    def best(self) -> int:
        """Number of nonzeros that maximises the criterion."""
        return int(self.cardinalities[np.argmax(self.criterion)])


def log_likelihood(quadratic: Quadratic, W: Floats, n: float) -> float:
    """Compute the log-likelihood of probabilistic PCA in the row space of W."""
    p = quadratic.width
    left, lengths, _ = np.linalg.svd(W.T, full_matrices=False)
    Q = left[:, lengths > 1e-9 * lengths.max(initial=0.0)]
    total = float(np.sum(quadratic.diagonal())) / n
    along = np.linalg.eigvalsh(Q.T @ quadratic.matmul(Q)) / n
    rest = max(total - float(np.sum(along)), RANK_TOL * total)
    log_det = float(np.sum(np.log(np.maximum(along, RANK_TOL * total))))
    if Q.shape[1] < p:
        log_det += (p - Q.shape[1]) * math.log(rest / (p - Q.shape[1]))
    return -0.5 * n * (log_det + p * (1.0 + math.log(2.0 * math.pi)))


def cardinality_path(
    quadratic: Quadratic, problem: Callable[[int], EmpcaOptions], n: float, largest: int
) -> CardinalityPath:
    """Compare numbers of nonzeros K, the same for all components.

    Powers of two are compared first. The interval around the best of them is then bisected, because
    the criterion is unimodal in practice. ``problem`` returns the options of the fit with K
    nonzeros, at most ``largest``, and ``n`` is the number of observations.
    """
    values: dict[int, float] = {}
    components: dict[int, list[Floats]] = {}

    def evaluate(K: int) -> None:
        options = problem(K)
        # Each fit starts from the fit with the next smaller K instead of random starts.
        effort = options.effort._replace(n_restarts=0, verbose=0)
        options = options._replace(effort=effort, certification=None, joint=False)
        smaller = max((k for k in components if k < K), default=None)
        warm = [] if smaller is None else components[smaller]
        solution = solve_form(quadratic, options, warm)
        components[K] = [found.w for found in solution.components]
        n_candidates = len(options.cardinalities) * quadratic.width
        likelihood = log_likelihood(quadratic, solution.W, n)
        values[K] = float(ebic(likelihood, np.count_nonzero(solution.W), n, n_candidates))

    grid = sorted({2**k for k in range(largest.bit_length())} | {largest})
    for K in grid:
        evaluate(K)
    while True:
        compared = sorted(values)
        place = compared.index(max(compared, key=lambda K: values[K]))
        around = compared[max(place - 1, 0) : place + 2]
        between = [(low + high) // 2 for low, high in pairwise(around)]
        new = [K for K in between if K not in values]
        if not new:
            break
        for K in new:
            evaluate(K)
    return CardinalityPath(np.array(compared), np.array([values[K] for K in compared]))
