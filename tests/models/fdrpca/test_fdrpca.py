"""FDRPCA as users meet it: what is chosen, what is said, for every kind of rows and table."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from prosparse import (
    FDRPCA,
    InputError,
    NoStructureWarning,
    ParameterError,
    RowOrderWarning,
    load,
    save,
)
from prosparse.datasets import make_globally_sparse
from prosparse.models.fdrpca.rows import grouped_rows


@pytest.fixture(scope="module")
def fitted():
    X, truth, _ = make_globally_sparse(
        80, 60, n_components=3, n_informative=15, scale=True, random_state=1
    )
    return X, truth, FDRPCA().fit(X)


def test_finds_the_variables(fitted):
    _, truth, model = fitted
    assert truth[model.support_].mean() > 0.8
    assert model.support_[truth].mean() > 0.9
    assert model.n_selected_ == model.support_.sum()


def test_attributes(fitted):
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
    assert sorted(model.ranking_) == list(range(1, 61))
    assert set(np.flatnonzero(model.support_)) == set(
        np.argsort(model.ranking_)[: model.n_selected_]
    )


def test_communality_is_what_the_other_chosen_columns_explain(fitted):
    """Of the definition: decompose the other chosen columns, regress on the first components."""
    X, _, model = fitted
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    for j in range(60):
        others = model.support_.copy()
        others[j] = False
        U = np.linalg.svd(Z[:, others], full_matrices=False)[0][:, : model.n_components_]
        R2 = np.sum((U.T @ Z[:, j]) ** 2) / np.sum(Z[:, j] ** 2)
        assert model.communality_[j] == pytest.approx(R2, abs=1e-10)


def test_components_are_pca_of_the_chosen_scaled_columns(fitted):
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


def test_units_do_not_matter(fitted):
    X, _, model = fitted
    scales = np.random.default_rng(0).lognormal(0, 3, 60)
    other = FDRPCA().fit(X * scales + 100 * scales)
    np.testing.assert_array_equal(other.support_, model.support_)
    np.testing.assert_allclose(other.pvalues_, model.pvalues_, rtol=1e-5, atol=1e-12)


def test_nothing_shared_is_said():
    X = np.random.default_rng(0).standard_normal((40, 30))
    with pytest.warns(NoStructureWarning, match="no variable shares structure"):
        model = FDRPCA().fit(X)
    assert model.n_selected_ == model.n_components_ == 0
    assert model.components_.shape == (0, 30)
    assert model.transform(X).shape == (40, 0)
    assert model.inverse_transform(model.transform(X)).shape == (40, 30)
    assert model.select(X).shape == (40, 0)
    assert model.score(X) == 0.0


def test_least_communality(fitted):
    X, _, model = fitted
    least = float(np.median(model.communality_[model.support_]))
    strict = FDRPCA(min_communality=least).fit(X)
    np.testing.assert_array_equal(strict.support_, model.support_ & (model.communality_ >= least))


def test_a_stricter_rate_chooses_fewer(fitted):
    X, _, model = fitted
    assert (
        FDRPCA(fdr=1e-6).fit(X).n_selected_
        <= model.n_selected_
        <= FDRPCA(fdr=0.4).fit(X).n_selected_
    )


def test_components_that_are_asked_for(fitted):
    X, _, model = fitted
    two = FDRPCA(2).fit(X)
    assert two.n_components_ == 2
    np.testing.assert_array_equal(two.support_, model.support_)  # the choice does not depend on it


# --- outliers and ranks


def with_outliers():
    X, truth, _ = make_globally_sparse(
        60, 80, n_components=2, n_informative=20, noise=1.0, scale=True, random_state=3
    )
    rng = np.random.default_rng(0)
    X[rng.integers(0, 60, 80), np.arange(80)] += 30.0
    return X, truth


def test_outliers_and_ranks():
    X, truth = with_outliers()
    ranked = FDRPCA(rank_transform=True).fit(X)
    assert ranked.support_[truth].mean() > 0.8
    assert ranked.support_[~truth].mean() < 0.1
    # what any monotone change of a column does to its ranks: nothing
    other = FDRPCA(rank_transform=True).fit(np.exp(X / 10.0))
    np.testing.assert_allclose(other.pvalues_, ranked.pvalues_)


def test_ranks_of_a_sparse_table_are_those_of_a_dense_one():
    rng = np.random.default_rng(0)
    X = rng.poisson(np.exp(rng.standard_normal((90, 1)) - 0.5), (90, 25)).astype(float)
    X[:, :5] -= 1.0 * (X[:, :5] > 2)  # negative and positive entries around zero
    X[3, 0] = -2.0
    dense, thin = (FDRPCA(rank_transform=True).fit(t) for t in (X, sparse.csr_array(X)))
    np.testing.assert_allclose(dense.pvalues_, thin.pvalues_, rtol=1e-6, atol=1e-12)


def test_scores_as_a_frame(fitted):
    X, _, _ = fitted
    framed = make_pipeline(StandardScaler(), FDRPCA()).set_output(transform="pandas")
    assert framed.fit_transform(X).columns[0] == "fdrpca0"


# --- rows


def repeated(rng, donors=20, times=5, p=40):
    """Columns that share nothing but the donors whose rows they are."""
    groups = np.repeat(np.arange(donors), times)
    return rng.standard_normal((donors, p))[groups] * 2 + rng.standard_normal(
        (donors * times, p)
    ), groups


def test_repeated_measures_need_their_groups():
    X, groups = repeated(np.random.default_rng(0))
    with pytest.warns(RowOrderWarning, match="`groups`"):
        misled = FDRPCA().fit(X)
    assert misled.n_selected_ > 20
    with pytest.warns(NoStructureWarning):
        assert FDRPCA().fit(X, groups=groups).n_selected_ <= 1


def test_structure_within_groups_is_found():
    rng = np.random.default_rng(1)
    X, groups = repeated(rng)
    X[:, :12] += 2.0 * rng.standard_normal((100, 2)) @ rng.standard_normal((2, 12))
    model = FDRPCA().fit(X, groups=[f"donor {g}" for g in groups])
    assert model.support_[:12].mean() > 0.8
    assert model.support_[12:].sum() <= 2


def test_sorted_rows_are_no_time_series():
    """All patients, then all controls: the components say so, and nobody is warned."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 50))
    X[:40, :25] += 2.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FDRPCA().fit(X)


