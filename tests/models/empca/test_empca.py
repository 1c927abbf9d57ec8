"""EMPCA, compared with exhaustive search and the formulas of the paper."""

import pickle
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from prosparse import EMPCA, FewerComponentsWarning, ParameterError
from prosparse.inference.loop import StopReason
from prosparse.metrics import component_angles
from prosparse.models.empca import search
from prosparse.models.empca.model import init, make_step
from prosparse.models.empca.quadratic import Gram
from prosparse.models.empca.thresholds import Constraint, threshold


def table_with_covariance(C, n=40, seed=0):
    """Return data whose sample covariance (n - 1) is exactly C."""
    Z = np.random.default_rng(seed).standard_normal((n, C.shape[0]))
    Q = np.linalg.qr(Z - Z.mean(axis=0))[0]
    return Q @ np.linalg.cholesky(C).T * np.sqrt(n - 1)


def random_covariance(p, rank, seed):
    A = np.random.default_rng(seed).standard_normal((p, rank))
    return A @ A.T + 0.1 * np.eye(p)


def groups(seed=0, n=60, p=30):
    """Three groups of variables with a factor each, and noise; some loadings are negative."""
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((n, 3)) * [3.0, 2.5, 2.0]
    W = np.zeros((3, p))
    for k in range(3):
        own = slice(8 * k, min(8 * k + 8, p))
        W[k, own] = rng.uniform(0.5, 1.0, 8)[: len(W[k, own])]
        W[k, own] *= rng.choice([-1.0, 1.0, 1.0], len(W[k, own]))
    return Y @ W + 0.5 * rng.standard_normal((n, p))


def best_by_exhaustion(C):
    """Largest w'Cw for every K, with free signs and with w >= 0."""
    p = C.shape[0]
    free, positive = np.zeros(p), np.zeros(p)
    for K in range(1, p + 1):
        for S in combinations(range(p), K):
            values, vectors = np.linalg.eigh(C[np.ix_(S, S)])
            free[K - 1] = max(free[K - 1], values[-1])
            # an optimal non-negative w is the leading eigenvector on its own positive part
            v = vectors[:, -1]
            if np.all(v >= -1e-12) or np.all(v <= 1e-12):
                positive[K - 1] = max(positive[K - 1], values[-1])
    return free, np.maximum.accumulate(positive)


@pytest.mark.parametrize(("rank", "seed"), [(3, 0), (6, 1), (10, 2)])
def test_the_search_finds_the_exhaustive_optimum(rank, seed):
    C = random_covariance(9, rank, seed)
    X = table_with_covariance(C)
    free, positive = best_by_exhaustion(C)
    for K in range(1, 10):
        model = EMPCA(n_nonzero=K, random_state=0).fit(X)
        assert model.explained_variance_[0] == pytest.approx(free[K - 1], rel=1e-10)
        # the gap is a true bound
        assert model.explained_variance_[0] / (1 - model.optimality_gap_[0]) >= free[K - 1] - 1e-9
        model = EMPCA(n_nonzero=K, nonnegative=True, random_state=0).fit(X)
        assert model.explained_variance_[0] == pytest.approx(positive[K - 1], rel=1e-10)
        assert np.all(model.components_ >= 0)


def algorithm_2(X, K, iterations, w):
    """[SB08] Algorithm 2, entry by entry as printed."""
    for _ in range(iterations):
        y = X @ w
        w_star = sum(y[n] * X[n] for n in range(len(X))) / sum(y**2)
        order = np.argsort(-np.abs(w_star))
        s = np.append(np.abs(w_star)[order], 0.0)
        new = np.zeros_like(w)
        for k in range(K):
            new[order[k]] = s[k] - s[K]
        new *= np.sign(w_star)
        w = new / np.linalg.norm(new)
    return w


def test_em_step_is_algorithm_2():
    X = groups()
    X = X - X.mean(axis=0)
    first = np.linalg.svd(X)[2][0]
    c = Constraint(6, False, np.ones(30, dtype=bool))
    quadratic = Gram(X.T @ X)
    state = init(quadratic, first[None, :], c)
    step = make_step(quadratic, c)
    for iterations in (1, 2, 3):
        state = step(state)
        start = threshold(first[None, :], c)[0]
        expected = algorithm_2(X, 6, iterations, start)
        np.testing.assert_allclose(state.W[0], expected, atol=1e-12)


