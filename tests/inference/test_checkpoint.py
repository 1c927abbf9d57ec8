"""Checkpoints: resumed fits, and errors for unsuitable files."""

import io
import os
import signal
import tracemalloc
import zipfile

import array_api_strict
import numpy as np
import pytest

from programs import Program
from prosparse import GSPPCA, SCA, Checkpoint, CheckpointError, ParameterError
from prosparse.data.arrays import to_numpy
from prosparse.datasets import make_globally_sparse

KILLED = """
    import os, signal
    from prosparse import GSPPCA, SCA, Checkpoint
    from prosparse.datasets import make_globally_sparse
    from prosparse.inference import checkpoint

    write, writes = checkpoint.Checkpoint.write, []

    def write_and_kill(self):
        write(self)
        writes.append(1)
        if len(writes) == {writes}:
            os.kill(os.getpid(), signal.SIGKILL)

    checkpoint.Checkpoint.write = write_and_kill
    X = make_globally_sparse(50, 300, n_components=4, random_state=0).X
    GSPPCA({d}, tol=1e-12).fit(X, checkpoint=Checkpoint({path!r}, every=3))
"""


@pytest.fixture(scope="module")
def X():
    return make_globally_sparse(50, 300, n_components=4, random_state=0).X


def assert_same(model, expected):
    for name, value in vars(expected).items():
        if name.endswith("_"):
            np.testing.assert_array_equal(getattr(model, name), value, err_msg=name)


@pytest.mark.parametrize("writes", [1, 4])
def test_resumed_fit_equals_uninterrupted_fit(X, tmp_path, writes):
    path = tmp_path / "fit.npz"
    program = Program(KILLED.format(path=str(path), d=4, writes=writes), tmp_path)
    assert program.ended(100).returncode == -signal.SIGKILL
    assert path.exists()
    whole = GSPPCA(4, tol=1e-12).fit(X)
    assert whole.n_iter_ > 3 * writes
    n_writes = []
    file = Checkpoint(path, every=3)
    original = file.write
    file.write = lambda: (n_writes.append(1), original())[1]
    resumed = GSPPCA(4, tol=1e-12).fit(X, checkpoint=file)
    assert_same(resumed, whole)
    assert len(n_writes) <= whole.n_iter_ // 3 + 1 - writes  # No iteration was repeated.
    assert os.listdir(tmp_path) == ["fit.npz"]  # Temporary files are removed.
    again = GSPPCA(4, tol=1e-12).fit(X, checkpoint=path)  # a finished fit
    assert_same(again, whole)


def test_fit_resumes_with_larger_max_iter(X, tmp_path):
    path = tmp_path / "fit.npz"
    whole = GSPPCA().fit(X)
    with pytest.warns(UserWarning, match="max_iter"):
        GSPPCA(max_iter=4).fit(X, checkpoint=Checkpoint(path, every=2))
    assert_same(GSPPCA().fit(X, checkpoint=path), whole)


def test_fit_resumes_in_the_same_array_library(X, tmp_path):
    path, X = tmp_path / "fit.npz", array_api_strict.asarray(X)
    whole = GSPPCA(4).fit(X)
    with pytest.warns(UserWarning, match="max_iter"):
        GSPPCA(4, max_iter=6).fit(X, checkpoint=Checkpoint(path, every=3))
    resumed = GSPPCA(4).fit(X, checkpoint=path)
    np.testing.assert_array_equal(to_numpy(resumed.components_), to_numpy(whole.components_))
    np.testing.assert_array_equal(
        to_numpy(resumed.objective_path_), to_numpy(whole.objective_path_)
    )


@pytest.mark.parametrize("prior", ["ard", "hyperbolic"])
def test_fit_with_nested_state_resumes(X, tmp_path, prior):
    """The state of SCA contains named tuples and None."""
    path = tmp_path / "fit.npz"
    whole = SCA(2, prior=prior).fit(X)
    with pytest.warns(UserWarning, match="max_iter"):
        SCA(2, prior=prior, max_iter=6).fit(X, checkpoint=Checkpoint(path, every=2))
    resumed = SCA(2, prior=prior).fit(X, checkpoint=path)
    np.testing.assert_array_equal(resumed.components_, whole.components_)
    np.testing.assert_array_equal(resumed.objective_path_, whole.objective_path_)


