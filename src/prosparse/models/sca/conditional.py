"""Inference for new rows.

`Factors` is the model x ~ N(mean, L L' + diag(1/tau)) of one group of samples. For non-Gaussian
columns, x is the linear predictor. If rows have unequal scales (`row_weights`), the distribution is
multivariate t with this scatter matrix. Rows are dense, dense with NaN, or sparse. Gaussian results
are exact given the observed entries, by the Woodbury identity in O(p Q^2) per pattern of missing
values.

`FittedModel` has one or several groups. A row of unknown group follows the mixture of the group
distributions, weighted by the proportions of the samples. Scores and predictions are averaged over
the posterior probabilities of the groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace
from scipy.special import logsumexp

from ...data import Array, DenseOperator, Operator, container_of, operator_of, take_columns
from ...data.arrays import as_like, from_numpy, to_numpy
from ...data.containers import Table
from ...data.missing_values import dense_with_missing
from ...data.row_groups import row_groups
from ...errors import ParameterError
from ...phrases import list_items
from .likelihood import Likelihood, mean_and_variance
from .missing_e_step import IncompleteSamples
from .non_gaussian import infer_rows
from .non_gaussian_data import new_rows
from .point_normal import PointNormal
from .row_weights import log_t_density
from .scores import SparseScores


class Factors(NamedTuple):
    """Factor model in the units of the data."""

    L: np.ndarray  # (p, Q)
    tau: np.ndarray  # (p,) noise precisions; 1 for non-Gaussian columns
    mean: np.ndarray  # (p,) on the scale of the linear predictor
    score_probability: np.ndarray | None = None  # (Q,) None if all scores are Gaussian
    loading_variance: np.ndarray | None = None  # (p, Q) if scores are not Gaussian
    likelihood: np.ndarray | None = None  # (p,) None if all columns are Gaussian
    linear_threshold: np.ndarray | None = None  # (p,) thresholds of Poisson columns
    df: float = math.inf  # degrees of freedom of the rows; infinite if they have equal scale

    def take(self, columns: np.ndarray) -> Factors:
        """Return the model of some columns."""
        parts = {
            name: value if value is None or name in ("score_probability", "df") else value[columns]
            for name, value in self._asdict().items()
        }
        return Factors(**parts)


def has_missing(X: Table) -> bool:
    """Return whether a value is missing; data outside memory are complete."""
    return container_of(X).has_missing(X)


def posterior_means(X: Table, model: Factors) -> Array:
    """Compute the posterior means of the factors (n, Q), [AB08] (17)."""
    if model.likelihood is not None:
        return _bounded_posterior(X, model)[0]
    if model.score_probability is not None:
        return _sparse_posterior(X, model).mean
    if not has_missing(X):
        return _complete_posterior(X, model)[0]
    Z = np.empty((X.shape[0], model.L.shape[1]))
    samples = _incomplete_samples(X, model.mean)
    for q in samples.posteriors(model.L, None, model.tau, np.zeros(samples.p)):
        Z[q.rows] = q.Z
    return Z


def row_log_densities(X: Table, model: Factors) -> Array:
    """Return the log density of the observed entries of each row.

    The result is a lower bound if any column is non-Gaussian.
    """
    if model.likelihood is not None:
        return _bounded_posterior(X, model)[2]
    density = _gaussian_log_densities(X, model)
    if math.isinf(model.df):
        return density
    squares, observed = _squared_distances(X, model)
    gaussian = log_t_density(squares, observed, math.inf)
    change = log_t_density(squares, observed, model.df) - gaussian
    return density + as_like(change, density, density.dtype)


def _squared_distances(X: Table, model: Factors) -> tuple[np.ndarray, np.ndarray]:
    """Compute squared Mahalanobis distances (n,), and count observed entries.

    The distances follow from log densities for two scatter matrices that differ by a factor of 4,
    because the determinants differ by a constant.
    """
    n, p = X.shape
    observed = np.full(n, p)
    if has_missing(X):
        observed = np.sum(~np.isnan(dense_with_missing(X)), axis=1)
    wide = model._replace(L=2.0 * model.L, tau=0.25 * model.tau)
    one, other = (to_numpy(_gaussian_log_densities(X, m)).astype(float) for m in (model, wide))
    squares = (8.0 / 3.0) * (other - one + observed * math.log(2.0))
    return np.maximum(squares, 0.0), observed


def _row_precisions(X: Table, model: Factors) -> np.ndarray:
    """Compute the posterior means of the row precisions (n,)."""
    squares, observed = _squared_distances(X, model)
    return (model.df + observed) / (model.df + squares)


def _gaussian_log_densities(X: Table, model: Factors) -> Array:
    """Compute Gaussian log densities of the observed entries of each row."""
    tau = model.tau
    if has_missing(X):
        samples = _incomplete_samples(X, model.mean)
        Z, no_offsets = np.empty((samples.n, model.L.shape[1])), np.zeros(samples.p)
        rows = samples.seen @ np.log(tau / (2.0 * np.pi))
        for q in samples.posteriors(model.L, None, tau, no_offsets):
            Z[q.rows] = q.Z
            rows[q.rows] += np.repeat(q.log_det, samples.in_pattern[q.patterns])
        return 0.5 * (rows - samples.squared_distances(model.L, tau, no_offsets, Z))
    Z, S = _complete_posterior(X, model)
    inverse, log_det = np.linalg.inv(S), float(np.linalg.slogdet(S)[1])
    explained = array_namespace(Z).sum((Z @ as_like(inverse, Z, Z.dtype)) * Z, axis=1)
    squares = centred_operator(X, model.mean, 1.0 / np.sqrt(tau)).row_squares()
    constant = float(np.sum(np.log(tau / (2.0 * np.pi)))) + log_det
    return 0.5 * (constant - squares + explained)


def predictive_moments(
    X: Table, model: Factors, columns: np.ndarray, noise: np.ndarray | None = None
) -> tuple[Array, Array]:
    """Compute means and variances (n, m) of new observations of some columns.

    ``noise`` contains their noise variances, by default those of the model.
    """
    part = model.take(columns)
    noise = 1.0 / part.tau if noise is None else noise
    if model.likelihood is None:
        Z = posterior_means(X, model)
        L, mean, noise = (as_like(v, Z, Z.dtype) for v in (part.L, part.mean, noise))
        variance = factor_contribution_variance(X, model, columns) + noise
        if math.isfinite(model.df):
            squares, observed = _squared_distances(X, model)
            factor = (model.df + squares) / np.maximum(model.df + observed - 2.0, 1.0)
            variance = variance * as_like(factor, Z, Z.dtype)[:, None]
        return mean + Z @ L.T, variance
    Z, S, _ = _bounded_posterior(X, model)
    mean = Z @ part.L.T + part.mean
    spread = np.stack([np.sum((part.L @ s) * part.L, axis=1) for s in S])
    eta, variance = mean.copy(), spread + noise
    names: tuple[Likelihood, ...] = ("bernoulli", "poisson")
    for name in names:
        at = np.flatnonzero(part.likelihood == name)
        if at.size:
            assert part.linear_threshold is not None
            mean[:, at], variance[:, at] = mean_and_variance(
                name, eta[:, at], spread[:, at], part.linear_threshold[at]
            )
    return mean, variance


def factor_contribution_variance(X: Table, model: Factors, columns: np.ndarray) -> Array:
    """Compute conditional variances (n, m) of the factor part of columns."""
    L = model.L[columns]
    if model.score_probability is not None:
        return _sparse_posterior(X, model).variance @ (L * L).T
    if not has_missing(X):
        Z, S = _complete_posterior(X, model)
        spread = as_like(np.sum((L @ S) * L, axis=1), Z, Z.dtype)
        return array_namespace(spread).broadcast_to(spread, (Z.shape[0], columns.size))
    variance = np.empty((X.shape[0], columns.size))
    samples = _incomplete_samples(X, model.mean)
    for q in samples.posteriors(model.L, None, model.tau, np.zeros(samples.p)):
        of_pattern = np.sum((L @ q.S) * L, axis=2)
        variance[q.rows] = np.repeat(of_pattern, samples.in_pattern[q.patterns], axis=0)
    return variance


def _bounded_posterior(X: Table, model: Factors) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute means, covariances and lower bounds of log densities of rows."""
    assert model.likelihood is not None
    assert model.linear_threshold is not None
    rows = new_rows(X, model.likelihood, model.linear_threshold)
    return infer_rows(rows, model.L, model.tau, model.mean)


