"""Cost of GSPPCA on large data: iterations, fits, clusters and files.

    python -m benchmarks.scale                                 # all sections, minutes
    python -m benchmarks.scale iteration linear                # selected sections
    python -m benchmarks.scale iteration fit --device cuda --rows 100000 --columns 20000 -d 50

Sections: iteration (compared with two matrix products), fit, agreement (single precision on the
device compared with double precision on the CPU), linear (cost against rows and columns), dask (two
workers compared with NumPy), memmap (memory of a fit from a file), pbmc3k (sparse counts from the
folder PROSPARSE_DATA). With ``--device`` the first three run on Torch. Times are the shortest of
several; compare the ratios.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from prosparse import GSPPCA
from prosparse.data import DenseOperator, standardise
from prosparse.models.gsppca.model import init, make_step
from prosparse.numerics.spectrum import spectrum


def peak_resident():
    """Return peak resident memory in bytes; getrusage would include the parent process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return 1024 * int(line.split()[1])
    raise OSError("The peak of resident memory is not available on this system.")


class Device:
    """Array library and device of the first sections."""

    def __init__(self, name):
        self.name = name
        if name is not None:
            import torch

            self.torch = torch

    def wait(self):
        """Wait for asynchronous computations."""
        if self.name == "cuda":
            self.torch.cuda.synchronize()

    def seconds(self, f, repeats=5):
        """Return the shortest wall time after a warm-up."""
        f()
        times = []
        for _ in range(repeats):
            self.wait()
            start = time.perf_counter()
            f()
            self.wait()
            times.append(time.perf_counter() - start)
        return min(times)

    def simulate(self, n, p, d, active):
        """Simulate d factors on ``active`` columns, on the device."""
        if self.name is None:
            rng = np.random.default_rng(0)
            normal = rng.standard_normal
            X, W = normal((n, p)), normal((d, active))
            X[:, :active] += normal((n, d)) @ W
            return X
        torch = self.torch
        make = torch.Generator(self.name).manual_seed(0)
        like = {"generator": make, "device": self.name, "dtype": torch.float32}
        X = torch.randn((n, p), **like)
        X[:, :active] += torch.randn((n, d), **like) @ torch.randn((d, active), **like)
        return X

    def title(self):
        """Describe library and device."""
        if self.name is None:
            return f"NumPy, {os.cpu_count()} cores"
        device = self.torch.cuda.get_device_name() if self.name == "cuda" else self.name
        return f"Torch {self.torch.__version__}, {device}, float32"


