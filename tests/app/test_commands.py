"""Results and errors of ``prosparse select``, ``fit`` and ``report``."""

import ast
import csv
import functools
import html
import importlib
import json
import math
import runpy
import shutil
import subprocess
import sys
import warnings

import numpy as np
import pytest

pytest.importorskip("pyarrow")
typer_testing = pytest.importorskip("typer.testing")

from sklearn.preprocessing import StandardScaler  # noqa: E402

from prosparse import FDRPCA, GSPPCA, SCA, SPPCA, Panel, SpinyRegressor, load  # noqa: E402
from prosparse.app.analysis import column_variances  # noqa: E402
from prosparse.app.cli import app  # noqa: E402
from prosparse.app.output_paths import RESULTS  # noqa: E402
from prosparse.datasets import make_globally_sparse  # noqa: E402
from prosparse.persistence import load_with_about  # noqa: E402
from prosparse.phrases import format_mean  # noqa: E402
from prosparse.stability import PermutationNull, permutation_null, stability_selection  # noqa: E402
from prosparse.tables.preparation import impute_components  # noqa: E402

run = typer_testing.CliRunner().invoke
DATA = make_globally_sparse(60, 20, n_components=2, n_informative=6, random_state=0)
NAMES = [f"v{k}" for k in range(20)]
CONTAINERS = [["a", "b"][k % 2] for k in range(60)]


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sheet(path, X=DATA.X, label=True, decimal=",", separator=";", names=NAMES):
    """Write a table in the format of a spreadsheet program."""
    head = ["sample", *names, *(["kind"] if label else [])]
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        file.write(separator.join(head) + "\r\n")
        for k, row in enumerate(X):
            cells = ["" if np.isnan(v) else repr(float(v)).replace(".", decimal) for v in row]
            file.write(
                separator.join([f"s{k}", *cells, *([CONTAINERS[k]] if label else [])]) + "\r\n"
            )
    return str(path)


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_select_writes_a_folder_of_results(inside):
    result = run(app, ["select", sheet(inside / "plants.csv"), "--label", "kind"])
    assert result.exit_code == 0, result.output
    model = FDRPCA().fit(DATA.X)
    assert f"{model.n_selected_} of 20" in result.stdout
    assert "decimal commas" in " ".join(result.stdout.split())
    folder = inside / "plants-prosparse"
    assert sorted(p.name for p in folder.iterdir()) == sorted(RESULTS)
    assert [p.name for p in inside.iterdir() if p.name.startswith(".")] == []
    table = rows_of(folder / "selected.csv")
    assert [int(r["rank"]) for r in table] == list(range(1, 21))
    assert {r["variable"] for r in table if r["selected"] == "yes"} == {
        NAMES[k] for k in model.get_support(indices=True)
    }
    for row in table:
        at = NAMES.index(row["variable"])
        assert float(row["communality"]) == pytest.approx(model.communality_[at])
        assert float(row["pvalue"]) == pytest.approx(model.pvalues_[at])
        assert float(row["qvalue"]) == pytest.approx(model.qvalues_[at])
    scores = rows_of(folder / "scores.csv")
    assert [r["row"] for r in scores] == [f"s{k}" for k in range(60)]
    assert [r["kind"] for r in scores] == CONTAINERS
    components = range(model.n_components_)
    table = [[float(r[f"component_{k + 1}"]) for k in components] for r in scores]
    np.testing.assert_allclose(table, model.transform(DATA.X), rtol=1e-8)
    loadings = rows_of(folder / "loadings.csv")
    assert len(loadings) == model.n_selected_
    again = load(folder / "model.prosparse")
    np.testing.assert_array_equal(again.components_, model.components_)
    assert list(again.feature_names_in_) == NAMES
    assert "Variable selection: plants.csv" in (folder / "report.html").read_text("utf-8")


