"""Every Python and shell block of the README runs, and prints what the block after it says."""

import re
import shlex
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import matplotlib as mpl
import pytest

mpl.use("agg")
README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README.read_text(encoding="utf-8"), re.S)


def shell(text):
    """The commands of a block, each of which must be ours."""
    testing = pytest.importorskip("typer.testing")
    from prosparse.cli import app

    said = ""
    for line in text.splitlines():
        name, *arguments = shlex.split(line)
        assert name == "prosparse"
        result = testing.CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        said += result.stdout
    return "\n".join(line.rstrip() for line in said.splitlines())


@pytest.mark.filterwarnings("ignore:.*non-interactive")
def test_readme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace, printed, compared = {}, "", 0
    for language, text in BLOCKS:
        if language == "python":
            with redirect_stdout(StringIO()) as out:
                exec(compile(text, README.name, "exec"), namespace)  # our own file
            printed = out.getvalue()
        elif language == "sh":
            printed = shell(text)
        elif printed:
            assert printed.strip() == text.strip()
            printed, compared = "", compared + 1
    assert compared >= 5


def test_figures_exist():
    for path in re.findall(r"!\[.*?\]\((.*?)\)", README.read_text(encoding="utf-8"), re.S):
        assert (README.parent / path).is_file()
