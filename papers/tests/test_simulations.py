"""Building blocks of E1 to E8."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from papers.selections import membership, proportion_of_variance, with_backgrounds
from papers.simulations import missed_models, select_by_variance, simulate

pytestmark = pytest.mark.quick


def test_true_variables_have_random_positions():
    positions = [np.flatnonzero(simulate(20, 200, 1.0, seed).support) for seed in range(20)]
    assert all(p.size == 20 for p in positions)
    assert len({tuple(p) for p in positions}) == 20
    assert 80 < np.mean(positions) < 120


def test_evidence_of_the_true_model():
    """The evidence prefers the smaller model in the runs of E4 that miss a variable."""
    flags = np.ones(50)
    flags[0] = 0.99  # This run selects the true model: the difference is zero.
    same = missed_models(flags, 200, 200, 1.0)
    assert same.rows[1].ours == pytest.approx(0.0, abs=1e-6)
    flags = np.ones(50)
    flags[[33, 38]] = 0.97
    missed = missed_models(flags, 200, 200, 1.0)
    assert missed.rows[0].ours == 2
    assert missed.rows[1].ours > 1.0
    assert missed.rows[2].ours < 0.5  # Missed variables have small loadings.
    assert "seeds 33, 38" in missed.note
    assert missed_models(np.ones(3), 200, 200, 1.0).note == "all runs select the true model"


def test_largest_variances():
    X = np.random.default_rng(0).standard_normal((30, 60)) * np.arange(60)
    selected = select_by_variance(X)
    assert selected.sum() == 20
    assert X.var(axis=0)[selected].min() >= X.var(axis=0)[~selected].max()


def test_proportion_of_variance():
    X = np.random.default_rng(0).standard_normal((30, 12))
    all_columns = np.ones(12, dtype=bool)
    proportion = proportion_of_variance(X, all_columns, 3)
    assert proportion == pytest.approx(PCA(3).fit(X).explained_variance_ratio_.sum())
    some = np.arange(12) < 7
    expected = PCA(3).fit(X[:, some]).explained_variance_.sum() / X.var(axis=0, ddof=1).sum()
    assert proportion_of_variance(X, some, 3) == pytest.approx(expected)


def test_backgrounds():
    rng = np.random.default_rng(0)
    sevens = np.where(rng.random((5, 784)) < 0.2, 255, 0).astype(np.uint8)
    images = {"a": np.full((40, 50), 10, np.uint8), "b": np.full((28, 28), 20, np.uint8)}
    datasets = with_backgrounds(sevens, images, 0)
    assert set(datasets) == {"basic", "back-rand", "back-image"}
    for X in datasets.values():
        assert np.all(X[sevens == 255] == 255)
    assert set(np.unique(datasets["back-image"])) <= {10.0, 20.0, 255.0}
    background = datasets["back-rand"][sevens == 0]
    assert background.mean() == pytest.approx(127.5, abs=5)
    assert background.max() <= 255


def test_membership():
    sets = {
        "gene_names": np.array(["a", "b", "c"]),
        "indices": np.array([0, 2, 1]),
        "indptr": np.array([0, 2, 3, 3]),
    }
    result = membership(np.array(["c", "d", "a"]), sets)
    assert result.tolist() == [[True, False, True], [False] * 3, [False] * 3]
