"""The way through the page: table, roles, run, results. Tasks run in this process."""

import html
import json
import os
import re
import sys

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("starlette", reason="starlette is not installed: no page")
pytest.importorskip("httpx", reason="httpx is not installed")
from starlette.testclient import TestClient

from prosparse.app.serve import worker
from prosparse.app.serve.access import Gate
from prosparse.app.serve.jobs import Job, Status
from prosparse.app.serve.pages import create_application
from prosparse.app.serve.workspace import Workspace
from prosparse.datasets import make_globally_sparse

HOME = "http://127.0.0.1:8000"
ORIGIN = {"Origin": HOME}
DATA = make_globally_sparse(60, 30, n_components=2, n_informative=10, random_state=0)


def messy_table():
    """Return a table with planted structure, identifiers, batches and a code for missing values."""
    X = DATA.X
    table = pd.DataFrame(X.round(3), columns=[f"v{k}" for k in range(30)])
    table.loc[[4, 9, 13, 27], "v20"] = -999
    table.insert(0, "sample", [f"S{k:03d}" for k in range(60)])
    table.insert(1, "plate", ["A", "B", "C"] * 20)
    table.insert(2, "outcome", (X[:, :3].sum(axis=1) > 0).astype(int))
    return table


class Workers:
    """Runs tasks in this process, because starting processes takes longer than the tasks."""

    def submit(self, request):
        job = Job(request)
        folder, arguments = os.getcwd(), sys.argv
        try:
            event = worker.answer(request)
        finally:
            os.chdir(folder)
            sys.argv = arguments
        job._receive(json.loads(json.dumps(event)))
        return job

    def close(self):
        pass


@pytest.fixture(scope="module")
def workspace():
    workspace = Workspace(Workers())
    yield workspace
    workspace.close()
    assert not workspace.folder.exists()


@pytest.fixture(scope="module")
def client(workspace):
    gate = Gate("127.0.0.1", 8000)
    client = TestClient(create_application(workspace, gate), HOME)
    client.get("/", params={"token": gate.token})
    return client


def upload(client, workspace, name, content):
    response = client.post("/tables", files={"file": (name, content)}, headers=ORIGIN)
    assert response.status_code == 200
    setup = list(workspace.setups.values())[-1]
    return setup


@pytest.fixture(scope="module")
def setup(client, workspace):
    return upload(client, workspace, "plates.csv", messy_table().to_csv(index=False))


@pytest.fixture(scope="module")
def analysis(client, workspace, setup):
    fields = {"do": "run", "question": "together", "answer:together:permutations": "2"}
    response = client.post(f"/setups/{setup.number}", data=fields | fixes(setup), headers=ORIGIN)
    analysis = list(workspace.analyses.values())[-1]
    assert response.url.path == f"/analyses/{analysis.number}"
    assert analysis.job.status is Status.DONE, analysis.job.message
    return analysis


def fixes(setup):
    """Return the fields of the corrections, as the page sends them."""
    return {
        field: "1"
        for found in setup.check.result["findings"]
        if found["is_fixed"]
        for field in (f"shown-fix:{found['code']}", f"fix:{found['code']}")
    }


def test_table_is_shown_as_understood(client, setup):
    page = html.unescape(client.get(f"/setups/{setup.number}").text)
    assert setup.check.result["roles"]["sample"] == "row names"
    assert re.search(r'name="role:plate"[^>]*class="role covariate"', page)
    assert "--na=-999" in page
    assert "60 rows and 31 variables" in page


