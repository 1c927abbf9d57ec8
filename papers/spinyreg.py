"""E16: variable selection in regression, after [LMBC16].

Competing methods: lasso and elastic net (cross-validated), automatic relevance determination, the
minimax concave penalty (BIC and EBIC, if skglm is installed) and the R package spinyReg.
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
R_SIMULATED = {
    (50, 100, 10): (38, 10),
    (100, 200, 20): (76, 18),
}  # numbers of selected and of true selected variables

DESIGNS = ((50, 100, 10), (100, 200, 20))
CORRELATIONS = (0.0, 0.75)


class MCPWithBIC(RegressorMixin, BaseEstimator):
    """Minimax concave penalty (skglm) with the penalty selected by BIC or extended BIC.

    The grid has 50 penalties (extended BIC: Chen & Chen 2008). With more variables than samples,
    BIC prefers interpolating models, so the grid ends when the number of selected variables exceeds
    half the number of samples.
    """

    def __init__(self, extended: bool = False):
        self.extended = extended

    def fit(self, X: Array, y: Array) -> MCPWithBIC:
        from skglm import MCPRegression

        n, p = X.shape
        cost = np.log(n) + (2.0 * np.log(p) if self.extended else 0.0)
        centred = y - y.mean()
        largest = float(np.max(np.abs(X.T @ centred))) / n
        best = np.inf
        for alpha in np.geomspace(largest, 0.005 * largest, 50):
            model = MCPRegression(alpha=alpha, fit_intercept=False, tol=1e-6).fit(X, centred)
            size = int(np.count_nonzero(model.coef_))
            if 2 * size > n:
                break
            rss = float(np.sum((centred - X @ model.coef_) ** 2))
            bic = n * np.log(rss / n) + size * cost
            if bic < best:
                best, self.coef_ = bic, model.coef_.copy()
        self.intercept_ = y.mean() - X.mean(axis=0) @ self.coef_
        return self

    def predict(self, X: Array) -> Array:
        return X @ self.coef_ + self.intercept_


def methods() -> dict[str, Any]:
    """Return the estimators by name. All methods fit standardised columns."""
    estimators: dict[str, Any] = {
        "SpinyRegressor": SpinyRegressor(),
        "lasso": make_pipeline(StandardScaler(), LassoCV(max_iter=10_000)),
        "elastic net": make_pipeline(StandardScaler(), ElasticNetCV(max_iter=10_000)),
        "ARD": make_pipeline(StandardScaler(), ARDRegression()),
    }
    try:
        import skglm  # noqa: F401
    except ImportError:
        return estimators
    return estimators | {
        "MCP, BIC": make_pipeline(StandardScaler(), MCPWithBIC()),
        "MCP, EBIC": make_pipeline(StandardScaler(), MCPWithBIC(extended=True)),
    }


def support(model: Any) -> Array:
    """Return the selected variables of a fitted estimator."""
    last = model[-1] if hasattr(model, "steps") else model
    return np.asarray(last.support_ if hasattr(last, "support_") else last.coef_ != 0)


def ten_fold(X: Array, y: Array, model: BaseEstimator, seed: int) -> tuple[float, float]:
    """Return mean squared error and mean number of variables over ten folds."""
    errors, sizes = [], []
    for train, test in KFold(10, shuffle=True, random_state=seed).split(X):
        fitted: Any = clone(model).fit(X[train], y[train])
        errors.append(np.mean((y[test] - fitted.predict(X[test])) ** 2))
        sizes.append(support(fitted).sum())
    return float(np.mean(errors)), float(np.mean(sizes))


def simulated(
    design: tuple[int, int, int], correlation: float, runs: int, seed: int
) -> dict[str, Array]:
    """Return F-scores and numbers of variables by method, arrays of shape (runs, 2)."""
    n, p, q = design
    results: dict[str, list[tuple[float, int]]] = {name: [] for name in methods()}
    for run in range(runs):
        X, y, coef = make_sparse_regression(
            n, p, n_informative=q, correlation=correlation, random_state=seed + run
        )
        for name, model in methods().items():
            selected = support(model.fit(X, y))
            results[name].append((support_f_score(coef != 0, selected), int(selected.sum())))
    return {name: np.array(values) for name, values in results.items()}


def prostate(data: Data) -> tuple[list[Row], list[Claim]]:
    """Compare the path with that of the R package."""
    file = data("prostate")
    X, y, names = file["X"], file["y"], file["feature_names"]
    model = SpinyRegressor().fit(X, y)
    selected = tuple(str(name) for name in names[model.support_])
    rows = [Row("prostate: selected variables", model.n_selected_, None, 3, ", ".join(selected))]
    theirs = R_PROSTATE["log_evidence"]
    ours = {int(q): v for q, v in zip(model.cardinalities_, model.log_evidence_path_, strict=True)}
    for q, value in enumerate(theirs, start=1):
        if q in ours:
            rows.append(
                Row(f"prostate: log evidence, {q} variables", ours[q], None, value, "R spinyReg")
            )
    claims = [
        Claim(
            "prostate: lcavol, lweight and svi are selected", selected == R_PROSTATE["variables"]
        ),
        Claim(
            "prostate: the evidence of each model is at least that of R spinyReg",
            all(ours[q] >= value for q, value in enumerate(theirs, start=1) if q in ours),
            "R spinyReg does not maximise over the precisions of each model",
        ),
    ]
    return rows, claims


def diabetes(
    data: Data, seeds: tuple[int, ...], compared: dict[str, Any]
) -> tuple[list[Row], list[Claim]]:
    """Compare ten-fold errors on 442 patients, 10 variables with squares and interactions."""
    file = data("diabetes")
    X, y = file["X2"].astype(float), file["y"].astype(float)
    model = SpinyRegressor().fit(X, y)
    rows = [Row("diabetes: selected variables", model.n_selected_, None, R_DIABETES, "R spinyReg")]
    errors = {}
    for name, method in compared.items():
        folds = np.array([ten_fold(X, y, method, seed) for seed in seeds])
        errors[name] = folds[:, 0].mean()
        size = f"{folds[:, 1].mean():.1f} variables"
        rows.append(Row(f"diabetes: ten-fold error, {name}", errors[name], None, None, size))
    claim = "diabetes: the ten-fold error is at most that of the lasso"
    slack = 1.03 if len(seeds) == 1 else 1.0  # A single split is noisy.
    return rows, [Claim(claim, bool(errors["SpinyRegressor"] <= slack * errors["lasso"]))]


def simulations(
    runs: int, designs: tuple[tuple[int, int, int], ...]
) -> tuple[list[Row], list[Claim]]:
    """Compare F-scores for n < p with independent and correlated columns."""
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
                n_selected, n_true = R_SIMULATED[design]
                score = 2 * n_true / (q + n_selected)
                rows.append(Row(f"F-score, {setting}, R spinyReg", score, None, None, "one run"))
            means = {name: values[:, 0].mean() for name, values in table.items()}
            others = [means[name] for name in means if name not in ("SpinyRegressor", "MCP, EBIC")]
            note = "" if "MCP, BIC" in means else "skglm is not installed"
            text = f"{setting}: F-score above that of lasso, elastic net, ARD and MCP with BIC"
            claims.append(Claim(text, bool(means["SpinyRegressor"] > max(others)), note))
    return rows, claims


def run(quick: bool, data: Data, output: Path) -> Result:
    """Run E16: prostate, diabetes with interactions, and simulations with n < p."""
    compared = methods()
    if quick:  # Only the methods of the claims.
        compared = {name: compared[name] for name in ("SpinyRegressor", "lasso")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Competing methods warn about convergence and division.
        parts = [
            prostate(data),
            diabetes(data, (0,) if quick else tuple(range(10)), compared),
            simulations(3, DESIGNS[:1]) if quick else simulations(50, DESIGNS),
        ]
    rows = [row for part, _ in parts for row in part]
    claims = [claim for _, part in parts for claim in part]
    return Result(rows, claims, [], "0 to 2" if quick else "0 to 49; folds 0 to 9", REMARKS)


REMARKS = (
    "SpinyRegressor selects by the evidence and a prior on the number of variables. MCP with "
    "extended BIC is shown for comparison and is not part of the claims."
)

EXPERIMENTS = [
    Experiment(
        "E16",
        "Variable selection in regression",
        "Latouche, Mattei, Bouveyron & Chiquet 2016",
        ("prostate", "diabetes"),
        run,
    )
]
