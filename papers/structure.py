"""E17 and E18: do the chosen variables share structure, where columns have noise of their own?

Beyond the papers, whose simulations give all columns one noise variance. E17 takes the slides'
simulation (E4) and gives columns unit variance, or noise of different size. E18 takes real columns,
which share what they share, among real columns whose rows were each put in random order, which
share nothing; and tables in which that was done to all columns. Nothing is told to any method
unless its name says so.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from prosparse.metrics import support_f_score
from prosparse.models.fdrpca import FDRPCA
from prosparse.models.gsppca import GSPPCA
from prosparse.structure.false_discoveries import benjamini_hochberg

from .base import Claim, Experiment, Result, Row, figure_of, mean_row, saved
from .data import Data
from .simulations import D, draw

Array = np.ndarray

PAPER = "Beyond the papers: columns with noise of their own"
SIZES = (40, 66, 100, 200)
FIRST_SEED = 10_000  # of draws on which nothing was chosen
LOGNORMAL = 0.5  # the standard deviation of the logarithm of the noise's factor
REAL, SHUFFLED = 200, 1000  # columns of a table of E18, where it has so many
FLOORS = {40: 0.74, 66: 0.94, 100: 0.97, 200: 0.97}
FALSE = 0.06
GOOD = 0.9  # an F-score
CLEARLY = 0.01  # by which one F-score is higher than another


# --- methods


def permutation_test(X: Array, rate: float = 0.05, orders: int = 400, seed: int = 0) -> Array:
    """Columns whose squared correlations with all others add up to more than with their own rows in
    random order: the plain test, column by column."""
    rng = np.random.default_rng(seed)
    Z = (X - X.mean(axis=0)) / X.std(axis=0) / np.sqrt(X.shape[0])
    given = np.sum((Z.T @ Z) ** 2, axis=1) - 1.0
    reached = np.ones(Z.shape[1])
    for _ in range(orders):
        moved = rng.permutation(Z.shape[0])
        across = (Z[moved].T @ Z) ** 2
        reached += np.sum(across, axis=1) - np.diag(across) >= given
    return benjamini_hochberg(reached / (orders + 1.0), rate)


METHODS: dict[str, Callable[[Array], Array]] = {
    "FDRPCA": lambda X: FDRPCA().fit(X).support_,
    "GSPPCA": lambda X: GSPPCA().fit(X).support_,
    "GSPPCA, scaled": lambda X: GSPPCA(scale=True).fit(X).support_,
    "GSPPCA, scaled, told d": lambda X: GSPPCA(D, scale=True).fit(X).support_,
    "permutation test": permutation_test,
}


class Scored(NamedTuple):
    """How good a choice is."""

    F: float
    false: float  # share of the chosen that is false


def scored(truth: Array, chosen: Array) -> Scored:
    """F-score and false discovery proportion."""
    wrong = float(np.sum(chosen & ~truth)) / max(1, int(np.sum(chosen)))
    return Scored(float(support_f_score(truth, chosen)), wrong)


def applied(method: str, X: Array) -> Array:
    """What a method chooses; warnings are not the question here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(METHODS[method](X))


# --- E17


def unequal(n: int, seed: int, lognormal: bool) -> tuple[Array, Array]:
    """A table of E4 with noise of different size (or not), columns of unit variance."""
    X, support, _ = draw(n, 200, 1.0, seed)
    if lognormal:
        clean = draw(n, 200, 0.0, seed).X  # the same factors and loadings, without noise
        factor = np.exp(LOGNORMAL * np.random.default_rng(seed).standard_normal(X.shape[1]))
        X = clean + factor * (X - clean)
    return (X - X.mean(axis=0)) / X.std(axis=0), support


Means = dict[tuple[bool, str], list[Scored]]  # by kind of noise and method; one for each of SIZES


def kind_of_noise(lognormal: bool) -> str:
    return "lognormal noise" if lognormal else "unit variance"


def unequal_noise(quick: bool, data: Data, output: Path) -> Result:
    """E17: F-score and false discoveries against n."""
    runs = 3 if quick else 50
    names = ("FDRPCA",) if quick else tuple(METHODS)
    figure, axes = figure_of(2)
    rows: list[Row] = []
    means: Means = {}
    for lognormal in (False, True):
        what = kind_of_noise(lognormal)
        for n in SIZES:
            tables = [unequal(n, FIRST_SEED + k, lognormal) for k in range(runs)]
            for name in names:
                found = [scored(truth, applied(name, X)) for X, truth in tables]
                F, wrong = np.array(found).T
                note = nothing_found(F) if name == "FDRPCA" else ""
                rows.append(mean_row(f"{what}, n = {n}, {name}: F-score", F, note=note))
                rows.append(mean_row(f"{what}, n = {n}, {name}: share of false ones", wrong))
                mean = Scored(float(F.mean()), float(wrong.mean()))
                means.setdefault((lognormal, name), []).append(mean)
        ax = axes[0][int(lognormal)]
        for name in names:
            ax.plot(SIZES, [mean.F for mean in means[lognormal, name]], "o-", label=name)
        ax.set(xlabel="rows", ylabel="F-score", title=what, ylim=(0, 1.02))
    axes[0][0].legend(frameon=False, fontsize=8)
    path = saved(figure, output / "E17_unequal_noise.png")
    seeds = f"{FIRST_SEED} to {FIRST_SEED + runs - 1}"
    slack = 0.1 if quick else 0.0  # few draws say little
    return Result(rows, claims_of_noise(means, slack), [path], seeds, remarks_on_noise(means))


