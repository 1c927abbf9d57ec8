"""The examples in our Markdown pages: run, and compared with what the page says they print.

A block marked ``python`` is executed, all blocks of a page in one namespace; a block marked ``sh``
holds commands of ours, and one marked ``sh refused`` commands that end in an error. The unmarked
block that follows is what they print. Blocks marked otherwise (``r``, ``console``, ``py``) are not
run. ``python tests/pages.py PAGE ...`` writes what the examples print into the pages, and the
pictures that they draw and the page shows beside it.
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
GENERATED = ("gallery", "api")  # folders of docs/ that the build fills
PAGES = sorted(
    [
        ROOT / "README.md",
        *(
            page
            for page in (ROOT / "docs").rglob("*.md")
            if page.relative_to(ROOT / "docs").parts[0] not in GENERATED
        ),
    ]
)
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.S | re.M)


class Example(NamedTuple):
    line: int  # of the page
    printed: str
    shown: str | None  # None: the page shows nothing
    place: tuple[int, int]  # of what is shown, in the text


def shell(text, refused=False):
    """What our commands in a block print, or what they say when they refuse; no other commands."""
    from typer.testing import CliRunner

    from prosparse.app.cli import app

    said = ""
    for line in text.replace("\\\n", " ").splitlines():
        name, *arguments = shlex.split(line)
        if name != "prosparse":
            raise ValueError(f"only `prosparse` can be run here, got {line!r}")
        result = CliRunner().invoke(app, arguments)
        if bool(result.exit_code) != refused:
            raise RuntimeError(f"{line}: {result.output}")
        if refused:  # one long line, which a terminal folds
            said += "\n".join(textwrap.wrap(result.stderr, 100, break_on_hyphens=False)) + "\n"
        else:
            said += result.stdout
    return "\n".join(line.rstrip() for line in said.splitlines())


def examples(page):
    """Run the page from top to bottom in the current folder."""
    text = page.read_text(encoding="utf-8")
    blocks = list(FENCE.finditer(text))
    namespace, found = {"__name__": "page"}, []
    for block, after in pairwise([*blocks, None]):
        language, code = block[1].strip(), block[2]
        line = text.count("\n", 0, block.start()) + 1
        if language == "python":
            # as many lines above as in the page, so that a traceback names the right one
            program = compile("\n" * line + code, str(page), "exec")
            with redirect_stdout(StringIO()) as out:
                exec(program, namespace)  # our own pages
            printed = out.getvalue()
        elif language in ("sh", "sh refused"):
            printed = shell(code, language != "sh")
        else:
            continue
        shown = after if after is not None and not after[1].strip() else None
        found.append(
            Example(
                line,
                "\n".join(one.rstrip() for one in printed.strip("\n").splitlines()),
                None if shown is None else shown[2].strip("\n"),
                (0, 0) if shown is None else shown.span(2),
            )
        )
    return found


def write(page):
    """Put into the page what its examples print."""
    text = page.read_text(encoding="utf-8")
    for one in reversed(examples(page)):
        if one.shown is None and one.printed:
            sys.exit(f"{page}:{one.line} prints, and there is no block to show it:\n{one.printed}")
        if one.printed:
            start, end = one.place
            text = text[:start] + one.printed + "\n" + text[end:]
    page.write_text(text, encoding="utf-8")


def pictures(page, folder):
    """The pictures that a page shows and its own examples drew in ``folder``: drawn, shown."""
    linked = re.findall(r"\]\((images/[\w.-]+\.png)\)", page.read_text(encoding="utf-8"))
    pairs = ((Path(folder) / Path(name).name, page.parent / name) for name in linked)
    return [(drawn, shown) for drawn, shown in pairs if drawn.exists()]


if __name__ == "__main__":
    import os
    import shutil
    import tempfile

    import matplotlib as mpl

    mpl.use("agg")
    wanted = [Path(name).resolve() for name in sys.argv[1:]]
    for one_page in wanted:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            write(one_page)
            for drawn, shown in pictures(one_page, folder):
                shutil.copyfile(drawn, shown)
            os.chdir(ROOT)