@pytest.mark.parametrize("case", ["missing values", "auto"])
def test_max_iter_that_limits_the_start_must_be_equal(X, tmp_path, case):
    """Initial fits of SCA depend on ``max_iter``: another value would change the result."""
    path, X = tmp_path / "fit.npz", X[:, :20].copy()
    n_components = "auto" if case == "auto" else 2
    if case == "missing values":
        X[3, 4] = np.nan
    with pytest.warns(UserWarning, match="max_iter"):
        SCA(n_components, max_iter=5).fit(X, checkpoint=Checkpoint(path, every=2))
    with pytest.raises(CheckpointError, match="max_iter was 5, is 1000"):
        SCA(n_components).fit(X, checkpoint=path)


def test_checkpoint_of_other_data_or_parameters_raises(X, tmp_path):
    path = tmp_path / "fit.npz"
    GSPPCA(4).fit(X, checkpoint=path)
    with pytest.raises(CheckpointError, match=r"other parameters: n_components was 4, is 3"):
        GSPPCA(3).fit(X, checkpoint=path)
    # Up to 1e-6, all have the same shape, column means and column variances.
    shuffled = np.random.default_rng(0).permuted(X, axis=0)
    others = [shuffled, X[::-1], X + 1e-12, np.vstack([X[1:], X[:1]])]
    for other in [*others, X[:40]]:
        with pytest.raises(CheckpointError, match="a fit of other data"):
            GSPPCA(4).fit(other, checkpoint=path)
    (tmp_path / "text.npz").write_text("not a checkpoint")
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        GSPPCA(4).fit(X, checkpoint=tmp_path / "text.npz")
    with pytest.raises(ParameterError, match="every"):
        Checkpoint(path, every=0)


def test_checkpoint_of_other_views_raises(X, tmp_path):
    path, X = tmp_path / "fit.npz", X[:, :30]
    views = [X[:, :10], X[:, 10:]]
    whole = SCA(2).fit(views, checkpoint=path)
    again = SCA(2).fit(views, checkpoint=path)
    np.testing.assert_array_equal(again.components_, whole.components_)
    with pytest.raises(CheckpointError, match="other parameters: views was"):
        SCA(2).fit([X[:, :20], X[:, 20:]], checkpoint=path)
    with pytest.raises(CheckpointError, match="other parameters: views was"):
        SCA(2).fit(X, checkpoint=path)
    same = SCA(2, views=[range(10), slice(10, 30)]).fit(X, checkpoint=path)
    np.testing.assert_array_equal(same.components_, whole.components_)


def test_long_parameters_are_compared_completely(tmp_path):
    X = np.random.default_rng(0).standard_normal((6, 2400))
    path, columns = tmp_path / "fit.npz", np.arange(2400)
    file = Checkpoint(path, every=1)
    with pytest.warns(UserWarning, match="max_iter"):
        SCA(1, views=[columns[:1200], columns[1200:]], max_iter=1).fit(X, checkpoint=file)
    columns[[600, 1800]] = columns[[1800, 600]]
    with pytest.raises(CheckpointError, match="other parameters: views was") as caught:
        SCA(1, views=[columns[:1200], columns[1200:]], max_iter=1).fit(X, checkpoint=path)
    assert len(str(caught.value)) < 500


def test_equal_parameters_of_other_types_resume(X, tmp_path):
    path = tmp_path / "fit.npz"
    whole = GSPPCA(4, tol=1e-9).fit(X, checkpoint=path)
    again = GSPPCA(np.int64(4), tol=np.float64(1e-9)).fit(X, checkpoint=path)
    np.testing.assert_array_equal(again.components_, whole.components_)


def test_other_files_raise(X, tmp_path):
    np.save(tmp_path / "array.npy", X)
    np.savez(tmp_path / "list.npz", parameters=np.array("[1]"), fingerprint=np.zeros(4))
    for name in ("array.npy", "list.npz"):
        with pytest.raises(CheckpointError, match="is not a checkpoint"):
            GSPPCA(4).fit(X, checkpoint=tmp_path / name)


STAGE = "4 components/"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("position.best.Y", None),
        ("position.best.Y", np.zeros((4, 3))),
        ("position.start.sigma2", np.ones(2)),
        ("position.start.Y", np.full((300, 4), "a")),
        ("position.bounds", np.zeros(0)),
        ("position.bounds", np.array(1.0)),
        ("reason", np.array("UNKNOWN")),
    ],
)
def test_damaged_checkpoint_raises(X, tmp_path, field, value):
    path = tmp_path / "fit.npz"
    GSPPCA(4).fit(X, checkpoint=path)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    assert STAGE + field in arrays
    arrays[STAGE + field] = value
    np.savez(path, **{name: part for name, part in arrays.items() if part is not None})
    with pytest.raises(CheckpointError, match="is damaged or was written by another version"):
        GSPPCA(4).fit(X, checkpoint=path)


