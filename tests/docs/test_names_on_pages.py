"""Modules, classes, functions and files that the pages name exist."""

import importlib
import pkgutil
import re

import pytest

import prosparse
from pages import FENCE, PAGES, ROOT

DOCUMENTS = [
    *PAGES,
    *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "paper.md")),
    ROOT / "docs" / "api" / "index.rst",
]
NAMES = [str(page.relative_to(ROOT)) for page in DOCUMENTS]
MODULES = {module.name for module in pkgutil.iter_modules(prosparse.__path__)}
QUALIFIED = re.compile(r"(?<![\w./-])(?:prosparse|papers)(?:\.[A-Za-z_]\w*)+")
RELATIVE = re.compile(r"`([a-z_]+(?:\.[A-Za-z_]\w*)+)(?:\(\))?`")  # `selection.slope`
SCRIPT = re.compile(r"python -m ((?:benchmarks|papers)(?:\.\w+)*)")
EXTENSIONS = {"py", "html", "csv", "json", "md", "bib"}  # `report.html` is a file
CALL = re.compile(r"[│├└─ ]*(\S+) +([\w/]+(?:\.py)?)")  # "├─ solve   models/sca/solve.py"
FILE = re.compile(r"`((?:[\w.]+/)+[\w.]+\.(?:py|md|css|j2|json))`")


def exists(name):
    """Return whether a dotted name is a module or an attribute of one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError as error:
            if not name.startswith(str(error.name)):  # an optional dependency is missing
                raise
            continue
        for part in parts[length:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def names_in(text):
    """Return the qualified names of modules and objects in the prose of a page."""
    prose = FENCE.sub("", text)
    relative = {name for name in RELATIVE.findall(prose) if name.split(".")[0] in MODULES}
    names = {*QUALIFIED.findall(prose), *(f"prosparse.{name}" for name in relative)}
    return {name for name in names if name.rpartition(".")[2] not in EXTENSIONS}


@pytest.mark.parametrize("page", DOCUMENTS, ids=NAMES)
def test_names_can_be_imported(page):
    names = names_in(page.read_text(encoding="utf-8"))
    assert not {name for name in names if not exists(name)}


@pytest.mark.parametrize("page", DOCUMENTS, ids=NAMES)
def test_files_and_scripts_exist(page):
    text = page.read_text(encoding="utf-8")
    for name in FILE.findall(FENCE.sub("", text)):
        assert any((folder / name).exists() for folder in (ROOT, ROOT / "src" / "prosparse")), name
    for script in SCRIPT.findall(text):
        path = ROOT / script.replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), script


def test_call_paths_name_existing_functions_and_files():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    blocks = [block for language, block in FENCE.findall(text) if language == "text"]
    calls = [CALL.match(line).groups() for block in blocks for line in block.splitlines()[1:]]
    assert len(calls) > 20
    for function, location in calls:
        path = ROOT / "src" / "prosparse" / location
        assert path.exists(), location
        files = [path] if path.is_file() else sorted(path.rglob("*.py"))
        name = function.split("(")[0]
        pattern = rf"^ *(?:def|class) {name}\b"
        assert any(re.search(pattern, file.read_text(encoding="utf-8"), re.M) for file in files)


def test_unknown_names_are_detected():
    assert names_in("see `selection.slope` and {py:class}`prosparse.FDRPCA`") == {
        "prosparse.selection.slope",
        "prosparse.FDRPCA",
    }
    assert exists("prosparse.selection.slope")
    assert not exists("prosparse.engine.gig")
    assert not exists("prosparse.selection.slopes")
    assert not exists("prosparse.GSPCA")
