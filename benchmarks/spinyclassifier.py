"""SpinyClassifier beside its peers, on one thread: python -m benchmarks.spinyclassifier

1. Ten simulated designs: log loss on 2000 new rows and F-score of the chosen variables, beside
   scikit-learn's LogisticRegressionCV with an l1 penalty, and abess where it is installed.
2. scikit-learn's breast cancer data: the same, by repeated cross-validation.
3. Labels that have nothing to do with the table: how often anything is chosen.

Nothing here was fitted to these draws: seeds from 1000 on are judged. Seeds below 1000
(``--first 0``) were looked at while the method was written.
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
    """A table whose columns i and j are correlated by ``correlation ** |i - j|``."""

    n: int
    p: int
    true: int  # variables
    correlation: float
    size: float  # of their coefficients, of either sign
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
NEW_ROWS = 2000


def drawn(design: Design, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows to fit and new ones, their classes, and the coefficients."""
    rng = np.random.default_rng(seed)
    n, p, rho = design.n + NEW_ROWS, design.p, design.correlation
    X = rng.standard_normal((n, p))
    for j in range(1, p if rho else 0):
        X[:, j] = rho * X[:, j - 1] + np.sqrt(1.0 - rho**2) * X[:, j]
    coef = np.zeros(p)
    places = rng.permutation(p)[: design.true]
    coef[places] = design.size * rng.choice([-1.0, 1.0], design.true)
    classes = rng.random(n) < expit(design.intercept + X @ coef)
    return X, classes.astype(int), coef


class Chosen(NamedTuple):
    """What a method makes of a table."""

    probability: np.ndarray  # of the second class, of new rows
    support: np.ndarray


Method = Callable[[np.ndarray, np.ndarray, np.ndarray], Chosen]


def ours(choose: str) -> Method:
    def fit(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Chosen:
        model = SpinyClassifier(selection_rule=choose).fit(X, y)
        return Chosen(model.predict_proba(new)[:, 1], model.support_)

    return fit


def lasso(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Chosen:
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
    return Chosen(model.predict_proba(scaler.transform(new))[:, 1], model.coef_[0] != 0)


def subset(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Chosen:
    from abess import LogisticRegression

    scaler = StandardScaler().fit(X)
    model = LogisticRegression().fit(scaler.transform(X), y)
    probability = model.predict_proba(scaler.transform(new))[:, 1]
    return Chosen(probability, np.ravel(model.coef_) != 0)


def methods() -> dict[str, Method]:
    found = {"ours": ours("f-score"), "ours, map": ours("map"), "l1, CV": lasso}
    try:
        import abess  # noqa: F401
    except ImportError:
        print("abess is not installed, and left out")
    else:
        found["abess"] = subset
    return found


def loss(y: np.ndarray, probability: np.ndarray) -> float:
    return float(log_loss(y, np.clip(probability, 1e-6, 1.0 - 1e-6), labels=[0, 1]))


def simulated(first: int, draws: int) -> None:
    compared = methods()
    print(f"{'':34s}" + "".join(f"{name:>22s}" for name in compared))
    print(f"{'n x p, true, correlation, size':34s}" + f"{'log loss':>12s}{'F':>5s}{'q':>5s}" * 4)
    total: dict[str, list[np.ndarray]] = {name: [] for name in compared}
    for number, design in enumerate(DESIGNS):
        rows: dict[str, list[tuple[float, ...]]] = {name: [] for name in compared}
        for draw in range(draws):
            X, y, coef = drawn(design, first + 100 * number + draw)
            for name, fit in compared.items():
                start = time.process_time()
                found = fit(X[: design.n], y[: design.n], X[design.n :])
                seconds = time.process_time() - start
                score = support_f_score(coef != 0, found.support)
                chosen = float(found.support.sum())
                rows[name].append((loss(y[design.n :], found.probability), score, chosen, seconds))
        label = f"{design.n} x {design.p}, {design.true}, {design.correlation}, {design.size}"
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
    print(f"processor seconds of a fit: {times}")


def breast_cancer(repeats: int) -> None:
    data = load_breast_cancer()
    folds = RepeatedStratifiedKFold(n_splits=5, n_repeats=repeats, random_state=0)
    print(f"\nbreast cancer, {repeats} x 5 folds: log loss, accuracy, variables")
    for name, fit in methods().items():
        rows: list[tuple[float, ...]] = []
        for train, test in folds.split(data.data, data.target):
            found = fit(data.data[train], data.target[train], data.data[test])
            right = np.mean((found.probability > 0.5) == data.target[test])
            rows.append((loss(data.target[test], found.probability), right, found.support.sum()))
        mean = np.mean(rows, axis=0)
        print(f"{name:20s}{mean[0]:10.4f}{mean[1]:10.4f}{mean[2]:10.1f}", flush=True)


def of_noise(first: int, draws: int) -> None:
    print("\nclasses that have nothing to do with the table: draws in which anything is chosen")
    for n, p in ((100, 20), (200, 200), (200, 1000)):
        counts: dict[str, Any] = dict.fromkeys(("f-score", "map"), 0)
        for draw in range(draws):
            rng = np.random.default_rng(first + draw)
            X, y = rng.standard_normal((n, p)), rng.integers(0, 2, n)
            for choose in counts:
                model = SpinyClassifier(selection_rule=choose, average=False).fit(X, y)
                counts[choose] += model.n_selected_ > 0
        print(f"{n} x {p}: " + ", ".join(f"{name} {c} of {draws}" for name, c in counts.items()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=20, help="of every design")
    parser.add_argument("--first", type=int, default=1000, help="seed")
    parser.add_argument("--repeats", type=int, default=4, help="of the cross-validation")
    parser.add_argument("--noise", type=int, default=100, help="draws of noise")
    parser.add_argument("--only", choices=["simulated", "cancer", "noise"])
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of the peers, and of pure noise
    with threadpool_limits(1):
        if options.only in (None, "simulated"):
            simulated(options.first, options.draws)
        if options.only in (None, "cancer"):
            breast_cancer(options.repeats)
        if options.only in (None, "noise"):
            of_noise(options.first, options.noise)
