"""How much of a table a panel recovers in rows that were held out.

The columns of the panel are known as they are; all others are predicted from them by the factor
model of the other rows. Symbols: m (n, r) latent scores given the panel's columns, W (p, r), psi.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from ...data import Operator
from ...data.arrays import to_numpy
from .factors import Factors, Fold, beside_each_other, onto_columns, onto_rows, some_rows

# Up to so many columns every size is judged, beyond them sizes in equal ratios.
_EVERY_SIZE = 20
_RATIO = 1.08
# Columns whose held-out entries say how far prediction intervals have to reach.
_SAMPLED_COLUMNS = 400
# Of a Gaussian's entries 95 % lie within so many standard deviations.
TWO_SIDED_95 = 1.959963984540054


class Shares(NamedTuple):
    """What panels of growing size recover in the held-out rows of one fold."""

    everything: np.ndarray  # (sizes,) share of the sum of squares of all columns; 0 if that is 0
    others: np.ndarray  # (sizes,) sum of squares that is recovered of columns outside the panel
    attainable: np.ndarray  # (sizes,) the same from all columns together


class Judged(NamedTuple):
    """What one panel recovers."""

    recovered: np.ndarray  # (p,) share of every column, 1 for its own
    deviation: np.ndarray  # (p,) standard deviation of what is not, such that 1.96 times it
    # covers 95 % of held-out entries
    by_row: np.ndarray  # (n, 2) squares of each held-out row that are left, and all


def sizes_up_to(count: int) -> np.ndarray:
    """Sizes at which panels are judged; those between follow by interpolation."""
    sizes, size = list(range(1, min(count, _EVERY_SIZE) + 1)), float(_EVERY_SIZE)
    while size * _RATIO < count:
        size *= _RATIO
        sizes.append(int(np.ceil(size)))
    return np.unique([*sizes, count])


def posterior(model: Factors, panel: np.ndarray) -> np.ndarray:
    """F, (r, q): the expected latent scores given the panel's columns are F x."""
    W, psi = model.W[panel], model.psi[panel]
    weighted = W / psi[:, None]
    return np.linalg.solve(np.eye(W.shape[1]) + W.T @ weighted, weighted.T)


def shares_along(
    op: Operator,
    fold: Fold,
    model: Factors,
    order: np.ndarray,
    squares: np.ndarray,
    communality: np.ndarray,
    sizes: np.ndarray,
) -> Shares:
    """What the first columns of an order recover in the rows that a fold holds out.

    Parameters
    ----------
    op : Operator
    fold : Fold
    model : Factors
        Of the other rows.
    order : int array (q,)
        Columns, chosen on the other rows.
    squares : array (p,)
        Of the held-out rows.
    communality : array (p,)
        The share of every column that all others predict.
    sizes : int array
        At which to look, not falling.

    Returns
    -------
    Shares
    """
    out = fold.held_out
    columns = columns_of(op, order)[out] - fold.mean[order]
    onto = some_rows(op, model.W, out) - fold.mean @ model.W  # W'x of every row
    A = model.W.T @ model.W
    total = float(squares.sum())
    S, m = np.eye(A.shape[0]), np.zeros_like(onto)
    found = []
    own, promised = 0.0, float(communality @ squares)
    for q, k in enumerate(order.tolist(), start=1):
        w = model.W[k]
        Sw = S @ w
        seen = model.psi[k] + w @ Sw
        m = m + np.outer((columns[:, q - 1] - m @ w) / seen, Sw)
        S = S - np.outer(Sw, Sw) / seen
        own += squares[k]
        promised -= communality[k] * squares[k]
        times = int(np.sum(sizes == q))
        if times:
            left = total - 2.0 * np.sum(m * onto) + np.sum((m @ A) * m)
            left -= np.sum((columns[:, :q] - m @ model.W[order[:q]].T) ** 2)
            share = 1.0 - left / total if total > 0.0 else 0.0
            found += times * [(share, total - own - left, promised)]
    everything, others, attainable = np.array(found).T
    return Shares(everything, others, attainable)


