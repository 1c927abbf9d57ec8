"""E28: panels beyond one study.

Not from a paper. Columns are selected in some studies and judged in another one. Breast cancers:
three studies on different platforms. Urine: NMR spectra of 22 donors, of which a part is left out.
Cells: blood cells of two studies, 3,774 sorted ones and 2,700 of 10x Genomics.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

from prosparse.models.panel import Panel

from .base import (
    Claim,
    Experiment,
    PageTable,
    Result,
    Row,
    claim_at_least,
    mean_row,
    seed_range,
)
from .competing_gene_panels import select_by_spapros, select_gene_basis
from .competing_selection import forward_selection
from .data import Data
from .panels import (
    Cells,
    Split,
    binomial_deviance,
    nearest_cells,
    neighbours_preserved,
    reconstruction_r2,
    type_accuracy,
)

Array = np.ndarray

PAPER = "Not from a paper: panels selected in some studies and judged in another"
BREAST_SIZES = (5, 10, 20, 50)
SHARED_SIZES = (3, 5, 8)
CELL_SIZES = (20, 50)
DONOR_SIZES = (5, 20)
N_RANDOM = 30
N_DONOR_SPLITS = 3
METHODS = ("Panel", "greedy", "variance", "random")
USE_TYPES = ("spapros",)  # methods that use the cell types


# --- breast cancer


def gene_means(X: Array, symbols: Array, genes: Array) -> Array:
    """Return one column per gene: the mean over its probes, missing values replaced by means."""
    X = np.where(np.isnan(X), np.nanmean(X, axis=0), X).astype(float)
    return np.stack([X[:, symbols == gene].mean(axis=1) for gene in genes], axis=1)


def breast_studies(data: Data) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return two studies with their common genes, and three with theirs."""
    sources = {
        "VDX": (data("vdx")["X"], data("vdx")["gene_symbols"]),
        "NKI": (data("nki")["X"], data("nki")["gene_symbols"]),
        "TCGA": (data("tcga")["mrna_train"], data("tcga")["mrna_names"]),
    }

    def common(names: tuple[str, ...]) -> dict[str, Array]:
        genes = sources[names[0]][1]
        for name in names[1:]:
            genes = np.intersect1d(genes, sources[name][1])
        genes = genes[genes != ""]
        return {name: gene_means(*sources[name], genes) for name in names}

    return common(("VDX", "NKI")), common(("VDX", "NKI", "TCGA"))


def standardise(X: Array) -> Array:
    """Standardise the columns of one study, which removes the units of its platform."""
    return np.asarray((X - X.mean(axis=0)) / X.std(axis=0))


