"""Which table is this? A fingerprint of the content that does not depend on how it is kept.

Every entry that is not zero is mixed with its row and column into 64 bits (the finaliser of
splitmix64: Steele, Lea & Flood 2014), and these are added up modulo 2^64. Sums do not depend on
the order, so that dense, sparse and chunked copies of one table agree, while another entry,
another order of rows or columns or another unit gives another number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from .operators.base import row_slices
from .operators.sparse import canonical

ENTRIES_AT_ONCE = 2**20

_ROW, _COLUMN = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SEEDS = (np.uint64(0x2545F4914F6CDD1D), np.uint64(0xD6E8FEB86659FD93))


def digest(raw: Any, row_numbers: np.ndarray) -> tuple[np.ndarray, ...]:
    """The part of a table's fingerprint that some of its rows (dense or sparse) make up."""
    total = np.zeros(len(_SEEDS), dtype=np.uint64)
    if sparse.issparse(raw):
        raw = canonical(raw)
        rows = np.repeat(row_numbers.astype(np.uint64), np.diff(raw.indptr))
        _add(total, raw.data, rows, raw.indices.astype(np.uint64))
        return (total,)
    columns = np.arange(raw.shape[1], dtype=np.uint64)
    for some in row_slices(raw.shape[0], raw.shape[1], ENTRIES_AT_ONCE):
        rows = row_numbers[some].astype(np.uint64)[:, None]
        _add(total, np.asarray(raw[some]), rows, columns)
    return (total,)


def _add(total: np.ndarray, values: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> None:
    values = np.asarray(values, dtype=np.float64) + 0.0  # there is one zero, not two
    bits = np.ascontiguousarray(values).view(np.uint64)
    with np.errstate(over="ignore"):  # modulo 2^64
        place = rows * _ROW + columns * _COLUMN
        for k, seed in enumerate(_SEEDS):
            mixed = _mixed(bits ^ _mixed(place + seed))
            total[k] += np.sum(np.where(bits != 0, mixed, np.uint64(0)), dtype=np.uint64)


def _mixed(z: np.ndarray) -> np.ndarray:
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))
