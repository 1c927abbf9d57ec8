"""Track twelve fit times relative to lower bounds of the machine: make bench

    python -m benchmarks.track                 # one to two minutes, on one thread
    python -m benchmarks.track --only GSPPCA   # a subset, not recorded
    python -m benchmarks.track --no-record     # all, not recorded

The script first measures the floating-point rate of a matrix product and the memory bandwidth.
These give a lower bound on the time of the main operation of each measurement, which the last
column names; the ratio to this bound is comparable between machines. Times are the shortest of
several in processor seconds.

Runs are appended to benchmarks/records/track.json with date, version and machine. The column
"to last" compares with the last record: seconds on the same machine or, if there is none, the ratio
on any machine (marked with a star).
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
BYTES_PER_DOUBLE = 8


class Machine(NamedTuple):
    """Measured speed of the machine."""

    flops: float  # per second, in a matrix product
    bytes: float  # per second, read or written


class Measurement(NamedTuple):
    """One fit time and its lower bound."""

    name: str
    seconds: float
    lower_bound: float  # seconds
    operation: str  # to which the lower bound refers


def shortest_time(work: Callable[[], object], repeats: int = 3) -> float:
    """Return the shortest processor time."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def measure_machine() -> Machine:
    """Measure floating-point rate and memory bandwidth."""
    A = np.random.default_rng(0).standard_normal((1000, 1000))
    source, target = np.ones(2**24), np.empty(2**24)  # 128 MiB each, larger than all caches
    flops = 2e9 / shortest_time(lambda: A @ A, 7)
    moved = 2 * source.nbytes / shortest_time(lambda: np.copyto(target, source), 7)
    return Machine(flops, moved)


def golub() -> np.ndarray:
    """Return the data of Golub et al., or simulated data of the same shape."""
    path = Path(os.environ.get("PROSPARSE_DATA", ".")) / "golub_leukemia_38x3051.npz"
    if path.exists():
        return np.load(path)["X"].astype(float)
    return make_globally_sparse(38, 3051, n_components=30, n_informative=800, random_state=0).X


# --- measurements


def gsppca_iteration(machine: Machine) -> Measurement:
    X = make_globally_sparse(1000, 5000, n_components=20, n_informative=200, random_state=0).X
    X -= X.mean(axis=0)
    parts = spectrum(DenseOperator(X))
    step, state = make_step(parts.op, 1000), init(parts, 20)
    state = step(step(state))
    bound = max(4 * X.size * 20 / machine.flops, 2 * X.nbytes / machine.bytes)
    seconds = shortest_time(lambda: step(state), 5)
    return Measurement(
        "GSPPCA, one iteration on 1000 x 5000, d = 20", seconds, bound, "two products with X"
    )


def gsppca_sparse_iteration(machine: Machine) -> Measurement:
    X = sparse.random_array((2700, 10000), density=0.05, random_state=0, format="csr")
    op = SparseOperator(X, np.asarray(X.mean(axis=0)).ravel(), np.ones(10000))
    parts = spectrum(op, 10)
    step, state = make_step(parts.op, 2700), init(parts, 10)
    state = step(state)
    read = 2 * (X.data.nbytes + X.indices.nbytes + (2700 + 10000) * 10 * BYTES_PER_DOUBLE)
    bound = max(4 * X.nnz * 10 / machine.flops, read / machine.bytes)
    seconds = shortest_time(lambda: step(state), 5)
    return Measurement(
        "GSPPCA, one iteration on sparse 2700 x 10000", seconds, bound, "X and F, twice"
    )


def gsppca_golub(machine: Machine) -> Measurement:
    X = golub()
    model = GSPPCA(30).fit(X)
    seconds = shortest_time(lambda: GSPPCA(30).fit(X))
    bound = model.n_iter_ * 4 * X.size * 30 / machine.flops
    centred = X - X.mean(axis=0)
    svds = seconds / shortest_time(lambda: np.linalg.svd(centred, full_matrices=False), 9)
    operation = f"two products per iteration; the fit takes {svds:.0f} thin SVDs"
    return Measurement("GSPPCA, Golub 38 x 3051, d = 30", seconds, bound, operation)


