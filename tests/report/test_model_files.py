"""Reports of model files that were changed by hand, or hold something that has no report."""

import io
import json
import zipfile

import numpy as np
import pandas as pd
import pytest

typer_testing = pytest.importorskip("typer.testing")
pytest.importorskip("pyarrow")

from prosparse import (  # noqa: E402
    EMPCA,
    FDRPCA,
    GSPPCA,
    SCA,
    SPPCA,
    InputError,
    ModelFileError,
    Panel,
    SpinyRegressor,
    load,
    save,
)
from prosparse.app.cli import app  # noqa: E402
from prosparse.datasets import make_globally_sparse  # noqa: E402
from prosparse.report import render  # noqa: E402

X = make_globally_sparse(60, 12, n_components=2, n_informative=5, random_state=0).X
FRAME = pd.DataFrame(X, columns=[f"v{k}" for k in range(12)])
MODELS = {
    "FDRPCA": FDRPCA(),
    "GSPPCA": GSPPCA(2),
    "SCA": SCA(1, views=[slice(0, 6), slice(6, 12)]),
    "SPPCA": SPPCA(2, penalty=10.0, penalties=[1.0, 10.0]),
    "EMPCA": EMPCA(2, n_nonzero=4, random_state=0),
    "Panel": Panel(4),
    "SpinyRegressor": SpinyRegressor(),
}


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*words):
    return typer_testing.CliRunner().invoke(app, ["report", *map(str, words)])


def refused(result, *words):
    """One line, no traceback, exit code 1."""
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)
    line = " ".join(result.stderr.split())
    assert line.startswith("prosparse: "), line
    for word in words:
        assert word in line
    return line


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    FRAME.to_csv(folder / "table.csv", index=False)
    for name, model in MODELS.items():
        save(model.fit(FRAME, X[:, 0] - X[:, 3]), folder / name)
    return folder


def changed(files, name, header=None, arrays=None):
    """The model file ``name`` with another header, or other arrays in fitted attributes."""
    with zipfile.ZipFile(files / name) as archive:
        parts = {member: archive.read(member) for member in archive.namelist()}
    content = json.loads(parts["model.json"])
    for attribute, change in (arrays or {}).items():
        member = f"arrays/{content['fitted'][attribute]['$array']}.npy"
        array, buffer = change(np.load(io.BytesIO(parts[member]))), io.BytesIO()
        np.lib.format.write_array(buffer, np.asarray(array), allow_pickle=False)
        parts[member] = buffer.getvalue()
    if header:
        header(content)
    parts["model.json"] = json.dumps(content)
    path = files / "changed.prosparse"
    with zipfile.ZipFile(path, "w") as archive:
        for member, raw in parts.items():
            archive.writestr(member, raw)
    return path


def fitted(**values):
    return lambda header: header["fitted"].update(values)


def test_every_model_has_a_report(files):
    for name in MODELS:
        assert run(files / name, "--output", files / "page.html").exit_code == 0
        load(changed(files, name))


def test_sizes_are_checked_before_anything_of_that_size_is_made(files):
    path = changed(files, "GSPPCA", fitted(n_features_in_=10**12))
    with pytest.raises(ModelFileError, match=r"shape \(12,\), which .* \(1000000000000,\) would"):
        load(path)
    refused(run(path), "changed.prosparse", "does not belong to the rest of the model")

    def names_only(header):
        header["fitted"] = {"n_features_in_": 10**12, "support_": header["fitted"]["support_"]}

    refused(run(changed(files, "GSPPCA", names_only)), "a fitted GSPPCA has `varying_`")


LONGER = {"mean_", "scale_", "support_", "varying_", "ranking_", "relevance_"}


@pytest.mark.parametrize("name", MODELS)
def test_no_array_may_be_longer_or_shorter_than_the_model(files, name):
    """But for traces of an objective, which are as long as they are."""
    with zipfile.ZipFile(files / name) as archive:
        content = json.loads(archive.read("model.json"))["fitted"]
    sized = [k for k, v in content.items() if isinstance(v, dict) and "$array" in v]
    assert set(sized) >= LONGER
    for attribute in sorted(set(sized) - {"objective_path_"}):
        for change in (lambda a: a[:-1], lambda a: np.concatenate([a, a]), lambda a: a[None]):
            path = changed(files, name, arrays={attribute: change})
            with pytest.raises(ModelFileError, match=r"shape|must|without"):
                load(path)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "wrong", [None, "12", 1.5, True, ["a", 2], {"$dict": []}, {"$strings": []}]
)
def test_no_fitted_attribute_may_be_something_else(files, name, wrong):
    with zipfile.ZipFile(files / name) as archive:
        content = json.loads(archive.read("model.json"))["fitted"]
    free = {"_gap_problem", "slope_"} if wrong is None else set()
    if isinstance(wrong, float):  # where a number is meant, it is one
        free |= {k for k, v in content.items() if isinstance(v, float)}
        free.add("n_samples_")  # rows have weights
    free |= {k for k, v in content.items() if v == wrong}  # no groups of rows
    for attribute in set(content) - free:
        with pytest.raises(ModelFileError, match=r"changed\.prosparse: "):
            load(changed(files, name, fitted(**{attribute: wrong})))


