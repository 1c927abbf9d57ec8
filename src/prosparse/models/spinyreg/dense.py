"""Dense component with small coefficients of all variables.

Many small effects are not described by any sparse set. In addition to the sparse coefficients w of
the set v, all variables have coefficients u ~ N(0, sigma2 / kappa I):

    y = X_v w + X u + noise .

With u integrated out, y - X_v w ~ N(0, sigma2 S) with S = I + XX'/kappa, which changes only the
sufficient statistics of the sparse part. With X'X = F F', F'F = diag(e) and X'Y = F a,

    X'S^-1 X = F diag(kappa / (e + kappa)) F' ,    X'S^-1 Y = F diag(kappa / (e + kappa)) a ,
    y'S^-1 y = y'y - sum_i a_i^2 e_i / (e_i + kappa) ,    log det S = sum_i log(1 + e_i / kappa) .

A level is a value of kappa. The expected ratio of the variance of X u to that of the noise, h = tr
X'X / (n kappa), has the values `SIGNAL_RATIOS`.

Given w, u has mean (X'X + kappa I)^-1 (X'y - X'X_v w) and covariance sigma2 (X'X + kappa I)^-1. For
a new row x, the variance of x'u is estimated by the mean of l / (1 - l) over the rows, which is the
variance if a row with leverage l is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpstrf

if TYPE_CHECKING:
    from .linear import LinearModel

SIGNAL_RATIOS = (0.125, 0.5, 2.0)  # variance of X u relative to the noise, at each level
DENSE_PROBABILITY = 0.002  # prior probability of a dense component
MIN_EIGENVALUE = 1e-9  # minimum eigenvalue of X'X relative to the mean of its diagonal


class DenseComponent(NamedTuple):
    """Spectrum of X'X and the levels of the dense component."""

    F: np.ndarray  # (p, r)
    e: np.ndarray  # (r,)
    a: np.ndarray  # (r, m)
    kappa: np.ndarray  # (L,) in decreasing order
    log_prior: np.ndarray  # (L,) log prior odds of each level against no dense component
    n: float  # number of observations

    @property
    def log_offset(self) -> np.ndarray:
        """Log prior minus m/2 log det S, (L,)."""
        log_det = np.log1p(self.e / self.kappa[:, None]).sum(axis=1)
        offset: np.ndarray = self.log_prior - 0.5 * self.a.shape[1] * log_det
        return offset

    def marginalise(self, model: LinearModel, columns: np.ndarray, level: int) -> LinearModel:
        """Return the model of some columns with u integrated out."""
        F, kept = self.F[columns], self.kappa[level] / (self.e + self.kappa[level])
        G = (F * kept) @ F.T
        yy = model.yy - (self.a**2 * (1.0 - kept)[:, None]).sum(axis=0)
        return model._replace(
            G=G,
            B=(F * kept) @ self.a,
            yy=np.maximum(yy, model.n * model.noise_floor),
            d=np.diagonal(G),
        )

    def ridge(self, level: int) -> np.ndarray:
        """Compute the posterior mean of u without sparse coefficients, (p, m)."""
        coefficients: np.ndarray = self.F @ (self.a / (self.e + self.kappa[level])[:, None])
        return coefficients

    def hat(self, columns: np.ndarray, level: int) -> np.ndarray:
        """Compute columns of (X'X + kappa I)^-1 X'X, (p, k)."""
        hat: np.ndarray = (self.F / (self.e + self.kappa[level])) @ self.F[columns].T
        return hat

    def variance(self, level: int) -> np.ndarray:
        """Compute the posterior variances of u given w, relative to sigma2, (p,)."""
        explained = (self.F**2 / (self.e + self.kappa[level])).sum(axis=1)
        variance: np.ndarray = (1.0 - explained) / self.kappa[level]
        return variance

    def predictive_variance(self, level: int) -> float:
        """Estimate the variance of x'u of a new row relative to sigma2."""
        leverage = float((self.e / (self.e + self.kappa[level])).sum()) / self.n
        return leverage / (1.0 - leverage)


def dense_component(model: LinearModel) -> DenseComponent:
    """Compute the spectrum of all columns and the levels."""
    L, order, rank, _ = dpstrf(model.G, tol=MIN_EIGENVALUE * float(model.d.mean()), lower=1)
    factor = np.zeros((model.n_variables, rank))
    factor[order - 1] = np.tril(L)[:, :rank]
    e, W = np.linalg.eigh(factor.T @ factor)
    F = factor @ W
    kappa = float(model.d.sum()) / (model.n * np.array(SIGNAL_RATIOS))
    odds = DENSE_PROBABILITY / (1.0 - DENSE_PROBABILITY)
    log_prior = np.full(kappa.size, np.log(odds / kappa.size))
    return DenseComponent(F, e, (F.T @ model.B) / e[:, None], kappa, log_prior, model.n)
