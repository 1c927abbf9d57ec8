"""E28: panels of ordinary tables, their intervals, missing values, and panels of several studies.

Not from a paper. Panels are selected on some rows, or in some studies, and evaluated in others.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn import datasets as sklearn_datasets

from prosparse.models.panel import Panel
from prosparse.models.panel.best_subset import find_best_subset
from prosparse.models.panel.factors import FactorModel
from prosparse.models.panel.greedy import Constraints

from .base import Claim, Experiment, Result, Row
from .data import Data
from .panels import labelled_datasets
from .small_tables import (
    best_explained_variance,
    folds,
    heldout_r2,
    select_with_exchanges,
    standard_tables,
    statsmodels_tables,
)

Array = np.ndarray

SIZES = (3, 5, 8, 12)
MAX_LOSS = 0.005  # of R2, compared with greedy selection with exchanges
N_RANDOM = 10  # random sets of columns
N_SEEDS = 10
SPLIT_SEEDS = range(2, 6)  # splits 0 and 1 determined the widening of the intervals
PANEL_SIZE = 20  # in tables with missing values, and of intervals
STUDY_SIZES = (20, 50)
MISSING = 0.2  # proportion of training entries
MIN_EXPRESSED = 0.05  # proportion of the cells of both studies that express a gene


# --- small tables


def small_tables(quick: bool) -> tuple[list[Row], list[Claim]]:
    """Compare panels with greedy selection with exchanges and with random columns."""
    tables = standard_tables() | statsmodels_tables()
    if quick:
        tables = {name: tables[name] for name in ("iris", "wine")}
    rows, losses, below = [], {}, []
    for name, X in tables.items():
        for size in SIZES[:1] if quick else SIZES:
            if size >= X.shape[1]:
                continue
            ours, greedy, random = compare(X, size, n_repeats=1 if quick else 2)
            note = f"greedy with exchanges {greedy:.3f}; random {random:.3f}"
            rows.append(Row(f"R2, {name}, {size} columns", ours, note=note))
            losses[f"{name} {size}"] = greedy - ours
            if ours < random:
                below.append(f"{name} {size}")
    large = [f"{key} {loss:.3f}" for key, loss in losses.items() if loss > MAX_LOSS]
    worst = max(losses, key=lambda key: losses[key])
    return rows, [
        Claim(
            f"R2 is at least that of greedy selection with exchanges minus {MAX_LOSS}",
            not large,
            f"{len(tables)} tables, {len(losses)} cells; largest loss {losses[worst]:.3f} "
            f"({worst}); larger losses: {', '.join(large) or 'none'}",
        ),
        Claim(
            "R2 is at least that of random columns",
            not below,
            f"below: {', '.join(below) or 'none'}",
        ),
    ]


def compare(X: Array, size: int, n_repeats: int) -> tuple[float, float, float]:
    """Return the held-out R2 of the panel, of greedy selection with exchanges, and at random."""
    rng = np.random.default_rng(0)
    residual, total = np.zeros(2 + N_RANDOM), 0.0
    for raw, train, test, _ in folds(X, 5, n_repeats):
        p = train.shape[1]
        if size >= p:
            continue
        panel = np.flatnonzero(fitted(raw, size).support_).tolist()
        greedy = select_with_exchanges(np.corrcoef(train, rowvar=False), size)
        random = [rng.permutation(p)[:size].tolist() for _ in range(N_RANDOM)]
        errors = [heldout_r2(train, test, columns) for columns in (panel, greedy, *random)]
        residual += [error[0] for error in errors]
        total += errors[0][1]
    r2 = 1.0 - residual / total
    return float(r2[0]), float(r2[1]), float(r2[2:].mean())


def fitted(X: Array, size: int | None, **parameters: object) -> Panel:
    """Fit a panel without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Panel(size, **parameters).fit(X)  # type: ignore[arg-type]


