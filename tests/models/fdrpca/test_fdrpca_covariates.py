"""FDRPCA with covariates of the rows."""

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from papers.situations import batches_of_unequal_noise, numeric_covariates, simulated
from prosparse import FDRPCA, CovariatesWarning, InputError, ParameterError, load, save
from prosparse.plot import ScoresDisplay
from prosparse.stability import permutation_null, stability_selection


def draw_sample(seed=0, n=120, p=41, shift=0.0):
    """Age and sex drive all columns; the first five share a second factor."""
    rng = np.random.default_rng(seed)
    age, sex = rng.uniform(20.0, 80.0, n), rng.choice(["f", "m"], n)
    Y = rng.standard_normal((n, p))
    Y[:, :5] += 1.2 * rng.standard_normal((n, 1))
    X = Y + np.outer((age - 50.0) / 15.0, rng.normal(0.0, 2.0, p)) + shift
    X += np.outer(sex == "m", rng.normal(0.0, 2.0, p))
    return X, pd.DataFrame({"age": age, "sex": sex}), Y


def residuals(X, covariates):
    """Compute residuals by ordinary least squares."""
    D = np.column_stack([np.ones(len(X)), covariates["age"], covariates["sex"] == "m"])
    return X - D @ np.linalg.lstsq(D, X)[0]


@pytest.fixture(scope="module")
def sample():
    return draw_sample(shift=10.0)


@pytest.fixture(scope="module")
def fitted(sample):
    return FDRPCA().fit(sample[0], covariates=sample[1])


def test_only_shared_variance_beyond_the_covariates_is_selected(sample, fitted):
    X, _, _ = sample
    assert FDRPCA().fit(X).n_selected_ > 35
    assert np.flatnonzero(fitted.support_).tolist() == [0, 1, 2, 3, 4]


def test_fit_and_scores_are_those_of_residuals(sample, fitted):
    X, covariates, _ = sample
    R = residuals(X, covariates)
    by_hand = FDRPCA().fit(R)
    np.testing.assert_array_equal(fitted.support_, by_hand.support_)
    np.testing.assert_allclose(fitted.scale_, R.std(axis=0))
    np.testing.assert_allclose(fitted.components_, by_hand.components_, atol=1e-9)
    scores = fitted.transform(X, covariates=covariates)
    np.testing.assert_allclose(scores, by_hand.transform(R), atol=1e-9)
    np.testing.assert_allclose(fitted.covariate_r2_, 1.0 - R.var(axis=0) / X.var(axis=0))
    assert fitted.null_communality_ == pytest.approx(fitted.n_components_ / (120 - 3))
    score = fitted.score(X, covariates=covariates)
    assert score == pytest.approx(by_hand.score(R))


def test_fit_transform(sample, fitted):
    X, covariates, _ = sample
    scores = FDRPCA().fit_transform(X, covariates=covariates)
    np.testing.assert_array_equal(scores, fitted.transform(X, covariates=covariates))


def test_coefficients_are_those_of_least_squares(sample, fitted):
    X, covariates, _ = sample
    D = np.column_stack([np.ones(len(X)), covariates["age"], covariates["sex"] == "m"])
    np.testing.assert_allclose(fitted.covariate_coef_, np.linalg.lstsq(D, X)[0][1:])
    assert fitted.covariate_names_.tolist() == ["age", "sex"]
    assert {k: v.tolist() for k, v in fitted.covariate_levels_.items()} == {"sex": ["f", "m"]}


def test_new_rows_are_adjusted_by_the_stored_coefficients(sample, fitted):
    X, covariates, _ = draw_sample()
    new = covariates.iloc[:7][["sex", "age"]]
    coded = np.column_stack([new["age"], new["sex"] == "m"]) - fitted.covariate_mean_
    Z = (X[:7] - fitted.mean_ - coded @ fitted.covariate_coef_) / fitted.scale_
    np.testing.assert_allclose(fitted.transform(X[:7], covariates=new), Z @ fitted.components_.T)


