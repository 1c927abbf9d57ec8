"""Groups of columns by names, positions, masks and slices."""

import numpy as np
import pytest

from prosparse import ParameterError
from prosparse.data.column_groups import column_groups

pytestmark = pytest.mark.quick


def test_names_positions_masks_and_slices():
    names = np.array(list("abcde"))
    for views in (
        [["a", "c"], ["b", "d", "e"]],
        [[0, 2], [1, 3, -1]],
        [np.isin(names, ["a", "c"]), ~np.isin(names, ["a", "c"])],
    ):
        first, second = column_groups(views, 5, names)
        assert first.tolist() == [0, 2]
        assert second.tolist() == [1, 3, 4]
    assert column_groups([slice(None, None, 2), slice(1, None, 2)], 4)[1].tolist() == [1, 3]
    assert column_groups(None, 3)[0].tolist() == [0, 1, 2]
    with pytest.raises(ParameterError, match="1 of 5 columns is in no view, such as 'b'"):
        column_groups([["a"], ["c", "d", "e"]], 5, names)


@pytest.mark.parametrize("group", [3, None, np.array(3), [[0, 1], [2]], 2.5, lambda: 1, [0.5]])
def test_other_objects_raise(group):
    with pytest.raises(ParameterError, match="view 1 of `views` must be names, a slice or posit"):
        column_groups([[0], group], 4)
