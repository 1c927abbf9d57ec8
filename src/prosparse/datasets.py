"""Simulated data, mostly from the publications of the methods.

The true variables have random positions. If they were first, a stable sort of tied scores would
rank them first.
"""

from __future__ import annotations

from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from .errors import ParameterError, check_bool, check_choice, check_integer, check_non_negative


class GloballySparse(NamedTuple):
    """Result of `make_globally_sparse`.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        Data matrix.
    support : bool ndarray of shape (n_features,)
        Mask of the variables with nonzero loadings.
    loadings : ndarray of shape (n_features, n_components)
        True loadings; rows outside ``support`` are zero.
    """

    X: np.ndarray
    support: np.ndarray
    loadings: np.ndarray


def make_globally_sparse(
    n_samples: int = 50,
    n_features: int = 30,
    *,
    n_components: int = 5,
    n_informative: int = 10,
    noise: float = 0.5,
    scale: bool = False,
    random_state: Any = None,
) -> GloballySparse:
    """Simulate globally sparse PCA: x = V W y + noise.

    The model is equation (3) of Mattei, Bouveyron & Latouche (2016). The defaults are those of the
    introductory example: n = 50, p = 30, d = 5, q = 10.

    Parameters
    ----------
    n_samples : int, default=50
        Number of rows.
    n_features : int, default=30
        Number of columns.
    n_components : int, default=5
        Number d of components, the dimension of y.
    n_informative : int, default=10
        Number q of variables with nonzero loadings, which are standard normal.
    noise : float, default=0.5
        Standard deviation of the noise of each variable.
    scale : bool, default=False
        Whether to scale each column to unit variance, so that variances do not indicate relevance.
    random_state : int, RandomState or None, default=None
        Seed for the random number generator.

    Returns
    -------
    GloballySparse
        Named tuple (X, support, loadings).
    """
    check_integer("n_samples", n_samples, 2)
    check_integer("n_features", n_features, 1)
    check_integer("n_components", n_components, 1)
    check_integer("n_informative", n_informative, 1)
    check_non_negative("noise", noise)
    check_bool("scale", scale)
    if not n_components <= n_informative <= n_features:
        raise ParameterError(
            "`n_components` <= `n_informative` <= `n_features` must hold, got "
            f"{n_components}, {n_informative}, {n_features}."
        )
    rng = check_random_state(random_state)
    support = np.zeros(n_features, dtype=bool)
    support[rng.permutation(n_features)[:n_informative]] = True
    loadings = np.where(support[:, None], rng.standard_normal((n_features, n_components)), 0.0)
    scores = rng.standard_normal((n_samples, n_components))
    X = scores @ loadings.T + noise * rng.standard_normal((n_samples, n_features))
    if scale:
        deviation = X.std(axis=0)
        X, loadings = X / deviation, loadings / deviation[:, None]
    return GloballySparse(X, support, loadings)


class SparseProjectionData(NamedTuple):
    """Result of `make_sparse_projection`.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        Data matrix.
    clean : ndarray of shape (n_samples, n_features)
        Data matrix without noise.
    loadings : ndarray of shape (n_features, n_components)
        True loadings; columns have unit length.
    noise : float
        Standard deviation of the noise.
    """

    X: np.ndarray
    clean: np.ndarray
    loadings: np.ndarray
    noise: float


FACTOR_DISTRIBUTIONS = ("gaussian", "uniform", "laplace")


def make_sparse_projection(
    n_samples: int = 100,
    n_features: int = 10,
    *,
    n_components: int = 4,
    n_nonzero: int = 4,
    noise: float = 0.5,
    factor_distribution: str = "gaussian",
    random_state: Any = None,
) -> SparseProjectionData:
    """Simulate the denoising experiment of Archambeau & Bach (2008).

    The data are factors times sparse loadings plus noise. The defaults are those of the paper: 4
    unit vectors with 4 nonzero entries in 10 dimensions.

    Parameters
    ----------
    n_samples : int, default=100
        Number of rows.
    n_features : int, default=10
        Number of columns.
    n_components : int, default=4
        Number of factors.
    n_nonzero : int, default=4
        Number of nonzero loadings of each factor.
    noise : float, default=0.5
        Standard deviation of the noise, relative to the root mean square of the clean data.
    factor_distribution : {"gaussian", "uniform", "laplace"}, default="gaussian"
        Distribution of the factors, which have unit variance.
    random_state : int, RandomState or None, default=None
        Seed for the random number generator.

    Returns
    -------
    SparseProjectionData
        Named tuple (X, clean, loadings, noise).
    """
    check_choice("factor_distribution", factor_distribution, FACTOR_DISTRIBUTIONS)
    check_integer("n_samples", n_samples, 2)
    check_integer("n_features", n_features, 1)
    check_integer("n_components", n_components, 1)
    check_integer("n_nonzero", n_nonzero, 1)
    check_non_negative("noise", noise)
    if n_nonzero > n_features:
        raise ParameterError(
            f"`n_nonzero` must be at most `n_features`, {n_features}, got {n_nonzero}."
        )
    rng = check_random_state(random_state)
    loadings = np.zeros((n_features, n_components))
    for j in range(n_components):
        loadings[rng.permutation(n_features)[:n_nonzero], j] = rng.standard_normal(n_nonzero)
    loadings /= np.linalg.norm(loadings, axis=0)
    size = (n_samples, n_components)
    if factor_distribution == "gaussian":
        Z = rng.standard_normal(size)
    elif factor_distribution == "uniform":
        Z = rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), size)
    else:
        Z = rng.laplace(scale=np.sqrt(0.5), size=size)
    clean = Z @ loadings.T
    deviation = noise * float(np.sqrt(np.mean(clean**2)))
    X = clean + deviation * rng.standard_normal(clean.shape)
    return SparseProjectionData(X, clean, loadings, deviation)


