"""Names with one beginning that hold most of a component: control probes, mitochondrial genes, a
block of one questionnaire. Whoever knows the table wants to hear of that first."""

from __future__ import annotations

import re
from collections import defaultdict

import numpy as np

from ..findings import Findings
from ..phrases import percent

_MOST = 0.5  # of the squared loadings of a component
_SELDOM = 0.2  # of all names: a beginning that most names have says nothing
_FEWEST = 3  # names
# A word before a mark such as - or _, or letters before the first digit.
_MARKED = re.compile(r"([^\W\d_][^\W_]*[-_.:/ ])")
_LETTERS = re.compile(r"([^\W\d_]{2,})\d")
_KNOWN = {
    "AFFX-": "control probes of the array",
    "MT-": "mitochondrial genes",
    "mt-": "mitochondrial genes",
    "RPL": "genes of ribosomal proteins",
    "RPS": "genes of ribosomal proteins",
    "ERCC-": "spike-in controls",
    "IGKV": "genes of antibodies",
    "IGHV": "genes of antibodies",
    "IGLV": "genes of antibodies",
}


def beginning(name: str) -> str | None:
    """The word that a name begins with, and the mark after it; None if it has none."""
    found = _MARKED.match(name) or _LETTERS.match(name)
    return None if found is None else found[1]


def carried_by(found: Findings, k: int) -> list[str]:
    """A sentence if names with one beginning, which few have, hold most of component ``k``."""
    squares = found.loadings[k] ** 2
    groups: dict[str, list[int]] = defaultdict(list)
    for place, name in enumerate(found.names):
        start = beginning(name)
        if start is not None:
            groups[start].append(place)
    for start, places in groups.items():
        share = float(np.sum(squares[places]) / np.sum(squares))
        if share > _MOST and _FEWEST <= len(places) <= _SELDOM * len(found.names):
            known = f", {_KNOWN[start]}" if start in _KNOWN else ""
            return [
                f"Component {k + 1} is carried by the {len(places):,} variables whose names begin "
                f"with “{start}”{known}: they hold {percent(share)} of it (in squares)."
            ]
    return []
