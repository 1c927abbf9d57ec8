"""Detection of equal rows."""

from __future__ import annotations

import numpy as np

from ..data import Operator
from ..data.arrays import from_numpy, to_numpy

_N_PROJECTIONS = 3  # random projections in which equal rows agree
_FEW_COLUMNS = 20  # with so few, one pair of equal rows may be a coincidence
_MAX_COINCIDENCES = 1e-3  # expected number of equal pairs above which it may be
_MAX_ENTRIES = 500_000  # of the table whose columns are permuted


def find_duplicates(op: Operator) -> np.ndarray:
    """Find the rows that equal another row: pairs of row indices, (n_pairs, 2).

    Equal rows have equal projections on random directions. Rows of few discrete columns are often
    equal by chance: they are counted only if no rows are equal after permuting each column. With
    few columns, a single pair of equal rows is not counted.
    """
    rng = np.random.default_rng(0)
    n, p = op.shape
    directions = from_numpy(rng.standard_normal((p, _N_PROJECTIONS)), op.like, op.dtype)
    projections = to_numpy(op.gathered_matmul(directions)).astype(float)
    pairs = _equal_pairs(projections, 1e3 * op.epsilon)
    none = np.empty((0, 2), dtype=int)
    if not len(pairs):
        return none
    if len(pairs) == 1 and p <= _FEW_COLUMNS and _expected_equal_pairs(op) > _MAX_COINCIDENCES:
        return none
    columns = np.unique(np.linspace(0, p - 1, min(p, max(1, _MAX_ENTRIES // n))).astype(int))
    permuted = rng.permuted(to_numpy(op.take_columns(columns).dense()).astype(float), axis=0)
    by_chance = _equal_pairs(permuted @ rng.standard_normal((columns.size, 1)), 1e3 * op.epsilon)
    return none if len(by_chance) else pairs


def _expected_equal_pairs(op: Operator) -> float:
    """Return an upper estimate of the number of equal pairs by coincidence.

    Only half of the columns, on the logarithmic scale, are regarded as independent.
    """
    n, p = op.shape
    values = to_numpy(op.take_columns(np.arange(p)).dense()).astype(float)
    repeated = 0.0  # logarithm of the probability that two rows agree
    for column in values.T:
        _, counts = np.unique(np.round(column, 9), return_counts=True)
        repeated += float(np.log(np.sum((counts / n) ** 2)))
    return float(0.5 * n**2 * np.exp(0.5 * repeated))


def _equal_pairs(projections: np.ndarray, tolerance: float) -> np.ndarray:
    """Return the pairs of equal rows that are adjacent in projection."""
    order = np.argsort(projections[:, 0], kind="stable")
    ordered = projections[order]
    gaps = np.abs(np.diff(ordered, axis=0))
    scale = np.sqrt(np.mean(ordered * ordered, axis=0))
    equal = np.flatnonzero(np.all(gaps <= tolerance * scale, axis=1))
    pairs = np.stack([order[equal], order[equal + 1]], axis=1)
    return np.sort(pairs, axis=1)
