"""Zip archive of a model file: a JSON header and numbered arrays."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ModelFileError
from ..files import replace_file
from ..npy import PLAIN_TYPES, check_members, read_array

HEADER = "model.json"
ARRAY_TYPES = PLAIN_TYPES + "SMm"  # labels may also be bytes, dates or durations
_ARRAY = "arrays/{}.npy"


def write_archive(path: Path, header: dict[str, Any], arrays: list[np.ndarray]) -> Path:
    """Write an archive that replaces ``path`` once it is complete."""
    content = json.dumps(header, indent=1)
    with replace_file(path) as partial, zipfile.ZipFile(partial, "w") as archive:
        # A `ZipInfo` has a fixed date, so that equal models have equal files.
        archive.writestr(zipfile.ZipInfo(HEADER), content)
        for number, array in enumerate(arrays):
            info = zipfile.ZipInfo(_ARRAY.format(number))
            with archive.open(info, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    return path


def read_archive(path: Path) -> tuple[Any, dict[int, np.ndarray]]:
    """Read an archive after checking that the declared sizes fit into the file.

    The header, which is not validated, and the arrays by number are returned.
    """
    if path.exists() and not path.is_file():  # opening a pipe would wait for its writer
        raise ModelFileError("not a regular file, but a folder, a pipe or a device.")
    with zipfile.ZipFile(path) as archive:
        try:
            check_members(archive, path.stat().st_size)
        except ValueError as error:
            raise ModelFileError(f"{error}.") from error
        names = archive.namelist()
        if names.count(HEADER) != 1:
            raise ModelFileError(
                f"the archive must contain one {HEADER}, got {names.count(HEADER)}."
            )
        header = json.loads(archive.read(HEADER))
        names.remove(HEADER)
        if names != [_ARRAY.format(number) for number in range(len(names))]:
            raise ModelFileError("the arrays in the archive must be numbered consecutively from 0.")
        return header, {
            number: read_array(archive.read(name), ARRAY_TYPES) for number, name in enumerate(names)
        }
