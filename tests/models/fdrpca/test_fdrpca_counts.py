"""FDRPCA of counts in rows with different size factors."""

import warnings

import numpy as np
import pytest
from scipy import sparse

import prosparse
from prosparse import FDRPCA, NoStructureWarning
from prosparse.errors import InputError, ParameterError


def counts(seed=0, n=200, p=150, shared=15, mean=2.0, overdispersion=0.0):
    """Counts with size factors between 1 and 20; the first columns share two factors."""
    rng = np.random.default_rng(seed)
    size = np.exp(rng.uniform(0, np.log(20), n))
    rate = np.tile(np.exp(rng.normal(np.log(mean), 1.0, p)), (n, 1))
    rate[:, :shared] *= np.exp(0.7 * rng.standard_normal((n, 2)) @ rng.standard_normal((2, shared)))
    if overdispersion:
        rate *= rng.gamma(1 / overdispersion, overdispersion, (n, p))
    X = rng.poisson((size / size.mean())[:, None] * rate).astype(float)
    return X, np.arange(p) < shared


def select(X, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoStructureWarning)
        return FDRPCA(**parameters).fit(X).support_


@pytest.mark.parametrize("overdispersion", [0.0, 0.5])
@pytest.mark.parametrize("mean", [0.3, 3.0])
def test_size_factors_give_no_false_discoveries(mean, overdispersion):
    for seed in range(2):
        X, _ = counts(seed, shared=0, mean=mean, overdispersion=overdispersion)
        assert select(X, counts=True).sum() == 0
    # The usual normalisation by logarithms of proportions gives many.
    logs = np.log1p(1e4 * X / X.sum(axis=1, keepdims=True))
    assert select(logs).mean() > 0.2


@pytest.mark.parametrize("mean", [2.0, 20.0])  # 20: large columns reduce other proportions
def test_informative_columns_are_selected(mean):
    n_true, n_found = 0, 0
    for seed in range(3):
        X, truth = counts(seed, mean=mean)
        found = select(X, counts=True)
        n_true, n_found = n_true + truth.sum(), n_found + np.sum(found & truth)
        assert np.sum(found & ~truth) <= 2
    assert n_found >= 0.7 * n_true


@pytest.fixture(scope="module")
def fitted():
    X, _ = counts()
    return X, FDRPCA(counts=True).fit(X)


def test_sparse_and_dense_counts_agree(fitted):
    X, model = fitted
    S = sparse.csr_array(X)
    other = FDRPCA(counts=True).fit(S)
    np.testing.assert_array_equal(model.support_, other.support_)
    np.testing.assert_allclose(model.transform(X), other.transform(S), atol=1e-9)
    np.testing.assert_allclose(model.score(X), other.score(S))


def standardised_residuals(model, X):
    """Compute the residuals of the selected columns by their definition."""
    pi, V = model.count_proportions_, model.count_noise_
    N = (X @ model.count_weights_)[:, None]
    s = np.sqrt(np.mean((X - N * pi) ** 2 / (N * pi * V), axis=1, keepdims=True))
    return (((X - N * pi) / (s * np.sqrt(N)) - model.mean_) / model.scale_)[:, model.support_]


