"""Regression with one prior variance per variable, the weights integrated out, exact zeros.

y ~ N(0, C), C = sigma2 I + X diag(t) X'. As a function of one t_j alone, log p(y) is

    h(t) = -1/2 log(1 + t s) + 1/2 q^2 t / (1 + t s) ,   s = x_j'C_j^-1 x_j,  q = x_j'C_j^-1 y

with C_j = C without variable j: largest at t = (q^2 - s) / s^2, or exactly at zero where
q^2 <= s (Faul & Tipping 2002). One step visits the variables in turn; log p(y) never falls.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dger
from scipy.linalg.lapack import dpotrf, dtrtrs

# The error of what is left of a variable beside all others, as a share of the variable itself.
RATIO_ROUNDING = 1e-15


class State(NamedTuple):
    """Prior variances after a visit to every variable."""

    t: np.ndarray  # (p,) prior variances, exactly 0 for variables out of the model
    bound: float  # log p(y)


def log_likelihood(
    G: np.ndarray, b: np.ndarray, yy: float, n: float, sigma2: float, t: np.ndarray
) -> float:
    """log N(y; 0, sigma2 I + X diag(t) X') from G = X'X, b = X'y and yy = y'y."""
    root = np.sqrt(t)
    M = np.eye(t.size) + root[:, None] * G * (root / sigma2)
    L = np.linalg.cholesky(M)
    explained = np.linalg.solve(M, root * b) @ (root * b) / sigma2
    log_det = n * math.log(2.0 * math.pi * sigma2) + 2.0 * float(np.sum(np.log(L.diagonal())))
    return -0.5 * (log_det + (yy - float(explained)) / sigma2)


def init(G: np.ndarray, b: np.ndarray, yy: float, n: float, sigma2: float, t: np.ndarray) -> State:
    """Start from the variances ``t``."""
    return State(t, log_likelihood(G, b, yy, n, sigma2, t))


def make_step(
    G: np.ndarray, b: np.ndarray, yy: float, n: float, sigma2: float
) -> Callable[[State], State]:
    """One visit to every variable, O(p^2) each."""
    p = b.size
    Gb = np.empty((p, p + 1))  # y is one more column, which is never in the model
    Gb[:, :p], Gb[:, p] = G, b
    Gb /= sigma2

    def step(state: State) -> State:
        # [A c] = X'C^-1 [X y], by Woodbury's identity
        root = np.sqrt(state.t)
        U = root[:, None] * Gb
        M = U[:, :p] * root
        M.flat[:: p + 1] += 1.0
        U, _ = dtrtrs(dpotrf(M, lower=1)[0], U, lower=1) if p else (U, 0)
        Ac = np.asfortranarray(Gb - U[:, :p].T @ U)
        t, bound = state.t.tolist(), state.bound
        for j, at in enumerate(t):
            a, c = Ac.item(j, j), Ac.item(j, p)
            share = 1.0 - at * a  # what C_j^-1 makes of x_j, by Sherman & Morrison
            if not (a > 0.0 and RATIO_ROUNDING * at * Gb.item(j, j) < share <= 1.0):  # it stays
                continue
            s, q = a / share, c / share
            best = (q * q - s) / (s * s) if q * q > s else 0.0
            change = best - at
            if change == 0.0:
                continue
            grown, was = 1.0 + best * s, 1.0 + at * s
            bound += 0.5 * (q * q * (best / grown - at / was) - math.log(grown / was))
            row = Ac[j].copy()
            Ac = dger(-change / (1.0 + change * a), row[:p], row, a=Ac, overwrite_a=True)
            t[j] = best
        return State(np.array(t), bound)

    return step
