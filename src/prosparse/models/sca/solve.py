"""From a centred table of views to the fitted model, in the units of the table's operator."""

from __future__ import annotations

import math
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
    Noise,
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

# How exactly the objectives of two numbers of latents are compared: the most passes, and the rise
# per entry that ends them.
PASSES_PER_COUNT = 30
ROUGH = 1e-6


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
    noise: Noise  # one variance for every view, or for every column


class Solution(NamedTuple):
    """The fitted model, in the operator's units: latents that matter, the strongest first."""

    L: np.ndarray  # (p, latents) weights
    deviations: np.ndarray | None  # (p, latents) their posterior standard deviations (ard)
    mu: np.ndarray  # (p,) offsets from the observed means
    noise: np.ndarray  # (p,) noise variances
    latent_view: np.ndarray  # (latents,) -1 for shared latents, else the view of each
    n_removed: int  # latents that no variable needed
    bounds: np.ndarray  # (iterations,) of the objective
    densities: np.ndarray  # (p,) of how many numbers of a column the objective is a log density
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
    shared, private = _shared(start, samples.n, options), options.private
    begun = shared + sum(private)
    lay = view_layout(groups, shared, private, options.noise)
    first = init(samples, lay, *initial_weights(start, samples.n, groups, shared, private), None)
    if seen is not None and (options.prior == "ard" or options.n_components == "auto"):
        steps = _relevance_steps(lay)
        first = fit_of_filled(start, lay, first, steps, options.max_iter, options.tol)
    if options.n_components == "auto":
        first, lay = _needed_latents(samples, lay, first, start.epsilon, options)
    prior = None
    if options.prior == "hyperbolic":
        # Normal-Jeffreys never lets go of a zero, and filled-in entries have no noise: its maxima
        # would be poorer ones from where relevance determination ends.
        shared, *private = np.bincount(lay.block, minlength=len(groups) + 1).tolist()
        lay = view_layout(groups, shared, private, options.noise)
        prior = HyperbolicPrior(options.a / (options.width * lay.block.size), options.b)
        L, left = initial_weights(start, samples.n, groups, shared, private)
        first = init(samples, lay, L, left, prior)
    run = _iterated(samples, lay, prior, first, start.epsilon, options, progress, checkpoint)
    # A log posterior is a density of the weights, too.
    densities = samples.observed if prior is None else samples.observed + lay.allowed.sum(axis=1)
    return _solution(run, lay, begun, densities)


def _iterated(
    samples: Samples,
    lay: ViewLayout,
    prior: HyperbolicPrior | None,
    first: State,
    epsilon: float,
    options: SCAOptions,
    progress: Progress | None = None,
    checkpoint: Stage | None = None,
) -> Run[State]:
    """From a state to where the objective no longer rises."""
    step_of = _relevance_steps(lay) if prior is None else _hyperbolic_steps(lay, prior)
    total, entries = float(np.sum(samples.squares)), float(samples.observed.sum())
    return iterate(
        step_of(samples),
        first,
        max_iter=options.max_iter,
        tol=options.tol * entries,
        accelerator=accelerator(largest_precisions(samples, lay)),
        exhausted=lambda state: not np.any(state.fitted.L),
        rounding=lambda state: residual_rounding(
            state, total, 1.0 / state.ahead.tau.max(), epsilon
        ),
        progress=progress,
        checkpoint=checkpoint,
    )


def _needed_latents(
    samples: Samples, lay: ViewLayout, first: State, epsilon: float, options: SCAOptions
) -> tuple[State, ViewLayout]:
    """As many latents as the evidence asks for: from too many, the weakest are taken out, twice
    as many at a time while the bound rises, one at a time where it does not.

    A latent that fits noise costs more, in the divergence of its weights and its scores, than it
    adds to the fit. Relevance determination alone does not see that: it looks at one weight at a
    time.
    """
    rough = options._replace(
        max_iter=min(options.max_iter, PASSES_PER_COUNT), tol=max(options.tol, ROUGH)
    )
    best = _iterated(samples, lay, None, first, epsilon, rough).state
    fewer = 1
    while lay.block.size > 1:
        strength = np.sum(best.fitted.L**2, axis=0)
        keep = np.sort(np.argsort(strength, kind="stable")[min(fewer, strength.size - 1) :])
        there = _with_latents(best, lay, keep)
        trial = _iterated(samples, there[1], None, there[0], epsilon, rough).state
        if trial.bound > best.bound:
            best, lay, fewer = trial, there[1], 2 * fewer
        elif fewer > 1:
            fewer = 1
        else:
            break
    return State(best.ahead, best.ahead, -math.inf), lay


def _with_latents(state: State, lay: ViewLayout, keep: np.ndarray) -> tuple[State, ViewLayout]:
    """Some latents of a state under relevance determination."""
    now = state.ahead
    assert now.C is not None
    assert now.t is not None
    now = now._replace(L=now.L[:, keep], C=now.C[:, keep][:, :, keep], t=now.t[:, keep])
    lay = lay._replace(allowed=lay.allowed[:, keep], block=lay.block[keep])
    return State(now, now, -math.inf), lay


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
    """The number of latents that all views share, or with "auto" at most so many."""
    if options.n_components != "auto":
        return int(options.n_components)
    found = counted(host(spectrum(op).eigenvalues), n, op.shape[1])
    return max(1, found - sum(options.private))


def _solution(run: Run[State], lay: ViewLayout, begun: int, densities: np.ndarray) -> Solution:
    """Without dead latents, the strongest of each kind first, their largest weight positive.

    ``begun`` is how many there were at first.
    """
    fitted: FactorParameters = run.state.fitted
    weights, noise = fitted.L, 1.0 / fitted.tau[lay.noise]
    if lay.noise_has_prior:
        weights, noise = _lonely_as_noise(weights, noise)
    strength = np.sum(weights**2, axis=0)
    order = np.lexsort((-strength, lay.block))
    alive = order[strength[order] > 0]
    # Without any structure one latent without loadings stays, so that scores have a column.
    alive = alive if alive.size else order[:1]
    L = weights[:, alive]
    strongest = L[np.argmax(np.abs(L), axis=0), np.arange(alive.size)]
    deviations = None
    if fitted.C is not None:
        variances = np.diagonal(fitted.C, axis1=1, axis2=2)[:, alive]
        deviations = np.sqrt(np.clip(variances, 0.0, None))
    return Solution(
        L=L * np.where(strongest < 0, -1.0, 1.0),
        deviations=deviations,
        mu=fitted.mu,
        noise=noise,
        latent_view=lay.block[alive] - 1,
        n_removed=int(begun - np.sum(strength > 0)),
        bounds=np.array(run.bounds),
        densities=densities,
        reason=run.reason,
    )


def _lonely_as_noise(L: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A latent that a single column has is noise of that column: the same law of the table."""
    lonely = np.count_nonzero(L, axis=0) == 1
    return np.where(lonely, 0.0, L), noise + np.sum(L[:, lonely] ** 2, axis=1)
