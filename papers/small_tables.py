"""E30: panels of ordinary tables: accuracy, size, intervals, missing values and certificates.

Not from a paper. The tables are those of scikit-learn and statsmodels, without response or label.
Columns are selected in four fifths of the rows; least squares on the selected columns predicts all
columns in the other rows. The empirical competitors select columns that minimise the squared error
of least squares in the training rows: greedily, with exchanges, or at random.
"""

from __future__ import annotations

import warnings
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn import datasets as sklearn_datasets
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.utils.parallel import Parallel, delayed

from prosparse.models.panel import Panel
from prosparse.models.panel.best_subset import find_best_subset, subset_gain
from prosparse.models.panel.factors import FactorModel
from prosparse.models.panel.greedy import Constraints

from .base import Claim, Experiment, PageTable, Result, Row, mean_row, seed_range
from .data import Data
from .panels import labelled_datasets

Array = np.ndarray

PAPER = "Not from a paper: panels of ordinary tables"
SIZES = (3, 5, 8, 12)
N_FOLDS, N_REPEATS = 5, 4
N_RANDOM = 30  # number of random sets
MIN_ROWS_PER_COLUMN = 2  # training rows per selected column, for least squares
MAX_ROWS = 1_000  # maximum number of rows of a table
N_SEEDS = 10  # seeds of `Panel()`
N_SPLITS = 6  # splits for intervals and missing values
PROPORTION_MISSING = 0.2
N_CERTIFIED = 30  # tables with at most `MAX_CERTIFIED` columns
MAX_CERTIFIED = 20
CERTIFIED_SIZE = 5
MAX_PANEL = 10  # columns of the panels whose intervals are examined
MAX_SWEEPS = 20


# --- tables


def main_tables() -> dict[str, Array]:
    """Return the four tables of scikit-learn with ten columns or more."""
    return {
        "diabetes": sklearn_datasets.load_diabetes().data,
        "wine": sklearn_datasets.load_wine().data,
        "breast cancer": sklearn_datasets.load_breast_cancer().data,
        "digits": sklearn_datasets.load_digits().data,
    }


STATSMODELS = (
    "anes96",
    "ccard",
    "copper",
    "elnino",
    "fair",
    "longley",
    "macrodata",
    "modechoice",
    "randhie",
    "scotland",
    "star98",
    "statecrime",
)


@cache
def small_tables() -> dict[str, Array]:
    """Return small tables of scikit-learn and statsmodels, with their numeric columns."""
    import statsmodels.api as sm

    linnerud = sklearn_datasets.load_linnerud()
    tables = {
        "iris": sklearn_datasets.load_iris().data,
        "linnerud": np.hstack([linnerud.data, linnerud.target]),
    }
    for name in STATSMODELS:
        frame = getattr(sm.datasets, name).load_pandas().data
        tables[name] = frame.select_dtypes("number").to_numpy(float)
    return {name: sample_rows(X) for name, X in tables.items()}


def sample_rows(X: Array) -> Array:
    """Return a random sample of the rows of a large table."""
    rows = np.random.default_rng(0).permutation(X.shape[0])[:MAX_ROWS]
    return np.asarray(X[np.sort(rows)], dtype=float)


def standardise_by(train: Array, test: Array) -> tuple[Array, Array]:
    """Standardise by the training rows and drop columns that are constant in them."""
    mean, std = train.mean(axis=0), train.std(axis=0)
    varying = std > 1e-9 * np.maximum(np.abs(mean), 1e-300)
    mean, std = mean[varying], std[varying]
    return (train[:, varying] - mean) / std, (test[:, varying] - mean) / std


# --- selection


def explained_by(R: Array, columns: Array) -> float:
    """Return the variance of all columns that least squares on some columns explains."""
    cross = R[columns]
    return float(np.sum(cross * np.linalg.lstsq(R[np.ix_(columns, columns)], cross, rcond=None)[0]))


