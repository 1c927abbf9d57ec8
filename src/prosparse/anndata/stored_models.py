"""Fitted estimators in ``.uns``, as the bytes of a model file."""

from __future__ import annotations

import tempfile
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, ParameterError
from ..persistence import load, save
from .annotated import is_mudata

ENTRY = "model"  # key of the model in the entry of a method in `.uns`


def pack(model: Any, names: Any) -> np.ndarray:
    """Convert a fitted estimator to the bytes of a model file.

    ``names`` are the names of the columns in the fit.

    H5AD files can store these bytes, and neither writing nor reading executes code.
    """
    stored = copy(model)
    stored.feature_names_in_ = np.asarray(names, dtype=str).astype(object)
    if isinstance(getattr(stored, "random_state", None), np.random.RandomState):
        stored.random_state = None
    with tempfile.TemporaryDirectory() as folder:
        return np.fromfile(save(stored, Path(folder) / "model"), dtype=np.uint8)


def unpack(stored: Any) -> Any:
    """Restore an estimator from the output of `pack`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        np.asarray(stored, dtype=np.uint8).tofile(path)
        return load(path)


def entry_of(data: Any, key: str | None, modality: str | None = None) -> tuple[str, dict[str, Any]]:
    """Find the name and the entry of a fitted model in ``.uns``.

    ``key`` may be None if there is only one entry. ``modality`` is required for a MuData if the
    modalities were fitted separately.
    """
    where = ""
    if modality is not None:
        if not is_mudata(data) or modality not in data.mod:
            raise ParameterError(f"`modality` must be a modality of the data, got {modality!r}.")
        data, where = data.mod[modality], f" of modality {modality!r}"
    found = {
        name: entry
        for name, entry in data.uns.items()
        if hasattr(entry, "keys") and ENTRY in entry and "params" in entry
    }
    available = ", ".join(map(repr, found)) or "there are none"
    if key is None and len(found) == 1:
        key = next(iter(found))
    if key is None or key not in found:
        raise ParameterError(
            f"`key` must be one of the results with a fitted model{where} ({available}), got "
            f"{key!r}. Fit a model with a function of `psa.tl` or `psa.pp`."
        )
    return key, found[key]


def check_names(names: Any, where: str) -> None:
    """Raise an error if variables cannot be matched by name."""
    if not names.is_unique:
        raise InputError(
            f"The names of the variables{where} are not unique. Call "
            "`adata.var_names_make_unique()` first."
        )
