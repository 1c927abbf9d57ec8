"""Saved and loaded models are the same models, and files that are not models do nothing."""

import contextlib
import io
import json
import math
import pickle
import tracemalloc
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import prosparse
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
from prosparse.datasets import make_globally_sparse
from prosparse.inference.loop import StopReason
from prosparse.persistence import load_with_about
from prosparse.registry import ESTIMATORS, METHODS
from prosparse.selection.slope import Slope

pytestmark = pytest.mark.quick

X = make_globally_sparse(60, 12, n_components=2, n_informative=5, random_state=0).X
RESPONSE = X[:, 0] - X[:, 3] + np.random.default_rng(1).normal(size=60)
CLASSES = np.where(RESPONSE > 0, "höher", "lower")
FRAME = pd.DataFrame(X, columns=[f"gene {k} é😀" for k in range(12)])
MODELS = {
    "FDRPCA": FDRPCA(),
    "FDRPCA, ranks": FDRPCA(2, rank_transform=True, fdr=0.1, random_state=1),
    "GSPPCA": GSPPCA(2, scale=True),
    "GSPPCA, given": GSPPCA(2, n_features_to_select=np.int64(4)),
    "SCA": SCA(2),
    "SCA, views": SCA(1, n_private=[1, 0], views=[slice(0, 6), np.arange(6, 12)]),
    "SCA, hyperbolic": SCA(2, prior="hyperbolic"),
    "SPPCA": SPPCA(2, penalty="slope", penalties=np.linspace(0, 160, 40), max_iter=200),
    "SPPCA, bic": SPPCA(2, penalty=10.0, penalties=np.array([1.0, 5.0, 10.0])),
    "EMPCA": EMPCA(2, n_nonzero=[4, 5], random_state=0),
    "EMPCA, quasi": EMPCA(2, n_nonzero=3, orthogonality="quasi", min_angle=85.0, random_state=1),
    "Panel": Panel(4),
    "Panel, wishes": Panel(
        6,
        include=(1,),
        exclude=[2, -9],
        costs=np.linspace(1.0, 2.0, 12),
        bundles=[slice(4, 6), np.array([7, 8])],
        criterion="information",
        random_state=np.int64(3),
    ),
    "SpinyRegressor": SpinyRegressor(),
    "SpinyRegressor, ols": SpinyRegressor(refit="ols", scale=False),
    "SpinyRegressor, student": SpinyRegressor(noise="student"),
    "SpinyClassifier": SpinyClassifier(),
    "SpinyClassifier, alone": SpinyClassifier(
        selection_rule="map", average=False, fit_intercept=False
    ),
}


def test_every_estimator_is_tried():
    assert {type(model).__name__ for model in MODELS.values()} == set(ESTIMATORS)


def assert_same(a, b, where=""):
    assert type(a) is type(b), where
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype, where
        np.testing.assert_array_equal(a, b, err_msg=where)
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), where
        for one, other in zip(a, b, strict=True):
            assert_same(one, other, where)
    elif isinstance(a, dict):
        assert_same(list(a.items()), list(b.items()), where)
    else:
        assert a == b, where


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_the_same_after_a_round_trip(name, tmp_path):
    y = CLASSES if METHODS[type(MODELS[name]).__name__].classifies else RESPONSE
    model = clone(MODELS[name]).fit(FRAME, y)
    again = load(save(model, tmp_path / "model.prosparse"))
    assert type(again) is type(model)
    assert_same(vars(model), vars(again), name)
    assert_same(model.get_params(), again.get_params(), name)
    pd.testing.assert_frame_equal(model.select(FRAME), again.select(FRAME))
    for method in ("transform", "predict", "predict_proba", "score_samples"):
        if hasattr(model, method):
            np.testing.assert_array_equal(
                getattr(model, method)(FRAME), getattr(again, method)(FRAME)
            )
    if hasattr(model, "transform"):
        scores = model.transform(FRAME)
        np.testing.assert_array_equal(
            model.inverse_transform(scores), again.inverse_transform(scores)
        )
        assert list(model.get_feature_names_out()) == list(again.get_feature_names_out())
    again.fit(FRAME, y)  # and it can be fitted anew


