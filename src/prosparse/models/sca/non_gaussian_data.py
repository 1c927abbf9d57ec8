"""Validation of the rows of non-Gaussian views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast, get_args

import numpy as np

from ...data import container_of, take_columns
from ...data.containers import Table
from ...data.counts import MAX_TOTAL
from ...errors import InputError, ParameterError
from .likelihood import LINEAR_THRESHOLD_FACTOR, Likelihood
from .non_gaussian import Rows


def view_likelihoods(given: str | Sequence[str], n_views: int) -> list[Likelihood]:
    """Return the likelihood of each view."""
    is_list = isinstance(given, list | tuple)
    names = list(given) if is_list else [given] * n_views
    allowed = get_args(Likelihood)
    for name in names:
        if not isinstance(name, str) or name not in allowed:
            raise ParameterError(
                f"`likelihood` must be one of {', '.join(map(repr, allowed))}, or a list of these "
                f"with one per view, got {given!r}."
            )
    if len(names) != n_views:
        raise ParameterError(
            "`likelihood` must be one name or a list with one name per view "
            f"({len(names)} given, n_views={n_views}), got {given!r}."
        )
    return cast("list[Likelihood]", names)


def column_likelihoods(
    names: Sequence[str], groups: Sequence[np.ndarray], width: int
) -> np.ndarray:
    """Return the likelihood of each column."""
    every = np.empty(width, dtype=object)
    for name, columns in zip(names, groups, strict=True):
        every[columns] = name
    return every


def dense_rows(X: Table, rows: slice) -> np.ndarray:
    """Return a block of rows as a dense array."""
    container = container_of(X)
    return container.to_dense(container.take_rows(X, np.arange(rows.start, rows.stop)))


def check_in_memory(X: Table, reason: str = "Views that are not Gaussian require") -> None:
    """Raise an error for data outside CPU memory; ``reason`` begins the message."""
    container = container_of(X)
    if not (container.on_cpu and container.in_memory):
        raise InputError(
            f"{reason} NumPy, pandas, polars or SciPy sparse data, got {type(X).__name__}. Convert "
            "X to a NumPy array."
        )


def check_entries(X: np.ndarray, likelihood: np.ndarray, first_row: int) -> None:
    """Raise an error for entries outside the range of their likelihood."""
    for name, what, largest in (
        ("bernoulli", "entries equal to 0 or 1", 1.0),
        ("poisson", f"non-negative integers up to {MAX_TOTAL:.3g}", MAX_TOTAL),
    ):
        columns = np.flatnonzero(likelihood == name)
        part = X[:, columns]
        wrong = (part < 0) | (part > largest) | (part != np.round(part))
        wrong &= ~np.isnan(part)
        if wrong.any():
            row, at = np.argwhere(wrong)[0]
            raise InputError(
                f"`likelihood={name!r}` requires {what}, got {part[row, at]:g} in row "
                f"{first_row + row}, column {columns[at]}. Use 'gaussian' for measurements."
            )


def new_rows(X: Table, likelihood: np.ndarray, linear_threshold: np.ndarray) -> Rows:
    """Return new rows, whose entries are checked when they are read."""
    check_in_memory(X)

    def read(rows: slice) -> np.ndarray:
        block = dense_rows(X, rows)
        check_entries(block, likelihood, rows.start)
        return block

    n, p = X.shape
    ones = np.ones(p)
    return Rows(n, p, read, likelihood, linear_threshold, ones, ones)


def prepare_rows(
    X: Table, kept: np.ndarray, likelihood: np.ndarray, mean: np.ndarray, size: np.ndarray
) -> tuple[Rows, np.ndarray]:
    """Prepare the rows of a fit, and column means within the valid range.

    All arguments refer to the varying columns ``kept``. Gaussian columns are centred by ``mean``
    and divided by ``size``. The means include pseudo-counts: half a count for Poisson columns, and
    half a zero and half a one for Bernoulli columns.
    """
    check_in_memory(X)
    X = take_columns(X, kept)
    gaussian = likelihood == "gaussian"
    centre, divisor = np.where(gaussian, mean, 0.0), np.where(gaussian, size, 1.0)

    def read(rows: slice) -> np.ndarray:
        return (dense_rows(X, rows) - centre) / divisor

    n, p = X.shape
    observed, squares, sums, largest = (np.zeros(p) for _ in range(4))
    unknown = Rows(n, p, read, likelihood, np.ones(p), observed, squares)
    for at, block in unknown.blocks(1):
        check_entries(block, likelihood, at.start)
        seen = ~np.isnan(block)
        values = np.where(seen, block, 0.0)
        observed += seen.sum(axis=0)
        sums += values.sum(axis=0)
        squares += np.einsum("ij,ij->j", values, values)
        largest = np.maximum(largest, values.max(axis=0))
    more = np.where(likelihood == "bernoulli", 1.0, 0.0)
    inside = (sums + 0.5) / (observed + more)
    linear_threshold = np.where(
        likelihood == "poisson", LINEAR_THRESHOLD_FACTOR * (1.0 + largest), 1.0
    )
    return replace(unknown, linear_threshold=linear_threshold), inside
