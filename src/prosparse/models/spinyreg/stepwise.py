"""Which variables predict y? A search through the regression models, and a path of them.

A flat prior on the 2^p models is no neutral one: of a hundred variables of pure noise it keeps
twenty. Models are compared under a prior that pays for their number (`prior.log_multiplicity`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ...inference.loop import Run, iterate
from ...inference.progress import Progress
from ...selection.prior import log_multiplicity
from .regression import (
    COARSE,
    FINE,
    Fit,
    Moments,
    evaluate,
    exchange_gains,
    joined,
    left_by,
    optimise,
    outside,
    removal_gains,
    with_one_less,
    with_one_more,
)

Array = np.ndarray

ALL_AT_ONCE = 200  # variables, at most, that a search starts with


class Rules(NamedTuple):
    """What a search prefers, how far it may go, and when it stops."""

    log_prior: Array  # (p + 1,) of each model of 0 .. p variables, -inf for those too large
    allowed: int  # variables of a model, at most
    limit: int  # and on the way
    lost: int  # degrees of freedom spent on an intercept, 0 or 1
    max_iter: int
    tol: float  # rise of the log posterior
    verbose: int = 0

    def weight(self, fit: Fit) -> float:
        """Log evidence without what the mean of y adds to it.

        A centred y has the mean 0, which any model predicts, the better the smaller its noise:
        that factor N(0; 0, sigma2) says nothing, and few samples cannot afford it.
        """
        return fit.log_evidence + 0.5 * self.lost * math.log(2.0 * math.pi * fit.sigma2)

    def posterior(self, fit: Fit) -> float:
        return self.weight(fit) + float(self.log_prior[fit.v.size])


class Search(NamedTuple):
    fit: Fit
    bound: float  # log posterior of the model, which may never fall


def make_step(data: Moments, rules: Rules) -> Callable[[Search], Search]:
    """One move to the best neighbour with a variable more or less, or else to one with another."""
    log_prior, limit = rules.log_prior, rules.limit

    def step(state: Search) -> Search:
        fit, n = state.fit, data.n - rules.lost
        q = fit.v.size
        if q == 0:
            return best_of(state, with_one_more(data, fit, COARSE)) if limit else state
        out = removal_gains(fit, n)
        i = int(out.argmax())
        less = float(out[i]) + log_prior[q - 1] - log_prior[q]
        if q == data.b.size:  # no variable is outside
            return best_of(state, left_by(data, fit, i, COARSE)) if less > 0.0 else state
        near = outside(data, fit, n)
        j = int(near.gain.argmax())
        more = float(near.gain[j]) + log_prior[q + 1] - log_prior[q] if q < limit else -math.inf
        if more > max(less, 0.0):
            return best_of(state, joined(data, fit, near, j, COARSE))
        if less > 0.0:
            return best_of(state, left_by(data, fit, i, COARSE))
        swap = exchange_gains(fit, near, n)  # q times as many
        swap[fit.v] = -np.inf
        j, i = divmod(int(swap.argmax()), q)
        if not swap[j, i] > 0.0:
            return state
        v = np.append(np.delete(fit.v, i), j)
        return best_of(state, optimise(data, evaluate(data, v, fit.log_ratio), COARSE))

    def best_of(state: Search, fit: Fit) -> Search:
        bound = rules.posterior(fit)
        return Search(fit, bound) if bound > state.bound else state

    return step


def largest_models(n: int, p: int, fit_intercept: bool) -> tuple[int, int]:
    """The most variables that a model may have, and that it may have on the way there.

    As many variables as there are degrees of freedom fit y exactly, and the evidence has no
    maximum in gamma. Where there are many to choose from, far fewer come near that: more than
    n/3 of them cannot be told from chance.
    """
    most = max(n - 2 if fit_intercept else n - 1, 0)
    if p < n:
        return min(p, most), min(p, most)
    return min(most, max(n // 3, 1)), min(most, max(n // 2, 1))


def rules_for(n: int, p: int, fit_intercept: bool, **options: Any) -> Rules:
    """The usual rules for n samples of p variables."""
    allowed, passed = largest_models(n, p, fit_intercept)
    log_prior = log_multiplicity(p)
    log_prior[allowed + 1 :] = -math.inf
    return Rules(log_prior, allowed, passed, int(fit_intercept), **options)


def climb(data: Moments, fit: Fit, rules: Rules) -> Run:
    """Move to better neighbours until there is none."""
    return iterate(
        make_step(data, rules),
        Search(fit, rules.posterior(fit)),
        max_iter=rules.max_iter,
        tol=rules.tol,
        progress=Progress(rules.max_iter, "search", rules.verbose),
    )


def strip(data: Moments, fit: Fit, tol: float) -> Iterator[Fit]:
    """``fit`` and what is left as the least useful variables leave, down to none."""
    yield fit
    while fit.v.size:
        fit = with_one_less(data, fit, tol)
        yield fit


def most_probable(data: Moments, fit: Fit, rules: Rules) -> Fit:
    """The most probable of ``fit`` and what is left of it as variables leave."""
    best = fit
    for smaller in strip(data, fit, COARSE):
        if rules.posterior(smaller) > rules.posterior(best):
            best = smaller
        # The evidence goes on falling: no prior could make up for it.
        if rules.weight(smaller) + rules.log_prior[0] < rules.posterior(best):
            break
    return best


def ascend(data: Moments, start: Fit, rules: Rules) -> list[Run]:
    """Climbs from ``start``: one under a flat prior, and where that led too far, one more.

    Variables that are useful together can each look useless alone, and the prior would keep them
    out one by one: the first climb does without it and goes too far; what it found is stripped,
    and the second climb starts from the most probable model on that way.
    """
    flat = rules._replace(log_prior=np.zeros_like(rules.log_prior))
    first = climb(data, start, flat)
    found = first.state.fit
    kept = most_probable(data, found, rules)
    # If `found` is kept, no climb leads on: larger and other models have less evidence, and
    # stripping has tried the smaller ones.
    return [first] if kept is found else [first, climb(data, kept, rules)]


def empty(data: Moments) -> Fit:
    return evaluate(data, np.array([], dtype=int), 0.0)


def missed_by(data: Moments, fit: Fit, rules: Rules) -> Fit:
    """The model of those variables of ``fit`` without which its evidence would fall."""
    missed = removal_gains(fit, data.n - rules.lost) < 0.0
    start = fit if missed.all() else evaluate(data, fit.v[missed], fit.log_ratio)
    return optimise(data, start, COARSE)


def search(data: Moments, weights: Callable[[], Array], rules: Rules) -> list[Run]:
    """The climbs that led to the most probable model that could be found, the best one last.

    Where variables are correlated, climbs from different sides often end differently.
    ``weights()`` are those of all variables in one model, where they are too many for `from_all`.
    """
    if data.b.size <= min(rules.limit, ALL_AT_ONCE):
        runs = from_all(data, rules)
    else:
        runs = ascend(data, empty(data), rules)
        found = runs[0].state.fit
        others = largest(np.abs(weights()), found)
        if set(others.tolist()) != set(found.v.tolist()):
            start = optimise(data, evaluate(data, others, found.log_ratio), COARSE)
            runs += ascend(data, start, rules)
    return sorted(runs, key=lambda run: rules.posterior(run.state.fit))


def from_all(data: Moments, rules: Rules) -> list[Run]:
    """Climbs where all variables together are a model.

    The first starts from the variables that this model would miss with hardly a prior: also from
    two that nearly cancel each other, and which the best prior for all would shrink to nothing. If
    it ends at the variables of largest weight, and these are clear (many samples, variables of one
    size that hardly inflate each other's variances), others would end there too. Else they follow:
    from the largest weights, from none, and from what the model would miss at its best lambda.
    """
    everything = np.arange(data.b.size)
    whole = evaluate(data, everything, math.log(1e-6 * float(data.d.min())))
    start = missed_by(data, whole, rules)
    runs = ascend(data, start, rules)
    far, found = runs[0].state.fit, runs[-1].state.fit
    size = np.abs(whole.m) * np.sqrt(data.d)
    inflation = float((whole.P.diagonal() * data.d).max())
    alike = float(data.d.max()) < 10.0 * float(data.d.min())
    clear = data.n >= 2 * data.b.size and inflation < 10.0 and alike
    if clear and set(largest(size, found).tolist()) == set(found.v.tolist()):
        return runs
    shrunken = evaluate(data, everything, math.log(0.01 * float(data.d.mean())))
    starts = [optimise(data, evaluate(data, largest(size, far), far.log_ratio), COARSE)]
    if start.v.size:
        starts.append(empty(data))
    starts.append(missed_by(data, optimise(data, shrunken, COARSE), rules))
    return runs + [run for start in starts for run in ascend(data, start, rules)]


def largest(size: Array, fit: Fit) -> Array:
    """As many variables as ``fit`` has, of the largest size."""
    return np.argsort(-size, kind="stable")[: fit.v.size]


class EvidencePath(NamedTuple):
    order: Array  # (K,) variables, the most useful first
    cardinalities: Array  # (K + 1,) 0 .. K
    fits: list[Fit]  # of the first q variables, q = 0 .. K
    n: int

    @property
    def log_evidence(self) -> Array:
        return np.array([fit.log_evidence for fit in self.fits])


def evidence_path(data: Moments, fit: Fit, longest: int) -> EvidencePath:
    """Models around ``fit``, each with its own alpha and gamma: smaller ones without the
    variables that are missed least, larger ones with those that help most."""
    fits = list(strip(data, optimise(data, fit, FINE), FINE))[::-1]
    while fits[-1].v.size < longest:
        fits.append(with_one_more(data, fits[-1], FINE))
    # each model has one variable more than the one before
    order = np.diff(np.array([sum(fit.v.tolist()) for fit in fits]))
    return EvidencePath(order, np.arange(len(fits)), fits, data.n)
