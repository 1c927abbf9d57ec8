"""What panels recover in held-out rows, and how far predictions are off, against slow loops."""

import numpy as np
import pytest
from factor_models import covariance, drawn, predicted, random_model, student

from prosparse import Panel
from prosparse.data import DenseOperator, standardise
from prosparse.models.panel.factors import Factors
from prosparse.models.panel.greedy import Wishes, choose
from prosparse.models.panel.heldout_r2 import (
    TWO_SIDED_95,
    judge,
    posterior,
    shares_along,
    sizes_up_to,
)
from prosparse.models.panel.model import (
    Path,
    enough,
    latents,
    learn_all,
    path_of,
    shares_of,
    stand_ins,
    trials_of,
)


@pytest.fixture(params=[(24, 30), (70, 15)], ids=["wide", "tall"])
def case(request, rng):
    n, p = request.param
    W, psi = random_model(rng, p)
    X = drawn(Factors(W, 0.3 * psi), n, rng)
    op, columns = standardise(X, True)
    Z = (X - X.mean(axis=0)) / X.std(axis=0) / columns.unit
    return op, Z, learn_all(op, X.std(axis=0), None, 0)


@pytest.fixture
def trials(case):
    op, Z, learned = case
    return [trial() for trial in trials_of(op, np.ones(Z.shape[1]), None, learned, 0)]


def recovery_path(op, learned, trials, wishes, count):
    found = [
        shares_of(op, learned.communality, trial, wishes, "reconstruction", count)
        for trial in trials
    ]
    return path_of(found, learned.squares, count)


def rows_of(fold, Z):
    return Z[fold.held_out] - Z[~fold.held_out].mean(axis=0)


def test_shares_along_an_order(case, rng):
    op, Z, learned = case
    order, sizes = rng.permutation(Z.shape[1])[:9], np.array([1, 2, 5, 9])
    for fold, part, squares in zip(learned.folds, learned.parts, learned.squares, strict=True):
        found = shares_along(op, fold, part, order, squares, learned.communality, sizes)
        rows = rows_of(fold, Z)
        for place, q in enumerate(sizes):
            rest = np.setdiff1d(np.arange(Z.shape[1]), order[:q])
            left = np.sum((rows - predicted(part, order[:q], rows))[:, rest] ** 2)
            all_rest = np.sum(rows[:, rest] ** 2)
            assert found.everything[place] == pytest.approx(1 - left / np.sum(rows**2), abs=1e-9)
            assert found.others[place] == pytest.approx(all_rest - left, abs=1e-9)
            promised = np.sum(learned.communality[rest] * np.sum(rows[:, rest] ** 2, axis=0))
            assert found.attainable[place] == pytest.approx(promised, abs=1e-9)


def test_trials_of_few_rows_do_not_see_the_rows_that_judge_them(rng):
    """Other held-out rows, the same model and communalities; not so where others were learned."""
    W, psi = random_model(rng, 30)
    X = drawn(Factors(W, 0.3 * psi), 24, rng)
    op, _ = standardise(X, True)
    learned = learn_all(op, np.ones(30), None, 0)
    before = [trial() for trial in trials_of(op, np.ones(30), None, learned, 0)]
    fold = learned.folds[0]
    other = op.X.copy()
    other[fold.held_out] = rng.standard_normal((int(fold.held_out.sum()), 30))
    changed = DenseOperator(other)
    changed.remember_column_squares(op.column_squares())
    again = learn_all(changed, np.ones(30), None, 0)
    after = [trial() for trial in trials_of(changed, np.ones(30), None, again, 0)]
    for number in (0, 1):  # what the first one knows is the same, what the second one knows is not
        one, other = (trials[number].model.W for trials in (before, after))
        differ = float(np.max(np.abs(one @ one.T - other @ other.T)))
        assert differ < 1e-8 if number == 0 else differ > 1e-3
    assert np.max(np.abs(learned.communality - again.communality)) > 1e-3


