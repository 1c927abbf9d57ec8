"""SpinyRegressor: selection, predictions, invariances and invalid input."""

import math
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from regressions import max_evidence, model_of
from scipy import sparse
from scipy.stats import multivariate_normal
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LinearRegression

from prosparse import InputError, NoStructureWarning, ParameterError, SpinyRegressor
from prosparse.datasets import make_sparse_regression
from prosparse.inference.loop import StopReason
from prosparse.metrics import support_f_score
from prosparse.models.spinyreg import ard, stepwise
from prosparse.models.spinyreg.linear import EXACT, evaluate, optimise
from prosparse.models.spinyreg.solve import relative_size
from prosparse.models.spinyreg.stepwise import log_size_prior, nested_path


def example(n=60, p=20, q=4, seed=0, **options):
    return make_sparse_regression(n, p, n_informative=q, random_state=seed, **options)


@pytest.fixture(scope="module")
def fitted():
    X, y, coef = example()
    return X, y, coef, SpinyRegressor().fit(X, y)


# --- selection


@pytest.mark.parametrize(("n", "p", "q"), [(50, 100, 10), (100, 200, 20), (200, 50, 5)])
@pytest.mark.parametrize(("correlation", "least"), [(0.0, 0.95), (0.75, 0.85)])
def test_active_variables_are_selected(n, p, q, correlation, least):
    scores = []
    for seed in range(6):
        X, y, coef = example(n, p, q, 100 + seed, correlation=correlation)
        selected = SpinyRegressor(selection_rule="map", average=False).fit(X, y).support_
        scores.append(support_f_score(coef != 0, selected))
    assert np.mean(scores) >= least


def test_active_variables_are_selected_by_default():
    X, y, coef = example(50, 100, 10, 100, correlation=0.75)
    assert support_f_score(coef != 0, SpinyRegressor().fit(X, y).support_) >= 0.9


@pytest.mark.parametrize(
    ("n", "p", "runs", "options"),
    [
        (50, 10, 20, {}),
        (40, 30, 6, {}),
        (50, 100, 20, {"selection_rule": "map", "average": False}),
        (100, 200, 20, {"selection_rule": "map", "average": False}),
    ],
)
def test_noise_selects_at_most_one_variable(n, p, runs, options):
    """In nine of ten runs at most one variable is selected; the empty set gives a warning."""
    few = 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = SpinyRegressor(**options)
            model.fit(rng.standard_normal((n, p)), rng.standard_normal(n))
        few += model.n_selected_ <= 1
        warned = any(issubclass(w.category, NoStructureWarning) for w in caught)
        assert warned == (model.n_selected_ == 0)
        assert warned == (model.stop_reason_ is StopReason.NO_SIGNAL)
    assert few >= math.floor(0.9 * runs)


def test_more_variables_than_rows():
    X, y, coef = example(100, 3000, 8, correlation=0.5)
    model = SpinyRegressor().fit(X, y)
    np.testing.assert_array_equal(model.support_, coef != 0)
    assert sorted(model.ranking_) == list(range(1, 3001))


def test_all_variables_active(rng):
    X = rng.standard_normal((100, 12))
    y = X @ np.ones(12) + rng.standard_normal(100)
    assert SpinyRegressor().fit(X, y).support_.all()


# --- attributes and predictions


def test_attributes(fitted):
    X, y, coef, model = fitted
    np.testing.assert_array_equal(model.support_, coef != 0)
    np.testing.assert_array_equal(model.selected_coef_ != 0, model.support_)
    assert model.n_selected_ == 4
    assert sorted(model.ranking_) == list(range(1, 21))
    assert set(model.ranking_[model.support_]) == {1, 2, 3, 4}
    assert model.relevance_.max() == 1.0
    assert model.relevance_.min() == 0.0
    best = int(np.argmax(model.log_posterior_path_))
    assert model.cardinalities_[best] == 4
    assert np.all(np.diff(model.objective_path_) >= 0)
    assert len(model.objective_path_) == model.n_iter_ >= 1
    assert model.stop_reason_ is StopReason.CONVERGED
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_log_evidence_path_in_the_units_of_the_data(scale, fit_intercept):
    """The evidence is max log N(y; 0, I/gamma + Z_v Z_v'/alpha) at every cardinality."""
    X, y, _ = example()
    X, y = 3.0 * X + 1.0, 100.0 * y + 7.0
    model = SpinyRegressor(scale=scale, fit_intercept=fit_intercept).fit(X, y)
    Z = (X - model.mean_) / model.scale_
    if not fit_intercept:
        assert not model.mean_.any()
    z = y - y.mean() if fit_intercept else y
    order = np.argsort(model.ranking_)
    for q, log_evidence in zip(model.cardinalities_, model.log_evidence_path_, strict=True):
        assert log_evidence == pytest.approx(max_evidence(Z[:, order[:q]], z), abs=1e-3)
    selected = Z[:, model.support_]
    covariance = np.eye(60) / model.noise_precision_
    covariance += selected @ selected.T / model.coef_precision_
    exact = multivariate_normal(np.zeros(60), covariance).logpdf(z)
    assert model.log_evidence_path_[model.n_selected_] == pytest.approx(exact, abs=1e-8)


