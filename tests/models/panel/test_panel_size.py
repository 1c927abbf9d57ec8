"""Smallest sufficient size, and the standard error of the relative R2."""

import numpy as np
import pytest

from prosparse.models.panel.heldout_r2 import (
    FoldPath,
)
from prosparse.models.panel.panel_size import Path, combine_folds, smallest_sufficient_size


def test_smallest_sufficient_size():
    std = np.array([0.1, 0.1, 0.1, 0.1, 0.0])
    path = Path(np.zeros(5), np.zeros(5), np.array([0.2, 0.6, 0.8, 0.7, 0.9]), std)
    every = np.arange(1, 6)
    assert smallest_sufficient_size(path, 0.7, every) == 2  # within one standard error
    assert smallest_sufficient_size(path, 0.7, every, 0.0) == 3
    assert smallest_sufficient_size(path, 0.7, every, -2.0) == 5
    assert smallest_sufficient_size(path, 0.85, every[3:]) == 5  # at least four
    assert smallest_sufficient_size(path, 0.95, every) == 5  # none is sufficient


def test_standard_error_of_the_relative_r2(rng):
    """It is that of a ratio of means over folds; repetitions do not reduce it."""
    explained, attainable = rng.uniform(2.0, 3.0, (400, 1)), rng.uniform(3.0, 4.0, (400, 1))
    paths = [
        FoldPath(np.zeros(1), e, a, np.zeros(1, int))
        for e, a in zip(explained, attainable, strict=True)
    ]
    found = combine_folds(paths, np.ones((400, 1)), 1)
    draws = rng.integers(400, size=(4000, 400))
    ratios = explained[draws, 0].sum(axis=1) / attainable[draws, 0].sum(axis=1)
    assert found.relative_r2[0] == pytest.approx(explained.sum() / attainable.sum())
    assert found.relative_r2_std[0] == pytest.approx(ratios.std(), rel=0.1)
    repeated = combine_folds(paths * 3, np.ones((1200, 1)), 1, n_repeats=3)
    assert repeated.relative_r2_std[0] == pytest.approx(found.relative_r2_std[0])
