"""The example on cells runs, and the pictures of the how-to page exist."""

import re
import runpy
from pathlib import Path

import matplotlib as mpl
import pytest

mpl.use("agg")
pytest.importorskip("anndata")
ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "howto" / "gene_panel.md"
EXAMPLE = ROOT / "examples" / "plot_pbmc3k.py"


def test_pictures_of_the_page_exist():
    paths = re.findall(r"!\[.*?\]\((.*?)\)", PAGE.read_text("utf-8"), re.S)
    assert paths
    for path in paths:
        assert (PAGE.parent / path).is_file()


def run_example(capsys):
    from matplotlib import pyplot

    pyplot.close("all")
    runpy.run_path(str(EXAMPLE))
    assert len(pyplot.gcf().axes) == 2
    pyplot.close("all")
    return capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:.*non-interactive")
def test_example_on_the_blood_cells(data_folder, monkeypatch, capsys):
    monkeypatch.setenv("PROSPARSE_DATA", str(data_folder))
    said = run_example(capsys)
    assert "blood cells: 2700 cells, 32738 genes" in said
    assert {"LYZ", "CST3", "HLA-DRA"} <= set(said.split())


@pytest.mark.filterwarnings("ignore:.*non-interactive")
def test_example_without_data(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PROSPARSE_DATA", str(tmp_path))
    said = run_example(capsys)
    assert "blood cells not found" in said
    assert "simulated data:" in said
    first = re.search("first genes: (.*)", said)[1]
    assert first.count("marker") == 12
