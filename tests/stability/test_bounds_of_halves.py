"""The bound on variables that are seldom chosen: the formulas, and that it holds."""

import math

import numpy as np
import pytest

from prosparse import ParameterError
from prosparse.stability import expected_low, unimodal_factor, worst_factor

pytestmark = pytest.mark.quick


def test_the_formulas():
    # Shah and Samworth (2013), Theorem 2, both branches, B = 50
    assert unimodal_factor(0.6, 50, 0.1) == pytest.approx(1 / (2 * (1.2 - 1 - 0.01)))
    assert unimodal_factor(0.9, 50, 0.1) == pytest.approx(4 * (0.1 + 0.01) / 1.02)
    assert worst_factor(0.9) == pytest.approx(1 / 0.8)
    # Theorem 1 with theta = q / p is Meinshausen and Buehlmann's q^2 / ((2 tau - 1) p)
    bound = expected_low(0.8, 50, 20 / 200, 20, 200, unimodal=False)
    assert bound == pytest.approx(20**2 / (0.6 * 200))


@pytest.mark.parametrize(
    ("threshold", "low"), [(0.9, 0.6), (0.51, 0.1), (0.55, 0.5)], ids=["theta", "tau", "both"]
)
def test_outside_the_theorem_nothing_is_claimed(threshold, low):
    assert unimodal_factor(threshold, 50, low) == math.inf
    assert expected_low(threshold, 50, low, 10, 100) == expected_low(
        threshold, 50, low, 10, 100, unimodal=False
    )


def test_a_threshold_between_two_halves_is_the_next_of_them():
    assert unimodal_factor(0.899, 25, 0.1) == unimodal_factor(0.9, 25, 0.1)


def test_no_bound_up_to_a_half():
    assert expected_low(0.5, 25, 0.1, 10, 100) == math.inf


def test_the_worst_case_is_near_what_the_theorem_says(rng):
    """A variable that is chosen on both halves of a pair or on one: as often as the theorem
    allows, and no more. Each pair chooses k on both halves with probability a, else on one with
    probability b, so that p_k = a + b / 2 and the stable set needs at least 2 B tau choices."""
    B, tau, theta, p = 25, 0.6, 0.2, 100
    worst = 0.0
    for both in np.linspace(0.0, theta, 5):
        one = 2 * (theta - both)
        draws = rng.random((400, p, B))
        chosen = np.sum(np.where(draws < both, 2, draws < both + one), axis=2)
        worst = max(worst, float(np.mean(np.sum(chosen >= 2 * B * tau, axis=1))))
    assert worst < expected_low(tau, B, theta, theta * p, p)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n_pairs": 0}, "`n_pairs` must be an integer of at least 1, got 0"),
        ({"low": -1.0}, "`low` must be a non-negative number"),
        ({"low": math.nan}, "`low` must be a non-negative number"),
        ({"low": 2.0}, "`low` must be at most 1, got 2.0"),
        ({"threshold": "0.9"}, "`threshold` must be a non-negative number"),
        ({"threshold": math.nan}, "`threshold` must be a non-negative number"),
        ({"mean_chosen": -5.0}, "`mean_chosen` must be a non-negative number"),
    ],
)
def test_arguments_that_are_no_probabilities_or_numbers(given, message):
    usual = {"threshold": 0.9, "n_pairs": 25, "low": 0.1, "mean_chosen": 5.0, "n_features": 50}
    with pytest.raises(ParameterError, match=message):
        expected_low(**(usual | given))


def test_no_bound_up_to_a_half_even_if_nothing_is_selected():
    assert expected_low(0.5, 25, 0.0, 0.0, 50) == math.inf