@pytest.mark.parametrize(
    ("name", "attribute", "change", "message"),
    [
        ("GSPPCA", "components_", lambda a: np.where(a, np.inf, 0), "`components_` holds values"),
        ("GSPPCA", "components_", lambda a: a + 1, "`components_` must be zero outside"),
        ("SpinyRegressor", "coef_", lambda a: a + np.nan, "`coef_` holds values"),
        ("GSPPCA", "scale_", lambda a: 0 * a, "`scale_` must be above 0"),
        ("GSPPCA", "support_", lambda a: ~a, "`support_` has 8"),
        ("GSPPCA", "ranking_", lambda a: a + 1, "every rank from 1 to 12"),
        ("GSPPCA", "varying_", lambda a: ~a, "do not vary"),
        ("GSPPCA", "cardinalities_", lambda a: a + 50, "one of the `cardinalities_`"),
        ("SCA", "noise_variance_", lambda a: 0 * a, "`noise_variance_` must be above 0"),
        ("SCA", "factor_view_", lambda a: a + 9, "views below 2"),
        ("Panel", "order_", lambda a: a[[0, 0, 1, 2]], "`order_` must hold the columns of"),
        ("Panel", "proxy_", lambda a: 0 * a + 7, "`proxy_` must hold columns of `support_`"),
        ("Panel", "unmeasured_std_", lambda a: -1.0 - a, "`unmeasured_std_` must be at least 0"),
        (
            "GSPPCA",
            "objective_path_",
            lambda a: a[:0],
            "`objective_path_` must hold at least one iteration",
        ),
    ],
)
def test_what_cannot_be(files, name, attribute, change, message):
    refused(run(changed(files, name, arrays={attribute: change})), message)


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="has no long doubles")
def test_long_doubles(files):
    """SciPy's functions refuse them."""
    path = changed(files, "GSPPCA", arrays={"mean_": lambda a: a.astype(np.longdouble)})
    refused(run(path), "`mean_` must be an array of numbers, got an array of float")


def test_what_belongs_together(files):
    def without(attribute):
        return lambda header: header["fitted"].pop(attribute)

    for name, attribute in (("GSPPCA", "cardinalities_"), ("SPPCA", "penalties_")):
        refused(run(changed(files, name, without(attribute))), f"without `{attribute}`")
    refused(run(changed(files, "GSPPCA", fitted(n_selected_=5))), "`n_selected_` is 5")
    refused(run(changed(files, "GSPPCA", fitted(n_components_=3))), "`n_components_` is 3")
    shares = {"$dict": [["a", "much"]]}
    refused(run(changed(files, "Panel", fitted(heldout_r2_by_group_=shares))), "must be a number")
    overlapping = [{"$array": 0}, {"$array": 0}]
    refused(run(changed(files, "SCA", fitted(view_columns_=overlapping))), "share out the 12")


COUNTS = np.random.default_rng(0).poisson(np.exp(X / 2)).astype(float)
ALL_OR_NONE = {
    "groups": (SCA(2), X, {"groups": np.repeat(["a", "b", "c"], 20)}),
    "counts": (FDRPCA(counts=True), COUNTS, {}),
    "responses": (SpinyRegressor(), X, {"y": X[:, 0] - X[:, 3]}),
    "proofs": (EMPCA(2, n_nonzero=4, random_state=0), X, {}),
}


@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
@pytest.mark.parametrize(
    ("name", "prefixes"),
    [
        ("groups", ("group", "factor_variance_per_group_")),
        ("counts", ("count_",)),
        ("responses", ("conditional_coef_",)),
        ("proofs", ("objective_path_", "_gap_problem", "_optimality_gap")),
    ],
)
def test_attributes_of_which_a_model_has_all_or_none(tmp_path, name, prefixes):
    """Each of them is used by a method without a question whether it is there."""
    model, table, given = ALL_OR_NONE[name]
    save(model.fit(table, **given), tmp_path / name)
    with zipfile.ZipFile(tmp_path / name) as archive:
        content = json.loads(archive.read("model.json"))["fitted"]
    related = [attribute for attribute in content if attribute.startswith(prefixes)]
    assert len(related) > 1
    for attribute in related:

        def without(header, attribute=attribute):
            del header["fitted"][attribute]

        with pytest.raises(ModelFileError, match=attribute):
            load(changed(tmp_path, name, without))


