"""From a centred table to a panel: few columns that do the work of all.

1. A factor model whose eigenvalues and communalities are those of held-out rows (`factors`).
2. Columns in the order in which each is worth most given those before (`greedy`); of those that are
   worth about the same, the one that varies more (`favour`).
3. What panels of growing size recover in held-out rows, each chosen without them (`recovery`),
   which also says how many columns are enough.
4. The latent scores that the panel tells, turned to the principal axes of what it rebuilds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from ...data import Operator
from ...data.arrays import to_numpy
from .factors import (
    FEW_ROWS,
    FOLDS,
    FOLDS_OF_FEW,
    INNER_FOLDS,
    INNER_FOLDS_OF_FEW,
    Factors,
    Fold,
    Split,
    beside_each_other,
    common_variances,
    components_from_rows,
    components_of,
    confirmed,
    factor_model,
    has_few_rows,
    held_out_squares,
    left_by_others,
    splits_of,
    steadied,
)
from .greedy import Chosen, Criterion, Wishes, choose, exchange, whole_sizes
from .heldout_r2 import Judged, Shares, judge, posterior, shares_along, sizes_up_to
from .variance_weighting import favour

# Where the number of columns is left to the data, no more than these are tried.
LONGEST = 300
# A column is stood for if the panel tells at least this share of what all others would tell of it,
# and this share of it.
_OF_COMMON = 0.5
_OF_ALL = 0.05
ROUNDING = 1e-12  # proportion of the sum of squares of all held-out rows


class Options(NamedTuple):
    """What the user decides; see `Panel`. Columns are the operator's."""

    wanted: int | None  # columns; None: decided by `target_recovery`
    target_recovery: float
    criterion: Criterion
    include: np.ndarray  # (k,) places
    allowed: np.ndarray  # (p,) bool
    costs: np.ndarray  # (p,)
    bundles: list[np.ndarray]
    scaled: bool  # whether the columns were brought to one standard deviation
    seed: int


class Learned(NamedTuple):
    """What some rows say of the columns."""

    variances: np.ndarray  # (p,)
    folds: list[Fold]  # of these rows, each held out once
    squares: np.ndarray  # (folds, p) of the held-out rows
    whole: Factors  # of all of these rows
    parts: list[Factors]  # of the training rows of each fold
    left: np.ndarray  # (folds, p) of these squares, by all other columns
    communality: np.ndarray  # (p,) in held-out rows


class Trial(NamedTuple):
    """What is known without the rows that a fold holds out, to choose columns and be judged."""

    fold: Fold
    squares: np.ndarray  # (p,) of the rows to judge by
    model: Factors


class Path(NamedTuple):
    """What panels of 1, 2, ... columns recover in held-out rows."""

    recovered: np.ndarray  # (q,) share of the sum of squares of all columns
    spread: np.ndarray  # (q,) standard deviation over folds
    ratio: np.ndarray  # (q,) what they recover of other columns, as a share of what is attainable


class Latents(NamedTuple):
    """Scores that the panel's columns give, and what follows of all columns."""

    filters: np.ndarray  # (d, q)
    loadings: np.ndarray  # (d, p) orthonormal rows
    variances: np.ndarray  # (d,) of the scores, falling


class Solution(NamedTuple):
    """All that a fit finds, in the operator's columns."""

    learned: Learned
    chosen: Chosen  # as long as the path
    panel: np.ndarray  # (q,) columns in order
    path: Path
    latents: Latents
    judged: Judged
    proxied_variables: np.ndarray  # (p,) the panel's column that stands for each, or -1


