"""Search for the most probable regression model, and a path of nested models.

A uniform prior on the 2^p models is not neutral: with a hundred noise variables it selects
twenty. Models are compared under a multiplicity-correcting prior (`log_size_prior`).
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
    add_best_variable,
    add_variable,
    evaluate,
    exchange_gains,
    fit_single,
    least_useful,
    optimise,
    removal_gains,
    remove_variable,
    remove_worst_variable,
    score_all_additions,
)
from .suppressors import add_best_pair, correlated_pairs

SPARSE_SIZE = 15  # model size above which the prior decreases
MAX_FULL_START = 200  # maximum number of variables of a search from the full model
# Sets grown from single variables, see `search_from_singles`.
MAX_SINGLE_STARTS = 40  # maximum number of single variables
GROWN_SIZE = 8  # size of a grown set
MAX_REPEATS = 10  # number of successive known sets after which growing stops
MAX_GROWN_SETS = 10  # maximum number of intermediate sets
CLEAR_LOG_ODDS = 20.0  # log posterior odds against the empty set above which no set is grown


class SearchRules(NamedTuple):
    """Prior, limits and stopping rule of a search."""

    log_prior: np.ndarray  # (p + 1,) of a model of 0 .. p variables, -inf if too large
    max_size: int  # maximum size of a model
    max_search_size: int  # maximum size of an intermediate model
    n_intercepts: int  # 1 with an intercept, else 0
    max_iter: int
    tol: float  # increase of the log posterior below which a search stops
    verbose: int = 0

    def centred_evidence(self, fit: RegressionFit) -> float:
        """Return the log evidence without the contribution of the mean of y.

        A centred y has mean 0, which every model predicts. The factor N(0; 0, sigma2) rewards small
        noise variances without evidence, which matters for few samples.
        """
        return fit.log_evidence + 0.5 * self.n_intercepts * math.log(2.0 * math.pi * fit.sigma2)

    def posterior(self, fit: RegressionFit) -> float:
        """Return the log posterior of the model, up to a constant."""
        return self.centred_evidence(fit) + float(self.log_prior[fit.v.size])


class SearchState(NamedTuple):
    """Current model of a search."""

    fit: RegressionFit
    bound: float  # log posterior, non-decreasing
    # other probable sets, for the average over sets
    intermediate_sets: tuple[np.ndarray, ...] = ()


def make_step(data: RegressionMoments, rules: SearchRules) -> Callable[[SearchState], SearchState]:
    """Return a move to the best neighbour: addition or removal, otherwise an exchange."""
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
        if q == data.b.size:  # There is no variable to add.
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
        # Exchanges are computed last, because there are q times as many.
        swap = exchange_gains(fit, additions, n)
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
    """Return the maximum size of a model, and of intermediate models of a search.

    As many variables as there are degrees of freedom fit y exactly, and the evidence has no maximum
    in gamma. If p >= n, models of more than n/3 variables cannot be distinguished from noise.
    """
    n = math.floor(n)
    most = max(n - 2 if fit_intercept else n - 1, 0)
    if p < n:
        return min(p, most), min(p, most)
    return min(most, max(n // 3, 1)), min(most, max(n // 2, 1))


def log_size_prior(p: int) -> np.ndarray:
    """Compute the log prior of each model of 0, 1, ..., p variables.

    Each variable is active with probability rho of density 2 (1 - rho), which favours sparse models
    compared with the uniform density of Scott & Berger (2010). A set of q variables has the prior
    2 B(1 + q, 2 + p - q), multiplied by 1 / (1 + (q / SPARSE_SIZE)^2).

    Without this factor, models of p/2 variables are about as probable as sparse models. Data with
    small coefficients carry little information on the model size, and too many variables would have
    inclusion probabilities between 0.1 and 0.3. The factor leaves sizes up to about `SPARSE_SIZE`
    nearly equally probable; beyond, the prior halves when the size grows by a factor of 1.4.
    """
    q = np.arange(p + 1)
    log_prior = betaln(q + 1.0, p - q + 2.0) - np.log1p((q / SPARSE_SIZE) ** 2)
    log_sets = -betaln(q + 1.0, p - q + 1.0) - math.log(p + 1.0)  # number of sets of each size
    normalised: np.ndarray = log_prior - float(np.logaddexp.reduce(log_prior + log_sets))
    return normalised


def rules_for(
    n: float, p: int, fit_intercept: bool, *, max_iter: int, tol: float, verbose: int = 0
) -> SearchRules:
    """Return the default rules for n observations of p variables."""
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
    """Yield ``fit`` and the models left as the least useful variable is removed."""
    yield fit
    while fit.v.size:
        fit = remove_worst_variable(data, fit, tol)
        yield fit


class Elimination(NamedTuple):
    """Result of a backward elimination."""

    best: RegressionFit  # most probable model
    intermediate_sets: tuple[np.ndarray, ...]  # variables of each model of allowed size


def eliminate_backward(
    data: RegressionMoments, fit: RegressionFit, rules: SearchRules
) -> Elimination:
    """Eliminate variables from ``fit`` while a smaller model may be the most probable."""
    best, intermediate_sets = fit, []
    for smaller in eliminate_variables(data, fit, COARSE):
        if smaller.v.size <= rules.max_size:
            intermediate_sets.append(smaller.v)
        if rules.posterior(smaller) > rules.posterior(best):
            best = smaller
        # The evidence decreases further, and no prior can compensate.
        if rules.centred_evidence(smaller) + rules.log_prior[0] < rules.posterior(best):
            break
    return Elimination(best, tuple(intermediate_sets))


def search_from(
    data: RegressionMoments, start: RegressionFit, rules: SearchRules
) -> list[Run[SearchState]]:
    """Search from ``start`` under a flat prior, then from the best smaller model.

    Variables that are useful only together look useless one by one, and the prior excludes them.
    The first search ignores the prior and includes too many variables. The second search starts
    from the most probable model of a backward elimination.
    """
    flat = rules._replace(log_prior=np.zeros_like(rules.log_prior))
    first = local_search(data, start, flat)
    found = first.state.fit
    best, intermediate_sets = eliminate_backward(data, found, rules)
    first = first._replace(state=first.state._replace(intermediate_sets=intermediate_sets))
    # If `found` is the best model, a further search helps only if the prior increases: larger and
    # exchanged models have less evidence, and the elimination has tried smaller ones.
    q = found.v.size
    rises = q < data.b.size and rules.log_prior[q + 1] > rules.log_prior[q]
    if best is found and not rises:
        return [first]
    return [first, local_search(data, best, rules)]


def empty_model(data: RegressionMoments) -> RegressionFit:
    """Return the model without variables."""
    return evaluate(data, np.array([], dtype=int), 0.0)


def drop_useless(data: RegressionMoments, fit: RegressionFit, rules: SearchRules) -> RegressionFit:
    """Fit the variables of ``fit`` whose removal would decrease the evidence."""
    missed = removal_gains(fit, data.n - rules.n_intercepts) < 0.0
    start = fit if missed.all() else evaluate(data, fit.v[missed], fit.log_ratio)
    return optimise(data, start, COARSE)


def search(
    data: RegressionMoments, weights: Callable[[], np.ndarray], rules: SearchRules
) -> list[Run[SearchState]]:
    """Search from several starts; return the runs in order of their posterior, best last.

    If variables are correlated, searches from different starts often end at different models.
    ``weights()`` returns the coefficients of the full model if `search_from_full` is too large.
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
    """Search from the best of many sets, each grown from a single variable.

    If a few variables explain y together but none explains much alone, sets of one or two of them
    are less probable than the empty set. The variable most correlated with y, from which a search
    from the empty set starts, need not belong to them. One of them is likely to be among the most
    correlated dozens, and conditional on it the others are easier to detect. Each set is grown by
    forward selection and pruned; the best sets are returned as intermediate sets.
    """
    size = min(GROWN_SIZE, rules.max_size)
    if size < 2:
        return []
    grown: dict[frozenset[int], RegressionFit] = {}
    repeats = 0  # number of starts since the last new set
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
    """Add a model unless its variables are present, and return whether it was added."""
    return sets.setdefault(frozenset(fit.v.tolist()), fit) is fit


