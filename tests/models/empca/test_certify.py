"""Branch and bound, compared with exhaustive search, also with ties and rounding."""

import time
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from prosparse import EMPCA, InputError, ParameterError
from prosparse.inference.loop import StopReason
from prosparse.models.empca.certify import branching, screening
from prosparse.models.empca.certify.branching import RESOLUTION, certify
from prosparse.models.empca.certify.clock import Clock
from prosparse.models.empca.certify.symmetry import exchangeable
from prosparse.models.empca.quadratic import Gram
from prosparse.persistence import load, save


def best_value(C, K, nonnegative):
    """The largest w'Cw over all sets of K variables, by trying them all."""
    best = 0.0
    for size in range(1, K + 1) if nonnegative else (K,):
        for S in combinations(range(C.shape[0]), size):
            values, vectors = np.linalg.eigh(C[np.ix_(S, S)])
            v = vectors[:, -1]
            # an optimal w >= 0 is the leading eigenvector on its own nonzeros
            if not nonnegative or np.all(v >= -1e-10) or np.all(v <= 1e-10):
                best = max(best, values[-1])
    return best


def copies(rng, p):
    A = rng.standard_normal((p, 2))
    A[1], A[-1] = A[0], -A[0]
    return A @ A.T


def all_negative(rng, p):
    C = np.full((p, p), -rng.uniform(0.0, 1.0 / (p - 1)))
    np.fill_diagonal(C, 1.0)
    return C


def with_zeros(rng, p):
    A = rng.standard_normal((p, 3))
    A[0] = 0.0
    return A @ A.T


def rounded(rng, p):
    return np.round(np.corrcoef(rng.standard_normal((p, 6))), 1)  # ties; nearly singular


def rank_one(rng, p):
    a = rng.standard_normal(p)
    return np.outer(a, a)


def full(rng, p):
    A = rng.standard_normal((p, p))
    return A @ A.T


CONTAINERS = {
    "full": full,
    "correlations": lambda rng, p: np.corrcoef(rng.standard_normal((p, 4))),
    "rank one": rank_one,
    "copies": copies,
    "diagonal": lambda rng, p: np.diag(rng.uniform(0.0, 1.0, p)),
    "zeros": with_zeros,
    "all negative": all_negative,
    "rounded": rounded,
}


def first_guess(C):
    w = np.zeros(C.shape[0])
    w[np.argmax(np.diagonal(C))] = 1.0
    return w


@pytest.mark.parametrize("kind", CONTAINERS)
@pytest.mark.parametrize("nonnegative", [False, True])
def test_certificates_agree_with_exhaustive_search(kind, nonnegative):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        p = int(rng.integers(3, 9))
        C = CONTAINERS[kind](rng, p) * 10.0 ** rng.integers(-6, 7)
        K = int(rng.integers(1, p + 1))
        found = certify(C, first_guess(C), K, nonnegative=nonnegative)
        best = best_value(C, K, nonnegative)
        assert found.gap == 0.0
        assert found.value == pytest.approx(best, rel=1e-8)
        assert found.upper_bound >= best * (1 - 1e-14)
        assert np.count_nonzero(found.w) <= K
        assert np.linalg.norm(found.w) == pytest.approx(1.0)
        assert not nonnegative or np.all(found.w >= 0)


@pytest.fixture(scope="module")
def hard():
    """Correlations of noise: many sets are nearly as good as the best."""
    return np.corrcoef(np.random.default_rng(0).standard_normal((22, 12)))


def test_bounds_of_unfinished_searches_are_valid(hard):
    exact = certify(hard, first_guess(hard), 6)
    assert exact.gap == 0.0
    rough = certify(hard, first_guess(hard), 6, gap=0.05)
    none = certify(hard, first_guess(hard), 6, clock=Clock(0.0))
    assert rough.gap <= 0.05
    for proof in (rough, none):
        assert proof.value <= exact.value * (1 + RESOLUTION)
        assert proof.upper_bound >= exact.value
    assert none.n_nodes == 1 <= rough.n_nodes <= exact.n_nodes
    assert none.upper_bound >= rough.upper_bound


