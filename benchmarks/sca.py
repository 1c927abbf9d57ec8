"""SCA beside mofapy2, mofaflex and cca-zoo on the same views, in one run.

    python -m benchmarks.sca tables       # nutrimouse, TCGA, mfeat; most of the time is peers'
    python -m benchmarks.sca simulated    # views whose weights are known
    python -m benchmarks.sca gaps         # a tenth of the entries missing
    python -m benchmarks.sca cells        # sparse genes and peaks; --cells says how many

``tables`` needs PROSPARSE_DATA, the folder of the three data sets. Every view is standardised by
its training samples. On the samples held out of every split it shows

    log-likelihood  per entry, of the models that have one
    prediction      share of a view's variance told from the other views, mean over the views
    correlation     of the views' own scores on the first two latents, in each program's own order
    of most         the same of the two latents that correlate most in training
    canonical       the same of two canonical directions of the scores, found in training: it does
                    not depend on the basis of the latents

with the standard error over the splits (five folds, four times, of the two tables with few samples;
splits share samples, so that it is too small if anything); then, for each of them, `SCA()` and the
best of ours less the best peer, split by split; and the time that ours takes to each peer's final
held-out log-likelihood: that of `SCA()`, which counts its latents, and of fits with as many as the
peer has. Times are processor seconds on one thread. Peers that are not installed are left out and
named.
"""

from __future__ import annotations

import argparse
import inspect
import os
import resource
import time
import warnings
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from papers.competing_views import cca_zoo, mofa, mofaflex, ours
from papers.views import canonical_correlation, correlations, standardised
from prosparse import SCA

WIDTHS = (400, 300, 200)
PASSES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128)
MANY_SAMPLES = 1000  # with so many, fits of as many latents as "auto" finds take long
MEASURES = ("log-likelihood", "prediction", "correlation", "of most", "canonical")


# --- real tables


def real_tables(folder):
    """Data set -> views, classes, latents open to all views, folds, how often samples are split."""
    mice = np.load(folder / "nutrimouse_40.npz", allow_pickle=False)
    breast = np.load(folder / "tcga_breast_mixomics_150.npz", allow_pickle=False)
    digits = np.load(folder / "mfeat_2000_6views.npz", allow_pickle=False)
    return {
        "nutrimouse": ([mice["gene"], mice["lipid"]], mice["y_genotype"], 4, 5, 4),
        "TCGA": (
            [breast[f"{part}_train"] for part in ("mrna", "mirna", "protein")],
            breast["y_train"],
            11,
            5,
            4,
        ),
        "mfeat": (
            [digits[part] for part in ("fac", "fou", "kar", "mor", "pix", "zer")],
            digits["y"],
            22,
            3,
            1,
        ),
    }


def settings_of_ours():
    """Name -> options, as far as this version has them."""
    noises = [{}]
    if "noise" in inspect.signature(SCA).parameters:
        noises = [{"noise": "view"}, {"noise": "feature"}]
    settings = {
        ", ".join(["SCA", prior, *(f"noise per {value}" for value in noise.values())]): {
            "prior": prior,
            **noise,
        }
        for noise in noises
        for prior in ("ard", "hyperbolic")
    }
    if "rotation" in inspect.signature(SCA).parameters:
        settings["SCA, ard, sparse"] = {"prior": "ard", "rotation": "sparse"}
    return settings


def fits_of_ours(k, tol=1e-6):
    return {
        label: (lambda train, options=options: ours(train, k, tol=tol, **options))
        for label, options in settings_of_ours().items()
    }


def fits_of_their_own_number(samples):
    """What every method does with its own number of latents."""
    fits = {
        "SCA, ard, auto": lambda train: ours(train, "auto", tol=1e-6),
        "SCA, hyperbolic, auto": lambda train: ours(train, "auto", prior="hyperbolic", tol=1e-6),
        "mofapy2, 10 factors": lambda train: mofa(train, 10, True),
    }
    if samples >= MANY_SAMPLES:
        del fits["SCA, hyperbolic, auto"]
    return fits


