"""Quoting of command-line arguments for a shell."""

from __future__ import annotations

import shlex

_SPECIAL = frozenset('"$`\\!%')  # characters that a shell replaces within double quotes


def quote_argument(text: str) -> str:
    """Quote an argument, if possible with double quotes for any shell."""
    if shlex.quote(text) == text or _SPECIAL.intersection(text):
        return shlex.quote(text)
    return f'"{text}"'