def test_analysis_is_that_of_the_command(client, analysis, tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from prosparse.app.cli import app

    monkeypatch.chdir(analysis.table.path.parent)
    arguments = [*analysis.arguments, "--output", str(tmp_path / "out")]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    for name in ("selected.csv", "scores.csv", "loadings.csv"):
        assert (analysis.folder / name).read_bytes() == (tmp_path / "out" / name).read_bytes()


def test_answer_and_downloads(client, analysis):
    planted = {f"v{k}" for k in np.flatnonzero(DATA.support)}
    assert len(planted - set(analysis.job.result["selected"])) <= 1
    page = client.get(f"/analyses/{analysis.number}").text
    assert "variables were selected" in page
    for name in ("selected.csv", "model.prosparse", "report.html"):
        assert f"/analyses/{analysis.number}/files/{name}" in page
    archive = client.get(f"/analyses/{analysis.number}/all.zip")
    assert archive.content.startswith(b"PK")


def test_report_shows_the_command_and_runs_in_a_sandbox(client, analysis):
    response = client.get(f"/analyses/{analysis.number}/report")
    assert response.headers["content-security-policy"].startswith("sandbox allow-scripts")
    assert "allow-same-origin" not in response.headers["content-security-policy"]
    assert "prosparse select plates.csv" in html.unescape(response.text)
    assert str(analysis.folder.parent) not in response.text


def test_role_of_a_column_is_changed(client, workspace, setup):
    fields = {"do": "update", "question": "together", "role:outcome": "label"} | fixes(setup)
    client.post(f"/setups/{setup.number}", data=fields, headers=ORIGIN)
    changed = list(workspace.setups.values())[-1]
    assert changed.number != setup.number
    assert "--label outcome" in " ".join(workspace.arguments(changed))
    assert "outcome" not in setup.settings.roles  # another tab is not changed


def test_correction_is_refused(client, workspace, setup):
    fields = {"do": "update", "question": "together"} | fixes(setup)
    del fields["fix:missing-codes"]
    client.post(f"/setups/{setup.number}", data=fields, headers=ORIGIN)
    changed = list(workspace.setups.values())[-1]
    assert not any("-999" in argument for argument in workspace.arguments(changed))
    page = client.get(f"/setups/{changed.number}").text
    assert re.search(r'name="fix:missing-codes" value="1" data-submit\s*>', page)


def test_response_selects_the_question(client, workspace, setup):
    fields = {"do": "update", "question": "together", "role:outcome": "response"} | fixes(setup)
    client.post(f"/setups/{setup.number}", data=fields, headers=ORIGIN)
    changed = list(workspace.setups.values())[-1]
    assert workspace.arguments(changed)[0] == "regress"
    assert "--response outcome" in " ".join(workspace.arguments(changed))


def test_question_without_a_response(client, setup):
    fields = {"do": "run", "question": "predict"} | fixes(setup)
    response = client.post(f"/setups/{setup.number}", data=fields, headers=ORIGIN)
    assert response.status_code == 422
    assert "Enter the column to predict" in response.text


def test_hostile_cells_are_text(client, workspace):
    rng = np.random.default_rng(0)
    hostile = "<script>alert(1)</script>"
    table = pd.DataFrame(rng.normal(size=(20, 4)), columns=[hostile, '"><img src=x>', "=1+1", "d"])
    setup = upload(client, workspace, "x.csv", table.to_csv(index=False))
    page = client.get(f"/setups/{setup.number}").text
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page


@pytest.mark.parametrize(
    ("name", "content"),
    [("x.csv", b""), ("x.xlsx", b"PK\3\4damaged"), ("x.exe", b"MZ"), ("x", b"1")],
)
def test_unreadable_files(client, workspace, name, content):
    setup = upload(client, workspace, name, content)
    page = client.get(f"/setups/{setup.number}").text
    assert "Traceback" not in page
    assert str(workspace.folder) not in page


def test_compare_two_analyses(client, workspace, setup, analysis):
    other = workspace.add_command(
        setup, "other", setup.table, [*analysis.arguments, "--min-communality", "0.9"]
    )
    assert other.job.status is Status.DONE
    response = client.get(f"/compare?analysis={analysis.number}&analysis={other.number}")
    assert "selected by both" in response.text
    assert "--min-communality 0.9" in response.text
    assert client.get(f"/compare?analysis={analysis.number}&analysis=99").status_code == 400


def test_model_is_applied_to_another_table(client, workspace, analysis):
    table = messy_table().iloc[:7].replace(-999, 0.1)
    files = {"file": ("new.csv", table.to_csv(index=False))}
    client.post(f"/analyses/{analysis.number}/apply", files=files, headers=ORIGIN)
    applied = list(workspace.analyses.values())[-1]
    assert applied.job.status is Status.DONE, applied.job.message


def test_removed_table_leaves_no_files(client, workspace):
    setup = upload(client, workspace, "gone.csv", "a,b\n1,2\n2,1\n3,5\n")
    client.post(f"/tables/{setup.table.number}/remove", headers=ORIGIN)
    assert not setup.table.path.exists()
    assert client.get(f"/setups/{setup.number}").status_code == 404


def patients(gaps):
    """Return genes and proteins of the same patients, with a common factor."""
    rng = np.random.default_rng(3)
    factor = rng.standard_normal((60, 1))
    names = [f"P{k:02d}" for k in range(60)]
    tables = []
    for prefix, p in (("gene", 14), ("protein", 12)):
        X = rng.standard_normal((60, p))
        X[:, :6] += 1.2 * factor
        frame = pd.DataFrame(X.round(4), columns=[f"{prefix}{k}" for k in range(p)])
        if gaps:
            frame = frame.mask(rng.random(frame.shape) < 0.04)
        frame.insert(0, "patient", names)
        tables.append(frame.sample(frac=1.0, random_state=len(tables)).to_csv(index=False))
    return tables


def run_question(client, workspace, setup, question, **fields):
    fields = {"do": "run", "question": question} | fixes(setup) | fields
    response = client.post(f"/setups/{setup.number}", data=fields, headers=ORIGIN)
    return response, list(workspace.analyses.values())[-1]


def test_several_tables_dropped_together(client, workspace, tmp_path, monkeypatch):
    genes, proteins = patients(gaps=False)
    files = [("file", ("genes.csv", genes)), ("file", ("proteins.csv", proteins))]
    assert client.post("/tables", files=files, headers=ORIGIN).status_code == 200
    setup = list(workspace.setups.values())[-1]
    assert setup.question.name == "share"
    page = client.get(f"/setups/{setup.number}").text
    assert re.search(r'name="table:\d+" value="1"[^>]*checked> proteins.csv', page)
    fields = {f"table:{setup.settings.tables[0]}": "1", "table:offered": "1"}
    response, analysis = run_question(client, workspace, setup, "share", **fields)
    assert "is shared by several tables" in response.text
    command = "prosparse select genes.csv --method sca --missing impute --table proteins.csv"
    assert command in html.unescape(response.text)
    # The command that the page shows gives the same result in a folder with both files.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "genes.csv").write_text(genes, newline="")
    (tmp_path / "proteins.csv").write_text(proteins, newline="")
    from typer.testing import CliRunner

    from prosparse.app.cli import app

    assert CliRunner().invoke(app, [*analysis.arguments, "--output", "out"]).exit_code == 0
    scores = (tmp_path / "out" / "scores.csv").read_bytes()
    assert scores == (analysis.folder / "scores.csv").read_bytes()


def test_further_table_is_added_to_a_table(client, workspace):
    genes, proteins = patients(gaps=False)
    setup = upload(client, workspace, "first.csv", genes)
    response, _ = run_question(client, workspace, setup, "share")
    assert response.status_code == 422
    assert "Add another table" in response.text
    files = {"file": ("first.csv", proteins)}  # the same name in another folder
    client.post(f"/setups/{setup.number}/tables", files=files, headers=ORIGIN)
    changed = list(workspace.setups.values())[-1]
    assert changed.question.name == "share"
    _, analysis = run_question(client, workspace, changed, "share")
    assert analysis.arguments[-2:] == ["--table", "2-first.csv"]
    assert analysis.job.status is Status.DONE, analysis.job.message


def test_missing_values_are_filled_in(client, workspace):
    setup = upload(client, workspace, "gaps.csv", patients(gaps=True)[0])
    response, analysis = run_question(client, workspace, setup, "fill")
    n_missing = analysis.job.result["n_imputed"]
    assert n_missing > 10
    assert f"{n_missing} missing values were filled in" in response.text
    full = pd.read_csv(analysis.folder / "imputed.csv")
    assert not full.isna().any().any()
    assert full.columns[0] == "patient"
    complete = upload(client, workspace, "complete.csv", patients(gaps=False)[0])
    response, _ = run_question(client, workspace, complete, "fill")
    assert "The table has no missing values" in response.text


def test_plots_are_made_on_request(client, analysis):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    before = client.get(f"/analyses/{analysis.number}").text
    assert "Make plots for a paper" in before
    response = client.post(f"/analyses/{analysis.number}/plots", headers=ORIGIN)
    assert response.status_code == 200
    for name in ("plot-scores.svg", "plot-scores.pdf", "plot-biplot.png"):
        assert f"/analyses/{analysis.number}/files/{name}" in response.text
    assert "Make plots for a paper" not in response.text
    plot = client.get(f"/analyses/{analysis.number}/files/plot-scores.svg")
    assert plot.headers["content-type"].startswith("image/svg+xml")
    assert plot.headers["content-disposition"].startswith("attachment")


def test_corrections_and_notes_are_shown_as_they_are(client, workspace, setup):
    page = client.get(f"/setups/{setup.number}").text
    assert 'class="finding fixed"' in page
    assert "Ticked corrections are already applied" in page
    rows = [",".join(["sample", *[f"v{k}" for k in range(6)]]), ",".join(["", *["µmol/L"] * 6])]
    rng = np.random.default_rng(0)
    rows += [f"s{i}," + ",".join(f"{v:.3f}" for v in rng.normal(size=6)) for i in range(30)]
    units = upload(client, workspace, "units.csv", "\n".join(rows))
    page = html.unescape(client.get(f"/setups/{units.number}").text)
    assert "Line 2 contains units and was skipped: 'µmol/L'." in page  # letters keep their case


def test_outlying_rows_can_be_left_out(client, workspace):
    X = DATA.X.copy()
    X[7] = X.mean(axis=0) + 12.0 * (X[7] - X.mean(axis=0))
    frame = pd.DataFrame(
        X, columns=[f"v{k}" for k in range(30)], index=[f"S{k}" for k in range(60)]
    )
    setup = upload(client, workspace, "outlier.csv", frame.to_csv(index_label="sample"))
    assert "enter S7 below the table" in client.get(f"/setups/{setup.number}").text
    fields = {"do": "update", "question": "together", "format:ignore_rows": "S7"} | fixes(setup)
    client.post(f"/setups/{setup.number}", data=fields, headers=ORIGIN)
    changed = list(workspace.setups.values())[-1]
    assert "59 rows" in client.get(f"/setups/{changed.number}").text


def test_applied_models_are_described_and_not_compared(client, workspace, analysis):
    new = messy_table().iloc[:20].replace(-999, 0.1).to_csv(index=False)
    response = client.post(
        f"/analyses/{analysis.number}/apply", files={"file": ("n.csv", new)}, headers=ORIGIN
    )
    assert "The model was applied to 20 rows" in response.text
    assert "With another analysis" not in response.text
    applied = list(workspace.analyses.values())[-1]
    address = f"/compare?analysis={analysis.number}&analysis={applied.number}"
    assert client.get(address).status_code == 400
