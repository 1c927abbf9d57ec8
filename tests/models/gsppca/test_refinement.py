"""Refinement of GSPPCA: fast formulas, unequal noise, data without structure."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

from prosparse import GSPPCA, NoStructureWarning
from prosparse.data import standardise
from prosparse.datasets import make_globally_sparse
from prosparse.metrics import support_f_score
from prosparse.models.gsppca import refinement as module
from prosparse.models.gsppca.refinement import Refinement


def row_sparse(seed, n=120, p=300, noise=None):
    """Simulate two components of 12 variables with unequal loadings."""
    rng = np.random.default_rng(seed)
    U = np.zeros((p, 2))
    U[:12] = np.linalg.qr(rng.standard_normal((12, 2)))[0]
    noise = np.full(p, 0.3) if noise is None else noise
    X = (rng.standard_normal((n, 2)) * [4.0, 3.0]) @ U.T + noise * rng.standard_normal((n, p))
    return X, np.arange(p) < 12


def test_degrees_of_freedom_under_random_signs(rng):
    """R2 under random signs has the mean and variance of the beta distribution."""
    n, p = 30, 12
    X = rng.standard_normal((n, p)) ** 3
    data, members = module.equalise(standardise(X)[0]), np.arange(p) < 6
    found = module.explain(data, members, 2, np.ones(p), n - 1.0)
    whitened = module.StandardisedData(data.op, data.standardised.adjustment)
    U, Z = whitened.scores(whitened.principal_components(members, 2), 2), data.op.dense()
    signs = rng.choice([-1.0, 1.0], (40_000, n))
    for k in range(p):
        z = Z[:, k] / np.linalg.norm(Z[:, k])
        r2 = np.sum(((signs * z) @ U) ** 2, axis=1)
        a, b = 0.5 * found.d_flips[k], 0.5 * (found.dof_flips[k] - found.d_flips[k])
        assert a / (a + b) == pytest.approx(r2.mean(), rel=0.03)
        assert a * b / (a + b) ** 2 / (a + b + 1) == pytest.approx(r2.var(), rel=0.1)


def test_log_evidence_is_that_of_the_ranking():
    """The path equals sums of log densities plus the log prior."""
    op = standardise(row_sparse(0)[0])[0]
    refinement = Refinement(op)
    found = refinement.run(2, [refinement.eliminate(2)])
    active, inactive = found.inclusion.log_active, found.inclusion.log_inactive
    q = found.n_selected
    expected = refinement.data.log_volume + np.sum(active[found.order[:q]])
    expected += np.sum(inactive[found.order[q:]]) + module.log_number_prior(np.array([q]), 300)[0]
    assert found.log_evidence[q] == pytest.approx(expected, rel=1e-10)
    assert np.all(np.diff(found.inclusion.log_bayes_factor[found.order]) <= 0)


def test_elimination_ends_when_the_evidence_decreases(monkeypatch, rng):
    """It retains the few active variables, and stops early if all variables are active."""
    sizes = []

    def evaluate(self, d, members, *others):
        sizes.append(int(members.sum()))
        return original(self, d, members, *others)

    original = Refinement.evaluate
    monkeypatch.setattr(Refinement, "evaluate", evaluate)
    X, truth = row_sparse(0)
    selected = Refinement(standardise(X)[0]).eliminate(2)
    assert support_f_score(truth, selected) >= 0.85
    assert sizes[-1] <= 2 * truth.sum()
    sizes.clear()
    X = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 400))
    selected = Refinement(standardise(X + rng.standard_normal(X.shape))[0]).eliminate(2)
    assert selected.sum() >= 300
    assert min(sizes) >= 50


@pytest.mark.parametrize("unequal", [False, True])
def test_refinement_selects_weak_loadings_under_any_noise(unequal):
    refined, paper = [], []
    for seed in range(4):
        noise = 0.3 * np.random.default_rng(seed).lognormal(0.0, 0.6, 300) if unequal else None
        X, truth = row_sparse(seed, noise=noise)
        refined.append(support_f_score(truth, GSPPCA(2).fit(X).support_))
        paper.append(support_f_score(truth, GSPPCA(2, refine=False).fit(X).support_))
    assert np.mean(refined) >= 0.93
    assert np.mean(refined) > np.mean(paper)


def test_dimension_is_that_of_largest_evidence():
    for seed in range(3):
        assert GSPPCA().fit(row_sparse(seed)[0]).n_components_ == 2


def test_columns_of_unit_variance():
    data = make_globally_sparse(
        60, 100, n_components=5, n_informative=15, noise=0.7, scale=True, random_state=0
    )
    scaled = GSPPCA(5, scale=True).fit(data.X)
    assert support_f_score(data.support, scaled.support_) >= 0.95
    np.testing.assert_array_equal(GSPPCA(5).fit(data.X).support_, scaled.support_)


@pytest.mark.filterwarnings("ignore::prosparse.UnequalUnitsWarning")
@pytest.mark.parametrize("load", [load_wine, load_breast_cancer, load_diabetes])
@pytest.mark.parametrize("scale", [False, True])
def test_small_datasets(load, scale):
    """All variables share variance; with random signs, none does."""
    X = load().data
    assert GSPPCA(2, scale=scale).fit(X).n_selected_ >= X.shape[1] - 1
    rng = np.random.default_rng(0)
    mean = X.mean(axis=0)
    flipped = mean + (X - mean) * rng.choice([-1.0, 1.0], X.shape)
    for null in (rng.permuted(X, axis=0), flipped):
        with pytest.warns(NoStructureWarning, match="no variable is explained"):
            GSPPCA(2, scale=scale).fit(null)


def test_outlying_rows():
    """Ten rows with three times the noise share no variance."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((100, 300))
        X[:10] *= 3.0
        with pytest.warns(NoStructureWarning, match="no variable is explained"):
            GSPPCA(3).fit(X)


