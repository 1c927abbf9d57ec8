"""Compare Panel with other column selection methods: time or accuracy.

    python -m benchmarks.panel                 # times, one to two minutes
    python -m benchmarks.panel --competing     # packages on the datasets of E19 (PROSPARSE_DATA)
    python -m benchmarks.panel --columns 50    # fewer columns
    python -m benchmarks.panel --dask          # 200,000 x 200 data in NumPy and in Dask
    python -m benchmarks.panel --atlas         # 38,000 x 32,738 counts (PROSPARSE_DATA)

Times are for 200 columns of 200 x 20,000 data (50 factors on 5,000 columns). `Panel` includes the
evaluation on held-out rows. Forward selection component analysis is implemented as published, with
residuals of all columns in each step. Times are the shortest of several after a warm-up, with the
default BLAS threads; compare the ratios.

The atlas has the density of real counts: each cell is the sum of two cells of pbmc3k of one type,
of which each molecule is kept with probability 1/2. Peak memory is that of the process.

Competing packages, if installed: fastcan, skfeature-chappers (NDFS, SPEC), spapros (PCA score) and
scmer. The methods of E19 are in `papers.competing_selection`.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_info

from papers.competing_selection import forward_selection
from papers.data import Data
from papers.panels import (
    FIRST_SEED,
    SIZES,
    cluster_agreement,
    labelled_datasets,
    neighbour_accuracy,
    panel_columns,
    reconstruction_r2,
    split_rows,
)
from prosparse import Panel

MAX_COLUMNS = 2_000  # limit for methods with quadratic or cubic cost


def shortest_time(f, repeats):
    """Return the shortest wall time after a warm-up."""
    f()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return min(times)


def simulate(n=200, p=20_000, shared=5_000, factors=50):
    """Simulate factors on the first columns."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    X[:, :shared] += (
        0.3 * rng.standard_normal((n, factors)) @ rng.standard_normal((factors, shared))
    )
    return X


def published_forward_selection(X, count):
    """Select columns with all covariances recomputed in each step."""
    R = X - X.mean(axis=0)
    selected = []
    for _ in range(count):
        lengths = np.sum(R**2, axis=0)
        explained = np.zeros(R.shape[1])
        for start in range(0, R.shape[1], 1_000):
            across = R.T @ R[:, start : start + 1_000]
            explained[start : start + 1_000] = np.sum(across**2, axis=0)
        explained = np.where(
            lengths > 1e-8 * lengths.max(), explained / np.maximum(lengths, 1e-300), -1.0
        )
        k = int(np.argmax(explained))
        selected.append(k)
        direction = R[:, k] / np.sqrt(lengths[k])
        R = R - np.outer(direction, direction @ R)
    return selected


