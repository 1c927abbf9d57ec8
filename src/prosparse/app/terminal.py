"""Words on terminals that cannot show every character.

Names of columns come in any script, and a terminal may know ASCII alone. What it cannot show is
written as an escape such as ``\\u03b1``, and typographic marks as their plain forms: an answer that
was worked out is never lost to the last step, that of printing it.

Names may also hold what a terminal obeys, such as the beginning of a command to change its colours
or its title: `harmless` writes that as escapes, too.
"""

from __future__ import annotations

import codecs
import os
import re
import sys
from typing import Any

_PLAIN = {
    "\u201c": '"', "\u201d": '"', "\u2018": "'", "\u2019": "'", "\u2026": "...",
    "\u2013": "-", "\u2014": "-", "\u2212": "-", "\u00d7": "x", "\u2022": "*",
}  # fmt: skip
_HANDLER = "prosparse.plain"
# control characters, and those that turn the direction of writing round
_OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def _plainly(error: UnicodeError) -> tuple[str, int]:
    """An error handler for encoders."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    shown = (
        _PLAIN.get(one) or one.encode("ascii", "backslashreplace").decode("ascii") for one in lost
    )
    return "".join(shown), error.end


def harmless(text: str) -> str:
    """The text on one line, with escapes such as ``\\x1b`` for all that a terminal would obey."""
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def install_ascii_fallback() -> None:
    """Let standard output and standard error take any text from now on; if they are closed, as by
    ``2>&-``, it goes nowhere."""
    codecs.register_error(_HANDLER, _plainly)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (to the end)
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