class SparseRegression(NamedTuple):
    """Result of `make_sparse_regression`.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        Data matrix.
    y : ndarray of shape (n_samples,)
        Response.
    coef : ndarray of shape (n_features,)
        True coefficients; zero for variables that are not informative.
    """

    X: np.ndarray
    y: np.ndarray
    coef: np.ndarray


def make_sparse_regression(
    n_samples: int = 100,
    n_features: int = 200,
    *,
    n_informative: int = 10,
    noise: float = 1.0,
    correlation: float = 0.0,
    random_state: Any = None,
) -> SparseRegression:
    """Simulate a sparse linear model.

    The nonzero coefficients have absolute values between 1 and 3 and random signs.

    Parameters
    ----------
    n_samples : int, default=100
        Number of rows.
    n_features : int, default=200
        Number of columns.
    n_informative : int, default=10
        Number of variables with nonzero coefficients.
    noise : float, default=1.0
        Standard deviation of the noise.
    correlation : float, default=0.0
        Correlation of adjacent columns, in (-1, 1). The correlation of columns i and j is
        ``correlation ** |i - j|``.
    random_state : int, RandomState or None, default=None
        Seed for the random number generator.

    Returns
    -------
    SparseRegression
        Named tuple (X, y, coef).
    """
    check_integer("n_samples", n_samples, 2)
    check_integer("n_features", n_features, 1)
    check_integer("n_informative", n_informative, 0)
    check_non_negative("noise", noise)
    if n_informative > n_features:
        raise ParameterError(
            f"`n_informative` must be at most `n_features`, {n_features}, got {n_informative}."
        )
    if not isinstance(correlation, Real) or not -1 < float(correlation) < 1:
        raise ParameterError(f"`correlation` must be between -1 and 1, got {correlation!r}.")
    rng = check_random_state(random_state)
    X = rng.standard_normal((n_samples, n_features))
    for j in range(1, n_features if correlation else 0):
        X[:, j] = correlation * X[:, j - 1] + np.sqrt(1.0 - correlation**2) * X[:, j]
    coef = np.zeros(n_features)
    informative = rng.permutation(n_features)[:n_informative]
    coef[informative] = rng.uniform(1.0, 3.0, n_informative) * rng.choice(
        [-1.0, 1.0], n_informative
    )
    y = X @ coef + noise * rng.standard_normal(n_samples)
    return SparseRegression(X, y, coef)


class CellCounts(NamedTuple):
    """Result of `make_cell_counts`.

    Attributes
    ----------
    X : sparse array of shape (n_cells, n_genes)
        Counts.
    cell_type : int ndarray of shape (n_cells,)
        Cell types, numbered from 0.
    support : bool ndarray of shape (n_genes,)
        Mask of the marker genes.
    """

    X: sparse.csr_array
    cell_type: np.ndarray
    support: np.ndarray


def make_cell_counts(
    n_cells: int = 500,
    n_genes: int = 2000,
    *,
    n_types: int = 5,
    n_markers: int = 20,
    fold_change: float = 8.0,
    depth: float = 2000.0,
    random_state: Any = None,
) -> CellCounts:
    """Simulate counts of single cells of several cell types.

    The expression of a gene is log-normal, and multiplied by ``fold_change`` in cells of the type
    of which the gene is a marker. The sequencing depth of a cell is log-normal. Given expression
    and depth, counts follow Poisson distributions.

    Parameters
    ----------
    n_cells : int, default=500
        Number of rows.
    n_genes : int, default=2000
        Number of columns.
    n_types : int, default=5
        Number of cell types.
    n_markers : int, default=20
        Number of marker genes of each type; ``n_types * n_markers`` must be at most ``n_genes``.
    fold_change : float, default=8.0
        Ratio of the expression of a marker in its type to that in other types.
    depth : float, default=2000.0
        Median total count of a cell.
    random_state : int, RandomState or None, default=None
        Seed for the random number generator.

    Returns
    -------
    CellCounts
        Named tuple (X, cell_type, support).
    """
    check_integer("n_cells", n_cells, 2)
    check_integer("n_genes", n_genes, 1)
    check_integer("n_types", n_types, 1)
    check_integer("n_markers", n_markers, 0)
    check_non_negative("fold_change", fold_change)
    check_non_negative("depth", depth)
    if not n_types * n_markers <= n_genes:
        raise ParameterError(
            f"`n_types` * `n_markers` must be at most `n_genes`, {n_genes}, got {n_types} * "
            f"{n_markers}."
        )
    rng = check_random_state(random_state)
    markers = rng.permutation(n_genes)[: n_types * n_markers].reshape(n_types, n_markers)
    profiles = np.tile(rng.lognormal(sigma=1.5, size=n_genes), (n_types, 1))
    profiles[np.arange(n_types)[:, None], markers] *= fold_change
    profiles /= profiles.sum(axis=1, keepdims=True)
    cell_type = rng.randint(n_types, size=n_cells)
    depths = depth * rng.lognormal(sigma=0.3, size=n_cells)
    # Rows are drawn one at a time, so that the matrix is never dense.
    rows = [
        sparse.csr_array(rng.poisson(m * profiles[k])[None, :])
        for m, k in zip(depths, cell_type, strict=True)
    ]
    support = np.zeros(n_genes, dtype=bool)
    support[markers] = True
    return CellCounts(sparse.csr_array(sparse.vstack(rows, format="csr")), cell_type, support)
