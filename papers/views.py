"""E11: two, three and six views of the same samples, ours beside mofapy2 and cca-zoo.

Every view is standardised by its training samples. Reported, on samples held out:
correlation  mean over the first two latents, in the order of each program, of the correlation
             between the views' own scores; zero where a view has no weight of a latent
canonical    the same of the first two canonical directions of the scores of two views, which are
             found in the training samples: it does not depend on the basis of the latents
prediction   share of a view's variance explained from the other views, mean over the views
separation   accuracy of nearest class means of the training scores, classes never shown
zeros        share of weights that are exactly zero
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import NearestCentroid

from .base import Claim, Experiment, Result, above, mean_row
from .data import Data
from .peers import Fit, cca_zoo, mofa, ours
from .sca import PAPER

Array = np.ndarray
Views = list[Array]

MEASURES = (
    "correlation",
    "canonical correlation",
    "prediction",
    "separation",
    "share of zeros",
    "seconds",
    "log-likelihood",
)
CORRELATION = MEASURES.index("correlation")
PREDICTION = MEASURES.index("prediction")
CANONICAL = MEASURES.index("canonical correlation")
LIKELIHOOD = MEASURES.index("log-likelihood")


def standardised(train: Views, test: Views) -> tuple[Views, Views]:
    kept = [x.std(axis=0) > 0 for x in train]
    means = [x[:, c].mean(axis=0) for x, c in zip(train, kept, strict=True)]
    scales = [x[:, c].std(axis=0) for x, c in zip(train, kept, strict=True)]
    parts = []
    for views in (train, test):
        columns = zip(views, kept, means, scales, strict=True)
        parts.append([(x[:, c].astype(float) - m) / s for x, c, m, s in columns])
    return parts[0], parts[1]


def measures(fit: Fit, train: Views, test: Views, y_train: Array, y_test: Array) -> list[float]:
    scores, known = fit.scores(test), fit.scores(train)
    canonical = [
        canonical_correlation([known[a], known[b]], [scores[a], scores[b]])
        for a, b in combinations(range(len(test)), 2)
    ]
    explained = [
        1.0 - np.mean((fit.predict(test, v) - x) ** 2) / np.mean((x - t.mean(axis=0)) ** 2)
        for v, (x, t) in enumerate(zip(test, train, strict=True))
    ]
    centroid = NearestCentroid().fit(np.hstack(known), y_train)
    accuracy = centroid.score(np.hstack(scores), y_test)
    return [
        float(np.mean(correlations(scores)[:2])),
        float(np.mean(canonical)),
        float(np.mean(explained)),
        float(accuracy),
        fit.zeros,
        fit.seconds,
        fit.log_likelihood(test) if fit.log_likelihood else np.nan,
    ]


def correlations(scores: Views) -> Array:
    """(latents,) of the scores of two views, the mean over all pairs; zero where a view has no
    weights of a latent."""
    latents = min(s.shape[1] for s in scores)
    found, pairs = np.zeros(latents), list(combinations(scores, 2))
    for j in range(latents):
        for a, b in pairs:
            u, v = a[:, j], b[:, j]
            if u.std() > 0 and v.std() > 0:
                found[j] += abs(np.corrcoef(u, v)[0, 1]) / len(pairs)
    return found


def canonical_correlation(train: Views, test: Views, count: int = 2) -> float:
    """Mean correlation, in the test samples, of the first canonical directions of two tables."""
    whitened = []
    for x in train:
        _, s, Vt = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
        there = s > 1e-8 * s[0]
        whitened.append(Vt[there].T / s[there])
    if any(w.shape[1] == 0 for w in whitened):
        return 0.0
    parts = [(x - x.mean(axis=0)) @ w for x, w in zip(train, whitened, strict=True)]
    U, _, Vt = np.linalg.svd(parts[0].T @ parts[1], full_matrices=False)
    turned = (U[:, :count], Vt[:count].T)
    found = [x @ w @ t for x, w, t in zip(test, whitened, turned, strict=True)]
    pairs = zip(found[0].T, found[1].T, strict=True)
    return float(np.mean([abs(np.corrcoef(u, v)[0, 1]) for u, v in pairs]))


def methods(k: int, private: int, every: int) -> dict[str, Callable[[Views], Fit | None]]:
    """As many latents as `SCA` finds; k shared ones and some private ones; or as many latents as
    these, open to all views."""
    return {
        "SCA as it is": lambda t: ours(t, "auto"),
        "SCA ard": lambda t: ours(t, every, tol=1e-6),
        "SCA hyperbolic": lambda t: ours(t, every, prior="hyperbolic", tol=1e-6),
        "SCA ard, private": lambda t: ours(t, k, n_private=private, tol=1e-6),
        "SCA hyperbolic, private": lambda t: ours(
            t, k, n_private=private, prior="hyperbolic", tol=1e-6
        ),
        "mofapy2 spike and slab": lambda t: mofa(t, every, True),
        "mofapy2 ard": lambda t: mofa(t, every, False),
        "cca-zoo PMDCCA": lambda t: cca_zoo(t, k, l1_bound=0.5),
    }


def compare(
    views: Views, y: Array, k: int, private: int, folds: int, names: tuple[str, ...] | None = None
) -> tuple[dict[str, Array], list[str]]:
    """Cross-validate every method: method -> (folds, measures); and those not installed."""
    every = k + private * len(views)
    splits = list(StratifiedKFold(folds, shuffle=True, random_state=0).split(views[0], y))
    table: dict[str, Array] = {}
    missing = []
    for method, fit in methods(k, private, every).items():
        if names is not None and method not in names:
            continue
        rows = []
        for train_rows, test_rows in splits:
            train, test = standardised(
                [x[train_rows] for x in views], [x[test_rows] for x in views]
            )
            result = fit(train)
            if result is None:
                missing.append(method)
                break
            rows.append(measures(result, train, test, y[train_rows], y[test_rows]))
        if rows:
            table[method] = np.array(rows)
    return table, missing


def tables(quick: bool, data: Data) -> dict[str, tuple[Views, Array, int, int, int]]:
    """Data set -> views, classes, shared latents, private latents of each view, folds."""
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


def beside_peers(text: str, found: dict[str, Array], column: int) -> list[Claim]:
    """Whether the best of ours is at least the best peer less one standard error of that."""
    values = {m: v[:, column] for m, v in found.items() if not np.isnan(v[:, column]).any()}
    own = max(v.mean() for m, v in values.items() if m.startswith("SCA"))
    peers = [v for m, v in values.items() if not m.startswith("SCA")]
    if not peers:
        return []
    best = max(peers, key=np.mean)
    least = best.mean() - best.std(ddof=1) / np.sqrt(best.size)
    return [above(f"{text} as well as the best peer, within a standard error", [own], [least])]


def run_views(quick: bool, data: Data, output: Path) -> Result:
    """E11: held-out correlation, prediction and separation."""
    rows, claims = [], []
    absent: list[str] = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "self.within_class_std_dev_", UserWarning)
        for name, (views, y, k, private, folds) in tables(quick, data).items():
            found, missing = compare(views, y, k, private, folds)
            absent = missing or absent
            for method, values in found.items():
                for measure, column in zip(MEASURES, values.T, strict=True):
                    if not np.isnan(column).any():
                        rows.append(mean_row(f"{name}: {method}, {measure}", column))
            for measure, column in (
                ("predicts held-out views", PREDICTION),
                ("correlates views of held-out samples on its first two latents", CORRELATION),
                ("correlates views of held-out samples", CANONICAL),
                ("explains held-out samples, by log-likelihood,", LIKELIHOOD),
            ):
                claims += beside_peers(f"{name}: the best SCA {measure}", found, column)
            own = max(v[:, PREDICTION].mean() for m, v in found.items() if m.startswith("SCA"))
            text = f"{name}: SCA predicts a held-out view from the others better than its mean"
            claims.append(above(text, [own], [0.0]))
    remarks = (
        "Not in the paper: cross-validated on samples held out, classes never shown to the fit. "
        "Prediction is the share of a view's variance, separation the accuracy of nearest class "
        "means of the scores, seconds those of one fit."
    )
    if absent:
        remarks += f" Not installed, and so left out: {', '.join(dict.fromkeys(absent))}."
    return Result(rows, claims, [], "0 (folds)", remarks)


EXPERIMENTS = [
    Experiment("E11", "two, three and six views", PAPER, ("nutrimouse", "tcga", "mfeat"), run_views)
]
