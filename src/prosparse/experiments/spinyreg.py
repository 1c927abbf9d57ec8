"""E16: variable selection in regression, after [LMBC16]; ours beside the lasso and the elastic net
(by cross-validation), relevance determination, the minimax concave penalty (BIC, EBIC) and R.

    python -m prosparse.experiments.spinyreg --data FOLDER [--runs 50] [--seed 0]

FOLDER holds ``prostate_clinical_97x8.npz`` and ``diabetes_442.npz``. The minimax concave penalty
needs skglm, and its column is left out without.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.linear_model import ARDRegression, ElasticNetCV, LassoCV
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ..datasets import make_sparse_regression
from ..metrics import support_f_score
from ..models.spinyreg import SpinyRegressor

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
    """The nonzero coefficients of a fitted estimator."""
    last = model[-1] if hasattr(model, "steps") else model
    return np.asarray(last.coef_ != 0)


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


def prostate(folder: Path) -> SpinyRegressor:
    """The whole path beside that of the R program."""
    with np.load(folder / "prostate_clinical_97x8.npz") as file:
        X, y, names = file["X"], file["y"], file["feature_names"]
    model = SpinyRegressor().fit(X, y)
    print("prostate, 97 x 8")
    print(f"  ours  {model.n_selected_} variables: {', '.join(names[model.support_])}")
    print(f"  R     {len(R_PROSTATE['variables'])} variables: {', '.join(R_PROSTATE['variables'])}")
    print(f"  {'log evidence of':18s}{'ours':>12s}{'R':>12s}")
    order = names[np.argsort(model.ranking_)]
    for q, value in zip(model.cardinalities_, model.log_evidence_path_, strict=True):
        theirs = R_PROSTATE["log_evidence"][q - 1] if 1 <= q <= 6 else np.nan
        print(f"  {'+ ' + order[q - 1] if q else 'none':18s}{value:12.4f}{theirs:12.4f}")
    _folds(X, y, (0,))
    return model


def diabetes(folder: Path, seeds: tuple[int, ...] = (0, 1, 2)) -> dict[str, Array]:
    """442 patients, 10 measurements with their squares and interactions."""
    with np.load(folder / "diabetes_442.npz") as file:
        X, y, names = file["X2"].astype(float), file["y"].astype(float), file["feature_names2"]
    model = SpinyRegressor().fit(X, y)
    print("\ndiabetes with interactions, 442 x 64")
    print(f"  ours  {model.n_selected_} variables: {', '.join(names[model.support_])}")
    print(f"  R     {R_DIABETES} variables")
    return _folds(X, y, seeds)


def _folds(X: Array, y: Array, seeds: tuple[int, ...]) -> dict[str, Array]:
    print(f"  {'ten-fold error':18s}{'variables':>12s}" + "".join(f"{f'#{s}':>10s}" for s in seeds))
    results = {}
    for name, model in methods().items():
        folds = np.array([ten_fold(X, y, model, seed) for seed in seeds])
        results[name] = folds[:, 0]
        print(
            f"  {name:18s}{folds[:, 1].mean():12.1f}" + "".join(f"{e:10.4g}" for e in folds[:, 0])
        )
    return results


def simulations(runs: int, seed: int) -> dict[tuple[Any, ...], dict[str, Array]]:
    """F-scores, n < p, on independent and on correlated columns."""
    tables = {}
    for design in DESIGNS:
        for correlation in CORRELATIONS:
            table = simulated(design, correlation, runs, seed)
            tables[(*design, correlation)] = table
            n, p, q = design
            print(f"\n{n} x {p}, {q} true, neighbours' correlation {correlation:g}, {runs} runs")
            print(f"  {'':14s}{'F-score':>10s}{'std. err.':>11s}{'variables':>11s}")
            for name, values in table.items():
                error = values[:, 0].std(ddof=1) / np.sqrt(runs) if runs > 1 else np.nan
                score, size = values.mean(axis=0)
                print(f"  {name:14s}{score:10.3f}{error:11.3f}{size:11.1f}")
            if correlation == 0.0:
                k, right = R_SIMULATED[design]
                print(f"  {'R, one run':14s}{2 * right / (q + k):10.3f}{'':11s}{k:11.1f}")
    return tables


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # of the peers: convergence, divisions
    if arguments.data is None:
        print("--data was not given: simulations only")
    else:
        prostate(arguments.data)
        diabetes(arguments.data)
    simulations(arguments.runs, arguments.seed)


if __name__ == "__main__":
    main()
