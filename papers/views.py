"""E11: SCA, mofapy2 and cca-zoo on two, three and six views of the same samples.

Views are standardised with the training samples. Measures on held-out samples:

factor correlation     correlation between the scores of two views, mean over the first two factors
                       in the order of each method; zero if a view has no loadings on a factor
canonical correlation  the same for the first two canonical directions of the scores, estimated on
                       the training samples; invariant to the basis of the factors
prediction R2          proportion of a view's variance predicted from the other views, mean over
                       views
class accuracy         accuracy of a nearest-centroid classifier on the scores; the classes are not
                       used to fit the factors
proportion of zeros    proportion of loadings that are exactly zero
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import NearestCentroid

from .base import Claim, Experiment, Result, claim_at_least, mean_row
from .competing_views import Fit, fit_cca_zoo, fit_mofa, fit_sca
from .data import Data
from .sca import PAPER

Array = np.ndarray
Views = list[Array]

MEASURES = (
    "factor correlation",
    "canonical correlation",
    "prediction R2",
    "class accuracy",
    "proportion of zeros",
    "seconds",
    "log-likelihood",
)
CORRELATION = MEASURES.index("factor correlation")
PREDICTION = MEASURES.index("prediction R2")
CANONICAL = MEASURES.index("canonical correlation")
LIKELIHOOD = MEASURES.index("log-likelihood")


def standardise_views(train: Views, test: Views) -> tuple[Views, Views]:
    """Standardise the varying columns of each view with the training samples."""
    varying = [x.std(axis=0) > 0 for x in train]
    means = [x[:, c].mean(axis=0) for x, c in zip(train, varying, strict=True)]
    scales = [x[:, c].std(axis=0) for x, c in zip(train, varying, strict=True)]
    parts = []
    for views in (train, test):
        columns = zip(views, varying, means, scales, strict=True)
        parts.append([(x[:, c].astype(float) - m) / s for x, c, m, s in columns])
    return parts[0], parts[1]


def evaluate(fit: Fit, train: Views, test: Views, y_train: Array, y_test: Array) -> list[float]:
    """Return the values of `MEASURES` on the test samples."""
    scores, train_scores = fit.scores(test), fit.scores(train)
    canonical = [
        canonical_correlation([train_scores[a], train_scores[b]], [scores[a], scores[b]])
        for a, b in combinations(range(len(test)), 2)
    ]
    explained = [
        1.0 - np.mean((fit.predict(test, v) - x) ** 2) / np.mean((x - t.mean(axis=0)) ** 2)
        for v, (x, t) in enumerate(zip(test, train, strict=True))
    ]
    centroid = NearestCentroid().fit(np.hstack(train_scores), y_train)
    accuracy = centroid.score(np.hstack(scores), y_test)
    return [
        float(np.mean(factor_correlations(scores)[:2])),
        float(np.mean(canonical)),
        float(np.mean(explained)),
        float(accuracy),
        fit.zeros,
        fit.seconds,
        fit.log_likelihood(test) if fit.log_likelihood else np.nan,
    ]


def factor_correlations(scores: Views) -> Array:
    """Return the mean correlation of each factor's scores over all pairs of views.

    The correlation is zero if a view has no loadings on the factor.
    """
    n_factors = min(s.shape[1] for s in scores)
    result, pairs = np.zeros(n_factors), list(combinations(scores, 2))
    for j in range(n_factors):
        for a, b in pairs:
            u, v = a[:, j], b[:, j]
            if u.std() > 0 and v.std() > 0:
                result[j] += abs(np.corrcoef(u, v)[0, 1]) / len(pairs)
    return result


def canonical_correlation(train: Views, test: Views, count: int = 2) -> float:
    """Return the mean test correlation of the first canonical directions of two views."""
    whitened = []
    for x in train:
        _, s, Vt = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
        nonzero = s > 1e-8 * s[0]
        whitened.append(Vt[nonzero].T / s[nonzero])
    if any(w.shape[1] == 0 for w in whitened):
        return 0.0
    parts = [(x - x.mean(axis=0)) @ w for x, w in zip(train, whitened, strict=True)]
    U, _, Vt = np.linalg.svd(parts[0].T @ parts[1], full_matrices=False)
    rotations = (U[:, :count], Vt[:count].T)
    projected = [x @ w @ t for x, w, t in zip(test, whitened, rotations, strict=True)]
    pairs = zip(projected[0].T, projected[1].T, strict=True)
    return float(np.mean([abs(np.corrcoef(u, v)[0, 1]) for u, v in pairs]))


def methods(k: int, private: int, total: int) -> dict[str, Callable[[Views], Fit | None]]:
    """Return the methods by name.

    `SCA` selects its number of factors, or has k shared and ``private`` private factors per view,
    or ``total`` shared factors.
    """
    return {
        "SCA, default": lambda t: fit_sca(t, "auto"),
        "SCA, ard": lambda t: fit_sca(t, total, tol=1e-6),
        "SCA, hyperbolic": lambda t: fit_sca(t, total, prior="hyperbolic", tol=1e-6),
        "SCA, ard, private factors": lambda t: fit_sca(t, k, n_private=private, tol=1e-6),
        "SCA, hyperbolic, private factors": lambda t: fit_sca(
            t, k, n_private=private, prior="hyperbolic", tol=1e-6
        ),
        "mofapy2, spike and slab": lambda t: fit_mofa(t, total, True),
        "mofapy2, ard": lambda t: fit_mofa(t, total, False),
        "cca-zoo, PMDCCA": lambda t: fit_cca_zoo(t, k, l1_bound=0.5),
    }


def compare(
    views: Views, y: Array, k: int, private: int, folds: int, names: tuple[str, ...] | None = None
) -> tuple[dict[str, Array], list[str]]:
    """Cross-validate each method.

    Returns arrays of shape (folds, measures) by method, and the methods that are not installed.
    """
    total = k + private * len(views)
    splits = list(StratifiedKFold(folds, shuffle=True, random_state=0).split(views[0], y))
    table: dict[str, Array] = {}
    missing = []
    for method, fit in methods(k, private, total).items():
        if names is not None and method not in names:
            continue
        rows = []
        for train_rows, test_rows in splits:
            train, test = standardise_views(
                [x[train_rows] for x in views], [x[test_rows] for x in views]
            )
            result = fit(train)
            if result is None:
                missing.append(method)
                break
            rows.append(evaluate(result, train, test, y[train_rows], y[test_rows]))
        if rows:
            table[method] = np.array(rows)
    return table, missing


def datasets(quick: bool, data: Data) -> dict[str, tuple[Views, Array, int, int, int]]:
    """Return views, classes, shared factors, private factors per view and folds by dataset."""
    mice = data("nutrimouse")
    sets = {"nutrimouse": ([mice["gene"], mice["lipid"]], mice["y_genotype"], 2, 1, 5)}
    if quick:
        return sets
    breast, digits = data("tcga"), data("mfeat")
    views = [breast[f"{part}_train"] for part in ("mrna", "mirna", "protein")]
    sets["TCGA breast"] = (views, breast["y_train"], 5, 2, 5)
    views = [digits[part] for part in ("fac", "fou", "kar", "mor", "pix", "zer")]
    sets["mfeat"] = (views, digits["y"], 10, 2, 3)
    return sets


def compare_with_best(text: str, results: dict[str, Array], column: int) -> list[Claim]:
    """Claim that the best SCA is within one standard error of the best competing method."""
    values = {m: v[:, column] for m, v in results.items() if not np.isnan(v[:, column]).any()}
    best_sca = max(v.mean() for m, v in values.items() if m.startswith("SCA"))
    competing = [v for m, v in values.items() if not m.startswith("SCA")]
    if not competing:
        return []
    best = max(competing, key=np.mean)
    threshold = best.mean() - best.std(ddof=1) / np.sqrt(best.size)
    text += " as well as the best competing method, within one standard error"
    return [claim_at_least(text, [best_sca], [threshold])]


def run_views(quick: bool, data: Data, output: Path) -> Result:
    """Run E11: held-out correlation, prediction and classification."""
    rows, claims = [], []
    absent: list[str] = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "self.within_class_std_dev_", UserWarning)
        for name, (views, y, k, private, folds) in datasets(quick, data).items():
            results, missing = compare(views, y, k, private, folds)
            absent = missing or absent
            for method, values in results.items():
                for measure, column in zip(MEASURES, values.T, strict=True):
                    if not np.isnan(column).any():
                        rows.append(mean_row(f"{name}: {method}, {measure}", column))
            for measure, column in (
                ("predicts held-out views", PREDICTION),
                ("correlates held-out views on its first two factors", CORRELATION),
                ("correlates held-out views", CANONICAL),
                ("models held-out samples (log-likelihood)", LIKELIHOOD),
            ):
                claims += compare_with_best(f"{name}: the best SCA {measure}", results, column)
            best_sca = max(
                v[:, PREDICTION].mean() for m, v in results.items() if m.startswith("SCA")
            )
            text = f"{name}: SCA predicts held-out views better than their means"
            claims.append(claim_at_least(text, [best_sca], [0.0]))
    remarks = (
        "The paper does not contain this experiment. All measures are cross-validated, and the "
        "fits do not use the classes. Prediction R2 is the proportion of a view's variance "
        "explained by predictions from the other views. Class accuracy is that of a "
        "nearest-centroid classifier on the scores. Seconds are the CPU time of one fit."
    )
    if absent:
        remarks += f" Omitted because not installed: {', '.join(dict.fromkeys(absent))}."
    return Result(rows, claims, [], "0 (folds)", remarks)


EXPERIMENTS = [
    Experiment("E11", "Two, three and six views", PAPER, ("nutrimouse", "tcga", "mfeat"), run_views)
]
