"""Full disks, Ctrl-C, kills and folders that cannot be written: earlier results stay, in words."""

import contextlib
import functools
import inspect
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from sklearn.base import clone

from programs import Program
from prosparse import GSPPCA, load, save
from prosparse.app.results import RESULTS
from prosparse.datasets import make_globally_sparse
from prosparse.registry import method_of
from saved_models import CLASSES, MODELS, RESPONSE, assert_same
from saved_models import X as SMALL

pytest.importorskip("pyarrow")
pytest.importorskip("typer")
if not hasattr(signal, "SIGXFSZ"):
    pytest.skip("needs the limits and signals of Unix", allow_module_level=True)

X = make_globally_sparse(60, 40, n_components=2, n_informative=6, random_state=0).X
SECONDS = 100


def run(script, folder, *arguments):
    """A Python program in ``folder``."""
    return Program(script, folder, *arguments).ended(SECONDS)


def contents(folder):
    return {p: p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


# --- a full disk


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a file system of its own, and what is left on it once it is filled."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a small file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


# Each writes, in the current folder, what was there before with a limit on every file.
WRITES = {
    "save": "save(model, 'model')",
    "report": "write_report(model, 'report.html', X=X)",
    "checkpoint": "GSPPCA(2, tol=0, max_iter=40).fit(X, checkpoint='fit.npz')",
    "select": "command('select', 'table.csv', '--components', '2')",
    "fit": "command('fit', 'table.csv', '--components', '2', '--output', 'fitted')",
    "report command": "command('report', 'table.prosparse', '--data', 'table.csv')",
    "reproduce": "command('reproduce', 'E1', '--quick', '--output', 'papers')",
}
PROLOGUE = """
    import contextlib, os, resource, sys, warnings
    from prosparse import GSPPCA, save
    from prosparse.__main__ import main
    from prosparse.datasets import make_globally_sparse
    from prosparse.report import write_report

    warnings.simplefilter("ignore")
    X = make_globally_sparse(60, 40, n_components=2, n_informative=6, random_state=0).X
    model = GSPPCA(2).fit(X)

    def command(*words):
        sys.argv = ["prosparse", *words]
        main()
"""


@functools.cache
def first_results(name):
    """What the action writes when all goes well, by path."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write_table(place)
        first = run(f"{PROLOGUE}\n    {WRITES[name]}\n", place)
        assert first.returncode == 0, first.stderr
        return {path.relative_to(place): raw for path, raw in contents(place).items()}


def prepared_folder(folder, name):
    """The table, and earlier results of the action."""
    write_table(folder)
    if name != "checkpoint":  # which goes on from what is there
        for path, raw in first_results(name).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(raw)
    return contents(folder)


def write_table(folder):
    rows = [",".join(f"v{k}" for k in range(40)), *(",".join(map(repr, r)) for r in X.tolist())]
    (folder / "table.csv").write_text("\n".join(rows) + "\n")
    save(GSPPCA(2).fit(X), folder / "table.prosparse")


@pytest.mark.parametrize("name", WRITES)
def test_a_file_cannot_grow(name, tmp_path):
    """RLIMIT_FSIZE: the operating system refuses the write that crosses it."""
    before = prepared_folder(tmp_path, name)
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))"
    ended = run(f"{PROLOGUE}\n    {limit}\n    {WRITES[name]}\n", tmp_path)
    assert ended.returncode == 1
    assert "File too large" in ended.stderr
    assert contents(tmp_path) == before  # nothing lost, nothing new
    if "command" in WRITES[name]:
        assert "Traceback" not in ended.stderr
        assert ended.stderr.startswith("prosparse: ")
    else:
        place = {"save": "model", "report": "report.html", "checkpoint": "fit.npz"}[name]
        assert f"File too large: '{place}'" in ended.stderr


@pytest.mark.parametrize("name", WRITES)
def test_the_disk_is_full(name, small_disk):
    prepared_folder(small_disk, name)
    filler = small_disk / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    before = contents(small_disk)
    ended = run(f"{PROLOGUE}\n    {WRITES[name]}\n", small_disk)
    assert ended.returncode == 1
    assert "No space left on device" in ended.stderr
    assert contents(small_disk) == before
    assert ("Traceback" in ended.stderr) == ("command" not in WRITES[name])


# --- Ctrl-C in mid-fit


class Interrupt:
    """Counts the calls of our functions, and presses Ctrl-C at one of them.

    Not in those of other libraries: pressed while scikit-learn puts its settings back, it would
    leave them changed for the fits that follow. And not in generators, of which this may be the
    call that closes them, where Python ignores exceptions.
    """

    def __init__(self, at=None):
        self.calls, self.at = 0, at

    def __call__(self, frame, event, argument):
        ours = frame.f_globals.get("__name__", "").startswith("prosparse.")
        if event == "call" and ours and not frame.f_code.co_flags & inspect.CO_GENERATOR:
            self.calls += 1
            if self.calls == self.at:
                raise KeyboardInterrupt

    def __enter__(self):
        sys.setprofile(self)
        return self

    def __exit__(self, *error):
        sys.setprofile(None)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
@pytest.mark.parametrize("name", MODELS)
def test_an_interrupted_refit_leaves_the_earlier_fit(name):
    y = CLASSES if method_of(MODELS[name]).classifies else RESPONSE
    table, other = SMALL, 1.5 * SMALL[::-1]
    model = clone(MODELS[name]).fit(table, y)
    before = dict(vars(model))
    for _ in range(2):  # the first fit of this table also fills caches
        fresh = clone(model)
        with Interrupt() as counted:
            fresh.fit(other, y)
    for share in (0.02, 0.2, 0.4, 0.6, 0.8):
        with pytest.raises(KeyboardInterrupt), Interrupt(max(3, int(share * counted.calls))):
            model.fit(other, y)
        assert_same(vars(model), before, name)
    model.select(table)
    fresh = clone(model)
    with pytest.raises(KeyboardInterrupt), Interrupt(counted.calls // 2):
        fresh.fit(other, y)
    assert not [k for k in vars(fresh) if k.endswith("_")]  # cleanly not fitted


COMMAND = """
    import sys
    from prosparse.__main__ import main

    sys.argv = ["prosparse", *sys.argv[1:]]
    main()
"""
WAITING = """
    import sys, time
    from pathlib import Path
    from prosparse.__main__ import main
    from prosparse.{module} import {name}

    def waits(*arguments, **named):
        Path("waiting").touch()
        time.sleep(60)

    import prosparse.{module}
    prosparse.{module}.{name} = waits
    sys.argv = ["prosparse", *sys.argv[1:]]
    main()
"""


IN_THE_FIT = (["select", "table.csv", "--method", "gsppca"], "inference.loop", "_advance")
MOST_WRITTEN = (["select", "table.csv"], "app.results", "render")
FITTING = (
    ["fit", "table.csv", "--method", "gsppca", "--output", "fitted"],
    "inference.loop",
    "_advance",
)
REPORTING = (["report", "table.prosparse"], "app.commands", "render")
REPRODUCING = (
    ["reproduce", "E1", "--quick", "--output", "papers"],
    "inference.loop",
    "_advance",
)
INTERRUPT, END, KILL = (signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)


@pytest.mark.parametrize(
    ("arguments", "module", "name", "number", "code"),
    [
        *((*what, *how) for what in (IN_THE_FIT, MOST_WRITTEN) for how in (INTERRUPT, END, KILL)),
        *((*what, *INTERRUPT) for what in (FITTING, REPORTING, REPRODUCING)),
        (*FITTING, *KILL),
        (*REPORTING, *END),
    ],
)
def test_signals_to_the_command(arguments, module, name, number, code, tmp_path):
    which = "report command" if arguments[0] == "report" else arguments[0]
    before = prepared_folder(tmp_path, which)
    program = Program(WAITING.format(module=module, name=name), tmp_path, *arguments)
    try:
        for _ in range(20 * SECONDS):
            if (tmp_path / "waiting").exists() or not program.process.is_alive():
                break
            time.sleep(0.05)
        os.kill(program.process.pid, number)
        returncode, said = program.ended(SECONDS)
    finally:
        program.process.kill()
    assert returncode == code, said
    (tmp_path / "waiting").unlink()
    after = contents(tmp_path)
    if number == signal.SIGKILL:  # nothing can tidy up, but what was there is there
        after = {p: raw for p, raw in after.items() if p in before}
    assert after == before
    assert "Traceback" not in said
    if number == signal.SIGINT:
        assert said == "prosparse: interrupted; earlier results are as they were\n"


@pytest.mark.parametrize("array", [0, 3])
def test_killed_while_saving(array, tmp_path):
    path = save(GSPPCA(2).fit(X), tmp_path / "model")
    whole = path.read_bytes()
    script = f"""
        import os, signal
        import numpy as np
        write, written = np.lib.format.write_array, []

        def deadly(*arguments, **named):
            if len(written) == {array}:
                os.kill(os.getpid(), signal.SIGKILL)
            written.append(write(*arguments, **named))

        np.lib.format.write_array = deadly
        from prosparse import load, save
        save(load("model"), "model")
    """
    assert run(script, tmp_path).returncode == -signal.SIGKILL
    assert path.read_bytes() == whole
    assert load(path).n_selected_ == GSPPCA(2).fit(X).n_selected_


def test_a_swap_of_folders_that_fails_brings_the_old_one_back(tmp_path, monkeypatch):
    from prosparse.app.results import whole_folder

    place = tmp_path / "results"
    place.mkdir()
    (place / RESULTS[0]).write_text("old")
    save(GSPPCA(2).fit(X), place / "model.prosparse")  # or they might be anybody's files
    rename = Path.rename

    def failing(self, target):
        if target == place and "before" not in self.name:
            raise OSError(28, "No space left on device", str(target))
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="No space left"), whole_folder(place) as partial:
        (partial / RESULTS[0]).write_text("new")
    assert (place / RESULTS[0]).read_text() == "old"
    assert list(tmp_path.iterdir()) == [place]


# --- places that cannot be written


@pytest.fixture
def read_only(tmp_path):
    place = tmp_path / "read-only"
    place.mkdir()
    if os.geteuid():
        place.chmod(0o555)
        yield place
        place.chmod(0o755)
        return
    mount = ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("root writes anywhere, and nothing can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_folder_that_is_read_only(read_only, tmp_path):
    model = GSPPCA(2).fit(X)
    with pytest.raises(OSError, match="model"):
        save(model, read_only / "model")
    prepared_folder(tmp_path, "save")
    for words in (
        ["select", "table.csv", "--output", "read-only/results"],
        ["fit", "table.csv", "--output", "read-only/model"],
        ["report", "table.prosparse", "--output", "read-only/page.html"],
        ["reproduce", "E1", "--quick", "--output", "read-only/papers"],
        ["demo", "read-only/demo"],
    ):
        ended = run(COMMAND, tmp_path, *words)
        assert ended.returncode == 1, words
        assert ended.stderr.startswith("prosparse: read-only/")
        assert len(ended.stderr.splitlines()) == 1


def test_a_file_where_a_folder_is(tmp_path):
    model = GSPPCA(2).fit(X)
    (tmp_path / "here").mkdir()
    with pytest.raises(OSError, match="here'"):
        save(model, tmp_path / "here")
    assert list(tmp_path.iterdir()) == [tmp_path / "here"]
    assert not list((tmp_path / "here").iterdir())
