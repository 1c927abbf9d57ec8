"""Detection of columns that number or identify the rows.

Identifiers are not variables, but integers that often have the largest variance of the table. They
are recognised by name and values together, because neither is sufficient alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

# First or last word in the name of an identifier.
_IDENTIFIER_WORDS = {
    "id", "ids", "identifier", "uid", "uuid", "guid", "mrn", "ssn", "eid", "barcode", "accession",
}  # fmt: skip
# Nouns that form the name of an identifier together with "id".
_ENTITIES = (
    "account|animal|case|cell|client|customer|employee|individual|item|object|observation|order|"
    "participant|patient|person|product|record|respondent|row|sample|specimen|student|study|"
    "subject|transaction|user"
)
_ENTITY_ID = re.compile(rf"(?:{_ENTITIES})_?ids?")
# "Patient number" is an identifier, whereas "cell number" may be a count.
_ENTITY_NUMBER = re.compile(
    r"(?:account|case|client|customer|employee|participant|patient|record|respondent|sample|"
    r"specimen|student|subject|user|nhs|(?:medical|hospital) ?record|social ?security)[\s_.\-]*"
    r"(?:no|nr|num|number|code|key)\.?"
)
# Name that pandas gives to a column without a name.
_UNNAMED = re.compile(r"unnamed: \d+(?:\.\d+)*(?:_level_\d+)?")
# Names of possible row numbers; the values must be consecutive.
_ROW_NUMBERS = {
    "#", "case", "caseno", "casenumber", "idx", "index", "individual", "lfdnr", "no", "nr", "num",
    "number", "obs", "observation", "participant", "patient", "record", "recordno", "row", "rowid",
    "rowindex", "rowname", "rownames", "rowno", "rownr", "rownum", "rownumber", "rows", "sample",
    "sampleno", "samplenumber", "serial", "serialno", "serialnumber", "sno", "specimen", "subject",
    "subjectno", "level0",
}  # fmt: skip
_INTEGER = re.compile(r"[-+]?\d{1,30}(?:\.0*)?")


def is_identifier_name(name: str) -> bool:
    """Return whether a name is that of an identifier, such as ``patient_id``."""
    lower = name.strip().lower()
    # patientId, PatientID and patient_id consist of the same two words.
    words = [w.lower() for w in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]
    if not words:
        return False
    if any(pattern.fullmatch(lower) for pattern in (_UNNAMED, _ENTITY_ID, _ENTITY_NUMBER)):
        return True
    # ID1 is the name of a gene.
    return not any(w.isdigit() for w in words) and bool({words[0], words[-1]} & _IDENTIFIER_WORDS)


def is_row_number_name(name: str) -> bool:
    """Return whether a name is that of a row number, such as ``row``."""
    return re.sub(r"[\s_.\-]+", "", name.strip().lower()) in _ROW_NUMBERS


def parse_integer(value: Any) -> int | None:
    """Return the integer in a cell, or None if the cell is not an integer."""
    if isinstance(value, str):
        text = value.strip()
        return int(text.split(".")[0]) if _INTEGER.fullmatch(text) else None
    if isinstance(value, bool) or value is None or not math.isfinite(value):
        return None
    return int(value) if value == int(value) else None


def describe_identifier(name: str, values: Iterable[Any]) -> str | None:
    """Describe how a column identifies the rows, given the values of all rows.

    The result is the predicate of a sentence, or None if the column is not an identifier.
    """
    numbers: list[int] = []
    for value in values:
        number = parse_integer(value)
        if number is None:
            return None
        numbers.append(number)
    if len(numbers) < 2 or len(set(numbers)) < len(numbers):
        return None
    consecutive = max(numbers) - min(numbers) == len(numbers) - 1
    if consecutive and (is_identifier_name(name) or is_row_number_name(name)):
        return f"numbers the rows from {min(numbers)} to {max(numbers)}"
    if is_identifier_name(name):
        return "contains a different integer in every row"
    return None


def identifier_candidates(names: Sequence[str]) -> list[int]:
    """Return the positions of the columns with names of identifiers."""
    return [
        k for k, name in enumerate(names) if is_identifier_name(name) or is_row_number_name(name)
    ]
