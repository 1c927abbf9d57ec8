"""From a centred table of views to the fitted model, in the units of the table's operator."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from ...data import DenseOperator, Operator
from ...data.arrays import host
from ...inference.checkpoint import Stage
from ...inference.loop import Run, StopReason, iterate, residual_rounding
from ...inference.progress import Progress
from ...numerics.spectrum import spectrum
from ...selection.dimension import completed, counted
from .filled_start import fit_of_filled
from .hyperbolic import HyperbolicPrior
from .model import (
    FactorParameters,
    State,
    ViewLayout,
    accelerator,
    hyperbolic_step,
    init,
    largest_precisions,
    relevance_step,
    view_layout,
)
from .samples import CompleteSamples, Samples
from .samples_with_gaps import SamplesWithGaps
from .start import initial_weights

Prior = Literal["ard", "hyperbolic"]


class SCAOptions(NamedTuple):
    """What the user decides, in the operator's units."""

    n_components: int | Literal["auto"]  # shared latents
    private: list[int]  # latents of every view's own
    prior: Prior
    a: float  # shape of the hyperbolic prior, for all weights of the table together
    b: float  # its scale
    width: int  # columns of the table, constant ones included
    max_iter: int
    tol: float  # per observed entry


class Solution(NamedTuple):
    """The fitted model, in the operator's units: latents that matter, the strongest first."""

    L: np.ndarray  # (p, latents) weights
    deviations: np.ndarray | None  # (p, latents) their posterior standard deviations (ard)
    mu: np.ndarray  # (p,) offsets from the observed means
    noise: np.ndarray  # (V,) noise variances
    latent_view: np.ndarray  # (latents,) -1 for shared latents, else the view of each
    n_removed: int  # latents that no variable needed
    bounds: np.ndarray  # (iterations,) of the objective
    densities: float  # of how many numbers the objective is a log density
    reason: StopReason


def solve(
    op: Operator,
    seen: np.ndarray | None,
    groups: list[np.ndarray],
    options: SCAOptions,
    *,
    progress: Progress | None = None,
    checkpoint: Stage | None = None,
) -> Solution:
    """Fit the weights of all views jointly.

    Parameters
    ----------
    op : Operator
        The centred table (n, p), zero where an entry is missing.
    seen : bool array (n, p) or None
        What was observed; None if all of it was.
    groups : list of int arrays
        The columns of every view.
    options : SCAOptions
    progress : Progress or None, default=None
    checkpoint : Stage or None, default=None

    Returns
    -------
    Solution
    """
    samples, start = _samples_and_start(op, seen, options)
    shared = _shared(start, samples.n, options)
    lay = view_layout(groups, shared, options.private)
    L, noise = initial_weights(start, samples.n, groups, shared, options.private)
    prior = None
    if options.prior == "hyperbolic":
        prior = HyperbolicPrior(options.a / (options.width * L.shape[1]), options.b)
    first = init(L, noise, prior)
    step_of = _relevance_steps(lay) if prior is None else _hyperbolic_steps(lay, prior)
    # Normal-Jeffreys never lets go of a zero, and filled-in entries have no noise: its maxima
    # would be poorer ones from there.
    if seen is not None and prior is None:
        first = fit_of_filled(start, lay, first, step_of, options.max_iter, options.tol)
    total, entries = float(np.sum(samples.squares)), float(samples.observed.sum())
    run = iterate(
        step_of(samples),
        first,
        max_iter=options.max_iter,
        tol=options.tol * entries,
        accelerator=accelerator(largest_precisions(samples, lay)),
        exhausted=lambda state: not np.any(state.fitted.L),
        rounding=lambda state: residual_rounding(
            state, total, 1.0 / state.ahead.tau.max(), start.epsilon
        ),
        progress=progress,
        checkpoint=checkpoint,
    )
    # A log posterior is a density of the weights, too.
    densities = entries if prior is None else entries + float(lay.allowed.sum())
    return _solution(run, lay, densities)


def _relevance_steps(lay: ViewLayout) -> Callable[[Samples], Callable[[State], State]]:
    return lambda samples: partial(relevance_step, samples, lay)


def _hyperbolic_steps(
    lay: ViewLayout, prior: HyperbolicPrior
) -> Callable[[Samples], Callable[[State], State]]:
    return lambda samples: partial(hyperbolic_step, samples, lay, prior)


def _samples_and_start(
    op: Operator, seen: np.ndarray | None, options: SCAOptions
) -> tuple[Samples, Operator]:
    """The samples to iterate on and the operator to start from; n > p is reduced to p rows."""
    n, p = op.shape
    if seen is not None:
        X = host(op.whole)
        count = options.n_components
        full = completed(X, seen, None if count == "auto" else count + sum(options.private))
        return SamplesWithGaps(X, seen), DenseOperator(full - full.mean(axis=0))
    reduced = spectrum(op).table if n > p else op
    return CompleteSamples(reduced, n), reduced


def _shared(op: Operator, n: int, options: SCAOptions) -> int:
    """The number of latents that all views share."""
    if options.n_components != "auto":
        return int(options.n_components)
    found = counted(host(spectrum(op).eigenvalues), n, op.shape[1])
    return max(1, found - sum(options.private))


def _solution(run: Run[State], lay: ViewLayout, densities: float) -> Solution:
    """Without dead latents, the strongest of each kind first, their largest weight positive."""
    fitted: FactorParameters = run.state.fitted
    strength = np.sum(fitted.L**2, axis=0)
    order = np.lexsort((-strength, lay.block))
    alive = order[strength[order] > 0]
    # Without any structure one latent without loadings stays, so that scores have a column.
    alive = alive if alive.size else order[:1]
    L = fitted.L[:, alive]
    strongest = L[np.argmax(np.abs(L), axis=0), np.arange(alive.size)]
    deviations = None
    if fitted.C is not None:
        variances = np.diagonal(fitted.C, axis1=1, axis2=2)[:, alive]
        deviations = np.sqrt(np.clip(variances, 0.0, None))
    return Solution(
        L=L * np.where(strongest < 0, -1.0, 1.0),
        deviations=deviations,
        mu=fitted.mu,
        noise=1.0 / fitted.tau,
        latent_view=lay.block[alive] - 1,
        n_removed=int(lay.block.size - np.sum(strength > 0)),
        bounds=np.array(run.bounds),
        densities=densities,
        reason=run.reason,
    )
