"""Situations that break error rates and intervals: generators of data with a known truth.

Each `Situation` draws a `Sample` with or without shared variance. Simulated data start from
standard normal columns. With shared variance, 20 of the columns at random positions depend on
three factors. A distortion then changes rows, columns or single entries, e.g. it multiplies three
rows by five. One more column of the same kind is independent of all others: the response of a
regression without effects, or the noise of a regression with effects.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import stats

from .data import Data
from .structure import CASES, load_case

Array = np.ndarray
Generator = np.random.Generator

N, P, N_TRUE = 100, 150, 20  # numbers of rows, columns and columns with shared variance
N_FACTORS = 3
REAL_DATASETS = ("Golub", "colon", "NCI60", "TCGA mRNA", "nutrimouse genes", "urine")


class Sample(NamedTuple):
    """Data matrix, true columns, and one more column that is independent of all others."""

    X: Array  # (n, p)
    truth: Array  # (p,), mask of the columns with shared variance
    response: Array  # (n,)
    groups: Array | None = None  # (n,), passed to estimators that accept groups
    counts: bool = False  # passed to estimators that accept counts
    covariates: Array | None = None  # (n, k), passed to estimators that accept covariates
    adjusted: Array | None = None  # (n, p), X without the effects of the covariates


Draw = Callable[[Generator, bool, Data], Sample]  # (random numbers, shared variance, datasets)


class Situation(NamedTuple):
    """A way to draw samples."""

    name: str
    draw: Draw
    has_null: bool = True  # False if the situation is a kind of shared variance
    effort: float = 1.0  # proportion of the usual number of fits of FDRPCA
    data: tuple[str, ...] = ()  # keys of `data.SOURCES`


class Distorted(NamedTuple):
    """Distorted columns and the groups of the rows, if an estimator receives them."""

    X: Array  # (n, p + 1)
    groups: Array | None = None
    counts: bool = False
    covariates: Array | None = None
    adjusted: Array | None = None  # (n, p + 1)


Structure = Callable[[Array, Generator], Array]  # independent columns -> columns that share
Distortion = Callable[[Array, Array, Generator], Distorted]  # (columns, truth, random numbers)


# --- shared variance


def share_factors(E: Array, rng: Generator) -> Array:
    """Add three factors with standard normal loadings; columns have unit variance."""
    loadings = rng.standard_normal((N_FACTORS, E.shape[1]))
    scores = rng.standard_normal((E.shape[0], N_FACTORS))
    return (scores @ loadings + E) / np.sqrt(1.0 + np.sum(loadings**2, axis=0))


def share_in_blocks(size: int, correlation: float) -> Structure:
    """Return a structure in which each block of columns has one factor."""

    def structure(E: Array, rng: Generator) -> Array:
        factors = rng.standard_normal((E.shape[0], E.shape[1] // size))
        common = np.repeat(factors, size, axis=1)
        return np.sqrt(correlation) * common + np.sqrt(1.0 - correlation) * E

    return structure


def share_rare_group(n_rows: int, shift: float = 3.0) -> Structure:
    """Return a structure in which a few rows are shifted in all true columns."""

    def structure(E: Array, rng: Generator) -> Array:
        shifted = np.zeros((E.shape[0], 1))
        shifted[rng.choice(E.shape[0], n_rows, replace=False)] = shift
        return E + shifted

    return structure


# --- distortions of rows


def undistorted(Z: Array, truth: Array, rng: Generator) -> Distorted:
    """Return the columns unchanged."""
    return Distorted(Z)


def scale_rows(scale: Callable[[Generator, int], Array]) -> Distortion:
    """Return a distortion that multiplies each row by a random number."""

    def distort(Z: Array, truth: Array, rng: Generator) -> Distorted:
        return Distorted(Z * scale(rng, Z.shape[0])[:, None])

    return distort


def lognormal_scale(sigma: float) -> Distortion:
    return scale_rows(lambda rng, n: np.exp(sigma * rng.standard_normal(n)))


def student_rows(dof: float) -> Distortion:
    """Return a distortion to multivariate t rows."""
    return scale_rows(lambda rng, n: np.sqrt(dof / rng.chisquare(dof, n)))


def outlying_rows(count: int, factor: float) -> Distortion:
    def scale(rng: Generator, n: int) -> Array:
        scales = np.ones(n)
        scales[rng.choice(n, count, replace=False)] = factor
        return scales

    return scale_rows(scale)


def noisy_rows_in_half(Z: Array, truth: Array, rng: Generator) -> Distorted:
    """Multiply a fifth of the rows by three in half of the columns."""
    n, width = Z.shape
    rows = rng.permutation(n) < n // 5
    columns = rng.permutation(width) < width // 2
    return Distorted(Z * np.where(rows[:, None] & columns, 3.0, 1.0))


def shift_batches(given: bool) -> Distortion:
    """Return a distortion that shifts 60 % of the columns between three batches."""

    def distort(Z: Array, truth: Array, rng: Generator) -> Distorted:
        batch = np.asarray(rng.integers(3, size=Z.shape[0]))
        shifted: Array = np.asarray(rng.random(Z.shape[1]) < 0.6)
        shifted[-1] = True  # the response depends on the batch as well
        X = Z + (rng.standard_normal((3, Z.shape[1])) * shifted)[batch]
        return Distorted(X, batch if given else None)

    return distort


def scale_batches(given: bool) -> Distortion:
    """Return a distortion to noise of 0.7, 1 and 1.5 standard deviations in three batches."""

    def distort(Z: Array, truth: Array, rng: Generator) -> Distorted:
        batch = np.asarray(rng.integers(3, size=Z.shape[0]))
        return Distorted(Z * np.array([0.7, 1.0, 1.5])[batch][:, None], batch if given else None)

    return distort


def numeric_covariates(effect: float) -> Distortion:
    """Return a distortion by two known covariates of the rows, a number and a binary one.

    Each column depends on both, with normal coefficients of standard deviation ``effect``.
    """

    def distort(Z: Array, truth: Array, rng: Generator) -> Distorted:
        n, width = Z.shape
        covariates = np.column_stack([rng.standard_normal(n), rng.integers(2, size=n)])
        effects = effect * covariates @ rng.standard_normal((2, width))
        return Distorted(Z + effects, covariates=covariates, adjusted=Z)

    return distort


def batches_of_unequal_noise(n_batches: int, sigma: float) -> Distortion:
    """Return a distortion by batches, known as a covariate, that differ in means and noise."""

    def distort(Z: Array, truth: Array, rng: Generator) -> Distorted:
        n, width = Z.shape
        batch = rng.permutation(np.arange(n) % n_batches)
        noisy = Z * np.exp(sigma * rng.standard_normal(n_batches))[batch][:, None]
        X = noisy + 2.0 * rng.standard_normal((n_batches, width))[batch]
        return Distorted(X, covariates=batch.astype(str)[:, None], adjusted=noisy)

    return distort


def two_laboratories(given: bool) -> Distortion:
    """Return a distortion in which each column has a different scale in each laboratory."""

    def distort(Z: Array, truth: Array, rng: Generator) -> Distorted:
        laboratory = np.asarray(rng.integers(2, size=Z.shape[0]))
        scales = np.exp(0.5 * rng.standard_normal((2, Z.shape[1])))
        return Distorted(Z * scales[laboratory], laboratory if given else None)

    return distort


def duplicate_rows(Z: Array, truth: Array, rng: Generator) -> Distorted:
    """Replace a quarter of the rows by copies of others."""
    n = Z.shape[0]
    order = np.r_[np.arange(n - n // 4), np.arange(n // 4)]
    return Distorted(Z[rng.permutation(order)])


def autoregressive_rows(correlation: float) -> Distortion:
    """Return a distortion to a stationary time series, AR(1) in each column."""

    def distort(Z: Array, truth: Array, rng: Generator) -> Distorted:
        X = Z.copy()
        for t in range(1, X.shape[0]):
            X[t] = correlation * X[t - 1] + np.sqrt(1.0 - correlation**2) * Z[t]
        return Distorted(X)

    return distort


def repeated_measures(given: bool, shuffled: bool = False) -> Distortion:
    """Return a distortion to five rows per donor, with independent donor effects in each column."""

    def distort(Z: Array, truth: Array, rng: Generator) -> Distorted:
        n = Z.shape[0]
        donor = np.arange(n) // 5
        if shuffled:
            donor = rng.permutation(donor)
        X = Z + 1.5 * rng.standard_normal((n // 5 + 1, Z.shape[1]))[donor]
        return Distorted(X, donor if given else None)

    return distort


def dropout_by_row(Z: Array, truth: Array, rng: Generator) -> Distorted:
    """Set entries of positive columns to zero, with a different probability in each row."""
    rate = rng.uniform(0.1, 0.6, (Z.shape[0], 1))
    return Distorted(np.where(rng.random(Z.shape) < rate, 0.0, Z + 5.0))


# --- distortions of columns and entries


def transform_columns(
    transform: Callable[[Array, Generator], Array], null_only: bool = False
) -> Distortion:
    """Return a distortion of the distribution of all columns, or of those without structure."""

    def distort(Z: Array, truth: Array, rng: Generator) -> Distorted:
        X = transform(Z, rng)
        return Distorted(np.where(truth, Z, X) if null_only else X)

    return distort


def lognormal(sigma: float) -> Callable[[Array, Generator], Array]:
    return lambda Z, rng: np.exp(sigma * Z)


def rare_counts(mean: float) -> Callable[[Array, Generator], Array]:
    return lambda Z, rng: stats.poisson.ppf(stats.norm.cdf(Z), mean)


def student(Z: Array, rng: Generator) -> Array:
    """Return columns with a t distribution of two degrees of freedom."""
    return np.asarray(stats.t.ppf(stats.norm.cdf(Z), 2))


def spikes(Z: Array, rng: Generator) -> Array:
    """Multiply three per cent of the entries by ten."""
    return np.where(rng.random(Z.shape) < 0.03, 10.0, 1.0) * Z


def binary(Z: Array, rng: Generator) -> Array:
    """Return columns of zeros and ones, with a proportion of ones between 0.1 and 0.5."""
    return (stats.norm.ppf(rng.uniform(0.1, 0.5, Z.shape[1])) > Z).astype(float)


def compositions(log_ratios: bool) -> Distortion:
    """Return a distortion to proportions of lognormal amounts, or to centred log-ratios."""

    def distort(Z: Array, truth: Array, rng: Generator) -> Distorted:
        log_amounts = Z[:, :-1] + rng.standard_normal(Z.shape[1] - 1)
        if log_ratios:
            X = log_amounts - log_amounts.mean(axis=1, keepdims=True)
        else:
            amounts = np.exp(log_amounts)
            X = amounts / amounts.sum(axis=1, keepdims=True)
        return Distorted(np.column_stack([X, Z[:, -1]]))

    return distort


def counts_of_unequal_depth(Z: Array, truth: Array, rng: Generator) -> Distorted:
    """Return overdispersed counts in rows whose depths differ."""
    depth = 3.0 * np.exp(0.8 * rng.standard_normal((Z.shape[0], 1)))
    rate = np.exp(rng.standard_normal(Z.shape[1]))
    return Distorted(rng.poisson(depth * rate * np.exp(0.5 * Z)).astype(float), counts=True)


# --- samples


def simulated(
    distort: Distortion = undistorted,
    *,
    n: int = N,
    p: int = P,
    n_true: int = N_TRUE,
    structure: Structure = share_factors,
) -> Draw:
    """Return a generator of distorted normal columns."""

    def draw(rng: Generator, shared: bool, data: Data) -> Sample:
        Z = rng.standard_normal((n, p + 1))
        truth = np.zeros(p + 1, dtype=bool)
        if shared:
            columns = rng.permutation(p)[:n_true]
            Z[:, columns] = structure(Z[:, columns], rng)
            truth[columns] = True
        X, groups, counts, covariates, adjusted = distort(Z, truth, rng)
        adjusted = None if adjusted is None else adjusted[:, :p]
        return Sample(X[:, :p], truth[:p], X[:, p], groups, counts, covariates, adjusted)

    return draw


def permute_entries(X: Array, rng: Generator) -> Array:
    return rng.permuted(X, axis=0)


def flip_signs(X: Array, rng: Generator) -> Array:
    """Give a random sign to each entry of the standardised columns, which keeps its magnitude."""
    return (X - X.mean(axis=0)) / X.std(axis=0) * rng.choice([-1.0, 1.0], X.shape)


def real(disturb: Callable[[Array, Generator], Array]) -> Draw:
    """Return a generator of real columns, all of them or all but 20 disturbed independently.

    The datasets take turns at random. The undisturbed columns have the largest variances.
    """

    def draw(rng: Generator, shared: bool, data: Data) -> Sample:
        case = CASES[REAL_DATASETS[rng.integers(len(REAL_DATASETS))]]
        table = np.asarray(load_case(case, data))
        X = table[np.sort(rng.permutation(table.shape[0])[:N])]
        variance = X.var(axis=0)
        order = np.argsort(-variance, kind="stable")[: int(np.sum(variance > 1e-12))]
        n_true = N_TRUE if shared else 0
        others = rng.permutation(order[n_true:])[: P + 1 - n_true]
        X = np.column_stack([X[:, order[:n_true]], disturb(X[:, others], rng)])
        width = X.shape[1] - 1
        return Sample(X[:, :width], np.arange(width) < n_true, X[:, width])

    return draw


REAL_SOURCES = tuple(dict.fromkeys(CASES[name].source for name in REAL_DATASETS))

SITUATIONS = (
    Situation("Gaussian", simulated()),
    Situation("real columns, permuted", real(permute_entries), data=REAL_SOURCES),
    Situation("real columns, random signs", real(flip_signs), data=REAL_SOURCES),
    # rows of unequal noise
    Situation("row scale lognormal, sigma 0.15", simulated(lognormal_scale(0.15))),
    Situation("row scale lognormal, sigma 0.3", simulated(lognormal_scale(0.3))),
    Situation("rows multivariate t, 5 degrees of freedom", simulated(student_rows(5.0))),
    Situation("rows multivariate t, 3 degrees of freedom", simulated(student_rows(3.0))),
    Situation("one row times 3", simulated(outlying_rows(1, 3.0))),
    Situation("three rows times 5", simulated(outlying_rows(3, 5.0))),
    Situation("one row times 30", simulated(outlying_rows(1, 30.0))),
    Situation("a fifth of the rows times 3 in half of the columns", simulated(noisy_rows_in_half)),
    Situation("dropout by row", simulated(dropout_by_row), effort=0.2),
    # batches
    Situation("batches shift columns, groups given", simulated(shift_batches(True))),
    Situation(
        "batches shift columns, groups not given", simulated(shift_batches(False)), effort=0.2
    ),
    Situation("batches differ in noise, groups given", simulated(scale_batches(True))),
    Situation("batches differ in noise, groups not given", simulated(scale_batches(False))),
    Situation("two laboratories, groups given", simulated(two_laboratories(True))),
    Situation("two laboratories, groups not given", simulated(two_laboratories(False))),
    # covariates of the rows
    Situation("weak covariates, given", simulated(numeric_covariates(0.3))),
    Situation("strong covariates, given", simulated(numeric_covariates(3.0))),
    Situation(
        "20 batches of unequal noise, given as covariate",
        simulated(batches_of_unequal_noise(20, 0.5)),
    ),
    # dependent rows
    Situation("a quarter of the rows duplicated", simulated(duplicate_rows), effort=0.2),
    Situation("time series, AR(1) with correlation 0.7", simulated(autoregressive_rows(0.7))),
    Situation("repeated measures, groups given", simulated(repeated_measures(True))),
    Situation("repeated measures, groups not given", simulated(repeated_measures(False))),
    Situation(
        "repeated measures in random order, groups not given",
        simulated(repeated_measures(False, shuffled=True)),
    ),
    # distributions of columns
    Situation(
        "counts of mean 0.03 alongside Gaussian structure",
        simulated(transform_columns(rare_counts(0.03), null_only=True)),
    ),
    Situation(
        "counts of mean 0.1 alongside Gaussian structure",
        simulated(transform_columns(rare_counts(0.1), null_only=True)),
    ),
    Situation("lognormal columns, sigma 1", simulated(transform_columns(lognormal(1.0)))),
    Situation("lognormal columns, sigma 1.5", simulated(transform_columns(lognormal(1.5)))),
    Situation(
        "lognormal columns, sigma 1.5, alongside Gaussian structure",
        simulated(transform_columns(lognormal(1.5), null_only=True)),
    ),
    Situation("t columns, 2 degrees of freedom", simulated(transform_columns(student))),
    Situation("spiky columns", simulated(transform_columns(spikes))),
    Situation("binary columns", simulated(transform_columns(binary))),
    Situation("compositions, proportions", simulated(compositions(False))),
    Situation("compositions, centred log-ratios", simulated(compositions(True))),
    Situation("counts of unequal depth, counts=True", simulated(counts_of_unequal_depth)),
    # kinds of shared variance
    Situation(
        "15 pairs of correlation 0.9, 400 rows",
        simulated(n=400, n_true=30, structure=share_in_blocks(2, 0.9)),
        has_null=False,
        effort=0.5,
    ),
    Situation(
        "10 triples of correlation 0.8",
        simulated(n_true=30, structure=share_in_blocks(3, 0.8)),
        has_null=False,
    ),
    Situation(
        "6 blocks of five, correlation 0.6",
        simulated(n_true=30, structure=share_in_blocks(5, 0.6)),
        has_null=False,
    ),
    *(
        Situation(
            f"rare group of {m} of 200 rows",
            simulated(n=200, p=80, n_true=15, structure=share_rare_group(m)),
            has_null=False,
        )
        for m in (5, 8, 12)
    ),
    # sizes
    *(Situation(f"{n} rows", simulated(n=n)) for n in (8, 12, 20)),
    Situation("10 columns", simulated(p=10, n_true=4)),
    Situation(
        "50,000 columns, row scale lognormal, sigma 0.15",
        simulated(lognormal_scale(0.15), p=50_000, n_true=1_000),
        effort=0.1,
    ),
)
