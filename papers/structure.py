"""E17 and E18: selection of variables with shared variance under unequal unique variances.

Not from a paper: the simulations of the papers have equal noise variances. E17 scales the columns
of the simulation E4 to unit variance, or gives them unequal noise variances. E18 mixes real columns
with independently permuted real columns, which share no variance; a second set of datasets has all
columns permuted. No method uses true parameters unless its name states this.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.parallel import Parallel, delayed

from prosparse.metrics import support_f_score
from prosparse.models.fdrpca import FDRPCA
from prosparse.models.gsppca import GSPPCA
from prosparse.structure.false_discoveries import benjamini_hochberg

from .base import Claim, Experiment, Result, Row, make_figure, mean_row, save_figure
from .data import Data
from .simulations import D, simulate

Array = np.ndarray

PAPER = "Not from a paper: columns with unequal unique variances"
SIZES = (40, 66, 100, 200)
FIRST_SEED = 10_000  # first seed of the independent test simulations
LOGNORMAL = 0.5  # standard deviation of the log noise factor
N_REAL, N_PERMUTED = 200, 1000  # maximum numbers of columns in a dataset of E18
MIN_F_SCORES = {40: 0.74, 66: 0.94, 100: 0.97, 200: 0.97}
MAX_FDP = 0.06  # maximum mean false discovery proportion
MIN_MEAN_F_SCORE = 0.9
MARGIN = 0.01  # difference between F-scores that is reported


# --- methods


def permutation_test(
    X: Array, rate: float = 0.05, n_permutations: int = 400, seed: int = 0
) -> Array:
    """Test each column's sum of squared correlations with all others by row permutation."""
    rng = np.random.default_rng(seed)
    Z = (X - X.mean(axis=0)) / X.std(axis=0) / np.sqrt(X.shape[0])
    observed = np.sum((Z.T @ Z) ** 2, axis=1) - 1.0
    exceeded = np.ones(Z.shape[1])
    for _ in range(n_permutations):
        permutation = rng.permutation(Z.shape[0])
        across = (Z[permutation].T @ Z) ** 2
        exceeded += np.sum(across, axis=1) - np.diag(across) >= observed
    return benjamini_hochberg(exceeded / (n_permutations + 1.0), rate)


METHODS: dict[str, Callable[[Array], Array]] = {
    "FDRPCA": lambda X: FDRPCA().fit(X).support_,
    "GSPPCA": lambda X: GSPPCA().fit(X).support_,
    "GSPPCA, scaled": lambda X: GSPPCA(scale=True).fit(X).support_,
    "GSPPCA, scaled, true number of components": lambda X: GSPPCA(D, scale=True).fit(X).support_,
    "GSPPCA, scaled, not refined": lambda X: GSPPCA(scale=True, refine=False).fit(X).support_,
    "permutation test": permutation_test,
}


class Score(NamedTuple):
    """Accuracy of a selection."""

    F: float
    false: float  # false discovery proportion


def score_selection(truth: Array, selected: Array) -> Score:
    """Return F-score and false discovery proportion."""
    fdp = float(np.sum(selected & ~truth)) / max(1, int(np.sum(selected)))
    return Score(float(support_f_score(truth, selected)), fdp)


