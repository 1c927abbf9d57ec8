"""GSPPCA on large tables: what an iteration, a fit, a cluster and a file cost.

    python -m benchmarks.scale                                 # all sections, some minutes
    python -m benchmarks.scale iteration linear                # some of them
    python -m benchmarks.scale iteration fit --device cuda --rows 100000 --columns 20000 -d 50

Sections: iteration (against the two bare products), fit, agreement (single precision on the
device against double precision on the host), linear (cost against rows and columns), dask (two
workers against NumPy), memmap (memory of a fit from a file), pbmc3k (sparse counts from the
folder PROSPARSE_DATA). With ``--device`` the first three run on Torch. Times are the best of
several; what counts are the ratios.
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
    """Bytes; getrusage would count the memory of the process that started this one."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return 1024 * int(line.split()[1])
    raise OSError("this system does not tell the peak of resident memory")


class Device:
    """Where the arrays of the first sections live."""

    def __init__(self, name):
        self.name = name
        if name is not None:
            import torch

            self.torch = torch

    def wait(self):
        if self.name == "cuda":
            self.torch.cuda.synchronize()

    def seconds(self, f, repeats=5):
        f()
        times = []
        for _ in range(repeats):
            self.wait()
            start = time.perf_counter()
            f()
            self.wait()
            times.append(time.perf_counter() - start)
        return min(times)

    def table(self, n, p, d, active):
        """A globally sparse table, made where it will be used: d factors on ``active`` columns."""
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
        if self.name is None:
            return f"NumPy, {os.cpu_count()} cores"
        device = self.torch.cuda.get_device_name() if self.name == "cuda" else self.name
        return f"Torch {self.torch.__version__}, {device}, float32"


