"""E24: designs and stored results of jackstraw, permV from its definition, claims."""

import importlib.util
import json

import numpy as np
import pytest

from papers.tests_of_variables import (
    DESIGNS,
    JACKSTRAW,
    Design,
    Score,
    evaluate,
    explained_variance,
    largest_correlation,
    make_claims,
    permv,
    simulate,
)


@pytest.fixture(scope="module")
def rivals(reference_folder):
    spec = importlib.util.spec_from_file_location("rivals", reference_folder / "rivals.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("design", DESIGNS)
def test_datasets_are_those_of_jackstraw(design, rivals):
    X, truth, n_components = rivals.tested_table(design, 4)
    ours = simulate(design, 4)
    np.testing.assert_array_equal(ours.X, X)
    np.testing.assert_array_equal(ours.truth, truth)
    assert ours.n_components == n_components


@pytest.mark.parametrize("design", DESIGNS)
def test_typed_results_of_jackstraw(design, reference_folder):
    results = json.loads((reference_folder / "rivals.json").read_text())["tests of variables"]
    runs = [r for r in results if (r["design"], r["program"]) == (design, "jackstraw")]
    assert sorted(run["draw"] for run in runs) == list(range(20))
    means = [np.mean([run[key] for run in runs]) for key in ("power", "false")]
    np.testing.assert_allclose(JACKSTRAW[design], means, rtol=1e-4)


def slow_explained_variance(Z, n_components, column):
    """Decompose the whole matrix and return the variance of one column that PCA explains."""
    U = np.linalg.svd(Z, full_matrices=False)[0][:, :n_components]
    return np.sum((U.T @ Z[:, column]) ** 2)


@pytest.mark.parametrize(("n", "p", "n_components"), [(12, 30, 1), (15, 8, 3), (40, 60, 10)])
def test_explained_variance_matches_pca(n, p, n_components, rng):
    Z = rng.standard_normal((n, p)) + rng.standard_normal((n, 1))
    Z -= Z.mean(axis=0)
    Z /= np.linalg.norm(Z, axis=0)
    values, vectors = np.linalg.eigh(Z[:, 1:] @ Z[:, 1:].T)
    values, vectors = values[::-1], vectors[:, ::-1]
    permuted = np.column_stack([Z[:, 0], rng.permutation(Z[:, 0]), rng.permutation(Z[:, 0])])
    fast = explained_variance(values, vectors.T @ permuted, n_components)
    slow = [
        slow_explained_variance(np.column_stack([y, Z[:, 1:]]), n_components, 0) for y in permuted.T
    ]
    np.testing.assert_allclose(fast, slow, rtol=1e-6)


def one_factor(rng, n=60, p=40, n_true=12):
    truth = np.arange(p) < n_true
    return Design(rng.standard_normal((n, p)) + rng.standard_normal((n, 1)) * truth, truth, 1)


@pytest.mark.parametrize("test", [lambda d: permv(d.X, 1), lambda d: largest_correlation(d.X)])
def test_competing_tests_select_the_true_columns(test, rng):
    design = one_factor(rng)
    selected = test(design)
    assert selected[design.truth].mean() > 0.9
    assert selected[~design.truth].sum() <= 3


def test_competing_tests_select_little_in_noise():
    counts = []
    for seed in range(10):
        X = np.random.default_rng(seed).standard_normal((30, 20))
        counts += [largest_correlation(X).any(), permv(X, 1, seed).any()]
    assert sum(counts) <= 4


def test_scores(monkeypatch, rng):
    design = one_factor(rng)
    score = evaluate("largest correlation", [design, design])
    assert score.power.shape == (2,)
    assert score.power[0] > 0.9
    assert score.F[0] > 0.8


def make_scores(power, false=0.04, F=0.9):
    return Score(np.full(3, power), np.full(3, false), np.full(3, F))


def test_claims_follow_the_numbers():
    others = {"permV": make_scores(0.5, F=0.9), "largest correlation": make_scores(0.5, F=0.9)}
    scores = {
        "E17, n = 40": {"FDRPCA": make_scores(0.9), **others},
        "jackstraw's vignette": {"FDRPCA": make_scores(0.1), **others},
    }
    published = {"E17, n = 40": (0.5, 0.05), "jackstraw's vignette": (0.2, 0.05)}
    assert [c.holds for c in make_claims(scores, published)] == [True, True, True, True]
    scores["E17, n = 40"]["FDRPCA"] = make_scores(0.4, 0.07, 0.8)
    assert [c.holds for c in make_claims(scores, published)] == [False] * 4
