"""Roles of the columns of a table, and guesses from names and values.

A column has one role: variable, row names, label (for colouring scores), groups of the rows
(patients with several samples), covariate (age, sex, batch), response, or ignored.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from .identifiers import is_identifier_name, is_row_number_name

MAX_LEVELS = 30  # maximum number of levels of a categorical column
MIN_ROWS_PER_LEVEL = 2.0  # minimum mean number of rows of a level
MIN_REPEATS = 1.3  # minimum mean number of rows of a repeated identifier
MAX_REPEATS = 25.0
MIN_CODES = 0.95  # minimum proportion of values such as P01 in a column of identifiers


class Role(StrEnum):
    """Role of a column."""

    VARIABLE = "variable"
    ROW_NAMES = "row names"
    LABEL = "label"
    GROUPS = "groups"
    COVARIATE = "covariate"
    RESPONSE = "response"
    IGNORED = "ignored"


class Guess(NamedTuple):
    """Guessed role of a column."""

    role: Role
    reason: str  # predicate of a sentence about the column
    is_batch: bool = False  # whether the column describes the measurement, not the sample


_UNITS_OF_REPEATS = (
    "patient|subject|donor|participant|individual|person|animal|mouse|rat|client|student|family|"
    "litter|household|respondent|tree|plant|proband|case|pat|subj"
)
_REPEATED = re.compile(
    rf"(?:{_UNITS_OF_REPEATS})s?(?:[\s_.\-]*(?:id|no|nr|num|number|code|name|key)s?\.?)?",
    re.IGNORECASE,
)
_BATCH = re.compile(
    r"(?:.*[\s_.\-])?(?:batch|plate|run|chip|lane|array|slide|cent(?:re|er)|site|hospital|clinic|"
    r"lab|laboratory|operator|technician|instrument|machine|scanner|kit|lot|shift|block|facility|"
    r"assay[\s_.\-]*(?:day|date)|day|week|session|cohort|study)s?"
    r"(?:[\s_.\-]*(?:id|no|nr|num|number|code|name))?",
    re.IGNORECASE,
)
_COVARIATE = re.compile(
    r"(?:.*[\s_.\-])?(?:age|sex|gender|geschlecht|alter|ethnicity|race|smok(?:er|ing)"
    r"(?:[\s_.\-]*status)?)(?:[\s_.\-]*(?:years|yrs|y|group|at[\s_.\-]*(?:diagnosis|sampling)))?",
    re.IGNORECASE,
)
_VISIT = re.compile(r"(?:.*[\s_.\-])?(?:visit|time[\s_.\-]*point|timepoint|time|repeat)s?", re.I)
_CODE = re.compile(r"[A-Za-z]{0,12}[\s_.\-]?\d{1,12}[A-Za-z]?")
_DATE = re.compile(
    r"\d{4}-\d\d?-\d\d?(?:[T ].*)?|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}(?: .*)?|\d{1,2}:\d\d(?::\d\d)?|"
    r"\d{1,2}[-. ](?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*[-. ]\d{2,4}",
    re.IGNORECASE,
)


def names_repeated_units(name: str) -> bool:
    """Return whether a name is that of units with repeated measures."""
    return _REPEATED.fullmatch(name.strip()) is not None


def names_batch(name: str) -> bool:
    """Return whether a name is that of a batch of measurements."""
    return _BATCH.fullmatch(name.strip()) is not None


def names_covariate(name: str) -> bool:
    """Return whether a name is that of a common covariate (age, sex)."""
    return _COVARIATE.fullmatch(name.strip()) is not None


def numbers_visits(name: str, n_levels: int) -> bool:
    """Return whether a column of integers contains visit numbers."""
    return _VISIT.fullmatch(name.strip()) is not None and 1 < n_levels <= MAX_LEVELS


def guess_text_role(  # noqa: PLR0911 (one rule after the other)
    name: str, cells: Sequence[str], *, may_name_rows: bool = False
) -> Guess:
    """Guess the role of a column of text from its name and values.

    ``may_name_rows`` states whether distinct values may be the row names, because no other column
    contains them. Cells must be stripped, and missing cells empty.
    """
    present = [cell for cell in cells if cell]
    count = Counter(present)
    n, k = len(present), len(count)
    if n == 0:
        return Guess(Role.IGNORED, "has no values")
    if sum(_DATE.fullmatch(cell) is not None for cell in present) >= MIN_CODES * n:
        return Guess(Role.IGNORED, "contains dates")
    if k == n and n > 2:
        if may_name_rows and n == len(cells):
            return Guess(Role.ROW_NAMES, "names the rows")
        return Guess(Role.IGNORED, "has a different text in every row")
    if repeats_identifier(name, present):
        return Guess(Role.GROUPS, f"identifies {k:,} units with {n / k:.2g} rows each on average")
    if k > MAX_LEVELS or n < MIN_ROWS_PER_LEVEL * k:
        return Guess(Role.IGNORED, f"contains {k:,} different texts")
    if k == 1:
        return Guess(Role.IGNORED, f"contains only the text {present[0]!r}")
    levels = f"has {k} levels"
    if names_batch(name):
        return Guess(Role.COVARIATE, f"{levels} and is named like a batch", is_batch=True)
    if names_covariate(name):
        return Guess(Role.COVARIATE, f"{levels} and is a common covariate")
    return Guess(Role.LABEL, levels)


def repeats_identifier(name: str, values: Sequence[str]) -> bool:
    """Return whether a column identifies units that have several rows each."""
    count = Counter(values)
    n, k = len(values), len(count)
    if k < 3 or not MIN_REPEATS * k <= n <= MAX_REPEATS * k:
        return False
    repeated = sum(c > 1 for c in count.values())
    if repeated < 0.2 * k:
        return False
    if names_repeated_units(name) or is_identifier_name(name):
        return not is_row_number_name(name) or names_repeated_units(name) or k > 2
    if names_batch(name) or names_covariate(name) or _VISIT.fullmatch(name.strip()):
        return False
    codes = sum(_CODE.fullmatch(value) is not None for value in count)
    has_letters = any(c.isalpha() for value in count for c in value)
    # Without an informative name, most values must be codes such as P01 with similar numbers of
    # rows.
    is_balanced = max(count.values()) <= 3 * max(1, n // k)
    return has_letters and codes >= MIN_CODES * k and k > 8 and is_balanced