def test_nonnegative_threshold_drops_negative_entries():
    # [SB08] (17): w_i = 0 if f_i < 0; then the K largest minus the next
    F = np.array([[3.0, -5.0, 1.0, 2.0]])
    c = Constraint(2, True, np.ones(4, dtype=bool))
    expected = np.array([[2.0, 0.0, 0.0, 1.0]]) / np.sqrt(5.0)
    np.testing.assert_allclose(threshold(F, c), expected)


def test_ties_leave_one_entry():
    c = Constraint(1, False, np.ones(3, dtype=bool))
    w = threshold(np.array([[1.0, 1.0, -1.0]]), c)[0]
    assert np.count_nonzero(w) == 1
    assert np.linalg.norm(w) == 1.0


CONFIGURATIONS = [
    {"n_nonzero": "all"},
    {"n_nonzero": 5},
    {"n_nonzero": 5, "renormalize": False},
    {"n_nonzero": "all", "nonnegative": True},
    {"n_nonzero": 5, "nonnegative": True},
    {"n_nonzero": 5, "nonnegative": True, "renormalize": False},
    {"n_nonzero": 5, "orthogonality": "disjoint"},
    {"n_nonzero": 5, "nonnegative": True, "orthogonality": "disjoint"},
    {"n_nonzero": 12, "orthogonality": "quasi", "min_angle": 80},
    {"n_nonzero": "all", "nonnegative": True, "orthogonality": "quasi", "min_angle": 80},
    {"n_nonzero": [3, 6, 9], "scale": True},
]


@pytest.mark.parametrize("options", CONFIGURATIONS, ids=str)
@pytest.mark.parametrize("shape", [(60, 30), (20, 150)], ids=["tall", "wide"])
def test_the_objective_is_non_decreasing_and_constraints_hold(options, shape):
    X = groups(1, *shape)
    model = EMPCA(3, random_state=0, **options).fit(X)
    W = model.components_
    np.testing.assert_allclose(np.linalg.norm(W, axis=1), 1.0, atol=1e-12)
    for bounds in model.objective_path_:
        assert np.all(np.diff(bounds) >= 0)
    assert model.n_iter_ == sum(map(len, model.objective_path_))
    K = np.broadcast_to(shape[1] if options["n_nonzero"] == "all" else options["n_nonzero"], 3)
    assert np.all(np.count_nonzero(W, axis=1) <= K)
    if not options.get("nonnegative"):
        np.testing.assert_array_equal(model.n_nonzero_, K)
    else:
        assert np.all(W >= 0)
    off = ~np.eye(3, dtype=bool)
    if options.get("orthogonality") == "disjoint":
        assert np.all(np.count_nonzero(W, axis=0) <= 1)
    if options.get("orthogonality") == "quasi":
        assert component_angles(W)[off].min() >= 80 - 1e-7
    np.testing.assert_array_equal(model.support_, np.any(W != 0, axis=0))
    scores = model.transform(X)
    np.testing.assert_allclose(scores.var(axis=0, ddof=1), model.explained_variance_)
    assert np.all((model.optimality_gap_ >= 0) & (model.optimality_gap_ < 1))


def test_without_constraints_it_is_pca():
    X = groups(2)
    model, pca = EMPCA(4, n_nonzero="all").fit(X), PCA(4).fit(X)
    np.testing.assert_allclose(
        np.abs(np.sum(model.components_ * pca.components_, axis=1)), 1.0, atol=1e-10
    )
    np.testing.assert_allclose(model.explained_variance_ratio_, pca.explained_variance_ratio_)
    np.testing.assert_allclose(model.optimality_gap_, 0.0, atol=1e-9)


