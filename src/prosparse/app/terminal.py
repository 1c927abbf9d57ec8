"""Words on terminals that cannot show every character.

Names of columns come in any script, and a terminal may know ASCII alone. What it cannot show is
written as an escape such as ``\\u03b1``, and typographic marks as their plain forms: an answer that
was worked out is never lost to the last step, that of printing it.
"""

from __future__ import annotations

import codecs
import os
import sys
from typing import Any

_PLAIN = {
    "\u201c": '"', "\u201d": '"', "\u2018": "'", "\u2019": "'", "\u2026": "...",
    "\u2013": "-", "\u2014": "-", "\u2212": "-", "\u00d7": "x", "\u2022": "*",
}  # fmt: skip
_HANDLER = "prosparse.plain"


def _plainly(error: UnicodeError) -> tuple[str, int]:
    """An error handler for encoders."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    shown = (
        _PLAIN.get(one) or one.encode("ascii", "backslashreplace").decode("ascii") for one in lost
    )
    return "".join(shown), error.end


def speak_plainly() -> None:
    """Let standard output and standard error take any text from now on."""
    codecs.register_error(_HANDLER, _plainly)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a stream of another kind knows what it does
            stream.reconfigure(errors=_HANDLER)


def as_typed(word: str) -> str:
    """A word of the command line as text, also where Python took the terminal to know ASCII alone.

    The bytes that it did not know are then in the word as lone surrogates; most are UTF-8.
    """
    try:
        return os.fsencode(word).decode("utf-8")
    except UnicodeError:
        return word


def shows_everything(stream: Any) -> bool:
    """Whether a stream is in an encoding of Unicode."""
    encoding = getattr(stream, "encoding", None) or "ascii"
    return codecs.lookup(encoding).name.startswith("utf-")
