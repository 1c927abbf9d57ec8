"""E19 and E20: do few columns do the work of all?

Beyond the papers. E19 takes seven tables with labels, chooses columns on 70 % of the rows without
looking at the labels, and asks of the others: how well are all columns rebuilt, do nearest
neighbours have the same label, do clusters? E20 takes cells sorted by FACS, whose labels do not
come from their genes, and asks a gene panel for their types and their neighbours.
"""

from __future__ import annotations

import time
import warnings
from itertools import combinations
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

from prosparse.models.panel import Panel

from .base import Claim, Experiment, Result, Row, figure_of, mean_row, saved
from .columns_peers import PEERS
from .data import Data

Array = np.ndarray

PAPER = "beyond the papers: few variables that do the work of all"
SIZES = (10, 20, 50, 100, 200)
FIRST_SEED = 10_000  # of splits on which nothing was chosen
ACCURACY = (0.72, 0.77, 0.82, 0.83, 0.83)  # asked for at these sizes
# Ridge penalties, of which leave-one-out errors choose one for all columns.
_PENALTIES = np.logspace(-1, 4, 16)


# --- E19: tables


class Labelled(NamedTuple):
    """A table and a label for every row."""

    X: Array
    y: Array


def labelled_tables(data: Data) -> dict[str, Labelled]:
    """The seven tables, prepared as is usual for each."""
    nci = data("nci60")
    kinds, counts = np.unique(nci["y"], return_counts=True)
    frequent = np.isin(nci["y"], kinds[counts >= 3])
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
    spread: Array  # standard deviations of the training rows


def split_of(table: Labelled, seed: int) -> Split:
    """70 % of the rows, 30 % of them, each label in the same shares; columns as the first see
    them."""
    splitter = StratifiedShuffleSplit(1, test_size=0.3, random_state=seed)
    train, test = next(splitter.split(table.X, table.y))
    mean, spread = table.X[train].mean(axis=0), table.X[train].std(axis=0)
    varying = spread > 1e-9 * spread.max()
    Z = (table.X[:, varying] - mean[varying]) / spread[varying]
    return Split(Z[train], Z[test], table.y[train], table.y[test], spread[varying])


# --- E19: measures


def rebuilt(split: Split, columns: Array) -> float:
    """The share of the sum of squares of all columns in test rows that ridge regression on some of
    them gives; one penalty, by leave-one-out errors."""
    A, n = split.train[:, columns], split.train.shape[0]
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    kept = s > 1e-9 * s[0]
    U, s, Vt = U[:, kept], s[kept], Vt[kept]
    along, errors = U.T @ split.train, []
    for penalty in _PENALTIES:
        kept_share = s**2 / (s**2 + penalty)
        residual = split.train - (U * kept_share) @ along
        left = np.maximum(1.0 - U**2 @ kept_share - 1.0 / n, 1e-8)  # the intercept takes 1 / n
        errors.append(np.sum(residual**2 / left[:, None] ** 2))
    penalty = _PENALTIES[int(np.argmin(errors))]
    predicted = (split.test[:, columns] @ (Vt.T * (s / (s**2 + penalty)))) @ along
    return 1.0 - float(np.sum((split.test - predicted) ** 2) / np.sum(split.test**2))


def neighbours_agree(split: Split, columns: Array) -> float:
    """Accuracy of five nearest neighbours."""
    model = KNeighborsClassifier(5).fit(split.train[:, columns], split.y_train)
    return float(model.score(split.test[:, columns], split.y_test))


def clusters_agree(split: Split, columns: Array) -> float:
    """Adjusted Rand index of k-means with as many clusters as there are labels."""
    rows = np.concatenate([split.train, split.test])[:, columns]
    labels = np.concatenate([split.y_train, split.y_test])
    found = KMeans(np.unique(labels).size, n_init=3, random_state=0).fit(rows)
    return float(adjusted_rand_score(labels, found.labels_))


