"""Compare SCA with mofapy2, mofaflex and cca-zoo on the same views.

    python -m benchmarks.sca real         # nutrimouse, TCGA, mfeat
    python -m benchmarks.sca simulated    # views with known loadings
    python -m benchmarks.sca missing      # a tenth of the entries missing
    python -m benchmarks.sca cells        # sparse genes and peaks; --cells sets their number

``real`` requires the folder PROSPARSE_DATA with the three datasets. Views are standardised with the
training samples. Measures on held-out samples:

    log-likelihood  per entry, if the model has a density
    prediction      proportion of a view's variance predicted from the other views, mean over views
    correlation     of the scores of the views on the first two factors, in the order of the method
    largest         the same for the two factors with the largest correlation in training
    canonical       the same for two canonical directions of the scores, estimated in training;
                    invariant to the basis of the factors

Standard errors are over the splits (five folds, repeated four times for the two small datasets);
splits overlap, so the errors are slightly too small. The script then prints the differences of
`SCA()` and of the best SCA to the best competing method, and the time of SCA to the final held-out
log-likelihood of each competing method. Times are processor seconds on one thread. Methods that are
not installed are omitted.
"""

from __future__ import annotations

import argparse
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

from papers.competing_views import fit_cca_zoo, fit_mofa, fit_mofaflex, fit_sca
from papers.views import canonical_correlation, factor_correlations, standardise_views
from prosparse import SCA

WIDTHS = (400, 300, 200)
ITERATIONS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128)
MANY_SAMPLES = 1000  # above this, fits with an automatic number of factors take long
MEASURES = ("log-likelihood", "prediction", "correlation", "largest", "canonical")


# --- real data


def real_datasets(folder):
    """Return views, classes, number of factors, folds and repeats by dataset."""
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


def sca_options():
    """Return the options of SCA by label."""
    noises = [{"noise": "view"}, {"noise": "feature"}]
    return {
        ", ".join(["SCA", prior, *(f"noise per {value}" for value in noise.values())]): {
            "prior": prior,
            **noise,
        }
        for noise in noises
        for prior in ("ard", "hyperbolic")
    }


def sca_fits(k, tol=1e-6):
    """Return the fit functions of SCA with k factors."""
    return {
        label: (lambda train, options=options: fit_sca(train, k, tol=tol, **options))
        for label, options in sca_options().items()
    }


def automatic_fits(samples):
    """Return fit functions with the default number of factors of each method."""
    fits = {
        "SCA, ard, auto": lambda train: fit_sca(train, "auto", tol=1e-6),
        "SCA, hyperbolic, auto": lambda train: fit_sca(train, "auto", prior="hyperbolic", tol=1e-6),
        "mofapy2, 10 factors": lambda train: fit_mofa(train, 10, True),
    }
    if samples >= MANY_SAMPLES:
        del fits["SCA, hyperbolic, auto"]
    return fits


def competing_fits(k):
    """Return the fit functions of the competing methods."""
    return {
        "mofapy2": lambda train: fit_mofa(train, k, True),
        "mofaflex": lambda train: fit_mofaflex(train, k),
        "cca-zoo, PMDCCA": lambda train: fit_cca_zoo(train, min(k, 5), l1_bound=0.5),
    }


def evaluate(fit, train, test):
    """Return the measures on held-out samples."""
    entries = sum(x.shape[1] for x in test)
    likelihood = fit.log_likelihood(test) / entries if fit.log_likelihood else np.nan
    explained = [
        1.0 - np.mean((fit.predict(test, v) - x) ** 2) / np.mean((x - t.mean(axis=0)) ** 2)
        for v, (x, t) in enumerate(zip(test, train, strict=True))
    ]
    scores, train_scores = fit.scores(test), fit.scores(train)
    train_correlation, test_correlation = (
        factor_correlations(train_scores),
        factor_correlations(scores),
    )
    pairs = combinations(range(len(test)), 2)
    canonical = [
        canonical_correlation([train_scores[a], train_scores[b]], [scores[a], scores[b]])
        for a, b in pairs
    ]
    first = float(np.mean(test_correlation[:2]))
    largest = float(np.mean(test_correlation[np.argsort(-train_correlation)[:2]]))
    return likelihood, float(np.mean(explained)), first, largest, float(np.mean(canonical))