@pytest.mark.parametrize("n", [25, 40, 60])
def test_precisions_maximise_the_evidence(n):
    """The evidence is stationary in the precision, and consistent with the posterior."""
    X, y, _ = example(n, noise=2.0)
    model = SpinyRegressor().fit(X, y)
    Z, centred = (X - X.mean(axis=0)) / X.std(axis=0), y - y.mean()
    Z = Z[:, model.support_]

    def evidence(log_alpha):
        covariance = np.eye(y.size) / model.noise_precision_ + Z @ Z.T / np.exp(log_alpha)
        return multivariate_normal(np.zeros(y.size), covariance).logpdf(centred)

    at, h = np.log(model.coef_precision_), 1e-4
    assert abs(evidence(at + h) - evidence(at - h)) / (2 * h) < 1e-4
    q = model.n_selected_
    of_mean = 0.5 * np.log(2 * np.pi / model.noise_precision_)
    expected = model.log_evidence_path_[q] + of_mean + log_size_prior(X.shape[1])[q]
    assert model.log_posterior_path_[q] == pytest.approx(expected, abs=1e-9)


OPTIONS = [
    {},
    {"average": False},
    {"refit": "ols"},
    {"selection_rule": "map", "average": False},
    {"selection_rule": "median"},
    {"noise": "student"},
    {"fit_intercept": False},
    {"scale": False},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("p", [8, 40])
def test_predictions_are_linear_in_coef(options, p):
    X, y, _ = example(60, p, 3, noise=2.0)
    X, y = 3.0 * X + 1.0, 10.0 * y + 7.0
    model = SpinyRegressor(**options).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), X @ model.coef_ + model.intercept_)
    np.testing.assert_array_equal(model.selected_coef_ != 0, model.support_)
    centre = model.mean_ @ model.selected_coef_ + model.selected_intercept_
    assert centre == pytest.approx(model.mean_ @ model.coef_ + model.intercept_)
    averaged = options.get("average", True) and options.get("refit") != "ols"
    assert np.array_equal(model.coef_, model.selected_coef_) == (not averaged)
    assert (model.intercept_ == model.selected_intercept_) == (
        not averaged or not model.fit_intercept
    )
    assert np.all((model.coef_std_ > 0) == (model.coef_ != 0))


def test_standard_deviations_of_the_selected_coefficients(fitted):
    X, y, _, _ = fitted
    model = SpinyRegressor(average=False).fit(X, y)
    variances = np.diagonal(model.selected_coef_covariance_)
    np.testing.assert_allclose(model.coef_std_[model.support_], np.sqrt(variances))
    assert not model.coef_std_[~model.support_].any()


def test_public_attributes_of_a_fit():
    """Quantities that only predictions need are private."""
    X, y, _ = example()
    public = {name for name in vars(SpinyRegressor().fit(X, y)) if name.endswith("_")}
    documented = set(re.findall(r"^    (\w+_) : ", SpinyRegressor.__doc__, flags=re.MULTILINE))
    assert public <= documented | {"n_features_in_"}


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_ard_objective_equals_its_likelihood(noise, rng):
    """This also holds if the noise variance is raised to its minimum."""
    X = rng.standard_normal((40, 6))
    X -= X.mean(axis=0)
    y = X[:, :2] @ [1.0, 2.0] + noise * rng.standard_normal(40)
    data = model_of(X, y, len(y) - 1)
    start = optimise(data, evaluate(data, np.array([0, 1]), 0.0), EXACT)
    path = nested_path(data, start, 4)
    run = ard.fit_ard(data, path.order, path.fits[2], max_iter=1000, tol=4e-6)
    G, b = data.gram(path.order), data.B[path.order, 0]
    sigma2 = max(path.fits[2].sigma2[0], 1e-4 * data.yy[0] / 40)
    assert (sigma2 > path.fits[2].sigma2[0]) == (noise == 0.0)
    slow = ard.log_likelihood(G, b, data.yy[0], 40, sigma2, run.state.t)
    assert run.state.bound == pytest.approx(slow, abs=1e-6)


