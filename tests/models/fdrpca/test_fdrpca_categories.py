"""FDRPCA with categories."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from prosparse import FDRPCA, CategoriesWarning, InputError, load, save

N = 160


def draw(missing=0.0, seed=0):
    """Numbers and categories; those named "a..." share two factors."""
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((N, 2))
    columns = {}
    for k in range(5):
        columns[f"a number {k}"] = factors @ rng.standard_normal(2) + 0.5 * rng.standard_normal(N)
    for k in range(4):
        latent = factors @ rng.standard_normal(2) + 0.5 * rng.standard_normal(N)
        cuts = np.quantile(latent, [0.25, 0.5, 0.75][: 1 + k % 3])
        columns[f"a category {k}"] = np.array(list("pqrs"))[np.digitize(latent, cuts)]
    columns["a boolean"] = factors[:, 0] > 0
    for k in range(5):
        columns[f"number {k}"] = rng.standard_normal(N)
        columns[f"category {k}"] = rng.choice(list("uvwxyz"), N)
    X = pd.DataFrame(columns).astype({"a category 1": "category", "category 1": "category"})
    return X.mask(rng.random(X.shape) < missing) if missing else X


@pytest.fixture(scope="module")
def fitted():
    return FDRPCA(2).fit(draw())


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_categories_are_selected_as_one_variable(missing):
    X = draw(missing)
    model = FDRPCA().fit(X)
    is_shared = X.columns.str.startswith("a ")
    assert model.support_.shape == (20,)
    assert model.support_[is_shared].sum() >= 9  # one has small loadings
    assert model.support_[~is_shared].sum() <= 1
    assert np.all(model.communality_[is_shared & model.support_] > model.null_communality_)


@pytest.mark.parametrize("null", ["robust", "exchangeable"])
def test_knockoffs_of_categories(null):
    X = draw(0.1)
    model = FDRPCA(control="knockoff", null=null, fdr=0.1, n_shadows=4).fit(X)
    is_shared = X.columns.str.startswith("a ")
    assert model.support_[is_shared].sum() >= 8
    assert model.support_[~is_shared].sum() <= 0.35 * model.n_selected_
    assert model.knockoff_statistics_.shape == (1, 20)
    assert model.evalues_.shape == (20,)
    rows = np.arange(N) % 2
    within = FDRPCA(control="knockoff", null=null, fdr=0.2, n_shadows=2).fit(X, groups=rows)
    assert within.support_[is_shared].sum() >= 7


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
@pytest.mark.filterwarnings("ignore::prosparse.OutlyingRowsWarning")
@pytest.mark.parametrize("has_covariate", [False, True])
def test_rate_of_knockoffs_of_categories(has_covariate):
    """Null categories of unequal frequencies, in rows of unequal noise; at q = 0.2."""
    n, n_runs, q, false = 60, 30, 0.2, []
    for run in range(n_runs):
        rng = np.random.default_rng([11, run])
        age = rng.standard_normal(n)
        shared = rng.standard_normal((n, 1)) * rng.standard_normal(12)
        scale = np.exp(0.5 * rng.standard_normal((n, 1)))
        numbers = (shared + rng.standard_normal((n, 12))) * scale
        X = pd.DataFrame(numbers, columns=[f"v{k}" for k in range(12)])
        for k in range(20):
            latent = rng.standard_normal(n) + (age if has_covariate else 0.0)
            cuts = [-0.5, 1.2] if k % 2 else [0.8]
            X[f"c{k}"] = np.array(list("abc"))[np.digitize(latent, cuts)]
        design = {"covariates": age[:, None]} if has_covariate else {}
        model = FDRPCA(1, control="knockoff", fdr=q, n_shadows=3, random_state=run)
        support = model.fit(X, **design).support_
        false.append(support[12:].sum() / max(1, support.sum()))
    assert np.mean(false) <= q + 2.0 * np.std(false) / np.sqrt(n_runs)


def test_complete_numbers_take_the_other_path_with_the_same_result():
    X = draw().select_dtypes("number")
    noise = pd.Categorical(np.random.default_rng(1).choice(list("ab"), N))
    alone, mixed = FDRPCA(1).fit(X), FDRPCA(1).fit(X.assign(noise=noise))
    np.testing.assert_array_equal(alone.support_, mixed.support_[:-1])
    # The scales of the rows differ slightly with one more column.
    np.testing.assert_allclose(alone.communality_, mixed.communality_[:-1], atol=1e-3)
    np.testing.assert_allclose(alone.transform(X), mixed.transform(X.assign(noise=noise)))


def test_components_are_those_of_orthonormal_indicators(fitted):
    X = draw()
    parts = []
    for name in X.columns[fitted.support_]:
        column = X[name]
        if column.dtype.kind in "fb":
            values = column.to_numpy(dtype=float)[:, None]
        else:
            values = pd.get_dummies(column, dtype=float).to_numpy()
        U, s, _ = np.linalg.svd(values - values.mean(axis=0), full_matrices=False)
        parts.append(U[:, s > 1e-8] * np.sqrt(N))
    variances = np.linalg.svd(np.hstack(parts), compute_uv=False)[:2] ** 2 / (N - 1)
    np.testing.assert_allclose(fitted.explained_variance_, variances)
    np.testing.assert_allclose(np.var(fitted.transform(X), axis=0, ddof=1), variances)


def test_levels_add_to_the_scores(fitted):
    X = draw()
    scores = 0.0
    for k in np.flatnonzero(fitted.support_):
        name = X.columns[k]
        if name in fitted.level_components_:
            codes = {level: c for c, level in enumerate(fitted.category_levels_[name])}
            contributions = fitted.level_components_[name][:, X[name].map(codes).astype(int)].T
            lengths = np.sqrt(np.mean(contributions**2, axis=0))
            np.testing.assert_allclose(lengths, np.abs(fitted.components_[:, k]))
        else:
            standardised = (X[name].astype(float) - fitted.mean_[k]) / fitted.scale_[k]
            contributions = np.outer(standardised, fitted.components_[:, k])
        scores = scores + contributions
    np.testing.assert_allclose(scores, fitted.transform(X), atol=1e-10)
    frame = fitted.levels_to_frame()
    assert "a category 0[q]" in frame.index
    # With two levels, the component has the sign of the second one.
    k = X.columns.get_loc("a category 0")
    np.testing.assert_array_equal(
        np.sign(frame.loc["a category 0[q]"]), np.sign(fitted.components_[:, k])
    )


def test_results_speak_of_the_original_columns(fitted):
    X = draw()
    assert fitted.n_features_in_ == 20
    assert list(fitted.to_frame().index) == list(X.columns)
    assert list(fitted.select(X).columns) == list(X.columns[fitted.support_])
    assert fitted.components_.shape == (2, 20)
    reconstructed = fitted.inverse_transform(fitted.transform(X))
    assert np.isnan(reconstructed[:, X.columns.get_loc("a category 0")]).all()
    assert np.isfinite(reconstructed[:, X.columns.get_loc("a number 0")]).all()
    np.testing.assert_allclose(fitted.score(X), fitted.explained_variance_ratio_.sum())


def test_names_and_order_of_levels_do_not_matter(fitted):
    X = draw()
    renamed = X.replace({"a category 2": {"p": "zz", "r": "aa"}})
    np.testing.assert_allclose(FDRPCA(2).fit(renamed).pvalues_, fitted.pvalues_, rtol=1e-5)


@pytest.mark.parametrize("convert", [pl.from_pandas, pa.Table.from_pandas])
def test_other_frames(fitted, convert):
    model = FDRPCA(2).fit(convert(draw()))
    np.testing.assert_allclose(model.pvalues_, fitted.pvalues_)
    np.testing.assert_allclose(np.abs(model.components_), np.abs(fitted.components_), atol=1e-8)


def test_new_rows(fitted):
    X = draw()
    np.testing.assert_allclose(fitted.transform(X.iloc[:5]), fitted.transform(X)[:5])
    missing = X.iloc[:3].assign(**{"a category 0": None})
    assert np.all(fitted.transform_std(missing) > 0.0)
    with pytest.raises(InputError, match="1 level that `fit` did not contain, such as 'new'"):
        fitted.transform(X.assign(**{"a category 0": "new"}))
    with pytest.raises(InputError, match="'a category 0' of X has numbers, but `fit` had labels"):
        fitted.transform(X.assign(**{"a category 0": 1.0}))
    with pytest.raises(InputError, match="20 features as input"):
        fitted.transform(X.iloc[:, :5])


def test_covariates():
    X, rng = draw(0.1), np.random.default_rng(3)
    age = rng.standard_normal(N)
    X["category 4"] = pd.cut(age + 0.3 * rng.standard_normal(N), 3, labels=list("uvw")).astype(str)
    X["number 4"] = age + 0.3 * rng.standard_normal(N)
    people = pd.DataFrame({"age": age, "batch": rng.choice(list("kl"), N)})
    columns = [X.columns.get_loc(name) for name in ("category 4", "number 4")]
    assert FDRPCA().fit(X).support_[columns].all()
    model = FDRPCA().fit(X, covariates=people)
    assert not model.support_[columns].any()
    assert np.all(model.covariate_r2_[columns] > 0.2)
    assert model.covariate_coef_.shape == (2, 20)
    # Scores of complete rows are uncorrelated with the covariates, up to missing rows.
    scores = model.transform(X, covariates=people)[X.notna().all(axis=1)]
    assert abs(np.corrcoef(age[X.notna().all(axis=1)], scores[:, 0])[0, 1]) < 0.3


def test_ordered_categories_are_scores_on_request():
    X = draw()
    ordered = pd.Categorical(X["a category 2"], categories=list("pqrs"), ordered=True)
    codes = pd.Series(ordered).cat.codes.astype(float)
    with_labels = FDRPCA(1, ordered_scores=True).fit(X.assign(**{"a category 2": ordered}))
    with_numbers = FDRPCA(1).fit(X.assign(**{"a category 2": codes}))
    np.testing.assert_allclose(with_labels.pvalues_, with_numbers.pvalues_)
    np.testing.assert_allclose(
        with_labels.transform(X.assign(**{"a category 2": ordered})),
        with_numbers.transform(X.assign(**{"a category 2": codes})),
    )


def test_rare_levels_are_pooled_in_words():
    X = draw()
    labels = X["category 0"].to_numpy(dtype=object).copy()
    labels[:6] = ["r1", "r1", "r2", "r2", "r2", "r3"]
    X["category 0"] = labels
    with pytest.warns(CategoriesWarning, match="'category 0' of X has 3 levels with fewer than 5"):
        model = FDRPCA(1).fit(X)
    assert model.category_levels_["category 0"].tolist() == [*"uvwxyz", "other levels"]
    model.transform(X.assign(**{"category 0": "new"}))  # counts as pooled


def test_model_files(fitted, tmp_path):
    model = FDRPCA(2).fit(draw(0.1), covariates=np.arange(N) / N)
    for each, X, covariates in ((fitted, draw(), None), (model, draw(0.1), np.arange(N) / N)):
        save(each, tmp_path / "model.prosparse")
        loaded = load(tmp_path / "model.prosparse")
        np.testing.assert_array_equal(
            loaded.transform(X, covariates=covariates), each.transform(X, covariates=covariates)
        )
        assert loaded.levels_to_frame().equals(each.levels_to_frame())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"counts": True}, "`counts=True` does not support"),
        ({"rank_transform": True}, "`rank_transform=True` does not support"),
    ],
)
def test_parameters_that_require_numbers(parameters, message):
    with pytest.raises(InputError, match=message):
        FDRPCA(**parameters).fit(draw())


def test_identifiers_raise_an_error():
    X = draw().assign(name=[f"person {k}" for k in range(N)])
    with pytest.raises(InputError, match="'name' of X has 160 levels in 160 rows"):
        FDRPCA().fit(X)


def test_numbers_with_few_texts_are_not_a_category():
    X = draw()
    X["number 0"] = ["n/k" if k < 5 else str(value) for k, value in enumerate(X["number 0"])]
    with pytest.raises(InputError, match="non-numeric column"):
        FDRPCA().fit(X)
