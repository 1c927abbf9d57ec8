"""E19 and E20: small panels of variables that represent all variables.

Not from a paper. E19 selects columns of seven labelled datasets on 70 % of the rows, without the
labels. The remaining rows measure the reconstruction of all columns, nearest-neighbour accuracy and
the agreement of clusters with the labels. E20 selects genes of FACS-sorted cells, whose labels are
independent of gene expression, and measures classification and preservation of neighbours.
"""

from __future__ import annotations

import time
import warnings
from itertools import combinations, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score, balanced_accuracy_score
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.preprocessing import StandardScaler
from sklearn.utils.parallel import Parallel, delayed

from prosparse.models.panel import Panel

from .base import Claim, Experiment, Result, Row, make_figure, mean_row, save_figure
from .competing_selection import COMPETING_METHODS
from .data import Data

Array = np.ndarray

PAPER = "Not from a paper: small panels of variables"
SIZES = (10, 20, 50, 100, 200)
FIRST_SEED = 10_000  # first seed of the independent test splits
MIN_ACCURACY = (0.72, 0.77, 0.82, 0.83, 0.83)  # required accuracy at these sizes
# Ridge penalties; the leave-one-out error selects one for all columns.
PENALTIES = np.logspace(-1, 4, 16)


# --- E19: datasets


class Labelled(NamedTuple):
    """A data matrix with row labels."""

    X: Array
    y: Array


def labelled_datasets(data: Data) -> dict[str, Labelled]:
    """Return the seven datasets with their customary preprocessing."""
    nci = data("nci60")
    types, counts = np.unique(nci["y"], return_counts=True)
    frequent = np.isin(nci["y"], types[counts >= 3])
    armstrong = np.clip(data("armstrong")["X"].astype(float), 100.0, 16_000.0)
    return {
        "Golub": Labelled(data("golub")["X"].astype(float), data("golub")["y"]),
        "colon": Labelled(np.log2(data("colon")["X"].astype(float)), data("colon")["y"]),
        "NCI60": Labelled(nci["X"][frequent].astype(float), nci["y"][frequent]),
        "Armstrong": Labelled(np.log2(armstrong), data("armstrong")["y"]),
        "TCGA mRNA": Labelled(data("tcga")["mrna_train"].astype(float), data("tcga")["y_train"]),
        "urine": Labelled(data("urine")["X"].astype(float), data("urine")["y_donor"]),
        "digits, pixels": Labelled(data("mfeat")["pix"].astype(float), data("mfeat")["y"]),
    }


class Split(NamedTuple):
    """Standardised training and test rows."""

    train: Array
    test: Array
    y_train: Array
    y_test: Array
    column_std: Array  # standard deviations of the training rows


def split_rows(dataset: Labelled, seed: int) -> Split:
    """Split the rows 70:30, stratified by label, and standardise by the training rows."""
    splitter = StratifiedShuffleSplit(1, test_size=0.3, random_state=seed)
    train, test = next(splitter.split(dataset.X, dataset.y))
    mean, column_std = dataset.X[train].mean(axis=0), dataset.X[train].std(axis=0)
    varying = column_std > 1e-9 * column_std.max()
    Z = (dataset.X[:, varying] - mean[varying]) / column_std[varying]
    return Split(Z[train], Z[test], dataset.y[train], dataset.y[test], column_std[varying])


# --- E19: measures


def reconstruction_r2(split: Split, columns: Array) -> float:
    """Return the test R2 of all columns by ridge regression on some columns.

    The leave-one-out error selects one penalty for all columns.
    """
    A, n = split.train[:, columns], split.train.shape[0]
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    nonzero = s > 1e-9 * s[0]
    U, s, Vt = U[:, nonzero], s[nonzero], Vt[nonzero]
    projected, errors = U.T @ split.train, []
    for penalty in PENALTIES:
        shrinkage = s**2 / (s**2 + penalty)
        residual = split.train - (U * shrinkage) @ projected
        # Leave-one-out residuals: divide by one minus the leverage; 1 / n is the intercept.
        unleveraged = np.maximum(1.0 - U**2 @ shrinkage - 1.0 / n, 1e-8)
        errors.append(np.sum(residual**2 / unleveraged[:, None] ** 2))
    penalty = PENALTIES[int(np.argmin(errors))]
    predicted = (split.test[:, columns] @ (Vt.T * (s / (s**2 + penalty)))) @ projected
    return 1.0 - float(np.sum((split.test - predicted) ** 2) / np.sum(split.test**2))


