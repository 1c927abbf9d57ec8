"""Certificate of one component: screening, then branch and bound."""

from __future__ import annotations

import numpy as np

from ....inference.progress import Progress
from ..quadratic import Floats, Quadratic
from ..thresholds import Constraint, embed
from .branching import RESOLUTION, Certificate, certify
from .clock import Clock
from .screening import MAX_VARIABLES, screen_variables

# Bound on the rounding error of an entry of C, in units of epsilon |x_i| |x_j|.
N_EPSILONS = 16.0


def bound_component(
    quadratic: Quadratic,
    c: Constraint,
    w: Floats,
    value: float,
    *,
    gap: float,
    clock: Clock,
    epsilon: float,
    verbose: int = 0,
) -> Certificate:
    """Certify a feasible component w with w'Cw > 0, or find a better one.

    ``epsilon`` is the relative rounding error of the data.
    """
    diagonal = quadratic.diagonal()
    largest = np.sort(diagonal[c.allowed])[::-1][: c.K]
    # The rounding error of the value is at most the epsilons times the trace of the block.
    rounding = N_EPSILONS * epsilon * float(largest.sum())
    resolution = max(RESOLUTION, 2.0 * rounding / value)
    if int(c.allowed.sum()) <= c.K and not c.nonnegative:  # plain PCA
        return Certificate(w, value, value + rounding, 0, resolution)
    target = value / (1.0 - max(gap, RESOLUTION))
    try:
        screened = screen_variables(quadratic, c.allowed, c.K, target, c.nonnegative, clock.expired)
    except KeyboardInterrupt:  # only the trace bound is available
        clock.interrupt()
        return Certificate(w, value, max(value, float(largest.sum())) + rounding, 0, resolution)
    if screened.variables.size > MAX_VARIABLES:
        return Certificate(w, value, max(value, screened.bound) + rounding, 0, resolution)
    variables = np.union1d(screened.variables, np.flatnonzero(w))
    with Progress(None, "EMPCA, gap", verbose) as progress:
        found = certify(
            quadratic.block(variables),
            w[variables],
            c.K,
            nonnegative=c.nonnegative,
            gap=gap,
            clock=clock,
            progress=progress,
        )
    bound = max(min(max(found.upper_bound, screened.closed), screened.bound), found.value)
    return Certificate(
        embed(found.w, variables, w.size),
        found.value,
        bound + rounding,
        found.n_nodes,
        resolution,
    )
