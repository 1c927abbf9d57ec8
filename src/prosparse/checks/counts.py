"""Findings about tables of counts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .numbers import Numbers
from .result import Finding, Severity

MIN_TOTAL_RATIO = 2.0  # minimum ratio of the 95 % to the 5 % quantile of the row totals


def find_count_problems(numbers: Numbers) -> Iterator[Finding]:
    """Find counts whose rows have unequal totals."""
    if not numbers.is_counts or numbers.varying.size < 5:
        return
    X = numbers.filled
    totals = X.sum(axis=1)
    positive = totals[totals > 0]
    if positive.size < totals.size:
        empty = numbers.name_rows(np.flatnonzero(totals == 0))
        yield Finding(
            "empty-rows",
            Severity.WARNING,
            f"{len(empty):,} rows contain no counts.",
            rows=empty,
            fix=f"--ignore-rows {','.join(empty)}" if len(empty) <= 20 else "",
        )
    low, high = np.quantile(positive, [0.05, 0.95])
    if high > MIN_TOTAL_RATIO * low:
        yield Finding(
            "unequal-totals",
            Severity.WARNING,
            f"The table contains counts, and 90 % of the row totals lie between {low:,.0f} and "
            f"{high:,.0f}. All variables increase with the total (sampling effort or sequencing "
            "depth) and therefore share variance.",
            fix="--counts",
        )