def solve(op: Operator, spread: np.ndarray, codes: np.ndarray | None, options: Options) -> Solution:
    """Choose a panel.

    Parameters
    ----------
    op : Operator
        The table, its columns centred.
    spread : array (p,)
        Standard deviations of the columns in the user's units.
    codes : int array (n,) or None
        Groups of the rows, in which the columns are centred.
    options : Options

    Returns
    -------
    Solution
    """
    learned = learn_all(op, spread, codes, options.seed)
    limit = int(options.allowed.sum()) + int(np.sum(~options.allowed[options.include]))
    longest = max([LONGEST, options.include.size, *(bundle.size for bundle in options.bundles)])
    count = min(longest if options.wanted is None else options.wanted, limit)
    wishes = Wishes(
        count,
        options.include,
        options.allowed,
        options.costs,
        options.bundles,
        _favour(spread, op, options),
    )
    trusted = confirmed(learned.whole, learned.communality, learned.variances)
    chosen, *trials = beside_each_other(
        op,
        [
            partial(choose, trusted, wishes, options.criterion),
            *trials_of(op, spread, codes, learned, options.seed),
        ],
    )

    def exchanged(panel: np.ndarray) -> np.ndarray:
        short = chosen._replace(order=panel)
        return exchange(trusted, short, wishes, options.criterion).order

    panel, count = chosen.order, chosen.order.size
    judging = [
        partial(shares_of, op, learned.communality, trial, wishes, options.criterion, count)
        for trial in trials
    ]
    if options.wanted is None:
        path = path_of(beside_each_other(op, judging), learned.squares, count)
        sizes = whole_sizes(panel, wishes)
        panel = exchanged(panel[: enough(path, options.target_recovery, sizes)])
    else:
        panel, *shares = beside_each_other(op, [partial(exchanged, panel), *judging])
        path = path_of(shares, learned.squares, count)
    models = [trial.model for trial in trials]
    judged = judge(op, learned.folds, models, panel, learned.squares, options.seed)
    return Solution(
        learned=learned,
        chosen=chosen,
        panel=panel,
        path=path,
        latents=latents(trusted, panel),
        judged=judged,
        proxied_variables=stand_ins(trusted, panel, judged.recovered, learned.communality),
    )


def _favour(spread: np.ndarray, op: Operator, options: Options) -> np.ndarray | None:
    """Columns that vary much are favoured where they were brought to one standard deviation, which
    hides it; not for information, whose bound is that of the plain greedy order."""
    if not options.scaled or options.criterion == "information":
        return None
    return favour(spread, op.shape[0])


def learn_all(op: Operator, spread: np.ndarray, codes: np.ndarray | None, seed: int) -> Learned:
    """What all rows say, each of them held out once."""
    every_row = np.ones(op.shape[0], dtype=bool)
    parts = FOLDS_OF_FEW if op.shape[0] <= FEW_ROWS else FOLDS
    splits = splits_of(every_row, parts, codes, seed)
    whole, *folds = components_of(op, [Split(every_row, ~every_row), *splits])
    return learn(op, spread, whole, folds)


def learn(op: Operator, spread: np.ndarray, whole: Fold, folds: list[Fold]) -> Learned:
    """The factor models of some rows and of every fold of them, and communalities in the rows that
    the folds hold out."""
    variances = to_numpy(op.column_squares()).astype(float) / op.shape[0]
    squares = held_out_squares(op, folds)
    common = common_variances(whole, folds, squares, variances)
    parts = beside_each_other(
        op, [partial(factor_model, fold, common, variances) for fold in folds]
    )
    left = left_by_others(op, folds, squares, parts)
    rows = sum(int(fold.held_out.sum()) for fold in folds)
    return Learned(
        variances=variances,
        folds=folds,
        squares=squares,
        whole=factor_model(whole, common, variances),
        parts=parts,
        left=left,
        communality=steadied(told(left, squares), spread, rows),
    )