def test_inverse_transform_refers_to_mean_covariates_or_adds_effects(sample, fitted):
    X, covariates, _ = sample
    scores = fitted.transform(X, covariates=covariates)
    adjusted = fitted.inverse_transform(scores)
    np.testing.assert_allclose(adjusted.mean(axis=0), X.mean(axis=0))
    full = fitted.inverse_transform(scores, covariates=covariates)
    unexplained = np.sum((X - full) ** 2) / np.sum((X - X.mean(axis=0)) ** 2)
    assert unexplained < 0.5
    coded = np.column_stack([covariates["age"], covariates["sex"] == "m"])
    effects = (coded - fitted.covariate_mean_) @ fitted.covariate_coef_
    np.testing.assert_allclose(full - adjusted, effects)


def test_missing_unknown_and_unexpected_covariates(sample, fitted):
    X, covariates, _ = sample
    with pytest.raises(ParameterError, match="required: this FDRPCA was fitted with 'age', 'sex'"):
        fitted.transform(X)
    with pytest.raises(ParameterError, match="lacks 'sex'"):
        fitted.transform(X, covariates=covariates[["age"]])
    with pytest.raises(ParameterError, match="unknown level of 'sex': 'x'"):
        fitted.transform(X, covariates=covariates.assign(sex="x"))
    with pytest.raises(ParameterError, match="each of the 3 rows"):
        fitted.transform(X[:3], covariates=covariates)
    plain = FDRPCA().fit(X)
    with pytest.raises(ParameterError, match="fitted without covariates"):
        plain.transform(X, covariates=covariates)


def test_groups_and_covariate_of_the_same_labels_agree(sample):
    X, covariates, _ = sample
    batch = np.arange(len(X)) % 6
    grouped = FDRPCA().fit(X, groups=batch, covariates=covariates)
    combined = FDRPCA().fit(X, covariates=covariates.assign(batch=batch.astype(str)))
    np.testing.assert_allclose(grouped.pvalues_, combined.pvalues_, rtol=1e-6)
    np.testing.assert_allclose(grouped.communality_, combined.communality_)
    np.testing.assert_allclose(grouped.scale_, combined.scale_)


@pytest.mark.parametrize("options", [{}, {"null": "exchangeable"}, {"rank_transform": True}])
def test_sparse_data_give_the_same_result(sample, options):
    X, covariates, _ = sample
    rng = np.random.default_rng(0)
    X = X + 3.0 * rng.standard_normal((len(X), 1)) * (np.arange(X.shape[1]) < 8)
    X = np.where(rng.random(X.shape) < 0.7, X - 10.0, 0.0)
    dense = FDRPCA(1, **options).fit(X, covariates=covariates)
    found = FDRPCA(1, **options).fit(sparse.csr_array(X), covariates=covariates)
    np.testing.assert_allclose(found.pvalues_, dense.pvalues_, rtol=1e-4)
    np.testing.assert_allclose(
        found.transform(sparse.csr_array(X), covariates=covariates),
        dense.transform(X, covariates=covariates),
        atol=1e-8,
    )


def test_counts_are_adjusted_after_pearson_residuals():
    rng = np.random.default_rng(0)
    n, p = 150, 40
    batch, depth = rng.choice(["a", "b", "c"], n), rng.lognormal(0.0, 0.5, n)
    rate = rng.lognormal(1.0, 0.5, p) * depth[:, None]
    rate *= np.exp(0.8 * rng.standard_normal((3, p)))[np.searchsorted(["a", "b", "c"], batch)]
    rate[:, :5] *= np.exp(0.6 * rng.standard_normal((n, 1)))
    X = rng.poisson(rate).astype(float)
    assert FDRPCA(counts=True).fit(X).n_selected_ > 20
    model = FDRPCA(counts=True).fit(X, covariates=batch)
    assert set(np.flatnonzero(model.support_)) <= set(range(6))
    assert model.support_[:5].all()
    scores = model.transform(X, covariates=batch)
    means = [np.mean(scores[batch == level], axis=0) for level in "abc"]
    # The limit of the residuals, which applies after the adjustment, changes the means a little.
    np.testing.assert_allclose(means, 0.0, atol=0.03 * np.std(scores))


