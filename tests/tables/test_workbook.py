"""Spreadsheets, which are read like CSV files."""

import sys
import zipfile

import numpy as np
import pytest

from prosparse import TableError
from prosparse.tables import ReadOptions, limited_process, read_table, reader_process
from prosparse.tables.base import make_unique
from workbooks import xlsx

pytestmark = pytest.mark.quick

X = np.array([[1.5, -2.0, 3.0], [0.1, 1e-7, 4e5], [7.0, 8.0, np.nan]])
ROWS = [
    ["name", "a", "b", "c"],
    *([f"r{k}", *(None if np.isnan(v) else float(v) for v in row)] for k, row in enumerate(X, 1)),
]


def ods(path, rows):
    """Write a spreadsheet of one sheet in the format of LibreOffice."""

    def cell(value):
        if value is None:
            return "<table:table-cell/>"
        if isinstance(value, str):
            kind = 'office:value-type="string"'
        else:
            kind = f'office:value-type="float" office:value="{value!r}"'
        return f"<table:table-cell {kind}><text:p>{value}</text:p></table:table-cell>"

    space = "urn:oasis:names:tc:opendocument:xmlns"
    body = "".join(f"<table:table-row>{''.join(map(cell, row))}</table:table-row>" for row in rows)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr(
            "content.xml",
            f'<office:document-content xmlns:office="{space}:office:1.0" '
            f'xmlns:table="{space}:table:1.0" xmlns:text="{space}:text:1.0"><office:body>'
            f'<office:spreadsheet><table:table table:name="S">{body}</table:table>'
            "</office:spreadsheet></office:body></office:document-content>",
        )
        archive.writestr(
            "META-INF/manifest.xml",
            f'<manifest:manifest xmlns:manifest="{space}:manifest:1.0"/>',
        )
    return path


def text_of(table):
    return " | ".join(table.notes)


@pytest.fixture(autouse=True)
def reader(request):
    if "without" not in request.node.name:
        pytest.importorskip("python_calamine", reason="python-calamine is not installed")


@pytest.mark.parametrize("kind", ["xlsx", "ods"])
def test_spreadsheet_equals_csv(tmp_path, kind):
    path = tmp_path / f"t.{kind}"
    _ = xlsx(path, {"Data": ROWS}) if kind == "xlsx" else ods(path, ROWS)
    table = read_table(path)
    np.testing.assert_array_equal(table.X, X)
    assert (table.names, table.ids) == (["a", "b", "c"], ["r1", "r2", "r3"])
    assert "the first column, 'name', contains the row names" in text_of(table)


def test_titles_empty_rows_and_columns(tmp_path):
    moved = [[None, *row] for row in ROWS]
    rows = [[None, "Blood of 2024"], [], [None, None, "fasting"], *moved[:2], [], *moved[2:], []]
    table = read_table(xlsx(tmp_path / "t.xlsx", {"Data": rows}, merged=["B1:E1"]))
    np.testing.assert_array_equal(table.X, X)
    assert table.names == ["a", "b", "c"]
    assert "skipped 2 lines above the column names: 'Blood of 2024'" in text_of(table)


def test_dates_percentages_booleans_and_errors(tmp_path):
    rows = [["day", "share", "yes", "level", "wrong"]]
    rows += [[(45292 + k,), (0.12 * k, "%"), bool(k % 2), k / 3, "#DIV/0!"] for k in range(4)]
    path = xlsx(tmp_path / "t.xlsx", {"Data": rows})
    with pytest.raises(TableError, match=r"line 2, column 1 \('day'\): '2024-01-01' is not a"):
        read_table(path, ReadOptions(as_variables=("day",)))
    table = read_table(path, ReadOptions(ignore=("text",), row_names="day"))
    assert table.ids == ["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04"]
    np.testing.assert_array_equal(table.X[:, 0], [0.12 * k for k in range(4)])
    np.testing.assert_array_equal(table.X[:, 1], [0, 1, 0, 1])
    np.testing.assert_array_equal(table.X[:, 2], np.arange(4) / 3)
    assert np.isnan(table.X[:, 3]).all()


def test_sheet_selection(tmp_path):
    other = [["x", "y"], [1, 2], [3, 5]]
    path = xlsx(tmp_path / "t.xlsx", {"Notes": [], "Data": ROWS, "More": other})
    table = read_table(path)
    assert table.names == ["a", "b", "c"]
    assert "sheet 'Data' was read; use --sheet for another one ('Notes', 'More')" in text_of(table)
    assert read_table(path, ReadOptions(sheet="More")).names == ["x", "y"]
    assert read_table(path, ReadOptions(sheet="3")).names == ["x", "y"]
    with pytest.raises(
        TableError, match="no sheet 'Dat'; available sheets: 'Notes', 'Data', 'More'"
    ):
        read_table(path, ReadOptions(sheet="Dat"))
    with pytest.raises(TableError, match="sheet 'Notes' is empty"):
        read_table(path, ReadOptions(sheet="Notes"))
    with pytest.raises(TableError, match="all sheets are empty"):
        read_table(xlsx(tmp_path / "e.xlsx", {"Notes": []}))