def test_posterior_mean_and_standard_deviation(fitted):
    """Predictions of the selected set."""
    X, y, _, _ = fitted
    model = SpinyRegressor(average=False).fit(X, y)
    Z = ((X - X.mean(0)) / X.std(0))[:, model.support_]
    gamma, alpha = model.noise_precision_, model.coef_precision_
    S = np.linalg.inv(gamma * Z.T @ Z + alpha * np.eye(4))
    m = gamma * S @ Z.T @ (y - y.mean())
    np.testing.assert_allclose(model.coef_[model.support_], m / X.std(0)[model.support_])
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, y.mean() + Z @ m)
    np.testing.assert_allclose(mean, model.predict(X))
    variance = (1 + 1 / 60) / gamma + np.einsum("ij,jk,ik->i", Z, S, Z)
    np.testing.assert_allclose(std, np.sqrt(variance))
    _, sparse_std = model.predict(sparse.csr_array(X), return_std=True)
    np.testing.assert_allclose(sparse_std, std)


def test_coverage_of_predictions(rng):
    X, y, coef = example(80, 30, 5, noise=2.0)
    model = SpinyRegressor().fit(X, y)
    new = rng.standard_normal((4000, 30))
    mean, std = model.predict(new, return_std=True)
    error = new @ coef + 2.0 * rng.standard_normal(4000) - mean
    assert 0.9 < np.mean(np.abs(error) < 1.96 * std) < 0.99


def test_least_squares_refit(fitted):
    X, y, _, model = fitted
    ols = SpinyRegressor(refit="ols").fit(X, y)
    slow = LinearRegression().fit(X[:, model.support_], y)
    np.testing.assert_array_equal(ols.support_, model.support_)
    np.testing.assert_allclose(ols.coef_[ols.support_], slow.coef_)
    assert ols.intercept_ == pytest.approx(slow.intercept_)
    left = y - slow.predict(X[:, model.support_])
    assert ols.noise_variance_ == pytest.approx(left @ left / (60 - 5))
    inverse = np.linalg.inv(np.cov(X[:, model.support_].T) * 59)
    np.testing.assert_allclose(ols.selected_coef_covariance_, ols.noise_variance_ * inverse)


# --- invariances


