"""Columns that number or identify the rows."""

import json

import numpy as np
import pytest

from prosparse import TableError
from prosparse.tables import ReadOptions, read_table
from prosparse.tables.identifiers import describe_identifier

pytest.importorskip("pyarrow")
pandas = pytest.importorskip("pandas")

ROWS = 300  # more than are looked at before a text file is read
VALUES = np.random.default_rng(0).normal(size=(ROWS, 3))


def frame(**columns):
    """Return other columns followed by three variables."""
    table = pandas.DataFrame(columns)
    for k, name in enumerate("abc"):
        table[name] = VALUES[:, k]
    return table


def written(table, folder, kind, index=False):
    """Write a table in the given format."""
    path = folder / f"t.{kind}"
    if kind == "csv":
        table.to_csv(path, index=index)
    elif kind == "parquet":
        table.to_parquet(path, index=index or None)
    elif kind == "feather":
        table.to_feather(path)
    else:
        np.savez(path, X=table.to_numpy(), names=np.array(table.columns, dtype=str))
    return path


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("id", np.arange(1, ROWS + 1)),
        ("ID", np.arange(ROWS)),
        ("index", np.arange(1, ROWS + 1)[::-1]),
        ("Unnamed: 0", np.arange(ROWS)),
        ("row", np.arange(1, ROWS + 1)),
        ("sample_id", 17 + np.arange(ROWS)),
        ("PatientID", 10_000 + 7 * np.arange(ROWS)),
        ("customerid", 3 * np.arange(ROWS)[::-1]),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "parquet", "feather", "npz"])
def test_row_numbers_are_not_variables(tmp_path, kind, name, values):
    path = written(frame(**{name: values}), tmp_path, kind)
    table = read_table(path)
    assert table.names == ["a", "b", "c"]
    np.testing.assert_allclose(table.X, VALUES, rtol=1e-15)
    assert table.ids == [str(v) for v in values]
    assert table.identifiers == (name,)
    (note,) = (n for n in table.notes if f"--as-variable {name!r}" in n)
    assert "provides the row names" in note
    kept = read_table(path, ReadOptions(as_variables=(name,)))
    assert kept.names == [name, "a", "b", "c"]
    assert kept.ids is None
    np.testing.assert_array_equal(kept.X[:, 0], values)
    assert read_table(path, ReadOptions(ignore=(name,))).ids is None


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("a_count", np.arange(ROWS)),  # not a name of identifiers
        ("row", 2 * np.arange(ROWS)),  # not one after the other
        ("id", np.arange(ROWS) // 2),  # not different
        ("id", np.append(np.arange(ROWS - 1), 5)),  # not different, far down
        ("index", np.append(np.arange(ROWS - 1), ROWS + 10)),
        ("id", np.arange(ROWS) + 0.5),
        ("ID1", np.arange(ROWS)),  # a gene
    ],
)
@pytest.mark.parametrize("kind", ["csv", "parquet", "feather", "npz"])
def test_variables_that_resemble_identifiers(tmp_path, kind, name, values):
    table = read_table(written(frame(**{name: values}), tmp_path, kind))
    assert table.names == [name, "a", "b", "c"]
    np.testing.assert_array_equal(table.X[:, 0], values)
    assert table.ids is None
    # The name of an identifier gives a note.
    assert any(f"--ignore {name!r}" in note for note in table.notes) == (name == "id")


def test_row_numbers_in_addition_to_row_names(tmp_path):
    path = written(frame(sample=[f"s{k}" for k in range(ROWS)], id=range(ROWS)), tmp_path, "csv")
    table = read_table(path)
    assert (table.names, table.ids[:2]) == (["a", "b", "c"], ["s0", "s1"])
    assert any(
        "'id' numbers the rows from 0 to 299 and is not used as a variable" in n
        for n in table.notes
    )
    assert read_table(path, ReadOptions(row_names="id", ignore=("sample",))).ids[:2] == ["0", "1"]
    assert read_table(path, ReadOptions(label="id")).label[:2] == ["0", "1"]
    twice = frame(**{"Unnamed: 0.1": range(ROWS), "Unnamed: 0": range(ROWS)})
    assert read_table(written(twice, tmp_path, "csv")).names == ["a", "b", "c"]