def test_deflation_maximises_the_remaining_variance():
    # The second component solves the first problem on the deflated data.
    C = random_covariance(8, 5, 4)
    X = table_with_covariance(C)
    model = EMPCA(2, n_nonzero=3, random_state=0).fit(X)
    w = model.components_[0]
    P = np.eye(8) - np.outer(w, w)  # [SB08] (18)
    free, _ = best_by_exhaustion(P @ C @ P)
    v = model.components_[1]
    assert v @ P @ C @ P @ v == pytest.approx(free[2], rel=1e-10)


def test_one_variable_is_the_one_with_the_largest_variance():
    X = groups(3)
    model = EMPCA(n_nonzero=1).fit(X)
    assert model.get_support(indices=True).tolist() == [np.argmax(X.var(axis=0))]
    assert model.explained_variance_[0] == pytest.approx(X.var(axis=0, ddof=1).max())


def test_both_signs_of_the_first_component_are_starts():
    # The leading vector has all entries of one sign; either sign must lead to it.
    rng = np.random.default_rng(5)
    X = -np.outer(rng.standard_normal(50), np.arange(1.0, 9.0))
    X += 0.1 * rng.standard_normal(X.shape)
    for table in (X, -X):
        model = EMPCA(n_nonzero="all", nonnegative=True, n_restarts=0).fit(table)
        pca = PCA(1).fit(table)
        np.testing.assert_allclose(model.components_[0], np.abs(pca.components_[0]), atol=1e-8)


@pytest.mark.parametrize("shape", [(50, 10), (20, 100)])
def test_more_components_than_rank_warn(shape):
    rng = np.random.default_rng(6)
    X = rng.standard_normal((shape[0], 3)) @ rng.standard_normal((3, shape[1]))
    with pytest.warns(FewerComponentsWarning, match="3 of 5"):
        model = EMPCA(5, n_nonzero="all").fit(X)
    assert model.n_components_ == 3
    assert model.stop_reason_ is StopReason.EXHAUSTED
    assert model.explained_variance_ratio_.sum() == pytest.approx(1.0)


def test_disjoint_components_run_out_of_variables():
    X = groups(7, 30, 7)
    with pytest.warns(FewerComponentsWarning, match="2 of 3"):
        model = EMPCA(3, n_nonzero=4, orthogonality="disjoint", random_state=0).fit(X)
    assert model.n_nonzero_.tolist() == [4, 3]


@pytest.mark.parametrize("options", CONFIGURATIONS[1:9], ids=str)
def test_sparse_data_give_the_same_components(options):
    rng = np.random.default_rng(8)
    for shape in ((40, 20), (15, 90)):
        X = groups(8, *shape) * (rng.random(shape) < 0.5)
        dense = EMPCA(2, random_state=0, **options).fit(X)
        other = EMPCA(2, random_state=0, **options).fit(sparse.csr_array(X))
        np.testing.assert_allclose(other.components_, dense.components_, atol=1e-7)
        np.testing.assert_allclose(other.explained_variance_, dense.explained_variance_)


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(("shape", "K"), [((40, 15), 4), ((12, 120), 80)], ids=["tall", "wide"])
def test_weights_are_repetitions(scale, make, shape, K):
    rng = np.random.default_rng(9)
    X = groups(9, *shape)
    weights = rng.integers(0, 4, shape[0])
    options = {"n_components": 2, "n_nonzero": K, "scale": scale, "random_state": 0}
    weighted = EMPCA(**options).fit(make(X), sample_weight=weights)
    repeated = EMPCA(**options).fit(make(np.repeat(X, weights, axis=0)))
    np.testing.assert_allclose(weighted.mean_, repeated.mean_)
    np.testing.assert_allclose(weighted.scale_, repeated.scale_)
    np.testing.assert_allclose(weighted.components_, repeated.components_, atol=1e-8)
    np.testing.assert_allclose(weighted.explained_variance_, repeated.explained_variance_)
    np.testing.assert_allclose(weighted.optimality_gap_, repeated.optimality_gap_, atol=1e-6)


