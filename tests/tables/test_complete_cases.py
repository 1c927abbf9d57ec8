"""Largest complete part of a table with missing values."""

import numpy as np
import pytest

from prosparse.tables.complete_cases import select_complete_part


def part(X, step=7):
    blocks = [(k, X[k : k + step]) for k in range(0, len(X), step)]
    return select_complete_part(lambda: iter(blocks), X.shape)


@pytest.mark.parametrize("shape", [(40, 9), (9, 40), (25, 25), (200, 3)])
@pytest.mark.parametrize("proportion", [0.0, 0.02, 0.2, 0.7])
def test_complete_part_is_at_least_as_large_as_complete_rows_or_columns(rng, shape, proportion):
    gaps = rng.random(shape) < proportion
    rows, columns = part(np.where(gaps, np.nan, 1.0))
    assert not gaps[np.ix_(rows, columns)].any()
    alone = max(
        np.sum(~gaps.any(axis=1)) * shape[1],
        np.sum(~gaps.any(axis=0)) * shape[0],
    )
    assert rows.size * columns.size >= alone
    if not proportion:
        assert (rows.size, columns.size) == shape


def test_incomplete_row_and_column_are_dropped_together():
    X = np.ones((10, 6))
    X[:7, 2] = np.nan
    X[4, :4] = np.nan
    rows, columns = part(X)
    assert rows.tolist() == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert columns.tolist() == [0, 1, 3, 4, 5]
