"""Fitted attributes of `Panel` for the columns and units of the data matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...data import Columns
from ...data.arrays import to_numpy
from ...data.row_groups import RowGroups
from .folds import can_hold_out_groups
from .heldout_r2 import NORMAL_QUANTILE
from .model import Solution


def expand(values: np.ndarray, columns: Columns) -> np.ndarray:
    """Add zeros for constant columns."""
    full = np.zeros((*values.shape[:-1], columns.mean.shape[0]))
    full[..., columns.varying_index] = values
    return full


def relevance_order(solution: Solution) -> tuple[np.ndarray, np.ndarray]:
    """Sort the varying columns by relevance; also return their relevance.

    The panel comes first, in the order of selection, and others by decreasing communality.
    """
    communality, panel = solution.guide.communality, solution.panel
    others = np.setdiff1d(np.arange(communality.size), panel)
    others = others[np.argsort(-communality[others], kind="stable")]
    relevance = communality / max(float(communality.max()), np.finfo(float).tiny)
    relevance[panel] = np.maximum(relevance[panel], np.finfo(np.float32).eps)
    return np.concatenate([panel, others]), relevance


def describe_solution(
    solution: Solution, columns: Columns, rows: RowGroups | None
) -> dict[str, Any]:
    """Convert the solution to fitted attributes."""
    kept, panel, path = columns.varying_index, solution.panel, solution.path
    variances, communality = solution.cross_validated.variances, solution.guide.communality
    total = float(variances.sum())
    ascending = np.argsort(panel)
    proxy = np.full(columns.mean.shape[0], -1)
    proxy[kept] = np.where(solution.proxies >= 0, kept[solution.proxies], -1)
    r2 = expand(solution.evaluation.r2, columns)
    margin = NORMAL_QUANTILE * expand(solution.calibration.r2_std, columns)
    limits = np.minimum(np.stack([r2, r2 - margin, r2 + margin], axis=1), 1.0)
    covariance = solution.panel_covariance[np.ix_(ascending, ascending)]
    return {
        "empirical_weight_": solution.guide.weight,
        "optimality_gap_": solution.optimality_gap,
        "n_selected_": int(panel.size),
        "n_components_": solution.scores.weights.shape[0],
        "order_": columns.values(kept[panel]),
        "heldout_r2_path_": columns.values(path.r2),
        "heldout_r2_path_std_": columns.values(path.r2_std),
        "relative_r2_path_": columns.values(path.relative_r2),
        "relative_r2_path_std_": columns.values(path.relative_r2_std),
        "n_selected_range_": columns.values(np.array(solution.size_range)),
        "bound_path_": columns.values(solution.selection.bounds),
        "criterion_path_": columns.values(np.cumsum(solution.selection.gains)),
        "attainable_r2_": float(communality @ variances) / total,
        "heldout_r2_": columns.numbers(r2),
        "communality_": columns.numbers(expand(communality, columns)),
        "proxy_": columns.values(proxy),
        "loadings_": columns.numbers(expand(solution.scores.loadings, columns)),
        "explained_variance_": columns.numbers(columns.variance(solution.scores.variances)),
        "explained_variance_ratio_": columns.numbers(solution.scores.variances / total),
        "r2_per_variable_": columns.numbers(limits),
        "panel_covariance_": columns.numbers(columns.variance(covariance)),
        **_describe_intervals(solution, columns),
        **_describe_groups(solution, rows),
    }


def _describe_intervals(solution: Solution, columns: Columns) -> dict[str, Any]:
    """Return the widths of prediction intervals and their coverage."""
    calibration = solution.calibration
    unit = columns.length(to_numpy(columns.scale))
    coverage = np.ones(unit.size)
    coverage[columns.varying_index] = calibration.coverage
    std = expand(solution.evaluation.residual_std, columns)
    return {
        "unmeasured_std_": columns.numbers(std * unit),
        "interval_width_": columns.numbers(expand(calibration.width, columns) * unit),
        "interval_exponent_": calibration.exponent,
        "heldout_coverage_": columns.numbers(coverage),
        "heldout_coverage_by_error_": columns.values(calibration.coverage_by_fifth),
    }


def _describe_groups(solution: Solution, rows: RowGroups | None) -> dict[str, Any]:
    """Return the fitted attributes with one result per group."""
    r2_by_group: dict[str, float] = {}
    coverage_by_group: dict[str, float] = {}
    results = {
        "heldout_r2_by_group_": r2_by_group,
        "heldout_coverage_by_group_": coverage_by_group,
        "held_out_": "rows",
    }
    if rows is None or solution.row_squares is None:
        return results
    if can_hold_out_groups(rows.codes):
        results["held_out_"] = "groups"
    n_groups, calibration = rows.sizes.size, solution.calibration
    residual, squares = (
        np.bincount(rows.codes, weights=values) for values in solution.row_squares.T
    )
    r2 = 1.0 - residual / np.maximum(squares, np.finfo(float).tiny)
    codes = rows.codes[calibration.rows]
    covered = np.bincount(codes, weights=calibration.row_coverage, minlength=n_groups)
    n_rows = np.bincount(codes, minlength=n_groups)
    for label, value, total, count in zip(rows.labels, r2, covered, n_rows, strict=True):
        r2_by_group[str(label)] = float(value)
        if count:
            coverage_by_group[str(label)] = float(total / count)
    return results
