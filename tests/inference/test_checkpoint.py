"""A fit that is killed goes on where it was, and refuses to go on with something else."""

import os
import signal
import subprocess
import sys
import textwrap

import array_api_strict
import numpy as np
import pytest

from prosparse import GSPPCA, SCA, Checkpoint, CheckpointError, ParameterError
from prosparse.data.arrays import host
from prosparse.datasets import make_globally_sparse

KILLED = """
    import os, signal
    from prosparse import GSPPCA, SCA, Checkpoint
    from prosparse.datasets import make_globally_sparse
    from prosparse.inference import (checkpoint)

    write, writes = checkpoint.Checkpoint.write, []

    def deadly(self):
        write(self)
        writes.append(1)
        if len(writes) == {writes}:
            os.kill(os.getpid(), signal.SIGKILL)

    checkpoint.Checkpoint.write = deadly
    X = make_globally_sparse(50, 300, n_components=4, random_state=0).X
    GSPPCA({d}, tol=1e-12).fit(X, checkpoint=Checkpoint({path!r}, every=3))
"""


@pytest.fixture(scope="module")
def table():
    return make_globally_sparse(50, 300, n_components=4, random_state=0).X


def assert_same(ours, theirs):
    for name, value in vars(theirs).items():
        if name.endswith("_"):
            np.testing.assert_array_equal(getattr(ours, name), value, err_msg=name)


@pytest.mark.parametrize("writes", [1, 4])
def test_killed_and_resumed_equals_uninterrupted(table, tmp_path, writes):
    path = tmp_path / "fit.npz"
    script = textwrap.dedent(KILLED).format(path=str(path), d=4, writes=writes)
    ended = subprocess.run([sys.executable, "-c", script], timeout=100, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert path.exists()
    whole = GSPPCA(4, tol=1e-12).fit(table)
    assert whole.n_iter_ > 3 * writes
    steps = []
    file = Checkpoint(path, every=3)
    original = file.write
    file.write = lambda: (steps.append(1), original())[1]
    resumed = GSPPCA(4, tol=1e-12).fit(table, checkpoint=file)
    assert_same(resumed, whole)
    assert len(steps) <= whole.n_iter_ // 3 + 1 - writes  # nothing was done twice
    assert os.listdir(tmp_path) == ["fit.npz"]  # no temporary file is left
    again = GSPPCA(4, tol=1e-12).fit(table, checkpoint=path)  # finished: nothing left to do
    assert_same(again, whole)


def test_automatic_dimension_and_more_iterations(table, tmp_path):
    path = tmp_path / "fit.npz"
    whole = GSPPCA().fit(table)
    with pytest.warns(UserWarning, match="max_iter"):
        GSPPCA(max_iter=4).fit(table, checkpoint=Checkpoint(path, every=2))
    assert_same(GSPPCA().fit(table, checkpoint=path), whole)


def test_other_libraries_resume_in_kind(table, tmp_path):
    path, X = tmp_path / "fit.npz", array_api_strict.asarray(table)
    whole = GSPPCA(4).fit(X)
    with pytest.warns(UserWarning, match="max_iter"):
        GSPPCA(4, max_iter=6).fit(X, checkpoint=Checkpoint(path, every=3))
    resumed = GSPPCA(4).fit(X, checkpoint=path)
    np.testing.assert_array_equal(host(resumed.components_), host(whole.components_))
    np.testing.assert_array_equal(host(resumed.bounds_), host(whole.bounds_))


@pytest.mark.parametrize("prior", ["ard", "hyperbolic"])
def test_nested_states(table, tmp_path, prior):
    """SCA's state holds named tuples, and None where there is nothing."""
    path = tmp_path / "fit.npz"
    whole = SCA(2, prior=prior).fit(table)
    with pytest.warns(UserWarning, match="max_iter"):
        SCA(2, prior=prior, max_iter=6).fit(table, checkpoint=Checkpoint(path, every=2))
    resumed = SCA(2, prior=prior).fit(table, checkpoint=path)
    np.testing.assert_array_equal(resumed.components_, whole.components_)
    np.testing.assert_array_equal(resumed.bounds_, whole.bounds_)


def test_checkpoints_of_something_else_are_refused(table, tmp_path):
    path = tmp_path / "fit.npz"
    GSPPCA(4).fit(table, checkpoint=path)
    with pytest.raises(CheckpointError, match=r"other parameters: n_components was 4, is 3"):
        GSPPCA(3).fit(table, checkpoint=path)
    # every one of them has, up to 1e-6, the shape, the column means and the column variances
    shuffled = np.random.default_rng(0).permuted(table, axis=0)
    others = [shuffled, table[::-1], table + 1e-12, np.vstack([table[1:], table[:1]])]
    for other in [*others, table[:40]]:
        with pytest.raises(CheckpointError, match="belongs to another table"):
            GSPPCA(4).fit(other, checkpoint=path)
    (tmp_path / "text.npz").write_text("not a checkpoint")
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        GSPPCA(4).fit(table, checkpoint=tmp_path / "text.npz")
    with pytest.raises(ParameterError, match="every"):
        Checkpoint(path, every=0)


def test_nothing_is_pickled(table, tmp_path):
    path = tmp_path / "fit.npz"
    GSPPCA(4).fit(table, checkpoint=path)
    with np.load(path, allow_pickle=False) as file:
        assert all(file[name].dtype != object for name in file.files)
