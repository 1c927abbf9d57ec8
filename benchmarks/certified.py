"""Certified sparse PCA for several matrices and cardinalities: python -m benchmarks.certified

    python -m benchmarks.certified                         # public and simulated matrices
    python -m benchmarks.certified --folder DATA           # and the 22 matrices of E21
    python -m benchmarks.certified --only wine --only lung --seconds 20

The layout follows benchmarks of optimisers: *data sets* are functions that return a covariance
matrix, *solvers* are functions from a matrix, K and a time limit to a value and a bound. The table
shows value, bound, gap and seconds. Add solvers to `SOLVERS`.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from prosparse import EMPCA

FILE = "sparse_pca_matrices_22.npz"


class Solution(NamedTuple):
    """Variance and its upper bound."""

    value: float
    bound: float


# --- data sets


def correlations(X: np.ndarray) -> np.ndarray:
    """Return the correlation matrix of the varying columns."""
    return np.corrcoef(X[:, X.std(axis=0) > 0].T)


def spiked(p: int, seed: int) -> np.ndarray:
    """Return the sample covariance of a spiked model with a sparse spike, n = 2 p."""
    rng = np.random.default_rng(seed)
    w = np.zeros(p)
    w[rng.choice(p, 10, replace=False)] = rng.choice([-1.0, 1.0], 10) / np.sqrt(10)
    X = rng.standard_normal((2 * p, p)) + 2.0 * rng.standard_normal((2 * p, 1)) * w
    return np.cov(X.T)


def noise(p: int, seed: int) -> np.ndarray:
    """Return correlations of noise, for which many sets are almost optimal."""
    return np.corrcoef(np.random.default_rng(seed).standard_normal((p, p)))


DATASETS: dict[str, Callable[[], np.ndarray]] = {
    "wine": lambda: correlations(load_wine().data),
    "breast cancer": lambda: correlations(load_breast_cancer().data),
    "digits": lambda: correlations(load_digits().data),
    "spiked, 100": lambda: spiked(100, 0),
    "spiked, 400": lambda: spiked(400, 0),
    "noise, 30": lambda: noise(30, 0),
    "noise, 60": lambda: noise(60, 0),
}


def datasets(folder: Path | None) -> Iterator[tuple[str, np.ndarray]]:
    """Yield names and matrices."""
    for name, make in DATASETS.items():
        yield name, make()
    if folder is not None:
        with np.load(folder / FILE) as matrices:
            for name in matrices:
                yield name, np.asarray(matrices[name], dtype=float)


# --- solvers


def solve_certified(C: np.ndarray, K: int, seconds: float) -> Solution:
    """Fit with certification."""
    model = EMPCA.from_covariance(C, n_nonzero=K, certify=True, time_limit=seconds, random_state=0)
    return Solution(float(model.explained_variance_[0]), float(model.upper_bound_[0]))


def solve_uncertified(C: np.ndarray, K: int, seconds: float) -> Solution:
    """Fit without certification."""
    model = EMPCA.from_covariance(C, n_nonzero=K, random_state=0)
    return Solution(float(model.explained_variance_[0]), float(model.upper_bound_[0]))


SOLVERS: dict[str, Callable[[np.ndarray, int, float], Solution]] = {
    "certify=True": solve_certified,
    "certify=False": solve_uncertified,
}


# --- the table


def main(options: argparse.Namespace) -> None:
    print(f"{'matrix':16} {'p':>4} {'K':>3} {'solver':14} {'value':>12} {'bound':>12}", end="")
    print(f" {'gap':>8} {'seconds':>8}")
    for name, C in datasets(options.folder):
        if options.only and name not in options.only:
            continue
        for K in options.cardinality or (5, 10, 20):
            if C.shape[0] < K:
                continue
            for solver, solve in SOLVERS.items():
                start = time.perf_counter()
                solution = solve(C, K, options.seconds)
                seconds = time.perf_counter() - start
                gap = max(0.0, 1.0 - solution.value / solution.bound)
                print(
                    f"{name:16} {C.shape[0]:4} {K:3} {solver:14} {solution.value:12.6g} "
                    f"{solution.bound:12.6g} {gap:8.2%} {seconds:8.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help=f"folder of {FILE}")
    parser.add_argument("--only", action="append", help="name of a matrix; repeatable")
    parser.add_argument(
        "--cardinality", type=int, action="append", help="cardinality K; repeatable"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit of a certificate")
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        main(parser.parse_args())