@pytest.mark.parametrize("command", ["select", "panel", "fit"])
def test_estimator_is_built_once(inside, command, monkeypatch):
    """Only one estimator exists, so that the command cannot describe another one."""
    estimator = Panel if command == "panel" else FDRPCA
    built, original = [], estimator.__init__

    @functools.wraps(original)
    def count(self, *args, **kwargs):
        built.append(self)
        original(self, *args, **kwargs)

    monkeypatch.setattr(estimator, "__init__", count)
    path = sheet(inside / "t.csv", label=False)
    permutations = [] if command == "fit" else ["--permutations", "0"]
    assert run(app, [command, path, "--quiet", *permutations]).exit_code == 0
    assert len(built) == 1


def test_plots(inside):
    pytest.importorskip("matplotlib")
    table = sheet(inside / "t.csv")
    arguments = ["select", table, "--label", "kind", "--permutations", "0", "-q"]
    for plots in ("svg,pdf", "SVG"):  # the second run replaces the plots of the first
        result = run(app, [*arguments, "--plots", plots])
        assert result.exit_code == 0, result.output
        names = {path.name for path in (inside / "t-prosparse").iterdir()} - {*RESULTS}
        assert {name.rpartition(".")[2] for name in names} == {*plots.lower().split(",")}
        assert "plot-scores.svg" in names
    text = (inside / "t-prosparse" / "plot-scores.svg").read_text()
    assert "Kruskal-Wallis" in text
    refused = run(app, [*arguments, "--plots", "gif"])
    assert refused.exit_code == 2
    assert "--plots must be" in refused.stderr
    result = run(app, ["report", "t-prosparse", "--plots", "png"])
    assert result.exit_code == 0, result.output
    assert (inside / "t-prosparse" / "plot-scores.png").is_file()
    applied = run(app, ["apply", "t-prosparse", table, "--plots", "svg", "--output", "new"])
    assert applied.exit_code == 0, applied.output
    assert (inside / "new" / "plot-scores.svg").is_file()


def test_json_and_quiet(inside):
    path = sheet(inside / "t.csv", label=False)
    result = run(app, ["select", path, "--json", "--components", "2"])
    printed = json.loads(result.stdout)
    model = FDRPCA(2).fit(DATA.X)
    assert printed["n_selected"] == model.n_selected_ == len(printed["selected"])
    assert printed["explained_variance_ratio"] == pytest.approx(
        model.explained_variance_ratio_.sum()
    )
    at = [NAMES.index(name) for name in printed["selected"]]
    np.testing.assert_allclose(printed["communality"], model.communality_[at])
    assert (printed["rows"], printed["variables"], printed["method"]) == (60, 20, "FDRPCA")
    quiet = run(app, ["select", path, "--quiet", "--output", "deep/er"])
    assert (quiet.exit_code, quiet.output) == (0, "")
    assert (inside / "deep" / "er" / "report.html").is_file()


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("gsppca", ["--components", "2", "--variables", "6"]),
        ("sca", []),
        ("sppca", ["--components", "2", "--penalty", "bic", "--permutations", "0"]),
        ("empca", ["--variables", "4"]),
    ],
)
def test_other_methods(inside, method, options, scale):
    path = sheet(inside / "t.csv", X=DATA.X + 3, label=False)
    arguments = ["select", path, "--method", method, *options, "--json"]
    result = run(app, arguments + ["--scale"] * scale)
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert 0 < printed["n_selected"] <= 20
    assert 0 < printed["explained_variance_ratio"] <= 1
    assert (inside / "t-prosparse" / "report.html").is_file()
    if method != "empca":
        kind, parameters = {
            "gsppca": (GSPPCA, {"n_components": 2, "n_features_to_select": 6}),
            "sca": (SCA, {}),
            "sppca": (SPPCA, {"n_components": 2, "penalty": "bic"}),
        }[method]
        X = StandardScaler(with_mean=False).fit_transform(DATA.X + 3) if scale else DATA.X + 3
        model = kind(**parameters).fit(X)
        assert printed["n_selected"] == model.support_.sum()


def test_imputation_from_principal_components(inside):
    X = DATA.X.copy()
    X[3, 5] = np.nan
    path = sheet(inside / "t.csv", X=X, label=False)
    arguments = ["select", path, "--json", "--missing", "impute", "--method", "gsppca"]
    printed = json.loads(run(app, [*arguments, "--components", "2"]).stdout)
    assert any("imputed from principal components" in note for note in printed["notes"])
    assert printed["n_selected"] == GSPPCA(2).fit(impute_components(X)).n_selected_


