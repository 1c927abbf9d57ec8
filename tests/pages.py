"""Run the examples of the Markdown pages and compare or update the output that the pages show.

All ``python`` blocks of a page run in one namespace. A block marked ``sh`` contains commands of
prosparse, and a block marked ``sh error`` commands that must fail. The unmarked block that follows
contains the expected output. Blocks in other languages (``r``, ``console``, ``py``) are not run.

``python tests/pages.py PAGE ...`` writes the output of the examples into the pages, and updates the
images of the pages that the examples draw.
"""

import re
import shlex
import sys
import textwrap
from contextlib import redirect_stdout
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GENERATED = {"api", "benchmarks", "gallery"}  # folders of docs/ that the build writes
PAGES = [
    ROOT / "README.md",
    *sorted(
        page for page in DOCS.rglob("*.md") if page.relative_to(DOCS).parts[0] not in GENERATED
    ),
]
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.S | re.M)
MESSAGE_WIDTH = 100


class Example(NamedTuple):
    """Result of one code block."""

    line: int  # line number of the block in the page
    output: str
    expected: str | None  # None if the page shows no output
    span: tuple[int, int]  # position of the expected output in the text of the page


def run_commands(text, fails=False):
    """Return the standard output of commands, or the error messages of commands that must fail."""
    from typer.testing import CliRunner

    from prosparse.app.cli import app

    output = ""
    for line in text.replace("\\\n", " ").splitlines():
        name, *arguments = shlex.split(line)
        if name != "prosparse":
            raise ValueError(f"examples may only call `prosparse`, got {line!r}")
        result = CliRunner().invoke(app, arguments)
        if bool(result.exit_code) != fails:
            raise RuntimeError(f"{line}: exit code {result.exit_code}: {result.output}")
        if fails:
            wrapped = textwrap.wrap(result.stderr, MESSAGE_WIDTH, break_on_hyphens=False)
            output += "\n".join(wrapped) + "\n"
        else:
            output += result.stdout
    return output


def run_examples(page):
    """Run all examples of a page, in order, in the current folder."""
    text = page.read_text(encoding="utf-8")
    namespace, examples = {"__name__": "page"}, []
    for block, following in pairwise([*FENCE.finditer(text), None]):
        language, code = block[1].strip(), block[2]
        line = text.count("\n", 0, block.start()) + 1
        if language == "python":
            # Blank lines make the line numbers of a traceback those of the page.
            program = compile("\n" * line + code, str(page), "exec")
            with redirect_stdout(StringIO()) as stdout:
                exec(program, namespace)
            output = stdout.getvalue()
        elif language in ("sh", "sh error"):
            output = run_commands(code, fails=language == "sh error")
        else:
            continue
        shown = following if following is not None and not following[1].strip() else None
        examples.append(
            Example(
                line,
                "\n".join(row.rstrip() for row in output.strip("\n").splitlines()),
                None if shown is None else shown[2].strip("\n"),
                (0, 0) if shown is None else shown.span(2),
            )
        )
    return examples


def update_outputs(page):
    """Write the output of the examples into a page."""
    text = page.read_text(encoding="utf-8")
    for example in reversed(run_examples(page)):
        if not example.output:
            continue
        if example.expected is None:
            sys.exit(f"{page}:{example.line}: no block for the output:\n{example.output}")
        start, end = example.span
        text = text[:start] + example.output + "\n" + text[end:]
    page.write_text(text, encoding="utf-8")


def drawn_images(page, folder):
    """Return pairs of an image that an example drew in ``folder`` and the image of the page."""
    linked = re.findall(r"\]\((images/[\w.-]+\.png)\)", page.read_text(encoding="utf-8"))
    pairs = ((Path(folder) / Path(name).name, page.parent / name) for name in linked)
    return [(drawn, shown) for drawn, shown in pairs if drawn.exists()]


def main(pages):
    """Update the outputs and images of pages."""
    import os
    import shutil
    import tempfile

    import matplotlib as mpl

    mpl.use("agg")
    os.environ["COLUMNS"] = "80"
    for page in pages:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            update_outputs(page)
            for drawn, shown in drawn_images(page, folder):
                shutil.copyfile(drawn, shown)
            os.chdir(ROOT)


if __name__ == "__main__":
    main([Path(name).resolve() for name in sys.argv[1:]])
