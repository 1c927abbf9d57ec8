"""All detectors for the numbers of a table."""

from __future__ import annotations

from collections.abc import Iterator

from .columns import find_column_problems
from .counts import find_count_problems
from .numbers import Numbers
from .result import Finding
from .rows import find_row_problems


def find_number_problems(numbers: Numbers) -> Iterator[Finding]:
    """Find problems of the numeric part of a table."""
    yield from find_count_problems(numbers)
    yield from find_column_problems(numbers)
    yield from find_row_problems(numbers)