@pytest.mark.parametrize(("n", "p", "q"), [(60, 20, 4), (40, 80, 5)])
def test_column_and_row_order(n, p, q, rng):
    X, y, _ = example(n, p, q)
    model = SpinyRegressor().fit(X, y)
    columns, rows = rng.permutation(p), rng.permutation(n)
    moved = SpinyRegressor().fit(X[rows][:, columns], y[rows])
    np.testing.assert_array_equal(moved.support_, model.support_[columns])
    np.testing.assert_allclose(moved.coef_, model.coef_[columns], rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(moved.relevance_, model.relevance_[columns], atol=1e-5)
    np.testing.assert_allclose(moved.log_evidence_path_, model.log_evidence_path_, atol=1e-6)


@pytest.mark.parametrize("factor", [-1.0, 1e-150, 1e-3, -7.0, 1e150])
@pytest.mark.parametrize("scale", [True, False])
def test_units_and_sign(factor, scale):
    X, y, _ = example()
    model = SpinyRegressor(scale=scale).fit(X, y)
    other = SpinyRegressor(scale=scale).fit(X, factor * y)
    np.testing.assert_allclose(other.coef_ / factor, model.coef_, rtol=1e-5, atol=1e-9)
    assert other.intercept_ / factor == pytest.approx(model.intercept_, rel=1e-5)
    shift = 60 * np.log(abs(factor))
    np.testing.assert_allclose(
        other.log_evidence_path_ + shift, model.log_evidence_path_, rtol=1e-6
    )
    table = SpinyRegressor(scale=scale).fit(factor * X, y)
    np.testing.assert_allclose(table.coef_ * factor, model.coef_, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(table.log_evidence_path_, model.log_evidence_path_, rtol=1e-6)


def test_units_of_single_columns(fitted, rng):
    X, y, _, model = fitted
    factors = 10.0 ** rng.uniform(-100, 100, 20) * rng.choice([-1, 1], 20)
    other = SpinyRegressor().fit(X * factors, y)
    selected = other.selected_coef_ * factors
    np.testing.assert_allclose(selected, model.selected_coef_, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(other.log_evidence_path_, model.log_evidence_path_, rtol=1e-6)


def test_sign_changes_without_scaling():
    """Sign changes of columns do not change the selected coefficients."""
    X, y, _ = example()
    model = SpinyRegressor(scale=False).fit(X, y)
    signs = np.where(np.arange(20) % 2, -1.0, 1.0)
    mirrored = SpinyRegressor(scale=False).fit(X * signs, y)
    selected = mirrored.selected_coef_ * signs
    np.testing.assert_allclose(selected, model.selected_coef_, rtol=1e-6, atol=1e-12)


def test_shifts(fitted):
    X, y, _, model = fitted
    other = SpinyRegressor().fit(X + 1e4, y - 1e4)
    np.testing.assert_allclose(other.coef_, model.coef_, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(other.predict(X + 1e4), model.predict(X) - 1e4, rtol=1e-6)


@pytest.mark.parametrize("options", [{}, {"scale": False}, {"fit_intercept": False}])
def test_sparse_input(options):
    X, y, _ = example(80, 40, 5)
    X[np.abs(X) < 1.0] = 0.0
    full = SpinyRegressor(**options).fit(X, y)
    for make in (sparse.csr_array, sparse.csc_matrix):
        thin = SpinyRegressor(**options).fit(make(X), y)
        np.testing.assert_allclose(thin.coef_, full.coef_, rtol=1e-5, atol=1e-9)
        np.testing.assert_allclose(thin.log_evidence_path_, full.log_evidence_path_, atol=1e-6)
        np.testing.assert_allclose(thin.predict(make(X)), full.predict(X), rtol=1e-5)


def test_data_frames_and_dtypes(fitted):
    X, y, _, model = fitted
    names = [f"v{i}" for i in range(20)]
    frame = pd.DataFrame(X, columns=names)
    named = SpinyRegressor().fit(frame, pd.Series(y))
    assert list(named.select(frame).columns) == [names[i] for i in model.get_support(True)]
    lazy_less = pl.DataFrame(X, schema=names)
    assert SpinyRegressor().fit(lazy_less, y).select(lazy_less).columns == [
        names[i] for i in model.get_support(indices=True)
    ]
    single = SpinyRegressor().fit(X.astype(np.float32), y.astype(np.float32))
    np.testing.assert_array_equal(single.support_, model.support_)
    counts = SpinyRegressor().fit(np.round(20 * X).astype(int), np.round(20 * y).astype(int))
    np.testing.assert_array_equal(counts.support_, model.support_)
    before = X.copy(), y.copy()
    SpinyRegressor(refit="ols").fit(X, y).predict(X)
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(y, before[1])


# --- invalid and degenerate input


@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
@pytest.mark.parametrize("options", [{}, {"fit_intercept": False}, {"refit": "ols"}])
def test_small_and_degenerate_input(options, rng):
    X, y, coef = example()
    strongest = np.argmax(np.abs(coef))
    tables = [(X[:n], y[:n]) for n in (2, 3, 4, 5)]
    tables += [(X[:, [strongest]], y), (rng.standard_normal((30, 30)), rng.standard_normal(30))]
    tables += [(np.repeat(X[:, :1], 5, axis=1), y), (X > 0, y)]
    for table, response in tables:
        model = SpinyRegressor(**options).fit(table, response)
        mean, std = model.predict(table, return_std=True)
        assert np.all(np.isfinite(mean))
        assert np.all(np.isfinite(std))
        assert np.all(np.isfinite(model.log_evidence_path_))
        assert np.all(np.diff(model.objective_path_) >= 0)


def test_one_column(rng):
    x = rng.standard_normal((50, 1))
    model = SpinyRegressor().fit(x, 2.0 * x[:, 0] + rng.standard_normal(50))
    assert model.n_selected_ == 1
    np.testing.assert_array_equal(model.cardinalities_, [0, 1])


def test_constant_columns_are_excluded(fitted):
    X, y, _, model = fitted
    odd = np.column_stack([np.full(60, 0.1), X, np.zeros(60)])
    other = SpinyRegressor().fit(odd, y)
    np.testing.assert_allclose(other.coef_[1:21], model.coef_)
    assert not other.support_[[0, 21]].any()
    assert list(other.ranking_[[0, 21]]) == [21, 22]
    np.testing.assert_allclose(other.log_evidence_path_, model.log_evidence_path_)
    thin = SpinyRegressor(fit_intercept=False).fit(sparse.csr_array(odd), y)
    assert not thin.varying_[21]
    with pytest.raises(InputError, match="all 3 columns are constant"):
        SpinyRegressor().fit(np.ones((10, 3)), np.arange(10.0))
    with pytest.raises(InputError, match="all 3 columns are constant"):
        SpinyRegressor(fit_intercept=False).fit(np.zeros((10, 3)), np.arange(10.0))


def test_duplicated_columns_are_selected_once(fitted):
    X, y, coef, model = fitted
    twice = SpinyRegressor().fit(np.hstack([X, X]), y)
    selected = twice.support_.reshape(2, 20)
    np.testing.assert_array_equal(selected.any(axis=0), coef != 0)
    assert not selected.all(axis=0).any()
    selected = twice.selected_coef_.reshape(2, 20).sum(axis=0)
    np.testing.assert_allclose(selected, model.selected_coef_, rtol=1e-4, atol=1e-9)
    # The prior on sets depends on the number of variables.
    np.testing.assert_allclose(twice.predict(np.hstack([X, X])), model.predict(X), atol=0.2)


@pytest.mark.parametrize("value", [0.0, 3.3, -1e10])
def test_constant_response(value):
    X = example().X
    with pytest.warns(NoStructureWarning, match="no variable was selected"):
        model = SpinyRegressor().fit(X, np.full(60, value))
    assert not model.support_.any()
    assert not model.relevance_.any()
    np.testing.assert_allclose(model.predict(X), value)
    assert np.all(np.isfinite(model.log_evidence_path_))


@pytest.mark.parametrize("n", [60, 15])
@pytest.mark.parametrize("options", [{}, {"fit_intercept": False}, {"refit": "ols"}])
def test_exact_fit(n, options):
    X, _, coef = example()
    model = SpinyRegressor(**options).fit(X[:n], X[:n] @ coef)
    np.testing.assert_array_equal(model.support_, coef != 0)
    np.testing.assert_allclose(model.coef_, coef, atol=1e-6)
    assert 0 <= model.noise_variance_ < 1e-9
    assert np.all(np.isfinite(model.log_evidence_path_))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_missing_and_infinite_values(bad):
    X, y, _ = example()
    model = SpinyRegressor()
    broken = X.copy()
    broken[3, 4] = bad
    message = r"X contains (NaN|infinity): 1 value, first in row 3, column 4"
    for table in (broken, sparse.csr_array(broken)):
        with pytest.raises(InputError, match=message):
            model.fit(table, y)
    y[7] = bad
    with pytest.raises(InputError, match=r"y contains (NaN|infinity): 1 value, first in row 7"):
        model.fit(X, y)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda y: np.ma.masked_array(y, mask=y > 0), "masked"),
        (lambda y: y.astype("timedelta64[s]"), "dates or times"),
        (lambda y: np.array([10**400] * y.size, dtype=object), "one number for each row"),
        (lambda y: y + 1j, "omplex"),
        (lambda y: np.array(["a"] * y.size), "one number for each row"),
    ],
)
def test_non_numeric_response(spoil, message):
    X, y, _ = example()
    with pytest.raises(InputError, match=message):
        SpinyRegressor().fit(X, spoil(y))


@pytest.mark.parametrize("kind", [list, pd.Series, np.float32, np.ma.masked_array])
def test_containers_of_the_response(kind, fitted):
    X, y, _, model = fitted
    other = SpinyRegressor().fit(X, y.astype(kind) if kind is np.float32 else kind(y))
    np.testing.assert_allclose(other.coef_, model.coef_, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(("of_x", "of_y"), [(1e-200, 1e149), (1e299, 1e-100)])
def test_units_that_overflow(of_x, of_y):
    X, y, _ = example()
    with pytest.raises(InputError, match=r"is 1e-?\d+, which double precision"):
        SpinyRegressor().fit(of_x * X, of_y * y)


@pytest.mark.parametrize("scale", [[1e4, 1, 1], [1e3, 1e3, 1], [1e5, 1e4, 1], [1, 1e5, 10]])
@pytest.mark.parametrize("difference", [1e-2, 1e-5])
def test_cancelling_columns_in_different_units(scale, difference, rng):
    """The prior of such a model is next to none: much of the relaxed model is lost in rounding."""
    for _ in range(5):
        X = rng.standard_normal((30, 3))
        signal = X[:, 1].copy()
        X[:, 1] = X[:, 0] + difference * signal
        y = signal + 0.01 * rng.standard_normal(30)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nothing found, or many sweeps
            model = SpinyRegressor(scale=False).fit(X * scale, y)
        assert np.all(np.diff(model.objective_path_) >= 0)
        assert (
            model.objective_path_[-1] < model.objective_path_[0] + 200.0
        )  # sums of rounding go to millions
        assert np.all(np.isfinite(model.relevance_))


@pytest.mark.parametrize("noise", [0.0, 1e-6])
@pytest.mark.parametrize("seed", range(43, 53))
def test_an_exact_fit_among_columns_of_different_sizes(seed, noise):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((30, 3)) * [1, 1, 1000]
    model = SpinyRegressor(scale=False).fit(X, 2 * X[:, 0] + 1 + noise * rng.random(30))
    assert model.support_[0]
    assert model.score(X, 2 * X[:, 0] + 1) > 0.9999


def test_other_invalid_input(rng):
    X, y, _ = example()
    with pytest.raises(InputError, match=r"inconsistent numbers of samples: \[60, 59\]"):
        SpinyRegressor().fit(X, y[:-1])
    with pytest.raises(ValueError, match="1 sample"):
        SpinyRegressor().fit(X[:1], y[:1])
    with pytest.raises(InputError, match="LazyFrame"):
        SpinyRegressor().fit(pl.DataFrame(X).lazy(), y)
    with pytest.raises(InputError, match="y must have a largest absolute value"):
        SpinyRegressor().fit(X, 1e200 * y)
    with pytest.raises(InputError, match=r"by a factor of .*e\+0[78].*`scale=True`"):
        SpinyRegressor(scale=False).fit(
            np.column_stack([y, 1e8 * np.roll(y, 1)]), rng.standard_normal(60)
        )


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"fit_intercept": "yes"}, "`fit_intercept` must be True or False, got 'yes'"),
        ({"scale": 1}, "`scale` must be True or False, got 1"),
        ({"refit": "ridge"}, "`refit` must be one of 'posterior', 'ols', got 'ridge'"),
        ({"max_iter": 0}, "`max_iter` must be an integer of at least 1, got 0"),
        ({"tol": -1}, "`tol` must be a non-negative number, got -1"),
        ({"verbose": "loud"}, "`verbose` must be a non-negative number, got 'loud'"),
    ],
)
def test_invalid_parameters(parameters, message):
    X, y, _ = example()
    model = SpinyRegressor(**parameters)
    with pytest.raises(ParameterError, match=message):
        model.fit(X, y)
    assert not hasattr(model, "coef_")


