"""Compare SpinyClassifier with competing methods: python -m benchmarks.spinyclassifier

All methods run on one thread.

1. Ten simulated designs: log loss on 2000 test rows and F-score of the selected variables, compared
   with l1-penalised LogisticRegressionCV of scikit-learn, and abess if installed.
2. Breast cancer data of scikit-learn: log loss and accuracy by repeated cross-validation.
3. Labels independent of the data: proportion of datasets with any selected variable.

Seeds from 1000 are independent test simulations; smaller seeds were used in development.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from prosparse import SpinyClassifier
from prosparse.metrics import support_f_score


class Design(NamedTuple):
    """Parameters of a simulation; columns i and j have correlation ``correlation ** |i - j|``."""

    n: int
    p: int
    n_true: int  # number of true variables
    correlation: float
    size: float  # absolute value of their coefficients
    intercept: float = 0.0


DESIGNS = [
    Design(100, 20, 3, 0.0, 1.5),
    Design(100, 20, 10, 0.5, 0.5),
    Design(200, 50, 5, 0.5, 1.0, -1.5),
    Design(300, 50, 20, 0.0, 0.5),
    Design(200, 100, 5, 0.9, 1.0),
    Design(500, 100, 10, 0.9, 0.5),
    Design(200, 300, 5, 0.0, 1.5),
    Design(300, 500, 10, 0.5, 0.5),
    Design(500, 1000, 10, 0.5, 1.0),
    Design(200, 1000, 5, 0.9, 2.0),
]
N_TEST = 2000


def simulate(design: Design, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return training and test rows, their classes, and the coefficients."""
    rng = np.random.default_rng(seed)
    n, p, rho = design.n + N_TEST, design.p, design.correlation
    X = rng.standard_normal((n, p))
    for j in range(1, p if rho else 0):
        X[:, j] = rho * X[:, j - 1] + np.sqrt(1.0 - rho**2) * X[:, j]
    coef = np.zeros(p)
    positions = rng.permutation(p)[: design.n_true]
    coef[positions] = design.size * rng.choice([-1.0, 1.0], design.n_true)
    classes = rng.random(n) < expit(design.intercept + X @ coef)
    return X, classes.astype(int), coef


class Fit(NamedTuple):
    """Predictions and selected variables of a method."""

    probability: np.ndarray  # of the second class, for test rows
    support: np.ndarray


Method = Callable[[np.ndarray, np.ndarray, np.ndarray], Fit]


