"""Addition of factors of the residuals while the evidence increases.

In the spectrum of the data, weak factors do not exceed the noise. In the residuals of the other
factors, with sparse scores and loadings, they do.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from ...data import DenseOperator, Operator
from ...inference.loop import iterate
from ...numerics.spectrum import spectrum
from .model import FactorParameters, State, ViewLayout, init, step
from .n_factors import RunFrom, compare_after_equal_iterations
from .point_normal import FACTOR_FIELDS, PointNormal, initial_posterior
from .scores import SparseScores

# Iterations of a factor on the residuals.
N_RESIDUAL_ITERATIONS = 10
RESIDUAL_TOL = 1e-6  # minimum gain per entry
# Minimum gain of the bound by a factor. Smaller gains may be due to further iterations alone.
MIN_GAIN = 1.0


def add_factors(
    data: SparseScores, state: State, lay: ViewLayout, run_from: RunFrom
) -> tuple[State, ViewLayout]:
    """Add shared factors of the residuals one by one while the bound increases."""
    while lay.block.size < min(data.n, data.p) - 1:
        factor = _residual_factor(data, state.ahead, lay)
        if factor is None:
            break
        start, wider = _append(state.ahead, lay, factor)
        held, found = compare_after_equal_iterations(state, lay, start, wider, run_from)
        if found.bound <= held.bound + MIN_GAIN or not np.all(np.any(found.ahead.L, axis=0)):
            return held, lay
        state, lay = found, wider
    return state, lay


def _residual_factor(
    data: SparseScores, now: FactorParameters, lay: ViewLayout
) -> FactorParameters | None:
    """Fit one factor to the residuals; None if it has no loadings."""
    assert isinstance(now.scores, PointNormal)
    op = residual_operator(data, now)
    alone = SparseScores(op, None if data.seen is None else data.seen.seen, data.root)
    scale = np.sqrt(lay.of_columns(now.tau))
    direction = np.asarray(spectrum(op.scale_columns(scale), 1).directions(1))[:, 0]
    Z = op.matmul((scale * direction)[:, None])
    norm = np.sqrt(np.mean(Z * Z))
    if not norm > 0:
        return None
    Z = Z / norm
    L = op.rmatmul(Z) / data.n
    one = lay._replace(allowed=np.ones((data.p, 1), dtype=bool), block=np.zeros(1, dtype=int))
    variance = np.maximum(alone.squares / alone.observed - L[:, 0] ** 2, 0.0)
    first = init(alone, one, L, variance, "point-normal").ahead
    assert first.sparse is not None
    unit = None if now.sparse is None else now.sparse.unit
    first = first._replace(
        scores=initial_posterior(Z, data.member), sparse=first.sparse._replace(unit=unit)
    )
    run = iterate(
        partial(step, alone, one, None),
        State(first, first, -math.inf),
        max_iter=N_RESIDUAL_ITERATIONS,
        tol=RESIDUAL_TOL * float(data.observed.sum()),
    )
    found = run.state.fitted
    return found if np.any(found.L) else None


def residual_operator(data: SparseScores, now: FactorParameters) -> Operator:
    """Compute the residuals of the current factors; zero if missing."""
    assert isinstance(now.scores, PointNormal)
    left = np.column_stack([now.scores.mean, data.root])
    right = np.vstack([now.L.T, now.mu])
    if data.seen is None:
        return data.op.subtract_product(left, right)
    return DenseOperator(data.seen.seen * (data.op.dense() - left @ right))


def _append(
    now: FactorParameters, lay: ViewLayout, factor: FactorParameters
) -> tuple[State, ViewLayout]:
    """Initialise a model with an additional shared factor."""
    L = np.column_stack([now.L, factor.L])
    assert now.sparse is not None
    assert factor.sparse is not None
    assert isinstance(now.scores, PointNormal)
    assert isinstance(factor.scores, PointNormal)
    sparse = _join(now.sparse, factor.sparse)
    wider = now._replace(
        L=L,
        C=sparse.variance[:, :, None] * np.eye(L.shape[1]),
        sparse=sparse,
        scores=_join(now.scores, factor.scores),
    )
    lay = lay._replace(
        allowed=np.column_stack([lay.allowed, np.ones(L.shape[0], dtype=bool)]),
        block=np.append(lay.block, 0),
    )
    return State(wider, wider, -math.inf), lay


def _join(first: PointNormal, second: PointNormal) -> PointNormal:
    """Concatenate the posteriors of two sets of factors."""
    parts = {
        name: np.hstack([getattr(first, name), getattr(second, name)]) for name in FACTOR_FIELDS
    }
    return first._replace(**parts, divergence=0.0)