def split_samples(views, y, folds, seeds):
    """Return training and held-out views of all folds and seeds."""
    return [
        standardise_views([x[a] for x in views], [x[b] for x in views])
        for seed in seeds
        for a, b in StratifiedKFold(folds, shuffle=True, random_state=seed).split(views[0], y)
    ]


def compare_on_real_data(names, without, repeats, first):
    """Print all comparisons on the real datasets."""
    folder = os.environ.get("PROSPARSE_DATA")
    if not folder:
        raise SystemExit("Set PROSPARSE_DATA to the folder of the datasets.")
    for name, (views, y, k, folds, default_repeats) in real_datasets(Path(folder)).items():
        if names and name not in names:
            continue
        parts = split_samples(views, y, folds, range(first, first + (repeats or default_repeats)))
        sizes = " + ".join(str(x.shape[1]) for x in views)
        print(f"\n{name}: {len(y)} samples, {sizes} columns, {k} factors, {len(parts)} splits")
        print(f"{'':36s}{'seconds':>9s}" + "".join(f"{m:>22s}" for m in MEASURES))
        methods = sca_fits(k)
        methods |= {label: fit for label, fit in competing_fits(k).items() if label not in without}
        methods |= automatic_fits(len(y))
        results, seconds = {}, {}
        for label, fit in methods.items():
            rows = run_method(label, fit, parts)
            if rows is not None:
                results[label], seconds[label] = rows[:, 1:], rows[:, 0]
        print_differences(results)
        print_times(results, seconds, parts, k)


def run_method(label, fit, parts):
    """Print and return seconds and measures of all splits."""
    rows = []
    if len(parts[0][0][0]) < MANY_SAMPLES:
        fit(parts[0][0])  # Warm-up, which includes imports.
    for train, test in parts:
        result = fit(train)
        if result is None:
            print(f"{label:36s}  omitted: not installed")
            return None
        rows.append((result.seconds, *evaluate(result, train, test)))
    rows = np.array(rows)
    cells = [mean_and_error(column) for column in rows[:, 1:].T]
    print(f"{label:36s}{rows[:, 0].mean():9.2f}" + "".join(f"{c:>22s}" for c in cells), flush=True)
    return rows


def mean_and_error(values):
    """Format the mean and its standard error."""
    if np.isnan(values).any():
        return "none"
    return f"{values.mean():.4f} +- {standard_error(values):.4f}"


def standard_error(values):
    """Return the standard error of the mean."""
    return values.std(ddof=1) / np.sqrt(len(values))


def print_differences(results):
    """Print the differences of `SCA()` and the best SCA to the best competing method."""
    for column, measure in enumerate(MEASURES):
        best = {}
        for is_sca in (True, False):
            means = {
                label: values[:, column].mean()
                for label, values in results.items()
                if label.startswith("SCA") == is_sca and not np.isnan(values[:, column]).any()
            }
            if means:
                best[is_sca] = max(means, key=means.get)
        if len(best) < 2:
            continue
        for label in dict.fromkeys(("SCA, ard, auto", best[True])):
            if label not in results:
                continue
            difference = results[label][:, column] - results[best[False]][:, column]
            error = standard_error(difference)
            verdict = "yes" if difference.mean() >= -error else "no"
            print(
                f"{measure}: {label} minus {best[False]} {difference.mean():+.4f} +- {error:.4f}; "
                f"at least as good within one standard error: {verdict}"
            )


