"""FDRPCA with knockoff control: attributes, seeds, containers, files and errors."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from prosparse import FDRPCA, NoStructureWarning, ParameterError, load, save
from prosparse.datasets import make_globally_sparse


@pytest.fixture(scope="module")
def data():
    return make_globally_sparse(
        80, 60, n_components=3, n_informative=20, scale=True, random_state=1
    )[:2]


@pytest.mark.parametrize("null", ["robust", "exchangeable"])
def test_attributes_of_one_draw(data, null):
    X, truth = data
    model = FDRPCA(fdr=0.1, null=null, control="knockoff", n_shadows=2).fit(X)
    assert model.support_[truth].mean() > 0.8
    np.testing.assert_array_equal(model.support_, model.qvalues_ <= 0.1)
    assert model.knockoff_statistics_.shape == (1, 60)
    assert np.all(model.knockoff_statistics_[0, model.support_] > 0.0)
    assert np.all(model.evalues_ >= 0.0)
    assert np.all(model.evalues_[model.support_] >= 60 / (0.1 * model.n_selected_) - 1e-9)
    assert np.all((model.pvalues_ >= 0.0) & (model.pvalues_ <= 1.0))
    frame = model.to_frame()
    np.testing.assert_array_equal(frame["evalue"], model.evalues_)
    np.testing.assert_array_equal(frame["qvalue"], model.qvalues_)
    np.testing.assert_array_equal(frame["knockoff_statistic"], model.knockoff_statistics_[0])


def test_least_rate_is_that_of_another_fit(data):
    """The statistics do not depend on the rate."""
    X, _ = data
    model = FDRPCA(fdr=0.1, control="knockoff").fit(X)
    for fdr in (0.05, 0.2, 0.5):
        other = FDRPCA(fdr=fdr, control="knockoff").fit(X)
        np.testing.assert_array_equal(other.support_, model.qvalues_ <= fdr)


def test_several_draws_average_evalues(data):
    X, truth = data
    models = [
        FDRPCA(fdr=0.2, control="knockoff", n_shadows=2, n_draws=8, random_state=seed).fit(X)
        for seed in (0, 1)
    ]
    for model in models:
        assert model.knockoff_statistics_.shape == (8, 60)
        assert model.support_[truth].mean() > 0.8
        np.testing.assert_array_equal(model.support_, model.qvalues_ <= 0.2)
        statistics = model.to_frame()[[f"knockoff_statistic_{k}" for k in range(8)]]
        np.testing.assert_array_equal(statistics.T, model.knockoff_statistics_)
    first, second = (model.support_ for model in models)
    assert np.sum(first & second) >= 0.8 * np.sum(first | second)


def test_random_state_determines_the_shadows(data):
    X, _ = data
    fits = [FDRPCA(control="knockoff", random_state=seed).fit(X) for seed in (0, 0, 1)]
    W = [model.knockoff_statistics_ for model in fits]
    np.testing.assert_array_equal(W[0], W[1])
    assert np.any(W[0] != W[2])


@pytest.mark.parametrize("control", ["bh", "knockoff"])
def test_containers_groups_and_constant_columns(data, control, tmp_path):
    X, truth = data
    X = X.copy()
    X[:, 3] = 7.0
    groups = np.arange(80) % 2
    frame = pd.DataFrame(X, columns=[f"v{j}" for j in range(60)])
    model = FDRPCA(fdr=0.2, control=control, n_shadows=2).fit(frame, groups=groups)
    assert not model.support_[3]
    assert model.qvalues_[3] == 1.0
    varying = truth & (np.arange(60) != 3)
    assert model.support_[varying].mean() > 0.7
    save(model, tmp_path / "model.prosparse")
    again = load(tmp_path / "model.prosparse")
    assert hasattr(again, "evalues_") == (control == "knockoff")
    np.testing.assert_array_equal(again.support_, model.support_)


def test_sparse_and_transformed_columns(data):
    X, truth = data
    kept = np.where(np.abs(X) > 0.3, X, 0.0)
    for null in ("robust", "exchangeable"):
        model = FDRPCA(fdr=0.2, null=null, control="knockoff").fit(sparse.csr_array(kept))
        assert model.support_[truth].mean() > 0.8
    model = FDRPCA(fdr=0.2, control="knockoff", rank_transform=True).fit(np.exp(X))
    assert model.support_[truth].mean() > 0.8


@pytest.mark.parametrize("groups", [None, np.arange(80) % 2])
def test_covariates_are_removed(data, groups, rng):
    """Also from sparse data; variables that share the covariates alone are not selected."""
    X, truth = data
    covariates = np.column_stack([rng.standard_normal(80), np.arange(80) // 40])
    shifted = X + 3.0 * covariates @ rng.standard_normal((2, 60))
    for given in (shifted, sparse.csr_array(shifted)):
        model = FDRPCA(fdr=0.2, control="knockoff", n_shadows=2)
        model.fit(given, groups=groups, covariates=covariates)
        assert model.support_[truth].mean() > 0.8
        assert np.sum(model.support_ & ~truth) <= 0.4 * model.n_selected_
    with pytest.raises(ParameterError, match="are not exchangeable"):
        FDRPCA(control="knockoff", null="exchangeable").fit(shifted, covariates=covariates)


def test_noise_gives_nothing_and_a_warning(rng):
    with pytest.warns(NoStructureWarning):
        model = FDRPCA(control="knockoff", n_shadows=4).fit(rng.standard_normal((40, 50)))
    assert model.n_selected_ == 0
    assert model.components_.shape == (0, 50)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"control": "by"}, "`control` must be one of"),
        ({"control": "knockoff", "n_shadows": 0}, "`n_shadows` must be an integer"),
        ({"control": "knockoff", "n_draws": 0}, "`n_draws` must be an integer"),
        ({"control": "knockoff", "counts": True}, "cannot be combined"),
    ],
)
def test_invalid_parameters(data, parameters, message):
    with pytest.raises(ParameterError, match=message):
        FDRPCA(**parameters).fit(data[0])
