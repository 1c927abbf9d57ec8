"""Fingerprint of the content of a data matrix, for any container.

Each nonzero entry is hashed with its row and column to 64 bits (the finaliser of splitmix64,
Steele, Lea & Flood 2014), and the hashes are summed modulo 2^64. The sum does not depend on the
order of summation, so that dense, sparse and chunked copies of a matrix have the same fingerprint.
The fingerprint differs if an entry, the order of rows or columns, or a unit differs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from .arrays import to_numpy
from .containers import Table, container_of
from .operators.base import row_slices
from .operators.sparse import canonical

ENTRIES_PER_STEP = 2**20  # number of entries that are hashed at once

_ROW, _COLUMN = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SEEDS = (np.uint64(0x2545F4914F6CDD1D), np.uint64(0xD6E8FEB86659FD93))


def fingerprint(X: Table) -> np.ndarray:
    """Compute the shape of a validated matrix and the sums of its hashes."""
    (sums,) = container_of(X).source(X).reduce(_mix_block, (np.arange(X.shape[0]),))
    return np.concatenate([np.array(X.shape, dtype=np.uint64), sums])


def _mix_block(raw: Any, row_numbers: np.ndarray) -> tuple[np.ndarray, ...]:
    """Sum the hashes of the entries of a block of rows, dense or sparse."""
    total = np.zeros(len(_SEEDS), dtype=np.uint64)
    if sparse.issparse(raw):
        raw = canonical(raw)
        rows = np.repeat(row_numbers.astype(np.uint64), np.diff(raw.indptr))
        _add_entries(total, raw.data, rows, raw.indices.astype(np.uint64))
        return (total,)
    columns = np.arange(raw.shape[1], dtype=np.uint64)
    for part in row_slices(raw.shape[0], raw.shape[1], ENTRIES_PER_STEP):
        rows = row_numbers[part].astype(np.uint64)[:, None]
        _add_entries(total, to_numpy(raw[part, :]), rows, columns)
    return (total,)


def _add_entries(
    total: np.ndarray, values: np.ndarray, rows: np.ndarray, columns: np.ndarray
) -> None:
    values = np.asarray(values, dtype=np.float64) + 0.0  # -0.0 becomes 0.0
    bits = np.ascontiguousarray(values).view(np.uint64)
    with np.errstate(over="ignore"):  # modulo 2^64
        positions = rows * _ROW + columns * _COLUMN
        for k, seed in enumerate(_SEEDS):
            mixed = _mix(bits ^ _mix(positions + seed))
            total[k] += np.sum(np.where(bits != 0, mixed, np.uint64(0)), dtype=np.uint64)


def _mix(z: np.ndarray) -> np.ndarray:
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))
