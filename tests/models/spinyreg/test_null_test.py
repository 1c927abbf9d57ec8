"""Permutation test of the null hypothesis, and the weight of the posterior."""

import itertools
import math
import warnings

import numpy as np
import pytest
from scipy.stats import binom

from prosparse import (
    DuplicateRowsWarning,
    NoStructureWarning,
    OutlyingRowsWarning,
    SpinyClassifier,
    SpinyRegressor,
)
from prosparse.data import standardise
from prosparse.models.spinyreg import null_test
from prosparse.models.spinyreg.null_test import NullData, NullTest, Statistic, run_null_test
from prosparse.models.spinyreg.size_prior import log_size_prior


def make_data(X, y, weights=None, groups=None, with_gram=True):
    op, _ = standardise(X, True, weights, centre=True)
    Y = np.reshape(y, (len(y), -1)).astype(float)
    root = None if weights is None else np.sqrt(weights)
    G = np.asarray(op.gram()) if with_gram else None
    return NullData(op, Y, root, len(y) if weights is None else weights.sum(), 1, groups, G)


def log_factor(X, Y, v, g):
    """Compute the log Bayes factor of a set by its definition."""
    X = X[:, list(v)] - X[:, list(v)].mean(axis=0)
    Y = Y - Y.mean(axis=0)
    n, m = Y.shape
    total = -0.5 * m * len(v) * math.log1p(g)
    for y in Y.T:
        fitted = X @ np.linalg.lstsq(X, y, rcond=None)[0]
        total -= 0.5 * (n - 1) * math.log(1.0 - g / (1.0 + g) * (fitted @ fitted) / (y @ y))
    return total


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("with_gram", [True, False])
def test_statistic_equals_the_sum_over_sets(m, with_gram, rng):
    """The forward selection from every variable is repeated with least squares."""
    n, p = 20, 5
    X = rng.standard_normal((n, p))
    X[:, 1] = X[:, 0] + 0.3 * rng.standard_normal(n)  # a pair of correlated variables
    Y = X[:, :1] - X[:, 1:2] + rng.standard_normal((n, m))
    data = make_data(X, Y, with_gram=with_gram)
    log_prior = log_size_prior(p)
    log_prior -= math.log(1.0 - math.exp(log_prior[0]))
    grid = [1.0, 4.0, 16.0]

    def averaged(v):
        return np.logaddexp.reduce([log_factor(X, Y, v, g) for g in grid]) - math.log(3)

    singles = [log_factor(X, Y, [j], 1.0) for j in range(p)]
    terms = [np.logaddexp.reduce(singles) - math.log(p)]
    paths = [[j] for j in range(p)]
    Yc = Y - Y.mean(axis=0)
    for q in range(2, p + 1):

        def explained(v):
            A = X[:, v] - X[:, v].mean(axis=0)
            return ((A @ np.linalg.lstsq(A, Yc, rcond=None)[0]) ** 2 / (Yc**2).sum(axis=0)).sum()

        paths = [
            v + [max((j for j in range(p) if j not in v), key=lambda j, v=v: explained([*v, j]))]
            for v in paths
        ]
        terms.append(max(averaged(v) for v in paths) + log_prior[q])
    if with_gram:
        terms.append(averaged([0, 1]) + log_prior[2])
    expected = np.logaddexp.reduce(terms) - math.log(2)
    observed = null_test.observed_responses(data)
    assert Statistic(data)(observed)[0] == pytest.approx(expected)


def test_expected_bayes_factor_is_at_most_one(rng):
    """For Gaussian noise the mean of exp(T) is at most 1."""
    X = rng.standard_normal((30, 8))
    statistic = Statistic(make_data(X, X[:, 0]))
    Y = rng.standard_normal((30, 4000, 1))
    T = statistic(null_test.respond(statistic.data, Y, (Y**2).sum(axis=0)))
    assert np.exp(T).mean() < 1.1


@pytest.mark.parametrize("kind", ["gaussian", "rare", "lognormal"])
@pytest.mark.parametrize("weighted", [False, True])
def test_level(kind, weighted, rng):
    """The level holds for any columns and responses, and for rows of unequal weight."""
    n, p = 25, 30
    X = rng.standard_normal((n, p))
    draw = {"gaussian": rng.standard_normal, "rare": lambda n: rng.poisson(0.1, n)}
    if kind != "gaussian":
        X = rng.poisson(0.1, (n, p)) if kind == "rare" else np.exp(X)
    weights = rng.uniform(0.3, 3.0, n) if weighted else None
    found = []
    for _ in range(200):
        y = draw.get(kind, lambda n: np.exp(rng.standard_normal(n)))(n)
        found.append(run_null_test(make_data(X, y, weights)).detected)
    assert np.mean(found) <= 0.06
    X = rng.standard_normal((n, p))
    assert run_null_test(make_data(X, X[:, 0] + 0.5 * rng.standard_normal(n), weights)).detected