def greedy_columns(R: Array, count: int) -> Array:
    """Select columns greedily by the correlation matrix."""
    selected: list[int] = []
    for _ in range(count):
        others = [k for k in range(R.shape[0]) if k not in selected]
        values = [explained_by(R, np.array([*selected, k])) for k in others]
        selected.append(others[int(np.argmax(values))])
    return np.array(selected)


def exchange_columns(R: Array, columns: Array) -> Array:
    """Exchange single columns while the explained variance increases."""
    columns = columns.copy()
    value = explained_by(R, columns)
    for _ in range(MAX_SWEEPS):
        before = value
        for position in range(columns.size):
            for other in np.setdiff1d(np.arange(R.shape[0]), columns):
                trial = columns.copy()
                trial[position] = other
                gain = explained_by(R, trial)
                if gain > value + 1e-9:
                    columns, value = trial, gain
        if value <= before:
            break
    return columns


def panel_columns(train: Array, count: int) -> Array:
    """Select columns by `Panel`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(Panel(count).fit(train).order_)


def heldout_r2(train: Array, test: Array, columns: Array) -> float:
    """Return the test R2 of all columns by least squares on some columns."""
    coef = np.linalg.lstsq(train[:, columns], train, rcond=None)[0]
    return 1.0 - float(np.sum((test - test[:, columns] @ coef) ** 2) / np.sum(test**2))


def compare_on_fold(train: Array, test: Array, count: int, seed: int) -> dict[str, float]:
    """Return the test R2 of columns selected by each method."""
    R, p = np.corrcoef(train.T), train.shape[1]
    greedy = greedy_columns(R, count)
    rng = np.random.default_rng(seed)
    sets = [rng.permutation(p)[:count] for _ in range(N_RANDOM)]
    selected = {
        "Panel": panel_columns(train, count),
        "greedy": greedy,
        "greedy with exchanges": exchange_columns(R, greedy),
    }
    values = {name: heldout_r2(train, test, columns) for name, columns in selected.items()}
    values["random"] = float(np.mean([heldout_r2(train, test, columns) for columns in sets]))
    return values


METHODS = ("Panel", "greedy", "greedy with exchanges", "random")


def feasible_sizes(X: Array) -> list[int]:
    """Return the sizes that leave a column to predict and rows to fit the prediction."""
    n_train = X.shape[0] * (N_FOLDS - 1) // N_FOLDS
    return [q for q in SIZES if q < X.shape[1] and MIN_ROWS_PER_COLUMN * q <= n_train]


def compare_methods(X: Array, count: int, seed: int) -> list[float]:
    """Return the test R2 of all methods, each the mean over the folds of one division."""
    folds = KFold(N_FOLDS, shuffle=True, random_state=seed).split(X)
    parts = [standardise_by(X[train], X[test]) for train, test in folds]
    values = [compare_on_fold(*part, count, seed) for part in parts]
    return [float(np.mean([value[name] for value in values])) for name in METHODS]


# --- size


def default_size(X: Array, seed: int) -> int:
    """Return the size that `Panel()` determines."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return int(Panel(random_state=seed).fit(X).n_selected_)


# --- intervals and missing values


def interval_tables(data: Data) -> dict[str, Array]:
    """Return the tables in which intervals and missing values are examined."""
    main, small = main_tables(), small_tables()
    labelled = labelled_datasets(data)
    return {
        **main,
        "star98": small["star98"],
        "anes96": small["anes96"],
        "Fourier": data("mfeat")["fou"].astype(float),
        "urine": labelled["urine"].X,
        "TCGA mRNA": labelled["TCGA mRNA"].X,
        "TCGA protein": data("tcga")["protein_train"].astype(float),
        "VDX": data("vdx")["X"].astype(float),
        "colon": labelled["colon"].X,
    }


