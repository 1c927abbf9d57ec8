"""SpinyRegressor beside the authors' R program, and beside the lasso on the diabetes data."""

import json

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal

from papers.spinyreg import R_DIABETES, R_PROSTATE
from prosparse import SpinyRegressor


@pytest.fixture(scope="module")
def prostate(data_folder):
    with np.load(data_folder / "prostate_clinical_97x8.npz") as file:
        return file["X"], file["y"], file["feature_names"]


def test_figures_of_the_experiment_are_those_of_the_program(reference_folder):
    figures = json.loads((reference_folder / "spinyreg.json").read_text())
    assert R_PROSTATE["log_evidence"] == tuple(figures["prostate"]["log_evidence_path_from_1"])
    assert figures["diabetes_64"]["n_selected"] == R_DIABETES
    assert set(R_PROSTATE["variables"]) < set(figures["prostate"]["coefficients"])


def max_evidence(Z, y):
    """Maximise log N(y; 0, sigma2 (I + Z Z'/lambda)) over lambda, at the best sigma2."""

    def loss(log_ratio):
        K = np.eye(y.size) + Z @ Z.T / np.exp(log_ratio)
        sigma2 = y @ np.linalg.solve(K, y) / y.size
        return -multivariate_normal(np.zeros(y.size), sigma2 * K).logpdf(y)

    return -minimize_scalar(loss, bounds=(-10.0, 15.0), method="bounded").fun


def test_prostate_variables_and_evidence(prostate):
    X, y, names = prostate
    model = SpinyRegressor().fit(X, y)
    assert set(names[model.support_]) == set(R_PROSTATE["variables"])
    theirs = np.array(R_PROSTATE["log_evidence"])
    path = dict(zip(model.cardinalities_, model.log_evidence_path_, strict=True))
    assert all(path[q] >= theirs[q - 1] for q in range(1, 7))
    Z = (X - X.mean(0)) / X.std(0)
    order = np.argsort(model.ranking_)
    for q in range(1, 9):
        assert path[q] == pytest.approx(max_evidence(Z[:, order[:q]], y - y.mean()), abs=1e-3)


def test_prostate_coefficients_are_close_to_theirs(prostate, reference_folder):
    """Their alpha and gamma are not those of the chosen model, so that digits differ."""
    X, y, names = prostate
    theirs = json.loads((reference_folder / "spinyreg.json").read_text())["prostate"]
    model = SpinyRegressor().fit(X, y)
    for name, value in zip(
        names[model.support_], model.selected_coef_[model.support_], strict=True
    ):
        assert value == pytest.approx(theirs["coefficients"][name], rel=0.03)
    assert model.noise_precision_ == pytest.approx(theirs["gamma"], rel=0.05)
