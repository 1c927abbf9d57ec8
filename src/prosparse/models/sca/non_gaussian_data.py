"""Views that are not Gaussian, between the user's tables and the model: which likelihood a view
has, what its entries may be, and what a fitted model says about new rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast, get_args

import numpy as np

from ...data import container_of, take_columns
from ...data.containers import Table
from ...data.counts import MAX_TOTAL
from ...errors import InputError, ParameterError
from .likelihood import LINEAR_THRESHOLD_FACTOR, Likelihood, mean_and_variance
from .non_gaussian import Rows, infer_rows


def view_likelihoods(given: str | Sequence[str], n_views: int) -> list[Likelihood]:
    """The likelihood of every view, from one for all or one per view."""
    several = isinstance(given, list | tuple)
    names = list(given) if several else [given] * n_views
    allowed = get_args(Likelihood)
    for name in names:
        if not isinstance(name, str) or name not in allowed:
            raise ParameterError(
                f"`likelihood` must be one of {', '.join(map(repr, allowed))}, or a list of one of "
                f"these for each view, got {given!r}"
            )
    if len(names) != n_views:
        raise ParameterError(
            f"`likelihood` must be one name or one per view; there are {n_views} views, got "
            f"{given!r}"
        )
    return cast("list[Likelihood]", names)


def column_likelihoods(
    names: Sequence[str], groups: Sequence[np.ndarray], width: int
) -> np.ndarray:
    """The likelihood of every column."""
    every = np.empty(width, dtype=object)
    for name, columns in zip(names, groups, strict=True):
        every[columns] = name
    return every


def dense_rows(X: Table, rows: slice) -> np.ndarray:
    """A block of rows as a dense array; sparse tables are made dense this much at a time."""
    kind = container_of(X)
    return kind.dense(kind.take_rows(X, np.arange(rows.start, rows.stop)))


def check_in_memory(X: Table) -> None:
    """Refuse tables that are elsewhere than in memory."""
    kind = container_of(X)
    if not (kind.is_numpy and kind.in_memory):
        raise InputError(
            "views with a likelihood other than 'gaussian' must be NumPy, pandas, polars or sparse "
            "tables: bounds are found entry by entry, in memory"
        )


def check_entries(X: np.ndarray, likelihood: np.ndarray, first_row: int) -> None:
    """Refuse entries that a column's likelihood does not know."""
    counts = f"0, 1, 2 and so on up to {MAX_TOTAL:.3g}"
    for name, what, largest in (("bernoulli", "0 or 1", 1.0), ("poisson", counts, MAX_TOTAL)):
        columns = np.flatnonzero(likelihood == name)
        part = X[:, columns]
        wrong = (part < 0) | (part > largest) | (part != np.round(part))
        wrong &= ~np.isnan(part)
        if wrong.any():
            row, at = np.argwhere(wrong)[0]
            raise InputError(
                f"a view with likelihood {name!r} may only hold {what}; row {first_row + row}, "
                f"column {columns[at]} holds {part[row, at]:g}. Use 'gaussian' for measurements"
            )


class NonGaussianModel(NamedTuple):
    """A fitted model of views of several view_likelihoods, in the units of the table."""

    L: np.ndarray  # (p, Q)
    tau: np.ndarray  # (p,) noise precisions; 1 in columns that are not Gaussian
    mu: np.ndarray  # (p,) means, on the scale of the linear predictor
    likelihood: np.ndarray  # (p,)
    linear_threshold: np.ndarray  # (p,)

    def rows(self, X: Table) -> Rows:
        """New rows; checks their entries."""
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
        """The model of some columns."""
        return NonGaussianModel(*(part[columns] for part in self))

    def posteriors(self, X: Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(means, covariances, lower bounds of the log densities) of rows."""
        return infer_rows(self.rows(X), self.L, self.tau, self.mu)

    def means(self, X: Table, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of some columns of rows, given what is observed of these."""
        Z, S, _ = self.posteriors(X)
        part = self.take(columns)
        eta = Z @ part.L.T + part.mu
        spread = np.stack([np.sum((part.L @ s) * part.L, axis=1) for s in S])
        return part.to_response_scale(eta, spread)

    def to_response_scale(
        self, eta: np.ndarray, spread: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of entries, from those of their linear predictors."""
        mean, variance = eta.copy(), spread + 1.0 / self.tau
        names: tuple[Likelihood, ...] = ("bernoulli", "poisson")
        for name in names:
            own = np.flatnonzero(self.likelihood == name)
            if own.size:
                mean[:, own], variance[:, own] = mean_and_variance(
                    name, eta[:, own], spread[:, own], self.linear_threshold[own]
                )
        return mean, variance


def prepare_rows(
    X: Table, kept: np.ndarray, likelihood: np.ndarray, mean: np.ndarray, size: np.ndarray
) -> tuple[Rows, np.ndarray]:
    """The rows to fit, and their columns' means strictly inside the range of each likelihood.

    Parameters
    ----------
    X : table (n, p)
    kept : int array (q,)
        The columns that vary.
    likelihood : array (q,)
        Of these.
    mean : array (q,)
        The means of these.
    size : array (q,)
        What Gaussian columns are divided by.

    Returns
    -------
    rows : Rows
        Gaussian columns centred and divided, the others as they are.
    inside : array (q,)
        The means, of counts as if half a one, and of 0 and 1 half of each, had been seen more.
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
    return unknown._replace(
        linear_threshold=linear_threshold, observed=observed, squares=squares
    ), inside
