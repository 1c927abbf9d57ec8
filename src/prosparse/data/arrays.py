"""Conversion of small arrays between NumPy and other array libraries.

Data matrices stay on their device. Only small arrays, at most as long as a row, are copied to CPU
memory by `to_numpy` (or by `to_numpy_async` while the GPU computes) and back by `from_numpy`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import (
    array_namespace,
    device,
    is_array_api_obj,
    is_cupy_array,
    is_dask_array,
    is_jax_array,
    is_numpy_array,
    is_torch_array,
    to_device,
)

Array = Any  # array of any array API library; there is no common type
Namespace = Any  # module with the functions of an array API library
TableLike = Any  # data matrix as a user passes it, of any type in `containers`

MAX_PINNED_BYTES = 2**24  # maximum size of an array that is copied to a GPU from pinned memory


def to_numpy(array: Array) -> np.ndarray:
    """Convert a small array on any device to a NumPy array."""
    if is_torch_array(array) or is_cupy_array(array):
        array = to_device(array, "cpu")
    return np.asarray(array)


def to_numpy_async(array: Array) -> Callable[[], np.ndarray]:
    """Start copying a small array to CPU memory; the result waits for the copy."""
    if _on_torch_gpu(array):
        torch = sys.modules["torch"]
        copy = array.to("cpu", non_blocking=True)
        copied = torch.cuda.Event()
        copied.record(torch.cuda.current_stream(array.device))

        def wait() -> np.ndarray:
            copied.synchronize()
            return np.asarray(copy)

        return wait
    if is_jax_array(array):
        array.copy_to_host_async()
    return lambda: to_numpy(array)


def to_numpy_if_foreign(value: Any) -> Any:
    """Convert arrays of other libraries to NumPy; leave other values unchanged."""
    return to_numpy(value) if _is_foreign(value) else value


def from_numpy(values: Any, like: Array, dtype: Any = None) -> Array:
    """Convert small NumPy ``values`` to the array library and device of ``like``."""
    if is_numpy_array(like):
        return np.asarray(values, dtype=dtype)
    if _on_torch_gpu(like):
        return _copy_to_gpu(np.array(values), like, dtype)
    xp = array_namespace(like)
    return xp.asarray(np.array(values), dtype=dtype, device=device(like))


def _on_torch_gpu(array: Array) -> bool:
    return bool(is_torch_array(array)) and array.device.type == "cuda"


def _copy_to_gpu(values: np.ndarray, like: Array, dtype: Any) -> Array:
    """Copy NumPy ``values`` to the GPU of ``like`` without waiting for it.

    Torch copies asynchronously from pinned memory, which it does not release.
    """
    tensor = sys.modules["torch"].asarray(values, dtype=dtype, device="cpu")
    if tensor.nbytes > MAX_PINNED_BYTES:
        return tensor.to(like.device)
    return tensor.pin_memory().to(like.device, non_blocking=True)


def is_numpy(array: Array) -> bool:
    """Return whether the array is a NumPy array, as SciPy and LAPACK require."""
    return bool(is_numpy_array(array))


def precision_of(X: Any) -> str:
    """Return "float32" for single precision and "float64" for all other dtypes."""
    return "float32" if str(X.dtype).rpartition(".")[2] == "float32" else "float64"


def is_floating(X: Any) -> bool:
    """Return whether the dtype of ``X`` is float32 or float64."""
    return str(X.dtype).rpartition(".")[2] in ("float32", "float64")


def on_accelerator(array: Array) -> bool:
    """Return whether the array is on a GPU."""
    if is_torch_array(array):
        return array.device.type != "cpu"
    if is_jax_array(array):
        return device(array).platform != "cpu"
    return is_cupy_array(array)


def spread(values: Array, positions: np.ndarray, width: int) -> Array:
    """Insert columns (..., k) at the given positions of zeros (..., width)."""
    xp = array_namespace(values)
    zero = xp.zeros((*values.shape[:-1], 1), dtype=values.dtype, device=device(values))
    index = np.full(width, values.shape[-1])
    index[positions] = np.arange(values.shape[-1])
    return xp.take(xp.concat([values, zero], axis=-1), from_numpy(index, values), axis=-1)


def with_row(array: Array, index: int, row: Array) -> Array:
    """Replace one row of ``array``, in place if the library supports it."""
    if is_jax_array(array):
        return array.at[index, :].set(row)
    array[index, :] = row
    return array


def is_writable(array: Array) -> bool:
    """Return whether the library of ``array`` supports assignment to parts of it."""
    return bool(is_numpy_array(array) or is_torch_array(array) or is_cupy_array(array))


def decomposition_errors() -> tuple[type[Exception], ...]:
    """Return the errors of matrix decompositions in NumPy and, if loaded, Torch."""
    torch = sys.modules.get("torch")
    return (
        (np.linalg.LinAlgError,)
        if torch is None
        else (np.linalg.LinAlgError, torch.linalg.LinAlgError)
    )


def as_like(value: Array, X: Any, dtype: Any = None) -> Array:
    """Convert ``value`` to an array that can be combined with ``X``.

    If ``X`` belongs to a library other than NumPy, the result is on the device of ``X`` with the
    given dtype. Otherwise, it is a NumPy array.
    """
    if not _is_foreign(X):
        return value if is_numpy_array(value) else to_numpy(value)
    if _is_foreign(value) and device(value) == device(X):
        xp = array_namespace(value)
        if xp is array_namespace(X):
            return value if dtype is None else xp.astype(value, dtype, copy=False)
    return from_numpy(to_numpy(value), X, dtype)


def _is_foreign(array: Any) -> bool:
    """Return whether ``array`` is in memory and belongs to another library."""
    return is_array_api_obj(array) and not (is_numpy_array(array) or is_dask_array(array))
