"""Full disks, interrupts, kills and read-only folders: existing results stay intact."""

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
from prosparse.app.output_paths import RESULTS
from prosparse.app.results import replace_folder
from prosparse.datasets import make_globally_sparse
from prosparse.registry import method_of
from saved_models import CLASSES, MODELS, RESPONSE, assert_same
from saved_models import X as SMALL

pytest.importorskip("pyarrow")
pytest.importorskip("typer")
if not hasattr(signal, "SIGXFSZ"):
    pytest.skip("requires Unix limits and signals", allow_module_level=True)

X = make_globally_sparse(60, 40, n_components=2, n_informative=6, random_state=0).X
SECONDS = 100


def run(script, folder, *arguments):
    """Run a Python program in ``folder`` and return how it ended."""
    return Program(script, folder, *arguments).ended(SECONDS)


def contents(folder):
    """Return the bytes of all files by path."""
    return {p: p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


# --- a full disk


@pytest.fixture
def small_disk(tmp_path):
    """Mount a file system of 2 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a file system")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


# Code that writes results to the current folder.
WRITES = {
    "save": "save(model, 'model')",
    "report": "write_report(model, 'report.html', X=X)",
    "checkpoint": "GSPPCA(2, tol=0, max_iter=40).fit(X, checkpoint='fit.npz')",
    "select": "command('select', 'table.csv', '--components', '2')",
    "fit": "command('fit', 'table.csv', '--components', '2', '--output', 'fitted')",
    "report command": "command('report', 'table.prosparse', '--data', 'table.csv')",
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

    def command(*arguments):
        sys.argv = ["prosparse", *arguments]
        main()
"""


@functools.cache
def first_results(name):
    """Return the files that the code writes without faults, by relative path."""
    with tempfile.TemporaryDirectory() as name_of_folder:
        folder = Path(name_of_folder)
        write_table(folder)
        first = run(f"{PROLOGUE}\n    {WRITES[name]}\n", folder)
        assert first.returncode == 0, first.stderr
        return {path.relative_to(folder): raw for path, raw in contents(folder).items()}


def prepare_folder(folder, name):
    """Write the input and the results of an earlier run; return all files."""
    write_table(folder)
    if name != "checkpoint":  # A fit would resume from an existing checkpoint.
        for path, raw in first_results(name).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(raw)
    return contents(folder)


def write_table(folder):
    """Write a CSV file and a model."""
    rows = [",".join(f"v{k}" for k in range(40)), *(",".join(map(repr, r)) for r in X.tolist())]
    (folder / "table.csv").write_text("\n".join(rows) + "\n")
    save(GSPPCA(2).fit(X), folder / "table.prosparse")


@pytest.mark.parametrize("name", WRITES)
def test_file_size_limit(name, tmp_path):
    """A write beyond RLIMIT_FSIZE fails; existing files are unchanged."""
    before = prepare_folder(tmp_path, name)
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))"
    ended = run(f"{PROLOGUE}\n    {limit}\n    {WRITES[name]}\n", tmp_path)
    assert ended.returncode == 1
    assert "File too large" in ended.stderr
    assert contents(tmp_path) == before
    if "command" in WRITES[name]:
        assert "Traceback" not in ended.stderr
        assert ended.stderr.startswith("prosparse: ")
    else:
        file = {"save": "model", "report": "report.html", "checkpoint": "fit.npz"}[name]
        assert f"File too large: '{file}'" in ended.stderr


@pytest.mark.parametrize("name", WRITES)
def test_full_disk(name, small_disk):
    prepare_folder(small_disk, name)
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


# --- interrupts during a fit


