"""Names of ours on the pages: modules, classes and functions can be imported; files are there."""

import importlib
import pkgutil
import re

import pytest

import prosparse
from pages import FENCE, PAGES, ROOT

PROSE = [
    *PAGES,
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "docs" / "api" / "index.rst",
]
ROOMS = {module.name for module in pkgutil.iter_modules(prosparse.__path__)}
WHOLE = re.compile(r"(?<![\w./-])prosparse(?:\.[A-Za-z_]\w*)+")  # prosparse.selection.slope
SHORT = re.compile(r"`([a-z_]+(?:\.[A-Za-z_]\w*)+)(?:\(\))?`")  # `selection.slope`
ENDINGS = {"py", "html", "csv", "json", "md"}  # `report.html` is a file, not a part of a module
FILES = re.compile(r"`((?:[\w.]+/)+[\w.]+\.(?:py|md|css|j2|json))`")


def found(name):
    """Whether a dotted name is a module of ours, or something in one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            place = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError as error:
            if not name.startswith(str(error.name)):  # not ours: an optional library
                raise
            continue
        for part in parts[length:]:
            if not hasattr(place, part):
                return False
            place = getattr(place, part)
        return True
    return False


def names_in(text):
    prose = FENCE.sub("", text)
    whole = set(WHOLE.findall(prose))
    short = {f"prosparse.{name}" for name in SHORT.findall(prose) if name.split(".")[0] in ROOMS}
    return {
        name
        for name in whole | short
        if name.rpartition(".")[2] not in ENDINGS and "__mutmut_" not in name
    }


@pytest.mark.parametrize("page", PROSE, ids=[str(page.relative_to(ROOT)) for page in PROSE])
def test_names_can_be_imported(page):
    names = names_in(page.read_text(encoding="utf-8"))
    assert not {name for name in names if not found(name)}


@pytest.mark.parametrize("page", PROSE, ids=[str(page.relative_to(ROOT)) for page in PROSE])
def test_files_are_there(page):
    for name in FILES.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        assert any((folder / name).exists() for folder in (ROOT, ROOT / "src" / "prosparse")), name


def test_a_name_that_is_gone_is_noticed():
    assert names_in("see `selection.slope` and {py:class}`prosparse.FDRPCA`") == {
        "prosparse.selection.slope",
        "prosparse.FDRPCA",
    }
    assert found("prosparse.selection.slope")
    assert not found("prosparse.engine.gig")
    assert not found("prosparse.selection.slopes")
    assert not found("prosparse.GSPCA")
