"""Components dominated by variables with a common name prefix.

Examples are control probes, mitochondrial genes, or one block of a questionnaire.
"""

from __future__ import annotations

import re
from collections import defaultdict

import numpy as np

from ..findings import Findings
from ..phrases import percent

MIN_PROPORTION = 0.5  # minimum proportion of the squared loadings of a component
MAX_FREQUENCY = 0.2  # maximum proportion of names with the prefix; others are uninformative
MIN_NAMES = 3  # minimum number of names with the prefix
# A word before a separator such as - or _, or the letters before the first digit.
_WORD = re.compile(r"([^\W\d_][^\W_]*[-_.:/ ])")
_LETTERS = re.compile(r"([^\W\d_]{2,})\d")
_MEANINGS = {
    "AFFX-": "control probes of the array",
    "MT-": "mitochondrial genes",
    "mt-": "mitochondrial genes",
    "RPL": "genes of ribosomal proteins",
    "RPS": "genes of ribosomal proteins",
    "ERCC-": "spike-in controls",
    "IGKV": "immunoglobulin genes",
    "IGHV": "immunoglobulin genes",
    "IGLV": "immunoglobulin genes",
}


def extract_prefix(name: str) -> str | None:
    """Return the first word of a name with its separator, or None."""
    match = _WORD.match(name) or _LETTERS.match(name)
    return None if match is None else match[1]


def describe_prefix(found: Findings, component: int) -> list[str]:
    """Describe the rare common prefix of variables that dominate a component."""
    squares = found.loadings[component] ** 2
    columns_by_prefix: dict[str, list[int]] = defaultdict(list)
    for column, name in enumerate(found.names):
        prefix = extract_prefix(name)
        if prefix is not None:
            columns_by_prefix[prefix].append(column)
    for prefix, columns in columns_by_prefix.items():
        proportion = float(np.sum(squares[columns]) / np.sum(squares))
        rare = MIN_NAMES <= len(columns) <= MAX_FREQUENCY * len(found.names)
        if proportion > MIN_PROPORTION and rare:
            meaning = f" ({_MEANINGS[prefix]})" if prefix in _MEANINGS else ""
            return [
                f"The {len(columns):,} variables whose names start with “{prefix}”{meaning} have "
                f"{percent(proportion)} of the squared loadings of component {component + 1}."
            ]
    return []
