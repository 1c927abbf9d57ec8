"""Panels of the folds agree with explicit loops."""

import numpy as np
from factor_models import predict, rows_of

from prosparse.models.panel.greedy import Constraints, select_greedily
from prosparse.models.panel.guide import SelectionTask, select_and_evaluate
from prosparse.models.panel.panel_size import combine_folds


def heldout_path(op, cross_validated, fold_models, constraints, count):
    task = SelectionTask(constraints, has_given_size=False)
    found = [
        select_and_evaluate(op, cross_validated.variances, cross_validated.communality, model, task)
        for model in fold_models
    ]
    return combine_folds(found, cross_validated.squares, count)


def test_path_is_that_of_panels_selected_in_training_rows(case, fold_models):
    op, Z, cross_validated = case
    p = Z.shape[1]
    constraints = Constraints(6, np.zeros(0, int), np.ones(p, bool), np.ones(p), [])
    found = heldout_path(op, cross_validated, fold_models, constraints, 6)
    left, explained, attainable = np.zeros(6), np.zeros(6), np.zeros(6)
    for fold, _, part in fold_models:
        rows = rows_of(fold, Z)
        order = select_greedily(part, constraints).order
        for q in range(6):
            rest = np.setdiff1d(np.arange(p), order[: q + 1])
            residual = np.sum((rows - predict(part, order[: q + 1], rows))[:, rest] ** 2)
            left[q] += residual
            explained[q] += np.sum(rows[:, rest] ** 2) - residual
            attainable[q] += np.sum(rows[:, rest] ** 2 @ cross_validated.communality[rest])
    np.testing.assert_allclose(found.r2, 1.0 - left / cross_validated.squares.sum(), atol=1e-8)
    np.testing.assert_allclose(found.relative_r2, explained / attainable, atol=1e-7)
    assert np.all(found.r2_std >= 0)


def test_largest_panel_is_used_if_bundles_prevent_the_size(case, fold_models):
    op, Z, cross_validated = case
    p = Z.shape[1]
    allowed = np.isin(np.arange(p), [3, 4])
    pair = Constraints(3, np.zeros(0, int), allowed, np.ones(p), [np.array([3, 4])])
    found = heldout_path(op, cross_validated, fold_models, pair, 3)
    assert found.r2.shape == found.r2_std.shape == found.relative_r2.shape == (3,)
    assert found.r2[2] == found.r2[1] > found.r2[0]
