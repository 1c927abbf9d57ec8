"""Where the passes over a table with gaps start: the fit of the table with its gaps filled in.

A pass over a table without gaps costs a fraction of one with them, far less where there are more
rows than columns; and most passes only turn the latents to where the weights are sparse, for which
a filled-in table serves as well. From there on a few passes over what was observed are left.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...data import Operator
from ...inference.loop import iterate
from .model import State, ViewLayout, accelerator, max_precisions
from .samples import CompleteSamples, Samples, reduce_rows

# The fit of the filled-in table is not what is looked for: it need not be finer than this, per
# entry.
IMPUTED_TOLERANCE = 1e-7


def fit_imputed(
    filled: Operator,
    lay: ViewLayout,
    first: State,
    step_of: Callable[[Samples], Callable[[State], State]],
    max_iter: int,
    tol: float,
) -> State:
    """The state in which the passes over the observed entries start.

    Parameters
    ----------
    filled : Operator
        The centred table with its gaps filled in.
    lay : ViewLayout
    first : State
        Where the fit of the filled-in table starts.
    step_of : callable
        From samples to the step of the model.
    max_iter : int
        The most passes over the filled-in table.
    tol : float
        Per entry.

    Returns
    -------
    State
        Latents without weights have those of ``first`` again: whether the observed entries need
        them is for these to say.
    """
    n, p = filled.shape
    samples = CompleteSamples(reduce_rows(filled), n)
    run = iterate(
        step_of(samples),
        first,
        max_iter=max_iter,
        tol=max(tol, IMPUTED_TOLERANCE) * n * p,
        accelerator=accelerator(max_precisions(samples, lay)),
    )
    found, before = run.state.fitted, first.fitted
    gone = ~np.any(found.L, axis=0)
    start = found._replace(L=np.where(gone, before.L, found.L))
    if found.t is not None and before.t is not None:
        start = start._replace(t=np.where(gone, before.t, found.t))
    return State(start, start, -math.inf)