def test_path_that_cannot_be_written_raises_before_the_fit(X, tmp_path, monkeypatch):
    def begin_fit(*arguments):
        raise AssertionError("the fit began")

    monkeypatch.setattr("prosparse.models.gsppca.solve.iterate", begin_fit)
    with pytest.raises(CheckpointError, match="none does not exist"):
        GSPPCA(4).fit(X, checkpoint=tmp_path / "none" / "fit.npz")
    monkeypatch.setattr("prosparse.inference.checkpoint.os.access", lambda *arguments: False)
    with pytest.raises(CheckpointError, match="permission"):
        GSPPCA(4).fit(X, checkpoint=tmp_path / "fit.npz")


def test_checkpoint_contains_no_pickled_objects(X, tmp_path):
    path = tmp_path / "fit.npz"
    GSPPCA(4).fit(X, checkpoint=path)
    with np.load(path, allow_pickle=False) as file:
        assert all(file[name].dtype != object for name in file.files)


# --- manipulated files


def read_members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_members(path, parts, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, raw in parts.items():
            archive.writestr(name, raw)
    return path


def array_with_header(shape, body=b""):
    """Return an array in NumPy's format whose header states ``shape``."""
    text = repr({"descr": "<f8", "fortran_order": False, "shape": shape}).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body


def deep_json():
    buffer = io.BytesIO()
    np.save(buffer, np.array("[" * 10**5))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "raw", "compression"),
    [
        ("claims.npy", array_with_header((10**11,)), zipfile.ZIP_STORED),
        ("bomb.npy", array_with_header((10**7,), bytes(8 * 10**7)), zipfile.ZIP_DEFLATED),
        ("parameters.npy", deep_json(), zipfile.ZIP_STORED),
        ("text.npy", b"no array", zipfile.ZIP_STORED),
    ],
)
def test_malicious_files_raise_without_using_memory(X, tmp_path, name, raw, compression):
    path = tmp_path / "fit.npz"
    GSPPCA(4).fit(X, checkpoint=path)
    write_members(path, read_members(path) | {name: raw}, compression)
    size = path.stat().st_size
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match="is not a checkpoint"):
            GSPPCA(4).fit(X, checkpoint=path)
        assert tracemalloc.get_traced_memory()[1] < 10 * size + 10**6
    finally:
        tracemalloc.stop()


def test_changed_numbers_raise(X, tmp_path):
    path = tmp_path / "fit.npz"
    GSPPCA(4).fit(X, checkpoint=path)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    arrays[STAGE + "position.best.Y"] = -arrays[STAGE + "position.best.Y"] - 1.0
    np.savez(path, **arrays)
    with pytest.raises(CheckpointError, match="do not match its checksum"):
        GSPPCA(4).fit(X, checkpoint=path)


def test_checkpoint_of_another_version_raises(X, tmp_path, monkeypatch):
    path = tmp_path / "fit.npz"
    with monkeypatch.context() as patch:
        patch.setattr("prosparse.inference.checkpoint.__version__", "0.0.1")
        GSPPCA(4).fit(X, checkpoint=path)
    with pytest.raises(CheckpointError, match=r"prosparse was 0\.0\.1, is"):
        GSPPCA(4).fit(X, checkpoint=path)


@pytest.mark.parametrize("path", [3, True, ["fit.npz"], b"fit.npz"])
def test_checkpoint_must_be_a_path(X, path):
    with pytest.raises(ParameterError, match="`checkpoint` must be the path of a file or"):
        GSPPCA(4).fit(X, checkpoint=path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="requires named pipes")
def test_paths_that_are_not_files_raise_before_the_fit(X, tmp_path, monkeypatch):
    def begin_fit(*arguments, **named):
        raise AssertionError("the fit began")

    monkeypatch.setattr("prosparse.models.gsppca.solve.iterate", begin_fit)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "nowhere").symlink_to(tmp_path / "no" / "fit.npz")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name, message in (
        ("pipe", "it is not a regular file"),
        ("nowhere", "directory .* does not exist"),
        ("loop", "it is not a regular file"),
        ("n" * 300, "File name too long"),
        ("a\0b", "null"),
    ):
        with pytest.raises(CheckpointError, match=message):
            GSPPCA(4).fit(X, checkpoint=tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["loop", "nowhere", "pipe"]