def print_times(results, seconds, parts, k):
    """Print the time of SCA to the held-out log-likelihood of each competing method.

    The time is that of the fit with the smallest number of iterations that reaches it.
    """
    candidates = {"SCA()": ("auto", {})}
    candidates |= {f"{label}, {k}": (k, options) for label, options in sca_options().items()}
    for label, values in results.items():
        if label.startswith("SCA") or np.isnan(values[:, 0]).any():
            continue
        print(f"time to the log-likelihood of {label}, {seconds[label].mean():.2f} s:")
        for sca_label, (n_factors, options) in candidates.items():
            targets = zip(parts, values[:, 0], strict=True)
            taken = [seconds_to(target, *part, n_factors, options) for part, target in targets]
            reached = np.array([value is not None for value in taken])
            text = f"  {sca_label:36s}{reached.sum()} of {reached.size} splits"
            if reached.any():
                mean = np.mean([value for value in taken if value is not None])
                other = seconds[label][reached]
                text += f", {mean:.3f} s: {other.mean() / mean:.1f} times faster"
            print(text, flush=True)


def seconds_to(target, train, test, n_factors, options):
    """Return the time of the shortest fit that reaches the log-likelihood, or None."""
    entries = sum(x.shape[1] for x in test)
    for max_iter in ITERATIONS:
        fit = fit_sca(train, n_factors, tol=1e-6, max_iter=max_iter, **options)
        if fit.log_likelihood(test) / entries >= target:
            return fit.seconds
    return None


# --- simulated views


def simulate_views(n_train=300, n_test=500, k=8, seed=0):
    """Simulate views with 10 % nonzero loadings and unequal noise."""
    rng = np.random.default_rng(seed)
    n = n_train + n_test
    Z = rng.standard_normal((n, k))
    loadings, views = [], []
    for width, noise in zip(WIDTHS, (1.0, 0.7, 0.5), strict=True):
        W = np.where(rng.random((width, k)) < 0.1, rng.standard_normal((width, k)), 0.0)
        loadings.append(W)
        views.append(Z @ W.T + noise * rng.standard_normal((n, width)))
    return [x[:n_train] for x in views], [x[n_train:] for x in views], loadings


def compare_on_simulations():
    """Print the comparison on simulated views."""
    k = 8
    train, test, loadings = simulate_views(k=k)
    methods = sca_fits(k, tol=1e-9)
    methods |= {
        "mofapy2, spike and slab": lambda train: fit_mofa(train, k, True),
        "mofapy2, ard": lambda train: fit_mofa(train, k, False),
        "mofaflex": lambda train: fit_mofaflex(train, k),
        "cca-zoo, PMDCCA": lambda train: fit_cca_zoo(train, k, l1_bound=0.3),
    }
    print(f"\nviews of {WIDTHS} columns, 300 samples, {k} factors; 500 test samples")
    truth = np.mean(np.vstack(loadings) == 0)
    print(f"true proportion of zero loadings {truth:.2f}; noise of view 3 has variance 0.25")
    print(f"{'':36s}{'seconds':>9s}{'error of view 3':>17s}{'log-likelihood':>16s}{'zeros':>8s}")
    for name, fit in methods.items():
        result = fit(train)
        if result is None:
            print(f"{name:36s}  omitted: not installed")
            continue
        error = np.mean((result.predict(test, 2) - test[2]) ** 2)
        shown = f"{result.log_likelihood(test):.2f}" if result.log_likelihood else "none"
        cells = f"{result.seconds:9.2f}{error:17.4f}{shown:>16s}{result.zeros:8.2f}"
        print(f"{name:36s}{cells}", flush=True)


# --- missing values


def fit_missing_values():
    """Print time and imputation error with missing values."""
    print("\na tenth of the entries missing at random, 10 factors")
    for n, p in ((2000, 300), (20000, 1000)):
        rng = np.random.default_rng(0)
        k = 10
        W = np.where(rng.random((p, k)) < 0.3, rng.standard_normal((p, k)), 0.0)
        full = rng.standard_normal((n, k)) @ W.T + rng.standard_normal((n, p))
        missing = rng.random((n, p)) < 0.1
        X = np.where(missing, np.nan, full)
        start = time.process_time()
        model = SCA(k).fit(X)
        seconds = time.process_time() - start
        error = np.sqrt(np.mean((model.impute(X) - full)[missing] ** 2))
        print(
            f"{n} x {p}: {seconds:.1f} s, {model.n_iter_} iterations, objective "
            f"{model.objective_path_[-1]:.2f}, imputation error {error:.5f} (noise 1), peak "
            f"{peak_memory():.1f} GB",
            flush=True,
        )


