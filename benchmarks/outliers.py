"""SpinyRegressor with outliers in the response: python -m benchmarks.outliers

Five per cent of the responses have errors of 20 to 60; the noise has standard deviation 2. The
table shows the root mean squared error of the predicted means of test rows and the F-score of the
selection, compared with HuberRegressor and LassoCV of scikit-learn. Runs without outliers show the
cost of Student's noise.
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
OUTLIER_PROPORTIONS = [0.0, 0.05]
MODELS = {
    "student": lambda: SpinyRegressor(noise="student"),
    "gaussian": SpinyRegressor,
    "Huber": lambda: HuberRegressor(max_iter=1000),
    "LassoCV": LassoCV,
}
N_TEST = 2000


def scores(
    n: int, p: int, correlation: float, proportion: float, seed: int
) -> list[tuple[float, float]]:
    """Return error and F-score of each model."""
    X, y, coef = make_sparse_regression(
        n + N_TEST, p, n_informative=5, correlation=correlation, noise=2.0, random_state=seed
    )
    rng = np.random.default_rng(seed)
    y, test, outliers = y[:n].copy(), X[n:], rng.permutation(n)[: round(proportion * n)]
    n_outliers = outliers.size
    y[outliers] += rng.choice([-1.0, 1.0], n_outliers) * rng.uniform(20.0, 60.0, n_outliers)
    results = []
    for make in MODELS.values():
        model = make().fit(X[:n], y)
        error = float(np.sqrt(np.mean((model.predict(test) - test @ coef) ** 2)))
        selected = model.support_ if hasattr(model, "support_") else model.coef_ != 0
        results.append((error, support_f_score(coef != 0, selected)))
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", type=int, default=20)
    parser.add_argument(
        "--first", type=int, default=1000, help="first seed; smaller seeds were used in development"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # Convergence and missing structure are expected.
    print(f"{'':34s}" + "".join(f"{name:>16s}" for name in MODELS))
    print(f"{'n x p, correlation, outliers':34s}" + f"{'error':>11s}{'F':>5s}" * len(MODELS))
    with threadpool_limits(1):
        for n, p, correlation in SHAPES:
            for proportion in OUTLIER_PROPORTIONS:
                seeds = range(options.first, options.first + options.datasets)
                all_scores = [scores(n, p, correlation, proportion, seed) for seed in seeds]
                label = f"{n} x {p}, {correlation:g}, {proportion:.0%}"
                row = "".join(f"{e:11.2f}{f:5.2f}" for e, f in np.mean(all_scores, axis=0))
                print(f"{label:34s}{row}", flush=True)
