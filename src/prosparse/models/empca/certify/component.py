"""One component of a table, proved: from thousands of variables to those that matter, and back."""

from __future__ import annotations

import numpy as np

from ....inference.progress import Progress
from ..quadratic import Floats, Quadratic
from ..thresholds import Constraint, spread_weights
from .branching import RESOLUTION, Certificate, certify
from .clock import Clock
from .many import MOST, survivors

# An entry of C is off by so many epsilons of |x_i| |x_j|, with room to spare.
EPSILONS = 16.0


def prove_component(
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
    """Prove a component the best that satisfies ``c``, or find a better one.

    Parameters
    ----------
    quadratic : Quadratic
        C.
    c : Constraint
    w : array (p,)
        The component, which satisfies it.
    value : float
        Its w'Cw, above zero.
    gap : float
        The proof may end when 1 - value / bound is at most this.
    clock : Clock
        Ends it at the latest.
    epsilon : float
        Relative rounding error of the table's numbers.
    verbose : int, default=0
        Show how the gap falls.

    Returns
    -------
    Certificate
    """
    diagonal = quadratic.diagonal()
    largest = np.sort(diagonal[c.allowed])[::-1][: c.K]
    # all entries of a block together are off by at most the epsilons times its trace
    blur = EPSILONS * epsilon * float(largest.sum())
    resolution = max(RESOLUTION, 2.0 * blur / value)
    if int(c.allowed.sum()) <= c.K and not c.nonnegative:  # plain PCA
        return Certificate(w, value, value + blur, 0, resolution)
    target = value / (1.0 - max(gap, RESOLUTION))
    try:
        left = survivors(quadratic, c.allowed, c.K, target, c.nonnegative, clock.expired)
    except KeyboardInterrupt:  # the trace of a block is all that is known by then
        clock.interrupt()
        return Certificate(w, value, max(value, float(largest.sum())) + blur, 0, resolution)
    if left.variables.size > MOST:
        return Certificate(w, value, max(value, left.bound) + blur, 0, resolution)
    chosen = np.union1d(left.variables, np.flatnonzero(w))
    with Progress(None, "EMPCA, gap", verbose) as progress:
        found = certify(
            quadratic.block(chosen),
            w[chosen],
            c.K,
            nonnegative=c.nonnegative,
            gap=gap,
            clock=clock,
            progress=progress,
        )
    bound = max(min(max(found.upper_bound, left.closed), left.bound), found.value)
    return Certificate(
        spread_weights(found.w, chosen, w.size),
        found.value,
        bound + blur,
        found.n_nodes,
        resolution,
    )