def peak_memory():
    """Return the peak resident memory of this process in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


# --- many cells


def sparse_view(scores, genes, density, rng):
    """Simulate sparse log counts that depend on the scores."""
    n, k = scores.shape
    W = np.where(rng.random((k, genes)) < 0.1, rng.standard_normal((k, genes)), 0.0)
    scores, W = scores.astype(np.float32), W.T.astype(np.float32)
    blocks = []
    for start in range(0, n, 5000):
        rows = min(5000, n - start)
        n_candidates = rng.poisson(2.5 * density * rows * genes)
        i = rng.integers(0, rows, n_candidates, dtype=np.int32)
        j = rng.integers(0, genes, n_candidates, dtype=np.int32)
        rate = np.einsum("ij,ij->i", scores[start + i], W[j])
        accepted = rng.random(n_candidates, dtype=np.float32) < expit(rate - 0.5)
        counts = sparse.coo_array(
            (np.ones(accepted.sum(), dtype=np.float32), (i[accepted], j[accepted])),
            shape=(rows, genes),
        ).tocsr()
        counts.data = np.log1p(counts.data)
        blocks.append(counts)
    return sparse.csr_array(sparse.vstack(blocks))


def fit_cells(n, genes, peaks, use_mofapy2):
    """Print time and memory on sparse simulated cells."""
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((n, 10))
    views = [
        sparse_view(scores, genes, 0.05, rng),
        sparse_view(scores, peaks, 0.02, rng),
    ]
    stored = ", ".join(f"{v.shape[1]} columns {v.nnz / np.prod(v.shape):.1%} filled" for v in views)
    print(
        f"\n{n} cells: {stored}; peak memory of the simulation {peak_memory():.2f} GB", flush=True
    )
    if use_mofapy2:
        fit = fit_mofa([v.toarray().astype(float) for v in views], 10)
        if fit is not None:
            print(f"mofapy2: {fit.seconds:.0f} s, peak {peak_memory():.2f} GB")
        return
    start, clock = time.process_time(), time.perf_counter()
    model = SCA(10, tol=1e-6).fit(views)
    Z = model.transform(views)
    R = np.linalg.qr(np.column_stack([np.ones(n), Z]))[0]
    explained = 1.0 - np.sum((scores - R @ (R.T @ scores)) ** 2) / np.sum(scores**2)
    print(
        f"SCA: {time.process_time() - start:.0f} s CPU time, "
        f"{time.perf_counter() - clock:.0f} s wall time, {model.n_iter_} iterations, "
        f"peak {peak_memory():.2f} GB; proportion of the variance of the true scores explained: "
        f"{explained:.3f}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("real", "simulated", "missing", "cells"))
    parser.add_argument("--only", nargs="*", default=[], help="names of datasets")
    parser.add_argument("--without", nargs="*", default=[], help="methods to omit")
    parser.add_argument("--repeats", type=int, help="repeats of the cross-validation")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--cells", type=int, default=20_000)
    parser.add_argument("--genes", type=int, default=8_000)
    parser.add_argument("--peaks", type=int, default=25_000)
    parser.add_argument(
        "--mofapy2", action="store_true", help="fit mofapy2 to the cells instead of SCA"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        if options.part == "real":
            compare_on_real_data(options.only, options.without, options.repeats, options.first)
        elif options.part == "simulated":
            compare_on_simulations()
        elif options.part == "missing":
            fit_missing_values()
        else:
            fit_cells(options.cells, options.genes, options.peaks, options.mofapy2)


if __name__ == "__main__":
    main()
