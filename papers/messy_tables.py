"""E35: missing values, covariates and categories.

Each `Cell` draws tables whose columns with shared variance are known, and applies several methods
to the same tables. A method returns the mask of the variables that it selects at a false discovery
rate of 0.05. There are four groups of cells:

* the design of E23 with missing values, with and without columns that share variance. The
  competitors impute, then test;
* the design of E17 with missing values, compared with complete tables of as many rows as are
  observed in each column on average;
* the design of E23 with covariates of the rows, compared with the test of residuals from the true
  effects (oracle), and from effects estimated by least squares;
* mixed tables: the variables of real tables, numbers and categories, alongside independently
  permuted copies of all of them. The competitors replace categories by indicators.
"""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Callable, Iterable
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from sklearn import datasets as sklearn_datasets
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.utils.parallel import Parallel, delayed

from prosparse.models.fdrpca import FDRPCA
from prosparse.models.sca import SCA
from prosparse.structure.false_discoveries import benjamini_hochberg

from .base import Claim, Experiment, PageTable, Result, Row
from .data import Data
from .situations import (
    Distortion,
    batches_of_unequal_noise,
    numeric_covariates,
    simulated,
    undistorted,
)
from .structure import FIRST_SEED, score_selection, simulate_unequal

Array = np.ndarray
Generator = np.random.Generator

SEED = 35
RATE, MAX_RATE = 0.05, 0.06
N_DRAWS, N_MIXED_DRAWS, N_COMPETING = 50, 50, 8
N_QUICK = 2
QUICK = ("30 % at random", "100 rows, 30%", "weak", "iris")  # cells of a quick run
MAX_ROWS = 300  # rows of a mixed table
N_PERMUTATIONS = 400
N_DIMENSIONS = 5  # components with which dimension descriptions associate the variables
MIN_F_SCORES = {(100, 0.1): 0.975, (100, 0.3): 0.955, (40, 0.1): 0.82, (40, 0.3): 0.4}
MIN_OF_ORACLE = 0.95  # proportion of the power of oracle residuals
FDRPCA_NAME, ORACLE = "FDRPCA", "oracle residuals"
COMPLETE = "complete, fewer rows"
PERMUTATION = "indicators, permutation test"


class Table(NamedTuple):
    """A table and what its methods may use."""

    X: Any  # ndarray or DataFrame
    truth: Array  # (p,), mask of the variables that share variance
    covariates: Array | None = None
    adjusted: Array | None = None  # X without the effects of the covariates
    fewer_rows: Array | None = None  # complete table with as many rows as are observed


Method = Callable[[Table], Array]
Draw = Callable[[Generator], Table]


class Cell(NamedTuple):
    """Tables of one kind and the methods that are applied to them."""

    group: str
    name: str
    draw: Draw
    methods: dict[str, Method]  # the first one is FDRPCA
    n_draws: int = N_DRAWS


# --- missing values


def at_random(rate: float) -> Callable[[Array, Generator], Array]:
    return lambda X, rng: rng.random(X.shape) < rate


def by_row(X: Array, rng: Generator) -> Array:
    """Remove 70 % of the values of 40 % of the rows."""
    rows = rng.random((X.shape[0], 1)) < 0.4
    return np.asarray(rows & (rng.random(X.shape) < 0.7))


def by_column(X: Array, rng: Generator) -> Array:
    """Remove 70 % of the values of 40 % of the columns."""
    columns = rng.random(X.shape[1]) < 0.4
    return np.asarray(columns & (rng.random(X.shape) < 0.7))


def by_other_column(X: Array, rng: Generator) -> Array:
    """Remove a value with a probability that increases with the value of another column."""
    others = (np.arange(X.shape[1]) + rng.integers(1, X.shape[1])) % X.shape[1]
    probability = 1.0 / (1.0 + np.exp(1.2 - 1.5 * X[:, others]))
    return np.asarray(rng.random(X.shape) < probability)


MISSING = {
    "10 % at random": at_random(0.1),
    "30 % at random": at_random(0.3),
    "50 % at random": at_random(0.5),
    "by row": by_row,
    "by column": by_column,
    "depending on another column": by_other_column,
}


def remove_values(mask: Callable[[Array, Generator], Array], shared: bool) -> Draw:
    """Return a generator of E23's Gaussian tables with missing values."""

    def draw(rng: Generator) -> Table:
        sample = simulated(undistorted)(rng, shared, Data(None))
        return Table(np.where(mask(sample.X, rng), np.nan, sample.X), sample.truth)

    return draw


