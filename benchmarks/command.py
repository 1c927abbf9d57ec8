"""``prosparse select`` on a large CSV file beside the bare fit of the same table in memory.

    python -m benchmarks.command                   # 50,000 x 2,000, a few minutes, 3 GB of disk
    python -m benchmarks.command 5000 200          # a smaller one

The table is written to a temporary folder. Fit and command each run in a process of their own,
whose peak of resident memory is set beside the size of the table (rows x columns x 8 bytes); the
memory of the interpreter with its packages, measured as well, is part of that peak.
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

ROWS = 500  # written at a time


def table(n: int, p: int) -> np.ndarray:
    """Five common factors on a tenth of the variables, in noise."""
    rng = np.random.default_rng(0)
    support = rng.choice(p, p // 10, replace=False)
    W = np.zeros((5, p))
    W[:, support] = rng.normal(size=(5, p // 10))
    X = rng.normal(size=(n, p))
    for start in range(0, n, ROWS):
        rows = X[start : start + ROWS]
        rows += rng.normal(size=(len(rows), 5)) @ W
    return X


def written(X: np.ndarray, path: Path) -> None:
    import pyarrow as pa
    from pyarrow import csv

    names = [f"v{k}" for k in range(X.shape[1])]
    with path.open("wb") as file:
        for start in range(0, X.shape[0], ROWS):
            block = pa.table(dict(zip(names, X[start : start + ROWS].T, strict=True)))
            csv.write_csv(block, file, csv.WriteOptions(include_header=start == 0))


def peak() -> float:
    """Bytes of resident memory at the highest, of this process and not of its parent."""
    status = Path("/proc/self/status")
    if not status.exists():  # not Linux
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return 1024.0 * int(line.split()[1])


def measure(what: str, folder: Path) -> None:
    """In a process of its own: do it, and print seconds and bytes."""
    from prosparse import GSPPCA
    from prosparse.app.cli import app

    before = peak()
    if what == "fit":
        X = np.load(folder / "table.npy")
        started = time.perf_counter()
        chosen = GSPPCA().fit(X).n_selected_
    else:
        started = time.perf_counter()
        output = str(folder / "results")
        app(["select", str(folder / "table.csv"), "--output", output, "-q"], standalone_mode=False)
        lines = (folder / "results" / "loadings.csv").read_text().splitlines()
        chosen = len(lines) - 1
    seconds = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "peak": peak(), "before": before, "chosen": chosen}))


def in_a_process(what: str, folder: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--measure", what, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main(n: int, p: int) -> None:
    size = 8.0 * n * p
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        X = table(n, p)
        np.save(folder / "table.npy", X)
        written(X, folder / "table.csv")
        del X
        text = (folder / "table.csv").stat().st_size
        print(f"{n} x {p}: {size / 1e9:.2f} GB of numbers, {text / 1e9:.2f} GB of CSV")
        fit, command = (in_a_process(what, folder) for what in ("fit", "command"))
        page = (folder / "results" / "report.html").stat().st_size
    for label, found in (("bare fit", fit), ("read, fit, report", command)):
        print(
            f"{label:18} {found['seconds']:8.1f} s   peak {found['peak'] / 1e9:.2f} GB = "
            f"{found['peak'] / size:.2f} times the table ({found['before'] / 1e9:.2f} GB of it the "
            f"interpreter); {found['chosen']:.0f} variables chosen"
        )
    print(f"command / fit      {command['seconds'] / fit['seconds']:8.2f} times")
    print(f"report             {page / 1e6:8.2f} MB")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2], Path(sys.argv[3]))
    else:
        main(*map(int, sys.argv[1:3] or (50_000, 2_000)))