def sizes_over_seeds(quick: bool) -> tuple[list[Row], list[Claim]]:
    """Select the size with different folds."""
    rows, spreads = [], []
    for name in ("wine", "diabetes"):
        X = standard_tables()[name]
        n_seeds = 2 if quick else N_SEEDS
        sizes = [fitted(X, None, random_state=seed).n_selected_ for seed in range(n_seeds)]
        rows.append(Row(f"size, {name}", float(np.mean(sizes)), note=f"over seeds: {sizes}"))
        spreads.append(max(sizes) - min(sizes))
    claim = Claim(
        "the selected sizes differ by at most 1 over seeds",
        max(spreads) <= 1,
        f"differences {spreads}",
    )
    return rows, [claim]


# --- intervals and missing values


def real_tables(data: Data) -> dict[str, Array]:
    """Return eight real tables of the intervals."""
    tables = {name: table.X for name, table in labelled_datasets(data).items()}
    for name in ("Golub", "NCI60", "Armstrong"):
        tables.pop(name)
    tables |= {
        "TCGA proteins": data("tcga")["protein_train"].astype(float),
        "breast, VDX": data("vdx")["X"].astype(float),
        "nutrimouse": data("nutrimouse")["gene"].astype(float),
        "breast cancer": sklearn_datasets.load_breast_cancer().data,
    }
    return {name: X[:, X.std(axis=0) > 0.0] for name, X in tables.items()}