def test_the_path_is_that_of_panels_chosen_without_the_rows(case, trials):
    op, Z, learned = case
    p = Z.shape[1]
    wishes = Wishes(6, np.zeros(0, int), np.ones(p, bool), np.ones(p), [])
    found = recovery_path(op, learned, trials, wishes, 6)
    left, told, promised = np.zeros(6), np.zeros(6), np.zeros(6)
    for fold, _, part in trials:
        rows = rows_of(fold, Z)
        order = choose(part, wishes, "reconstruction").order
        for q in range(6):
            rest = np.setdiff1d(np.arange(p), order[: q + 1])
            missed = np.sum((rows - predicted(part, order[: q + 1], rows))[:, rest] ** 2)
            left[q] += missed
            told[q] += np.sum(rows[:, rest] ** 2) - missed
            promised[q] += np.sum(rows[:, rest] ** 2 @ learned.communality[rest])
    np.testing.assert_allclose(found.recovered, 1.0 - left / learned.squares.sum(), atol=1e-8)
    np.testing.assert_allclose(found.ratio, told / promised, atol=1e-7)
    assert np.all(found.spread >= 0)


def test_a_fold_whose_bundles_leave_no_panel_as_large(case, trials):
    """Its largest panel stands for those that are asked for."""
    op, Z, learned = case
    p = Z.shape[1]
    allowed = np.isin(np.arange(p), [3, 4])
    pair = Wishes(3, np.zeros(0, int), allowed, np.ones(p), [np.array([3, 4])])
    found = recovery_path(op, learned, trials, pair, 3)
    assert found.recovered.shape == found.spread.shape == found.ratio.shape == (3,)
    assert found.recovered[2] == found.recovered[1] > found.recovered[0]


def test_what_one_panel_recovers(case):
    op, Z, learned = case
    n, p = Z.shape
    panel = np.array([7, 2, 11])
    found = judge(op, learned.folds, learned.parts, panel, learned.squares, 0)
    rest = np.setdiff1d(np.arange(p), panel)
    errors, centred = np.zeros((n, p)), np.zeros((n, p))
    for fold, part in zip(learned.folds, learned.parts, strict=True):
        rows = rows_of(fold, Z)
        centred[fold.held_out] = rows
        errors[fold.held_out] = rows - predicted(part, panel, rows)
    errors[:, panel] = 0.0
    share = 1.0 - np.sum(errors**2, axis=0) / np.sum(centred**2, axis=0)
    np.testing.assert_allclose(found.recovered, share, atol=1e-9)
    np.testing.assert_array_equal(found.recovered[panel], 1.0)
    np.testing.assert_allclose(found.by_row[:, 0], np.sum(errors**2, axis=1), atol=1e-9)
    np.testing.assert_allclose(found.by_row[:, 1], np.sum(centred**2, axis=1), atol=1e-9)
    # entries of each fold in units of what the other folds leave
    ratios = []
    for fold in learned.folds:
        others = errors[~fold.held_out][:, rest]
        ratios.append(np.abs(errors[fold.held_out][:, rest]) / np.sqrt(np.mean(others**2, axis=0)))
    reach = np.quantile(np.concatenate(ratios), 0.95) / TWO_SIDED_95
    expected = reach * np.sqrt(np.mean(errors**2, axis=0))
    np.testing.assert_allclose(found.deviation, expected, rtol=1e-8, atol=1e-12)


def test_a_panel_of_all_columns_leaves_nothing(case):
    op, Z, learned = case
    everything = np.arange(Z.shape[1])
    found = judge(op, learned.folds, learned.parts, everything, learned.squares, 0)
    np.testing.assert_array_equal(found.recovered, 1.0)
    np.testing.assert_array_equal(found.deviation, 0.0)


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, [1]), (5, [1, 2, 3, 4, 5]), (20, list(range(1, 21))), (24, [*range(1, 21), 22, 24])],
)
def test_sizes_at_which_panels_are_judged(count, expected):
    assert sizes_up_to(count).tolist() == expected


def test_sizes_beyond_twenty_grow_in_equal_ratios():
    sizes = sizes_up_to(300)
    assert sizes[-1] == 300
    large = sizes[sizes >= 20]
    assert np.all(large[1:] / large[:-1] <= 1.08 + 1.0 / large[:-1])
    assert sizes.size < 60


