"""Readers of all formats, which return the same table."""

import gzip
import string
import sys
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from scipy import io, sparse

from prosparse import TableError
from prosparse.tables import READERS, ReadOptions, limited_process, prepare_table, read_table
from prosparse.tables.formulas import escape_formula

pa = pytest.importorskip("pyarrow")
from pyarrow import feather, ipc, parquet  # noqa: E402

pytestmark = pytest.mark.quick

X = np.array([[1.5, -2.0, 3.0], [0.25, 1e-7, 4e5], [7.0, 8.0, np.nan]])
NAMES, IDS, LABEL = ["a", "b c", "é😀"], ["r1", "r2", "r3"], ["u", "v", "u"]


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def cell(value, decimal="."):
    return "" if np.isnan(value) else repr(float(value)).replace(".", decimal)


def text_table(separator=",", decimal=".", ids=True, label=False, newline="\n"):
    head = [*(["id"] if ids else []), *NAMES, *(["kind"] if label else [])]
    lines = [separator.join(head)]
    for row, one, kind in zip(X, IDS, LABEL, strict=True):
        cells = [cell(v, decimal) for v in row]
        lines.append(separator.join([*([one] if ids else []), *cells, *([kind] if label else [])]))
    return newline.join(lines) + newline


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("separator", "decimal", "ending"),
    [(",", ".", ".csv"), (";", ",", ".csv"), (";", ".", ".txt"), ("\t", ".", ".tsv"),
     ("\t", ",", ".csv"), ("|", ",", ".csv")],
)  # fmt: skip
def test_text(tmp_path, separator, decimal, ending, newline, encoding):
    path = tmp_path / f"table{ending}"
    table = read_table(write(path, text_table(separator, decimal, newline=newline), encoding))
    np.testing.assert_array_equal(table.X, X)
    assert table.names == NAMES
    assert table.ids == IDS
    assert any("the row names" in note for note in table.notes)
    assert any("separated by" in n for n in table.notes) == (separator != ",")
    assert any("decimal commas" in n for n in table.notes) == (decimal == ",")


def test_label_drop_and_compressed(tmp_path):
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(text_table(label=True).encode()))
    table = read_table(path, ReadOptions(label="kind", ignore=("b c",)))
    assert (table.label, table.names) == (LABEL, ["a", "é😀"])
    np.testing.assert_array_equal(table.X, X[:, [0, 2]])
    assert read_table(path, ReadOptions(row_names="kind", ignore=("id",))).ids == LABEL


def test_index_without_a_name(tmp_path):
    pandas = write(tmp_path / "pandas.csv", ",a,b\n0,1,2\n1,3,4\n")
    r = write(tmp_path / "r.txt", '"a"\t"b"\n"1"\t1\t2\n"2"\t3\t4\n')
    for path, ids in ((pandas, ["0", "1"]), (r, ["1", "2"])):
        table = read_table(path)
        assert (table.names, table.ids) == (["a", "b"], ids)
        np.testing.assert_array_equal(table.X, [[1, 2], [3, 4]])


def test_unusual_files(tmp_path):
    path = write(
        tmp_path / "t.csv", 'a,"b, and c",c,\n"1.5", 2 ,3,\n\n4,#N/A,NA,\n\n5,"6",1e3,\n\n'
    )
    table = read_table(path)
    assert table.names == ["a", "b, and c", "c"]
    np.testing.assert_array_equal(table.X, [[1.5, 2, 3], [4, np.nan, np.nan], [5, 6, 1000]])
    assert any("without a name and without values" in note for note in table.notes)
    assert table.ids is None
    header = write(tmp_path / "h.csv", "1,2\n3,4\n5,6\n")
    assert any("--no-header" in note for note in read_table(header).notes)
    np.testing.assert_array_equal(
        read_table(header, ReadOptions(header=False)).X, [[1, 2], [3, 4], [5, 6]]
    )
    lines = write(tmp_path / "l.csv", 'name,a,b\n"two\nlines",1,2\nx,3,4\n')
    assert read_table(lines).ids == ["two\nlines", "x"]
    odd = write(tmp_path / "o.csv", "a:b\n1:2\n3:4\n")
    np.testing.assert_array_equal(read_table(odd, ReadOptions(separator=":")).X, [[1, 2], [3, 4]])


def test_streamed_in_blocks(tmp_path, monkeypatch):
    from prosparse.tables import delimited

    monkeypatch.setattr(delimited, "BLOCK", 1000)
    values = np.random.default_rng(0).normal(size=(500, 4))
    rows = "\n".join(",".join(map(repr, row)) for row in values.tolist())
    path = write(tmp_path / "t.csv", "a,b,c,d\n" + rows + "\n")
    seen = []
    table = read_table(path, ReadOptions(progress=seen.append))
    np.testing.assert_array_equal(table.X, values)
    assert table.X.flags.c_contiguous
    assert len(seen) > 5
    assert seen[-1] == 500


@pytest.mark.slow
@pytest.mark.parametrize("widest", [100, 50_000])
def test_wide_files(tmp_path, monkeypatch, widest):
    monkeypatch.setattr("prosparse.tables.delimited.MAX_ARROW_COLUMNS", widest)
    values = np.arange(6 * 30_000.0).reshape(6, 30_000) / 7
    head = ";".join(f"variable {k}" for k in range(30_000))
    rows = "\n".join(";".join(map(cell, row, [","] * 30_000)) for row in values)
    table = read_table(write(tmp_path / "wide.csv", head + "\n" + rows + "\n"))
    np.testing.assert_array_equal(table.X, values)
    with pytest.raises(TableError, match="cannot be read as a table"):
        read_table(tmp_path / "wide.csv", ReadOptions(separator="|"))


