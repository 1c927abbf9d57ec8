"""`SCA`: estimation, fitted attributes, methods and validation."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.linalg import subspace_angles
from scipy.stats import multivariate_normal, norm
from sklearn.decomposition import PCA, FactorAnalysis
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer

from prosparse import SCA, InputError, NoStructureWarning, ParameterError
from prosparse.datasets import make_sparse_projection
from prosparse.metrics import support_f_score

BOTH = ["ard", "hyperbolic"]


def two_views(n=200, seed=0, gap=0.0):
    """Simulate two views with two shared sparse factors and one strong private factor each."""
    rng = np.random.default_rng(seed)
    W1, W2 = np.zeros((15, 2)), np.zeros((20, 2))
    W1[:4, 0], W1[5:9, 1], W2[:5, 0], W2[10:14, 1] = 1.0, -1.0, 0.8, 1.0
    V1, V2 = np.zeros((15, 1)), np.zeros((20, 1))
    V1[6:15], V2[3:12] = 1.5, 1.5
    z, own1, own2 = (rng.standard_normal((n, k)) for k in (2, 1, 1))
    X1 = z @ W1.T + own1 @ V1.T + 0.4 * rng.standard_normal((n, 15))
    X2 = z @ W2.T + own2 @ V2.T + 0.6 * rng.standard_normal((n, 20))
    return X1, X2, np.vstack([W1, W2]), z, np.hstack([own1, own2])


def low_rank(n=100, p=20, k=3, noise=0.3, missing=0.3, seed=0):
    rng = np.random.default_rng(seed)
    L = np.where(rng.random((p, k)) < 0.6, rng.standard_normal((p, k)), 0)
    X = rng.standard_normal((n, k)) @ L.T + noise * rng.standard_normal((n, p)) + 3.0
    return X, np.where(rng.random((n, p)) < missing, np.nan, X)


@pytest.fixture(scope="module", params=BOTH)
def fitted(request):
    X1, X2, *_ = two_views()
    return X1, X2, SCA(2, n_private=1, prior=request.param).fit([X1, X2])


# --- estimation


@pytest.mark.parametrize(
    "prior", [{"prior": "ard"}, {"prior": "hyperbolic", "shape": 36.0, "rate": 0.0}]
)
def test_dense_data_with_a_flat_prior_give_the_ppca_subspace(prior, rng):
    X = rng.standard_normal((400, 3)) @ rng.normal(2, 1, (3, 12)) + rng.standard_normal((400, 12))
    model = SCA(3, noise="view", tol=1e-12, max_iter=5000, **prior).fit(X)
    angles = subspace_angles(model.components_.T, PCA(3).fit(X).components_.T)
    # Least squares is exact; ARD shrinks slightly.
    assert angles.max() < (0.03 if prior["prior"] == "ard" else 1e-3)
    if prior["prior"] == "hyperbolic":
        assert model.noise_variance_[0] == pytest.approx(
            np.linalg.eigvalsh(np.cov(X.T, bias=True))[:-3].mean(), rel=1e-4
        )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("prior", BOTH)
def test_two_views_recover_simulated_factors(prior, seed):
    X1, X2, W, z, private = two_views(seed=seed)
    model = SCA(2, n_private=1, prior=prior).fit([X1, X2])
    assert model.factor_view_.tolist() == [-1, -1, 0, 1]
    Z = model.transform([X1, X2])
    both = np.corrcoef(np.hstack([Z, z, private]).T)[:4, 4:]
    shared = np.abs(both[:2, :2])
    assert np.all(shared.max(axis=1) > 0.95)
    # The private factors are twice as strong and must not enter the shared factors.
    assert np.abs(both[:2, 2:]).max() < 0.25
    assert np.all(np.diagonal(np.abs(both[2:, 2:])) > 0.97)
    order = np.argmax(shared, axis=1)
    directions = model.components_[:2].T
    cosines = np.sum(directions * W[:, order], axis=0)
    cosines /= np.linalg.norm(directions, axis=0) * np.linalg.norm(W[:, order], axis=0)
    assert np.all(np.abs(cosines) > 0.97)
    if prior == "hyperbolic":
        for j in range(2):
            assert support_f_score(W[:, order[j]] != 0, directions[:, j] != 0) > 0.75


def test_private_structure_leaks_without_private_factors():
    """Negative control of the previous test."""
    X1, X2, _, _, private = two_views()
    Z = SCA(2).fit([X1, X2]).transform([X1, X2])
    assert np.abs(np.corrcoef(np.hstack([Z, private]).T)[:2, 2:]).max() > 0.8


def test_imputed_values_have_the_conditional_distribution(rng):
    X = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 7)) + rng.normal(size=(60, 7))
    model = SCA(2).fit(X)
    row, missing = X[:1].copy(), np.array([1, 4])
    row[0, missing] = np.nan
    full, std = model.impute(row, return_std=True)
    observed = np.setdiff1d(np.arange(7), missing)
    C = model.get_covariance()
    slope = C[np.ix_(missing, observed)] @ np.linalg.inv(C[np.ix_(observed, observed)])
    mean = model.mean_[missing] + slope @ (row[0, observed] - model.mean_[observed])
    covariance = C[np.ix_(missing, missing)] - slope @ C[np.ix_(observed, missing)]
    np.testing.assert_allclose(full[0, missing], mean)
    np.testing.assert_allclose(std[0, missing], np.sqrt(np.diag(covariance)))
    assert not std[0, observed].any()
    assert not model.impute(X, return_std=True)[1].any()


@pytest.mark.filterwarnings("ignore:.IterativeImputer. Early stopping")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("prior", BOTH)
def test_imputation_error(prior, seed):
    X, incomplete = low_rank(seed=seed)
    missing = np.isnan(incomplete)
    model = SCA(3, prior=prior).fit(incomplete)

    def error(full):
        return np.sqrt(np.mean((full - X)[missing] ** 2))

    imputed = model.impute(incomplete)
    np.testing.assert_array_equal(imputed[~missing], X[~missing])
    assert error(imputed) < 0.5 * error(np.where(missing, np.nanmean(incomplete, axis=0), X))
    # by BayesianRidge, its default
    peer = IterativeImputer(max_iter=50, random_state=0).fit_transform(incomplete)
    assert error(imputed) < error(peer)


@pytest.mark.parametrize(
    ("near", "limit"), [((1e-9, 1e-14), (0.0, 0.0)), ((60.0001, 8.0), (60.0, 8.0))]
)
def test_normal_jeffreys_and_laplace_are_limits(near, limit):
    """Bessel functions near the limit and closed forms at the limit give the same fit."""
    X = make_sparse_projection(100, random_state=2).X
    fits = [SCA(6, prior="hyperbolic", shape=a, rate=b).fit(X) for a, b in (near, limit)]
    np.testing.assert_allclose(
        fits[0].inverse_transform(fits[0].transform(X)),
        fits[1].inverse_transform(fits[1].transform(X)),
        atol=2e-3,
    )


def test_larger_rate_gives_more_zeros():
    X = make_sparse_projection(100, random_state=2).X
    counts = [
        np.sum(SCA(4, prior="hyperbolic", shape=40.0, rate=b).fit(X).components_ != 0)
        for b in (0.0, 10.0, 1000.0)
    ]
    assert counts[0] > counts[1] > counts[2] > 0


def test_factors_without_loadings_are_removed():
    data = make_sparse_projection(2000, n_components=2, random_state=1)
    model = SCA(5, prior="hyperbolic").fit(data.X)
    assert model.n_components_ + model.n_pruned_ == 5
    assert model.n_components_ < 5
    assert model.components_.shape == (model.n_components_, 10)
    assert np.all(np.any(model.components_ != 0, axis=1))


def test_auto_selects_the_simulated_number_of_factors():
    X = make_sparse_projection(500, n_features=30, n_nonzero=12, random_state=0).X
    assert SCA().fit(X).n_components_ == 4


def test_auto_with_heavy_tails_and_unequal_noise(rng):
    """Dozens of eigenvalues exceed white noise, but there are few factors."""
    W = np.where(rng.random((3, 60)) < 0.4, rng.standard_normal((3, 60)), 0.0)
    scales = np.exp(rng.normal(0, 1.2, 60))
    X = (rng.standard_normal((80, 3)) @ W + rng.standard_normal((80, 60))) * scales
    X[:, 40:] += (
        2 * scales[40:] * rng.standard_t(2, (80, 20))
    )  # heavy tails increase the leading eigenvalues
    assert SCA().fit(X).n_components_ <= 4


# --- fitted attributes and methods


def test_attributes(fitted):
    X1, X2, model = fitted
    assert model.components_.shape == (4, 35)
    assert [part.shape for part in model.view_components_] == [(4, 15), (4, 20)]
    np.testing.assert_array_equal(np.hstack(model.view_components_), model.components_)
    assert np.all(model.components_[2, 15:] == 0)  # fixed zeros
    assert np.all(model.components_[3, :15] == 0)
    np.testing.assert_allclose(model.noise_variance_, [0.16, 0.36], rtol=0.1)
    np.testing.assert_allclose(model.mean_, np.hstack([X1, X2]).mean(axis=0))
    assert model.n_components_ == 2
    assert model.n_private_ == [1, 1]
    assert model.n_pruned_ == 0
    assert np.all(np.diff(model.objective_path_) >= 0)
    assert len(model.objective_path_) == model.n_iter_
    np.testing.assert_array_equal(model.support_, np.any(model.components_ != 0, axis=0))
    if model.prior == "ard":
        std = model.components_std_
        np.testing.assert_array_equal(std == 0, model.components_ == 0)
        # about 1 / sqrt(n tau)
        assert np.median(std[:, :15][std[:, :15] > 0]) == pytest.approx(0.4 / 200**0.5, rel=0.3)
    else:
        assert not hasattr(model, "components_std_")


def covariance(model):
    noise = model.feature_noise_variance_.copy()
    if hasattr(model, "components_std_"):  # uncertainty of the loadings
        noise += np.sum(model.components_std_**2, axis=0)
    return model.components_.T @ model.components_ + np.diag(noise)


def test_covariance_and_precision_match_dense_formula(fitted):
    *_, model = fitted
    np.testing.assert_allclose(model.get_covariance(), covariance(model), rtol=1e-12)
    np.testing.assert_allclose(
        model.get_precision(), np.linalg.inv(covariance(model)), rtol=1e-7, atol=1e-9
    )


def test_covariance_of_one_view_is_close_to_factor_analysis(rng):
    L = rng.normal(0, 1.5, (2, 8))
    X = rng.standard_normal((500, 2)) @ L + rng.uniform(0.5, 1.0, 8) * rng.standard_normal((500, 8))
    reference = FactorAnalysis(2, tol=1e-8, max_iter=5000).fit(X)
    model = SCA(2, tol=1e-10).fit(X)
    scale = np.abs(reference.get_covariance()).max()
    assert np.abs(model.get_covariance() - reference.get_covariance()).max() < 0.03 * scale
    np.testing.assert_allclose(model.score(X), reference.score(X), atol=0.02)


def test_explained_variance_ratio_is_a_proportion_of_the_model_variance(fitted):
    X1, X2, model = fitted
    ratio = model.explained_variance_ratio_
    expected = np.sum(model.components_**2, axis=1) / np.trace(covariance(model))
    np.testing.assert_allclose(ratio, expected, rtol=1e-12)
    residual = np.hstack([X1, X2]) - model.inverse_transform(model.transform([X1, X2]))
    total = np.hstack([X1, X2]).var(axis=0).sum()
    # The factor scores are shrunk, so that the residual variance is slightly too large.
    assert ratio.sum() == pytest.approx(1 - residual.var(axis=0).sum() / total, abs=0.06)


@pytest.mark.parametrize("missing", [False, True])
def test_covariance_with_constant_columns_and_missing_values(missing):
    X, incomplete = low_rank(60, 6, 1)
    X = incomplete if missing else X
    X = np.insert(X, 2, 5.0, axis=1)
    model = SCA(1).fit(X)
    varying = np.arange(7) != 2
    covariance_, precision = model.get_covariance(), model.get_precision()
    for matrix in (covariance_, precision):
        assert not matrix[2].any()
        assert not matrix[:, 2].any()
    kept = np.ix_(varying, varying)
    np.testing.assert_allclose(covariance_[kept] @ precision[kept], np.eye(6), atol=1e-9)
    complete = np.where(np.isnan(X), model.mean_, X)[:4]
    expected = multivariate_normal.logpdf(
        complete[:, varying], model.mean_[varying], covariance_[kept]
    )
    np.testing.assert_allclose(model.score_samples(complete), expected)
    explained = model.explained_variance_
    np.testing.assert_allclose(
        model.explained_variance_ratio_, explained / np.trace(covariance_), rtol=1e-12
    )


def test_covariance_in_the_array_library_of_the_data():
    strict = pytest.importorskip("array_api_strict")
    X, _ = low_rank(40, 6, 1)
    model, reference = SCA(1).fit(strict.asarray(X, dtype=strict.float32)), SCA(1).fit(X)
    for name in ("get_covariance", "get_precision"):
        found = getattr(model, name)()
        assert isinstance(found, type(model.components_))
        assert found.dtype == strict.float32
        np.testing.assert_allclose(np.asarray(found), getattr(reference, name)(), atol=1e-3)
    ratio = model.explained_variance_ratio_
    assert isinstance(ratio, type(model.components_))
    np.testing.assert_allclose(np.asarray(ratio), reference.explained_variance_ratio_, atol=1e-4)


def test_covariance_before_fit_and_without_groups(rng):
    with pytest.raises(NotFittedError):
        SCA(1).get_covariance()
    assert not hasattr(SCA(1), "explained_variance_ratio_")
    model = SCA(1).fit(low_rank(40, 6, 1)[0])
    with pytest.raises(ParameterError, match="`group` must be None for a model fitted without"):
        model.get_precision(group="a")


def test_predictive_variance_includes_uncertainty_of_the_loadings(rng):
    """Compare with rows simulated from the posterior of the loadings."""
    z = rng.standard_normal((12, 1))
    X = z * [1.0, 1.0, 1.0, 0.7, 0.7] + 0.6 * rng.standard_normal((12, 5))
    model = SCA(1, noise="view").fit(X)
    assert np.sum(model.components_std_**2) > 0.05 * np.sum(model.feature_noise_variance_)
    draws = 100_000
    loadings = model.components_ + model.components_std_ * rng.standard_normal((draws, 5))
    rows = model.mean_ + rng.standard_normal((draws, 1)) * loadings
    rows += np.sqrt(model.feature_noise_variance_) * rng.standard_normal(rows.shape)
    np.testing.assert_allclose(np.cov(rows.T), covariance(model), atol=0.02)
    prediction = model.predict_view(rows, target=0)  # all columns are the target
    np.testing.assert_allclose(prediction.variance[0], np.diagonal(covariance(model)), rtol=1e-6)


def test_score_samples_is_the_dense_density(fitted):
    *_, model = fitted
    X = np.hstack(two_views(20, seed=9)[:2])
    dense = multivariate_normal.logpdf(X, model.mean_, covariance(model))
    np.testing.assert_allclose(model.score_samples(X), dense)
    assert model.score(X) == pytest.approx(dense.mean())
    incomplete = X.copy()
    incomplete[0, 3] = incomplete[1, :15] = incomplete[2, :] = np.nan
    got = model.score_samples(incomplete)
    sigma = covariance(model)
    for row in (0, 1):
        a = np.flatnonzero(~np.isnan(incomplete[row]))
        expected = multivariate_normal.logpdf(X[row, a], model.mean_[a], sigma[np.ix_(a, a)])
        assert got[row] == pytest.approx(expected)
    assert got[2] == pytest.approx(0.0)


def test_predict_view_is_the_conditional_gaussian(fitted):
    X1, X2, model = fitted
    mean, variance = model.predict_view([X1, None], target=1)
    sigma, a, b = covariance(model), np.arange(15), np.arange(15, 35)
    gain = sigma[np.ix_(b, a)] @ np.linalg.inv(sigma[np.ix_(a, a)])
    np.testing.assert_allclose(mean, model.mean_[b] + (X1 - model.mean_[a]) @ gain.T)
    expected = np.diagonal(sigma[np.ix_(b, b)] - gain @ sigma[np.ix_(a, b)])
    np.testing.assert_allclose(variance, np.broadcast_to(expected, variance.shape))
    for same in ({0: X1}, [X1, X2], np.hstack([X1, X2])):
        np.testing.assert_allclose(model.predict_view(same, 1).mean, mean)
    # Prediction error and coverage in new samples.
    X1, X2, *_ = two_views(2000, seed=5)
    mean, variance = model.predict_view({0: X1}, 1)
    inside = np.mean(np.abs(X2 - mean) < 1.96 * np.sqrt(variance))
    assert inside == pytest.approx(0.95, abs=0.02)
    assert np.mean((X2 - mean) ** 2) < 0.9 * np.mean((X2 - X2.mean(axis=0)) ** 2)


def test_transform_is_the_posterior_mean(fitted):
    X1, X2, model = fitted
    X = np.hstack([X1, X2])
    Z = (X - model.mean_) @ np.linalg.solve(covariance(model), model.components_.T)
    np.testing.assert_allclose(model.transform([X1, X2]), Z, atol=1e-10)
    np.testing.assert_allclose(model.transform(X), Z, atol=1e-10)
    denoised = model.inverse_transform(Z)
    assert denoised.shape == X.shape
    np.testing.assert_allclose(denoised, Z @ model.components_ + model.mean_)
    # From one view, and from a row without observed entries.
    some = model.transform([X1, None])
    sigma = covariance(model)[:15, :15]
    expected = (X1 - model.mean_[:15]) @ np.linalg.solve(sigma, model.components_[:, :15].T)
    np.testing.assert_allclose(some, expected, atol=1e-10)
    np.testing.assert_array_equal(model.transform(np.full((1, 35), np.nan)), np.zeros((1, 4)))


@pytest.mark.parametrize("prior", BOTH)
def test_specifications_of_views(prior):
    X1, X2, *_ = two_views(60)
    X = np.hstack([X1, X2])
    frame = pd.DataFrame(X, columns=[f"v{i}" for i in range(35)])
    reference = SCA(2, n_private=[1, 0], prior=prior).fit([X1, X2]).components_
    for views, data in [
        ([slice(0, 15), slice(15, 35)], X),
        ([list(range(15)), np.arange(15, 35)], X),
        ([np.arange(35) < 15, np.arange(35) >= 15], X),
        ([list(frame.columns[:15]), list(frame.columns[15:])], frame),
    ]:
        model = SCA(2, n_private=[1, 0], prior=prior, views=views).fit(data)
        np.testing.assert_allclose(model.components_, reference)
    mixed = np.argsort(np.arange(35) % 3, kind="stable")
    views = [np.flatnonzero(mixed < 15), np.flatnonzero(mixed >= 15)]
    model = SCA(2, n_private=[1, 0], prior=prior, views=views).fit(X[:, mixed])
    np.testing.assert_allclose(np.abs(model.components_), np.abs(reference[:, mixed]), atol=1e-4)
    parts = [X[:, mixed][:, columns] for columns in views]
    np.testing.assert_allclose(model.transform(parts), model.transform(X[:, mixed]))


@pytest.mark.parametrize("prior", BOTH)
def test_sparse_input_matches_dense_input(prior, rng):
    X = rng.poisson(0.3 * np.exp(rng.standard_normal((40, 2)) @ rng.standard_normal((2, 60)) / 2))
    X = X[:, X.max(axis=0) > X.min(axis=0)].astype(float)
    dense = SCA(2, prior=prior).fit(X)
    model = SCA(2, prior=prior).fit(sparse.csr_array(X))
    np.testing.assert_allclose(model.components_, dense.components_, atol=1e-6)
    np.testing.assert_allclose(model.transform(sparse.csr_array(X)), dense.transform(X), atol=1e-6)
    assert model.score(sparse.csr_array(X)) == pytest.approx(dense.score(X))
    assert sparse.issparse(model.select(sparse.csr_array(X)))


@pytest.mark.parametrize("prior", BOTH)
@pytest.mark.parametrize("factor", [1e-100, 1e-6, 1e5, 1e100])
def test_invariance_to_units(prior, factor):
    X = make_sparse_projection(60, random_state=3).X
    small, large = (SCA(4, prior=prior).fit(c * X) for c in (1.0, factor))
    np.testing.assert_allclose(large.components_ / factor, small.components_, rtol=1e-3, atol=1e-4)


def test_missing_view_in_fit():
    X1, X2, *_ = two_views(300)
    hidden = X2.copy()
    hidden[:150] = np.nan
    model = SCA(2, n_private=1).fit([X1, hidden])
    guess = model.impute([X1, hidden])[:150, 15:]
    assert np.mean((guess - X2[:150]) ** 2) < 0.85 * np.mean((X2[:150] - X2.mean(axis=0)) ** 2)
    assert np.all(np.isfinite(model.components_))


def test_impute_returns_a_dataframe():
    _, incomplete = low_rank(40, 6, 1)
    frame = pd.DataFrame(incomplete, columns=list("abcdef"))
    full = SCA(1).fit(frame).impute(frame)
    assert list(full.columns) == list("abcdef")
    assert not full.isna().any().any()
    complete = full.copy()
    pd.testing.assert_frame_equal(SCA(1).fit(frame).impute(complete), complete)


@pytest.mark.filterwarnings("ignore:X has feature names")  # polars always names columns
@pytest.mark.parametrize("with_missing", [False, True])
@pytest.mark.parametrize("container", ["numpy", "pandas", "polars", "masked", "single precision"])
def test_impute_returns_a_copy_in_the_same_container(container, with_missing):
    polars = pytest.importorskip("polars")
    X, incomplete = low_rank(40, 6, 1)
    model = SCA(1).fit(X)
    given = incomplete if with_missing else X
    make = {
        "numpy": np.array,
        "pandas": pd.DataFrame,
        "polars": polars.DataFrame,
        "masked": lambda values: np.ma.MaskedArray(np.nan_to_num(values), np.isnan(values)),
        "single precision": lambda values: np.array(values, dtype=np.float32),
    }[container]
    table = make(given)
    full = model.impute(table)
    assert type(full) is type(table)
    assert full is not table
    values = np.asarray(full)
    assert values.dtype == (np.float32 if container == "single precision" else np.float64)
    np.testing.assert_allclose(values, model.impute(given), rtol=1e-5)
    if container == "numpy":
        assert not np.shares_memory(full, table)


def test_impute_of_sparse_rows_with_missing_values():
    X, incomplete = low_rank(40, 6, 1)
    model = SCA(1).fit(X)
    np.testing.assert_allclose(model.impute(sparse.csr_array(incomplete)), model.impute(incomplete))


# --- invalid and degenerate input


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 0}, "`n_components` must be an integer of at least 1"),
        ({"prior": "laplace"}, "`prior` must be one of 'ard', 'point-normal', 'hyperbolic'"),
        ({"shape": -1.0}, "`shape` must be a non-negative number, got -1.0"),
        ({"rate": np.nan}, "`rate` must be a non-negative number, got nan"),
        ({"tol": -1e-3}, "`tol` must be a non-negative number, got -0.001"),
        ({"max_iter": 0}, "`max_iter` must be an integer of at least 1, got 0"),
        ({"noise": "column"}, "`noise` must be one of 'view', 'feature', 'learned', got 'column'"),
        (
            {"prior": "hyperbolic", "rate": 1e100, "noise": "view"},
            r"`rate` must be at most .* got 1e\+100",
        ),
        ({"rate": "1"}, "`rate` must be a non-negative number, got '1'"),
        ({"n_private": -1}, "`n_private` must be an integer of at least 0"),
        ({"n_private": [1, 1]}, r"one integer per view \(2 given, n_views=1\), got \[1, 1\]"),
        ({"views": []}, "`views` must be a list of column groups"),
        ({"views": [[0, 1], [1, 2, 3]]}, "1 of 4 columns is in more than one view"),
        ({"views": [[0, 1], [2]]}, "1 of 4 columns is in no view"),
        ({"views": [["a"], ["b"]]}, "column names, but X has none"),
        ({"views": [[0, 9], [1]]}, "has column 9, but X has 4 columns"),
        ({"views": [slice(0, 4), slice(4, 9)]}, "view 1 of `views` is empty"),
        ({"views": [[0.5], [1]]}, "must be names, a slice or positions"),
    ],
)
def test_invalid_parameters(parameters, message, rng):
    with pytest.raises(ParameterError, match=message):
        SCA(**{"n_components": 1} | parameters).fit(rng.standard_normal((10, 4)))


def test_invalid_data(rng):
    X = rng.standard_normal((10, 4))
    with pytest.raises(InputError, match=r"got \[10, 9\] rows"):
        SCA(1).fit([X, X[:9]])
    with pytest.raises(InputError, match=r"View 1 must be two-dimensional, got shape \(10,\)"):
        SCA(1).fit([X, X[:, 0]])
    with pytest.raises(ParameterError, match="`views` must be None if X is a list"):
        SCA(1, views=[[0]]).fit([X, X])
    with pytest.raises(ParameterError, match="not a column of X"):
        SCA(1, views=[["a", "z"], ["b"]]).fit(pd.DataFrame(X[:, :2], columns=["a", "b"]))
    with pytest.raises(InputError, match="View 1 has no varying column"):
        SCA(1).fit([X, np.ones((10, 2))])
    with pytest.raises(InputError, match="1 column without observed values, first at position 2"):
        SCA(1).fit(np.where(np.arange(4) == 2, np.nan, X))
    with pytest.raises(InputError, match="X is sparse and has missing values"):
        SCA(1).fit(sparse.csr_array(np.where(X > 1, np.nan, X)))
    with pytest.raises(ValueError, match="infinity"):
        SCA(1).fit(np.where(X > 1, np.inf, X))
    with pytest.raises(NotFittedError):
        SCA(1).transform(X)
    model = SCA(1).fit([X, X[:, :2] + rng.standard_normal((10, 2))])
    with pytest.raises(InputError, match="X must be a list of 2 views, as in `fit`, got 1"):
        model.transform([X])
    with pytest.raises(InputError, match="View 0 must have 4 columns, as in `fit`, got 3"):
        model.transform([X[:, :3], None])
    with pytest.raises(
        ParameterError, match="`target` must be less than the number of views, 2, got 2"
    ):
        model.predict_view([X, None], 2)
    with pytest.raises(InputError, match="other than `target`"):
        model.predict_view([X, None], 0)


# The data support fewer factors, so that some fits do not converge.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
@pytest.mark.parametrize("prior", BOTH)
@pytest.mark.parametrize(
    "case",
    [
        "constant column",
        "constant column, missing values",
        "missing row",
        "one observation",
        "duplicate columns",
        "rank one",
        "narrow view",
        "exact",
    ],
)
def test_degenerate_data_give_finite_results(case, prior, rng):
    X, incomplete = low_rank(30, 8, 2)
    views = None
    if case == "constant column":
        X[:, 3] = 7.0
    elif case == "constant column, missing values":
        X = np.where(np.arange(8) == 3, np.where(np.isnan(incomplete), np.nan, 7.0), incomplete)
    elif case == "missing row":
        X = incomplete
        X[4] = np.nan
    elif case == "one observation":
        X[1:, 2] = np.nan
    elif case == "duplicate columns":
        X[:, 1] = X[:, 0]
    elif case == "rank one":
        X = np.outer(rng.standard_normal(30), np.arange(1.0, 9.0))
    elif case == "narrow view":
        views = [[0], list(range(1, 8))]
    elif case == "exact":
        X = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 8))
    model = SCA(6, prior=prior, views=views, n_private=1, max_iter=200, tol=1e-6).fit(X)
    for result in (
        model.components_,
        model.noise_variance_,
        model.mean_,
        model.objective_path_,
        model.transform(X),
        model.impute(X),
        model.inverse_transform(model.transform(X)),
        model.score_samples(X),
    ):
        assert np.all(np.isfinite(result))
    assert np.all(np.diff(model.objective_path_) >= 0)
    if "constant" in case:
        assert not model.support_[3]
        assert np.all(model.impute(X)[:, 3] == 7.0)


def test_more_components_than_rank(rng):
    X = 5.0 * rng.standard_normal((8, 2)) @ rng.standard_normal((2, 5))
    X += 0.1 * rng.standard_normal((8, 5))
    model = SCA(12, max_iter=3000, tol=1e-5).fit(X)
    assert model.n_components_ <= 5
    assert np.all(np.isfinite(model.transform(X)))


@pytest.mark.parametrize("noise", ["feature", "view"])
def test_few_false_loadings(noise, rng):
    """ARD without a prior of the zeros would include a third of the false loadings."""
    W = np.where(rng.random((60, 3)) < 0.15, rng.choice([-1.0, 1.0], (60, 3)), 0.0)
    X = rng.standard_normal((150, 3)) @ W.T + 0.7 * rng.standard_normal((150, 60))
    model = SCA(3, noise=noise).fit(X)
    match = np.argmax(np.abs(model.components_ @ W), axis=1)
    assert sorted(match) == [0, 1, 2]
    found, true_support = model.components_.T != 0, W[:, match] != 0
    assert found[true_support].mean() > 0.95
    assert found[~true_support].mean() < 0.15


@pytest.mark.filterwarnings("ignore::prosparse.errors.UnequalUnitsWarning")
def test_feature_noise_separates_noisy_columns_from_factors(rng):
    """With one noise variance for all columns the noisy column becomes a factor."""
    X = rng.standard_normal((200, 1)) * np.r_[1.0, 1.0, np.zeros(6)]
    X += rng.standard_normal((200, 8)) * np.r_[np.full(7, 0.5), 6.0]
    by_feature, by_view = (SCA(1, noise=noise).fit(X) for noise in ("feature", "view"))
    assert sorted(np.argsort(by_feature.relevance_)[-2:]) == [0, 1]
    assert not by_feature.support_[7]
    assert by_view.ranking_[7] == 1
    np.testing.assert_allclose(
        by_feature.feature_noise_variance_, np.r_[np.full(7, 0.25), 36.0], rtol=0.35
    )
    assert by_feature.score(X) > by_view.score(X) + 1.0


def test_heywood_case_keeps_positive_noise(rng):
    """Without a prior the noise variance of such a column tends to zero."""
    X = rng.standard_normal((60, 6))
    X[:, 1] = X[:, 0]
    for prior in BOTH:
        model = SCA(2, prior=prior, max_iter=3000, tol=1e-6).fit(X)
        assert model.feature_noise_variance_.min() > 1e-3 * model.feature_noise_variance_.max()


def test_warning_without_shared_variance(rng):
    X = rng.standard_normal((300, 6))
    with pytest.warns(NoStructureWarning, match="no shared variance"):
        model = SCA(1, prior="hyperbolic", shape=6.0, rate=1e5).fit(X)
    assert not model.support_.any()
    assert model.transform(X).shape == (300, 1)
    assert model.n_pruned_ == 1


def noise_data():
    rng = np.random.default_rng(5)
    X, counts = rng.standard_normal((150, 30)), rng.poisson(2.0, (150, 20)).astype(float)
    binary = (rng.random((150, 25)) < 0.4).astype(float)
    with_missing = np.where(rng.random(X.shape) < 0.1, np.nan, X)
    spreads = np.exp(rng.standard_normal(12))
    return {
        "one view": ([X], {}, {}),
        "columns of different variance": ([X, spreads * rng.standard_normal((150, 12))], {}, {}),
        "hyperbolic": ([X], {"prior": "hyperbolic"}, {}),
        "private": ([X, rng.standard_normal((150, 10))], {"n_private": [1, 1]}, {}),
        "missing values": ([with_missing], {}, {}),
        "groups": ([X], {}, {"groups": np.repeat(["a", "b"], 75)}),
        "sparse": (sparse.random(300, 80, 0.1, format="csr", random_state=0), {}, {}),
        "0 and 1": ([binary], {"likelihood": "bernoulli"}, {}),
        "mixed": ([X, counts], {"likelihood": ["gaussian", "poisson"]}, {}),
    }


@pytest.mark.parametrize("name", list(noise_data()))
def test_noise_has_no_factors(name):
    """ARD includes some loadings; the evidence is higher without factors."""
    views, options, more = noise_data()[name]
    with pytest.warns(NoStructureWarning, match="no shared variance"):
        model = SCA(**options).fit(views, **more)
    assert not model.support_.any()
    scores = model.transform(views, **more)
    assert scores.shape[1] == 1
    assert not scores.any()


@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
def test_objective_without_factors_is_the_density_of_noise(rng):
    X = 3.0 * rng.standard_normal((150, 30)) + 1.0
    model = SCA(noise="view").fit(X)
    assert not model.support_.any()
    centred = X - X.mean(axis=0)
    slow = norm.logpdf(centred, scale=centred.std()).sum()
    np.testing.assert_allclose(model.objective_path_[-1], slow, rtol=1e-12)


def test_warning_at_max_iter():
    with pytest.warns(ConvergenceWarning, match="increase `max_iter`"):
        SCA(3, max_iter=2).fit(make_sparse_projection(50, random_state=0).X)


def test_feature_names_and_containers():
    X = pd.DataFrame(make_sparse_projection(50, random_state=0).X).rename(columns=str)
    model = SCA(2).set_output(transform="pandas").fit(X)
    assert list(model.get_feature_names_out()) == ["sca0", "sca1"]
    assert list(model.transform(X).columns) == ["sca0", "sca1"]
    assert list(model.select(X).columns) == list(X.columns[model.get_support()])
    assert model.transform(X.astype(np.float32)).to_numpy().dtype == np.float32


def test_impute_of_dask_arrays_with_missing_values(rng):
    da = pytest.importorskip("dask.array", reason="Dask is not installed")
    X = rng.standard_normal((40, 1)) + 0.3 * rng.standard_normal((40, 5))
    model = SCA(1).fit(X)
    complete = model.impute(da.from_array(X, chunks=(10, -1)))
    np.testing.assert_array_equal(complete.compute(), X)
    X[3, 2] = np.nan
    with pytest.raises(InputError, match="NaN or infinity"):
        model.impute(da.from_array(X, chunks=(10, -1))).compute()