def counts_of_batches(rng, n=150, p=400):
    """Simulate counts whose proportions differ between batches; 15 columns share variance."""
    batch, depth = rng.choice(["a", "b", "c"], n), rng.lognormal(0.0, 0.5, n)
    rate = rng.lognormal(1.0, 0.5, p) * depth[:, None]
    rate *= np.exp(0.8 * rng.standard_normal((3, p)))[np.searchsorted(["a", "b", "c"], batch)]
    rate[:, :15] *= np.exp(0.6 * rng.standard_normal((n, 1)))
    return rng.poisson(rate).astype(float), batch


@pytest.mark.parametrize("argument", ["groups", "covariates"])
def test_batches_of_counts_with_other_proportions_and_unequal_depth(argument):
    """Differences of batches grow with depth, and must be removed in proportion to it."""
    power, false = [], []
    for seed in range(4):
        X, batch = counts_of_batches(np.random.default_rng(seed))
        support = FDRPCA(counts=True).fit(X, **{argument: batch}).support_
        power.append(support[:15].mean())
        false.append(support[15:].sum() / support.sum())
    assert np.mean(power) > 0.8
    assert np.mean(false) < 0.1


def test_scores_of_counts_subtract_effects_that_grow_with_depth():
    """Scores of the rows of the fit are those of their weighted least-squares residuals."""
    rng = np.random.default_rng(1)
    X, batch = counts_of_batches(rng)
    model = FDRPCA(counts=True).fit(X, covariates=batch)
    parts = [X[:40], X[40:]]
    labels = [batch[:40], batch[40:]]
    scores = np.concatenate(
        [model.transform(part, covariates=label) for part, label in zip(parts, labels, strict=True)]
    )
    np.testing.assert_allclose(scores, model.transform(X, covariates=batch), atol=1e-9)
    depth = np.log(X.sum(axis=1))
    for level in "abc":
        inside = batch == level
        for score in scores[inside].T:
            assert abs(np.corrcoef(score, depth[inside])[0, 1]) < 0.4


def test_scores_of_counts_are_centred_if_depth_differs_between_batches():
    X, batch = counts_of_batches(np.random.default_rng(2))
    X[batch == "a"] *= 6.0
    scores = FDRPCA(counts=True).fit(X, covariates=batch).transform(X, covariates=batch)
    # Only the limit of the residuals moves the means.
    np.testing.assert_array_less(np.abs(scores.mean(axis=0)), 0.1 * scores.std(axis=0))


def test_columns_that_covariates_determine_are_constant(sample):
    X, covariates, _ = sample
    X = np.column_stack([X, 2.0 * covariates["age"] + 1.0])
    model = FDRPCA().fit(X, covariates=covariates)
    assert not model.varying_[-1]
    assert model.pvalues_[-1] == 1.0
    assert model.covariate_r2_[-1] == pytest.approx(1.0)
    assert np.isfinite(model.transform(X, covariates=covariates)).all()
    with pytest.raises(InputError, match="0 of the 2 varying columns"):
        FDRPCA().fit(X[:, [-1, -1]], covariates=covariates)


@pytest.mark.filterwarnings("ignore::prosparse.OutlyingRowsWarning")
def test_degrees_of_freedom(sample):
    X = sample[0]
    levels = np.array([f"b{k}" for k in range(60)] * 2)
    with pytest.warns(CovariatesWarning, match="59 coded columns for 80 rows and leaves 20"):
        FDRPCA(1).fit(X[:80], covariates=levels[:80])
    with pytest.raises(ParameterError, match="leaves 2 degrees of freedom; at least 4"):
        FDRPCA().fit(X[:62], covariates=levels[:62])


