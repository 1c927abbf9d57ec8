"""FDRPCA: selection, fitted attributes, warnings and errors."""

import warnings

import array_api_strict
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from prosparse import (
    FDRPCA,
    DuplicateRowsWarning,
    InputError,
    NoStructureWarning,
    OutlyingRowsWarning,
    ParameterError,
    RowOrderWarning,
    load,
    save,
)
from prosparse.datasets import make_globally_sparse
from prosparse.models._covariates import check_design


@pytest.fixture(scope="module")
def fitted():
    X, truth, _ = make_globally_sparse(
        80, 60, n_components=3, n_informative=15, scale=True, random_state=1
    )
    return X, truth, FDRPCA().fit(X)


def test_informative_variables_are_selected(fitted):
    _, truth, model = fitted
    assert truth[model.support_].mean() > 0.8
    assert model.support_[truth].mean() > 0.9
    assert model.n_selected_ == model.support_.sum()


def test_fitted_attributes_are_consistent(fitted):
    _, _, model = fitted
    d = model.n_components_
    assert model.components_.shape == (d, 60)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(d), atol=1e-12)
    assert np.all(model.components_[:, ~model.support_] == 0)
    assert np.all((model.pvalues_ >= 0) & (model.pvalues_ <= 1))
    assert np.all(model.qvalues_ >= model.pvalues_ * (1 - 1e-12))
    assert np.all(model.qvalues_[model.support_] <= model.fdr)
    assert np.all((model.communality_ >= 0) & (model.communality_ <= 1))
    assert model.null_communality_ == pytest.approx(d / 79)
    assert model.component_pvalues_.shape == model.component_qvalues_.shape == (d, 60)
    assert np.all((model.component_pvalues_ >= 0) & (model.component_pvalues_ <= 1))
    assert np.all(model.component_qvalues_ >= model.component_pvalues_ * (1 - 1e-12))
    assert np.all(np.sum(model.component_qvalues_[-1:, model.support_] <= model.fdr, axis=1) >= 2)
    assert model.row_scale_.shape == (80,)
    assert np.median(model.row_scale_) == pytest.approx(1.0)
    scores = model.transform(fitted[0])
    np.testing.assert_allclose(model.row_influence_, np.sum(scores**2, 1) / np.sum(scores**2))
    assert sorted(model.ranking_) == list(range(1, 61))
    assert set(np.flatnonzero(model.support_)) == set(
        np.argsort(model.ranking_)[: model.n_selected_]
    )


@pytest.mark.parametrize("null", ["robust", "exchangeable"])
def test_communality_is_the_r2_with_the_other_selected_columns(fitted, null):
    """The robust test divides rows, and the intercept, by the scales of the rows."""
    X = fitted[0]
    model = FDRPCA(null=null).fit(X)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    if null == "robust":
        Z, weights = Z / model.row_scale_[:, None], 1.0 / model.row_scale_
        Z -= np.outer(weights, weights @ Z) / (weights @ weights)
    unit = Z / np.linalg.norm(Z, axis=0)
    for j in range(60):
        others = model.support_.copy()
        others[j] = False
        U = np.linalg.svd(unit[:, others], full_matrices=False)[0]
        R2 = np.sum((U[:, : model.n_components_].T @ unit[:, j]) ** 2)
        assert model.communality_[j] == pytest.approx(R2, abs=1e-9)


def test_components_are_pca_of_the_standardised_selected_columns(fitted):
    X, _, model = fitted
    Z = ((X - X.mean(axis=0)) / X.std(axis=0))[:, model.support_]
    _, s, Vt = np.linalg.svd(Z, full_matrices=False)
    d = model.n_components_
    cosines = np.abs(np.sum(Vt[:d] * model.components_[:, model.support_], axis=1))
    np.testing.assert_allclose(cosines, 1.0, atol=1e-8)
    np.testing.assert_allclose(model.explained_variance_, s[:d] ** 2 / 79, rtol=1e-8)
    np.testing.assert_allclose(model.explained_variance_ratio_, s[:d] ** 2 / (80 * 60), rtol=1e-8)
    scores = model.transform(X)
    np.testing.assert_allclose(scores, Z @ model.components_[:, model.support_].T, atol=1e-10)


def test_scale_and_location_of_columns_do_not_matter(fitted):
    X, _, model = fitted
    scales = np.random.default_rng(0).lognormal(0, 3, 60)
    other = FDRPCA().fit(X * scales + 100 * scales)
    np.testing.assert_array_equal(other.support_, model.support_)
    np.testing.assert_allclose(other.pvalues_, model.pvalues_, rtol=1e-5, atol=1e-12)


