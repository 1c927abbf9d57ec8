"""FDRPCA beside thin SVDs of the same tables, in one run.

    python -m benchmarks.fdrpca                 # a minute or two
    python -m benchmarks.fdrpca wide nothing    # some of the tables
    python -m benchmarks.fdrpca --repeats 1     # rougher

Tables: wide (200 x 20,000, ten factors on 100 columns), nothing (the same without them), few (the
same with 60 columns, which are confirmed one by one), tall (5,000 x 2,000, ten factors on 100
columns), large (2,500 x 6,000, both sides too large for a whole decomposition), cells (2,700 blood
cells with all their genes, sparse; from the folder PROSPARSE_DATA). Times are the best of several,
after one that does not count, on the threads BLAS takes by default; what counts are the ratios.
Beside the sparse table stands the SVD of its 33 leading triplets (ARPACK), as a thin one would
make it dense.
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

LEADING = 33


def best(f, repeats):
    f()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return min(times)


def simulated(n, p, shared, factors=10):
    """Columns of unit variance, some of which share factors."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    if shared:
        X[:, :shared] += rng.standard_normal((n, factors)) @ rng.standard_normal((factors, shared))
    X -= X.mean(axis=0)
    return X / X.std(axis=0)


def cells():
    """Counts normalised to 10,000 a cell and logarithmised, sparse; None without the file."""
    path = Path(os.environ.get("PROSPARSE_DATA", ".")) / "pbmc3k_2700x32738_csr.npz"
    if not path.exists():
        return None
    with np.load(path) as file:
        parts = file["data"].astype(float), file["indices"], file["indptr"]
        S = sparse.csr_array(parts, shape=tuple(file["shape"]))
    S = S[:, np.asarray((S > 0).sum(axis=0)).ravel() > 0]
    return sparse.csr_array(sparse.diags_array(1e4 / S.sum(axis=1)) @ S).log1p()


TABLES = {
    "wide": lambda: simulated(200, 20_000, 100),
    "nothing": lambda: simulated(200, 20_000, 0),
    "few": lambda: simulated(200, 20_000, 60),
    "tall": lambda: simulated(5_000, 2_000, 100),
    "large": lambda: simulated(2_500, 6_000, 300),
    "cells": cells,
}


def decomposition(X):
    """The SVD to compare with, as a function without arguments."""
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
    return lambda: svds(centred, LEADING, random_state=0)


def measured(name, X, repeats):
    """One row of the printed table."""
    found = []
    ours = best(lambda: found.append(FDRPCA().fit(X)), repeats)
    svd = best(decomposition(X), repeats)
    model = found[-1]
    shape = f"{X.shape[0]:,} x {X.shape[1]:,}{', sparse' if sparse.issparse(X) else ''}"
    print(
        f"{name:8s}{shape:>24s}{model.n_selected_:>9,d}{model.n_components_:>12d}"
        f"{ours:>9.2f} s{svd:>9.2f} s{ours / svd:>8.2f}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tables", nargs="*", choices=[[], *TABLES], help="all, if none is named")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # of tables without structure
    threads = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    print(f"{os.cpu_count()} cores, BLAS threads {threads}")
    print(f"{'':8s}{'shape':>24s}{'chosen':>9s}{'components':>12s}{'fit':>11s}{'SVD':>11s}", end="")
    print(f"{'ratio':>8s}")
    for name in given.tables or TABLES:
        X = TABLES[name]()
        if X is None:
            print(f"{name:8s}  not measured: PROSPARSE_DATA has no pbmc3k_2700x32738_csr.npz")
            continue
        measured(name, X, given.repeats)


if __name__ == "__main__":
    main()
