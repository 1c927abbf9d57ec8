"""Notes, messages and options of the commands."""

import csv
import json
import re
import subprocess
import sys

import numpy as np
import pytest

from programs import Program

pytest.importorskip("pyarrow")
typer_testing = pytest.importorskip("typer.testing")

from prosparse import (  # noqa: E402
    FDRPCA,
    GSPPCA,
    Panel,
    SpinyClassifier,
    SpinyRegressor,
    __version__,
    load,
    save,
)
from prosparse.app import options  # noqa: E402
from prosparse.app.cli import COMMANDS, app, load_commands  # noqa: E402
from prosparse.app.cli_messages import name_positions, translate_parameters  # noqa: E402
from prosparse.app.output_paths import REGRESSION_RESULTS  # noqa: E402
from prosparse.datasets import make_globally_sparse  # noqa: E402
from prosparse.persistence import load_with_about  # noqa: E402
from prosparse.registry import METHODS, offered  # noqa: E402

pytestmark = pytest.mark.quick

run = typer_testing.CliRunner().invoke
DATA = make_globally_sparse(60, 8, n_components=1, n_informative=5, random_state=0)
NAMES = [f"v{k}" for k in range(8)]


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def table(path, X=DATA.X, names=NAMES, **more):
    """Write a table with additional columns."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*names, *more])
        for k, row in enumerate(X):
            cells = ["" if np.isnan(v) else repr(float(v)) for v in row]
            writer.writerow([*cells, *(column[k] for column in more.values())])
    return str(path)


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def run_json(*arguments):
    result = run(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def text_of(result):
    return " ".join((result.stdout + result.stderr).split())


# --- units


@pytest.mark.parametrize(
    "method",
    [["gsppca", "--components", "1"], ["empca", "--variables", "2", "--components", "1"]],
    ids=lambda arguments: arguments[0],
)
def test_warning_about_columns_of_larger_scale(inside, method):
    income = np.random.default_rng(0).normal(5e4, 1e4, 60).round()
    path = table(inside / "t.csv", income=income)
    arguments = ["select", path, "--method", *method]
    warned = " ".join(run_json(*arguments)["warnings"])
    assert "'income' has 100% of the variance" in warned
    assert "set --scale" in warned
    assert "--scale" not in " ".join(run_json(*arguments, "--scale")["warnings"])


@pytest.mark.parametrize(("noise", "is_noted"), [("feature", False), ("view", True)])
def test_warning_about_units_of_sca_depends_on_the_noise_model(inside, noise, is_noted):
    """With one noise variance per variable, the units of a column have no effect on the fit."""
    income = 5e4 + 1e4 * DATA.X[:, 0]
    path = table(inside / "t.csv", income=income)
    arguments = ["select", path, "--method", "sca", "--noise", noise, "--permutations", "0"]
    assert ("If units differ" in " ".join(run_json(*arguments)["warnings"])) == is_noted


@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
def test_no_note_on_units_for_methods_that_standardize(inside):
    path = table(inside / "t.csv", income=np.arange(60)[::-1] % 7 * 1e5 + 1)
    for method in (["fdrpca"], ["panel", "--variables", "2"]):
        arguments = ["select", path, "--method", *method, "--permutations", "0"]
        assert run_json(*arguments)["notes"] == []


def test_no_note_on_units_for_equal_scales(inside):
    path = table(inside / "t.csv", X=DATA.X * 1e4)
    assert run_json("select", path, "--method", "gsppca", "--components", "1")["notes"] == []


# --- missing values


def test_missing_drop_in_a_wide_table(inside, rng):
    X = np.hstack([DATA.X[:20], rng.normal(size=(20, 292))])
    X[rng.integers(0, 20, 60), rng.integers(0, 300, 60)] = np.nan  # in nearly every row
    path = table(inside / "t.csv", X=X, names=[f"v{k}" for k in range(300)])
    found = run_json("select", path, "--missing", "drop")
    assert found["rows"] >= 18
    assert found["variables"] > 230
    assert "columns ('v" in " ".join(found["notes"])


# --- messages


# An invalid value of each option. A flag has no value; the table has negative entries, which make
# it invalid.
REFUSED = {
    "counts": None,
    "fdr": "2",
    "null": "normal",
    "control": "by",
    "shadows": "0",
    "draws": "0",
    "min-communality": "-1",
    "variables": "999",
    "penalty": "bik",
    "target-recovery": "7",
    "noise": "loud",
    "likelihood": "gamma",
    "components": "99",
    "tol": "-1",
}


def cases():
    for method in offered().values():
        common = {"components": "n_components", "tol": "tol"}
        options = {one.name: one.parameter for one in method.options or ()}
        options |= {
            name: parameter for name, parameter in common.items() if method.has_parameter(parameter)
        }
        if method.name == "sca":  # any number of components is valid
            options.pop("components")
        for name, parameter in options.items():
            yield pytest.param(method.name, name, parameter, id=f"{method.name}-{name}")


@pytest.mark.parametrize(("method", "name", "parameter"), list(cases()))
def test_errors_contain_options_instead_of_parameters(inside, method, name, parameter):
    options = [word for word in (f"--{name}", REFUSED[name]) if word is not None]
    result = run(app, ["select", table(inside / "t.csv"), "--method", method, *options])
    assert result.exit_code == (2 if REFUSED[name] else 1), result.output
    assert f"--{name}" in result.stderr
    assert "`" not in result.stderr
    if parameter != name:
        assert parameter not in result.stderr


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ('`n_components="auto"` finds more', "--components auto finds more"),
        ("try `scale=True`, or", "try --scale, or"),
        ("or fit with `scale=False`", "or fit with no --scale"),
        ("increase `max_iter` or `tol`", "increase --max-iter or --tol"),
        ("`support_` is empty", "the selection is empty"),
        (
            "with `n_features_to_select` or `target_recovery`",
            "with --variables or --target-recovery",
        ),
        ("`include` and `exclude`", "--include and --exclude"),
        ("`--missing` must be", "--missing must be"),
        ("`something` else", "`something` else"),
    ],
)
def test_parameters_are_translated_to_options(message, arguments):
    assert translate_parameters(message, METHODS["Panel"]) == arguments


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ("column 1 has 99% of the variance", "column 'b c' has 99% of the variance"),
        ("rows 0, 2 and 1 of X have", "rows 'r0', 'r2' and 'r1' of the data have"),
        ("rows 0, 1 and 5 others of X", "rows 'r0', 'r1' and 5 others of X"),
        ("column 7 of 3 columns", "column 7 of 3 columns"),
    ],
)
def test_positions_are_replaced_by_names(message, named):
    assert name_positions(message, ["a", "b c"], ["r0", "r1", "r2"]) == named


def test_rows_without_names_are_counted_from_one():
    assert name_positions("row 3 of X has", ["a"], None) == "row 4 of the data has"


def test_json_contains_warnings_and_notes(inside):
    noise = np.random.default_rng(1).normal(size=(60, 8))
    found = run_json("select", table(inside / "t.csv", X=noise, patient_id=range(100, 160)))
    assert any(one.startswith("FDRPCA: ") for one in found["warnings"])
    assert any("'patient_id' numbers the rows from 100 to 159" in one for one in found["notes"])


def test_max_iter(inside):
    path = table(inside / "t.csv")
    arguments = ["select", path, "--method", "sca", "--max-iter", "1"]
    assert any("--max-iter" in one for one in run_json(*arguments)["warnings"])
    refused = run(app, ["select", path, "--max-iter", "1"])
    assert "--max-iter has no effect with --method fdrpca; use gsppca" in refused.stderr


# --- reports


def test_report_of_a_folder_is_reproduced(inside):
    path = table(inside / "t.csv", kind=["a", "b"] * 30, name=[f"=s{k}" for k in range(60)])
    arguments = ["select", path, "--label", "kind", "--row-names", "name", "--output", "found"]
    assert run(app, arguments).exit_code == 0
    page = inside / "found" / "report.html"
    first = page.read_text("utf-8")
    page.unlink()
    assert run(app, ["report", "found"]).stdout.strip() == "wrote found/report.html"

    def values(text):
        return re.findall(r'"values":\[\[.*?\]\]', text), re.findall(r'"ids":\[.*?\]', text)

    assert values(page.read_text("utf-8")) == values(first)
    assert 'id="scores-chart"' in page.read_text("utf-8")
    elsewhere = run_json("report", "found", "--output", "page.html")
    assert elsewhere["output"] == "page.html"
    (inside / "empty").mkdir()
    refused = run(app, ["report", "empty"])
    assert refused.exit_code == 1
    assert "contains no model.prosparse" in refused.stderr
    (inside / "found" / "scores.csv").write_text("row,a,b,c,d\n1,2,3,4,5,6,7\n")
    d = load(inside / "found" / "model.prosparse").n_components_
    assert f"must have {d} components" in run(app, ["report", "found"]).stderr


def test_report_uses_given_read_options(inside):
    path = table(inside / "t.csv")
    assert run(app, ["fit", path, "-q"]).exit_code == 0
    text = (inside / "t.csv").read_text().replace(",", "|").splitlines()
    lines = [f"{line}|{word}" for line, word in zip(text, ["kind", *"ab" * 30], strict=False)]
    (inside / "new.txt").write_text("\n".join(["Measured again", *lines]))
    arguments = ["report", "t.prosparse", "--data", "new.txt", "--label", "kind"]
    found = run_json(*arguments, "--separator", "|", "--output", "new.html")
    assert any("above the column names" in note for note in found["notes"])
    assert 'id="scores-chart"' in (inside / "new.html").read_text("utf-8")
    refused = run(app, ["report", "t.prosparse", "--data", "new.txt", "--output", "new.html"])
    assert "'kind'" in refused.stderr


def test_title_of_a_report_on_new_data(inside):
    assert run(app, ["fit", table(inside / "old.csv"), "-q"]).exit_code == 0
    table(inside / "new.csv", X=DATA.X[:20] + 1.0)
    arguments = ["report", "old.prosparse", "--output", "page.html", "--data"]

    def heading(*more):
        run_json(*arguments, *more)
        page = (inside / "page.html").read_text("utf-8")
        assert re.findall("<title>(.*?)</title>", page) == re.findall("<h1>(.*?)</h1>", page)
        return page, re.findall("<h1>(.*?)</h1>", page)[0]

    page, title = heading("new.csv")
    assert title == "Scores of new.csv from the model old.prosparse, fitted to old.csv"
    assert "<dt>file</dt><dd>new.csv</dd>" in page
    assert "<dt>rows</dt><dd>20</dd>" in page
    assert "<dt>file (model)</dt><dd>old.csv</dd>" in page
    assert heading("old.csv")[1] == "Variable selection: old.csv"


def test_report_on_new_data_does_not_replace_the_report_of_the_folder(inside):
    assert run(app, ["select", table(inside / "old.csv"), "--output", "found"]).exit_code == 0
    before = (inside / "found" / "report.html").read_bytes()
    table(inside / "new.csv", X=DATA.X[:20] + 1.0)
    assert run_json("report", "found", "--data", "new.csv")["output"] == "new-report.html"
    assert (inside / "found" / "report.html").read_bytes() == before
    assert "Scores of new.csv" in (inside / "new-report.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["select", "t.csv", "--sheet", "2"], "--sheet"),
        (["regress", "t.csv", "--response", "v0", "--sheet", "2"], "--sheet"),
        (["panel", "t.CSV.gz", "--sheet", "2"], "--sheet"),
        (["fit", "t.parquet", "--separator", ";"], "--separator"),
        (["fit", "t.xlsx", "--encoding", "latin-1"], "--encoding"),
        (["fit", "t.npy", "--no-header"], "--no-header"),
        (["report", "m.prosparse", "--data", "t.csv", "--sheet", "2"], "--sheet"),
        (["report", "m.prosparse", "--label", "kind"], "--label"),
    ],
)
def test_unused_read_options_raise_errors(inside, arguments, option):
    table(inside / "t.csv")
    for name in ("t.CSV.gz", "t.parquet", "t.xlsx", "t.npy"):
        (inside / name).write_bytes(b"never read")
    save(GSPPCA(1).fit(DATA.X), "m.prosparse")
    refused = run(app, arguments)
    assert refused.exit_code == 2, refused.output
    assert f"prosparse: {option} has no effect" in text_of(refused)


# --- regress and panel


@pytest.mark.slow
def test_regress(inside):
    y = 3 + 2 * DATA.X[:, 1] - DATA.X[:, 4] + 0.1 * np.random.default_rng(0).normal(size=60)
    path = table(inside / "t.csv", outcome=[repr(float(v)) for v in y])
    found = run_json("regress", path, "--response", "outcome")
    model = SpinyRegressor().fit(DATA.X, y)
    assert found["selected"] == [NAMES[k] for k in np.argsort(model.ranking_)][: model.n_selected_]
    assert found["coefficients"]["v1"] == pytest.approx(model.selected_coef_[1])
    assert found["intercept"] == pytest.approx(model.selected_intercept_)
    assert found["r2"] == pytest.approx(model.score(DATA.X, y))
    assert found["variables"] == 8
    folder = inside / "t-prosparse"
    assert sorted(one.name for one in folder.iterdir()) == sorted(REGRESSION_RESULTS)
    first, *rest = rows_of(folder / "coefficients.csv")
    assert first["variable"] == "(intercept)"
    assert {one["variable"] for one in rest} == set(found["selected"])
    predicted = [float(one["predicted"]) for one in rows_of(folder / "predictions.csv")]
    np.testing.assert_allclose(predicted, model.predict(DATA.X))
    assert "Regression of outcome: t.csv" in (folder / "report.html").read_text("utf-8")
    shown = run(app, ["regress", path, "--response", "outcome"])
    assert "of the response's variance" in shown.stdout
    assert run(app, ["report", "t-prosparse"]).exit_code == 0


@pytest.mark.parametrize("where", ["table", "labels"])
def test_response_with_decimal_commas(where, inside):
    """The response is in the table, or in a second file."""
    y = 3 + 2 * DATA.X[:, 1] - DATA.X[:, 4] + 0.1 * np.random.default_rng(0).normal(size=60)
    german = [str(round(float(v), 6)).replace(".", ",") for v in y]
    rows = [[f"r{k}", *(str(float(v)).replace(".", ",") for v in DATA.X[k])] for k in range(60)]
    header = ["id", *NAMES]
    if where == "table":
        header, rows = [*header, "outcome"], [[*row, cell] for row, cell in zip(rows, german)]
    lines = [";".join(row) for row in (header, *rows)]
    (inside / "t.csv").write_text("\n".join(lines) + "\n", "utf-8")
    arguments = ["regress", "t.csv", "--response", "outcome", "--permutations", "0"]
    if where == "labels":
        lines = ["id;outcome", *(f"r{k};{cell}" for k, cell in enumerate(german))]
        (inside / "y.csv").write_text("\n".join(lines) + "\n", "utf-8")
        arguments += ["--labels", "y.csv"]
    model = SpinyRegressor().fit(DATA.X, np.round(y, 6))
    assert run_json(*arguments)["coefficients"]["v1"] == pytest.approx(model.selected_coef_[1])


@pytest.mark.slow
def test_regress_with_two_classes(inside):
    """Rows without a response are dropped."""
    y = DATA.X[:, 1] - DATA.X[:, 4] > np.median(DATA.X[:, 1] - DATA.X[:, 4])
    lower, higher, classes = "no", "yes", ["no", "yes"]
    cells = [higher if one else lower for one in y]
    cells[7] = ""
    path = table(inside / "t.csv", outcome=cells)
    arguments = ["regress", path, "--response", "outcome", "--missing", "drop"]
    found = run_json(*arguments)
    kept = np.delete(np.arange(60), 7)
    model = SpinyClassifier().fit(DATA.X[kept], np.array(classes)[y[kept].astype(int)])
    assert found["selected"] == [NAMES[k] for k in np.argsort(model.ranking_)][: model.n_selected_]
    assert found["coefficients"]["v1"] == pytest.approx(model.selected_coef_[0, 1])
    assert found["intercept"] == pytest.approx(model.selected_intercept_[0])
    assert found["accuracy"] == pytest.approx(
        model.score(DATA.X[kept], np.array(classes)[y[kept].astype(int)])
    )
    assert found["classes"] == classes
    assert "r2" not in found
    assert any("has two values" in note for note in found["notes"])
    folder = inside / "t-prosparse"
    rows = rows_of(folder / "predictions.csv")
    name = f"probability_{classes[1]}"
    proba = [float(one[name]) for one in rows]
    np.testing.assert_allclose(proba, model.predict_proba(DATA.X[kept])[:, 1], atol=1e-8)
    assert [one["predicted"] for one in rows] == [str(one) for one in model.predict(DATA.X[kept])]
    assert load(folder / "model.prosparse").classes_.tolist() == classes
    assert "Regression of outcome: t.csv" in (folder / "report.html").read_text("utf-8")


@pytest.mark.slow
def test_diagnostics_and_script_of_a_classification(inside, capsys):
    y = DATA.X[:, 1] - DATA.X[:, 4] > np.median(DATA.X[:, 1] - DATA.X[:, 4])
    path = table(inside / "t.csv", outcome=["yes" if one else "no" for one in y])
    arguments = [
        "regress",
        path,
        "--response",
        "outcome",
        "--stability",
        "2",
        "--permutations",
        "2",
    ]
    shown = run(app, arguments)
    assert shown.exit_code == 0, shown.stderr
    assert "accuracy" in shown.stdout
    assert "null datasets" in shown.stdout
    _, rest = load_with_about(inside / "t-prosparse" / "model.prosparse")
    capsys.readouterr()
    exec(rest["about"]["script"], {})
    n_selected = SpinyClassifier().fit(DATA.X, y).n_selected_
    assert f"{n_selected} of 8 variables selected" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("response", "message"),
    [
        ("outcom", "there is no column 'outcom'; did you mean 'outcome'"),
        ("outcome", "row 3 of the data: the response is missing, as in 1 more row."),
        ("kind", "the response 'kind' is 'a', which is not a finite number"),
    ],
)
def test_invalid_responses(inside, response, message):
    outcome = [repr(float(v)) for v in DATA.X[:, 0]]
    outcome[2] = outcome[50] = ""
    path = table(inside / "t.csv", names=["a", *NAMES[1:]], outcome=outcome, kind=["a"] * 60)
    arguments = ["regress", path, "--response", response, "--ignore", "text"]
    refused = run(app, arguments)
    assert refused.exit_code == 1
    assert message in text_of(refused)
    if response == "outcome":
        found = run_json(*arguments, "--missing", "drop")
        assert found["rows"] == 58
        assert any("dropped 2 rows without a response" in note for note in found["notes"])


@pytest.mark.slow
def test_panel(inside):
    path = table(inside / "t.csv")
    lines = ["variable,price", *(f"{name},{k + 1}" for k, name in enumerate(NAMES))]
    (inside / "prices.csv").write_text("\n".join(lines))
    asked = [path, "--variables", "3", "--permutations", "0"]
    limits = ["--include", "v7", "--exclude", "v0", "--costs", "prices.csv"]
    found = run_json("panel", *asked, *limits)
    model = Panel(3, include=[7], exclude=[0], costs=np.arange(1.0, 9.0)).fit(DATA.X)
    assert found["selected"] == [NAMES[k] for k in model.order_]
    assert "v0" not in found["selected"]
    assert found["selected"][0] == "v7"
    assert load("t-prosparse/model.prosparse").n_selected_ == 3
    assert (
        run_json("panel", *asked)["selected"]
        == run_json("select", *asked, "--method", "panel")["selected"]
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--include", "v77"], "--include: there is no variable 'v77'; did you mean 'v7'"),
        (["--as-variable", "v77"], "there is no column 'v77'; did you mean 'v7'"),
        (["--exclude", "v77"], "--exclude: there is no variable 'v77'; did you mean 'v7'"),
        (["--include", "v1", "--exclude", "v1"], "--include and --exclude both contain 'v1'"),
        (["--costs", "few.csv"], "--costs: 7 of the 8 variables have no cost"),
        (["--costs", "text.csv"], "the cost of 'v0' is 'dear', which is not a number"),
        (["--costs", "twice.csv"], "twice.csv, column 'variable': 'v3' occurs more than once"),
        (["--variables", "9"], "--variables must be at most 8"),
    ],
)
def test_invalid_panel_options(inside, arguments, message):
    (inside / "few.csv").write_text("variable,price\nv0,1\n")
    (inside / "text.csv").write_text("variable,price\nv0,dear\n")
    costs = [*(f"{name},1" for name in NAMES), "v3,99"]
    (inside / "twice.csv").write_text("\n".join(["variable,price", *costs]))
    refused = run(app, ["panel", table(inside / "t.csv"), *arguments])
    assert refused.exit_code in (1, 2)
    assert message in text_of(refused)


@pytest.mark.parametrize("command", ["select", "fit"])
def test_errors_of_a_fit_are_one_line(inside, monkeypatch, command):
    def broken(self, X, y=None, **more):
        raise ValueError("not enough values to unpack (expected 3, got 0)")

    monkeypatch.setattr(FDRPCA, "fit", broken)
    refused = run(app, [command, table(inside / "t.csv")])
    assert isinstance(refused.exception, SystemExit)
    assert refused.exit_code == 1
    assert text_of(refused) == (
        f"prosparse: {inside / 't.csv'}: FDRPCA cannot be fitted to this table (not enough values "
        "to unpack (expected 3, got 0))."
    )
    assert [p.name for p in inside.iterdir()] == ["t.csv"]


@pytest.mark.parametrize(
    "arguments", [["select", "t.xlsx"], ["panel", "t.csv", "--costs", "t.xlsx"]]
)
def test_crashes_of_libraries_are_not_shown(inside, monkeypatch, arguments):
    """A library that fails with a backtrace, like a panic of Rust."""
    pytest.importorskip("python_calamine")
    (inside / "fake").mkdir()
    (inside / "fake" / "python_calamine.py").write_text(
        "import sys\n"
        "class PasswordError(Exception): pass\n"
        "class PanicException(BaseException): pass\n"
        "class CalamineWorkbook:\n"
        "    @staticmethod\n"
        "    def from_path(path):\n"
        "        sys.stderr.write(\"thread '<unnamed>' panicked at src/lib.rs:1:2:\\n\"\n"
        "            'stack backtrace: 0: rust_begin_unwind\\n')\n"
        "        raise PanicException('called `Option::unwrap()` on a `None` value')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(inside / "fake"))
    table(inside / "t.csv")
    (inside / "t.xlsx").write_bytes(b"not a spreadsheet")
    refused = run(app, arguments)
    assert isinstance(refused.exception, SystemExit)
    assert refused.exit_code == 1
    assert len(refused.stderr.splitlines()) == 1
    assert "t.xlsx: invalid spreadsheet" in text_of(refused)
    for word in ("panicked", "backtrace", "unwind", "lib.rs", "Traceback"):
        assert word not in text_of(refused)


def test_panel_without_candidates(inside):
    excluded = [word for name in NAMES for word in ("--exclude", name)]
    refused = run(app, ["panel", table(inside / "t.csv"), *excluded])
    assert isinstance(refused.exception, SystemExit)
    assert refused.exit_code in (1, 2)
    assert refused.stderr.startswith("prosparse: ")
    assert len(refused.stderr.splitlines()) == 1


# --- duplicate names


def test_label_with_the_name_of_a_result_column(inside):
    path = table(inside / "t.csv", component_1=["u", "w"] * 30)
    assert run(app, ["select", path, "--label", "component_1"]).exit_code == 0
    scores = rows_of(inside / "t-prosparse" / "scores.csv")
    assert list(scores[0])[:2] == ["row", "component_1"]
    assert list(scores[0])[-1] == "component_1 (label)"
    assert scores[0]["component_1 (label)"] == "u"
    expected = FDRPCA().fit(DATA.X).transform(DATA.X)[0, 0]
    assert float(scores[0]["component_1"]) == pytest.approx(expected)
    assert run(app, ["report", "t-prosparse"]).exit_code == 0


# --- command line


def test_version():
    assert run(app, ["--version"]).stdout.strip() == f"prosparse {__version__}"


def test_file_instead_of_a_command(inside):
    table(inside / "t.csv")
    result = run(app, ["t.csv"])
    assert result.exit_code == 2
    assert "is a file, not a command: use prosparse select" in " ".join(result.stderr.split())


def test_summaries_of_commands_match_their_help():
    for name, text in COMMANDS.items():
        assert load_commands().get_command(None, name).help.splitlines()[0] == text


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_flags_have_no_value_type_in_help(command):
    result = run(app, [*command, "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exit_code == 0
    assert "--help" in result.output
    assert "<bool>" not in result.output
    assert "BOOLEAN" not in result.output


@pytest.mark.parametrize("command", ["select", "panel", "regress", "fit", "report"])
def test_commands_share_read_options(command):
    result = run(app, [command, "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    for option in options.TableOptions._fields:
        assert f"--{option.replace('_', '-')}" in result.output
    assert f"prosparse {command}" in result.output


@pytest.mark.slow
def test_import_of_one_estimator_imports_no_others(tmp_path):
    program = (
        "import sys, prosparse\nfrom prosparse import GSPPCA\n"
        "parts = [name.split('.') for name in sys.modules if 'prosparse.models.' in name]\n"
        "methods = {part[2] for part in parts} - {'_base'}\n"
        "print(sorted(methods), 'prosparse.registry' in sys.modules, file=sys.stderr)\n"
    )
    ended = Program(program, tmp_path).ended(100)  # forked from a process without estimators
    assert ended.stderr.split("\n")[0] == "['gsppca'] False", ended.stderr


def test_help_imports_no_numerical_library():
    program = (
        "import sys, prosparse\nsys.argv = ['prosparse', '--help']\n"
        "from prosparse.__main__ import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'pyarrow', 'matplotlib'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "select" in ended.stdout, ended.stderr
    assert ended.stdout.splitlines()[-1] == "[]"


def test_public_names_exist():
    import prosparse

    assert set(prosparse.__all__) <= set(dir(prosparse))
    for name in prosparse.__all__:
        assert getattr(prosparse, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = prosparse.nothing
    with pytest.raises(AttributeError, match="has no attribute '__wrapped__'"):
        _ = prosparse.__wrapped__


@pytest.mark.parametrize(
    ("arguments", "completed"),
    [("prosparse sel", "select"), ("prosparse select --min-c", "--min-com")],
)
def test_shell_completion(arguments, completed):
    environment = {
        "_PROSPARSE_COMPLETE": "complete_bash",
        "COMP_WORDS": arguments,
        "COMP_CWORD": str(len(arguments.split()) - 1),
    }
    assert completed in run(app, [], prog_name="prosparse", env=environment).stdout


def test_counts_option(inside):
    X = np.random.default_rng(0).poisson(3.0, (60, 8)).astype(float)
    X *= np.arange(1, 61)[:, None]  # rows of different size
    path = table(inside / "t.csv", X=X)
    assert run_json("select", path)["n_selected"] == 8  # all grow with the size of the row
    found = run_json("select", path, "--counts")
    assert found["n_selected"] == 0
    result = run(app, ["select", path, "--counts", "--log1p"])
    assert result.exit_code == 2
    assert "remove --log1p or --counts" in result.stderr
