"""Progress is shown wherever a fit runs: in a terminal, in a notebook, in a log."""

import io
import sys
from types import ModuleType, SimpleNamespace

import pytest

from prosparse import EMPCA, GSPPCA
from prosparse.datasets import make_globally_sparse
from prosparse.inference.progress import Progress

pytestmark = pytest.mark.quick


def counted():
    with Progress(5, "valley", verbose=1) as progress:
        for k in range(5):
            progress.advance(-1.0 / (k + 1))


def test_a_bar_in_a_terminal(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    counted()
    shown = terminal.getvalue()
    assert "valley" in shown
    assert "5/5" in shown
    assert "objective -0.2" in shown
    assert "iteration 1," not in shown


@pytest.mark.parametrize("without_rich", [True, False])
def test_plain_lines_in_a_file(without_rich, capsys, monkeypatch):
    if without_rich:
        monkeypatch.setitem(sys.modules, "rich", None)
        monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    counted()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "valley: iteration 1, objective -1"
    assert len(lines) == 6
    assert lines[-1] == "valley: 5 iterations"


def test_silence_by_default(capsys):
    with Progress(2, "valley") as progress:
        progress.advance(1.0)
    assert capsys.readouterr() == ("", "")


class Cell:
    """What a notebook shows below a cell: outputs that can be replaced."""

    def __init__(self):
        self.outputs, self.updates = [], 0

    def display(self, thing, *, display_id):
        place = len(self.outputs)
        self.outputs.append(repr(thing))
        return SimpleNamespace(update=lambda thing: self.replace(place, thing))

    def replace(self, place, thing):
        self.outputs[place] = repr(thing)
        self.updates += 1


@pytest.fixture
def notebook(monkeypatch):
    """The two functions of IPython that a notebook's kernel answers; ipywidgets is not there."""
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


def test_one_line_in_a_notebook(notebook, capsys, monkeypatch):
    monkeypatch.setattr("prosparse.inference.progress._BETWEEN_UPDATES", 0.0)
    counted()
    (line,) = notebook.outputs
    assert line.startswith("valley: 5 iterations, objective -0.2, ")
    assert notebook.updates == 6  # five iterations and the end
    assert capsys.readouterr() == ("", "")


def test_a_notebook_is_not_told_every_iteration(notebook, monkeypatch):
    monkeypatch.setattr("prosparse.inference.progress._BETWEEN_UPDATES", 1e9)
    counted()
    assert notebook.updates == 1


@pytest.mark.parametrize(
    ("model", "lines"),
    [
        (GSPPCA(5, verbose=1), ["GSPPCA: ", "GSPPCA, evidence: "]),
        (EMPCA(1, n_nonzero=4, verbose=1, random_state=0), ["EMPCA: "]),
    ],
)
def test_fits_in_a_notebook(notebook, capsys, model, lines):
    model.fit(make_globally_sparse(random_state=0).X)
    assert [line.partition(": ")[0] + ": " for line in notebook.outputs] == lines
    assert all(" iterations, objective " in line for line in notebook.outputs)
    assert capsys.readouterr() == ("", "")


def test_the_terminal_of_ipython_is_no_notebook(notebook, capsys):
    sys.modules["IPython"].get_ipython = SimpleNamespace
    counted()
    assert notebook.outputs == []
    assert "valley" in capsys.readouterr().err
