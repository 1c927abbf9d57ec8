"""E16: variable selection in regression, after [LMBC16]; ours beside the lasso and the elastic net
(by cross-validation), relevance determination, the minimax concave penalty (BIC, EBIC; needs skglm,
and is left out without) and R.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.linear_model import ARDRegression, ElasticNetCV, LassoCV
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from prosparse.datasets import make_sparse_regression
from prosparse.metrics import support_f_score
from prosparse.models.spinyreg import SpinyRegressor

from .base import Claim, Experiment, Result, Row
from .data import Data

Array = np.ndarray

# R package spinyReg 0.1-0, default arguments
R_PROSTATE: dict[str, Any] = {
    "variables": ("lcavol", "lweight", "svi"),
    "log_evidence": (-118.0247, -114.2951, -108.9472, -109.9118, -110.7886, -111.978),
}
R_DIABETES = 21  # variables, of 64
R_SIMULATED = {(50, 100, 10): (38, 10), (100, 200, 20): (76, 18)}  # selected, of which true

DESIGNS = ((50, 100, 10), (100, 200, 20))
CORRELATIONS = (0.0, 0.75)


class MCPWithBIC(RegressorMixin, BaseEstimator):
    """skglm's minimax concave penalty on a grid of 50 penalties, chosen by Schwarz's criterion or
    by its extension to many variables (Chen & Chen 2008).

    With more variables than samples Schwarz's criterion prefers models that fit exactly: the grid
    ends where half as many variables as samples are in.
    """

    def __init__(self, extended: bool = False):
        self.extended = extended

    def fit(self, X: Array, y: Array) -> MCPWithBIC:
        from skglm import MCPRegression

        n, p = X.shape
        price = np.log(n) + (2.0 * np.log(p) if self.extended else 0.0)
        centred = y - y.mean()
        largest = float(np.max(np.abs(X.T @ centred))) / n
        best = np.inf
        for alpha in np.geomspace(largest, 0.005 * largest, 50):
            model = MCPRegression(alpha=alpha, fit_intercept=False, tol=1e-6).fit(X, centred)
            size = int(np.count_nonzero(model.coef_))
            if 2 * size > n:
                break
            rss = float(np.sum((centred - X @ model.coef_) ** 2))
            bic = n * np.log(rss / n) + size * price
            if bic < best:
                best, self.coef_ = bic, model.coef_.copy()
        self.intercept_ = y.mean() - X.mean(axis=0) @ self.coef_
        return self

    def predict(self, X: Array) -> Array:
        return X @ self.coef_ + self.intercept_


def methods() -> dict[str, Any]:
    """Estimators by name. ARDRegression and the lasso are given scaled columns, as ours are."""
    found: dict[str, Any] = {
        "ours": SpinyRegressor(),
        "lasso": make_pipeline(StandardScaler(), LassoCV(max_iter=10_000)),
        "elastic net": make_pipeline(StandardScaler(), ElasticNetCV(max_iter=10_000)),
        "ARD": make_pipeline(StandardScaler(), ARDRegression()),
    }
    try:
        import skglm  # noqa: F401
    except ImportError:
        return found
    return found | {
        "MCP, BIC": make_pipeline(StandardScaler(), MCPWithBIC()),
        "MCP, EBIC": make_pipeline(StandardScaler(), MCPWithBIC(extended=True)),
    }


def support(model: Any) -> Array:
    """Return the selected variables of a fitted estimator."""
    last = model[-1] if hasattr(model, "steps") else model
    return np.asarray(last.support_ if hasattr(last, "support_") else last.coef_ != 0)


def ten_fold(X: Array, y: Array, model: BaseEstimator, seed: int) -> tuple[float, float]:
    """Mean squared error and mean number of variables over ten folds."""
    errors, sizes = [], []
    for train, test in KFold(10, shuffle=True, random_state=seed).split(X):
        fitted: Any = clone(model).fit(X[train], y[train])
        errors.append(np.mean((y[test] - fitted.predict(X[test])) ** 2))
        sizes.append(support(fitted).sum())
    return float(np.mean(errors)), float(np.mean(sizes))


def simulated(
    design: tuple[int, int, int], correlation: float, runs: int, seed: int
) -> dict[str, Array]:
    """F-score and number of variables of every method in every run, (runs, 2)."""
    n, p, q = design
    results: dict[str, list[tuple[float, int]]] = {name: [] for name in methods()}
    for run in range(runs):
        X, y, coef = make_sparse_regression(
            n, p, n_informative=q, correlation=correlation, random_state=seed + run
        )
        for name, model in methods().items():
            chosen = support(model.fit(X, y))
            results[name].append((support_f_score(coef != 0, chosen), int(chosen.sum())))
    return {name: np.array(values) for name, values in results.items()}


def prostate(data: Data) -> tuple[list[Row], list[Claim]]:
    """The whole path beside that of the R program."""
    file = data("prostate")
    X, y, names = file["X"], file["y"], file["feature_names"]
    model = SpinyRegressor().fit(X, y)
    chosen = tuple(str(name) for name in names[model.support_])
    rows = [Row("prostate: variables chosen", model.n_selected_, None, 3, ", ".join(chosen))]
    theirs = R_PROSTATE["log_evidence"]
    ours = {int(q): v for q, v in zip(model.cardinalities_, model.log_evidence_path_, strict=True)}
    for q, value in enumerate(theirs, start=1):
        if q in ours:
            rows.append(Row(f"prostate: log evidence of {q}", ours[q], None, value, "R spinyReg"))
    claims = [
        Claim("prostate: lcavol, lweight and svi are chosen", chosen == R_PROSTATE["variables"]),
        Claim(
            "prostate: the evidence of every model is at least R's",
            all(ours[q] >= value for q, value in enumerate(theirs, start=1) if q in ours),
            "R does not maximise over the precisions of each model",
        ),
    ]
    return rows, claims


def diabetes(
    data: Data, seeds: tuple[int, ...], compared: dict[str, Any]
) -> tuple[list[Row], list[Claim]]:
    """442 patients, 10 measurements with their squares and interactions."""
    file = data("diabetes")
    X, y = file["X2"].astype(float), file["y"].astype(float)
    model = SpinyRegressor().fit(X, y)
    rows = [Row("diabetes: variables chosen", model.n_selected_, None, R_DIABETES, "R spinyReg")]
    errors = {}
    for name, method in compared.items():
        folds = np.array([ten_fold(X, y, method, seed) for seed in seeds])
        errors[name] = folds[:, 0].mean()
        size = f"{folds[:, 1].mean():.1f} variables"
        rows.append(Row(f"diabetes: ten-fold error, {name}", errors[name], None, None, size))
    claim = "diabetes: the ten-fold error is no worse than the lasso's"
    slack = 1.03 if len(seeds) == 1 else 1.0  # one division of the rows says little
    return rows, [Claim(claim, bool(errors["ours"] <= slack * errors["lasso"]))]


def simulations(
    runs: int, designs: tuple[tuple[int, int, int], ...]
) -> tuple[list[Row], list[Claim]]:
    """F-scores, n < p, on independent and on correlated columns."""
    rows, claims = [], []
    for design in designs:
        for correlation in CORRELATIONS:
            table = simulated(design, correlation, runs, 0)
            n, p, q = design
            setting = f"{n} x {p}, {q} true, correlation {correlation:g}"
            for name, values in table.items():
                error = values[:, 0].std(ddof=1) / np.sqrt(runs)
                size = f"{values[:, 1].mean():.1f} variables"
                rows.append(
                    Row(f"F-score, {setting}, {name}", values[:, 0].mean(), error, None, size)
                )
            if correlation == 0.0:
                k, right = R_SIMULATED[design]
                score = 2 * right / (q + k)
                rows.append(Row(f"F-score, {setting}, R spinyReg", score, None, None, "one run"))
            means = {name: values[:, 0].mean() for name, values in table.items()}
            others = [means[name] for name in means if name not in ("ours", "MCP, EBIC")]
            note = "" if "MCP, BIC" in means else "skglm is not installed"
            text = f"{setting}: F-score above those of lasso, elastic net, ARD and MCP with BIC"
            claims.append(Claim(text, bool(means["ours"] > max(others)), note))
    return rows, claims


def run(quick: bool, data: Data, output: Path) -> Result:
    """Prostate, diabetes with interactions, and simulations with n < p."""
    compared = methods()
    if quick:  # those of which the statement is
        compared = {name: compared[name] for name in ("ours", "lasso")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the peers: convergence, divisions
        parts = [
            prostate(data),
            diabetes(data, (0,) if quick else tuple(range(10)), compared),
            simulations(3, DESIGNS[:1]) if quick else simulations(50, DESIGNS),
        ]
    rows = [row for some, _ in parts for row in some]
    claims = [claim for _, some in parts for claim in some]
    return Result(rows, claims, [], "0 to 2" if quick else "0 to 49; folds 0 to 9", REMARKS)


REMARKS = (
    "The choice is by evidence and a prior on the number of variables. MCP with extended BIC, "
    "where skglm is installed, is shown beside it and is not part of the statements."
)

EXPERIMENTS = [
    Experiment(
        "E16",
        "variable selection in regression",
        "Latouche, Mattei, Bouveyron & Chiquet 2016",
        ("prostate", "diabetes"),
        run,
    )
]