def test_merged_cells_of_a_group(tmp_path):
    rows = [["donor", "a", "b"], ["d1", 1, 2], [None, 3, 5], ["d2", 4, 4], [None, 0, 1]]
    path = xlsx(tmp_path / "t.xlsx", {"Data": rows}, merged=["A2:A3", "A4:A5"])
    table = read_table(path, ReadOptions(groups="donor"))
    assert table.groups == ["d1", "d1", "d2", "d2"]
    assert "2 merged cells were filled with the text of the first cell" in text_of(table)


def test_text_and_labels(tmp_path):
    rows = [[*row, word] for row, word in zip(ROWS, ["kind", "u", "v", "u"], strict=True)]
    path = xlsx(tmp_path / "t.xlsx", {"Data": rows})
    with pytest.raises(TableError, match=r"line 2, column 5 \('kind'\): 'u' is not a number"):
        read_table(path)
    assert read_table(path, ReadOptions(label="kind")).label == ["u", "v", "u"]
    rows = [["gene", "s1", "s2", "s3"], ["class", "u", "v", "u"], ["g1", 1, 2, 3], ["g2", 4, 5, 6]]
    path = xlsx(tmp_path / "g.xlsx", {"Data": rows})
    table = read_table(path, ReadOptions(transpose=True, label="class"))
    assert (table.names, table.label) == (["g1", "g2"], ["u", "v", "u"])
    labels = xlsx(tmp_path / "l.xlsx", {"L": [["n", "k"], ["s2", "b"], ["s1", "a"], ["s3", "a"]]})
    table = read_table(path, ReadOptions(transpose=True, labels=str(labels), ignore=("class",)))
    assert table.label == ["a", "b", "a"]


def test_numbers_stored_as_text_with_commas(tmp_path):
    rows = [["a", "b"], ["1,5", 2], ["2,5", 3]]
    with pytest.raises(TableError, match=r"'1,5' is not a number. The cell is stored as text"):
        read_table(xlsx(tmp_path / "t.xlsx", {"Data": rows}), ReadOptions(as_variables=("a",)))


def test_invalid_spreadsheets(tmp_path):
    for ending in ("xlsx", "ods", "xls"):
        path = tmp_path / f"t.{ending}"
        path.write_text("no spreadsheet at all")
        with pytest.raises(TableError, match=rf"t.{ending}: invalid spreadsheet"):
            read_table(path)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("import time; time.sleep(60)", "stopped after the limit of 1 seconds.*save it as CSV"),
        ("import os; os.abort()", "python-calamine crashed"),
    ],
)
def test_spreadsheets_if_the_library_hangs_or_crashes(tmp_path, monkeypatch, program, message):
    (tmp_path / "reader_process.py").write_text(program)
    monkeypatch.setattr(limited_process, "PROGRAM", tmp_path / "reader_process.py")
    monkeypatch.setattr(limited_process, "MIN_SECONDS", 1.0)
    with pytest.raises(TableError, match=message):
        read_table(xlsx(tmp_path / "t.xlsx", {"Data": ROWS}))


def test_messages_for_developers_are_not_shown(tmp_path, monkeypatch, capfd):
    program = (
        "import sys\n"
        "sys.stderr.write('thread panicked at src/lib.rs\\nstack backtrace:\\n')\n"
        "raise BaseException('called `Option::unwrap()` on a `None` value')"
    )
    (tmp_path / "reader_process.py").write_text(program)
    monkeypatch.setattr(limited_process, "PROGRAM", tmp_path / "reader_process.py")
    with pytest.raises(TableError, match=r"t.xlsx: invalid spreadsheet \(python-calamine crash"):
        read_table(xlsx(tmp_path / "t.xlsx", {"Data": ROWS}))
    assert capfd.readouterr() == ("", "")


def test_structures_of_rust_are_not_shown(tmp_path):
    path = ods(tmp_path / "t.ods", ROWS)
    replace(path, "content.xml", "<table:table-row>", "<table:table-row><wrong/>")
    with pytest.raises(TableError, match="invalid spreadsheet") as refused:
        read_table(path)
    assert not any(word in str(refused.value) for word in ("Bytes", "Borrowed", "{"))


