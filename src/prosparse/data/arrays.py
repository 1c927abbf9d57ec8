"""Between array libraries: where an array lives, and the way from there to the host and back.

Tables stay where they are. What goes to the host is small, at most as long as the table is
wide, and goes through `to_numpy`, or through `to_numpy_async` where a GPU has work to do meanwhile;
what comes back goes through `from_numpy`.
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

Array = Any  # of any array API library; there is no common type to name
Namespace = Any  # the module whose functions take such arrays
TableLike = Any  # whatever a user may give as a table; `kinds` knows what it is

LARGEST_PINNED = 2**24  # bytes of an array that is copied to a GPU from pinned memory


def to_numpy(array: Array) -> np.ndarray:
    """A small array as a NumPy array, from whatever device it is on."""
    if is_torch_array(array) or is_cupy_array(array):
        array = to_device(array, "cpu")
    return np.asarray(array)


def to_numpy_async(array: Array) -> Callable[[], np.ndarray]:
    """Send a small array to the host, and return a function that waits for it and gives it.

    `host` waits at once. Here a GPU can be handed more work first, for which nobody then waits.
    """
    if _on_torch_gpu(array):
        torch = sys.modules["torch"]
        copy = array.to("cpu", non_blocking=True)
        arrived = torch.cuda.Event()
        arrived.record(torch.cuda.current_stream(array.device))

        def waited_for() -> np.ndarray:
            arrived.synchronize()
            return np.asarray(copy)

        return waited_for
    if is_jax_array(array):
        array.copy_to_host_async()
    return lambda: to_numpy(array)


def to_numpy_if_foreign(value: Any) -> Any:
    """``value`` on the host where it is an array of another library, else as it is."""
    return to_numpy(value) if _is_foreign(value) else value


def from_numpy(values: Any, like: Array, dtype: Any = None) -> Array:
    """Small host ``values`` as an array of the library, and on the device, of ``like``."""
    if is_numpy_array(like):
        return np.asarray(values, dtype=dtype)
    if _on_torch_gpu(like):
        return _sent(np.array(values), like, dtype)
    xp = array_namespace(like)
    return xp.asarray(np.array(values), dtype=dtype, device=device(like))


def _on_torch_gpu(array: Array) -> bool:
    return bool(is_torch_array(array)) and array.device.type == "cuda"


def _sent(values: np.ndarray, like: Array, dtype: Any) -> Array:
    """Host ``values`` on the GPU of ``like``, without waiting for it.

    Torch copies from pinned memory while the GPU goes on; for any other memory it waits until the
    GPU has done all that it was handed. Pinned memory is kept for the next copies, so that large
    arrays, which take long anyway, do without.
    """
    here = sys.modules["torch"].asarray(values, dtype=dtype, device="cpu")
    if here.nbytes > LARGEST_PINNED:
        return here.to(like.device)
    return here.pin_memory().to(like.device, non_blocking=True)


def is_numpy(array: Array) -> bool:
    """Whether ``array`` is NumPy's own, so that SciPy and LAPACK take it as it is."""
    return bool(is_numpy_array(array))


def precision_of(X: Any) -> str:
    """ "float32" for tables of single precision numbers, "float64" for all others, of which
    calculations make doubles."""
    return "float32" if str(X.dtype).rpartition(".")[2] == "float32" else "float64"


def is_floating(X: Any) -> bool:
    """Whether ``X`` holds single or double precision numbers (not integers, say)."""
    return str(X.dtype).rpartition(".")[2] in ("float32", "float64")


def on_accelerator(array: Array) -> bool:
    """Whether ``array`` is on a GPU, where many small kernels cost more than one large one."""
    if is_torch_array(array):
        return array.device.type != "cpu"
    if is_jax_array(array):
        return device(array).platform != "cpu"
    return is_cupy_array(array)


def spread(values: Array, positions: np.ndarray, width: int) -> Array:
    """The columns (or entries) ``values`` at ``positions`` of an array of zeros."""
    xp = array_namespace(values)
    nothing = xp.zeros((*values.shape[:-1], 1), dtype=values.dtype, device=device(values))
    place = np.full(width, values.shape[-1])
    place[positions] = np.arange(values.shape[-1])
    return xp.take(xp.concat([values, nothing], axis=-1), from_numpy(place, values), axis=-1)


def with_row(array: Array, place: int, row: Array) -> Array:
    """``array`` with another row at ``place``; the same array, where its library lets it change."""
    if is_jax_array(array):
        return array.at[place, :].set(row)
    array[place, :] = row
    return array


def is_writable(array: Array) -> bool:
    """Whether the library of ``array`` lets parts of it be written to, where it is."""
    return bool(is_numpy_array(array) or is_torch_array(array) or is_cupy_array(array))


def decomposition_errors() -> tuple[type[Exception], ...]:
    """What the libraries raise where a matrix cannot be decomposed: NumPy's error, and that of
    Torch, which is not one of NumPy's, where somebody uses Torch."""
    torch = sys.modules.get("torch")
    return (
        (np.linalg.LinAlgError,)
        if torch is None
        else (np.linalg.LinAlgError, torch.linalg.LinAlgError)
    )


def as_like(value: Array, X: Any, dtype: Any = None) -> Array:
    """``value`` as an array that can meet ``X``: of its library if that is not NumPy's, on its
    device. Nothing moves where both already agree."""
    if not _is_foreign(X):
        return value if is_numpy_array(value) else to_numpy(value)
    if _is_foreign(value) and device(value) == device(X):
        xp = array_namespace(value)
        if xp is array_namespace(X):
            return value if dtype is None else xp.astype(value, dtype, copy=False)
    return from_numpy(to_numpy(value), X, dtype)


def _is_foreign(array: Any) -> bool:
    """Whether ``array`` is an array in memory of a library other than NumPy."""
    return is_array_api_obj(array) and not (is_numpy_array(array) or is_dask_array(array))
