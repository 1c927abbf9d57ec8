"""From AnnData and MuData to tables that an estimator takes, and back to all their variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ..data import container_of, take_columns
from ..data.arrays import spread, to_numpy
from ..data.operators.mapped import IN_MEMORY
from ..errors import InputError, ParameterError

# Of a table that is not in memory, so many rows tell whether it holds counts.
_FIRST_ROWS = 200


class Annotated(NamedTuple):
    """What is fitted, and which variables its columns are."""

    data: Any  # the AnnData
    X: Any  # its table, or some columns of it
    places: np.ndarray  # positions of these columns among all variables
    asked: dict[str, Any]  # layer, mask_var and modality, to be remembered

    def spread(self, values: Any) -> np.ndarray:
        """Values of the columns of X as values of all variables, zero for the others."""
        return to_numpy(spread(to_numpy(values), self.places, self.data.n_vars))

    def known(self, values: Any) -> np.ndarray:
        """Values of the columns of X as values of all variables, NaN for those not looked at."""
        full = np.full(self.data.n_vars, np.nan)
        full[self.places] = to_numpy(values)
        return full


def is_mudata(data: Any) -> bool:
    return hasattr(data, "mod") and hasattr(data, "obsmap")


def tables_of(
    data: Any, layer: Any, mask_var: Any, modality: Any, **others: Any
) -> list[Annotated]:
    """The table of an AnnData, or those of the modalities of a MuData, each with its own share of
    what dictionaries hold; ``others`` are parameters that may be dictionaries, too."""
    if not is_mudata(data):
        if modality is not None:
            raise ParameterError(
                f"`modality` must be None for an AnnData, which has no modalities, got {modality!r}"
            )
        return [_table(data, layer, mask_var, None)]
    there = list(data.mod)
    wanted = there if modality is None else [modality] if isinstance(modality, str) else modality
    _check_names("`modality`", wanted, there)
    shared = {"layer": layer, "mask_var": mask_var, **others}
    for name, value in shared.items():
        if isinstance(value, Mapping):
            _check_names(f"the keys of `{name}`", list(value), there)
    return [_table(data.mod[m], of_modality(layer, m), of_modality(mask_var, m), m) for m in wanted]


def _check_names(what: str, names: Any, there: list[str]) -> None:
    if not isinstance(names, Iterable):
        raise ParameterError(f"{what} must name modalities, got {names!r}")
    names = list(names)
    for name in names:
        if name not in there:
            raise ParameterError(
                f"{what} must be among the modalities {', '.join(map(repr, there))}, got {name!r}"
            )
    if len(names) == 0 or len(set(names)) < len(names):
        raise ParameterError(f"{what} must name different modalities, got {names!r}")


def of_modality(value: Any, modality: str | None) -> Any:
    """A parameter of one modality, which a dictionary may hold for each of them."""
    return value.get(modality) if modality and isinstance(value, Mapping) else value


def _table(adata: Any, layer: Any, mask_var: Any, modality: str | None) -> Annotated:
    where = "" if modality is None else f" of modality {modality!r}"
    mask = _mask(adata, mask_var, where)
    if layer is None:
        X = adata.X
        if X is None:
            raise InputError(f"there is no X{where}: name one of the layers with `layer`")
    elif isinstance(layer, str) and layer in adata.layers:
        X = adata.layers[layer]
    else:
        names = [name for name in adata.layers if name is not None]  # None is X itself
        there = ", ".join(map(repr, names)) or "there are none"
        raise ParameterError(f"`layer` must be one of the layers{where} ({there}), got {layer!r}")
    X, places = _readable(X), np.arange(adata.n_vars)
    if np.dtype(X.dtype).kind not in "biufO":
        raise InputError(f"the table{where} must hold real numbers, got {X.dtype} values")
    if modality is not None and 0 in X.shape:
        raise InputError(
            f"modality {modality!r} has {X.shape[0]} observations and {X.shape[1]} variables: "
            "leave it out with `modality`"
        )
    if mask is not None:
        places = np.flatnonzero(mask)
        X = take_columns(X, places)
    return Annotated(adata, X, places, {"layer": layer, "mask_var": mask_var, "modality": modality})


def column_of(
    adata: Any, parameter: str, name: str, where: str = "", axis: Literal["obs", "var"] = "var"
) -> Any:
    """A column of ``.var`` or ``.obs`` that a parameter names."""
    columns = getattr(adata, axis)
    if name not in columns.columns:
        there = ", ".join(repr(str(column)) for column in columns.columns) or "there are none"
        raise ParameterError(
            f"`{parameter}` must be one of the columns of `.{axis}`{where} ({there}), got {name!r}"
        )
    if columns[name].ndim > 1:
        raise ParameterError(
            f"`{parameter}` names {name!r}, which {columns[name].shape[1]} columns of "
            f"`.{axis}`{where} are called: rename or remove all but one"
        )
    return columns[name]


def labels_of_rows(table: Annotated, batch_key: Any) -> np.ndarray | None:
    """The batch of every observation, as a column of ``.obs`` holds it; None where none is named.

    Raises
    ------
    ParameterError
        If there is no such column, or some observations have no label in it.
    """
    modality = table.asked["modality"]
    name = of_modality(batch_key, modality)
    if name is None:
        return None
    where = "" if modality is None else f" of modality {modality!r}"
    if not isinstance(name, str):
        raise ParameterError(
            f"`batch_key` must be None or the name of a column of `.obs`{where}, got {name!r}"
        )
    column = column_of(table.data, "batch_key", name, where, axis="obs")
    lacking = int(column.isna().sum())
    if lacking:
        raise ParameterError(
            f"`batch_key` ({name!r}{where}) must have a label for every observation; {lacking} "
            "have none: give them one, or leave these observations out"
        )
    return np.asarray(column.astype(str).to_numpy())


def _mask(adata: Any, mask_var: Any, where: str) -> np.ndarray | None:
    if mask_var is None:
        return None
    named = f"`mask_var`{where}"
    if isinstance(mask_var, str):
        named = f"`mask_var` ({mask_var!r}{where})"
        mask_var = column_of(adata, "mask_var", mask_var, where)
    elif hasattr(mask_var, "reindex") and set(mask_var.index) == set(adata.var_names):
        mask_var = mask_var.reindex(adata.var_names)  # a Series knows which value is whose
    mask = np.asarray(mask_var)
    if mask.shape != (adata.n_vars,):
        raise ParameterError(
            f"{named} must have one value for each of the {adata.n_vars} variables, got shape "
            f"{mask.shape}"
        )
    if mask.dtype == object and all(isinstance(value, bool | np.bool_) for value in mask):
        mask = mask.astype(bool)
    if mask.dtype != bool:
        raise ParameterError(f"{named} must hold True or False, got {mask.dtype} values")
    if not mask.any():
        raise ParameterError(f"{named} is False for every variable: nothing is left to choose from")
    return mask


def _readable(X: Any) -> Any:
    """A table as an estimator takes it; of what is in a file, only what is sparse or small is
    read as a whole."""
    if hasattr(X, "to_memory"):  # AnnData's sparse matrices in a file
        return X.to_memory()
    if type(X).__module__.partition(".")[0] == "h5py":
        if X.nbytes <= IN_MEMORY:
            return X[:]
        try:
            import dask.array as da
        except ImportError as error:
            raise ImportError(
                "a large dense table in a file needs Dask, which is not installed: "
                "pip install 'prosparse[dask]'"
            ) from error
        lazily: Any = da.from_array  # Dask has no types
        return lazily(X, chunks=("auto", -1), lock=True)
    # the table of a view is a NumPy array that tells AnnData when it is written to
    return np.asarray(X) if _is_array(X) else X


def _is_array(X: Any) -> bool:
    """Whether a table is an array in the host's memory."""
    kind = container_of(X)
    return kind.on_cpu and kind.in_memory and not kind.is_sparse


