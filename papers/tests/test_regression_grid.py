"""E22: simulated data, test error, relaxed lasso, claims and remarks."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import Lasso, LinearRegression
from sklearn.model_selection import KFold

from papers import regression_grid
from papers.regression_grid import (
    DESIGNS,
    FIRST,
    OURS,
    RANDOM,
    RELAXED,
    SNRS,
    Averages,
    RelaxedLassoCV,
    Score,
    average,
    calibration_table,
    coefficients,
    count_covered,
    describe,
    fit_spiny,
    grid,
    make_claims,
    missing_packages,
    published,
    read_competing,
    relative_error,
    simulate,
    uncertainty_rows,
    write_competing,
)
from prosparse import SpinyRegressor


@pytest.fixture
def one_method(monkeypatch):
    monkeypatch.setattr(regression_grid, "competing_methods", lambda: {RELAXED: SpinyRegressor()})


def test_relative_error_matches_simulated_test_error(rng):
    truth = simulate("100 x 10", 1.0, FIRST, 0)
    coef = truth.coef + 0.5 * rng.standard_normal(10)
    # An AR(1) process gives the same correlations independently of `simulate`.
    rows = rng.standard_normal((200_000, 10))
    for j in range(1, 10):
        rows[:, j] = 0.35 * rows[:, j - 1] + np.sqrt(1 - 0.35**2) * rows[:, j]
    y = rows @ truth.coef + np.sqrt(truth.sigma2) * rng.standard_normal(200_000)
    sampled = np.mean((y - rows @ coef) ** 2) / truth.sigma2
    assert relative_error(coef, truth) == pytest.approx(sampled, rel=0.01)
    assert relative_error(truth.coef, truth) == 1.0
    # The empty model has error 1 + SNR.
    assert relative_error(np.zeros(10), truth) == pytest.approx(2.0)


def test_simulated_data_have_the_stated_parameters():
    truth = simulate("500 x 100", SNRS[4], FIRST, 3)
    assert truth.X.shape == (500, 100)
    assert truth.Sigma[3, 5] == pytest.approx(0.35**2)
    np.testing.assert_array_equal(np.flatnonzero(truth.coef), np.arange(5))
    np.testing.assert_array_equal(truth.coef[:5], 1.0)
    assert np.abs(np.cov(truth.X.T) - truth.Sigma).max() < 0.25
    noise = np.concatenate(
        [truth.y - truth.X @ truth.coef, truth.test_y - truth.test_X @ truth.coef]
    )
    assert noise.var() == pytest.approx(truth.sigma2, rel=0.15)
    assert truth.coef @ truth.Sigma @ truth.coef / truth.sigma2 == pytest.approx(SNRS[4])
    scattered = [simulate("500 x 100", SNRS[4], RANDOM, seed).coef for seed in range(4)]
    assert all(np.sum(np.abs(coef)) == 5 == np.count_nonzero(coef) for coef in scattered)
    assert len({tuple(np.flatnonzero(coef)) for coef in scattered}) == 4
    assert {-1.0, 1.0} <= set(np.concatenate(scattered))


def test_cells_and_seeds_have_independent_data():
    given = simulate("100 x 10", SNRS[0], FIRST, 0)
    np.testing.assert_array_equal(given.y, simulate("100 x 10", SNRS[0], FIRST, 0).y)
    for snr, design, seed in ((SNRS[1], FIRST, 0), (SNRS[0], RANDOM, 0), (SNRS[0], FIRST, 1)):
        assert not np.any(given.X == simulate("100 x 10", snr, design, seed).X)


def slow_relaxed_lasso(X, y, alphas, blends, folds):
    """Fit each penalty, weight and fold separately, from the definition."""

    def fit(X, y, alpha, blend):
        lasso = Lasso(alpha=alpha, tol=1e-12, max_iter=100_000).fit(X, y)
        coef, active = lasso.coef_.copy(), lasso.coef_ != 0
        if active.any():
            least = LinearRegression().fit(X[:, active], y).coef_
            coef[active] = blend * coef[active] + (1 - blend) * least
        return coef, y.mean() - X.mean(axis=0) @ coef

    def error(alpha, blend):
        total = 0.0
        for train, test in KFold(folds).split(X):
            coef, intercept = fit(X[train], y[train], alpha, blend)
            total += np.sum((y[test] - X[test] @ coef - intercept) ** 2)
        return total

    best = min(((a, b) for a in alphas for b in blends), key=lambda pair: error(*pair))
    return (*best, *fit(X, y, *best))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_relaxed_lasso_matches_its_definition(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((24, 4)) + 1.0
    y = X[:, 0] + 0.6 * X[:, 1] + rng.standard_normal(24) + 2.0
    model = RelaxedLassoCV(n_alphas=8, eps=0.05, blends=(0.0, 0.5, 1.0), n_folds=4, tol=1e-12)
    model.fit(X, y)
    largest = np.max(np.abs((X - X.mean(axis=0)).T @ (y - y.mean()))) / 24
    alphas = np.geomspace(largest, 0.05 * largest, 8)
    alpha, blend, coef, intercept = slow_relaxed_lasso(X, y, alphas, (0.0, 0.5, 1.0), 4)
    assert (model.alpha_, model.blend_) == (pytest.approx(alpha), blend)
    np.testing.assert_allclose(model.coef_, coef, atol=1e-6)
    np.testing.assert_allclose(model.predict(X), X @ coef + intercept, atol=1e-6)


def test_evaluation_is_picklable_and_reproducible():
    call, back = pickle.loads(pickle.dumps((fit_spiny, fit_spiny("100 x 10", SNRS[9], RANDOM, 1))))
    again = call("100 x 10", SNRS[9], RANDOM, 1)
    assert back.score[:3] == again.score[:3]
    assert 0.8 < back.coverage <= 1.0
    assert back.score.F > 0.5
    assert back.intervals[2, 0] == 10


def test_count_covered():
    given = SimpleNamespace(
        support_=np.array([True, True, False, False]),
        coef_interval=lambda level: np.array([[0.0, level], [1.0, 2.0], [0.0, 0.0], [0.0, 0.0]]),
    )
    counts = count_covered(given, np.array([0.95, 0.9, 1.0, 0.0]))
    np.testing.assert_array_equal(counts, [[2, 1], [3, 1], [4, 2]])


def test_coefficients_are_in_units_of_the_data(rng):
    X = rng.standard_normal((60, 3)) * [1.0, 10.0, 0.1] + 5.0
    y = X @ [1.0, 0.2, 30.0] + 0.01 * rng.standard_normal(60)
    for name, model in {OURS: SpinyRegressor(), **regression_grid.competing_methods()}.items():
        np.testing.assert_allclose(
            coefficients(model.fit(X, y)), [1.0, 0.2, 30.0], rtol=0.05, err_msg=name
        )


def test_calibration_table():
    table = calibration_table(
        np.array([0.0, 0.05, 0.1, 0.95, 1.0]), np.array([0, 1, 0, 1, 1], bool)
    )
    np.testing.assert_allclose(table[0], [2, 0.05, 1])
    np.testing.assert_allclose(table[1], [1, 0.1, 0])
    np.testing.assert_allclose(table[9], [2, 1.95, 2])
    assert table[:, 0].sum() == 5


def test_uncertainty_rows(one_method):
    cells = grid([(RANDOM, "100 x 10", SNRS[9])], 1, {})
    table = calibration_table(np.array([0.02, 0.98]), np.array([False, True]))
    intervals = np.array([[2.0, 1.0], [0.0, 0.0], [4.0, 3.0]])
    ours = cells[0].ours._replace(calibration=table, intervals=intervals)
    cells = [cells[0]._replace(ours=ours)]
    values = [row.ours for row in uncertainty_rows(cells, average(cells))]
    assert values == [ours.coverage, 0.5, 0.0, 0.75, 0.0, 1.0]


def test_stored_scores_are_reused(tmp_path, monkeypatch):
    """Competing methods are fitted only to datasets that the file lacks."""
    cell, calls = (FIRST, "100 x 10", SNRS[8]), []

    def fit(*call):
        calls.append(call)
        return {RELAXED: Score(1.0 + call[3] / 3.0, 4, 2 / 3, 0.5), "new": Score(1.1, 1, 0.1, 0)}

    monkeypatch.setattr(regression_grid, "fit_competing", fit)
    path = tmp_path / "competing.json"
    assert read_competing(path) == {}
    write_competing(path, grid([cell], 2, {}), {"abess": "1.2"})
    assert len(calls) == 2
    known = read_competing(path)
    assert known["100 x 10", SNRS[8], FIRST, 1][RELAXED] == Score(1.333333, 4, 0.666667, 0.5)
    del known["100 x 10", SNRS[8], FIRST, 0]["new"]  # This package was missing on another machine.
    cells = grid([cell], 3, known)
    assert calls[2:] == [("100 x 10", SNRS[8], FIRST, 2)]
    assert [set(cell.scores) for cell in cells] == [{OURS, RELAXED}] * 3


def make_averages(ours, coverage=0.95, F=0.9):
    """Return one cell per design: the relaxed lasso at 1.5, SpinyRegressor at ``ours``."""
    cells = [(design, "100 x 10", SNRS[5]) for design in DESIGNS]
    return Averages(
        {cell: {OURS: error, RELAXED: 1.5} for cell, error in zip(cells, ours, strict=True)},
        {cell: {OURS: F, RELAXED: 0.9} for cell in cells},
        dict.fromkeys(cells, coverage),
        np.array([[100.0, 100.0 * coverage], [5.0, 5.0], [900.0, 900.0]]),
        np.column_stack([np.full(10, 50.0), 50 * np.arange(10) / 10, 50 * np.arange(10) / 10]),
    )


def test_claims_follow_the_numbers():
    held = [claim.holds for claim in make_claims(make_averages((1.54, 1.34)))]
    assert held == [True] * 7
    held = [claim.holds for claim in make_claims(make_averages((1.6, 1.36), coverage=0.91, F=0.87))]
    assert held == [False, True, False, False, False, False, True]
    worst = make_claims(make_averages((1.7, 1.0)))[1]
    assert not worst.holds
    assert worst.note == "exceeded in 1 of 1 cells; largest +13.3% at 100 x 10, SNR 0.71"
    off = make_averages((1.54, 1.34))
    off.calibration[7, 2] += 3.0
    claim = make_claims(off)[-1]
    assert not claim.holds
    assert claim.note == "largest difference 0.060, in the bin from 0.7"


def test_remarks_report_limitations_and_missing_packages():
    remarks = describe(make_averages((1.7, 1.0)), {"a": "1.2", "b": "3"}, ("abess", "skglm"))
    assert "larger error than the relaxed lasso in 1; the excess is largest at 100 x 10" in remarks
    assert "smallest error in 1 of 1 cells" in remarks
    assert remarks.endswith("Packages: a 1.2, b 3. Omitted because not installed: abess and skglm.")
    assert "Omitted" not in describe(make_averages((1.7, 1.0)), {}, ())


def test_missing_packages_are_omitted(monkeypatch):
    monkeypatch.setattr(regression_grid, "find_spec", lambda name: None)
    assert missing_packages() == ("abess", "skglm")
    assert set(regression_grid.competing_methods()) == {RELAXED, "lasso", "ARD"}
    assert set(regression_grid.package_versions()) == {"scikit-learn"}


def test_published_errors_belong_to_the_first_design():
    assert published(RELAXED, FIRST, "50 x 1000", [SNRS[8], SNRS[9]]) == pytest.approx(1.374)
    assert published(RELAXED, RANDOM, "50 x 1000", [SNRS[8]]) is None
    assert published(OURS, FIRST, "50 x 1000", [SNRS[8]]) is None


def test_averages_over_the_datasets_of_a_cell(one_method):
    cell = (FIRST, "100 x 10", SNRS[8])
    cells = grid([cell], 2, {})
    averages = average(cells)
    mean = (cells[0].scores[OURS].error + cells[1].scores[OURS].error) / 2
    assert averages.error[cell][OURS] == pytest.approx(mean)
    assert averages.excess(cell) == 0.0  # Both names are SpinyRegressor here.
