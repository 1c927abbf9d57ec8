"""Selection of the number of nonzero loadings by extended BIC."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from prosparse import EMPCA, ParameterError, load, save
from prosparse.datasets import make_globally_sparse
from prosparse.findings import findings_of
from prosparse.models.empca.cardinality import log_likelihood
from prosparse.models.empca.quadratic import Gram
from prosparse.selection.criteria import ebic


def data(n=100, p=30, q=8, d=1, noise=0.5, seed=0):
    return make_globally_sparse(
        n, p, n_components=d, n_informative=q, noise=noise, random_state=seed
    )


@pytest.mark.parametrize("d", [1, 3])
def test_log_likelihood_is_the_normal_one_at_its_maximum(d, rng):
    X = rng.standard_normal((40, 7)) @ rng.standard_normal((7, 7))
    X -= X.mean(axis=0)
    W = rng.standard_normal((d, 7))
    C = X.T @ X / 40
    Q = np.linalg.qr(W.T)[0]
    P = Q @ Q.T
    sigma2 = (np.trace(C) - np.trace(P @ C)) / (7 - d)
    covariance = P @ C @ P + sigma2 * (np.eye(7) - P)
    expected = multivariate_normal(np.zeros(7), covariance).logpdf(X).sum()
    assert log_likelihood(Gram(X.T @ X), W, 40.0) == pytest.approx(expected)


def test_dependent_components_do_not_change_the_likelihood(rng):
    X = rng.standard_normal((40, 7))
    W = rng.standard_normal((2, 7))
    three = np.vstack([W, W[0] - 2.0 * W[1]])
    quadratic = Gram(X.T @ X)
    assert log_likelihood(quadratic, three, 40.0) == pytest.approx(
        log_likelihood(quadratic, W, 40.0)
    )


@pytest.mark.parametrize(("d", "noise"), [(1, 0.5), (1, 1.0), (2, 0.5)])
def test_the_search_equals_the_exhaustive_one(d, noise):
    X = data(d=d, noise=noise).X
    n, p = X.shape
    centred = X - X.mean(axis=0)
    exhaustive = [
        ebic(
            log_likelihood(Gram(centred.T @ centred), model.components_, n),
            model.n_nonzero_.sum(),
            n,
            d * p,
        )
        for model in EMPCA(d, random_state=0).path(X, range(1, p + 1))
    ]
    model = EMPCA(d, random_state=0).fit(X)
    assert model.cardinality_ == np.argmax(exhaustive) + 1
    assert model.criterion_path_.max() == pytest.approx(max(exhaustive))
    assert model.cardinality_ == model.cardinalities_[model.criterion_path_.argmax()]


@pytest.mark.parametrize("seed", range(3))
def test_the_default_recovers_the_variables_that_load(seed):
    rng = np.random.default_rng(seed)
    X = 0.7 * rng.standard_normal((100, 30))
    X[:, :8] += np.outer(rng.standard_normal(100), rng.choice([-1.0, 1.0], 8))
    model = EMPCA(random_state=0).fit(X)
    assert model.get_support(indices=True).tolist() == list(range(8))
    assert model.cardinality_ == 8
    given = EMPCA(n_nonzero=8, random_state=0).fit(X)
    np.testing.assert_array_equal(model.components_, given.components_)
    assert not hasattr(given, "cardinality_")


def test_all_variables_are_selected_if_all_load():
    assert EMPCA(random_state=0).fit(data(p=8, q=8, noise=0.3).X).cardinality_ == 8


def test_one_variable_is_selected_in_white_noise(rng):
    assert EMPCA(random_state=0).fit(rng.standard_normal((100, 40))).cardinality_ == 1


def test_units_do_not_change_the_selection():
    X = data().X
    model, larger = (EMPCA(random_state=0).fit(factor * X) for factor in (1.0, 1e50))
    assert larger.cardinality_ == model.cardinality_
    shift = X.size * np.log(1e50)
    np.testing.assert_allclose(larger.criterion_path_, model.criterion_path_ - shift)


def test_weights_are_repetitions(rng):
    X = data().X
    weights = rng.integers(0, 3, len(X))
    weighted = EMPCA(random_state=0).fit(X, sample_weight=weights)
    repeated = EMPCA(random_state=0).fit(np.repeat(X, weights, axis=0))
    assert weighted.cardinality_ == repeated.cardinality_
    np.testing.assert_allclose(weighted.criterion_path_, repeated.criterion_path_)


def test_a_covariance_matrix_needs_the_number_of_observations():
    X = data().X
    C = np.cov(X, rowvar=False)
    model = EMPCA.from_covariance(C, len(X), random_state=0)
    assert model.cardinality_ == EMPCA(random_state=0).fit(X).cardinality_
    with pytest.raises(ParameterError, match="`n_nonzero=None` needs `n_samples`"):
        EMPCA.from_covariance(C)
    assert EMPCA.from_covariance(C, n_nonzero="all").n_nonzero_.tolist() == [30]


@pytest.mark.parametrize("joint", [False, True])
def test_disjoint_components_have_enough_variables(joint):
    X = data(p=9, q=9, d=3, noise=0.3).X
    model = EMPCA(3, orthogonality="disjoint", joint=joint, random_state=0).fit(X)
    assert model.cardinality_ <= 3
    assert model.n_components_ == 3


def test_the_limit_is_an_integer_or_all():
    with pytest.raises(ParameterError, match="`n_nonzero` must be"):
        EMPCA(n_nonzero="none").fit(data().X)


def test_the_selection_is_saved_and_explained(tmp_path):
    model = EMPCA(random_state=0).fit(data().X)
    save(model, tmp_path / "model.prosparse")
    path = findings_of(load(tmp_path / "model.prosparse")).path
    np.testing.assert_array_equal(path.x, model.cardinalities_)
    np.testing.assert_array_equal(path.y, model.criterion_path_)
    assert path.x[path.best] == model.cardinality_