def peers(k):
    return {
        "mofapy2": lambda train: mofa(train, k, True),
        "mofaflex": lambda train: mofaflex(train, k),
        "cca-zoo PMDCCA": lambda train: cca_zoo(train, min(k, 5), l1_bound=0.5),
    }


def held_out(fit, train, test):
    """The measures on samples held out."""
    entries = sum(x.shape[1] for x in test)
    likelihood = fit.log_likelihood(test) / entries if fit.log_likelihood else np.nan
    told = [
        1.0 - np.mean((fit.predict(test, v) - x) ** 2) / np.mean((x - t.mean(axis=0)) ** 2)
        for v, (x, t) in enumerate(zip(test, train, strict=True))
    ]
    scores, known_scores = fit.scores(test), fit.scores(train)
    known, new = correlations(known_scores), correlations(scores)
    pairs = combinations(range(len(test)), 2)
    canonical = [
        canonical_correlation([known_scores[a], known_scores[b]], [scores[a], scores[b]])
        for a, b in pairs
    ]
    first, most = float(np.mean(new[:2])), float(np.mean(new[np.argsort(-known)[:2]]))
    return likelihood, float(np.mean(told)), first, most, float(np.mean(canonical))


def split(views, y, folds, seeds):
    """Training and held-out views; every sample is held out once for each seed."""
    return [
        standardised([x[a] for x in views], [x[b] for x in views])
        for seed in seeds
        for a, b in StratifiedKFold(folds, shuffle=True, random_state=seed).split(views[0], y)
    ]


def tables(names, without, times, first):
    folder = os.environ.get("PROSPARSE_DATA")
    if not folder:
        raise SystemExit("PROSPARSE_DATA must name the folder of the data sets")
    for name, (views, y, k, folds, often) in real_tables(Path(folder)).items():
        if names and name not in names:
            continue
        parts = split(views, y, folds, range(first, first + (times or often)))
        sizes = " + ".join(str(x.shape[1]) for x in views)
        print(f"\n{name}: {len(y)} samples, {sizes} columns, {k} latents, {len(parts)} splits")
        print(f"{'':36s}{'seconds':>9s}" + "".join(f"{m:>22s}" for m in MEASURES))
        methods = fits_of_ours(k)
        methods |= {label: fit for label, fit in peers(k).items() if label not in without}
        methods |= fits_of_their_own_number(len(y))
        found, seconds = {}, {}
        for label, fit in methods.items():
            rows = one_method(label, fit, parts)
            if rows is not None:
                found[label], seconds[label] = rows[:, 1:], rows[:, 0]
        verdicts(found)
        times(found, seconds, parts, k)


def one_method(label, fit, parts):
    """(splits, seconds and measures), printed."""
    rows = []
    if len(parts[0][0][0]) < MANY_SAMPLES:
        fit(parts[0][0])  # what a program loads at its first fit is not of the fit
    for train, test in parts:
        result = fit(train)
        if result is None:
            print(f"{label:36s}  not installed")
            return None
        rows.append((result.seconds, *held_out(result, train, test)))
    rows = np.array(rows)
    cells = [mean_and_error(column) for column in rows[:, 1:].T]
    print(f"{label:36s}{rows[:, 0].mean():9.2f}" + "".join(f"{c:>22s}" for c in cells), flush=True)
    return rows


def mean_and_error(values):
    if np.isnan(values).any():
        return "none"
    return f"{values.mean():.4f} +- {standard_error(values):.4f}"


def standard_error(values):
    return values.std(ddof=1) / np.sqrt(len(values))


def verdicts(found):
    """`SCA()`, and the best of ours, less the best peer, measure by measure, with the error over
    splits."""
    for column, measure in enumerate(MEASURES):
        best = {}
        for who in (True, False):
            means = {
                label: values[:, column].mean()
                for label, values in found.items()
                if label.startswith("SCA") == who and not np.isnan(values[:, column]).any()
            }
            if means:
                best[who] = max(means, key=means.get)
        if len(best) < 2:
            continue
        for label in dict.fromkeys(("SCA, ard, auto", best[True])):
            if label not in found:
                continue
            difference = found[label][:, column] - found[best[False]][:, column]
            error = standard_error(difference)
            fine = "yes" if difference.mean() >= -error else "no"
            print(
                f"{measure}: {label} less {best[False]} {difference.mean():+.4f} +- {error:.4f}; "
                f"at least the peer's within one error: {fine}"
            )


