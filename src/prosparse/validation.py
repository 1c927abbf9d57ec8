"""Checks of tables that scikit-learn's own checks would copy to the host."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import (
    array_namespace,
    is_dask_array,
    is_jax_array,
    is_numpy_array,
    is_torch_array,
)
from scipy.sparse import issparse

from .errors import InputError
from .operators.dask import checked_dask

Array = Any


def checked_elsewhere(X: Array, least: int) -> Array:
    """A table on a card, on a cluster or in a file: two dimensions, ``least`` rows and columns,
    floats."""
    check_shape(X, least)
    if is_numpy_array(X):  # blocks of a file are converted as they are read
        return X
    if is_dask_array(X):
        return checked_dask(X)
    if is_torch_array(X):
        X = X.detach()  # no gradients are wanted
    xp = array_namespace(X)
    if xp.isdtype(X.dtype, "complex floating"):
        raise InputError(f"Complex data not supported: X has dtype {X.dtype}")
    if is_jax_array(X) and xp.asarray(1.0).dtype != xp.float64:
        raise InputError(
            "JAX is set to single precision, in which sums over the rows would lose their digits: "
            "call `jax.config.update('jax_enable_x64', True)` first. X itself may be float32."
        )
    if X.dtype in (xp.float32, xp.float64):
        return X
    return xp.astype(X, xp.float32 if xp.isdtype(X.dtype, "real floating") else xp.float64)


def check_shape(X: Any, least: int) -> None:
    if X.ndim != 2:
        raise InputError(
            f"Expected 2D array, got {X.ndim}D array instead: X must be a table of rows and "
            f"columns, got shape {tuple(X.shape)}"
        )
    for count, what in zip(X.shape, ("sample", "feature"), strict=True):
        if count < least:
            raise InputError(
                f"Found array with {count} {what}(s) (shape={tuple(X.shape)}) while a minimum of "
                f"{least} is required."
            )


def first_not_finite(X: Any, allow_nan: bool = False) -> tuple[str, int, int, int] | None:
    """("NaN" or "infinity", how many values are not finite, row and column of the first)."""
    values = X.data if issparse(X) else X
    xp = array_namespace(values)
    finite = ~xp.isinf(values) if allow_nan else xp.isfinite(values)
    if bool(xp.all(finite)):
        return None
    where = xp.nonzero(~finite)
    count, place = where[0].shape[0], tuple(int(axis[0]) for axis in where)
    what = "NaN" if np.isnan(float(values[place])) else "infinity"
    if issparse(X):
        X = X.tocoo()
        place = int(X.row[place[0]]), int(X.col[place[0]])
    return what, count, place[0], place[1]