def fit_spiny(selection_rule: str) -> Method:
    """Return the fit function of SpinyClassifier."""

    def fit(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Fit:
        model = SpinyClassifier(selection_rule=selection_rule).fit(X, y)
        return Fit(model.predict_proba(new)[:, 1], model.support_)

    return fit


def fit_lasso(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Fit:
    scaler = StandardScaler().fit(X)
    model = LogisticRegressionCV(
        Cs=20,
        l1_ratios=(1.0,),
        solver="liblinear",
        scoring="neg_log_loss",
        intercept_scaling=10.0,
        use_legacy_attributes=False,
        random_state=0,
    ).fit(scaler.transform(X), y)
    return Fit(model.predict_proba(scaler.transform(new))[:, 1], model.coef_[0] != 0)


def fit_abess(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Fit:
    from abess import LogisticRegression

    scaler = StandardScaler().fit(X)
    model = LogisticRegression().fit(scaler.transform(X), y)
    probability = model.predict_proba(scaler.transform(new))[:, 1]
    return Fit(probability, np.ravel(model.coef_) != 0)


def methods() -> dict[str, Method]:
    """Return the fit functions by name."""
    estimators = {
        "Spiny, f-score": fit_spiny("f-score"),
        "Spiny, map": fit_spiny("map"),
        "l1, CV": fit_lasso,
    }
    try:
        import abess  # noqa: F401
    except ImportError:
        print("omitted because not installed: abess")
    else:
        estimators["abess"] = fit_abess
    return estimators


def loss(y: np.ndarray, probability: np.ndarray) -> float:
    """Return the log loss with clipped probabilities."""
    return float(log_loss(y, np.clip(probability, 1e-6, 1.0 - 1e-6), labels=[0, 1]))


def compare_on_simulations(first: int, n_datasets: int) -> None:
    """Print log loss, F-score and number of variables by design."""
    compared = methods()
    print(f"{'':34s}" + "".join(f"{name:>22s}" for name in compared))
    print(f"{'n x p, true, correlation, size':34s}" + f"{'log loss':>12s}{'F':>5s}{'q':>5s}" * 4)
    total: dict[str, list[np.ndarray]] = {name: [] for name in compared}
    for number, design in enumerate(DESIGNS):
        rows: dict[str, list[tuple[float, ...]]] = {name: [] for name in compared}
        for index in range(n_datasets):
            X, y, coef = simulate(design, first + 100 * number + index)
            for name, fit in compared.items():
                start = time.process_time()
                fitted = fit(X[: design.n], y[: design.n], X[design.n :])
                seconds = time.process_time() - start
                score = support_f_score(coef != 0, fitted.support)
                n_selected = float(fitted.support.sum())
                rows[name].append(
                    (loss(y[design.n :], fitted.probability), score, n_selected, seconds)
                )
        label = f"{design.n} x {design.p}, {design.n_true}, {design.correlation}, {design.size}"
        line = f"{label:34s}"
        for name in compared:
            mean = np.mean(rows[name], axis=0)
            total[name].append(mean)
            line += f"{mean[0]:12.3f}{mean[1]:5.2f}{mean[2]:5.1f}"
        print(line, flush=True)
    line = f"{'mean':34s}"
    for name in compared:
        mean = np.mean(total[name], axis=0)
        line += f"{mean[0]:12.3f}{mean[1]:5.2f}{mean[2]:5.1f}"
    print(line)
    times = ", ".join(f"{name} {np.mean(total[name], axis=0)[3]:.2f}" for name in compared)
    print(f"processor seconds per fit: {times}")


def compare_on_breast_cancer(repeats: int) -> None:
    """Print cross-validated log loss, accuracy and number of variables."""
    data = load_breast_cancer()
    folds = RepeatedStratifiedKFold(n_splits=5, n_repeats=repeats, random_state=0)
    print(f"\nbreast cancer, {repeats} x 5 folds: log loss, accuracy, variables")
    for name, fit in methods().items():
        rows: list[tuple[float, ...]] = []
        for train, test in folds.split(data.data, data.target):
            fitted = fit(data.data[train], data.target[train], data.data[test])
            accuracy = np.mean((fitted.probability > 0.5) == data.target[test])
            test_loss = loss(data.target[test], fitted.probability)
            rows.append((test_loss, accuracy, fitted.support.sum()))
        mean = np.mean(rows, axis=0)
        print(f"{name:20s}{mean[0]:10.4f}{mean[1]:10.4f}{mean[2]:10.1f}", flush=True)


def count_false_selections(first: int, n_datasets: int) -> None:
    """Print the number of null datasets with any selected variable."""
    print("\nclasses independent of the data: datasets with any selected variable")
    for n, p in ((100, 20), (200, 200), (200, 1000)):
        counts: dict[str, Any] = dict.fromkeys(("f-score", "map"), 0)
        for index in range(n_datasets):
            rng = np.random.default_rng(first + index)
            X, y = rng.standard_normal((n, p)), rng.integers(0, 2, n)
            for rule in counts:
                model = SpinyClassifier(selection_rule=rule, average=False).fit(X, y)
                counts[rule] += model.n_selected_ > 0
        print(
            f"{n} x {p}: " + ", ".join(f"{name} {c} of {n_datasets}" for name, c in counts.items())
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", type=int, default=20, help="number of datasets per design")
    parser.add_argument("--first", type=int, default=1000, help="first seed")
    parser.add_argument("--repeats", type=int, default=4, help="repeats of the cross-validation")
    parser.add_argument("--noise", type=int, default=100, help="number of null datasets")
    parser.add_argument("--only", choices=["simulated", "cancer", "noise"])
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # Convergence and missing structure are expected.
    with threadpool_limits(1):
        if options.only in (None, "simulated"):
            compare_on_simulations(options.first, options.datasets)
        if options.only in (None, "cancer"):
            compare_on_breast_cancer(options.repeats)
        if options.only in (None, "noise"):
            count_false_selections(options.first, options.noise)
