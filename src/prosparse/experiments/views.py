"""E11: two, three and six views of the same samples, ours beside mofapy2 and cca-zoo.

Every view is standardised by its training samples. Reported, on samples held out:
correlation  mean over the first latents of the correlation between the views' own scores
prediction   share of a view's variance explained from the other views, mean over the views
separation   accuracy of nearest class means of the training scores, classes never shown
zeros        share of weights that are exactly zero
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import NearestCentroid

from .peers import Fit, cca_zoo, mofa, ours

Array = np.ndarray
Views = list[Array]


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
    latents = min(s.shape[1] for s in scores)
    correlations: list[float] = []
    for a, b in combinations(range(len(test)), 2):
        pairs = [(scores[a][:, j], scores[b][:, j]) for j in range(min(latents, 2))]
        moving = [np.corrcoef(u, v)[0, 1] for u, v in pairs if u.std() > 0 and v.std() > 0]
        correlations.append(float(np.mean(np.abs(moving))) if moving else 0.0)
    explained = [
        1.0 - np.mean((fit.predict(test, v) - x) ** 2) / np.mean((x - t.mean(axis=0)) ** 2)
        for v, (x, t) in enumerate(zip(test, train, strict=True))
    ]
    centroid = NearestCentroid().fit(np.hstack(known), y_train)
    accuracy = centroid.score(np.hstack(scores), y_test)
    return [
        float(np.mean(correlations)),
        float(np.mean(explained)),
        float(accuracy),
        fit.zeros,
        fit.seconds,
    ]


def compare(name: str, views: Views, y: Array, k: int, private: int, folds: int) -> None:
    """Cross-validate every method on one data set and print a line for each."""
    every = k + private * len(views)  # latents, all of them open to all views
    methods: dict[str, Callable[[Views], Fit | None]] = {
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
    shapes = " + ".join(str(x.shape[1]) for x in views)
    print(f"\n{name}: {len(y)} samples, views of {shapes} columns, {every} latents", end="")
    print(f" (private: {k} shared, {private} for each view), {folds} folds")
    print(
        f"{'':24s}{'correlation':>12s}{'prediction':>12s}{'separation':>12s}{'zeros':>8s}{'s':>8s}"
    )
    splits = list(StratifiedKFold(folds, shuffle=True, random_state=0).split(views[0], y))
    for method, fit in methods.items():
        rows = []
        for train_rows, test_rows in splits:
            train, test = standardised(
                [x[train_rows] for x in views], [x[test_rows] for x in views]
            )
            result = fit(train)
            if result is None:
                break
            rows.append(measures(result, train, test, y[train_rows], y[test_rows]))
        if not rows:
            print(f"{method:24s}  not installed")
            continue
        c, e, a, z, s = np.mean(rows, axis=0)
        print(f"{method:24s}{c:12.3f}{e:12.3f}{a:12.3f}{z:8.2f}{s:8.2f}", flush=True)


def run_views(data: Path) -> None:
    """Print E11."""
    print("E11: measures on held-out samples, means over the folds")
    file = np.load(data / "nutrimouse_40.npz")
    compare("nutrimouse", [file["gene"], file["lipid"]], file["y_genotype"], 2, 1, 5)
    file = np.load(data / "tcga_breast_mixomics_150.npz")
    views = [file[f"{part}_train"] for part in ("mrna", "mirna", "protein")]
    compare("TCGA breast", views, file["y_train"], 5, 2, 5)
    file = np.load(data / "mfeat_2000_6views.npz")
    views = [file[part] for part in ("fac", "fou", "kar", "mor", "pix", "zer")]
    compare("mfeat", views, file["y"], 10, 2, 3)
