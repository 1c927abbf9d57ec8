"""E29: regression on the columns of real tables.

The rows of a dataset are random rows of a table, and the variables are random columns of it, or all
of them. Responses are simulated with sparse, unequal, grouped or dense coefficients and Gaussian
noise, or one column is the response. All methods fit the same datasets on one thread and are scored
on other rows of the table. joblib runs the datasets, in parallel within
``joblib.parallel_config(n_jobs=16)``.
"""

from __future__ import annotations

import warnings
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.stats import rankdata
from sklearn.linear_model import ARDRegression, ElasticNetCV, LassoCV, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import threadpool_limits

from prosparse.models.spinyreg import SpinyRegressor

from .base import Claim, Experiment, PageTable, Result, Row, mean_row, seed_range
from .data import Data
from .regression_grid import OURS, RELAXED, RelaxedLassoCV

Array = np.ndarray

N_DATASETS = 8  # datasets per table and kind of coefficients
N_TEST = 400  # maximum number of test rows
SIGNAL_RATIO = 2.0  # variance of the signal relative to the noise
MAX_LOSS = 1.1  # maximum error relative to the best method on one kind of coefficients

SPARSE, UNEQUAL, GROUPED, DENSE = "sparse", "unequal", "grouped", "dense"
REAL = "real response"
KINDS = (SPARSE, UNEQUAL, GROUPED, DENSE, REAL)


class Design(NamedTuple):
    """Numbers of training rows and of variables drawn from a table."""

    n: int
    p: int


DESIGNS = {
    "vdx": Design(100, 300),
    "tcga": Design(100, 200),
    "urine": Design(200, 200),
    "mfeat": Design(300, 216),
    "usps": Design(300, 200),
    "text": Design(400, 200),
    "diabetes": Design(200, 64),
}


def read_table(name: str, data: Data) -> Array:
    """Return the (rows, columns) table ``name``."""
    file = data(name)
    if name == "text":  # log counts of the most frequent terms
        counts = sparse.csr_matrix(
            (file["data"], file["indices"], file["indptr"]), shape=tuple(file["shape"])
        )
        frequent = np.argsort(-np.asarray((counts > 0).sum(axis=0)).ravel(), kind="stable")[:400]
        return np.log1p(counts[:, np.sort(frequent)].toarray().astype(float))
    key = {"tcga": "mrna_train", "mfeat": "fac", "diabetes": "X2"}.get(name, "X")
    return np.asarray(file[key], dtype=float)


class Dataset(NamedTuple):
    """Training and test rows, and the noise variance."""

    X: Array
    y: Array
    test_X: Array
    test_y: Array  # without noise if simulated
    sigma2: float  # noise variance, or variance of a real response


def coefficients(kind: str, X: Array, rng: np.random.Generator) -> Array:
    """Draw the coefficients of the standardised columns of X."""
    p = X.shape[1]
    signs, coef = rng.choice([-1.0, 1.0], p), np.zeros(p)
    if kind == DENSE:
        return np.asarray(rng.standard_normal(p))
    if kind == GROUPED:  # three variables, each with its four most correlated ones
        correlation = np.corrcoef(X.T)
        for j in rng.choice(p, 3, replace=False):
            group = np.argsort(-np.abs(correlation[j]), kind="stable")[:5]
            coef[group] = signs[j] * np.sign(correlation[j, group])
        return coef
    positions = rng.permutation(p)
    if kind == SPARSE:
        coef[positions[:5]] = signs[:5]
    else:  # one large, four medium and fifteen small coefficients
        size = np.repeat([1.0, 0.4, 0.15], [1, 4, 15])
        coef[positions[:20]] = signs[:20] * size
    return coef


def simulate(table: Array, design: Design, kind: str, seed: int) -> Dataset:
    """Draw rows and columns of a table, and a response."""
    rng = np.random.default_rng([seed, *design, KINDS.index(kind)])
    rows = rng.permutation(table.shape[0])[: design.n + N_TEST]
    varying = np.flatnonzero(table[rows[: design.n]].std(axis=0) > 0.0)
    columns = rng.permutation(varying)[: design.p]
    X = table[np.ix_(rows, columns)]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    if kind == REAL:
        y, X = X[:, 0], X[:, 1:]
        return Dataset(X[: design.n], y[: design.n], X[design.n :], y[design.n :], float(y.var()))
    signal = X @ coefficients(kind, X, rng)
    signal -= signal.mean()
    sigma2 = float(signal.var()) / SIGNAL_RATIO
    y = signal[: design.n] + np.sqrt(sigma2) * rng.standard_normal(design.n)
    return Dataset(X[: design.n], y, X[design.n :], signal[design.n :], sigma2)


