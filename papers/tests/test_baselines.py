"""Baselines: agreement with their definitions."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning

from papers.baselines import NSPCA, PathSPCA, ThresholdedPCA
from papers.baselines.nspca import State as NSPCAState
from papers.baselines.nspca import best_entry, make_step, objective
from prosparse import FewerComponentsWarning, InputError, ParameterError

pytestmark = pytest.mark.quick


def make_data(seed=0, n=50, p=12):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, p)) @ rng.standard_normal((p, p))


def test_thresholded_selects_the_largest_loadings():
    X = make_data()
    model, pca = ThresholdedPCA(3, n_nonzero=4).fit(X), PCA(3).fit(X)
    for w, full in zip(model.components_, pca.components_):
        largest = np.argsort(-np.abs(full))[:4]
        assert set(np.flatnonzero(w)) == set(largest)
        cosine = abs(w[largest] @ full[largest]) / np.linalg.norm(full[largest])
        assert cosine == pytest.approx(1.0)
    better = ThresholdedPCA(3, n_nonzero=4, renormalize=True).fit(X)
    np.testing.assert_array_equal(better.components_ != 0, model.components_ != 0)
    assert np.all(better.explained_variance_ >= model.explained_variance_)


def test_thresholded_rejects_too_many_components():
    with pytest.raises(ParameterError, match=r"at most min\(n_samples - 1.* = 12, got 13"):
        ThresholdedPCA(13).fit(make_data())


@pytest.mark.parametrize("shape", [(50, 12), (10, 90), (150, 100)])
def test_path_is_greedy(shape):
    X = make_data(1, *shape)
    C = np.cov(X.T)
    model = PathSPCA(n_nonzero=min(80, shape[1])).fit(X)
    S = [int(np.argmax(np.diag(C)))]
    for k in range(model.n_nonzero):
        assert model.order_[0, k] == S[k]
        values, vectors = np.linalg.eigh(C[np.ix_(S, S)])
        assert model.path_variances_[0, k] == pytest.approx(values[-1])
        gain = np.abs(C[:, S] @ vectors[:, -1])
        gain[S] = -1.0
        S.append(int(np.argmax(gain)))
    assert model.explained_variance_[0] == pytest.approx(model.path_variances_[0, -1])


def test_complete_path_is_pca():
    X = make_data(2)
    model = PathSPCA(2).fit(X)
    np.testing.assert_allclose(model.path_variances_[:, -1], PCA(2).fit(X).explained_variance_)


def test_path_stops_at_the_rank():
    X = make_data(3)[:, :1] @ np.ones((1, 4)) * [1.0, 2.0, 3.0, 4.0]
    with pytest.warns(FewerComponentsWarning, match="1 of 2"):
        model = PathSPCA(2).fit(X)
    assert model.n_components_ == 1


@pytest.mark.parametrize("seed", range(20))
def test_best_entry_is_the_maximum(seed):
    rng = np.random.default_rng(seed)
    alpha, c2, c1 = rng.uniform(0.1, 2), *rng.normal(size=2)
    grid = np.linspace(0, 6, 60_001)
    heights = -alpha / 4 * grid**4 + c2 / 2 * grid**2 + c1 * grid
    assert best_entry(alpha, c2, c1) == pytest.approx(grid[np.argmax(heights)], abs=2e-4)


def test_nspca_ends_at_a_stationary_point():
    X = make_data(4, 60, 6)
    C = np.cov(X.T)
    C /= np.linalg.eigvalsh(C)[-1]
    alpha, beta = 2.0, 0.05
    U = np.abs(np.random.default_rng(0).standard_normal((6, 2)))
    state = NSPCAState(U, objective(C, U, alpha, beta))
    step = make_step(C, alpha, beta)
    for _ in range(400):
        new = step(state)
        assert new.bound >= state.bound - 1e-12
        state = new

    def flat(u):
        return objective(C, u.reshape(6, 2), alpha, beta)

    slope = approx_fprime(state.U.ravel(), flat, 1e-7).reshape(6, 2)
    used = state.U > 0
    assert used.any()
    assert not used.all()
    np.testing.assert_allclose(slope[used], 0.0, atol=1e-4)
    assert np.all(slope[~used] <= 1e-4)


def test_nspca_components():
    X = make_data(5, 80, 10)
    model = NSPCA(2, beta=0.02, random_state=0, max_iter=2000).fit(X)
    assert np.all(model.components_ >= 0)
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1.0)
    assert np.all(np.diff(model.objective_path_) >= 0)
    sparser = NSPCA(2, beta=0.2, random_state=0, max_iter=2000).fit(X)
    assert sparser.n_nonzero_.sum() < model.n_nonzero_.sum()


def test_nspca_warns_about_zero_components_and_nonconvergence():
    with pytest.warns(FewerComponentsWarning, match="Decrease `beta`"):
        NSPCA(2, beta=50.0, random_state=0).fit(make_data())
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        NSPCA(max_iter=1, tol=0, random_state=0).fit(make_data())


def test_nspca_rejects_many_columns():
    with pytest.raises(InputError, match=r"use EMPCA\(nonnegative=True\)"):
        NSPCA().fit(np.random.default_rng(0).standard_normal((3, 5001)))


def test_nspca_rejects_more_components_than_columns():
    with pytest.raises(
        ParameterError, match="`n_components` must be at most the number of varying"
    ):
        NSPCA(4).fit(np.random.default_rng(0).standard_normal((20, 3)))
