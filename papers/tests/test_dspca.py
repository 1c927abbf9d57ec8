"""DSPCA: certificate, published results and exhaustive search."""

from itertools import combinations

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning

from papers.baselines import DSPCA
from papers.baselines.dspca import project_on_simplex, solve
from prosparse import FewerComponentsWarning, InputError
from prosparse.inference.progress import Progress

pytestmark = pytest.mark.quick


def make_data(seed=0, n=50, p=12):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) @ rng.standard_normal((p, p))
    return X - X.mean(axis=0)


def relaxation(C, rho, tol=1e-5):
    return solve(C, rho, 5000, tol, Progress(0, "")).state


def covariance(seed=0, p=8):
    X = make_data(seed, 40, p)
    C = X.T @ X
    return C / C.diagonal().max()


@pytest.mark.parametrize("rho", [0.0, 0.05, 0.2, 0.6])
def test_certificate(rho):
    C = covariance()
    state = relaxation(C, rho)
    Z = state.Z
    assert np.linalg.eigvalsh(Z)[0] >= -1e-12
    assert np.trace(Z) == pytest.approx(1.0)
    assert state.value == pytest.approx(np.sum(C * Z) - rho * np.abs(Z).sum())
    assert -1e-9 <= state.upper_bound - state.value <= 1e-5


@pytest.mark.parametrize("rho", [0.05, 0.2])
def test_relaxation_is_above_every_sparse_vector(rho):
    """The relaxation bounds max w'Cw - rho |w|_1^2, its restriction to Z of rank one."""
    C = covariance(1, 6)
    ceiling = relaxation(C, rho).upper_bound
    best = -np.inf
    for size in range(1, 7):
        for S in map(list, combinations(range(6), size)):
            for _ in range(3):
                w = np.zeros(6)
                w[S] = np.linalg.eigh(C[np.ix_(S, S)])[1][:, -1]
                best = max(best, w @ C @ w - rho * np.abs(w).sum() ** 2)
    assert best <= ceiling + 1e-9


def test_pitprops_as_published(pitprops):
    """The first component matches Table 1 of d'Aspremont et al. (2007) to three digits."""
    X, names = pitprops
    published = {
        "topdiam": 0.560,
        "length": 0.583,
        "ringbut": 0.263,
        "bowmax": 0.099,
        "bowdist": 0.371,
        "whorls": 0.362,
    }
    model = DSPCA(penalty=0.411, tol=1e-6).fit(X)
    ours = dict(zip(names, np.abs(model.components_[0]), strict=True))
    assert {name for name, value in ours.items() if value > 0} == set(published)
    for name, value in published.items():
        assert ours[name] == pytest.approx(value, abs=2e-3)


def test_zero_penalty_is_pca():
    X = make_data(3)
    model, pca = DSPCA(3, penalty=0.0, tol=1e-7).fit(X), PCA(3).fit(X)
    np.testing.assert_allclose(model.explained_variance_, pca.explained_variance_, rtol=1e-6)
    np.testing.assert_allclose(model.values_, pca.explained_variance_, rtol=1e-6)


def test_screened_variables_do_not_change_the_optimum():
    """Columns with all covariances below rho have zero loadings in the optimum."""
    C = covariance(4)
    rho = float(np.median(np.abs(C).max(axis=1)))
    S = np.abs(C).max(axis=1) > rho
    assert 0 < S.sum() < 8
    whole, part = relaxation(C, rho), relaxation(C[np.ix_(S, S)], rho)
    assert whole.value == pytest.approx(part.value, abs=1e-4)
    assert np.abs(whole.Z[~S]).max() < 1e-3


def test_penalty_of_one_selects_a_single_variable():
    X = make_data(5)
    model = DSPCA(2, penalty=1.5).fit(X)
    np.testing.assert_array_equal(model.n_nonzero_, [1, 1])
    assert model.components_[0, np.argmax(X.var(axis=0))] != 0


def test_projection_on_the_simplex():
    rng = np.random.default_rng(0)
    values = rng.standard_normal(9)
    w = project_on_simplex(values)
    assert w.sum() == pytest.approx(1.0)
    assert np.all(w >= 0)
    for _ in range(200):  # No other point is closer.
        other = rng.dirichlet(np.ones(9))
        assert np.sum((w - values) ** 2) <= np.sum((other - values) ** 2)


def test_warnings_and_errors():
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        DSPCA(max_iter=1, tol=0).fit(make_data())
    flat = make_data()[:, :1] * np.ones(4)
    with pytest.warns(FewerComponentsWarning, match="1 of 2"):
        DSPCA(2).fit(flat)
    with pytest.raises(InputError, match="Select columns first, or use EMPCA"):
        DSPCA().fit(np.random.default_rng(0).standard_normal((4, 1600)))
