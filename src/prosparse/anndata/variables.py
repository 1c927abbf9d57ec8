"""Selection of variables by names, by a column of ``.var`` or by a mask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Literal

import numpy as np

from ..errors import ParameterError, UnknownVariablesWarning, warn
from ..phrases import list_items
from .annotated import Annotated, boolean_mask, column_of

HandleUnknown = Literal["error", "warn"]


def columns_named(
    table: Annotated, parameter: str, given: Any, handle_unknown: HandleUnknown = "error"
) -> np.ndarray:
    """Return the indices of the considered variables named by a parameter.

    ``given`` are names, a boolean column of ``.var``, or a mask of all variables.
    ``handle_unknown`` states whether unknown names raise an error or are ignored with a warning.
    """
    if given is None:
        return np.zeros(0, dtype=int)
    modality = table.source["modality"]
    where = "" if modality is None else f" of modality {modality!r}"
    mask = _as_mask(table, parameter, given, where)
    if mask is not None:
        return np.flatnonzero(mask[table.columns])
    if not isinstance(given, str | Iterable) or isinstance(given, Mapping):
        raise ParameterError(
            f"`{parameter}` must be names of variables, a boolean column of `.var` or a mask, got "
            f"{given!r}."
        )
    listed = [given] if isinstance(given, str) else list(given)
    listed = _known_names(table, parameter, listed, where, handle_unknown)
    index = {str(name): k for k, name in enumerate(table.data.var_names[table.columns])}
    masked = [name for name in listed if name not in index]
    if masked and parameter != "exclude":  # masked variables are always excluded
        raise ParameterError(f"`{parameter}` names {masked[0]!r}, which `mask_var` excludes.")
    return np.array([index[name] for name in listed if name in index], dtype=int)


def _as_mask(table: Annotated, parameter: str, given: Any, where: str) -> np.ndarray | None:
    """Return the mask of all variables specified by a parameter, or None."""
    if isinstance(given, str):
        if given not in table.data.var.columns or given in table.data.var_names:
            return None
        column = column_of(table.data, parameter, given, where)
        return boolean_mask(table.data, column, f"`{parameter}` ({given!r}{where})")
    if isinstance(given, Mapping) or not hasattr(given, "dtype"):
        return None
    is_boolean = str(given.dtype) in ("bool", "boolean")
    return boolean_mask(table.data, given, f"`{parameter}`{where}") if is_boolean else None


def _known_names(
    table: Annotated, parameter: str, listed: list[Any], where: str, handle_unknown: HandleUnknown
) -> list[str]:
    """Return the known names; report all unknown names together."""
    all_names = table.data.var_names
    counts: dict[str, int] = {}
    for name in all_names:
        counts[name] = counts.get(name, 0) + 1
    unknown = []
    for name in listed:
        if not isinstance(name, str):
            raise ParameterError(
                f"`{parameter}` must be names in `.var_names`{where}, got {name!r}."
            )
        n_matches = counts.get(name, 0)
        if n_matches > 1:
            raise ParameterError(
                f"`{parameter}` must name one variable, but {n_matches} variables{where} are "
                f"named {name!r}. Call `adata.var_names_make_unique()` first."
            )
        if n_matches == 0:
            unknown.append(name)
    if not unknown:
        return listed
    verb = "which is" if len(unknown) == 1 else "which are"
    message = f"`{parameter}` names {list_names(unknown)}, {verb} not in `.var_names`{where}."
    if handle_unknown == "warn":
        warn(f"{message} They are ignored.", UnknownVariablesWarning)
        return [name for name in listed if name in counts]
    similar = get_close_matches(unknown[0], all_names.astype(str).tolist(), n=3)
    hint = f" Similar names: {', '.join(map(repr, similar))}." if similar else ""
    raise ParameterError(f"{message}{hint} Set `handle_unknown='warn'` to ignore unknown names.")


def list_names(names: list[str]) -> str:
    """List the first names in a sentence."""
    return list_items([*map(repr, names)], 10)
