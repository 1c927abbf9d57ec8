"""Protection against formula injection in CSV files.

Spreadsheet programs execute a cell that begins with ``=``, ``+``, ``-``, ``@`` (or a full-width
form of these), a tab or a line break. As recommended by OWASP ("CSV Injection"), such cells are
prefixed with a single quote, which marks them as text. `unescape_formula` inverts `escape_formula`
for every text, including text that begins with a quote.
"""

from __future__ import annotations

import re

# The pattern includes leading quotes and spaces, so that the inverse is exact.
_DANGEROUS = re.compile(r"[\s']*[=+\-@\uff1d\uff0b\uff0d\uff20]|'*[\t\r\n]")
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)


def escape_formula(text: str) -> str:
    """Prefix a quote to text that could be a formula; retain numbers."""
    return f"'{text}" if _DANGEROUS.match(text) and not _NUMBER.fullmatch(text) else text


def unescape_formula(text: str) -> str:
    """Restore the text before `escape_formula`."""
    return text[1:] if text.startswith("'") and _DANGEROUS.match(text, 1) else text
