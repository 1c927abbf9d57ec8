"""Held-out R2 and prediction intervals agree with explicit loops."""

import numpy as np
import pytest
from factor_models import covariance, predict, random_model, simulate, student

from prosparse import Panel
from prosparse.data import DenseOperator, standardise
from prosparse.models.panel.factors import FactorModel
from prosparse.models.panel.greedy import Constraints, select_greedily
from prosparse.models.panel.heldout_r2 import (
    NORMAL_QUANTILE,
    FoldPath,
    evaluate_panel,
    evaluate_path,
    evaluate_rows,
    evaluated_sizes,
    posterior_weights,
)
from prosparse.models.panel.model import (
    Path,
    SelectionTask,
    assign_proxies,
    build_score_model,
    combine_folds,
    cross_validate,
    fold_model_tasks,
    select_and_evaluate,
    smallest_sufficient_size,
)


@pytest.fixture(params=[(24, 30), (70, 15)], ids=["wide", "tall"])
def case(request, rng, monkeypatch):
    """Cross-validation without repetition, in which each row is held out once."""
    monkeypatch.setattr("prosparse.models.panel.model.N_REPEATS", 1)
    n, p = request.param
    W, psi = random_model(rng, p)
    X = simulate(FactorModel(W, 0.3 * psi), n, rng)
    op, columns = standardise(X, True)
    Z = (X - X.mean(axis=0)) / X.std(axis=0) / columns.unit
    return op, Z, cross_validate(op, X.std(axis=0), None, 0)


@pytest.fixture
def fold_models(case):
    op, Z, cross_validated = case
    return [task() for task in fold_model_tasks(op, np.ones(Z.shape[1]), None, cross_validated, 0)]


def heldout_path(op, cross_validated, fold_models, constraints, count):
    task = SelectionTask(constraints, "reconstruction", has_given_size=False)
    found = [
        select_and_evaluate(op, cross_validated.variances, cross_validated.communality, model, task)
        for model in fold_models
    ]
    return combine_folds(found, cross_validated.squares, count)


def rows_of(fold, Z):
    return Z[fold.held_out] - Z[~fold.held_out].mean(axis=0)


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


def test_fold_models_do_not_depend_on_held_out_rows(rng):
    """Changing the held-out rows of the first fold changes the models of the others only."""
    W, psi = random_model(rng, 30)
    X = simulate(FactorModel(W, 0.3 * psi), 24, rng)
    op, _ = standardise(X, True)
    cross_validated = cross_validate(op, np.ones(30), None, 0)
    before = [task() for task in fold_model_tasks(op, np.ones(30), None, cross_validated, 0)]
    fold = cross_validated.folds[0]
    other = op.X.copy()
    other[fold.held_out] = rng.standard_normal((int(fold.held_out.sum()), 30))
    changed = DenseOperator(other)
    changed.remember_column_squares(op.column_squares())
    again = cross_validate(changed, np.ones(30), None, 0)
    after = [task() for task in fold_model_tasks(changed, np.ones(30), None, again, 0)]
    for number in (0, 1):
        one, other = (models[number].model.W for models in (before, after))
        differ = float(np.max(np.abs(one @ one.T - other @ other.T)))
        assert differ < 1e-8 if number == 0 else differ > 1e-3
    assert np.max(np.abs(cross_validated.communality - again.communality)) > 1e-3


def test_path_is_that_of_panels_selected_in_training_rows(case, fold_models):
    op, Z, cross_validated = case
    p = Z.shape[1]
    constraints = Constraints(6, np.zeros(0, int), np.ones(p, bool), np.ones(p), [])
    found = heldout_path(op, cross_validated, fold_models, constraints, 6)
    left, explained, attainable = np.zeros(6), np.zeros(6), np.zeros(6)
    for fold, _, part in fold_models:
        rows = rows_of(fold, Z)
        order = select_greedily(part, constraints, "reconstruction").order
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


