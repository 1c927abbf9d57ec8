"""Damaged and hostile files raise errors, run no code and allocate little memory."""

import contextlib
import io
import json
import pickle
import tracemalloc
import zipfile

import numpy as np
import pytest

from prosparse import GSPPCA, ModelFileError, SpinyRegressor, load, save
from saved_models import RESPONSE, X

pytestmark = pytest.mark.quick


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


def test_pickles_are_not_read(parts, tmp_path):
    buffer = io.BytesIO()
    np.save(buffer, np.array([Hostile()], dtype=object), allow_pickle=True)
    for content in (buffer.getvalue(), pickle.dumps(Hostile())):
        path = written(tmp_path / "model", parts | {"arrays/0.npy": content})
        with pytest.raises(ModelFileError):
            load(path)
    (tmp_path / "pickle").write_bytes(pickle.dumps(Hostile()))
    with pytest.raises(ModelFileError, match="not a valid model file"):
        load(tmp_path / "pickle")
    assert not Hostile.ran


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, "not a prosparse model"),
        ({"version": 2}, "format version 2, but prosparse"),
        ({"class": "os.system"}, "unknown estimator 'os.system'; known estimators:"),
        ({"class": ["GSPPCA"]}, "known estimators:"),
        ({"parameters": {}}, "differ from those of this version"),
        ({"fitted": {"transform": 1}}, "'transform' cannot be a fitted attribute"),
        ({"fitted": {"__class__": 1}}, "'__class__' cannot be a fitted attribute"),
        ({"fitted": {"tol": 1}}, "'tol' cannot be a fitted attribute"),
        ({"fitted": {"__sklearn_is_fitted__": 1}}, "'__sklearn_is_fitted__' cannot be a fitted"),
        ({"fitted": {"_metadata_request": 1}}, "'_metadata_request' cannot be a fitted"),
        (
            {"fitted": {"_sklearn_output_config": {"$dict": [["transform", "excel"]]}}},
            "must be a setting of `set_output`",
        ),
        ({"fitted": {"a_": {"$call": ["os", "system"]}}}, "unknown tag '\\$call'"),
        ({"fitted": {"a_": {"$enum": ["StopReason", "__class__"]}}}, "KeyError"),
        ({"fitted": {"a_": {"$record": ["Popen", {}]}}}, "KeyError"),
        ({"fitted": {"a_": {"$array": 99}}}, "KeyError"),
        ({"fitted": {"a_": {"$scalar": ["O", 1]}}}, "object is not allowed"),
        ({"fitted": {"a_": {"$strings": [1]}}}, "contains other values"),
        ({"fitted": []}, "'fitted' in model.json must be an object, got \\[\\]"),
    ],
)
def test_invalid_headers(parts, tmp_path, changes, message):
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
def test_invalid_arrays(parts, tmp_path, array):
    path = written(tmp_path / "model", parts | {"arrays/0.npy": array})
    with pytest.raises(ModelFileError):
        load(path)


def test_compressed_members_are_not_read(parts, tmp_path):
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


def test_declared_sizes_beyond_the_file(parts, tmp_path):
    path = written(tmp_path / "model", parts)
    raw = bytearray(path.read_bytes())
    entry = raw.rindex(b"PK\x01\x02")  # the last entry of the directory
    raw[entry + 24 : entry + 28] = (2**31).to_bytes(4, "little")  # its uncompressed size
    path.write_bytes(raw)
    with pytest.raises(ModelFileError, match="the members declare"):
        load(path)


def test_declared_compressed_sizes_beyond_the_file(parts, tmp_path):
    """`zipfile` allocates the compressed size of a member before it reads the member."""
    path = written(tmp_path / "model", parts)
    raw = bytearray(path.read_bytes())
    entry = raw.rindex(b"PK\x01\x02")
    raw[entry + 20 : entry + 24] = (2**31).to_bytes(4, "little")  # its compressed size
    path.write_bytes(raw)
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match="the members declare"):
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()


def test_file_name_that_the_system_rejects(tmp_path):
    with pytest.raises(ModelFileError, match="cannot be read: File name too long"):
        load(tmp_path / ("n" * 5000))


@pytest.mark.parametrize("value", [["gaussian"], {"$strings": ["a", "b"]}, 3, None])
def test_parameters_of_a_fitted_model_are_checked(value, tmp_path):
    path = save(SpinyRegressor().fit(X, RESPONSE), tmp_path / "model")
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(parts["model.json"])
    header["parameters"]["noise"] = value
    written(path, parts | {"model.json": json.dumps(header)})
    with pytest.raises(ModelFileError, match="`noise` must be one of 'gaussian'"):
        load(path)


def test_truncated_or_changed_files(parts, tmp_path):
    """A truncated file is an error; a changed byte is an error or leaves a valid model."""
    path = written(tmp_path / "model", parts)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for position in rng.integers(0, len(whole), 60):
        path.write_bytes(whole[:position])
        with pytest.raises(ModelFileError):
            load(path)
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x55]) + whole[position + 1 :])
        with contextlib.suppress(ModelFileError):
            assert type(load(path)) is GSPPCA


def test_nested_headers_and_other_archives(parts, tmp_path):
    deep = b'{"format": "prosparse-model", "version": 1, "fitted": ' + b"[" * 10**5
    with pytest.raises(ModelFileError):
        load(written(tmp_path / "model", {"model.json": deep}))
    with pytest.raises(ModelFileError, match=r"must contain one model\.json, got 0"):
        load(written(tmp_path / "model", {"a": "b"}))
    with pytest.raises(ModelFileError, match="numbered consecutively"):
        load(written(tmp_path / "model", parts | {"../../evil": "x"}))
    with pytest.raises(ModelFileError, match="file not found"):
        load(tmp_path / "nowhere")
    with pytest.raises(ModelFileError):
        load(tmp_path)


def test_two_headers(tmp_path):
    path = save(GSPPCA(1), tmp_path / "m.prosparse")
    with zipfile.ZipFile(path) as archive:
        header = archive.read("model.json")
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("model.json", header)
    with pytest.raises(ModelFileError, match="got 2"):
        load(path)
