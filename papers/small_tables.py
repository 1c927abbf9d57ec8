"""Small tables of scikit-learn and statsmodels, and column selection by their covariance.

Forward selection with exchanges selects columns by the covariance of the training rows alone: each
step adds the column that explains most of the variance of all columns, then single columns are
exchanged until no exchange explains more.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from itertools import combinations

import numpy as np
from sklearn import datasets
from sklearn.model_selection import KFold

Array = np.ndarray

MAX_ROWS = 2_000  # rows of large tables, at random
MIN_ROWS, MIN_COLUMNS = 50, 4  # of the complete rows and varying numeric columns of a table
MIN_VARIANCE = 1e-9  # proportion of the variance below which a column is determined by others
# Tables of statsmodels that are large enough.
STATSMODELS = (
    "anes96",
    "ccard",
    "danish_data",
    "elnino",
    "fair",
    "grunfeld",
    "interest_inflation",
    "macrodata",
    "modechoice",
    "randhie",
    "star98",
    "statecrime",
)


def standard_tables() -> dict[str, Array]:
    """Return the tables of scikit-learn."""
    tables = {
        "diabetes": datasets.load_diabetes(scaled=False).data,
        "wine": datasets.load_wine().data,
        "breast cancer": datasets.load_breast_cancer().data,
        "digits": datasets.load_digits().data,
        "iris": datasets.load_iris().data,
    }
    return {name: complete(X) for name, X in tables.items()}


def statsmodels_tables() -> dict[str, Array]:
    """Return tables of statsmodels; none if it is not installed."""
    tables: dict[str, Array] = {}
    for name in STATSMODELS:
        try:
            module = import_module(f"statsmodels.datasets.{name}")
        except ImportError:
            continue
        frame = module.load_pandas().data.select_dtypes("number")
        X = complete(frame.to_numpy(dtype=float))
        if X.shape[0] >= MIN_ROWS and X.shape[1] >= MIN_COLUMNS:
            tables[name] = X
    return tables


def complete(X: Array) -> Array:
    """Return complete rows, at most `MAX_ROWS`, and the columns that vary."""
    X = np.asarray(X, dtype=float)
    X = X[np.isfinite(X).all(axis=1)]
    if X.shape[0] > MAX_ROWS:
        X = X[np.sort(np.random.default_rng(0).permutation(X.shape[0])[:MAX_ROWS])]
    return X[:, X.std(axis=0) > 1e-9 * np.abs(X).max(axis=0)]


# --- selection by a covariance matrix


def explained_variance(C: Array, columns: list[int]) -> float:
    """Return the variance of all columns that some columns explain by least squares."""
    inside, cross = C[np.ix_(columns, columns)], C[columns]
    return float(np.sum(cross * np.linalg.lstsq(inside, cross, rcond=MIN_VARIANCE)[0]))


def select_with_exchanges(C: Array, size: int) -> list[int]:
    """Select columns greedily and exchange single columns while that explains more."""
    selected: list[int] = []
    candidates = range(C.shape[0])
    while len(selected) < size:
        gains = {k: explained_variance(C, [*selected, k]) for k in candidates if k not in selected}
        selected.append(max(gains, key=lambda k: gains[k]))
    value, has_improved = explained_variance(C, selected), True
    while has_improved:
        has_improved = False
        for position in range(size):
            for k in set(candidates) - set(selected):
                trial = [*selected[:position], k, *selected[position + 1 :]]
                trial_value = explained_variance(C, trial)
                if trial_value > value * (1.0 + 1e-9):
                    selected, value, has_improved = trial, trial_value, True
    return selected


def best_explained_variance(C: Array, size: int) -> float:
    """Return the largest explained variance over all sets of columns of this size."""
    return max(
        explained_variance(C, list(columns)) for columns in combinations(range(len(C)), size)
    )


# --- evaluation in held-out rows


def folds(X: Array, n_folds: int, n_repeats: int) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Yield raw and standardised training rows, standardised test rows and their scale.

    Only columns that vary in the training rows are returned.
    """
    for repeat in range(n_repeats):
        for train, test in KFold(n_folds, shuffle=True, random_state=repeat).split(X):
            varying = X[train].std(axis=0) > 1e-9 * np.abs(X).max(axis=0)
            mean, std = X[train][:, varying].mean(axis=0), X[train][:, varying].std(axis=0)
            raw = X[train][:, varying]
            yield raw, (raw - mean) / std, (X[test][:, varying] - mean) / std, std


def heldout_r2(train: Array, test: Array, columns: list[int]) -> tuple[float, float]:
    """Return the residual and the total sum of squares of the test rows by least squares."""
    coefficients = np.linalg.lstsq(train[:, columns], train, rcond=MIN_VARIANCE)[0]
    residual = test - test[:, columns] @ coefficients
    residual[:, columns] = 0.0
    return float(np.sum(residual**2)), float(np.sum(test**2))