def iteration(device, n, p, d):
    """One variational pass on the table itself against the two products with it."""
    X = device.table(n, p, d, p // 20)
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
    ours, bare = (min(times) for times in zip(*rounds, strict=True))
    print(f"iteration, {n} x {p}, d = {d}: {1e3 * ours:.2f} ms; the two products")
    print(f"  {1e3 * bare:.2f} ms: ratio {ours / bare:.2f}")


def fit(device, n, p, d):
    """A whole fit, evidence and all."""
    X = device.table(n, p, d, p // 20)
    device.wait()
    start = time.perf_counter()
    model = GSPPCA(d).fit(X)
    device.wait()
    whole = time.perf_counter() - start
    right = bool(model.support_[: p // 20].all()) and model.n_selected_ == p // 20
    print(f"fit, {n} x {p}, d = {d}: {whole:.2f} s, {model.n_iter_} iterations, evidence of")
    print(
        f"  {model.cardinalities_.shape[0]} cardinalities, {model.n_selected_} columns chosen",
        end="",
    )
    print(f" ({'exactly the active ones' if right else 'NOT the active ones'})")
    start = time.perf_counter()
    standardise(X)
    device.wait()
    print(f"  of which centring {time.perf_counter() - start:.2f} s")
    if device.name == "cuda":
        peak = device.torch.cuda.max_memory_allocated() / 2**30
        print(f"  peak memory on the GPU {peak:.1f} GiB, X {X.nbytes / 2**30:.1f} GiB")


def agreement(device, n, p, d):
    """The device's answer against double precision on the host, at a smaller size."""
    n, p = min(n, 4000), min(p, 1000)
    X = device.table(n, p, d, p // 20)
    ours = GSPPCA(d).fit(X)
    values = X.cpu().numpy() if device.name else X
    theirs = GSPPCA(d).fit(values.astype(np.float64))

    def back(a):
        return a.cpu().numpy() if device.name else a

    same = bool((back(ours.support_) == theirs.support_).all())
    components = back(ours.components_)
    components = components.astype(np.float64)
    off = components - (components @ theirs.components_.T) @ theirs.components_
    sine = np.linalg.norm(off, 2)
    evidence = abs(ours.log_evidence_ / theirs.log_evidence_ - 1)
    variance = np.abs(back(ours.explained_variance_) / theirs.explained_variance_ - 1).max()
    print(f"agreement with NumPy in double precision, {n} x {p}, d = {d}: same support {same},")
    print(f"  sine of the largest angle between the subspaces {sine:.1e},")
    print(f"  relative difference of log evidence {evidence:.1e}, of variances {variance:.1e}")


def linear(device, n, p, d):
    """CPU seconds of whole fits against rows and against columns."""
    for what, sizes in (
        ("rows", [(10**k, 50) for k in (3, 4, 5, 6)]),
        ("columns", [(500, 10**k) for k in (2, 3, 4, 5)]),
    ):
        times = []
        for rows, columns in sizes:
            X = Device(None).table(rows, columns, 3, 10)
            start = time.process_time()
            model = GSPPCA(3, max_iter=30, tol=1e-7).fit(X)
            times.append(time.process_time() - start)
            size = rows if what == "rows" else columns
            per = 1e9 * times[-1] / X.size
            print(f"linear, {rows} x {columns}: {times[-1]:.2f} s, {per:.0f} ns per entry", end="")
            print(f" ({model.n_iter_} iterations)")
        growth = np.log(times[-1] / times[-2]) / np.log(10)
        print(f"  from {size // 10} to {size} {what} the cost grows with power {growth:.2f}")


def dask(device, n, p, d):
    """Two workers of a local cluster against NumPy in one process."""
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
        latent = rng.standard_normal((rows, 5), chunks=(20_000, -1))
        noise = rng.standard_normal((rows, columns), chunks=(20_000, -1))
        chunked = (latent @ W + noise).persist()
        X = chunked.compute()
        together, alone = [], []
        for _ in range(2):
            start = time.perf_counter()
            model = GSPPCA(5).fit(chunked)
            together.append(time.perf_counter() - start)
            start = time.perf_counter()
            plain = GSPPCA(5).fit(X)
            alone.append(time.perf_counter() - start)
    together, alone = min(together), min(alone)
    gap = np.abs(model.components_ - plain.components_).max()
    print(f"dask, {rows} x {columns}, d = 5, two workers: {together:.1f} s, NumPy {alone:.1f} s:")
    print(f"  ratio {together / alone:.2f}; largest difference of components {gap:.1e}")
    F = np.zeros((20_000, 50))
    sent = len(cloudpickle.dumps(lambda block: (block.T @ (block @ F),)))
    back = F.nbytes  # X'Y
    print(f"  a pass with p = 20000, d = 50 sends {sent / 2**20:.1f} MiB to a worker and")
    print(f"  {back / 2**20:.1f} MiB of sums back, whatever the number of rows")


def memmap(device, n, p, d):
    """Resident memory and time of a fit from a file of 4 GB, in a process of its own."""
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
    rows, columns = 2_000_000, 500
    X = np.memmap(path, "float32", "r", shape=(rows, columns))
    start, cpu = time.perf_counter(), time.process_time()
    model = GSPPCA(5).fit(X)
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = peak_resident() / 2**30
    print(
        f"memmap, {rows} x {columns} float32 (3.7 GiB): {wall:.0f} s ({cpu:.0f} s of CPU),", end=""
    )
    print(f" {model.n_selected_} of 40 active columns chosen,")
    print(f"  peak resident memory {peak:.2f} GiB, whole process")


def pbmc3k(device, n, p, d):
    """Raw counts of 2,700 cells, sparse, all cardinalities."""
    from scipy import sparse

    path = Path(os.environ.get("PROSPARSE_DATA", ".")) / "pbmc3k_2700x32738_csr.npz"
    if not path.exists():
        print(f"pbmc3k: {path} is not there; set PROSPARSE_DATA")
        return
    file = np.load(path)
    shape = tuple(file["shape"])
    X = sparse.csr_matrix((file["data"], file["indices"], file["indptr"]), shape=shape)
    before = peak_resident()
    start, cpu = time.perf_counter(), time.process_time()
    model = GSPPCA(10).fit(X)
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    more = (peak_resident() - before) / 2**20
    print(
        f"pbmc3k, {X.shape[0]} x {X.shape[1]}, d = 10: {wall:.1f} s ({cpu:.1f} s of CPU), evidence"
    )
    print(
        f"  of {model.cardinalities_.size} cardinalities, {model.n_selected_} genes chosen, peak",
        end="",
    )
    print(f" memory beyond the table {more:.0f} MiB")


SECTIONS = {f.__name__: f for f in (iteration, fit, agreement, linear, dask, pbmc3k, memmap)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sections", nargs="*", default=list(SECTIONS))
    parser.add_argument("--device", help="a Torch device; without it, NumPy")
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--columns", type=int, default=5000)
    parser.add_argument("-d", type=int, default=20)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.sections == ["memmap-child"]:
        memmap_child(given.file)
        return
    unknown = set(given.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"unknown section {sorted(unknown)[0]!r}; there are {', '.join(SECTIONS)}")
    device = Device(given.device)
    print(device.title())
    for name in given.sections:
        SECTIONS[name](device, given.rows, given.columns, given.d)


if __name__ == "__main__":
    main()
