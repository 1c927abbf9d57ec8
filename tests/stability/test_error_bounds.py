"""Bounds on stable variables of low selection probability."""

import math

import numpy as np
import pytest

from prosparse.stability.bounds import low_probability_bound, unimodal_factor, worst_case_factor

pytestmark = pytest.mark.quick


def test_factors_of_both_theorems():
    # Shah and Samworth (2013), Theorem 2, both branches, B = 50
    assert unimodal_factor(0.6, 50, 0.1) == pytest.approx(1 / (2 * (1.2 - 1 - 0.01)))
    assert unimodal_factor(0.9, 50, 0.1) == pytest.approx(4 * (0.1 + 0.01) / 1.02)
    assert worst_case_factor(0.9) == pytest.approx(1 / 0.8)
    # Theorem 1 with theta = q / p is Meinshausen and Buehlmann's q^2 / ((2 tau - 1) p)
    bound = low_probability_bound(0.8, 50, 20 / 200, 20, 200, unimodal=False)
    assert bound == pytest.approx(20**2 / (0.6 * 200))


@pytest.mark.parametrize(
    ("threshold", "low"), [(0.9, 0.6), (0.51, 0.1), (0.55, 0.5)], ids=["theta", "tau", "both"]
)
def test_theorem_1_is_used_if_theorem_2_does_not_apply(threshold, low):
    assert unimodal_factor(threshold, 50, low) == math.inf
    assert low_probability_bound(threshold, 50, low, 10, 100) == low_probability_bound(
        threshold, 50, low, 10, 100, unimodal=False
    )


def test_threshold_is_rounded_up_to_a_multiple_of_one_half():
    assert unimodal_factor(0.899, 25, 0.1) == unimodal_factor(0.9, 25, 0.1)


def test_bound_is_infinite_at_one_half():
    assert low_probability_bound(0.5, 25, 0.1, 10, 100) == math.inf


def test_bound_holds_for_correlated_halves(rng):
    """A pair selects k on both halves with probability a, and on one with probability b.

    The selection probability on a half is a + b / 2, and a stable variable is selected at least
    2 B tau times.
    """
    B, tau, theta, p = 25, 0.6, 0.2, 100
    worst = 0.0
    for both in np.linspace(0.0, theta, 5):
        one = 2 * (theta - both)
        draws = rng.random((400, p, B))
        counts = np.sum(np.where(draws < both, 2, draws < both + one), axis=2)
        worst = max(worst, float(np.mean(np.sum(counts >= 2 * B * tau, axis=1))))
    assert worst < low_probability_bound(tau, B, theta, theta * p, p)


def test_bound_is_infinite_at_one_half_without_selections():
    assert low_probability_bound(0.5, 25, 0.0, 0.0, 50) == math.inf
