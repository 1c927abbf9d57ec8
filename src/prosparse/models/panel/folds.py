"""Cross-validation folds and the principal components of their training rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...data import Operator
from ...data.arrays import Array, from_numpy, on_accelerator, to_numpy
from ...data.operators.weighted import WeightedOperator
from ...numerics.spectrum import EXACT_SIDE, leading_eigenvectors
from ...parallel import in_parallel

# Maximum number of components; the others are treated as noise. The limit is lower for wide data,
# where each component is a long vector.
MAX_COMPONENTS = 256
MAX_COMPONENTS_WIDE = 64
# Residual relative to the largest eigenvalue if only leading components are computed. Their
# variance is measured in held-out rows, which makes a fine tolerance unnecessary.
_TOLERANCE = 1e-2
# Eigenvalues that are rounding errors, relative to the largest one and to the sum of squares of all
# rows. Training rows that do not vary have eigenvalues of rounding errors only.
_RANK_TOLERANCE, _ZERO_TOLERANCE = 1e-11, 1e-14
MAX_HELD_OUT = 2_000  # maximum number of held-out rows per fold
MAX_GROUP = 2 / 3  # maximum proportion of the rows in a group that is held out


class Split(NamedTuple):
    """Training rows and held-out rows."""

    training: np.ndarray  # (n,) bool
    held_out: np.ndarray  # (n,) bool


class Fold(NamedTuple):
    """Principal components of the training rows of a split."""

    training: np.ndarray  # (n,) bool
    held_out: np.ndarray  # (n,) bool
    mean: np.ndarray  # (p,) of the training rows
    scores: np.ndarray  # (n_held_out, r) of the held-out rows
    variances: np.ndarray  # (r,) of the training rows along the components
    is_complete: bool  # whether the training rows have no variance along other directions
    directions: Callable[[int], np.ndarray]  # returns the first k components, (p, k)


def split_rows(rows: np.ndarray, n_folds: int, codes: np.ndarray | None, seed: int) -> list[Split]:
    """Split the rows of a mask into folds at random.

    Folds hold out whole groups if possible. Each fold holds out at most `MAX_HELD_OUT` of its rows.
    If a group contains too many of the rows (`can_hold_out_groups`), the folds are stratified by
    group.
    """
    order = np.random.default_rng(seed).permutation(np.flatnonzero(rows))
    n_folds = min(n_folds, order.size)
    if codes is not None and can_hold_out_groups(codes[order]):
        fold_of = _assign_groups(codes[order], n_folds)
    else:
        if codes is not None:
            order = order[np.argsort(codes[order], kind="stable")]
        fold_of = np.arange(order.size) % max(n_folds, 1)
    splits = []
    for k in np.unique(fold_of):
        fold = order[fold_of == k]
        held_out = np.zeros(rows.size, dtype=bool)
        held_out[fold[:: -(-fold.size // MAX_HELD_OUT)]] = True
        splits.append(Split(rows & ~held_out, held_out))
    return splits


def can_hold_out_groups(codes: np.ndarray) -> bool:
    """Return whether enough rows remain to fit a model without any one group."""
    sizes = np.bincount(codes)
    return bool(np.count_nonzero(sizes) > 1 and sizes.max() <= MAX_GROUP * codes.size)


def _assign_groups(codes: np.ndarray, n_folds: int) -> np.ndarray:
    """Assign whole groups to folds of similar size; return the fold of each row.

    Large groups are assigned first, each to the smallest fold. Ties follow the order of the rows.
    """
    labels, first, sizes = np.unique(codes, return_index=True, return_counts=True)
    fold_sizes, fold_of = np.zeros(min(n_folds, labels.size)), np.zeros(labels.size, dtype=int)
    for group in np.lexsort((first, -sizes)):
        fold_of[group] = np.argmin(fold_sizes)
        fold_sizes[fold_of[group]] += sizes[group]
    return np.asarray(fold_of[np.searchsorted(labels, codes)])


# --- components


def has_few_rows(op: Operator) -> bool:
    """Return whether components are computed from X X'."""
    return op.shape[0] <= min(op.shape[1], EXACT_SIDE)


def decompose_folds(op: Operator, splits: list[Split]) -> list[Fold]:
    """Compute the components of the training rows of each split.

    No row may be held out more than once. The components follow from X X' if there are few rows,
    from X'X if there are few columns, and otherwise from products with X.
    """
    if has_few_rows(op):
        return decompose_from_outer(op, to_numpy(op.outer()).astype(float), splits)
    return list((_from_gram if op.shape[1] <= EXACT_SIDE else _leading_components)(op, splits))


