"""Files that appear whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A file to write to beside ``path``, which takes its place when all is written.

    An error, a full disk or Ctrl-C leaves ``path`` as it was, and nothing beside it; a process
    that is killed leaves ``path`` as it was. Errors name ``path``.
    """
    path = Path(path)
    partial = path  # nothing of ours to remove yet
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        os.close(handle)
        partial = Path(name)
        partial.chmod(0o666 & ~umask())  # mkstemp lets nobody else read
        yield partial
        with partial.open("rb") as file:
            os.fsync(file.fileno())  # or a power cut may leave a new name on an empty file
        partial.replace(path)
    except OSError as error:
        raise type(error)(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        if partial != path:
            partial.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """``text`` in UTF-8, whole or not at all."""
    with whole_file(path) as partial:
        partial.write_text(text, "utf-8")


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
