"""Compare the time of FDRPCA with thin SVDs of the same data.

    python -m benchmarks.fdrpca                 # one to two minutes
    python -m benchmarks.fdrpca wide null       # selected datasets
    python -m benchmarks.fdrpca --repeats 1     # fewer repeats

Datasets: wide (200 x 20,000, ten factors on 100 columns), null (without factors), few (factors on
60 columns, which are confirmed individually), tall (5,000 x 2,000, ten factors on 100 columns),
large (2,500 x 6,000, too large for a complete decomposition), cells (2,700 blood cells with all
genes, sparse, from the folder PROSPARSE_DATA). Times are the
shortest of several after a warm-up, with the default BLAS threads; compare the ratios. Sparse data
are compared with their 33 leading singular triplets (ARPACK), because a thin SVD would make them
dense.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, svds
from threadpoolctl import threadpool_info

from prosparse import FDRPCA

N_LEADING = 33  # number of singular triplets of sparse data


def shortest_time(f, repeats):
    """Return the shortest wall time after a warm-up."""
    f()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return min(times)


def simulate(n, p, shared, factors=10):
    """Simulate columns of unit variance, some with common factors."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    if shared:
        X[:, :shared] += rng.standard_normal((n, factors)) @ rng.standard_normal((factors, shared))
    X -= X.mean(axis=0)
    return X / X.std(axis=0)


def load_cells():
    """Return sparse log counts per 10,000, or None without the file."""
    path = Path(os.environ.get("PROSPARSE_DATA", ".")) / "pbmc3k_2700x32738_csr.npz"
    if not path.exists():
        return None
    with np.load(path) as file:
        parts = file["data"].astype(float), file["indices"], file["indptr"]
        S = sparse.csr_array(parts, shape=tuple(file["shape"]))
    S = S[:, np.asarray((S > 0).sum(axis=0)).ravel() > 0]
    return sparse.csr_array(sparse.diags_array(1e4 / S.sum(axis=1)) @ S).log1p()


DATASETS = {
    "wide": lambda: simulate(200, 20_000, 100),
    "null": lambda: simulate(200, 20_000, 0),
    "few": lambda: simulate(200, 20_000, 60),
    "tall": lambda: simulate(5_000, 2_000, 100),
    "large": lambda: simulate(2_500, 6_000, 300),
    "cells": load_cells,
}


def decomposition(X):
    """Return a function that computes the SVD for comparison."""
    if not sparse.issparse(X):
        return lambda: np.linalg.svd(X, full_matrices=False)
    mean = np.asarray(X.mean(axis=0)).ravel()
    square = np.asarray(X.multiply(X).mean(axis=0)).ravel()
    factor = 1.0 / np.sqrt(square - mean**2)
    centred = LinearOperator(
        X.shape,
        matvec=lambda v: X @ (factor * v) - mean @ (factor * v),
        rmatvec=lambda u: factor * (X.T @ u - mean * np.sum(u)),
        dtype=float,
    )
    return lambda: svds(centred, N_LEADING, random_state=0)


def measure(name, X, repeats):
    """Print one row of the table."""
    models = []
    ours = shortest_time(lambda: models.append(FDRPCA().fit(X)), repeats)
    svd = shortest_time(decomposition(X), repeats)
    model = models[-1]
    shape = f"{X.shape[0]:,} x {X.shape[1]:,}{', sparse' if sparse.issparse(X) else ''}"
    print(
        f"{name:8s}{shape:>24s}{model.n_selected_:>9,d}{model.n_components_:>12d}"
        f"{ours:>9.2f} s{svd:>9.2f} s{ours / svd:>8.2f}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("datasets", nargs="*", choices=[[], *DATASETS], help="default: all")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # Datasets without structure are expected.
    threads = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    print(f"{os.cpu_count()} cores, BLAS threads {threads}")
    print(
        f"{'':8s}{'shape':>24s}{'selected':>9s}{'components':>12s}{'fit':>11s}{'SVD':>11s}", end=""
    )
    print(f"{'ratio':>8s}")
    for name in options.datasets or DATASETS:
        X = DATASETS[name]()
        if X is None:
            print(f"{name:8s}  omitted: pbmc3k_2700x32738_csr.npz not found in PROSPARSE_DATA")
            continue
        measure(name, X, options.repeats)


if __name__ == "__main__":
    main()
