"""Responses of regressions: numbers, or two classes."""

import pytest

from prosparse import TableError
from prosparse.tables import ReadOptions, read_table
from prosparse.tables.response import parse_classes


@pytest.mark.parametrize(
    ("cells", "classes"),
    [
        (["no", " yes", "", "no"], ["no", "yes", None, "no"]),
        (["0", "1.0", "1", None], [0, 1, 1, None]),
        ([0.5, 1.5, float("nan")], [0.5, 1.5, None]),
        (["-1", "high", "NA"], ["-1", "high", None]),
        (["0", "1", "2"], None),
        (["a", "a", ""], None),
    ],
)
def test_parse_classes(cells, classes):
    assert parse_classes(cells) == classes


@pytest.mark.parametrize(
    ("cells", "response"),
    [(["0,5", "1,5", "2,5"], [0.5, 1.5, 2.5]), (["b", "a", "b"], ["b", "a", "b"])],
)
def test_read_table_parses_the_response(tmp_path, cells, response):
    path = tmp_path / "t.csv"
    rows = [f"{k};{k % 2};{cell}" for k, cell in enumerate(cells)]
    path.write_text("\n".join(["x;z;y", *rows]))
    assert read_table(path, ReadOptions(response="y")).response == response


def test_non_numeric_response(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,z,y\n1,2,low\n3,1,mid\n2,5,high\n")
    with pytest.raises(TableError, match="row 1 of the data: the response 'y' is 'low'"):
        read_table(path, ReadOptions(response="y"))
