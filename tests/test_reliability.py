"""Short deterministic runs of the robustness benchmarks."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"


def load_script(name):
    """Import a script of the folder benchmarks."""
    if not FOLDER.is_dir():
        pytest.skip("the scripts exist only in the repository")
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kind", ["text", "columnar", "numpy", "matrix market", "model"])
@pytest.mark.filterwarnings("ignore")  # Parsers warn.
def test_damaged_files_are_read_or_rejected(kind, tmp_path):
    pytest.importorskip("pyarrow")
    fuzz = load_script("fuzz")
    trace = tmp_path / "code-was-run"
    counts = {"read": 0}
    n_files = 20 if kind == "matrix market" else 100  # Matrix Market: one process per file
    for number, (name, raw) in enumerate(fuzz.inputs(kind, n_files, 7, str(trace))):
        path = tmp_path / name
        path.write_bytes(raw)
        result, message = fuzz.outcome(path, number)
        assert result in ("read", "TableError", "ModelFileError"), f"{name}: {message}"
        counts[result] = counts.get(result, 0) + 1
        assert not trace.exists()
    assert sum(counts.values()) == n_files
    assert counts["read"] < n_files


@pytest.mark.parametrize("kind", ["numpy", "model"])
def test_malicious_files_are_rejected(kind, tmp_path, monkeypatch):
    fuzz = load_script("fuzz")
    monkeypatch.setattr(fuzz, "_zeros", lambda: b"")  # Decompression bombs are tested elsewhere.
    trace = tmp_path / "code-was-run"
    for number, (name, raw) in enumerate(fuzz.MALICIOUS[kind](str(trace)).items()):
        path = tmp_path / name
        path.write_bytes(raw)
        result, message = fuzz.outcome(path, number)
        assert result != "failure", f"{name}: {message}"
        assert not trace.exists(), name


@pytest.mark.parametrize(
    "name", list(load_script("endurance").ITERATIVE) if FOLDER.is_dir() else []
)
def test_iterations_do_not_drift(name):
    record = load_script("endurance").drift(name, 150)
    assert record["longest run"] == 150
    assert record["finite"]
    assert record["largest relative decrease"] < 1e-12
    assert record["norm error"] < 1e-12


def test_memory_does_not_grow():
    pytest.importorskip("resource")
    record = load_script("endurance").growth("GSPPCA", 30)
    assert record["allocated, KiB"] < 256


def test_failures_are_detected(tmp_path, monkeypatch):
    fuzz = load_script("fuzz")

    def broken(path, options):
        raise KeyError("bug")

    monkeypatch.setattr(fuzz, "read_table", broken)
    assert fuzz.outcome(tmp_path / "t.csv", 0) == ("failure", "KeyError: 'bug'")
    forced = load_script("endurance").Forced()
    states = iter([type("S", (), {"bound": b})() for b in (1.0, 0.5)])
    position = load_script("endurance").loop.Position(None, None, None, True, 0, False, [])
    for _ in range(2):
        position, _ = forced(lambda state: next(states), position)
    assert np.isclose(forced.largest_decrease, 0.5)
