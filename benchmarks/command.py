"""Cost of ``prosparse select`` on a large CSV file, compared with a fit in memory.

    python -m benchmarks.command                   # 50,000 x 2,000; minutes, 3 GB of disk
    python -m benchmarks.command 5000 200          # a smaller table

The table is written to a temporary folder. Fit and command run in separate processes. Their peak
resident memory, which includes the interpreter and its packages, is compared with the size of the
data matrix (rows x columns x 8 bytes).
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

BLOCK_ROWS = 500  # number of rows written at a time


def simulate(n: int, p: int) -> np.ndarray:
    """Simulate five factors on a tenth of the variables."""
    rng = np.random.default_rng(0)
    support = rng.choice(p, p // 10, replace=False)
    W = np.zeros((5, p))
    W[:, support] = rng.normal(size=(5, p // 10))
    X = rng.normal(size=(n, p))
    for start in range(0, n, BLOCK_ROWS):
        rows = X[start : start + BLOCK_ROWS]
        rows += rng.normal(size=(len(rows), 5)) @ W
    return X


def write_csv(X: np.ndarray, path: Path) -> None:
    """Write the data in blocks of rows."""
    import pyarrow as pa
    from pyarrow import csv

    names = [f"v{k}" for k in range(X.shape[1])]
    with path.open("wb") as file:
        for start in range(0, X.shape[0], BLOCK_ROWS):
            block = pa.table(dict(zip(names, X[start : start + BLOCK_ROWS].T, strict=True)))
            csv.write_csv(block, file, csv.WriteOptions(include_header=start == 0))


def peak_memory() -> float:
    """Return the peak resident memory of this process in bytes."""
    status = Path("/proc/self/status")
    if not status.exists():  # not Linux
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return 1024.0 * int(line.split()[1])


def measure(task: str, folder: Path) -> None:
    """Run one task (in a separate process) and print seconds and bytes."""
    from prosparse import GSPPCA
    from prosparse.app.cli import app

    before = peak_memory()
    if task == "fit":
        X = np.load(folder / "table.npy")
        start = time.perf_counter()
        n_selected = GSPPCA().fit(X).n_selected_
    else:
        start = time.perf_counter()
        output = str(folder / "results")
        app(["select", str(folder / "table.csv"), "--output", output, "-q"], standalone_mode=False)
        lines = (folder / "results" / "loadings.csv").read_text().splitlines()
        n_selected = len(lines) - 1
    seconds = time.perf_counter() - start
    print(
        json.dumps(
            {"seconds": seconds, "peak": peak_memory(), "before": before, "n_selected": n_selected}
        )
    )


def run_in_process(task: str, folder: Path) -> dict[str, float]:
    """Run `measure` in a separate process."""
    command = [sys.executable, __file__, "--measure", task, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main(n: int, p: int) -> None:
    size = 8.0 * n * p
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        X = simulate(n, p)
        np.save(folder / "table.npy", X)
        write_csv(X, folder / "table.csv")
        del X
        text = (folder / "table.csv").stat().st_size
        print(f"{n} x {p}: {size / 1e9:.2f} GB of numbers, {text / 1e9:.2f} GB of CSV")
        fit, command = (run_in_process(task, folder) for task in ("fit", "command"))
        page = (folder / "results" / "report.html").stat().st_size
    for label, result in (("fit in memory", fit), ("read, fit, report", command)):
        print(
            f"{label:18} {result['seconds']:8.1f} s   peak {result['peak'] / 1e9:.2f} GB = "
            f"{result['peak'] / size:.2f} times the data ({result['before'] / 1e9:.2f} GB of it "
            f"the interpreter); {result['n_selected']:.0f} variables selected"
        )
    print(f"command / fit      {command['seconds'] / fit['seconds']:8.2f} times")
    print(f"report             {page / 1e6:8.2f} MB")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2], Path(sys.argv[3]))
    else:
        main(*map(int, sys.argv[1:3] or (50_000, 2_000)))