def times(found, seconds, parts, k):
    """Processor seconds to every peer's final held-out log-likelihood, split by split: of the whole
    fit with the fewest passes that gets there."""
    candidates = {"SCA()": ("auto", {})}
    candidates |= {f"{label}, {k}": (k, more) for label, more in settings_of_ours().items()}
    for label, values in found.items():
        if label.startswith("SCA") or np.isnan(values[:, 0]).any():
            continue
        print(f"time to the log-likelihood of {label}, {seconds[label].mean():.2f} s:")
        for ours_label, (latents, options) in candidates.items():
            goals = zip(parts, values[:, 0], strict=True)
            took = [seconds_to(goal, *part, latents, options) for part, goal in goals]
            there = np.array([one is not None for one in took])
            text = f"  {ours_label:36s}{there.sum()} of {there.size} splits"
            if there.any():
                mean, peer = np.mean([t for t in took if t is not None]), seconds[label][there]
                text += f", {mean:.3f} s there: {peer.mean() / mean:.1f} times less"
            print(text, flush=True)


def seconds_to(goal, train, test, latents, options):
    """Of the fit with the fewest passes that has this log-likelihood; None: no fit has."""
    entries = sum(x.shape[1] for x in test)
    for passes in PASSES:
        fit = ours(train, latents, tol=1e-6, max_iter=passes, **options)
        if fit.log_likelihood(test) / entries >= goal:
            return fit.seconds
    return None


# --- simulated views


def simulated_views(n_train=300, n_test=500, k=8, seed=0):
    """Views with 10 % nonzero weights and noise of different strength."""
    rng = np.random.default_rng(seed)
    n = n_train + n_test
    Z = rng.standard_normal((n, k))
    weights, views = [], []
    for width, noise in zip(WIDTHS, (1.0, 0.7, 0.5), strict=True):
        W = np.where(rng.random((width, k)) < 0.1, rng.standard_normal((width, k)), 0.0)
        weights.append(W)
        views.append(Z @ W.T + noise * rng.standard_normal((n, width)))
    return [x[:n_train] for x in views], [x[n_train:] for x in views], weights


def simulated():
    k = 8
    train, test, weights = simulated_views(k=k)
    methods = fits_of_ours(k, tol=1e-9)
    methods |= {
        "mofapy2 spike and slab": lambda train: mofa(train, k, True),
        "mofapy2 ard": lambda train: mofa(train, k, False),
        "mofaflex": lambda train: mofaflex(train, k),
        "cca-zoo PMDCCA": lambda train: cca_zoo(train, k, l1_bound=0.3),
    }
    print(f"\nviews of {WIDTHS} columns, 300 samples, {k} latents; 500 samples held out")
    truth = np.mean(np.vstack(weights) == 0)
    print(f"true share of zero weights {truth:.2f}; noise of view 3 has variance 0.25")
    print(f"{'':36s}{'seconds':>9s}{'error of view 3':>17s}{'log-likelihood':>16s}{'zeros':>8s}")
    for name, fit in methods.items():
        result = fit(train)
        if result is None:
            print(f"{name:36s}  not installed")
            continue
        error = np.mean((result.predict(test, 2) - test[2]) ** 2)
        shown = f"{result.log_likelihood(test):.2f}" if result.log_likelihood else "none"
        cells = f"{result.seconds:9.2f}{error:17.4f}{shown:>16s}{result.zeros:8.2f}"
        print(f"{name:36s}{cells}", flush=True)


# --- missing entries


