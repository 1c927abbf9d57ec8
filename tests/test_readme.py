"""Every Python block of the README runs, and prints what the block after it says."""

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import matplotlib as mpl
import pytest

mpl.use("agg")
README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README.read_text(encoding="utf-8"), re.S)


@pytest.mark.filterwarnings("ignore:.*non-interactive")
def test_readme():
    namespace, printed, compared = {}, "", 0
    for language, text in BLOCKS:
        if language == "python":
            with redirect_stdout(StringIO()) as out:
                exec(compile(text, README.name, "exec"), namespace)  # our own file
            printed = out.getvalue()
        elif printed:
            assert printed.strip() == text.strip()
            printed, compared = "", compared + 1
    assert compared >= 3


def test_figures_exist():
    for path in re.findall(r"!\[.*?\]\((.*?)\)", README.read_text(encoding="utf-8"), re.S):
        assert (README.parent / path).is_file()
