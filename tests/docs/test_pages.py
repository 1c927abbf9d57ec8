"""Every example in the README and in the pages of the site runs, and prints what the page says."""

import os
import re
import runpy

import matplotlib as mpl
import pytest

from pages import FENCE, PAGES, ROOT, examples, pictures

mpl.use("agg")
OPTIONAL = {"scanpy", "torch"}  # what a page may use and we do not ask for
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]


@pytest.mark.filterwarnings("ignore:.*non-interactive")
@pytest.mark.filterwarnings("ignore::prosparse.FewVariablesWarning")  # pages speak of them in words
@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_examples(page, tmp_path, monkeypatch):
    pytest.importorskip("typer", reason="typer is not installed: no command to run")
    from matplotlib import pyplot
    from matplotlib.image import imread

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    try:
        for one in examples(page):
            if one.printed or one.shown:
                assert one.shown is not None, f"line {one.line} prints, and the page does not say"
                assert one.printed == one.shown, f"line {one.line}"
        for drawn, shown in pictures(page, tmp_path):
            assert shown.is_file(), f"python tests/pages.py {page} draws it"
            assert imread(drawn).shape == imread(shown).shape, f"{shown} is of another example"
    except FileNotFoundError as error:
        if "PROSPARSE_DATA" in str(error) and "PROSPARSE_DATA" not in os.environ:
            pytest.skip(f"this page is about real data: {error}")
        raise
    except ModuleNotFoundError as error:
        if error.name not in OPTIONAL:
            raise
        pytest.skip(f"{error.name} is not installed")
    finally:
        pyplot.close("all")


def test_pages_have_examples():
    """A page is for showing how; these few are tables, pictures and lists of others."""
    without = {
        str(page.relative_to(ROOT))
        for page in PAGES
        if not re.search(r"^```(python|sh)$", page.read_text(encoding="utf-8"), re.M)
    }
    assert without <= {
        "docs/benchmarks/index.md",
        "docs/reliability.md",
        "docs/reliability/limitations.md",
        "docs/references.md",
        "docs/architecture.md",
        "docs/howto/index.md",
        "docs/migration/index.md",
    }


def test_no_fence_is_left_open():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert len(re.findall(r"^```", text, re.M)) == 2 * len(FENCE.findall(text)), page


def test_figures_of_the_readme_exist():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for path in re.findall(r"!\[.*?\]\((.*?)\)", text, re.S):
        assert (ROOT / path).is_file()


def test_the_page_on_reliability_is_what_the_records_say():
    page = runpy.run_path(str(ROOT / "benchmarks" / "reliability_page.py"))["page"]
    assert page() == (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