BAD = {
    "text in a numeric column": (
        "a,b\n1,2\n3,4\n5,abc\n",
        r"line 4, column 2 \('b'\): 'abc' is not a number.*--ignore 'b'",
    ),
    "a whole column of text": ("a,b,c\n1,2,x\n3,4,x\n", r"line 2, column 3 \('c'\): 'x' is not"),
    "thousands": ("a;b\n1,5;1.23,5\n", r"line 2, column 2.*Remove thousands separators"),
    "ragged": ("a,b,c\n1,2,3\n1,2\n", "line 3: the line has 2 cells, but the header has 3"),
    "too long": (
        "a,b,c\n1,2,3\n1,2,3\n1,2,3,4\n",
        "line 4: the line has 4 cells, but the header has 3",
    ),
    "one column": ("a\n1\n2\n", "1 column, of which 1 can be.*at least 2 are needed.*--separator"),
    "no rows": ("a,b\n", "no rows of data below the header"),
    "one row": ("a,b\n1,2\n", "1 row and 2 variables"),
    "blank": ("\n\n \n", "only empty lines"),
    "repeated text": ("a,b,c\nx,1,2\n" + "y,1,2\n" * 250, "is not a number"),
    "repeated late": (
        "a,b,c\n" + "".join(f"n{k % 220},1,2\n" for k in range(250)),
        "rows 1 and 221 of the data are both 'n0'",
    ),
    "zero bytes": ("a,b\n\0,2\n", "is not text"),
    "hostile": (
        "a,b\n1,'\x1b[31m<script>\n",
        r"x1b\[31m<script>.* is not a number",
    ),
}


# Entries of a column that are 2,626 or 2.626, and what settles which.
THOUSANDS = {
    "beside hundreds": (["2,626", "688", "1,200"], False),
    "far down": ([*["2,626"] * 300, "688"], False),
    "hundreds first": ([*["688"] * 150, "2,626", *["17"] * 150, "-1,200"], False),
    "all with three decimals": (["2,626", "1,200", "17,125"], True),
    "a zero in front": (["2,626", "688", "0,125"], True),
    "other decimals": (["2,626", "688", "1,5"], True),
    "other decimals far down": (["2,626", *["688"] * 300, "1,25"], True),
    "thousands without": (["2,626", "688", "12345"], True),
    "four digits before": (["2626,125", "688", "1200,625"], True),
    "an exponent": (["2,626e3", "688", "1,200"], True),
}


@pytest.mark.parametrize("separator", ["\t", ";", "|"])
@pytest.mark.parametrize("mark", [",", "."])
@pytest.mark.parametrize("name", THOUSANDS)
def test_ambiguous_thousands_separators(tmp_path, name, mark, separator):
    cells, decimals = THOUSANDS[name]
    text = "".join(f"{one}{separator}{k}\n".replace(",", mark) for k, one in enumerate(cells))
    path = write(tmp_path / "t.csv", f"a{separator}b\n{text}")
    values = [float(one.replace(",", ".")) for one in cells]
    called = {",": "comma", ".": "point"}[mark]
    if decimals:
        np.testing.assert_array_equal(read_table(path).X[:, 0], values)
    else:
        with pytest.raises(TableError, match=f"with a thousands separator.*--decimal {called}"):
            read_table(path)
    given = read_table(path, ReadOptions(decimal=mark))
    np.testing.assert_array_equal(given.X[:, 0], values)


def test_another_column_resolves_the_ambiguity(tmp_path):
    path = write(tmp_path / "t.csv", "a;b\n2,626;0,5\n688;1,5\n1,200;2,5\n")
    np.testing.assert_array_equal(read_table(path).X, [[2.626, 0.5], [688, 1.5], [1.2, 2.5]])
    with pytest.raises(TableError, match="cannot be both the separator and the decimal mark"):
        read_table(path, ReadOptions(separator=",", decimal=","))
    # A comma is not a separator if it is the decimal mark.
    spare = write(tmp_path / "s.csv", "a;b\n1,5;2,5\n3,5;4,5\n")
    np.testing.assert_array_equal(
        read_table(spare, ReadOptions(decimal=",")).X, [[1.5, 2.5], [3.5, 4.5]]
    )


@pytest.mark.parametrize(
    "number", ["1.234.56,8", "1 234", "1'234", "1\u2019234", "1\u202f234", "1,234,567"]
)
def test_error_on_thousands_separators(tmp_path, number):
    path = write(tmp_path / "t.csv", f"a;b\n{number};1,5\n688;2,5\n")
    with pytest.raises(TableError, match=r"line 2, column 1.*Remove thousands separators"):
        read_table(path)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_blank_lines_before_and_in_the_header(tmp_path, newline, encoding, monkeypatch):
    blank = "\n\n  \n1,2,3\n\n4,5,6\n   \n7,8,10\n\n"
    broken = '\n"a\n\nunit",b\n1,2\n"3",4\n'
    for widest in (50_000, 0):
        monkeypatch.setattr("prosparse.tables.delimited.MAX_ARROW_COLUMNS", widest)
        table = read_table(write(tmp_path / "b.csv", blank.replace("\n", newline), encoding))
        assert table.names == ["1", "2", "3"]
        np.testing.assert_array_equal(table.X, [[4, 5, 6], [7, 8, 10]])
        table = read_table(write(tmp_path / "q.csv", broken.replace("\n", newline), encoding))
        assert table.names == [f"a{newline}{newline}unit", "b"]
        np.testing.assert_array_equal(table.X, [[1, 2], [3, 4]])
    none = read_table(write(tmp_path / "n.csv", "\n1,2\n3,4\n"), ReadOptions(header=False))
    np.testing.assert_array_equal(none.X, [[1, 2], [3, 4]])
    sheet = read_table(write(tmp_path / "s.csv", ",,\na,b,c\n1,2,3\n4,5,6\n"))
    assert sheet.names == ["a", "b", "c"]
    np.testing.assert_array_equal(sheet.X, [[1, 2, 3], [4, 5, 6]])
    many = write(tmp_path / "m.csv", "\n" * 500 + "a,b\n1,2\n3,x\n")
    with pytest.raises(TableError, match="line 503, column 2"):
        read_table(many)