def test_level_with_early_stopping():
    """The rule that ends the first test early has a level of at most 0.032."""
    allowed = int(null_test.NULL_LEVEL * (null_test.MAX_DRAWS + 1)) - 1
    p = (np.arange(20_000) + 0.5) / 20_000  # p-values of a statistic are uniform
    rest = null_test.MAX_DRAWS - null_test.CLEAR_DRAWS
    at_the_end = binom.cdf(allowed, null_test.MAX_DRAWS, p)
    early = (1.0 - p) ** null_test.CLEAR_DRAWS * binom.sf(allowed, rest, p)
    assert at_the_end.mean() == pytest.approx(null_test.NULL_LEVEL, rel=1e-3)
    assert np.mean(at_the_end + early) < null_test.NULL_LEVEL + 0.002


def draw(data, n_draws, rng):
    """Draw permuted responses without centring them."""
    data = data._replace(n_intercepts=1)
    responses = null_test.permute(data, null_test.list_observations(data), n_draws, rng)
    return responses.Y + data.values.mean(axis=0)


def test_permutations_within_groups(rng):
    X, y = rng.standard_normal((12, 2)), np.arange(12.0)
    groups = np.array([0, 1, 2] * 4)
    drawn = draw(make_data(X, y, groups=groups), 50, rng).round(9)
    assert np.all(drawn[:, :, 0] % 3 == groups[:, None])
    assert np.array_equal(np.sort(drawn[:, 0, 0]), y)
    assert len({tuple(each) for each in drawn[:, :, 0].T}) > 45


def test_random_signs_without_an_intercept(rng):
    data = make_data(rng.standard_normal((12, 2)), np.arange(12.0))._replace(n_intercepts=0)
    signed = null_test.permute(data, null_test.list_observations(data), 50, rng).Y
    assert np.array_equal(np.sort(np.abs(signed[:, 0, 0])), np.arange(12.0))
    assert (signed < 0).any()
    assert (signed > 0).any()


def test_responses_are_permuted_together(rng):
    Y = np.column_stack([np.arange(10.0), 5.0 + np.arange(10.0)])
    drawn = draw(make_data(rng.standard_normal((10, 2)), Y), 20, rng)
    np.testing.assert_allclose(drawn[:, :, 1] - drawn[:, :, 0], 5.0)


def test_weighted_rows_are_repeated(rng):
    """Integer weights, and rows in another order, have the same statistics and permutations."""
    X, y = rng.standard_normal((20, 6)), rng.standard_normal(20)
    weights = rng.integers(1, 4, 20)
    index = rng.permutation(np.repeat(np.arange(20), weights))
    found = []
    for data in (make_data(X, y, weights.astype(float)), make_data(X[index], y[index])):
        statistic, observations = Statistic(data), null_test.list_observations(data)
        permuted = null_test.permute(data, observations, 5, np.random.default_rng(0))
        found.append([*statistic(null_test.observed_responses(data)), *statistic(permuted)])
    np.testing.assert_allclose(found[0], found[1])
    fractional = make_data(X, y, weights + 0.5)
    assert null_test.list_observations(fractional).row.size == 20


def test_differences_between_groups_are_no_signal(rng):
    """Columns and response that differ between groups only are not associated within groups."""
    groups = np.repeat(np.arange(6), 10)
    centres = rng.standard_normal(6)
    X = rng.standard_normal((60, 12)) + 4.0 * centres[groups][:, None]
    y = 4.0 * centres[groups] + rng.standard_normal(60)
    for estimator, response in ((SpinyRegressor(), y), (SpinyClassifier(), y > np.median(y))):
        assert estimator.fit(X, response).n_selected_ > 0
        with pytest.warns(NoStructureWarning):
            assert estimator.fit(X, response, groups=groups).n_selected_ == 0
    within = X[:, 3] - 4.0 * centres[groups] + 0.2 * rng.standard_normal(60)
    model = SpinyRegressor().fit(X, within + y, groups=groups)
    assert model.support_[3]


def test_suppressor_variables_are_detected():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 300))
    X[:, 1] = X[:, 0] + 0.1 * rng.standard_normal(100)
    data = make_data(X, 10 * (X[:, 1] - X[:, 0]) + 0.3 * rng.standard_normal(100))
    assert run_null_test(data).detected