def remove_from_unequal(n: int, rate: float) -> Draw:
    """Return a generator of E17's tables with missing values."""

    def draw(rng: Generator) -> Table:
        seed = FIRST_SEED + int(rng.integers(2**31))
        X, truth = simulate_unequal(n, seed, False)
        fewer = simulate_unequal(round((1.0 - rate) * n), seed, False)[0]
        return Table(np.where(rng.random(X.shape) < rate, np.nan, X), truth, fewer_rows=fewer)

    return draw


def select(X: Any, covariates: Array | None = None) -> Array:
    return np.asarray(FDRPCA(fdr=RATE).fit(X, covariates=covariates).support_)


def impute_by(imputer: Callable[[], Any]) -> Method:
    """Return the test after imputation."""
    return lambda table: select(imputer().fit_transform(table.X))


IMPUTATIONS: dict[str, Method] = {
    FDRPCA_NAME: lambda table: select(table.X),
    "means": impute_by(SimpleImputer),
    "KNNImputer": impute_by(KNNImputer),
    "IterativeImputer": impute_by(
        lambda: IterativeImputer(max_iter=3, n_nearest_features=20, random_state=0)
    ),
    "SCA": lambda table: select(SCA(10).fit(table.X).impute(table.X)),
}


# --- covariates


def depend_on_covariates(distort: Distortion, shared: bool) -> Draw:
    def draw(rng: Generator) -> Table:
        sample = simulated(distort)(rng, shared, Data(None))
        return Table(sample.X, sample.truth, sample.covariates, sample.adjusted)

    return draw


def least_squares_residuals(table: Table) -> Array:
    """Return residuals given an intercept, numbers, and indicators of texts."""
    assert table.covariates is not None
    parts = [np.ones((len(table.X), 1))]
    for column in table.covariates.T:
        if column.dtype.kind in "US":
            parts.append((column[:, None] == np.unique(column)[1:]).astype(float))
        else:
            parts.append(column[:, None])
    Q = np.linalg.qr(np.hstack(parts))[0]
    return np.asarray(table.X - Q @ (Q.T @ table.X))


ADJUSTMENTS: dict[str, Method] = {
    FDRPCA_NAME: lambda table: select(table.X, table.covariates),
    ORACLE: lambda table: select(table.adjusted),
    "residuals": lambda table: select(least_squares_residuals(table)),
    "not adjusted": lambda table: select(table.X),
}


# --- categories


@cache
def mixed_tables() -> dict[str, Any]:
    """Return the mixed tables as DataFrames, with numbers and categories."""
    import pandas as pd
    import statsmodels.api as sm

    def with_categories(frame: Any, *names: str) -> Any:
        return frame.astype(dict.fromkeys(names, "category"))

    loaded = {
        name: getattr(sklearn_datasets, f"load_{name}")(as_frame=True)
        for name in ("iris", "wine", "diabetes")
    }
    tables = {name: loaded[name].frame for name in ("iris", "wine")}
    tables = {name: with_categories(frame, "target") for name, frame in tables.items()}
    tables["diabetes"] = with_categories(loaded["diabetes"].frame, "sex")
    tables["fair"] = with_categories(
        sm.datasets.fair.load_pandas().data, "religious", "educ", "occupation", "occupation_husb"
    )
    tables["anes96"] = with_categories(
        sm.datasets.anes96.load_pandas().data, "PID", "educ", "income", "vote"
    )
    return {name: pd.DataFrame(frame) for name, frame in tables.items()}


def simulate_levels(rng: Generator) -> Any:
    """Simulate ten numbers and categories of 2 to 40 levels with two factors."""
    import pandas as pd

    levels = np.array([2, 3, 5, 10, 20, 40])
    Z = rng.standard_normal((MAX_ROWS, 2)) @ rng.standard_normal((2, 10 + levels.size))
    Z = Z + rng.standard_normal(Z.shape)
    frame = pd.DataFrame(Z, columns=[f"x{k}" for k in range(Z.shape[1])])
    for k, count in enumerate(levels):
        ranks = stats.rankdata(Z[:, 10 + k]) / (Z.shape[0] + 1.0)
        codes = rng.permutation(count)[np.floor(count * ranks).astype(int)]
        frame[f"x{10 + k}"] = pd.Categorical(codes.astype(str))
    return frame