def test_no_selection_gives_a_warning_and_empty_components():
    X = np.random.default_rng(0).standard_normal((40, 30))
    with pytest.warns(NoStructureWarning, match="no variable has significant shared variance"):
        model = FDRPCA().fit(X)
    assert model.n_selected_ == model.n_components_ == 0
    assert model.components_.shape == (0, 30)
    assert model.transform(X).shape == (40, 0)
    assert model.inverse_transform(model.transform(X)).shape == (40, 30)
    assert model.select(X).shape == (40, 0)
    assert model.score(X) == 0.0


def test_min_communality_restricts_the_selection(fitted):
    X, _, model = fitted
    least = float(np.median(model.communality_[model.support_]))
    strict = FDRPCA(min_communality=least).fit(X)
    np.testing.assert_array_equal(strict.support_, model.support_ & (model.communality_ >= least))


def test_maximum_number_of_variables(fitted):
    X, _, model = fitted
    few = FDRPCA(max_features=6).fit(X)
    strongest = np.argsort(np.where(model.support_, -model.communality_, 1.0))[:6]
    np.testing.assert_array_equal(np.flatnonzero(few.support_), np.sort(strongest))
    np.testing.assert_array_equal(few.pvalues_, model.pvalues_)
    unlimited = FDRPCA(max_features=model.n_selected_ + 1).fit(X)
    np.testing.assert_array_equal(unlimited.components_, model.components_)


def test_lower_fdr_selects_fewer_variables(fitted):
    X, _, model = fitted
    assert (
        FDRPCA(fdr=1e-6).fit(X).n_selected_
        <= model.n_selected_
        <= FDRPCA(fdr=0.4).fit(X).n_selected_
    )


def test_number_of_components_does_not_change_the_selection(fitted):
    X, _, model = fitted
    two = FDRPCA(2).fit(X)
    assert two.n_components_ == 2
    np.testing.assert_array_equal(two.support_, model.support_)


def rank_one(seed, dtype):
    """A matrix of rank one, with duplicates and means much larger than standard deviations."""
    rng = np.random.default_rng(seed)
    X = np.outer(rng.standard_normal(50), rng.lognormal(0, 1, 28))
    X[:, 20:] = X[:, :8]
    return (X + X.std(axis=0) * 10 ** rng.uniform(3, 5.3, 28)).astype(dtype)


@pytest.mark.parametrize("parameters", [{"rank_transform": True}, {}, {"n_components": 6}])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_components_beyond_the_numerical_rank_are_not_counted(dtype, container, parameters):
    """All but the first component consist of rounding errors."""
    for seed in range(3):
        model = FDRPCA(min_communality=0.5, **parameters).fit(container(rank_one(seed, dtype)))
        assert model.n_selected_ == 28
        assert model.n_components_ == 1
        assert model.null_communality_ == pytest.approx(1 / 49)
        assert np.sum(model.explained_variance_ratio_) <= 1 + 1e-9
        np.testing.assert_allclose(model.explained_variance_ratio_, 1.0, atol=1e-2)


# --- outliers and ranks


def with_outliers():
    X, truth, _ = make_globally_sparse(
        60, 80, n_components=2, n_informative=20, noise=1.0, scale=True, random_state=3
    )
    rng = np.random.default_rng(0)
    X[rng.integers(0, 60, 80), np.arange(80)] += 30.0
    return X, truth


def test_rank_transform_is_robust_to_outliers():
    X, truth = with_outliers()
    # Components are computed from the untransformed columns.
    with pytest.warns(OutlyingRowsWarning, match=r"48 of X accounts? for \d\d% of"):
        ranked = FDRPCA(rank_transform=True).fit(X)
    assert ranked.support_[truth].mean() > 0.8
    assert ranked.support_[~truth].mean() < 0.1
    # Ranks are invariant to monotone transformations.
    with pytest.warns(OutlyingRowsWarning):
        other = FDRPCA(rank_transform=True).fit(np.exp(X / 10.0))
    np.testing.assert_allclose(other.pvalues_, ranked.pvalues_)


def test_rank_transform_of_sparse_and_dense_data_agree():
    rng = np.random.default_rng(0)
    X = rng.poisson(np.exp(rng.standard_normal((90, 1)) - 0.5), (90, 25)).astype(float)
    X[:, :5] -= 1.0 * (X[:, :5] > 2)  # negative and positive entries around zero
    X[3, 0] = -2.0
    dense, thin = (FDRPCA(rank_transform=True).fit(t) for t in (X, sparse.csr_array(X)))
    # Sums of sign flips are in single precision for sparse data.
    np.testing.assert_allclose(dense.pvalues_, thin.pvalues_, rtol=1e-4, atol=1e-12)


def test_scores_as_a_data_frame(fitted):
    X, _, _ = fitted
    framed = make_pipeline(StandardScaler(), FDRPCA()).set_output(transform="pandas")
    assert framed.fit_transform(X).columns[0] == "fdrpca0"


# --- rows


