"""Titles, repeated names, text, labels and orientation of tables."""

import numpy as np
import pytest

from prosparse import TableError
from prosparse.tables import ReadOptions, read_table
from prosparse.tables.decimal_marks import replace_decimal_commas

pa = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

pytestmark = pytest.mark.quick

X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 10.0]])


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def text_of(table):
    return " | ".join(table.notes)


# --- titles


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize(
    ("above", "lines"),
    [
        ("My table\n", 1),
        ("# made by x\n", 1),
        ("My table{s}{s}\n\n", 1),
        ("Blood{s}{s}\nmeasured in 2024\n{s}{s}\n", 2),
    ],
)
def test_titles_are_skipped_with_a_note(tmp_path, above, lines, separator):
    text = above.replace("{s}", separator) + "a,b,c\n1,2,3\n4,5,6\n7,8,10\n".replace(",", separator)
    table = read_table(write(tmp_path / "t.csv", text))
    assert table.names == ["a", "b", "c"]
    np.testing.assert_array_equal(table.X, X)
    assert f"skipped {lines} line{'s' * (lines > 1)} above the column names" in text_of(table)


@pytest.mark.parametrize(
    "text",
    [
        ",,c,d\n1,2,3,4\n5,6,7,8\n",  # a header with few names is no title
        "x\ty\n1\t2\n3\t4\n",
        "2019,2020,2021\n1,2,3\n4,5,6\n",
    ],
)
def test_no_title(tmp_path, text):
    path = tmp_path / ("t.tsv" if "\t" in text else "t.csv")
    assert "skipped" not in text_of(read_table(write(path, text)))


def test_title_without_names(tmp_path):
    with pytest.raises(TableError, match=r"line 1: the header has.*Remove titles"):
        read_table(write(tmp_path / "t.csv", "My table\n1,2,3\n4,5,6\n7,8,10\n"))


# --- repeated names


