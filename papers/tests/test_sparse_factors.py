"""E26: designs and stored results of flashier, measures."""

import importlib.util
import json

import numpy as np
import pytest

from papers.sparse_factors import (
    CELLS,
    FLASHIER,
    FLASHIER_GTEX,
    N_FACTORS,
    loadings_f_score,
    procrustes_error,
    signal_error,
    simulate_factors,
)


@pytest.fixture(scope="module")
def rivals(reference_folder):
    spec = importlib.util.spec_from_file_location("rivals", reference_folder / "rivals.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("cell", CELLS)
def test_datasets_and_results_of_flashier(cell, rivals, reference_folder):
    X, signal, _, W, _ = rivals.factor_table(*cell, 3)
    found, signal_found, W_found = simulate_factors(*cell, 3)
    np.testing.assert_array_equal(found, X)
    np.testing.assert_array_equal(signal_found, signal)
    np.testing.assert_array_equal(W_found, W)
    results = json.loads((reference_folder / "rivals.json").read_text())
    keys = ("strength", "noise", "missing", "program")
    runs = [
        r
        for r in results["factor analysis"]
        if tuple(r[key] for key in keys) == (*cell, "flashier")
    ]
    assert sorted(run["draw"] for run in runs) == list(range(10))
    counts = [run["factors"] == N_FACTORS for run in runs]
    errors, f_scores = ([run[key] for run in runs] for key in ("signal_error", "loading_f"))
    means = [np.mean(errors), np.mean(counts), np.mean(f_scores)]
    np.testing.assert_allclose(FLASHIER[cell], means, atol=1e-4)
    gtex = [r["heldout_rmse"] for r in results["gtex"] if r["program"] == "flashier var_type 2"]
    assert pytest.approx(np.mean(gtex), abs=1e-4) == FLASHIER_GTEX


def test_measures_are_those_of_the_stored_results(rivals):
    rng = np.random.default_rng(0)
    X, signal, W = simulate_factors("weak", "column", 0.1, 0)
    fitted = signal + rng.standard_normal(signal.shape)
    assert signal_error(fitted, signal, X) == rivals.signal_error(fitted, signal, X)
    components = (W + 0.1 * rng.standard_normal(W.shape) * (rng.random(W.shape) < 0.2)).T
    expected = rivals.loading_f((components.T, components.T != 0), W)
    assert loadings_f_score(components, W) == pytest.approx(expected)


def test_procrustes_error_ignores_rotation_and_missing_factors():
    rng = np.random.default_rng(1)
    W = rng.standard_normal((30, 3))
    rotation = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    assert procrustes_error(2.0 * (W @ rotation).T, W) == pytest.approx(0.0, abs=1e-12)
    assert 0.0 < procrustes_error(W[:, :2].T, W) < 1.0