def compare_times(columns, repeats):
    """Print fit times."""
    print(f"BLAS threads {[library['num_threads'] for library in threadpool_info()]}")
    X = simulate()
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    svd = shortest_time(lambda: np.linalg.svd(Z, full_matrices=False), repeats)
    ours = shortest_time(lambda: Panel(columns).fit(X), repeats)
    n_steps = max(1, columns // 40)
    start = time.perf_counter()
    published_forward_selection(Z, n_steps)
    published = (time.perf_counter() - start) * columns / n_steps
    start = time.perf_counter()
    forward_selection(Z, np.ones(Z.shape[1]), n_steps)
    gram = (time.perf_counter() - start) * columns / n_steps
    print(f"{'':44} seconds  / Panel")
    for name, seconds in (
        ("thin SVD", svd),
        (f"Panel({columns}), with held-out evaluation", ours),
        (f"forward selection, published ({n_steps} steps timed)", published),
        (f"forward selection by X X' ({n_steps} steps timed)", gram),
    ):
        print(f"{name:50} {seconds:9.2f} {seconds / ours:8.2f}")


def compare_dask(columns):
    """Print fit times of the same data in NumPy and in Dask."""
    import dask.array as da

    rng = np.random.default_rng(0)
    X = rng.standard_normal((200_000, 10)) @ rng.standard_normal((10, 200))
    X += rng.standard_normal(X.shape)
    for name, table in (("NumPy", X), ("Dask", da.from_array(X, chunks=(20_000, 200)))):
        wall, cpu = time.perf_counter(), time.process_time()
        order = np.asarray(Panel(min(columns, 20)).fit(table).order_)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        print(f"{name:6} {wall:7.1f} s, CPU {cpu:6.1f} s, first columns {order[:5]}")


def simulate_atlas(n_cells):
    """Simulate counts at the density of real cells."""
    arrays, rng = Data()("pbmc3k"), np.random.default_rng(0)
    parts = (arrays["data"].astype(np.int64), arrays["indices"], arrays["indptr"])
    counts = sparse.csr_array(parts, shape=tuple(arrays["shape"]))
    first = rng.integers(0, counts.shape[0], n_cells)
    second = np.empty_like(first)
    for cell_type in np.unique(arrays["y"]):
        of_type = np.flatnonzero(arrays["y"] == cell_type)
        is_pair = np.isin(first, of_type)
        second[is_pair] = rng.choice(of_type, int(is_pair.sum()))

    def thin(rows):
        part = sparse.csr_array(counts[rows])
        part.data = rng.binomial(part.data, 0.5)
        return part

    atlas = sparse.csr_array(thin(first) + thin(second), dtype=np.float32)
    atlas.eliminate_zeros()
    return atlas


def measure_atlas(columns, n_cells=38_000):
    """Print time and peak memory of the selection of genes of an atlas."""
    atlas = simulate_atlas(n_cells)
    wall, cpu = time.perf_counter(), time.process_time()
    Panel(columns, counts=True).fit(atlas)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    print(
        f"{atlas.shape[0]:,} x {atlas.shape[1]:,}, {atlas.nnz / np.prod(atlas.shape):.1%} nonzero"
    )
    print(f"{columns} columns: {wall:.0f} s, CPU {cpu:.0f} s, peak memory {peak:.1f} GB")


def fastcan_columns(Z, column_std, count):
    from fastcan import FastCan

    _, s, V = np.linalg.svd(Z, full_matrices=False)
    d = min(20, s.size)
    scores = Z @ V[:d].T
    count = min(count, min(Z.shape) - 1)
    return FastCan(count, verbose=0).fit(Z, scores).indices_


def skfeature_columns(method):
    def select(Z, column_std, count):
        from skfeature.utility import construct_W

        subset = np.argsort(-np.var(Z * column_std, axis=0), kind="stable")[:MAX_COLUMNS]
        X = Z[:, subset]
        W = construct_W.construct_W(X, neighbor_mode="knn", weight_mode="binary", k=5)
        if method == "SPEC":
            from skfeature.function.similarity_based import SPEC

            return subset[np.argsort(-SPEC.spec(X, W=W, style=0))[:count]]
        from skfeature.function.sparse_learning_based import NDFS
        from skfeature.utility.sparse_learning import feature_ranking

        return subset[feature_ranking(NDFS.ndfs(X, W=W, n_clusters=5))[:count]]

    return select


def spapros_columns(Z, column_std, count):
    import anndata
    import spapros

    annotated = anndata.AnnData(Z * column_std)
    scores = spapros.se.select_pca_genes(annotated, count, inplace=False)
    return np.argsort(-scores["selection_score"].to_numpy(), kind="stable")[:count]


def scmer_columns(Z, column_std, count):
    import scmer

    subset = np.argsort(-np.var(Z * column_std, axis=0), kind="stable")[:500]
    model = scmer.UmapL1.tune(count, X=Z[:, subset], perplexity=10.0, verbosity=0)
    return subset[np.flatnonzero(model.get_mask())][:count]


METHODS = {
    "Panel": panel_columns,
    "fastcan": fastcan_columns,
    "skfeature SPEC": skfeature_columns("SPEC"),
    "skfeature NDFS": skfeature_columns("NDFS"),
    "spapros PCA": spapros_columns,
    "scmer": scmer_columns,
}


def compare_accuracy(splits):
    """Print the measures of E19 for competing packages."""
    datasets = labelled_datasets(Data())
    print(f"{'':18} R2, nearest-neighbour accuracy, cluster agreement at {SIZES} columns")
    for name, select in METHODS.items():
        values, reason, start = [], None, time.perf_counter()
        for dataset in datasets.values():
            for k in range(splits):
                split = split_rows(dataset, FIRST_SEED + k)
                try:
                    order = select(split.train, split.column_std, min(200, split.train.shape[1]))
                except Exception as error:  # Report failures of competing packages.
                    reason = f"{type(error).__name__}: {str(error)[:80]}"
                    break
                panels = [order[:size] for size in SIZES]
                values.append(
                    [
                        (
                            reconstruction_r2(split, c),
                            neighbour_accuracy(split, c),
                            cluster_agreement(split, c),
                        )
                        for c in panels
                    ]
                )
            if reason:
                break
        if reason:
            print(f"{name:18} failed: {reason}")
            continue
        means = np.mean(values, axis=0).T
        print(
            f"{name:18} "
            + " | ".join(" ".join(f"{value:.3f}" for value in part) for part in means)
            + f"   {time.perf_counter() - start:.0f} s"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--columns", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--competing", action="store_true")
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--dask", action="store_true")
    parser.add_argument("--atlas", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.competing:
        compare_accuracy(arguments.splits)
    elif arguments.dask:
        compare_dask(arguments.columns)
    elif arguments.atlas:
        measure_atlas(arguments.columns)
    else:
        compare_times(arguments.columns, arguments.repeats)
