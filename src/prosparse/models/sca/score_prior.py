"""Selection of the priors of scores and loadings by evidence.

Scores are Gaussian or point-normal. Point-normal scores are suitable for factors that are present
in few samples. Gaussian scores are the special case of probability one, so that a fit can contain
factors of both kinds. The slab variances of the loadings are equal in the units of the data, or
proportional to the noise variances, which is invariant to units.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...data import DenseOperator, Operator
from ...data.arrays import is_numpy, to_numpy
from ...data.operators.sparse import SparseOperator
from ...inference.loop import Run
from .growth import add_factors
from .model import FactorParameters, State, ViewLayout
from .n_factors import (
    MAX_ITER_PER_COUNT,
    SCAOptions,
    compare_after_equal_iterations,
    prune_weakest,
)
from .scores import SparseScores

# Number of sweeps over the scores before the two priors are compared.
N_INITIAL_SWEEPS = 3


def has_row_access(op: Operator) -> bool:
    """Return whether the rows are in CPU memory."""
    inner = getattr(op, "inner", None)
    if inner is not None:
        return has_row_access(inner)
    return isinstance(op, DenseOperator | SparseOperator) and is_numpy(op.column_squares())


def select_priors(
    data: SparseScores,
    state: State,
    lay: ViewLayout,
    run: Callable[[State, ViewLayout, SCAOptions], Run[State]],
    options: SCAOptions,
) -> tuple[State, ViewLayout]:
    """Select the priors of scores and loadings with the highest evidence.

    With point-normal scores and ``n_components="auto"``, factors are added and removed.
    """

    def run_from(state: State, lay: ViewLayout, n_iter: int) -> Run[State]:
        return run(state, lay, options._replace(max_iter=n_iter))

    def better(state: State, trial: FactorParameters) -> State:
        start = State(trial, trial, -math.inf)
        held, found = compare_after_equal_iterations(state, lay, start, lay, run_from)
        return found if found.bound > held.bound else held

    if options.max_iter <= MAX_ITER_PER_COUNT or not np.any(state.ahead.L):
        return state, lay
    state = better(state, _with_sparse_scores(data, state.ahead, lay))
    now = state.ahead
    if lay.units is not None and len(lay.units) > 1:
        of_noise = _with_units(now, lay, 1.0 / lay.of_columns(now.tau))
        of_data = _with_units(now, lay, lay.units[1])
        state = better(State(of_noise, of_noise, -math.inf), of_data)
    if state.ahead.scores is not None and options.n_components == "auto":
        state, lay = add_factors(data, state, lay, run_from)
        state, lay = prune_weakest(state, lay, run_from)
    return state, lay


def _with_sparse_scores(
    data: SparseScores, now: FactorParameters, lay: ViewLayout
) -> FactorParameters:
    """Convert parameters to point-normal scores."""
    tau = lay.of_columns(now.tau)
    assert now.C is not None
    weighted = tau[:, None] * now.L
    precision = weighted.T @ now.L + np.tensordot(tau, now.C, axes=1) + np.eye(lay.block.size)
    filters = np.linalg.solve(precision, weighted.T).T
    scores = data.initial(to_numpy(data.op.matmul(filters)).astype(float))
    for _ in range(N_INITIAL_SWEEPS):
        scores = data.update(now.L, now.C, tau, now.mu, scores)
    return now._replace(scores=scores)


def _with_units(now: FactorParameters, lay: ViewLayout, unit: np.ndarray) -> FactorParameters:
    """Convert the slab variances of the loadings to other units."""
    assert now.sparse is not None
    scale = lay.member @ unit / lay.member.sum(axis=1)
    slab = now.sparse.slab / scale[:, None]
    return now._replace(sparse=now.sparse._replace(slab=slab, unit=unit))
