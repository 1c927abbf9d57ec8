"""E27: designs and stored results of VBsparsePCA, bins of calibration."""

import importlib.util
import json

import numpy as np
import pytest

from papers.row_sparse import (
    DESIGNS,
    VBSPARSEPCA,
    Probabilities,
    bin_probabilities,
    simulate_design,
    subspace_error,
)


@pytest.mark.parametrize("design", DESIGNS)
def test_datasets_and_results_of_vbsparsepca(design, reference_folder):
    spec = importlib.util.spec_from_file_location("rivals", reference_folder / "rivals.py")
    rivals = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(rivals)
    X, U, n_true = rivals.row_sparse_table(design, 3)
    ours, loadings = simulate_design(design, 3)
    np.testing.assert_array_equal(ours, X)
    np.testing.assert_array_equal(loadings, U)
    assert DESIGNS[design].n_true == n_true
    W = np.linalg.qr(np.random.default_rng(0).standard_normal(U.shape))[0]
    assert subspace_error(W.T, U) == pytest.approx(rivals.subspace_error(W, U))
    results = json.loads((reference_folder / "rivals.json").read_text())["row-sparse PCA"]
    runs = [r for r in results if (r["design"], r["program"]) == (design, "VBsparsePCA")]
    assert sorted(run["draw"] for run in runs) == list(range(20))
    means = [np.mean([run[key] for run in runs]) for key in ("power", "false", "subspace_error")]
    np.testing.assert_allclose(VBSPARSEPCA[design], means, rtol=1e-4)


def test_bins_of_inclusion_probabilities():
    pairs = [
        Probabilities(np.array([0.05, 0.15]), np.array([False, True])),
        Probabilities(np.array([0.15, 1.0]), np.array([False, True])),
    ]
    assert bin_probabilities(pairs) == [(0.05, 0.0, 1), (0.15, 0.5, 2), (1.0, 1.0, 1)]
