"""The pictures of the gallery can be drawn without any data but our own."""

import runpy

import matplotlib as mpl
import pytest

from pages import ROOT

mpl.use("agg")
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))


@pytest.mark.filterwarnings("ignore:.*non-interactive")
@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_example_without_data(path, tmp_path, monkeypatch):
    from matplotlib import pyplot

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROSPARSE_DATA", str(tmp_path))
    try:
        runpy.run_path(str(path))
        assert pyplot.get_fignums()
    finally:
        pyplot.close("all")