def iteration(device, n, p, d):
    """Time one variational iteration and two products with X."""
    X = device.simulate(n, p, d, p // 20)
    op = DenseOperator(X - X.mean(0))
    parts = spectrum(op, d) if min(n, p) > 2048 else spectrum(op)
    step, state = make_step(op, n), init(parts, d)
    for _ in range(3):
        state = step(state)
    F = op.xp.astype(state.M, op.dtype)
    F = F.contiguous() if device.name else np.ascontiguousarray(F)
    rounds = [
        (device.seconds(lambda: step(state)), device.seconds(lambda: op.X.T @ (op.X @ F)))
        for _ in range(3)
    ]
    ours, products = (min(times) for times in zip(*rounds, strict=True))
    print(f"iteration, {n} x {p}, d = {d}: {1e3 * ours:.2f} ms; two products with X")
    print(f"  {1e3 * products:.2f} ms: ratio {ours / products:.2f}")


def fit(device, n, p, d):
    """Time a complete fit with the evidence of all cardinalities."""
    X = device.simulate(n, p, d, p // 20)
    device.wait()
    start = time.perf_counter()
    model = GSPPCA(d).fit(X)
    device.wait()
    seconds = time.perf_counter() - start
    correct = bool(model.support_[: p // 20].all()) and model.n_selected_ == p // 20
    print(f"fit, {n} x {p}, d = {d}: {seconds:.2f} s, {model.n_iter_} iterations, evidence of")
    print(
        f"  {model.cardinalities_.shape[0]} cardinalities, {model.n_selected_} columns selected",
        end="",
    )
    print(f" ({'exactly the true ones' if correct else 'NOT the true ones'})")
    start = time.perf_counter()
    standardise(X)
    device.wait()
    print(f"  of which centring {time.perf_counter() - start:.2f} s")
    if device.name == "cuda":
        peak = device.torch.cuda.max_memory_allocated() / 2**30
        print(f"  peak memory on the GPU {peak:.1f} GiB, X {X.nbytes / 2**30:.1f} GiB")


def agreement(device, n, p, d):
    """Compare results of the device with double precision on the CPU."""
    n, p = min(n, 4000), min(p, 1000)
    X = device.simulate(n, p, d, p // 20)
    ours = GSPPCA(d).fit(X)
    values = X.cpu().numpy() if device.name else X
    theirs = GSPPCA(d).fit(values.astype(np.float64))

    def to_cpu(a):
        return a.cpu().numpy() if device.name else a

    same = bool((to_cpu(ours.support_) == theirs.support_).all())
    components = to_cpu(ours.components_)
    components = components.astype(np.float64)
    residual = components - (components @ theirs.components_.T) @ theirs.components_
    sine = np.linalg.norm(residual, 2)
    evidence = abs(ours.log_evidence_ / theirs.log_evidence_ - 1)
    variance = np.abs(to_cpu(ours.explained_variance_) / theirs.explained_variance_ - 1).max()
    print(f"agreement with NumPy in double precision, {n} x {p}, d = {d}: same support {same},")
    print(f"  sine of the largest angle between the subspaces {sine:.1e},")
    print(f"  relative difference of log evidence {evidence:.1e}, of variances {variance:.1e}")


def linear(device, n, p, d):
    """Print CPU seconds of fits by numbers of rows and columns."""
    for dimension, sizes in (
        ("rows", [(10**k, 50) for k in (3, 4, 5, 6)]),
        ("columns", [(500, 10**k) for k in (2, 3, 4, 5)]),
    ):
        times = []
        for rows, columns in sizes:
            X = Device(None).simulate(rows, columns, 3, 10)
            start = time.process_time()
            model = GSPPCA(3, max_iter=30, tol=1e-7).fit(X)
            times.append(time.process_time() - start)
            size = rows if dimension == "rows" else columns
            per = 1e9 * times[-1] / X.size
            print(f"linear, {rows} x {columns}: {times[-1]:.2f} s, {per:.0f} ns per entry", end="")
            print(f" ({model.n_iter_} iterations)")
        growth = np.log(times[-1] / times[-2]) / np.log(10)
        print(f"  from {size // 10} to {size} {dimension} the cost grows with power {growth:.2f}")


def dask(device, n, p, d):
    """Compare two workers of a local cluster with NumPy."""
    import cloudpickle
    import dask.array as da
    from distributed import Client, LocalCluster

    rows, columns = 200_000, 200
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        rng = da.random.default_rng(0)
        W = np.zeros((5, columns))
        W[:, :20] = np.random.default_rng(0).standard_normal((5, 20))
        factors = rng.standard_normal((rows, 5), chunks=(20_000, -1))
        noise = rng.standard_normal((rows, columns), chunks=(20_000, -1))
        chunked = (factors @ W + noise).persist()
        X = chunked.compute()
        dask_times, numpy_times = [], []
        for _ in range(2):
            start = time.perf_counter()
            model = GSPPCA(5).fit(chunked)
            dask_times.append(time.perf_counter() - start)
            start = time.perf_counter()
            plain = GSPPCA(5).fit(X)
            numpy_times.append(time.perf_counter() - start)
    dask_times, numpy_times = min(dask_times), min(numpy_times)
    difference = np.abs(model.components_ - plain.components_).max()
    print(
        f"dask, {rows} x {columns}, d = 5, two workers: {dask_times:.1f} s, "
        f"NumPy {numpy_times:.1f} s:"
    )
    print(
        f"  ratio {dask_times / numpy_times:.2f}; largest difference of components {difference:.1e}"
    )
    F = np.zeros((20_000, 50))
    sent = len(cloudpickle.dumps(lambda block: (block.T @ (block @ F),)))
    received = F.nbytes  # X'Y
    print(f"  an iteration with p = 20000, d = 50 sends {sent / 2**20:.1f} MiB to a worker and")
    print(f"  {received / 2**20:.1f} MiB of sums back, for any number of rows")


def memmap(device, n, p, d):
    """Measure memory and time of a fit from a file of 4 GB in a separate process."""
    rows, columns = 2_000_000, 500
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "X"
        X = np.memmap(path, "float32", "w+", shape=(rows, columns))
        rng = np.random.default_rng(0)
        W = rng.standard_normal((5, 40)).astype(np.float32)
        for low in range(0, rows, 20_000):
            block = rng.standard_normal((20_000, columns), dtype=np.float32)
            block[:, :40] += rng.standard_normal((20_000, 5), dtype=np.float32) @ W
            X[low : low + 20_000] = block
        X.flush()
        del X
        command = [sys.executable, __file__, "memmap-child", "--file", str(path)]
        subprocess.run(command, check=True)


def memmap_child(path):
    """Fit from the file and print memory and time."""
    rows, columns = 2_000_000, 500
    X = np.memmap(path, "float32", "r", shape=(rows, columns))
    start, cpu = time.perf_counter(), time.process_time()
    model = GSPPCA(5).fit(X)
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = peak_resident() / 2**30
    print(
        f"memmap, {rows} x {columns} float32 (3.7 GiB): {wall:.0f} s ({cpu:.0f} s CPU time),",
        end="",
    )
    print(f" {model.n_selected_} of 40 true columns selected,")
    print(f"  peak resident memory {peak:.2f} GiB of the process")


def pbmc3k(device, n, p, d):
    """Fit the sparse raw counts of 2,700 cells."""
    from scipy import sparse

    path = Path(os.environ.get("PROSPARSE_DATA", ".")) / "pbmc3k_2700x32738_csr.npz"
    if not path.exists():
        print(f"pbmc3k: {path} not found; set PROSPARSE_DATA")
        return
    file = np.load(path)
    shape = tuple(file["shape"])
    X = sparse.csr_matrix((file["data"], file["indices"], file["indptr"]), shape=shape)
    before = peak_resident()
    start, cpu = time.perf_counter(), time.process_time()
    model = GSPPCA(10).fit(X)
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    additional = (peak_resident() - before) / 2**20
    print(
        f"pbmc3k, {X.shape[0]} x {X.shape[1]}, d = 10: {wall:.1f} s ({cpu:.1f} s CPU time), "
        "evidence"
    )
    print(
        f"  of {model.cardinalities_.size} cardinalities, {model.n_selected_} genes selected, peak",
        end="",
    )
    print(f" additional memory {additional:.0f} MiB")


SECTIONS = {f.__name__: f for f in (iteration, fit, agreement, linear, dask, pbmc3k, memmap)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sections", nargs="*", default=list(SECTIONS))
    parser.add_argument("--device", help="Torch device (default: NumPy)")
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--columns", type=int, default=5000)
    parser.add_argument("-d", type=int, default=20)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.sections == ["memmap-child"]:
        memmap_child(options.file)
        return
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"Unknown section {sorted(unknown)[0]!r}. Available: {', '.join(SECTIONS)}.")
    device = Device(options.device)
    print(device.title())
    for name in options.sections:
        SECTIONS[name](device, options.rows, options.columns, options.d)


if __name__ == "__main__":
    main()
