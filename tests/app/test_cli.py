"""The command: what it says, and with which exit code."""

import subprocess
import sys

import pytest

typer_testing = pytest.importorskip("typer.testing")

from prosparse.app.cli import app  # noqa: E402

run = typer_testing.CliRunner().invoke


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