def gsppca_wide(machine: Machine) -> Measurement:
    X = make_globally_sparse(200, 5000, n_components=10, n_informative=100, random_state=0).X
    model = GSPPCA(10).fit(X)
    seconds = shortest_time(lambda: GSPPCA(10).fit(X), 2)
    bound = (2 * 200 * X.size + model.n_iter_ * 4 * X.size * 10) / machine.flops
    return Measurement(
        "GSPPCA, 200 x 5000, d = 10", seconds, bound, "X X' and two products per iteration"
    )


def fdrpca(machine: Machine) -> Measurement:
    X = make_globally_sparse(200, 2000, n_components=5, n_informative=100, random_state=0).X
    seconds = shortest_time(lambda: FDRPCA().fit(X), 2)
    bound = 2 * 200 * X.size / machine.flops
    return Measurement("FDRPCA, 200 x 2000", seconds, bound, "X X' once")


def panel(machine: Machine) -> Measurement:
    X = make_globally_sparse(300, 200, n_components=5, n_informative=100, random_state=0).X
    seconds = shortest_time(lambda: Panel(10).fit(X), 2)
    bound = 5 * 2 * 200 * X.size / machine.flops
    return Measurement("Panel, 10 of 300 x 200", seconds, bound, "X'X for each of five folds")


def sca(machine: Machine) -> Measurement:
    X = make_globally_sparse(200, 300, n_components=3, n_informative=60, random_state=0).X
    model = SCA(3).fit(X)
    seconds = shortest_time(lambda: SCA(3).fit(X), 2)
    bound = model.n_iter_ * 4 * X.size * 3 / machine.flops
    return Measurement("SCA, 200 x 300, 3 factors", seconds, bound, "two products per iteration")


def sppca(machine: Machine) -> Measurement:
    X = load_wine().data
    model = SPPCA("auto").fit(X)
    seconds = shortest_time(lambda: SPPCA("auto").fit(X), 2)
    sizes = model.n_parameters_path_.astype(float)
    bound = float(np.sum(sizes**3)) / 3 / machine.flops
    return Measurement(
        "SPPCA, wine 178 x 13, unscaled", seconds, bound, "one Newton step per penalty"
    )


def empca_wide(machine: Machine) -> Measurement:
    rng = np.random.default_rng(0)
    W = rng.standard_normal((5, 5000)) * (rng.random((5, 5000)) < 0.05)
    X = 2.0 * rng.standard_normal((200, 5)) @ W + rng.standard_normal((200, 5000))
    fit = lambda: EMPCA(5, n_nonzero=250, random_state=0).fit(X)  # noqa: E731
    iterations = sum(len(trace) for trace in fit().objective_path_)
    bound = iterations * 2 * X.nbytes / machine.bytes
    return Measurement(
        "EMPCA, 200 x 5000, 5 of 250 nonzeros", shortest_time(fit, 2), bound, "X twice per step"
    )


def empca_noise(machine: Machine) -> Measurement:
    X = np.random.default_rng(0).standard_normal((900, 900))
    fit = lambda: EMPCA(3, n_nonzero=450, random_state=0).fit(X)  # noqa: E731
    iterations = sum(len(trace) for trace in fit().objective_path_)
    bound = (2 * 900 * X.size + iterations * 20 * 2 * 450**2) / machine.flops
    return Measurement(
        "EMPCA, noise 900 x 900, 3 of 450 nonzeros",
        shortest_time(fit, 1),
        bound,
        "20 products per step",
    )


def spinyreg(machine: Machine) -> Measurement:
    X, y, _ = make_sparse_regression(200, 500, random_state=0)[:3]
    seconds = shortest_time(lambda: SpinyRegressor().fit(X, y), 2)
    bound = 2 * 500 * X.size / machine.flops
    return Measurement("SpinyRegressor, 200 x 500", seconds, bound, "X'X once")