def coverage(X: Array, seeds: range) -> tuple[float, float]:
    """Return the coverage of test entries: of all rows, and of the fifth with the largest errors.

    Half of the rows are held out.
    """
    overall, worst = [], []
    for seed in seeds:
        order = np.random.default_rng(seed).permutation(X.shape[0])
        train, test = np.array_split(order, 2)
        model = fitted(X[train], PANEL_SIZE)
        rest = X[np.ix_(test, ~model.support_)]
        predicted, low, high = model.predict_unmeasured(
            X[np.ix_(test, model.support_)], return_interval=True
        )
        varying = model.varying_[~model.support_]
        inside = ((rest >= low) & (rest <= high))[:, varying]
        scale = model.scale_[~model.support_][varying]
        errors = np.mean(((rest - predicted)[:, varying] / scale) ** 2, axis=1)
        loudest = np.argsort(-errors)[: max(1, test.size // 5)]
        overall.append(inside.mean())
        worst.append(inside[loudest].mean())
    return float(np.mean(overall)), float(np.mean(worst))


def intervals(quick: bool, data: Data) -> tuple[list[Row], list[Claim]]:
    """Measure the coverage of 95 % intervals in test rows."""
    tables = real_tables(data)
    if quick:
        tables = {name: tables[name] for name in ("breast cancer",)}
    values = {
        name: coverage(X, SPLIT_SEEDS[:1] if quick else SPLIT_SEEDS) for name, X in tables.items()
    }
    rows = [
        Row(f"coverage, {name}", overall, note=f"fifth with the largest errors {worst:.3f}")
        for name, (overall, worst) in values.items()
    ]
    overall, worst = np.array(list(values.values())).T
    return rows, [
        Claim(
            "95 % intervals cover 93 to 97 % of the entries of test rows in each table",
            bool(np.all((overall >= 0.93) & (overall <= 0.97))),
            ", ".join(f"{value:.3f}" for value in overall),
        ),
        Claim(
            "they cover at least 90 % in the fifth of the rows with the largest errors",
            bool(np.all(worst >= 0.9)),
            ", ".join(f"{value:.3f}" for value in worst),
        ),
    ]


def missing_values(quick: bool, data: Data) -> tuple[list[Row], list[Claim]]:
    """Remove 20 % of the training entries at random."""
    tables = real_tables(data) | {"wine": standard_tables()["wine"]}
    tables = {name: X for name, X in tables.items() if X.shape[1] <= 1_000}
    if quick:
        tables = {"wine": tables["wine"]}
    rows, losses = [], []
    for name, X in tables.items():
        loss = []
        for seed in range(1 if quick else 2):
            rng = np.random.default_rng(seed)
            train, test = np.split(rng.permutation(X.shape[0]), [2 * X.shape[0] // 3])
            size = min(PANEL_SIZE, X.shape[1] // 2)
            gaps = X[train].copy()
            gaps[rng.random(gaps.shape) < MISSING] = np.nan
            complete = fitted(X[train], size).score(X[test])
            loss.append(complete - fitted(gaps, size).score(X[test]))
        losses.append(float(np.mean(loss)))
        rows.append(Row(f"loss of R2 by 20 % missing values, {name}", losses[-1]))
    claim = Claim(
        "with 20 % missing training values, test R2 is within 0.03 of that of complete data",
        max(losses) <= 0.03,
        ", ".join(f"{loss:.3f}" for loss in losses),
    )
    return rows, [claim]


# --- several studies


def studies(data: Data) -> dict[str, tuple[Array, Array, bool]]:
    """Return pairs of studies with common genes, and whether they are counts."""
    vdx, nki = data("vdx"), data("nki")
    gene_pairs = common(vdx["gene_symbols"], nki["gene_symbols"])
    filled = nki["X"][:, gene_pairs[1]].astype(float)
    filled = np.where(np.isnan(filled), np.nanmean(filled, axis=0), filled)
    pairs = {"breast, VDX and NKI": (vdx["X"][:, gene_pairs[0]].astype(float), filled, False)}
    facs, pbmc = data("facs"), data("pbmc3k")
    first, second = (
        sparse.csr_array((t["data"].astype(float), t["indices"], t["indptr"]), shape=t["shape"])
        for t in (facs, pbmc)
    )
    columns = common(facs["gene_ids"], pbmc["gene_ids"])
    a, b = first[:, columns[0]], second[:, columns[1]]
    proportions = [np.asarray((x > 0).mean(axis=0)).ravel() for x in (a, b)]
    expressed = np.flatnonzero(np.minimum(*proportions) >= MIN_EXPRESSED)
    pairs["cells, sorted and PBMC 3k"] = (
        a[:, expressed].toarray(),
        b[:, expressed].toarray(),
        True,
    )
    return pairs


def common(first: Array, second: Array) -> tuple[Array, Array]:
    """Return the positions of the names that both studies have once."""
    unique = [
        names[counts == 1]
        for names, counts in (np.unique(v, return_counts=True) for v in (first, second))
    ]
    both = np.intersect1d(*unique)
    both = both[both != ""]
    return tuple(  # type: ignore[return-value]
        np.array([{name: k for k, name in enumerate(v.tolist())}[name] for name in both.tolist()])
        for v in (first, second)
    )


def across_studies(quick: bool, data: Data) -> tuple[list[Row], list[Claim]]:
    """Select in one study and evaluate in the other, around its own means."""
    rows, differences, gains = [], [], []
    for name, (first, second, counts) in studies(data).items():
        for size in STUDY_SIZES[:1] if quick else STUDY_SIZES:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                joint = Panel(size, counts=counts).fit([first, second])
                for k, (other, new) in enumerate(((second, first), (first, second))):
                    model = Panel(size, counts=counts).fit(other)
                    score = model.score(new, groups=np.zeros(new.shape[0]))
                    random = random_score(other, new, size, counts)
                    promised = joint.heldout_r2_by_group_[str(k)]
                    label = f"R2 in a new study, {name}, study {k + 1}, {size} columns"
                    note = f"promised by leave-one-study-out {promised:.3f}; random {random:.3f}"
                    rows.append(Row(label, score, note=note))
                    differences.append(promised - score)
                    gains.append(score - random)
    return rows, [
        Claim(
            "leave-one-study-out R2 is within 0.03 of the R2 in a study that was not used",
            float(np.max(np.abs(differences))) <= 0.03,
            f"largest difference {np.max(np.abs(differences)):.3f}",
        ),
        Claim(
            "in a new study, panels predict more than random columns",
            min(gains) > 0.0,
            f"smallest difference {min(gains):.3f}",
        ),
    ]


def random_score(train: Array, new: Array, size: int, counts: bool) -> float:
    """Return the score of random panels in a new study."""
    scores = []
    for seed in range(3):
        columns = np.random.default_rng(seed).permutation(np.flatnonzero(train.std(axis=0) > 0))
        model = Panel(size, counts=counts, include=columns[:size]).fit(train)
        scores.append(model.score(new, groups=np.zeros(new.shape[0])))
    return float(np.mean(scores))


# --- exact search


def exact_sets(quick: bool) -> tuple[list[Row], list[Claim]]:
    """Compare branch and bound with the enumeration of all sets, on 30 tables."""
    tables = [X for X in (standard_tables() | statsmodels_tables()).values() if X.shape[1] >= 10]
    rng, n_equal, n_certified, n_tables = np.random.default_rng(0), 0, 0, 2 if quick else 30
    for k in range(n_tables):
        X = tables[k % len(tables)]
        p = int(min(10 + k % 11, X.shape[1]))
        C = np.corrcoef(X[:, np.sort(rng.permutation(X.shape[1])[:p])], rowvar=False)
        size = 3 + k % 3
        eigenvalues, V = np.linalg.eigh(C)
        model = FactorModel(V * np.sqrt(np.maximum(eigenvalues, 0.0)), np.full(p, 1e-9))
        constraints = Constraints(size, np.zeros(0, int), np.ones(p, bool), np.ones(p), [])
        found = find_best_subset(model, constraints, np.arange(size))
        best = best_explained_variance(C, size)
        explained = explained_variance_of(C, found.variables)
        n_equal += abs(explained - best) <= 1e-6 * best
        n_certified += found.bound <= found.gain * (1.0 + 1e-6)
    claim = Claim(
        "branch and bound finds the best set of every table and certifies it",
        n_equal == n_certified == n_tables,
        f"best {n_equal}, certified {n_certified} of {n_tables}",
    )
    return [Row("best sets found by branch and bound", float(n_equal), note=f"of {n_tables}")], [
        claim
    ]


def explained_variance_of(C: Array, columns: Array) -> float:
    """Return the variance that some columns explain."""
    cross = C[columns]
    return float(np.sum(cross * np.linalg.solve(C[np.ix_(columns, columns)], cross)))


PARTS: dict[str, Callable[[bool, Data], tuple[list[Row], list[Claim]]]] = {
    "exact": lambda quick, data: exact_sets(quick),
    "sizes": lambda quick, data: sizes_over_seeds(quick),
    "studies": across_studies,
    "intervals": intervals,
    "missing": missing_values,
    "tables": lambda quick, data: small_tables(quick),
}


def run(quick: bool, data: Data, output: Path) -> Result:
    """Run E28."""
    rows: list[Row] = []
    claims: list[Claim] = []
    for part in PARTS.values():
        start = time.perf_counter()
        part_rows, part_claims = part(quick, data)
        rows += part_rows
        claims += part_claims
        print(f"{time.perf_counter() - start:.0f} s", *part_claims, sep="\n", flush=True)
    remarks = (
        "Small tables: five-fold cross-validation, twice; all columns are predicted by least "
        "squares from the selected ones. Tables of statsmodels with at least 50 complete rows and "
        "four numeric columns. Intervals: four splits in halves, panels of 20 columns. Missing "
        "values: two splits, two thirds of the rows for training."
    )
    return Result(rows, claims, [], "0 to 9", remarks)


EXPERIMENTS = (
    Experiment(
        "E28",
        "Panels of ordinary tables and of several studies",
        "Not from a paper: panels that are used",
        ("colon", "tcga", "urine", "mfeat", "vdx", "nki", "nutrimouse", "facs", "pbmc3k"),
        run,
    ),
)