def with_permuted_copies(name: str) -> Draw:
    """Return a generator of mixed tables with a permuted copy of each variable."""

    def draw(rng: Generator) -> Table:
        import pandas as pd

        frame = simulate_levels(rng) if name == "simulated" else mixed_tables()[name]
        rows = rng.permutation(len(frame))[:MAX_ROWS]
        frame = frame.iloc[rows].reset_index(drop=True)
        copies = {
            f"copy of {name}": column.iloc[rng.permutation(len(frame))].reset_index(drop=True)
            for name, column in frame.items()
        }
        X = pd.concat([frame, pd.DataFrame(copies)], axis=1)
        order = rng.permutation(X.shape[1])
        return Table(X.iloc[:, order], order < frame.shape[1])

    return draw


def indicator_blocks(X: Any) -> list[Array]:
    """Return orthonormal centred columns for each variable: indicators of categories."""
    blocks = []
    for _, column in X.items():
        is_number = column.dtype.kind in "fiu"
        Z = column.to_numpy(float)[:, None] if is_number else np.eye(len(X))[column.cat.codes]
        U, values, _ = np.linalg.svd(Z - Z.mean(axis=0), full_matrices=False)
        blocks.append(U[:, values > 1e-9 * max(values[0], 1e-300)])
    return blocks


def permutation_test(table: Table) -> Array:
    """Test the sum of squared correlations of each variable with all others by permutation."""
    rng, blocks = np.random.default_rng(0), indicator_blocks(table.X)
    sizes = np.array([block.shape[1] for block in blocks])
    owner, Z = np.repeat(np.arange(sizes.size), sizes), np.hstack(blocks)
    exceeded = np.ones(sizes.size)
    for k, block in enumerate(blocks):
        others = Z[:, owner != k] / np.sqrt(sizes[owner[owner != k]])
        observed = np.sum((block.T @ others) ** 2)
        for _ in range(N_PERMUTATIONS):
            permuted = block[rng.permutation(len(block))]
            exceeded[k] += np.sum((permuted.T @ others) ** 2) >= observed
    return benjamini_hochberg(exceeded / (N_PERMUTATIONS + 1.0), RATE)


def describe_dimensions(table: Table) -> Array:
    """Test each variable against components that contain it, as FactoMineR's ``dimdesc`` does.

    F tests of the leading components on each variable, corrected for their number.
    """
    blocks = indicator_blocks(table.X)
    n = len(table.X)
    U = np.linalg.svd(np.hstack(blocks), full_matrices=False)[0][:, :N_DIMENSIONS]
    pvalues = np.ones(len(blocks))
    for k, block in enumerate(blocks):
        r2, m = np.sum((block.T @ U) ** 2, axis=0), block.shape[1]
        F = (r2 / m) / np.maximum((1.0 - r2) / (n - 1 - m), 1e-300)
        pvalues[k] = min(1.0, N_DIMENSIONS * float(stats.f.sf(F, m, n - 1 - m).min()))
    return benjamini_hochberg(pvalues, RATE)


MIXED: dict[str, Method] = {
    FDRPCA_NAME: lambda table: select(table.X),
    PERMUTATION: permutation_test,
    "description of components": describe_dimensions,
}
MIXED_NAMES = ("iris", "wine", "diabetes", "fair", "anes96", "simulated")


# --- cells

COVARIATES = {
    "weak": numeric_covariates(0.3),
    "strong": numeric_covariates(3.0),
    "20 batches of unequal noise": batches_of_unequal_noise(20, 0.5),
}
MISSING_GROUP, UNEQUAL_GROUP = "Missing values", "Missing values, design of E17"
COVARIATE_GROUP, MIXED_GROUP = "Covariates", "Mixed tables"
CELLS = (
    *(
        Cell(
            MISSING_GROUP,
            name if shared else f"{name}, nothing shared",
            remove_values(mask, shared),
            IMPUTATIONS,
        )
        for name, mask in MISSING.items()
        for shared in (True, False)
    ),
    *(
        Cell(
            UNEQUAL_GROUP,
            f"{n} rows, {rate:.0%}",
            remove_from_unequal(n, rate),
            {
                FDRPCA_NAME: IMPUTATIONS[FDRPCA_NAME],
                "means": IMPUTATIONS["means"],
                COMPLETE: lambda table: select(table.fewer_rows),
            },
        )
        for n, rate in MIN_F_SCORES
    ),
    *(
        Cell(
            COVARIATE_GROUP,
            name if shared else f"{name}, nothing shared",
            depend_on_covariates(distort, shared),
            ADJUSTMENTS,
        )
        for name, distort in COVARIATES.items()
        for shared in (True, False)
    ),
    *(
        Cell(MIXED_GROUP, name, with_permuted_copies(name), MIXED, N_MIXED_DRAWS)
        for name in MIXED_NAMES
    ),
)


