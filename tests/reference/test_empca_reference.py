"""EMPCA beside R's nsprcomp and PathSPCA on the paper's data, and the pit props by exhaustion.

The data are read from the folder PROSPARSE_DATA, R's figures from PROSPARSE_REFERENCE.
"""

import functools
import json
import os
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.linear_model import lars_path_gram

from papers.baselines import PathSPCA
from prosparse import EMPCA

FILES = {"cbcl": "cbcl_faces_2429x361.npz", "armstrong": "armstrong_mll_72x12582.npz"}


def folder(variable):
    if variable not in os.environ:
        pytest.skip(f"set {variable} to the folder with the files to run this test")
    return Path(os.environ[variable])


class Dataset(NamedTuple):
    X: np.ndarray  # the table, standardised as for R with the n - 1 deviation
    figures: dict[str, dict[str, float]]  # R's
    variance: Callable[[int], float]  # of ours with so many nonzeros, fitted once


@pytest.fixture(scope="module", params=list(FILES))
def dataset(request):
    path = folder("PROSPARSE_DATA") / FILES[request.param]
    figures = json.loads((folder("PROSPARSE_REFERENCE") / "nsprcomp.json").read_text())
    with np.load(path, allow_pickle=False) as file:
        X = file["X"].astype(float)
    X = X - X.mean(axis=0)
    X /= X.std(axis=0, ddof=1)

    @functools.cache
    def variance(K):
        model = EMPCA(n_nonzero=K, random_state=0).fit(X)
        assert model.n_nonzero_[0] <= K
        return model.explained_variance_[0]

    return Dataset(X, figures[request.param], variance)


def test_variance_is_at_least_that_of_nsprcomp(dataset):
    for K, variance in dataset.figures["sparse"].items():
        assert dataset.variance(int(K)) >= variance * (1 - 1e-6), K  # R prints seven digits


def test_variance_of_nonnegative_ones_is_at_least_that_of_nsprcomp(dataset):
    for K, variance in dataset.figures["nonnegative_sparse"].items():
        model = EMPCA(n_nonzero=int(K), nonnegative=True, random_state=0).fit(dataset.X)
        assert model.n_nonzero_[0] <= int(K)
        assert model.explained_variance_[0] >= variance * (1 - 1e-6), K


def test_variance_is_at_least_that_of_pathspca(dataset):
    Ks = [1, 2, 5, 10, 20, 50, 100, 200]
    greedy = PathSPCA(n_nonzero=max(Ks)).fit(dataset.X).path_variances_[0]
    for K in Ks:
        assert dataset.variance(K) >= greedy[K - 1] * (1 - 1e-9), K


def spca(X, K, first, gram=None):
    """One component of Zou, Hastie & Tibshirani (2006) with K nonzeros: b = the lasso of X a on X
    (their ridge at 0, by LARS, where ``gram`` = X'X is given) or its limit for a large ridge, soft
    thresholds; a = X'X b. The ``first`` a is the leading right singular vector."""
    a = first
    for _ in range(30):
        image = X.T @ (X @ a)
        if gram is not None:
            path = lars_path_gram(image, gram, n_samples=len(X), method="lasso", max_iter=3 * K)[2]
            b = path[:, np.flatnonzero(np.count_nonzero(path, axis=0) <= K)[-1]]
        else:
            b = np.sign(image) * np.maximum(np.abs(image) - np.sort(np.abs(image))[-K - 1], 0)
        before, a = a, X.T @ (X @ b)
        a /= np.linalg.norm(a)
        if np.linalg.norm(a - before) < 1e-9:
            break
    b = b / np.linalg.norm(b)
    return np.sum((X @ b) ** 2) / (X.shape[0] - 1)


def test_variance_is_at_least_that_of_spca(dataset):
    X = dataset.X
    gram = X.T @ X if X.shape[0] > X.shape[1] else None
    first = np.linalg.svd(X, full_matrices=False)[2][0]
    for K in (int(K) for K in dataset.figures["sparse"]):
        assert dataset.variance(K) >= spca(X, K, first), K
        if gram is not None and K <= 50:
            assert dataset.variance(K) >= spca(X, K, first, gram), K


def test_pitprops_is_solved_exactly():
    with np.load(folder("PROSPARSE_DATA") / "pitprops_13.npz", allow_pickle=False) as file:
        C = file["X"]
    p = C.shape[0]
    Z = np.random.default_rng(0).standard_normal((40, p))
    Q = np.linalg.qr(Z - Z.mean(axis=0))[0]
    X = np.sqrt(39) * Q @ np.linalg.cholesky(C).T  # covariance C, exactly
    positive = 0.0
    for K in range(1, p + 1):
        sets = np.array(list(combinations(range(p), K)))
        values, vectors = np.linalg.eigh(C[sets[:, :, None], sets[:, None, :]])
        leading = vectors[:, :, -1]
        one_sign = np.all(leading >= -1e-12, axis=1) | np.all(leading <= 1e-12, axis=1)
        positive = max(positive, np.max(values[one_sign, -1], initial=0.0))
        free = EMPCA(n_nonzero=K, random_state=0).fit(X)
        assert free.explained_variance_[0] == pytest.approx(values[:, -1].max(), rel=1e-10)
        signed = EMPCA(n_nonzero=K, nonnegative=True, random_state=0).fit(X)
        assert signed.explained_variance_[0] == pytest.approx(positive, rel=1e-10)
