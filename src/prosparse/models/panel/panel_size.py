"""Held-out R2 by panel size, and selection of the size."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .heldout_r2 import FoldPath, evaluated_sizes

_ROUNDING = 1e-12  # proportion of the sum of squares of all held-out rows


class Path(NamedTuple):
    """Results of panels with 1, 2, ... variables in held-out rows."""

    r2: np.ndarray  # (q,) of all columns
    r2_std: np.ndarray  # (q,) standard deviation over the folds
    relative_r2: np.ndarray  # (q,) of the other columns, relative to all columns as predictors
    relative_r2_std: np.ndarray  # (q,) standard error

    def shorten(self, size: int) -> Path:
        """Return the results of the first sizes."""
        return Path(*(values[:size] for values in self))


def combine_folds(
    fold_paths: list[FoldPath], squares: np.ndarray, count: int, n_repeats: int = 1
) -> Path:
    """Combine the folds and interpolate between the evaluated sizes.

    ``squares``, (n_folds, p), are the sums of squares of the held-out rows. Repetitions of
    cross-validation reduce the variance due to random folds, but not the sampling variance of the
    rows. Standard errors are therefore those of one repetition.
    """
    r2 = np.stack([path.r2 for path in fold_paths])
    explained = np.stack([path.explained for path in fold_paths])
    attainable = np.stack([path.attainable for path in fold_paths])
    total = float(squares.sum())
    mean_attainable = attainable.mean(axis=0)
    is_attainable = attainable.sum(axis=0) > 1e-9 * total
    divisor = np.where(is_attainable, mean_attainable, 1.0)
    relative = np.where(is_attainable, explained.mean(axis=0) / divisor, 1.0)
    # Standard error of a ratio of means, by linearisation.
    deviations = np.where(is_attainable, (explained - relative * attainable) / divisor, 0.0)
    n_folds = len(fold_paths) // n_repeats
    relative_std = np.sqrt(np.mean(deviations**2, axis=0) / max(n_folds - 1, 1))
    sizes, steps = evaluated_sizes(count), np.arange(1, count + 1)
    weights = squares.sum(axis=1) / total
    # R2 is undefined if all held-out rows of a fold are at the mean, up to rounding.
    varying = r2[weights > _ROUNDING]
    r2_std = varying.std(axis=0, ddof=1) if len(varying) > 1 else np.zeros(r2.shape[1])
    values = (weights @ r2, r2_std, relative, relative_std)
    return Path(*(np.interp(steps, sizes, value) for value in values))


def smallest_sufficient_size(
    path: Path, target: float, sizes: np.ndarray, n_errors: float = 1.0
) -> int:
    """Return the smallest admissible size that reaches the target.

    If no size reaches the target, the largest size is returned.

    A size reaches the target if its relative R2 plus ``n_errors`` standard errors does.
    """
    reached = path.relative_r2 + n_errors * path.relative_r2_std >= target
    sufficient = sizes[reached[sizes - 1]]
    return int(sufficient[0]) if sufficient.size else int(sizes[-1])
