"""Entry points of the command."""

import subprocess
import sys

import pytest

typer_testing = pytest.importorskip("typer.testing")

from prosparse.app.cli import app  # noqa: E402

run = typer_testing.CliRunner().invoke


def test_demo(tmp_path):
    result = run(app, ["demo", str(tmp_path / "plots")])
    assert result.exit_code == 0
    assert "selected: 10 of 30 variables" in result.output
    assert (tmp_path / "plots" / "communality_digits.png").is_file()


def test_error_without_typer_contains_the_installation_command():
    block = "import sys; sys.modules['typer'] = None; import prosparse.__main__ as m; m.main()"
    result = subprocess.run(
        [sys.executable, "-c", block], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert "pip install 'prosparse[cli]'" in result.stderr
