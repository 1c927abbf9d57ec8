"""The registry describes every method, and nothing else has to be told of a new one."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

mpl.use("agg")
from matplotlib import pyplot as plt

import prosparse
from prosparse import GSPPCA, InputError, ModelFileError, plot
from prosparse.datasets import make_globally_sparse
from prosparse.findings import findings_of
from prosparse.registry import ESTIMATORS, METHODS, Option, method_of, offered
from toy_method import METHOD, Widest

pytestmark = pytest.mark.quick
ROOT = Path(__file__).parents[1]
X = make_globally_sparse(60, 12, n_components=2, n_informative=6, random_state=0).X


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setitem(METHODS, "Widest", METHOD)


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(X, columns=[f"v{k}" for k in range(12)]).to_csv("table.csv", index=False)


def command(*words):
    testing = pytest.importorskip("typer.testing", reason="typer is not installed: no command")
    import typer

    from prosparse.app import commands

    app = typer.Typer()
    commands.add_to(app)
    return testing.CliRunner().invoke(app, list(words), env={"COLUMNS": "200", "TERM": "dumb"})


# --- a new method


def test_without_being_registered_it_is_refused():
    model = Widest(2).fit(X)
    with pytest.raises(InputError, match="Widest is not an estimator of prosparse"):
        findings_of(model)
    with pytest.raises(ModelFileError, match="Widest is not an estimator that can be saved"):
        prosparse.save(model, "nowhere")
    assert "--widest" not in command("select", "--help").output


def test_command(registered, table):
    said = command("select", "--help").output
    assert "--widest" in said
    assert "For widest: how many columns." in said
    result = command(
        "select", "table.csv", "--method", "widest", "--widest", "5", "--components", "2", "--json"
    )
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["n_selected"] == 5
    assert answer["why"] == "the 5 widest were wanted"
    page = Path("table-prosparse/report.html").read_text("utf-8")
    assert "5: the 5 widest were wanted." in page
    assert "Height against the width; the marked point was selected." in page
    again = prosparse.load("table-prosparse/model.prosparse")
    np.testing.assert_array_equal(again.components_, Widest(2, n_widest=5).fit(X).components_)
    refused = command("select", "table.csv", "--widest", "5", "--output", "other")
    assert refused.exit_code == 2
    assert "--widest has no effect with --method fdrpca; use widest" in refused.stderr


def test_an_option_that_is_taken_is_refused(monkeypatch):
    pytest.importorskip("typer", reason="typer is not installed: no command")
    taken = Option("keep", "n_widest", "how many", int)
    other_kind = Option("variables", "n_widest", "how many", str)
    for option in (taken, other_kind):
        monkeypatch.setitem(METHODS, "Widest", replace(METHOD, options=(option,)))
        with pytest.raises(ValueError, match=f"--{option.name} of .*widest is taken, or not"):
            command("select", "--help")


def test_saved_and_loaded(registered, tmp_path):
    model = Widest(2).fit(X)
    again = prosparse.load(prosparse.save(model, tmp_path / "model"))
    np.testing.assert_array_equal(again.components_, model.components_)
    np.testing.assert_array_equal(again.heights_, model.heights_)
    del model.relevance_
    with pytest.raises(ModelFileError, match="a fitted Widest has `relevance_`"):
        prosparse.save(model, tmp_path / "broken")


def test_pictures(registered):
    model = Widest(2).fit(X)
    displays = plot.displays_of(model)
    assert {one.__name__ for one in displays} == {
        "RelevanceDisplay", "LoadingsDisplay", "EvidenceDisplay", "ScoresDisplay"
    }  # fmt: skip
    drawn = plot.EvidenceDisplay.from_estimator(model)
    np.testing.assert_array_equal(drawn.line_.get_ydata(), model.heights_)
    with pytest.raises(InputError, match="Widest has no `objective_path_`"):
        plot.ConvergenceDisplay.from_estimator(model)
    plt.close("all")


def test_findings_are_read_once(monkeypatch, table):
    """By the command, whose answer, tables and page all need them."""
    heard = []

    def explain(model, choice, n_selected):
        heard.append(n_selected)
        return "so it was"

    monkeypatch.setitem(METHODS, "Widest", replace(METHOD, explanations=(explain,)))
    # shuffled tables have findings of their own
    arguments = ("--method", "widest", "--components", "2", "--shuffles", "0")
    result = command("select", "table.csv", *arguments)
    assert result.exit_code == 0, result.output
    assert heard == [4]
    result = command("report", "table-prosparse/model.prosparse", "--data", "table.csv")
    assert result.exit_code == 0, result.output
    assert heard == [4, 4]


@pytest.mark.slow
def test_contract_tests_take_it_in():
    """All of them, in a session of its own that has the method from the start."""
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "toy_method", "-p", "no:cacheprovider",
         "tests/contract/test_ecosystem.py", "-k", "Widest"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count(".") > 15, run.stdout


# --- the methods there are


def test_every_public_estimator_is_registered():
    public = [getattr(prosparse, name) for name in prosparse.__all__]
    expected = {one for one in public if isinstance(one, type) and hasattr(one, "fit")}
    assert set(ESTIMATORS.values()) == expected
    assert all(METHODS[name].estimator.__name__ == name for name in METHODS)
    assert list(offered()) == ["fdrpca", "gsppca", "sca", "sppca", "empca", "panel"]


@pytest.mark.parametrize("name", METHODS)
def test_what_is_said_of_parameters_is_true(name):
    method = METHODS[name]
    known = method.estimator().get_params()
    assert set(method.example) | set(method.grid) <= set(known)
    assert {option.parameter for option in method.options or ()} <= set(known)


@pytest.mark.parametrize("name", METHODS)
def test_what_is_said_of_fits_is_true(name):
    method = METHODS[name]
    y = X[:, 0] - X[:, 3]
    model = method.estimator(**method.example).fit(X, y > 0 if method.classifies else y)
    assert set(method.saved.required) <= set(model.__getstate__())
    found = findings_of(model)
    assert (found.path is None) == (method.path is None)
    assert (found.penalties is None) == (not method.slope)
    assert bool(found.traces) == (method.traces is not None)
    assert ("objective_path_" in vars(model)) == (method.traces is not None)
    assert method.projects != method.predicts


def test_a_derived_class_is_of_the_same_method():
    class Mine(GSPPCA):
        pass

    model = Mine(2).fit(X)
    assert method_of(model) is METHODS["GSPPCA"]
    assert findings_of(model).method == "Mine"


def test_documents_name_every_method_and_picture():
    listed = (ROOT / "docs" / "api" / "index.rst").read_text("utf-8")
    for name in METHODS:
        assert re.search(rf"^   {name}$", listed, re.M), name
    pictures = (ROOT / "docs" / "howto" / "plots.md").read_text("utf-8")
    lines = dict(re.findall(r"^\| \{py:class\}`~prosparse\.plot\.(\w+)`(.*)$", pictures, re.M))
    assert set(lines) == {name for name in vars(plot) if re.fullmatch(r"\w+Display", name)}
    for name in ("CommunalityDisplay", "EvidenceDisplay", "SlopeDisplay"):
        having = {
            one for one in METHODS if getattr(plot, name) in plot.displays_of(ESTIMATORS[one])
        }
        assert set(re.findall(r"`(\w+)`", lines[name])) == having


@pytest.mark.slow
def test_without_the_optional_extras():
    """The registry is read by estimators' files, which need nothing but the core."""
    extras = ["matplotlib", "typer", "rich", "jinja2", "anndata", "pyarrow", "pandas"]
    code = (
        f"import sys\nfor one in {extras}: sys.modules[one] = None\n"
        "import prosparse.registry, prosparse.findings, prosparse.plot, prosparse.persistence"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
