"""E35: error rates of FDRPCA with missing values and categories, and of competing methods.

Competing methods fill missing values by imputation and test the complete data matrix by FDRPCA.
They code categories by indicators of their levels, which are tested by permutation, or associated
with components that contain them (the idea of `dimdesc` of the R package FactoMineR).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from sklearn import datasets
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

from prosparse.models.fdrpca import FDRPCA
from prosparse.models.sca import SCA
from prosparse.structure.false_discoveries import benjamini_hochberg

from .base import Experiment, PageTable, Result, Row
from .data import Data
from .situations import (
    N_TRUE,
    Distorted,
    Distortion,
    Draw,
    Generator,
    P,
    Sample,
    Situation,
    share_factors,
    simulated,
)
from .trust import (
    FALSE,
    GUARANTEES,
    SEED,
    Guarantee,
    Matrix,
    Outcome,
    evaluate_cell,
    make_claims,
    rows_of,
    score_support,
    show,
    show_power,
)

Array = np.ndarray

LEVELS = (2, 3, 5, 10, 40)  # numbers of levels of simulated categories
N_MIXED = 200  # rows of simulated mixed tables
MAX_ROWS = 150  # rows of a draw from a real mixed table
N_COMPONENTS = 5  # number of components of `dimdesc`
N_PERMUTATIONS = 400
N_DRAWS = (30, 10, 4, 4)  # draws of FDRPCA, in the order of `OURS`
N_COMPETING_DRAWS = 2
RATE = 0.05


# --- missing values


def remove(missing: Callable[[Array, Generator], Array]) -> Distortion:
    """Return a distortion that removes the entries of a mask, but not those of the last column."""

    def distort(Z: Array, truth: Array, rng: Generator) -> Distorted:
        mask = missing(Z, rng)
        mask[:, -1] = False
        return Distorted(np.where(mask, np.nan, Z))

    return distort


def at_random(rate: float) -> Callable[[Array, Generator], Array]:
    return lambda Z, rng: rng.random(Z.shape) < rate


def by_row(Z: Array, rng: Generator) -> Array:
    return rng.random(Z.shape) < rng.uniform(0.0, 0.6, (Z.shape[0], 1))


def by_column(Z: Array, rng: Generator) -> Array:
    return rng.random(Z.shape) < rng.uniform(0.0, 0.6, Z.shape[1])


def by_other_column(Z: Array, rng: Generator) -> Array:
    """Remove entries more often if another random column is large."""
    others = np.roll(rng.permutation(Z.shape[1]), 1)
    return rng.random(Z.shape) < 0.6 / (1.0 + np.exp(-2.0 * Z[:, others]))


MISSING_SITUATIONS = (
    *(
        Situation(f"{rate:.0%} missing at random", simulated(remove(at_random(rate))))
        for rate in (0.1, 0.3, 0.5)
    ),
    Situation("30% missing, by row", simulated(remove(by_row))),
    Situation("30% missing, by column", simulated(remove(by_column))),
    Situation(
        "30% missing, depending on other columns",
        simulated(remove(by_other_column)),
    ),
)


# --- categories


def to_category(z: Array, n_levels: int, rng: Generator) -> Array:
    """Cut a column at random quantiles into levels in random order."""
    proportions = rng.dirichlet(np.full(n_levels, 3.0))
    level = np.searchsorted(np.cumsum(proportions)[:-1], stats.norm.cdf(z / z.std()))
    return np.array([f"level {k}" for k in rng.permutation(n_levels)])[level]


def mixed_table(rng: Generator, shared: bool, data: Data) -> Sample:
    """Draw a table in which every other column is a category of 2 to 40 levels."""
    draw = simulated(n=N_MIXED, p=P // 3, n_true=N_TRUE, structure=share_factors)
    sample = draw(rng, shared, data)
    columns: dict[str, Any] = {}
    for j, z in enumerate(sample.X.T):
        is_category = j % 2 == 1
        n_levels = LEVELS[(j // 2) % len(LEVELS)]
        columns[f"x{j}"] = to_category(z, n_levels, rng) if is_category else z
    return sample._replace(X=pd.DataFrame(columns))


def load_mixed() -> dict[str, pd.DataFrame]:
    """Return five tables of scikit-learn and statsmodels with numbers and categories."""
    import statsmodels.api as sm

    tables = {name: getattr(datasets, f"load_{name}")(as_frame=True) for name in ("iris", "wine")}
    mixed = {name: table.data.assign(kind=table.target) for name, table in tables.items()}
    mixed["diabetes"] = datasets.load_diabetes(as_frame=True).data
    mixed["fair"] = sm.datasets.fair.load_pandas().data
    mixed["anes96"] = sm.datasets.anes96.load_pandas().data
    categories = {
        "iris": ("kind",),
        "wine": ("kind",),
        "diabetes": ("sex",),
        "fair": ("occupation", "occupation_husb", "religious"),
        "anes96": ("PID", "vote", "educ"),
    }
    return {
        name: table.astype(dict.fromkeys(categories[name], str)) for name, table in mixed.items()
    }


def real_mixed(name: str) -> Draw:
    """Return a generator of the columns of a mixed table and permuted copies of all of them."""

    def draw(rng: Generator, shared: bool, data: Data) -> Sample:
        table = load_mixed()[name]
        table = table.iloc[np.sort(rng.permutation(len(table))[:MAX_ROWS])].reset_index(drop=True)
        copies = {
            f"{column}, permuted": rng.permutation(table[column].to_numpy())
            for column in table.columns
        }
        X = pd.concat([table, pd.DataFrame(copies, dtype=None)], axis=1)
        X = X.astype({f"{c}, permuted": table[c].dtype for c in table.columns})
        if not shared:
            X = X.iloc[:, table.shape[1] :]
        truth = np.arange(X.shape[1]) < (table.shape[1] if shared else 0)
        return Sample(X, truth, rng.standard_normal(len(table)))

    return draw


MIXED_SITUATIONS = (
    Situation("categories of 2 to 40 levels and numbers", mixed_table),
    *(
        Situation(f"{name} and permuted copies", real_mixed(name))
        for name in ("iris", "wine", "diabetes", "fair", "anes96")
    ),
)


# --- competing methods


def impute_by_sca(X: Array) -> Array:
    model = SCA(max_iter=200).fit(X)
    return np.asarray(model.impute(X))


IMPUTERS: dict[str, Callable[[Array], Array]] = {
    "mean": lambda X: SimpleImputer().fit_transform(X),
    "KNN": lambda X: KNNImputer().fit_transform(X),
    "IterativeImputer": lambda X: IterativeImputer(
        max_iter=3, n_nearest_features=10, random_state=0
    ).fit_transform(X),
    "SCA": impute_by_sca,
}


def impute_then_test(name: str, sample: Sample) -> Array:
    """Impute missing values, and test the complete data matrix by FDRPCA."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(FDRPCA().fit(IMPUTERS[name](sample.X)).support_)


