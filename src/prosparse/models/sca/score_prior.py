"""Prior of the scores: Gaussian or point-normal, whichever has the higher evidence.

Point-normal scores suit factors that few samples share. The point-normal prior with probability one
is Gaussian, so that a fit contains factors of both kinds.
"""

from __future__ import annotations

import math

import numpy as np

from ...data import DenseOperator, Operator
from ...data.operators.sparse import SparseOperator
from ...data.arrays import is_numpy, to_numpy
from ...inference.loop import Run
from .model import State, ViewLayout
from .n_factors import RunFrom, SCAOptions, compare_after_equal_iterations
from .scores import SparseScores

# Sweeps over the scores before the two priors are compared.
N_INITIAL_SWEEPS = 3


def has_row_access(op: Operator) -> bool:
    """Return whether the rows are in CPU memory."""
    return isinstance(op, DenseOperator | SparseOperator) and is_numpy(op.column_squares())


def select_score_prior(
    data: SparseScores,
    state: State,
    lay: ViewLayout,
    run: RunFrom[State],
    options: SCAOptions,
) -> tuple[State, ViewLayout]:
    """Return the state with the scores of higher evidence."""
    now = state.ahead
    if not np.any(now.L):
        return state, lay
    tau = lay.of_columns(now.tau)
    assert now.C is not None
    weighted = tau[:, None] * now.L
    S = np.linalg.inv(weighted.T @ now.L + np.tensordot(tau, now.C, axes=1) + np.eye(lay.block.size))
    scores = data.initial(to_numpy(data.op.matmul(weighted @ S)).astype(float))
    for _ in range(N_INITIAL_SWEEPS):
        scores = data.update(now.L, now.C, tau, now.mu, scores)
    trial = now._replace(scores=scores)


    def run_from(state: State, lay: ViewLayout, n_iter: int) -> Run[State]:
        return run(state, lay, options._replace(max_iter=n_iter))

    start = State(trial, trial, -math.inf)
    held, found = compare_after_equal_iterations(state, lay, start, lay, run_from)
    return (found, lay) if found.bound > held.bound else (held, lay)