def test_failed_fit_leaves_the_model_unchanged(fitted):
    X, y, _, _ = fitted
    model = SpinyRegressor().fit(X, y)
    before = model.predict(X)
    with pytest.raises(InputError):
        model.fit(X[:, :5], np.full(60, np.nan))
    np.testing.assert_array_equal(model.predict(X), before)


def test_max_iter_is_reported():
    X, y, _ = example(q=8)
    with pytest.warns(ConvergenceWarning, match="increase `max_iter`"):
        model = SpinyRegressor(max_iter=1).fit(X, y)
    assert model.stop_reason_ is StopReason.MAX_ITER


@pytest.mark.parametrize("module", [ard, stepwise])
@pytest.mark.parametrize(
    ("bound", "reason"),
    [(-1e9, StopReason.DECREASED), (float("nan"), StopReason.NOT_FINITE)],
)
def test_invalid_objectives_are_reported(module, bound, reason, monkeypatch):
    """A decreasing or undefined objective is not reported as converged."""
    make = module.make_step

    def broken(*given):
        step = make(*given)
        return lambda state: step(state)._replace(bound=bound)

    X, y, _ = example(q=8)
    monkeypatch.setattr(module, "make_step", broken)
    with pytest.warns(ConvergenceWarning, match="the best result so far"):
        model = SpinyRegressor().fit(X, y)
    assert model.stop_reason_ is reason


