"""Views that are not Gaussian: validation, and inference for new rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, cast, get_args

import numpy as np

from ...data import container_of, take_columns
from ...data.containers import Table
from ...data.counts import MAX_TOTAL
from ...errors import InputError, ParameterError
from .likelihood import LINEAR_THRESHOLD_FACTOR, Likelihood, mean_and_variance
from .non_gaussian import Rows, infer_rows


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


class NonGaussianModel(NamedTuple):
    """Fitted model of several likelihoods, in the units of the data."""

    L: np.ndarray  # (p, Q)
    tau: np.ndarray  # (p,) noise precisions; 1 for columns that are not Gaussian
    mu: np.ndarray  # (p,) means on the scale of the linear predictor
    likelihood: np.ndarray  # (p,)
    linear_threshold: np.ndarray  # (p,)

    def rows(self, X: Table) -> Rows:
        """Return new rows, whose entries are checked when they are read."""
        check_in_memory(X)

        def read(rows: slice) -> np.ndarray:
            block = dense_rows(X, rows)
            check_entries(block, self.likelihood, rows.start)
            return block

        ones = np.ones(X.shape[1])
        return Rows(
            X.shape[0], X.shape[1], read, self.likelihood, self.linear_threshold, ones, ones
        )

    def take(self, columns: np.ndarray) -> NonGaussianModel:
        """Return the model of some columns."""
        return NonGaussianModel(*(part[columns] for part in self))

    def posteriors(self, X: Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return means, covariances and lower bounds of the log densities of rows."""
        return infer_rows(self.rows(X), self.L, self.tau, self.mu)

    def moments(self, X: Table, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return conditional means and variances of some columns."""
        Z, S, _ = self.posteriors(X)
        part = self.take(columns)
        eta = Z @ part.L.T + part.mu
        spread = np.stack([np.sum((part.L @ s) * part.L, axis=1) for s in S])
        return part.to_response_scale(eta, spread)

    def to_response_scale(
        self, eta: np.ndarray, spread: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Convert moments of the linear predictors to moments of the entries."""
        mean, variance = eta.copy(), spread + 1.0 / self.tau
        names: tuple[Likelihood, ...] = ("bernoulli", "poisson")
        for name in names:
            positions = np.flatnonzero(self.likelihood == name)
            if positions.size:
                mean[:, positions], variance[:, positions] = mean_and_variance(
                    name, eta[:, positions], spread[:, positions], self.linear_threshold[positions]
                )
        return mean, variance


def prepare_rows(
    X: Table, kept: np.ndarray, likelihood: np.ndarray, mean: np.ndarray, size: np.ndarray
) -> tuple[Rows, np.ndarray]:
    """Return the rows to fit, and column means in the range of the likelihood.

    All arguments refer to the varying columns ``kept``. Gaussian columns are centred by ``mean``
    and divided by ``size``. The means have pseudo-counts: half a count for Poisson columns, half a
    zero and half a one for Bernoulli columns.
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