def search_from_pairs(
    data: RegressionMoments, runs: list[Run[SearchState]], rules: SearchRules
) -> list[Run[SearchState]]:
    """Search from the best model with a pair of suppressor variables added."""
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
    """Search from subsets of the full model, if it has fewer variables than samples.

    The first search starts from the variables whose removal from the weakly penalised full model
    would decrease the evidence. This includes pairs that nearly cancel, which the best prior of the
    full model would shrink to zero. No further search is needed if it ends at the variables of
    largest coefficients and these are well determined: many samples, columns of similar size, small
    variance inflation. Otherwise searches follow from the largest coefficients, from the empty set,
    and from the useful variables at the best lambda. A search from all variables follows if the
    full model is more probable than the best model found.
    """
    all_variables = np.arange(data.b.size)
    weak = evaluate(data, all_variables, math.log(1e-6 * float(data.d.min())))
    start = drop_useless(data, weak, rules)
    runs = search_from(data, start, rules)
    far, found = runs[0].state.fit, runs[-1].state.fit
    size = np.abs(weak.m) * np.sqrt(data.d)
    inflation = float((weak.P.diagonal() * data.d).max())
    similar = float(data.d.max()) < 10.0 * float(data.d.min())
    clear = data.n >= 2 * data.b.size and inflation < 10.0 and similar
    shrunken = evaluate(data, all_variables, math.log(0.01 * float(data.d.mean())))
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
    """Return as many variables as ``fit`` has, those of the largest coefficients."""
    return np.argsort(-size, kind="stable")[: fit.v.size]


class RegressionPath(NamedTuple):
    """Nested models of 0, 1, 2, ... variables, each at its best lambda and noise."""

    order: np.ndarray  # (K,) variables, most useful first
    fits: list[RegressionFit]  # models of the first q variables, q = 0 .. K

    @property
    def log_evidence(self) -> np.ndarray:
        """(K + 1,) log evidence of each model."""
        return np.array([fit.log_evidence for fit in self.fits])

    @property
    def sigma2(self) -> np.ndarray:
        """(K + 1,) noise variance of each model."""
        return np.array([fit.sigma2 for fit in self.fits])

    @property
    def log_ratio(self) -> np.ndarray:
        """(K + 1,) log lambda of each model."""
        return np.array([fit.log_ratio for fit in self.fits])


def regression_path(data: RegressionMoments, fit: RegressionFit, longest: int) -> RegressionPath:
    """Compute nested models around ``fit``.

    Smaller models follow by backward elimination, larger ones by forward selection.
    """
    fit = optimise(data, fit, FINE)
    fits = [fit]
    order: list[int] = []
    while fit.v.size:  # Backward elimination: the last variable removed ranks first.
        i = least_useful(fit, data.n)
        order.append(int(fit.v[i]))
        fit = remove_variable(data, fit, i, FINE)
        fits.append(fit)
    fits.reverse()
    order.reverse()
    while fits[-1].v.size < longest:
        fits.append(add_best_variable(data, fits[-1], FINE))
        order.append(int(fits[-1].v[-1]))
    return RegressionPath(np.array(order, dtype=int), fits)
