"""SpinyRegressor with gross errors in the response: python -m benchmarks.outliers

Five per cent of the responses are off by 20 to 60, where the noise has a deviation of 2: error of
the coefficients (root mean square of what predictions of new rows are off by, noise aside) and
F-score of the variables, beside scikit-learn's HuberRegressor and LassoCV. Without gross errors,
what Student's noise costs.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from sklearn.linear_model import HuberRegressor, LassoCV
from threadpoolctl import threadpool_limits

from prosparse import SpinyRegressor
from prosparse.datasets import make_sparse_regression
from prosparse.metrics import support_f_score

SHAPES = [(100, 10, 0.0), (100, 50, 0.5), (200, 500, 0.5)]  # rows, columns, correlation
SHARES = [0.0, 0.05]
MODELS = {
    "student": lambda: SpinyRegressor(noise="student"),
    "gaussian": SpinyRegressor,
    "Huber": lambda: HuberRegressor(max_iter=1000),
    "LassoCV": LassoCV,
}
NEW_ROWS = 2000


def scores(
    n: int, p: int, correlation: float, share: float, seed: int
) -> list[tuple[float, float]]:
    """Error and F-score of every model."""
    X, y, coef = make_sparse_regression(
        n + NEW_ROWS, p, n_informative=5, correlation=correlation, noise=2.0, random_state=seed
    )
    rng = np.random.default_rng(seed)
    y, new, bad = y[:n].copy(), X[n:], rng.permutation(n)[: round(share * n)]
    y[bad] += rng.choice([-1.0, 1.0], bad.size) * rng.uniform(20.0, 60.0, bad.size)
    found = []
    for make in MODELS.values():
        model = make().fit(X[:n], y)
        off = float(np.sqrt(np.mean((model.predict(new) - new @ coef) ** 2)))
        found.append((off, support_f_score(coef != 0, model.support_)))
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--first", type=int, default=1000, help="seed; below 1000 were looked at")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of pure noise, and of iterations
    print(f"{'':34s}" + "".join(f"{name:>16s}" for name in MODELS))
    print(f"{'n x p, correlation, gross errors':34s}" + f"{'error':>11s}{'F':>5s}" * len(MODELS))
    with threadpool_limits(1):
        for n, p, correlation in SHAPES:
            for share in SHARES:
                seeds = range(options.first, options.first + options.draws)
                all_draws = [scores(n, p, correlation, share, seed) for seed in seeds]
                label = f"{n} x {p}, {correlation:g}, {share:.0%}"
                row = "".join(f"{e:11.2f}{f:5.2f}" for e, f in np.mean(all_draws, axis=0))
                print(f"{label:34s}{row}", flush=True)
