"""Files that appear whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PARTIAL = ".prosparse-"  # what is not whole yet begins so; short, as names may not be long


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A file to write to beside ``path``, which takes its place when all is written.

    An error, a full disk or Ctrl-C leaves ``path`` as it was, and nothing beside it; a process
    that is killed leaves ``path`` as it was. As if it were written in place, a link is followed,
    the permissions of a file that is there stay, and one that is read-only is left alone. What is
    no regular file, such as a device or a pipe, is refused. Errors name ``path``.
    """
    path = Path(path)
    partial: Path | None = None
    try:
        place = Path(os.path.realpath(path))
        mode = _permissions(place)
        handle, name = tempfile.mkstemp(dir=place.parent, prefix=PARTIAL, suffix=".part")
        os.close(handle)
        partial = Path(name)
        partial.chmod(mode)  # mkstemp lets nobody else read
        yield partial
        flush(partial)
        partial.replace(place)
    except OSError as error:
        raise type(error)(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        if partial is not None:
            partial.unlink(missing_ok=True)


def _permissions(place: Path) -> int:
    """Those of the file that is there, or of a new one; OSError if none can be written there."""
    try:
        found = place.stat().st_mode
    except FileNotFoundError:
        return 0o666 & ~umask()
    if stat.S_ISDIR(found):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(place))
    if not stat.S_ISREG(found):
        raise OSError(
            errno.EINVAL, "it is not a regular file, but a device, a pipe or a socket", str(place)
        )
    if not os.access(place, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(place))
    return stat.S_IMODE(found) & 0o777


def flush(path: Path) -> None:
    """Bring a file to the disk: or a power cut may leave a new name on an empty file."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sha256(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 digest of a file, in hexadecimal."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """``text`` in UTF-8, whole or not at all.

    Names of files need not be text on every system: what UTF-8 cannot hold is written as an escape.
    """
    with whole_file(path) as partial:
        partial.write_text(text, "utf-8", "backslashreplace")


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