def test_a_regression_without_the_variance_of_its_intercept(files):
    def header(content):
        del content["fitted"]["intercept_variance_"]

    with pytest.raises(ModelFileError, match="SpinyRegressor has `intercept_variance_`"):
        load(changed(files, "SpinyRegressor", header))


def test_one_trace_for_each_component_and_one_entry_for_each_view(files):
    for traces in ([], {"$array": 0}):
        path = changed(files, "EMPCA", fitted(objective_path_=traces))
        refused(run(path), "one trace for each component")
    refused(run(changed(files, "SCA", fitted(view_names_=[]))), "one entry for each view")


@pytest.mark.parametrize("path", ["log_evidence_path_", "log_posterior_path_"])
def test_evidence_that_is_not_known(files, path):
    """Sizes whose evidence is not a number are not compared."""
    name = "GSPPCA" if path == "log_evidence_path_" else "SpinyRegressor"

    def first_unknown(values):
        return np.concatenate([[np.nan], values[1:]])

    assert run(changed(files, name, arrays={path: first_unknown})).exit_code == 0
    assert run(changed(files, name, arrays={path: lambda a: a + np.nan})).exit_code == 0
    assert run(changed(files, name, arrays={path: lambda a: a.astype(int)})).exit_code == 0


@pytest.mark.parametrize("key", ["parameters", "fitted", "versions", "about"])
@pytest.mark.parametrize("value", [None, [], "text", 3])
def test_the_header_has_objects_where_they_belong(files, key, value):
    def header(content):
        content[key] = value

    line = refused(run(changed(files, "GSPPCA", header)), f"'{key}' in model.json must be an")
    assert "got" in line

    def missing(content):
        del content[key]

    refused(run(changed(files, "GSPPCA", missing)), f"'{key}' in model.json must be an object")


def test_another_version_and_no_word_of_who_wrote_it(files):
    def header(content):
        content.update(version=2, versions=[])

    refused(run(changed(files, "GSPPCA", header)), "format version 2")


@pytest.mark.parametrize("data", [False, True])
def test_what_is_not_fitted_has_no_report(tmp_path, files, data):
    path = save(GSPPCA(), tmp_path / "model")
    words = ["--data", files / "table.csv"] if data else []
    refused(run(path, *words), "this GSPPCA was not fitted to any table")
    with pytest.raises(InputError, match="not fitted"):
        render(SpinyRegressor())


@pytest.mark.parametrize("name", ["fdr", "min_communality"])
@pytest.mark.parametrize("value", ["much", None, [1], float("nan")])
def test_parameters_that_are_none_of_a_test(files, name, value):
    """The page speaks of these parameters: it must not stumble over what a stranger wrote."""

    def header(content):
        content["parameters"][name] = value

    refused(run(changed(files, "FDRPCA", header)), name)


def test_a_regression_has_no_scores(files):
    result = run(files / "SpinyRegressor", "--data", files / "table.csv")
    refused(result, "SpinyRegressor gives rows no scores: leave the table out")


@pytest.mark.parametrize("scales", [["a"] * 12, [0.0] * 12, [None] * 12, [float("nan")] * 12])
def test_scales_that_are_none(files, scales):
    def header(content):
        content["about"] = {"scaled_by": scales}

    path = changed(files, "SPPCA", header)
    refused(run(path, "--data", files / "table.csv"), "`scaled_by` must hold the positive scales")


def test_a_share_that_is_not_known_is_not_told(files):
    path = changed(
        files,
        "GSPPCA",
        arrays={"explained_variance_ratio_": lambda a: a + np.nan},
    )
    page = files / "page.html"
    assert run(path, "--output", page).exit_code == 0
    assert "nan" not in page.read_text("utf-8").split("<script")[0].lower().replace("ban", "")


def test_a_model_that_could_not_be_loaded_is_not_saved(tmp_path):
    model = GSPPCA(2).fit(FRAME)
    model.mean_ = model.mean_[:3]
    with pytest.raises(ModelFileError, match=r"`mean_` has shape \(3,\)"):
        save(model, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_output_settings_are_settings(files):
    path = changed(files, "GSPPCA", fitted(_sklearn_output_config=5))
    with pytest.raises(ModelFileError, match="`set_output`"):
        load(path)
