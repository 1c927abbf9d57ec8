"""Columns that vary more than others, as far as the rows tell it."""

import numpy as np
import pytest
from scipy.stats import norm

from prosparse import Panel
from prosparse.models.panel import model
from prosparse.models.panel.variance_weighting import LEAST, favour, shares_that_vary_less


def by_pairs(spread, n):
    """The definition: every column beside every other one, and itself."""
    logs = np.log(spread)
    return norm.cdf((logs[:, None] - logs) * np.sqrt(n - 1.0)).mean(axis=1)


@pytest.mark.parametrize("width", [0.01, 0.3, 3.0])
@pytest.mark.parametrize("n", [6, 100, 3_000])
def test_shares_by_all_pairs(n, width, rng):
    spread = np.exp(width * rng.standard_normal(300))
    found = shares_that_vary_less(spread, n)
    np.testing.assert_allclose(found, by_pairs(spread, n), atol=0.005)
    assert np.all(np.diff(found[np.argsort(spread)]) >= 0.0)
    np.testing.assert_allclose(favour(spread, n), LEAST + (1.0 - LEAST) * found)


def test_only_the_order_of_clear_differences_counts():
    """No unit dwarfs another, and the unit of the whole table does not count."""
    spread = np.array([1e-8, 1.0, 2.0, 1e12])
    found = shares_that_vary_less(spread, 10_000)
    np.testing.assert_allclose(found, [0.125, 0.375, 0.625, 0.875], atol=0.01)
    np.testing.assert_allclose(favour(7.0 * spread, 50), favour(spread, 50), atol=1e-12)


def test_differences_that_rows_do_not_tell_do_not_count(rng):
    """Of 50 rows of columns that vary the same, and of columns brought to one spread."""
    spread = rng.standard_normal((50, 400)).std(axis=0)
    honest, taken_as_they_are = (np.ptp(shares_that_vary_less(spread, n)) for n in (50, 10**9))
    assert honest < 0.95 < taken_as_they_are
    same = np.nextafter(3.0, np.array([2.0, 3.0, 4.0]))
    np.testing.assert_allclose(shares_that_vary_less(same, 50), 0.5, atol=1e-12)
    np.testing.assert_array_equal(shares_that_vary_less(np.full(3, 3.0), 50), 0.5)


# The places of those columns of the table below that vary more than their families.
LOUD = [5, 11, 17]


@pytest.fixture(scope="module")
def families():
    """Three families of six columns that tell nearly the same: the last of each has a little more
    noise, and varies four times as much."""
    rng = np.random.default_rng(0)
    hidden = np.repeat(rng.standard_normal((120, 3)), 6, axis=1)
    noise = np.where(np.isin(np.arange(18), LOUD), 0.45, 0.3)
    X = hidden + noise * rng.standard_normal(hidden.shape)
    return X * np.where(np.isin(np.arange(18), LOUD), 4.0, 1.0)


def test_of_a_family_the_one_that_varies_more(families):
    assert sorted(Panel(3).fit(families).order_) == LOUD


def test_a_standardised_table_has_no_favourites(families):
    """There columns with less noise are chosen, one of each family."""
    found = Panel(3).fit((families - families.mean(axis=0)) / families.std(axis=0)).order_
    assert not set(found) & set(LOUD)
    assert sorted(found // 6) == [0, 1, 2]


def test_information_and_counts_favour_nothing(families, monkeypatch):
    """The bound of information is that of its plain greedy order, and roots of shares are not
    scaled, so that what varies much counts for much already."""
    asked = []
    monkeypatch.setattr(model, "favour", lambda spread, n: asked.append(n) or np.ones(spread.size))
    Panel(3, criterion="information").fit(families)
    Panel(2, counts=True).fit(np.random.default_rng(0).poisson(np.arange(2.0, 8.0), (30, 6)) + 1)
    assert asked == []
    assert not set(Panel(3).fit(families).order_) & set(LOUD)
    assert asked == [120]