def test_repeated_names_are_numbered_with_a_note(tmp_path):
    table = read_table(write(tmp_path / "t.csv", "a,b,a,a,a.2\n1,2,3,4,5\n6,7,8,9,1\n"))
    assert table.names == ["a", "b", "a.3", "a.4", "a.2"]
    assert "3 columns have the name 'a'" in text_of(table)
    columns = [pa.array(column) for column in X.T]
    parquet.write_table(pa.table(columns, names=["a", "b", "a"]), tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    assert table.names == ["a", "b", "a.2"]
    np.testing.assert_array_equal(table.X, X)
    assert "2 columns have the name 'a'" in text_of(table)
    np.savez(tmp_path / "t.npz", X=X, names=["a", "b", "a"])
    assert read_table(tmp_path / "t.npz").names == ["a", "b", "a.2"]


# --- text


TEXT = "a,city,b,sex,conc\n1,Rome,2,m,3\n4,Bonn,5,f,<0.1\n7,Rome,8,m,10\n"


def test_error_contains_all_non_numeric_columns(tmp_path):
    path = write(tmp_path / "t.csv", TEXT)
    with pytest.raises(TableError) as refused:
        read_table(path)
    for word in (
        "3 non-numeric columns",
        "'city' ('Rome')",
        "'sex' ('m')",
        "'conc' (1 of 3 cells, such as '<0.1' in line 3)",
        "--ignore text",
    ):
        assert word in str(refused.value)


def test_drop_text(tmp_path):
    path = write(tmp_path / "t.csv", TEXT)
    table = read_table(path, ReadOptions(ignore=("text",)))
    assert table.names == ["a", "b"]
    assert "dropped 3 non-numeric columns: 'city'" in text_of(table)
    table = read_table(path, ReadOptions(ignore=("text",), label="city"))
    assert (table.names, table.label) == (["a", "b"], ["Rome", "Bonn", "Rome"])
    with pytest.raises(TableError, match="1 can be variables"):
        read_table(path, ReadOptions(ignore=("text, a",)))


def test_drop_names_separated_by_commas(tmp_path):
    path = write(tmp_path / "t.csv", TEXT)
    assert read_table(path, ReadOptions(ignore=("city,sex, conc",))).names == ["a", "b"]
    with pytest.raises(TableError, match="no column 'sax'; did you mean 'sex'"):
        read_table(path, ReadOptions(ignore=("city,sax",)))


def test_drop_text_includes_a_column_named_text(tmp_path):
    path = write(tmp_path / "t.csv", "a,text,b,c\n1,5,2,y\n3,6,4,z\n")
    assert read_table(path, ReadOptions(ignore=("text",))).names == ["a", "b"]


def test_text_in_parquet(tmp_path):
    columns = {"a": [1, 2], "k": ["x", "y"], "b": [3.0, 4.0], "m": ["u", "v"]}
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    with pytest.raises(TableError, match=r"2 non-numeric columns: 'k' \(string\) and 'm'"):
        read_table(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet", ReadOptions(ignore=("text",)))
    assert table.names == ["a", "b"]
    assert "dropped 2 non-numeric columns: 'k' (string) and 'm' (string)" in text_of(table)


def test_line_of_units(tmp_path):
    table = read_table(write(tmp_path / "t.csv", "a,b\nmg,kg\n1,2\n3,4\n"))
    assert table.X.tolist() == [[1, 2], [3, 4]]
    assert "line 2 contains units and was skipped: 'mg', 'kg'" in text_of(table)
    other = write(tmp_path / "u.csv", "a,b\nliver,kidney\n1,2\n3,4\n")
    with pytest.raises(TableError, match=r"line 2: no cell is a number: 'liver', .*--skip-lines 2"):
        read_table(other)
    assert read_table(other, ReadOptions(skip_lines=(2,))).X.tolist() == [[1, 2], [3, 4]]


def test_unknown_code_for_missing_values(tmp_path):
    with pytest.raises(TableError, match=r"also in 1 more column.*missing value"):
        read_table(write(tmp_path / "t.csv", "a,b\n1,-\n-,2\n3,4\n"))


# --- percentages and dates


def test_percentages_become_proportions(tmp_path):
    path = write(tmp_path / "t.csv", "a;b;c\n12,5%;1;5%\nNA;2; 7 %\n3%;3;9%\n")
    table = read_table(path)
    np.testing.assert_allclose(table.X, [[0.125, 1, 0.05], [np.nan, 2, 0.07], [0.03, 3, 0.09]])
    assert (
        "column 'a' and 1 more column: percentages were converted to proportions ('12,5%' is 0.125)"
        in text_of(table)
    )


@pytest.mark.parametrize(("first", "second"), [("12%", "3"), ("3", "12%")])
def test_mixed_percentages_and_numbers(tmp_path, first, second):
    path = write(tmp_path / "t.csv", f"a,b\n{first},1\n{second},2\n")
    with pytest.raises(
        TableError, match=r"line 3, column 1 \('a'\).*Write all values of the column in the same"
    ):
        read_table(path)


def test_note_on_names_converted_to_dates(tmp_path):
    genes = ["TP53", "BRCA1", "2-Sep", "MYC", "EGFR", "KRAS"]
    lines = [",".join(genes), *(",".join(str(k * j) for j in range(1, 7)) for k in range(1, 4))]
    assert "1 of the 6 names are dates ('2-Sep')" in text_of(
        read_table(write(tmp_path / "t.csv", "\n".join(lines)))
    )
    days = ["2024-01-01", "2024-01-02", "2024-01-03"]
    lines = ["day,a,b", *(f"{day},{k},{k * k}" for k, day in enumerate(days))]
    assert "dates" not in text_of(read_table(write(tmp_path / "d.csv", "\n".join(lines))))


# --- inexact integers


@pytest.mark.parametrize("rows", [2, 300])
def test_inexact_integers_in_text(tmp_path, rows):
    lines = "".join(f"{k},{9007199254740993 + 2 * k}\n" for k in range(rows))
    path = write(tmp_path / "t.csv", "a,code\n" + lines)
    with pytest.raises(TableError, match=r"line 2, column 2 \('code'\): 9007199254740993 exceeds"):
        read_table(path)
    exact = write(tmp_path / "e.csv", "a,b\n1,18014398509481984\n2,3.5e20\n")
    assert read_table(exact).X[0, 1] == 2.0**54


# --- variables in rows


GENES = "gene,GSM1,GSM2,GSM3,GSM4\n" + "".join(f"G{k},{k},2,3,{k * k}\n" for k in range(25))


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        (
            GENES,
            ["the name 'gene'", "like samples, such as 'GSM1'", "more rows (25) than col"],
        ),
        (GENES.replace("gene", "Gene_Symbol").replace("GSM", "x"), ["the name 'Gene_Symbol'"]),
        (GENES.replace("gene", "").replace("GSM", "Patient "), ["samples, such as 'Patient 1'"]),
        (GENES.replace("gene", "").replace("GSM", "TCGA-A1-"), ["samples, such as 'TCGA-A1-1'"]),
        (GENES.replace("gene", "").replace("GSM", "x").replace("\nG", "\nENSG0000000"), ["genes"]),
    ],
)
def test_note_on_variables_in_rows(tmp_path, text, arguments):
    table = read_table(write(tmp_path / "t.csv", text))
    for word in [*arguments, "use --transpose"]:
        assert word in text_of(table)
    assert "may be variables" not in text_of(
        read_table(tmp_path / "t.csv", ReadOptions(transpose=True))
    )


