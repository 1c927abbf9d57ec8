"""Several tables of the same rows, and imputed values, from the command line."""

import csv
import json
import runpy
import shutil

import numpy as np
import pytest

typer_testing = pytest.importorskip("typer.testing")

from prosparse.app.cli import app  # noqa: E402
from prosparse.report import is_report  # noqa: E402

run = typer_testing.CliRunner().invoke
N = 70


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def write(path, header, rows, delimiter=","):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=delimiter).writerows([header, *rows])
    return path.name


def two_tables(folder, shared=True):
    """Genes of all patients, and proteins of some in another order and format."""
    rng = np.random.default_rng(0)
    factor = rng.standard_normal((N, 2))
    genes, proteins = rng.standard_normal((N, 20)), 10.0 + rng.standard_normal((N, 15))
    genes[:, :8] += factor[:, :1]
    proteins[:, :6] += factor[:, :1] if shared else factor[:, 1:]
    names = [f"P{k:03d}" for k in range(N)]
    rows = [[name, "ab"[k % 2], *map("{:.4f}".format, genes[k])] for k, name in enumerate(names)]
    header = ["patient", "class", *[f"gene{k}" for k in range(20)]]
    write(folder / "genes.csv", header, rows)
    rows = [
        [names[k], *[f"{v:.4f}".replace(".", ",") for v in proteins[k]]]
        for k in rng.permutation(N)[:66]
    ]
    header = ["patient", *[f"protein{k}" for k in range(15)]]
    write(folder / "proteins.csv", header, rows, ";")
    return ["select", "genes.csv", "--method", "sca", "--table", "proteins.csv", "--row-names",
            "patient", "--label", "class", "--permutations", "0"]  # fmt: skip


@pytest.mark.parametrize("shared", [True, False])
def test_shared_components(inside, shared):
    result = run(app, [*two_tables(inside, shared), "--json"])
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["variables"] == 35
    expected = "is shared by several tables" if shared else "share no component"
    assert expected in summary["shared"][0]
    assert "4 rows of genes.csv are absent" in " ".join(summary["notes"])
    page = (inside / "genes-prosparse" / "report.html").read_text()
    assert is_report(inside / "genes-prosparse" / "report.html")
    assert summary["shared"][0] in page
    assert "proteins, 15 variables" in page


def test_sharing_under_permutation_of_rows(inside):
    arguments = two_tables(inside)
    arguments[arguments.index("0")] = "2"
    result = run(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    sentence = json.loads(result.stdout)["shared"][-1]
    mean = float(sentence.partition("share nothing, ")[2].split()[0])
    assert mean < 0.5
    assert "10 datasets" in sentence
    page = (inside / "genes-prosparse" / "report.html").read_text()
    assert sentence in page


def test_script_repeats_the_analysis(inside, capsys):
    result = run(app, [*two_tables(inside), "--json"])
    selected = json.loads(result.stdout)["selected"]
    from prosparse.persistence import load_with_about

    script = load_with_about(inside / "genes-prosparse" / "model.prosparse")[1]["about"]["script"]
    (inside / "script.py").write_text(script)
    runpy.run_path(str(inside / "script.py"))
    assert {*selected} == {*eval(capsys.readouterr().out.splitlines()[-1])}


def test_saved_results_of_several_tables(inside):
    assert run(app, [*two_tables(inside), "-q"]).exit_code == 0
    again = run(app, ["report", "genes-prosparse", "--output", "again.html"])
    assert again.exit_code == 0, again.output
    assert "proteins, 15 variables" in (inside / "again.html").read_text()


def test_table_needs_a_method_with_views(inside):
    arguments = [a for a in two_tables(inside) if a not in ("--method", "sca")]
    result = run(app, arguments)
    assert result.exit_code == 2
    assert "--table has no effect with --method fdrpca; use sca" in result.stderr


def test_further_tables_are_not_replaced(inside):
    arguments = two_tables(inside)
    (inside / "out").mkdir()
    shutil.move("proteins.csv", "out/proteins.csv")
    arguments[arguments.index("proteins.csv")] = "out/proteins.csv"
    result = run(app, [*arguments, "--output", "out"])
    assert result.exit_code == 2
    assert "which the results would replace" in result.stderr


@pytest.mark.parametrize("log1p", [False, True])
def test_imputed_values_and_their_intervals(inside, log1p):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((150, 2)) @ rng.standard_normal((2, 12))
    X = 3.0 + 0.3 * (X + 0.5 * rng.standard_normal(X.shape))
    X = np.expm1(X) if log1p else X
    missing = rng.random(X.shape) < 0.1
    rows = [
        [f"s{k}", *["" if gap else f"{v:.6f}" for v, gap in zip(X[k], missing[k])]]
        for k in range(150)
    ]
    write(inside / "t.csv", ["sample", *[f"v{k}" for k in range(12)]], rows)
    arguments = ["select", "t.csv", "--method", "sca", "--missing", "impute", "--permutations", "0"]
    result = run(app, [*arguments, *["--log1p"] * log1p, "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["n_imputed"] == missing.sum()
    with (inside / "t-prosparse" / "imputed.csv").open(newline="") as file:
        header, *full = list(csv.reader(file))
    assert header == ["sample", *[f"v{k}" for k in range(12)]]
    full = np.array([row[1:] for row in full], dtype=float)
    np.testing.assert_allclose(full[~missing], X[~missing], rtol=1e-5)
    with (inside / "t-prosparse" / "imputed_cells.csv").open(newline="") as file:
        cells = list(csv.DictReader(file))
    assert {(c["row"], c["variable"]) for c in cells} == {
        (f"s{i}", f"v{j}") for i, j in np.argwhere(missing)
    }
    truth = [X[int(c["row"][1:]), int(c["variable"][1:])] for c in cells]
    covered = [float(c["lower"]) <= v <= float(c["upper"]) for c, v in zip(cells, truth)]
    assert 0.9 <= np.mean(covered) <= 0.99
    error = full[missing] - X[missing]
    column_means = np.nanmean(np.where(missing, np.nan, X), axis=0)
    spread = (X - column_means)[missing]
    assert np.mean(error**2) < 0.5 * np.mean(spread**2)
    # The files are results, which the same analysis replaces.
    assert run(app, [*arguments, "-q"]).exit_code == 0


def test_complete_tables_have_no_imputed_values(inside):
    arguments = two_tables(inside)[:4]
    assert run(app, [*arguments, "--ignore", "text", "-q"]).exit_code == 0
    assert not (inside / "genes-prosparse" / "imputed.csv").exists()