def without_warnings(select: Callable[[Any], Array], X: Any) -> Array:
    """Return the mask of the variables that a function selects, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(select(X))


def apply_method(method: str, X: Array) -> Array:
    """Return the mask of the variables selected by a method, without its warnings."""
    return without_warnings(METHODS[method], X)


# --- E17


def simulate_unequal(n: int, seed: int, lognormal: bool) -> tuple[Array, Array]:
    """Simulate E4 with equal or lognormal noise and scale the columns to unit variance."""
    X, support, _ = simulate(n, 200, 1.0, seed)
    if lognormal:
        clean = simulate(n, 200, 0.0, seed).X  # same factors and loadings, without noise
        factor = np.exp(LOGNORMAL * np.random.default_rng(seed).standard_normal(X.shape[1]))
        X = clean + factor * (X - clean)
    return (X - X.mean(axis=0)) / X.std(axis=0), support


Means = dict[tuple[bool, str], list[Score]]  # by noise and method, one per sample size


def noise_name(lognormal: bool) -> str:
    """Return the label of a simulation."""
    return "lognormal noise" if lognormal else "unit variance"


def score_unequal(method: str, n: int, seed: int, lognormal: bool) -> Score:
    """Apply a method to one dataset of E17."""
    X, truth = simulate_unequal(n, seed, lognormal)
    return score_selection(truth, apply_method(method, X))


def unequal_noise(quick: bool, data: Data, output: Path) -> Result:
    """Run E17: F-score and false discovery proportion against n.

    joblib runs the datasets, in parallel within ``joblib.parallel_config(n_jobs=8)``.
    """
    runs = 3 if quick else 50
    names = ("FDRPCA",) if quick else tuple(METHODS)
    figure, axes = make_figure(2)
    rows: list[Row] = []
    means: Means = {}
    calls = [
        (name, n, FIRST_SEED + k, lognormal)
        for lognormal in (False, True)
        for n in SIZES
        for name in names
        for k in range(runs)
    ]
    scores = iter(Parallel()(delayed(score_unequal)(*call) for call in calls))
    for lognormal in (False, True):
        label = noise_name(lognormal)
        for n in SIZES:
            for name in names:
                F, fdp = np.array(list(islice(scores, runs))).T
                note = describe_empty(F) if name == "FDRPCA" else ""
                rows.append(mean_row(f"{label}, n = {n}, {name}: F-score", F, note=note))
                text = f"{label}, n = {n}, {name}: false discovery proportion"
                rows.append(mean_row(text, fdp))
                mean = Score(float(F.mean()), float(fdp.mean()))
                means.setdefault((lognormal, name), []).append(mean)
        ax = axes[0][int(lognormal)]
        for name in names:
            ax.plot(SIZES, [mean.F for mean in means[lognormal, name]], "o-", label=name)
        ax.set(xlabel="rows", ylabel="F-score", title=label, ylim=(0, 1.02))
    axes[0][0].legend(frameon=False, fontsize=8)
    path = save_figure(figure, output / "E17_unequal_noise.png")
    seeds = f"{FIRST_SEED} to {FIRST_SEED + runs - 1}"
    slack = 0.1 if quick else 0.0  # Few datasets are noisy.
    return Result(rows, claims_of_noise(means, slack), [path], seeds, remarks_on_noise(means))


def describe_empty(F: Array) -> str:
    """Describe how many datasets have no true selected variable; empty if none."""
    empty = int(np.sum(F == 0.0))
    return f"no true variable selected in {empty} of {F.size} datasets" if empty else ""


def claims_of_noise(means: Means, slack: float) -> list[Claim]:
    """Return the claims of E17 about FDRPCA."""
    claims = []
    for lognormal in (False, True):
        ours = means[lognormal, "FDRPCA"]
        claims.append(
            Claim(
                f"{noise_name(lognormal)}: FDRPCA has F-scores of at least "
                f"{listing(MIN_F_SCORES.values())} at n = {listing(SIZES)} and a mean false "
                f"discovery proportion of at most {MAX_FDP:g}",
                all(
                    MIN_F_SCORES[n] - slack <= mean.F and mean.false <= MAX_FDP + slack
                    for n, mean in zip(SIZES, ours, strict=True)
                ),
                f"{listing(mean.F for mean in ours)}; false discovery proportion "
                f"{listing(mean.false for mean in ours)}",
            )
        )
    return claims


def remarks_on_noise(means: Means) -> str:
    """Describe the setting and the limitations of E17."""
    remarks = (
        "As in E4, 20 of 200 variables are true, d = 10 and the noise variance is 1. Here the "
        "columns are scaled to unit variance, so their variance is uninformative. In the second "
        "simulation the noise variances are lognormal as well. FDRPCA uses neither the true d nor "
        "the true noise. Limitations: with 40 rows FDRPCA sometimes selects no variable, and its "
        "false discovery proportion stays near the nominal rate of 0.05 for any number of rows."
    )
    if (False, "GSPPCA") in means:
        gsppca, permutation = means[False, "GSPPCA"][-1], means[False, "permutation test"][-1]
        remarks += (
            f" With {SIZES[-1]} rows of unit variance GSPPCA has fewer false discoveries "
            f"({gsppca.false:.1%}, F-score {gsppca.F:.3f}), and the F-score of the permutation "
            f"test is {permutation.F:.3f}. With few rows both have much lower F-scores."
        )
    return remarks


def listing(values: Iterable[float]) -> str:
    """Format numbers with three significant digits, separated by commas."""
    return ", ".join(f"{value:.3g}" for value in values)


# --- E18


class Case(NamedTuple):
    """A real dataset of E18."""

    source: str  # key of `data.SOURCES`
    key: str  # name of the array, or "csr" for a sparse matrix
    logarithms: bool = False  # log counts per ten thousand


CASES = {
    "Golub": Case("golub", "X"),
    "Armstrong": Case("armstrong", "X"),
    "colon": Case("colon", "X"),
    "NCI60": Case("nci60", "X"),
    "NKI": Case("nki", "X"),
    "VDX": Case("vdx", "X"),
    "TCGA mRNA": Case("tcga", "mrna_train"),
    "TCGA miRNA": Case("tcga", "mirna_train"),
    "TCGA protein": Case("tcga", "protein_train"),
    "nutrimouse genes": Case("nutrimouse", "gene"),
    "urine": Case("urine", "X"),
    "power traces": Case("traces", "X"),
    "faces": Case("faces", "X"),
    "sevens": Case("sevens", "X"),
    "USPS": Case("usps", "X"),
    "digits, pixels": Case("mfeat", "pix"),
    "digits, profiles": Case("mfeat", "fac"),
    "word counts": Case("text", "csr"),
    "cells (pbmc3k)": Case("pbmc3k", "csr", True),
    "sorted cells": Case("facs", "csr", True),
}


def load_case(case: Case, data: Data) -> Array | sparse.csr_array:
    """Return the data matrix of a case without columns that have missing values."""
    arrays = data(case.source)
    if case.key != "csr":
        X = np.asarray(arrays[case.key], dtype=float)
        return X[:, ~np.isnan(X).any(axis=0)]
    parts = (arrays["data"].astype(float), arrays["indices"], arrays["indptr"])
    counts = sparse.csr_array(parts, shape=tuple(arrays["shape"]))
    if not case.logarithms:
        return counts
    totals = np.maximum(np.asarray(counts.sum(axis=1)).ravel(), 1.0)
    rates = sparse.csr_array(sparse.diags_array(1e4 / totals) @ counts)
    rates.data = np.log1p(rates.data)
    return rates


def mix_with_permuted(X: Any, seed: int) -> tuple[Array, Array]:
    """Combine the columns of largest variance with independently permuted other columns.

    Returns the data matrix and the mask of the real columns: 200 real and 1,000 permuted columns,
    or one sixth of the columns if there are fewer.
    """
    rng = np.random.default_rng(seed)
    squares = X.multiply(X) if sparse.issparse(X) else X * X
    mean = np.asarray(X.mean(axis=0)).ravel()
    variance = np.asarray(squares.mean(axis=0)).ravel() - mean**2
    varying = np.flatnonzero(variance > 1e-12 * variance.max())
    n_real = min(N_REAL, varying.size // 6)
    order = varying[np.argsort(-variance[varying], kind="stable")]
    others = rng.choice(order[n_real:], min(N_PERMUTED, varying.size - n_real), replace=False)
    columns = X[:, np.concatenate([order[:n_real], others])]
    mixed = columns.toarray() if sparse.issparse(columns) else np.array(columns)
    mixed[:, n_real:] = rng.permuted(mixed[:, n_real:], axis=0)
    return mixed, np.arange(mixed.shape[1]) < n_real


def permute_all(X: Any, seed: int) -> Array:
    """Return the same columns, all independently permuted, which share no variance."""
    mixed, _ = mix_with_permuted(X, seed)
    return np.random.default_rng([seed, 1]).permuted(mixed, axis=0)


def real_columns(quick: bool, data: Data, output: Path) -> Result:
    """Run E18: F-score and false discovery proportion for real among permuted columns."""
    runs, n_null = (1, 1) if quick else (3, 5)
    cases = {name: CASES[name] for name in ("Golub", "colon")} if quick else CASES
    names = ("FDRPCA",) if quick else ("FDRPCA", "GSPPCA", "permutation test")
    slack = 0.05 if quick else 0.0
    rows: list[Row] = []
    all_scores: dict[str, list[Score]] = {name: [] for name in names}
    by_dataset: dict[str, list[Score]] = {name: [] for name in names}
    n_null_selections: list[int] = []
    for title, case in cases.items():
        X = load_case(case, data)
        n_null_selections += [
            int(np.sum(apply_method("FDRPCA", permute_all(X, FIRST_SEED + k))))
            for k in range(n_null)
        ]
        datasets = [mix_with_permuted(X, FIRST_SEED + k) for k in range(runs)]
        for name in names:
            results = [
                score_selection(truth, apply_method(name, mixed)) for mixed, truth in datasets
            ]
            F, fdp = np.array(results).T
            rows.append(mean_row(f"{title}, {name}: F-score", F))
            rows.append(mean_row(f"{title}, {name}: false discovery proportion", fdp))
            all_scores[name] += results
            by_dataset[name].append(Score(float(F.mean()), float(fdp.mean())))
    for name in names:
        F, fdp = np.array(all_scores[name]).T
        rows.append(mean_row(f"all datasets, {name}: F-score", F))
        rows.append(mean_row(f"all datasets, {name}: false discovery proportion", fdp))
    selects_any = np.array(n_null_selections) > 0
    rows.append(
        mean_row(
            "all columns permuted, FDRPCA: proportion of datasets with any selected variable",
            selects_any,
            note=(
                f"{selects_any.sum()} of {selects_any.size} datasets; at most "
                f"{max(n_null_selections)} variables"
            ),
        )
    )
    F, fdp = np.array(all_scores["FDRPCA"]).T
    claims = [
        Claim(
            f"over all datasets FDRPCA has a mean F-score of at least {MIN_MEAN_F_SCORE:g} and a "
            f"mean false discovery proportion of at most {MAX_FDP:g}",
            bool(F.mean() >= MIN_MEAN_F_SCORE - slack and fdp.mean() <= MAX_FDP + slack),
        ),
        Claim(
            "with all columns permuted FDRPCA selects variables in at most one of ten datasets",
            bool(selects_any.mean() <= 0.1),
            f"{selects_any.sum()} of {selects_any.size} datasets; nominal rate one in twenty",
        ),
    ]
    figure, axes = make_figure(1, width=7.0, height=5.5)
    ax = axes[0][0]
    for name in names:
        ax.plot([mean.F for mean in by_dataset[name]], np.arange(len(cases)), "o", label=name)
    ax.set_yticks(np.arange(len(cases)), list(cases))
    ax.set(xlabel="F-score", xlim=(0, 1.02))
    ax.legend(frameon=False)
    path = save_figure(figure, output / "E18_real_columns.png")
    seeds = f"{FIRST_SEED} to {FIRST_SEED + runs - 1}; all columns permuted, {n_null} per dataset"
    means = {name: dict(zip(cases, by_dataset[name], strict=True)) for name in names}
    return Result(rows, claims, [path], seeds, remarks_on_real_columns(means))


def remarks_on_real_columns(means: dict[str, dict[str, Score]]) -> str:
    """Describe the setting and the limitations of E18, given mean scores by method and dataset."""
    remarks = (
        f"Each dataset has the {N_REAL} columns of largest variance and {N_PERMUTED:,} other "
        "columns, or one sixth of the columns and the remaining ones. The other columns are "
        "independently permuted and share no variance. Real columns without shared variance count "
        "as missed, so an F-score of 1 may be unattainable. FDRPCA uses no true parameters."
    )
    ours = means["FDRPCA"]
    limitations = []
    missed = [
        f"{name} ({score.F:.2f})" for name, score in ours.items() if score.F < MIN_MEAN_F_SCORE
    ]
    if missed:
        limitations.append(f"its F-score is below {MIN_MEAN_F_SCORE:g} on {', '.join(missed)}")
    false = [f"{name} ({score.false:.2f})" for name, score in ours.items() if score.false > MAX_FDP]
    if false:
        limitations.append(
            f"its mean false discovery proportion over the few repetitions exceeds {MAX_FDP:g} on "
            f"{', '.join(false)}"
        )
    for method, scores in means.items():
        better = [name for name, score in scores.items() if score.F > ours[name].F + MARGIN]
        if better:
            limitations.append(f"{method} has a higher F-score on {', '.join(better)}")
    return f"{remarks} Limitations of FDRPCA: {'; '.join(limitations)}." if limitations else remarks


EXPERIMENTS = (
    Experiment("E17", "Unequal noise variances", PAPER, (), unequal_noise),
    Experiment(
        "E18",
        "Real columns among permuted columns",
        PAPER,
        tuple(dict.fromkeys(case.source for case in CASES.values())),
        real_columns,
    ),
)
