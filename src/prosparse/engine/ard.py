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

Array = np.ndarray


class State(NamedTuple):
    t: Array  # (p,) prior variances, exactly 0 for variables out of the model
    bound: float  # log p(y)


def log_likelihood(G: Array, b: Array, yy: float, n: int, sigma2: float, t: Array) -> float:
    """log N(y; 0, sigma2 I + X diag(t) X') from G = X'X, b = X'y and yy = y'y."""
    root = np.sqrt(t)
    M = np.eye(t.size) + root[:, None] * G * (root / sigma2)
    L = np.linalg.cholesky(M)
    explained = np.linalg.solve(M, root * b) @ (root * b) / sigma2
    log_det = n * math.log(2.0 * math.pi * sigma2) + 2.0 * float(np.sum(np.log(L.diagonal())))
    return -0.5 * (log_det + (yy - float(explained)) / sigma2)


def init(G: Array, b: Array, yy: float, n: int, sigma2: float, t: Array) -> State:
    return State(t, log_likelihood(G, b, yy, n, sigma2, t))


def make_step(G: Array, b: Array, yy: float, n: int, sigma2: float) -> Callable[[State], State]:
    """One visit to every variable, O(p^2) each."""

    def step(state: State) -> State:
        t = state.t.copy()
        root = np.sqrt(t)
        # A = X'C^-1 X and c = X'C^-1 y, by Woodbury's identity
        F = G * (root / sigma2)
        inverse = np.linalg.inv(np.eye(t.size) + root[:, None] * F)
        A = G / sigma2 - F @ inverse @ F.T
        c = b / sigma2 - F @ (inverse @ (root * b)) / sigma2
        bound = state.bound
        for j in range(t.size):
            at, column = t[j], A[:, j].copy()
            share = 1.0 - at * column[j]  # what C_j^-1 makes of x_j, by Sherman & Morrison
            s, q = column[j] / share, c[j] / share
            best = (q * q - s) / (s * s) if q * q > s else 0.0
            change = best - at
            if change == 0.0:
                continue
            grown, was = 1.0 + best * s, 1.0 + at * s
            bound += 0.5 * (q * q * (best / grown - at / was) - math.log(grown / was))
            scale = change / (1.0 + change * column[j])
            c -= (scale * c[j]) * column
            A -= np.outer(scale * column, column)
            t[j] = best
        return State(t, bound)

    return step


def relevance(t: Array) -> Array:
    """u in [0, 1]: u_j^2 is proportional to t_j, and the most relevant variable has 1."""
    return np.sqrt(t / t.max()) if t.size and t.max() > 0 else np.zeros_like(t)