def test_separator_line(tmp_path):
    for start in ("sep=;\n", '"sep=;"\r\n', "\nsep=;\n"):
        table = read_table(write(tmp_path / "t.csv", start + "a,b;c\n1;2\n3;4\n"))
        assert table.names == ["a,b", "c"]
        np.testing.assert_array_equal(table.X, [[1, 2], [3, 4]])
    bare = read_table(write(tmp_path / "t.csv", "sep=;\n1;2\n3;4\n"), ReadOptions(header=False))
    np.testing.assert_array_equal(bare.X, [[1, 2], [3, 4]])


@pytest.mark.parametrize("widest", [0, 50_000])
def test_separators_at_the_end_of_rows(tmp_path, monkeypatch, widest):
    monkeypatch.setattr("prosparse.tables.delimited.MAX_ARROW_COLUMNS", widest)
    for text in (
        "a,b,c\n1,2,3,\n4,5,7,\n7,8,8,\n",
        "a,b,c\n1,2,3,,\n4,5,7,,\n7,8,8,,\n",
        "a,b,c,\n1,2,3\n4,5,7\n7,8,8\n",
        "a,b,c,,\n1,2,3,\n4,5,7,\n7,8,8,\n",
    ):
        table = read_table(write(tmp_path / "t.csv", text))
        assert (table.names, table.ids) == (["a", "b", "c"], None)
        np.testing.assert_array_equal(table.X, [[1, 2, 3], [4, 5, 7], [7, 8, 8]])
    late = "a,b\n" + "1,2,\n" * 300 + "1,2,3\n"
    with pytest.raises(
        TableError, match="row 301 of the data: '3' is beyond the end of the header"
    ):
        read_table(write(tmp_path / "t.csv", late))
    # A column in the header is empty only if all rows are.
    later = "a,b,\n" + "1,2,\n" * 300 + "1,2,3\n"
    table = read_table(write(tmp_path / "t.csv", later))
    assert table.names == ["a", "b", "column 3"]
    assert table.X[300, 2] == 3
    # Decimal commas look like row names but repeat.
    with pytest.raises(TableError, match="one cell more than the header"):
        read_table(write(tmp_path / "t.csv", "a,b\n1,5,2\n1,25,3\n"))
    empty_first = read_table(write(tmp_path / "t.csv", ",a,b\n,1,2\n,3,4\n"))
    assert (empty_first.names, empty_first.ids) == (["a", "b"], None)


def test_numbers_that_pyarrow_cannot_parse(tmp_path):
    path = write(tmp_path / "t.csv", "a,b\n1, NA \n2,\u00a03\u00a0\n 4 ,5\n \n-1e3,\t6\n")
    np.testing.assert_array_equal(read_table(path).X, [[1, np.nan], [2, 3], [4, 5], [-1000, 6]])
    late = "name,a,b\n" + "".join(f"r{k},1,2\n" for k in range(300)) + '"two\nlines",3,4\n'
    assert read_table(write(tmp_path / "l.csv", late)).ids[-1] == "two\nlines"


@pytest.mark.parametrize("number", ["{},234", "${}", "({}.5)", "{} 234 567", "\u2212{}"])
def test_formatted_numbers_are_not_row_names(tmp_path, number):
    """Such a first column raises an error and is not read as an index."""
    text = f'a,b,c\n"{number.format(1)}",1,2\n"{number.format(2)}",3,4\n'
    path = write(tmp_path / "t.csv", text)
    with pytest.raises(TableError, match=r"line 2, column 1 \('a'\).*is not a number"):
        read_table(path)


def test_empty_rows_at_the_end(tmp_path):
    path = write(tmp_path / "t.csv", "a,b\n1,2\n,\n3,4\n,\n,\n")
    table = read_table(path)
    np.testing.assert_array_equal(table.X, [[1, 2], [np.nan, np.nan], [3, 4]])
    assert "dropped 2 empty rows at the end" in table.notes
    named = read_table(write(tmp_path / "n.csv", "n,a,b\nx,1,2\ny,3,4\nz,,\n,,\n"))
    assert named.ids == ["x", "y", "z"]
    numbered = read_table(write(tmp_path / "i.csv", "id,a,b\n1,1,2\n2,3,4\n3,,\n,,\n"))
    assert (numbered.ids, numbered.names) == (["1", "2", "3"], ["a", "b"])


def test_invalid_and_non_ascii_separators(tmp_path):
    path = write(tmp_path / "t.csv", "a§b\n1§2\n3§4\n")
    np.testing.assert_array_equal(read_table(path, ReadOptions(separator="§")).X, [[1, 2], [3, 4]])
    for odd in '"\n.-5':
        with pytest.raises(TableError, match="cannot separate columns"):
            read_table(path, ReadOptions(separator=odd))


def test_encoding_that_contradicts_the_byte_order_mark(tmp_path):
    for written, asked in (("utf-16", "utf-16-le"), ("utf-16", "UTF16"), ("utf-32", "utf-32-le")):
        path = write(tmp_path / "t.csv", "a,b\n1,2\n3,4\n", written)
        assert read_table(path, ReadOptions(encoding=asked)).names == ["a", "b"]
    path = write(tmp_path / "t.csv", "a,b\n1,2\n3,4\n", "utf-8-sig")
    with pytest.raises(
        TableError, match="byte-order mark of utf-8, so its encoding cannot be cp1252"
    ):
        read_table(path, ReadOptions(encoding="cp1252"))
    for odd in ("hex", "rot13"):
        with pytest.raises(TableError, match=r"the encoding .* is unknown"):
            read_table(path, ReadOptions(encoding=odd))


def test_byte_order_mark_is_not_part_of_a_name(tmp_path):
    path = write(tmp_path / "t.csv", "a,b\n1,2\n3,4\n", "utf-8-sig")
    for encoding in ("utf-8", "UTF8", "U8"):
        assert read_table(path, ReadOptions(encoding=encoding)).names == ["a", "b"]


