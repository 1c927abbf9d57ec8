"""E31: FDRPCA and Panel of counts in place of highly variable genes and PCA.

Not from a paper. The data are 3,774 blood cells of ten types, sorted by surface proteins and not by
gene expression (Zheng et al. 2017). The embedding of ``FDRPCA(counts=True)`` is compared with PCA
of log counts, of all genes and of highly variable ones. *Rare types*: of one type, only 8 or 20
cells are used, beside at most 100 of each other type. *Batches*: the genes of two batches have
distorted proportions.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.utils.parallel import Parallel, delayed

from prosparse.models.fdrpca import FDRPCA
from prosparse.models.panel import Panel

from .base import Claim, Experiment, PageTable, Result, claim_at_least, mean_row, seed_range
from .data import Data
from .variable_genes import FLAVOURS

Array = np.ndarray

PAPER = "Not from a paper: single cells"
N_SEEDS = 5
N_GENES = 2000  # number of highly variable genes
N_COMPONENTS = 50  # as in scanpy
N_NEIGHBOURS = 15
N_PANEL = 150
N_MARKERS = 20  # markers of a rare type
MAX_CELLS = 100  # of each type that is not rare
RARE_TYPES = ("CD14+ Monocyte", "CD34+", "CD19+ B")
RARE_SIZES = (8, 20)
BATCH_SD = 0.4  # standard deviation of the log factor of a gene between batches
EMBEDDINGS = (
    "FDRPCA",
    "FDRPCA, 2,000 genes",
    "all genes",
    *(f"{flavour}, 2,000 genes" for flavour in FLAVOURS),
)


class Sorted(NamedTuple):
    """Counts of cells and their types."""

    counts: sparse.csr_array
    types: Array


def load_sorted(data: Data) -> Sorted:
    """Return all sorted cells."""
    arrays = data("facs")
    parts = (arrays["data"].astype(float), arrays["indices"], arrays["indptr"])
    counts = sparse.csr_array(parts, shape=tuple(arrays["shape"]))
    return Sorted(counts, np.asarray(arrays["y"]))


def expressed(counts: sparse.csr_array) -> sparse.csr_array:
    """Return the genes that at least three cells express."""
    cells = np.bincount(counts.indices, minlength=counts.shape[1])
    return sparse.csr_array(counts[:, np.flatnonzero(cells >= 3)])


def log_counts(counts: sparse.csr_array) -> sparse.csr_array:
    """Return log(1 + counts per ten thousand)."""
    totals = np.asarray(counts.sum(axis=1)).ravel()
    logs = sparse.csr_array(sparse.diags_array(1e4 / totals) @ counts)
    logs.data = np.log1p(logs.data)
    return logs


def components_of(logs: sparse.csr_array, genes: Array | None, batch: Array | None = None) -> Array:
    """Return the scores of a PCA of log counts, centred within batches."""
    X = (logs if genes is None else logs[:, np.sort(genes)]).toarray()
    for label in np.unique(batch) if batch is not None else ():
        X[batch == label] -= X[batch == label].mean(axis=0)
    model = PCA(N_COMPONENTS, svd_solver="randomized", random_state=0)
    return np.asarray(model.fit_transform(X))


def embed(counts: sparse.csr_array) -> dict[str, Array]:
    """Return the scores of the cells by each method."""
    logs = log_counts(counts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = FDRPCA(counts=True).fit(counts)
        scores = {"FDRPCA": np.asarray(model.transform(counts))}
    top = np.argsort(model.ranking_)[: min(N_GENES, model.n_selected_)]
    scores["FDRPCA, 2,000 genes"] = components_of(logs, top)
    scores["all genes"] = components_of(logs, None)
    for flavour, rank in FLAVOURS.items():
        scores[f"{flavour}, 2,000 genes"] = components_of(logs, rank(counts, logs)[:N_GENES])
    return scores


def agreement(scores: Array, types: Array, seed: int) -> float:
    """Return the adjusted Rand index of k-means with the types."""
    k = np.unique(types).size
    clusters = KMeans(k, n_init=10, random_state=seed).fit_predict(scores)
    return float(adjusted_rand_score(types, clusters))


def neighbour_accuracy(scores: Array, types: Array, seed: int) -> float:
    """Return the five-fold accuracy of the types of the nearest neighbours."""
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    classifier = KNeighborsClassifier(N_NEIGHBOURS)
    return float(np.mean(cross_val_score(classifier, scores, types, cv=folds)))


def purity(scores: Array, is_rare: Array) -> float:
    """Return the proportion of the neighbours of rare cells that are of their type.

    The number of neighbours is that of the other cells of the type.
    """
    count = int(is_rare.sum())
    model = NearestNeighbors(n_neighbors=count).fit(scores)
    neighbours = model.kneighbors(scores[is_rare], return_distance=False)[:, 1:]
    return float(np.mean(is_rare[neighbours]))


# --- the parts


def compare_types(cells: Sorted, seed: int) -> dict[str, tuple[float, float]]:
    """Return kNN accuracy and agreement of clusters on 80 % of the cells."""
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.permutation(cells.types.size)[: int(0.8 * cells.types.size)])
    types = cells.types[rows]
    embeddings = embed(expressed(sparse.csr_array(cells.counts[rows])))
    return {
        name: (neighbour_accuracy(scores, types, seed), agreement(scores, types, seed))
        for name, scores in embeddings.items()
    }


def markers_of(cells: Sorted, rare: str) -> Array:
    """Return the genes that differ most between a type and the others, among all cells."""
    logs, inside = log_counts(cells.counts), cells.types == rare
    mean, square = (
        [np.asarray(part[rows].mean(axis=0)).ravel() for rows in (inside, ~inside)]
        for part in (logs, logs.power(2))
    )
    error = sum(
        np.maximum(s - m**2, 0.0) / rows.sum()
        for m, s, rows in zip(mean, square, (inside, ~inside), strict=True)
    )
    t = (mean[0] - mean[1]) / np.sqrt(np.maximum(error, 1e-12))
    return np.argsort(-t, kind="stable")[:N_MARKERS]


class RareResult(NamedTuple):
    """Results of one draw of a rare type."""

    purity: dict[str, float]
    markers: dict[str, float]  # proportion of the markers in a panel


def compare_rare(cells: Sorted, rare: str, size: int, seed: int) -> RareResult:
    """Return the purity of embeddings, and the markers in panels."""
    rng = np.random.default_rng(seed)
    rows = np.sort(
        np.concatenate(
            [
                rng.permutation(np.flatnonzero(cells.types == name))[
                    : size if name == rare else MAX_CELLS
                ]
                for name in np.unique(cells.types)
            ]
        )
    )
    raw = sparse.csr_array(cells.counts[rows])
    genes = np.flatnonzero(np.bincount(raw.indices, minlength=raw.shape[1]) >= 3)
    counts = sparse.csr_array(raw[:, genes])
    is_rare = cells.types[rows] == rare
    markers = np.intersect1d(markers_of(cells, rare), genes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        panel = Panel(N_PANEL, counts=True).fit(counts).order_
    logs = log_counts(counts)
    panels = {"Panel": panel}
    panels |= {name: rank(counts, logs)[:N_PANEL] for name, rank in FLAVOURS.items()}
    return RareResult(
        {name: purity(scores, is_rare) for name, scores in embed(counts).items()},
        {name: float(np.isin(markers, genes[found]).mean()) for name, found in panels.items()},
    )


def compare_batches(cells: Sorted, seed: int) -> dict[str, float]:
    """Return the agreement of clusters with types if half of the cells are distorted."""
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.permutation(cells.types.size)[: cells.types.size // 2])
    types, raw = cells.types[rows], sparse.csr_array(cells.counts[rows])
    batch = rng.integers(0, 2, rows.size)
    factors = np.exp(rng.normal(0.0, BATCH_SD, (2, raw.shape[1])))
    factors /= factors.max(axis=1, keepdims=True) / np.exp(2.0 * BATCH_SD)
    thinned = raw.copy()
    rate = np.minimum(factors[np.repeat(batch, np.diff(raw.indptr)), raw.indices], 1.0)
    thinned.data = rng.binomial(raw.data.astype(int), rate).astype(float)
    thinned.eliminate_zeros()
    counts = expressed(thinned)
    logs = log_counts(counts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = FDRPCA(counts=True).fit(counts)
        grouped = FDRPCA(counts=True).fit(counts, groups=batch)
        scores = {
            "FDRPCA, batches given": np.asarray(grouped.transform(counts)),
            "FDRPCA, batches given and centred": _within(grouped.transform(counts), batch),
            "FDRPCA, batches not given": np.asarray(plain.transform(counts)),
        }
    for name, rank in FLAVOURS.items():
        genes = rank(counts, logs)[:N_GENES]
        scores[f"{name}, centred within batches"] = components_of(logs, genes, batch)
    return {name: agreement(part, types, seed) for name, part in scores.items()}


def _within(scores: Array, batch: Array) -> Array:
    """Centre scores within batches."""
    scores = scores.copy()
    for label in np.unique(batch):
        scores[batch == label] -= scores[batch == label].mean(axis=0)
    return scores


# --- experiment


def single_cells(quick: bool, data: Data, output: Path) -> Result:
    """Run E31."""
    cells, n_seeds = load_sorted(data), 1 if quick else N_SEEDS
    rare_types, sizes = (RARE_TYPES[:1], RARE_SIZES[:1]) if quick else (RARE_TYPES, RARE_SIZES)
    settings = [(rare, size) for rare in rare_types for size in sizes]
    rare_results: list[RareResult] = Parallel()(
        delayed(compare_rare)(cells, rare, size, seed)
        for rare, size in settings
        for seed in range(n_seeds)
    )
    rare_parts = [rare_results[k * n_seeds : (k + 1) * n_seeds] for k in range(len(settings))]
    rows, claims, tables = [], [], []
    purities: list[dict[str, float]] = []
    markers: list[dict[str, float]] = []
    for (rare, size), draws in zip(settings, rare_parts, strict=True):
        for measure, means in (("purity", purities), ("markers", markers)):
            names = getattr(draws[0], measure)
            values = {name: [getattr(draw, measure)[name] for draw in draws] for name in names}
            means.append({name: float(np.mean(part)) for name, part in values.items()})
            label = (
                "purity of neighbours"
                if measure == "purity"
                else f"proportion of {N_MARKERS} markers in {N_PANEL} genes"
            )
            rows += [
                mean_row(f"{size} cells {rare}, {name}: {label}", part)
                for name, part in values.items()
            ]
    for title, means in (
        ("Purity of the neighbours of rare cells", purities),
        (f"Proportion of {N_MARKERS} markers in panels of {N_PANEL} genes", markers),
    ):
        header = ("type", "cells", *means[0])
        lines: list[tuple[str, ...]] = [
            (rare, str(size), *(f"{value:.2f}" for value in part.values()))
            for (rare, size), part in zip(settings, means, strict=True)
        ]
        tables.append(PageTable(title, header, lines))
    variable = [name for name in EMBEDDINGS if name.split(",")[0] in FLAVOURS]
    claims.append(
        claim_at_least(
            "rare types: mean purity is at least that of PCA of highly variable genes",
            [np.mean([part["FDRPCA"] for part in purities])],
            [max(np.mean([part[name] for part in purities]) for name in variable)],
        )
    )
    claims.append(
        claim_at_least(
            "rare types: the panel has at least as many markers as seurat_v3, on average",
            [np.mean([part["Panel"] for part in markers])],
            [np.mean([part["seurat_v3"] for part in markers])],
        )
    )
    if not quick:
        more = _compare_all(cells, n_seeds)
        rows += more.rows
        claims += more.claims
        tables += more.tables
    remarks = (
        f"Embeddings: scores of FDRPCA(counts=True), and {N_COMPONENTS} principal components of "
        "log counts per ten thousand, of all genes, of highly variable genes, and of the genes "
        "with the largest communality. The flavours are implemented from their definitions. Genes "
        "are expressed in at least three cells. The number of neighbours of a rare cell is that of "
        "the other cells of its type; its markers are the genes with the largest Welch t-statistic "
        "among all cells. kNN: 15 neighbours, five folds. Clusters: k-means with the number of "
        f"types. Batches: counts are thinned by factors of a log standard deviation of {BATCH_SD}."
    )
    return Result(rows, claims, [], seed_range(n_seeds), remarks, tuple(tables))


def _compare_all(cells: Sorted, n_seeds: int) -> Result:
    """Compare types and batches."""
    by_type = Parallel()(delayed(compare_types)(cells, seed) for seed in range(n_seeds))
    by_batch = Parallel()(delayed(compare_batches)(cells, seed) for seed in range(n_seeds))
    rows, lines = [], []
    means = {name: np.mean([draw[name] for draw in by_type], axis=0) for name in by_type[0]}
    for name, pair in means.items():
        for k, label in enumerate(("kNN accuracy", "adjusted Rand index")):
            rows.append(mean_row(f"all types, {name}: {label}", [d[name][k] for d in by_type]))
        lines.append((name, *(f"{value:.3f}" for value in pair)))
    batches = {name: [draw[name] for draw in by_batch] for name in by_batch[0]}
    rows += [mean_row(f"batches, {name}: adjusted Rand index", v) for name, v in batches.items()]
    flavours = [name for name in means if name.split(",")[0] in FLAVOURS]
    claims: list[Claim] = [
        claim_at_least(
            f"all types: {label} is at least that of all genes and of highly variable genes",
            [means["FDRPCA"][k]] * (1 + len(flavours)),
            [means[name][k] for name in ("all genes", *flavours)],
        )
        for k, label in enumerate(("kNN accuracy", "adjusted Rand index"))
    ]
    of_batches = {name: float(np.mean(values)) for name, values in batches.items()}
    claims.append(
        claim_at_least(
            "batches: agreement with batches given is at least that of all others",
            [of_batches["FDRPCA, batches given"]] * (len(of_batches) - 1),
            [value for name, value in of_batches.items() if "and centred" not in name],
        )
    )
    tables = (
        PageTable("All types", ("embedding", "kNN accuracy", "adjusted Rand index"), lines),
        PageTable(
            "Two batches",
            ("embedding", "adjusted Rand index"),
            [(name, f"{value:.3f}") for name, value in of_batches.items()],
        ),
    )
    return Result(rows, claims, [], "", "", tables)


EXPERIMENTS = (
    Experiment(
        "E31", "Single cells instead of highly variable genes", PAPER, ("facs",), single_cells
    ),
)
