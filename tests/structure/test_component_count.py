"""Number of components of variables with unequal noise variances."""

import numpy as np
import pytest
from data_matrices import standardised_data

from prosparse.datasets import make_globally_sparse
from prosparse.structure import count_components, leading_components
from prosparse.structure.component_count import ledermann_bound


@pytest.mark.parametrize(
    ("n", "p", "d", "q"), [(66, 200, 10, 20), (200, 300, 3, 50), (300, 60, 5, 40)]
)
def test_count_with_unequal_variances(n, p, d, q):
    rng = np.random.default_rng(0)
    for seed in range(4):
        X, truth, _ = make_globally_sparse(
            n, p, n_components=d, n_informative=q, noise=1.0, random_state=seed
        )
        X = X * rng.lognormal(0.0, 1.0, p)
        assert abs(count_components(standardised_data(X), truth) - d) <= 2


def test_count_with_many_rows():
    """With many rows, small errors of the uniquenesses would be significant."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100_000, 40))
    X += 0.2 * rng.standard_normal((100_000, 3)) @ rng.standard_normal((3, 40))
    assert count_components(standardised_data(X), np.ones(40, dtype=bool)) == 3


def test_count_from_leading_components(monkeypatch):
    """Components that are not computed belong to the noise."""
    monkeypatch.setattr(leading_components, "EXACT_SIDE", 50)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 300))
    X[:, :150] += 0.8 * rng.standard_normal((150, 5)) @ rng.standard_normal((5, 150))
    data, selected = standardised_data(X), np.arange(300) < 150
    assert data.principal_components(selected, 5).eigenvalue_bound is not None
    assert count_components(data, selected) == 5


@pytest.mark.parametrize("is_tested_before", [False, True])
def test_count_exceeds_the_components_computed_first(is_tested_before, monkeypatch):
    monkeypatch.setattr(leading_components, "EXACT_SIDE", 50)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 300))
    X[:, :250] += rng.standard_normal((400, 40)) @ rng.standard_normal((40, 250))
    data = standardised_data(X)
    if is_tested_before:
        found = data.principal_components(np.ones(300, dtype=bool), 16)
        assert found.eigenvalues.size < 40
    assert count_components(data, np.arange(300) < 250) == 40


@pytest.mark.parametrize("n_selected", [0, 1])
def test_fewer_than_two_variables_have_no_component(n_selected):
    data = standardised_data(np.random.default_rng(0).standard_normal((20, 6)))
    assert count_components(data, np.arange(6) < n_selected) == 0


def test_ledermann_bound():
    for p in range(3, 40):
        d = ledermann_bound(p)
        assert (p - d) ** 2 >= p + d
        assert (p - d - 1) ** 2 < p + d + 1