@pytest.mark.parametrize("widest", [0, 50_000])
def test_escaped_names_are_unescaped(tmp_path, monkeypatch, widest):
    monkeypatch.setattr("prosparse.tables.delimited.MAX_ARROW_COLUMNS", widest)
    path = write(tmp_path / "t.csv", "id,'=a,'b,''-c,kind\n'=r,1,2,3,'+k\n'@s,4,5,6,-1\n")
    table = read_table(path, ReadOptions(label="kind"))
    assert table.names == ["=a", "'b", "'-c"]
    assert (table.ids, table.label) == (["=r", "@s"], ["+k", "-1"])


@pytest.mark.slow
@given(st.text(alphabet="'=+-@\t\r\n ax1.e\uff1d", max_size=6) | st.text(max_size=8))
@example("'=x")
@example("-1")
@example("-1e")
def test_escaping_is_invertible(text):
    from prosparse.tables.formulas import escape_formula, unescape_formula

    assert unescape_formula(escape_formula(text)) == text
    if escape_formula(text)[:1] in tuple("=+-@\t\r\n"):
        float(text)  # a number, and nothing else


def test_both_readers_agree(tmp_path, monkeypatch):
    path = write(tmp_path / "t.csv", text_table(";", ",", label=True))
    blocks = read_table(path, ReadOptions(label="kind"))
    monkeypatch.setattr("prosparse.tables.delimited.MAX_ARROW_COLUMNS", 1)
    rows = read_table(path, ReadOptions(label="kind"))
    np.testing.assert_array_equal(rows.X, blocks.X)
    assert rows[2:] == blocks[2:]


@pytest.mark.parametrize("widest", [0, 50_000])
@pytest.mark.parametrize("name", BAD)
def test_invalid_text_files(tmp_path, name, widest, monkeypatch):
    monkeypatch.setattr("prosparse.tables.delimited.MAX_ARROW_COLUMNS", widest)
    text, message = BAD[name]
    with pytest.raises(TableError, match=message) as caught:
        read_table(write(tmp_path / "bad.csv", text))
    printed = str(caught.value)
    assert printed.startswith(str(tmp_path / "bad.csv"))
    assert len(printed.splitlines()) == 1
    assert "\x1b" not in printed


def test_wrong_encoding(tmp_path):
    early = write(tmp_path / "early.csv", "name,b,c\nx,1,2\nMüller,3,4\n", "cp1252")
    guessed = read_table(early)
    assert guessed.ids == ["x", "Müller"]
    assert any("cp1252, a guess" in note for note in guessed.notes)
    with pytest.raises(
        TableError, match=r"line 3, column 1: the text is not valid utf-8 \(byte 0xfc"
    ):
        read_table(early, ReadOptions(encoding="utf-8"))
    assert read_table(early, ReadOptions(encoding="cp1252")).ids == ["x", "Müller"]
    late = "name,b,c\n" + "".join(f"x{k},1,2\n" for k in range(300)) + "Müller,3,4\n"
    with pytest.raises(TableError, match="line 302, column 1: the text is not valid utf-8"):
        read_table(write(tmp_path / "late.csv", late, "cp1252"), ReadOptions(encoding="utf-8"))
    assert read_table(tmp_path / "late.csv").ids[-1] == "Müller"
    with pytest.raises(TableError, match="the encoding 'klingon' is unknown"):
        read_table(early, ReadOptions(encoding="klingon"))


def test_missing_and_unsupported_files(tmp_path):
    with pytest.raises(TableError, match="the file does not exist"):
        read_table(tmp_path / "no.csv")
    with pytest.raises(TableError, match="the path is a folder"):
        read_table(tmp_path)
    (tmp_path / "empty.csv").touch()
    with pytest.raises(TableError, match="the file is empty"):
        read_table(tmp_path / "empty.csv")
    with pytest.raises(TableError, match=r"extension '\.docx' is not supported.*\.csv"):
        read_table(write(tmp_path / "t.docx", "PK"))
    for ending in ("parquet", "arrow", "npz", "npy", "mtx", "csv.gz"):
        with pytest.raises(TableError, match=f"t.{ending}"):
            read_table(write(tmp_path / f"t.{ending}", "no table at all\n"))
    with pytest.raises(TableError, match="no column 'colour'; did you mean 'color'"):
        read_table(write(tmp_path / "c.csv", "color,b\n1,2\n"), ReadOptions(label="colour"))


def arrow_table(label=False):
    columns = {"id": IDS} | {name: X[:, k] for k, name in enumerate(NAMES)}
    return pa.table(columns | ({"kind": LABEL} if label else {}))


@pytest.mark.parametrize("kind", ["parquet", "feather", "arrow file", "arrow stream"])
def test_columnar(tmp_path, kind):
    path = tmp_path / ("t.parquet" if kind == "parquet" else "t.arrow")
    data = arrow_table(label=True)
    if kind == "parquet":
        parquet.write_table(data, path, row_group_size=2)
    elif kind == "feather":
        feather.write_feather(data, path)
    else:
        new = ipc.new_file if kind == "arrow file" else ipc.new_stream
        with new(path, data.schema) as writer:
            writer.write_table(data, max_chunksize=2)
    table = read_table(path, ReadOptions(label="kind"))
    np.testing.assert_array_equal(table.X, X)
    assert (table.names, table.ids, table.label) == (NAMES, IDS, LABEL)
    with pytest.raises(TableError, match=r"1 non-numeric column: 'kind' \(string\)"):
        read_table(path)


def test_parquet_of_pandas(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, 2], "b": [True, False]}, index=["p", "q"])
    frame.to_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    assert (table.names, table.ids) == (["a", "b"], ["p", "q"])
    np.testing.assert_array_equal(table.X, [[1, 1], [2, 0]])


