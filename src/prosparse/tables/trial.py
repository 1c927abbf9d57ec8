"""Files on which a library may hang or crash: a process of its own tries them first.

Libraries that read other people's formats meet files that were damaged or made to harm. A process
that hangs can be ended, and one that crashes takes nobody with it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ..errors import TableError
from .base import quietly

PATIENCE = 15.0  # seconds to try a file,
BYTES_A_SECOND = 5e6  # and what longer files have besides


def try_first(path: Path, program: Path, what: str, library: str, instead: str) -> None:
    """Refuse a file that another process cannot read.

    Parameters
    ----------
    path : Path
    program : Path
        Reads all of the file that is its argument, and throws it away.
    what : str
        The file should be a whole one of these.
    library : str
        What reads it.
    instead : str
        What to do if the file is sound.
    """
    limit = PATIENCE + path.stat().st_size / BYTES_A_SECOND
    command = [sys.executable, "-P", str(program), str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired as error:
        raise TableError(
            f"{path}: it could not be read in {limit:.0f} seconds: it is damaged, or on a very "
            f"slow disk. If it is sound, {instead}"
        ) from error
    if done.returncode:
        why = done.stderr.strip() or f"{library} crashed"
        raise TableError(f"{path}: not a whole {what} ({quietly(why, 300)})")
