"""GSPPCA: selection, attributes, containers, invariances and unusual input."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from prosparse import (
    GSPPCA,
    FewVariablesWarning,
    InputError,
    NoStructureWarning,
    ParameterError,
)
from prosparse.datasets import make_globally_sparse
from prosparse.inference.loop import StopReason
from prosparse.metrics import support_f_score
from prosparse.models.gsppca import solve as gsppca
from prosparse.models.gsppca.model import rank_variables
from prosparse.selection.dimension import count_signals


def example(n=50, p=30, d=5, q=10, noise=0.5, seed=0):
    return make_globally_sparse(
        n, p, n_components=d, n_informative=q, noise=noise, random_state=seed
    )


@pytest.fixture(scope="module")
def fitted():
    X, support, _ = example()
    return X, support, GSPPCA(n_components=5).fit(X)


# --- selection


@pytest.mark.parametrize("seed", range(10))
def test_introductory_example(seed):
    """E1 (n=50, p=30, d=5, q=10): ranking and evidence recover the true model."""
    X, support, _ = example(seed=seed)
    model = GSPPCA(n_components=5).fit(X)
    np.testing.assert_array_equal(model.support_, support)
    assert model.ranking_[support].max() == 10
    assert model.log_evidence_ == model.log_evidence_path_.max()


# Published F-scores by sample size, for p=200, q=20, d=10 and sigma=1.
PUBLISHED = {40: 0.868, 50: 0.939, 66: 0.972, 100: 0.992, 200: 1.0}


@pytest.mark.parametrize("n", PUBLISHED)
def test_published_f_scores_are_reached(n):
    """E4 with 8 datasets per sample size."""
    scores = []
    for seed in range(8):
        X, support, _ = example(n, 200, 10, 20, 1.0, seed)
        scores.append(support_f_score(support, GSPPCA(n_components=10).fit(X).support_))
    assert np.mean(scores) >= PUBLISHED[n]


def test_informative_variables_are_selected_if_variances_are_equal():
    X, support, _ = make_globally_sparse(
        200, 100, n_components=5, n_informative=20, noise=0.5, scale=True, random_state=0
    )
    by_variance = np.argsort(-X.var(axis=0))[:20]
    assert support[by_variance].mean() < 0.5
    assert support_f_score(support, GSPPCA(n_components=5).fit(X).support_) >= 0.95


@pytest.mark.parametrize("evidence", ["noiseless", "noisy"])
@pytest.mark.parametrize("noise", ["bias-corrected", "ml", "median"])
@pytest.mark.parametrize("model_prior", ["uniform", "sparse"])
def test_informative_variables_are_selected_with_every_option(evidence, noise, model_prior):
    X, support, _ = example(60, 40, 3, 12, 0.4)
    model = GSPPCA(3, evidence=evidence, noise=noise, model_prior=model_prior).fit(X)
    assert support_f_score(support, model.support_) >= 0.95


@pytest.mark.parametrize(("n", "min_score"), [(100, 0.8), (200, 0.9)])
def test_f_scores_with_scaled_columns(n, min_score):
    scores = []
    for seed in range(6):
        X, support, _ = example(n, 200, 10, 20, 1.0, seed)
        scores.append(support_f_score(support, GSPPCA(10, scale=True).fit(X).support_))
    assert np.mean(scores) >= min_score


def test_noise_variance_of_scaled_columns_is_known():
    model = GSPPCA(5, scale=True).fit(example().X)
    assert model.noise_variance_ == pytest.approx(50 / 49)


def test_sparse_prior_selects_smaller_models():
    X = example(20, 60, 3, 30, 1.0).X
    assert GSPPCA(3, model_prior="sparse").fit(X).n_selected_ <= GSPPCA(3).fit(X).n_selected_
    uniform = GSPPCA(3, refine=False).fit(X)
    sparse_prior = GSPPCA(3, model_prior="sparse", refine=False).fit(X)
    log_prior = sparse_prior.log_evidence_path_ - uniform.log_evidence_path_
    np.testing.assert_allclose(np.diff(log_prior), log_prior[1] - log_prior[0])
    assert log_prior[1] < log_prior[0] < 0
    assert sparse_prior.n_selected_ <= uniform.n_selected_


def test_one_component_selects_strong_loadings():
    X, support, loadings = example(200, 40, 1, 12, 0.2)
    model = GSPPCA(n_components=1).fit(X)
    strong = np.abs(loadings[:, 0]) > 0.3
    assert model.support_[strong].all()
    assert not model.support_[~support].any()


def test_auto_counts_the_components():
    X, support, _ = example(100, 60, 4, 15, 0.4)
    model = GSPPCA().fit(X)
    assert model.n_components_ == 4
    np.testing.assert_array_equal(model.support_, support)


def test_auto_counts_components_of_the_selected_columns():
    """Eigenvalues of all 200 columns do not show all of the 10 components at n = p/2."""
    counts, counts_all_columns = [], []
    for seed in range(8):
        X = example(100, 200, 10, 20, 1.0, seed).X
        counts.append(GSPPCA().fit(X).n_components_)
        values = np.linalg.svd(X - X.mean(0), compute_uv=False) ** 2
        counts_all_columns.append(count_signals(values, 100, 200))
    assert np.mean(np.array(counts_all_columns) == 10) < 0.7
    assert np.mean(np.array(counts) == 10) > 0.8


@pytest.mark.filterwarnings("ignore::prosparse.UnequalUnitsWarning")
def test_auto_counts_components_relative_to_column_noise():
    """The count does not depend on units. Nearly collinear columns have little noise, so that
    components with less variance than a column are counted as well."""
    X, _ = load_breast_cancer(return_X_y=True)
    values = np.linalg.eigvalsh(np.corrcoef(X.T))[::-1]
    counted = [GSPPCA(scale=scale).fit(X).n_components_ for scale in (True, False)]
    assert counted[0] == counted[1]
    assert np.sum(values > 1) <= counted[0] < 20


def test_all_variables_are_selected_if_all_are_informative():
    X = example(200, 12, 3, 12, 0.1).X
    model = GSPPCA(n_components=3).fit(X)
    assert model.cardinalities_.tolist() == list(range(4, 13))
    assert model.n_selected_ == 12


# --- attributes and methods


def test_attributes_are_consistent(fitted):
    X, _, model = fitted
    assert model.components_.shape == (5, 30)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(5), atol=1e-12)
    assert np.all(model.components_[:, ~model.support_] == 0)
    assert np.all(np.any(model.components_[:, model.support_] != 0, axis=0))
    assert model.relevance_.max() == 1
    assert model.relevance_.min() >= 0
    assert sorted(model.ranking_) == list(range(1, 31))
    assert np.all(np.diff(model.relevance_[np.argsort(model.ranking_)]) <= 0)
    np.testing.assert_array_equal(model.support_, model.ranking_ <= model.n_selected_)
    assert model.cardinalities_.shape == model.log_evidence_path_.shape
    assert np.all(np.diff(model.objective_path_) >= 0)
    assert len(model.objective_path_) == model.n_iter_
    assert model.stop_reason_ is StopReason.CONVERGED
    np.testing.assert_allclose(model.mean_, X.mean(axis=0))
    np.testing.assert_array_equal(model.scale_, np.ones(30))


def test_components_equal_pca_of_the_selected_columns(fitted):
    X, _, model = fitted
    pca = PCA(5).fit(X[:, model.support_])
    np.testing.assert_allclose(model.explained_variance_, pca.explained_variance_)
    cosines = np.sum(model.components_[:, model.support_] * pca.components_, axis=1)
    np.testing.assert_allclose(np.abs(cosines), 1.0)
    ratio = pca.explained_variance_ / X.var(axis=0, ddof=1).sum()
    np.testing.assert_allclose(model.explained_variance_ratio_, ratio)


def test_transform_and_inverse_transform(fitted):
    X, _, model = fitted
    scores = model.transform(X)
    assert scores.shape == (50, 5)
    np.testing.assert_allclose(scores.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(scores.var(axis=0, ddof=1), model.explained_variance_)
    np.testing.assert_allclose(np.corrcoef(scores.T), np.eye(5), atol=1e-10)
    back = model.inverse_transform(scores)
    support = model.support_
    residual = (X - back)[:, support]
    residual_variance = np.sum(residual**2) / (49 * (support.sum() - 5))
    assert residual_variance == pytest.approx(model.active_noise_variance_)
    np.testing.assert_allclose(back[:, ~support], np.tile(X.mean(0)[~support], (50, 1)))
    with pytest.raises(ValueError, match=r"scores of shape \(n_samples, 5\), got shape \(50, 4\)"):
        model.inverse_transform(scores[:, :4])


def test_score_is_the_gaussian_log_density():
    from scipy.stats import multivariate_normal

    X = example(60, 12, 2, 6, 0.3).X * 3
    for scale in (False, True):
        model = GSPPCA(2, scale=scale).fit(X)
        C, inside = model.components_, model.support_
        covariance = np.diag(np.where(inside, model.active_noise_variance_, model.noise_variance_))
        extra = model.explained_variance_ - model.active_noise_variance_
        covariance = covariance + (C.T * extra) @ C
        covariance = covariance * np.outer(model.scale_, model.scale_)
        expected = multivariate_normal(model.mean_, covariance).logpdf(X)
        np.testing.assert_allclose(model.score_samples(X), expected)
        assert model.score(X) == pytest.approx(expected.mean())
        np.testing.assert_allclose(model.score_samples(sparse.csr_array(X)), expected)


def test_scale_equals_standardised_input():
    X = example().X * np.geomspace(1, 1000, 30)
    scaled = GSPPCA(5, scale=True).fit(X)
    by_hand = GSPPCA(5, noise="median").fit((X - X.mean(0)) / X.std(0))
    np.testing.assert_allclose(scaled.scale_, X.std(0))
    np.testing.assert_array_equal(scaled.support_, by_hand.support_)
    np.testing.assert_allclose(scaled.log_evidence_path_, by_hand.log_evidence_path_, rtol=1e-9)
    np.testing.assert_allclose(scaled.components_, by_hand.components_, atol=1e-8)
    scores = scaled.transform(X)
    np.testing.assert_allclose(scores.var(axis=0, ddof=1), scaled.explained_variance_)


def test_n_features_to_select_follows_the_ranking():
    X = example().X
    free = GSPPCA(5).fit(X)
    for q in (5, 7, 20, 30):
        model = GSPPCA(5, n_features_to_select=q).fit(X)
        assert model.n_selected_ == q == model.support_.sum()
        np.testing.assert_array_equal(model.support_, free.ranking_ <= q)
        np.testing.assert_array_equal(model.cardinalities_, [q])
        if q > 5:
            same = free.log_evidence_path_[free.cardinalities_ == q]
            np.testing.assert_allclose(model.log_evidence_path_, same)


# --- containers


def test_pandas_names_and_index(fitted):
    X, support, model = fitted
    names = [f"gene {i}" for i in range(30)]
    frame = pd.DataFrame(X, columns=names, index=[f"patient {i}" for i in range(50)])
    named = GSPPCA(5).set_output(transform="pandas").fit(frame)
    np.testing.assert_array_equal(named.feature_names_in_, names)
    scores = named.transform(frame)
    assert list(scores.columns) == [f"gsppca{i}" for i in range(5)]
    assert list(scores.index) == list(frame.index)
    selected = named.select(frame)
    assert isinstance(selected, pd.DataFrame)
    assert list(selected.columns) == [n for n, s in zip(names, support, strict=True) if s]
    np.testing.assert_allclose(named.components_, model.components_)
    with pytest.raises(ValueError, match="feature names"):
        named.transform(frame[names[::-1]])


def test_lazy_frames_raise():
    with pytest.raises(InputError, match="LazyFrame"):
        GSPPCA(1).fit(pl.DataFrame({"a": [1.0, 2, 3], "b": [1.0, 5, 2]}).lazy())


def test_polars_output():
    X = example().X
    frame = pl.DataFrame({f"gene {i}": X[:, i] for i in range(30)})
    model = GSPPCA(5).set_output(transform="polars").fit(frame)
    selected = model.select(frame)
    assert isinstance(selected, pl.DataFrame)
    assert selected.columns == [f"gene {i}" for i in model.get_support(indices=True)]
    assert isinstance(model.transform(frame), pl.DataFrame)


def test_select_returns_the_same_container_type(fitted):
    X, _, model = fitted
    np.testing.assert_array_equal(model.select(X), X[:, model.support_])
    np.testing.assert_array_equal(model.select(X.tolist()), X[:, model.support_])
    for make in (sparse.csr_array, sparse.csc_matrix, sparse.coo_array):
        selected = model.select(make(X))
        assert type(selected) is make
        np.testing.assert_array_equal(selected.toarray(), X[:, model.support_])
    np.testing.assert_array_equal(model.get_support(indices=True), np.flatnonzero(model.support_))


@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize(("n", "p"), [(30, 60), (80, 20)])
def test_sparse_equals_dense(scale, n, p, rng):
    X = example(n, p, 3, 10, 0.3).X
    X[rng.random(X.shape) < 0.6] = 0.0
    dense = GSPPCA(3, scale=scale).fit(X)
    from_sparse = GSPPCA(3, scale=scale).fit(sparse.csr_matrix(X))
    np.testing.assert_array_equal(dense.support_, from_sparse.support_)
    np.testing.assert_allclose(dense.log_evidence_path_, from_sparse.log_evidence_path_, rtol=1e-8)
    # The bound is flat at its maximum, so that the relevance is determined less precisely.
    np.testing.assert_allclose(dense.relevance_, from_sparse.relevance_, atol=1e-4)
    np.testing.assert_allclose(
        dense.transform(X), from_sparse.transform(sparse.csr_array(X)), atol=1e-8
    )


# --- invariances


def test_permuted_variables_permute_the_results(fitted, rng):
    X, _, model = fitted
    order = rng.permutation(30)
    permuted = GSPPCA(5).fit(X[:, order])
    np.testing.assert_array_equal(permuted.support_, model.support_[order])
    np.testing.assert_allclose(permuted.relevance_, model.relevance_[order], atol=1e-6)
    np.testing.assert_allclose(permuted.log_evidence_path_, model.log_evidence_path_, rtol=1e-7)


def test_permuted_samples_do_not_change_the_results(fitted, rng):
    X, _, model = fitted
    order = rng.permutation(50)
    permuted = GSPPCA(5).fit(X[order])
    np.testing.assert_allclose(permuted.relevance_, model.relevance_, atol=1e-6)
    np.testing.assert_allclose(permuted.log_evidence_path_, model.log_evidence_path_, rtol=1e-9)
    np.testing.assert_allclose(permuted.components_, model.components_, atol=1e-6)


def test_changed_signs_do_not_change_the_selection(fitted, rng):
    X, _, model = fitted
    signs = rng.choice([-1.0, 1.0], 30)
    flipped = GSPPCA(5).fit(X * signs)
    np.testing.assert_array_equal(flipped.support_, model.support_)
    np.testing.assert_allclose(flipped.relevance_, model.relevance_, atol=1e-6)
    np.testing.assert_allclose(np.abs(flipped.components_), np.abs(model.components_), atol=1e-6)


def test_rotated_samples_do_not_change_the_relaxed_model(fitted, rng):
    """The rotation preserves the mean of the samples."""
    X = fitted[0]
    centred = X - X.mean(0)
    ones = np.ones((50, 1)) / np.sqrt(50)
    Q = np.linalg.qr(np.hstack([ones, rng.standard_normal((50, 49))]))[0][:, 1:]
    inner = np.linalg.qr(rng.standard_normal((49, 49)))[0]
    model = GSPPCA(5, refine=False).fit(X)
    rotated = GSPPCA(5, refine=False).fit(Q @ inner @ Q.T @ centred)
    np.testing.assert_allclose(rotated.relevance_, model.relevance_, atol=1e-6)
    np.testing.assert_allclose(rotated.objective_path_[-1], model.objective_path_[-1], rtol=1e-8)


@pytest.mark.parametrize("factor", [1e-150, 1e-3, 7.0, 1e150])
def test_rescaled_data_rescale_the_results(fitted, factor):
    X, _, model = fitted
    scaled = GSPPCA(5).fit(factor * X)
    np.testing.assert_array_equal(scaled.support_, model.support_)
    np.testing.assert_allclose(scaled.relevance_, model.relevance_, atol=1e-6)
    np.testing.assert_allclose(scaled.explained_variance_ratio_, model.explained_variance_ratio_)
    np.testing.assert_allclose(
        scaled.noise_variance_ / factor / factor, model.noise_variance_, rtol=1e-9
    )
    shift = X.size * np.log(factor)
    centred_shift = 49 / 50 * shift  # of the density of centred columns
    np.testing.assert_allclose(
        scaled.log_evidence_path_ + centred_shift, model.log_evidence_path_, rtol=1e-6
    )
    np.testing.assert_allclose(
        scaled.objective_path_[-1] + shift, model.objective_path_[-1], rtol=1e-6
    )


def test_shifted_data_do_not_change_the_results(fitted):
    X, _, model = fitted
    shifted = GSPPCA(5).fit(X + 1e4)
    np.testing.assert_array_equal(shifted.support_, model.support_)
    np.testing.assert_allclose(shifted.components_, model.components_, atol=1e-6)


# --- invalid and unusual input


@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
def test_number_types_and_memory_layouts(fitted):
    X, _, model = fitted
    single = GSPPCA(5).fit(X.astype(np.float32))
    np.testing.assert_array_equal(single.support_, model.support_)
    assert single.transform(X.astype(np.float32)).dtype == np.float32
    counts = np.round(10 * X).astype(int)
    np.testing.assert_array_equal(GSPPCA(5).fit(counts).support_, model.support_)
    assert GSPPCA(2).fit(X > 0).support_.any()
    frozen = X.copy()
    frozen.setflags(write=False)
    np.testing.assert_allclose(GSPPCA(5).fit(frozen).components_, model.components_)
    wide = np.repeat(X, 2, axis=1)
    np.testing.assert_allclose(GSPPCA(5).fit(wide[:, ::2]).components_, model.components_)


def test_input_is_not_modified():
    X = example().X
    before = X.copy()
    GSPPCA(5, scale=True).fit(X).transform(X)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_missing_and_infinite_values_raise(bad):
    X = example().X
    X[3, 4] = bad
    model = GSPPCA(5)
    message = r"contains (NaN|infinity): 1 value, first in row 3, column 4"
    with pytest.raises(InputError, match=message):
        model.fit(X)
    with pytest.raises(InputError, match=message):
        model.fit(sparse.csr_array(X))
    with pytest.raises(InputError, match="first in row 3, column 'gene4'"):
        model.fit(pd.DataFrame(X, columns=[f"gene{i}" for i in range(30)]))
    assert not hasattr(model, "components_")


def test_too_few_samples_or_features_raise():
    with pytest.raises(ValueError, match="1 sample"):
        GSPPCA(1).fit(np.ones((1, 5)))
    with pytest.raises(ValueError, match="1 feature"):
        GSPPCA(1).fit(np.ones((5, 1)))


@pytest.mark.parametrize(("n", "p", "d"), [(10, 30, 10), (30, 10, 10), (10, 10, 99)])
def test_too_many_components_raise(n, p, d, rng):
    message = r"`n_components` must be less than min\(n_samples, n_features\) = 10, .*got "
    with pytest.raises(ParameterError, match=message + str(d)):
        GSPPCA(d).fit(rng.standard_normal((n, p)))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 0}, '`n_components` must be an integer of at least 1 or "auto", got 0'),
        ({"n_components": 2.5}, "`n_components` must be .* got 2.5"),
        ({"tol": 10**400}, "`tol` must be finite"),
        ({"n_components": "many"}, "`n_components` must be .* got 'many'"),
        ({"n_features_to_select": 0}, "`n_features_to_select` must be .* got 0"),
        ({"n_features_to_select": 3}, "between `n_components` = 5 and .* 30, got 3"),
        ({"n_features_to_select": 31}, "between `n_components` = 5 and .* 30, got 31"),
        ({"noise": "loud"}, "`noise` must be one of 'bias-corrected', 'ml', 'median', got 'loud'"),
        ({"evidence": "much"}, "`evidence` must be one of 'noiseless', 'noisy', got 'much'"),
        ({"model_prior": "x"}, "`model_prior` must be one of 'uniform', 'sparse', got 'x'"),
        ({"max_iter": 0}, "`max_iter` must be an integer of at least 1, got 0"),
        ({"scale": "False"}, "`scale` must be True or False, got 'False'"),
        ({"noise": np.array(["ml"])}, "`noise` must be one of"),
        ({"n_components": np.array([1, 2])}, "`n_components` must be an integer"),
        ({"verbose": "loud"}, "`verbose` must be a non-negative number, got 'loud'"),
        ({"tol": -1}, "`tol` must be a non-negative number, got -1"),
    ],
)
def test_invalid_parameters_raise(parameters, message):
    model = GSPPCA(**({"n_components": 5} | parameters))
    with pytest.raises(ParameterError, match=message):
        model.fit(example().X)
    assert not hasattr(model, "components_")


def test_constant_columns_are_not_selected():
    X = example().X
    with_constants = np.column_stack([np.full(50, 0.1), X[:, :20], np.zeros(50), X[:, 20:]])
    model, plain = GSPPCA(5).fit(with_constants), GSPPCA(5).fit(X)
    varying = np.r_[1:21, 22:32]
    np.testing.assert_array_equal(model.support_[varying], plain.support_)
    np.testing.assert_array_equal(model.support_[[0, 21]], [False, False])
    np.testing.assert_array_equal(model.relevance_[[0, 21]], [0, 0])
    np.testing.assert_array_equal(model.ranking_[[0, 21]], [31, 32])
    np.testing.assert_allclose(model.log_evidence_path_, plain.log_evidence_path_)
    assert model.score(with_constants) == pytest.approx(plain.score(X))
    for scaled in (
        GSPPCA(5, scale=True).fit(with_constants),
        GSPPCA(5, scale=True).fit(sparse.csr_array(with_constants)),
    ):
        assert np.isfinite(scaled.transform(with_constants)).all()


def test_constant_data_raise():
    for X in (np.ones((10, 5)), np.column_stack([np.arange(10.0), np.ones((10, 4))])):
        with pytest.raises(InputError, match="of the 5 columns of X are constant; at least 2"):
            GSPPCA(1).fit(X)
        with pytest.raises(InputError, match="of the 5 columns of X are constant; at least 2"):
            GSPPCA(1).fit(sparse.csr_array(X))


def test_duplicated_columns_have_equal_relevance():
    X, support, _ = example()
    model = GSPPCA(5).fit(np.hstack([X, X]))
    np.testing.assert_array_equal(model.support_[:30], model.support_[30:])
    np.testing.assert_allclose(model.relevance_[:30], model.relevance_[30:], atol=1e-6)
    np.testing.assert_array_equal(model.support_[:30], support)


def test_results_of_an_exact_fit_are_finite(rng):
    low_rank = rng.standard_normal((20, 3)) @ rng.standard_normal((3, 15))
    for X, d in ((low_rank, 3), (low_rank, 4), (rng.standard_normal((5, 40)), 4)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoStructureWarning)
            model = GSPPCA(d).fit(X)
        for name in ("components_", "log_evidence_path_", "relevance_", "objective_path_"):
            assert np.all(np.isfinite(getattr(model, name)))
        assert np.isfinite(model.score(X))
        np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(d), atol=1e-9)


def test_uncorrelated_columns_give_an_empty_model(rng):
    X = rng.standard_normal((300, 10))
    X = np.linalg.qr(X - X.mean(0))[0]  # exactly uncorrelated, with equal variances
    with pytest.warns(NoStructureWarning, match="do not interpret"):
        model = GSPPCA(2, refine=False).fit(X)
    assert model.stop_reason_ is StopReason.EMPTY_MODEL
    assert sorted(model.ranking_) == list(range(1, 11))
    np.testing.assert_array_equal(model.relevance_, np.zeros(10))
    assert model.support_.any()


def test_empty_model_ranks_variables_by_variance():
    n_empty = 0
    for seed in range(20):
        X = np.random.default_rng(seed).standard_normal((400, 8))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = GSPPCA(1, refine=False).fit(X)
        if any("no variable remains" in str(w.message) for w in caught):
            n_empty += 1
            assert model.ranking_[X.var(axis=0).argmax()] == 1
    assert n_empty >= 3


def test_empty_model_ranks_scaled_variables_by_explained_variance():
    n_empty = 0
    for seed in range(20):
        X = np.random.default_rng(seed).standard_normal((400, 8))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = GSPPCA(1, scale=True, refine=False).fit(X)
        if any("no variable remains" in str(w.message) for w in caught):
            n_empty += 1
            first = np.linalg.eigh(np.corrcoef(X.T))[1][:, -1]
            np.testing.assert_array_equal(np.argsort(model.ranking_), np.argsort(-np.abs(first)))
    assert n_empty >= 3


def test_variables_with_zero_variance_are_ranked_by_the_slope():
    t, slope = np.array([0.0, 2.0, 0.0, 1.0]), np.array([-3.0, 9.0, -1.0, 9.0])
    assert rank_variables(t, slope).tolist() == [1, 3, 2, 0]


def test_failed_refit_does_not_change_the_model():
    X = example().X
    model = GSPPCA(5).fit(X)
    scores = model.transform(X)
    with pytest.raises(ParameterError):
        model.set_params(n_components=99).fit(X[:, :20])
    np.testing.assert_array_equal(model.transform(X), scores)
    fresh = GSPPCA(99)
    with pytest.raises(ParameterError):
        fresh.fit(pd.DataFrame(X))
    assert not any(name.endswith("_") for name in vars(fresh))


def test_auto_equals_the_rank_of_low_rank_data(rng):
    for n, p, k in ((50, 30, 2), (20, 100, 3), (30, 30, 1), (200, 10, 3)):
        X = rng.standard_normal((n, k)) @ rng.standard_normal((k, p))
        assert GSPPCA().fit(X).n_components_ == k


@pytest.mark.filterwarnings("ignore::prosparse.FewVariablesWarning")
@pytest.mark.filterwarnings("ignore::prosparse.UnequalUnitsWarning")
def test_extreme_outlier_gives_finite_results():
    X = example().X
    X[3, 4] = 1e8
    model = GSPPCA(6).fit(X)
    tail = np.linalg.svd(X - X.mean(0), compute_uv=False)[6:] ** 2
    ml = GSPPCA(6, noise="ml").fit(X).noise_variance_
    assert ml == pytest.approx(np.sum(tail) / 50 / 24, rel=1e-4)
    assert np.all(np.isfinite(model.log_evidence_path_))


def test_score_of_extreme_rows_is_minus_infinity(fitted):
    X, _, model = fitted
    assert np.all(model.score_samples(1e200 * X) == -np.inf)


def test_score_with_as_many_components_as_selected_columns(fitted):
    from scipy.stats import multivariate_normal

    X, _, _ = fitted
    model = GSPPCA(5, n_features_to_select=5).fit(X)
    C, inside = model.components_, model.support_
    covariance = np.diag(np.where(inside, 0.0, model.noise_variance_))
    covariance = covariance + (C.T * model.explained_variance_) @ C
    for Z in (X, 100 * X):
        expected = multivariate_normal(model.mean_, covariance).logpdf(Z)
        np.testing.assert_allclose(model.score_samples(Z), expected, rtol=1e-6)


def test_max_iter_issues_a_warning():
    with pytest.warns(ConvergenceWarning, match="increase `max_iter`"):
        model = GSPPCA(5, max_iter=2).fit(example().X)
    assert model.n_iter_ == 2
    assert model.stop_reason_ is StopReason.MAX_ITER


@pytest.mark.parametrize(
    ("bound", "reason"),
    [(-1e9, StopReason.DECREASED), (float("nan"), StopReason.NOT_FINITE)],
)
def test_failed_iterations_issue_a_warning(bound, reason, monkeypatch):
    make = gsppca.make_factor_step

    def make_failing_step(*arguments, **options):
        step, calls = make(*arguments, **options), []

        def failing_step(state):
            calls.append(state)
            result = step(state)
            return result if len(calls) == 1 else result._replace(bound=bound * len(calls))

        return failing_step

    monkeypatch.setattr(gsppca, "make_factor_step", make_failing_step)
    with pytest.warns(ConvergenceWarning, match="the best result so far"):
        model = GSPPCA(5).fit(example().X)
    assert model.stop_reason_ is reason


def test_methods_before_fit_raise():
    for method in ("transform", "inverse_transform", "score", "select"):
        with pytest.raises(NotFittedError):
            getattr(GSPPCA(), method)(np.ones((3, 3)))


def test_verbose_shows_progress(capsys):
    GSPPCA(5, verbose=1).fit(example().X)
    assert "GSPPCA" in capsys.readouterr().err


def test_breast_cancer_data():
    X, _ = load_breast_cancer(return_X_y=True, as_frame=True)
    model = GSPPCA(n_components=3, scale=True).fit(X)
    assert 3 <= model.n_selected_ <= 30
    assert model.explained_variance_ratio_.sum() > 0.4
    assert model.select(X).shape == (569, model.n_selected_)


def test_white_noise_issues_a_warning():
    for seed in range(5):
        X = np.random.default_rng(seed).standard_normal((100, 50))
        with pytest.warns(NoStructureWarning, match="white noise|no variable remains"):
            GSPPCA(1, refine=False).fit(X)
        with pytest.warns(NoStructureWarning, match="no variable is explained"):
            assert GSPPCA(1).fit(X).n_selected_ == 2


def test_smallest_cardinality_issues_a_warning():
    rng = np.random.default_rng(0)
    X = 0.1 * rng.standard_normal((100, 12))
    X[:, :2] += rng.standard_normal((100, 1))
    with pytest.warns(FewVariablesWarning, match="minimum number of variables"):
        GSPPCA(3, refine=False).fit(X)
    with pytest.warns(FewVariablesWarning, match="largest at [0-3] variables for 3 components"):
        GSPPCA(3).fit(X)


def test_rows_at_the_mean_issue_a_warning():
    """The noiseless density has a pole at the mean, whose order increases with cardinality."""
    X = example(100, 40, 2, 10).X
    X -= X.mean(axis=0)
    X[:50] = 0.0
    X[50:] -= X[50:].mean(axis=0)
    with pytest.warns(NoStructureWarning, match="50% of the rows"):
        GSPPCA(2, refine=False).fit(X)
    assert GSPPCA(2, evidence="noisy", refine=False).fit(X).n_selected_ < 20


@pytest.mark.filterwarnings("ignore::prosparse.FewVariablesWarning")
@pytest.mark.filterwarnings("ignore::prosparse.UnequalUnitsWarning")
@pytest.mark.parametrize("d", [10, 15, 20, 26, 29])
def test_iterations_converge_with_very_unequal_variances(d):
    """Column standard deviations range from 0.003 to 570."""
    X = load_breast_cancer().data
    model = GSPPCA(d).fit(X)
    assert model.stop_reason_ is StopReason.CONVERGED
    assert np.all(np.diff(model.objective_path_) >= -1e-9 * np.abs(model.objective_path_[1:]))
    assert np.isfinite(model.log_evidence_path_).all()


def test_unequal_variances_are_not_counted_as_components():
    """The columns are independent counts whose variances differ by orders of magnitude."""
    rng = np.random.default_rng(0)
    counts = np.log1p(rng.poisson(rng.gamma(0.3, 3.0, 1500), (600, 1500)))
    with pytest.warns(NoStructureWarning, match="no variable shares variance"):
        GSPPCA(max_iter=4, tol=1.0, refine=False).fit(counts)
    with pytest.warns(NoStructureWarning, match="no variable is explained"):
        model = GSPPCA(max_iter=4, tol=1.0).fit(counts)
    assert model.n_components_ == 1