def test_inexact_integers_in_parquet(tmp_path):
    big = pa.table({"k": [1, 2**53 + 1, 3], "b": [1.0, 2.0, 4.0], "c": [1.0, 0.0, 4.0]})
    parquet.write_table(big, tmp_path / "t.parquet", row_group_size=1)
    with pytest.raises(TableError, match=r"row 2, column 1 \('k'\): 9007199254740993 exceeds 2"):
        read_table(tmp_path / "t.parquet")
    assert (
        read_table(tmp_path / "t.parquet", ReadOptions(row_names="k")).ids[1] == "9007199254740993"
    )
    exact = big.set_column(0, "k", [[1, 2**53, -(2**53)]])
    feather.write_feather(exact, tmp_path / "t.feather")
    assert read_table(tmp_path / "t.feather").X[2, 0] == -(2**53)


def test_numpy_and_matrix_market(tmp_path):
    np.savez(tmp_path / "t.npz", X=X, names=np.array(NAMES), ids=np.array(IDS), kind=LABEL)
    table = read_table(tmp_path / "t.npz", ReadOptions(label="kind"))
    np.testing.assert_array_equal(table.X, X)
    assert (table.names, table.ids, table.label) == (NAMES, IDS, LABEL)
    np.save(tmp_path / "t.npy", X)
    assert read_table(tmp_path / "t.npy", ReadOptions(ignore=("x1",))).names == ["x0", "x2"]
    S = sparse.random_array((6, 4), density=0.5, rng=np.random.default_rng(0), format="csr")
    sparse.save_npz(tmp_path / "s.npz", S)
    io.mmwrite(tmp_path / "s.mtx", S)
    for name in ("s.npz", "s.mtx"):
        table = read_table(tmp_path / name)
        assert sparse.issparse(table.X)
        np.testing.assert_allclose(table.X.toarray(), S.toarray())
    np.savez(tmp_path / "two.npz", a=X, b=X)
    with pytest.raises(TableError, match=r"2 of the arrays.*are two-dimensional"):
        read_table(tmp_path / "two.npz")
    np.savez(tmp_path / "o.npz", X=np.array([[object()]]))
    with pytest.raises(TableError, match="invalid NumPy file"):
        read_table(tmp_path / "o.npz")


def test_columns_and_arrays_of_a_numpy_archive(tmp_path):
    """Labels and row names are separate arrays, or columns of the matrix."""
    path = tmp_path / "t.npz"
    full = np.nan_to_num(X)
    np.savez(path, X=full, names=np.array([b"a", b"b", b"c"]), kind=np.array(LABEL))
    table = read_table(path, ReadOptions(label="a", row_names="kind"))
    assert (table.names, table.label, table.ids) == (["b", "c"], full[:, 0].tolist(), LABEL)
    assert "the row names are not unique" in table.notes
    assert read_table(path, ReadOptions(row_names="b")).names == ["a", "c"]
    for ask in (ReadOptions(row_names="nope"), ReadOptions(label="nope")):
        with pytest.raises(TableError, match="no column 'nope'"):
            read_table(path, ask)
    np.savez(path, X=full, ids=np.arange(6).reshape(3, 2))
    with pytest.raises(TableError, match="6 ids for 3 rows"):
        read_table(path)


def test_inexact_integers_in_matrices(tmp_path):
    large = np.array([[1, 2**60 + 1], [2, 2**60 + 2], [3, 5]])
    np.save(tmp_path / "t.npy", large)
    sparse.save_npz(tmp_path / "t.npz", sparse.csr_array(large))
    for name in ("t.npy", "t.npz"):
        with pytest.raises(
            TableError, match=r"row 1, column 2 \('x1'\): 1152921504606846977 exceeds"
        ):
            read_table(tmp_path / name)
    np.save(tmp_path / "t.npy", large // 2**8)
    assert read_table(tmp_path / "t.npy").X[0, 1] == 2**52


@pytest.mark.parametrize("printed", [b"not json", b'{"index_columns": 5}', b"[1]", b"{}"])
def test_invalid_pandas_metadata(tmp_path, printed):
    table = pa.table({"a": [1.0, 2.0], "b": [3.0, 5.0]}).replace_schema_metadata(
        {b"pandas": printed}
    )
    parquet.write_table(table, tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").names == ["a", "b"]


def test_text_types_of_arrow_as_row_names(tmp_path):
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        ids = pa.array(["x", None, "z"], kind)
        feather.write_feather(
            pa.table({"k": ids, "a": [1.0, 2.0, 3.0], "b": [1.0, 2.0, 4.0]}), tmp_path / "t.feather"
        )
        assert read_table(tmp_path / "t.feather").ids == ["x", "", "z"]


MARKET = {
    "general": ("coordinate real general\n% x\n2 3 2\n1 1 1.5\n2 3 2\n", [[1.5, 0, 0], [0, 0, 2]]),
    "spaces": ("coordinate real general\n2 2 2\n 1  1   1.5 \n\n2 2 4\n", [[1.5, 0], [0, 4]]),
    "twice": ("coordinate integer general\n2 2 3\n1 1 1\n1 1 2\n2 2 4\n", [[3, 0], [0, 4]]),
    "pattern": ("coordinate pattern symmetric\n2 2 2\n1 1\n2 1\n", [[1, 1], [1, 0]]),
    "skew": ("coordinate real skew-symmetric\n2 2 1\n2 1 3\n", [[0, -3], [3, 0]]),
    "array": ("array real general\n2 3\n1\n2\n3\n4\n5\n6\n", [[1, 3, 5], [2, 4, 6]]),
    "array, symmetric": ("array real symmetric\n2 2\n1\n2\n3\n", [[1, 2], [2, 3]]),
    "array, skew": ("array real skew-symmetric\n2 2\n2\n", [[0, -2], [2, 0]]),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", MARKET)
def test_matrix_market_agrees_with_scipy(tmp_path, name):
    text, expected = MARKET[name]
    path = write(tmp_path / "t.mtx", "%%MatrixMarket matrix " + text)
    packed = tmp_path / "t.mtx.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    got, theirs = read_table(path).X, io.mmread(path, spmatrix=False)
    for X in (got, theirs, read_table(packed).X):
        np.testing.assert_array_equal(X.toarray() if sparse.issparse(X) else X, expected)
    assert sparse.issparse(got) == sparse.issparse(theirs)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "coordinate real general\n12 4 23\n1 2 -1.32E-1\n1 4 1.05E-",  # ends SciPy's process
        "coordinate real general\n3 3 99999999999\n1 1 1\n",
        "coordinate real general\n3 3 1\n9 9 1\n",
        "coordinate real general\n-3 -3 1\n1 1 1\n",
        "coordinate real general\n2 500000000 1\n1 1 1\n",
        "array real general\n1000000000 1000000000\n1\n",
        "array complex general\n2 2\n1 2\n",
        "array real\n",
        "coordinate real general\n",
        "coordinate real symmetric\n2 3 1\n1 1 1\n",
        "coordinate real general\n2 2 2\n1.5 1 1\n2 2 3\n",
        "coordinate real symmetric\n2 2 2\n1 2 5\n2 1 5\n",
    ],
)
def test_damaged_matrix_market(tmp_path, text):
    with pytest.raises(TableError, match=r"t\.mtx"):
        read_table(write(tmp_path / "t.mtx", "%%MatrixMarket matrix " + text))


def test_array_headers_larger_than_the_file(tmp_path):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000)}"
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    raw = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    (tmp_path / "t.npy").write_bytes(raw)
    with zipfile.ZipFile(tmp_path / "t.npz", "w") as archive:
        archive.writestr("X.npy", raw)
    for name in ("t.npy", "t.npz"):
        with pytest.raises(TableError, match="but 0 bytes follow"):
            read_table(tmp_path / name)


