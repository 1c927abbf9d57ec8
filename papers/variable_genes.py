"""Highly variable genes, as scanpy selects them, from the definitions of the flavours."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse

Array = np.ndarray

N_BINS = 20  # of mean expression
SPAN = 0.3  # proportion of the genes in a local regression
N_KNOTS = 200  # means at which the local regression is computed


def moments(X: sparse.csr_array) -> tuple[Array, Array]:
    """Return means and variances (with n - 1) of the columns."""
    n = X.shape[0]
    mean = np.asarray(X.sum(axis=0)).ravel() / n
    square = np.asarray(X.power(2).sum(axis=0)).ravel() / n
    return mean, np.maximum(square - mean**2, 0.0) * n / (n - 1)


def rank_seurat(counts: sparse.csr_array, logs: sparse.csr_array) -> Array:
    """Rank genes by dispersion relative to genes of similar mean (Satija et al. 2015)."""
    expression = logs.copy()
    expression.data = np.expm1(expression.data)
    mean, variance = moments(expression)
    dispersion = variance / np.maximum(mean, 1e-12)
    dispersion = np.where(dispersion > 0.0, np.log(np.maximum(dispersion, 1e-300)), np.nan)
    mean = np.log1p(mean)
    edges = np.linspace(mean.min(), mean.max(), N_BINS + 1)
    bins = np.clip(np.searchsorted(edges, mean, side="left"), 1, N_BINS)
    score = np.full(mean.size, -np.inf)
    for k in np.unique(bins):
        members = np.flatnonzero((bins == k) & ~np.isnan(dispersion))
        values = dispersion[members]
        if members.size == 1:  # scanpy gives a gene that is alone in its bin the score 1
            score[members] = 1.0
        elif members.size:
            score[members] = (values - values.mean()) / max(values.std(ddof=1), 1e-12)
    return np.argsort(-score, kind="stable")


def rank_seurat_v3(counts: sparse.csr_array, logs: sparse.csr_array) -> Array:
    """Rank genes by the variance of counts relative to a trend (Stuart et al. 2019).

    Counts are standardised with the variance of the trend and limited at sqrt(n).
    """
    n = counts.shape[0]
    mean, variance = moments(counts)
    varies = np.flatnonzero(variance > 0.0)
    trend = local_quadratic(np.log10(mean[varies]), np.log10(variance[varies]))
    deviation = np.sqrt(10.0**trend)
    limit = mean[varies] + np.sqrt(n) * deviation
    columns = sparse.csc_array(counts)[:, varies]
    columns.data = np.minimum(columns.data, np.repeat(limit, np.diff(columns.indptr)))
    total = np.asarray(columns.sum(axis=0)).ravel()
    squares = np.asarray(columns.power(2).sum(axis=0)).ravel()
    centre = mean[varies]
    score = np.full(mean.size, -np.inf)
    score[varies] = (n * centre**2 + squares - 2.0 * centre * total) / ((n - 1) * deviation**2)
    return np.argsort(-score, kind="stable")


def local_quadratic(x: Array, y: Array) -> Array:
    """Fit a local quadratic regression with tricube weights (loess), interpolated."""
    order = np.argsort(x)
    x_sorted, y_sorted = x[order], y[order]
    width = max(4, int(SPAN * x.size))
    knots = np.unique(np.quantile(x_sorted, np.linspace(0.0, 1.0, N_KNOTS)))
    values = np.empty(knots.size)
    for k, knot in enumerate(knots):
        distance = np.abs(x_sorted - knot)
        nearest = np.argpartition(distance, width - 1)[:width]
        largest = distance[nearest].max()
        weights = np.sqrt((1.0 - (distance[nearest] / max(largest, 1e-12)) ** 3) ** 3)
        design = np.vander(x_sorted[nearest] - knot, 3, increasing=True)
        coefficients = np.linalg.lstsq(
            design * weights[:, None], y_sorted[nearest] * weights, rcond=None
        )[0]
        values[k] = coefficients[0]
    return np.interp(x, knots, values)


FLAVOURS: dict[str, Callable[[sparse.csr_array, sparse.csr_array], Array]] = {
    "seurat": rank_seurat,
    "seurat_v3": rank_seurat_v3,
}