def _sparse_posterior(X: Table, model: Factors) -> PointNormal:
    """Compute the posterior of point-normal scores.

    The noise excludes the uncertainty of the loadings, which is part of the update.
    """
    assert model.score_probability is not None
    assert model.loading_variance is not None
    tau = 1.0 / (1.0 / model.tau - model.loading_variance.sum(axis=1))
    seen = None
    if has_missing(X):
        dense = dense_with_missing(X) - model.mean
        seen = ~np.isnan(dense)
        op: Operator = DenseOperator(np.where(seen, dense, 0.0))
    else:
        op = centred_operator(X, model.mean, np.ones_like(model.mean))
    if math.isinf(model.df):
        data = SparseScores(op, seen)
        return data.infer(model.L, model.loading_variance, tau, model.score_probability)
    root = np.sqrt(_row_precisions(X, model))
    data = SparseScores(op.scale_rows(from_numpy(root, op.column_squares(), op.dtype)), seen, root)
    scores = data.infer(model.L, model.loading_variance, tau, model.score_probability)
    mean, variance = scores.mean / root[:, None], scores.variance / root[:, None] ** 2
    return scores._replace(mean=mean, variance=variance)


def _complete_posterior(X: Table, model: Factors) -> tuple[Array, np.ndarray]:
    """Compute posterior means, and the covariance common to all rows."""
    L, tau, mean = model.L, model.tau, model.mean
    S = np.linalg.inv(np.eye(L.shape[1]) + (tau[:, None] * L).T @ L)
    op = centred_operator(X, mean, np.ones_like(mean))
    filters = as_like(tau[:, None] * L @ S, X, op.dtype)
    return op.matmul(filters), S


