"""Progress in a terminal, a notebook and a log."""

import io
import sys
from types import ModuleType, SimpleNamespace

import pytest

from prosparse import EMPCA, GSPPCA
from prosparse.datasets import make_globally_sparse
from prosparse.inference.progress import Progress

pytestmark = pytest.mark.quick


def run_iterations():
    with Progress(5, "ascent", verbose=1) as progress:
        for k in range(5):
            progress.advance(-1.0 / (k + 1))


def test_terminal_shows_a_bar(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    run_iterations()
    shown = terminal.getvalue()
    assert "ascent" in shown
    assert "5/5" in shown
    assert "objective -0.2" in shown
    assert "iteration 1," not in shown


@pytest.mark.parametrize("without_rich", [True, False])
def test_log_contains_plain_lines(without_rich, capsys, monkeypatch):
    if without_rich:
        monkeypatch.setitem(sys.modules, "rich", None)
        monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    run_iterations()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "ascent: iteration 1, objective -1"
    assert len(lines) == 6
    assert lines[-1] == "ascent: 5 iterations"


def test_nothing_is_shown_by_default(capsys):
    with Progress(2, "ascent") as progress:
        progress.advance(1.0)
    assert capsys.readouterr() == ("", "")


class Cell:
    """Outputs below a cell of a notebook, which can be updated."""

    def __init__(self):
        self.outputs, self.n_updates = [], 0

    def display(self, text, *, display_id):
        index = len(self.outputs)
        self.outputs.append(repr(text))
        return SimpleNamespace(update=lambda text: self.replace(index, text))

    def replace(self, index, text):
        self.outputs[index] = repr(text)
        self.n_updates += 1


@pytest.fixture
def notebook(monkeypatch):
    """Replace IPython by a kernel without ipywidgets."""
    cell, package, display = Cell(), ModuleType("IPython"), ModuleType("IPython.display")
    package.get_ipython = lambda: SimpleNamespace(kernel=object())
    display.display = cell.display
    for name, module in {
        "IPython": package,
        "IPython.display": display,
        "ipywidgets": None,
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    return cell


def test_notebook_shows_one_line(notebook, capsys, monkeypatch):
    monkeypatch.setattr("prosparse.inference.progress.UPDATE_INTERVAL", 0.0)
    run_iterations()
    (line,) = notebook.outputs
    assert line.startswith("ascent: 5 iterations, objective -0.2, ")
    assert notebook.n_updates == 6  # one per iteration, and one at the end
    assert capsys.readouterr() == ("", "")


def test_notebook_updates_are_limited_in_frequency(notebook, monkeypatch):
    monkeypatch.setattr("prosparse.inference.progress.UPDATE_INTERVAL", 1e9)
    run_iterations()
    assert notebook.n_updates == 1


@pytest.mark.parametrize(
    ("model", "lines"),
    [
        (GSPPCA(5, verbose=1), ["GSPPCA, refinement: ", "GSPPCA: ", "GSPPCA, evidence: "]),
        (EMPCA(1, n_nonzero=4, verbose=1, random_state=0), ["EMPCA: "]),
    ],
)
def test_fits_show_progress_in_a_notebook(notebook, capsys, model, lines):
    model.fit(make_globally_sparse(random_state=0).X)
    assert [line.partition(": ")[0] + ": " for line in notebook.outputs] == lines
    assert all(" iterations, objective " in line for line in notebook.outputs)
    assert capsys.readouterr() == ("", "")


def test_ipython_terminal_is_not_a_notebook(notebook, capsys):
    sys.modules["IPython"].get_ipython = SimpleNamespace
    run_iterations()
    assert notebook.outputs == []
    assert "ascent" in capsys.readouterr().err
