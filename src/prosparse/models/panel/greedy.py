"""Columns one after the other, each worth most given those before.

Factor model of `factors`: x_k = w_k'z + e_k with z ~ N(0, I) and own variances psi. Given the
chosen columns the latent scores have the covariance S, at first I. Observing column k as well
leaves S - S w w'S / (psi + w'S w), w = w_k, so that with A = W'W the expected squared error in
rebuilding what all columns have in common, tr(A S), falls by

    reconstruction:   w'S A S w / (psi_k + w'S w)

and the information about z grows by

    information:      log(1 + w'S w / psi_k) / 2

(the latter is monotone and submodular: greedy is within 1 - 1/e of the best). A step costs two
products with W: t = w_k'S w_k and N = w_k'S A S w_k are kept for all k at once and brought up to
date by

    u = S w / (psi + w'S w)^1/2,    t <- t - (W u)^2,
    N <- N - 2 (W u)(W S A u) + (u'A u) (W u)^2.

Columns may be bought together (a *bundle*): the gain of all of them is then compared per cost. A
column may be favoured (`favour`): what it gains is then taken times a number when columns are
compared, and counted as it is.

Of many columns only those that gain most are kept up to date, as long as none of the others can
gain more: what a column adds falls as others are chosen (Minoux 1978; exactly so for information,
nearly always for reconstruction), so that what it last would have gained is a bound.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from .factors import Factors

Criterion = Literal["reconstruction", "information"]

# Sweeps of swaps at most, and multiplications that they may take: enough for all but large panels
# of wide tables, where greedy is left as it is.
SWEEPS = 3
_WORK = 5e8
# Of more columns than this only so many are kept up to date, and all of them after so many steps.
POOL = 4_000
RENEWED = 100
# The share that a column must gain more than the one it replaces.
LEAST_GAIN = 1e-6


class State(NamedTuple):
    """What is known after some columns."""

    S: np.ndarray  # (r, r) covariance of the latent scores given the chosen columns
    t: np.ndarray  # (p,) w'S w
    N: np.ndarray  # (p,) w'S A S w


class Wishes(NamedTuple):
    """What a user asks of the order, in the operator's columns. A bundle is kept, or allowed, as a
    whole."""

    wanted: int  # columns
    include: np.ndarray  # (k,) must be in, and come first
    allowed: np.ndarray  # (p,) bool
    costs: np.ndarray  # (p,)
    bundles: list[np.ndarray]  # of two columns or more, which come together
    favour: np.ndarray | None = None  # (p,) what gains are taken times; None: all the same

    @property
    def prices(self) -> np.ndarray:
        """What gains are divided by when columns are compared, (p,)."""
        return self.costs if self.favour is None else self.costs / self.favour


class Chosen(NamedTuple):
    """An order of columns and what is gained by each."""

    order: np.ndarray  # (q,) places
    gains: np.ndarray  # (q,) of the criterion
    bounds: np.ndarray  # (q,) no other q columns gain more in all than this


def init(model: Factors, A: np.ndarray) -> State:
    """Nothing is chosen."""
    W = model.W
    return State(np.eye(W.shape[1]), np.sum(W**2, axis=1), np.sum(W * (W @ A), axis=1))


def known(model: Factors, A: np.ndarray, S: np.ndarray) -> State:
    """The state with the covariance S, from its definition."""
    W = model.W
    return State(S, *(np.einsum("pr,pr->p", W @ inner, W) for inner in (S, S @ A @ S)))


def gains(model: Factors, state: State, criterion: Criterion) -> np.ndarray:
    """What every column would add, (p,)."""
    if criterion == "information":
        return np.asarray(0.5 * np.log1p(np.maximum(state.t, 0.0) / model.psi))
    return np.asarray(np.maximum(state.N, 0.0) / (model.psi + np.maximum(state.t, 0.0)))


def step(model: Factors, A: np.ndarray, state: State, k: int) -> State:
    """Column k is chosen."""
    S, t, N = state
    Sw = S @ model.W[k]
    u = Sw / np.sqrt(model.psi[k] + model.W[k] @ Sw)
    Au = A @ u
    Wu, WSAu = model.W @ u, model.W @ (S @ Au)  # BLAS is slower at both in one product
    return State(S - np.outer(u, u), t - Wu**2, N - 2.0 * Wu * WSAu + (u @ Au) * Wu**2)


def unstep(model: Factors, A: np.ndarray, state: State, k: int) -> State:
    """Column k, which was chosen, is given up: the same formulas with S + u u'."""
    S, t, N = state
    Sw = S @ model.W[k]
    u = Sw / np.sqrt(max(model.psi[k] - model.W[k] @ Sw, 1e-12 * model.psi[k]))
    Au = A @ u
    Wu, WSAu = model.W @ u, model.W @ (S @ Au)
    return State(S + np.outer(u, u), t + Wu**2, N + 2.0 * Wu * WSAu + (u @ Au) * Wu**2)


