"""The examples of the README and the pages run, and print the output that the pages show."""

import os
import re
import runpy

import matplotlib as mpl
import pytest

from pages import FENCE, PAGES, ROOT, drawn_images, run_examples

mpl.use("agg")
OPTIONAL = {"scanpy", "torch"}  # packages that pages may use and prosparse does not require
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]


@pytest.mark.filterwarnings("ignore:.*non-interactive")
@pytest.mark.filterwarnings("ignore::prosparse.FewVariablesWarning")
@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_examples_print_the_output_of_the_page(page, tmp_path, monkeypatch):
    pytest.importorskip("typer", reason="typer is not installed")
    from matplotlib import pyplot
    from matplotlib.image import imread

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    try:
        for example in run_examples(page):
            assert (example.expected or "") == example.output, f"line {example.line}"
        for drawn, shown in drawn_images(page, tmp_path):
            assert shown.is_file(), f"run python tests/pages.py {page}"
            assert imread(drawn).shape == imread(shown).shape, f"{shown} is outdated"
    except FileNotFoundError as error:
        if "PROSPARSE_DATA" in str(error) and "PROSPARSE_DATA" not in os.environ:
            pytest.skip(f"the page uses real data: {error}")
        raise
    except ModuleNotFoundError as error:
        if error.name not in OPTIONAL:
            raise
        pytest.skip(f"{error.name} is not installed")
    finally:
        pyplot.close("all")


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_code_blocks_are_closed(page):
    text = page.read_text(encoding="utf-8")
    assert len(re.findall(r"^```", text, re.M)) == 2 * len(FENCE.findall(text))


def test_images_of_the_readme_exist():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for path in re.findall(r"!\[.*?\]\((.*?)\)", text, re.S):
        assert (ROOT / path).is_file()


def test_robustness_page_agrees_with_the_records():
    page = runpy.run_path(str(ROOT / "benchmarks" / "reliability_page.py"))["page"]
    assert page() == (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
