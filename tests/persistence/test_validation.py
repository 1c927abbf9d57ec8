"""Models with invalid or inconsistent attributes are neither saved nor loaded."""

import json
import re
import zipfile

import numpy as np
import pandas as pd
import pytest

from prosparse import (
    EMPCA,
    FDRPCA,
    GSPPCA,
    SCA,
    SPPCA,
    ModelFileError,
    Panel,
    SpinyClassifier,
    SpinyRegressor,
    load,
    save,
)
from saved_models import X, changed

FRAME = pd.DataFrame(X, columns=[f"v{k}" for k in range(12)])
MODELS = {
    "FDRPCA": FDRPCA(),
    "GSPPCA": GSPPCA(2),
    "SCA": SCA(1, views=[slice(0, 6), slice(6, 12)]),
    "SPPCA": SPPCA(2, penalty=10.0, penalties=[1.0, 10.0]),
    "EMPCA": EMPCA(2, n_nonzero=4, random_state=0),
    "Panel": Panel(4),
    "SpinyRegressor": SpinyRegressor(),
    "SpinyClassifier": SpinyClassifier(),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    response = X[:, 0] - X[:, 3]
    for name, model in MODELS.items():
        y = response > 0 if name == "SpinyClassifier" else response
        save(model.fit(FRAME, y), folder / name)
    return folder


def refused(path, *messages):
    """Check that loading fails with an error that names the file and contains the messages."""
    with pytest.raises(ModelFileError, match=re.escape(str(path))) as caught:
        load(path)
    for message in messages:
        assert message in str(caught.value)


def fitted(**values):
    return lambda header: header["fitted"].update(values)


@pytest.mark.parametrize("name", MODELS)
def test_unchanged_copies_are_valid(files, name):
    load(changed(files, name))


def test_sizes_are_checked_before_allocation(files):
    path = changed(files, "GSPPCA", fitted(n_features_in_=10**12))
    refused(path, "shape (12,), but the other attributes imply (1000000000000,)")

    def names_only(header):
        header["fitted"] = {"n_features_in_": 10**12, "support_": header["fitted"]["support_"]}

    refused(changed(files, "GSPPCA", names_only), "a fitted GSPPCA requires `")


PER_COLUMN = {"mean_", "scale_", "support_", "varying_", "ranking_", "relevance_"}


@pytest.mark.parametrize("name", MODELS)
def test_arrays_of_wrong_shape(files, name):
    """All arrays are checked except for objective paths, whose length is free."""
    with zipfile.ZipFile(files / name) as archive:
        content = json.loads(archive.read("model.json"))["fitted"]
    sized = [k for k, v in content.items() if isinstance(v, dict) and "$array" in v]
    assert set(sized) >= PER_COLUMN
    for attribute in sorted(set(sized) - {"objective_path_"}):
        for change in (lambda a: a[:-1], lambda a: np.concatenate([a, a]), lambda a: a[None]):
            refused(changed(files, name, arrays={attribute: change}))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "wrong", [None, "12", 1.5, True, ["a", 2], {"$dict": []}, {"$strings": []}]
)
def test_attributes_of_wrong_type(files, name, wrong):
    with zipfile.ZipFile(files / name) as archive:
        content = json.loads(archive.read("model.json"))["fitted"]
    free = {"_gap_problem", "slope_"} if wrong is None else set()
    if isinstance(wrong, float):  # valid for attributes that are numbers
        free |= {k for k, v in content.items() if isinstance(v, float)}
    free |= {k for k, v in content.items() if v == wrong}
    for attribute in set(content) - free:
        refused(changed(files, name, fitted(**{attribute: wrong})))