def told(left: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """The share of every column that is not left, over some folds, (p,)."""
    return np.asarray(1.0 - left.sum(axis=0) / np.maximum(squares.sum(axis=0), 1e-300))


def trials_of(
    op: Operator, spread: np.ndarray, codes: np.ndarray | None, learned: Learned, seed: int
) -> list[Callable[[], Trial]]:
    """For every fold a model and communalities that know nothing of the rows that it holds out,
    learned when called.

    Of few rows, among many columns, communalities remember the rows that they were measured in:
    everything is then learned anew from the rows that are left. Otherwise they are taken from the
    other folds, whose models have seen these rows, which makes no difference with many rows.
    """
    numbers = range(len(learned.folds))
    if not has_few_rows(op):
        return [partial(_by_other_folds, spread, learned, number) for number in numbers]
    outer = to_numpy(op.outer()).astype(float)
    parts = INNER_FOLDS_OF_FEW if op.shape[0] <= FEW_ROWS else INNER_FOLDS

    def trial(number: int) -> Trial:
        fold = learned.folds[number]
        splits = splits_of(fold.training, parts, codes, seed)
        inner = learn(op, spread, fold, components_from_rows(op, outer, splits))
        trusted = confirmed(inner.whole, inner.communality, inner.variances)
        return Trial(fold, learned.squares[number], trusted)

    return [partial(trial, number) for number in numbers]


def _by_other_folds(spread: np.ndarray, learned: Learned, number: int) -> Trial:
    """Communalities in the rows that the other folds hold out."""
    rows = sum(int(fold.held_out.sum()) for fold in learned.folds)
    others = np.arange(len(learned.folds)) != number
    share = told(learned.left[others], learned.squares[others])
    trusted = confirmed(learned.parts[number], steadied(share, spread, rows), learned.variances)
    return Trial(learned.folds[number], learned.squares[number], trusted)


def shares_of(
    op: Operator,
    communality: np.ndarray,
    trial: Trial,
    wishes: Wishes,
    criterion: Criterion,
    count: int,
) -> Shares:
    """What panels of up to ``count`` columns recover of the rows that a fold holds out, chosen
    without these."""
    fold, squares, model = trial
    order = choose(model, wishes, criterion).order[:count]
    # where bundles leave a fold no panel as large as this, its largest one stands in
    looked = np.minimum(sizes_up_to(count), order.size)
    return shares_along(op, fold, model, order, squares, communality, looked)


def path_of(found: list[Shares], squares: np.ndarray, count: int) -> Path:
    """What panels of 1, ..., ``count`` columns recover in all folds; ``squares``, (folds, p), are
    those of the rows that each holds out."""
    everything = np.stack([shares.everything for shares in found])
    others = np.sum([shares.others for shares in found], axis=0)
    attainable = np.sum([shares.attainable for shares in found], axis=0)
    total = float(squares.sum())
    ratio = np.where(attainable > 1e-9 * total, others / np.maximum(attainable, 1e-300), 1.0)
    sizes, steps = sizes_up_to(count), np.arange(1, count + 1)
    weights = squares.sum(axis=1) / total
    # if all held-out rows of a fold are at the mean, up to rounding, their R2 is not defined
    varying = everything[weights > ROUNDING]
    spread = varying.std(axis=0, ddof=1) if len(varying) > 1 else np.zeros(everything.shape[1])
    return Path(
        np.interp(steps, sizes, weights @ everything),
        np.interp(steps, sizes, spread),
        np.interp(steps, sizes, ratio),
    )


def enough(path: Path, recover: float, sizes: np.ndarray) -> int:
    """The smallest of the allowed sizes (rising) that recovers the share of what is attainable; the
    largest if none does."""
    there = sizes[path.ratio[sizes - 1] >= recover]
    return int(there[0]) if there.size else int(sizes[-1])


def latents(model: Factors, panel: np.ndarray) -> Latents:
    """The principal axes of what the panel rebuilds.

    Given the panel, z has the mean F x, whose covariance is H = F Sigma F' = I - S. What is rebuilt
    of all columns, W F x, has the covariance W H W', of which these are the eigenvectors.
    """
    F = posterior(model, panel)
    W = model.W[panel]
    H = F @ (W @ W.T + np.diag(model.psi[panel])) @ F.T
    values, vectors = np.linalg.eigh(0.5 * (H + H.T))
    kept = values > 1e-9 * max(float(values[-1]), 1e-300) if values.size else values > 0
    kept = kept & (np.arange(values.size) >= values.size - panel.size)
    root = vectors[:, kept] * np.sqrt(values[kept])  # H = root root'
    onto = model.W @ root
    squares, turn = np.linalg.eigh(onto.T @ onto)
    squares, turn = squares[::-1], turn[:, ::-1]
    real = squares > 1e-9 * max(float(squares[0]), 1e-300) if squares.size else squares > 0
    squares, turn = squares[real], turn[:, real]
    loadings = (onto @ turn / np.sqrt(squares)).T
    whiten = (vectors[:, kept] / np.sqrt(values[kept])).T @ F
    filters = np.sqrt(squares)[:, None] * (turn.T @ whiten)
    strongest = loadings[np.arange(squares.size), np.argmax(np.abs(loadings), axis=1)]
    sign = np.where(strongest < 0.0, -1.0, 1.0)[:, None]
    return Latents(sign * filters, sign * loadings, squares)


def stand_ins(
    model: Factors, panel: np.ndarray, recovered: np.ndarray, communality: np.ndarray
) -> np.ndarray:
    """For every column, the panel's column that it is most correlated with in the model, if the
    panel makes it unnecessary, else -1; the panel's columns stand for themselves."""
    W = model.W / np.sqrt(model.psi + np.sum(model.W**2, axis=1))[:, None]
    closest = panel[np.argmax(np.abs(W @ W[panel].T), axis=1)]
    told = (recovered >= _OF_COMMON * communality) & (recovered >= _OF_ALL)
    found = np.where(told, closest, -1)
    found[panel] = panel
    return found
