"""What the columns have in common, as far as rows that were not looked at confirm it.

Symbols: x (p,) a row of the centred table, v (p,) the variances of its columns, V (p, r) principal
components, W (p, r) loadings, psi (p,) own variances; z (r,) latent scores.

    x = W z + e,    z ~ N(0, I),    e ~ N(0, Psi),    W = V diag(delta_i - v_i'Psi v_i)^1/2

Eigenvalues of a sample say too much of each component: the rows that made it lie along it. Here
delta_i is the variance of *held-out* rows along the i-th component of the others, in falling order;
what the columns' own noise has in that direction is taken off. No number of components is chosen,
and no distribution assumed: a component that held-out rows do not confirm ends with no loadings.
(For large n and p delta is what random matrix theory shrinks eigenvalues to, see Ledoit & Wolf
2012, section 3; here it is measured.)

Of the same rows we ask how much of every column all others predict, its *communality*: there is no
other way to tell a column that shares much from one that the components were fitted to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import isotonic_regression

from ...data import Operator
from ...data.arrays import Array, from_numpy, on_accelerator, to_numpy
from ...data.operators.weighted import WeightedOperator
from ...errors import InputError
from ...numerics.spectrum import EXACT_SIDE, leading_eigenvectors
from ...parallel import in_parallel

# Components beyond these are taken for noise: they would cost more than they tell. Of wide tables,
# where each is a long column, fewer.
MOST_COMPONENTS = 256
LEADING = 64
# How exactly they are computed where both sides of a table are large: what they are worth is
# measured in held-out rows anyway.
_RESIDUAL = 1e-2
# Eigenvalues below this share of the largest are rounding.
_RANK = 1e-11
# No column is explained altogether: this much of its variance is its own.
LEAST_OWN = 0.02
_ROUNDS = 5
FOLDS = 5
# Few rows cannot spare a fifth of them, and of many some are enough to judge by.
FOLDS_OF_FEW, FEW_ROWS = 10, 100
MOST_HELD_OUT = 2_000
# Parts of the rows that a fold leaves, where it learns all anew; of few rows more.
INNER_FOLDS, INNER_FOLDS_OF_FEW = 2, 4
# Components are looked at so many at a time, until they are noise.
_AT_A_TIME = 32
# Times as many held-out rows as components, at most, are made products with all columns of.
_FEW_HELD_OUT = 2


class Fold(NamedTuple):
    """Principal components of the rows that are not held out."""

    training: np.ndarray  # (n,) bool: the rows that the components are those of
    held_out: np.ndarray  # (n,) bool: rows that are not among them
    mean: np.ndarray  # (p,) of the training rows
    scores: np.ndarray  # (held-out rows, r) of these rows along the components
    directions: Callable[[int], np.ndarray]  # the first so many components, (p, k)


class Factors(NamedTuple):
    """A factor model: covariance W W' + diag(psi)."""

    W: np.ndarray  # (p, r)
    psi: np.ndarray  # (p,)


class Split(NamedTuple):
    """Rows to learn from and rows to judge by."""

    training: np.ndarray  # (n,) bool
    held_out: np.ndarray  # (n,) bool