def select_columns(studies: list[Array], raw_std: Array, size: int) -> dict[str, Array]:
    """Select columns by each method; random columns are the rows of an array."""
    pooled = np.concatenate(studies)
    p = pooled.shape[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        panel = Panel(size).fit(studies if len(studies) > 1 else studies[0]).order_
    rng = np.random.default_rng(0)
    return {
        "Panel": panel,
        "greedy": forward_selection(pooled, raw_std, size),
        "variance": np.argsort(-raw_std, kind="stable")[:size],
        "random": np.stack([rng.permutation(p)[:size] for _ in range(N_RANDOM)]),
    }


def r2_in(train: Array, test: Array, columns: Array) -> float:
    """Return the R2 of all columns in a study, by ridge regression in the other studies."""
    empty = np.zeros(0)
    split = Split(train, test, empty, empty, empty)
    return float(np.mean([reconstruction_r2(split, part) for part in np.atleast_2d(columns)]))


def leave_one_study_out(studies: dict[str, Array], sizes: tuple[int, ...]) -> dict[str, Array]:
    """Return the R2 in each left-out study, (n_studies, n_sizes), for each method."""
    results: dict[str, list[list[float]]] = {method: [] for method in METHODS}
    for left_out, new in studies.items():
        others = [name for name in studies if name != left_out]
        training = [standardise(studies[name]) for name in others]
        # Variances of different platforms are compared by their ranks.
        raw_std = np.mean(
            [np.argsort(np.argsort(studies[name].std(axis=0))) for name in others], axis=0
        )
        test, pooled = standardise(new), np.concatenate(training)
        columns = [select_columns(training, raw_std, size) for size in sizes]
        for method in METHODS:
            results[method].append([r2_in(pooled, test, part[method]) for part in columns])
    return {method: np.array(values) for method, values in results.items()}


# --- donors


class Promise(NamedTuple):
    """Held-out R2 that `Panel` reports, and the R2 that it attains in other donors."""

    promised: float
    attained: float
    ungrouped: float  # promised without groups


def donors_left_out(data: Data, size: int, seed: int) -> Promise:
    """Select a panel in the spectra of two thirds of the donors; judge it in the others."""
    X, donors = data("urine")["X"].astype(float), data("urine")["y_donor"]
    X = X[:, X.std(axis=0) > 0.0]
    labels = np.random.default_rng(seed).permutation(np.unique(donors))
    inside = np.isin(donors, labels[: 2 * labels.size // 3])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = Panel(size).fit(X[inside], groups=donors[inside])
        ungrouped = Panel(size).fit(X[inside])
    return Promise(
        float(model.heldout_r2_path_[-1]),
        model.score(X[~inside], groups=donors[~inside]),
        float(ungrouped.heldout_r2_path_[-1]),
    )


# --- cells


def cell_studies(data: Data) -> dict[str, Cells]:
    """Return sorted cells and cells of 10x Genomics with known types, with the same genes."""
    facs, tenx = data("facs"), data("pbmc3k")
    genes = np.intersect1d(facs["gene_ids"], tenx["gene_ids"])
    studies = {}
    for name, arrays in (("sorted", facs), ("10x", tenx)):
        parts = (arrays["data"].astype(float), arrays["indices"], arrays["indptr"])
        counts = sparse.csr_array(parts, shape=tuple(arrays["shape"]))
        order = np.argsort(arrays["gene_ids"])
        positions = order[np.searchsorted(arrays["gene_ids"], genes, sorter=order)]
        typed = np.flatnonzero(arrays["y"] != "")
        counts = sparse.csr_array(counts[:, positions][typed])
        totals = np.asarray(counts.sum(axis=1)).ravel()
        logs = sparse.csr_array(sparse.diags_array(1e4 / totals) @ counts)
        logs.data = np.log1p(logs.data)
        dense = logs.toarray().astype(np.float32)
        studies[name] = Cells(counts, dense, arrays["y"][typed], nearest_cells(dense))
    return studies


def select_genes(cells: Cells, sizes: tuple[int, ...]) -> dict[str, list[Array]]:
    """Select genes by each method, one array per size."""
    largest = max(sizes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        panel = Panel(largest, counts=True).fit(cells.counts).order_
    orders = {
        "Panel": panel,
        "geneBasis": select_gene_basis(cells.logs, largest),
        "deviance": np.argsort(-binomial_deviance(cells), kind="stable"),
        "variance of log counts": np.argsort(-cells.logs.var(axis=0), kind="stable"),
    }
    selected = {name: [order[:size] for size in sizes] for name, order in orders.items()}
    found = [select_by_spapros(cells.logs, cells.y, size) for size in sizes]
    if all(genes is not None for genes in found):
        selected["spapros"] = [genes for genes in found if genes is not None]
    return selected


def judge_genes(cells: Cells, genes: Array) -> tuple[float, float]:
    """Return the balanced accuracy of the types, and the proportion of neighbours preserved."""
    return type_accuracy(cells, genes), neighbours_preserved(cells, genes)


# --- experiment


class Part(NamedTuple):
    """Results of one question."""

    rows: list[Row]
    claims: list[Claim]
    page: PageTable


def compare_breast(title: str, studies: dict[str, Array], sizes: tuple[int, ...]) -> Part:
    """Compare the methods in each left-out study."""
    results = leave_one_study_out(studies, sizes)
    rows = [
        Row(f"{title}, new study {name}, {size} columns, {method}: R2", float(values[k, j]))
        for method, values in results.items()
        for k, name in enumerate(studies)
        for j, size in enumerate(sizes)
    ]
    lines: list[tuple[str, ...]] = [
        (name, str(size), *(f"{results[method][k, j]:.3f}" for method in METHODS))
        for k, name in enumerate(studies)
        for j, size in enumerate(sizes)
    ]
    means = {method: values.mean(axis=0) for method, values in results.items()}
    claims = [
        claim_at_least(
            f"{title}: mean R2 of the new studies is at least that of greedy columns minus 0.01",
            means["Panel"],
            means["greedy"],
            0.01,
        ),
        claim_at_least(
            f"{title}: mean R2 of the new studies is at least that of random columns",
            means["Panel"],
            means["random"],
        ),
    ]
    shape = ", ".join(f"{name} {X.shape[0]} x {X.shape[1]}" for name, X in studies.items())
    return Part(
        rows, claims, PageTable(f"{title} ({shape})", ("new study", "columns", *METHODS), lines)
    )


def compare_donors(data: Data, sizes: tuple[int, ...], n_splits: int) -> Part:
    """Compare the promised R2 with that in other donors."""
    found = np.array(
        [[donors_left_out(data, size, seed) for seed in range(n_splits)] for size in sizes]
    )
    rows, lines = [], []
    labels = ("held-out R2 with groups", "R2 in other donors", "held-out R2 without groups")
    for size, values in zip(sizes, found, strict=True):
        for label, column in zip(labels, values.T, strict=True):
            rows.append(mean_row(f"urine, {size} columns: {label}", column))
        lines.append((str(size), *(f"{value:.3f}" for value in values.mean(axis=0))))
    promised, attained, ungrouped = found.mean(axis=1).T
    claim = Claim(
        "urine: held-out R2 with groups is within 0.03 of the R2 in other donors",
        bool(np.all(np.abs(promised - attained) <= 0.03)),
        f"largest difference {np.abs(promised - attained).max():.3f}; without groups "
        f"{np.abs(ungrouped - attained).max():.3f}",
    )
    header = ("columns", *labels)
    return Part(rows, [claim], PageTable("Urine: new donors", header, lines))


def compare_cells(data: Data, sizes: tuple[int, ...]) -> Part:
    """Select genes in one study of blood cells and judge them in the other one."""
    studies = cell_studies(data)
    rows: list[Row] = []
    lines: list[tuple[str, ...]] = []
    values: dict[str, list[tuple[float, float]]] = {}
    for source, target in (("sorted", "10x"), ("10x", "sorted")):
        for method, panels in select_genes(studies[source], sizes).items():
            for size, genes in zip(sizes, panels, strict=True):
                accuracy, preserved = judge_genes(studies[target], genes)
                values.setdefault(method, []).append((accuracy, preserved))
                name = f"{source} to {target}, {size} genes, {method}"
                rows.append(Row(f"{name}: balanced accuracy", accuracy))
                rows.append(Row(f"{name}: proportion of neighbours preserved", preserved))
                lines.append(
                    (f"{source} to {target}", str(size), method)
                    + (f"{accuracy:.3f}", f"{preserved:.3f}")
                )
    means = {method: np.mean(results, axis=0) for method, results in values.items()}
    competing = [name for name in means if name not in ("Panel", *USE_TYPES)]
    claims = []
    for k, measure in enumerate(("balanced accuracy", "proportion of neighbours preserved")):
        best = max(competing, key=lambda name: means[name][k])
        claims.append(
            Claim(
                f"cells of a new study: the mean {measure} is the largest of all methods without "
                "cell types",
                bool(means["Panel"][k] >= means[best][k]),
                f"{means['Panel'][k]:.3f}; {best} {means[best][k]:.3f}",
            )
        )
    header = ("studies", "genes", "method", "balanced accuracy", "neighbours preserved")
    return Part(rows, claims, PageTable("Cells of a new study", header, sorted(lines)))


def new_studies(quick: bool, data: Data, output: Path) -> Result:
    """Run E28."""
    two, three = breast_studies(data)
    if quick:
        parts = [compare_breast("Three breast studies", three, (3,))]
    else:
        parts = [
            compare_breast("Two breast studies", two, BREAST_SIZES),
            compare_breast("Three breast studies", three, SHARED_SIZES),
            compare_donors(data, DONOR_SIZES, N_DONOR_SPLITS),
            compare_cells(data, CELL_SIZES),
        ]
    remarks = (
        "Breast: genes that the platforms share, standardised within each study. Ridge regression "
        "on the selected columns in the other studies predicts the new study; random columns are "
        "means over 30 sets. Urine: a third of the 22 donors is new. Cells: genes are selected in "
        "one study; measures as in E20, within the other study. geneBasis is implemented from its "
        "definition; spapros is run with its defaults if it is installed, and it uses the cell "
        "types."
    )
    return Result(
        [row for part in parts for row in part.rows],
        [claim for part in parts for claim in part.claims],
        [],
        seed_range(1 if quick else N_DONOR_SPLITS),
        remarks,
        tuple(part.page for part in parts),
    )


EXPERIMENTS = (
    Experiment(
        "E28",
        "Panels beyond one study",
        PAPER,
        ("vdx", "nki", "tcga", "urine", "facs", "pbmc3k"),
        new_studies,
    ),
)