def test_an_interrupt_returns_the_incumbent_and_its_gap(hard, monkeypatch):
    calls, process_node = [], branching.process_node

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return process_node(*arguments)

    exact = certify(hard, first_guess(hard), 6)
    monkeypatch.setattr(branching, "process_node", interrupted)
    monkeypatch.setattr(branching, "MAX_IMPROVEMENTS", 1)
    clock = Clock()
    found = certify(hard, first_guess(hard), 6, clock=clock)
    assert clock.interrupted
    assert clock.expired()
    assert found.n_nodes == 1
    assert found.value <= exact.value * (1 + RESOLUTION) <= found.upper_bound * (1 + 2 * RESOLUTION)
    assert found.gap > 0.0


def test_the_reported_gap_is_non_increasing(hard):
    class Told(list):
        advance = list.append

    gaps = Told()
    certify(hard, first_guess(hard), 6, progress=gaps)
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] <= RESOLUTION


def test_exchangeable_variables_are_found_with_their_signs():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((7, 5))
    A[3], A[5] = A[1], -A[1]
    C = A @ A.T
    assert exchangeable(C).tolist() == [0, 1, 2, 1, 4, 1, 6]
    assert exchangeable(C, nonnegative=True).tolist() == [0, 1, 2, 1, 4, 5, 6]
    assert exchangeable(np.eye(4)).tolist() == [0, 0, 0, 0]
    near = C.copy()
    near[3, 0] = near[0, 3] = near[3, 0] * (1 + 1e-9)
    assert exchangeable(near)[3] == 3


def test_exchangeable_copies_do_not_add_nodes():
    """Two groups of nine equal columns: without symmetry there are thousands of equal sets."""
    rng = np.random.default_rng(1)
    columns = rng.standard_normal((30, 6))
    X = np.repeat(columns, [9, 9, 1, 1, 1, 1], axis=1)
    C = np.corrcoef(X.T)
    found = certify(C, first_guess(C), 11)
    assert found.gap == 0.0
    assert found.n_nodes < 60


def test_screened_variables_are_in_no_better_set(monkeypatch):
    """Few rows at a time, against exhaustive search."""
    monkeypatch.setattr(screening, "MAX_BRANCHING", 3)
    monkeypatch.setattr(screening, "MAX_BLOCK_ENTRIES", 30)
    rng = np.random.default_rng(2)
    some_left_out = False
    for _ in range(3):
        C = np.corrcoef(rng.standard_normal((11, 5)))
        for nonnegative in (False, True):
            sets = list(combinations(range(11), 3))
            values = [best_value(C[np.ix_(S, S)], 3, nonnegative) for S in sets]
            target = max(values) * (1 - 1e-12)
            left = screening.screen_variables(
                Gram(C), np.ones(11, dtype=bool), 3, target, nonnegative
            )
            out = np.setdiff1d(np.arange(11), left.variables)
            some_left_out |= out.size > 0
            assert left.bound >= max(values)
            worst = max(v for S, v in zip(sets, values) if out.size == 0 or np.isin(out, S).any())
            assert out.size == 0 or left.closed >= worst * (1 - 1e-12)
    assert some_left_out


def test_many_columns_are_certified_without_the_gram_matrix(monkeypatch):
    """600 columns of 25 rows, of which few matter; the found set is the planted one."""
    monkeypatch.setattr(screening, "MAX_BRANCHING", 50)
    rng = np.random.default_rng(3)
    X = rng.standard_normal((25, 600))
    planted = rng.choice(600, 5, replace=False)
    X[:, planted] = rng.standard_normal((25, 1)) + 0.1 * rng.standard_normal((25, 5))
    model = EMPCA(n_nonzero=5, scale=True, certify=True, random_state=0).fit(X)
    assert model.certified_.tolist() == [True]
    assert set(np.flatnonzero(model.support_)) == set(planted)