def splits_of(rows: np.ndarray, count: int, codes: np.ndarray | None, seed: int) -> list[Split]:
    """Some rows in ``count`` parts, at random, of which each is held out once, or
    `MOST_HELD_OUT` rows of it; from every group the same share.

    Parameters
    ----------
    rows : bool array (n,)
        The rows to part.
    count : int
    codes : int array (n,) or None
        Groups of the rows.
    seed : int

    Returns
    -------
    list of Split
    """
    order = np.random.default_rng(seed).permutation(np.flatnonzero(rows))
    if codes is not None:
        order = order[np.argsort(codes[order], kind="stable")]
    parts = min(count, order.size)
    held_out = [order[k::parts] for k in range(parts)]
    return [_split(rows, some[:: -(-some.size // MOST_HELD_OUT)]) for some in held_out]


def _split(rows: np.ndarray, held_out: np.ndarray) -> Split:
    out = np.zeros(rows.size, dtype=bool)
    out[held_out] = True
    return Split(rows & ~out, out)


# --- components


def has_few_rows(op: Operator) -> bool:
    """Whether everything follows from the products of the rows, X X'."""
    return op.shape[0] <= min(op.shape[1], EXACT_SIDE)


def components_of(op: Operator, splits: list[Split]) -> list[Fold]:
    """The components of the training rows of every split; no row is held out twice.

    By X X' where there are few rows, by X'X where there are few columns, and by products with X
    alone where there are many of both.
    """
    if has_few_rows(op):
        return components_from_rows(op, to_numpy(op.outer()).astype(float), splits)
    return list((_from_products if op.shape[1] <= EXACT_SIDE else _leading)(op, splits))


def components_from_rows(op: Operator, outer: np.ndarray, splits: list[Split]) -> list[Fold]:
    """By ``outer``, X X': of any training rows."""
    found = []
    for training, out in splits:
        rows = np.flatnonzero(training)
        inner = outer[np.ix_(rows, rows)]
        inner = inner - inner.mean(axis=0)
        inner = inner - inner.mean(axis=1, keepdims=True)
        values, U = _falling(np.linalg.eigh(0.5 * (inner + inner.T)), op.shape[1])
        filters = np.zeros((out.size, values.size))
        filters[rows] = (U - U.mean(axis=0)) / np.sqrt(values)
        scores = outer @ filters  # of all rows, as components are X'F
        scores = scores[out] - scores[rows].mean(axis=0)
        mean = onto_columns(op, training[:, None] / rows.size)[:, 0]
        found.append(Fold(training, out, mean, scores, _SeenByColumns(op, filters)))
    return found


class _SeenByColumns:
    """The first components, X'F; as many as were asked for are kept for the next question."""

    def __init__(self, op: Operator, filters: np.ndarray):
        self.op, self.filters = op, filters
        self._kept = np.zeros((op.shape[1], 0))

    def __call__(self, count: int) -> np.ndarray:
        count, there = min(count, self.filters.shape[1]), self._kept.shape[1]
        if count > there:
            more = onto_columns(self.op, self.filters[:, there:count])
            self._kept = np.concatenate([self._kept, more], axis=1)
        return self._kept[:, :count]


def _first(V: np.ndarray, count: int) -> np.ndarray:
    return V[:, :count]


def _from_products(op: Operator, splits: list[Split]) -> Iterator[Fold]:
    p, xp = op.shape[1], op.xp
    held_out = [split.held_out for split in splits if split.held_out.any()]
    codes = np.full(op.shape[0], len(held_out))  # rows that nobody holds out
    for number, out in enumerate(held_out):
        codes[out] = number

    def products(block: np.ndarray, fold: np.ndarray) -> tuple[np.ndarray, ...]:
        parts = [
            xp.take(block, xp.nonzero(fold == number)[0], axis=0)
            for number in range(len(held_out) + 1)
        ]
        wide = (xp.astype(part, xp.float64) for part in parts)
        return tuple(part.T @ part for part in wide)

    # as numbers, not positions: some libraries keep integers and tables apart
    fold = from_numpy(codes.astype(float), op.column_squares(), op.dtype)
    parts = [to_numpy(part) for part in op.sum_rows(products, fold, entrywise=True)]
    sums = onto_columns(op, np.eye(len(held_out) + 1)[codes])
    everything, all_sums = np.sum(parts, axis=0), np.sum(sums, axis=1)
    for training, out in splits:
        number = int(codes[np.argmax(out)])
        left_out, missing = (parts[number], sums[:, number]) if out.any() else (0.0, 0.0)
        total, rows = all_sums - missing, int(training.sum())
        inner = everything - left_out - np.outer(total, total) / rows
        _, V = _falling(np.linalg.eigh(inner), p)
        V, mean = V[:, : min(rows - 1, p)], total / rows
        scores = _held_out_scores(op, out, mean, V)
        yield Fold(training, out, mean, scores, partial(_first, V))


def _leading(op: Operator, splits: list[Split]) -> Iterator[Fold]:
    xp, like, rough = op.xp, op.column_squares(), op.rough()
    tol = max(_RESIDUAL, 30.0 * float(xp.finfo(rough.dtype).eps))
    near: np.ndarray | None = None
    for training, out in splits:
        rows = int(training.sum())
        some = WeightedOperator(rough, from_numpy(training.astype(float), like, rough.dtype))
        mean = onto_columns(op, training[:, None] / rows)[:, 0]
        there = from_numpy(mean, like)

        def squared(V, some=some, there=there, rows=rows):  # type: ignore[no-untyped-def]
            narrow = xp.astype(V, rough.dtype)
            (product,) = some.sum_rows(lambda block: (block.T @ (block @ narrow),))
            return xp.astype(product, V.dtype) - rows * there[:, None] * (there @ V)

        count = min(LEADING, min(op.shape) // 4)
        _, V = leading_eigenvectors(
            squared,
            like,
            count,
            tol,
            near=near,
            block=op.few_columns,
        )
        near = to_numpy(V).astype(float)
        scores = _held_out_scores(op, out, mean, near)
        yield Fold(training, out, mean, scores, partial(_first, near))


def _held_out_scores(op: Operator, out: np.ndarray, mean: np.ndarray, V: np.ndarray) -> np.ndarray:
    """X V of the rows that are held out, around the mean of the others."""
    return np.zeros((0, V.shape[1])) if not out.any() else some_rows(op, V, out) - mean @ V


def _falling(pairs: tuple[np.ndarray, np.ndarray], p: int) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues that are not rounding, in falling order, and their vectors; of p columns."""
    values, vectors = pairs[0][::-1], pairs[1][:, ::-1]
    most = MOST_COMPONENTS if p <= EXACT_SIDE else LEADING
    rank = min(int(np.sum(values > _RANK * values[0])), most)
    return values[:rank], vectors[:, :rank]


# --- held-out rows


def held_out_squares(op: Operator, folds: list[Fold]) -> np.ndarray:
    """Squares of held-out rows in every column around the means of the others, (folds, p)."""
    xp, like = op.xp, op.column_squares()
    indicators = np.stack([fold.held_out for fold in folds], axis=1).astype(float)

    def squares(block: np.ndarray, fold: np.ndarray) -> tuple[np.ndarray]:
        return (xp.astype((block * block).T @ fold, xp.float64),)

    (total,) = op.sum_rows(squares, from_numpy(indicators, like, op.dtype), entrywise=True)
    total, sums = to_numpy(total).astype(float), onto_columns(op, indicators)
    around = [
        total[:, k] - 2.0 * fold.mean * sums[:, k] + float(fold.held_out.sum()) * fold.mean**2
        for k, fold in enumerate(folds)
    ]
    return np.maximum(np.stack(around), 0.0)


def common_variances(
    whole: Fold, folds: list[Fold], squares: np.ndarray, variances: np.ndarray
) -> np.ndarray:
    """What held-out rows have in common along each component, delta - v'Psi v, (r,).

    Parameters
    ----------
    whole : Fold
        The components of all rows.
    folds : list of Fold
    squares : array (folds, p)
        Of the held-out rows.
    variances : array (p,)
        Of the columns.

    Returns
    -------
    array (r,)
        Of the leading components, as long as it is more than the standard error of a variance;
        empty if the training rows of a fold do not vary.

    Raises
    ------
    InputError
        If no held-out row varies.
    """
    r = min(fold.scores.shape[1] for fold in folds)
    if r == 0:
        return np.zeros(0)
    if not squares.any():
        held_out = sum(int(fold.held_out.sum()) for fold in folds)
        raise InputError(
            f"X varies in too few of its rows: none of the {held_out:,} rows held out for "
            "validation differs from the column means. Fit on a sample with more rows that vary."
        )
    along = sum(np.sum(fold.scores[:, :r] ** 2, axis=0) for fold in folds)
    delta = isotonic_regression(along, increasing=False).x
    # held-out rows vary a little more, as the mean is not theirs, and by chance
    delta = delta * (variances.sum() / squares.sum())
    error = delta * np.sqrt(2.0 / whole.training.sum())
    look = min(_AT_A_TIME, r)
    while True:
        common = _beyond_own(whole.directions(look) ** 2, delta[:look], variances)
        kept = int(np.sum(np.logical_and.accumulate(common > error[:look])))
        if kept < look or look == r:
            return np.asarray(common[: max(kept, 1)])
        look = min(2 * look, r)


def _beyond_own(V2: np.ndarray, delta: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """delta - v'Psi v with Psi what these leave of the columns, (r,); ``V2`` are squares of V."""
    own = variances
    for _ in range(_ROUNDS):  # own variances and what is common depend on each other
        common = np.maximum(delta - V2.T @ own, 0.0)
        common = np.maximum(isotonic_regression(common, increasing=False).x, 0.0)
        own = np.maximum(variances - V2 @ common, LEAST_OWN * variances)
    return np.asarray(common)


def factor_model(fold: Fold, common: np.ndarray, variances: np.ndarray) -> Factors:
    """W and psi from components and what is common along each."""
    W = fold.directions(common.size)
    W = W * np.sqrt(common[: W.shape[1]])
    psi = np.maximum(variances - np.sum(W**2, axis=1), LEAST_OWN * variances)
    return Factors(W, psi)


def left_by_others(
    op: Operator, folds: list[Fold], squares: np.ndarray, models: list[Factors]
) -> np.ndarray:
    """What all other columns leave of each one in held-out rows: sums of squares, (folds, p).

    With the precision matrix P = (W W' + Psi)^-1 = Psi^-1 - C C', a column is predicted from all
    others with the residual (P x)_j / P_jj.
    """
    each = zip(folds, squares, models, strict=True)
    return np.stack(beside_each_other(op, [partial(_left_in_fold, op, *fold) for fold in each]))


def _left_in_fold(op: Operator, fold: Fold, squares: np.ndarray, model: Factors) -> np.ndarray:
    W, psi = model
    weighted = W / psi[:, None]
    one = np.eye(W.shape[1])
    root = solve_triangular(np.linalg.cholesky(one + W.T @ weighted), one, lower=True)
    C = weighted @ root.T
    precision = 1.0 / psi - np.einsum("pr,pr->p", C, C)
    few = int(fold.held_out.sum()) <= _FEW_HELD_OUT * W.shape[1]
    of_fold = _squares_of_rows if few and op.whole is not None else _squares_of_products
    return np.maximum(of_fold(op, fold, squares, psi, C), 0.0) / precision**2


def _squares_of_rows(
    op: Operator, fold: Fold, squares: np.ndarray, psi: np.ndarray, C: np.ndarray
) -> np.ndarray:
    """Sums of squares of P x over held-out rows, from these rows themselves."""
    like = op.column_squares()
    mean, filters, inverse = (
        from_numpy(part, like, op.dtype) for part in (fold.mean, C, 1.0 / psi)
    )
    x = _taken(op, fold.held_out) - mean
    Px = x * inverse - (x @ filters) @ filters.T
    return to_numpy(op.xp.sum(Px * Px, axis=0)).astype(float)


def _squares_of_products(
    op: Operator, fold: Fold, squares: np.ndarray, psi: np.ndarray, C: np.ndarray
) -> np.ndarray:
    """The same from the sums of squares of x and from the products X'T with T = X C: nothing as
    large as the rows is made."""
    T = some_rows(op, C, fold.held_out) - fold.mean @ C
    across = onto_columns(op, T, fold.held_out) - np.outer(fold.mean, T.sum(axis=0))
    cross = np.einsum("pr,pr->p", across, C)
    inside = np.einsum("pr,pr->p", C @ (T.T @ T), C)
    return np.asarray(squares / psi**2 - 2.0 * cross / psi + inside)


def steadied(measured: np.ndarray, spread: np.ndarray, n: int) -> np.ndarray:
    """Communalities with less noise: towards what columns of like spread have on average.

    Where columns come in one unit (logarithms of expressions, grey values), those that hardly vary
    are mostly noise. Whether that is so, the table itself says: by the best rising function of the
    spread, which is flat where units differ. How far to go towards it follows from the variance of
    a squared correlation, 4 R2 (1 - R2)^2 / n (Olkin & Finn 1995).

    Parameters
    ----------
    measured : array (p,)
        In held-out rows.
    spread : array (p,)
        Standard deviations of the columns, in the table's own units.
    n : int
        Rows.

    Returns
    -------
    array (p,)
        Between 0 and 1 - `LEAST_OWN`.
    """
    measured = np.clip(measured, -0.5, 1.0)
    order = np.lexsort((measured, spread))
    usual = np.empty_like(measured)
    usual[order] = isotonic_regression(measured[order]).x
    own = np.clip(1.0 - usual, LEAST_OWN, 1.0)
    noise = 4.0 * np.clip(usual, LEAST_OWN, 1.0) * own**2 / n + 2.0 * own**2 / n**2
    between = float(np.mean((measured - usual) ** 2))
    trust = max(between - float(noise.mean()), 0.0) / max(between, 1e-300)
    return np.clip(usual + trust * (measured - usual), 0.0, 1.0 - LEAST_OWN)


def confirmed(model: Factors, communality: np.ndarray, variances: np.ndarray) -> Factors:
    """The model with the loadings of each column as long as its communality says."""
    length = np.maximum(np.sum(model.W**2, axis=1), 1e-300)
    W = model.W * np.sqrt(communality * variances / length)[:, None]
    return Factors(W, variances * (1.0 - communality))


# --- work beside other work, and products between host and table


def beside_each_other(op: Operator, work: Sequence[Callable[[], Any]]) -> list[Any]:
    """What each returns, several at once where the table is in the memory of the host."""
    if op.whole is None or on_accelerator(op.whole):
        return [one() for one in work]
    return in_parallel(lambda one: one(), work)


def onto_rows(op: Operator, filters: np.ndarray) -> np.ndarray:
    """X F on the host, (n, k)."""
    there = from_numpy(filters, op.column_squares(), op.dtype)
    return to_numpy(op.gathered_matmul(there)).astype(float, copy=False)


def some_rows(op: Operator, filters: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """X F of the rows of a mask, on the host: of these alone, where the table is in memory."""
    if op.whole is None:
        return onto_rows(op, filters)[rows]
    there = from_numpy(filters, op.column_squares(), op.dtype)
    return to_numpy(_taken(op, rows) @ there).astype(float, copy=False)


def onto_columns(op: Operator, Y: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
    """X'Y on the host, (p, k); ``Y`` may be of the rows of a mask alone."""
    if rows is not None and op.whole is not None:
        there = from_numpy(Y, op.column_squares(), op.dtype)
        return to_numpy(_taken(op, rows).T @ there).astype(float, copy=False)
    if rows is not None:
        all_rows = np.zeros((op.shape[0], Y.shape[1]))
        all_rows[rows] = Y
        Y = all_rows
    there = from_numpy(Y, op.column_squares(), op.dtype)
    return to_numpy(op.rmatmul(there)).astype(float, copy=False)


def _taken(op: Operator, rows: np.ndarray) -> Array:
    return op.xp.take(op.whole, from_numpy(np.flatnonzero(rows), op.column_squares()), axis=0)
