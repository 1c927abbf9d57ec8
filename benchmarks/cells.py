"""Compare unsupervised gene panels: ranking of GSPPCA and highly variable genes of scanpy.

    python -m benchmarks.cells                     # ten minutes; requires PROSPARSE_DATA
    python -m benchmarks.cells --seeds 5           # fewer seeds
    python -m benchmarks.cells --plot docs/images/gene_panel.png
    python -m benchmarks.cells --min-cells 3       # without rarely expressed genes

The data are 2,700 blood cells with all genes, counts normalised to 10,000 per cell and
log-transformed. The first 200, 500, 1000 and 2000 genes of each ranking are reduced to 30 principal
components and clustered by k-means (10 starts). The adjusted Rand index compares the clusters with
the annotated types of 2,638 cells: mean and standard deviation over seeds of k-means. The rankings
do not use the types. Time and memory are measured in separate processes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np

PANELS = (200, 500, 1000, 2000)
COMPONENTS = (10, 20, 30)  # of GSPPCA; the guide uses 30, as for k-means
CLUSTERS = (8, 9)  # nine annotated types, one of them (platelets) with 14 cells


def load_cells(min_cells=0):
    """Return sparse normalised log counts, preprocessed with scanpy."""
    import scanpy

    from papers.cells import load_pbmc3k

    adata = load_pbmc3k()
    if min_cells:
        scanpy.pp.filter_genes(adata, min_cells=min_cells)
    scanpy.pp.normalize_total(adata, target_sum=1e4)
    scanpy.pp.log1p(adata)
    return adata


def highly_variable(adata, flavor):
    """Rank genes by the normalised dispersion of scanpy."""
    import scanpy

    genes = np.arange(adata.n_vars)
    if flavor == "cell_ranger":  # Its quantile bins require expressed genes.
        genes = np.flatnonzero(np.asarray((adata.X > 0).sum(axis=0)).ravel() >= 3)
    table = scanpy.pp.highly_variable_genes(
        adata[:, genes], flavor=flavor, n_top_genes=2000, inplace=False
    )
    score = table["dispersions_norm"].to_numpy()
    order = np.argsort(-np.where(np.isnan(score), -np.inf, score), kind="stable")
    assert set(order[:2000]) == set(np.flatnonzero(table["highly_variable"]))
    return genes[order]


def rank_by_variance(adata):
    """Rank genes by the variance of log counts."""
    X = adata.X
    mean = np.asarray(X.mean(axis=0)).ravel()
    return np.argsort(mean**2 - np.asarray(X.multiply(X).mean(axis=0)).ravel(), kind="stable")


def rank_by_relevance(adata, n_components):
    """Rank genes by GSPPCA."""
    import prosparse.anndata as psa

    psa.tl.gsppca(adata, n_components, refine=False)
    return np.argsort(adata.var["gsppca_ranking"].to_numpy())


def agreement(adata, genes, k, seeds):
    """Return the adjusted Rand index of k-means on principal components, for each seed."""
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA
    from sklearn.metrics import adjusted_rand_score

    known = adata.obs["cell_type"].notna().to_numpy()
    types = adata.obs["cell_type"].astype(str).to_numpy()[known]
    scores = PCA(30, svd_solver="full").fit_transform(adata.X[:, np.sort(genes)].toarray())
    clusters = (KMeans(k, n_init=10, random_state=s).fit_predict(scores) for s in range(seeds))
    return np.array([adjusted_rand_score(types, found[known]) for found in clusters])


def peak_resident():
    """Return peak resident memory in bytes; getrusage would include the parent process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return 1024 * int(line.split()[1])
    raise OSError("The peak of resident memory is not available on this system.")


def measure(n_components, traced, min_cells):
    """Print seconds and additional memory of selection and projection (separate process)."""
    import prosparse.anndata as psa

    adata = load_cells(min_cells)
    before = peak_resident()
    if traced:
        tracemalloc.start()
    wall, cpu = time.perf_counter(), time.process_time()
    psa.tl.gsppca(adata, n_components)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = tracemalloc.get_traced_memory()[1] if traced else peak_resident() - before
    n_selected = int(adata.var["gsppca"].sum())
    print(json.dumps({"wall": wall, "cpu": cpu, "peak": peak, "n_selected": n_selected}))