class Interrupt:
    """Count calls of functions of prosparse, and raise KeyboardInterrupt at one of them.

    Functions of other libraries are excluded: an interrupt while scikit-learn restores its settings
    would change them for later fits. Generators are excluded because Python ignores exceptions in
    the call that closes them.
    """

    def __init__(self, at=None):
        self.calls, self.at = 0, at

    def __call__(self, frame, event, argument):
        in_prosparse = frame.f_globals.get("__name__", "").startswith("prosparse.")
        if event == "call" and in_prosparse and not frame.f_code.co_flags & inspect.CO_GENERATOR:
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
def test_interrupted_refit_restores_the_previous_fit(name):
    y = CLASSES if method_of(MODELS[name]).classifies else RESPONSE
    other = 1.5 * SMALL[::-1]
    model = clone(MODELS[name]).fit(SMALL, y)
    before = dict(vars(model))
    for _ in range(2):  # The first fit also fills caches.
        fresh = clone(model)
        with Interrupt() as counted:
            fresh.fit(other, y)
    for fraction in (0.02, 0.3, 0.8):
        with pytest.raises(KeyboardInterrupt), Interrupt(max(3, int(fraction * counted.calls))):
            model.fit(other, y)
        assert_same(vars(model), before, name)
    model.select(SMALL)
    fresh = clone(model)
    with pytest.raises(KeyboardInterrupt), Interrupt(counted.calls // 2):
        fresh.fit(other, y)
    assert not [k for k in vars(fresh) if k.endswith("_")]


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

    def wait(*arguments, **named):
        Path("waiting").touch()
        time.sleep(60)

    import prosparse.{module}
    prosparse.{module}.{name} = wait
    sys.argv = ["prosparse", *sys.argv[1:]]
    main()
"""


SELECTING = (["select", "table.csv", "--method", "gsppca"], "inference.loop", "_advance")
WRITING = (["select", "table.csv"], "app.results", "render")
FITTING = (
    ["fit", "table.csv", "--method", "gsppca", "--output", "fitted"],
    "inference.loop",
    "_advance",
)
REPORTING = (["report", "table.prosparse"], "app.commands", "render")
INTERRUPT, TERMINATE, KILL = (signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)


@pytest.mark.parametrize(
    ("arguments", "module", "name", "number", "code"),
    [
        *(
            (*moment, *fault)
            for moment in (SELECTING, WRITING)
            for fault in (INTERRUPT, TERMINATE, KILL)
        ),
        *((*moment, *INTERRUPT) for moment in (FITTING, REPORTING)),
        (*FITTING, *KILL),
        (*REPORTING, *TERMINATE),
    ],
)
def test_signals(arguments, module, name, number, code, tmp_path):
    which = "report command" if arguments[0] == "report" else arguments[0]
    before = prepare_folder(tmp_path, which)
    program = Program(WAITING.format(module=module, name=name), tmp_path, *arguments)
    try:
        for _ in range(20 * SECONDS):
            if (tmp_path / "waiting").exists() or not program.process.is_alive():
                break
            time.sleep(0.05)
        os.kill(program.process.pid, number)
        returncode, message = program.ended(SECONDS)
    finally:
        program.process.kill()
    assert returncode == code, message
    (tmp_path / "waiting").unlink()
    after = contents(tmp_path)
    if number == signal.SIGKILL:  # Temporary files remain, but existing files are intact.
        after = {p: raw for p, raw in after.items() if p in before}
    assert after == before
    assert "Traceback" not in message
    if number == signal.SIGINT:
        assert message == "prosparse: interrupted; earlier results are unchanged\n"


@pytest.mark.parametrize("array", [0, 3])
def test_kill_while_saving(array, tmp_path):
    path = save(GSPPCA(2).fit(X), tmp_path / "model")
    original = path.read_bytes()
    script = f"""
        import os, signal
        import numpy as np
        write, written = np.lib.format.write_array, []

        def write_or_die(*arguments, **named):
            if len(written) == {array}:
                os.kill(os.getpid(), signal.SIGKILL)
            written.append(write(*arguments, **named))

        np.lib.format.write_array = write_or_die
        from prosparse import load, save
        save(load("model"), "model")
    """
    assert run(script, tmp_path).returncode == -signal.SIGKILL
    assert path.read_bytes() == original
    assert load(path).n_selected_ == GSPPCA(2).fit(X).n_selected_


def test_failed_replacement_restores_the_old_folder(tmp_path, monkeypatch):
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / RESULTS[0]).write_text("old")
    save(GSPPCA(2).fit(X), folder / "model.prosparse")  # Marks the folder as results.
    rename = Path.rename

    def failing(self, target):
        if target == folder and "before" not in self.name:
            raise OSError(28, "No space left on device", str(target))
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="No space left"), replace_folder(folder) as partial:
        (partial / RESULTS[0]).write_text("new")
    assert (folder / RESULTS[0]).read_text() == "old"
    assert list(tmp_path.iterdir()) == [folder]


# --- folders without write permission


@pytest.fixture
def read_only(tmp_path):
    folder = tmp_path / "read-only"
    folder.mkdir()
    if os.geteuid():
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)
        return
    mount = ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("root ignores permissions and cannot mount here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_read_only_folder(read_only, tmp_path):
    model = GSPPCA(2).fit(X)
    with pytest.raises(OSError, match="model"):
        save(model, read_only / "model")
    prepare_folder(tmp_path, "save")
    for arguments in (
        ["select", "table.csv", "--output", "read-only/results"],
        ["fit", "table.csv", "--output", "read-only/model"],
        ["report", "table.prosparse", "--output", "read-only/page.html"],
        ["demo", "read-only/demo"],
    ):
        ended = run(COMMAND, tmp_path, *arguments)
        assert ended.returncode == 1, arguments
        assert ended.stderr.startswith("prosparse: read-only/")
        assert len(ended.stderr.splitlines()) == 1


def test_saving_to_a_folder_raises(tmp_path):
    model = GSPPCA(2).fit(X)
    (tmp_path / "here").mkdir()
    with pytest.raises(OSError, match="here'"):
        save(model, tmp_path / "here")
    assert list(tmp_path.iterdir()) == [tmp_path / "here"]
    assert not list((tmp_path / "here").iterdir())
