"""GSPPCA beside the authors' R program, on its own results."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from prosparse import GSPPCA
from prosparse.data import DenseOperator
from prosparse.models.gsppca.evidence import NestedModels
from prosparse.numerics.spectrum import spectrum
from prosparse.selection.noise import noise_variance

SIMULATED = ["intro", "one", "tall", "wide"]
R_NAMES = {"bias-corrected": "noise_sd_bc", "ml": "noise_sd_ml", "median": "noise_sd_jl"}


def load(name, reference_folder, data_folder=None):
    result = np.load(reference_folder / f"gsppca_{name}.npz")
    if name == "golub_d30":
        # Stored in single precision; the original values have five decimals.
        X = np.load(data_folder / "golub_leukemia_38x3051.npz")["X"].astype(float)
        return np.round(X, 5), 30, result
    return result["X"], int(result["n_components"]), result


def zeros_tied(u):
    """R's program creeps towards zero: what is below 1e-3 is on its way there."""
    return np.where(u < 1e-3, 0.0, u)


def check_evidence(X, d, result, kind="bias-corrected"):
    """Evidence along R's ordering, with our own noise estimate, at every cardinality of R's."""
    X = X - X.mean(axis=0)
    op = DenseOperator(X)
    eigenvalues = np.asarray(spectrum(op).eigenvalues)
    noise = noise_variance(kind, eigenvalues, np.sum(X**2, axis=0), X.shape[0], d)
    order = np.argsort(-result["u"], kind="stable")
    ours = NestedModels(op, order, d, noise, "noiseless").path(result["cardinality"])
    np.testing.assert_allclose(ours.log_evidence, result["log_evidence"], rtol=0, atol=1e-3)


@pytest.mark.parametrize("name", SIMULATED)
def test_evidence_along_its_ordering(name, reference_folder):
    check_evidence(*load(name, reference_folder))


def test_evidence_on_golub(reference_folder, data_folder):
    check_evidence(*load("golub_d30", reference_folder, data_folder))


@pytest.mark.parametrize("name", SIMULATED)
@pytest.mark.parametrize("kind", R_NAMES)
def test_noise(name, kind, reference_folder):
    X, d, result = load(name, reference_folder)
    model = GSPPCA(d, noise=kind, refine=False).fit(X)
    assert np.sqrt(model.noise_variance_) == pytest.approx(float(result[R_NAMES[kind]]), abs=1e-7)


@pytest.mark.parametrize("name", SIMULATED)
def test_support_and_relevance(name, reference_folder):
    X, d, result = load(name, reference_folder)
    model = GSPPCA(d, refine=False).fit(X)
    np.testing.assert_array_equal(model.support_, result["support"].astype(bool))
    assert model.n_selected_ == int(result["n_selected"])
    assert spearmanr(model.relevance_, zeros_tied(result["u"])).statistic > 0.95
    # R clips u at 1 and has another scale. Below 1 the values are proportional, except for those
    # that have not converged to zero in R.
    below = (result["u"] > 0.1) & (result["u"] < 1)
    ratio = model.relevance_[below] / result["u"][below]
    np.testing.assert_allclose(ratio, np.median(ratio), rtol=0.03)


@pytest.mark.parametrize("name", SIMULATED)
def test_loadings_span_the_same_subspace(name, reference_folder):
    X, d, result = load(name, reference_folder)
    ours, theirs = GSPPCA(d, refine=False).fit(X).components_, np.linalg.qr(result["loadings"])[0]
    cosines = np.linalg.svd(ours @ theirs, compute_uv=False)
    np.testing.assert_allclose(cosines, 1.0, atol=1e-6)


def test_sparse_prior_keeps_the_choice(reference_folder):
    for name in SIMULATED:
        X, d, result = load(name, reference_folder)
        model = GSPPCA(d, model_prior="sparse", refine=False).fit(X)
        assert model.n_selected_ == int(result["n_selected_info_prior"])


def test_relevance_on_golub(reference_folder, data_folder):
    X, d, result = load("golub_d30", reference_folder, data_folder)
    model = GSPPCA(d, refine=False).fit(X)
    assert spearmanr(model.relevance_, result["u"]).statistic > 0.995
    assert np.sqrt(model.noise_variance_) == pytest.approx(float(result["noise_sd_bc"]), abs=1e-7)
