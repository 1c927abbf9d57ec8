"""The simulators of the papers. The true variables stand at random positions: with the true
ones first, a stable sort of tied scores looks perfect."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from .errors import ParameterError, check_choice, check_integer, check_non_negative


class GloballySparse(NamedTuple):
    """What `make_globally_sparse` draws.

    Attributes
    ----------
    X : array (n_samples, n_features)
    support : bool array (n_features,)
        The true variables.
    loadings : array (n_features, n_components)
        Rows outside ``support`` are zero.
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
    """Draw from model (3) of Mattei, Bouveyron & Latouche (2016): x = V W y + noise.

    The defaults are the paper's introductory example, n 50, p 30, d 5, q 10.

    Parameters
    ----------
    n_samples, n_features : int
    n_components : int
        Dimension d of y.
    n_informative : int
        Number q of variables with loadings, standard normal.
    noise : float
        Standard deviation of the noise of every variable.
    scale : bool
        Give every column unit variance: then variance says nothing about relevance.
    random_state : int, RandomState or None

    Returns
    -------
    GloballySparse : named tuple (X, support, loadings)
    """
    if not 1 <= n_components <= n_informative <= n_features:
        raise ParameterError(
            "1 <= n_components <= n_informative <= n_features is needed, got "
            f"{n_components}, {n_informative}, {n_features}"
        )
    check_integer("n_samples", n_samples, 2)
    check_non_negative("noise", noise)
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


class SparseProjection(NamedTuple):
    """What `make_sparse_projection` draws.

    Attributes
    ----------
    X : array (n_samples, n_features)
    clean : array (n_samples, n_features)
        X without its noise.
    loadings : array (n_features, n_components)
        Columns have unit length.
    noise : float
        Standard deviation of the noise.
    """

    X: np.ndarray
    clean: np.ndarray
    loadings: np.ndarray
    noise: float


LATENT_LAWS = ("gaussian", "uniform", "laplace")


def make_sparse_projection(
    n_samples: int = 100,
    n_features: int = 10,
    *,
    n_components: int = 4,
    n_nonzero: int = 4,
    noise: float = 0.5,
    latents: str = "gaussian",
    random_state: Any = None,
) -> SparseProjection:
    """The denoising experiment of Archambeau & Bach (2008): sparse directions, any latent law.

    The defaults are the paper's: 4 unit vectors with 4 nonzero entries in 10 dimensions.

    Parameters
    ----------
    n_samples, n_features, n_components : int
    n_nonzero : int
        Nonzero entries of every direction.
    noise : float
        Standard deviation of the noise, relative to the root mean square of the clean data.
    latents : {"gaussian", "uniform", "laplace"}
        Law of the latents, all of unit variance.
    random_state : int, RandomState or None

    Returns
    -------
    SparseProjection : named tuple (X, clean, loadings, noise)
    """
    check_choice("latents", latents, LATENT_LAWS)
    if not 1 <= n_nonzero <= n_features:
        raise ParameterError(
            f"1 <= n_nonzero <= n_features is needed, got {n_nonzero}, {n_features}"
        )
    rng = check_random_state(random_state)
    loadings = np.zeros((n_features, n_components))
    for j in range(n_components):
        loadings[rng.permutation(n_features)[:n_nonzero], j] = rng.standard_normal(n_nonzero)
    loadings /= np.linalg.norm(loadings, axis=0)
    size = (n_samples, n_components)
    if latents == "gaussian":
        Z = rng.standard_normal(size)
    elif latents == "uniform":
        Z = rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), size)
    else:
        Z = rng.laplace(scale=np.sqrt(0.5), size=size)
    clean = Z @ loadings.T
    deviation = noise * float(np.sqrt(np.mean(clean**2)))
    X = clean + deviation * rng.standard_normal(clean.shape)
    return SparseProjection(X, clean, loadings, deviation)


class SparseRegression(NamedTuple):
    """What `make_sparse_regression` draws.

    Attributes
    ----------
    X : array (n_samples, n_features)
    y : array (n_samples,)
    coef : array (n_features,)
        Zero but for the true variables.
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
    """A linear model of which few variables have coefficients: of size 1 to 3, of either sign.

    Parameters
    ----------
    n_samples, n_features : int
    n_informative : int
        Number of variables with nonzero coefficients.
    noise : float
        Standard deviation of the noise.
    correlation : float, in (-1, 1)
        Of neighbouring columns; columns i and j have ``correlation ** |i - j|``.
    random_state : int, RandomState or None

    Returns
    -------
    SparseRegression : named tuple (X, y, coef)
    """
    check_integer("n_samples", n_samples, 2)
    check_integer("n_features", n_features, 1)
    check_non_negative("noise", noise)
    if not 0 <= n_informative <= n_features:
        raise ParameterError(
            f"0 <= n_informative <= n_features is needed, got {n_informative}, {n_features}"
        )
    if not -1 < correlation < 1:
        raise ParameterError(f"`correlation` must be between -1 and 1, got {correlation!r}")
    rng = check_random_state(random_state)
    X = rng.standard_normal((n_samples, n_features))
    for j in range(1, n_features if correlation else 0):
        X[:, j] = correlation * X[:, j - 1] + np.sqrt(1.0 - correlation**2) * X[:, j]
    coef = np.zeros(n_features)
    places = rng.permutation(n_features)[:n_informative]
    coef[places] = rng.uniform(1.0, 3.0, n_informative) * rng.choice([-1.0, 1.0], n_informative)
    y = X @ coef + noise * rng.standard_normal(n_samples)
    return SparseRegression(X, y, coef)