class Outcome(NamedTuple):
    """Result of one method on one table."""

    false: float  # false discovery proportion
    power: float  # NaN if nothing is shared
    F: float


def evaluate_draw(position: int, draw: int) -> dict[str, Outcome]:
    """Apply the methods of a cell to one of its tables; competitors have fewer draws."""
    cell = CELLS[position]
    rng = np.random.default_rng([SEED, zlib.crc32(f"{cell.group} {cell.name}".encode()), draw])
    table = cell.draw(rng)
    results = {}
    for name, method in cell.methods.items():
        is_imputation = cell.group == MISSING_GROUP and name != FDRPCA_NAME
        if is_imputation and draw >= N_COMPETING:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            support = method(table)
        score = score_selection(table.truth, support)
        power = float(support[table.truth].mean()) if table.truth.any() else math.nan
        results[name] = Outcome(score.false, power, score.F)
    return results


class Summary(NamedTuple):
    """Means and standard errors of the outcomes of one method in one cell."""

    mean: Outcome
    error: Outcome
    n_draws: int

    @property
    def holds(self) -> bool:
        """Whether the rate is at most its maximum, with two standard errors allowed."""
        error = self.error.false
        if math.isnan(self.mean.power):  # The proportion is 0 or 1.
            error = math.sqrt(MAX_RATE * (1.0 - MAX_RATE) / self.n_draws)
        return bool(self.mean.false <= MAX_RATE + 2.0 * error)


Summaries = dict[tuple[str, str, str], Summary]  # by group, cell and method


def summarise(outcomes: list[Outcome]) -> Summary:
    values = np.array(outcomes)
    error = values.std(axis=0, ddof=1) / math.sqrt(len(outcomes))
    return Summary(Outcome(*values.mean(axis=0)), Outcome(*error), len(outcomes))


def evaluate_cells(quick: bool) -> Summaries:
    """Evaluate all cells, or some; joblib runs the draws."""
    numbers = [(N_QUICK if cell.name in QUICK else 0) if quick else cell.n_draws for cell in CELLS]
    planned = [(k, draw) for k, number in enumerate(numbers) for draw in range(number)]
    # Draws that take long come first.
    order = sorted(range(len(planned)), key=lambda i: planned[i][1])
    results: list[Any] = Parallel()(delayed(evaluate_draw)(*planned[i]) for i in order)
    by_task = dict(zip(order, results, strict=True))
    remaining = iter([by_task[i] for i in range(len(planned))])
    summaries = {}
    for cell, number in zip(CELLS, numbers, strict=True):
        draws = list(islice(remaining, number))
        for name in cell.methods:
            outcomes = [draw[name] for draw in draws if name in draw]
            if outcomes:
                summaries[cell.group, cell.name, name] = summarise(outcomes)
    return summaries


# --- page


def rows_of(summaries: Summaries) -> Iterable[Row]:
    for (group, cell, method), found in summaries.items():
        name, note = f"{group}, {cell}, {method}", f"{found.n_draws} draws"
        mean, error = found.mean, found.error
        yield Row(f"{name}: false discovery proportion", mean.false, error.false, note=note)
        if not math.isnan(mean.power):
            yield Row(f"{name}: power", mean.power, error.power, note=note)
            yield Row(f"{name}: F-score", mean.F, error.F, note=note)