def decompose_from_outer(op: Operator, outer: np.ndarray, splits: list[Split]) -> list[Fold]:
    """Compute the components of the training rows from X X' of all rows."""
    folds, total = [], float(np.trace(outer))
    for training, held_out in splits:
        rows = np.flatnonzero(training)
        inner = outer[np.ix_(rows, rows)]
        inner = inner - inner.mean(axis=0)
        inner = inner - inner.mean(axis=1, keepdims=True)
        pairs = np.linalg.eigh(0.5 * (inner + inner.T))
        eigenvalues, U = _sort_eigenpairs(pairs, op.shape[1], total)
        weights = np.zeros((held_out.size, eigenvalues.size))
        weights[rows] = (U - U.mean(axis=0)) / np.sqrt(eigenvalues)
        scores = outer @ weights  # of all rows
        scores = scores[held_out] - scores[rows].mean(axis=0)
        mean = project_columns(op, training[:, None] / rows.size)[:, 0]
        directions = _LazyDirections(op, weights)
        variances = eigenvalues / rows.size
        is_complete = variances.size < _max_components(op.shape[1])
        folds.append(Fold(training, held_out, mean, scores, variances, is_complete, directions))
    return folds


class _LazyDirections:
    """Components X'F, computed on request and cached."""

    def __init__(self, op: Operator, weights: np.ndarray):
        self.op, self.weights = op, weights
        self._computed = np.zeros((op.shape[1], 0))

    def __call__(self, count: int) -> np.ndarray:
        count, n_computed = min(count, self.weights.shape[1]), self._computed.shape[1]
        if count > n_computed:
            new = project_columns(self.op, self.weights[:, n_computed:count])
            self._computed = np.concatenate([self._computed, new], axis=1)
        return self._computed[:, :count]


def _first_columns(V: np.ndarray, count: int) -> np.ndarray:
    return V[:, :count]


def _from_gram(op: Operator, splits: list[Split]) -> Iterator[Fold]:
    """Compute components from X'X, one Gram matrix per fold."""
    p, xp = op.shape[1], op.xp
    held_out_masks = [split.held_out for split in splits if split.held_out.any()]
    codes = np.full(op.shape[0], len(held_out_masks))  # rows that are never held out
    for number, mask in enumerate(held_out_masks):
        codes[mask] = number

    def gram_matrices(block: np.ndarray, fold: np.ndarray) -> tuple[np.ndarray, ...]:
        parts = [
            xp.take(block, xp.nonzero(fold == number)[0], axis=0)
            for number in range(len(held_out_masks) + 1)
        ]
        wide = (xp.astype(part, xp.float64) for part in parts)
        return tuple(part.T @ part for part in wide)

    # As floats: some array libraries do not combine integers with the dtype of the data.
    fold = from_numpy(codes.astype(float), op.column_squares(), op.dtype)
    grams = [to_numpy(part) for part in op.sum_rows(gram_matrices, fold, entrywise=True)]
    sums = project_columns(op, np.eye(len(held_out_masks) + 1)[codes])
    total_gram, total_sum = np.sum(grams, axis=0), np.sum(sums, axis=1)
    for training, held_out in splits:
        number = int(codes[np.argmax(held_out)])
        fold_gram, fold_sum = (grams[number], sums[:, number]) if held_out.any() else (0.0, 0.0)
        training_sum, n_training = total_sum - fold_sum, int(training.sum())
        gram = total_gram - fold_gram - np.outer(training_sum, training_sum) / n_training
        eigenvalues, V = _sort_eigenpairs(np.linalg.eigh(gram), p, float(np.trace(total_gram)))
        V, mean = V[:, : min(n_training - 1, p)], training_sum / n_training
        variances = eigenvalues[: V.shape[1]] / n_training
        scores = _held_out_scores(op, held_out, mean, V)
        directions, is_complete = partial(_first_columns, V), variances.size < _max_components(p)
        yield Fold(training, held_out, mean, scores, variances, is_complete, directions)