def test_a_table_sorted_by_class_is_told_that_this_does_no_harm():
    """The wines stand one cultivar after the other; in any other order the same are chosen."""
    X = load_wine().data
    with pytest.warns(RowOrderWarning, match=r"sorted, by class.*nothing to do.*`groups`"):
        in_order = FDRPCA().fit(X)
    mixed = FDRPCA().fit(X[np.random.default_rng(0).permutation(len(X))])  # and nobody is warned
    np.testing.assert_array_equal(mixed.support_, in_order.support_)
    np.testing.assert_allclose(mixed.communality_, in_order.communality_)


def test_a_time_series_is_said_to_be_one():
    rng = np.random.default_rng(0)
    X = np.cumsum(rng.standard_normal((100, 30)), axis=0)
    with pytest.warns(RowOrderWarning, match="alike"):
        FDRPCA().fit(X)


# --- what is refused


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"fdr": 0.0}, "`fdr` must be between"),
        ({"fdr": 1.0}, "`fdr` must be between"),
        ({"min_communality": 1.5}, "`min_communality` must be between"),
        ({"transform": "ranks"}, "`transform` must be one of 'rank'"),
        ({"n_components": 0}, "`n_components`"),
        ({"n_components": "many"}, "`n_components`"),
    ],
)
def test_refused_parameters(fitted, parameters, words):
    with pytest.raises(ParameterError, match=words):
        FDRPCA(**parameters).fit(fitted[0])


def test_refused_tables(fitted):
    X = fitted[0]
    with pytest.raises(InputError, match="too few to tell structure"):
        FDRPCA().fit(X[:4])
    gaps = X.copy()
    gaps[3, 4] = np.nan
    with pytest.raises(InputError, match="NaN"):
        FDRPCA().fit(gaps)
    with pytest.raises(ParameterError, match="smaller than the number"):
        FDRPCA(60).fit(X)


def test_refused_groups():
    with pytest.raises(ParameterError, match="one label for each"):
        grouped_rows([1, 2], 10)
    with pytest.raises(ParameterError, match="10 labels for 10 rows"):
        grouped_rows(np.arange(10), 10)


@pytest.mark.parametrize(
    "labels",
    [
        [1.0, np.nan] * 5,
        ["a", np.nan] * 5,  # which NumPy would write as the word "nan"
        ["a", None] * 5,
        pd.Series(["a", None] * 5, dtype="category"),
        pd.Series(["a", pd.NA] * 5),
        np.array(["2020-01-01", "NaT"] * 5, dtype="datetime64[D]"),
    ],
)
def test_groups_that_lack_labels(labels):
    with pytest.raises(ParameterError, match="5 of the 10 have none"):
        grouped_rows(labels, 10)


def test_labels_may_be_of_several_types():
    groups = grouped_rows(np.array([1, "a"] * 5, dtype=object), 10)
    np.testing.assert_array_equal(groups.codes, [0, 1] * 5)


# --- files


def test_saved_and_loaded(fitted, tmp_path):
    X, _, model = fitted
    save(model, tmp_path / "model.prosparse")
    again = load(tmp_path / "model.prosparse")
    assert again.get_params() == model.get_params()
    for name in ("pvalues_", "qvalues_", "communality_", "components_", "permutation_tested_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    np.testing.assert_array_equal(again.transform(X), model.transform(X))


def test_an_empty_choice_is_saved_too(tmp_path):
    with pytest.warns(NoStructureWarning):
        model = FDRPCA().fit(np.random.default_rng(0).standard_normal((40, 30)))
    save(model, tmp_path / "model.prosparse")
    assert load(tmp_path / "model.prosparse").n_selected_ == 0
