"""Held-out R2 and prediction intervals agree with explicit loops."""

import numpy as np
import pytest
from factor_models import predict, rows_of, simulate, student

from prosparse import Panel
from prosparse.models.panel.factors import FactorModel
from prosparse.models.panel.heldout_r2 import (
    NORMAL_QUANTILE,
    evaluate_panel,
    evaluate_path,
    evaluate_rows,
    evaluated_sizes,
)


def test_path_agrees_with_regressions(case, rng):
    op, Z, cross_validated = case
    order, sizes = rng.permutation(Z.shape[1])[:9], np.array([1, 2, 5, 9])
    for fold, part, squares in zip(
        cross_validated.folds, cross_validated.fold_models, cross_validated.squares, strict=True
    ):
        found = evaluate_path(op, fold, part, order, squares, cross_validated.communality, sizes)
        rows = rows_of(fold, Z)
        for place, q in enumerate(sizes):
            rest = np.setdiff1d(np.arange(Z.shape[1]), order[:q])
            left = np.sum((rows - predict(part, order[:q], rows))[:, rest] ** 2)
            all_rest = np.sum(rows[:, rest] ** 2)
            assert found.r2[place] == pytest.approx(1 - left / np.sum(rows**2), abs=1e-9)
            assert found.explained[place] == pytest.approx(all_rest - left, abs=1e-9)
            attainable = np.sum(
                cross_validated.communality[rest] * np.sum(rows[:, rest] ** 2, axis=0)
            )
            assert found.attainable[place] == pytest.approx(attainable, abs=1e-9)


def test_evaluation_of_a_panel(case):
    op, Z, cross_validated = case
    n, p = Z.shape
    panel = np.array([7, 2, 11])
    found = evaluate_panel(
        op, cross_validated.folds, cross_validated.fold_models, panel, cross_validated.squares, 0
    )
    rest = np.setdiff1d(np.arange(p), panel)
    errors, centred = np.zeros((n, p)), np.zeros((n, p))
    for fold, part in zip(cross_validated.folds, cross_validated.fold_models, strict=True):
        rows = rows_of(fold, Z)
        centred[fold.held_out] = rows
        errors[fold.held_out] = rows - predict(part, panel, rows)
    errors[:, panel] = 0.0
    share = 1.0 - np.sum(errors**2, axis=0) / np.sum(centred**2, axis=0)
    np.testing.assert_allclose(found.r2, share, atol=1e-9)
    np.testing.assert_array_equal(found.r2[panel], 1.0)
    panels = [panel] * len(cross_validated.folds)
    by_row = evaluate_rows(op, cross_validated.folds, cross_validated.fold_models, panels)
    np.testing.assert_allclose(by_row[:, 0], np.sum(errors**2, axis=1), atol=1e-9)
    np.testing.assert_allclose(by_row[:, 1], np.sum(centred**2, axis=1), atol=1e-9)
    # Residuals of each fold relative to the standard deviations of the other folds.
    ratios = []
    for fold in cross_validated.folds:
        others = errors[~fold.held_out][:, rest]
        ratios.append(np.abs(errors[fold.held_out][:, rest]) / np.sqrt(np.mean(others**2, axis=0)))
    factor = np.quantile(np.concatenate(ratios), 0.95) / NORMAL_QUANTILE
    expected = factor * np.sqrt(np.mean(errors**2, axis=0))
    np.testing.assert_allclose(found.residual_std, expected, rtol=1e-8, atol=1e-12)


def test_panel_of_all_columns_has_no_residuals(case):
    op, Z, cross_validated = case
    everything = np.arange(Z.shape[1])
    found = evaluate_panel(
        op,
        cross_validated.folds,
        cross_validated.fold_models,
        everything,
        cross_validated.squares,
        0,
    )
    np.testing.assert_array_equal(found.r2, 1.0)
    np.testing.assert_array_equal(found.residual_std, 0.0)


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, [1]), (5, [1, 2, 3, 4, 5]), (20, list(range(1, 21))), (24, [*range(1, 21), 22, 24])],
)
def test_evaluated_sizes(count, expected):
    assert evaluated_sizes(count).tolist() == expected


def test_sizes_above_twenty_grow_by_a_ratio():
    sizes = evaluated_sizes(300)
    assert sizes[-1] == 300
    large = sizes[sizes >= 20]
    assert np.all(large[1:] / large[:-1] <= 1.08 + 1.0 / large[:-1])
    assert sizes.size < 60


def strong_model(seed, p=60, r=4):
    rng = np.random.default_rng(seed)
    return FactorModel(rng.standard_normal((p, r)), rng.uniform(1.0, 4.0, p))


@pytest.mark.parametrize("distribution", ["Gaussian", "t"])
def test_intervals_cover_95_percent_of_new_entries(distribution):
    covered = []
    for seed in range(4):
        rng = np.random.default_rng([seed, 1])
        noise = student(rng) if distribution == "t" else None
        model = strong_model(seed)
        X, new = simulate(model, 150, rng, noise), simulate(model, 300, rng, noise)
        fitted = Panel(8).fit(X)
        predictions, std = fitted.predict_unmeasured(fitted.select(new), return_std=True)
        inside = np.abs(new[:, ~fitted.support_] - predictions) <= NORMAL_QUANTILE * std
        covered.append(inside.mean())
    assert 0.93 <= np.mean(covered) <= 0.97


@pytest.mark.parametrize("shape", [(120, 40), (60, 90)])
def test_path_agrees_with_the_score_of_new_rows(shape):
    n, p = shape
    heldout, scores = [], []
    for seed in range(6):
        rng, model = np.random.default_rng([seed, 2]), strong_model(seed, p)
        fitted = Panel(6).fit(simulate(model, n, rng))
        heldout.append(fitted.heldout_r2_path_[-1])
        scores.append(fitted.score(simulate(model, 1000, rng)))
    assert np.mean(heldout) == pytest.approx(np.mean(scores), abs=0.03)
    assert np.mean(scores) > 0.3