def page_tables(summaries: Summaries) -> tuple[PageTable, ...]:
    """Return one table per group, with rate and power (F-score for E17) of each method."""
    tables = []
    for group in dict.fromkeys(cell.group for cell in CELLS):
        cells = [cell for cell in CELLS if (*cell[:2], FDRPCA_NAME) in summaries]
        cells = [cell for cell in cells if cell.group == group]
        rows = []
        for cell in cells:
            row = [cell.name]
            for method in cell.methods:
                found = summaries[group, cell.name, method]
                text = f"{found.mean.false:.3f}"
                if not math.isnan(found.mean.power):
                    second = found.mean.F if group == UNEQUAL_GROUP else found.mean.power
                    text += f", {second:.3f}"
                row.append(text if found.holds else f"**{text}**")
            rows.append(tuple(row))
        tables.append(PageTable(group, ("table", *cells[0].methods), rows))
    return tuple(tables)


def make_claims(summaries: Summaries) -> list[Claim]:
    own = {key[:2]: found for key, found in summaries.items() if key[2] == FDRPCA_NAME}
    exceeded = [
        f"{group}, {cell}: {found.mean.false:.3f} ± {found.error.false:.3f}"
        for (group, cell), found in own.items()
        if not found.holds
    ]
    claims = [
        Claim(
            f"the false discovery rate of FDRPCA is at most {MAX_RATE:g} in each cell, with two "
            "standard errors allowed",
            not exceeded,
            "; ".join(exceeded) or f"{len(own)} cells",
        )
    ]
    for (n, rate), minimum in MIN_F_SCORES.items():
        key = UNEQUAL_GROUP, f"{n} rows, {rate:.0%}"
        if key not in own:
            continue
        found = own[key]
        shortfall = minimum - found.mean.F
        claims.append(
            Claim(
                f"{n} rows with {rate:.0%} missing: the F-score of FDRPCA is at least {minimum:g}",
                bool(shortfall <= 0.0),
                f"{found.mean.F:.3f} ± {found.error.F:.3f}",
            )
        )
    ratios = {
        name: own[COVARIATE_GROUP, name].mean.power
        / summaries[COVARIATE_GROUP, name, ORACLE].mean.power
        for name in COVARIATES
        if (COVARIATE_GROUP, name) in own
    }
    claims.append(
        Claim(
            f"with covariates FDRPCA finds at least {MIN_OF_ORACLE:.0%} of the columns that it "
            "finds in residuals from the true effects",
            bool(min(ratios.values()) >= MIN_OF_ORACLE),
            ", ".join(f"{name} {ratio:.3f}" for name, ratio in ratios.items()),
        )
    )
    differences = {
        name: (
            own[MIXED_GROUP, name].mean.power - other.mean.power,
            math.hypot(own[MIXED_GROUP, name].error.power, other.error.power),
        )
        for name in MIXED_NAMES
        if (other := summaries.get((MIXED_GROUP, name, PERMUTATION)))
    }
    claims.append(
        Claim(
            "in mixed tables FDRPCA finds at least as many real variables as a permutation test "
            "of indicators, with two standard errors allowed",
            all(bool(value >= -2.0 * error) for value, error in differences.values()),
            ", ".join(f"{name} {value:+.3f}" for name, (value, _) in differences.items()),
        )
    )
    return claims


def describe() -> str:
    return (
        "Mean false discovery proportion and power at a rate of 0.05; F-score instead of power in "
        "the design of E17. If nothing is shared, the first number is the proportion of tables in "
        f"which a variable is selected. Above {MAX_RATE:g} plus two standard errors: bold. Tables "
        "have 100 rows and 150 columns, of which 20 share three factors. By row, by column: 70 % "
        "missing in 40 % of the rows or columns. Depending on another column: the log odds of a "
        "missing value are 1.5 x - 1.2, where x is the value of another column. Imputations are "
        f"followed by FDRPCA and evaluated on {N_COMPETING} tables, other methods on {N_DRAWS}, in "
        f"mixed tables on {N_MIXED_DRAWS}. Mixed tables have at most {MAX_ROWS} random rows, and "
        "the permuted copies are the false variables; `simulated` has categories of 2 to 40 levels "
        "(levels with fewer than five rows would be pooled)."
    )


def run(quick: bool, data: Data, output: Path) -> Result:
    """Run E35."""
    summaries = evaluate_cells(quick)
    seeds = f"{SEED}, the name of the cell and the number of the draw"
    return Result(
        list(rows_of(summaries)),
        make_claims(summaries),
        [],
        seeds,
        describe(),
        page_tables(summaries),
    )


EXPERIMENTS = (
    Experiment(
        "E35",
        "Missing values, covariates and categories",
        "Not from a paper: tables as they are",
        (),
        run,
    ),
)