def repeated(rng, donors=20, times=5, p=40):
    """Independent columns with differences between donors."""
    groups = np.repeat(np.arange(donors), times)
    return rng.standard_normal((donors, p))[groups] * 2 + rng.standard_normal(
        (donors * times, p)
    ), groups


def test_groups_remove_differences_between_donors():
    X, groups = repeated(np.random.default_rng(0))
    with pytest.warns(RowOrderWarning, match="If they are repeated measures, pass `groups`"):
        ungrouped = FDRPCA().fit(X)
    assert ungrouped.n_selected_ > 20
    with pytest.warns(NoStructureWarning):
        assert FDRPCA().fit(X, groups=groups).n_selected_ <= 1


def test_shared_variance_within_groups_is_found():
    rng = np.random.default_rng(1)
    X, groups = repeated(rng)
    X[:, :12] += 2.0 * rng.standard_normal((100, 2)) @ rng.standard_normal((2, 12))
    model = FDRPCA().fit(X, groups=[f"donor {g}" for g in groups])
    assert model.support_[:12].mean() > 0.8
    assert model.support_[12:].sum() <= 2


def test_rows_sorted_by_a_component_give_no_warning():
    """Patients come before controls, which the components explain."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 50))
    X[:40, :25] += 2.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FDRPCA().fit(X)


def test_row_order_does_not_change_the_selection():
    """The wines are sorted by cultivar, which gives a warning."""
    X = load_wine().data
    with pytest.warns(RowOrderWarning, match="merely sorted, ignore this warning"):
        in_order = FDRPCA().fit(X)
    mixed = FDRPCA().fit(X[np.random.default_rng(0).permutation(len(X))])
    np.testing.assert_array_equal(mixed.support_, in_order.support_)
    np.testing.assert_allclose(mixed.communality_, in_order.communality_)


def test_time_series_gives_a_warning():
    rng = np.random.default_rng(0)
    X = np.cumsum(rng.standard_normal((100, 30)), axis=0)
    with pytest.warns(RowOrderWarning, match="adjacent rows are correlated"):
        FDRPCA().fit(X)


def uncorrelated(n=100, p=60, seed=0):
    return np.random.default_rng(seed).standard_normal((n, p))


def test_warning_names_outlying_rows():
    X = uncorrelated()
    X[[7, 31]] *= np.array([[4.0], [6.0]])
    with (
        pytest.warns(OutlyingRowsWarning, match=r"rows 31 and 7 of X have a much larger scale"),
        pytest.warns(NoStructureWarning),
    ):
        model = FDRPCA().fit(X)
    np.testing.assert_array_equal(np.argsort(-model.row_scale_)[:2], [31, 7])
    assert not model.row_influence_.any()
    with (
        pytest.warns(OutlyingRowsWarning, match='set `null="robust"`'),
        pytest.warns(OutlyingRowsWarning, match="rows .* and .* of X account for .*% of"),
    ):
        assert FDRPCA(null="exchangeable").fit(X).n_selected_ > 0


def test_warning_names_rows_that_dominate_the_components():
    X = uncorrelated()
    X[:, :20] += 2.0 * np.random.default_rng(1).standard_normal((100, 1))
    X[13, :20] += 40.0
    with pytest.warns(OutlyingRowsWarning, match=r"row 13 of X account"):
        model = FDRPCA(rank_transform=True).fit(X)
    assert np.argmax(model.row_influence_) == 13


def test_equal_noise_gives_no_warning(fitted):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FDRPCA().fit(fitted[0])


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_duplicate_rows_give_a_warning(fitted, make):
    X = fitted[0]
    with pytest.warns(DuplicateRowsWarning, match=r"3 rows of X equal an earlier row"):
        FDRPCA().fit(make(np.vstack([X, X[[5, 9, 9]]])))
    with pytest.warns(DuplicateRowsWarning, match=r"1 row of X equals an earlier row"):
        FDRPCA().fit(make(np.vstack([X, X[[5]]])))


def test_equal_rows_of_few_discrete_columns_give_no_warning():
    """Sixteen answers are possible: most of 200 rows are equal by chance."""
    rng = np.random.default_rng(0)
    factor = rng.standard_normal((200, 1))
    X = (factor + rng.standard_normal((200, 4)) > 0).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DuplicateRowsWarning)
        assert FDRPCA().fit(X).n_selected_ == 4


# --- containers


def chunked(X):
    return pytest.importorskip("dask.array").from_array(X, chunks=(40, -1))


CONTAINERS = {
    "sparse": sparse.csr_array,
    "dask": chunked,
    "dask of sparse": lambda X: chunked(X).map_blocks(sparse.csr_array),
    "strict": array_api_strict.asarray,
    "frame": pd.DataFrame,
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("null", ["robust", "exchangeable"])
@pytest.mark.parametrize("has_groups", [False, True])
def test_all_containers_agree(container, null, has_groups):
    rng = np.random.default_rng(0)
    X = make_globally_sparse(70, 25, n_components=2, n_informative=10, scale=True, random_state=0).X
    X *= rng.lognormal(0.0, 0.2, (70, 1))
    X[rng.random(X.shape) < 0.2] = 0.0
    groups = np.arange(70) % 3 if has_groups else None
    expected = FDRPCA(null=null).fit(X, groups=groups)
    model = FDRPCA(null=null).fit(CONTAINERS[container](X), groups=groups)
    np.testing.assert_array_equal(np.asarray(model.support_), expected.support_)
    for attribute in (
        "pvalues_",
        "communality_",
        "component_pvalues_",
        "row_scale_",
        "row_influence_",
    ):
        np.testing.assert_allclose(
            np.asarray(getattr(model, attribute)),
            getattr(expected, attribute),
            rtol=1e-4,
            atol=1e-10,
            err_msg=attribute,
        )


# --- errors


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"fdr": 0.0}, r"`fdr` must be in \(0, 1\)"),
        ({"fdr": 1.0}, r"`fdr` must be in \(0, 1\)"),
        ({"min_communality": 1.5}, r"`min_communality` must be in \[0, 1\], got 1.5"),
        ({"max_features": 1}, "`max_features` must be an integer of at least 2 or None, got 1"),
        ({"rank_transform": "rank"}, "`rank_transform`"),
        ({"null": "normal"}, "`null` must be one of 'robust', 'exchangeable', got 'normal'"),
        ({"null": True}, "`null` must be one of"),
        ({"null": np.array(["robust", "robust"])}, "`null` must be one of"),
        ({"n_components": 0}, "`n_components`"),
        ({"n_components": "many"}, "`n_components`"),
    ],
)
def test_invalid_parameters(fitted, parameters, message):
    with pytest.raises(ParameterError, match=message):
        FDRPCA(**parameters).fit(fitted[0])


def test_invalid_data(fitted):
    X = fitted[0]
    with pytest.raises(InputError, match=r"too few rows .* at least 5 are required"):
        FDRPCA().fit(X[:4])
    infinite = X.copy()
    infinite[3, 4] = np.inf
    with pytest.raises(InputError, match="infinity"):
        FDRPCA().fit(infinite)
    with pytest.raises(ParameterError, match="`n_components` must be less than 60"):
        FDRPCA(60).fit(X)


def test_columns_constant_within_groups():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(4), 15)
    X = rng.standard_normal((60, 12))
    X[:, :6] += 2.0 * rng.standard_normal((60, 1))
    X[:, 11] = groups
    for null in ("robust", "exchangeable"):
        model = FDRPCA(null=null).fit(X, groups=groups)
        assert model.support_[:6].all()
        assert model.pvalues_[11] == 1.0
        assert model.communality_[11] < 1e-12


def test_invalid_groups():
    with pytest.raises(ParameterError, match="one label for each"):
        check_design([1, 2], None, 10, 4)
    with pytest.raises(ParameterError, match="10 labels for 10 rows"):
        check_design(np.arange(10), None, 10, 4)


@pytest.mark.parametrize(
    "labels",
    [
        [1.0, np.nan] * 5,
        ["a", np.nan] * 5,  # NumPy converts it to "nan"
        ["a", None] * 5,
        pd.Series(["a", None] * 5, dtype="category"),
        pd.Series(["a", pd.NA] * 5),
        np.array(["2020-01-01", "NaT"] * 5, dtype="datetime64[D]"),
    ],
)
def test_groups_with_missing_labels(labels):
    with pytest.raises(ParameterError, match="5 of 10 labels are missing"):
        check_design(labels, None, 10, 4)


def test_labels_of_several_types():
    design = check_design(np.array([1, "a"] * 5, dtype=object), None, 10, 4)
    np.testing.assert_array_equal(design.adjustment.groups.codes, [0, 1] * 5)


# --- files


def test_saved_model_is_restored(fitted, tmp_path):
    X, _, model = fitted
    save(model, tmp_path / "model.prosparse")
    again = load(tmp_path / "model.prosparse")
    assert again.get_params() == model.get_params()
    for name in (
        "pvalues_",
        "qvalues_",
        "communality_",
        "components_",
        "component_pvalues_",
        "component_qvalues_",
        "row_scale_",
        "row_influence_",
    ):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    np.testing.assert_array_equal(again.transform(X), model.transform(X))


def test_model_without_selection_is_saved(tmp_path):
    with pytest.warns(NoStructureWarning):
        model = FDRPCA().fit(np.random.default_rng(0).standard_normal((40, 30)))
    save(model, tmp_path / "model.prosparse")
    assert load(tmp_path / "model.prosparse").n_selected_ == 0