def run_in_process(n_components, traced, min_cells):
    """Run `measure` in a separate process."""
    command = [sys.executable, "-W", "ignore", __file__, "--measure", str(n_components)]
    command += ["--min-cells", str(min_cells), *(["--traced"] if traced else [])]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(out.splitlines()[-1])


def print_costs(shape, min_cells):
    """Print time and memory of GSPPCA."""
    dense = 8 * shape[0] * shape[1] / 2**20
    print(f"selection and projection, {shape[0]} x {shape[1]}; dense size {dense:.0f} MiB")
    for d in COMPONENTS:
        plain, traced = (run_in_process(d, traced, min_cells) for traced in (False, True))
        print(
            f"  {d} components: {plain['cpu']:.1f} s CPU time ({plain['wall']:.1f} s wall time), "
            f"{plain['n_selected']} genes selected by the evidence;\n"
            f"    peak additional memory: {plain['peak'] / 2**20:.0f} MiB resident, "
            f"{traced['peak'] / 2**20:.0f} MiB of arrays",
            flush=True,
        )


def plot_agreement(results, adata, orders, path):
    """Plot agreement against panel size, and the genes of two panels of 500."""
    from matplotlib import pyplot

    ours, theirs = "GSPPCA, 30 components", "highly variable, seurat"
    styles = {
        ours: ("#c2410c", "o"),
        theirs: ("#1e4e79", "s"),
        "highly variable, cell_ranger": ("#6b8fb3", "^"),
        "variance": ("#6b7280", "v"),
    }
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10.0, 4.2), layout="constrained")
    for name, (colour, marker) in styles.items():
        mean, spread = (np.array([f(ari) for ari in results[name]]) for f in (np.mean, np.std))
        left.errorbar(PANELS, mean, spread, color=colour, marker=marker, capsize=3, label=name)
    left.set(xscale="log", ylim=(0, 0.8), xlabel="genes in the panel")
    left.set_xticks(PANELS, [f"{size:,}" for size in PANELS])
    left.minorticks_off()
    left.set_ylabel("adjusted Rand index with annotated types")
    left.legend(frameon=False, loc="lower right")
    X = adata.X
    proportion = np.asarray((X > 0).mean(axis=0)).ravel()
    mean = np.asarray(X.mean(axis=0)).ravel()
    variance = np.asarray(X.multiply(X).mean(axis=0)).ravel() - mean**2
    seen = np.flatnonzero(proportion > 0)
    points = [(seen, "#d1d5db", "all genes", 3.0)]
    points += [
        (orders[name][:500], styles[name][0], f"{name}, first 500", 7.0) for name in (theirs, ours)
    ]
    for genes, colour, label, size in points:
        right.scatter(proportion[genes], variance[genes], size, colour, label=label, linewidths=0)
    right.set(xscale="log", yscale="log", xlabel="proportion of cells that express the gene")
    right.set_ylabel("variance of log expression")
    right.legend(frameon=False, loc="upper left", markerscale=2)
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--min-cells", type=int, default=0)
    parser.add_argument("--plot", help="file for the plot of the guide")
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--traced", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # scanpy warns.
    if options.measure:
        measure(options.measure, options.traced, options.min_cells)
        return
    try:
        adata = load_cells(options.min_cells)
    except (FileNotFoundError, ImportError) as error:
        parser.exit(1, f"{error}\n")
    print_costs(adata.shape, options.min_cells)
    orders = {f"GSPPCA, {d} components": rank_by_relevance(adata, d) for d in COMPONENTS}
    for flavor in ("seurat", "cell_ranger"):
        orders[f"highly variable, {flavor}"] = highly_variable(adata, flavor)
    orders["variance"] = rank_by_variance(adata)
    plotted = {}
    for k in CLUSTERS:
        print(f"adjusted Rand index, {k} clusters, {options.seeds} seeds; genes:", *PANELS)
        for name, order in orders.items():
            results = [agreement(adata, order[:size], k, options.seeds) for size in PANELS]
            plotted.setdefault(name, results)  # the first number of clusters
            text = "  ".join(f"{ari.mean():.3f} +- {ari.std():.3f}" for ari in results)
            print(f"  {name:28s} {text}", flush=True)
    if options.plot:
        plot_agreement(plotted, adata, orders, options.plot)


if __name__ == "__main__":
    main()