@pytest.mark.parametrize(
    "head", ["id,age,bmi,bp,s1", "sample,s1,s2,s3,s4", "name,x0,x1,x2,x3", "patient,a,b,c,d"]
)
def test_no_note_on_samples_in_rows(tmp_path, head):
    text = head + "\n" + "".join(f"p{k},{k},2,3,{k * k}\n" for k in range(25))
    assert "may be variables" not in text_of(read_table(write(tmp_path / "t.csv", text)))


def test_note_on_wrong_transposition(tmp_path):
    text = "sample,ENSG0000001,ENSG0000002,ENSG0000003,ENSG0000004\n"
    text += "".join(f"GSM{k},{k},2,3,{k * k}\n" for k in range(5))
    path = write(tmp_path / "t.csv", text)
    assert "may be variables" not in text_of(read_table(path))
    assert "remove --transpose" in text_of(read_table(path, ReadOptions(transpose=True)))


LABELLED = "gene,GSM1,GSM2,GSM3\nclass,ALL,AML,ALL\nG1,1,2,3\nage,50,60,70\nG2,4,5,6\n"


def test_labels_in_a_row(tmp_path):
    path = write(tmp_path / "t.csv", LABELLED)
    with pytest.raises(TableError, match=r"line 2: no cell is a number: 'ALL', 'AML'.*--label"):
        read_table(path, ReadOptions(transpose=True))
    described = write(tmp_path / "d.csv", "gene,what,GSM1,GSM2\nG1,x,1,2\nG2,y,4,5\n")
    with pytest.raises(TableError, match=r"--ignore 'what' to drop it, --row-names 'what'"):
        read_table(described, ReadOptions(transpose=True))
    table = read_table(path, ReadOptions(transpose=True, label="class", ignore=("age",)))
    assert (table.names, table.ids, table.label) == (
        ["G1", "G2"],
        ["GSM1", "GSM2", "GSM3"],
        ["ALL", "AML", "ALL"],
    )
    np.testing.assert_array_equal(table.X, [[1, 4], [2, 5], [3, 6]])
    table = read_table(path, ReadOptions(transpose=True, groups="class", label="age"))
    assert (table.groups, table.label) == (["ALL", "AML", "ALL"], ["50", "60", "70"])
    with pytest.raises(TableError, match="there is no row 'clas'; did you mean 'class'"):
        read_table(path, ReadOptions(transpose=True, label="clas", ignore=("class",)))
    # The row is numeric, in a format without text.
    np.savez(tmp_path / "t.npz", X=X, ids=["G1", "age", "G2"], names=["s1", "s2", "s3"])
    table = read_table(tmp_path / "t.npz", ReadOptions(transpose=True, label="age"))
    assert (table.names, table.label) == (["G1", "G2"], [4.0, 5.0, 6.0])


LABELS = "kind;name;donor\nALL;GSM1;p\nAML;GSM2;q\nALL;GSM4;q\nALL;GSM3;p\n"


