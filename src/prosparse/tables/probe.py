"""Read all of an HDF5 file and throw it away: ``python probe.py FILE``.

The HDF5 library hangs on some damaged files, and crashes on others. `read_h5ad` therefore lets a
process of its own try first, which can be ended. This file imports nothing of ours, so that it
starts quickly.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import h5py

ENTRIES_AT_ONCE = 2**22
# Arrays may be larger than the file, as they are packed, but not by more than this.
MOST_EXPANSION = 200
LARGEST_UNPACKED = 2**27


def try_all(path: Path) -> None:
    """Every attribute, and every number of every array; links to other files are refused."""
    most = max(LARGEST_UNPACKED, MOST_EXPANSION * path.stat().st_size)
    names: list[str] = []
    with h5py.File(path, "r") as file:
        elsewhere = file.visititems_links(_if_elsewhere)
        if elsewhere:
            raise ValueError(f"{elsewhere!r} is a link to another file")
        _try(file, most)
        file.visit(names.append)
        for name in names:
            _try(file[name], most)


def _if_elsewhere(name: str, link: Any) -> str | None:
    return name if isinstance(link, h5py.ExternalLink) else None


def _try(one: Any, most: int) -> None:
    for key in one.attrs:
        _ = one.attrs[key]
    if not isinstance(one, h5py.Dataset) or one.shape is None:
        return
    if one.is_virtual or one.external:
        raise ValueError(f"{one.name!r} keeps its numbers in another file")
    if one.nbytes > most:
        raise ValueError(f"{one.name!r} would unpack to far more than the size of the file")
    if one.ndim == 0:
        _ = one[()]
        return
    step = max(1, ENTRIES_AT_ONCE // max(1, math.prod(one.shape[1:])))
    for start in range(0, one.shape[0], step):
        _ = one[start : start + step]


if __name__ == "__main__":
    try:
        try_all(Path(sys.argv[1]))
    except Exception as error:
        sys.exit(str(error) or type(error).__name__)
