"""The command ``check``, files of roles, and the check at the beginning of an analysis."""

import csv
import json
import shlex

import numpy as np
import pytest

typer_testing = pytest.importorskip("typer.testing")

from prosparse.app.cli import app  # noqa: E402
from prosparse.persistence import load_with_about  # noqa: E402

pytestmark = pytest.mark.quick

run = typer_testing.CliRunner().invoke
QUICK = ["--permutations", "0"]


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def visits():
    """Three visits of each of 20 patients; m0 to m5 share variance, with codes and limits."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 14))
    X[:, :6] += 2.0 * rng.standard_normal((60, 1))
    cells = [[f"{value:.3f}" for value in row] for row in X + 10.0]
    for row in range(0, 60, 9):
        cells[row][7] = "<LOD"
        cells[row + 1][8] = "n.d."
    return [[f"P{k // 3:02d}", "AB"[k % 2], *row] for k, row in enumerate(cells)]


def write(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["patient", "Batch", *(f"m{k}" for k in range(14))])
        writer.writerows(rows)
    return str(path)


def text_of(result):
    return " ".join((result.stdout + result.stderr).split())


def test_check_names_problems_and_the_command_that_fixes_them(inside):
    path = write(inside / "visits.csv", visits())
    result = run(app, ["check", path])
    assert result.exit_code == 1
    command = result.stdout.splitlines()[-1].strip()
    assert command.startswith("prosparse select ")
    fixed = run(app, [*shlex.split(command)[1:], *QUICK, "--json"])
    assert fixed.exit_code == 0, fixed.output
    assert set(json.loads(fixed.stdout)["selected"]) >= {f"m{k}" for k in range(6)}


def test_roles_are_remembered(inside):
    path = write(inside / "visits.csv", visits())
    run(app, ["check", path, "--write", "roles.toml"])
    result = run(app, ["select", path, "--roles", "roles.toml", *QUICK, "--json"])
    assert result.exit_code == 0, result.output
    about = load_with_about("visits-prosparse/model.prosparse")[1]["about"]
    assert about["data"]["groups"] == "patient"
    assert about["data"]["covariates"] == "Batch (2 levels)"
    assert about["settings"]["missing values"] == "imputed"
    again = run(app, ["check", path, "--roles", "roles.toml"])
    assert again.exit_code == 1  # values are still missing
    assert "--groups" not in text_of(again).partition("problem")[2].partition("The options")[0]


def test_roles_file_replaces_no_other_file(inside):
    path = write(inside / "visits.csv", visits())
    (inside / "notes.toml").write_text("a = 1\n")
    result = run(app, ["check", path, "--write", "notes.toml"])
    assert result.exit_code == 2
    assert (inside / "notes.toml").read_text() == "a = 1\n"
    assert run(app, ["check", path, "--write", path]).exit_code == 2


def test_error_of_an_analysis_suggests_the_fixes(inside):
    path = write(inside / "visits.csv", visits())
    result = run(app, ["select", path])
    assert result.exit_code == 1
    for fix in ("--groups patient", "--covariates Batch", "--censored half", "--na n.d."):
        assert fix in text_of(result)


def test_findings_precede_the_answer(inside):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 14))
    X[:, :6] += 2.0 * rng.standard_normal((60, 1))
    X[7] *= 9.0
    rows = [[f"P{k}", "AB"[k % 2], *row] for k, row in enumerate(X.round(3))]
    path = write(inside / "t.csv", rows)
    arguments = ["select", path, "--label", "Batch", *QUICK]
    text = text_of(run(app, arguments))
    assert text.index("is outlying") < text.index("selected")
    found = json.loads(run(app, [*arguments, "--json"]).stdout)["check"]
    assert [finding["code"] for finding in found] == ["outlying-rows"]
    assert found[0]["rows"] == ["P7"]
    page = (inside / "t-prosparse/report.html").read_text()
    assert page.index("outlying") < page.index('id="summary"')
    assert "--ignore-rows P7" in page


def test_json_of_a_check(inside):
    path = write(inside / "visits.csv", visits())
    answer = json.loads(run(app, ["check", path, "--json"]).stdout)
    assert answer["roles"]["patient"] == "groups"
    assert {finding["severity"] for finding in answer["findings"]} <= {"stop", "warning", "note"}
    assert answer["rows"] == 60
