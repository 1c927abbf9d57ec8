"""Output of arbitrary names to terminals.

Names of columns may contain any script, but a terminal may support only ASCII. Unsupported
characters are written as escapes such as ``\\u03b1``, and typographic marks as ASCII, so that
printing does not fail after a long computation.

Names may also contain control sequences, which change colours or the title of a terminal.
`escape_control` replaces these by escapes.
"""

from __future__ import annotations

import codecs
import os
import re
import sys
from typing import Any

_ASCII = {
    "\u201c": '"', "\u201d": '"', "\u2018": "'", "\u2019": "'", "\u2026": "...",
    "\u2013": "-", "\u2014": "-", "\u2212": "-", "\u00d7": "x", "\u2022": "*",
}  # fmt: skip
_HANDLER = "prosparse.ascii"
# Control characters, and characters that reverse the direction of writing.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def _encode_ascii(error: UnicodeError) -> tuple[str, int]:
    """Handle an encoding error."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    encoded = (
        _ASCII.get(character) or character.encode("ascii", "backslashreplace").decode("ascii")
        for character in error.object[error.start : error.end]
    )
    return "".join(encoded), error.end


def escape_control(text: str) -> str:
    """Return the text on one line, with escapes for control characters."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def install_ascii_fallback() -> None:
    """Make standard output and standard error accept any text.

    Text for a closed stream, as with ``2>&-``, is discarded.
    """
    codecs.register_error(_HANDLER, _encode_ascii)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # not for streams of other types
            stream.reconfigure(errors=_HANDLER)


def decode_argument(argument: str) -> str:
    """Decode an argument as UTF-8 if Python assumed an ASCII terminal.

    Python represents bytes it cannot decode as lone surrogates.
    """
    try:
        return os.fsencode(argument).decode("utf-8")
    except UnicodeError:
        return argument


def supports_unicode(stream: Any) -> bool:
    """Return whether the encoding of a stream is a Unicode encoding."""
    encoding = getattr(stream, "encoding", None) or "ascii"
    return codecs.lookup(encoding).name.startswith("utf-")
