"""Groups of rows from labels."""

import numpy as np
import pytest

from prosparse import ParameterError
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
