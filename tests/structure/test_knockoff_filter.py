"""The knockoff filter: thresholds, rates and e-values."""

import numpy as np
import pytest

from prosparse.structure.knockoff_filter import (
    adjust_evalues,
    compare_with_shadows,
    knockoff_evalues,
    knockoff_rates,
    knockoff_threshold,
)

pytestmark = pytest.mark.quick


def threshold_by_definition(w, K, q):
    """min {t > 0: (1 + V(t)) / (K R(t)) <= q}, one t after the other."""
    for t in np.unique(np.abs(w[w != 0.0])):
        if (1 + np.sum(w <= -t)) / (K * max(1, np.sum(w >= t))) <= q:
            return t
    return np.inf


@pytest.mark.parametrize("K", [1, 2, 4])
@pytest.mark.parametrize("q", [0.05, 0.1, 0.3, 0.5])
def test_threshold_and_rates_follow_the_definition(K, q, rng):
    for _ in range(40):
        w = np.round(rng.standard_normal(60) + 1.0, 1)  # with ties and zeros
        t = threshold_by_definition(w, K, q)
        assert knockoff_threshold(w, K, q) == t
        np.testing.assert_array_equal(knockoff_rates(w, K) <= q, w >= t)
        selected, n_false = w >= t, np.sum(w <= -t)
        np.testing.assert_allclose(
            knockoff_evalues(w, K, q), selected * w.size * K / (1.0 + n_false)
        )


@pytest.mark.parametrize("K", [1, 2, 4, 7])
def test_least_number_of_discoveries(K):
    q = 0.1
    least = int(np.ceil(1 / (K * q)))
    for n_discoveries, expected in ((least - 1, 0), (least, least)):
        w = np.r_[np.arange(1.0, n_discoveries + 1.0), np.zeros(50)]
        assert np.sum(knockoff_rates(w, K) <= q) == expected


def test_ebh_of_one_draw_equals_the_filter(rng):
    for K in (1, 3):
        for q in (0.1, 0.2, 0.4):
            w = rng.standard_normal(80) + 0.8
            np.testing.assert_array_equal(
                adjust_evalues(knockoff_evalues(w, K, q)) <= q, knockoff_rates(w, K) <= q
            )


def test_ebh_follows_its_definition(rng):
    for _ in range(30):
        e = np.round(rng.gamma(0.3, 30.0, 50))
        for q in (0.05, 0.2, 0.5):
            ordered = np.sort(e)[::-1]
            passing = [k for k in range(1, 51) if 50 / (k * max(ordered[k - 1], 1e-9)) <= q]
            expected = e >= ordered[max(passing) - 1] if passing else np.zeros(50, dtype=bool)
            np.testing.assert_array_equal(adjust_evalues(e) <= q, expected)


def test_largest_statistic_decides_and_ties_do_not_count():
    T = np.array([[3.0, 1.0, 2.0, 0.0, 1.0], [1.0, 2.0, 2.0, 0.0, 4.0], [2.0, 2.0, 1.0, 0.0, 4.0]])
    layer = np.array([0, 0, 0, 1, 0])
    np.testing.assert_array_equal(compare_with_shadows(T, layer), [3.0, -2.0, 0.0, 0.0, -4.0])
    np.testing.assert_array_equal(
        compare_with_shadows(T, np.array([1, 1, 1, 1, 1])), [-3.0, 0.0, 0.0, 0.0, 0.0]
    )


@pytest.mark.parametrize("K", [1, 4])
@pytest.mark.parametrize("n_true", [0, 10, 40])
def test_rate_and_evalues_with_independent_statistics(K, n_true, rng):
    """Null variables are exchangeable with their shadows; dependence of magnitudes is allowed."""
    q, p, n_runs = 0.2, 120, 600
    false, sums = np.zeros(n_runs), np.zeros(n_runs)
    for run in range(n_runs):
        T = np.abs(rng.standard_t(3, (K + 1, p))) * np.exp(rng.standard_normal())
        layer = rng.integers(K + 1, size=p)
        T[layer[:n_true], np.arange(n_true)] += 4.0
        w = compare_with_shadows(T, layer)
        selected = knockoff_rates(w, K) <= q
        false[run] = np.sum(selected[n_true:]) / max(1, selected.sum())
        sums[run] = np.sum(knockoff_evalues(w, K, q)[n_true:])
    for values, limit in ((false, q), (sums, p)):
        assert values.mean() <= limit + 3.0 * values.std() / np.sqrt(n_runs)
