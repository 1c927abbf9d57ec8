"""E30: panels of ordinary tables: accuracy, size, intervals, missing values and certificates.

Not from a paper. The tables are those of scikit-learn and statsmodels, without response or label.
Columns are selected in four fifths of the rows; least squares on the selected columns predicts all
columns in the other rows. The empirical competitors select columns that minimise the squared error
of least squares in the training rows: greedily, with exchanges, or at random.
"""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
from sklearn import datasets as sklearn_datasets
from sklearn.model_selection import KFold

from prosparse.models.panel import Panel

Array = np.ndarray

PAPER = "Not from a paper: panels of ordinary tables"
SIZES = (3, 5, 8, 12)
N_FOLDS, N_REPEATS = 5, 4
N_RANDOM = 30  # number of random sets
MIN_ROWS_PER_COLUMN = 2  # training rows per selected column, for least squares
MAX_ROWS = 1_000  # maximum number of rows of a table
N_SEEDS = 10  # seeds of `Panel()`
N_SPLITS = 10  # splits for intervals and missing values
PROPORTION_MISSING = 0.2
N_CERTIFIED = 30  # tables with at most `MAX_CERTIFIED` columns
MAX_CERTIFIED = 20
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


def compare_methods(X: Array, count: int, n_repeats: int) -> Array:
    """Return the test R2 of all methods, (n_repeats, 4), each the mean over the folds."""
    results = []
    for seed in range(n_repeats):
        folds = KFold(N_FOLDS, shuffle=True, random_state=seed).split(X)
        parts = [standardise_by(X[train], X[test]) for train, test in folds]
        values = [compare_on_fold(*part, count, seed) for part in parts]
        results.append([np.mean([value[name] for value in values]) for name in METHODS])
    return np.array(results)
