"""Leave-one-out statistics of columns with missing values."""

import sys

import numpy as np
import pytest

from prosparse.data import DenseOperator
from prosparse.data.row_adjustment import RowAdjustment, intercept
from prosparse.data.row_groups import row_groups
from prosparse.structure import ObservedData, StandardisedData, select_shared_variables
from prosparse.structure.leave_one_out_pvalues import LeaveOneOutTester
from prosparse.structure.low_rank_fill import fill_by_components
from prosparse.structure.null_distribution import FEW_ROWS


def draw(n=60, p=16, shared=8, missing=0.2, seed=0, adjustment=None):
    """Factor model with missing entries, standardised on the observed rows."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    X[:, :shared] += rng.standard_normal((n, 2)) @ rng.standard_normal((2, shared)) * 1.5
    seen = rng.random((n, p)) >= missing
    adjustment = intercept(n) if adjustment is None else adjustment
    Z = np.zeros((n, p))
    for j in range(p):
        rows = seen[:, j]
        Q = adjustment.basis[rows]
        residuals = X[rows, j] - Q @ np.linalg.lstsq(Q, X[rows, j])[0]
        Z[rows, j] = residuals / np.sqrt(np.mean(residuals**2))
    return ObservedData(Z, seen, adjustment)


def test_complete_data_give_the_p_values_of_the_complete_test():
    observed = draw(missing=0.0)
    complete = StandardisedData(DenseOperator(observed.Z), intercept(60))
    for members in (np.ones(16, dtype=bool), np.arange(16) < 8):
        found, expected = (
            LeaveOneOutTester(data, robust=True).against(members).pvalues
            for data in (observed, complete)
        )
        np.testing.assert_allclose(found, expected, rtol=1e-3)


@pytest.mark.parametrize("with_groups", [False, True])
def test_statistics_are_those_of_regressions_on_the_observed_rows(with_groups):
    groups = row_groups(np.arange(60) % 3, 60)
    adjustment = RowAdjustment(groups) if with_groups else intercept(60)
    data = draw(adjustment=adjustment)
    members = np.arange(16) < 9
    found = data.principal_components(members, 4)
    columns, D = np.array([2, 5, 12]), 4
    statistics, partial_r2 = data.statistics(found, columns, D), data.partial_r2(members, D)
    scores = np.broadcast_to(data.member_scores(found, columns, D), (3, 60, D))
    for k, j in enumerate(columns):
        rows = data.seen[:, j]
        y, Q = data.Z[rows, j], adjustment.basis[rows]

        def unexplained(S, y=y, Q=Q):
            A = np.column_stack([Q, S])
            return float(np.sum((y - A @ np.linalg.lstsq(A, y)[0]) ** 2)) / float(y @ y)

        S = scores[k][rows]
        R2 = [1.0 - unexplained(S[:, : d + 1]) for d in range(D)]
        np.testing.assert_allclose(np.cumsum(statistics.r2[k]), R2, atol=1e-7)
        full = unexplained(S)
        partial = [1.0 - full / unexplained(np.delete(S, i, axis=1)) for i in range(D)]
        np.testing.assert_allclose(partial_r2[j], partial, atol=1e-7)


def test_flip_moments_are_those_of_random_signs():
    data = draw(n=50, seed=3)
    found = data.principal_components(np.arange(16) < 9, 3)
    columns = np.flatnonzero(data.n_observed > FEW_ROWS)[[1, -1]]
    products = data.own_products(found, columns, 3)
    W = np.array([np.linalg.qr(A)[0] for A in products.A])
    leverages, W = np.sum(W[:, :, :-3] ** 2, axis=2), W[:, :, -3:]
    moments = data.flip_moments(found, columns, 3)
    rng = np.random.default_rng(0)
    for k, j in enumerate(columns):
        y = data.Z[:, j] / np.linalg.norm(data.Z[:, j]) / np.sqrt(1.0 - leverages[k])
        signs = rng.choice([-1.0, 1.0], (40_000, 50))
        R2 = np.cumsum(((signs * y) @ W[k]) ** 2, axis=1)
        np.testing.assert_allclose(moments.mean[k], R2.mean(axis=0), rtol=0.03)
        np.testing.assert_allclose(moments.variance[k], R2.var(axis=0), rtol=0.08)


@pytest.mark.parametrize("with_groups", [False, True])
def test_common_products_are_those_of_each_column(monkeypatch, with_groups):
    """Exact for other columns, and close for members, if there are many."""
    n, p = 150, 900
    adjustment = RowAdjustment(row_groups(np.arange(n) % 5, n)) if with_groups else intercept(n)
    data = draw(n=n, p=p, shared=60, missing=0.15, adjustment=adjustment)
    module = sys.modules["prosparse.structure.observed_data"]
    members, columns = np.arange(p) < 700, np.arange(p)
    found = data.principal_components(members, 6)
    results = []
    for limit in (2**40, 0):
        monkeypatch.setattr(module, "MAX_OWN_SCORES", limit)
        assert data._uses_common_scores(found, columns, 6).all() == (limit == 0)
        moments = data.flip_moments(found, columns, 6)
        results.append((*data.statistics(found, columns, 6), data.partial_r2(members, 6), *moments))
    own, common = ([np.asarray(each) for each in result] for result in results)
    for k in (0, 2):  # R2 and partial R2
        np.testing.assert_allclose(common[k][~members], own[k][~members], atol=1e-9)
        # Without the column, components of similar variance rotate; their sum remains.
        assert np.mean(np.abs(common[k] - own[k])[members]) < 0.003
    sums = common[0].sum(axis=1), own[0].sum(axis=1)
    np.testing.assert_allclose(*sums, atol=0.05)
    assert abs(np.mean(sums[0] - sums[1])) < 0.001
    for k, tolerance in ((1, 0.05), (3, 0.05), (4, 0.2)):  # leverages, mean and variance
        ratio = common[k] / own[k]
        assert np.quantile(np.abs(ratio - 1.0), 0.95) < tolerance
        assert abs(np.mean(ratio) - 1.0) < 0.02


def test_with_many_rows_missing_values_keep_the_mean():
    data = draw(n=2**13, p=12, missing=0.05)
    members = np.ones(12, dtype=bool)
    np.testing.assert_array_equal(data.member_operator(members).dense(), data.Z)
    assert not np.array_equal(
        draw(n=200, p=12, missing=0.05).member_operator(members).dense(),
        draw(n=200, p=12, missing=0.05).Z,
    )


@pytest.mark.parametrize("p", [16, 60])
def test_scores_do_not_depend_on_the_column_that_they_test(p):
    """With few members, which are filled, and with many, which are not."""
    data = draw(n=40, p=p)
    members = np.ones(p, dtype=bool)
    changed = data.Z.copy()
    changed[:, 3] = np.where(data.seen[:, 3], np.random.default_rng(5).standard_normal(40), 0.0)
    others = ObservedData(changed, data.seen, data.adjustment)
    first, second = (
        each.member_scores(each.principal_components(members, 5), np.array([3]), 5)[0]
        for each in (data, others)
    )
    np.testing.assert_allclose(first @ first.T, second @ second.T, atol=5e-3)


def test_filled_values_approach_the_low_rank_signal():
    rng = np.random.default_rng(1)
    signal = rng.standard_normal((80, 2)) @ rng.standard_normal((2, 30))
    Z = signal + 0.2 * rng.standard_normal(signal.shape)
    seen = rng.random(Z.shape) > 0.2
    filled = fill_by_components(np.where(seen, Z, 0.0), seen, 79)
    np.testing.assert_array_equal(filled[seen], Z[seen])
    error = np.mean((filled - signal)[~seen] ** 2) / np.mean(signal[~seen] ** 2)
    assert error < 0.15
    noise = rng.standard_normal((80, 30))
    np.testing.assert_array_equal(
        fill_by_components(np.where(seen, noise, 0.0), seen, 79)[~seen], 0.0
    )


@pytest.mark.slow
def test_false_discovery_rate_with_missing_values():
    proportions, powers = [], []
    for seed in range(20):
        data = draw(n=50, p=60, shared=10, missing=0.3, seed=seed)
        selected = select_shared_variables(data, 0.05).selected
        proportions.append(selected[10:].sum() / max(1, selected.sum()))
        powers.append(selected[:10].mean())
    assert np.mean(proportions) < 0.06 + 2.0 * np.std(proportions) / np.sqrt(20)
    assert np.mean(powers) > 0.8