def test_search_detects_what_the_statistic_misses():
    """The second test compares searches, and ends at the first permuted response above."""
    rng = np.random.default_rng(0)
    data = make_data(rng.standard_normal((30, 5)), rng.standard_normal(30))
    assert not run_null_test(data).detected
    calls = []

    def odds(responses, rank=0):
        calls.append(responses)
        return 2.5 if len(calls) == 1 else (-1.0 if len(calls) != rank else 3.0)

    assert run_null_test(data, lambda tested: odds).detected
    assert len(calls) == 1 + null_test.SEARCH_DRAWS
    calls.clear()
    assert not run_null_test(data, lambda tested: lambda values: odds(values, rank=7)).detected
    assert len(calls) == 7
    calls.clear()
    assert not run_null_test(
        data, lambda tested: lambda values: calls.append(values) or -1.0
    ).detected
    assert len(calls) == 1


def test_too_few_rows_and_constant_responses():
    X = np.array([[1.0, 2.0], [3.0, 1.0]])
    assert not run_null_test(make_data(X, np.array([1.0, 2.0]))).detected
    rng = np.random.default_rng(0)
    assert not run_null_test(make_data(rng.standard_normal((10, 2)), np.ones(10))).detected


def test_weight_of_the_posterior():
    """Only inflated or insignificant Bayes factors reduce the weight."""
    assert NullTest(True, 3.0, 0.0, 0.01).weight(0.99) == 1.0
    assert NullTest(False, -1.0, 0.0, 0.5).weight(0.4) == 1.0
    assert NullTest(False, -1.0, 2.0, 0.5).weight(0.4) == pytest.approx(math.exp(-2.0))
    corrected = (math.exp(3) / math.exp(1)) / (1 + math.exp(3) / math.exp(1))
    assert NullTest(True, 3.0, 1.0, 0.01).weight(0.5) == pytest.approx(
        corrected / (math.exp(3) / (1 + math.exp(3)))
    )
    bound = 1.0 / (-math.e * 0.01 * math.log(0.01))
    assert NullTest(True, 3.0, 1.0, 0.01).weight(0.99) == pytest.approx(bound / (1 + bound) / 0.99)
    assert NullTest(True, 50.0, 1.0, 0.01).weight(1.0) == pytest.approx(1.0)
    assert NullTest(True, 800.0, 1.0, 0.01).weight(1.0) == pytest.approx(1.0)
    bound = 1.0 / (-math.e * 0.1 * math.log(0.1))
    assert NullTest(False, 50.0, 0.0, 0.1).weight(0.9) == pytest.approx(bound / (1 + bound) / 0.9)


def null_tables(rng, n):
    """Yield tables of rare counts and skewed columns with independent, skewed responses."""
    for X, y in itertools.product(
        (rng.poisson(0.05, (n, 100)), np.exp(rng.standard_normal((n, 100)))),
        (np.exp(rng.standard_normal(n)), rng.standard_t(2, n), rng.poisson(0.05, n)),
    ):
        yield X.astype(float), y.astype(float)


@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
@pytest.mark.filterwarnings("ignore::prosparse.OutlyingRowsWarning")
def test_rare_counts_and_outliers_select_nothing():
    """Skewed columns and responses that are independent: at most 3 of 30 tables select."""
    selected, certain = [], []
    for seed in range(5):
        for X, y in null_tables(np.random.default_rng(seed), 60):
            model = SpinyRegressor().fit(X, y)
            selected.append(model.n_selected_ > 0)
            certain.append(model.inclusion_probability_.max() > 0.9)
    assert np.sum(selected) <= 3
    assert np.sum(certain) <= 2


def test_predictions_of_rare_counts():
    """A response of independent rare counts is predicted by its mean."""
    rng = np.random.default_rng(1)
    X, y = rng.poisson(0.03, (420, 200)).astype(float), rng.poisson(0.03, 420).astype(float)
    with pytest.warns(NoStructureWarning):
        model = SpinyRegressor().fit(X[:120], y[:120])
    assert model.n_selected_ == 0
    assert model.score(X[120:], y[120:]) > -0.05
    assert model.model_size_probability_.sum() == pytest.approx(1.0)
    assert np.isfinite(model.predict(X, return_std=True)[1]).all()