def bundle_gain(
    model: Factors, A: np.ndarray, state: State, columns: np.ndarray, criterion: Criterion
) -> float:
    """What several columns add together."""
    W, psi = model.W[columns], model.psi[columns]
    WS = W @ state.S
    seen = np.diag(psi) + WS @ W.T
    if criterion == "information":
        return 0.5 * float(np.linalg.slogdet(seen)[1] - np.sum(np.log(psi)))
    return float(np.trace(np.linalg.solve(seen, WS @ A @ WS.T)))


def choose(model: Factors, wishes: Wishes, criterion: Criterion) -> Chosen:
    """The greedy order.

    Parameters
    ----------
    model : Factors
    wishes : Wishes
    criterion : {"reconstruction", "information"}

    Returns
    -------
    Chosen
        With ``wishes.wanted`` columns, or all that are allowed. No bundle is cut, so that there may
        be fewer.
    """
    A = model.W.T @ model.W
    taken: list[int] = []
    added: list[float] = []
    bounds = _Bounds(A, criterion)
    waiting = wishes.allowed.copy()
    waiting[wishes.include] = True
    open_to_all = waiting.copy()  # any other panel might have these, fit they here or not
    together = _bundle_of(wishes.bundles, waiting.size)
    always = together >= 0
    always[wishes.include] = True
    pool = _Pool(model, A, criterion, waiting, wishes.prices, always)
    while len(taken) < wishes.wanted and waiting.any():
        pool.renew(waiting)
        if criterion == "information":
            bounds.look(pool.alone[open_to_all], sum(added))
        kept = np.zeros_like(waiting)
        kept[wishes.include] = waiting[wishes.include]
        columns = pool.best(kept if kept.any() else waiting, wishes, together)
        waiting[columns] = False
        if len(taken) + columns.size > wishes.wanted:
            continue  # a bundle that does not fit
        for k in columns.tolist():
            added.append(pool.take(k))
            taken.append(k)
            open_to_all[k] = False
    order = np.array(taken, dtype=int)
    return Chosen(order, np.array(added), bounds.path(order.size))


class _Pool:
    """The columns that are kept up to date, and what the others would have gained when they were
    looked at last."""

    def __init__(
        self,
        model: Factors,
        A: np.ndarray,
        criterion: Criterion,
        waiting: np.ndarray,
        prices: np.ndarray,
        always: np.ndarray,
    ):
        self.model, self.A, self.criterion = model, A, criterion
        self.prices, self.always = prices, always
        state = init(model, A)
        self.alone = gains(model, state, criterion)  # (p,) as last known
        self._cut(waiting, state)

    def _cut(self, waiting: np.ndarray, state: State) -> None:
        """Keep those that gain most per price."""
        worth = np.where(waiting, self.alone / self.prices, -np.inf)
        if worth.size > POOL:
            inside = np.zeros(worth.size, dtype=bool)
            inside[np.argpartition(-worth, POOL)[:POOL]] = True
            inside |= self.always
        else:
            inside = np.ones(worth.size, dtype=bool)
        self.columns = np.flatnonzero(inside)
        self.limit = float(np.max(worth[~inside], initial=-np.inf))  # of those that are not kept
        self.part = Factors(self.model.W[self.columns], self.model.psi[self.columns])
        self.state = State(state.S, state.t[self.columns], state.N[self.columns])
        self.age = 0

    def renew(self, waiting: np.ndarray) -> None:
        """Look at all columns again if one of the others might be the best, or after some steps."""
        if self.columns.size == waiting.size:
            return
        here = self.columns[waiting[self.columns]]
        worth = self.alone[here] / self.prices[here]
        if self.age < RENEWED and worth.size and float(worth.max()) >= self.limit:
            return
        state = known(self.model, self.A, self.state.S)
        self.alone = gains(self.model, state, self.criterion)
        self._cut(waiting, state)

    def best(self, candidates: np.ndarray, wishes: Wishes, together: np.ndarray) -> np.ndarray:
        """The column, or the bundle, that gains most per price."""
        here = self.columns
        single = candidates[here] & (together[here] < 0)
        worth = np.where(single, self.alone[here] / self.prices[here], -np.inf)
        place = int(np.argmax(worth))
        columns, value = here[[place]], float(worth[place])
        open_ones = together[candidates & (together >= 0)] if wishes.bundles else together[:0]
        for number in np.unique(open_ones).tolist():
            bundle = wishes.bundles[number]
            gain = bundle_gain(self.model, self.A, self.state, bundle, self.criterion)
            if gain / float(self.prices[bundle].sum()) > value:
                columns, value = bundle, gain / float(self.prices[bundle].sum())
        return columns

    def take(self, k: int) -> float:
        """Column k is chosen; what it gains."""
        place = int(np.searchsorted(self.columns, k))
        gain = float(self.alone[k])
        self.state = step(self.part, self.A, self.state, place)
        self.alone[self.columns] = gains(self.part, self.state, self.criterion)
        self.age += 1
        return gain