def test_collinear_covariates(sample):
    X, covariates, _ = sample
    site = np.where(covariates["sex"] == "m", "x", "y")
    with pytest.warns(CovariatesWarning, match="'site' is determined by other covariates"):
        again = FDRPCA().fit(X, covariates=covariates.assign(site=site))
    assert again.null_communality_ == pytest.approx(again.n_components_ / (120 - 3))
    with pytest.warns(CovariatesWarning, match="'sex' is determined by groups or other"):
        FDRPCA().fit(X, groups=site, covariates=covariates)
    near = covariates["age"] + 0.01 * np.random.default_rng(0).standard_normal(120)
    with pytest.warns(CovariatesWarning, match="'months' is nearly collinear"):
        FDRPCA().fit(X, covariates=covariates.assign(months=near))


def test_table_of_results_and_model_file(sample, fitted, tmp_path):
    X, covariates, _ = sample
    frame = fitted.to_frame()
    np.testing.assert_array_equal(frame["covariate_r2"], fitted.covariate_r2_)
    assert "covariate_r2" not in FDRPCA().fit(X).to_frame()
    again = load(save(fitted, tmp_path / "model.prosparse"))
    expected = fitted.transform(X, covariates=covariates)
    np.testing.assert_array_equal(again.transform(X, covariates=covariates), expected)


def test_metadata_routing(sample):
    X, covariates, _ = sample
    with sklearn.config_context(enable_metadata_routing=True):
        model = FDRPCA().set_fit_request(covariates=True).set_transform_request(covariates=True)
        pipeline = make_pipeline(StandardScaler(), model).fit(X, covariates=covariates)
        scores = pipeline.transform(X, covariates=covariates)
    plain = FDRPCA().fit(X, covariates=covariates)
    np.testing.assert_allclose(scores, plain.transform(X, covariates=covariates), atol=1e-9)


def rates_and_power(draw, n_draws):
    """Return the mean false discovery proportion, and found variables with those of the oracle."""
    false, found, oracle = [], 0, 0
    for seed in range(n_draws):
        sample = draw(np.random.default_rng(seed), True, None)
        model = FDRPCA(1).fit(sample.X, covariates=sample.covariates)
        false.append(np.sum(model.support_ & ~sample.truth) / max(model.n_selected_, 1))
        found += np.sum(model.support_ & sample.truth)
        oracle += np.sum(FDRPCA(1).fit(sample.adjusted).support_ & sample.truth)
    return np.mean(false), found, oracle


@pytest.mark.slow
@pytest.mark.parametrize(
    "distort",
    [numeric_covariates(0.3), numeric_covariates(3.0), batches_of_unequal_noise(20, 0.5)],
    ids=["weak", "strong", "batches"],
)
def test_false_discoveries_and_power_beside_the_oracle(distort):
    false, found, oracle = rates_and_power(simulated(distort), 8)
    assert false <= 0.1  # eight draws
    assert found >= 0.95 * oracle


@pytest.mark.parametrize("p", [200, 1000])
def test_nothing_is_selected_if_noise_depends_on_a_covariate(p):
    """Residuals divided after the adjustment would be correlated (E23)."""
    selected = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        z = rng.standard_normal((80, 3))
        X = rng.standard_normal((80, p)) * np.exp(0.6 * z[:, :1]) + 2.0 * z @ rng.normal(
            size=(3, p)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            selected += FDRPCA().fit(X, covariates=z).n_selected_
    assert selected == 0


def test_null_datasets_and_stability(sample, fitted):
    X, covariates, _ = sample
    null = permutation_null(fitted, X, 4, covariates=covariates, random_state=0)
    assert null.expected_n_selected < 1.0
    found = stability_selection(fitted, X, 4, covariates=covariates, random_state=0)
    assert found.selection_counts[:5].min() >= 3
    assert found.selection_counts[5:].sum() <= 3
    with pytest.raises(InputError, match="pass them as `covariates`"):
        permutation_null(fitted, X)
    with pytest.raises(InputError, match="fitted without covariates; omit"):
        stability_selection(FDRPCA().fit(X), X, covariates=covariates)


def test_plot_of_scores(sample, fitted):
    X, covariates, _ = sample
    display = ScoresDisplay.from_estimator(fitted, X, covariates=covariates)
    np.testing.assert_array_equal(display.scores, fitted.transform(X, covariates=covariates))
