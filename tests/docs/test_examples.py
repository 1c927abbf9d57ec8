"""The examples of the gallery run without external data."""

import runpy

import matplotlib as mpl
import pytest

from pages import ROOT

mpl.use("agg")
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))


@pytest.mark.filterwarnings("ignore:.*non-interactive")
@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_example_draws_without_external_data(path, tmp_path, monkeypatch):
    from matplotlib import pyplot

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROSPARSE_DATA", str(tmp_path))
    try:
        runpy.run_path(str(path))
        assert pyplot.get_fignums()
    finally:
        pyplot.close("all")
