"""Atomic writing of files."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PARTIAL = ".prosparse-"  # prefix of temporary files; short, because file names are limited


@contextmanager
def replace_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary file that replaces ``path`` after success.

    The temporary file is in the same folder. After an error or Ctrl-C, ``path`` is unchanged and
    the temporary file is removed. Links are followed. The permissions of an existing file are
    preserved, and a read-only file is not replaced. A device, a pipe or a socket raises an error.
    Errors refer to ``path``.
    """
    path = Path(path)
    partial: Path | None = None
    try:
        target = Path(os.path.realpath(path))
        mode = _target_permissions(target)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=PARTIAL, suffix=".part")
        os.close(handle)
        partial = Path(name)
        partial.chmod(mode)  # mkstemp grants access only to the owner
        yield partial
        flush(partial)
        partial.replace(target)
    except OSError as error:
        raise type(error)(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        if partial is not None:
            partial.unlink(missing_ok=True)


def _target_permissions(target: Path) -> int:
    """Return the permissions of a file; raise OSError if it is not writable."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return 0o666 & ~umask()
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    if not stat.S_ISREG(mode):
        raise OSError(
            errno.EINVAL, "not a regular file, but a device, a pipe or a socket", str(target)
        )
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
    return stat.S_IMODE(mode) & 0o777


def flush(path: Path) -> None:
    """Flush a file to the disk, to protect it from power failures."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sha256(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 digest of a file, in hexadecimal."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write text in UTF-8 to a file, completely or not at all."""
    with replace_file(path) as partial:
        partial.write_text(text, "utf-8", "backslashreplace")


def umask() -> int:
    """Return the permission mask of new files."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
