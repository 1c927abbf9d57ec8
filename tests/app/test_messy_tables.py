"""Tables as people have them: the command that the check prints finds the planted variables."""

import json
import os
import shlex
import warnings

import numpy as np
import pytest

import messy_tables

typer_testing = pytest.importorskip("typer.testing")
pytest.importorskip("python_calamine", reason="python-calamine is not installed")

from prosparse import FDRPCA  # noqa: E402
from prosparse.app.cli import app  # noqa: E402

run = typer_testing.CliRunner().invoke
MAX_FALSE, MIN_FOUND = 0.12, 0.9  # of one table; on average of many tables .06
DATA = os.environ.get("PROSPARSE_DATA")


def correct_and_select(path):
    """Run the command that the check prints last."""
    checked = run(app, ["check", path.name])
    *_, command = checked.stdout.strip().splitlines()
    assert command.strip().startswith(f"prosparse select {path.name}"), checked.output
    arguments = shlex.split(command)[1:]
    result = run(app, [*arguments, "--permutations", "0", "--json"])
    assert result.exit_code == 0, result.output
    return {*json.loads(result.stdout)["selected"]}


def select_from_clean_data(table):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = FDRPCA(**table.parameters).fit(table.X, **table.fit)
    return {table.names[k] for k in np.flatnonzero(model.support_)}


def assert_true(table):
    selected, clean = correct_and_select(table.path), select_from_clean_data(table)
    assert selected <= {*table.names}
    assert len(selected & table.null) <= MAX_FALSE * len(selected)
    assert len(selected - table.null) >= MIN_FOUND * len(clean - table.null)


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


@pytest.mark.parametrize("name", messy_tables.SIMULATED)
def test_one_correction_suffices(name, inside):
    assert_true(messy_tables.SIMULATED[name](inside, seed=0))


@pytest.mark.skipif(DATA is None, reason="PROSPARSE_DATA is not set")
@pytest.mark.parametrize("name", messy_tables.REAL)
def test_real_genes(name, inside):
    assert_true(messy_tables.REAL[name](inside, 0, DATA))


def test_many_rows(inside):
    table = messy_tables.large(inside, seed=0, n=2_000)
    assert_true(table)