@pytest.mark.parametrize(
    ("name", "attribute", "change", "message"),
    [
        ("GSPPCA", "components_", lambda a: np.where(a, np.inf, 0), "`components_` must be finite"),
        ("GSPPCA", "components_", lambda a: a + 1, "`components_` must be zero outside"),
        ("SpinyRegressor", "coef_", lambda a: a + np.nan, "`coef_` must be finite"),
        ("GSPPCA", "scale_", lambda a: 0 * a, "`scale_` must be greater than 0"),
        ("GSPPCA", "support_", lambda a: ~a, "`support_` selects 7"),
        ("GSPPCA", "ranking_", lambda a: a + 1, "each rank from 1 to 12"),
        ("GSPPCA", "varying_", lambda a: ~a, "columns that are constant"),
        ("GSPPCA", "cardinalities_", lambda a: a + 50, "not in `cardinalities_`"),
        ("SCA", "noise_variance_", lambda a: 0 * a, "`noise_variance_` must be greater than 0"),
        ("SCA", "factor_view_", lambda a: a + 9, "`factor_view_` must be below 2"),
        ("Panel", "order_", lambda a: a[[0, 0, 1, 2]], "`order_` must contain each column of"),
        ("Panel", "proxy_", lambda a: 0 * a + 99, "`proxy_` must contain columns of `support_`"),
        ("SpinyRegressor", "selected_coef_", lambda a: a + 1, "must be zero outside `support_`"),
        ("Panel", "unmeasured_std_", lambda a: -1.0 - a, "`unmeasured_std_` must be at least 0"),
        (
            "GSPPCA",
            "objective_path_",
            lambda a: a[:0],
            "`objective_path_` has shape (0,)",
        ),
    ],
)
def test_invalid_values(files, name, attribute, change, message):
    refused(changed(files, name, arrays={attribute: change}), message)


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="has no long doubles")
def test_long_doubles(files):
    """SciPy does not support them."""
    path = changed(files, "GSPPCA", arrays={"mean_": lambda a: a.astype(np.longdouble)})
    refused(path, "`mean_` must be an array of numbers, got an array of float")


def test_inconsistent_attributes(files):
    def without(attribute):
        return lambda header: header["fitted"].pop(attribute)

    for name, attribute in (("GSPPCA", "cardinalities_"), ("SPPCA", "penalties_")):
        refused(changed(files, name, without(attribute)), f"requires `{attribute}`")
    refused(changed(files, "GSPPCA", fitted(n_selected_=6)), "`n_selected_` is 6")
    refused(changed(files, "GSPPCA", fitted(n_components_=3)), "`n_components_` is 3")
    by_group = {"$dict": [["a", "much"]]}
    refused(changed(files, "Panel", fitted(heldout_r2_by_group_=by_group)), "must be a number")
    overlapping = [{"$array": 0}, {"$array": 0}]
    refused(changed(files, "SCA", fitted(view_columns_=overlapping)), "each of the 12 columns once")


def test_path_without_models(files):
    names = ("penalties_", "log_likelihood_path_", "n_parameters_path_", "criterion_path_")
    path = changed(files, "SPPCA", arrays=dict.fromkeys(names, lambda a: a[:0]))
    refused(path, "`penalties_` must contain at least one model")


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
        ("responses", ("conditional_coef_", "inclusion_probability_", "model_size_probability_")),
        ("proofs", ("objective_path_", "_gap_problem", "_optimality_gap")),
    ],
)
def test_attributes_that_exist_together(tmp_path, name, prefixes):
    model, table, given = ALL_OR_NONE[name]
    save(model.fit(table, **given), tmp_path / name)
    with zipfile.ZipFile(tmp_path / name) as archive:
        content = json.loads(archive.read("model.json"))["fitted"]
    related = [attribute for attribute in content if attribute.startswith(prefixes)]
    assert len(related) > 1
    for attribute in related:

        def without(header, attribute=attribute):
            del header["fitted"][attribute]

        refused(changed(tmp_path, name, without), attribute)


def test_lists_with_one_entry_for_each_component_or_view(files):
    for traces in ([], {"$array": 0}):
        path = changed(files, "EMPCA", fitted(objective_path_=traces))
        refused(path, "one entry for each component")
    refused(changed(files, "SCA", fitted(view_names_=[])), "one entry for each view")


@pytest.mark.parametrize("key", ["parameters", "fitted", "versions", "about"])
@pytest.mark.parametrize("value", [None, [], "text", 3])
def test_header_entries_must_be_objects(files, key, value):
    def header(content):
        content[key] = value

    refused(changed(files, "GSPPCA", header), f"'{key}' in model.json must be an object, got")

    def missing(content):
        del content[key]

    refused(changed(files, "GSPPCA", missing), f"'{key}' in model.json must be an object")


def test_another_format_version(files):
    def header(content):
        content.update(version=2, versions=[])

    refused(changed(files, "GSPPCA", header), "format version 2")


@pytest.mark.parametrize("name", ["fdr", "min_communality"])
@pytest.mark.parametrize("value", ["much", None, [1], float("nan")])
def test_invalid_parameters(files, name, value):
    def header(content):
        content["parameters"][name] = value

    refused(changed(files, "FDRPCA", header), name)


def test_invalid_model_is_not_saved(tmp_path):
    model = GSPPCA(2).fit(FRAME)
    model.mean_ = model.mean_[:3]
    with pytest.raises(ModelFileError, match=r"`mean_` has shape \(3,\)"):
        save(model, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_invalid_output_setting(files):
    refused(changed(files, "GSPPCA", fitted(_sklearn_output_config=5)), "`set_output`")
