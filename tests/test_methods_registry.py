"""Every method describes itself, and a new description is all that the library needs."""

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
from prosparse.registry import METHODS, Option, method_of, offered
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


def command(*arguments):
    testing = pytest.importorskip("typer.testing", reason="typer is not installed: no command")
    import typer

    from prosparse.app import commands

    app = typer.Typer()
    commands.add_to(app)
    return testing.CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200", "TERM": "dumb"})


# --- a new method


def test_unregistered_estimator_is_an_error():
    model = Widest(2).fit(X)
    with pytest.raises(InputError, match="Widest is not an estimator of prosparse"):
        findings_of(model)
    with pytest.raises(ModelFileError, match="Widest is not an estimator that can be saved"):
        prosparse.save(model, "nowhere")


def test_command_offers_a_registered_method(registered, table):
    assert "For widest: number of columns." in command("select", "--help").output
    result = command(
        "select", "table.csv", "--method", "widest", "--widest", "5", "--components", "2", "--json"
    )
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["n_selected"] == 5
    assert answer["reason"] == "the 5 widest were requested"
    page = Path("table-prosparse/report.html").read_text("utf-8")
    assert "the 5 widest were requested" in page
    loaded = prosparse.load("table-prosparse/model.prosparse")
    np.testing.assert_array_equal(loaded.components_, Widest(2, n_widest=5).fit(X).components_)
    other_method = command("select", "table.csv", "--widest", "5", "--output", "other")
    assert other_method.exit_code == 2
    assert "--widest" in other_method.stderr


def test_command_does_not_offer_an_unregistered_method():
    assert "--widest" not in command("select", "--help").output


@pytest.mark.parametrize(
    "option",
    [
        Option("scale", "n_widest", "number of columns", type=int),  # an option of all methods
        Option("variables", "n_widest", "number of columns", type=str),  # an integer elsewhere
    ],
    ids=["name of another option", "type of another method"],
)
def test_conflicting_option_is_an_error(monkeypatch, option):
    pytest.importorskip("typer", reason="typer is not installed: no command")
    monkeypatch.setitem(METHODS, "Widest", replace(METHOD, options=(option,)))
    with pytest.raises(ValueError, match=f"--{option.name}"):
        command("select", "--help")


def test_registered_model_is_saved_and_loaded(registered, tmp_path):
    model = Widest(2).fit(X)
    loaded = prosparse.load(prosparse.save(model, tmp_path / "model"))
    np.testing.assert_array_equal(loaded.components_, model.components_)
    np.testing.assert_array_equal(loaded.heights_, model.heights_)


@pytest.mark.parametrize("attribute", ["relevance_", "heights_"])
def test_saved_model_has_the_attributes_that_its_description_names(registered, tmp_path, attribute):
    model = Widest(2).fit(X)
    delattr(model, attribute)
    with pytest.raises(ModelFileError, match=f"requires `{attribute}`"):
        prosparse.save(model, tmp_path / "broken")


def test_plots_follow_the_description(registered):
    model = Widest(2).fit(X)
    assert {display.__name__ for display in plot.displays_of(model)} == {
        "RelevanceDisplay", "LoadingsDisplay", "EvidenceDisplay", "ScoresDisplay"
    }  # fmt: skip
    display = plot.EvidenceDisplay.from_estimator(model)
    np.testing.assert_array_equal(display.line_.get_ydata(), model.heights_)
    with pytest.raises(InputError, match="Widest has no `objective_path_`"):
        plot.ConvergenceDisplay.from_estimator(model)
    plt.close("all")


@pytest.mark.slow
def test_contract_tests_include_a_registered_method():
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


# --- the methods of the library


def test_every_public_estimator_is_registered():
    methods = {method.estimator for method in METHODS.values()}
    public = [getattr(prosparse, name) for name in prosparse.__all__]
    estimators = {one for one in public if isinstance(one, type) and hasattr(one, "fit")}
    assert methods == estimators - {prosparse.Selector}
    assert all(METHODS[name].estimator.__name__ == name for name in METHODS)
    assert list(offered()) == ["fdrpca", "gsppca", "sca", "sppca", "empca", "panel"]


@pytest.mark.parametrize("name", METHODS)
def test_descriptions_name_existing_parameters(name):
    method = METHODS[name]
    named = {*method.example, *method.grid, *method.refit_tolerances}
    named |= {option.parameter for option in method.options or ()}
    named |= {method.size_parameter} - {None}
    assert named <= set(method.estimator().get_params())


@pytest.mark.parametrize("name", METHODS)
def test_described_capabilities_are_those_of_a_fit(name):
    method = METHODS[name]
    y = X[:, 0] - X[:, 3]
    model = method.estimator(**method.example).fit(X, y > 0 if method.classifies else y)
    attributes = set(model.__getstate__())
    assert method.required_attributes <= attributes
    assert method.records_objective == ("objective_path_" in attributes)
    assert method.tests_variables == ("qvalues_" in attributes)
    assert method.compares_penalties == ("penalties_" in attributes)
    assert method.reconstructs == hasattr(model, "predict_unmeasured")
    assert method.fits_views == hasattr(model, "predict_view")
    assert method.size_probabilities == ("model_size_probability_" in attributes)
    assert method.supervised == hasattr(model, "predict")
    assert method.projects == hasattr(model, "transform")
    found = findings_of(model)
    assert found.path is None or method.path is not None
    assert bool(found.objective_paths) == method.records_objective
    assert (found.inclusion is not None) == method.inclusion_probabilities
    assert not np.any(found.loadings[:, ~found.support])


@pytest.mark.parametrize("name", METHODS)
def test_every_saved_attribute_is_declared(name):
    """An attribute without a declaration would be loaded unchecked."""
    method = METHODS[name]
    y = X[:, 0] - X[:, 3]
    model = method.estimator(**method.example).fit(X, y > 0 if method.classifies else y)
    attributes = set(model.__getstate__()) - set(model.get_params())
    assert attributes <= set(method.schema.fields)


def test_derived_class_has_the_method_of_its_base():
    class Derived(GSPPCA):
        pass

    model = Derived(2).fit(X)
    assert method_of(model) is METHODS["GSPPCA"]
    assert findings_of(model).method == "Derived"


def test_documentation_lists_every_method_and_plot():
    listed = (ROOT / "docs" / "api" / "index.rst").read_text("utf-8")
    for name in METHODS:
        assert re.search(rf"^   {name}$", listed, re.M), name
    page = (ROOT / "docs" / "howto" / "plots.md").read_text("utf-8")
    lines = dict(re.findall(r"^\| \{py:class\}`~prosparse\.plot\.(\w+)`(.*)$", page, re.M))
    assert set(lines) == {name for name in plot.__all__ if re.fullmatch(r"\w+Display", name)}
    for display, methods in {
        "CommunalityDisplay": {n for n, m in METHODS.items() if m.tests_variables},
        "EvidenceDisplay": {n for n, m in METHODS.items() if m.path and m.path.evidence},
        "SlopeDisplay": {n for n, m in METHODS.items() if m.compares_penalties},
    }.items():
        assert set(re.findall(r"`(\w+)`", lines[display])) == methods


@pytest.mark.slow
def test_descriptions_need_no_optional_dependencies():
    extras = ["matplotlib", "typer", "rich", "jinja2", "anndata", "pyarrow", "pandas"]
    code = (
        f"import sys\nfor one in {extras}: sys.modules[one] = None\n"
        "import prosparse.registry, prosparse.findings, prosparse.plot, prosparse.persistence"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