def test_decompression_bombs(tmp_path, monkeypatch):
    for module in ("base", "matrices"):
        monkeypatch.setattr(f"prosparse.tables.{module}.MAX_UNPACKED", 10_000)
    np.savez_compressed(tmp_path / "t.npz", X=np.zeros((1000, 1000)))
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 1_000_000))
    (tmp_path / "t.mtx.gz").write_bytes(
        gzip.compress(b"%%MatrixMarket matrix array real general\n1000 1000\n" + b"0\n" * 10**6)
    )
    for name in ("t.npz", "t.csv.gz", "t.mtx.gz"):
        with pytest.raises(TableError, match="more than 200 times its size"):
            read_table(tmp_path / name)


@pytest.mark.parametrize("cell", ["-" + " " * 10**5 + "x", "1" * 10**5 + "x"])
def test_long_cells_are_searched_in_linear_time(tmp_path, cell):
    # Patterns with exponential backtracking would not end.
    rows = "".join(f"{cell}{k},{k},{k * k}\n" for k in range(5))
    table = read_table(write(tmp_path / "t.csv", f"id,a,b\n{rows}"))
    assert table.names == ["a", "b"]
    assert escape_formula(f"-{'1' * 10**5}x").startswith("'-")


@pytest.mark.parametrize(
    "raw", [b"id,k\n" + b"r1,u\n" * 10**4 + b"r2,\xff\n", b'id,k\nr1,"u\n' + b"r2,v\n" * 10**5]
)
def test_damaged_files_of_labels(tmp_path, raw):
    path = write(tmp_path / "t.csv", text_table())
    (tmp_path / "l.csv").write_bytes(raw)
    with pytest.raises(TableError, match=r"l\.csv"):
        read_table(path, ReadOptions(labels=str(tmp_path / "l.csv")))


def test_unknown_column_in_drop(tmp_path):
    path = write(tmp_path / "t.csv", text_table())
    with pytest.raises(TableError, match="there is no column 'nothing'"):
        read_table(path, ReadOptions(ignore=("text,nothing",)))


def test_invalid_sparse_positions(tmp_path):
    S = sparse.csr_array(np.eye(3))
    sparse.save_npz(tmp_path / "t.npz", S)
    with np.load(tmp_path / "t.npz") as archive:
        parts = dict(archive)
    for change in ({"indices": np.array([0, 1, 70])}, {"indptr": np.array([0, 9, 2, 3])},
                   {"shape": np.array([10**9, 10**9])}, {"format": np.array(b"xyz")}):  # fmt: skip
        np.savez(tmp_path / "t.npz", **(parts | change))
        with pytest.raises(TableError, match=r"t\.npz"):
            read_table(tmp_path / "t.npz")


