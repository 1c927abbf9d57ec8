"""Prior on the number of variables of a model."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betaln

SPARSE_SIZE = 15  # model size above which the prior decreases


def log_size_prior(p: int) -> np.ndarray:
    """Compute the log prior of each set of 0, 1, ..., p variables.

    Each variable is active with probability rho of density 2 (1 - rho), which favours sparse models
    compared with the uniform density of Scott & Berger (2010). A set of q variables has the prior
    2 B(1 + q, 2 + p - q), multiplied by 1 / (1 + (q / SPARSE_SIZE)^2).

    Without this factor, models of p/2 variables are about as probable as sparse models. If
    coefficients are small, the data contain little information on the model size, and too many
    variables would have inclusion probabilities between 0.1 and 0.3. With the factor, sizes up to
    about `SPARSE_SIZE` are nearly equally probable; for larger models, the prior halves when the
    size increases by a factor of 1.4.
    """
    q = np.arange(p + 1)
    log_prior = betaln(q + 1.0, p - q + 2.0) - np.log1p((q / SPARSE_SIZE) ** 2)
    log_sets = -betaln(q + 1.0, p - q + 1.0) - math.log(p + 1.0)  # number of sets of each size
    normalised: np.ndarray = log_prior - float(np.logaddexp.reduce(log_prior + log_sets))
    return normalised
