"""Panel beside other ways of choosing columns, in one run: time and, where asked, what they give.

    python -m benchmarks.panel                 # times, a minute or two
    python -m benchmarks.panel --peers         # packages on the tables of E19, from PROSPARSE_DATA
    python -m benchmarks.panel --columns 50    # fewer columns

Times: 200 columns of a table of 200 x 20,000 (50 factors on 5,000 columns), by `Panel`, which also
judges its panels in held-out rows, and by forward selection component analysis as it is published:
the residual of every column on every other one, step by step. Best of several, after one that does
not count, on the threads that BLAS takes by default; what counts is the ratio.

Peers, where they are installed: fastcan, skfeature-chappers (NDFS, UDFS, SPEC), spapros (its PCA
score), scmer. Those of E19 itself are in `papers.competing_selection`.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from threadpoolctl import threadpool_info

from papers.competing_selection import forward_selection
from papers.data import Data
from papers.panels import (
    FIRST_SEED,
    SIZES,
    clusters_agree,
    labelled_tables,
    neighbours_agree,
    our_panel,
    rebuilt,
    split_of,
)
from prosparse import Panel

MOST_COLUMNS = 2_000  # for peers whose time grows with the square or cube of the columns


def best(f, repeats):
    f()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return min(times)


def simulated(n=200, p=20_000, shared=5_000, factors=50):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    X[:, :shared] += (
        0.3 * rng.standard_normal((n, factors)) @ rng.standard_normal((factors, shared))
    )
    return X


def published_forward_selection(X, count):
    """Forward selection with the covariances of all columns formed anew in every step."""
    R = X - X.mean(axis=0)
    chosen = []
    for _ in range(count):
        lengths = np.sum(R**2, axis=0)
        worth = np.zeros(R.shape[1])
        for start in range(0, R.shape[1], 1_000):
            across = R.T @ R[:, start : start + 1_000]
            worth[start : start + 1_000] = np.sum(across**2, axis=0)
        worth = np.where(lengths > 1e-8 * lengths.max(), worth / np.maximum(lengths, 1e-300), -1.0)
        k = int(np.argmax(worth))
        chosen.append(k)
        direction = R[:, k] / np.sqrt(lengths[k])
        R = R - np.outer(direction, direction @ R)
    return chosen


def times(columns, repeats):
    print(f"BLAS threads {[library['num_threads'] for library in threadpool_info()]}")
    X = simulated()
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    svd = best(lambda: np.linalg.svd(Z, full_matrices=False), repeats)
    ours = best(lambda: Panel(columns).fit(X), repeats)
    few = max(1, columns // 40)
    start = time.perf_counter()
    published_forward_selection(Z, few)
    published = (time.perf_counter() - start) * columns / few
    start = time.perf_counter()
    forward_selection(Z, np.ones(Z.shape[1]), few)
    gram = (time.perf_counter() - start) * columns / few
    print(f"{'':44} seconds  / Panel")
    for name, seconds in (
        ("thin SVD", svd),
        (f"Panel({columns}), with its judgement in held-out rows", ours),
        (f"forward selection, published ({few} steps measured)", published),
        (f"forward selection by X X' ({few} steps measured)", gram),
    ):
        print(f"{name:50} {seconds:9.2f} {seconds / ours:8.2f}")


def fastcan_columns(Z, spread, count):
    from fastcan import FastCan

    _, s, V = np.linalg.svd(Z, full_matrices=False)
    d = min(20, s.size)
    scores = Z @ V[:d].T
    count = min(count, min(Z.shape) - 1)
    return FastCan(count, verbose=0).fit(Z, scores).indices_


def skfeature_columns(method):
    def chooser(Z, spread, count):
        from skfeature.utility import construct_W

        some = np.argsort(-np.var(Z * spread, axis=0), kind="stable")[:MOST_COLUMNS]
        X = Z[:, some]
        W = construct_W.construct_W(X, neighbor_mode="knn", weight_mode="binary", k=5)
        if method == "SPEC":
            from skfeature.function.similarity_based import SPEC

            return some[np.argsort(-SPEC.spec(X, W=W, style=0))[:count]]
        from skfeature.function.sparse_learning_based import NDFS
        from skfeature.utility.sparse_learning import feature_ranking

        return some[feature_ranking(NDFS.ndfs(X, W=W, n_clusters=5))[:count]]

    return chooser


def spapros_columns(Z, spread, count):
    import anndata
    import spapros

    table = anndata.AnnData(Z * spread)
    found = spapros.se.select_pca_genes(table, count, inplace=False)
    return np.argsort(-found["selection_score"].to_numpy(), kind="stable")[:count]


def scmer_columns(Z, spread, count):
    import scmer

    some = np.argsort(-np.var(Z * spread, axis=0), kind="stable")[:500]
    model = scmer.UmapL1.tune(count, X=Z[:, some], perplexity=10.0, verbosity=0)
    return some[np.flatnonzero(model.get_mask())][:count]


PEERS = {
    "Panel": our_panel,
    "fastcan": fastcan_columns,
    "skfeature SPEC": skfeature_columns("SPEC"),
    "skfeature NDFS": skfeature_columns("NDFS"),
    "spapros PCA": spapros_columns,
    "scmer": scmer_columns,
}


def peers(splits):
    tables = labelled_tables(Data())
    print(f"{'':18} R2, nearest neighbours, clusters at {SIZES} columns")
    for name, chooser in PEERS.items():
        values, reason, start = [], None, time.perf_counter()
        for table in tables.values():
            for k in range(splits):
                split = split_of(table, FIRST_SEED + k)
                try:
                    order = chooser(split.train, split.spread, min(200, split.train.shape[1]))
                except Exception as error:  # whatever another package does
                    reason = f"{type(error).__name__}: {str(error)[:80]}"
                    break
                cut = [order[:size] for size in SIZES]
                values.append(
                    [
                        (rebuilt(split, c), neighbours_agree(split, c), clusters_agree(split, c))
                        for c in cut
                    ]
                )
            if reason:
                break
        if reason:
            print(f"{name:18} not measured: {reason}")
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
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--splits", type=int, default=2)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.peers:
        peers(arguments.splits)
    else:
        times(arguments.columns, arguments.repeats)
