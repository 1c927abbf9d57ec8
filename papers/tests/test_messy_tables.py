"""E35: missing values and categories have the stated properties."""

import numpy as np
import pytest

from papers.data import Data
from papers.messy_tables import (
    MISSING_SITUATIONS,
    MIXED_SITUATIONS,
    coded,
    dimdesc,
    one_hot_test,
)

RATES = (0.1, 0.3, 0.5, 0.3, 0.3, 0.3)


@pytest.mark.parametrize(("situation", "rate"), list(zip(MISSING_SITUATIONS, RATES, strict=True)))
def test_proportion_of_missing_values(situation, rate):
    X = situation.draw(np.random.default_rng(0), True, Data()).X
    assert np.isnan(X).mean() == pytest.approx(rate, abs=0.04)
    spread = np.isnan(X).mean(axis=1).std(), np.isnan(X).mean(axis=0).std()
    assert (spread[0] > 0.1) == ("by row" in situation.name)
    assert (spread[1] > 0.1) == ("by column" in situation.name)


@pytest.mark.parametrize("situation", MIXED_SITUATIONS, ids=lambda s: s.name)
def test_mixed_tables(situation):
    sample = situation.draw(np.random.default_rng(0), True, Data())
    is_number = np.array([dtype.kind in "fiu" for dtype in sample.X.dtypes])
    assert 0 < is_number.sum() < is_number.size == sample.truth.size
    if "permuted" in situation.name:
        k = int(sample.truth.sum())
        assert sample.truth[:k].all()
        for j in range(k):
            first, second = sample.X.iloc[:, j], sample.X.iloc[:, k + j]
            assert sorted(first) == sorted(second)
            assert list(first) != list(second)


def test_competing_methods_select_variables():
    """Indicators of one category are not evidence for it; components that contain it are."""
    sample = MIXED_SITUATIONS[1].draw(np.random.default_rng(0), True, Data())
    Z, position = coded(sample.X)
    assert Z.shape[1] == position.size == sample.truth.size + 4  # two categories of three levels
    selected = one_hot_test(sample)
    assert selected[sample.truth].all()
    assert (selected & ~sample.truth).sum() <= (dimdesc(sample) & ~sample.truth).sum()