@pytest.mark.parametrize("nonnegative", [False, True])
def test_wide_matrices_are_certified_on_a_subset_of_variables(monkeypatch, nonnegative):
    """Multipliers for six variables at most, against exhaustive search."""
    monkeypatch.setattr(branching, "MAX_MULTIPLIERS", 6)
    for seed in range(3):
        C = np.corrcoef(np.random.default_rng(seed).standard_normal((12, 8)))
        found = certify(C, first_guess(C), 4, nonnegative=nonnegative)
        assert found.gap == 0.0
        assert found.value == pytest.approx(best_value(C, 4, nonnegative), rel=1e-9)


def test_sets_around_single_variables_are_evaluated_first():
    """A first guess far from the best set, and no time to search."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, branching.MAX_MULTIPLIERS + 20))
    X[:, 30:36] = X[:, [30]] + 0.2 * rng.standard_normal((20, 6))
    C = np.corrcoef(X.T)
    found = certify(C, first_guess(C), 6, clock=Clock(0.0))
    assert set(np.flatnonzero(found.w)) == set(range(30, 36))


# --- the estimator


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((60, 15))
    X[:, :5] += 2.0 * rng.standard_normal((60, 1))
    X[:, 5:10] -= 1.5 * rng.standard_normal((60, 1))
    return X


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("orthogonality", ["deflation", "disjoint"])
def test_every_component_is_certified(table, orthogonality, nonnegative):
    options = {"orthogonality": orthogonality, "nonnegative": nonnegative, "random_state": 0}
    model = EMPCA(2, n_nonzero=4, certify=True, **options).fit(table)
    assert model.certified_.tolist() == [True, True]
    assert model.optimality_gap_.tolist() == [0.0, 0.0]
    C = np.cov(table.T)
    assert model.explained_variance_[0] == pytest.approx(best_value(C, 4, nonnegative))
    np.testing.assert_allclose(model.upper_bound_, [trace[-1] for trace in model.objective_path_])
    assert all(np.all(np.diff(trace) >= -1e-9 * trace[-1]) for trace in model.objective_path_)


def test_without_certify_nothing_is_certified(table):
    model = EMPCA(n_nonzero=4, random_state=0).fit(table)
    assert model.certified_.tolist() == [False]
    assert model.upper_bound_[0] >= model.explained_variance_[0] * (1 - 1e-12)


def test_a_component_at_an_angle_has_a_bound(table):
    model = EMPCA(2, n_nonzero=4, orthogonality="quasi", min_angle=80, certify=True, random_state=0)
    model.fit(table)
    assert model.certified_[0]
    assert 0.0 <= model.optimality_gap_[1] < 1.0
    assert model.upper_bound_[1] >= model.explained_variance_[1]


def test_single_precision_is_certified_to_its_resolution(table):
    model = EMPCA(n_nonzero=4, certify=True, random_state=0).fit(table.astype(np.float32))
    assert model.certified_.tolist() == [True]
    double = EMPCA(n_nonzero=4, certify=True, random_state=0).fit(table)
    assert np.array_equal(model.support_, double.support_)


def test_the_time_limit_is_reported(hard):
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        model = EMPCA.from_covariance(
            hard, n_nonzero=6, certify=True, time_limit=0.0, random_state=0
        )
    assert model.stop_reason_ is StopReason.NOT_CERTIFIED
    assert 0.0 < model.optimality_gap_[0] < 1.0
    assert not model.certified_[0]


def test_an_interrupted_fit_returns_bounds(table, monkeypatch):
    """At the first component, before any bound was computed: the second is found all the same."""

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("prosparse.models.empca.certify.component.screen_variables", interrupted)
    with pytest.warns(ConvergenceWarning, match="Ctrl-C"):
        model = EMPCA(2, n_nonzero=4, certify=True, random_state=0).fit(table)
    assert model.n_components_ == 2
    assert not model.certified_.any()
    C = np.cov(table.T)
    assert best_value(C, 4, False) <= model.upper_bound_[0] * (1 + 1e-12)


def test_a_path_is_certified(table):
    models = EMPCA(certify=True, random_state=0).path(table, [2, 3])
    assert [model.certified_.tolist() for model in models] == [[True], [True]]


def test_a_certified_model_can_be_saved(table, tmp_path):
    model = EMPCA(n_nonzero=3, certify=True, random_state=0).fit(table)
    save(model, tmp_path / "model.prosparse")
    again = load(tmp_path / "model.prosparse")
    assert again.certified_.tolist() == [True]
    assert again.optimality_gap_.tolist() == [0.0]


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"gap": 1.0}, "below 1"),
        ({"gap": -0.1}, "gap"),
        ({"time_limit": "long"}, "time_limit"),
        ({"certify": "yes"}, "certify"),
        ({"certify": True, "renormalize": False}, "renormalize"),
        ({"joint": True}, "disjoint"),
    ],
)
def test_invalid_certification_parameters(table, parameters, said):
    with pytest.raises(ParameterError, match=said):
        EMPCA(n_nonzero=3, **parameters).fit(table)


# --- from a covariance matrix


@pytest.mark.parametrize("scale", [False, True])
def test_a_covariance_matrix_gives_the_same_model(table, scale):
    with_constant = np.column_stack([table, np.full(60, 7.0)])  # a constant column
    fitted = EMPCA(2, n_nonzero=4, scale=scale, random_state=0).fit(with_constant)
    C = np.cov(with_constant.T)
    given = EMPCA.from_covariance(
        C,
        60,
        mean=with_constant.mean(axis=0),
        n_components=2,
        n_nonzero=4,
        scale=scale,
        random_state=0,
    )
    np.testing.assert_allclose(given.components_, fitted.components_, atol=1e-8)
    if not scale:  # scaled columns have the variance of the rows there, of the sample here
        np.testing.assert_allclose(given.explained_variance_, fitted.explained_variance_)
        np.testing.assert_allclose(
            given.transform(with_constant), fitted.transform(with_constant), atol=1e-7
        )
    np.testing.assert_allclose(given.explained_variance_ratio_, fitted.explained_variance_ratio_)
    assert given.varying_.tolist() == fitted.varying_.tolist()


def test_names_and_the_number_of_components_come_from_the_matrix(table):
    names = [f"v{k}" for k in range(15)]
    C = pd.DataFrame(np.cov(table.T), index=names, columns=names)
    model = EMPCA.from_covariance(C, 60, n_components="auto", n_nonzero=5, random_state=0)
    direct = EMPCA("auto", n_nonzero=5, random_state=0).fit(table)
    assert model.n_components_ == direct.n_components_
    assert list(model.feature_names_in_) == names
    with pytest.raises(ParameterError, match="n_samples"):
        EMPCA.from_covariance(C, n_components="auto")


@pytest.mark.parametrize(
    ("C", "said"),
    [
        (np.ones((3, 4)), "square"),
        (np.array([[1.0, 0.5], [0.2, 1.0]]), "symmetric"),
        (np.array([[-1.0, 0.0], [0.0, 1.0]]), "diagonal"),
        (np.array([[1.0, 2.0], [2.0, 1.0]]), "negative eigenvalue"),
        (np.array([[1.0, 0.0], [0.0, 0.0]]), "zero"),
    ],
)
def test_invalid_covariance_matrices_raise_an_error(C, said):
    with pytest.raises(InputError, match=said):
        EMPCA.from_covariance(C, n_nonzero=1)


def test_means_and_numbers_of_samples_are_checked(table):
    C = np.cov(table.T)
    with pytest.raises(ParameterError, match="mean"):
        EMPCA.from_covariance(C, mean=[0.0, 1.0], n_nonzero=2)
    with pytest.raises(ParameterError, match="n_samples"):
        EMPCA.from_covariance(C, 1, n_nonzero=2)


def test_a_clock_divides_the_remaining_time():
    clock = Clock(10.0)
    part = clock.share(2)
    assert part.end - time.monotonic() <= 5.0
    clock.interrupt()
    assert clock.share(3).expired()