def test_weight_mixes_with_the_empty_set(monkeypatch):
    """Mean and variance are those of a mixture of the average and the empty set."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 14))
    y = X[:, 0] + rng.standard_normal(40)
    for estimator, response in ((SpinyRegressor(), y), (SpinyClassifier(), y > 0)):
        whole = estimator.fit(X, response)
        coef, intercept = whole.coef_.copy(), np.array(whole.intercept_)
        inclusion, covariance = whole.inclusion_probability_.copy(), whole._candidate_covariance[0]
        candidates = whole.candidate_indices_
        monkeypatch.setattr(NullTest, "weight", lambda test, certainty: 0.25)
        reduced = estimator.fit(X, response)
        monkeypatch.undo()
        np.testing.assert_allclose(reduced.coef_, 0.25 * coef)
        np.testing.assert_allclose(reduced.inclusion_probability_, 0.25 * inclusion)
        scaled = np.ravel(coef)[candidates] * whole.scale_[candidates]
        found = reduced._candidate_covariance[0, 1:, 1:]
        expected = covariance[1:, 1:]
        expected = 0.25 * expected + 0.25 * 0.75 * np.outer(scaled, scaled)
        np.testing.assert_allclose(found, expected, atol=1e-12)
        empty = (
            y.mean()
            if isinstance(estimator, SpinyRegressor)
            else math.log(np.mean(y > 0) / np.mean(y <= 0))
        )
        centre = float(np.ravel(intercept + X.mean(axis=0) @ np.ravel(coef))[0])
        new_centre = float(
            np.ravel(reduced.intercept_ + X.mean(axis=0) @ np.ravel(reduced.coef_))[0]
        )
        assert new_centre == pytest.approx(0.25 * centre + 0.75 * empty)


@pytest.mark.parametrize("rule", ["map", "median", "f-score"])
def test_every_rule_requires_a_signal(rule, monkeypatch):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 11))
    y = X[:, 0] + 0.3 * rng.standard_normal(40)
    nothing = lambda *arguments: NullTest(False, 0.0, 0.0, 0.5)  # noqa: E731
    monkeypatch.setattr("prosparse.models.spinyreg.solve.run_null_test", nothing)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoStructureWarning)
        assert SpinyRegressor(selection_rule=rule).fit(X, y).n_selected_ == 0
        assert SpinyClassifier(selection_rule=rule).fit(X, y > 0).n_selected_ == 0
        Y = np.column_stack([y, y])
        assert SpinyRegressor(selection_rule=rule).fit(X, Y).n_selected_ == 0


@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
@pytest.mark.parametrize("kind", ["t rows", "outlying rows"])
def test_rows_of_unequal_scale_are_no_signal(kind):
    """Rows of X and y have the same scales; without division most of these tests reject."""
    found, raw = [], []
    for seed in range(15):
        rng = np.random.default_rng(seed)
        scale = np.sqrt(5.0 / rng.chisquare(5, 80))[:, None]
        if kind == "outlying rows":
            scale = np.where(np.arange(80) < 3, 5.0, 1.0)[:, None]
        Z = scale * rng.standard_normal((80, 101))
        data = make_data(Z[:, :-1], Z[:, -1])
        found.append(run_null_test(data).detected)
        raw.append(null_test.compare_with_permutations(data, None).detected)
    assert np.mean(raw) > 0.5
    assert np.mean(found) <= 0.1
    y = Z[:, 0] - Z[:, 1] + Z[:, -1]
    assert run_null_test(make_data(Z[:, :-1], y)).detected


def test_equalised_rows_follow_weighted_least_squares(rng):
    """Responses and columns are residuals of the divided intercept."""
    scale = np.exp(rng.standard_normal(40))
    X = scale[:, None] * rng.standard_normal((40, 80))
    weights = rng.integers(1, 4, 40).astype(float)
    data = make_data(X, scale * rng.standard_normal(40) + 2.0, weights)
    equal = null_test.equalise_rows(data)
    design = np.sqrt(weights) / equal.row_scale
    products = np.asarray(equal.op.rmatmul(design[:, None]))
    np.testing.assert_allclose(products, 0.0, atol=1e-8)
    responses = null_test.observed_responses(equal)
    Y = np.sqrt(weights) * equal.values[:, 0]
    Y -= design * (design @ Y) / (design @ design)
    np.testing.assert_allclose(responses.Y[:, 0, 0], Y, atol=1e-12)
    assert responses.yy[0, 0] == pytest.approx(Y @ Y)
    assert np.corrcoef(np.log(equal.row_scale), np.log(scale))[0, 1] > 0.95
    assert null_test.equalise_rows(make_data(rng.standard_normal((40, 80)), Y)) is None


def test_a_signal_of_few_rows_is_announced(rng):
    """Columns without variation but in three rows, in which the response is large."""
    X = rng.standard_normal((100, 20))
    X[:, 0] = 0.01 * X[:, 0]
    X[:3, 0] = 3.0
    y = rng.standard_normal(100)
    y[:3] += 8.0
    with pytest.warns(OutlyingRowsWarning, match="rests on few rows"):
        assert SpinyRegressor().fit(X, y).support_[0]
    y = X[:, 1] + 0.5 * rng.standard_normal(100)
    index = np.r_[np.arange(100), np.arange(20)]
    with pytest.warns(DuplicateRowsWarning, match="20 rows of X and y equal an earlier row"):
        SpinyRegressor().fit(X[index], y[index])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SpinyRegressor().fit(X, y)
        SpinyRegressor().fit(X[index], X[index, 1] + rng.standard_normal(120))
