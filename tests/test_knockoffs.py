"""Knockoffs for any importance measure."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from prosparse import InputError, ParameterError, knockoffs
from prosparse.datasets import make_globally_sparse

pytestmark = pytest.mark.quick


def sum_of_squared_correlations(X):
    X = X.toarray() if sparse.issparse(X) else X
    Z = X - X.mean(axis=0)
    norms = np.linalg.norm(Z, axis=0)
    Z = Z / np.where(norms > 0.0, norms, 1.0)
    return np.sum((Z.T @ Z) ** 2, axis=1)


@pytest.fixture
def data():
    return make_globally_sparse(
        80, 60, n_components=2, n_informative=20, scale=True, random_state=0
    )[:2]


@pytest.mark.parametrize("null", ["exchangeable", "robust"])
@pytest.mark.parametrize("convert", [np.asarray, pd.DataFrame, sparse.csr_array])
def test_informative_variables_are_selected(data, null, convert):
    X, truth = data
    found = knockoffs.select(
        sum_of_squared_correlations, convert(X), fdr=0.2, n_shadows=2, null=null
    )
    assert found.support[truth].mean() > 0.7
    assert np.sum(found.support & ~truth) <= 0.4 * found.support.sum()
    np.testing.assert_array_equal(found.support, found.rates <= 0.2)
    assert found.statistics.shape == (1, 60)


@pytest.mark.parametrize(("K", "M"), [(1, 1), (3, 1), (1, 4)])
def test_rate_of_a_statistic_that_prefers_the_first_columns(K, M):
    """Originals are in random places: a statistic that is not symmetric keeps the rate."""

    def biased(X):
        return sum_of_squared_correlations(X) + np.linspace(2.0, 0.0, X.shape[1])

    false = []
    for run in range(150):
        rng = np.random.default_rng([5, run])
        X = np.exp(rng.standard_normal((20, 25)))
        X[:, :8] += 2.0 * rng.standard_normal((20, 1))
        found = knockoffs.select(
            biased, X, fdr=0.3, n_shadows=K, n_draws=M, random_state=run
        ).support
        false.append(np.sum(found[8:]) / max(1, found.sum()))
    assert np.mean(false) <= 0.3 + 2.0 * np.std(false) / np.sqrt(150)


def test_columns_of_a_variable_have_one_result(rng):
    levels = rng.integers(3, size=200)
    indicators = (levels[:, None] == np.arange(3)).astype(float)
    noise = rng.standard_normal((200, 30))
    effect = rng.standard_normal((3, 5))[levels]
    X = np.column_stack([indicators, noise[:, :5] + 2.0 * effect, noise[:, 5:]])
    labels = ["level"] * 3 + [f"v{j}" for j in range(30)]
    found = knockoffs.select(sum_of_squared_correlations, X, fdr=0.2, n_shadows=4, variables=labels)
    assert np.all(found.support[:8])
    assert np.ptp(found.statistics[0, :3]) == 0.0


def test_missing_values_stay_with_their_entries(data):
    X, truth = data
    rng = np.random.default_rng(0)
    X = np.where(rng.random(X.shape) < 0.1, np.nan, X)
    counts = []

    def statistic(Z):
        counts.append(np.sort(np.isnan(Z).sum(axis=0)))
        return sum_of_squared_correlations(np.where(np.isnan(Z), np.nanmean(Z, axis=0), Z))

    for null in ("exchangeable", "robust"):
        found = knockoffs.select(statistic, X, fdr=0.2, n_shadows=2, null=null)
        assert found.support[truth].mean() > 0.7
    np.testing.assert_array_equal(counts[0], np.sort(np.repeat(np.isnan(X).sum(axis=0), 3)))


def test_rows_are_permuted_within_groups(rng):
    """Differences between groups are no shared variance within groups."""
    groups = np.repeat([0, 1, 2], 20)
    X = rng.standard_normal((60, 40)) + 3.0 * rng.standard_normal((3, 40))[groups]
    pooled = knockoffs.select(sum_of_squared_correlations, X, fdr=0.2, n_shadows=4)
    within = knockoffs.select(sum_of_squared_correlations, X, fdr=0.05, n_shadows=4, groups=groups)
    assert pooled.support.sum() >= 30
    assert within.support.sum() == 0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"fdr": 1.5}, "`fdr` must be in"),
        ({"n_shadows": 0}, "`n_shadows`"),
        ({"n_draws": 1.5}, "`n_draws`"),
        ({"null": "flips"}, "`null` must be one of"),
        ({"random_state": -1}, "`random_state`"),
        ({"variables": [1, 2]}, "one label for each of the 60 columns"),
        ({"statistic": lambda Z: Z.mean(axis=1)}, "one number for each of the 120 columns"),
        ({"statistic": lambda Z: -np.abs(Z.sum(axis=0))}, "non-negative"),
    ],
)
def test_invalid_parameters(data, parameters, message):
    arguments = {"statistic": sum_of_squared_correlations, "X": data[0], **parameters}
    with pytest.raises(ParameterError, match=message):
        knockoffs.select(**arguments)


def test_data_outside_memory_raise_an_error(data):
    da = pytest.importorskip("dask.array", reason="Dask is not installed")
    with pytest.raises(InputError, match="Dask array"):
        knockoffs.select(sum_of_squared_correlations, da.from_array(data[0]))
