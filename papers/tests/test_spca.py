"""SPCA: agreement with R elasticnet, optimality conditions and definition."""

import json

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning

from papers.baselines import SPCA
from papers.baselines.spca import (
    State,
    elastic_net,
    make_step,
    objective,
    soft_threshold_regression,
)
from prosparse import FewerComponentsWarning, InputError, ParameterError
from prosparse.metrics import adjusted_explained_variance

pytestmark = pytest.mark.quick


def make_data(seed=0, n=50, p=12):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) @ rng.standard_normal((p, p))
    return X - X.mean(axis=0)


def test_pitprops_matches_r(pitprops, reference_folder):
    X, _ = pitprops
    model = SPCA(6, n_nonzero=[7, 4, 4, 1, 1, 1]).fit(X)
    np.testing.assert_array_equal(model.n_nonzero_, [7, 4, 4, 1, 1, 1])
    ours = adjusted_explained_variance(X, model.components_, method="qr")
    theirs = json.loads((reference_folder / "spca_pitprops.json").read_text())
    np.testing.assert_allclose(ours, theirs["percentage_explained_variance"], atol=1e-8)


@pytest.mark.parametrize("ridge", [0.5, np.inf])
def test_regressions_satisfy_their_optimality_conditions(ridge):
    X = make_data()
    C = X.T @ X
    a = PCA(1).fit(X).components_[0]
    l1 = np.array([0.6 * np.abs(C @ a).max()])
    if np.isinf(ridge):
        b = soft_threshold_regression(None, l1)(C @ a, 0)
        slope = 2.0 * (b - C @ a)  # gradient of |b|^2 - 2 b'Ca
    else:
        b = elastic_net(C, ridge, None, l1)(C @ a, 0)
        slope = 2.0 * ((C + ridge * np.eye(12)) @ b - C @ a)
    used = b != 0
    assert 0 < used.sum() < 12
    np.testing.assert_allclose(slope[used], -l1[0] * np.sign(b[used]), rtol=1e-8)
    assert np.all(np.abs(slope[~used]) <= l1[0] * (1 + 1e-8))


def test_objective_is_non_increasing():
    X = make_data(1)
    C, l1, ridge = X.T @ X, np.array([20.0, 10.0, 5.0]), 0.3
    solve = elastic_net(C, ridge, None, l1)
    A = PCA(3).fit(X).components_.T
    state = State(A, np.column_stack([solve(C @ A[:, j], j) for j in range(3)]), 0.0)
    step = make_step(lambda B: C @ B, solve)
    for _ in range(30):
        new = step(state)
        before, after = (objective(C, s, ridge, l1) for s in (state, new))
        assert after <= before * (1 + 1e-12)
        np.testing.assert_allclose(new.A.T @ new.A, np.eye(3), atol=1e-12)
        state = new


def test_objective_matches_the_definition():
    X = make_data(2)
    rng = np.random.default_rng(0)
    A, B = np.linalg.qr(rng.standard_normal((12, 2)))[0], rng.standard_normal((12, 2))
    l1, ridge = np.array([0.3, 0.7]), 0.2
    slow = np.sum((X - X @ B @ A.T) ** 2) + ridge * np.sum(B**2) + np.abs(B).sum(axis=0) @ l1
    assert objective(X.T @ X, State(A, B, 0.0), ridge, l1) == pytest.approx(slow)


@pytest.mark.parametrize("ridge", [1e-6, np.inf])
def test_cardinality_is_attained_and_zero_penalty_is_pca(ridge):
    X = make_data(3)
    model = SPCA(3, n_nonzero=[5, 3, 1], ridge=ridge).fit(X)
    np.testing.assert_array_equal(model.n_nonzero_, [5, 3, 1])
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1.0)
    dense = SPCA(2, ridge=ridge, tol=1e-12, max_iter=20_000).fit(X)
    span, pca = dense.components_, PCA(2).fit(X).components_
    cosines = np.linalg.svd(np.linalg.qr(span.T)[0].T @ pca.T, compute_uv=False)
    np.testing.assert_allclose(cosines, 1.0, atol=1e-6)


def test_scale_equivariance():
    X = make_data(4)
    small, large = (
        SPCA(2, penalty=2.0 * c**2, ridge=0.1 * c**2).fit(c * X).components_ for c in (1.0, 1000.0)
    )
    np.testing.assert_allclose(small, large, atol=1e-10)


def test_many_columns_require_infinite_ridge():
    X = np.random.default_rng(0).standard_normal((3, 5001))
    with pytest.raises(InputError, match="ridge=inf"):
        SPCA().fit(X)
    assert SPCA(n_nonzero=7, ridge=np.inf).fit(X).n_nonzero_[0] == 7


def test_warnings_and_errors():
    with pytest.raises(ParameterError, match="one number or one for each of the 3 components"):
        SPCA(3, n_nonzero=[2, 2]).fit(make_data())
    with pytest.raises(ParameterError, match="at most min"):
        SPCA(13).fit(make_data())
    with pytest.warns(FewerComponentsWarning, match="Decrease `penalty`"):
        SPCA(2, penalty=[0.0, 1e9]).fit(make_data())
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        SPCA(3, n_nonzero=4, max_iter=1, tol=0).fit(make_data())


def test_small_units_do_not_give_zero_components():
    X = make_data(5)
    tiny, soft = SPCA(2, n_nonzero=3).fit(1e-90 * X), SPCA(2, n_nonzero=3, ridge=np.inf).fit(X)
    np.testing.assert_allclose(tiny.components_, soft.components_, atol=1e-8)
    np.testing.assert_array_equal(tiny.n_nonzero_, [3, 3])


def test_first_of_identical_columns_is_selected():
    """Ties are broken by position, so that a threshold does not remove all copies."""
    X = make_data(6)[:, [0, 0, 1, 1]]
    model = SPCA(1, n_nonzero=1, ridge=np.inf).fit(X)
    np.testing.assert_array_equal(model.n_nonzero_, [1])
    np.testing.assert_array_equal(SPCA(1, n_nonzero=3, ridge=np.inf).fit(X).n_nonzero_, [3])


def test_identical_columns_raise_no_warning():
    """Warnings of least angle regression are suppressed (warnings are errors in the tests)."""
    X = np.repeat(make_data(7)[:, :3], 3, axis=1)
    assert SPCA(2, n_nonzero=2, ridge=0.0).fit(X).n_components_ == 2