def test_damaged_text_in_arrow_files(tmp_path):
    """Invalid offsets, invalid characters and truncated files."""
    with ipc.new_file(tmp_path / "t.arrow", arrow_table().schema) as writer:
        writer.write_table(arrow_table())
    raw = (tmp_path / "t.arrow").read_bytes()
    ids = raw.index(b"r1r2r3")
    offsets = raw.index(np.array([0, 2, 4, 6], dtype="<i4").tobytes())
    damage = (
        raw[:ids] + b"\xff" + raw[ids + 1 :],
        raw[: offsets + 8] + b"\xff\xff\xff\xff" + raw[offsets + 12 :],
        raw[: len(raw) // 2],
    )
    for damaged in damage:
        (tmp_path / "t.arrow").write_bytes(damaged)
        with pytest.raises(TableError, match=r"t\.arrow"):
            read_table(tmp_path / "t.arrow")


def test_too_long_line(tmp_path, monkeypatch):
    monkeypatch.setattr("prosparse.tables.delimited.MAX_LINE_LENGTH", 1000)
    with pytest.raises(TableError, match="a line has more than 1,000 characters"):
        read_table(write(tmp_path / "t.csv", "a," * 2000))


def test_parser_errors_become_table_errors(tmp_path, monkeypatch):
    for error, printed in (
        (RuntimeError("odd"), "RuntimeError: odd"),
        (MemoryError(), "not enough"),
    ):

        def broken(path, ask, error=error):
            raise error

        monkeypatch.setitem(READERS, ".csv", broken)
        with pytest.raises(TableError, match=printed):
            read_table(write(tmp_path / "t.csv", "a,b\n"))


def test_h5ad(tmp_path):
    anndata = pytest.importorskip("anndata", reason="anndata is not installed")
    pandas = pytest.importorskip("pandas")
    data = anndata.AnnData(
        sparse.csr_matrix(np.nan_to_num(X)),
        obs=pandas.DataFrame({"kind": LABEL}, index=IDS),
        var=pandas.DataFrame(index=NAMES),
    )
    data.write_h5ad(tmp_path / "t.h5ad")
    table = read_table(tmp_path / "t.h5ad", ReadOptions(label="kind"))
    assert (table.names, table.ids, table.label) == (NAMES, IDS, LABEL)
    np.testing.assert_array_equal(table.X.toarray(), np.nan_to_num(X))
    with pytest.raises(TableError, match="no column 'sort'"):
        read_table(tmp_path / "t.h5ad", ReadOptions(label="sort"))


def h5_file(path, change):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    with h5py.File(path, "w") as file:
        change(file, h5py)
    return path


def claims_much(file, h5py):
    file.create_dataset("X", (10**6, 10**6), "f8", chunks=(1000, 1000))


def points_elsewhere(file, h5py):
    file["X"] = h5py.ExternalLink("/etc/passwd", "/")


def numbers_elsewhere(file, h5py):
    file.create_dataset("X", (4,), "u1", external=[("/etc/passwd", 0, 4)])


@pytest.mark.parametrize(
    ("change", "printed"),
    [
        (claims_much, "would decompress to 8,000,000,000,000 bytes; the limit for this file is "),
        (points_elsewhere, "link to another file"),
        (numbers_elsewhere, "in another file"),
    ],
)
def test_h5ad_with_false_sizes_or_external_links(change, printed, tmp_path):
    pytest.importorskip("anndata", reason="anndata is not installed")
    with pytest.raises(TableError, match=printed):
        read_table(h5_file(tmp_path / "t.h5ad", change))


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        ("import time; time.sleep(60)", "stopped after the limit of 1 seconds"),
        ("import os; os.abort()", "HDF5 library crashed"),
    ],
)
def test_h5ad_if_the_library_hangs_or_crashes(program, printed, tmp_path, monkeypatch):
    pytest.importorskip("anndata", reason="anndata is not installed")
    monkeypatch.setattr(limited_process, "PROGRAM", write(tmp_path / "reader_process.py", program))
    if "sleep" in program:
        monkeypatch.setattr(limited_process, "MIN_SECONDS", 1.0)
    with pytest.raises(TableError, match=printed):
        read_table(write(tmp_path / "t.h5ad", "x"))


def test_h5ad_without_anndata(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "anndata", None)
    with pytest.raises(TableError, match=r"pip install 'prosparse\[anndata\]'"):
        read_table(write(tmp_path / "t.h5ad", "x"))


def test_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(TableError, match=r"pip install 'prosparse\[cli\]'"):
        read_table(write(tmp_path / "t.csv", "a,b\n1,2\n3,4\n"))


def test_transpose(tmp_path):
    path = write(tmp_path / "t.csv", text_table())
    table = read_table(path, ReadOptions(transpose=True))
    np.testing.assert_array_equal(table.X, X.T)
    assert (table.names, table.ids) == (IDS, NAMES)
    twice = write(tmp_path / "d.csv", ",a,b\nx,1,2\nx,3,4\n")
    table = read_table(twice, ReadOptions(transpose=True))
    assert table.names == ["x", "x.2"]
    assert any("2 rows have the name 'x'" in note for note in table.notes)


NUMBERS = st.floats(allow_nan=True, allow_infinity=False)
TEXT = st.text(string.ascii_letters + string.digits + " ,;|\t'éß😀<>&", min_size=1, max_size=8)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rows=st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), min_size=2, max_size=6),
    names=st.lists(TEXT.map(str.strip).filter(bool), min_size=3, max_size=3, unique=True),
    style=st.sampled_from([(",", "."), (";", ","), (";", "."), ("\t", ".")]),
)
@example(rows=[(1.0, 2.0, 3.0)] * 2, names=["a", "b;c", "d"], style=(",", "."))
def test_round_trip_of_arbitrary_numbers_and_names(rows, names, style, tmp_path_factory):
    """Files of Python's csv module are read without loss."""
    import csv

    separator, decimal = style
    path = tmp_path_factory.mktemp("any") / "t.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=separator, quoting=csv.QUOTE_ALL)
        writer.writerow(names)
        writer.writerows([[cell(v, decimal) for v in row] for row in rows])
    table = read_table(path, ReadOptions(separator=separator))
    assert table.names == names
    if not (decimal == "," and not any("." in cell(v) for row in rows for v in row)):
        np.testing.assert_array_equal(table.X, rows)


# --- decimal marks and headers


@pytest.mark.parametrize(
    "thousand", ["1.234", '"1.234"', " 1.000", "-2.000.000"], ids=["plain", "quoted", "space", "-"]
)
def test_thousands_separators_below_the_sample(tmp_path, thousand):
    """The sample contains no number with a mark."""
    rows = [f"{k % 900};{k % 7}" for k in range(300)]
    path = write(tmp_path / "t.csv", "\n".join(["a;b", *rows, f"{thousand};5", "2.345;6"]))
    with pytest.raises(TableError, match=r"line 302.*with a thousands separator, or|not a numb"):
        read_table(path)
    late = write(tmp_path / "late.csv", "\n".join(["a;b", *rows, "1.234;5", "0.5;6"]))
    assert read_table(late).X[300, 0] == 1.234  # the last row settles it


