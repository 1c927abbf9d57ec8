"""Numbers in other formats: thousands separators, mixed decimals, codes, limits of detection."""

import numpy as np
import pytest

from prosparse import TableError
from prosparse.tables import ReadOptions, read_table
from prosparse.tables.censored_values import is_censored
from prosparse.tables.number_format import NumberFormat

pytestmark = pytest.mark.quick


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_thousands_separator_next_to_a_decimal_comma(tmp_path):
    table = read_table(write(tmp_path / "t.csv", "a;b\n1.234.567,8;1,5\n2,5;2,5\n"))
    assert table.X.tolist() == [[1234567.8, 1.5], [2.5, 2.5]]
    assert any("'1.234.567,8' have thousands separators" in note for note in table.notes)


@pytest.mark.parametrize(("mark", "name"), [("'", "1'234"), (" ", "1\u202f234"), (" ", "1 234")])
def test_thousands_separators_by_option(tmp_path, mark, name):
    path = write(tmp_path / "t.csv", f"a;b\n{name};1.5\n688;2.5\n")
    table = read_table(path, ReadOptions(thousands=mark))
    assert table.X.tolist() == [[1234, 1.5], [688, 2.5]]


def test_mixed_decimal_marks(tmp_path):
    path = write(tmp_path / "t.csv", "a;b\n1,5;2.5\n3.25;4,75\n")
    table = read_table(path, ReadOptions(decimal="mixed"))
    assert table.X.tolist() == [[1.5, 2.5], [3.25, 4.75]]


@pytest.mark.parametrize(
    ("handling", "expected"),
    [
        ("half", [0.5, 0.25, 8, 2]),
        ("lod", [1, 0.5, 8, 2]),
        ("missing", [np.nan, np.nan, np.nan, 2]),
    ],
)
def test_censored_values(tmp_path, handling, expected):
    path = write(tmp_path / "t.csv", "a,b\n<LOD,1\n<0.5,1\n> 8,1\n2,1\n1,3\n")
    with pytest.raises(TableError, match="not a number"):
        read_table(path)
    table = read_table(path, ReadOptions(censored=handling))
    np.testing.assert_array_equal(table.X[:4, 0], expected)
    assert any("below or above a limit in 1 column" in note for note in table.notes)


def test_codes_for_missing_values(tmp_path):
    path = write(tmp_path / "t.csv", "a,b,kind\ndon't know,-999,x\n2,3,n.d.\n4,-999.0,y\n")
    options = ReadOptions(na=("don't know,n.d.", "-999"), label="kind")
    table = read_table(path, options)
    np.testing.assert_array_equal(table.X, [[np.nan, np.nan], [2, 3], [4, np.nan]])
    assert table.label == ["x", "", "y"]
    np.save(tmp_path / "t.npy", np.array([[1.0, -9.0], [2.0, 3.0]]))
    read = read_table(tmp_path / "t.npy", ReadOptions(na=("-9",)))
    np.testing.assert_array_equal(read.X, [[1, np.nan], [2, 3]])


def test_ignored_rows_by_name_or_number(tmp_path):
    named = write(tmp_path / "n.csv", "s,a,b,g\np,1,2,u\nq,3,4,v\nr,5,7,w\n")
    table = read_table(named, ReadOptions(ignore_rows=("q",), groups="g"))
    assert (table.ids, table.groups, table.X.tolist()) == (["p", "r"], ["u", "w"], [[1, 2], [5, 7]])
    plain = write(tmp_path / "p.csv", "a,b\n1,2\n3,4\n5,7\n")
    assert read_table(plain, ReadOptions(ignore_rows=("1",))).X.tolist() == [[3, 4], [5, 7]]
    with pytest.raises(TableError, match="there is no row 'x'"):
        read_table(named, ReadOptions(ignore_rows=("x",), label="g"))
    with pytest.raises(TableError, match="--ignore-rows leaves 1 row"):
        read_table(named, ReadOptions(ignore_rows=("p,q",), label="g"))
    covariates = ReadOptions(ignore_rows=("q",), covariates=("g",))
    assert list(read_table(named, covariates).covariates["g"]) == ["u", "w"]


@pytest.mark.parametrize("cell", ["<LOD", "< 0.5", "<0,5", ">100", "LOD", "b.d.l.", "<LLOQ", "BDL"])
def test_limits_of_detection_are_recognised(cell):
    assert is_censored(cell)


@pytest.mark.parametrize("cell", ["n.d.", "NA", "1.5", "low", "d", "<b>", "LODGE"])
def test_other_texts_are_no_limits(cell):
    assert not is_censored(cell)


def test_numbers_are_parsed_as_before():
    for text in ("1_000", "1.5.2", "abc"):
        assert NumberFormat().parse(text) is None
    assert NumberFormat(",").parse("1,5") == 1.5
    assert NumberFormat(",").parse("1.5") is None
