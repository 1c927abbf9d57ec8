"""E22: its draws, its error, its relaxed lasso, and what it says of the numbers."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import Lasso, LinearRegression
from sklearn.model_selection import KFold

from papers import regression_grid
from papers.regression_grid import (
    CONTAINERS,
    FIRST,
    OURS,
    RANDOM,
    RATIOS,
    RELAXED,
    Found,
    RelaxedLassoCV,
    Scored,
    calibrated,
    claims_of,
    coefficients,
    coefficients_covered,
    draw,
    fit_ours,
    found_in,
    grid,
    missing_peers,
    published,
    read_peers,
    relative_error,
    remarks_on,
    rows_of_uncertainty,
    write_peers,
)
from prosparse import SpinyRegressor


@pytest.fixture
def only_ours(monkeypatch):
    monkeypatch.setattr(regression_grid, "peers", lambda: {RELAXED: SpinyRegressor()})


def test_the_relative_error_is_that_of_many_new_rows(rng):
    truth = draw("100 x 10", 1.0, FIRST, 0)
    coef = truth.coef + 0.5 * rng.standard_normal(10)
    # neighbours correlate by .35, whatever `draw` does: an autoregression of order one
    rows = rng.standard_normal((200_000, 10))
    for j in range(1, 10):
        rows[:, j] = 0.35 * rows[:, j - 1] + np.sqrt(1 - 0.35**2) * rows[:, j]
    y = rows @ truth.coef + np.sqrt(truth.sigma2) * rng.standard_normal(200_000)
    sampled = np.mean((y - rows @ coef) ** 2) / truth.sigma2
    assert relative_error(coef, truth) == pytest.approx(sampled, rel=0.01)
    assert relative_error(truth.coef, truth) == 1.0
    # without any variable: 1 + the ratio
    assert relative_error(np.zeros(10), truth) == pytest.approx(2.0)


def test_draws_are_as_described():
    truth = draw("500 x 100", RATIOS[4], FIRST, 3)
    assert truth.X.shape == (500, 100)
    assert truth.Sigma[3, 5] == pytest.approx(0.35**2)
    np.testing.assert_array_equal(np.flatnonzero(truth.coef), np.arange(5))
    np.testing.assert_array_equal(truth.coef[:5], 1.0)
    assert np.abs(np.cov(truth.X.T) - truth.Sigma).max() < 0.25
    noise = np.concatenate([truth.y - truth.X @ truth.coef, truth.new_y - truth.new_X @ truth.coef])
    assert noise.var() == pytest.approx(truth.sigma2, rel=0.15)
    assert truth.coef @ truth.Sigma @ truth.coef / truth.sigma2 == pytest.approx(RATIOS[4])
    scattered = [draw("500 x 100", RATIOS[4], RANDOM, seed).coef for seed in range(4)]
    assert all(np.sum(np.abs(coef)) == 5 == np.count_nonzero(coef) for coef in scattered)
    assert len({tuple(np.flatnonzero(coef)) for coef in scattered}) == 4
    assert {-1.0, 1.0} <= set(np.concatenate(scattered))


def test_every_cell_has_draws_of_its_own():
    given = draw("100 x 10", RATIOS[0], FIRST, 0)
    np.testing.assert_array_equal(given.y, draw("100 x 10", RATIOS[0], FIRST, 0).y)
    for ratio, kind, seed in ((RATIOS[1], FIRST, 0), (RATIOS[0], RANDOM, 0), (RATIOS[0], FIRST, 1)):
        assert not np.any(given.X == draw("100 x 10", ratio, kind, seed).X)


def slow_relaxed_lasso(X, y, alphas, blends, folds):
    """One fit for each penalty, blend and fold, from the definition."""

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
def test_the_relaxed_lasso_is_the_slow_one(seed):
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


def test_a_draw_can_be_sent_to_another_process():
    call, back = pickle.loads(pickle.dumps((fit_ours, fit_ours("100 x 10", RATIOS[9], RANDOM, 1))))
    again = call("100 x 10", RATIOS[9], RANDOM, 1)
    assert back.score[:3] == again.score[:3]
    assert 0.8 < back.covered <= 1.0
    assert back.score.F > 0.5
    assert back.intervals[2, 0] == 10


def test_coefficients_are_counted_in_their_intervals():
    given = SimpleNamespace(
        support_=np.array([True, True, False, False]),
        coef_interval=lambda level: np.array([[0.0, level], [1.0, 2.0], [0.0, 0.0], [0.0, 0.0]]),
    )
    found = coefficients_covered(given, np.array([0.95, 0.9, 1.0, 0.0]))
    np.testing.assert_array_equal(found, [[2, 1], [3, 1], [4, 2]])


def test_scaled_columns_give_coefficients_of_the_table(rng):
    X = rng.standard_normal((60, 3)) * [1.0, 10.0, 0.1] + 5.0
    y = X @ [1.0, 0.2, 30.0] + 0.01 * rng.standard_normal(60)
    for name, model in {OURS: SpinyRegressor(), **regression_grid.peers()}.items():
        np.testing.assert_allclose(
            coefficients(model.fit(X, y)), [1.0, 0.2, 30.0], rtol=0.05, err_msg=name
        )


def test_bins_of_probabilities_count_what_is_true():
    table = calibrated(np.array([0.0, 0.05, 0.1, 0.95, 1.0]), np.array([0, 1, 0, 1, 1], bool))
    np.testing.assert_allclose(table[0], [2, 0.05, 1])
    np.testing.assert_allclose(table[1], [1, 0.1, 0])
    np.testing.assert_allclose(table[9], [2, 1.95, 2])
    assert table[:, 0].sum() == 5


def test_rows_of_uncertainty(only_ours):
    cells = grid([(RANDOM, "100 x 10", RATIOS[9])], 1, {})
    table = calibrated(np.array([0.02, 0.98]), np.array([False, True]))
    intervals = np.array([[2.0, 1.0], [0.0, 0.0], [4.0, 3.0]])
    ours = cells[0].ours._replace(calibration=table, intervals=intervals)
    cells = [cells[0]._replace(ours=ours)]
    shares = [row.ours for row in rows_of_uncertainty(cells, found_in(cells))]
    assert shares == [ours.covered, 0.5, 0.0, 0.75, 0.0, 1.0]


def test_scores_of_peers_come_back_from_their_file(tmp_path, monkeypatch):
    """And only draws that the file lacks are fitted."""
    place, asked = (FIRST, "100 x 10", RATIOS[8]), []

    def fit(*call):
        asked.append(call)
        return {RELAXED: Scored(1.0 + call[3] / 3.0, 4, 2 / 3, 0.5), "new": Scored(1.1, 1, 0.1, 0)}

    monkeypatch.setattr(regression_grid, "fit_peers", fit)
    at = tmp_path / "peers.json"
    assert read_peers(at) == {}
    write_peers(at, grid([place], 2, {}), {"abess": "1.2"})
    assert len(asked) == 2
    known = read_peers(at)
    assert known["100 x 10", RATIOS[8], FIRST, 1][RELAXED] == Scored(1.333333, 4, 0.666667, 0.5)
    del known["100 x 10", RATIOS[8], FIRST, 0]["new"]  # a package that another machine lacked
    cells = grid([place], 3, known)
    assert asked[2:] == [("100 x 10", RATIOS[8], FIRST, 2)]
    assert [set(one.scores) for one in cells] == [{OURS, RELAXED}] * 3


def invented(ours, covered=0.95, F=0.9):
    """One cell of each kind: the relaxed lasso at 1.5, ours as given."""
    places = [(kind, "100 x 10", RATIOS[5]) for kind in CONTAINERS]
    return Found(
        {at: {OURS: error, RELAXED: 1.5} for at, error in zip(places, ours, strict=True)},
        {at: {OURS: F, RELAXED: 0.9} for at in places},
        dict.fromkeys(places, covered),
        np.array([[100.0, 100.0 * covered], [5.0, 5.0], [900.0, 900.0]]),
        np.column_stack([np.full(10, 50.0), 50 * np.arange(10) / 10, 50 * np.arange(10) / 10]),
    )


def test_claims_follow_the_numbers():
    held = [claim.holds for claim in claims_of(invented((1.54, 1.34)))]
    assert held == [True] * 7
    held = [claim.holds for claim in claims_of(invented((1.6, 1.36), covered=0.91, F=0.87))]
    assert held == [False, True, False, False, False, False, True]
    worst = claims_of(invented((1.7, 1.0)))[1]
    assert not worst.holds
    assert worst.note == "1 of 1 are; largest +13.3% at 100 x 10, ratio 0.71"
    off = invented((1.54, 1.34))
    off.calibration[7, 2] += 3.0
    claim = claims_of(off)[-1]
    assert not claim.holds
    assert claim.note == "largest difference 0.060, from 0.7 on"


def test_remarks_say_what_falls_short_and_what_was_left_out():
    words = remarks_on(invented((1.7, 1.0)), {"a": "1.2", "b": "3"}, ("abess", "skglm"))
    assert "a higher one than the relaxed lasso in 1, most of all at 100 x 10, ratio 0.71" in words
    assert "lowest error of all methods in 1 of 1 cells" in words
    assert words.endswith("Peers: a 1.2, b 3. Left out, as not installed: abess and skglm.")
    assert "Left out" not in remarks_on(invented((1.7, 1.0)), {}, ())


def test_peers_that_are_not_installed_are_left_out(monkeypatch):
    monkeypatch.setattr(regression_grid, "find_spec", lambda name: None)
    assert missing_peers() == ("abess", "skglm")
    assert set(regression_grid.peers()) == {RELAXED, "lasso", "ARD"}
    assert set(regression_grid.versions_of_peers()) == {"scikit-learn"}


def test_published_figures_stand_beside_the_first_grid_alone():
    assert published(RELAXED, FIRST, "50 x 1000", [RATIOS[8], RATIOS[9]]) == pytest.approx(1.374)
    assert published(RELAXED, RANDOM, "50 x 1000", [RATIOS[8]]) is None
    assert published(OURS, FIRST, "50 x 1000", [RATIOS[8]]) is None


def test_means_are_over_the_draws_of_a_place(only_ours):
    place = (FIRST, "100 x 10", RATIOS[8])
    cells = grid([place], 2, {})
    found = found_in(cells)
    mean = (cells[0].scores[OURS].error + cells[1].scores[OURS].error) / 2
    assert found.error[place][OURS] == pytest.approx(mean)
    assert found.apart(place) == 0.0  # both names are ours here
