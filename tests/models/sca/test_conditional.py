"""What a factor model says about new rows, against the normal law of each row written out."""

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import multivariate_normal

from prosparse.models.sca.conditional import (
    Factors,
    conditional_mean,
    conditional_variance,
    has_gaps,
    posterior_means,
    row_log_densities,
)

pytestmark = pytest.mark.quick

p, Q = 6, 2


@pytest.fixture
def model(rng):
    return Factors(rng.standard_normal((p, Q)), rng.gamma(3.0, 1.0, p), rng.standard_normal(p))


def rows(kind):
    rng = np.random.default_rng(1)
    X = 2.0 * rng.standard_normal((7, p))
    if kind == "integers":
        return X.round().astype(int)
    if kind == "single precision":
        return X.astype(np.float32)
    if kind == "sparse":
        return sparse.csr_array(X * (rng.random(X.shape) < 0.5))
    if "gaps" in kind:
        X[rng.random(X.shape) < 0.3] = np.nan
        X[:2] = X[0]  # one pattern twice
        X[2] = 1.0  # and a row without gaps
    if kind == "sparse with gaps":
        return sparse.csr_array(np.where(rng.random(X.shape) < 0.3, 0.0, X))
    return X


KINDS = ["floats", "integers", "single precision", "sparse", "gaps", "sparse with gaps"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_by_its_normal_law(kind, model):
    X = rows(kind)
    assert has_gaps(X) == ("gaps" in kind)
    L, tau, mean = model
    covariance = L @ L.T + np.diag(1 / tau)
    Z, density = posterior_means(X, model), row_log_densities(X, model)
    columns = np.array([4, 0, 3])
    ahead = conditional_mean(X, model, columns)
    variance = conditional_variance(X, model, columns)
    tol = 1e-4 if kind == "single precision" else 1e-9
    dense = np.asarray(X.todense() if sparse.issparse(X) else X, dtype=float)
    for k, row in enumerate(dense):
        seen = ~np.isnan(row)
        x, W, law = row[seen] - mean[seen], L[seen], covariance[np.ix_(seen, seen)]
        gain = np.linalg.solve(law, W).T
        np.testing.assert_allclose(Z[k], gain @ x, atol=tol)
        assert density[k] == pytest.approx(multivariate_normal(cov=law).logpdf(x), rel=tol)
        # a new observation of the columns: independent of the row's own noise
        cross = L[columns] @ W.T
        np.testing.assert_allclose(
            ahead[k], mean[columns] + cross @ np.linalg.solve(law, x), atol=tol
        )
        left = L[columns] @ L[columns].T - cross @ np.linalg.solve(law, cross.T)
        np.testing.assert_allclose(variance[k], np.diag(left) + 1 / tau[columns], atol=tol)
