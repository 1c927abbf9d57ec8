"""Two variables that help only together, found or not: python -m benchmarks.spiny_pairs

The response is the difference of two columns that are correlated by 0.95, and noise; there are more
columns than rows. How often SpinyRegressor finds both, with its look at pairs of correlated
variables and without.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from threadpoolctl import threadpool_limits

from prosparse import SpinyRegressor
from prosparse.models.spinyreg import suppressors

ROWS = 100
COLUMNS = (200, 1000)
RATIOS = (0.5, 1.0, 3.0)  # variance of the signal over that of the noise
CORRELATION = 0.95


def cancelling(n: int, p: int, ratio: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A table whose first two columns predict the response together."""
    rng = np.random.default_rng([seed, n, p, int(100 * ratio)])
    X = rng.standard_normal((n, p))
    X[:, 1] = CORRELATION * X[:, 0] + np.sqrt(1 - CORRELATION**2) * X[:, 1]
    signal = np.sqrt(ratio / (2 * (1 - CORRELATION))) * (X[:, 0] - X[:, 1])
    return X, signal + rng.standard_normal(n)


def found(p: int, ratio: float, tables: int) -> tuple[int, float]:
    """In how many tables both are found, and seconds a fit."""
    both, start = 0, time.process_time()
    for seed in range(tables):
        X, y = cancelling(ROWS, p, ratio, seed)
        model = SpinyRegressor(selection_rule="map", average=False).fit(X, y)
        both += bool(model.support_[:2].all())
    return both, (time.process_time() - start) / tables


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=20)
    tables = parser.parse_args().tables
    warnings.simplefilter("ignore")  # nothing found
    least = suppressors.MIN_PAIR_CORRELATION
    print(f"both found, of {tables} tables{'without pairs':>24s}{'with them':>22s}")
    with threadpool_limits(1):
        for p in COLUMNS:
            for ratio in RATIOS:
                line = f"{ROWS} x {p}, ratio {ratio:g}"
                print(f"{line:32s}", end="")
                for suppressors.MIN_PAIR_CORRELATION in (np.inf, least):
                    both, seconds = found(p, ratio, tables)
                    print(f"{both:10d} ({seconds:.3f} s)", end="")
                print(flush=True)
