"""Findings about non-numeric cells in numeric columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..errors import plural
from ..tables.censored_values import is_censored
from ..tables.missing_codes import split_codes
from ..tables.number_format import NumberFormat
from ..tables.quoting import quote_argument
from .result import Finding, Severity, capitalise, list_names, name_columns

MIN_NUMERIC = 0.5  # minimum proportion of numbers in a numeric column with other cells
MAX_CODES = 12  # maximum number of distinct codes in an option
_MIXED = re.compile(r"[-+]?\d+,\d+(?:[eE][-+]?\d+)?")
_THOUSANDS = {
    "comma": re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?"),
    "point": re.compile(r"[-+]?\d{1,3}(?:\.\d{3})+(?:,\d+)?"),
    "space": re.compile(r"[-+]?\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?:[.,]\d+)?"),
    "apostrophe": re.compile(r"[-+]?\d{1,3}(?:['\u2019]\d{3})+(?:[.,]\d+)?"),
}


class CellColumn(NamedTuple):
    """Numbers of a column, and the texts of all other cells."""

    numbers: np.ndarray  # (n,) NaN where a cell is missing or not numeric
    others: Counter[str]  # texts that are neither numbers nor missing
    n_filled: int  # number of cells that are not missing
    limits: list[int]  # rows of the cells with a limit of detection

    @property
    def is_numeric(self) -> bool:
        """Whether the column contains numbers, possibly with codes."""
        n_limits = sum(count for text, count in self.others.items() if is_censored(text))
        n_formatted = sum(count for text, count in self.others.items() if _is_formatted(text))
        n_numbers = self.n_filled - sum(self.others.values()) + n_formatted
        return n_numbers > 0 and n_numbers + n_limits >= MIN_NUMERIC * self.n_filled


def _is_formatted(text: str) -> bool:
    """Return whether a cell is a number in another format."""
    return any(pattern.fullmatch(text) for pattern in (_MIXED, *_THOUSANDS.values()))


def parse_column(cells: Sequence[str], number_format: NumberFormat) -> CellColumn:
    """Separate the numbers of a column from other cells."""
    if number_format.decimal == "." and not number_format.thousands:
        try:
            numbers = np.array(cells, dtype=float)
            return CellColumn(numbers, Counter(), int(np.sum(~np.isnan(numbers))), [])
        except ValueError:
            pass
    values = np.full(len(cells), np.nan)
    others: Counter[str] = Counter()
    n_filled = 0
    limits = []
    for row, cell in enumerate(cells):
        number = number_format.parse(cell)
        if number is None:
            others[cell.strip()] += 1
            n_filled += 1
            if is_censored(cell):
                limits.append(row)
        else:
            values[row] = number
            n_filled += not np.isnan(number)
    return CellColumn(values, others, n_filled, limits)


def find_cell_problems(
    columns: Mapping[str, CellColumn], number_format: NumberFormat, severity: Severity
) -> Iterator[Finding]:
    """Find codes, limits, thousands separators and mixed decimal marks."""
    limits: dict[str, int] = {}
    example = ""
    formats: dict[str, dict[str, str]] = {}
    codes: dict[str, dict[str, int]] = {}
    for name, column in columns.items():
        for text, count in column.others.items():
            kind = _number_kind(text, number_format.decimal)
            if kind is not None:
                formats.setdefault(kind, {})[name] = text
            elif is_censored(text):
                limits[name] = limits.get(name, 0) + count
                example = example or text
            else:
                codes.setdefault(text, {})[name] = count
    if limits:
        names = tuple(limits)
        yield Finding(
            "censored-values",
            severity,
            f"{plural(sum(limits.values()), 'cell')} in {name_columns(names)} "
            f"{'states' if sum(limits.values()) == 1 else 'state'} a limit of detection instead of "
            f"a value, such as {list_names([example])}. Replace such cells by half the "
            "limit (half), the limit (lod) or missing values (missing).",
            columns=names,
            fix="--censored half",
        )
    yield from _formats(formats, severity)
    yield from _codes(codes, severity)


def _number_kind(text: str, decimal: str) -> str | None:
    """Return the option for a number in another format, or None."""
    for mark, pattern in _THOUSANDS.items():
        if pattern.fullmatch(text):
            if mark == "comma" and decimal == ".":
                return "--thousands comma"
            if mark == "point" and decimal == ",":
                return "--thousands point"
            if mark in ("space", "apostrophe"):
                return f"--thousands {mark}"
    if decimal == "." and _MIXED.fullmatch(text):
        return "--decimal mixed"
    if decimal == "," and re.fullmatch(r"[-+]?\d+\.\d+(?:[eE][-+]?\d+)?", text):
        return "--decimal mixed"
    return None


def _formats(formats: dict[str, dict[str, str]], severity: Severity) -> Iterator[Finding]:
    if "--decimal mixed" in formats and "--thousands comma" in formats:
        # 3,7 has a decimal comma, and so probably has 1,234 in the same column.
        formats["--decimal mixed"].update(formats.pop("--thousands comma"))
    for fix, cells in formats.items():
        names = tuple(cells)
        example = list_names([next(iter(cells.values()))])
        if fix == "--decimal mixed":
            code, problem = "mixed-decimals", "contain both decimal points and decimal commas"
        else:
            code, problem = "thousands-separators", "contain thousands separators"
        verb = problem.replace("contain", "contains", 1) if len(names) == 1 else problem
        yield Finding(
            code,
            severity,
            f"{capitalise(name_columns(names))} {verb}, such as {example}.",
            columns=names,
            fix=fix,
        )


def _codes(codes: dict[str, dict[str, int]], severity: Severity) -> Iterator[Finding]:
    if not codes:
        return
    total = {text: sum(columns.values()) for text, columns in codes.items()}
    texts = sorted(total, key=lambda text: (-total[text], text))
    names = tuple(dict.fromkeys(name for text in texts for name in codes[text]))
    listed = [text for text in texts if split_codes([text]) == (text,)]
    many = len(texts) > MAX_CODES
    yield Finding(
        "missing-texts",
        severity,
        f"{plural(sum(total.values()), 'cell')} in {name_columns(names)} "
        f"{'is not a number' if sum(total.values()) == 1 else 'are not numbers'}: "
        f"{list_names(texts)}. "
        "Read such codes as missing values, or correct the cells.",
        columns=names,
        fix="" if not listed or many else f"--na {quote_argument(','.join(listed))}",
    )
