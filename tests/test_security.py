"""Guarantees of SECURITY.md."""

import ast
import csv
import html
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import prosparse
from prosparse import GSPPCA, load, save
from prosparse.datasets import make_globally_sparse

SOURCES = sorted(Path(prosparse.__file__).parent.rglob("*.py"))
MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "yaml", "subprocess",
           "socket", "urllib", "http", "requests", "ftplib", "ctypes", "pty", "xml"}  # fmt: skip
CALLS = {"eval", "exec", "compile", "__import__", "system", "popen", "loads_pickle", "from_pickle"}
NAMES = ["<script>alert(1)</script>", "</script><img src=x onerror=alert(1)>", '"><b>',
         "' onload='x", "{{ 7*7 }}", "{% raw %}", "=1+1", "+cmd|' /C calc'!A0",
         "-2", "@SUM(A1)", "<!--", "]]>",
         "a\u2028b", "&lt;i&gt;", "javascript:x"]  # fmt: skip
X = make_globally_sparse(50, len(NAMES), n_components=2, n_informative=8, random_state=0).X


def dangers(tree):
    """Return the forbidden imports and calls of a source file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""] if node.level == 0 else []
        else:
            names = []
        yield from (name for name in names if name.split(".")[0] in MODULES)
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in CALLS and not (name == "compile" and isinstance(called, ast.Attribute)):
                yield name
            for keyword in node.keywords:
                if keyword.arg in ("shell", "allow_pickle") and not (
                    isinstance(keyword.value, ast.Constant) and keyword.value.value is False
                ):
                    yield keyword.arg


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_source_evaluates_no_text_and_starts_no_program(path):
    # Exceptions: the child process that reads H5AD files and spreadsheets, joblib's number of
    # processes, and the page on a loopback address, which quotes names of files and parses forms.
    allowed = {
        "limited_process.py": ["subprocess"],
        "parallel.py": ["joblib"],
        "serve/server.py": ["socket"],
        "serve/pages.py": ["urllib.parse"],
        "serve/uploads.py": ["urllib.parse"],
    }
    name = f"{path.parent.name}/{path.name}" if path.parent.name == "serve" else path.name
    allowed = allowed.get(name, [])
    assert list(dangers(ast.parse(path.read_text("utf-8")))) == allowed


def test_security_page_states_the_limits_of_the_code():
    from prosparse.tables import base, limited_process

    page = " ".join((Path(__file__).parents[1] / "SECURITY.md").read_text("utf-8").split())
    assert limited_process.BYTES_PER_SECOND == 1e6  # "one second for each MB"
    assert limited_process.MAX_OUTPUT == 0.25
    memory = limited_process.MIN_MEMORY / 2**30
    for printed in (
        f"{memory:.0f} GiB of memory plus {limited_process.MEMORY_PER_BYTE} bytes for each byte",
        f"{limited_process.MIN_SECONDS:.0f} seconds plus one second for each MB",
        "at most a quarter of the memory limit",
        f"{base.MAX_EXPANSION} times their size (and over {base.MAX_UNPACKED / 2**20:.0f} MiB",
    ):
        assert printed in page


def test_joblib_only_counts_processes():
    """joblib could also load pickles."""
    tree = ast.parse((Path(prosparse.__file__).parent / "parallel.py").read_text("utf-8"))
    taken = [
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "joblib"
        for alias in node.names
    ]
    assert taken == ["effective_n_jobs"]


def test_source_check_finds_violations():
    bad = "import pickle\nfrom urllib import request\neval(x)\nos.system(y)\nrun(z, shell=True)\n"
    bad += "np.load(f, allow_pickle=flag)\n"
    found = {"pickle", "urllib", "eval", "system", "shell", "allow_pickle"}
    assert set(dangers(ast.parse(bad))) == found
    assert not list(dangers(ast.parse("re.compile(x)\nnp.load(f, allow_pickle=False)\n")))


def test_numpy_load_never_allows_pickles():
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("np.load", "np.savez"):
                assert "allow_pickle" in [k.arg for k in node.keywords], f"{path}: {node.lineno}"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    from prosparse.report import render

    frame = pd.DataFrame(X, columns=NAMES)
    model = GSPPCA(2).fit(frame)
    about = {
        "title": NAMES[0], "label": NAMES[1], "data": {NAMES[0]: NAMES[1]}, "notes": NAMES,
        "warnings": NAMES, "command": NAMES[1], "settings": {NAMES[2]: NAMES[3]},
    }  # fmt: skip
    ids = [NAMES[k % len(NAMES)] for k in range(50)]
    return render(model, scores=model.transform(frame), ids=ids, label=ids, about=about)


def test_malicious_names_are_escaped_in_reports(page):
    without_script = re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    assert not re.search(r"<(img|b|i|iframe|object)[ >]", page)
    assert page.count("<script") == 2  # the data, and the page's own
    assert "{{ 7*7 }}" in html.unescape(without_script)
    for tag in re.findall(r"<[^>]*>", without_script):
        bare = re.sub(r'"[^"]*"', "", tag)  # what is inside of attributes is text
        assert not re.search(r"\son\w+\s*=", bare), tag


def test_report_data_round_trip(page):
    (data,) = re.findall(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', page, re.S)
    assert "<" not in data
    assert ">" not in data
    assert NAMES[1] in json.dumps(json.loads(data), ensure_ascii=False)
    assert '"></' not in data


def test_malicious_names_of_files_and_columns(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    testing = pytest.importorskip("typer.testing")
    from prosparse.app.cli import app

    monkeypatch.chdir(tmp_path)
    name = "<img src=x onerror=alert(1)>.csv"
    with open(name, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["sample", *NAMES])
        writer.writerows([f"=row{k}", *row] for k, row in enumerate(X.tolist()))
    result = testing.CliRunner().invoke(app, ["select", name, "--output", "out"])
    assert result.exit_code == 0, result.output
    text = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "<img" not in text
    with (tmp_path / "out" / "selected.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    formulas = ["=1+1", "+cmd|' /C calc'!A0", "@SUM(A1)"]  # -2 is a number, and no formula
    shown = [f"'{name}" if name in formulas else name for name in NAMES]
    assert sorted(row[0] for row in rows[1:]) == sorted(shown)
    assert list(load(tmp_path / "out" / "model.prosparse").feature_names_in_) == NAMES


def test_results_contain_no_formulas(tmp_path, monkeypatch):
    """Names of variables, rows and labels are escaped, and read back unchanged."""
    pytest.importorskip("pyarrow")
    testing = pytest.importorskip("typer.testing")
    from prosparse.app.cli import app
    from prosparse.tables import ReadOptions, read_table

    monkeypatch.chdir(tmp_path)
    names = ["=cmd|' /C calc'!A0", "+a", "-a", "@a", "\ta", "\ra", "'=a", "' -a", "\uff1da", "-2"]
    rows = [f"{names[k % 10]}{k}" for k in range(50)]
    table = pd.DataFrame(X[:, :10], columns=names, index=rows)
    table["=label"] = [names[k % 10] for k in range(50)]
    table.to_parquet("t.parquet")
    arguments = ["select", "t.parquet", "--label", "=label", "--components", "2", "--output", "out"]
    result = testing.CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    model = load(tmp_path / "out" / "model.prosparse")
    selected = {names[k] for k in np.flatnonzero(model.support_)}
    expected = {"selected": set(names), "loadings": selected, "scores": set(rows)}
    for name, true in expected.items():
        path = tmp_path / "out" / f"{name}.csv"
        with path.open(newline="", encoding="utf-8") as file:
            for cell in (cell for row in csv.reader(file) for cell in row):
                if cell[:1] in tuple("=+-@\t\r\uff1d"):
                    float(cell)
        column = "row" if name == "scores" else "variable"
        drop = ("selected",) if name == "selected" else ()
        label = "=label" if name == "scores" else None
        again = read_table(path, ReadOptions(row_names=column, ignore=drop, label=label))
        assert set(again.ids) == true
        if label:
            assert again.label == list(table["=label"])


def test_no_network_connections(tmp_path, monkeypatch):
    """A fit, a model file and a report need no socket."""
    import socket

    from prosparse.report import write_report

    def refused(*arguments, **named):
        raise AssertionError("a connection was asked for")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)
    model = load(save(GSPPCA(2).fit(X), tmp_path / "m"))
    write_report(model, tmp_path / "r.html", X=X)
    assert np.isfinite(model.transform(X)).all()
