"""Texts in CSV files that a spreadsheet program would run as formulas.

OWASP, "CSV Injection": a cell that begins with ``=``, ``+``, ``-``, ``@`` (or one of their
full-width forms), a tab or an end of line gets a single quote in front, which spreadsheet programs
take as "this is text". Reading takes the quote away again: `unescaped` undoes `escaped` for every
text, also for those that had a quote in front before.
"""

from __future__ import annotations

import re

# quotes and spaces in front of the dangerous character: one more or less of them changes nothing
_DANGEROUS = re.compile(r"[\s']*[=+\-@\uff1d\uff0b\uff0d\uff20]|'*[\t\r\n]")
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)


def escaped(text: str) -> str:
    """The text with a quote in front if it could be a formula; numbers are none."""
    return f"'{text}" if _DANGEROUS.match(text) and not _NUMBER.fullmatch(text) else text


def unescaped(text: str) -> str:
    """The text that `escaped` was given."""
    return text[1:] if text.startswith("'") and _DANGEROUS.match(text, 1) else text