def varying_columns(X: Any) -> np.ndarray:
    """Which columns are not constant, as far as that can be told without a pass over a file."""
    if container_of(X).is_sparse:
        top, bottom = (one.toarray().ravel() for one in (X.max(axis=0), X.min(axis=0)))
    elif _is_array(X) and X.size:
        top, bottom = X.max(axis=0), X.min(axis=0)
    else:
        return np.ones(X.shape[1], dtype=bool)
    return np.asarray(top != bottom)


def holds_counts(X: Any) -> bool:
    """Whether all entries are whole numbers and none is negative, as far as that can be told
    without a pass over a file."""
    if container_of(X).is_sparse:
        entries = X.data
    elif _is_array(X):
        entries = X
    else:
        entries = container_of(X).to_dense(X[:_FIRST_ROWS])
    if entries.dtype.kind in "biu":
        return not np.any(entries < 0)
    return bool(np.all((entries >= 0) & (entries == np.floor(entries))))


def columns_named(table: Annotated, parameter: str, names: Any) -> np.ndarray:
    """Positions, among the columns of X, of the variables that a parameter names.

    Raises
    ------
    ParameterError
        If there is no such variable, several have the name, or ``mask_var`` leaves it out.
    """
    if names is None:
        return np.zeros(0, dtype=int)
    if not isinstance(names, str | Iterable) or isinstance(names, Mapping):
        raise ParameterError(f"`{parameter}` must be names of variables, got {names!r}")
    wanted = [names] if isinstance(names, str) else list(names)
    modality = table.asked["modality"]
    where = "" if modality is None else f" of modality {modality!r}"
    among = {str(name): place for place, name in enumerate(table.data.var_names[table.places])}
    everything = table.data.var_names
    for name in wanted:
        if not isinstance(name, str):
            raise ParameterError(
                f"`{parameter}` must be names of variables, as in `.var_names`{where}, got {name!r}"
            )
        times = int(np.sum(everything == name))
        if times > 1:
            raise ParameterError(
                f"`{parameter}` names {name!r}, which {times} variables{where} are called: call "
                "`adata.var_names_make_unique()` first"
            )
        if times == 0:
            near = get_close_matches(name, everything.astype(str).tolist(), n=3)
            hint = f"; there is {' and '.join(map(repr, near))}" if near else ""
            raise ParameterError(
                f"`{parameter}` names {name!r}, which is not among `.var_names`{where}{hint}"
            )
    lost = [name for name in wanted if name not in among]
    if lost and parameter != "exclude":  # what is not looked at is excluded anyhow
        raise ParameterError(f"`{parameter}` names {lost[0]!r}, which `mask_var` leaves out")
    return np.array([among[name] for name in wanted if name in among], dtype=int)