def methods() -> dict[str, Any]:
    """Return all estimators by name."""
    return {
        OURS: SpinyRegressor(),
        "LassoCV": make_pipeline(StandardScaler(), LassoCV(max_iter=5000)),
        "ElasticNetCV": make_pipeline(
            StandardScaler(), ElasticNetCV(l1_ratio=[0.1, 0.5, 0.9], max_iter=5000)
        ),
        RELAXED: make_pipeline(StandardScaler(), RelaxedLassoCV()),
        "RidgeCV": make_pipeline(StandardScaler(), RidgeCV(np.geomspace(1e-1, 1e5, 25))),
        "ARD": make_pipeline(StandardScaler(), ARDRegression()),
    }


def evaluate(table: Array, design: Design, kind: str, seed: int) -> dict[str, float]:
    """Return the relative test error of every method on one dataset.

    It is one plus the error of the signal relative to the noise variance for simulated responses,
    and the mean squared error relative to the variance for real ones.
    """
    truth, errors = simulate(table, design, kind, seed), {}
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")  # Some datasets have no detectable signal.
        for name, model in methods().items():
            prediction = model.fit(truth.X, truth.y).predict(truth.test_X)
            error = float(np.mean((truth.test_y - prediction) ** 2)) / truth.sigma2
            errors[name] = error if kind == REAL else 1.0 + error
    return errors


def run(quick: bool, data: Data, output: Path) -> Result:
    """Run E29."""
    names = ("diabetes",) if quick else tuple(DESIGNS)
    n_datasets = 1 if quick else N_DATASETS
    tables = {name: read_table(name, data) for name in names}
    calls = list(product(names, KINDS, range(n_datasets)))
    found: list[dict[str, float]] = Parallel()(
        delayed(evaluate)(tables[name], DESIGNS[name], kind, seed) for name, kind, seed in calls
    )
    by_method = list(found[0])
    errors = np.array([[each[method] for method in by_method] for each in found])
    ranks = rankdata(errors, axis=1)
    kind_of = np.array([kind for _, kind, _ in calls])
    mean = np.array([errors[kind_of == kind].mean(axis=0) for kind in KINDS])
    mean_rank = np.array([ranks[kind_of == kind].mean(axis=0) for kind in KINDS])
    overall, loss = ranks.mean(axis=0), mean[:, 0] / mean.min(axis=1)
    rows: list[Row] = []
    for k, method in enumerate(by_method):
        rows.append(Row(f"mean rank, {method}", float(overall[k])))
        for kind in KINDS:
            values = errors[kind_of == kind, k]
            rows.append(mean_row(f"relative test error, {kind}, {method}", values))
    for name in names:
        own = np.array([name == called for called, _, _ in calls])
        best = by_method[int(np.argmin(ranks[own].mean(axis=0)))]
        rows.append(
            Row(f"{name}: mean rank, {OURS}", float(ranks[own, 0].mean()), note=f"lowest: {best}")
        )
    worst = int(np.argmax(loss))
    claims = [
        Claim(
            "SpinyRegressor has the lowest mean rank",
            bool(np.argmin(overall) == 0),
            ", ".join(f"{m} {r:.2f}" for m, r in zip(by_method, overall, strict=True)),
        ),
        Claim(
            "on each kind of coefficients its mean error is at most 10 % above that of the best "
            "method",
            bool(loss.max() <= MAX_LOSS),
            f"largest {loss.max() - 1.0:+.1%}, {KINDS[worst]}",
        ),
    ]
    table = PageTable(
        "Mean relative test error (mean rank)",
        ("coefficients", *by_method),
        [
            (kind, *(f"{e:.3f} ({r:.2f})" for e, r in zip(mean[i], mean_rank[i], strict=True)))
            for i, kind in enumerate(KINDS)
        ]
        + [("all", *(f"({r:.2f})" for r in overall))],
    )
    remarks = (
        "Rows and columns are drawn from seven tables: "
        + ", ".join(f"{name} ({design.n} x {design.p})" for name, design in DESIGNS.items())
        + ". The variance of a simulated signal is twice that of the noise. sparse: five "
        "coefficients of equal size; unequal: 1 of 1, 4 of 0.4 and 15 of 0.15; grouped: three "
        "groups of five correlated variables; dense: all coefficients Gaussian; all signs are "
        "random. real response: one column is predicted from the others, and the error is relative "
        "to its variance. Ranks are those within a dataset."
    )
    return Result(rows, [] if quick else claims, [], seed_range(n_datasets), remarks, (table,))


EXPERIMENTS = (
    Experiment(
        "E29",
        "Regression on columns of real tables",
        "Latouche, Mattei, Bouveyron & Chiquet 2016",
        tuple(DESIGNS),
        run,
    ),
)
