"""SSPCA: agreement with the problem stated in the paper."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from papers.baselines import SSPCA
from papers.baselines.sspca import State, basis, best_rows, make_step, secular_root, solve, start
from prosparse import FewerComponentsWarning, InputError, ParameterError
from prosparse.data import DenseOperator
from prosparse.datasets import make_globally_sparse
from prosparse.metrics import support_f_score


def make_data(seed=0, n=30, p=12):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) @ rng.standard_normal((p, p))
    return X - X.mean(axis=0)


def paper_objective(X, U, V, penalty, group):
    norms = [np.linalg.norm(V[group == g]) for g in range(group.max() + 1)]
    return 0.5 * np.sum((X - U @ V.T) ** 2) + penalty * np.sum(norms)


def solve_by_columns(X, V, penalty, group, turns):
    """Solve as in the paper: columns of U in unit balls, V by proximal gradient."""
    rng = np.random.default_rng(0)
    U = rng.standard_normal((X.shape[0], V.shape[1]))
    U /= np.linalg.norm(U, axis=0)
    for _ in range(turns):
        for k in range(V.shape[1]):
            rest = X - U @ V.T + np.outer(U[:, k], V[:, k])
            u = rest @ V[:, k] / max(V[:, k] @ V[:, k], 1e-300)
            U[:, k] = u / max(1.0, np.linalg.norm(u))
        length = np.linalg.norm(U.T @ U, 2)
        for _ in range(20):
            V = V + (X - U @ V.T).T @ U / length
            for g in range(group.max() + 1):
                norm = np.linalg.norm(V[group == g])
                V[group == g] *= max(0.0, 1.0 - penalty / (length * max(norm, 1e-300)))
    return paper_objective(X, U, V, penalty, group)


@pytest.mark.parametrize("groups", [np.arange(12), np.repeat(np.arange(4), 3)], ids=["rows", "4"])
def test_single_constraint_matches_unit_ball_constraints(groups):
    X = make_data(1)
    op, penalty = DenseOperator(X), 12.0
    V, _ = start(op, 3)
    ours = -solve(op, V, penalty, groups, 2000, 1e-13).state.bound
    slow = solve_by_columns(X, V, penalty, groups, 300)
    assert ours <= slow * (1 + 1e-6)
    assert ours >= slow * (1 - 1e-3)  # Both solve the same problem.


def test_bound_is_the_objective_of_a_feasible_pair():
    """A rotation gives the columns of U equal norms of at most one."""
    X = make_data(2)
    op, penalty, group = DenseOperator(X), 5.0, np.arange(12)
    V, _ = start(op, 3)
    state = make_step(op, penalty, group)(State(V, -np.inf))

    def left(U):
        return paper_objective(X, U.reshape(30, 3), state.V, penalty, group)

    ball = {"type": "ineq", "fun": lambda U: 3.0 - U @ U}
    U = minimize(left, np.zeros(90), constraints=ball, method="SLSQP", options={"ftol": 1e-14}).fun
    assert (
        -state.bound + 1e-6 >= U
    )  # The optimal U for this V is at least as good as the previous one.
    again = make_step(op, penalty, group)(state)
    assert -again.bound <= U + 1e-6


@pytest.mark.parametrize("penalty", [0.0, 1.0, 5.0, 20.0])
def test_objective_is_non_increasing(penalty):
    op, group = DenseOperator(make_data(3)), np.arange(12)
    state = State(start(op, 4)[0], -np.inf)
    step = make_step(op, penalty, group)
    for _ in range(50):
        new = step(state)
        assert new.bound >= state.bound - 1e-9
        state = new


@pytest.mark.parametrize("seed", range(5))
def test_rows_are_the_minimum(seed):
    rng = np.random.default_rng(seed)
    F, a, penalty = rng.standard_normal((2, 3)), rng.uniform(0.1, 2.0, 3), 0.7

    def loss(v):
        return 0.5 * np.sum(a * v**2) - F[0] @ v + penalty * np.linalg.norm(v)

    found = minimize(loss, F[0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13})
    ours = best_rows(F, a, penalty, np.arange(2))[0]
    assert loss(ours) <= found.fun + 1e-9
    assert not best_rows(F, a, np.linalg.norm(F[0]) * 1.001, np.arange(2))[0].any()


def test_secular_root():
    rng = np.random.default_rng(0)
    f2, a = rng.uniform(0.1, 9.0, (50, 4)) + 5.0, rng.uniform(1e-6, 5.0, 4)
    t = secular_root(f2, a, 1.5, 1.0)
    np.testing.assert_allclose(np.sum(f2 / (a * t[:, None] + 1.5) ** 2, axis=1), 1.0, rtol=1e-10)


def test_components_are_orthonormal_and_have_the_given_size():
    X, support, _ = make_globally_sparse(random_state=0)
    for q in (10, 15, 29):
        model = SSPCA(5, n_features_to_select=q).fit(X)
        assert model.n_selected_ == model.support_.sum() == q
        np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(5), atol=1e-10)
        assert not model.components_[:, ~model.support_].any()
        assert set(np.flatnonzero(model.support_)) == set(np.argsort(model.ranking_)[:q])
        assert np.all(np.diff(model.objective_path_) >= 0)
    assert support_f_score(support, SSPCA(5, n_features_to_select=10).fit(X).support_) == 1.0


def test_refitted_cross_validation_selects_the_true_variables():
    X, support, _ = make_globally_sparse(100, 40, n_components=4, n_informative=12, random_state=1)
    refit = SSPCA(4, penalty="cv-refit", random_state=0).fit(X)
    plain = SSPCA(4, random_state=0).fit(X)
    assert support_f_score(support, refit.support_) == 1.0
    assert plain.n_selected_ >= refit.n_selected_  # Shrinkage favours small penalties.
    assert refit.penalties_.shape == refit.cv_errors_.shape == (20,)
    assert refit.penalty_ == pytest.approx(refit.penalties_[np.argmin(refit.cv_errors_)])


def test_groups_enter_and_leave_together():
    X = make_globally_sparse(60, 20, n_components=3, n_informative=8, random_state=2).X
    groups = [[i, i + 1] for i in range(0, 20, 2)]
    model = SSPCA(3, penalty=8.0, groups=groups).fit(X)
    pairs = model.support_.reshape(10, 2)
    assert np.all(pairs[:, 0] == pairs[:, 1])
    assert 0 < pairs[:, 0].sum() < 10
    with pytest.raises(
        ParameterError, match="`groups` must assign each column to exactly one group, but 2 of 20"
    ):
        SSPCA(3, penalty=8.0, groups=groups[1:]).fit(X)


def test_warnings_and_errors():
    X = make_data()
    with pytest.raises(ParameterError, match="less than min"):
        SSPCA(12, penalty=1.0).fit(X)
    with pytest.raises(ParameterError, match="'cv', 'cv-refit'"):
        SSPCA(penalty="bic").fit(X)
    with pytest.warns(FewerComponentsWarning, match="Decrease `penalty`"):
        SSPCA(2, penalty=1e9).fit(X)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        SSPCA(3, penalty=5.0, max_iter=1).fit(X)


def test_basis_preserves_span_and_zeros():
    V = np.zeros((6, 3))
    V[[1, 4, 5]] = np.random.default_rng(0).standard_normal((3, 3))
    V[:, 2] = V[:, 0]
    W = basis(V)
    assert W.shape == (2, 6)
    np.testing.assert_allclose(V - W.T @ (W @ V), 0.0, atol=1e-12)
    assert not W[:, [0, 2, 3]].any()


def test_refit_clears_attributes():
    model = SSPCA(2, n_penalties=3, cv=2, random_state=0).fit(make_data())
    assert model.cv_errors_.shape == (3,)
    model.set_params(penalty=1.0).fit(make_data())
    assert not hasattr(model, "cv_errors_")
    assert not hasattr(model, "penalties_")
    assert model.penalty_ == 1.0


def test_cross_validation_requires_three_rows():
    with pytest.raises(InputError, match="at least 3 rows"):
        SSPCA().fit(make_data(n=2))
    assert SSPCA(penalty=0.1).fit(make_data(n=2)).n_components_ == 1


def test_groups_are_selected_as_a_whole():
    X = make_globally_sparse(60, 20, n_components=3, n_informative=8, random_state=2).X
    groups = [[i, i + 1] for i in range(0, 20, 2)]
    model = SSPCA(2, n_features_to_select=7, groups=groups).fit(X)
    pairs = model.support_.reshape(10, 2)
    assert np.all(pairs[:, 0] == pairs[:, 1])
    assert model.n_selected_ == 6
    with pytest.raises(
        ParameterError, match="must be at least 2, the number of variables of the most"
    ):
        SSPCA(1, n_features_to_select=1, groups=groups).fit(X)


def test_groups_with_missing_columns():
    with pytest.raises(ParameterError, match="group 1 of `groups` has column 12"):
        SSPCA(penalty=1.0, groups=[list(range(11)), [12]]).fit(make_data())


@pytest.mark.parametrize("size", [1e-150, 1e150])
def test_extreme_penalties(size):
    X = size * make_data()
    if size > 1:  # Equivalent to no penalty.
        assert SSPCA(2, penalty=10.0).fit(X).n_selected_ == 12
    else:
        with pytest.warns(FewerComponentsWarning, match="Decrease `penalty`"):
            SSPCA(2, penalty=10.0).fit(X)