def our_panel(Z: Array, spread: Array, count: int) -> Array:
    """`Panel`, on the columns as they came."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(Panel(count).fit(Z * spread).order_)


class Judgement(NamedTuple):
    """What one method's columns are worth on one split, at every size."""

    R2: Array
    accuracy: Array
    clusters: Array
    order: Array


def judged(split: Split, method: str, sizes: tuple[int, ...]) -> Judgement:
    """Choose and judge; principal features are chosen anew for every size, as they are defined."""
    chooser = our_panel if method == "Panel" else PEERS[method]
    largest = min(max(sizes), split.train.shape[1])
    order = chooser(split.train, split.spread, largest)
    rows = []
    for size in sizes:
        columns = order[:size]
        if method == "principal features":
            columns = chooser(split.train, split.spread, min(size, largest))
        rows.append(
            (rebuilt(split, columns), neighbours_agree(split, columns))
            + (clusters_agree(split, columns),)
        )
    R2, accuracy, clusters = np.array(rows).T
    return Judgement(R2, accuracy, clusters, order)


def overlap_of_choices(orders: list[Array], size: int) -> float:
    """Shared columns of two choices as a share of all of them, over all pairs of splits."""
    pairs = [
        np.intersect1d(a[:size], b[:size]).size / np.union1d(a[:size], b[:size]).size
        for a, b in combinations(orders, 2)
    ]
    return float(np.mean(pairs))


def promised_and_found(table: Labelled, seed: int) -> tuple[float, float, float, int]:
    """Of a panel whose size is left to the data: the share that it promises, the share that test
    rows show, the share of their entries in 95 % intervals, and its size."""
    splitter = StratifiedShuffleSplit(1, test_size=0.3, random_state=seed)
    train, test = next(splitter.split(table.X, table.y))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = Panel().fit(table.X[train])
    rest = table.X[test][:, ~model.support_]
    predicted, deviation = model.predict_unmeasured(model.select(table.X[test]), return_std=True)
    varies = deviation[0] > 0.0
    inside = np.abs(rest - predicted)[:, varies] <= 1.96 * deviation[:, varies]
    promised = float(model.heldout_r2_path_[model.n_selected_ - 1])
    return promised, model.score(table.X[test]), float(inside.mean()), model.n_selected_


def ranks_of(values: dict[str, Array]) -> dict[str, float]:
    """The mean rank of every method over (tables, sizes), 1 for the largest value."""
    names = list(values)
    table = np.stack([values[name].reshape(-1) for name in names])
    ranks = 1 + np.sum(table[None, :, :] > table[:, None, :], axis=1)
    ties = np.sum(table[None, :, :] == table[:, None, :], axis=1) - 1
    mean = np.mean(ranks + 0.5 * ties, axis=1)
    return dict(zip(names, mean.tolist(), strict=True))


def few_columns_of_tables(quick: bool, data: Data, output: Path) -> Result:
    """E19."""
    tables = labelled_tables(data)
    if quick:
        tables = {name: tables[name] for name in ("Golub", "TCGA mRNA")}
    splits = 1 if quick else 10
    sizes = (10, 20) if quick else SIZES
    methods = ("Panel", "forward selection", "random columns") if quick else ("Panel", *PEERS)
    found = {
        (name, method): [
            judged(split_of(table, FIRST_SEED + k), method, sizes) for k in range(splits)
        ]
        for name, table in tables.items()
        for method in methods
    }
    return summary(found, tables, methods, sizes, splits, output, quick)


