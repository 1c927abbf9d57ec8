"""Twelve figures that matter, each beside what the machine needs at least: make bench

    python -m benchmarks.track                 # a minute or two, on one thread
    python -m benchmarks.track --only GSPPCA   # some of them, which are not kept
    python -m benchmarks.track --no-record     # all, and not kept either

First the machine is measured: how many multiplications and additions it does in a second in a
product of two matrices, and how many bytes it moves. From these follows for every figure the least
time in which its inevitable part could be done, which the last column says; the ratio tells how
far the figure is from it, on any machine. The times are the best of several in processor seconds,
which other programs on the machine disturb least.

A run is kept in benchmarks/records/track.json, with its date, the version and the machine. The
column "to last" compares with the last record before it: the seconds with those of the last one on
the same machine or, where there is none, the ratio with that of the last one anywhere, which is
then marked with a star.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.datasets import load_wine
from threadpoolctl import threadpool_info, threadpool_limits

from prosparse import EMPCA, FDRPCA, GSPPCA, SCA, SPPCA, Panel, SpinyRegressor, __version__
from prosparse.data import DenseOperator
from prosparse.data.operators.sparse import SparseOperator
from prosparse.datasets import make_globally_sparse, make_sparse_regression
from prosparse.models.gsppca.model import init, make_step
from prosparse.numerics.spectrum import spectrum

RECORDS = Path(__file__).parent / "records" / "track.json"
NUMBER = 8  # bytes of a double


class Machine(NamedTuple):
    flops: float  # per second, in a product of matrices
    bytes: float  # per second, read or written


class Figure(NamedTuple):
    name: str
    seconds: float
    least: float  # seconds
    what: str  # that the least time is for


def best(work: Callable[[], object], repeats: int = 3) -> float:
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def measured_machine() -> Machine:
    A = np.random.default_rng(0).standard_normal((1000, 1000))
    source, target = np.ones(2**24), np.empty(2**24)  # 128 MiB each, beyond every cache
    flops = 2e9 / best(lambda: A @ A, 7)
    moved = 2 * source.nbytes / best(lambda: np.copyto(target, source), 7)
    return Machine(flops, moved)


def golub() -> np.ndarray:
    path = Path(os.environ.get("PROSPARSE_DATA", ".")) / "golub_leukemia_38x3051.npz"
    if path.exists():
        return np.load(path)["X"].astype(float)
    return make_globally_sparse(38, 3051, n_components=30, n_informative=800, random_state=0).X


# --- the figures


def gsppca_pass(machine: Machine) -> Figure:
    X = make_globally_sparse(1000, 5000, n_components=20, n_informative=200, random_state=0).X
    X -= X.mean(axis=0)
    parts = spectrum(DenseOperator(X))
    step, state = make_step(parts.op, 1000), init(parts, 20)
    state = step(step(state))
    least = max(4 * X.size * 20 / machine.flops, 2 * X.nbytes / machine.bytes)
    seconds = best(lambda: step(state), 5)
    return Figure("GSPPCA, a pass over 1000 x 5000, d = 20", seconds, least, "two products with X")


def gsppca_sparse_pass(machine: Machine) -> Figure:
    X = sparse.random_array((2700, 10000), density=0.05, random_state=0, format="csr")
    op = SparseOperator(X, np.asarray(X.mean(axis=0)).ravel(), np.ones(10000))
    parts = spectrum(op, 10)
    step, state = make_step(parts.op, 2700), init(parts, 10)
    state = step(state)
    read = 2 * (X.data.nbytes + X.indices.nbytes + (2700 + 10000) * 10 * NUMBER)
    least = max(4 * X.nnz * 10 / machine.flops, read / machine.bytes)
    seconds = best(lambda: step(state), 5)
    return Figure("GSPPCA, a pass over a sparse 2700 x 10000", seconds, least, "X and F, twice")


def gsppca_golub(machine: Machine) -> Figure:
    X = golub()
    model = GSPPCA(30).fit(X)
    seconds = best(lambda: GSPPCA(30).fit(X))
    least = model.n_iter_ * 4 * X.size * 30 / machine.flops
    centred = X - X.mean(axis=0)
    svds = seconds / best(lambda: np.linalg.svd(centred, full_matrices=False), 9)
    what = f"two products a pass; it takes {svds:.0f} thin SVDs"
    return Figure("GSPPCA, Golub 38 x 3051, d = 30", seconds, least, what)


def gsppca_wide(machine: Machine) -> Figure:
    X = make_globally_sparse(200, 5000, n_components=10, n_informative=100, random_state=0).X
    model = GSPPCA(10).fit(X)
    seconds = best(lambda: GSPPCA(10).fit(X), 2)
    least = (2 * 200 * X.size + model.n_iter_ * 4 * X.size * 10) / machine.flops
    return Figure("GSPPCA, 200 x 5000, d = 10", seconds, least, "X X' and two products a pass")


def fdrpca(machine: Machine) -> Figure:
    X = make_globally_sparse(200, 2000, n_components=5, n_informative=100, random_state=0).X
    seconds = best(lambda: FDRPCA().fit(X), 2)
    least = 2 * 200 * X.size / machine.flops
    return Figure("FDRPCA, 200 x 2000", seconds, least, "X X' once")


def panel(machine: Machine) -> Figure:
    X = make_globally_sparse(300, 200, n_components=5, n_informative=100, random_state=0).X
    seconds = best(lambda: Panel(10).fit(X), 2)
    least = 5 * 2 * 200 * X.size / machine.flops
    return Figure("Panel, 10 of 300 x 200", seconds, least, "X'X for each of five folds")


def sca(machine: Machine) -> Figure:
    X = make_globally_sparse(200, 300, n_components=3, n_informative=60, random_state=0).X
    model = SCA(3).fit(X)
    seconds = best(lambda: SCA(3).fit(X), 2)
    least = model.n_iter_ * 4 * X.size * 3 / machine.flops
    return Figure("SCA, 200 x 300, 3 latents", seconds, least, "two products a pass")


def sppca(machine: Machine) -> Figure:
    X = load_wine().data
    model = SPPCA("auto").fit(X)
    seconds = best(lambda: SPPCA("auto").fit(X), 2)
    sizes = model.n_parameters_path_.astype(float)
    least = float(np.sum(sizes**3)) / 3 / machine.flops
    return Figure(
        "SPPCA, wine 178 x 13 in its own units", seconds, least, "a Newton step a penalty"
    )


def empca_wide(machine: Machine) -> Figure:
    rng = np.random.default_rng(0)
    W = rng.standard_normal((5, 5000)) * (rng.random((5, 5000)) < 0.05)
    X = 2.0 * rng.standard_normal((200, 5)) @ W + rng.standard_normal((200, 5000))
    fit = lambda: EMPCA(5, n_nonzero=250, random_state=0).fit(X)  # noqa: E731
    iterations = sum(len(trace) for trace in fit().objective_path_)
    least = iterations * 2 * X.nbytes / machine.bytes
    return Figure("EMPCA, 200 x 5000, 5 of 250 nonzeros", best(fit, 2), least, "X twice a step")


def empca_noise(machine: Machine) -> Figure:
    X = np.random.default_rng(0).standard_normal((900, 900))
    fit = lambda: EMPCA(3, n_nonzero=450, random_state=0).fit(X)  # noqa: E731
    iterations = sum(len(trace) for trace in fit().objective_path_)
    least = (2 * 900 * X.size + iterations * 20 * 2 * 450**2) / machine.flops
    return Figure(
        "EMPCA, noise 900 x 900, 3 of 450 nonzeros", best(fit, 1), least, "20 products a step"
    )


def spinyreg(machine: Machine) -> Figure:
    X, y, _ = make_sparse_regression(200, 500, random_state=0)[:3]
    seconds = best(lambda: SpinyRegressor().fit(X, y), 2)
    least = 2 * 500 * X.size / machine.flops
    return Figure("SpinyRegressor, 200 x 500", seconds, least, "X'X once")


def imported(machine: Machine) -> Figure:
    program = (
        "import time, sklearn.decomposition\nstart = time.process_time()\n"
        "from prosparse import GSPPCA\nprint(time.process_time() - start)"
    )
    command = [sys.executable, "-c", program]
    seconds = min(float(subprocess.check_output(command, text=True)) for _ in range(5))
    return Figure("import, beyond scikit-learn's", seconds, 0.15, "0.15 s, which nobody notices")


FIGURES = (
    gsppca_pass,
    gsppca_sparse_pass,
    gsppca_golub,
    gsppca_wide,
    fdrpca,
    panel,
    sca,
    sppca,
    empca_wide,
    empca_noise,
    spinyreg,
    imported,
)


# --- the records


class Record(NamedTuple):
    """A run that was kept."""

    date: str  # year-month-day
    version: str  # of prosparse
    machine: dict[str, str]  # what it is and what computes there
    flops: int  # per second, as measured
    bytes: int
    seconds: dict[str, float]  # of every figure
    ratios: dict[str, float]  # to the least time


def described_machine() -> dict[str, str]:
    """What decides how fast a figure is, beside the program."""
    blas = sorted({f"{some['internal_api']} {some['version']}" for some in threadpool_info()})
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": ", ".join(blas),
    }


def processor() -> str:
    """Its name, as Linux knows it; others say the kind."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def read_records(path: Path = RECORDS) -> list[Record]:
    """All that were kept, the oldest first."""
    if not path.exists():
        return []
    return [Record(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]


def keep(record: Record, path: Path = RECORDS) -> None:
    """Put a record behind the others."""
    path.parent.mkdir(exist_ok=True)
    entries = [some._asdict() for some in [*read_records(path), record]]
    path.write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")


def record_of(machine: Machine, figures: list[Figure]) -> Record:
    return Record(
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        version=__version__,
        machine=described_machine(),
        flops=round(machine.flops),
        bytes=round(machine.bytes),
        seconds={figure.name: round(figure.seconds, 5) for figure in figures},
        ratios={figure.name: round(figure.seconds / figure.least, 2) for figure in figures},
    )


def to_last(figure: Figure, records: list[Record], here: dict[str, str]) -> str:
    """How many times as long as in the last record; see the top of this file."""
    known = [record for record in records if figure.name in record.seconds]
    alike = [record for record in known if record.machine == here]
    if alike:
        return f"{figure.seconds / alike[-1].seconds[figure.name]:.2f}"
    if known:
        return f"{figure.seconds / figure.least / known[-1].ratios[figure.name]:.2f}*"
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-record", action="store_true", help="do not keep the figures")
    parser.add_argument("--only", default="", help="figures whose names contain this")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    records, here, figures = read_records(), described_machine(), []
    with threadpool_limits(1):
        machine = measured_machine()
        print(f"one thread: {machine.flops / 1e9:.1f} GFLOP/s, {machine.bytes / 1e9:.1f} GB/s")
        if records:
            print(f"last record: {records[-1].date}, version {records[-1].version}")
        print(f"{'':44s}{'seconds':>9s}{'to last':>9s}{'least':>10s}{'ratio':>8s}   least is for")
        for make in FIGURES:
            if options.only.lower() not in make.__name__.lower():
                continue
            figure = make(machine)
            figures.append(figure)
            print(
                f"{figure.name:44s}{figure.seconds:9.4f}{to_last(figure, records, here):>9s}"
                f"{figure.least:10.5f}{figure.seconds / figure.least:8.1f}   {figure.what}",
                flush=True,
            )
    if len(figures) == len(FIGURES) and not options.no_record:
        keep(record_of(machine, figures))


if __name__ == "__main__":
    main()