def test_enough_is_the_smallest_size_that_recovers_so_much():
    path = Path(np.zeros(5), np.zeros(5), np.array([0.2, 0.6, 0.8, 0.7, 0.9]))
    every = np.arange(1, 6)
    assert enough(path, 0.6, every) == 2
    assert enough(path, 0.75, every) == 3
    assert enough(path, 0.75, every[3:]) == 5  # four must be kept
    assert enough(path, 0.95, every) == 5  # none does


# --- latent scores


@pytest.mark.parametrize("q", [1, 3, 9])
def test_latent_scores_of_a_panel(q, rng):
    """They rebuild what the expected z does, along axes that are apart from each other."""
    model = random_model(rng, 12, 5)
    panel = rng.permutation(12)[:q]
    filters, loadings, variances = latents(model, panel)
    sigma = covariance(model)
    d = min(q, 5)
    assert filters.shape == (d, q)
    np.testing.assert_allclose(loadings @ loadings.T, np.eye(d), atol=1e-10)
    expected = model.W @ model.W[panel].T @ np.linalg.inv(sigma[np.ix_(panel, panel)])
    np.testing.assert_allclose(loadings.T @ filters, expected, atol=1e-9)
    np.testing.assert_allclose(model.W @ posterior(model, panel), expected, atol=1e-10)
    of_scores = filters @ sigma[np.ix_(panel, panel)] @ filters.T
    np.testing.assert_allclose(of_scores, np.diag(variances), atol=1e-9)
    assert np.all(np.diff(variances) <= 0)
    strongest = np.take_along_axis(loadings, np.abs(loadings).argmax(axis=1)[:, None], axis=1)
    assert np.all(strongest > 0)


def test_stand_ins_are_the_closest_of_the_panel(rng):
    model, panel = random_model(rng), np.array([4, 9, 1])
    sigma = covariance(model)
    common = sigma - np.diag(model.psi)
    scale = np.sqrt(np.diag(sigma))
    correlation = np.abs(common / np.outer(scale, scale))
    recovered = np.linspace(0.0, 1.0, 12)
    communality = np.full(12, 0.6)
    found = stand_ins(model, panel, recovered, communality)
    for j in range(12):
        closest = panel[np.argmax(correlation[j, panel])]
        told = recovered[j] >= 0.3
        assert found[j] == (j if j in panel else closest if told else -1)


# --- what is promised of new rows


def strong_model(seed, p=60, r=4):
    rng = np.random.default_rng(seed)
    return Factors(rng.standard_normal((p, r)), rng.uniform(1.0, 4.0, p))


@pytest.mark.parametrize("law", ["Gaussian", "t"])
def test_intervals_hold_95_percent_of_new_entries(law):
    covered = []
    for seed in range(8):
        rng = np.random.default_rng([seed, 1])
        noise = student(rng) if law == "t" else None
        model = strong_model(seed)
        X, new = drawn(model, 150, rng, noise), drawn(model, 300, rng, noise)
        fitted = Panel(8).fit(X)
        middle, deviation = fitted.predict_unmeasured(fitted.select(new), return_std=True)
        inside = np.abs(new[:, ~fitted.support_] - middle) <= TWO_SIDED_95 * deviation
        covered.append(inside.mean())
    assert 0.93 <= np.mean(covered) <= 0.97


@pytest.mark.parametrize("shape", [(120, 40), (60, 90)])
def test_the_path_promises_what_new_rows_keep(shape):
    n, p = shape
    promised, kept = [], []
    for seed in range(6):
        rng, model = np.random.default_rng([seed, 2]), strong_model(seed, p)
        fitted = Panel(6).fit(drawn(model, n, rng))
        promised.append(fitted.heldout_r2_path_[-1])
        kept.append(fitted.score(drawn(model, 1000, rng)))
    assert np.mean(promised) == pytest.approx(np.mean(kept), abs=0.03)
    assert np.mean(kept) > 0.3
