"""The simulators of the papers. The true variables stand at random positions: with the true
ones first, a stable sort of tied scores looks perfect."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from .errors import ParameterError, check_integer, check_non_negative


class GloballySparse(NamedTuple):
    X: np.ndarray  # (n, p)
    support: np.ndarray  # (p,) bool
    loadings: np.ndarray  # (p, d), zero rows outside the support


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