def panel_size(X: Array) -> int:
    """Return the number of columns that is selected in these tables."""
    return min(MAX_PANEL, X.shape[1] // 2)


class Coverage(NamedTuple):
    """Proportion of test entries inside their intervals."""

    all: float
    # In the fifth of the rows with the largest errors of the other columns, and of all columns.
    worst_by_others: float
    worst: float


def cover_test_rows(X: Array, seed: int) -> Coverage:
    """Fit a panel to 70 % of the rows and return the coverage of intervals in the other rows."""
    train, test = next(ShuffleSplit(1, test_size=0.3, random_state=seed).split(X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = Panel(panel_size(X)).fit(X[train])
    predicted, lower, upper = model.predict_unmeasured(X[test], return_interval=True)
    new = X[test][:, ~model.support_]
    varying = (model.varying_ & ~model.support_)[~model.support_]
    covered = ((new >= lower) & (new <= upper))[:, varying]
    squares = ((new - predicted)[:, varying] / model.scale_[~model.support_][varying]) ** 2
    relative = squares / squares.mean(axis=0)
    total = relative.sum(axis=1, keepdims=True)
    by_others = last_fifth(total - relative)
    by_all = last_fifth(np.broadcast_to(total, relative.shape))
    return Coverage(
        float(covered.mean()), float(covered[by_others].mean()), float(covered[by_all].mean())
    )


def last_fifth(values: Array) -> Array:
    """Return which entries are in the last fifth of their column."""
    ranks = np.argsort(np.argsort(values, axis=0, kind="stable"), axis=0, kind="stable")
    return np.asarray(5 * ranks // values.shape[0] == 4)


def lose_values(X: Array, seed: int) -> tuple[float, float]:
    """Return the test R2 of panels of complete and of incomplete training rows."""
    train, test = next(ShuffleSplit(1, test_size=0.3, random_state=seed).split(X))
    is_missing = np.random.default_rng(seed).random(X[train].shape) < PROPORTION_MISSING
    incomplete = np.where(is_missing, np.nan, X[train])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = [Panel(panel_size(X)).fit(rows) for rows in (X[train], incomplete)]
    complete, partial = (float(model.score(X[test])) for model in models)
    return complete, partial


# --- certificates


def tables_with_few_columns() -> list[Array]:
    """Return tables with at most 20 columns: small ones, and random columns of larger ones."""
    small = [X for X in small_tables().values() if X.shape[1] <= MAX_CERTIFIED]
    main = main_tables()
    rng = np.random.default_rng(0)
    large = [main["digits"][:, main["digits"].std(axis=0) > 0.5], main["breast cancer"]]
    tables = [*small, main["diabetes"], main["wine"]]
    while len(tables) < N_CERTIFIED:
        X = large[len(tables) % 2]
        width = int(rng.integers(12, MAX_CERTIFIED + 1))
        tables.append(X[:, rng.permutation(X.shape[1])[:width]])
    return tables


class Certificate(NamedTuple):
    """Difference from enumeration, and whether the search and `Panel` certify the optimum."""

    difference: float
    is_certified: bool
    gap: float


def certify_table(X: Array, count: int) -> Certificate:
    """Compare branch and bound with enumeration, on the correlation matrix of a table."""
    Z = standardise_by(X, X)[0]
    eigenvalues, vectors = np.linalg.eigh(np.corrcoef(Z.T))
    W = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
    p = W.shape[0]
    model = FactorModel(W, np.full(p, 1e-4))
    constraints = Constraints(count, np.array([], dtype=int), np.ones(p, bool), np.ones(p), [])
    found = find_best_subset(model, constraints, np.arange(count))
    best = max(
        subset_gain(W @ W.T + np.diag(model.psi), W @ W.T, np.array(columns))
        for columns in combinations(range(p), count)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gap = Panel(count).fit(X).optimality_gap_
    is_certified = found.bound <= found.gain * (1.0 + 1e-8)
    return Certificate(abs(found.gain / best - 1.0), is_certified, float(gap))


# --- experiment


class Part(NamedTuple):
    """Results of one question."""

    rows: list[Row]
    claims: list[Claim]
    page: PageTable


def shape_of(X: Array) -> str:
    return f"{X.shape[0]:,} x {X.shape[1]}"


def compare_tables(tables: dict[str, Array], n_repeats: int, n_sizes: int | None) -> Part:
    """Compare the methods in all tables."""
    rows: list[Row] = []
    lines: list[tuple[str, ...]] = []
    means: dict[str, Array] = {}
    cells = [(name, size) for name, X in tables.items() for size in feasible_sizes(X)[:n_sizes]]
    results: list[list[float]] = Parallel()(
        delayed(compare_methods)(tables[name], size, seed)
        for name, size in cells
        for seed in range(n_repeats)
    )
    per_cell = np.array(results).reshape(len(cells), n_repeats, len(METHODS))
    for (name, size), values in zip(cells, per_cell, strict=True):
        mean = values.mean(axis=0)
        means[f"{name}, {size} columns"] = mean
        for method, column in zip(METHODS, values.T, strict=True):
            rows.append(mean_row(f"{name}, {size} columns, {method}: test R2", column))
        lines.append((name, shape_of(tables[name]), str(size), *(f"{v:.3f}" for v in mean)))
    below = {name: float(mean[0] - mean[2]) for name, mean in means.items()}
    above = {name: float(mean[0] - mean[3]) for name, mean in means.items()}
    claims = [
        Claim(
            "test R2 is at least that of greedy selection with exchanges minus 0.005",
            min(below.values()) >= -0.005,
            _smallest(below),
        ),
        Claim(
            "test R2 is never below the mean of random sets",
            min(above.values()) >= 0.0,
            _smallest(above),
        ),
    ]
    header = ("table", "shape", "columns", *METHODS)
    return Part(rows, claims, PageTable("Test R2 of all columns", header, lines))


def _smallest(differences: dict[str, float]) -> str:
    name = min(differences, key=lambda key: differences[key])
    return f"smallest difference {differences[name]:+.4f} ({name})"


def compare_sizes(tables: dict[str, Array], n_seeds: int) -> Part:
    """Determine the size of `Panel()` with several seeds."""
    found: list[int] = Parallel()(
        delayed(default_size)(X, seed) for X in tables.values() for seed in range(n_seeds)
    )
    sizes = dict(zip(tables, np.array(found).reshape(-1, n_seeds), strict=True))
    spread = {name: int(np.ptp(values)) for name, values in sizes.items()}
    claim = Claim(
        "the sizes of Panel() are within one of each other on wine and diabetes",
        max(spread.get(name, 0) for name in ("wine", "diabetes")) <= 1,
        ", ".join(f"{name} {value}" for name, value in spread.items()),
    )
    lines: list[tuple[str, ...]] = [
        (name, ", ".join(map(str, values.tolist()))) for name, values in sizes.items()
    ]
    rows = [mean_row(f"{name}: columns of Panel()", values) for name, values in sizes.items()]
    page = PageTable("Number of columns of Panel()", ("table", "seeds 0, 1, ..."), lines)
    return Part(rows, [claim], page)


def use_panels(tables: dict[str, Array], n_splits: int, slack: float) -> Part:
    """Examine intervals and missing values."""
    rows: list[Row] = []
    lines: list[tuple[str, ...]] = []
    coverages: list[Array] = []
    losses: dict[str, float] = {}
    labels = ("all rows", "worst fifth by the other columns", "worst fifth by all columns")
    calls = [(X, seed) for X in tables.values() for seed in range(n_splits)]
    covered_by_split: list[Coverage] = Parallel()(delayed(cover_test_rows)(*call) for call in calls)
    r2_by_split: list[tuple[float, float]] = Parallel()(
        delayed(lose_values)(*call) for call in calls
    )
    mean_coverages = np.array(covered_by_split).reshape(len(tables), n_splits, -1).mean(axis=1)
    mean_r2 = np.array(r2_by_split).reshape(len(tables), n_splits, -1).mean(axis=1)
    for (name, X), coverage, (complete, partial) in zip(
        tables.items(), mean_coverages, mean_r2, strict=True
    ):
        coverages.append(coverage)
        losses[name] = float(partial - complete)
        for label, value in zip(labels, coverage, strict=True):
            rows.append(Row(f"{name}: coverage of 95 % intervals, {label}", float(value)))
        rows.append(Row(f"{name}: test R2, complete rows", float(complete)))
        rows.append(Row(f"{name}: test R2, 20 % missing", float(partial)))
        covered = (f"{value:.3f}" for value in coverage)
        lines.append((name, shape_of(X), *covered, f"{complete:.3f}", f"{partial:.3f}"))
    overall, worst, _ = np.array(coverages).T
    claims = [
        Claim(
            "95 % intervals cover 93 to 97 % of the test entries of each table",
            bool(np.all((overall >= 0.93 - slack) & (overall <= 0.97 + slack))),
            f"{overall.min():.3f} to {overall.max():.3f}",
        ),
        Claim(
            "and at least 90 % in the fifth of the rows with the largest errors of other columns",
            bool(worst.min() >= 0.9 - slack),
            f"smallest {worst.min():.3f}",
        ),
        Claim(
            "with 20 % missing values the test R2 decreases by at most 0.03",
            min(losses.values()) >= -0.03 - slack,
            _smallest(losses),
        ),
    ]
    header = ("table", "shape", *labels, "R2, complete", "R2, 20 % missing")
    return Part(rows, claims, PageTable("Coverage of intervals; missing values", header, lines))


def certify_tables(tables: list[Array]) -> Part:
    """Compare the exact search with enumeration."""
    found = [certify_table(X, min(CERTIFIED_SIZE, X.shape[1] - 1)) for X in tables]
    n_exact = sum(c.difference < 1e-8 and c.is_certified for c in found)
    n_zero = sum(c.gap < 1e-6 for c in found)
    claim = Claim(
        "branch and bound finds the best set by enumeration and certifies it, and `Panel` reports "
        "no gap",
        n_exact == n_zero == len(found),
        f"{n_exact} and {n_zero} of {len(found)} tables",
    )
    rows = [
        Row("tables whose best set is exact", float(n_exact)),
        Row("tables in which Panel reports no gap", float(n_zero)),
    ]
    header = ("tables", "exact", "no gap")
    line: tuple[str, ...] = (str(len(found)), str(n_exact), str(n_zero))
    return Part(rows, [claim], PageTable("Best sets of tables with few columns", header, [line]))


def ordinary_tables(quick: bool, data: Data, output: Path) -> Result:
    """Run E30."""
    main, small = main_tables(), small_tables()
    diabetes = {"diabetes": main["diabetes"]}
    if quick:
        n_splits = 1
        parts = [
            compare_tables(diabetes, 1, 1),
            compare_sizes(diabetes, 2),
            use_panels(diabetes, 1, 0.1),
            certify_tables(tables_with_few_columns()[:2]),
        ]
    else:
        n_splits = N_SPLITS
        parts = [
            compare_tables({**main, **small}, N_REPEATS, None),
            compare_sizes(main, N_SEEDS),
            use_panels(interval_tables(data), N_SPLITS, 0.0),
            certify_tables(tables_with_few_columns()),
        ]
    remarks = (
        "Columns are standardised by the training rows. Five folds, repeated four times, compare "
        "the methods; 70 % of the rows, in several splits, determine intervals, and the test R2 "
        "with missing values. Sizes with fewer than two training rows per column are left out."
    )
    return Result(
        [row for part in parts for row in part.rows],
        [claim for part in parts for claim in part.claims],
        [],
        seed_range(n_splits),
        remarks,
        tuple(part.page for part in parts),
    )


EXPERIMENTS = (
    Experiment(
        "E30",
        "Panels of ordinary tables",
        PAPER,
        ("golub", "colon", "nci60", "armstrong", "tcga", "urine", "mfeat", "vdx"),
        ordinary_tables,
    ),
)