def test_order_and_signs_of_the_columns_do_not_matter():
    X = groups(10)
    rng = np.random.default_rng(10)
    order, signs = rng.permutation(30), rng.choice([-1.0, 1.0], 30)
    model = EMPCA(2, n_nonzero=6, random_state=0).fit(X)
    other = EMPCA(2, n_nonzero=6, random_state=0).fit((X * signs)[:, order])
    turned = (model.components_ * signs)[:, order]
    np.testing.assert_allclose(np.abs(np.sum(turned * other.components_, axis=1)), 1.0, atol=1e-9)
    np.testing.assert_allclose(model.explained_variance_, other.explained_variance_)


def test_units_do_not_matter():
    X = groups(11)
    model = EMPCA(2, n_nonzero=6, random_state=0).fit(X)
    for factor in (1e-100, 1e100):
        other = EMPCA(2, n_nonzero=6, random_state=0).fit(factor * X)
        np.testing.assert_allclose(other.components_, model.components_, atol=1e-9)
        np.testing.assert_allclose(
            other.explained_variance_ / factor**2, model.explained_variance_, rtol=1e-9
        )


def test_random_state_reproduces():
    X = np.random.default_rng(12).standard_normal((30, 200))
    first, second = (EMPCA(2, n_nonzero=7, random_state=3).fit(X) for _ in range(2))
    np.testing.assert_array_equal(first.components_, second.components_)


def test_path_is_at_least_as_good_as_single_fits():
    X = np.random.default_rng(13).standard_normal((40, 60))
    Ks = [9, 2, 30, 5, 60]
    models = EMPCA(random_state=0).path(X, Ks)
    for K, model in zip(Ks, models):
        assert model.n_nonzero == K
        assert model.n_nonzero_.tolist() == [K]
        single = EMPCA(n_nonzero=K, random_state=0).fit(X)
        assert model.explained_variance_[0] >= single.explained_variance_[0] * (1 - 1e-12)
        assert model.transform(X).shape == (40, 1)


def test_renormalisation_and_swaps_only_improve():
    X = groups(14, 30, 200)
    for nonnegative in (False, True):
        options = {"n_nonzero": 10, "nonnegative": nonnegative, "random_state": 0}
        plain = EMPCA(renormalize=False, **options).fit(X)
        full = EMPCA(**options).fit(X)
        assert full.explained_variance_[0] > plain.explained_variance_[0]


def test_auto_counts_the_components():
    assert EMPCA("auto", n_nonzero=8, random_state=0).fit(groups(15, 200)).n_components_ == 3


def test_max_iter_is_reported():
    X = np.random.default_rng(16).standard_normal((30, 200))
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = EMPCA(n_nonzero=20, max_iter=1, tol=0, random_state=0).fit(X)
    assert model.stop_reason_ is StopReason.MAX_ITER


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, "`n_components` must be an integer of at least 1"),
        ({"n_nonzero": 0}, "`n_nonzero` must be an integer of at least 1"),
        ({"n_nonzero": 31}, "at most the number of columns, 30, got 31"),
        ({"n_components": 3, "n_nonzero": [1, 2]}, r"one per component \(3\), got 2"),
        ({"orthogonality": "exact"}, "must be one of 'deflation', 'disjoint', 'quasi'"),
        ({"orthogonality": "quasi"}, "`min_angle` must be"),
        ({"orthogonality": "quasi", "min_angle": 95}, "at most 90 degrees, got 95"),
        ({"min_angle": 80}, 'use `orthogonality="quasi"`'),
        ({"n_restarts": -1}, "`n_restarts` must be an integer of at least 0"),
    ],
)
def test_invalid_parameters(options, message):
    with pytest.raises(ParameterError, match=message):
        EMPCA(**options).fit(groups())


def test_tiny_weights_raise_an_error():
    with pytest.raises(ParameterError, match="add up to more than 1"):
        EMPCA().fit(groups(), sample_weight=np.full(60, 1e-3))


def test_a_single_column_raises_an_error():
    with pytest.raises(ValueError, match="1 feature"):
        EMPCA().fit(np.arange(5.0)[:, None])


def test_weights_keep_the_names_of_columns(rng):
    frame = pd.DataFrame(rng.standard_normal((20, 4)), columns=list("abcd"))
    model = EMPCA(n_nonzero=2).fit(frame, sample_weight=np.ones(20))
    assert list(model.feature_names_in_) == list("abcd")
    with pytest.raises(ParameterError, match=r"one number for each of the 20 rows"):
        EMPCA(n_nonzero=2).fit(frame, sample_weight=np.ones(19))


