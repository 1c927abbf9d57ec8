"""Compare EMPCA with competing methods on one thread: python -m benchmarks.empca

1. SparsePCA of scikit-learn, 200 x 5000, 5 components.
2. SparsePCA of abess at equal cardinality, n > p (with n < p it returns all ones).
3. Time of EMPCA against the number of nonzeros.

``--quick`` omits the default solver of scikit-learn (lars), which takes minutes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.decomposition import SparsePCA
from threadpoolctl import threadpool_limits

from prosparse import EMPCA
from prosparse.metrics import adjusted_explained_variance, cardinality


def simulate_factors(n: int, p: int, density: float, seed: int) -> np.ndarray:
    """Simulate five factors with sparse random loadings."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((5, p)) * (rng.random((5, p)) < density)
    return 2.0 * rng.standard_normal((n, 5)) @ W + rng.standard_normal((n, p))


def time_fit(fit: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Return the shortest time of several runs and the last result."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = fit()
        times.append(time.perf_counter() - start)
    return min(times), result


def compare_with_scikit_learn(quick: bool) -> None:
    """Compare with SparsePCA of scikit-learn."""
    X = simulate_factors(200, 5000, 0.05, 0)
    print("\n200 x 5000, 5 components          seconds   nonzeros each      explained variance")

    def show(name: str, seconds: float, components: np.ndarray) -> None:
        explained = adjusted_explained_variance(X, components).sum()
        sizes = cardinality(components)
        print(f"{name:30} {seconds:10.2f}   {sizes.min():5} to {sizes.max():5}   {explained:12.4f}")

    K = 250
    ours, model = time_fit(lambda: EMPCA(5, n_nonzero=K, random_state=0).fit(X), 5)
    show(f"EMPCA, {K} nonzeros", ours, model.components_)
    for method in ("cd",) if quick else ("cd", "lars"):
        other = SparsePCA(5, method=method, random_state=0)
        seconds, other = time_fit(lambda other=other: other.fit(X), 2 if method == "cd" else 1)
        show(f"scikit-learn SparsePCA, {method}", seconds, other.components_)
        sizes = cardinality(other.components_).tolist()
        equal, model = time_fit(lambda: EMPCA(5, n_nonzero=sizes, random_state=0).fit(X), 5)  # noqa: B023
        show("EMPCA, the same nonzeros", equal, model.components_)
        print(f"    {seconds / ours:.1f} and {seconds / equal:.1f} times faster")


def compare_with_abess() -> None:
    """Compare with SparsePCA of abess at equal cardinality."""
    try:
        from abess import SparsePCA as AbessPCA
    except ImportError:
        print("\nomitted because not installed: abess")
        return
    print("\n                        abess               EMPCA             EMPCA, n_restarts=0")
    print("   n     p    K    seconds  variance    seconds  variance    seconds  variance")
    for n, p in ((500, 50), (1000, 100), (2000, 300), (2000, 1000), (3000, 2000)):
        X = simulate_factors(n, p, 0.1, 1)
        centred = X - X.mean(axis=0)
        for K in (10, 50):
            seconds, other = time_fit(lambda: AbessPCA(support_size=K).fit(X), 9)  # noqa: B023
            w = np.ravel(other.coef_)
            variance = np.var(centred @ w / np.linalg.norm(w), ddof=1)
            assert np.count_nonzero(w) == K
            row = f"{n:5} {p:5} {K:4} {seconds:10.3f} {variance:9.2f}"
            for restarts in (5, 0):
                model = EMPCA(n_nonzero=K, n_restarts=restarts, random_state=0)
                seconds, model = time_fit(lambda: model.fit(X), 3)  # noqa: B023
                row += f" {seconds:10.3f} {model.explained_variance_[0]:9.2f}"
            print(row)


def time_by_cardinality() -> None:
    """Print the time of EMPCA by number of nonzeros."""
    X = simulate_factors(72, 12582, 0.05, 2)
    print("\n72 x 12582, one component: seconds against the number of nonzeros")
    for K in (5, 10, 20, 50, 100, 200, 500, 1000, 5000):
        row = f"{K:6}"
        for nonnegative in (False, True):
            model = EMPCA(n_nonzero=K, nonnegative=nonnegative, random_state=0)
            seconds, model = time_fit(lambda: model.fit(X), 3)  # noqa: B023
            sign = "non-negative" if nonnegative else "unrestricted"
            row += f"   {sign}: {seconds:6.2f} (gap {model.optimality_gap_[0]:.3f})"
        print(row)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    with threadpool_limits(1):
        time_by_cardinality()
        compare_with_abess()
        compare_with_scikit_learn(options.quick)