def _bundle_of(bundles: list[np.ndarray], p: int) -> np.ndarray:
    """The number of each column's bundle, -1 for those that come alone."""
    number = np.full(p, -1)
    for place, columns in enumerate(bundles):
        number[columns] = place
    return number


def whole_sizes(order: np.ndarray, wishes: Wishes) -> np.ndarray:
    """How many columns of an order can be taken with all that must be kept, and no bundle cut."""
    together = _bundle_of(wishes.bundles, wishes.allowed.size)[order]
    cut = (together[:-1] >= 0) & (together[:-1] == together[1:])
    sizes = np.append(np.flatnonzero(~cut) + 1, order.size)
    return sizes[sizes >= wishes.include.size]


def exchange(model: Factors, chosen: Chosen, wishes: Wishes, criterion: Criterion) -> Chosen:
    """The same number of columns, each replaced by another one as long as that gains something.

    Of those that gain more, the one that is worth most as it is favoured is taken, if it is worth
    more than the one it replaces: no swap loses anything of the criterion. Columns to be kept stay,
    and the result is put in greedy order again. Where columns have costs or come in bundles,
    nothing is exchanged: no swap leaves the cost as it is.
    """
    count = chosen.order.size
    fixed = set(wishes.include.tolist())
    open_places = [k for k in chosen.order.tolist() if k not in fixed]
    same_cost = np.all(wishes.costs == wishes.costs[0])
    inside = np.zeros(wishes.allowed.size, dtype=bool)
    inside[chosen.order] = True
    no_other = not np.any(wishes.allowed & ~inside)
    no_factor = model.W.shape[1] == 0  # no column gains anything
    if not same_cost or wishes.bundles or not open_places or no_other or no_factor:
        return chosen
    A = model.W.T @ model.W
    S = posterior_covariance(model, chosen.order)
    everything = known(model, A, S)
    worth = gains(model, everything, criterion) / wishes.prices
    worth = np.where(wishes.allowed, worth, -np.inf)
    worth[chosen.order] = np.inf
    some = np.sort(np.argsort(-worth, kind="stable")[: max(POOL, 2 * count)])
    part = Factors(model.W[some], model.psi[some])
    state = State(S, everything.t[some], everything.N[some])
    inside, allowed = inside[some], wishes.allowed[some]
    loose, prices = ~np.isin(some, wishes.include), wishes.prices[some]
    swapped = False
    for _ in range(min(SWEEPS, int(_WORK // (2 * count * part.W.size)))):
        moved = False
        for k in np.flatnonzero(inside & loose).tolist():
            without = unstep(part, A, state, k)
            gain = gains(part, without, criterion)
            better = allowed & ~inside & (gain > gain[k] * (1.0 + LEAST_GAIN))
            worth = gain / prices
            best = int(np.argmax(np.where(better, worth, -np.inf)))
            if better[best] and worth[best] > worth[k]:
                state = step(part, A, without, best)
                inside[k], inside[best] = False, True
                moved = swapped = True
        if not moved:
            break
    if not swapped:
        return chosen
    only = np.zeros(wishes.allowed.size, dtype=bool)
    only[some[inside]] = True
    again = choose(model, wishes._replace(wanted=count, allowed=only), criterion)
    return again._replace(bounds=chosen.bounds)


def posterior_covariance(model: Factors, columns: np.ndarray) -> np.ndarray:
    """S given some columns, (r, r)."""
    W, psi = model.W[columns], model.psi[columns]
    S = np.linalg.inv(np.eye(W.shape[1]) + W.T @ (W / psi[:, None]))
    return np.asarray(0.5 * (S + S.T))


class _Bounds:
    """No q columns can gain more than this, for every q.

    Information is submodular: any q columns gain at most what the chosen ones have and the q
    largest gains beside them; the smallest such sum over all stages holds. Of tr(A S), q columns
    take at most the q largest eigenvalues of A, as I - S has rank q and lies below I.
    """

    def __init__(self, A: np.ndarray, criterion: Criterion):
        self.criterion = criterion
        self.eigenvalues = np.linalg.eigvalsh(A)[::-1] if A.size else np.zeros(0)
        self.stages: list[tuple[float, np.ndarray]] = []

    def look(self, others: np.ndarray, so_far: float) -> None:
        """Remember a stage of information: what the chosen columns have gained, and every other
        one would."""
        self.stages.append((so_far, np.cumsum(np.sort(others)[::-1])))

    def path(self, count: int) -> np.ndarray:
        """For 1, 2, ..., ``count`` columns."""
        if self.criterion == "reconstruction":
            padded = np.concatenate([self.eigenvalues, np.zeros(count)])[:count]
            return np.asarray(np.cumsum(np.maximum(padded, 0.0)))
        bounds = np.full(count, np.inf)
        for so_far, best in self.stages:
            reach = np.concatenate([best, np.full(count, best[-1])])[:count]
            bounds = np.minimum(bounds, so_far + reach)
        return bounds
