"""Priors of scores and loadings: those of highest evidence.

Scores are Gaussian or point-normal. The slab variances of the loadings are equal for the
standardised columns, or in the units of the data.

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
from .model import FactorParameters, State, ViewLayout
from .growth import add_factors
from .n_factors import RunFrom, SCAOptions, compare_after_equal_iterations, prune_weakest
from .scores import SparseScores

# Sweeps over the scores before the two priors are compared.
N_INITIAL_SWEEPS = 3


def has_row_access(op: Operator) -> bool:
    """Return whether the rows are in CPU memory."""
    return isinstance(op, DenseOperator | SparseOperator) and is_numpy(op.column_squares())


def select_priors(
    data: SparseScores,
    state: State,
    lay: ViewLayout,
    run: RunFrom[State],
    options: SCAOptions,
) -> tuple[State, ViewLayout]:
    """Return the state with the priors of scores and of loadings of highest evidence.

    With point-normal scores and ``n_components="auto"``, factors are added and removed.
    """

    def run_from(state: State, lay: ViewLayout, n_iter: int) -> Run[State]:
        return run(state, lay, options._replace(max_iter=n_iter))

    def better(state: State, trial: FactorParameters) -> State:
        start = State(trial, trial, -math.inf)
        held, found = compare_after_equal_iterations(state, lay, start, lay, run_from)
        return found if found.bound > held.bound else held

    def _select_units(state: State) -> State:
        now = state.ahead
        if now.sparse is None or lay.units is None or len(lay.units) == 1 or not np.any(now.L):
            return state
        ofnoise = with_units(now, lay, 1.0 / lay.of_columns(now.tau))
        ofdata = with_units(now, lay, lay.units[1])
        start = State(ofnoise, ofnoise, -math.inf)
        found = better(start, ofdata)
        if found.ahead.sparse.unit is ofdata.sparse.unit:
            return found
        return found if NOISE_UNITS else state

    if not np.any(state.ahead.L):
        return state, lay
    state = better(state, _sparse_scores(data, state.ahead, lay))
    state = _select_units(state)
    if state.ahead.scores is not None and options.n_components == "auto":
        state, lay = add_factors(data, state, lay, run_from)
        state, lay = prune_weakest(state, lay, run_from)
    return state, lay


import os
NOISE_UNITS = int(os.environ.get("NU","0"))

def with_units(now: FactorParameters, lay: ViewLayout, unit: np.ndarray) -> FactorParameters:
    """Return parameters with slab variances in some units."""
    scale = lay.member @ unit / lay.member.sum(axis=1)
    assert now.sparse is not None
    return now._replace(sparse=now.sparse._replace(slab=now.sparse.slab / scale[:, None], unit=unit))


def _sparse_scores(
    data: SparseScores, now: FactorParameters, lay: ViewLayout
) -> FactorParameters:
    """Return parameters with point-normal scores."""
    tau = lay.of_columns(now.tau)
    assert now.C is not None
    weighted = tau[:, None] * now.L
    precision = weighted.T @ now.L + np.tensordot(tau, now.C, axes=1) + np.eye(lay.block.size)
    filters = np.linalg.solve(precision, weighted.T).T
    scores = data.initial(to_numpy(data.op.matmul(filters)).astype(float))
    for _ in range(N_INITIAL_SWEEPS):
        scores = data.update(now.L, now.C, tau, now.mu, scores)
    return now._replace(scores=scores)