@pytest.mark.slow
def test_fitted_on_arrays_of_another_library(tmp_path):
    """What was fitted where the table was is saved as plain numbers."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    model = GSPPCA(2).fit(torch.asarray(X))
    again = load(save(model, tmp_path / "model"))
    np.testing.assert_array_equal(again.components_, np.asarray(model.components_))
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    np.testing.assert_array_equal(
        again.transform(torch.asarray(X)), model.transform(torch.asarray(X))
    )


def test_the_gap_that_is_computed_when_asked_for(tmp_path):
    asked, not_asked = (EMPCA(2, n_nonzero=4, random_state=0).fit(X) for _ in range(2))
    gap = asked.optimality_gap_
    again = load(save(not_asked, tmp_path / "model"))
    np.testing.assert_array_equal(again.optimality_gap_, gap)


def test_special_attributes(tmp_path):
    model = SPPCA(2, penalties=np.linspace(0, 160, 40), max_iter=200).fit(X)
    again = load(save(model, tmp_path / "model"))
    assert type(again.slope_) is Slope
    assert again.stop_reason_ is StopReason.CONVERGED
    assert load(save(SPPCA(2, penalty=9.0).fit(X), tmp_path / "model")).slope_ is None


def test_not_fitted_and_output_setting(tmp_path):
    again = load(save(GSPPCA(3, tol=1e-5), tmp_path / "model"))
    assert again.get_params()["tol"] == 1e-5
    assert not hasattr(again, "components_")
    model = GSPPCA(2).fit(FRAME).set_output(transform="pandas")
    again = load(save(model, tmp_path / "model"))
    pd.testing.assert_frame_equal(again.transform(FRAME), model.transform(FRAME))


def test_about(tmp_path):
    _, rest = load_with_about(save(GSPPCA(), tmp_path / "model", about={"rows": 3, "é": [None]}))
    assert rest["about"] == {"rows": 3, "é": [None]}
    assert rest["versions"]["prosparse"] == prosparse.__version__


def test_numpy_reads_the_arrays_too(tmp_path):
    model = GSPPCA(2).fit(X)
    save(model, tmp_path / "model")
    with np.load(tmp_path / "model", allow_pickle=False) as archive:
        arrays = [archive[name] for name in archive.files if name.startswith("arrays")]
    assert any(np.array_equal(array, model.components_) for array in arrays)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (EMPCA(random_state=np.random.RandomState(0)), r"`random_state` holds a RandomState"),
        (GSPPCA(tol=np.array([object()])), r"`tol` is an array of object"),
        (object(), "object is not an estimator that can be saved"),
        (type("GSPPCA", (GSPPCA,), {})(), "GSPPCA is not an estimator that can be saved"),
    ],
)
def test_what_cannot_be_saved(model, message, tmp_path):
    with pytest.raises(ModelFileError, match=message):
        save(model, tmp_path / "model")
    assert not list(tmp_path.iterdir())


# --- files that are not models


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    path = save(GSPPCA(2).fit(X), tmp_path_factory.mktemp("model") / "model")
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def written(path, parts, **zip_options):
    with zipfile.ZipFile(path, "w", **zip_options) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


def with_header(parts, **changes):
    return parts | {"model.json": json.dumps(json.loads(parts["model.json"]) | changes)}


def npy(header, body=b""):
    text = repr(header).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body


class Hostile:
    ran = False

    def __reduce__(self):
        return setattr, (Hostile, "ran", True)


def test_no_pickle_is_ever_read(parts, tmp_path):
    buffer = io.BytesIO()
    np.save(buffer, np.array([Hostile()], dtype=object), allow_pickle=True)
    for content in (buffer.getvalue(), pickle.dumps(Hostile())):
        path = written(tmp_path / "model", parts | {"arrays/0.npy": content})
        with pytest.raises(ModelFileError):
            load(path)
    (tmp_path / "pickle").write_bytes(pickle.dumps(Hostile()))
    with pytest.raises(ModelFileError, match="not a whole model file"):
        load(tmp_path / "pickle")
    assert not Hostile.ran


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, "does not say that it is a prosparse model"),
        ({"version": 2}, "format version 2, this prosparse"),
        ({"class": "os.system"}, "holds a 'os.system'; known are"),
        ({"class": ["GSPPCA"]}, "known are"),
        ({"parameters": {}}, "parameters are not those of GSPPCA"),
        ({"fitted": {"transform": 1}}, "'transform' cannot be a fitted attribute"),
        ({"fitted": {"__class__": 1}}, "'__class__' cannot be a fitted attribute"),
        ({"fitted": {"tol": 1}}, "'tol' cannot be a fitted attribute"),
        ({"fitted": {"__sklearn_is_fitted__": 1}}, "'__sklearn_is_fitted__' cannot be a fitted"),
        ({"fitted": {"_metadata_request": 1}}, "'_metadata_request' cannot be a fitted"),
        (
            {"fitted": {"_sklearn_output_config": {"$dict": [["transform", "excel"]]}}},
            "must say what `set_output` asked for",
        ),
        ({"fitted": {"a_": {"$call": ["os", "system"]}}}, "unknown kind '\\$call'"),
        ({"fitted": {"a_": {"$enum": ["StopReason", "__class__"]}}}, "KeyError"),
        ({"fitted": {"a_": {"$record": ["Popen", {}]}}}, "KeyError"),
        ({"fitted": {"a_": {"$array": 99}}}, "KeyError"),
        ({"fitted": {"a_": {"$scalar": ["O", 1]}}}, "object is not allowed"),
        ({"fitted": {"a_": {"$strings": [1]}}}, "holds something else"),
        ({"fitted": []}, "'fitted' in model.json must be an object, got \\[\\]"),
    ],
)
def test_hostile_headers(parts, tmp_path, changes, message):
    path = written(tmp_path / "model", with_header(parts, **changes))
    with pytest.raises(ModelFileError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "array",
    [
        npy({"descr": "<f8", "fortran_order": False, "shape": (10**12,)}),
        npy({"descr": "<f8", "fortran_order": False, "shape": (-1,)}),
        npy({"descr": "|O", "fortran_order": False, "shape": (1,)}, b"\x80\x04N."),
        npy({"descr": [("a", "<f8")], "fortran_order": False, "shape": (1,)}, b"x" * 8),
        b"\x93NUMPY\x03\x00",
        b"nothing",
        b"",
    ],
)
def test_hostile_arrays(parts, tmp_path, array):
    path = written(tmp_path / "model", parts | {"arrays/0.npy": array})
    with pytest.raises(ModelFileError):
        load(path)


def test_zip_bomb_is_not_unpacked(parts, tmp_path):
    bomb = npy({"descr": "<f8", "fortran_order": False, "shape": (10**7,)}, bytes(8 * 10**7))
    path = written(
        tmp_path / "model", parts | {"arrays/0.npy": bomb}, compression=zipfile.ZIP_DEFLATED
    )
    assert path.stat().st_size < 10**6
    del bomb
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match="compressed"):
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()


def test_sizes_beyond_the_file(parts, tmp_path):
    path = written(tmp_path / "model", parts)
    raw = bytearray(path.read_bytes())
    entry = raw.rindex(b"PK\x01\x02")  # the last member's line in the directory
    raw[entry + 24 : entry + 28] = (2**31).to_bytes(4, "little")  # its uncompressed size
    path.write_bytes(raw)
    with pytest.raises(ModelFileError, match="its members claim"):
        load(path)


def test_stored_sizes_beyond_the_file(parts, tmp_path):
    """`zipfile` allocates the compressed size of a member before it reads the member."""
    path = written(tmp_path / "model", parts)
    raw = bytearray(path.read_bytes())
    entry = raw.rindex(b"PK\x01\x02")
    raw[entry + 20 : entry + 24] = (2**31).to_bytes(4, "little")  # its compressed size
    path.write_bytes(raw)
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match="its members claim"):
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()


def test_a_name_that_the_system_refuses(tmp_path):
    with pytest.raises(ModelFileError, match="cannot be read: File name too long"):
        load(tmp_path / ("n" * 5000))


@pytest.mark.parametrize("value", [["gaussian"], {"$strings": ["a", "b"]}, 3, None])
def test_parameters_of_a_fitted_model_are_checked(value, tmp_path):
    """Methods of a fitted model use its parameters."""
    path = save(SpinyRegressor().fit(X, RESPONSE), tmp_path / "model")
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(parts["model.json"])
    header["parameters"]["noise"] = value
    written(path, parts | {"model.json": json.dumps(header)})
    with pytest.raises(ModelFileError, match="`noise` must be one of 'gaussian'"):
        load(path)


def test_parameters_are_checked_before_a_fitted_model_is_saved(tmp_path):
    model = GSPPCA(2).fit(X).set_params(max_iter="many")
    with pytest.raises(ModelFileError, match="`max_iter` must be an integer"):
        save(model, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_ranges_of_columns_are_saved_as_lists(tmp_path):
    model = SCA(1, views=[range(6), range(6, 12)]).fit(X)
    again = load(save(model, tmp_path / "model"))
    assert again.views == [list(range(6)), list(range(6, 12))]
    np.testing.assert_array_equal(again.transform(X), model.transform(X))


def test_damaged_anywhere(parts, tmp_path):
    """Cut short or with a byte changed, a file is refused or, rarely, still the same model."""
    path = written(tmp_path / "model", parts)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(whole), 60):
        path.write_bytes(whole[:place])
        with pytest.raises(ModelFileError):
            load(path)
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        with contextlib.suppress(ModelFileError):
            assert type(load(path)) is GSPPCA


def test_deep_nesting_and_other_files(parts, tmp_path):
    deep = b'{"format": "prosparse-model", "version": 1, "fitted": ' + b"[" * 10**5
    with pytest.raises(ModelFileError):
        load(written(tmp_path / "model", {"model.json": deep}))
    with pytest.raises(ModelFileError, match=r"without model\.json"):
        load(written(tmp_path / "model", {"a": "b"}))
    with pytest.raises(ModelFileError, match="not numbered"):
        load(written(tmp_path / "model", parts | {"../../evil": "x"}))
    with pytest.raises(ModelFileError, match="there is no such file"):
        load(tmp_path / "nowhere")
    with pytest.raises(ModelFileError):
        load(tmp_path)


def test_numbers_survive(tmp_path):
    model = GSPPCA(tol=np.float32(0.1))
    model.values_ = (math.inf, -0.0, np.int8(3), "ü", {"a": [1.5, None, True]}, 2**70)
    model.fortran_ = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    again = load(save(model, tmp_path / "model"))
    assert_same(model.values_, again.values_)
    assert type(again.tol) is np.float32
    assert again.fortran_.flags.f_contiguous
    np.testing.assert_array_equal(again.fortran_, model.fortran_)


def test_two_headers_are_one_too_many(tmp_path):
    path = save(GSPPCA(1), tmp_path / "m.prosparse")
    with zipfile.ZipFile(path) as archive:
        header = archive.read("model.json")
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("model.json", header)
    with pytest.raises(ModelFileError, match="or with more than one"):
        load(path)


LABELS = {
    "integers": np.array([3, 7]),
    "bytes of integers": np.array([3, 7], dtype=np.uint8),
    "numbers": np.array([0.5, 1.5]),
    "single precision": np.array([0.1, 1.5], dtype=np.float32),
    "truth values": np.array([False, True]),
    "complex numbers": np.array([1j, 2.0]),
    "bytes": np.array([b"a", b"\xff"]),
    "dates": np.array(["2024-02-29", "2024-03-01"], dtype="datetime64[D]"),
    "times": np.array(["2024-02-29T12:00", "2024-03-01"], dtype="datetime64[ns]"),
    "durations": np.array([1, 2], dtype="timedelta64[h]"),
    "texts": np.array(["a", "höher"]),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS.keys())
def test_groups_of_rows_keep_their_labels(labels, tmp_path):
    groups = np.tile(labels, 30)
    model = SCA(1).fit(X, groups=groups)
    again = load(save(model, tmp_path / "model"))
    np.testing.assert_array_equal(model.groups_, labels)
    np.testing.assert_array_equal(again.groups_, labels)
    assert again.groups_.dtype == model.groups_.dtype == labels.dtype
    np.testing.assert_array_equal(
        again.transform(X, groups=groups), model.transform(X, groups=groups)
    )


@pytest.mark.parametrize(
    "labels",
    [
        np.array([(1, 2.5), (2, 0.5)], dtype=[("donor", int), ("dose", float)]),
        pd.MultiIndex.from_tuples([("a", 1), ("a", 2)]),
        np.array([b"\xff", b"a"], dtype=object),
    ],
    ids=["records", "tuples", "bytes in an array of objects"],
)
@pytest.mark.parametrize("estimator", [SCA(1), Panel(2), FDRPCA(1)], ids=lambda e: type(e).__name__)
def test_labels_without_an_order_are_saved_as_texts(estimator, labels, tmp_path):
    model = clone(estimator).fit(X, groups=np.tile(np.asarray(labels), 30))
    again = load(save(model, tmp_path / "model"))
    if isinstance(estimator, SCA):
        assert again.groups_.tolist() == sorted(str(label) for label in labels.tolist())


@pytest.mark.parametrize(
    "name", ["integers", "truth values", "dates", "times", "durations", "texts"]
)
def test_classes_keep_their_labels(name, tmp_path):
    labels = LABELS[name]
    model = SpinyClassifier().fit(X, labels[(RESPONSE > 0).astype(int)])
    again = load(save(model, tmp_path / "model"))
    np.testing.assert_array_equal(again.classes_, labels)
    assert again.classes_.dtype == model.classes_.dtype == labels.dtype
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize(
    "scalar", [np.complex128(1j), np.datetime64("2024-02-29"), np.bytes_(b"a")]
)
def test_scalars_that_json_lacks_are_refused_by_name(scalar, tmp_path):
    with pytest.raises(ModelFileError, match="`n_features_to_select` holds a"):
        save(Panel(n_features_to_select=scalar), tmp_path / "model")