def summary(
    found: dict[tuple[str, str], list[Judgement]],
    tables: dict[str, Labelled],
    methods: tuple[str, ...],
    sizes: tuple[int, ...],
    splits: int,
    output: Path,
    quick: bool,
) -> Result:
    """Rows, claims and the picture of E19 from what every method did on every split."""
    rows: list[Row] = []
    measures = ("R2", "accuracy", "clusters")
    means: dict[str, dict[str, Array]] = {measure: {} for measure in measures}
    for measure in measures:
        for method in methods:
            values = np.array(
                [[getattr(one, measure) for one in found[name, method]] for name in tables]
            )  # tables, splits, sizes
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
            shared = [
                overlap_of_choices([one.order for one in found[name, method]], 50)
                for name in tables
            ]
            rows.append(mean_row(f"stability, 50 columns, {method}", shared))
    kept = [
        promised_and_found(table, FIRST_SEED + k)
        for table in tables.values()
        for k in range(splits)
    ]
    promised, seen, inside, size = np.array(kept).reshape(len(tables), splits, 4).mean(axis=1).T
    for k, name in enumerate(tables):
        rows.append(Row(f"automatic size, {name}: columns", float(size[k])))
        rows.append(Row(f"automatic size, {name}: promised share", float(promised[k])))
        rows.append(Row(f"automatic size, {name}: share in test rows", float(seen[k])))
        rows.append(Row(f"automatic size, {name}: entries in 95 % intervals", float(inside[k])))
    ours = {measure: means[measure]["Panel"].mean(axis=0) for measure in measures}
    peers = [method for method in methods if method != "Panel"]
    best = np.max([means["R2"][method].mean(axis=0) for method in peers], axis=0)
    gap = float(np.max(best - ours["R2"]))
    slack = 0.2 if quick else 0.0
    claims = [
        Claim(
            "at every size the rebuilt share of all columns is within 0.01 of the best peer's",
            gap <= 0.01 + slack,
            f"largest difference {gap:.3f}",
        ),
        Claim(
            "nearest neighbours have the same label as often as asked for "
            f"({', '.join(map(str, ACCURACY[: len(sizes)]))})",
            bool(np.all(ours["accuracy"] >= np.array(ACCURACY[: len(sizes)]) - slack)),
            ", ".join(f"{value:.3f}" for value in ours["accuracy"]),
        ),
        *(
            Claim(
                f"mean rank of {what}: first"
                if most == 1
                else f"mean rank of {what}: {most} or better",
                sum(rank[measure][peer] < rank[measure]["Panel"] for peer in peers) < most,
                f"{rank[measure]['Panel']:.2f}; best peer "
                f"{min(rank[measure][peer] for peer in peers):.2f}",
            )
            for measure, what, most in (
                ("accuracy", "nearest neighbours", 1),
                ("clusters", "clusters", 1),
                ("R2", "rebuilding", 2),
            )
            if not quick
        ),
        Claim(
            "a panel of automatic size recovers what it promises, within 0.03 on each table",
            bool(np.all(np.abs(promised - seen) <= 0.03 + slack)),
            ", ".join(
                f"{name} {b - a:+.3f}" for name, a, b in zip(tables, promised, seen, strict=True)
            ),
        ),
        Claim(
            "95 % intervals of all other variables hold 93 to 97 % of test entries on each table",
            bool(np.all((inside >= 0.93 - slack) & (inside <= 0.97 + slack))),
            ", ".join(f"{value:.3f}" for value in inside),
        ),
    ]
    figure, axes = figure_of(3)
    titles = ("rebuilt share of all columns", "nearest neighbours", "clusters")
    for ax, measure, title in zip(axes[0], measures, titles, strict=True):
        for method in methods:
            bold = {"lw": 2.5, "color": "black", "zorder": 3} if method == "Panel" else {"lw": 1.0}
            ax.plot(sizes, means[measure][method].mean(axis=0), "o-", ms=3, label=method, **bold)
        ax.set(xscale="log", xlabel="columns", title=title)
        ax.set_xticks(sizes, [str(size) for size in sizes])
        ax.minorticks_off()
    axes[0][0].legend(frameon=False, fontsize=7)
    path = saved(figure, output / "E19_few_columns.png")
    seeds = f"{FIRST_SEED} to {FIRST_SEED + splits - 1}"
    remarks = (
        "Columns are chosen without labels on 70 % of the rows; means over seven tables and ten "
        "splits. The peers are written from their definitions."
    )
    return Result(rows, claims, [path], seeds, remarks)


# --- E20

GENES = (20, 50, 150)
_COMPONENTS = 20
_NEAREST = 50


