"""What a model of several groups says about new rows: of rows whose group is known, and of others.

A row of group g is a row of the factor model x ~ N(mean_g, L diag(v_g) L' + diag(noise_g)). A row
whose group is not said is one of the mixture of these models, each with the share of samples that
its group had: scores and predictions are means over the groups that the row may be of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace
from scipy.special import logsumexp

from ...data import Array, container_of, take_columns
from ...data.arrays import as_like, from_numpy, to_numpy
from ...data.containers import Table
from ...data.row_groups import row_groups
from ...errors import ParameterError
from .conditional import Factors, factor_contribution_variance, posterior_means, row_log_densities

MAX_LISTED = 8


class GroupedModel(NamedTuple):
    """The models of all groups, in the units of the table."""

    L: np.ndarray  # (p, Q) loadings
    factor_variance: np.ndarray  # (G, Q) variances of the latents
    mean: np.ndarray  # (G, p)
    noise: np.ndarray  # (G, p) noise variances
    varying_in_group: (
        np.ndarray
    )  # (G, p) columns that vary within each group; the others say nothing there
    proportions: np.ndarray  # (G,) of the samples

    def factors(self, g: int) -> Factors:
        """The model of group g, its latents of unit variance."""
        precision = np.where(self.varying_in_group[g], 1.0 / self.noise[g], 0.0)
        return Factors(self.L * np.sqrt(self.factor_variance[g]), precision, self.mean[g])

    def posterior_means(self, X: Table, codes: np.ndarray | None) -> Array:
        """(n, Q) of the latents of every row; ``codes`` are the groups of the rows."""

        def of_group(rows: Table, g: int) -> Array:
            Z = posterior_means(rows, self.factors(g))
            return Z * as_like(np.sqrt(self.factor_variance[g]), Z, Z.dtype)

        if codes is not None:
            return _apply_by_group(X, codes, of_group)
        weights = self.group_probabilities(X)
        total = 0.0
        for g in range(self.proportions.size):
            Z = of_group(X, g)
            total = total + Z * as_like(weights[:, g : g + 1], Z, Z.dtype)
        return total

    def log_densities(self, X: Table, codes: np.ndarray | None) -> Array:
        """(n,) of the rows: of a row whose group is known, of the columns that vary within the
        group; of other rows, of the columns that vary within every group."""
        if codes is not None:
            return _apply_by_group(
                X, codes, lambda rows, g: self._log_density(rows, g, self.varying_in_group[g])
            )
        found = logsumexp(self._weighted_densities(X), axis=1)
        return from_numpy(found, X, X.dtype) if not container_of(X).is_numpy else found

    def group_probabilities(self, X: Table) -> np.ndarray:
        """(n, G) the probability of every group, given a row."""
        parts = self._weighted_densities(X)
        weights: np.ndarray = np.exp(parts - logsumexp(parts, axis=1, keepdims=True))
        return weights

    def moments(
        self, X: Table, columns: np.ndarray, codes: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances (n, m) of some columns of every row, given what is observed of it."""

        def of_group(rows: Table, g: int) -> np.ndarray:
            model = self.factors(g)
            mean = posterior_means(rows, model) @ model.L[columns].T + model.mean[columns]
            variance = factor_contribution_variance(rows, model, columns) + self.noise[g, columns]
            return np.stack([mean, np.broadcast_to(variance, mean.shape)], axis=1)

        if codes is not None:
            both = _apply_by_group(X, codes, of_group)
            return both[:, 0], both[:, 1]
        weights = self.group_probabilities(X)
        first, second = np.zeros((2, X.shape[0], columns.size))
        for g in range(self.proportions.size):
            both = of_group(X, g)
            first += weights[:, g : g + 1] * both[:, 0]
            second += weights[:, g : g + 1] * (both[:, 1] + both[:, 0] ** 2)
        return first, np.maximum(second - first**2, 0.0)

    def _weighted_densities(self, X: Table) -> np.ndarray:
        """(n, G) log densities of the rows in every group, plus the log of its share."""
        everywhere: np.ndarray = np.all(self.varying_in_group, axis=0)
        each = np.zeros((X.shape[0], self.proportions.size))
        if everywhere.any():  # else nothing tells the groups apart
            groups = range(self.proportions.size)
            each = np.stack([to_numpy(self._log_density(X, g, everywhere)) for g in groups], axis=1)
        weighted: np.ndarray = each + np.log(self.proportions)
        return weighted

    def _log_density(self, rows: Table, g: int, which: np.ndarray) -> Array:
        columns = np.flatnonzero(which)
        model = self.factors(g)
        part = Factors(model.L[columns], model.tau[columns], model.mean[columns])
        return row_log_densities(take_columns(rows, columns), part)


def _apply_by_group(X: Table, codes: np.ndarray, of_group: Callable[[Table, int], Array]) -> Array:
    """What the model of its group says of every row, in the order of the rows."""
    order, parts = [], []
    for g in np.unique(codes).tolist():
        rows = np.flatnonzero(codes == g)
        order.append(rows)
        parts.append(of_group(container_of(X).take_rows(X, rows), g))
    xp = array_namespace(parts[0])
    back = np.argsort(np.concatenate(order))
    return xp.take(xp.concat(parts, axis=0), from_numpy(back, parts[0]), axis=0)


def encode_groups(groups: object, n: int, fitted: np.ndarray | None) -> np.ndarray | None:
    """The groups of new rows as numbers, from their labels.

    Parameters
    ----------
    groups : array-like (n,) or None
        Labels; None if they are not known.
    n : int
        Rows.
    fitted : array (G,) or None
        The labels that were fitted; None if there were no groups.

    Returns
    -------
    int array (n,), or None if the groups are not known or there are none

    Raises
    ------
    ParameterError
        If a label was not fitted.
    """
    given = row_groups(groups, n)
    if given is None:
        return None
    if fitted is None:
        raise ParameterError(
            "`groups` was given, but the model was fitted without groups: leave `groups` out, or "
            "fit with `fit(X, groups=...)`"
        )
    known = {label: code for code, label in enumerate(fitted.tolist())}
    unknown = [label for label in given.labels.tolist() if label not in known]
    if unknown:
        names = ", ".join(map(repr, list(known)[:MAX_LISTED]))
        more = f" and {len(known) - MAX_LISTED} more" if len(known) > MAX_LISTED else ""
        raise ParameterError(
            f"`groups` names {unknown[0]!r}, which was not fitted; the groups are {names}{more}. A "
            "group has means and noise of its own, so fit again with rows of the new group; or "
            "leave `groups` out, and rows count as of the groups that they are likely to be of"
        )
    place = np.array([known[label] for label in given.labels.tolist()])
    codes: np.ndarray = place[given.codes]
    return codes