def test_multivariate_t():
    X, truth = row_sparse(1)
    scale = np.sqrt(3.0 / np.random.default_rng(2).chisquare(3.0, (120, 1)))
    assert support_f_score(truth, GSPPCA(2).fit(X * scale).support_) >= 0.85


def test_inclusion_probabilities():
    X, truth = row_sparse(3)
    model = GSPPCA(2).fit(X)
    probability = model.inclusion_probability_
    assert probability[model.support_].min() > probability[~model.support_].max()
    assert probability[truth].mean() > 0.8
    assert probability[~truth].mean() < 0.01
    frame = model.to_frame()
    np.testing.assert_array_equal(frame["inclusion_probability"], probability)


def test_path_inclusion_probabilities():
    """Without refinement, the models along the ranking are averaged."""
    X = make_globally_sparse(40, 15, n_components=2, n_informative=6, random_state=1).X
    model = GSPPCA(2, refine=False).fit(X)
    weights = np.exp(model.log_evidence_path_ - model.log_evidence_path_.max())
    weights /= weights.sum()
    expected = [weights[model.cardinalities_ >= rank].sum() for rank in model.ranking_]
    np.testing.assert_allclose(model.inclusion_probability_, expected, atol=1e-12)


def test_few_rows_are_not_refined():
    X = make_globally_sparse(4, 12, n_components=1, n_informative=5, random_state=0).X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoStructureWarning)
        refined, paper = GSPPCA(1).fit(X), GSPPCA(1, refine=False).fit(X)
    np.testing.assert_array_equal(refined.support_, paper.support_)


def test_containers_agree():
    from scipy import sparse

    X, _ = row_sparse(4, n=40, p=60)
    X[np.abs(X) < 0.2] = 0.0
    dense, csr = GSPPCA(2).fit(X), GSPPCA(2).fit(sparse.csr_array(X))
    np.testing.assert_array_equal(dense.support_, csr.support_)
    np.testing.assert_allclose(dense.inclusion_probability_, csr.inclusion_probability_, atol=1e-6)
