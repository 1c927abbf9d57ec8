"""Short, always equal runs of the scripts that try to break things."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"


def script(name):
    if not FOLDER.is_dir():
        pytest.skip("the scripts are in the repository only")
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kind", ["text", "columnar", "numpy", "matrix market", "model"])
@pytest.mark.filterwarnings("ignore")  # of the parsers
def test_damaged_files_are_read_or_refused(kind, tmp_path):
    pytest.importorskip("pyarrow")
    fuzz = script("fuzz")
    trace = tmp_path / "code-was-run"
    words = {"read": 0}
    for number, (name, raw) in enumerate(fuzz.inputs(kind, 100, 7, str(trace))):
        path = tmp_path / name
        path.write_bytes(raw)
        word, said = fuzz.outcome(path, number)
        assert word in ("read", "TableError", "ModelFileError"), f"{name}: {said}"
        words[word] = words.get(word, 0) + 1
        assert not trace.exists()
    assert sum(words.values()) == 100
    assert words["read"] < 100


@pytest.mark.parametrize("kind", ["numpy", "model"])
def test_files_built_to_do_harm(kind, tmp_path, monkeypatch):
    fuzz = script("fuzz")
    monkeypatch.setattr(fuzz, "_zeros", lambda: b"")  # the bombs have tests of their own
    trace = tmp_path / "code-was-run"
    for number, (name, raw) in enumerate(fuzz.HOSTILE[kind](str(trace)).items()):
        path = tmp_path / name
        path.write_bytes(raw)
        word, said = fuzz.outcome(path, number)
        assert word != "finding", f"{name}: {said}"
        assert not trace.exists(), name


@pytest.mark.parametrize("name", list(script("endurance").ITERATIVE) if FOLDER.is_dir() else [])
def test_no_drift(name):
    found = script("endurance").drift(name, 150)
    assert found["longest run"] == 150
    assert found["finite"]
    assert found["largest fall, as a share"] < 1e-12
    assert found["departure of the components"] < 1e-12


def test_no_growing_memory():
    pytest.importorskip("resource")
    found = script("endurance").growth("GSPPCA", 30)
    assert found["allocated, KiB"] < 256


def test_a_finding_would_be_seen(tmp_path, monkeypatch):
    fuzz = script("fuzz")

    def broken(path, ask):
        raise KeyError("bug")

    monkeypatch.setattr(fuzz, "read_table", broken)
    assert fuzz.outcome(tmp_path / "t.csv", 0) == ("finding", "KeyError: 'bug'")
    forced = script("endurance").Forced()
    step = iter([type("S", (), {"bound": b})() for b in (1.0, 0.5)])
    at = script("endurance").loop.Position(None, None, None, True, 0, False, [])
    for _ in range(2):
        at, _ = forced(lambda state: next(step), at)
    assert np.isclose(forced.fall, 0.5)
