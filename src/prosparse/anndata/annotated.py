"""Access to the data matrices of AnnData and MuData."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ..data import container_of, take_columns
from ..data.arrays import spread, to_numpy
from ..data.operators.mapped import IN_MEMORY
from ..errors import InputError, ParameterError

# Number of rows checked for counts if the matrix is not in memory.
N_CHECKED_ROWS = 200


class Annotated(NamedTuple):
    """Data matrix of an AnnData, and the variables of its columns."""

    data: Any  # the AnnData
    X: Any  # matrix of the considered variables
    columns: np.ndarray  # indices of the considered variables among all
    source: dict[str, Any]  # layer, mask_var and modality

    def spread(self, values: Any) -> np.ndarray:
        """Expand values of the considered variables to all, with zeros."""
        return to_numpy(spread(to_numpy(values), self.columns, self.data.n_vars))

    def with_nan(self, values: Any) -> np.ndarray:
        """Expand values of the considered variables to all, with NaN."""
        full = np.full(self.data.n_vars, np.nan)
        full[self.columns] = to_numpy(values)
        return full


def is_mudata(data: Any) -> bool:
    return hasattr(data, "mod") and hasattr(data, "obsmap")


def tables_of(
    data: Any, layer: Any, mask_var: Any, modality: Any, **others: Any
) -> list[Annotated]:
    """Return the matrix of an AnnData, or one for each modality of a MuData.

    ``others`` are further parameters, which may be dictionaries from modality to value.
    """
    if not is_mudata(data):
        if modality is not None:
            raise ParameterError(f"`modality` must be None for an AnnData, got {modality!r}.")
        return [_table(data, layer, mask_var, None)]
    available = list(data.mod)
    names = [modality] if isinstance(modality, str) else modality
    names = available if names is None else names
    _check_names("`modality`", names, available)
    shared = {"layer": layer, "mask_var": mask_var, **others}
    for name, value in shared.items():
        if isinstance(value, Mapping):
            _check_names(f"the keys of `{name}`", list(value), available)
    return [_table(data.mod[m], of_modality(layer, m), of_modality(mask_var, m), m) for m in names]


def _check_names(what: str, names: Any, available: list[str]) -> None:
    if not isinstance(names, Iterable):
        raise ParameterError(f"{what} must be names of modalities, got {names!r}.")
    names = list(names)
    for name in names:
        if name not in available:
            raise ParameterError(
                f"{what} must be among the modalities {', '.join(map(repr, available))}, got "
                f"{name!r}."
            )
    if len(names) == 0 or len(set(names)) < len(names):
        raise ParameterError(f"{what} must be distinct names of modalities, got {names!r}.")


def of_modality(value: Any, modality: str | None) -> Any:
    """Return the value of a parameter for one modality."""
    return value.get(modality) if modality and isinstance(value, Mapping) else value


def _table(adata: Any, layer: Any, mask_var: Any, modality: str | None) -> Annotated:
    where = "" if modality is None else f" of modality {modality!r}"
    mask = _mask(adata, mask_var, where)
    if layer is None:
        X = adata.X
        if X is None:
            raise InputError(f"The data{where} have no `.X`. Set `layer` to one of the layers.")
    elif isinstance(layer, str) and layer in adata.layers:
        X = adata.layers[layer]
    else:
        names = [name for name in adata.layers if name is not None]  # None stands for X itself
        available = ", ".join(map(repr, names)) or "there are none"
        raise ParameterError(
            f"`layer` must be one of the layers{where} ({available}), got {layer!r}."
        )
    X, columns = _read(X), np.arange(adata.n_vars)
    if np.dtype(X.dtype).kind not in "biufO":
        raise InputError(f"The data{where} must be real numbers, got {X.dtype} values.")
    if modality is not None and 0 in X.shape:
        raise InputError(
            f"Modality {modality!r} is empty: it has {X.shape[0]} observations and {X.shape[1]} "
            "variables. Exclude it with `modality`."
        )
    if mask is not None:
        columns = np.flatnonzero(mask)
        X = take_columns(X, columns)
    return Annotated(
        adata, X, columns, {"layer": layer, "mask_var": mask_var, "modality": modality}
    )


def column_of(
    adata: Any, parameter: str, name: str, where: str = "", axis: Literal["obs", "var"] = "var"
) -> Any:
    """Return the column of ``.var`` or ``.obs`` named by a parameter."""
    frame = getattr(adata, axis)
    if name not in frame.columns:
        available = ", ".join(repr(str(column)) for column in frame.columns) or "there are none"
        raise ParameterError(
            f"`{parameter}` must be one of the columns of `.{axis}`{where} ({available}), got "
            f"{name!r}."
        )
    if frame[name].ndim > 1:
        raise ParameterError(
            f"`{parameter}` must name one column of `.{axis}`{where}, but "
            f"{frame[name].shape[1]} columns are named {name!r}. Rename or remove all but one."
        )
    return frame[name]


def covariates_of_rows(table: Annotated, covariate_keys: Any) -> Any:
    """Return the covariates of every observation as a DataFrame, or None.

    Without ``covariate_keys``, the result is None.

    A missing column raises a `ParameterError`.
    """
    modality = table.source["modality"]
    names = of_modality(covariate_keys, modality)
    if names is None:
        return None
    names = [names] if isinstance(names, str) else list(names)
    where = "" if modality is None else f" of modality {modality!r}"
    for name in names:
        column_of(table.data, "covariate_keys", name, where, axis="obs")
    return table.data.obs[names]


def _mask(adata: Any, mask_var: Any, where: str) -> np.ndarray | None:
    if mask_var is None:
        return None
    named = f"`mask_var`{where}"
    if isinstance(mask_var, str):
        named = f"`mask_var` ({mask_var!r}{where})"
        mask_var = column_of(adata, "mask_var", mask_var, where)
    mask = boolean_mask(adata, mask_var, named)
    if not mask.any():
        raise ParameterError(f"{named} must be True for at least one variable.")
    return mask


def boolean_mask(adata: Any, given: Any, named: str) -> np.ndarray:
    """Return a mask of all variables; a Series is matched by name."""
    if hasattr(given, "reindex") and set(given.index) == set(adata.var_names):
        given = given.reindex(adata.var_names)
    mask = np.asarray(given)
    if mask.shape != (adata.n_vars,):
        raise ParameterError(
            f"{named} must have one value for each of the {adata.n_vars} variables, got shape "
            f"{mask.shape}."
        )
    if mask.dtype == object and all(isinstance(value, bool | np.bool_) for value in mask):
        mask = mask.astype(bool)
    if mask.dtype != bool:
        raise ParameterError(f"{named} must contain True or False, got {mask.dtype} values.")
    return mask


def _read(X: Any) -> Any:
    """Convert a matrix for estimators; large matrices in a file stay lazy."""
    if hasattr(X, "to_memory"):  # sparse matrices of AnnData in a file
        return X.to_memory()
    if type(X).__module__.partition(".")[0] == "h5py":
        if X.nbytes <= IN_MEMORY:
            return X[:]
        try:
            import dask.array as da
        except ImportError as error:
            raise ImportError(
                "A large dense matrix in a file needs Dask, which is not installed: "
                "pip install 'prosparse[dask]'"
            ) from error
        lazily: Any = da.from_array  # Dask has no type annotations
        return lazily(X, chunks=("auto", -1), lock=True)
    # The matrix of a view is a subclass of NumPy's array that reports writes to AnnData.
    return np.asarray(X) if _is_array(X) else X


def _is_array(X: Any) -> bool:
    """Return whether a matrix is a dense array in CPU memory."""
    container = container_of(X)
    return container.on_cpu and container.in_memory and not container.is_sparse


def varying_columns(X: Any) -> np.ndarray:
    """Return the mask of varying columns; all columns of a matrix in a file."""
    if container_of(X).is_sparse:
        top, bottom = (row.toarray().ravel() for row in (X.max(axis=0), X.min(axis=0)))
    elif _is_array(X) and X.size:
        top, bottom = X.max(axis=0), X.min(axis=0)
    else:
        return np.ones(X.shape[1], dtype=bool)
    return np.asarray(top != bottom)


def entries_to_check(X: Any) -> np.ndarray:
    """Return entries by which counts are distinguished from measurements."""
    if container_of(X).is_sparse:
        return np.asarray(X.data)
    return X if _is_array(X) else np.asarray(container_of(X).to_dense(X[:N_CHECKED_ROWS]))


def tables_of_views(mdata: Any, tables: list[Annotated]) -> tuple[list[Any], np.ndarray]:
    """Return matrices of modalities over all observations, and their columns.

    Observations that are absent from a modality are NaN.
    """
    if mdata.axis != 0:
        raise InputError(
            "The modalities of this MuData share variables, not observations. SCA needs views of "
            "the same observations."
        )
    names = [table.source["modality"] for table in tables]
    some_sparse = any(container_of(table.X).is_sparse for table in tables)
    X, positions = [], []
    for name, table in zip(names, tables, strict=True):
        if name not in mdata.obsmap or name not in mdata.varmap:
            raise _change_error(name)
        # Indices start at 1; 0 marks a missing observation or variable.
        rows, variables = (
            np.asarray(m[name]).ravel().astype(int) for m in (mdata.obsmap, mdata.varmap)
        )
        if rows.max() > table.X.shape[0] or np.count_nonzero(variables) != table.data.n_vars:
            raise _change_error(name)
        positions.append(np.argsort(variables, kind="stable")[-table.data.n_vars :][table.columns])
        # If any matrix is sparse, dense matrices are converted to sparse matrices.
        part = (
            csr_array(table.X) if some_sparse and not container_of(table.X).is_sparse else table.X
        )
        missing = rows == 0
        if some_sparse and missing.any():
            raise InputError(
                f"Modality {name!r} lacks {int(missing.sum())} of {rows.size} observations, and "
                "sparse matrices cannot represent missing values. Restrict the data to common "
                "observations (muon.pp.intersect_obs), or use dense layers."
            )
        if not np.array_equal(rows, np.arange(1, part.shape[0] + 1)):
            part = part[np.maximum(rows - 1, 0)]
        if missing.any():
            part = np.where(missing[:, None], np.nan, part)
        X.append(part)
    return X, np.concatenate(positions)


def _change_error(name: str) -> InputError:
    return InputError(
        f"Modality {name!r} has changed since the MuData was created. Call `mdata.update()` first."
    )