class Cells(NamedTuple):
    """Counts of genes in cells, and their types."""

    counts: sparse.csr_array
    logs: Array  # log(1 + counts per ten thousand), dense
    y: Array
    neighbours: Array  # (cells, 50) by the first components of all genes


def sorted_cells(data: Data, least: float = 0.0) -> Cells:
    """Cells sorted by FACS, with the genes that at least a share ``least`` of them expresses."""
    arrays = data("facs")
    parts = (arrays["data"].astype(float), arrays["indices"], arrays["indptr"])
    counts = sparse.csr_array(parts, shape=tuple(arrays["shape"]))
    expressed = np.bincount(counts.indices, minlength=counts.shape[1]) >= least * counts.shape[0]
    counts = counts[:, np.flatnonzero(expressed)]
    totals = np.asarray(counts.sum(axis=1)).ravel()
    logs = sparse.csr_array(sparse.diags_array(1e4 / totals) @ counts)
    logs.data = np.log1p(logs.data)
    dense = logs.toarray().astype(np.float32)
    return Cells(counts, dense, arrays["y"], nearest(dense))


def nearest(X: Array) -> Array:
    """The nearest cells of every cell by the first components, itself left out."""
    scores = PCA(min(_COMPONENTS, X.shape[1]), random_state=0).fit_transform(X)
    found = NearestNeighbors(n_neighbors=_NEAREST + 1).fit(scores)
    return np.asarray(found.kneighbors(scores, return_distance=False)[:, 1:])


