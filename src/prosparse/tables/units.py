"""Detection of rows of units below the column names."""

from __future__ import annotations

import re
from collections.abc import Sequence

_WORDS = """
g kg mg µg ug ng pg t dt l dl ml µl ul hl m cm mm µm um nm pm km ha dm mol mmol µmol umol nmol
pmol mol% s sec ms min h hr hrs d day days week weeks month months y yr yrs year years au a.u. ppm
ppb % ‰ c °c °f k pa hpa kpa mpa bar mbar mmhg iu u ku mu log log2 log10 ln count counts score
ratio fold rpm cal kcal j kj w kw v mv a ma ω ohm hz khz mhz ghz ph x n kn db lux cells copies
reads rpkm fpkm tpm cpm unit units points index eq meq osm mosm fl pl bpm fm tm fw dw bw cfu ntu
"""
_UNITS = frozenset(_WORDS.split())
_SEPARATORS = re.compile(r"[\s/·*^()\[\]{}\-\u2212\u207b]+|(?<=[a-zA-Z])[\d²³¹⁰]+|\b10\b")
MIN_UNITS = 0.6  # minimum proportion of the filled cells that are units


def is_unit(cell: str) -> bool:
    """Return whether a cell is a unit, such as ``mg/l`` or ``(°C)``."""
    text = cell.strip().replace("μ", "µ").lower()
    if not text or len(text) > 20:
        return False
    parts = [part for part in _SEPARATORS.split(text) if part]
    parts = [part for part in parts if not re.fullmatch(r"[\d.,²³¹⁰]+", part)]
    return bool(parts) and all(part in _UNITS for part in parts)


def is_units_row(cells: Sequence[str]) -> bool:
    """Return whether the filled cells of a row are mostly units."""
    filled = [cell for cell in cells if cell.strip()]
    return len(filled) > 1 and sum(map(is_unit, filled)) >= MIN_UNITS * len(filled)
