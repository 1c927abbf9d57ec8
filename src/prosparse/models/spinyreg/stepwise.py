"""Search for the most probable set of variables, and a path of nested sets.

A uniform prior on the 2^p sets is not neutral: with a hundred noise variables, about twenty are
selected. Sets are compared under a multiplicity-correcting prior (`log_size_prior`). A search moves
to better neighbours of a set. Neighbours are ranked by gains (`set_model`). A move is made only if
the fitted neighbour is more probable, so that the log posterior is non-decreasing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple

import numpy as np

from ...inference.loop import Run, iterate
from ...inference.progress import Progress
from .set_model import F, SetModel
from .size_prior import log_size_prior

# Sets grown from single variables (`search_from_singles`).
MAX_SINGLE_STARTS = 40  # maximum number of single variables
GROWN_SIZE = 8  # size of a grown set
MAX_REPEATS = 10  # number of consecutive known sets after which growing stops
MAX_GROWN_SETS = 10  # maximum number of intermediate sets
CLEAR_LOG_ODDS = 20.0  # log posterior odds against the empty set above which no set is grown


class SearchRules(NamedTuple):
    """Prior, limits and stopping rule of a search."""

    log_prior: np.ndarray  # (p + 1,) log prior of a set of 0, ..., p variables; -inf if too large
    max_size: int  # maximum size of a set
    max_search_size: int  # maximum size of an intermediate set
    max_iter: int
    tol: float  # increase of the log posterior below which a search stops
    verbose: int = 0

    def posterior(self, model: SetModel[F], fit: F) -> float:
        """Compute the log posterior of a set, up to a constant."""
        return model.evidence(fit) + float(self.log_prior[fit.v.size])


class SearchState(NamedTuple, Generic[F]):
    """State of a search: the current set and intermediate sets."""

    fit: F
    bound: float  # log posterior, non-decreasing
    # other probable sets, for the average over sets
    intermediate_sets: tuple[np.ndarray, ...] = ()


SearchRun = Run[SearchState[F]]


def rules_for(
    p: int, sizes: tuple[int, int], *, max_iter: int, tol: float, verbose: int = 0
) -> SearchRules:
    """Build the rules for p variables, given maximum sizes of sets.

    ``sizes`` contains the maximum sizes in `SearchRules`.
    """
    log_prior = log_size_prior(p)
    log_prior[sizes[0] + 1 :] = -math.inf
    return SearchRules(log_prior, *sizes, max_iter, tol, verbose)


def top_positions(gains: np.ndarray, model: SetModel[F]) -> list[int]:
    """Return the positions of the largest gains, in decreasing order."""
    flat, (count, min_gain, _) = gains.ravel(), model.trials
    if count == 1:
        best = int(flat.argmax()) if flat.size else -1
        return [best] if flat.size and flat[best] > min_gain else []
    positions = np.argpartition(-flat, count)[:count] if flat.size > count else np.arange(flat.size)
    positions = positions[np.lexsort((positions, -flat[positions]))]
    return [int(each) for each in positions if flat[each] > min_gain]


def make_step(model: SetModel[F], rules: SearchRules) -> Callable[[SearchState[F]], SearchState[F]]:
    """Build the move to the best neighbour."""
    log_prior, p = rules.log_prior, model.n_variables

    def best_of(state: SearchState[F], sets: list[np.ndarray]) -> SearchState[F]:
        best = state
        for v in sets:
            # With several trials, the scale is tuned once, for the best trial.
            fit = model.fit(v, state.fit, tune=len(sets) == 1 or not state.fit.v.size)
            bound = rules.posterior(model, fit)
            if bound > best.bound:
                best = SearchState(fit, bound)
        if len(sets) > 1 and best is not state:
            fit = model.fit(best.fit.v, best.fit)
            best = SearchState(fit, rules.posterior(model, fit))
        return best

    def step(state: SearchState[F]) -> SearchState[F]:
        fit, q = state.fit, state.fit.v.size
        more, less = np.full(p, -np.inf), np.zeros(0)
        if q < min(rules.max_search_size, p):
            more = model.addition_gains(fit) + (log_prior[q + 1] - log_prior[q])
        if q:
            less = model.removal_gains(fit) + (log_prior[q - 1] - log_prior[q])
        moves = top_positions(np.concatenate([more, less]), model)
        sets = [np.append(fit.v, j) if j < p else np.delete(fit.v, j - p) for j in moves]
        found = best_of(state, sets)
        if found is not state or not 0 < q < p or (sets and model.trials.number == 1):
            return found
        # Exchanges are computed last, because there are q times as many of them.
        swaps = [divmod(at, q) for at in top_positions(model.exchange_gains(fit), model)]
        return best_of(state, [np.append(np.delete(fit.v, i), j) for j, i in swaps])

    return step


def local_search(model: SetModel[F], fit: F, rules: SearchRules) -> SearchRun[F]:
    """Move to better neighbours until no neighbour is better."""
    return iterate(
        make_step(model, rules),
        SearchState(fit, rules.posterior(model, fit)),
        max_iter=rules.max_iter,
        tol=rules.tol,
        progress=Progress(rules.max_iter, "search", rules.verbose),
    )


def eliminate_variables(model: SetModel[F], fit: F) -> Iterator[F]:
    """Yield ``fit`` and its subsets by backward elimination."""
    yield fit
    while fit.v.size:
        fit = model.fit(np.delete(fit.v, int(model.removal_gains(fit).argmax())), fit)
        yield fit


class Elimination(NamedTuple, Generic[F]):
    """Result of a backward elimination."""

    best: F  # most probable set
    intermediate_sets: tuple[np.ndarray, ...]  # variables of each set of allowed size


def eliminate_backward(model: SetModel[F], fit: F, rules: SearchRules) -> Elimination[F]:
    """Eliminate variables from ``fit`` one at a time.

    The elimination ends when no smaller set can be the most probable.
    """
    best, intermediate_sets = fit, []
    for smaller in eliminate_variables(model, fit):
        if smaller.v.size <= rules.max_size:
            intermediate_sets.append(smaller.v)
        if rules.posterior(model, smaller) > rules.posterior(model, best):
            best = smaller
        # The evidence decreases further, which the prior cannot compensate.
        if model.evidence(smaller) + rules.log_prior[0] < rules.posterior(model, best):
            break
    return Elimination(best, tuple(intermediate_sets))


def search_from(model: SetModel[F], start: F, rules: SearchRules) -> list[SearchRun[F]]:
    """Search from ``start`` under a weak prior, then from the best smaller set.

    Variables that are only jointly useful have no gains individually, and are excluded by the
    prior. The first search therefore uses a weaker prior and includes too many variables. The
    second search starts from the most probable set of a backward elimination.
    """
    weak = np.where(np.isfinite(rules.log_prior), rules.log_prior, 0.0) * model.trials.exploration
    first = local_search(model, start, rules._replace(log_prior=weak))
    found = first.state.fit
    best, intermediate_sets = eliminate_backward(model, found, rules)
    bound = rules.posterior(model, found)
    first = first._replace(state=SearchState(found, bound, intermediate_sets))
    # If `found` is the best set, a further search is useful only if the prior increases, because
    # larger and exchanged sets have less evidence, and the elimination has tried smaller sets.
    q = found.v.size
    rises = q < model.n_variables and rules.log_prior[q + 1] > rules.log_prior[q]
    if best is found and not rises and not model.trials.exploration:
        return [first]
    return [first, local_search(model, best, rules)]


def empty_set(model: SetModel[F]) -> F:
    """Fit the model without variables."""
    return model.fit(np.zeros(0, dtype=int))


def drop_useless(model: SetModel[F], fit: F) -> F:
    """Fit the variables of ``fit`` whose removal would decrease the evidence."""
    return model.fit(fit.v[model.removal_gains(fit) < 0.0], fit)


def search(
    model: SetModel[F], weights: Callable[[], np.ndarray], rules: SearchRules
) -> list[SearchRun[F]]:
    """Search from several starts; return the runs with the best last.

    If variables are correlated, searches from different starts often find different sets.
    ``weights()`` returns the coefficients of the full model. This function is called only if there
    are too many variables for `search_from_full`.
    """
    if model.n_variables <= min(rules.max_search_size, model.max_full_start):
        runs = search_from_full(model, rules)
    else:
        runs = search_from(model, empty_set(model), rules)
        found = runs[0].state.fit
        others = largest_coefficients(np.abs(weights()), found)
        if set(others.tolist()) != set(found.v.tolist()):
            runs += search_from(model, model.fit(others, found), rules)
        runs += search_from_pairs(model, runs, rules)
        best = max(rules.posterior(model, run.state.fit) for run in runs)
        if best - rules.posterior(model, empty_set(model)) < CLEAR_LOG_ODDS:
            runs += search_from_singles(model, rules)
    return sorted(runs, key=lambda run: rules.posterior(model, run.state.fit))


def search_from_singles(model: SetModel[F], rules: SearchRules) -> list[SearchRun[F]]:
    """Search from the best of many sets, each grown from a single variable.

    If a few variables jointly explain y but none explains much alone, sets of one or two of these
    are less probable than the empty set. The variable most correlated with y, with which a search
    from the empty set begins, need not be one of them. However, at least one is likely to be among
    the few dozen variables most correlated with y, and given this variable, the others are easier
    to detect. Each set is grown by forward selection and pruned; the best sets are returned as
    intermediate sets.
    """
    size = min(GROWN_SIZE, rules.max_size, model.n_variables)
    if size < 2:
        return []
    grown: dict[frozenset[int], F] = {}
    repeats = 0  # number of starts since the last new set
    for j in np.argsort(-model.marginal(), kind="stable")[:MAX_SINGLE_STARTS]:
        fit = model.fit(np.array([j]))
        while fit.v.size < size:
            fit = add_best_variable(model, fit, tune=False)
        repeats = 0 if _add(grown, fit) else repeats + 1
        if repeats == MAX_REPEATS:
            break
    left: dict[frozenset[int], F] = {}
    for fit in grown.values():
        _add(left, eliminate_backward(model, fit, rules).best)
    best_sets = sorted(left.values(), key=lambda fit: rules.posterior(model, fit), reverse=True)
    best_sets = best_sets[:MAX_GROWN_SETS]
    run = local_search(model, best_sets[0], rules)
    intermediate_sets = tuple(fit.v for fit in best_sets)
    return [run._replace(state=run.state._replace(intermediate_sets=intermediate_sets))]


def add_best_variable(model: SetModel[F], fit: F, tune: bool = True) -> F:
    """Add the variable with the largest gain, which may be negative."""
    return model.fit(np.append(fit.v, int(model.addition_gains(fit).argmax())), fit, tune)


def _add(sets: dict[frozenset[int], F], fit: F) -> bool:
    """Add a set if it is new; return whether it was added."""
    return sets.setdefault(frozenset(fit.v.tolist()), fit) is fit


def search_from_pairs(
    model: SetModel[F], runs: list[SearchRun[F]], rules: SearchRules
) -> list[SearchRun[F]]:
    """Search from the best set with a pair of suppressor variables added."""
    more: list[SearchRun[F]] = []
    best = max((run.state.fit for run in runs), key=lambda fit: rules.posterior(model, fit))
    while best.v.size + 2 <= rules.max_size:
        start = model.add_pair(best)
        if start is None or (
            rules.posterior(model, start) <= rules.posterior(model, best) + rules.tol
        ):
            break
        more.append(local_search(model, start, rules))
        best = more[-1].state.fit
    return more


def search_from_full(model: SetModel[F], rules: SearchRules) -> list[SearchRun[F]]:
    """Search from subsets of the full model.

    The full model must have fewer variables than samples.

    The first search starts from the variables whose removal from the weakly penalised full model
    would decrease the evidence. These include pairs whose effects nearly cancel, which the best
    prior of the full model would shrink to zero. If this search ends at the variables with the
    largest coefficients, and these are well determined, no further search is required. Otherwise,
    searches start from the largest coefficients, from the empty set, and from the useful variables
    of the full model. If the full model is more probable than the best set found, a search from all
    variables follows.
    """
    weak = model.full_fit()
    start = drop_useless(model, weak)
    runs = search_from(model, start, rules)
    far, found = runs[0].state.fit, runs[-1].state.fit
    size = model.effect_sizes(weak)
    full = model.fit(np.arange(model.n_variables))
    clear = model.well_determined(weak)
    if not clear or set(largest_coefficients(size, found).tolist()) != set(found.v.tolist()):
        starts = [model.fit(largest_coefficients(size, far), far)]
        if start.v.size:
            starts.append(empty_set(model))
        starts.append(drop_useless(model, full))
        runs += [run for start in starts for run in search_from(model, start, rules)]
    best = max(rules.posterior(model, run.state.fit) for run in runs)
    if rules.posterior(model, full) > best:
        runs.append(local_search(model, full, rules))
    return runs


def largest_coefficients(size: np.ndarray, fit: F) -> np.ndarray:
    """Return the variables with the largest coefficients, as many as in ``fit``."""
    return np.argsort(-size, kind="stable")[: fit.v.size]


class Path(NamedTuple, Generic[F]):
    """Nested sets of 0, 1, 2, ... variables, each at the best scale."""

    order: np.ndarray  # (K,) variables, most useful first
    fits: list[F]  # sets of the first q variables, q = 0, ..., K


def nested_path(model: SetModel[F], fit: F, longest: int) -> Path[F]:
    """Compute nested sets around ``fit``.

    Smaller sets are found by backward elimination, and larger sets by forward selection.
    """
    fit = model.refine(fit)
    fits, order = [fit], []
    while fit.v.size:  # In backward elimination, the variable removed last ranks first.
        i = int(model.removal_gains(fit).argmax())
        order.append(int(fit.v[i]))
        fit = model.refine(model.fit(np.delete(fit.v, i), fit))
        fits.append(fit)
    fits.reverse()
    order.reverse()
    while fits[-1].v.size < longest:
        fits.append(model.refine(add_best_variable(model, fits[-1])))
        order.append(int(fits[-1].v[-1]))
    return Path(np.array(order, dtype=int), fits)
