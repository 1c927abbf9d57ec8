"""Estimators with a Gaussian density: covariance, precision and log densities agree."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from prosparse.datasets import make_globally_sparse
from prosparse.models._base import GaussianProjection
from prosparse.registry import METHODS

X = make_globally_sparse(80, 10, n_components=2, n_informative=6, noise=0.2, random_state=1).X
X = X * np.linspace(0.9, 1.1, 10) + 3.0
GAUSSIAN = [name for name in METHODS if issubclass(METHODS[name].estimator, GaussianProjection)]
PROJECTIONS = [name for name in METHODS if METHODS[name].projects]
CASES = [
    (name, scale)
    for name in GAUSSIAN
    for scale in ([False, True] if METHODS[name].has_parameter("scale") else [None])
]


def fitted(name, scale, data=X):
    parameters = METHODS[name].example | ({} if scale is None else {"scale": scale})
    return METHODS[name].estimator(**parameters).fit(data)


def test_the_gaussian_models_are_covered():
    assert {"GSPPCA", "SPPCA"} <= set(GAUSSIAN)


@pytest.mark.parametrize(("name", "scale"), CASES)
def test_log_densities_are_those_of_the_covariance(name, scale):
    model = fitted(name, scale)
    normal = multivariate_normal(model.mean_, model.get_covariance())
    np.testing.assert_allclose(model.score_samples(X), normal.logpdf(X), rtol=1e-8)
    assert model.score(X) == pytest.approx(normal.logpdf(X).mean())


@pytest.mark.parametrize(("name", "scale"), CASES)
def test_precision_is_the_inverse_of_the_covariance(name, scale):
    model = fitted(name, scale)
    np.testing.assert_allclose(
        model.get_covariance() @ model.get_precision(), np.eye(10), atol=1e-8
    )


@pytest.mark.parametrize(("name", "scale"), CASES)
def test_constant_columns_have_no_variance_and_no_density(name, scale):
    constant = np.insert(X, 3, 7.0, axis=1)
    model, without = fitted(name, scale, constant), fitted(name, scale)
    for matrix, smaller in (
        (model.get_covariance(), without.get_covariance()),
        (model.get_precision(), without.get_precision()),
    ):
        assert not np.any(matrix[3])
        assert not np.any(matrix[:, 3])
        np.testing.assert_allclose(
            np.delete(np.delete(matrix, 3, 0), 3, 1), smaller, rtol=1e-6, atol=1e-9
        )
    changed = constant.copy()
    changed[:, 3] = 8.0
    np.testing.assert_array_equal(model.score_samples(changed), model.score_samples(constant))


@pytest.mark.parametrize("name", PROJECTIONS)
def test_components_have_a_proportion_of_the_variance(name):
    model = METHODS[name].estimator(**METHODS[name].example).fit(X)
    assert model.explained_variance_ratio_.shape == (len(model.components_),)
    assert np.all(model.explained_variance_ratio_ >= 0)
    assert model.explained_variance_ratio_.sum() <= 1 + 1e-9
