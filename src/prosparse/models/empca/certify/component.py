"""Bounds and certificates of one component."""

from __future__ import annotations

import numpy as np

from ....inference.progress import Progress
from ..quadratic import Floats, Quadratic
from ..thresholds import Constraint, embed
from .branching import RESOLUTION, Certificate, certify
from .clock import Clock
from .screening import MAX_VARIABLES, row_norms, screen_variables

# Maximum number of variables for which the gap is computed at the first node of branch and bound.
MAX_NODE_VARIABLES = 1000
MAX_ROW_NORM_VARIABLES = 3000  # the same for the norms of the rows of C
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
    # The rounding error of the value is at most `N_EPSILONS` epsilon times the trace of the block.
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


def optimality_gap(quadratic: Quadratic, c: Constraint, w: Floats, value: float) -> float:
    """Compute 1 - value / upper bound of a component, without branching.

    The bound is that of the first node of branch and bound, or, with many variables, the smallest
    of trace, largest eigenvalue and norm of a block.
    """
    variables = np.flatnonzero(c.allowed)
    if variables.size <= MAX_NODE_VARIABLES:
        epsilon = float(np.finfo(float).eps)
        found = bound_component(quadratic, c, w, value, gap=0.0, clock=Clock(0.0), epsilon=epsilon)
        bound, resolution = found.upper_bound, found.resolution
    else:
        trace = float(np.sort(quadratic.diagonal()[variables])[::-1][: c.K].sum())
        bounds, resolution = [trace, quadratic.leading(variables)[0]], RESOLUTION
        if variables.size <= MAX_ROW_NORM_VARIABLES:
            norms = row_norms(quadratic, variables, c.K, c.nonnegative)[0]
            bounds.append(float(np.sqrt(np.sort(norms)[::-1][: c.K].sum())))
        bound = min(bounds)
    return 0.0 if bound <= value * (1.0 + resolution) else 1.0 - value / bound
