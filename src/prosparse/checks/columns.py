"""Findings about numeric columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..errors import plural
from ..tables.quoting import quote_argument
from .numbers import Numbers
from .result import Finding, Severity, capitalise, name_columns, name_rows

# Numeric codes for missing values in statistics programs and questionnaires.
_NEGATIVE_CODES: tuple[float, ...] = (
    -9.0,
    -77.0,
    -88.0,
    -99.0,
    -777.0,
    -888.0,
    -999.0,
    -7777.0,
    -8888.0,
    -9999.0,
)
_NEGATIVE_CODES += (-99999.0, -999999.0)
_POSITIVE_CODES = (9.0, 77.0, 88.0, 99.0, 777.0, 888.0, 999.0, 7777.0, 8888.0, 9999.0, 99999.0)
_ALL_CODES = _NEGATIVE_CODES + _POSITIVE_CODES
_SURE_CODES = (-99.0, -999.0, -9999.0, -99999.0, -999999.0, 9999.0, 99999.0)
MIN_CODE_GAP = 0.75  # distance of a code from the other values, relative to their range
MIN_UNIT_RATIO = 1e3  # ratio of a standard deviation to the median one
MIN_CELL_DEVIATION = 30.0  # minimum deviation of an outlying cell, in robust standard deviations
MIN_CELL_RATIO = 8.0  # minimum ratio of its magnitude to the largest of the other cells
MAX_CELL_COLUMNS = 0.02  # maximum proportion of columns with outlying cells
MAX_OTHER_DEVIATION = 8.0  # maximum deviation of the other cells of the column
_LOG_LIMITS = (6.0, 4.5)  # both limits for the logarithms of a skewed positive column
MIN_BOTH_DEVIATION = 4.5  # minimum deviation of the logarithms if the values are outlying
MAX_OUTLYING_CELLS = 2  # maximum number per column
MIN_CELL_ROWS = 20
MAX_SUM_COLUMNS = 1500  # maximum number of columns among which sums are searched
MAX_REGRESSION_COLUMNS = 200
SUM_TOLERANCE = 1e-5  # maximum error of a sum, relative to the standard deviation
MAX_ROUNDED = 0.01  # the same for sums of rounded values
N_PROJECTIONS = 3
MAX_FIXED = 30  # maximum number of names in an option


def ignore_columns(names: Sequence[str]) -> str:
    """Return the option of the command that ignores columns."""
    plain = all("," not in name for name in names)
    if plain:
        return f"--ignore {quote_argument(','.join(names))}"
    return " ".join(f"--ignore {quote_argument(name)}" for name in names)


def find_column_problems(numbers: Numbers) -> Iterator[Finding]:
    """Find problems of numeric columns."""
    if not numbers.X.size:
        return
    yield from _empty_and_constant(numbers)
    yield from _codes(numbers)
    duplicates = _find_duplicates(numbers)
    yield from _duplicates(numbers, duplicates)
    repeated = {j for _, j in duplicates}
    yield from _sums(numbers, repeated)
    yield from _outlying_cells(numbers)
    yield from _units(numbers)


def _empty_and_constant(numbers: Numbers) -> Iterator[Finding]:
    empty = np.flatnonzero(numbers.missing.all(axis=0))
    if empty.size:
        names = numbers.name(empty)
        yield Finding(
            "empty-columns",
            Severity.WARNING,
            f"{capitalise(name_columns(names))} contain{'s' * (len(names) == 1)} no values.",
            columns=names,
            fix=ignore_columns(names),
        )
    constant = np.setdiff1d(np.arange(len(numbers.names)), [*numbers.varying, *empty])
    if constant.size:
        names = numbers.name(constant)
        yield Finding(
            "constant-columns",
            Severity.NOTE,
            f"{capitalise(name_columns(names))} {'is' if len(names) == 1 else 'are'} constant "
            "and cannot be selected.",
            columns=names,
            fix=ignore_columns(names) if len(names) <= MAX_FIXED else "",
        )


def _codes(numbers: Numbers) -> Iterator[Finding]:
    """Find numeric codes for missing values."""
    found: dict[float, list[int]] = {}
    count: dict[float, int] = {}
    smallest, largest = numbers.extremes
    # A code far from all other values is an extreme of the column, or adjacent to another code.
    is_candidate = np.isin(smallest, _ALL_CODES) | np.isin(largest, _ALL_CODES)
    for k in numbers.varying[is_candidate[numbers.varying]]:
        column = numbers.X[:, k]
        for code, n_cells in _column_codes(column[~np.isnan(column)]).items():
            found.setdefault(code, []).append(int(k))
            count[code] = count.get(code, 0) + n_cells
    for code, columns in sorted(found.items()):
        if count[code] == 1 and code not in _SURE_CODES:
            continue
        if numbers.is_counts and code > 0:  # possibly the largest of overdispersed counts
            continue
        names = numbers.name(columns)
        yield Finding(
            "missing-codes",
            Severity.WARNING,
            f"The value {code:g} occurs {plural(count[code], 'time')} in {name_columns(names)}, "
            "far from the other values. It is probably a code for missing values.",
            columns=names,
            fix=f"--na {code:g}",
        )


def _column_codes(values: np.ndarray) -> dict[float, int]:
    """Return the codes in a column and the number of cells of each."""
    if values.size < 5:
        return {}
    candidates = np.intersect1d(np.unique(values), _ALL_CODES)
    if not candidates.size:
        return {}
    others = values[~np.isin(values, candidates)]
    # Codes that are close to the other values are regarded as values.
    while candidates.size:
        low, high = (others.min(), others.max()) if others.size else (0.0, 0.0)
        gap = MIN_CODE_GAP * (high - low)
        is_near = (candidates > low - gap) & (candidates < high + gap)
        if not is_near.any():
            break
        others = values[~np.isin(values, candidates[~is_near])]
        candidates = candidates[~is_near]
    if others.size < 0.5 * values.size or np.unique(others).size < 2:
        return {}
    is_skewed = others.max() - np.median(others) > 4.0 * (np.median(others) - others.min())
    return {
        float(code): int(np.sum(values == code))
        for code in candidates
        if code < 0.0 or not is_skewed or int(np.sum(values == code)) >= 3
    }


def _find_duplicates(numbers: Numbers) -> list[tuple[int, int]]:
    """Find pairs of varying columns that are equal up to the unit."""
    X = numbers.filled[numbers.sampled_rows]
    if X.shape[1] < 2 or X.shape[0] < 5:
        return []
    centred = X - X.mean(axis=0)
    scale = np.sqrt(np.mean(centred**2, axis=0))
    directions = np.random.default_rng(0).standard_normal((X.shape[0], N_PROJECTIONS))
    projections = (directions.T @ centred) / np.where(scale > 0, scale, 1.0)
    order = np.argsort(projections[0], kind="stable")
    gaps = np.abs(np.diff(projections[:, order], axis=1))
    size = np.sqrt(X.shape[0])
    pairs = []
    for k in np.flatnonzero(np.all(gaps <= 1e-9 * size, axis=0)):
        i, j = sorted((int(order[k]), int(order[k + 1])))
        if _are_informative(X[:, i]):
            pairs.append((int(numbers.varying[i]), int(numbers.varying[j])))
    return sorted(pairs)


def _are_informative(values: np.ndarray) -> bool:
    """Return whether equality of columns with these values is informative."""
    _, counts = np.unique(values, return_counts=True)
    proportions = counts / values.size
    entropy = -float(np.sum(proportions * np.log2(proportions)))
    return bool(entropy * values.size > 40.0)


def _duplicates(numbers: Numbers, pairs: list[tuple[int, int]]) -> Iterator[Finding]:
    if not pairs:
        return
    first = numbers.name(pairs[0])
    later = numbers.name(sorted({j for _, j in pairs}))
    more = f" ({plural(len(pairs) - 1, 'more pair')})" if len(pairs) > 1 else ""
    yield Finding(
        "duplicate-columns",
        Severity.WARNING,
        f"{capitalise(name_columns(first))} are equal up to their unit{more}. Copies share all of "
        "their variance and are therefore selected.",
        columns=later,
        fix=ignore_columns(later) if len(later) <= MAX_FIXED else "",
    )


def _sums(numbers: Numbers, repeated: set[int]) -> Iterator[Finding]:
    """Find columns that are sums of others."""
    columns = [int(k) for k in numbers.varying if int(k) not in repeated]
    complete = numbers.X[numbers.sampled_rows][:, columns]
    complete = complete[~np.isnan(complete).any(axis=1)]
    if complete.shape[0] < 8 or not 3 <= len(columns) <= MAX_SUM_COLUMNS:
        return
    found = _adjacent_sums(complete)
    if (
        not found
        and complete.shape[0] > 2 * len(columns)
        and len(columns) <= MAX_REGRESSION_COLUMNS
    ):
        found = _regression_sums(complete)
    for total, parts in found[:3]:
        name = numbers.name([columns[total]])
        terms = numbers.name([columns[k] for k in parts])
        yield Finding(
            "sum-columns",
            Severity.WARNING,
            f"{capitalise(name_columns(name))} is the sum of {name_columns(terms)}. A sum shares "
            "its variance with its terms by construction.",
            columns=name,
            fix=ignore_columns(name),
        )


def _tolerance(X: np.ndarray, n_terms: int) -> float:
    """Return the maximum error of a sum due to rounding of its terms."""
    digits = next((d for d in range(7) if np.allclose(X, np.round(X, d), rtol=0, atol=1e-9)), None)
    return 1e-7 if digits is None else 0.5 * 10.0**-digits * (n_terms + 1)


def _adjacent_sums(X: np.ndarray) -> list[tuple[int, list[int]]]:
    """Find columns that equal the sum of adjacent columns a, ..., b - 1."""
    n, p = X.shape
    weights = np.random.default_rng(0).standard_normal(n)
    totals = weights @ X
    cumulated = np.concatenate([[0.0], np.cumsum(totals)])
    order = np.argsort(totals, kind="stable")
    scale = float(np.sqrt(np.sum(np.var(X, axis=0)))) or 1.0
    digits = _tolerance(X, 8)
    allowed = max(1e-9 * scale * n, 4.0 * digits * np.sqrt(n) if digits > 1e-6 else 0.0)
    found: list[tuple[int, list[int]]] = []
    for a in range(p - 1):
        sums = cumulated[a + 2 :] - cumulated[a]
        place = np.clip(np.searchsorted(totals[order], sums), 1, p - 1)
        for side in (place - 1, place):
            close = np.flatnonzero(np.abs(totals[order][side] - sums) <= allowed)
            for k in close[:50]:
                total, b = int(order[side[k]]), a + 2 + int(k)
                if a <= total < b:
                    continue
                error = np.abs(X[:, a:b].sum(axis=1) - X[:, total])
                deviation = float(np.std(X[:, total]))
                limit = max(SUM_TOLERANCE * deviation, _tolerance(X[:, [total, a]], b - a))
                if np.all(error <= limit) and limit <= MAX_ROUNDED * deviation * np.sqrt(b - a):
                    found.append((total, list(range(a, b))))
    best: dict[int, list[int]] = {}
    for total, parts in found:
        if len(parts) > len(best.get(total, [])):
            best[total] = parts
    return sorted(best.items())


def _regression_sums(X: np.ndarray) -> list[tuple[int, list[int]]]:
    """Find exact sums by regression of each column on the others."""
    scale = np.std(X, axis=0)
    Z = (X - X.mean(axis=0)) / scale
    gram = Z.T @ Z / len(Z)
    inverse = np.linalg.inv(gram + 1e-12 * np.eye(len(gram)))
    variance_left = 1.0 / np.diag(inverse)
    found = []
    for total in np.argsort(-X.mean(axis=0)):
        if variance_left[total] > MAX_ROUNDED**2:
            continue
        others = np.delete(np.arange(len(scale)), total)
        coefficients = np.linalg.lstsq(Z[:, others], Z[:, total], rcond=1e-10)[0]
        coefficients *= scale[total] / scale[others]
        parts = others[np.abs(coefficients - 1.0) < 0.05]
        if parts.size < 2 or np.any(
            (np.abs(coefficients) > 0.05) & (np.abs(coefficients - 1) > 0.05)
        ):
            continue
        error = X[:, parts].sum(axis=1) - X[:, total]
        if np.std(error) <= MAX_ROUNDED * scale[total]:
            found.append((int(total), sorted(map(int, parts))))
            break
    return found


def _outlying_cells(numbers: Numbers) -> Iterator[Finding]:
    """Find single cells that are far from all other values of their column."""
    if numbers.is_counts:
        return
    cells: list[tuple[int, int]] = []
    for k in numbers.varying[_may_have_outlying_cells(numbers)]:
        rows = _outlying_rows_of(numbers.X[:, k])
        cells += [(int(row), int(k)) for row in rows]
    if not cells:
        return
    by_row: dict[int, int] = {}
    for row, _ in cells:
        by_row[row] = by_row.get(row, 0) + 1
    # A row that is outlying in many columns is reported as an outlying row.
    cells = [cell for cell in cells if by_row[cell[0]] <= max(2, 0.1 * len(numbers.names))]
    cells = [cell for cell in cells if numbers.X[cell] not in _ALL_CODES]
    if not cells or len({k for _, k in cells}) > max(2, MAX_CELL_COLUMNS * len(numbers.names)):
        return
    row, k = cells[0]
    more = f" ({plural(len(cells) - 1, 'more cell')})" if len(cells) > 1 else ""
    values = [float(numbers.X[cell]) for cell in cells]
    is_unique = all(int(np.sum(value == numbers.X)) == 1 for value in values[:20])
    yield Finding(
        "outlying-cells",
        Severity.WARNING,
        f"The value {values[0]:g} in {name_rows(numbers.name_rows([row]))}, "
        f"{name_columns(numbers.name([k]))}{more} is far from all other values of the column. "
        "Check it for a misplaced decimal mark or another unit.",
        columns=numbers.name(sorted({k for _, k in cells})),
        rows=numbers.name_rows(sorted({row for row, _ in cells})),
        fix=f"--na {','.join(f'{value!r}' for value in values)}"
        if is_unique and len(values) <= 20
        else "",
    )


def _outlying_rows_of(column: np.ndarray) -> np.ndarray:
    """Return the rows of one or two cells far from all others.

    Distances refer to the values or, in a skewed positive column, to their logarithms.
    """
    rows = _far_rows(column, MIN_CELL_DEVIATION, MAX_OTHER_DEVIATION)
    if np.nanmin(column) > 0.0:
        logarithms = np.log(column)
        if rows.size:
            rows = rows[_robust_distance(logarithms)[rows] > MIN_BOTH_DEVIATION]
        else:
            rows = _far_rows(logarithms, *_LOG_LIMITS)
    if not rows.size:
        return rows
    largest = np.nanmax(np.abs(np.delete(column, rows)))
    is_shifted = np.abs(column[rows]).min() > MIN_CELL_RATIO * largest
    return rows if is_shifted else rows[:0]


def _far_rows(column: np.ndarray, minimum: float, maximum: float) -> np.ndarray:
    """Return rows above the minimum distance if all others are below the maximum."""
    none = np.empty(0, dtype=int)
    distance = _robust_distance(column)
    rows = np.flatnonzero(distance > minimum)
    if np.sum(~np.isnan(distance)) < MIN_CELL_ROWS or not 0 < rows.size <= MAX_OUTLYING_CELLS:
        return none
    return rows if np.nanmax(np.delete(distance, rows)) < maximum else none


def _robust_distance(column: np.ndarray) -> np.ndarray:
    """Compute distances from the median in robust standard deviations."""
    centre = float(np.nanmedian(column))
    deviation = float(np.nanmedian(np.abs(column - centre))) / 0.6745
    return np.asarray(np.abs(column - centre) / (deviation if deviation > 0.0 else np.nan))


def _may_have_outlying_cells(numbers: Numbers) -> np.ndarray:
    """Return the varying columns with an extreme far from the quantiles."""
    sample = numbers.filled[numbers.sampled_rows]
    low, centre, high = np.quantile(sample, [0.25, 0.5, 0.75], axis=0)
    smallest, largest = (values[numbers.varying] for values in numbers.extremes)
    distance = np.maximum(largest - centre, centre - smallest)
    # Screening uses half of the limit, because the median absolute deviation is bounded by the
    # distances of the quartiles.
    return np.asarray(distance > 0.5 * MIN_CELL_DEVIATION * np.maximum(centre - low, high - centre))


def _units(numbers: Numbers) -> Iterator[Finding]:
    if numbers.is_counts or numbers.varying.size < 3:
        return
    sample = numbers.filled[numbers.sampled_rows]
    low, high = np.quantile(sample, [0.25, 0.75], axis=0)  # robust against single cells
    typical = float(np.median(high - low))
    if typical <= 0.0:
        return
    ratio = (high - low) / typical
    large = np.flatnonzero(ratio > MIN_UNIT_RATIO)
    if large.size and large.size <= 0.2 * ratio.size + 1:
        names = numbers.name(numbers.varying[large])
        verb = "has" if len(names) == 1 else "have"
        yield Finding(
            "unequal-units",
            Severity.NOTE,
            f"{capitalise(name_columns(names))} {verb} interquartile "
            f"ranges up to {ratio.max():,.0f} times the median: the units differ. fdrpca and "
            "panel standardise the columns; other methods need --scale.",
            columns=names,
            fix="--scale",
        )
