"""Starting values for data with missing values, from imputed data.

An iteration on complete data is much faster than on incomplete data, and most iterations only
rotate the factors towards sparse loadings. Imputed data are sufficient for this purpose. A few
iterations on the observed entries follow.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from ...data import Operator
from ...inference.loop import iterate
from .model import State, ViewLayout, accelerator, max_precisions, step
from .point_normal import FACTOR_FIELDS
from .samples import CompleteSamples, reduce_rows

# Minimum tolerance per entry. The fit to imputed data is only a starting point.
IMPUTED_TOLERANCE = 1e-7


def fit_imputed(
    imputed: Operator,
    lay: ViewLayout,
    first: State,
    max_iter: int,
    tol: float,
) -> State:
    """Compute the initial state of the iterations on the observed entries.

    ``imputed`` is the centred data matrix with imputed values, and ``first`` the start of its ARD
    fit. Factors without remaining loadings are reset to those of ``first``, because the observed
    entries may support these factors.
    """
    n, p = imputed.shape
    samples = CompleteSamples(reduce_rows(imputed), n)
    run = iterate(
        partial(step, samples, lay, None),
        first,
        max_iter=max_iter,
        tol=max(tol, IMPUTED_TOLERANCE) * n * p,
        accelerator=accelerator(max_precisions(samples, lay)),
    )
    found, before = run.state.fitted, first.fitted
    empty = ~np.any(found.L, axis=0)
    start = found._replace(L=np.where(empty, before.L, found.L))
    if found.t is not None and before.t is not None:
        start = start._replace(t=np.where(empty, before.t, found.t))
    if found.sparse is not None and before.sparse is not None:
        first_part, last = before.sparse, found.sparse
        parts = {
            name: np.where(empty, getattr(first_part, name), getattr(last, name))
            for name in FACTOR_FIELDS
        }
        start = start._replace(sparse=last._replace(**parts, divergence=0.0))
    return State(start, start, -math.inf)