def test_fdrpca_receives_missing_values(inside):
    """Predictions from other columns would be correlated with them by construction."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(100, 1)) + 0.1 * rng.normal(size=(100, 8))
    X[:, 7] = rng.normal(size=100)  # unrelated to the others, and half of it is missing
    X[51:, 7] = np.nan
    path = sheet(inside / "t.csv", X=X, label=False, names=NAMES[:8])
    printed = json.loads(run(app, ["select", path, "--json", "--missing", "impute"]).stdout)
    assert any("the model handles missing values" in note for note in printed["notes"])
    model = FDRPCA().fit(X)
    assert printed["n_selected"] == model.n_selected_ == 7
    found = {row["variable"]: row for row in rows_of(inside / "t-prosparse" / "selected.csv")}
    assert float(found["v7"]["communality"]) == pytest.approx(model.communality_[7], rel=1e-6)


def test_missing_values(inside):
    X = DATA.X.copy()
    X[[3, 7], [5, 2]] = np.nan
    X[:40, 9] = np.nan
    path = sheet(inside / "t.csv", X=X)
    arguments = ["select", path, "--label", "kind", "--json"]
    refused = run(app, arguments)
    assert refused.exit_code == 1
    assert (
        "row 1 of the data ('s0'), column 'v9': the value is missing. In total 42 values are"
        in (" ".join(refused.stderr.split()))
    )
    for advice in ("--missing impute", "--missing drop, which leaves 58 of 60 rows and 19 of 20"):
        assert advice in " ".join(refused.stderr.split())
    assert list(inside.iterdir()) == [inside / "t.csv"]
    dropped = json.loads(run(app, [*arguments, "--missing", "drop"]).stdout)
    assert (dropped["rows"], dropped["variables"]) == (58, 19)
    lost = "dropped 2 of 60 rows and 1 of 20 columns ('v9')"
    assert any(lost in note for note in dropped["notes"])
    assert len(rows_of(inside / "t-prosparse" / "scores.csv")) == 58
    filled = json.loads(run(app, [*arguments, "--missing", "impute"]).stdout)
    assert (filled["rows"], filled["variables"]) == (60, 19)
    assert any("the model handles missing values" in note for note in filled["notes"])
    exact = json.loads(run(app, [*arguments, "--missing", "impute", "--method", "sca"]).stdout)
    assert any("the model handles missing values" in note for note in exact["notes"])


def test_variances_in_blocks(rng, monkeypatch):
    X = rng.normal(size=(50, 3)) * 5 + 1e6
    X[::7, 1] = np.nan
    monkeypatch.setattr("prosparse.tables.preparation.MAX_BLOCK", 30)
    np.testing.assert_allclose(column_variances(X), np.nanvar(X, axis=0), rtol=1e-9)


def test_log1p_and_transpose(inside):
    counts = np.exp(DATA.X)
    path = sheet(inside / "t.csv", X=counts.T, label=False, names=[f"s{k}" for k in range(60)])
    result = run(app, ["select", path, "--log1p", "--transpose", "--json", "--components", "2"])
    assert result.exit_code == 0, result.output
    model = FDRPCA(2).fit(np.log1p(counts))
    printed = json.loads(result.stdout)
    assert sorted(printed["selected"]) == sorted(f"s{k}" for k in model.get_support(indices=True))
    low = sheet(inside / "low.csv", X=DATA.X - 5, label=False)
    refused = run(app, ["select", low, "--log1p"])
    assert refused.exit_code == 1
    assert "has no log(1 + x)" in refused.stderr


def test_fit_and_report(inside):
    common = ["--ignore", "kind", "--log1p", "--method", "sca", "--scale"]
    X = np.exp(DATA.X)
    path = sheet(inside / "t.csv", X=X)
    result = run(app, ["fit", path, *common, "--output", "m.prosparse"])
    assert result.exit_code == 0, result.output
    assert sorted(p.name for p in inside.iterdir()) == ["m.prosparse", "t.csv"]
    assert run(app, ["report", "m.prosparse", "--quiet"]).output == ""
    page = (inside / "m.html").read_text("utf-8")
    assert 'id="scores-chart"' not in page
    with_scores = run(app, ["report", "m.prosparse", "--data", "t.csv", "--output", "s.html"])
    assert with_scores.exit_code == 0, with_scores.output
    page = (inside / "s.html").read_text("utf-8")
    # The table is read and prepared as in the fit.
    Z = StandardScaler(with_mean=False).fit_transform(np.log1p(X))
    scores = SCA().fit(Z).transform(Z)
    assert f'"values":[[{float(f"{scores[0, 0]:.4g}")}' in page
    sheet(inside / "other.csv", X=X, names=[f"w{k}" for k in range(20)])
    refused = run(app, ["report", "m.prosparse", "--data", "other.csv"])
    assert refused.exit_code == 1
    assert "does not match the model" in refused.stderr
    refused = run(app, ["report", path])
    assert refused.exit_code == 1
    assert "not a valid model file" in refused.stderr


def test_report_of_a_model_without_names(inside):
    from prosparse import save

    save(GSPPCA(2).fit(DATA.X), "m.prosparse")
    sheet(inside / "t.csv", label=False)
    sheet(inside / "narrow.csv", X=DATA.X[:, :5], names=NAMES[:5], label=False)
    written = run(app, ["report", "m.prosparse", "--data", "t.csv"])
    assert written.exit_code == 0, written.output
    assert 'id="scores-chart"' in (inside / "t-report.html").read_text("utf-8")
    refused = run(app, ["report", "m.prosparse", "--data", "narrow.csv"])
    assert refused.exit_code == 1
    assert "5 variables, but the model has 20" in " ".join(refused.stderr.split())


def test_report_of_an_untrusted_model_file(inside):
    """Values of a wrong type are ignored, and text is escaped."""
    from prosparse import save

    about = {"title": 3, "notes": {"a": 1}, "warnings": [1, "<b>"], "data": {"x": ["<i>"]}, "z": 1}
    save(GSPPCA(2).fit(DATA.X), "m", about=about | {"read_options": {"evil": 1}, "preparation": []})
    assert run(app, ["report", "m", "--output", "r.html"]).exit_code == 0
    page = (inside / "r.html").read_text("utf-8")
    assert "&lt;b&gt;" in page
    assert "<i>" not in page


BAD = {
    "missing file": (None, "the file does not exist"),
    "empty": ("", "the file is empty"),
    "ragged": ("a,b,c\n1,2,3\n4,5\n", "line 3: the line has 2 cells"),
    "text": ("a,b,c\n1,2,3\n4,x,6\n", "line 3, column 2 ('b'): 'x' is not a number"),
    "one column": ("a\n1\n2\n", "at least 2 are needed"),
    "constant": ("a,b,c\n" + 6 * "1,2,3\n", "at least 2 must vary"),
    "few rows": ("a,b,c\n1,2,3\n2,1,5\n3,4,4\n", "X has too few rows to test for shared variance"),
    "infinite": (
        "a,b,c\n1,2,3\n1,inf,3\n1,2,3\n",
        "row 2 of the data, column 'b': inf is",
    ),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("command", ["select", "fit"])
def test_invalid_files_give_one_line_and_no_output(inside, command, name):
    text, message = BAD[name]
    if text is not None:
        (inside / "bad.csv").write_bytes(text.encode("cp1252"))
    before = sorted(inside.iterdir())
    place = "deep/out" if command == "select" else "out"
    result = run(app, [command, "bad.csv", "--output", place])
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stderr.startswith("prosparse: bad.csv")
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""
    assert sorted(inside.iterdir()) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--method", "pca"], "--method must be one of 'fdrpca', 'gsppca'"),
        (["--method", "spinyreg"], "--method must be one of 'fdrpca', 'gsppca'"),
        (["--fdr", "1.5"], "--fdr must be in (0, 1)"),
        (["--min-communality", "2"], "--min-communality must be in [0, 1]"),
        (["--method", "sca", "--min-communality", "0.5"], "use fdrpca"),
        (["--variables", "3"], "has no effect with --method fdrpca; use gsppca or empca or panel"),
        (["--missing", "guess"], "--missing must be one of"),
        (["--components", "none"], "--components must be a positive integer or auto"),
        (["--components", "0"], "--components must be a positive integer"),
        (["--components", "99"], "--components must be less than 20"),
        (["--method", "sca", "--variables", "3"], "has no effect"),
        (["--penalty", "bic"], "use sppca"),
        (
            ["--method", "panel", "--components", "2"],
            "has no effect with --method panel",
        ),
        (["--method", "panel", "--variables", "99"], "--variables must be at most 20"),
        (
            ["--method", "panel", "--target-recovery", "2"],
            "--target-recovery must be in (0, 1)",
        ),
        (["--method", "sppca", "--penalty", "bik"], "--penalty must be one of"),
        (["--separator", "ab"], "--separator must be one character"),
        (["--output", "t.csv"], "t.csv is a file"),
        (["--output", "full"], "contains other files (precious)"),
    ],
)
def test_invalid_options(inside, options, message):
    path = sheet(inside / "t.csv", label=False)
    (inside / "full").mkdir()
    (inside / "full" / "precious").touch()
    before = sorted(inside.rglob("*"))
    result = run(app, ["select", path, *options])
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert sorted(inside.rglob("*")) == before


@pytest.mark.parametrize("command", ["fit", "report"])
@pytest.mark.parametrize(
    ("place", "message"),
    [("here", "here is a folder"), ("no/where", "the folder no does not exist")],
)
def test_invalid_output_files(inside, command, place, message):
    (inside / "here").mkdir()
    result = run(app, [command, "whatever", "--output", place])
    assert result.exit_code == 2
    assert message in result.stderr


def test_unknown_column(inside):
    result = run(app, ["select", sheet(inside / "t.csv"), "--label", "kynd"])
    assert result.exit_code == 1
    assert "did you mean 'kind'" in result.stderr


def test_results_are_replaced_completely(inside, monkeypatch):
    path = sheet(inside / "t.csv", label=False)
    assert run(app, ["select", path, "--components", "1", "-q"]).exit_code == 0
    first = (inside / "t-prosparse" / "selected.csv").read_bytes()
    monkeypatch.setattr("prosparse.app.results.render", lambda *a, **k: 1 / 0)
    assert isinstance(run(app, ["select", path]).exception, ZeroDivisionError)
    assert (inside / "t-prosparse" / "selected.csv").read_bytes() == first
    monkeypatch.undo()
    monkeypatch.chdir(inside)
    assert run(app, ["select", path, "--components", "2", "-q"]).exit_code == 0
    assert sorted(p.name for p in inside.iterdir()) == ["t-prosparse", "t.csv"]
    assert len(rows_of(inside / "t-prosparse" / "loadings.csv")[0]) == 3


def test_warnings_are_printed_and_reported(inside):
    X = np.random.default_rng(2).normal(size=(100, 5))
    path = sheet(inside / "noise.csv", X=X, label=False, names=NAMES[:5])
    result = run(app, ["select", path, "--method", "gsppca", "--components", "1", "--scale"])
    assert result.exit_code == 0
    assert "warning: GSPPCA: no variable is explained by the components" in " ".join(
        result.stderr.split()
    )
    page = (inside / "noise-prosparse" / "report.html").read_text("utf-8")
    assert "GSPPCA: no variable is explained by the components" in " ".join(page.split())


def test_results_without_selected_variables(inside):
    X = np.random.default_rng(1).normal(size=(60, 20))
    path = sheet(inside / "noise.csv", X=X)
    result = run(app, ["select", path, "--label", "kind"])
    assert result.exit_code == 0, result.output
    printed = " ".join(result.stdout.split())
    assert "selected 0 of 20" in printed
    assert "communality" not in printed
    assert "warning: FDRPCA: " in " ".join(result.stderr.split())
    folder = inside / "noise-prosparse"
    assert {r["selected"] for r in rows_of(folder / "selected.csv")} == {"no"}
    assert rows_of(folder / "loadings.csv") == []
    assert list(rows_of(folder / "scores.csv")[0]) == ["row", "kind"]
    assert load(folder / "model.prosparse").components_.shape == (0, 20)
    pages = [(folder / "report.html").read_text("utf-8")]
    again = ["report", str(folder / "model.prosparse"), "--data", path, "--output", "r.html"]
    assert run(app, again).exit_code == 0
    pages.append((inside / "r.html").read_text("utf-8"))
    for page in pages:
        assert 'id="scores-chart"' not in page
        assert 'id="relevance-chart"' not in page


def test_noise_and_likelihood_of_views(inside):
    rng = np.random.default_rng(0)
    rates = np.exp(rng.normal(size=(60, 1)) * [0.8, 0.8, 0.8, 0, 0, 0] + 0.5)
    X = rng.poisson(rates)
    np.savetxt("reads.csv", X, fmt="%d", delimiter=",", header="a,b,c,d,e,f", comments="")
    given = ["fit", "reads.csv", "--method", "sca", "--components", "1", "--output"]
    counts = run(app, [*given, "counts.prosparse", "--likelihood", "poisson", "--noise", "view"])
    assert counts.exit_code == 0, counts.output
    model = load("counts.prosparse")
    assert model.likelihood_ == ["poisson"]
    assert model.noise == "view"
    refused = run(app, [*given, "other.prosparse", "--likelihood", "poison"])
    assert refused.exit_code == 2
    assert "--likelihood must be one of 'gaussian', 'bernoulli', 'poisson'" in refused.stderr
    refused = run(app, ["select", "reads.csv", "--noise", "view"])
    assert "--noise has no effect with --method fdrpca; use sca" in refused.stderr


@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
def test_groups(inside):
    """Donors differ in every gene, and the genes are independent within donors."""
    rng = np.random.default_rng(0)
    donor = rng.permutation(np.repeat(np.arange(30), 6))
    X = rng.normal(size=(180, 20)) + 2 * rng.normal(size=(30, 20))[donor]
    lines = [",".join([*NAMES, "donor"])]
    lines += [",".join([*map(repr, map(float, row)), f"d{k}"]) for row, k in zip(X, donor)]
    (inside / "cells.csv").write_text("\n".join(lines))
    alone = run(app, ["select", "cells.csv", "--ignore", "donor", "--json"])
    assert json.loads(alone.stdout)["n_selected"] > 0
    known = run(app, ["select", "cells.csv", "--groups", "donor", "--json"])
    assert known.exit_code == 0, known.output
    assert json.loads(known.stdout)["n_selected"] == FDRPCA().fit(X, groups=donor).n_selected_
    assert json.loads(known.stdout)["variables"] == 20
    page = (inside / "cells-prosparse" / "report.html").read_text("utf-8")
    assert "<dt>groups</dt><dd>donor</dd>" in page
    again = [
        "report",
        "cells-prosparse/model.prosparse",
        "--data",
        "cells.csv",
        "--output",
        "r.html",
    ]
    assert run(app, again).exit_code == 0
    refused = run(app, ["select", "cells.csv", "--groups", "donor", "--method", "gsppca"])
    assert refused.exit_code == 2
    assert (
        "--groups has no effect with --method gsppca; use fdrpca or sca or panel" in refused.stderr
    )
    lines[3] = lines[3].rsplit(",", 1)[0] + ","
    (inside / "gap.csv").write_text("\n".join(lines))
    refused = run(app, ["select", "gap.csv", "--groups", "donor"])
    assert refused.exit_code == 1
    assert "row 3 of the data: the group 'donor' is missing" in " ".join(refused.stderr.split())


def test_select_with_method_panel(inside):
    path = sheet(inside / "t.csv", label=False)
    asked = ["select", path, "--method", "panel", "--permutations", "0", "--json"]
    result = run(app, [*asked, "--variables", "4"])
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    model = Panel(4).fit(DATA.X)
    assert printed["selected"] == [NAMES[k] for k in model.order_]
    assert printed["reason"] == "4 variables were requested"
    np.testing.assert_array_equal(load("t-prosparse/model.prosparse").order_, model.order_)
    result = run(app, [*asked, "--target-recovery", "0.5"])
    assert result.exit_code == 0, result.output
    model = Panel(target_recovery=0.5).fit(DATA.X)
    printed = json.loads(result.stdout)
    assert printed["n_selected"] == model.n_selected_
    attained = model.relative_r2_path_[model.n_selected_ - 1]
    much = (
        f"{attained:.1%} of the held-out variance" if attained < 1 else "as much held-out variance"
    )
    assert printed["reason"].startswith(f"they explain {much}")
    page = (inside / "t-prosparse" / "report.html").read_text("utf-8")
    assert "<dt>target-recovery</dt><dd>0.5</dd>" in page


def test_fdr_and_min_communality(inside):
    path = sheet(inside / "t.csv", label=False)
    asked = ["select", path, "--min-communality", "0.3", "--fdr", "0.2"]
    result = run(app, asked)
    assert result.exit_code == 0, result.output
    printed = " ".join(result.stdout.split())
    model = FDRPCA(fdr=0.2, min_communality=0.3).fit(DATA.X)
    assert 0 < model.n_selected_ < FDRPCA(fdr=0.2).fit(DATA.X).n_selected_
    assert f"selected {model.n_selected_} of 20" in printed
    most = int(np.argmax(model.communality_))
    assert f"communality v{most} ({model.communality_[most]:.0%})" in printed
    page = (inside / "t-prosparse" / "report.html").read_text("utf-8")
    assert "<dt>min-communality</dt><dd>0.3</dd>" in page
    assert "<dt>columns</dt><dd>scaled to unit variance</dd>" in page
    assert "#convergence" not in page  # nothing is iterated


@pytest.mark.parametrize("command", ["select", "fit", "report"])
def test_help_has_examples(command):
    result = run(app, [command, "--help"])
    assert result.exit_code == 0
    assert f"prosparse {command}" in result.output
    assert "Examples" in result.output


def test_python_m_prosparse(inside):
    path = sheet(inside / "t.csv", label=False)
    command = [sys.executable, "-m", "prosparse", "select", path, "--json"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=inside)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["rows"] == 60
    shutil.rmtree(inside / "t-prosparse")


def test_permutation_null(inside):
    """GSPPCA selects variables of null datasets if the noise variances differ."""
    rng = np.random.default_rng(0)
    X = 3.0 * DATA.X + rng.normal(size=DATA.X.shape) * np.linspace(0.1, 2.0, 20)
    path = sheet(inside / "t.csv", X=X, label=False)
    arguments = ["select", path, "--method", "gsppca", "--components", "2"]
    printed = json.loads(run(app, [*arguments, "--json"]).stdout)
    assert printed["null_expected_n_selected"] > 0
    shown = " ".join(run(app, arguments).stdout.split())
    page = (inside / "t-prosparse" / "report.html").read_text("utf-8")
    assert f"{printed['n_selected']} of 20" in shown
    assert "null datasets" in shown
    assert max(printed["null_expected_by_kind"].values()) == printed["null_expected_n_selected"]
    for text in (shown, page):
        assert "in 5 datasets with random signs of the deviations from the mean." in text
        assert "in 5 datasets with independently permuted columns." in text
    assert format_mean(printed["null_expected_n_selected"]) in page
    again = run(app, ["report", "t-prosparse/model.prosparse", "--output", "again.html"])
    assert again.exit_code == 0, again.output
    restored = (inside / "again.html").read_text("utf-8")
    saved = load_with_about("t-prosparse/model.prosparse")[1]["about"]["permutation_null"]
    for sentence in PermutationNull.from_json(saved).summary():
        assert sentence in page
        assert sentence in restored
    without = json.loads(run(app, [*arguments, "--json", "--permutations", "0"]).stdout)
    assert without["null_expected_n_selected"] is None
    assert without["null_expected_by_kind"] is None


def test_permutations_are_skipped_if_a_fit_is_slow(inside, monkeypatch):
    monkeypatch.setattr("prosparse.app.diagnostics.MAX_FIT_SECONDS", 0.0)
    path = sheet(inside / "t.csv", label=False)
    printed = json.loads(run(app, ["select", path, "--json"]).stdout)
    assert printed["null_expected_n_selected"] is None
    assert any("--permutations 10" in note for note in printed["notes"])
    asked = json.loads(run(app, ["select", path, "--json", "--permutations", "2"]).stdout)
    assert asked["null_expected_n_selected"] == 0


def test_stability_selection(inside):
    path = sheet(inside / "t.csv")
    printed = json.loads(
        run(app, ["select", path, "--ignore", "kind", "--json", "--stability", "4"]).stdout
    )
    seen = stability_selection(FDRPCA().fit(DATA.X), DATA.X, 4, random_state=0)
    at = [NAMES.index(name) for name in printed["selected"]]
    np.testing.assert_allclose(printed["selection_frequency"], seen.frequency[at])
    page = (inside / "t-prosparse" / "report.html").read_text("utf-8")
    assert seen.summary()[0] in page
    refused = run(app, ["select", path, "--stability", "5"])
    assert refused.exit_code == 2
    assert "--stability must be even" in refused.stderr
    few = run(app, ["select", path, "--groups", "kind", "--stability", "4", "--json"])
    assert few.exit_code == 0, few.output
    assert any("at least 4 are needed" in note for note in json.loads(few.stdout)["notes"])


@pytest.mark.parametrize(
    "options",
    [
        ["--label", "kind", "--min-communality", "0.3"],
        ["--ignore", "kind", "--method", "sca", "--scale", "--log1p", "--permutations", "0"],
        ["--ignore", "kind", "--missing", "impute", "--method", "gsppca", "--components", "2"],
        ["--groups", "kind", "--components", "2"],
        ["--ignore", "kind", "--method", "empca", "--variables", "4"],
        ["--ignore", "kind", "--method", "empca"],
    ],
    ids=["label", "scaled", "gaps", "groups", "empca", "empca by extended BIC"],
)
def test_script_reproduces_the_selection(inside, options, capsys):
    X = np.exp(DATA.X)
    if "impute" in options:
        X[3, 4] = np.nan
    printed = json.loads(
        run(app, ["select", sheet(inside / "t.csv", X=X), *options, "--json"]).stdout
    )
    code = load_with_about("t-prosparse/model.prosparse")[1]["about"]["script"]
    page = (inside / "t-prosparse" / "report.html").read_text("utf-8")
    assert code in html.unescape(page)
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("prosparse"):
            public = importlib.import_module(node.module).__all__
            assert {alias.name for alias in node.names} <= set(public)
    (inside / "again.py").write_text(code, "utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runpy.run_path("again.py")
    first, names = capsys.readouterr().out.splitlines()
    assert first == f"{printed['n_selected']} of 20 variables selected"
    assert sorted(ast.literal_eval(names)) == sorted(printed["selected"])


def test_diagnostics_and_script_of_a_regression(inside, capsys, monkeypatch):
    monkeypatch.setattr("prosparse.app.diagnostics.MAX_SECONDS", math.inf)
    path = sheet(inside / "t.csv", label=False, decimal=".", separator=",")
    real = int(np.argmax(DATA.support))  # correlated with others
    arguments = ["regress", path, "--response", NAMES[real], "--stability", "4", "--json"]
    result = run(app, arguments)
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    X, y = np.delete(DATA.X, real, axis=1), DATA.X[:, real]
    others = [name for name in NAMES if name != NAMES[real]]
    model = SpinyRegressor().fit(X, y)
    seen = stability_selection(model, X, 4, y=y, random_state=0)
    at = [others.index(name) for name in printed["selected"]]
    np.testing.assert_allclose(printed["selection_frequency"], seen.frequency[at])
    assert (
        printed["null_expected_n_selected"]
        == permutation_null(model, X, 10, y=y, random_state=0).expected_n_selected
    )
    code = load_with_about("t-prosparse/model.prosparse")[1]["about"]["script"]
    (inside / "again.py").write_text(code, "utf-8")
    runpy.run_path("again.py")
    assert sorted(ast.literal_eval(capsys.readouterr().out.splitlines()[1])) == sorted(
        printed["selected"]
    )
