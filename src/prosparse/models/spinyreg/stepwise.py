"""Which variables predict y? A search through the regression models, and a path of them.

A flat prior on the 2^p models is no neutral one: of a hundred variables of pure noise it keeps
twenty. Models are compared under a prior that pays for their number (`log_number_prior`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import betaln

from ...inference.loop import Run, iterate
from ...inference.progress import Progress
from .model import (
    COARSE,
    FINE,
    RegressionFit,
    RegressionMoments,
    fit_single,
    evaluate,
    exchange_gains,
    add_variable,
    least_useful,
    remove_variable,
    optimise,
    score_all_additions,
    removal_gains,
    remove_worst_variable,
    add_best_variable,
)
from .suppressors import correlated_pairs, add_best_pair

SPARSE_SIZE = 15  # active variables: more are ever less probable, before y is seen
MAX_FULL_START = 200  # variables, at most, that a search starts with
# Sets that grow from single variables, see `from_singles`
MAX_SINGLE_STARTS = 40  # variables, at most, from each of which one grows
GROWN_SIZE = 8  # variables of each
MAX_REPEATS = 10  # of these in a row that led to sets known already: no more are tried
MAX_GROWN_SETS = 10  # sets that are kept
CLEAR_LOG_ODDS = (
    20.0  # in log posterior: none grow where what was found is so much more probable than none
)


class SearchRules(NamedTuple):
    """What a search prefers, how far it may go, and when it stops."""

    log_prior: np.ndarray  # (p + 1,) of each model of 0 .. p variables, -inf for those too large
    max_size: int  # variables of a model, at most
    max_search_size: int  # and on the way
    n_intercepts: int  # degrees of freedom spent on an intercept, 0 or 1
    max_iter: int
    tol: float  # rise of the log posterior
    verbose: int = 0

    def centred_evidence(self, fit: RegressionFit) -> float:
        """Log evidence without what the mean of y adds to it.

        A centred y has the mean 0, which any model predicts, the better the smaller its noise:
        that factor N(0; 0, sigma2) says nothing, and few samples cannot afford it.
        """
        return fit.log_evidence + 0.5 * self.n_intercepts * math.log(2.0 * math.pi * fit.sigma2)

    def posterior(self, fit: RegressionFit) -> float:
        """Log posterior of the model, up to a constant."""
        return self.centred_evidence(fit) + float(self.log_prior[fit.v.size])


class SearchState(NamedTuple):
    """The model that a search has come to."""

    fit: RegressionFit
    bound: float  # log posterior of the model, which may never fall
    # sets (variables of each) on the way back from where a climb went too far
    intermediate_sets: tuple[np.ndarray, ...] = ()


def make_step(data: RegressionMoments, rules: SearchRules) -> Callable[[SearchState], SearchState]:
    """One move to the best neighbour with a variable more or less, or else to one with another."""
    log_prior, max_search_size = rules.log_prior, rules.max_search_size

    def step(state: SearchState) -> SearchState:
        fit, n = state.fit, data.n - rules.n_intercepts
        q = fit.v.size
        if q == 0:
            return (
                best_of(state, add_best_variable(data, fit, COARSE)) if max_search_size else state
            )
        out = removal_gains(fit, n)
        i = int(out.argmax())
        less = float(out[i]) + log_prior[q - 1] - log_prior[q]
        if q == data.b.size:  # no variable is outside
            return best_of(state, remove_variable(data, fit, i, COARSE)) if less > 0.0 else state
        additions = score_all_additions(data, fit, n)
        j = int(additions.gain.argmax())
        more = (
            float(additions.gain[j]) + log_prior[q + 1] - log_prior[q]
            if q < max_search_size
            else -math.inf
        )
        if more > max(less, 0.0):
            return best_of(state, add_variable(data, fit, additions, j, COARSE))
        if less > 0.0:
            return best_of(state, remove_variable(data, fit, i, COARSE))
        swap = exchange_gains(fit, additions, n)  # q times as many
        swap[fit.v] = -np.inf
        j, i = divmod(int(swap.argmax()), q)
        if not swap[j, i] > 0.0:
            return state
        v = np.append(np.delete(fit.v, i), j)
        return best_of(state, optimise(data, evaluate(data, v, fit.log_ratio), COARSE))

    def best_of(state: SearchState, fit: RegressionFit) -> SearchState:
        bound = rules.posterior(fit)
        return SearchState(fit, bound) if bound > state.bound else state

    return step


def max_model_sizes(n: float, p: int, fit_intercept: bool) -> tuple[int, int]:
    """The most variables that a model may have, and that it may have on the way there.

    As many variables as there are degrees of freedom fit y exactly, and the evidence has no
    maximum in gamma. Where there are many to choose from, far fewer come near that: more than
    n/3 of them cannot be told from chance.
    """
    n = math.floor(n)
    most = max(n - 2 if fit_intercept else n - 1, 0)
    if p < n:
        return min(p, most), min(p, most)
    return min(most, max(n // 3, 1)), min(most, max(n // 2, 1))


def log_size_prior(p: int) -> np.ndarray:
    """Log prior of each model of 0, 1, ..., p variables.

    Each variable is active with probability rho, whose density is 2 (1 - rho): few rather than
    many (as in Scott & Berger 2010, where it is flat). So a set of q variables has the prior
    2 B(1 + q, 2 + p - q), of which 1 / (1 + (q / FEW)^2) is taken.

    Without this factor half of many variables are about as probable as a few. Of weights that the
    data hardly see, a response of a hundred variables says little of their number, so that too
    many would have a probability between 0.1 and 0.3. With it, numbers up to about `FEW` are alike,
    and larger ones, each half as probable when it is 1.4 times as large, need little evidence.
    """
    q = np.arange(p + 1)
    log_prior = betaln(q + 1.0, p - q + 2.0) - np.log1p((q / SPARSE_SIZE) ** 2)
    log_sets = -betaln(q + 1.0, p - q + 1.0) - math.log(p + 1.0)  # how many there are of each size
    normalised: np.ndarray = log_prior - float(np.logaddexp.reduce(log_prior + log_sets))
    return normalised


def rules_for(
    n: float, p: int, fit_intercept: bool, *, max_iter: int, tol: float, verbose: int = 0
) -> SearchRules:
    """The usual rules for n samples of p variables."""
    max_size, intermediate_sets = max_model_sizes(n, p, fit_intercept)
    log_prior = log_size_prior(p)
    log_prior[max_size + 1 :] = -math.inf
    return SearchRules(
        log_prior, max_size, intermediate_sets, int(fit_intercept), max_iter, tol, verbose
    )


def local_search(
    data: RegressionMoments, fit: RegressionFit, rules: SearchRules
) -> Run[SearchState]:
    """Move to better neighbours until there is none."""
    return iterate(
        make_step(data, rules),
        SearchState(fit, rules.posterior(fit)),
        max_iter=rules.max_iter,
        tol=rules.tol,
        progress=Progress(rules.max_iter, "search", rules.verbose),
    )


def eliminate_variables(
    data: RegressionMoments, fit: RegressionFit, tol: float
) -> Iterator[RegressionFit]:
    """``fit`` and what is left as the least useful variables leave, down to none."""
    yield fit
    while fit.v.size:
        fit = remove_worst_variable(data, fit, tol)
        yield fit


class Elimination(NamedTuple):
    """What is left of a model as its variables leave."""

    best: RegressionFit  # the most probable of all
    intermediate_sets: tuple[np.ndarray, ...]  # variables of each that may be chosen


def eliminate_backward(
    data: RegressionMoments, fit: RegressionFit, rules: SearchRules
) -> Elimination:
    """From ``fit`` down, as long as one may be the most probable."""
    best, intermediate_sets = fit, []
    for smaller in eliminate_variables(data, fit, COARSE):
        if smaller.v.size <= rules.max_size:
            intermediate_sets.append(smaller.v)
        if rules.posterior(smaller) > rules.posterior(best):
            best = smaller
        # The evidence goes on falling: no prior could make up for it.
        if rules.centred_evidence(smaller) + rules.log_prior[0] < rules.posterior(best):
            break
    return Elimination(best, tuple(intermediate_sets))


def search_from(
    data: RegressionMoments, start: RegressionFit, rules: SearchRules
) -> list[Run[SearchState]]:
    """Climbs from ``start``: one under a flat prior, and where that led too far, one more.

    Variables that are useful together can each look useless alone, and the prior would keep them
    out one by one: the first climb does without it and goes too far; what it found is stripped,
    and the second climb starts from the most probable model on that way.
    """
    flat = rules._replace(log_prior=np.zeros_like(rules.log_prior))
    first = local_search(data, start, flat)
    found = first.state.fit
    retained, intermediate_sets = eliminate_backward(data, found, rules)
    first = first._replace(state=first.state._replace(intermediate_sets=intermediate_sets))
    # If `found` is kept, a climb leads on only where the prior rises: larger and other models have
    # less evidence, and stripping has tried the smaller ones.
    q = found.v.size
    rises = q < data.b.size and rules.log_prior[q + 1] > rules.log_prior[q]
    return (
        [first] if retained is found and not rises else [first, local_search(data, retained, rules)]
    )


def empty_model(data: RegressionMoments) -> RegressionFit:
    """The model without any variable."""
    return evaluate(data, np.array([], dtype=int), 0.0)


def drop_useless(data: RegressionMoments, fit: RegressionFit, rules: SearchRules) -> RegressionFit:
    """The model of those variables of ``fit`` without which its evidence would fall."""
    missed = removal_gains(fit, data.n - rules.n_intercepts) < 0.0
    start = fit if missed.all() else evaluate(data, fit.v[missed], fit.log_ratio)
    return optimise(data, start, COARSE)


def search(
    data: RegressionMoments, weights: Callable[[], np.ndarray], rules: SearchRules
) -> list[Run[SearchState]]:
    """The climbs that led to the most probable model that could be found, the best one last.

    Where variables are correlated, climbs from different sides often end differently.
    ``weights()`` are those of all variables in one model, where they are too many for `from_all`.
    """
    if data.b.size <= min(rules.max_search_size, MAX_FULL_START):
        runs = search_from_full(data, rules)
    else:
        runs = search_from(data, empty_model(data), rules)
        found = runs[0].state.fit
        others = largest_coefficients(np.abs(weights()), found)
        if set(others.tolist()) != set(found.v.tolist()):
            start = optimise(data, evaluate(data, others, found.log_ratio), COARSE)
            runs += search_from(data, start, rules)
        runs += search_from_pairs(data, runs, rules)
        best = max(rules.posterior(run.state.fit) for run in runs)
        if best - rules.posterior(empty_model(data)) < CLEAR_LOG_ODDS:
            runs += search_from_singles(data, rules)
    return sorted(runs, key=lambda run: rules.posterior(run.state.fit))


def search_from_singles(data: RegressionMoments, rules: SearchRules) -> list[Run[SearchState]]:
    """A climb from the best of many sets, each of which has grown from one of the variables most
    correlated with y and n_intercepts what is of least use again; the best of these sets are passed.

    Where a few variables explain y together and none of them much alone, sets with one or two of
    them are less probable than none, and the variable most correlated with y, from which a climb
    out of none starts, need not be one of them. But one of them is likely to be among the first
    dozens, and next to it the others are seen more clearly.
    """
    size = min(GROWN_SIZE, rules.max_size)
    if size < 2:
        return []
    grown: dict[frozenset[int], RegressionFit] = {}
    repeats = 0  # starts since the last that led to a new set
    for j in np.argsort(-np.abs(data.b) / np.sqrt(data.d), kind="stable")[:MAX_SINGLE_STARTS]:
        fit = fit_single(data, int(j))
        while fit.v.size < size:
            fit = add_best_variable(data, fit, COARSE)
        repeats = 0 if _add(grown, fit) else repeats + 1
        if repeats == MAX_REPEATS:
            break
    left: dict[frozenset[int], RegressionFit] = {}
    for fit in grown.values():
        _add(left, eliminate_backward(data, fit, rules).best)
    best_sets = sorted(left.values(), key=rules.posterior, reverse=True)[:MAX_GROWN_SETS]
    run = local_search(data, best_sets[0], rules)
    intermediate_sets = tuple(fit.v for fit in best_sets)
    return [run._replace(state=run.state._replace(intermediate_sets=intermediate_sets))]


def _add(sets: dict[frozenset[int], RegressionFit], fit: RegressionFit) -> bool:
    """Add a model to others, if none of them has the same variables, and say whether."""
    return sets.setdefault(frozenset(fit.v.tolist()), fit) is fit


def search_from_pairs(
    data: RegressionMoments, runs: list[Run[SearchState]], rules: SearchRules
) -> list[Run[SearchState]]:
    """Climbs from the best model so far and two variables that help only together, as long as
    there are such."""
    pairs, more = correlated_pairs(data), []
    best = max((run.state.fit for run in runs), key=rules.posterior)
    while best.v.size + 2 <= rules.max_size:
        start = add_best_pair(data, best, pairs, data.n - rules.n_intercepts)
        if start is None or rules.posterior(start) <= rules.posterior(best) + rules.tol:
            break
        more.append(local_search(data, start, rules))
        best = more[-1].state.fit
    return more


def search_from_full(data: RegressionMoments, rules: SearchRules) -> list[Run[SearchState]]:
    """Climbs where all variables together are a model.

    The first starts from the variables that this model would miss with hardly a prior: also from
    two that nearly cancel each other, and which the best prior for all would shrink to nothing. If
    it ends at the variables of largest weight, and these are clear (many samples, variables of one
    size that hardly inflate each other's variances), others would end there too. Else they follow:
    from the largest weights, from none, and from what the model would miss at its best lambda; and
    from all variables, if these are more probable than what was found: of large sets there are few,
    and each has a higher prior than one of half of the variables.
    """
    everything = np.arange(data.b.size)
    whole = evaluate(data, everything, math.log(1e-6 * float(data.d.min())))
    start = drop_useless(data, whole, rules)
    runs = search_from(data, start, rules)
    far, found = runs[0].state.fit, runs[-1].state.fit
    size = np.abs(whole.m) * np.sqrt(data.d)
    inflation = float((whole.P.diagonal() * data.d).max())
    similar = float(data.d.max()) < 10.0 * float(data.d.min())
    clear = data.n >= 2 * data.b.size and inflation < 10.0 and similar
    shrunken = evaluate(data, everything, math.log(0.01 * float(data.d.mean())))
    full = optimise(data, shrunken, COARSE)
    if not clear or set(largest_coefficients(size, found).tolist()) != set(found.v.tolist()):
        starts = [
            optimise(data, evaluate(data, largest_coefficients(size, far), far.log_ratio), COARSE)
        ]
        if start.v.size:
            starts.append(empty_model(data))
        starts.append(drop_useless(data, full, rules))
        runs += [run for start in starts for run in search_from(data, start, rules)]
    if rules.posterior(full) > max(rules.posterior(run.state.fit) for run in runs):
        runs.append(local_search(data, full, rules))
    return runs


def largest_coefficients(size: np.ndarray, fit: RegressionFit) -> np.ndarray:
    """As many variables as ``fit`` has, of the largest size."""
    return np.argsort(-size, kind="stable")[: fit.v.size]


class RegressionPath(NamedTuple):
    """Nested models of 0, 1, 2, ... variables, each at its own lambda and noise."""

    order: np.ndarray  # (K,) variables, the most useful first
    fits: list[RegressionFit]  # of the first q variables, q = 0 .. K

    @property
    def log_evidence(self) -> np.ndarray:
        """(K + 1,) of every model."""
        return np.array([fit.log_evidence for fit in self.fits])

    @property
    def sigma2(self) -> np.ndarray:
        """(K + 1,) noise variance of every model."""
        return np.array([fit.sigma2 for fit in self.fits])

    @property
    def log_ratio(self) -> np.ndarray:
        """(K + 1,) log lambda of every model."""
        return np.array([fit.log_ratio for fit in self.fits])


def regression_path(data: RegressionMoments, fit: RegressionFit, longest: int) -> RegressionPath:
    """Models around ``fit``, each with its own alpha and gamma: smaller ones without the
    variables that are missed least, larger ones with those that help most."""
    fit = optimise(data, fit, FINE)
    fits = [fit]
    order: list[int] = []
    while fit.v.size:  # who leaves last is the most useful
        place = least_useful(fit, data.n)
        order.append(int(fit.v[place]))
        fit = remove_variable(data, fit, place, FINE)
        fits.append(fit)
    fits.reverse()
    order.reverse()
    while fits[-1].v.size < longest:
        fits.append(add_best_variable(data, fits[-1], FINE))
        order.append(int(fits[-1].v[-1]))  # who came last
    return RegressionPath(np.array(order, dtype=int), fits)