def types_told(cells: Cells, genes: Array) -> float:
    """Balanced accuracy of the types by logistic regression on some genes, five-fold."""
    X = StandardScaler().fit_transform(cells.logs[:, genes])
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    model = LogisticRegression(C=0.1, max_iter=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = cross_val_predict(model, X, cells.y, cv=folds)
    return float(balanced_accuracy_score(cells.y, told))


def neighbours_kept(cells: Cells, genes: Array) -> float:
    """The share of the nearest cells by all genes that are so by some genes."""
    found = nearest(cells.logs[:, genes])
    shared = [np.intersect1d(a, b).size for a, b in zip(found, cells.neighbours, strict=True)]
    return float(np.mean(shared)) / _NEAREST


def deviance_of(cells: Cells) -> Array:
    """Binomial deviance of every gene from a constant share (Townes et al. 2019)."""
    counts = cells.counts.tocsc()
    totals = np.asarray(cells.counts.sum(axis=1)).ravel()
    share = np.asarray(cells.counts.sum(axis=0)).ravel() / totals.sum()
    deviance = np.zeros(share.size)
    for gene in range(share.size):
        part = slice(counts.indptr[gene], counts.indptr[gene + 1])
        x, n = counts.data[part], totals[counts.indices[part]]
        if x.size == 0:
            continue
        inside = x * np.log(x / (n * share[gene]))
        outside = (n - x) * np.log((n - x) / (n * (1.0 - share[gene])))
        others = -(totals.sum() - n.sum()) * np.log1p(-share[gene])
        deviance[gene] = 2.0 * (float(np.sum(inside + outside)) + others)
    return deviance


def residual_loadings(cells: Cells) -> Array:
    """Length of the loadings of every gene on 20 components of Pearson residuals of a constant
    share, clipped at the root of the number of cells (Lause, Berens & Kobak 2021)."""
    totals = np.asarray(cells.counts.sum(axis=1)).ravel()
    share = np.asarray(cells.counts.sum(axis=0)).ravel() / totals.sum()
    expected = np.outer(totals, share).astype(np.float32)
    residual = (cells.counts.toarray().astype(np.float32) - expected) / np.sqrt(
        np.maximum(expected + expected**2 / 100.0, 1e-12)
    )
    limit = np.sqrt(totals.size)
    residual = np.clip(residual, -limit, limit)
    model = PCA(20, svd_solver="randomized", random_state=0).fit(residual)
    return np.sum(model.components_**2 * model.explained_variance_[:, None], axis=0)


def scanpy_flavour(cells: Cells, flavour: str) -> Array | None:
    """scanpy's highly variable genes, the best first; None where scanpy, or what it needs for the
    flavour, is not installed."""
    try:
        import anndata
        import scanpy
    except ImportError:
        return None
    X = cells.counts if flavour == "seurat_v3" else sparse.csr_array(cells.logs)
    table = anndata.AnnData(sparse.csr_matrix(X))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scanpy.pp.highly_variable_genes(table, flavor=flavour, n_top_genes=max(GENES))
    except ImportError:
        return None
    score = "variances_norm" if flavour == "seurat_v3" else "dispersions_norm"
    return np.argsort(-np.nan_to_num(table.var[score].to_numpy(), nan=-np.inf), kind="stable")


def gene_panels(quick: bool, data: Data, output: Path) -> Result:
    """E20."""
    cells = sorted_cells(data, least=0.2 if quick else 0.0)
    sizes = (20,) if quick else GENES
    start = time.perf_counter()
    model = Panel(max(sizes), counts=True).fit(cells.counts)
    seconds = time.perf_counter() - start
    orders: dict[str, Any] = {"Panel": model.order_}
    if not quick:
        orders |= {
            "deviance": np.argsort(-deviance_of(cells), kind="stable"),
            "PCA of residuals": np.argsort(-residual_loadings(cells), kind="stable"),
            "variance of log counts": np.argsort(-cells.logs.var(axis=0), kind="stable"),
            "scanpy, seurat": scanpy_flavour(cells, "seurat"),
            "scanpy, cell_ranger": scanpy_flavour(cells, "cell_ranger"),
            "scanpy, seurat_v3": scanpy_flavour(cells, "seurat_v3"),
        }
    orders = {name: order for name, order in orders.items() if order is not None}
    rows = [Row("Panel, seconds", seconds, note="on the machine of this run")]
    told, kept = {}, {}
    for name, order in orders.items():
        told[name] = [types_told(cells, order[:size]) for size in sizes]
        kept[name] = [neighbours_kept(cells, order[:size]) for size in sizes]
        for size, a, b in zip(sizes, told[name], kept[name], strict=True):
            rows.append(Row(f"{size} genes, {name}: balanced accuracy", a))
            rows.append(Row(f"{size} genes, {name}: neighbours kept", b))
    claims = []
    if not quick:
        found = (*told["Panel"][1:], *kept["Panel"][1:])
        claims = [
            Claim(
                "50 and 150 genes tell the types with a balanced accuracy of at least .79 and .84 "
                "and keep at least .21 and .30 of the neighbours",
                bool(np.all(np.array(found) >= np.array([0.79, 0.84, 0.21, 0.30]))),
                ", ".join(f"{value:.3f}" for value in found),
            ),
            Claim("the panel is chosen in less than 30 seconds", seconds < 30.0),
        ]
    figure, axes = figure_of(2)
    for ax, values, title in zip(
        axes[0], (told, kept), ("types told", "neighbours kept"), strict=True
    ):
        for name in orders:
            bold = {"lw": 2.5, "color": "black", "zorder": 3} if name == "Panel" else {"lw": 1.0}
            ax.plot(sizes, values[name], "o-", ms=4, label=name, **bold)
        ax.set(xscale="log", xlabel="genes", title=title)
        ax.set_xticks(sizes, [str(size) for size in sizes])
        ax.minorticks_off()
    axes[0][0].legend(frameon=False, fontsize=8)
    path = saved(figure, output / "E20_gene_panels.png")
    remarks = (
        "3,774 blood cells of ten types that were sorted by surface proteins, not by their genes. "
        "Types: logistic regression on standardised log counts of the panel's genes, five-fold. "
        "Neighbours: 50, by 20 components of the panel's genes and of all genes."
    )
    return Result(rows, claims, [path], "0", remarks)


EXPERIMENTS = (
    Experiment(
        "E19",
        "few variables",
        PAPER,
        ("golub", "colon", "nci60", "armstrong", "tcga", "urine", "mfeat"),
        few_columns_of_tables,
    ),
    Experiment("E20", "gene panels of sorted cells", PAPER, ("facs",), gene_panels),
)
