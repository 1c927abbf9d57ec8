"""Groups of rows from labels."""

import numpy as np
import pytest

from prosparse import ParameterError
from prosparse.data import DenseOperator
from prosparse.data.row_groups import row_groups

pytestmark = pytest.mark.quick


def test_codes_sizes_and_labels():
    groups = row_groups(["b", "a", "b", "c"], 4)
    assert groups.codes.tolist() == [1, 0, 1, 2]
    assert groups.sizes.tolist() == [1, 2, 1]
    assert groups.labels.tolist() == ["a", "b", "c"]
    assert row_groups(None, 4) is None
    mixed = row_groups(np.array(["b", 1, "b", 2.5], dtype=object), 4)
    assert mixed.labels.tolist() == ["1", "2.5", "b"]


def test_weighted_means_of_groups(rng):
    X, weights = rng.standard_normal((9, 4)), rng.uniform(0.5, 2.0, 9)
    groups = row_groups(np.arange(9) % 2, 9)
    expected = [
        np.average(X[groups.codes == code], axis=0, weights=weights[groups.codes == code])
        for code in range(2)
    ]
    means = groups.column_means(DenseOperator(X), weights)
    np.testing.assert_allclose(means, expected, atol=1e-12)
    centred = np.asarray(groups.subtract(DenseOperator(X), means).dense())
    np.testing.assert_allclose(centred, X - means[groups.codes], atol=1e-12)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1, 2, 3], r"one label for each of the 4 rows, got shape \(3,\)"),
        ("donor", r"got shape \(\)"),
        ([[1], [2], [3], [4]], r"got shape \(4, 1\)"),
        ([1.0, np.nan, 1.0, 2.0], "1 of 4 labels are missing"),
        (["a", None, "b", "a"], "1 of 4 labels are missing"),
        (np.array(["a", np.nan, "b", "a"], dtype=object), "1 of 4 labels are missing"),
    ],
)
def test_wrong_or_missing_labels_raise(labels, message):
    with pytest.raises(ParameterError, match=message):
        row_groups(labels, 4)
