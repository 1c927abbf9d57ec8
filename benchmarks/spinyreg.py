"""Compare SpinyRegressor with competing methods on one thread: python -m benchmarks.spinyreg

1. ARDRegression of scikit-learn at several shapes: time (shortest of several fits) and F-score.
2. LassoCV of scikit-learn at 200 x 10,000.

``--grid 2`` instead runs two datasets per cell of the experiment E22 (`python -m papers E22` uses
40), with ``--jobs`` processes.

``--quick`` omits the shapes at which ARDRegression takes many seconds.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from joblib import parallel_config
from sklearn.linear_model import ARDRegression, LassoCV
from threadpoolctl import threadpool_limits

from papers import regression_grid
from prosparse import SpinyRegressor
from prosparse.datasets import make_sparse_regression
from prosparse.metrics import support_f_score

# samples, variables, true variables
SHAPES = [
    (30, 3, 1),
    (100, 8, 3),
    (100, 8, 8),
    (20, 20, 3),
    (20, 100, 3),
    (100, 20, 5),
    (1000, 5, 3),
    (10_000, 20, 5),
    (1000, 50, 40),
    (200, 50, 5),
    (1000, 50, 10),
    (442, 64, 8),
    (50, 100, 10),
    (100, 200, 20),
    (2000, 200, 20),
    (200, 1000, 10),
    (1000, 1000, 20),
]
SLOW = [(200, 3000, 10)]


def best_time(fit: Callable[[], Any], seconds: float) -> tuple[float, Any]:
    """Return the shortest time of repeated fits within ``seconds``, and the last result."""
    best, begin = np.inf, time.perf_counter()
    while True:
        start = time.perf_counter()
        result = fit()
        now = time.perf_counter()
        best = min(best, now - start)
        if now - begin > seconds:
            return best, result


def compare_with_ard(shapes: list[tuple[int, int, int]], seeds: int) -> None:
    """Print times and F-scores of SpinyRegressor and ARDRegression."""
    print(f"{'':18s}{'seconds':>22s}{'times':>9s}{'F-score':>18s}")
    print(f"{'shape':18s}{'Spiny':>11s}{'ARD':>11s}{'faster':>9s}{'Spiny':>9s}{'ARD':>9s}")
    for n, p, q in shapes:
        ratios, rows = [], []
        for seed in range(seeds):
            X, y, coef = make_sparse_regression(n, p, n_informative=q, random_state=seed)
            ours, model = best_time(lambda: SpinyRegressor().fit(X, y), 0.3)  # noqa: B023
            ard, other = best_time(lambda: ARDRegression().fit(X, y), 0.3)  # noqa: B023
            supports = (model.support_, other.coef_ != 0)
            scores = [support_f_score(coef != 0, each) for each in supports]
            ratios.append(ard / ours)
            rows.append((ours, ard, *scores))
        ours, ard, score, other_score = np.mean(rows, axis=0)
        name = f"{n} x {p}, {q}"
        times = f"{ours:11.4f}{ard:11.4f}{np.median(ratios):9.2f}"
        print(f"{name:18s}{times}{score:9.3f}{other_score:9.3f}", flush=True)


def compare_with_lasso() -> None:
    """Print times, sizes and F-scores of SpinyRegressor and LassoCV."""
    print("\n200 x 10,000           seconds   variables   F-score")
    for q, correlation in ((10, 0.0), (20, 0.7), (0, 0.0)):
        X, y, coef = make_sparse_regression(
            200, 10_000, n_informative=q, correlation=correlation, random_state=0
        )
        ours, model = best_time(lambda: SpinyRegressor().fit(X, y), 2.0)  # noqa: B023
        lasso, other = best_time(lambda: LassoCV().fit(X, y), 0.0)  # noqa: B023
        print(f"{q} true, correlation {correlation:g}")
        for name, seconds, selected in (
            ("SpinyRegressor", ours, model.support_),
            ("LassoCV", lasso, other.coef_ != 0),
        ):
            score = support_f_score(coef != 0, selected)
            print(f"  {name:18s}{seconds:9.3f}{selected.sum():12d}{score:10.3f}")
        print(f"  ratio of times {ours / lasso:.2f}", flush=True)


def run_grid(n_datasets: int, jobs: int) -> None:
    """Print errors of all cells of E22, means of its settings, and its claims."""
    with parallel_config(n_jobs=jobs):
        evaluations = regression_grid.grid(regression_grid.ALL_CELLS, n_datasets, {})
    averages = regression_grid.average(evaluations)
    names = tuple(evaluations[0].scores)
    print(f"{'relative test error':48s}" + "".join(f"{name:>20s}" for name in names))
    for (design, setting, snr), errors in averages.error.items():
        cell = f"{design}, {setting}, SNR {snr:.2g}"
        print(f"{cell:48s}" + "".join(f"{errors[name]:20.3f}" for name in names))
    print()
    rows = regression_grid.setting_rows(evaluations)
    for row in rows + regression_grid.uncertainty_rows(evaluations, averages):
        print(f"{row.quantity:72s}{row.ours:8.3f}  {row.note}")
    print()
    for claim in regression_grid.make_claims(averages):
        print(f"{'holds' if claim.holds else 'does not hold'}: {claim.text} ({claim.note})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--grid", type=int, metavar="N", help="run E22 with N datasets per cell")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes for --grid")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # Convergence and missing structure are expected.
    if options.grid:
        run_grid(options.grid, options.jobs)
    else:
        with threadpool_limits(1):
            compare_with_ard(SHAPES if options.quick else SHAPES + SLOW, options.seeds)
            compare_with_lasso()
