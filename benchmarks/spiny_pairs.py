"""Suppressor variables in SpinyRegressor: python -m benchmarks.spiny_pairs

The response is the difference of two columns with correlation 0.95, plus noise; there are more
columns than rows. The table shows how often SpinyRegressor selects both, with and without the
search over correlated pairs.
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
RATIOS = (0.5, 1.0, 3.0)  # signal-to-noise ratios
CORRELATION = 0.95


def simulate_suppressors(n: int, p: int, ratio: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Simulate data whose first two columns predict the response only jointly."""
    rng = np.random.default_rng([seed, n, p, int(100 * ratio)])
    X = rng.standard_normal((n, p))
    X[:, 1] = CORRELATION * X[:, 0] + np.sqrt(1 - CORRELATION**2) * X[:, 1]
    signal = np.sqrt(ratio / (2 * (1 - CORRELATION))) * (X[:, 0] - X[:, 1])
    return X, signal + rng.standard_normal(n)


def count_selected(p: int, ratio: float, n_datasets: int) -> tuple[int, float]:
    """Count the datasets with both variables selected; return also the seconds per fit."""
    both, start = 0, time.process_time()
    for seed in range(n_datasets):
        X, y = simulate_suppressors(ROWS, p, ratio, seed)
        model = SpinyRegressor(selection_rule="map", average=False).fit(X, y)
        both += bool(model.support_[:2].all())
    return both, (time.process_time() - start) / n_datasets


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", type=int, default=20)
    n_datasets = parser.parse_args().datasets
    warnings.simplefilter("ignore")  # Some datasets have no detectable signal.
    default = suppressors.MIN_PAIR_CORRELATION
    print(f"both selected, of {n_datasets} datasets{'without pairs':>19s}{'with pairs':>22s}")
    with threadpool_limits(1):
        for p in COLUMNS:
            for ratio in RATIOS:
                line = f"{ROWS} x {p}, SNR {ratio:g}"
                print(f"{line:32s}", end="")
                for suppressors.MIN_PAIR_CORRELATION in (np.inf, default):
                    both, seconds = count_selected(p, ratio, n_datasets)
                    print(f"{both:10d} ({seconds:.3f} s)", end="")
                print(flush=True)