def judge(
    op: Operator,
    folds: list[Fold],
    models: list[Factors],
    panel: np.ndarray,
    squares: np.ndarray,
    seed: int,
) -> Judged:
    """What a panel recovers of every column and of every row, when they are held out.

    Parameters
    ----------
    op : Operator
    folds : list of Fold
    models : list of Factors
        Of the rows that each fold does not hold out.
    panel : int array (q,)
    squares : array (folds, p)
        Of the held-out rows.
    seed : int
        Of the columns whose entries are looked at one by one.

    Returns
    -------
    Judged
    """
    n, p = op.shape
    rest = np.setdiff1d(np.arange(p), panel)
    rng = np.random.default_rng(seed)
    some = np.sort(rng.permutation(rest)[:_SAMPLED_COLUMNS])
    looked_at = _LookedAt(op, panel, columns_of(op, panel), some, columns_of(op, some))
    row_squares = squares_of_rows(op)
    each = zip(folds, models, squares, strict=True)
    parts = beside_each_other(
        op, [partial(_judged_by_fold, looked_at, row_squares, *fold) for fold in each]
    )
    left = np.stack([part.left for part in parts])
    by_row = np.zeros((n, 2))
    for fold, part in zip(folds, parts, strict=True):
        by_row[fold.held_out] = part.by_row
    recovered = 1.0 - left.sum(axis=0) / np.maximum(squares.sum(axis=0), 1e-300)
    counts = [int(fold.held_out.sum()) for fold in folds]
    reach = _reach([part.entries for part in parts], left[:, some], counts)
    deviation = reach * np.sqrt(left.sum(axis=0) / sum(counts))
    return Judged(recovered, deviation, by_row)


class _LookedAt(NamedTuple):
    """A table, a panel of its columns, and some others that are looked at entry by entry."""

    op: Operator
    panel: np.ndarray  # (q,)
    inside: np.ndarray  # (n, q) the panel's columns
    some: np.ndarray  # (k,)
    sampled: np.ndarray  # (n, k) these columns


class _OfFold(NamedTuple):
    """What a panel leaves of the rows that a fold holds out."""

    left: np.ndarray  # (p,) sums of squares
    entries: np.ndarray  # (held-out rows, k) of the columns that are looked at entry by entry
    by_row: np.ndarray  # (held-out rows, 2) squares that are left, and all


def _judged_by_fold(
    looked_at: _LookedAt, row_squares: np.ndarray, fold: Fold, model: Factors, squares: np.ndarray
) -> _OfFold:
    op, panel, inside, some, sampled = looked_at
    out, W = fold.held_out, model.W
    x = inside[out] - fold.mean[panel]
    m = x @ posterior(model, panel).T
    across = onto_columns(op, m, out) - np.outer(fold.mean, m.sum(axis=0))
    left = squares - 2.0 * np.einsum("pr,pr->p", across, W)
    left += np.einsum("pr,pr->p", W @ (m.T @ m), W)
    left[panel] = 0.0
    entries = sampled[out] - fold.mean[some] - m @ W[some].T
    onto = some_rows(op, np.column_stack([W, fold.mean]), out)
    shift = np.append(fold.mean @ W, fold.mean @ fold.mean)
    whole = row_squares[out] - 2.0 * onto[:, -1] + shift[-1]
    unknown = whole - 2.0 * np.sum(m * (onto[:, :-1] - shift[:-1]), axis=1)
    unknown += np.sum((m @ (W.T @ W)) * m, axis=1)
    unknown -= np.sum((x - m @ W[panel].T) ** 2, axis=1)
    return _OfFold(np.maximum(left, 0.0), entries, np.stack([unknown, whole], axis=1))


def _reach(entries: list[np.ndarray], left: np.ndarray, counts: list[int]) -> float:
    """By how much standard deviations have to be stretched for 1.96 of them to cover 95 %.

    Entries of each fold are measured by what the other folds have left, as those of new rows will
    be; heavy tails, zeros and few rows are all in there.
    """
    if not entries[0].size:
        return 1.0
    total, rows = left.sum(axis=0), sum(counts)
    ratios = []
    for residual, own, count in zip(entries, left, counts, strict=True):
        expected = np.sqrt(np.maximum((total - own) / max(rows - count, 1), 1e-300))
        ratios.append(np.abs(residual) / expected)
    return float(np.quantile(np.concatenate(ratios), 0.95)) / TWO_SIDED_95


def columns_of(op: Operator, which: np.ndarray) -> np.ndarray:
    """Some columns on the host, (n, k)."""
    if which.size == 0:
        return np.zeros((op.shape[0], 0))
    return onto_rows(op.take_columns(which), np.eye(which.size))


def squares_of_rows(op: Operator) -> np.ndarray:
    """Squared norm of every row, (n,), in memory."""
    xp = op.xp
    rows = op.gather_rows(lambda block: xp.sum(block * block, axis=1), entrywise=True)
    return np.asarray(to_numpy(rows).astype(float))
