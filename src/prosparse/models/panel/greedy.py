"""Greedy forward selection under a factor model, followed by swaps.

Factor model of `factors`: x_k = w_k'z + e_k with z ~ N(0, I) and unique variances psi. Given the
selected variables, the factors have the covariance S, initially I. Observing variable k changes S
to S - S w w'S / (psi + w'S w), with w = w_k. With A = W'W, the expected squared error of
reconstructing the common part of all variables, tr(A S), decreases by

    w'S A S w / (psi_k + w'S w).

A step requires two products with W: t = w_k'S w_k and N = w_k'S A S w_k are stored for all k and
updated by

    u = S w / (psi + w'S w)^1/2,    t <- t - (W u)^2,
    N <- N - 2 (W u)(W S A u) + (u'A u) (W u)^2.

Variables in a *bundle* are selected together, and their joint gain is compared per cost. Variance
weights multiply the gains only in comparisons (`variance_weighting`).

With many variables, only those with the largest gains are updated (lazy evaluation, Minoux 1978).
The last known gain of a variable is nearly always an upper bound, because gains decrease as other
variables are selected.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .factors import FactorModel

# Maximum number of swap sweeps, and of multiplications in a sweep. The greedy selection of large
# panels of wide data, which exceed the second maximum, is not improved.
MAX_SWEEPS = 3
_MAX_MULTIPLICATIONS = 5e8
POOL_SIZE = 4_000  # maximum number of variables that are updated
POOL_LIFETIME = 100  # steps after which all variables are updated
_ROUNDING = 1e-9  # rounding error of a sum of signals
MIN_RELATIVE_GAIN = 1e-6  # gain of a swap, relative to the gain of the replaced variable


class State(NamedTuple):
    """Posterior of the factors given the selected variables."""

    S: np.ndarray  # (r, r) posterior covariance
    t: np.ndarray  # (p,) w'S w
    N: np.ndarray  # (p,) w'S A S w


class Constraints(NamedTuple):
    """Constraints on the selection, which apply to whole bundles."""

    n_features: int  # number of variables to select
    include: np.ndarray  # (k,) variables that come first
    allowed: np.ndarray  # (p,) bool
    costs: np.ndarray  # (p,)
    bundles: list[np.ndarray]  # at least two variables each
    weights: np.ndarray | None = None  # (p,) variance weights; None: all equal
    conflicts: tuple[np.ndarray, ...] = ()  # groups of which at most one is selected
    signal: np.ndarray | None = None  # (p,) means; their sum over the panel is limited
    max_signal: float = np.inf

    @property
    def divisors(self) -> np.ndarray:
        """Costs divided by variance weights, the divisors of the gains, (p,)."""
        return self.costs if self.weights is None else self.costs / self.weights

    @property
    def limits_combinations(self) -> bool:
        """Whether some allowed variables cannot be selected together."""
        return bool(self.conflicts) or self.signal is not None

    def find_addable(self, selected: np.ndarray) -> np.ndarray:
        """Return which variables can be added to the selected ones, (p,) bool."""
        addable = self.allowed.copy()
        is_selected = self._mark(selected)
        for group in self.conflicts:
            if is_selected[group].any():
                addable[group] = False
        if self.signal is not None:
            addable &= self.signal <= self.max_signal - self.signal[selected].sum() + _ROUNDING
        return addable

    def _mark(self, variables: np.ndarray) -> np.ndarray:
        is_marked = np.zeros(self.allowed.size, dtype=bool)
        is_marked[variables] = True
        return is_marked

    def is_feasible(self, variables: np.ndarray) -> bool:
        """Return whether variables can be selected together."""
        is_selected = self._mark(variables)
        if any(np.count_nonzero(is_selected[group]) > 1 for group in self.conflicts):
            return False
        return self.signal is None or self.signal[variables].sum() <= self.max_signal + _ROUNDING


class Selection(NamedTuple):
    """Variables in the order of selection, with their gains."""

    order: np.ndarray  # (q,)
    gains: np.ndarray  # (q,)
    bounds: np.ndarray  # (q,) upper bounds of the total gain of 1, ..., q variables


def init(model: FactorModel, A: np.ndarray) -> State:
    """Return the state without selected variables."""
    W = model.W
    return State(np.eye(W.shape[1]), np.sum(W**2, axis=1), np.sum(W * (W @ A), axis=1))


def state_from_covariance(model: FactorModel, A: np.ndarray, S: np.ndarray) -> State:
    """Compute t and N from their definitions."""
    W = model.W
    return State(S, *(np.einsum("pr,pr->p", W @ inner, W) for inner in (S, S @ A @ S)))


def compute_gains(model: FactorModel, state: State) -> np.ndarray:
    """Compute the gain of each variable, (p,)."""
    return np.asarray(np.maximum(state.N, 0.0) / (model.psi + np.maximum(state.t, 0.0)))


def add_variable(model: FactorModel, A: np.ndarray, state: State, k: int) -> State:
    """Update the state after selecting variable k."""
    S, t, N = state
    Sw = S @ model.W[k]
    u = Sw / np.sqrt(model.psi[k] + model.W[k] @ Sw)
    Au = A @ u
    Wu, WSAu = model.W @ u, model.W @ (S @ Au)  # faster than one product with both vectors
    return State(S - np.outer(u, u), t - Wu**2, N - 2.0 * Wu * WSAu + (u @ Au) * Wu**2)


def remove_variable(model: FactorModel, A: np.ndarray, state: State, k: int) -> State:
    """Update the state after removing variable k.

    The formulas are those of an addition, with S + u u' for S - u u'.
    """
    S, t, N = state
    Sw = S @ model.W[k]
    u = Sw / np.sqrt(max(model.psi[k] - model.W[k] @ Sw, 1e-12 * model.psi[k]))
    Au = A @ u
    Wu, WSAu = model.W @ u, model.W @ (S @ Au)
    return State(S + np.outer(u, u), t + Wu**2, N + 2.0 * Wu * WSAu + (u @ Au) * Wu**2)


def bundle_gain(model: FactorModel, A: np.ndarray, state: State, variables: np.ndarray) -> float:
    """Compute the joint gain of several variables."""
    W, psi = model.W[variables], model.psi[variables]
    WS = W @ state.S
    covariance = np.diag(psi) + WS @ W.T
    return float(np.trace(np.linalg.solve(covariance, WS @ A @ WS.T)))


def total_gain(model: FactorModel, variables: np.ndarray) -> float:
    """Compute the joint gain of some variables in an empty panel."""
    A = model.W.T @ model.W
    return bundle_gain(model, A, init(model, A), variables)


def select_greedily(model: FactorModel, constraints: Constraints) -> Selection:
    """Select variables by greedy forward selection.

    Fewer than ``constraints.n_features`` are selected if the constraints allow no more.
    """
    A = model.W.T @ model.W
    order: list[int] = []
    gains: list[float] = []
    is_candidate = constraints.allowed.copy()
    is_candidate[constraints.include] = True
    bundle_of = _bundle_numbers(constraints.bundles, is_candidate.size)
    always_updated = bundle_of >= 0
    always_updated[constraints.include] = True
    pool = _CandidatePool(model, A, is_candidate, constraints.divisors, always_updated)
    while len(order) < constraints.n_features and is_candidate.any():
        pool.refresh(is_candidate)
        included_first = np.zeros_like(is_candidate)
        included_first[constraints.include] = is_candidate[constraints.include]
        best = pool.best(
            included_first if included_first.any() else is_candidate, constraints, bundle_of
        )
        is_candidate[best] = False
        is_too_large = len(order) + best.size > constraints.n_features
        if is_too_large or not constraints.is_feasible(np.array([*order, *best.tolist()])):
            continue  # the bundle does not fit
        for k in best.tolist():
            gains.append(pool.select(k))
            order.append(k)
        if constraints.limits_combinations:
            addable = constraints.find_addable(np.array(order))
            addable[constraints.include] = True  # compatible by construction, and first
            is_candidate &= addable
    variables = np.array(order, dtype=int)
    return Selection(variables, np.array(gains), bound_gains(A, variables.size))


class _CandidatePool:
    """Variables whose gains are updated, and the last known gains of all others."""

    def __init__(
        self,
        model: FactorModel,
        A: np.ndarray,
        is_candidate: np.ndarray,
        divisors: np.ndarray,
        always_updated: np.ndarray,
    ):
        self.model, self.A = model, A
        self.divisors, self.always_updated = divisors, always_updated
        state = init(model, A)
        self.gains = compute_gains(model, state)  # (p,) last known
        self._fill(is_candidate, state)

    def _fill(self, is_candidate: np.ndarray, state: State) -> None:
        """Fill the pool with the candidates of largest gain per cost."""
        values = np.where(is_candidate, self.gains / self.divisors, -np.inf)
        if values.size > POOL_SIZE:
            in_pool = np.zeros(values.size, dtype=bool)
            in_pool[np.argpartition(-values, POOL_SIZE)[:POOL_SIZE]] = True
            in_pool |= self.always_updated
        else:
            in_pool = np.ones(values.size, dtype=bool)
        self.variables = np.flatnonzero(in_pool)
        self.outside_bound = float(np.max(values[~in_pool], initial=-np.inf))
        self.part = FactorModel(self.model.W[self.variables], self.model.psi[self.variables])
        self.state = State(state.S, state.t[self.variables], state.N[self.variables])
        self.age = 0

    def refresh(self, is_candidate: np.ndarray) -> None:
        """Update the gains of all variables if the pool may lack the best one."""
        if self.variables.size == is_candidate.size:
            return
        inside = self.variables[is_candidate[self.variables]]
        values = self.gains[inside] / self.divisors[inside]
        if self.age < POOL_LIFETIME and values.size and float(values.max()) >= self.outside_bound:
            return
        state = state_from_covariance(self.model, self.A, self.state.S)
        self.gains = compute_gains(self.model, state)
        self._fill(is_candidate, state)

    def best(
        self, candidates: np.ndarray, constraints: Constraints, bundle_of: np.ndarray
    ) -> np.ndarray:
        """Return the variable or bundle with the largest gain per cost."""
        inside = self.variables
        is_single = candidates[inside] & (bundle_of[inside] < 0)
        values = np.where(is_single, self.gains[inside] / self.divisors[inside], -np.inf)
        index = int(np.argmax(values))
        best, value = inside[[index]], float(values[index])
        numbers = bundle_of[:0]
        if constraints.bundles:
            numbers = bundle_of[candidates & (bundle_of >= 0)]
        for number in np.unique(numbers).tolist():
            bundle = constraints.bundles[number]
            gain = bundle_gain(self.model, self.A, self.state, bundle)
            bundle_value = gain / float(self.divisors[bundle].sum())
            if bundle_value > value:
                best, value = bundle, bundle_value
        return best

    def select(self, k: int) -> float:
        """Select variable k and return its gain."""
        index = int(np.searchsorted(self.variables, k))
        gain = float(self.gains[k])
        self.state = add_variable(self.part, self.A, self.state, index)
        self.gains[self.variables] = compute_gains(self.part, self.state)
        self.age += 1
        return gain


def _bundle_numbers(bundles: list[np.ndarray], p: int) -> np.ndarray:
    """Return the bundle of each variable, -1 for variables without a bundle."""
    numbers = np.full(p, -1)
    for number, variables in enumerate(bundles):
        numbers[variables] = number
    return numbers


def admissible_sizes(order: np.ndarray, constraints: Constraints) -> np.ndarray:
    """Return the panel sizes that split no bundle."""
    numbers = _bundle_numbers(constraints.bundles, constraints.allowed.size)[order]
    is_incomplete = (numbers[:-1] >= 0) & (numbers[:-1] == numbers[1:])
    sizes = np.append(np.flatnonzero(~is_incomplete) + 1, order.size)
    return sizes[sizes >= constraints.include.size]


def swap_variables(model: FactorModel, selection: Selection, constraints: Constraints) -> Selection:
    """Improve a selection by swapping single variables.

    A variable is replaced by the candidate with the largest weighted gain among those that improve
    the criterion, provided that this gain exceeds its own. Included variables are not replaced. The
    result is sorted in greedy order. Selections with different costs or bundles are returned
    unchanged, because a swap would change the cost.
    """
    count = selection.order.size
    included = set(constraints.include.tolist())
    is_selected = np.zeros(constraints.allowed.size, dtype=bool)
    is_selected[selection.order] = True
    has_equal_costs = np.all(constraints.costs == constraints.costs[0])
    has_free_variable = any(k not in included for k in selection.order.tolist())
    has_alternative = bool(np.any(constraints.allowed & ~is_selected))
    has_factor = model.W.shape[1] > 0
    is_swappable = has_equal_costs and has_free_variable and has_alternative and has_factor
    if constraints.bundles or not is_swappable:
        return selection
    A = model.W.T @ model.W
    S = posterior_covariance(model, selection.order)
    full_state = state_from_covariance(model, A, S)
    values = compute_gains(model, full_state) / constraints.divisors
    values = np.where(constraints.allowed, values, -np.inf)
    values[selection.order] = np.inf
    pool = np.sort(np.argsort(-values, kind="stable")[: max(POOL_SIZE, 2 * count)])
    part = FactorModel(model.W[pool], model.psi[pool])
    state = State(S, full_state.t[pool], full_state.N[pool])
    is_selected, is_allowed = is_selected[pool], constraints.allowed[pool]
    is_free, divisors = ~np.isin(pool, constraints.include), constraints.divisors[pool]
    addable = is_allowed
    has_changed = False
    for _ in range(min(MAX_SWEEPS, int(_MAX_MULTIPLICATIONS // (2 * count * part.W.size)))):
        has_swapped = False
        for k in np.flatnonzero(is_selected & is_free).tolist():
            without = remove_variable(part, A, state, k)
            gains = compute_gains(part, without)
            if constraints.limits_combinations:
                others = np.flatnonzero(is_selected & (np.arange(pool.size) != k))
                addable = constraints.find_addable(pool[others])[pool]
            is_better = addable & ~is_selected & (gains > gains[k] * (1.0 + MIN_RELATIVE_GAIN))
            values = gains / divisors
            best = int(np.argmax(np.where(is_better, values, -np.inf)))
            if is_better[best] and values[best] > values[k]:
                state = add_variable(part, A, without, best)
                is_selected[k], is_selected[best] = False, True
                has_swapped = has_changed = True
        if not has_swapped:
            break
    if not has_changed:
        return selection
    return order_greedily(model, pool[is_selected], selection, constraints)


def order_greedily(
    model: FactorModel,
    variables: np.ndarray,
    selection: Selection,
    constraints: Constraints,
) -> Selection:
    """Replace the variables of a selection and sort them in greedy order."""
    allowed = np.zeros(constraints.allowed.size, dtype=bool)
    allowed[variables] = True
    constraints = constraints._replace(n_features=variables.size, allowed=allowed)
    return select_greedily(model, constraints)._replace(bounds=selection.bounds)


def posterior_covariance(model: FactorModel, variables: np.ndarray) -> np.ndarray:
    """Compute S given some variables, (r, r)."""
    W, psi = model.W[variables], model.psi[variables]
    S = np.linalg.inv(np.eye(W.shape[1]) + W.T @ (W / psi[:, None]))
    return np.asarray(0.5 * (S + S.T))


def bound_gains(A: np.ndarray, count: int) -> np.ndarray:
    """Compute upper bounds on the total gain of 1, ..., ``count`` variables.

    The gain of any q variables is at most the sum of the q largest eigenvalues of A, because I - S
    has rank q and is at most I.
    """
    eigenvalues = np.linalg.eigvalsh(A)[::-1] if A.size else np.zeros(0)
    padded = np.concatenate([eigenvalues, np.zeros(count)])[:count]
    return np.asarray(np.cumsum(np.maximum(padded, 0.0)))
