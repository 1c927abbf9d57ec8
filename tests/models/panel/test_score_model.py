"""Scores and proxies agree with their definitions."""

import numpy as np
import pytest
from factor_models import covariance, random_model

from prosparse.models.panel.heldout_r2 import (
    posterior_weights,
)
from prosparse.models.panel.score_model import assign_proxies, build_score_model


@pytest.mark.parametrize("q", [1, 3, 9])
def test_scores_reconstruct_the_posterior_mean(q, rng):
    """Along orthogonal axes."""
    model = random_model(rng, 12, 5)
    panel = rng.permutation(12)[:q]
    weights, loadings, variances = build_score_model(model, panel)
    sigma = covariance(model)
    d = min(q, 5)
    assert weights.shape == (d, q)
    np.testing.assert_allclose(loadings @ loadings.T, np.eye(d), atol=1e-10)
    expected = model.W @ model.W[panel].T @ np.linalg.inv(sigma[np.ix_(panel, panel)])
    np.testing.assert_allclose(loadings.T @ weights, expected, atol=1e-9)
    np.testing.assert_allclose(model.W @ posterior_weights(model, panel), expected, atol=1e-10)
    of_scores = weights @ sigma[np.ix_(panel, panel)] @ weights.T
    np.testing.assert_allclose(of_scores, np.diag(variances), atol=1e-9)
    assert np.all(np.diff(variances) <= 0)
    strongest = np.take_along_axis(loadings, np.abs(loadings).argmax(axis=1)[:, None], axis=1)
    assert np.all(strongest > 0)


def test_proxies_have_the_largest_model_correlation(rng):
    model, panel = random_model(rng), np.array([4, 9, 1])
    sigma = covariance(model)
    common = sigma - np.diag(model.psi)
    scale = np.sqrt(np.diag(sigma))
    correlation = np.abs(common / np.outer(scale, scale))
    r2 = np.linspace(0.0, 1.0, 12)
    communality = np.full(12, 0.6)
    found = assign_proxies(model, panel, r2, communality)
    for j in range(12):
        closest = panel[np.argmax(correlation[j, panel])]
        explained = r2[j] >= 0.3
        assert found[j] == (j if j in panel else closest if explained else -1)