def replace(path, member, old, new):
    """Change the text of one file in an archive."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    assert old in parts[member]
    parts[member] = parts[member].replace(old, new)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)


linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory")
TOO_MUCH = r"t.xlsx: reading stopped at the memory limit of 1.0 GiB.*save it as CSV"


@linux
@pytest.mark.parametrize(
    "cell",
    [
        '<c r="XFD6000"><v>1</v></c>',
        "<c r='XFD6000'><v>1</v></c>",
        '<c r = "XFD6000" ><v>1</v></c>',
        '<c r="xfd6000"><v>1</v></c>',
        '<c r="XFD0006000"><v>1</v></c>',
    ],
)
def test_distant_cell_exceeds_the_memory_limit(tmp_path, cell):
    extra = f'<row r="6000">{cell}</row>'
    path = xlsx(tmp_path / "t.xlsx", {"Data": ROWS}, extra=extra)
    with pytest.raises(TableError, match=TOO_MUCH):
        read_table(path)


@pytest.mark.slow
@linux
def test_long_text_in_many_cells_exceeds_the_memory_limit(tmp_path):
    rows = "".join(f'<row r="{k}"><c r="A{k}" t="s"><v>0</v></c></row>' for k in range(5, 3000))
    path = xlsx(tmp_path / "t.xlsx", {"Data": ROWS}, extra=rows)
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/sharedStrings"
    shared = f'<Relationship Id="t" Type="{kind}" Target="sharedStrings.xml"/></Relationships>'
    with zipfile.ZipFile(path, "a") as archive:
        main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
        text = "a" * 10**6
        archive.writestr(
            "xl/sharedStrings.xml", f'<sst xmlns="{main}"><si><t>{text}</t></si></sst>'
        )
    replace(path, "xl/_rels/workbook.xml.rels", "</Relationships>", shared)
    with pytest.raises(TableError, match=TOO_MUCH):
        read_table(path)


@linux
def test_output_of_the_child_process_is_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(limited_process, "MAX_OUTPUT", 1e-9)
    with pytest.raises(TableError, match=TOO_MUCH):
        read_table(xlsx(tmp_path / "t.xlsx", {"Data": ROWS}))


def test_systems_without_resource_limits(monkeypatch):
    monkeypatch.setitem(sys.modules, "resource", None)  # as on Windows
    assert reader_process.limit_resources(1, 0.0) is None


def test_numbering_of_repeated_names_is_linear():
    asked = 0

    class Name(str):
        __slots__ = ()

        def __format__(self, how):
            nonlocal asked
            asked += 1
            return str(self)

    numbered = [f"a.{k}" for k in range(2, 1000)]
    names, _ = make_unique([*numbered, *(Name("a") for _ in range(1000))])
    assert names[-1] == "a.1998"
    assert asked < 5000


@pytest.mark.parametrize("merged", ["H2:H3", "A20:A30", "B3:B9", "A1:A99"])
def test_empty_merged_cells_and_those_beyond_the_table(tmp_path, merged):
    rows = [[None, "a", "b"], [None, 1.5, 2], [None, None, 3], [None, 4, 0]]
    table = read_table(xlsx(tmp_path / "t.xlsx", {"Data": rows}, merged=[merged]))
    np.testing.assert_array_equal(table.X, [[1.5, 2], [np.nan, 3], [4, 0]])
    assert "merged" not in text_of(table)


def test_merged_cells_that_end_below_the_table(tmp_path):
    rows = [["donor", "a", "b"], ["d1", 1, 2], ["d2", 3, 5], [None, 4, 4]]
    path = xlsx(tmp_path / "t.xlsx", {"Data": rows}, merged=["A3:A9"])
    assert read_table(path, ReadOptions(groups="donor")).groups == ["d1", "d2", "d2"]


def test_formulas_without_a_stored_value(tmp_path):
    rows = [["a", "b"], [1, 2], [3, 5]]
    cells = (
        '<c r="A4"><f>A2</f></c><c r="B4"><f>1</f><v/></c>',
        '<c r="A5"><f>A2</f><v>9</v></c><c r="B5"><f>1</f><v></v></c>',
    )
    extra = "".join(f'<row r="{k}">{row}</row>' for k, row in enumerate(cells, 4))
    table = read_table(xlsx(tmp_path / "t.xlsx", {"Data": rows}, extra=extra))
    assert np.isnan(table.X[-1, 1])
    assert "contains 3 formulas without a stored value, read as missing" in text_of(table)
    empty = '<row r="4"><c r="A4"><v>1</v></c><c r="B4" t="str"><f>IF(1,"")</f><v></v></c></row>'
    table = read_table(xlsx(tmp_path / "s.xlsx", {"Data": rows}, extra=empty))
    assert "formula" not in text_of(table)


def test_formulas_without_a_stored_value_in_labels(tmp_path):
    (tmp_path / "t.csv").write_text("id,a,b\ns1,1,2\ns2,3,4\n")
    extra = '<row r="3"><c r="A3" t="inlineStr"><is><t>s2</t></is></c><c r="B3"><f>1</f></c></row>'
    path = xlsx(tmp_path / "l.xlsx", {"L": [["id", "k"], ["s1", "u"]]}, extra=extra)
    table = read_table(tmp_path / "t.csv", ReadOptions(labels=str(path)))
    assert table.label == ["u", ""]
    assert "l.xlsx: the file contains 1 formula without a stored value" in text_of(table)


def test_without_python_calamine(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    path = xlsx(tmp_path / "t.xlsx", {"Data": ROWS})
    with pytest.raises(TableError, match=r"python_calamine.*pip install 'prosparse\[excel\]'"):
        read_table(path)
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,4\n")
    with pytest.raises(TableError, match=r"pip install 'prosparse\[excel\]'"):
        read_table(tmp_path / "t.csv", ReadOptions(labels=str(path)))