def nothing_found(F: Array) -> str:
    """In how many tables no true variable was chosen, in words; nothing if in none."""
    empty = int(np.sum(F == 0.0))
    return f"none of the true ones found in {empty} of {F.size} tables" if empty else ""


def claims_of_noise(means: Means, slack: float) -> list[Claim]:
    """What should hold of FDRPCA in E17."""
    claims = []
    for lognormal in (False, True):
        ours = means[lognormal, "FDRPCA"]
        claims.append(
            Claim(
                f"{kind_of_noise(lognormal)}: FDRPCA's F-score is at least "
                f"{listing(FLOORS.values())} at n = {listing(SIZES)}, and at most {FALSE:g} of the "
                "chosen are false",
                all(
                    FLOORS[n] - slack <= mean.F and mean.false <= FALSE + slack
                    for n, mean in zip(SIZES, ours, strict=True)
                ),
                f"{listing(mean.F for mean in ours)}; false {listing(mean.false for mean in ours)}",
            )
        )
    return claims


def remarks_on_noise(means: Means) -> str:
    """E17 in plain words, with what falls short."""
    words = (
        "20 of 200 variables are true, d = 10, noise 1, as in E4; but columns are scaled to unit "
        "variance, so that the true ones do not stand out by their size, and in the second half "
        "the noise of every column is of another size, too. FDRPCA is told neither d nor the "
        "noise. What falls short: it finds nothing in a table of 40 rows now and then, and its "
        "share of false ones stays near the rate that it was asked for, 0.05, however many rows "
        "there are."
    )
    if (False, "GSPPCA") in means:
        few, plain = means[False, "GSPPCA"][-1], means[False, "permutation test"][-1]
        words += (
            f" With {SIZES[-1]} rows of unit variance GSPPCA chooses fewer false ones "
            f"({few.false:.1%}, F-score {few.F:.3f}), and the plain permutation test is as good "
            f"(F-score {plain.F:.3f}); with few rows both fall far behind."
        )
    return words


def listing(values: Iterable[float]) -> str:
    """Numbers with at most three digits, and commas between them."""
    return ", ".join(f"{value:.3g}" for value in values)


# --- E18


class Case(NamedTuple):
    """A real table of E18."""

    source: str  # of `data.SOURCES`
    key: str  # of its array; "csr" for one in parts
    logarithms: bool = False  # counts, as shares of a row's total in ten thousandths


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


def table_of(case: Case, data: Data) -> Array | sparse.csr_array:
    """The table of a case, its columns with gaps left out."""
    arrays = data(case.source)
    if case.key != "csr":
        X = np.asarray(arrays[case.key], dtype=float)
        return X[:, ~np.isnan(X).any(axis=0)]
    parts = (arrays["data"].astype(float), arrays["indices"], arrays["indptr"])
    counts = sparse.csr_array(parts, shape=tuple(arrays["shape"]))
    if not case.logarithms:
        return counts
    totals = np.maximum(np.asarray(counts.sum(axis=1)).ravel(), 1.0)
    shares = sparse.csr_array(sparse.diags_array(1e4 / totals) @ counts)
    shares.data = np.log1p(shares.data)
    return shares


