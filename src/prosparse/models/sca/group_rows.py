"""Inference for new rows of a model of several groups.

A row of group g follows x ~ N(mean_g, L diag(v_g) L' + diag(noise_g)). A row without a group
follows the mixture of these distributions, weighted by the proportions of the samples. Scores and
predictions are averaged over the posterior probabilities of the groups.
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
from ...phrases import list_items
from .conditional import Factors, factor_contribution_variance, posterior_means, row_log_densities


class GroupedModel(NamedTuple):
    """Models of all groups, in the units of the data."""

    L: np.ndarray  # (p, Q) loadings
    factor_variance: np.ndarray  # (G, Q) variances of the factors
    mean: np.ndarray  # (G, p)
    noise: np.ndarray  # (G, p) noise variances
    varying_in_group: np.ndarray  # (G, p) columns that vary within each group
    proportions: np.ndarray  # (G,) proportions of the samples

    def factors(self, g: int) -> Factors:
        """Return the model of group g with factors of unit variance."""
        precision = np.where(self.varying_in_group[g], 1.0 / self.noise[g], 0.0)
        return Factors(self.L * np.sqrt(self.factor_variance[g]), precision, self.mean[g])

    def posterior_means(self, X: Table, codes: np.ndarray | None) -> Array:
        """Return the (n, Q) posterior means; ``codes`` are the groups of the rows."""

        def of_group(rows: Table, g: int) -> Array:
            Z = posterior_means(rows, self.factors(g))
            return Z * as_like(np.sqrt(self.factor_variance[g]), Z, Z.dtype)

        if codes is not None:
            return _apply_by_group(X, codes, of_group)
        probabilities = self.group_probabilities(X)
        total = 0.0
        for g in range(self.proportions.size):
            Z = of_group(X, g)
            total = total + Z * as_like(probabilities[:, g : g + 1], Z, Z.dtype)
        return total

    def log_densities(self, X: Table, codes: np.ndarray | None) -> Array:
        """Return the (n,) log densities of the rows.

        Rows use the columns that vary within their group, or within every group if it is unknown.
        """
        if codes is not None:
            return _apply_by_group(
                X, codes, lambda rows, g: self._log_density(rows, g, self.varying_in_group[g])
            )
        found = logsumexp(self._log_joint_densities(X), axis=1)
        return from_numpy(found, X, X.dtype) if not container_of(X).on_cpu else found

    def group_probabilities(self, X: Table) -> np.ndarray:
        """Return the (n, G) posterior probabilities of the groups."""
        log_joint = self._log_joint_densities(X)
        probabilities: np.ndarray = np.exp(log_joint - logsumexp(log_joint, axis=1, keepdims=True))
        return probabilities

    def moments(
        self, X: Table, columns: np.ndarray, codes: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return conditional means and variances (n, m) of some columns."""

        def of_group(rows: Table, g: int) -> np.ndarray:
            model = self.factors(g)
            mean = posterior_means(rows, model) @ model.L[columns].T + model.mean[columns]
            variance = factor_contribution_variance(rows, model, columns) + self.noise[g, columns]
            return np.stack([mean, np.broadcast_to(variance, mean.shape)], axis=1)

        if codes is not None:
            moments = _apply_by_group(X, codes, of_group)
            return moments[:, 0], moments[:, 1]
        probabilities = self.group_probabilities(X)
        mean, second_moment = np.zeros((2, X.shape[0], columns.size))
        for g in range(self.proportions.size):
            moments = of_group(X, g)
            mean += probabilities[:, g : g + 1] * moments[:, 0]
            second_moment += probabilities[:, g : g + 1] * (moments[:, 1] + moments[:, 0] ** 2)
        return mean, np.maximum(second_moment - mean**2, 0.0)

    def _log_joint_densities(self, X: Table) -> np.ndarray:
        """Return the (n, G) log densities of the rows plus the log proportions."""
        everywhere: np.ndarray = np.all(self.varying_in_group, axis=0)
        each = np.zeros((X.shape[0], self.proportions.size))
        if everywhere.any():  # otherwise the groups cannot be distinguished
            groups = range(self.proportions.size)
            each = np.stack([to_numpy(self._log_density(X, g, everywhere)) for g in groups], axis=1)
        weighted: np.ndarray = each + np.log(self.proportions)
        return weighted

    def _log_density(self, rows: Table, g: int, which: np.ndarray) -> Array:
        """Return the log density of rows in group g on the columns ``which``."""
        columns = np.flatnonzero(which)
        return row_log_densities(take_columns(rows, columns), self.factors(g).take(columns))


def _apply_by_group(X: Table, codes: np.ndarray, of_group: Callable[[Table, int], Array]) -> Array:
    """Apply a function of rows and group to each group, in the order of the rows."""
    order, parts = [], []
    for g in np.unique(codes).tolist():
        rows = np.flatnonzero(codes == g)
        order.append(rows)
        parts.append(of_group(container_of(X).take_rows(X, rows), g))
    xp = array_namespace(parts[0])
    back = np.argsort(np.concatenate(order))
    return xp.take(xp.concat(parts, axis=0), from_numpy(back, parts[0]), axis=0)


def encode_groups(groups: object, n: int, fitted: np.ndarray | None) -> np.ndarray | None:
    """Return the groups of new rows as codes, None if they are unknown.

    ``fitted`` are the labels of the fit, None if there were no groups.
    """
    given = row_groups(groups, n)
    if given is None:
        return None
    if fitted is None:
        raise ParameterError(
            "`groups` must be None for a model fitted without groups. Omit `groups`, or fit with "
            "`fit(X, groups=...)`."
        )
    known = {label: code for code, label in enumerate(fitted.tolist())}
    unknown = [label for label in given.labels.tolist() if label not in known]
    if unknown:
        names = list_items([*map(repr, known)], 8)
        raise ParameterError(
            f"`groups` must contain labels of the fit, {names}, got {unknown[0]!r}. Refit with "
            "rows of the new group, or omit `groups` to average over the fitted groups."
        )
    code_of_label = np.array([known[label] for label in given.labels.tolist()])
    codes: np.ndarray = code_of_label[given.codes]
    return codes
