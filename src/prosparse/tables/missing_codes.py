"""Codes for missing values: built-in codes and those of ``--na``."""

from __future__ import annotations

from collections.abc import Iterable

# Codes of spreadsheets and statistics programs.
MISSING = (
    "", "NA", "N/A", "n/a", "NaN", "nan", "NAN", "-nan", "null", "NULL", "None", "none",
    "#N/A", "#NA", "#NULL!", "#DIV/0!", "#VALUE!", "#NUM!", "#REF!",
)  # fmt: skip


def split_codes(values: Iterable[str]) -> tuple[str, ...]:
    """Split the values of --na at commas."""
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())


def numeric_codes(codes: Iterable[str]) -> list[float]:
    """Return the codes that are numbers."""
    numbers = []
    for code in codes:
        try:
            numbers.append(float(code))
        except ValueError:
            continue
    return numbers