def test_other_columns_do_not_resolve_the_ambiguity(tmp_path):
    path = write(tmp_path / "t.csv", "v;n;m\n0.5;1.234;5\n0.7;234;6\n0.9;2.345;9\n")
    with pytest.raises(TableError, match=r"'1\.234' is ambiguous: 1234 with a thousands separator"):
        read_table(path, ReadOptions(ignore=("v",)))
    text = "v;n;m\n1.2;1,5;2\n1.3;2,5;4\n1.4;2,5;9\n"
    table = read_table(write(tmp_path / "t.csv", text), ReadOptions(ignore=("v",)))
    np.testing.assert_array_equal(table.X, [[1.5, 2], [2.5, 4], [2.5, 9]])


def test_note_on_possible_thousands_separators(tmp_path):
    path = write(tmp_path / "t.tsv", "s\ta\tb\nu\t52,000\t1\nv\t61,500\t2\nw\t48,250\t7\n")
    table = read_table(path)
    assert table.X[1, 0] == 61.5
    assert any("'a': every comma precedes three digits" in note for note in table.notes)
    assert not any("three digits" in n for n in read_table(path, ReadOptions(decimal=",")).notes)
    settled = write(tmp_path / "t.tsv", "a\tb\n52,000\t0,5\n61,500\t2\n")
    assert not any("three digits" in note for note in read_table(settled).notes)


def test_error_contains_the_row_of_wrong_length(tmp_path):
    text = "a,b,c\n1,2,3,4\n5,6,7\n8,9,1\n2,2,5\n"
    with pytest.raises(TableError, match="line 2: the line has 4 cells, but the header has 3"):
        read_table(write(tmp_path / "t.csv", text))
    text = '"a","b"\n"1",1.5,2\n"2",3,4\n"3",4\n'  # as R's write.table leaves the row names
    with pytest.raises(
        TableError, match=r"line 4: the line has 2 cells, but most rows have 3, one more"
    ):
        read_table(write(tmp_path / "t.csv", text))


@pytest.mark.parametrize(
    ("cell", "advice", "misleading"),
    [
        ("-", "leave the cell empty or write NA", "thousands"),
        (".", "leave the cell empty or write NA", "thousands"),
        ("2020-01-01", "--label 'a'", "thousands"),
        ("1,5", "semicolons or tabs between the columns", "--decimal"),
    ],
)
def test_remedies_for_non_numeric_cells(tmp_path, cell, advice, misleading):
    with pytest.raises(TableError) as caught:
        read_table(write(tmp_path / "t.csv", f'a,b\n1,2\n"{cell}",2\n3,4\n'))
    assert advice in str(caught.value)
    assert misleading not in str(caught.value)


def test_space_before_a_quotation_mark(tmp_path):
    path = write(tmp_path / "t.csv", '"a", "b, c", "d"\n"1", "2", 3\n4, 5, "7"\n')
    table = read_table(path)
    assert table.names == ["a", "b, c", "d"]
    np.testing.assert_array_equal(table.X, [[1, 2, 3], [4, 5, 7]])


def test_note_on_variables_without_a_name(tmp_path):
    table = read_table(write(tmp_path / "t.csv", ",,a,b\nu,1,2,3\nu,2,5,7\nv,1,3,9\n"))
    assert table.names == ["column 2", "a", "b"]
    assert any("column 2 has no name and is used as a variable" in n for n in table.notes)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8"])
def test_truncated_text(tmp_path, encoding):
    text = "n,a,b\n" + "".join(f"r{k},{k},2\n" for k in range(20)) + "\u00e9"
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode(encoding)[:-1])
    with pytest.raises(TableError, match="line 22: the file ends within a character"):
        read_table(path)


def test_line_of_an_invalid_byte_in_utf_16(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(
        "n,a,b\nr,1,2\ns,1,".encode("utf-16") + b"\x00\xdc" + "2\n".encode("utf-16-le")
    )
    with pytest.raises(TableError, match="line 3, column 3: the text is not valid utf-16"):
        read_table(path)


def test_too_many_empty_lines(tmp_path, monkeypatch):
    monkeypatch.setattr("prosparse.tables.delimited.MAX_BLANK_LINES", 1000)
    path = write(tmp_path / "t.csv", "a,b\n" + "\n" * 1001 + "1,2\n3,4\n")
    with pytest.raises(TableError, match="more than 1,000 of the first lines are empty"):
        read_table(path)
    assert read_table(write(path, "a,b\n" + "\n" * 900 + "1,2\n3,4\n")).X.shape == (2, 2)


@pytest.mark.parametrize(
    "ask", [ReadOptions(separator="ab"), ReadOptions(separator=""), ReadOptions(decimal="x")]
)
def test_invalid_separator_and_decimal_mark(tmp_path, ask):
    path = write(tmp_path / "t.csv", "a,b\n1,2\n3,5\n")
    if ask.separator == "":
        assert read_table(path, ask).X.shape == (2, 2)  # nothing is printed
    else:
        with pytest.raises(TableError, match="the separator must be one character"):
            read_table(path, ask)


def test_binary_files_have_no_separator(tmp_path):
    np.save(tmp_path / "t.npy", np.zeros((3, 1)))
    with pytest.raises(TableError, match="at least 2 are needed") as caught:
        read_table(tmp_path / "t.npy")
    assert "--separator" not in str(caught.value)


@pytest.mark.parametrize("kind", ["npz", "h5ad"])
def test_duplicate_sparse_entries_are_summed(tmp_path, kind):
    """log(1 + x) of a sum is not the sum of the logarithms."""
    parts = sparse.csr_matrix((np.array([1.0, 2, 4, 5]), [0, 0, 1, 1], [0, 2, 4]), shape=(2, 2))
    path = tmp_path / f"t.{kind}"
    if kind == "npz":
        sparse.save_npz(path, parts)
    else:
        pytest.importorskip("anndata").AnnData(X=parts).write_h5ad(path)
    table = read_table(path)
    assert table.X.nnz == 2
    logarithms = prepare_table(table, log1p=True).X.toarray()
    np.testing.assert_allclose(logarithms, np.log1p([[3, 0], [0, 9]]))
