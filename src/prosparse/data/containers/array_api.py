"""Arrays of array API libraries other than NumPy: Torch, CuPy, JAX."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import (
    array_namespace,
    is_array_api_obj,
    is_dask_array,
    is_jax_array,
    is_numpy_array,
    is_torch_array,
)

from ...errors import InputError
from ..arrays import TableLike, from_numpy, to_numpy
from .base import Container, Table
from .checks import check_no_times, check_shape, raise_complex


class ArrayAPIArray(Container):
    """Arrays in memory from a library other than NumPy, on any device."""

    name = "array API array"
    stays_in_place = True
    on_cpu = False

    def recognises(self, X: TableLike) -> bool:
        return is_array_api_obj(X) and not (is_numpy_array(X) or is_dask_array(X))

    def prepare(self, X: TableLike, *, allow_nan: bool) -> TableLike:
        check_no_times(X)
        return X

    def validate(self, X: Table, min_size: int) -> Table:
        check_shape(X, min_size)
        if is_torch_array(X):
            _check_torch_layout(X)
            X = X.detach()  # gradients are not needed
        xp = array_namespace(X)
        if xp.isdtype(X.dtype, "complex floating"):
            raise_complex(X.dtype)
        if is_jax_array(X) and xp.asarray(1.0).dtype != xp.float64:
            raise InputError(
                "JAX runs in single precision, in which sums over rows are inaccurate. Call "
                "`jax.config.update('jax_enable_x64', True)` first; X itself may be float32."
            )
        if X.dtype in (xp.float32, xp.float64):
            return X
        return xp.astype(X, xp.float32 if xp.isdtype(X.dtype, "real floating") else xp.float64)

    def take_columns(self, X: TableLike, columns: np.ndarray) -> TableLike:
        return array_namespace(X).take(X, from_numpy(columns, X), axis=1)

    def take_rows(self, X: TableLike, rows: np.ndarray) -> TableLike:
        return array_namespace(X).take(X, from_numpy(rows, X), axis=0)

    def replace_values(self, X: TableLike, values: np.ndarray) -> TableLike:
        xp = array_namespace(X)
        keeps_dtype = xp.isdtype(X.dtype, "real floating") or values.dtype.kind != "f"
        return from_numpy(values, X, X.dtype if keeps_dtype else xp.float64)

    def to_dense(self, X: Table, dtype: Any = float) -> np.ndarray:
        return np.array(to_numpy(X), dtype=dtype)


def _check_torch_layout(X: TableLike) -> None:
    """Raise an error for Torch tensors that are not plain dense arrays."""
    if X.is_meta:
        raise InputError("X is a Torch tensor on the meta device, which has no entries.")
    if X.is_quantized:
        raise InputError("X is a quantized Torch tensor. Call `X.dequantize()` first.")
    layout = str(X.layout).removeprefix("torch.")
    if layout != "strided":
        raise InputError(
            f"X is a Torch tensor with layout {layout}. Call `X.to_dense()` first, or pass a SciPy "
            "sparse array, which stays sparse."
        )