def among_shuffled(X: Any, seed: int) -> tuple[Array, Array]:
    """The columns of largest variance beside others whose rows are each in random order.

    200 beside 1,000, or a sixth of the columns beside the others.
    """
    rng = np.random.default_rng(seed)
    squares = X.multiply(X) if sparse.issparse(X) else X * X
    mean = np.asarray(X.mean(axis=0)).ravel()
    variance = np.asarray(squares.mean(axis=0)).ravel() - mean**2
    varying = np.flatnonzero(variance > 1e-12 * variance.max())
    real = min(REAL, varying.size // 6)
    order = varying[np.argsort(-variance[varying], kind="stable")]
    others = rng.choice(order[real:], min(SHUFFLED, varying.size - real), replace=False)
    taken = X[:, np.concatenate([order[:real], others])]
    table = taken.toarray() if sparse.issparse(taken) else np.array(taken)
    table[:, real:] = rng.permuted(table[:, real:], axis=0)
    return table, np.arange(table.shape[1]) < real


def all_shuffled(X: Any, seed: int) -> Array:
    """The same columns, the rows of every one in random order, so that nothing is shared."""
    table, _ = among_shuffled(X, seed)
    return np.random.default_rng([seed, 1]).permuted(table, axis=0)


def real_columns(quick: bool, data: Data, output: Path) -> Result:
    """E18: F-score and false discoveries of real columns among shuffled ones."""
    runs, nulls = (1, 1) if quick else (3, 5)
    cases = {name: CASES[name] for name in ("Golub", "colon")} if quick else CASES
    names = ("FDRPCA",) if quick else ("FDRPCA", "GSPPCA", "permutation test")
    slack = 0.05 if quick else 0.0
    rows: list[Row] = []
    every: dict[str, list[Scored]] = {name: [] for name in names}
    by_table: dict[str, list[Scored]] = {name: [] for name in names}
    chosen_of_nothing: list[int] = []
    for title, case in cases.items():
        X = table_of(case, data)
        chosen_of_nothing += [
            int(np.sum(applied("FDRPCA", all_shuffled(X, FIRST_SEED + k)))) for k in range(nulls)
        ]
        tables = [among_shuffled(X, FIRST_SEED + k) for k in range(runs)]
        for name in names:
            found = [scored(truth, applied(name, table)) for table, truth in tables]
            F, wrong = np.array(found).T
            rows.append(mean_row(f"{title}, {name}: F-score", F))
            rows.append(mean_row(f"{title}, {name}: share of false ones", wrong))
            every[name] += found
            by_table[name].append(Scored(float(F.mean()), float(wrong.mean())))
    for name in names:
        F, wrong = np.array(every[name]).T
        rows.append(mean_row(f"all tables, {name}: F-score", F))
        rows.append(mean_row(f"all tables, {name}: share of false ones", wrong))
    some = np.array(chosen_of_nothing) > 0
    rows.append(
        mean_row(
            "all columns shuffled, FDRPCA: share of tables of which it chooses any",
            some,
            note=f"{some.sum()} of {some.size} tables; at most {max(chosen_of_nothing)} variables",
        )
    )
    F, wrong = np.array(every["FDRPCA"]).T
    claims = [
        Claim(
            f"over all tables FDRPCA's mean F-score is at least {GOOD:g}, and at most {FALSE:g} of "
            "the chosen are false on average",
            bool(F.mean() >= GOOD - slack and wrong.mean() <= FALSE + slack),
        ),
        Claim(
            "where all columns are shuffled FDRPCA chooses none, but for at most one table in ten",
            bool(some.mean() <= 0.1),
            f"{some.sum()} of {some.size} tables; the rate asked for is one in twenty",
        ),
    ]
    figure, axes = figure_of(1, width=7.0, height=5.5)
    ax = axes[0][0]
    for name in names:
        ax.plot([mean.F for mean in by_table[name]], np.arange(len(cases)), "o", label=name)
    ax.set_yticks(np.arange(len(cases)), list(cases))
    ax.set(xlabel="F-score", xlim=(0, 1.02))
    ax.legend(frameon=False)
    path = saved(figure, output / "E18_real_columns.png")
    seeds = f"{FIRST_SEED} to {FIRST_SEED + runs - 1}; all columns shuffled, {nulls} of each table"
    means = {name: dict(zip(cases, by_table[name], strict=True)) for name in names}
    return Result(rows, claims, [path], seeds, remarks_on_real_columns(means))


def remarks_on_real_columns(means: dict[str, dict[str, Scored]]) -> str:
    """E18 in plain words, with the tables on which FDRPCA falls short.

    Parameters
    ----------
    means : dict
        By method and table.

    Returns
    -------
    str
    """
    words = (
        f"{REAL} columns of largest variance among {SHUFFLED:,} others, or a sixth of the columns "
        "among the rest; every one of the others has its rows in a random order of its own, so "
        "that it shares nothing. A real column that shares nothing counts as missed all the same, "
        "so that no method need reach 1. FDRPCA is told nothing."
    )
    ours = means["FDRPCA"]
    short = []
    missed = [f"{table} ({one.F:.2f})" for table, one in ours.items() if one.F < GOOD]
    if missed:
        short.append(f"its F-score is below {GOOD:g} on {', '.join(missed)}")
    false = [f"{table} ({one.false:.2f})" for table, one in ours.items() if one.false > FALSE]
    if false:
        short.append(
            f"more than {FALSE:g} of the chosen are false on {', '.join(false)}, as far as the few "
            "draws of a table tell"
        )
    for name, theirs in means.items():
        better = [table for table, one in theirs.items() if one.F > ours[table].F + CLEARLY]
        if better:
            short.append(f"{name} has a higher F-score on {', '.join(better)}")
    return f"{words} What falls short: {'; '.join(short)}." if short else words


EXPERIMENTS = (
    Experiment("E17", "unequal noise", PAPER, (), unequal_noise),
    Experiment(
        "E18",
        "real columns among shuffled ones",
        PAPER,
        tuple(dict.fromkeys(case.source for case in CASES.values())),
        real_columns,
    ),
)