def test_scores_are_those_of_limited_residuals(fitted):
    X, model = fitted
    Z, V = standardised_residuals(model, X), model.components_[:, model.support_].T
    assert np.sum(Z > 3.0) > 10
    np.testing.assert_allclose((Z @ V).var(axis=0, ddof=1), model.explained_variance_, rtol=1e-6)
    np.testing.assert_allclose((Z @ V).mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(model.transform(X), np.minimum(Z, 3.0) @ V, atol=1e-9)


def test_scores_of_new_rows(fitted):
    X, model = fitted
    scores = model.transform(X)
    np.testing.assert_allclose(model.transform(X[3:9]), scores[3:9], atol=1e-9)
    # Doubled counts are a row with twice the size factor.
    assert np.max(np.abs(model.transform(2 * X[3:9]) - scores[3:9])) < 0.5 * np.abs(scores).max()


def test_saved_model_is_restored(fitted, tmp_path):
    X, model = fitted
    prosparse.save(model, tmp_path / "counts.prosparse")
    again = prosparse.load(tmp_path / "counts.prosparse")
    np.testing.assert_array_equal(again.transform(X), model.transform(X))


def test_groups_of_counts():
    X, truth = counts(n=240)
    groups = np.arange(240) % 3
    X[groups == 1, 100:] = np.random.default_rng(0).poisson(
        3.0 * X[groups == 1, 100:].mean(), (80, 50)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = FDRPCA(counts=True).fit(X, groups=groups).support_
    assert np.sum(found & truth) >= 10


def test_columns_without_counts_are_constant():
    X, _ = counts()
    X[:, 40] = 0.0
    model = FDRPCA(counts=True).fit(X)
    assert not model.varying_[40]
    assert not model.support_[40]
    assert np.all(np.isfinite(model.transform(X)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("value", [1, 3, 7, 1000, 12345, 10**7])
@pytest.mark.parametrize("shape", [(30, 6), (200, 20), (10, 50)])
def test_columns_proportional_to_the_size_factor_raise_an_error(shape, value, make, dtype):
    n, p = shape
    for size in (np.ones(n), np.arange(1, n + 1)):
        X = np.tile(value * size[:, None], (1, p)).astype(dtype)
        with pytest.raises(InputError, match=f"{p} of the {p} columns of X are proportional"):
            FDRPCA(counts=True).fit(make(X))


def test_column_proportional_to_the_size_factor_changes_no_other():
    """Its residuals are rounding errors, which must not weight the rows."""
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 20))
    half = (factors + 2.0 * rng.standard_normal((200, 20)) > 0).astype(float)
    X = np.hstack([half, 1.0 - half])  # equal size factors: no column is overdispersed
    alone = FDRPCA(2, counts=True).fit(X)
    other = FDRPCA(2, counts=True).fit(np.column_stack([X, np.full(200, 1 / 3)]))
    assert other.varying_.tolist() == 40 * [True] + [False]
    assert other.count_noise_[-1] == 0.0
    np.testing.assert_allclose(other.communality_[:-1], alone.communality_, rtol=1e-9)


def test_large_columns_do_not_make_others_constant():
    X, _ = counts()
    X[:, :2] *= 1e9
    assert FDRPCA(counts=True).fit(X).varying_.all()


def test_invalid_counts(fitted):
    X, model = fitted
    for wrong, message in (
        (X - 1.0, "negative"),
        (np.vstack([X, 0 * X[:1]]), "Row 200 of X has no counts"),
        (1e100 * X, r"row 0 of X must be between .* got .*e\+10.\. "),
        (1e300 * X, r"row 0 of X must be between .* got .*e\+30.\. "),
        (1e-200 * X, r"row 0 of X must be between .* got .*e-19.\. "),
    ):
        with pytest.raises(InputError, match=message):
            FDRPCA(counts=True).fit(wrong)
        with pytest.raises(InputError, match=message):
            model.transform(wrong)
    with pytest.raises(ParameterError, match="cannot be combined"):
        FDRPCA(counts=True, rank_transform=True).fit(X)
    with pytest.raises(ParameterError, match="counts"):
        FDRPCA(counts="yes").fit(X)


def test_dask_array(fitted):
    dask_array = pytest.importorskip("dask.array")
    X, model = fitted
    blocks = dask_array.from_array(X, chunks=(50, X.shape[1]))
    other = FDRPCA(counts=True).fit(blocks)
    np.testing.assert_array_equal(model.support_, np.asarray(other.support_))
    np.testing.assert_allclose(np.asarray(other.transform(blocks)), model.transform(X), atol=1e-9)
