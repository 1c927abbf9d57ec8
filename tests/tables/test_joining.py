"""Joined tables have the rows of the first one, by name or by position."""

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from prosparse.errors import TableError
from prosparse.tables import Table, join_tables


def table(name, X, columns, ids=None, **others):
    return Table(Path(name), np.asarray(X, dtype=float), columns, ids, **others)


FIRST = table(
    "a.csv", [[1, 2], [3, 4], [5, 6]], ["x", "y"], ["r1", "r2", "r3"], labels={"kind": [*"uvu"]}
)


def test_rows_are_matched_by_name():
    other = table("b.xlsx", [[30, 7], [10, 8], [40, 9]], ["z", "x"], ["r3", "r1 ", "r9"])
    joined = join_tables([FIRST, other])
    assert joined.table.names == ["x (a)", "y", "z", "x (b)"]
    np.testing.assert_array_equal(
        joined.table.X, [[1, 2, 10, 8], [3, 4, np.nan, np.nan], [5, 6, 30, 7]]
    )
    assert joined.table.ids == FIRST.ids
    assert joined.table.label == [*"uvu"]
    assert joined.views == {"a": [0, 1], "b": [2, 3]}
    assert [*joined.table.notes] == [
        "b.xlsx: 1 row of a.csv is absent and has missing values here",
        "b.xlsx: 1 further row was not used",
    ]


def test_rows_without_names_are_matched_by_position():
    other = table("b.csv", np.eye(3), ["p", "q", "r"])._replace(X=sparse.csr_array(np.eye(3)))
    joined = join_tables([FIRST, other])
    np.testing.assert_array_equal(joined.table.X[:, 2:], np.eye(3))
    assert "matched by position" in joined.table.notes[-1]


def test_files_of_equal_name():
    joined = join_tables([FIRST, FIRST._replace(path=Path("other/a.tsv"))])
    assert [*joined.views] == ["a (1)", "a (2)"]
    assert joined.table.names == ["x (a (1))", "y (a (1))", "x (a (2))", "y (a (2))"]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (table("b.csv", np.eye(2), ["p", "q"]), "2 rows, but a.csv has 3"),
        (table("b.csv", np.eye(2), ["p", "q"], ["s1", "s2"]), "no row name is shared with a.csv"),
        (table("b.csv", np.eye(2), ["p", "q"], ["r1", "r1"]), "'r1' occurs 2 times"),
    ],
)
def test_rows_that_cannot_be_matched(other, message):
    with pytest.raises(TableError, match=message):
        join_tables([FIRST, other])