@pytest.mark.parametrize("kind", ["parquet", "feather"])
@pytest.mark.parametrize(
    ("index", "ids"),
    [
        (pandas.Index(list(range(5, ROWS + 5)), name="patient_id"), "5"),
        (pandas.Index(np.arange(ROWS) // 2, name="visit"), "0"),  # an index may repeat
        (pandas.Index(np.arange(ROWS) / 2), "0.0"),
        (pandas.Index(pandas.date_range("2020-01-01", periods=ROWS), name="day"), "2020-01-01"),
        (pandas.MultiIndex.from_product([range(ROWS // 2), ["x", "y"]]), "0, x"),
        (pandas.MultiIndex.from_product([range(ROWS // 2), ["x", "y"]], names=["p", "q"]), "0, x"),
        (pandas.RangeIndex(ROWS), None),
    ],
)
def test_pandas_index(tmp_path, kind, index, ids):
    import pyarrow as pa
    from pyarrow import feather, parquet

    table = pa.Table.from_pandas(frame().set_index(index))
    path = tmp_path / f"t.{kind}"
    (parquet.write_table if kind == "parquet" else feather.write_feather)(table, path)
    read = read_table(path)
    assert read.names == ["a", "b", "c"]
    if ids is None:
        assert read.ids is None
        return
    assert read.ids[0].startswith(ids)
    assert any("contains the row names" in note and "--as-variable" in note for note in read.notes)
    if index.nlevels == 1 and index.dtype.kind in "if":
        called = index.name or "__index_level_0__"
        kept = read_table(path, ReadOptions(as_variables=(called,)))
        assert kept.names == ["a", "b", "c", called]
        np.testing.assert_array_equal(kept.X[:, 3], index)


def test_keep_first_column_without_a_name(tmp_path):
    path = written(frame(), tmp_path, "csv", index=True)
    table = read_table(path)
    assert (table.names, table.ids[:2]) == (["a", "b", "c"], ["0", "1"])
    assert any("--as-variable 'column 1'" in note for note in table.notes)
    kept = read_table(path, ReadOptions(as_variables=("column 1",)))
    assert kept.names == ["column 1", "a", "b", "c"]
    np.testing.assert_array_equal(kept.X[:, 0], range(ROWS))


def test_invalid_keep(tmp_path):
    path = written(frame(id=range(ROWS)), tmp_path, "csv")
    with pytest.raises(TableError, match="did you mean 'id'"):
        read_table(path, ReadOptions(as_variables=("idd",)))
    for ask in (ReadOptions(ignore=("id",)), ReadOptions(label="id"), ReadOptions(row_names="id")):
        with pytest.raises(TableError, match="--as-variable makes 'id' a variable"):
            read_table(path, ask._replace(as_variables=("id",)))
    (tmp_path / "two.csv").write_text("id,a\n1,0.5\n2,0.25\n3,1.5\n")
    with pytest.raises(TableError, match=r"'id' was read as an identifier; --as-variable 'id'"):
        read_table(tmp_path / "two.csv")


def test_identifiers_must_be_integers():
    assert describe_identifier("id", ["1.0", " 2 ", "3."])
    for odd in ("x", "", "1.5", "nan", None, True, float("nan"), float("inf")):
        assert describe_identifier("id", [1, 2, odd]) is None


def test_models_store_the_variables(tmp_path, monkeypatch):
    """New rows are read like those of the fit."""
    testing = pytest.importorskip("typer.testing")
    from prosparse.app.cli import app

    def run(*arguments):
        result = testing.CliRunner().invoke(app, list(arguments))
        assert result.exit_code == 0, result.output
        return result.stdout

    monkeypatch.chdir(tmp_path)
    counted = frame(id=range(1, ROWS + 1), row=np.arange(ROWS) % 7)  # row is a variable
    counted.to_csv("t.csv", index=False)
    printed = json.loads(run("select", "t.csv", "--components", "1", "--json", "--output", "o"))
    assert printed["variables"] == 4
    assert any("--as-variable 'id'" in note for note in printed["notes"])
    kept = json.loads(run("select", "t.csv", "--components", "1", "--json", "--as-variable", "id"))
    assert kept["variables"] == 5
    some = counted.iloc[[0, 1, 1, 2]]  # repeated ids do not distinguish the rows
    some.assign(id=[9, 9, 3, 4], row=[1, 2, 3, 4]).to_csv("new.csv", index=False)
    run("report", "o/model.prosparse", "--data", "new.csv", "--output", "new.html")
    run("report", "t-prosparse/model.prosparse", "--data", "new.csv", "--output", "kept.html")
