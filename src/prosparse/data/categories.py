"""Coding of categorical columns as blocks of orthonormal columns.

A categorical variable with L levels becomes m = L - 1 columns, an orthonormal basis of its centred
indicators (PCA of mixed data, [CKS17]). A row with level l has the values C_l, minus the fit of
groups and covariates. New rows have the same *codes* C (L x m). Rare levels are pooled.

[CKS17]  M. Chavent, V. Kuentz-Simonet, A. Labenne, J. Saracco. Multivariate analysis of mixed data:
         the R package PCAmixdata. arXiv:1411.4911, 2017.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from ..errors import CategoriesWarning, InputError, plural, warn
from .row_adjustment import RowAdjustment

MIN_LEVEL_ROWS = 5  # levels with fewer rows are pooled, if there are several
MAX_LEVELS_PER_ROW = 0.5  # number of levels per observed row above which labels are identifiers
POOLED = "other levels"
_MIN_SINGULAR = 1e-6  # singular value of the indicators, relative to the root of the number of rows


class Labels(NamedTuple):
    """Column of labels."""

    values: np.ndarray  # (n,) strings; None where a value is missing
    order: tuple[str, ...] | None = None  # ordered levels, if the dtype is an ordered categorical


class Block(NamedTuple):
    """Coded categorical variable."""

    columns: np.ndarray  # (n, m) of unit variance on the observed rows; NaN where missing
    codes: np.ndarray  # (L, m) values at the mean of the covariates
    effects: np.ndarray  # (k, m) coefficients of the covariates
    r2: float  # proportion of the variance of the indicators that the covariates explain


def pool_levels(labels: Labels, name: str) -> tuple[str, ...]:
    """Return the levels of a categorical variable, with rare levels pooled."""
    count = Counter(value for value in labels.values if value is not None)
    n = sum(count.values())
    if labels.order is None and len(count) > max(MAX_LEVELS_PER_ROW * n, 2 * MIN_LEVEL_ROWS):
        raise InputError(
            f"Column {name!r} of X has {len(count):,} levels in {n:,} rows. It identifies the rows "
            "or contains free text. Drop it."
        )
    levels = sorted(count) if labels.order is None else [v for v in labels.order if v in count]
    rare = [level for level in levels if count[level] < MIN_LEVEL_ROWS]
    if len(rare) < 2:
        return tuple(levels)
    warn(
        f"Column {name!r} of X has {plural(len(rare), 'level')} with fewer than {MIN_LEVEL_ROWS} "
        f"rows. They are pooled as {POOLED!r}. "
        "To merge levels by meaning instead, recode the column.",
        CategoriesWarning,
    )
    return (*(level for level in levels if level not in set(rare)), POOLED)


def match_levels(values: np.ndarray, levels: tuple[str, ...], name: str) -> np.ndarray:
    """Return the positions of levels as floats, NaN where missing.

    Levels that did not occur in ``fit`` are treated as pooled levels if rare levels were pooled.
    """
    position = {level: float(k) for k, level in enumerate(levels)}
    unknown = {value for value in values if value is not None} - set(levels)
    if unknown and POOLED not in position:
        raise InputError(
            f"Column {name!r} of X has {plural(len(unknown), 'level')} that `fit` did not contain, "
            f"such as {min(unknown)!r}. Drop these rows, set the values to missing, or fit again "
            "with rows of these levels."
        )
    other = position.get(POOLED, np.nan)
    return np.array([np.nan if v is None else position.get(v, other) for v in values])


def code_block(
    level: np.ndarray, n_levels: int, adjustment: RowAdjustment, scale: np.ndarray
) -> Block:
    """Code a categorical variable by orthonormal residuals of its indicators.

    ``level`` (n,) is the position of the level of each row; NaN where missing. ``scale`` (k,)
    divides the covariates of the adjustment.
    """
    seen = np.flatnonzero(~np.isnan(level))
    indicators = np.eye(n_levels)[level[seen].astype(int)]
    design, n_groups = adjustment.design[seen], adjustment.groups.sizes.size
    coefficients = np.linalg.lstsq(design, indicators, rcond=None)[0]
    residuals = indicators - design @ coefficients
    _, singular, V = np.linalg.svd(residuals, full_matrices=False)
    rank = int(np.sum(singular > _MIN_SINGULAR * np.sqrt(seen.size)))
    codes = V[:rank].T / singular[:rank] * np.sqrt(seen.size)
    columns = np.full((level.size, rank), np.nan)
    columns[seen] = residuals @ codes
    effects = np.zeros((scale.size, rank))
    effects[adjustment.used] = coefficients[n_groups:] @ codes
    # Mean over the rows of each level, at the mean of the covariates over all rows.
    covariates = adjustment.covariates
    shift = (np.mean(covariates, axis=0) - np.mean(covariates[seen], axis=0)) @ effects
    centre = np.mean(indicators, axis=0) @ codes + shift
    groups = design[:, :n_groups]
    within = indicators - groups @ np.linalg.lstsq(groups, indicators, rcond=None)[0]
    explained = 1.0 - float(np.sum(residuals**2)) / max(float(np.sum(within**2)), 1e-300)
    effects = effects / scale[:, None]
    return Block(columns, codes - centre, effects, max(explained, 0.0) if rank else 0.0)
