"""Findings about rows: outlying, duplicated, ordered and of unequal noise."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.stats import rankdata

from ..errors import plural
from ..phrases import percent
from ..structure.duplicate_rows import find_duplicates
from ..structure.row_diagnostics import outlying_rows
from ..tables.quoting import quote_argument
from .numbers import Numbers
from .result import Finding, Severity, capitalise, name_rows

MAX_OUTLYING = 0.1  # maximum proportion of outlying rows; more indicate unequal noise
MIN_GAP = 1.3  # minimum ratio of the scale of an outlying row to the next scale
MAX_MISSING = 0.2  # missing values, of a row whose scale is compared with others
MIN_NOISE_RATIO = 3.0  # minimum ratio of the 95 % to the 5 % quantile of the row scales
MIN_UNLIKE_SCALE = 20.0  # minimum scale of a row that contains other quantities than the other rows
MIN_DIMENSION = 4.0  # minimum intrinsic dimension for the detection of near duplicates
MAX_DUPLICATE_DISTANCE = 0.2  # maximum distance, relative to that of the k-th neighbour
N_NEIGHBOURS = 5  # k, the maximum number of replicates of a sample
FALSE_DUPLICATES = 0.005  # maximum expected number of coincidental pairs
MAX_COMPARED_ROWS = 3000
MIN_ROWS = 20
MIN_DRIFT_ROWS = 20
MIN_DRIFT_COLUMNS = 8
MAX_DRIFT_ROWS, MAX_DRIFT_COLUMNS = 400, 100
N_PERMUTATIONS = 60  # number of permutations of the rows
MIN_DRIFT_RATIO = 1.5  # minimum ratio of the squared trends to their maximum over permutations
MIN_SMOOTHNESS = 10.0  # difference in BIC, very strong evidence (Kass & Raftery 1995)
MAX_DEGREE = 3  # degree of the polynomial of a drift
MAX_SEGMENTS = 12  # number of groups of rows of a sorted table
MIN_SEGMENT = 3  # minimum number of rows per group
MIN_TREND = 0.3  # minimum rank correlation of a column with the order of the rows
MIN_DRIFTING = 0.05  # minimum proportion of columns with such a correlation
# Names of properties of genes, proteins and other variables.
_ANNOTATION = re.compile(
    r"(?:gene|transcript|exon|seq|sequence)?[\s_.\-]*(?:length|start|end|stop|position|pos|gc|"
    r"gc[\s_.\-]*content|mass|mz|m/z|rt|retention[\s_.\-]*time|entrez|chr|chromosome|strand|width|"
    r"molecular[\s_.\-]*weight|mw)(?:[\s_.\-]*(?:id|bp|kda|da))?",
    re.IGNORECASE,
)


def ignore_rows(rows: Sequence[str]) -> str:
    """Return the option of the command that ignores rows."""
    return f"--ignore-rows {quote_argument(','.join(rows))}"


def find_row_problems(numbers: Numbers) -> Iterator[Finding]:
    """Find problems of rows."""
    if numbers.operator is None or numbers.X.shape[0] < 3:
        return
    n = numbers.X.shape[0]
    if n < MIN_ROWS:
        yield Finding(
            "few-rows",
            Severity.NOTE,
            f"The table has only {n} rows. Only strong correlations can be detected, and an empty "
            "selection does not show that the variables are unrelated.",
        )
    outliers = _separated(numbers.row_scale, outlying_rows(numbers.row_scale))
    if outliers.size > max(2.0, MAX_OUTLYING * n):
        outliers = outliers[:0]
    yield from _outlying(numbers, outliers)
    yield from _unequal_noise(numbers, outliers)
    yield from _duplicates(numbers)
    yield from _drift(numbers, outliers)


def _separated(row_scale: np.ndarray, outliers: np.ndarray) -> np.ndarray:
    """Return the outliers above the last gap in the scales."""
    if not outliers.size or outliers.size == row_scale.size:
        return outliers
    scale = np.append(row_scale[outliers], np.delete(row_scale, outliers).max())
    gaps = np.flatnonzero(scale[:-1] > MIN_GAP * scale[1:])
    return outliers[: gaps[-1] + 1] if gaps.size else outliers[:0]


def _outlying(numbers: Numbers, outliers: np.ndarray) -> Iterator[Finding]:
    """Find rows with larger deviations than other rows in most columns."""
    is_annotation = np.array(
        [
            numbers.row_scale[row] > MIN_UNLIKE_SCALE
            or bool(_ANNOTATION.fullmatch(numbers.rows[row].strip()))
            for row in outliers
        ],
        dtype=bool,
    )
    unlike = numbers.name_rows(outliers[is_annotation])
    if unlike:
        is_one = len(unlike) == 1
        yield Finding(
            "unlike-rows",
            Severity.WARNING,
            f"{capitalise(name_rows(unlike))} {'is' if is_one else 'are'} unlike all others: "
            "deviations from the column means are up to "
            f"{numbers.row_scale[outliers[is_annotation]].max():,.0f} times as large as in the "
            f"median row. {'The row' if is_one else 'These rows'} may contain annotation, totals "
            "or other units instead of a sample.",
            rows=unlike,
            fix=ignore_rows(unlike),
        )
    others = outliers[~is_annotation]
    if others.size:
        rows = numbers.name_rows(others)
        scale = numbers.row_scale[others]
        yield Finding(
            "outlying-rows",
            Severity.WARNING,
            f"{capitalise(name_rows(rows))} {'is' if len(rows) == 1 else 'are'} outlying: "
            f"deviations from the column means are up to {scale.max():.1f} times as large as in "
            "the median row. Such rows dominate components. Check them, or repeat the analysis "
            "without them.",
            rows=rows,
            fix=ignore_rows(rows),
        )


def _unequal_noise(numbers: Numbers, outliers: np.ndarray) -> Iterator[Finding]:
    incomplete = np.flatnonzero(numbers.missing.mean(axis=1) > MAX_MISSING)
    scale = np.delete(numbers.row_scale, np.union1d(outliers, incomplete))
    if scale.size < MIN_ROWS:
        return
    low, high = np.quantile(scale, [0.05, 0.95])
    if high > MIN_NOISE_RATIO * low:
        yield Finding(
            "unequal-noise",
            Severity.NOTE,
            f"The rows have unequal noise: the scales of 90 % of the rows differ by a factor of up "
            f"to {high / low:.1f}. FDRPCA, GSPPCA and SCA allow for this; in other methods, the "
            "noisiest rows have the largest influence.",
        )


def _duplicates(numbers: Numbers) -> Iterator[Finding]:
    op = numbers.operator
    if op is None:
        return
    pairs = find_duplicates(op)
    exact = {tuple(pair) for pair in pairs.tolist()}
    if len(pairs):
        first = numbers.name_rows(pairs[0])
        later = numbers.name_rows(np.unique(pairs[:, 1]))
        yield Finding(
            "duplicate-rows",
            Severity.WARNING,
            f"{len(later):,} rows repeat an earlier row, such as {name_rows(first)}. Every "
            "row counts as an independent observation."
            if len(later) > 1
            else f"{capitalise(name_rows(first))} are equal. Every row counts as an independent "
            "observation.",
            rows=later,
            fix=ignore_rows(later) if len(later) <= 20 else "",
        )
    near = [pair for pair in _near_duplicates(numbers) if pair not in exact]
    if near:
        first = numbers.name_rows(near[0])
        later = numbers.name_rows(sorted({pair[1] for pair in near}))
        yield Finding(
            "near-duplicate-rows",
            Severity.WARNING,
            f"{capitalise(name_rows(first))} are nearly equal"
            + (f" ({plural(len(near) - 1, 'more pair')})" if len(near) > 1 else "")
            + ". They may be technical replicates of one sample, which are not independent.",
            rows=later,
            fix=ignore_rows(later) if len(later) <= 20 else "",
        )


def _near_duplicates(numbers: Numbers) -> list[tuple[int, int]]:
    """Find pairs of rows that are closer than expected from other neighbours.

    The distances r_1 < r_k of a row to its nearest neighbours satisfy approximately P(r_1 < c r_k)
    = (k - 1) c^d in d dimensions, for any density. The intrinsic dimension d is estimated from the
    median of r_1 / r_k (compare Facco et al. 2017).
    """
    Z = numbers.standardised
    n, k = Z.shape[0], N_NEIGHBOURS
    if n < MIN_ROWS or n > MAX_COMPARED_ROWS or Z.shape[1] < 4:
        return []
    squares = np.sum(Z * Z, axis=1)
    distances = np.sqrt(np.maximum(squares[:, None] + squares - 2.0 * (Z @ Z.T), 0.0))
    np.fill_diagonal(distances, np.inf)
    distances[distances < 1e-6 * np.sqrt(np.median(squares))] = np.inf  # equal rows
    nearest = np.partition(distances, k - 1, axis=1)[:, :k]
    ratio = nearest.min(axis=1) / nearest[:, k - 1]
    # The median m of r_1 / r_k satisfies (1 - m^d)^(k - 1) = 1 / 2.
    half = float(np.median(ratio))
    if not 0.0 < half < 1.0:
        return []
    dimension = float(np.log(1.0 - 0.5 ** (1.0 / (k - 1))) / np.log(half))
    if dimension < MIN_DIMENSION:
        return []
    by_chance = (FALSE_DUPLICATES / (n * (k - 1))) ** (1.0 / dimension)
    limit = min(MAX_DUPLICATE_DISTANCE, by_chance) * nearest[:, k - 1]
    close = np.triu((distances < limit) & (distances < limit[:, None]), 1)
    return [(int(i), int(j)) for i, j in np.argwhere(close)]


def _drift(numbers: Numbers, outliers: np.ndarray) -> Iterator[Finding]:
    """Find values that increase or decrease smoothly along the rows.

    The null distribution of the trends is that under row permutations, which preserve the
    correlation of the columns. Sorted rows (patients, then controls) also have trends, but change
    in steps, so that a step function fits their projection on the trends better than a polynomial.
    """
    Z = np.delete(numbers.standardised, outliers, axis=0)
    n, p = Z.shape
    if n < MIN_DRIFT_ROWS or p < MIN_DRIFT_COLUMNS:
        return
    Z = Z[np.unique(np.linspace(0, n - 1, min(n, MAX_DRIFT_ROWS)).astype(int))]
    Z = Z[:, np.unique(np.linspace(0, p - 1, min(p, MAX_DRIFT_COLUMNS)).astype(int))]
    ranks = rankdata(Z, axis=0)
    trends = _trends(ranks)
    rng = np.random.default_rng(0)
    null = [np.sum(_trends(rng.permutation(ranks)) ** 2) for _ in range(N_PERMUTATIONS)]
    if np.sum(trends**2) <= MIN_DRIFT_RATIO * max(null):
        return
    if _smoothness(_standardise_ranks(ranks) @ trends) <= MIN_SMOOTHNESS:
        return
    strong = np.abs(trends) > MIN_TREND
    if strong.mean() < MIN_DRIFTING:
        return
    yield Finding(
        "row-order",
        Severity.WARNING,
        f"The values drift along the rows: {percent(float(strong.mean()), 0)} of the columns have "
        f"a rank correlation above {MIN_TREND:g} with the order of the rows, and change smoothly. "
        "If rows are in order of measurement, instrument drift makes variables correlated: pass a "
        "column with the order as a covariate. If the table was sorted by a variable, ignore this "
        "warning.",
    )


def _smoothness(score: np.ndarray) -> float:
    """Compute the BIC difference between step function and polynomial."""
    n = score.size
    order = np.linspace(-1.0, 1.0, n)
    smooth = min(
        _bic(np.polynomial.Polynomial.fit(order, score, degree, full=True)[1][0].sum(), n, degree)
        for degree in range(1, MAX_DEGREE + 1)
    )
    steps = min(
        _bic(residual, n, 2 * segments)  # parameters: means and limits of the segments
        for segments, residual in enumerate(_step_residuals(score), start=1)
    )
    return steps - smooth


def _bic(residual: float, n: int, n_parameters: int) -> float:
    """Compute the BIC of a curve, up to a common constant."""
    return float(n * np.log(max(residual / n, np.finfo(float).tiny)) + n_parameters * np.log(n))


def _step_residuals(score: np.ndarray) -> list[float]:
    """Compute residual sums of squares of step functions with 2, 3, ... segments.

    The best functions are found by dynamic programming over the last segment.
    """
    n = score.size
    totals = np.concatenate([[0.0], np.cumsum(score)])
    squares = np.concatenate([[0.0], np.cumsum(score * score)])
    length = np.arange(n + 1) - np.arange(n + 1)[:, None]
    variation = (squares - squares[:, None]) - (totals - totals[:, None]) ** 2 / np.maximum(
        length, 1
    )
    cost = np.where(length >= MIN_SEGMENT, variation, np.inf)  # cost of rows i to j - 1
    best, residuals = cost[0], []
    for _ in range(MAX_SEGMENTS - 1):
        best = np.min(best[:, None] + cost, axis=0)
        residuals.append(float(best[n]))
    return residuals


def _trends(ranks: np.ndarray) -> np.ndarray:
    """Compute the correlation of each column with the order of the rows."""
    order = np.arange(len(ranks)) - (len(ranks) - 1) / 2.0
    return np.asarray((order / np.linalg.norm(order)) @ _standardise_ranks(ranks))


def _standardise_ranks(ranks: np.ndarray) -> np.ndarray:
    """Centre the columns and divide them by their norms."""
    centred = ranks - ranks.mean(axis=0)
    norms = np.linalg.norm(centred, axis=0)
    return np.asarray(centred / np.where(norms > 0, norms, np.inf))