def test_not_fitted():
    for method in ("predict", "select"):
        with pytest.raises(NotFittedError):
            getattr(SpinyRegressor(), method)(np.ones((3, 3)))


def test_verbose_shows_progress(capsys):
    X, y, _ = example()
    SpinyRegressor(verbose=1).fit(X, y)
    assert "SpinyRegressor" in capsys.readouterr().err


def test_sparse_input_stays_sparse():
    import tracemalloc

    X = sparse.random(300, 20_000, 0.03, random_state=0, format="csr")
    places = [17, 5_000, 19_999]
    y = 5.0 * np.asarray(X[:, places].sum(axis=1)).ravel()
    y += 0.05 * np.random.default_rng(1).standard_normal(300)
    tracemalloc.start()
    model = SpinyRegressor().fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.get_support(indices=True).tolist() == places
    assert peak < 0.5 * 8 * 300 * 20_000


@pytest.mark.parametrize("noise", [0.0, 1e-8, 1e-4])
@pytest.mark.parametrize("seed", range(4))
def test_copies_and_an_exact_fit(noise, seed):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((30, 8))
    y = Z[:, :2].sum(axis=1) + noise * rng.standard_normal(30)
    model = SpinyRegressor().fit(np.hstack([Z, Z]), y)
    assert np.all(np.isfinite(model.coef_))
    assert np.all(np.isfinite(model.objective_path_))
    np.testing.assert_allclose(model.predict(np.hstack([Z, Z])), y, atol=1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_dummy_variables(seed):
    groups = np.random.default_rng(seed).integers(0, 5, 60)
    y = np.array([1.0, 2, 3, 4, 9])[groups]
    model = SpinyRegressor().fit(np.eye(5)[groups], y)
    np.testing.assert_allclose(model.predict(np.eye(5)[groups]), y, atol=1e-3)


def test_posterior_path_is_finite():
    """With more variables than samples the path ends at the maximum model size."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((8, 20))
    model = SpinyRegressor(fit_intercept=False).fit(X, X[:, 0] + 0.1 * rng.standard_normal(8))
    assert np.all(np.isfinite(model.log_posterior_path_))
    assert model.log_posterior_path_.shape == model.log_evidence_path_.shape


def test_units_with_an_overflowing_covariance():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4))
    y = X[:, 0] + 0.1 * rng.standard_normal(30)
    with pytest.raises(InputError, match="variance or precision of the fit is 1e"):
        SpinyRegressor().fit(1e-80 * X, 1e80 * y)
    assert np.isfinite(SpinyRegressor().fit(1e-60 * X, 1e60 * y).selected_coef_covariance_).all()


def test_sparse_input_in_single_precision():
    """The Gram matrix is computed in double precision."""
    X = sparse.csc_array(np.tile(np.float32([0.3, 0.5, 0.7, 1.1]), (9, 1)))
    y = np.random.default_rng(0).standard_normal(9) + 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoStructureWarning)
        model = SpinyRegressor(fit_intercept=False, scale=False).fit(X, y)
    assert np.all(np.isfinite(model.coef_))


def test_masked_responses():
    X, y, _ = make_sparse_regression(60, 12, n_informative=2, random_state=0)
    model, masked = SpinyRegressor().fit(X, y), np.ma.masked_greater(y, 0.0)
    for given in (masked, masked[:, None], list(masked), tuple(masked)):
        with pytest.raises(InputError, match="some values are masked"):
            SpinyRegressor().fit(X, given)
        with pytest.raises(InputError, match="some values are masked"):
            model.score(X, given)
    assert model.score(X, np.ma.array(y)) == model.score(X, y)
    with pytest.raises(InputError, match="Input y contains NaN"):
        model.score(X, np.where(y > 0, np.nan, y))


def test_score_is_r_squared():
    X, y, _ = make_sparse_regression(60, 12, n_informative=2, random_state=0)
    model, weights = SpinyRegressor().fit(X, y), np.arange(60.0)
    left = y - model.predict(X)
    assert model.score(X, y) == pytest.approx(1 - np.sum(left**2) / np.sum((y - y.mean()) ** 2))
    mean = np.average(y, weights=weights)
    expected = 1 - np.sum(weights * left**2) / np.sum(weights * (y - mean) ** 2)
    assert model.score(X, y, weights) == pytest.approx(expected)
    for wrong in (np.ma.masked_less(weights, 3), ["a"] * 60, weights[:5]):
        with pytest.raises(ParameterError, match="`sample_weight`"):
            model.score(X, y, wrong)


# --- row weights


@pytest.mark.parametrize("options", [{}, {"fit_intercept": False}, {"refit": "ols"}])
@pytest.mark.parametrize("p", [8, 60])
@pytest.mark.filterwarnings("ignore::prosparse.DuplicateRowsWarning")
def test_weighted_rows_equal_repeated_rows(options, p):
    """A row of weight 3 equals three rows, and a row of weight 0 is ignored."""
    X, y, _ = make_sparse_regression(100, p, n_informative=3, random_state=1)
    X, y = X + 1.0, y + 5.0
    weights = np.random.default_rng(0).integers(0, 4, 100)
    repeated = np.repeat(np.arange(100), weights)
    ours = SpinyRegressor(**options).fit(X, y, sample_weight=weights)
    theirs = SpinyRegressor(**options).fit(X[repeated], y[repeated])
    np.testing.assert_array_equal(ours.support_, theirs.support_)
    for name in ("coef_", "selected_coef_covariance_", "noise_variance_", "coef_std_", "mean_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-6)
    for name in ("log_evidence_path_", "intercept_", "scale_", "relevance_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-6)
    for one, other in zip(
        ours.predict(X, return_std=True), theirs.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    sparse_one = SpinyRegressor(**options).fit(sparse.csr_array(X), y, sample_weight=weights)
    np.testing.assert_allclose(sparse_one.coef_, ours.coef_, rtol=1e-6)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.filterwarnings("ignore::prosparse.DuplicateRowsWarning")
def test_repeated_rows_do_not_increase_the_maximum_size(kind):
    """Twenty variables fit twenty distinct rows exactly, however often these are repeated."""
    X, y, coef = make_sparse_regression(20, 40, n_informative=2, random_state=0)
    copies = SpinyRegressor().fit(kind(np.tile(X, (3, 1))), np.tile(y, 3))
    for model in (SpinyRegressor().fit(kind(X), y, sample_weight=3.0), copies):
        assert model.cardinalities_.max() <= 20 // 3
        assert model.support_[coef != 0].all()
    np.testing.assert_allclose(model.coef_, copies.coef_)


def test_weights_are_inverse_variances():
    """Coefficients are those of weighted least squares."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 6))
    weights = rng.uniform(0.1, 4.0, 100)
    y = X[:, 0] - X[:, 3] + rng.standard_normal(100) / np.sqrt(weights)
    model = SpinyRegressor(refit="ols").fit(X, y, sample_weight=weights)
    assert list(np.flatnonzero(model.support_)) == [0, 3]
    Z, root = np.column_stack([np.ones(100), X[:, [0, 3]]]), np.sqrt(weights)
    expected = np.linalg.lstsq(root[:, None] * Z, root * y, rcond=None)[0]
    np.testing.assert_allclose([model.intercept_, *model.coef_[[0, 3]]], expected, rtol=1e-6)
    assert model.score(X, y, sample_weight=weights) > 0.5


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros(50), "must add up to more than 1, got 0"),
        (-np.ones(50), "finite and non-negative"),
        (np.ones(3), "one number for each of the 50 rows"),
    ],
)
def test_invalid_weights(weights, message):
    X, y, _ = make_sparse_regression(50, 8, n_informative=3, random_state=1)
    with pytest.raises(ParameterError, match=message):
        SpinyRegressor().fit(X, y, sample_weight=weights)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