def import_time(machine: Machine) -> Measurement:
    program = (
        "import time, sklearn.decomposition\nstart = time.process_time()\n"
        "from prosparse import GSPPCA\nprint(time.process_time() - start)"
    )
    command = [sys.executable, "-c", program]
    seconds = min(float(subprocess.check_output(command, text=True)) for _ in range(5))
    return Measurement("import, in addition to scikit-learn", seconds, 0.15, "0.15 s")


MEASUREMENTS = (
    gsppca_iteration,
    gsppca_sparse_iteration,
    gsppca_golub,
    gsppca_wide,
    fdrpca,
    panel,
    sca,
    sppca,
    empca_wide,
    empca_noise,
    spinyreg,
    import_time,
)


# --- records


class Record(NamedTuple):
    """One recorded run."""

    date: str  # year-month-day
    version: str  # of prosparse
    machine: dict[str, str]  # hardware and software
    flops: int  # per second
    bytes: int
    seconds: dict[str, float]  # by measurement
    ratios: dict[str, float]  # to the lower bound


def describe_machine() -> dict[str, str]:
    """Describe hardware and software."""
    blas = sorted({f"{pool['internal_api']} {pool['version']}" for pool in threadpool_info()})
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": ", ".join(blas),
    }


def processor() -> str:
    """Return the processor name on Linux, or its type elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def read_records(path: Path = RECORDS) -> list[Record]:
    """Return all records, oldest first."""
    if not path.exists():
        return []
    return [Record(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]


def append_record(record: Record, path: Path = RECORDS) -> None:
    """Append a record to the file."""
    path.parent.mkdir(exist_ok=True)
    entries = [entry._asdict() for entry in [*read_records(path), record]]
    path.write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")


def make_record(machine: Machine, measurements: list[Measurement]) -> Record:
    """Return the record of a run."""
    return Record(
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        version=__version__,
        machine=describe_machine(),
        flops=round(machine.flops),
        bytes=round(machine.bytes),
        seconds={measurement.name: round(measurement.seconds, 5) for measurement in measurements},
        ratios={
            measurement.name: round(measurement.seconds / measurement.lower_bound, 2)
            for measurement in measurements
        },
    )


def compare_with_last(measurement: Measurement, records: list[Record], here: dict[str, str]) -> str:
    """Return the time relative to the last record; see the module docstring."""
    known = [record for record in records if measurement.name in record.seconds]
    same_machine = [record for record in known if record.machine == here]
    if same_machine:
        return f"{measurement.seconds / same_machine[-1].seconds[measurement.name]:.2f}"
    if known:
        ratio = measurement.seconds / measurement.lower_bound
        return f"{ratio / known[-1].ratios[measurement.name]:.2f}*"
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-record", action="store_true", help="do not record the run")
    parser.add_argument("--only", default="", help="measurements whose function names contain this")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    records, here, measurements = read_records(), describe_machine(), []
    with threadpool_limits(1):
        machine = measure_machine()
        print(f"one thread: {machine.flops / 1e9:.1f} GFLOP/s, {machine.bytes / 1e9:.1f} GB/s")
        if records:
            print(f"last record: {records[-1].date}, version {records[-1].version}")
        print(f"{'':44s}{'seconds':>9s}{'to last':>9s}{'bound':>10s}{'ratio':>8s}   bound is for")
        for make in MEASUREMENTS:
            if options.only.lower() not in make.__name__.lower():
                continue
            measurement = make(machine)
            measurements.append(measurement)
            change = compare_with_last(measurement, records, here)
            ratio = measurement.seconds / measurement.lower_bound
            print(
                f"{measurement.name:44s}{measurement.seconds:9.4f}{change:>9s}"
                f"{measurement.lower_bound:10.5f}{ratio:8.1f}   {measurement.operation}",
                flush=True,
            )
    if len(measurements) == len(MEASUREMENTS) and not options.no_record:
        append_record(make_record(machine, measurements))


if __name__ == "__main__":
    main()