def _leading_components(op: Operator, splits: list[Split]) -> Iterator[Fold]:
    """Compute leading components by products with X.

    Each fold starts from the components of the preceding fold.
    """
    xp, like, rough = op.xp, op.column_squares(), op.rough()
    tolerance = max(_TOLERANCE, 30.0 * float(xp.finfo(rough.dtype).eps))
    start: np.ndarray | None = None
    for training, held_out in splits:
        n_training = int(training.sum())
        subset = WeightedOperator(rough, from_numpy(training.astype(float), like, rough.dtype))
        mean = project_columns(op, training[:, None] / n_training)[:, 0]
        device_mean = from_numpy(mean, like)

        def multiply_gram(V, subset=subset, mean=device_mean, n=n_training):  # type: ignore[no-untyped-def]
            narrow = xp.astype(V, rough.dtype)
            (product,) = subset.sum_rows(lambda block: (block.T @ (block @ narrow),))
            return xp.astype(product, V.dtype) - n * mean[:, None] * (mean @ V)

        count = min(MAX_COMPONENTS_WIDE, min(op.shape) // 4)
        eigenvalues, V = leading_eigenvectors(
            multiply_gram, like, count, tolerance, initial=start, block=op.few_columns
        )
        start = to_numpy(V).astype(float)
        scores = _held_out_scores(op, held_out, mean, start)
        variances = to_numpy(eigenvalues).astype(float) / n_training
        directions = partial(_first_columns, start)
        yield Fold(training, held_out, mean, scores, variances, False, directions)


def _held_out_scores(
    op: Operator, held_out: np.ndarray, mean: np.ndarray, V: np.ndarray
) -> np.ndarray:
    """Compute X V of the held-out rows, centred at the mean of the training rows."""
    if not held_out.any():
        return np.zeros((0, V.shape[1]))
    return project_some_rows(op, V, held_out) - mean @ V


def _sort_eigenpairs(
    pairs: tuple[np.ndarray, np.ndarray], p: int, total: float
) -> tuple[np.ndarray, np.ndarray]:
    """Sort eigenpairs; drop rounding errors and components above the maximum."""
    eigenvalues, vectors = pairs[0][::-1], pairs[1][:, ::-1]
    smallest = max(_RANK_TOLERANCE * float(eigenvalues[0]), _ZERO_TOLERANCE * total)
    rank = int(np.sum(eigenvalues > smallest))
    rank = min(rank, _max_components(p))
    return eigenvalues[:rank], vectors[:, :rank]


def _max_components(p: int) -> int:
    return MAX_COMPONENTS if p <= EXACT_SIDE else MAX_COMPONENTS_WIDE


# --- held-out rows


def held_out_squares(op: Operator, folds: list[Fold]) -> np.ndarray:
    """Compute held-out sums of squares around training means, (n_folds, p)."""
    xp, like = op.xp, op.column_squares()
    indicators = np.stack([fold.held_out for fold in folds], axis=1).astype(float)

    def squares(block: np.ndarray, fold: np.ndarray) -> tuple[np.ndarray]:
        return (xp.astype((block * block).T @ fold, xp.float64),)

    (total,) = op.sum_rows(squares, from_numpy(indicators, like, op.dtype), entrywise=True)
    total, sums = to_numpy(total).astype(float), project_columns(op, indicators)
    centred = [
        total[:, k] - 2.0 * fold.mean * sums[:, k] + float(fold.held_out.sum()) * fold.mean**2
        for k, fold in enumerate(folds)
    ]
    return np.maximum(np.stack(centred), 0.0)


# --- parallel computation, and products between NumPy arrays and the data


def run_parallel(op: Operator, tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run the tasks, in parallel if the data are in CPU memory."""
    if op.whole is None or on_accelerator(op.whole):
        return [task() for task in tasks]
    return in_parallel(lambda task: task(), tasks)


def project_rows(op: Operator, weights: np.ndarray) -> np.ndarray:
    """Compute X F, (n, k), as a NumPy array."""
    device_weights = from_numpy(weights, op.column_squares(), op.dtype)
    return to_numpy(op.gathered_matmul(device_weights)).astype(float, copy=False)


def project_some_rows(op: Operator, weights: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Compute X F for the rows of a mask, as a NumPy array."""
    if op.whole is None:
        return project_rows(op, weights)[rows]
    device_weights = from_numpy(weights, op.column_squares(), op.dtype)
    return to_numpy(take_rows(op, rows) @ device_weights).astype(float, copy=False)


def project_columns(op: Operator, Y: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
    """Compute X'Y, (p, k), as a NumPy array.

    Y may contain only the rows of a mask.
    """
    if rows is not None and op.whole is not None:
        device_Y = from_numpy(Y, op.column_squares(), op.dtype)
        return to_numpy(take_rows(op, rows).T @ device_Y).astype(float, copy=False)
    if rows is not None:
        all_rows = np.zeros((op.shape[0], Y.shape[1]))
        all_rows[rows] = Y
        Y = all_rows
    device_Y = from_numpy(Y, op.column_squares(), op.dtype)
    return to_numpy(op.rmatmul(device_Y)).astype(float, copy=False)


def dense_columns(op: Operator, columns: np.ndarray) -> np.ndarray:
    """Return columns of the data as a NumPy array (n, k)."""
    if columns.size == 0:
        return np.zeros((op.shape[0], 0))
    return project_rows(op.take_columns(columns), np.eye(columns.size))


def take_rows(op: Operator, rows: np.ndarray) -> Array:
    """Return the rows of a mask, for data that are in memory."""
    return op.xp.take(op.whole, from_numpy(np.flatnonzero(rows), op.column_squares()), axis=0)