def coded(X: pd.DataFrame) -> tuple[Array, Array]:
    """Code categories by indicators; return also the variable of each column."""
    parts = [
        pd.get_dummies(X[c], dtype=float).to_numpy()
        if X[c].dtype.kind not in "fiu"
        else X[[c]].to_numpy(float)
        for c in X.columns
    ]
    position = np.repeat(np.arange(len(parts)), [part.shape[1] for part in parts])
    Z = np.column_stack(parts)
    varies = Z.std(axis=0) > 1e-12
    return Z[:, varies], position[varies]


def one_hot_test(sample: Sample) -> Array:
    """Test the squared correlations of indicators with other variables by row permutation."""
    Z, position = coded(sample.X)
    Z = (Z - Z.mean(axis=0)) / Z.std(axis=0) / np.sqrt(Z.shape[0])
    same = position[:, None] == position
    sums = (np.arange(sample.truth.size)[:, None] == position).astype(float)
    rng = np.random.default_rng(0)

    def statistics(order: Array | slice) -> Array:
        return sums @ np.sum(np.where(same, 0.0, (Z[order].T @ Z) ** 2), axis=1)

    observed, exceeded = statistics(slice(None)), np.ones(sample.truth.size)
    for _ in range(N_PERMUTATIONS):
        exceeded += statistics(rng.permutation(Z.shape[0])) >= observed
    return np.asarray(benjamini_hochberg(exceeded / (N_PERMUTATIONS + 1.0), RATE))


def dimdesc(sample: Sample) -> Array:
    """Test each variable against each of five components that contain it."""
    Z, position = coded(sample.X)
    Z = (Z - Z.mean(axis=0)) / Z.std(axis=0) / np.sqrt(np.bincount(position)[position])
    U = np.linalg.svd(Z, full_matrices=False)[0][:, :N_COMPONENTS]
    n, pvalues = Z.shape[0], np.ones(sample.truth.size)
    for j in range(pvalues.size):
        B = np.linalg.qr(Z[:, position == j])[0]
        m = int(np.linalg.matrix_rank(Z[:, position == j]))
        R2 = np.minimum(np.sum((B.T @ U) ** 2, axis=0), 1.0 - 1e-12)
        F = (R2 / m) / ((1.0 - R2) / (n - 1 - m))
        pvalues[j] = min(1.0, N_COMPONENTS * float(stats.f.sf(F, m, n - 1 - m).min()))
    return np.asarray(benjamini_hochberg(pvalues, RATE))