def gaps():
    print("\na tenth of the entries missing at random, 10 latents")
    for n, p in ((2000, 300), (20000, 1000)):
        rng = np.random.default_rng(0)
        k = 10
        W = np.where(rng.random((p, k)) < 0.3, rng.standard_normal((p, k)), 0.0)
        full = rng.standard_normal((n, k)) @ W.T + rng.standard_normal((n, p))
        holes = rng.random((n, p)) < 0.1
        X = np.where(holes, np.nan, full)
        start = time.process_time()
        model = SCA(k).fit(X)
        seconds = time.process_time() - start
        error = np.sqrt(np.mean((model.impute(X) - full)[holes] ** 2))
        print(
            f"{n} x {p}: {seconds:.1f} s, {model.n_iter_} iterations, objective "
            f"{model.objective_path_[-1]:.2f}, imputation error {error:.5f} (noise 1), peak "
            f"{peak():.1f} GB",
            flush=True,
        )


def peak():
    """The most memory of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


# --- many cells


def sparse_view(scores, genes, density, rng):
    """Log counts whose places depend on the latents, about ``density`` of them not zero."""
    n, k = scores.shape
    W = np.where(rng.random((k, genes)) < 0.1, rng.standard_normal((k, genes)), 0.0)
    scores, W = scores.astype(np.float32), W.T.astype(np.float32)
    blocks = []
    for start in range(0, n, 5000):
        rows = min(5000, n - start)
        tried = rng.poisson(2.5 * density * rows * genes)
        i = rng.integers(0, rows, tried, dtype=np.int32)
        j = rng.integers(0, genes, tried, dtype=np.int32)
        rate = np.einsum("ij,ij->i", scores[start + i], W[j])
        kept = rng.random(tried, dtype=np.float32) < expit(rate - 0.5)
        counts = sparse.coo_array(
            (np.ones(kept.sum(), dtype=np.float32), (i[kept], j[kept])), shape=(rows, genes)
        ).tocsr()
        counts.data = np.log1p(counts.data)
        blocks.append(counts)
    return sparse.csr_array(sparse.vstack(blocks))


def cells(n, genes, peaks, peer):
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((n, 10))
    views = [
        sparse_view(scores, genes, 0.05, rng),
        sparse_view(scores, peaks, 0.02, rng),
    ]
    stored = ", ".join(f"{v.shape[1]} columns {v.nnz / np.prod(v.shape):.1%} filled" for v in views)
    print(f"\n{n} cells: {stored}; the tables take {peak():.2f} GB to make", flush=True)
    if peer:
        fit = mofa([v.toarray().astype(float) for v in views], 10)
        if fit is not None:
            print(f"mofapy2: {fit.seconds:.0f} s, peak {peak():.2f} GB")
        return
    start, clock = time.process_time(), time.perf_counter()
    model = SCA(10, tol=1e-6).fit(views)
    Z = model.transform(views)
    R = np.linalg.qr(np.column_stack([np.ones(n), Z]))[0]
    told = 1.0 - np.sum((scores - R @ (R.T @ scores)) ** 2) / np.sum(scores**2)
    print(
        f"SCA: {time.process_time() - start:.0f} s of processor time, "
        f"{time.perf_counter() - clock:.0f} s by the clock, {model.n_iter_} passes, "
        f"peak {peak():.2f} GB; share of the true scores' variance told: {told:.3f}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("tables", "simulated", "gaps", "cells"))
    parser.add_argument("--only", nargs="*", default=[], help="some of the data sets")
    parser.add_argument("--without", nargs="*", default=[], help="peers to leave out")
    parser.add_argument("--times", type=int, help="how often the samples are split into folds")
    parser.add_argument("--first", type=int, default=0, help="seed of the first time")
    parser.add_argument("--cells", type=int, default=20_000)
    parser.add_argument("--genes", type=int, default=8_000)
    parser.add_argument("--peaks", type=int, default=25_000)
    parser.add_argument("--peer", action="store_true", help="mofapy2 on the cells instead of SCA")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        if options.part == "tables":
            tables(options.only, options.without, options.times, options.first)
        elif options.part == "simulated":
            simulated()
        elif options.part == "gaps":
            gaps()
        else:
            cells(options.cells, options.genes, options.peaks, options.peer)


if __name__ == "__main__":
    main()