def test_the_gap_is_pickled():
    model = EMPCA(2, n_nonzero=3, random_state=0).fit(groups(2))
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.optimality_gap_, model.optimality_gap_)
    with pytest.raises(NotFittedError):
        EMPCA().optimality_gap_  # noqa: B018


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("K", [1, [1, 1, 4]])
def test_single_variables_under_deflation(K, seed):
    """Starts on variables that were deflated away are no starts."""
    X = np.random.default_rng(seed).standard_normal((30, 8))
    model = EMPCA(3, n_nonzero=K, random_state=0).fit(X)
    largest = np.sort(X.var(axis=0, ddof=1))[::-1]
    np.testing.assert_allclose(model.explained_variance_[:2], largest[:2])
    orthogonal = np.linalg.qr(X - X.mean(axis=0))[0] * np.arange(8, 0, -1)
    pairs = EMPCA(3, n_nonzero=2, random_state=0).fit(orthogonal)
    np.testing.assert_allclose(29 * pairs.explained_variance_, [64.0, 49.0, 36.0])


def test_the_gap_does_not_depend_on_later_parameters():
    X = np.random.default_rng(11).standard_normal((12, 9))
    model = EMPCA(n_nonzero=4, random_state=0, n_restarts=0, renormalize=False).fit(X)
    expected = pickle.loads(pickle.dumps(model)).optimality_gap_
    model = EMPCA(n_nonzero=4, random_state=0, n_restarts=0, renormalize=False).fit(X)
    model.set_params(nonnegative=True, orthogonality="disjoint")
    np.testing.assert_array_equal(model.optimality_gap_, expected)


@pytest.mark.parametrize("wrong", [{"nonnegative": "no"}, {"scale": 1}, {"n_nonzero": np.array(0)}])
def test_invalid_types(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        EMPCA(**wrong).fit(np.eye(4))


@pytest.mark.parametrize("wrong", [[2.7], [2, 0], "ab", None, 3, [True], ["a"], [[1, 2]]])
def test_cardinalities_of_a_path_are_integers(wrong, rng):
    with pytest.raises(ParameterError, match="`cardinalities` must be"):
        EMPCA(random_state=0).path(rng.standard_normal((20, 5)), wrong)


def test_a_path_takes_any_integers(rng):
    X = rng.standard_normal((20, 5))
    for wanted in (np.array([2, 3]), range(2, 4), (2, np.int8(3))):
        assert [m.n_nonzero_[0] for m in EMPCA(random_state=0).path(X, wanted)] == [2, 3]
    assert EMPCA().path(X, []) == []


@pytest.mark.parametrize("parameters", [{}, {"orthogonality": "quasi", "min_angle": 60}])
def test_n_jobs_does_not_change_the_components(parameters, rng):
    X = rng.standard_normal((40, 15))
    alone = EMPCA(2, n_nonzero=4, random_state=0, **parameters).fit(X)
    with parallel_config(backend="threading"):
        together = EMPCA(2, n_nonzero=4, random_state=0, n_jobs=2, **parameters).fit(X)
    np.testing.assert_array_equal(together.components_, alone.components_)
    for bounds, others in zip(alone.objective_path_, together.objective_path_, strict=True):
        np.testing.assert_array_equal(bounds, others)


def test_work_for_other_processes_can_be_pickled(monkeypatch, rng):
    sent = []

    def recorded(work, pieces, n_jobs, most):
        sent.append(n_jobs)
        work = pickle.loads(pickle.dumps(work))
        return [work(piece) for piece in pieces]

    monkeypatch.setattr(search, "in_processes", recorded)
    for kind in ({}, {"orthogonality": "quasi", "min_angle": 60}):
        EMPCA(2, n_nonzero=4, random_state=0, n_jobs=2, **kind).fit(rng.standard_normal((40, 15)))
    assert len(sent) > 4
    assert set(sent) == {2}