def centred_operator(X: Table, mean: np.ndarray, scale: np.ndarray) -> Operator:
    """Return the operator of centred and scaled rows."""
    dtype = None if container_of(X).on_cpu else X.dtype
    return operator_of(X, as_like(mean, X, dtype), as_like(scale, X, dtype))


def _incomplete_samples(X: Table, mean: np.ndarray) -> IncompleteSamples:
    """Return centred rows with missing values."""
    dense = dense_with_missing(X)
    return IncompleteSamples(dense - mean, ~np.isnan(dense))


# --- groups of samples


class FittedModel(NamedTuple):
    """Models of all groups of samples, in the units of the data."""

    groups: tuple[Factors, ...]  # with factors of unit variance
    factor_variance: np.ndarray  # (G, Q)
    varying_in_group: np.ndarray  # (G, p) columns that vary within each group
    proportions: np.ndarray  # (G,) proportions of the samples

    def posterior_means(self, X: Table, codes: np.ndarray | None) -> Array:
        """Compute posterior means (n, Q); ``codes`` are the groups of the rows."""

        def of_group(rows: Table, g: int) -> Array:
            Z = posterior_means(rows, self._observed(g))
            return Z * as_like(np.sqrt(self.factor_variance[g]), Z, Z.dtype)

        return self._average(X, codes, of_group)

    def moments(
        self, X: Table, columns: np.ndarray, codes: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compute predictive means and variances (n, m) of some columns."""

        mixture = codes is None and len(self.groups) > 1

        def of_group(rows: Table, g: int) -> np.ndarray:
            noise = 1.0 / self.groups[g].tau[columns]
            found = predictive_moments(rows, self._observed(g), columns, noise)
            mean, variance = (to_numpy(part) for part in found)
            return np.stack([mean, variance + mean**2 if mixture else variance], axis=1)

        mean, variance = self._average(X, codes, of_group).transpose(1, 0, 2)
        return mean, np.maximum(variance - mean**2, 0.0) if mixture else variance

    def log_densities(self, X: Table, codes: np.ndarray | None) -> Array:
        """Compute the log densities of the rows, (n,).

        The densities refer to the columns that vary within the group of a row, or within every
        group if the group is unknown.
        """
        if len(self.groups) == 1:
            return self._log_density(X, 0, self.varying_in_group[0])
        if codes is not None:
            return _apply_by_group(
                X, codes, lambda rows, g: self._log_density(rows, g, self.varying_in_group[g])
            )
        found = logsumexp(self._log_joint_densities(X), axis=1)
        return from_numpy(found, X, X.dtype) if not container_of(X).on_cpu else found

    def _average(
        self, X: Table, codes: np.ndarray | None, of_group: Callable[[Table, int], Array]
    ) -> Array:
        """Apply a function to the rows, averaged over unknown groups."""
        if len(self.groups) == 1:
            return of_group(X, 0)
        if codes is not None:
            return _apply_by_group(X, codes, of_group)
        log_joint = self._log_joint_densities(X)
        probability = np.exp(log_joint - logsumexp(log_joint, axis=1, keepdims=True))
        total: Array = 0.0
        for g in range(len(self.groups)):
            found = of_group(X, g)
            weight = probability[:, g].reshape(-1, *[1] * (found.ndim - 1))
            total = total + found * as_like(weight, found, found.dtype)
        return total

    def _observed(self, g: int) -> Factors:
        """Return the model of group g without the columns constant in it."""
        model = self.groups[g]
        if len(self.groups) == 1:
            return model
        return model._replace(tau=np.where(self.varying_in_group[g], model.tau, 0.0))

    def _log_joint_densities(self, X: Table) -> np.ndarray:
        """Compute log densities of the rows plus log proportions, (n, G)."""
        everywhere: np.ndarray = np.all(self.varying_in_group, axis=0)
        each = np.zeros((X.shape[0], len(self.groups)))
        if everywhere.any():  # otherwise the groups cannot be distinguished
            groups = range(len(self.groups))
            each = np.stack([to_numpy(self._log_density(X, g, everywhere)) for g in groups], axis=1)
        weighted: np.ndarray = each + np.log(self.proportions)
        return weighted

    def _log_density(self, rows: Table, g: int, which: np.ndarray) -> Array:
        """Compute the log density of rows in group g on the columns ``which``."""
        columns = np.flatnonzero(which)
        return row_log_densities(take_columns(rows, columns), self.groups[g].take(columns))


def _apply_by_group(X: Table, codes: np.ndarray, of_group: Callable[[Table, int], Array]) -> Array:
    """Apply a function to the rows of each group; keep the order of the rows."""
    order, parts = [], []
    for g in np.unique(codes).tolist():
        rows = np.flatnonzero(codes == g)
        order.append(rows)
        parts.append(of_group(container_of(X).take_rows(X, rows), g))
    xp = array_namespace(parts[0])
    back = np.argsort(np.concatenate(order))
    return xp.take(xp.concat(parts, axis=0), from_numpy(back, parts[0]), axis=0)


def encode_groups(groups: object, n: int, fitted: np.ndarray | None) -> np.ndarray | None:
    """Convert the groups of new rows to codes; return None if unknown.

    ``fitted`` contains the labels of the fit; None without groups.
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
