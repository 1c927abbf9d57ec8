"""Columns that number the rows or tell them apart: names of rows, not variables.

Such a column is made of whole numbers, like a variable, and its variance is often the largest of
the table. It is known by its name and by its values together: neither is enough alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

# A name with one of these words first or last says that the column tells the rows apart ...
_IDENTIFIER_WORDS = {
    "id", "ids", "identifier", "uid", "uuid", "guid", "mrn", "ssn", "eid", "barcode", "accession",
}  # fmt: skip
# ... or one of these with "id" behind it.
_THINGS = (
    "account|animal|case|cell|client|customer|employee|individual|item|object|observation|order|"
    "participant|patient|person|product|record|respondent|row|sample|specimen|student|study|"
    "subject|transaction|user"
)
_JOINED = re.compile(rf"(?:{_THINGS})_?ids?")
# "Patient number" tells patients apart; "cell number" may be how many there are.
_NUMBERED = re.compile(
    r"(?:account|case|client|customer|employee|participant|patient|record|respondent|sample|"
    r"specimen|student|subject|user|nhs|(?:medical|hospital) ?record|social ?security)[\s_.\-]*"
    r"(?:no|nr|num|number|code|key)\.?"
)
# pandas calls a column without a name so when it reads a file.
_UNNAMED = re.compile(r"unnamed: \d+(?:\.\d+)*(?:_level_\d+)?")
# These names say only that rows may be counted: the values must be a count without holes.
_COUNTS = {
    "#", "case", "caseno", "casenumber", "idx", "index", "individual", "lfdnr", "no", "nr", "num",
    "number", "obs", "observation", "participant", "patient", "record", "recordno", "row", "rowid",
    "rowindex", "rowname", "rownames", "rowno", "rownr", "rownum", "rownumber", "rows", "sample",
    "sampleno", "samplenumber", "serial", "serialno", "serialnumber", "sno", "specimen", "subject",
    "subjectno", "level0",
}  # fmt: skip
_WHOLE = re.compile(r"[-+]?\d{1,30}(?:\.0*)?")


def named_like_an_identifier(name: str) -> bool:
    """Whether the name of a column says that it tells the rows apart, such as ``patient_id``."""
    lower = name.strip().lower()
    # patientId, PatientID and patient_id are the same two words
    words = [w.lower() for w in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]
    if not words:
        return False
    if any(kind.fullmatch(lower) for kind in (_UNNAMED, _JOINED, _NUMBERED)):
        return True
    # ID1 is a gene, not an identifier
    return not any(w.isdigit() for w in words) and bool({words[0], words[-1]} & _IDENTIFIER_WORDS)


def named_like_a_count(name: str) -> bool:
    """Whether the name of a column says that it may number the rows, such as ``row``."""
    return re.sub(r"[\s_.\-]+", "", name.strip().lower()) in _COUNTS


def may_tell_rows_apart(name: str) -> bool:
    """Whether the values of a column of this name are worth a look."""
    return named_like_an_identifier(name) or named_like_a_count(name)


def whole(value: Any) -> int | None:
    """The whole number that a cell or a value is; None if it is anything else."""
    if isinstance(value, str):
        text = value.strip()
        return int(text.split(".")[0]) if _WHOLE.fullmatch(text) else None
    if isinstance(value, bool) or value is None or not math.isfinite(value):
        return None
    return int(value) if value == int(value) else None


def how_rows_are_told_apart(name: str, values: Iterable[Any]) -> str | None:
    """In words, how a column of this name and these values tells the rows apart; None: not at all.

    Parameters
    ----------
    name : str
    values : iterable of texts or numbers
        One for each row.

    Returns
    -------
    str or None
    """
    numbers: list[int] = []
    for value in values:
        number = whole(value)
        if number is None:
            return None
        numbers.append(number)
    if len(numbers) < 2 or len(set(numbers)) < len(numbers):
        return None
    if max(numbers) - min(numbers) == len(numbers) - 1 and may_tell_rows_apart(name):
        return f"numbers the rows from {min(numbers)} to {max(numbers)}"
    if named_like_an_identifier(name):
        return "holds another whole number in every row, as identifiers do"
    return None


def candidates(names: Sequence[str]) -> list[int]:
    """Positions of the columns whose values are worth a look."""
    return [k for k, name in enumerate(names) if may_tell_rows_apart(name)]
