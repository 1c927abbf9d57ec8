"""The command: what it says, and with which exit code."""

import json
import subprocess
import sys

import pytest

from programs import CONTEXT

typer_testing = pytest.importorskip("typer.testing")

from prosparse.app.cli import app  # noqa: E402

run = typer_testing.CliRunner().invoke


def test_list():
    result = run(app, ["reproduce", "--list"])
    assert result.exit_code == 0
    for name in ("E1", "E9", "E15"):
        assert name in result.output


def test_one_experiment(tmp_path):
    result = run(app, ["reproduce", "e1", "--quick", "--output", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "F-score" in result.output
    assert "holds: the model" in result.output
    record = json.loads((tmp_path / "results" / "E1.json").read_text())
    assert record["quick"]
    assert "## E1" in (tmp_path / "results.md").read_text()


def test_two_at_a_time(tmp_path, monkeypatch):
    monkeypatch.delenv("PROSPARSE_DATA", raising=False)
    # processes that start from nothing are the same, and take seconds more
    monkeypatch.setattr("prosparse.app.reproduce.get_context", lambda kind: CONTEXT)
    arguments = ["reproduce", "E1", "E5", "E2", "--quick", "--jobs", "2", "--data", str(tmp_path)]
    result = run(app, [*arguments, "--output", str(tmp_path)])
    assert result.exit_code == 1
    assert "E5: " in result.stderr
    assert "golub_leukemia_38x3051.npz" in result.stderr
    page = (tmp_path / "results.md").read_text()  # of the others, in order
    assert page.index("## E1") < page.index("## E2")


def test_unknown_name_lists_the_names(tmp_path):
    result = run(app, ["reproduce", "E99", "--output", str(tmp_path)])
    assert result.exit_code == 2
    assert "no experiment 'E99'" in result.stderr
    assert "E15" in result.stderr
    assert not (tmp_path / "results").exists()


def test_missing_data_says_what_to_put_where(tmp_path, monkeypatch):
    monkeypatch.delenv("PROSPARSE_DATA", raising=False)
    arguments = ["reproduce", "E5", "E1", "--quick", "--data", str(tmp_path)]
    result = run(app, [*arguments, "--output", str(tmp_path)])
    assert result.exit_code == 1
    assert "golub_leukemia_38x3051.npz" in result.stderr
    assert "## E1" in (tmp_path / "results.md").read_text()  # the others run all the same


@pytest.mark.parametrize("arguments", [["reproduce"], ["reproduce", "E1", "--all"]])
def test_names_or_all(arguments):
    result = run(app, arguments)
    assert result.exit_code == 2
    assert "--all" in result.stderr


def test_demo(tmp_path):
    result = run(app, ["demo", str(tmp_path / "pictures")])
    assert result.exit_code == 0
    assert "chosen: 10 of 30 variables" in result.output
    assert (tmp_path / "pictures" / "communality_digits.png").is_file()


def test_without_typer_it_says_what_to_install():
    block = "import sys; sys.modules['typer'] = None; import prosparse.__main__ as m; m.main()"
    result = subprocess.run(
        [sys.executable, "-c", block], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert "pip install 'prosparse[cli]'" in result.stderr