def impute_by(name: str) -> Callable[[Sample], Array]:
    return lambda sample: impute_then_test(name, sample)


# --- cells

Methods = dict[str, Callable[[Sample], Array]]
COMPETING_MISSING: Methods = {f"{name}, then FDRPCA": impute_by(name) for name in IMPUTERS}
COMPETING_MIXED: Methods = {"indicators, permutation test": one_hot_test, "dimdesc": dimdesc}
OURS = GUARANTEES[:4]  # FDRPCA with both null hypotheses, without and with shared variance
PARTS = (
    ("Missing values", MISSING_SITUATIONS, COMPETING_MISSING),
    ("Categories", MIXED_SITUATIONS, COMPETING_MIXED),
)


def compete(name: str, select: Callable[[Sample], Array]) -> Guarantee:
    """Return the evaluation of a competing method, which claims no rate."""

    def evaluate(sample: Sample, rng: Generator) -> Outcome:
        return score_support(select(sample), sample.truth)

    return Guarantee(name, FALSE, 1.0, True, evaluate, N_COMPETING_DRAWS)


def evaluate_part(
    situations: tuple[Situation, ...], methods: Methods, quick: bool, data: Data
) -> Matrix:
    """Evaluate FDRPCA and the competing methods in each situation."""
    cells: Matrix = {}
    competing = [compete(name, select) for name, select in methods.items()]
    for situation in situations[:1] if quick else situations:
        for guarantee, n_draws in (
            *zip(OURS, N_DRAWS, strict=True),
            *((guarantee, N_COMPETING_DRAWS) for guarantee in competing),
        ):
            cell = evaluate_cell(guarantee, situation, 2 if quick else n_draws, data)
            if cell is not None:
                cells[situation.name, guarantee.name] = cell
    return cells


def part_table(title: str, cells: Matrix, methods: Methods) -> PageTable:
    """Return one row per situation: error rate and power of each method."""
    header = ["situation", "FDRPCA: any", "false / power", "exchangeable: any", "false / power"]
    rows = []
    for situation in dict.fromkeys(name for name, _ in cells):
        row = [situation]
        for guarantee in OURS:
            cell = cells.get((situation, guarantee.name))
            row.append(f"{show(cell)} / {show_power(cell)}" if guarantee.shared else show(cell))
        for name in methods:
            cell = cells[situation, f"{name}: {FALSE}"]
            row.append(f"{cell.mean:.2f} / {show_power(cell)}")
        rows.append(tuple(row))
    return PageTable(title, (*header, *(f"{name}: false / power" for name in methods)), rows)


def run(quick: bool, data: Data, output: Path) -> Result:
    """Run E35."""
    rows: list[Row] = []
    tables, ours = [], []
    for title, situations, methods in PARTS:
        cells = evaluate_part(situations, methods, quick, data)
        rows += [row for cell in cells.values() for row in rows_of(cell)]
        tables.append(part_table(title, cells, methods))
        ours += [cell for cell in cells.values() if cell.guarantee in OURS]
    remarks = (
        "Missing values: 100 rows and 150 columns, 20 columns depend on three factors. Simulated "
        f"categories: {N_MIXED} rows and {P // 3} columns, of which every other is a category. "
        f"Real tables: all columns of at most {MAX_ROWS} random rows, and a permuted copy of each; "
        "false are the copies. Any: proportion of datasets without shared variance in which a "
        "variable is selected. False: mean false discovery proportion at a rate of 0.05. The first "
        "columns are FDRPCA with both null hypotheses. Competing methods impute missing values and "
        "apply FDRPCA to the complete data matrix, or code categories by indicators. Draws: "
        f"FDRPCA {', '.join(map(str, N_DRAWS))} (in the order of the columns), competing methods "
        f"{N_COMPETING_DRAWS}."
    )
    seeds = f"{SEED}, the name of the situation and the number of the draw"
    return Result(rows, make_claims(ours), [], seeds, remarks, tuple(tables))


EXPERIMENTS = (
    Experiment(
        "E35",
        "Error rates with missing values and categories",
        "Not from a paper: tables with missing values and categories",
        (),
        run,
    ),
)