def tables_of_views(mdata: Any, tables: list[Annotated]) -> tuple[list[Any], np.ndarray]:
    """The tables of some modalities over all observations of a MuData, NaN where a modality
    lacks one, and the places of their columns among all its variables."""
    if mdata.axis != 0:
        raise InputError(
            "the modalities of this MuData share their variables, not their observations: several "
            "views of the same observations are needed"
        )
    names = [table.asked["modality"] for table in tables]
    some_sparse = any(container_of(table.X).is_sparse for table in tables)
    X, places = [], []
    for name, table in zip(names, tables, strict=True):
        if name not in mdata.obsmap or name not in mdata.varmap:
            raise _changed(name)
        # The maps count from 1; 0 stands for what a modality lacks.
        rows, columns = (
            np.asarray(m[name]).ravel().astype(int) for m in (mdata.obsmap, mdata.varmap)
        )
        if rows.max() > table.X.shape[0] or np.count_nonzero(columns) != table.data.n_vars:
            raise _changed(name)
        places.append(np.argsort(columns, kind="stable")[-table.data.n_vars :][table.places])
        # Beside a sparse table a dense one is made sparse, never the other way round.
        part = (
            csr_array(table.X) if some_sparse and not container_of(table.X).is_sparse else table.X
        )
        lacking = rows == 0
        if some_sparse and lacking.any():
            raise InputError(
                f"modality {name!r} lacks {int(lacking.sum())} of the {rows.size} observations, "
                "and sparse tables cannot say what is missing: keep the observations that all "
                "modalities have (muon.pp.intersect_obs), or name dense tables with `layer`"
            )
        if not np.array_equal(rows, np.arange(1, part.shape[0] + 1)):
            part = part[np.maximum(rows - 1, 0)]
        if lacking.any():
            part = np.where(lacking[:, None], np.nan, part)
        X.append(part)
    return X, np.concatenate(places)


def _changed(name: str) -> InputError:
    return InputError(
        f"modality {name!r} has changed since the MuData was put together: call its `update()` "
        "first"
    )