def test_labels_in_another_file(tmp_path):
    path = write(tmp_path / "t.csv", "gene,GSM1,GSM2,GSM3\nG1,1,2,3\nG2,4,5,6\n")
    labels = str(write(tmp_path / "labels.csv", LABELS))
    table = read_table(
        path, ReadOptions(transpose=True, labels=labels, label="kind", groups="donor")
    )
    assert (table.label, table.groups) == (["ALL", "AML", "ALL"], ["p", "q", "p"])
    assert "'kind' and 'donor' read from labels.csv, matched by its column 'name'; " in text_of(
        table
    )
    with pytest.raises(TableError, match=r"labels\.csv: there is no column 'kin'; did you mean"):
        read_table(path, ReadOptions(transpose=True, labels=labels, label="kin"))
    with pytest.raises(TableError, match=r"several columns: 'kind', 'donor'"):
        read_table(path, ReadOptions(transpose=True, labels=labels))
    one = str(write(tmp_path / "one.csv", "name,kind\nGSM1,a\nGSM2,b\nGSM3,a\n"))
    assert read_table(path, ReadOptions(transpose=True, labels=one)).label == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,kind\ns1,a\ns2,b\n", "no column contains the row names.*'GSM1'.*'s1', 's2'"),
        ("name,kind\nGSM1,a\nGSM02,b\n", "2 of the 3 rows of t.csv are missing: 'GSM2'"),
        ("name,kind\nGSM1,a\nGSM1,b\n", "rows 1 and 2 of the data have the same name, 'GSM1'"),
        ("name\nGSM1\n", "needs the row names"),
    ],
)
def test_labels_that_do_not_match(tmp_path, text, message):
    path = write(tmp_path / "t.csv", "gene,GSM1,GSM2,GSM3\nG1,1,2,3\nG2,4,5,6\n")
    labels = str(write(tmp_path / "labels.csv", text))
    with pytest.raises(TableError, match=message):
        read_table(path, ReadOptions(transpose=True, labels=labels, label="kind"))


def test_labels_need_names_of_rows(tmp_path):
    path = write(tmp_path / "t.csv", "a,b\n1,2\n3,4\n")
    labels = str(write(tmp_path / "labels.csv", LABELS))
    with pytest.raises(TableError, match=r"the rows have no names.*--row-names"):
        read_table(path, ReadOptions(labels=labels, label="kind"))
    with pytest.raises(TableError, match=r"no\.csv: the file does not exist"):
        read_table(path, ReadOptions(labels=str(tmp_path / "no.csv"), label="kind"))
    with pytest.raises(TableError, match=r"not supported for labels.*\.csv"):
        read_table(path, ReadOptions(labels=str(tmp_path / "t.parquet"), label="kind"))


@pytest.mark.parametrize("name", ["MRN", "patient_id", "Sample ID", "barcode", "patient number"])
def test_identifiers_are_not_variables(tmp_path, name):
    lines = "".join(f"{k},{k * k},{7919 * k % 1000}\n" for k in range(1, 20))
    table = read_table(write(tmp_path / "t.csv", f"a,b,{name}\n" + lines))
    assert table.names == ["a", "b"]
    assert "contains a different integer in every row" in text_of(table)


@pytest.mark.parametrize("widest", [1, 50_000])
def test_gene_expression_omnibus_file(tmp_path, monkeypatch, widest):
    monkeypatch.setattr("prosparse.tables.delimited.MAX_ARROW_COLUMNS", widest)
    path = write(
        tmp_path / "GSE1_series_matrix.txt",
        '!Series_title\t"A study"\n!Sample_title\t"one"\t"two"\t"three"\t"four"\n\n'
        '!series_matrix_table_begin\n"ID_REF"\t"GSM1"\t"GSM2"\t"GSM3"\t"GSM4"\n'
        '"1007_s_at"\t1.5\t2\t3\t4\n"1053_at"\t5\t6\t7\t8\n!series_matrix_table_end\n',
    )
    table = read_table(path, ReadOptions(transpose=True))
    assert (table.names, table.ids) == (["1007_s_at", "1053_at"], ["GSM1", "GSM2", "GSM3", "GSM4"])
    np.testing.assert_array_equal(table.X, [[1.5, 5], [2, 6], [3, 7], [4, 8]])
    assert "use --transpose" in text_of(read_table(path))


@pytest.mark.parametrize(
    ("cells", "asked", "expected"),
    [
        (["0,5", "12,25", "NA"], None, ["0.5", "12.25", "NA"]),
        (["0,5", " 1,5e-3", "7", None, 2.0], None, ["0.5", " 1.5e-3", "7", None, 2.0]),
        (["2,626", "1,204"], None, ["2,626", "1,204"]),  # perhaps thousands
        (["2,626", "1,204"], ",", ["2.626", "1.204"]),
        (["0,5", "0,7"], ".", ["0,5", "0,7"]),
        (["a,b", "0,5", "0,25"], None, ["a,b", "0.5", "0.25"]),
        (["0.5", "0.25", "0,5"], None, ["0.5", "0.25", "0,5"]),
    ],
)
def test_replacement_of_decimal_commas(cells, asked, expected):
    assert replace_decimal_commas(cells, asked) == expected
