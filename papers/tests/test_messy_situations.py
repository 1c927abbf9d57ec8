"""E35: generators and competing tests of tables with missing values, covariates and categories."""

import numpy as np
import pytest

from papers.messy_tables import (
    CELLS,
    MISSING,
    MIXED_GROUP,
    Outcome,
    Table,
    evaluate_draw,
    indicator_blocks,
    least_squares_residuals,
    permutation_test,
    summarise,
    with_permuted_copies,
)

PROPORTIONS = {
    "10 % at random": 0.1,
    "30 % at random": 0.3,
    "50 % at random": 0.5,
    "by row": 0.28,
    "by column": 0.28,
    "depending on another column": 0.29,
}


@pytest.mark.parametrize("name", MISSING)
def test_proportion_of_missing_values(name):
    rng = np.random.default_rng(0)
    proportions = [np.mean(MISSING[name](rng.standard_normal((100, 150)), rng)) for _ in range(20)]
    np.testing.assert_allclose(np.mean(proportions), PROPORTIONS[name], atol=0.03)


def test_missing_values_depend_on_another_column():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((2000, 3))
    missing = MISSING["depending on another column"](X, rng).astype(float)
    R = np.corrcoef(np.hstack([X, missing]), rowvar=False)[:3, 3:]
    assert np.all(np.sum(np.abs(R) > 0.3, axis=0) == 1)
    assert np.all(np.abs(np.diag(R)) < 0.1)


def test_permuted_copies_keep_the_values_of_their_variable():
    table = with_permuted_copies("iris")(np.random.default_rng(2))
    assert table.truth.sum() == 5
    for name in table.X.columns[table.truth]:
        copy = table.X[f"copy of {name}"]
        assert copy.dtype == table.X[name].dtype
        assert sorted(copy) == sorted(table.X[name])
        assert list(copy) != list(table.X[name])


def test_indicators_span_the_levels():
    table = with_permuted_copies("iris")(np.random.default_rng(3))
    blocks = indicator_blocks(table.X)
    for block, (_, column) in zip(blocks, table.X.items(), strict=True):
        assert block.shape[1] == (2 if column.dtype.name == "category" else 1)
        np.testing.assert_allclose(block.T @ block, np.eye(block.shape[1]), atol=1e-9)
        np.testing.assert_allclose(block.sum(axis=0), 0.0, atol=1e-9)


def test_permutation_test_selects_the_related_variables():
    table = with_permuted_copies("iris")(np.random.default_rng(4))
    np.testing.assert_array_equal(permutation_test(table), table.truth)


def test_residuals_are_those_of_a_regression():
    rng = np.random.default_rng(5)
    X, numbers = rng.standard_normal((30, 2)), rng.standard_normal((30, 1))
    batches = np.repeat(["a", "b", "c"], 10)[:, None]
    for covariates, design in (
        (numbers, np.hstack([np.ones((30, 1)), numbers])),
        (batches, (batches == ["a", "b", "c"]).astype(float)),
    ):
        expected = X - design @ np.linalg.lstsq(design, X)[0]
        found = least_squares_residuals(Table(X, np.zeros(2, dtype=bool), covariates))
        np.testing.assert_allclose(found, expected, atol=1e-9)


def test_draw_scores_all_methods_of_a_cell():
    position = next(k for k, cell in enumerate(CELLS) if cell.group == MIXED_GROUP)
    results = evaluate_draw(position, 0)
    assert set(results) == set(CELLS[position].methods)
    assert all(0.0 <= value <= 1.0 for outcome in results.values() for value in outcome)


def test_rate_holds_with_two_standard_errors():
    found = summarise([Outcome(false, np.nan, 1.0) for false in [0.0] * 57 + [1.0] * 3])
    assert found.holds
    np.testing.assert_allclose(found.mean.false, 0.05)
    assert not summarise([Outcome(false, 1.0, 1.0) for false in [0.1, 0.12, 0.14]]).holds