def neighbour_accuracy(split: Split, columns: Array) -> float:
    """Return the test accuracy of five nearest neighbours."""
    model = KNeighborsClassifier(5).fit(split.train[:, columns], split.y_train)
    return float(model.score(split.test[:, columns], split.y_test))


def cluster_agreement(split: Split, columns: Array) -> float:
    """Return the adjusted Rand index of k-means with one cluster per label."""
    rows = np.concatenate([split.train, split.test])[:, columns]
    labels = np.concatenate([split.y_train, split.y_test])
    clusters = KMeans(np.unique(labels).size, n_init=3, random_state=0).fit(rows)
    return float(adjusted_rand_score(labels, clusters.labels_))


def panel_columns(Z: Array, column_std: Array, count: int) -> Array:
    """Select columns by `Panel` on the raw columns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(Panel(count).fit(Z * column_std).order_)


class Evaluation(NamedTuple):
    """Measures of one method on one split, one value per panel size."""

    R2: Array
    accuracy: Array
    clusters: Array
    order: Array


def evaluate(split: Split, method: str, sizes: tuple[int, ...]) -> Evaluation:
    """Select and evaluate columns.

    Principal feature analysis is run for each size, because its selections are not nested.
    """
    select = panel_columns if method == "Panel" else COMPETING_METHODS[method]
    largest = min(max(sizes), split.train.shape[1])
    order = select(split.train, split.column_std, largest)
    rows = []
    for size in sizes:
        columns = order[:size]
        if method == "principal features":
            columns = select(split.train, split.column_std, min(size, largest))
        rows.append(
            (reconstruction_r2(split, columns), neighbour_accuracy(split, columns))
            + (cluster_agreement(split, columns),)
        )
    R2, accuracy, clusters = np.array(rows).T
    return Evaluation(R2, accuracy, clusters, order)


def mean_jaccard(orders: list[Array], size: int) -> float:
    """Return the mean Jaccard index of the first columns over all pairs of splits."""
    pairs = [
        np.intersect1d(a[:size], b[:size]).size / np.union1d(a[:size], b[:size]).size
        for a, b in combinations(orders, 2)
    ]
    return float(np.mean(pairs))


def evaluate_default(dataset: Labelled, seed: int) -> tuple[float, float, float, int]:
    """Evaluate a panel of automatically selected size.

    Returns its estimated R2, its test R2, the coverage of 95 % intervals and its size.
    """
    splitter = StratifiedShuffleSplit(1, test_size=0.3, random_state=seed)
    train, test = next(splitter.split(dataset.X, dataset.y))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = Panel().fit(dataset.X[train])
    rest = dataset.X[test][:, ~model.support_]
    predicted, deviation = model.predict_unmeasured(model.select(dataset.X[test]), return_std=True)
    varies = deviation[0] > 0.0
    inside = np.abs(rest - predicted)[:, varies] <= 1.96 * deviation[:, varies]
    estimated = float(model.heldout_r2_path_[model.n_selected_ - 1])
    return estimated, model.score(dataset.X[test]), float(inside.mean()), model.n_selected_


def ranks_of(values: dict[str, Array]) -> dict[str, float]:
    """Return the mean rank of each method over datasets and sizes; rank 1 is the largest value."""
    names = list(values)
    table = np.stack([values[name].reshape(-1) for name in names])
    ranks = 1 + np.sum(table[None, :, :] > table[:, None, :], axis=1)
    ties = np.sum(table[None, :, :] == table[:, None, :], axis=1) - 1
    mean = np.mean(ranks + 0.5 * ties, axis=1)
    return dict(zip(names, mean.tolist(), strict=True))


def small_panels(quick: bool, data: Data, output: Path) -> Result:
    """Run E19. joblib runs the splits, in parallel within ``joblib.parallel_config(n_jobs=8)``."""
    datasets = labelled_datasets(data)
    if quick:
        datasets = {name: datasets[name] for name in ("Golub", "TCGA mRNA")}
    splits = 1 if quick else 10
    sizes = (10, 20) if quick else SIZES
    methods = (
        ("Panel", "forward selection", "random columns") if quick else ("Panel", *COMPETING_METHODS)
    )
    pairs = [(name, method) for name in datasets for method in methods]
    evaluations: list[Evaluation] = Parallel()(
        delayed(evaluate)(split_rows(datasets[name], FIRST_SEED + k), method, sizes)
        for name, method in pairs
        for k in range(splits)
    )
    parts = iter(evaluations)
    results = {pair: list(islice(parts, splits)) for pair in pairs}
    return summarise(results, datasets, methods, sizes, splits, output, quick)


def summarise(
    results: dict[tuple[str, str], list[Evaluation]],
    datasets: dict[str, Labelled],
    methods: tuple[str, ...],
    sizes: tuple[int, ...],
    splits: int,
    output: Path,
    quick: bool,
) -> Result:
    """Return rows, claims and plot of E19 from the evaluations of all methods."""
    rows: list[Row] = []
    measures = ("R2", "accuracy", "clusters")
    means: dict[str, dict[str, Array]] = {measure: {} for measure in measures}
    for measure in measures:
        for method in methods:
            values = np.array(
                [[getattr(e, measure) for e in results[name, method]] for name in datasets]
            )  # datasets, splits, sizes
            means[measure][method] = values.mean(axis=1)
            for k, size in enumerate(sizes):
                rows.append(
                    mean_row(f"{measure}, {size} columns, {method}", values[:, :, k].mean(0))
                )
    rank = {measure: ranks_of(means[measure]) for measure in measures}
    for measure in measures:
        for method in methods:
            rows.append(Row(f"{measure}, mean rank, {method}", rank[measure][method]))
    if splits > 1:
        for method in methods:
            overlap = [
                mean_jaccard([e.order for e in results[name, method]], 50) for name in datasets
            ]
            rows.append(mean_row(f"stability, 50 columns, {method}", overlap))
    automatic: list[tuple[float, float, float, int]] = Parallel()(
        delayed(evaluate_default)(dataset, FIRST_SEED + k)
        for dataset in datasets.values()
        for k in range(splits)
    )
    estimated, test, coverage, size = (
        np.array(automatic).reshape(len(datasets), splits, 4).mean(axis=1).T
    )
    for k, name in enumerate(datasets):
        rows.append(Row(f"automatic size, {name}: columns", float(size[k])))
        rows.append(Row(f"automatic size, {name}: estimated R2", float(estimated[k])))
        rows.append(Row(f"automatic size, {name}: test R2", float(test[k])))
        rows.append(Row(f"automatic size, {name}: coverage of 95 % intervals", float(coverage[k])))
    ours = {measure: means[measure]["Panel"].mean(axis=0) for measure in measures}
    competing = [method for method in methods if method != "Panel"]
    best = np.max([means["R2"][method].mean(axis=0) for method in competing], axis=0)
    gap = float(np.max(best - ours["R2"]))
    slack = 0.2 if quick else 0.0
    claims = [
        Claim(
            "at every size the R2 of all columns is within 0.01 of the best competing method",
            gap <= 0.01 + slack,
            f"largest difference {gap:.3f}",
        ),
        Claim(
            "nearest-neighbour accuracy reaches the targets "
            f"({', '.join(map(str, MIN_ACCURACY[: len(sizes)]))})",
            bool(np.all(ours["accuracy"] >= np.array(MIN_ACCURACY[: len(sizes)]) - slack)),
            ", ".join(f"{value:.3f}" for value in ours["accuracy"]),
        ),
        *(
            Claim(
                f"mean rank of {label}: first"
                if max_rank == 1
                else f"mean rank of {label}: {max_rank} or better",
                sum(rank[measure][other] < rank[measure]["Panel"] for other in competing)
                < max_rank,
                f"{rank[measure]['Panel']:.2f}; best competing method "
                f"{min(rank[measure][other] for other in competing):.2f}",
            )
            for measure, label, max_rank in (
                ("accuracy", "nearest-neighbour accuracy", 1),
                ("clusters", "cluster agreement", 1),
                ("R2", "R2", 2),
            )
            if not quick
        ),
        Claim(
            "with automatic size, test R2 is within 0.03 of estimated R2 on each dataset",
            bool(np.all(np.abs(estimated - test) <= 0.03 + slack)),
            ", ".join(
                f"{name} {b - a:+.3f}" for name, a, b in zip(datasets, estimated, test, strict=True)
            ),
        ),
        Claim(
            "95 % intervals of the unmeasured variables cover 93 to 97 % of test values on each "
            "dataset",
            bool(np.all((coverage >= 0.93 - slack) & (coverage <= 0.97 + slack))),
            ", ".join(f"{value:.3f}" for value in coverage),
        ),
    ]
    figure, axes = make_figure(3)
    titles = ("R2 of all columns", "nearest-neighbour accuracy", "cluster agreement")
    for ax, measure, title in zip(axes[0], measures, titles, strict=True):
        for method in methods:
            bold = {"lw": 2.5, "color": "black", "zorder": 3} if method == "Panel" else {"lw": 1.0}
            ax.plot(sizes, means[measure][method].mean(axis=0), "o-", ms=3, label=method, **bold)
        ax.set(xscale="log", xlabel="columns", title=title)
        ax.set_xticks(sizes, [str(size) for size in sizes])
        ax.minorticks_off()
    axes[0][0].legend(frameon=False, fontsize=7)
    path = save_figure(figure, output / "E19_few_columns.png")
    seeds = f"{FIRST_SEED} to {FIRST_SEED + splits - 1}"
    remarks = (
        "Columns are selected without labels on 70 % of the rows. Results are means over seven "
        "datasets and ten splits. The competing methods are implemented from their definitions."
    )
    return Result(rows, claims, [path], seeds, remarks)


# --- E20

GENES = (20, 50, 150)
N_COMPONENTS = 20
N_NEAREST = 50


class Cells(NamedTuple):
    """Gene counts of cells, and the cell types."""

    counts: sparse.csr_array
    logs: Array  # log(1 + counts per ten thousand), dense
    y: Array
    neighbours: Array  # (cells, 50), by the leading components of all genes


def sorted_cells(data: Data, min_proportion: float = 0.0) -> Cells:
    """Return FACS-sorted cells and the genes expressed in at least ``min_proportion`` of them."""
    arrays = data("facs")
    parts = (arrays["data"].astype(float), arrays["indices"], arrays["indptr"])
    counts = sparse.csr_array(parts, shape=tuple(arrays["shape"]))
    n_expressing = np.bincount(counts.indices, minlength=counts.shape[1])
    expressed = n_expressing >= min_proportion * counts.shape[0]
    counts = counts[:, np.flatnonzero(expressed)]
    totals = np.asarray(counts.sum(axis=1)).ravel()
    logs = sparse.csr_array(sparse.diags_array(1e4 / totals) @ counts)
    logs.data = np.log1p(logs.data)
    dense = logs.toarray().astype(np.float32)
    return Cells(counts, dense, arrays["y"], nearest_cells(dense))


def nearest_cells(X: Array) -> Array:
    """Return the nearest other cells of each cell by the leading components."""
    scores = PCA(min(N_COMPONENTS, X.shape[1]), random_state=0).fit_transform(X)
    model = NearestNeighbors(n_neighbors=N_NEAREST + 1).fit(scores)
    return np.asarray(model.kneighbors(scores, return_distance=False)[:, 1:])


def type_accuracy(cells: Cells, genes: Array) -> float:
    """Return the five-fold balanced accuracy of logistic regression on the genes."""
    X = StandardScaler().fit_transform(cells.logs[:, genes])
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    model = LogisticRegression(C=0.1, max_iter=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predicted = cross_val_predict(model, X, cells.y, cv=folds)
    return float(balanced_accuracy_score(cells.y, predicted))


def neighbours_preserved(cells: Cells, genes: Array) -> float:
    """Return the proportion of nearest cells by all genes that are nearest by the given genes."""
    neighbours = nearest_cells(cells.logs[:, genes])
    shared = [np.intersect1d(a, b).size for a, b in zip(neighbours, cells.neighbours, strict=True)]
    return float(np.mean(shared)) / N_NEAREST


def binomial_deviance(cells: Cells) -> Array:
    """Return the binomial deviance of each gene from a constant rate (Townes et al. 2019)."""
    counts = cells.counts.tocsc()
    totals = np.asarray(cells.counts.sum(axis=1)).ravel()
    rate = np.asarray(cells.counts.sum(axis=0)).ravel() / totals.sum()
    deviance = np.zeros(rate.size)
    for gene in range(rate.size):
        part = slice(counts.indptr[gene], counts.indptr[gene + 1])
        x, n = counts.data[part], totals[counts.indices[part]]
        if x.size == 0:
            continue
        inside = x * np.log(x / (n * rate[gene]))
        outside = (n - x) * np.log((n - x) / (n * (1.0 - rate[gene])))
        others = -(totals.sum() - n.sum()) * np.log1p(-rate[gene])
        deviance[gene] = 2.0 * (float(np.sum(inside + outside)) + others)
    return deviance


def residual_loadings(cells: Cells) -> Array:
    """Return the norm of each gene's loadings on 20 components of Pearson residuals.

    Residuals are clipped at the square root of the number of cells (Lause, Berens & Kobak 2021).
    """
    totals = np.asarray(cells.counts.sum(axis=1)).ravel()
    rate = np.asarray(cells.counts.sum(axis=0)).ravel() / totals.sum()
    expected = np.outer(totals, rate).astype(np.float32)
    residual = (cells.counts.toarray().astype(np.float32) - expected) / np.sqrt(
        np.maximum(expected + expected**2 / 100.0, 1e-12)
    )
    limit = np.sqrt(totals.size)
    residual = np.clip(residual, -limit, limit)
    model = PCA(20, svd_solver="randomized", random_state=0).fit(residual)
    return np.sum(model.components_**2 * model.explained_variance_[:, None], axis=0)


def scanpy_flavour(cells: Cells, flavour: str) -> Array | None:
    """Return the ranking of scanpy's highly variable genes.

    None is returned if scanpy, or a package that the flavour requires, is not installed.
    """
    try:
        import anndata
        import scanpy
    except ImportError:
        return None
    X = cells.counts if flavour == "seurat_v3" else sparse.csr_array(cells.logs)
    annotated = anndata.AnnData(sparse.csr_matrix(X))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scanpy.pp.highly_variable_genes(annotated, flavor=flavour, n_top_genes=max(GENES))
    except ImportError:
        return None
    score = "variances_norm" if flavour == "seurat_v3" else "dispersions_norm"
    return np.argsort(-np.nan_to_num(annotated.var[score].to_numpy(), nan=-np.inf), kind="stable")


def gene_panels(quick: bool, data: Data, output: Path) -> Result:
    """Run E20."""
    cells = sorted_cells(data, min_proportion=0.2 if quick else 0.0)
    sizes = (20,) if quick else GENES
    start = time.perf_counter()
    model = Panel(max(sizes), counts=True).fit(cells.counts)
    seconds = time.perf_counter() - start
    orders: dict[str, Any] = {"Panel": model.order_}
    if not quick:
        orders |= {
            "deviance": np.argsort(-binomial_deviance(cells), kind="stable"),
            "PCA of residuals": np.argsort(-residual_loadings(cells), kind="stable"),
            "variance of log counts": np.argsort(-cells.logs.var(axis=0), kind="stable"),
            "scanpy, seurat": scanpy_flavour(cells, "seurat"),
            "scanpy, cell_ranger": scanpy_flavour(cells, "cell_ranger"),
            "scanpy, seurat_v3": scanpy_flavour(cells, "seurat_v3"),
        }
    orders = {name: order for name, order in orders.items() if order is not None}
    rows = [Row("Panel: fit time in seconds", seconds, note="machine-dependent")]
    accuracy, preserved = {}, {}
    for name, order in orders.items():
        accuracy[name] = [type_accuracy(cells, order[:size]) for size in sizes]
        preserved[name] = [neighbours_preserved(cells, order[:size]) for size in sizes]
        for size, a, b in zip(sizes, accuracy[name], preserved[name], strict=True):
            rows.append(Row(f"{size} genes, {name}: balanced accuracy", a))
            rows.append(Row(f"{size} genes, {name}: proportion of neighbours preserved", b))
    claims = []
    if not quick:
        values = np.array([*accuracy["Panel"][1:], *preserved["Panel"][1:]])
        claims = [
            Claim(
                "50 and 150 genes reach balanced accuracies of 0.79 and 0.84 and preserve "
                "proportions 0.21 and 0.30 of the neighbours",
                bool(np.all(values >= np.array([0.79, 0.84, 0.21, 0.30]))),
                ", ".join(f"{value:.3f}" for value in values),
            ),
        ]
    figure, axes = make_figure(2)
    for ax, curves, title in zip(
        axes[0],
        (accuracy, preserved),
        ("balanced accuracy", "proportion of neighbours preserved"),
        strict=True,
    ):
        for name in orders:
            bold = {"lw": 2.5, "color": "black", "zorder": 3} if name == "Panel" else {"lw": 1.0}
            ax.plot(sizes, curves[name], "o-", ms=4, label=name, **bold)
        ax.set(xscale="log", xlabel="genes", title=title)
        ax.set_xticks(sizes, [str(size) for size in sizes])
        ax.minorticks_off()
    axes[0][0].legend(frameon=False, fontsize=8)
    path = save_figure(figure, output / "E20_gene_panels.png")
    remarks = (
        "The data are 3,774 blood cells of ten types, sorted by surface proteins and not by gene "
        "expression. Balanced accuracy: five-fold logistic regression on standardised log counts "
        "of the panel genes. Neighbours: the 50 nearest cells by 20 components of the panel genes "
        "and of all genes."
    )
    return Result(rows, claims, [path], "0", remarks)


EXPERIMENTS = (
    Experiment(
        "E19",
        "Small panels of variables",
        PAPER,
        ("golub", "colon", "nci60", "armstrong", "tcga", "urine", "mfeat"),
        small_panels,
    ),
    Experiment("E20", "Gene panels of sorted cells", PAPER, ("facs",), gene_panels),
)