@pytest.mark.filterwarnings("ignore::prosparse.OutlyingRowsWarning")
@pytest.mark.parametrize(
    ("noise", "p", "seed", "weight"),
    [("student", 12, 4, 1e3), ("student", 100, 0, 1e3), ("gaussian", 100, 0, 1e9)],
)
def test_average_over_a_single_set(noise, p, seed, weight):
    """With unequal weights all neighbours of a set can have probability zero."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((30, p))
    y = X[:, 0] + 0.5 * rng.standard_normal(30)
    weights = np.where(np.arange(30) < 3, weight, 1.0)
    model = SpinyRegressor(noise=noise).fit(X, y, sample_weight=weights)
    inclusion = model.inclusion_probability_
    assert np.all((inclusion >= 0.0) & (inclusion <= 1.0))
    assert model.model_size_probability_.sum() == pytest.approx(1.0)
    assert np.isfinite(model.predict(X, return_std=True)).all()


def test_selected_variables_are_relevant():
    X, y = load_diabetes(return_X_y=True)
    model = SpinyRegressor().fit(X, y)
    assert np.all(model.relevance_[model.support_] > 0.0)
    assert model.relevance_.max() == 1.0
    selector = SelectFromModel(
        model, prefit=True, importance_getter="feature_importances_", threshold=1e-12
    )
    np.testing.assert_array_equal(selector.get_support(), model.support_)


def test_relevance_is_relative():
    found = relative_size(np.array([1.0, 0.5, 0.0, 2.0]), np.array([3, 1]))
    np.testing.assert_allclose(found, [0.5, 0.25, 0.0, 1.0])
    none = np.zeros(0, dtype=int)
    np.testing.assert_array_equal(relative_size(np.ones(4), none), np.zeros(4))
    pruned = relative_size(np.zeros(2), np.array([1]))
    assert pruned[0] == 0.0
    assert pruned[1] > 0.0


@pytest.mark.parametrize("p", [8, 30])
def test_sign_changes_of_columns(p, rng):
    """The map rule does not depend on the signs of columns, the average only on relative signs."""
    X = rng.standard_normal((60, p))
    y = X[:, :5] @ np.array([1.0, -1.0, 0.5, 0.3, -0.3]) + 1.5 * rng.standard_normal(60)
    signs = rng.choice([-1.0, 1.0], p)
    options = {"selection_rule": "map", "average": False}
    expected = SpinyRegressor(**options).fit(X, y)
    found = SpinyRegressor(**options).fit(X * signs, y)
    np.testing.assert_allclose(found.coef_, signs * expected.coef_, atol=1e-9)
    expected, found = SpinyRegressor().fit(X, y), SpinyRegressor().fit(-X, y)
    np.testing.assert_allclose(found.coef_, -expected.coef_, atol=1e-9)