def test_smallest_sufficient_size():
    std = np.array([0.1, 0.1, 0.1, 0.1, 0.0])
    path = Path(np.zeros(5), np.zeros(5), np.array([0.2, 0.6, 0.8, 0.7, 0.9]), std)
    every = np.arange(1, 6)
    assert smallest_sufficient_size(path, 0.7, every) == 2  # within one standard error
    assert smallest_sufficient_size(path, 0.7, every, 0.0) == 3
    assert smallest_sufficient_size(path, 0.7, every, -2.0) == 5
    assert smallest_sufficient_size(path, 0.85, every[3:]) == 5  # at least four
    assert smallest_sufficient_size(path, 0.95, every) == 5  # none is sufficient


def test_standard_error_of_the_relative_r2(rng):
    """It is that of a ratio of means over folds; repetitions do not reduce it."""
    explained, attainable = rng.uniform(2.0, 3.0, (400, 1)), rng.uniform(3.0, 4.0, (400, 1))
    paths = [
        FoldPath(np.zeros(1), e, a, np.zeros(1, int))
        for e, a in zip(explained, attainable, strict=True)
    ]
    found = combine_folds(paths, np.ones((400, 1)), 1)
    draws = rng.integers(400, size=(4000, 400))
    ratios = explained[draws, 0].sum(axis=1) / attainable[draws, 0].sum(axis=1)
    assert found.relative_r2[0] == pytest.approx(explained.sum() / attainable.sum())
    assert found.relative_r2_std[0] == pytest.approx(ratios.std(), rel=0.1)
    repeated = combine_folds(paths * 3, np.ones((1200, 1)), 1, n_repeats=3)
    assert repeated.relative_r2_std[0] == pytest.approx(found.relative_r2_std[0])


# --- scores


@pytest.mark.parametrize("q", [1, 3, 9])
def test_scores_reconstruct_the_posterior_mean(q, rng):
    """Along orthogonal axes."""
    model = random_model(rng, 12, 5)
    panel = rng.permutation(12)[:q]
    weights, loadings, variances = build_score_model(model, panel)
    sigma = covariance(model)
    d = min(q, 5)
    assert weights.shape == (d, q)
    np.testing.assert_allclose(loadings @ loadings.T, np.eye(d), atol=1e-10)
    expected = model.W @ model.W[panel].T @ np.linalg.inv(sigma[np.ix_(panel, panel)])
    np.testing.assert_allclose(loadings.T @ weights, expected, atol=1e-9)
    np.testing.assert_allclose(model.W @ posterior_weights(model, panel), expected, atol=1e-10)
    of_scores = weights @ sigma[np.ix_(panel, panel)] @ weights.T
    np.testing.assert_allclose(of_scores, np.diag(variances), atol=1e-9)
    assert np.all(np.diff(variances) <= 0)
    strongest = np.take_along_axis(loadings, np.abs(loadings).argmax(axis=1)[:, None], axis=1)
    assert np.all(strongest > 0)


def test_proxies_have_the_largest_model_correlation(rng):
    model, panel = random_model(rng), np.array([4, 9, 1])
    sigma = covariance(model)
    common = sigma - np.diag(model.psi)
    scale = np.sqrt(np.diag(sigma))
    correlation = np.abs(common / np.outer(scale, scale))
    r2 = np.linspace(0.0, 1.0, 12)
    communality = np.full(12, 0.6)
    found = assign_proxies(model, panel, r2, communality)
    for j in range(12):
        closest = panel[np.argmax(correlation[j, panel])]
        explained = r2[j] >= 0.3
        assert found[j] == (j if j in panel else closest if explained else -1)


# --- what is attainable of new rows


def strong_model(seed, p=60, r=4):
    rng = np.random.default_rng(seed)
    return FactorModel(rng.standard_normal((p, r)), rng.uniform(1.0, 4.0, p))


@pytest.mark.parametrize("distribution", ["Gaussian", "t"])
def test_intervals_cover_95_percent_of_new_entries(distribution):
    covered = []
    for seed in range(8):
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
