"""Compare SCA with count and binary likelihoods with Gaussian SCA and mofapy2.

    python -m benchmarks.sca_counts            # minutes, mostly mofapy2

Two views of 300 samples share four sparse factors; the second view of 300 further samples is
missing. The table shows the largest angle between true and estimated factors of all samples, in
degrees, and the deviance per missing entry. mofapy2 does not predict missing entries, so each
column is regressed on its factors with the true likelihood. The same regression is used for the
Gaussian fit if it is better than its prediction from log counts.
"""

from __future__ import annotations

import contextlib
import io
import logging
import time
import warnings

import numpy as np
from scipy.linalg import subspace_angles
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.metrics import log_loss, mean_poisson_deviance

from prosparse import SCA

WIDTHS = (80, 60)
N_FACTORS = 4
N_TRAIN, N_TEST = 300, 300


def simulate(likelihood, seed, level=0.0):
    """Simulate two views with 30 % nonzero loadings; return views and factors.

    ``level`` is the mean log expected count.
    """
    rng = np.random.default_rng(seed)
    n = N_TRAIN + N_TEST
    Z = rng.standard_normal((n, N_FACTORS))
    views = []
    for width in WIDTHS:
        W = np.where(
            rng.random((width, N_FACTORS)) < 0.3, rng.standard_normal((width, N_FACTORS)), 0
        )
        if likelihood == "poisson":
            eta = 0.6 * Z @ W.T + level + 0.7 * rng.standard_normal(width)
            views.append(rng.poisson(np.exp(eta)).astype(float))
        else:
            eta = 1.5 * Z @ W.T + rng.standard_normal(width)
            views.append((rng.random((n, width)) < expit(eta)).astype(float))
    return views, Z


def deviance(likelihood, x, mean):
    """Return the deviance per entry."""
    if likelihood == "poisson":
        return mean_poisson_deviance(x.ravel(), np.maximum(mean.ravel(), 1e-6))
    return 2.0 * log_loss(x.ravel(), np.clip(mean.ravel(), 1e-6, 1 - 1e-6))


def predict_by_regression(likelihood, Z, x):
    """Predict the missing half of a view by regressing its columns on the factors."""
    means = np.empty((N_TEST, x.shape[1]))
    for column in range(x.shape[1]):
        observed = x[:N_TRAIN, column]
        if likelihood == "poisson":
            model = PoissonRegressor(alpha=1e-3, max_iter=1000).fit(Z[:N_TRAIN], observed)
            means[:, column] = model.predict(Z[N_TRAIN:])
        elif observed.min() == observed.max():
            means[:, column] = observed[0]
        else:
            model = LogisticRegression(C=10.0, max_iter=1000).fit(Z[:N_TRAIN], observed)
            means[:, column] = model.predict_proba(Z[N_TRAIN:])[:, 1]
    return means


def mask_second_view(views):
    """Set the test rows of the second view to missing."""
    masked = views[1].copy()
    masked[N_TRAIN:] = np.nan
    return [views[0], masked]


def fit_sca(views, likelihood):
    """Fit SCA with the true likelihood."""
    train = [x[:N_TRAIN] for x in views]
    model = SCA(N_FACTORS, likelihood=likelihood, tol=1e-7).fit(train)
    Z = model.transform(mask_second_view(views))
    return Z, [model.predict_view([views[0][N_TRAIN:], None], 1).mean]


def fit_gaussian(views, likelihood):
    """Fit SCA to log counts or binary values."""
    scale = np.log1p if likelihood == "poisson" else np.asarray
    logs = [scale(x) for x in views]
    model = SCA(N_FACTORS, tol=1e-7).fit([x[:N_TRAIN] for x in logs])
    Z = model.transform(mask_second_view(logs))
    prediction = model.predict_view([logs[0][N_TRAIN:], None], 1)
    mean = (
        np.expm1(prediction.mean + 0.5 * prediction.variance)
        if likelihood == "poisson"
        else prediction.mean
    )
    return Z, [mean, predict_by_regression(likelihood, Z, views[1])]


def fit_mofapy2(views, likelihood):
    """Fit mofapy2, if installed."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            from mofapy2.run.entry_point import entry_point
    except ImportError:
        return None
    logging.disable(logging.WARNING)
    with contextlib.redirect_stdout(io.StringIO()):
        run = entry_point()
        run.set_data_options(scale_views=False, center_groups=True)
        run.set_data_matrix([[x] for x in mask_second_view(views)], likelihoods=[likelihood] * 2)
        run.set_model_options(factors=N_FACTORS, spikeslab_weights=True, ard_weights=True)
        run.set_train_options(convergence_mode="medium", seed=1, quiet=True, dropR2=None)
        run.build()
        run.run()
    logging.disable(logging.NOTSET)
    Z = np.asarray(run.model.nodes["Z"].getExpectation())
    return Z, [predict_by_regression(likelihood, Z, views[1])]


METHODS = {"SCA": fit_sca, "SCA, Gaussian": fit_gaussian, "mofapy2": fit_mofapy2}


def compare(likelihood, seed, level=0.0):
    """Return angle in degrees, deviance and processor seconds by method."""
    views, Z = simulate(likelihood, seed, level)
    results = {}
    for name, method in METHODS.items():
        start = time.process_time()
        result = method(views, likelihood)
        if result is None:
            print(f"{name}: not installed")
            continue
        factors, means = result
        angle = np.degrees(subspace_angles(Z - Z.mean(axis=0), factors - factors.mean(axis=0)))
        deviances = [deviance(likelihood, views[1][N_TRAIN:], mean) for mean in means]
        results[name] = angle.max(), min(deviances), time.process_time() - start
    return results


def main():
    for likelihood, level in (("poisson", 0.0), ("poisson", 2.0), ("bernoulli", 0.0)):
        rows = [compare(likelihood, seed, level) for seed in range(3)]
        mean = f", counts around {np.exp(level):.0f}" if likelihood == "poisson" else ""
        print(f"{likelihood}{mean}: largest angle, deviance per entry, seconds; seeds 0, 1, 2")
        for name in rows[0]:
            parts = [
                "{:5.1f} {:7.4f} {:5.1f}".format(*(float(v) for v in row[name])) for row in rows
            ]
            print(f"{name:24s}" + "   ".join(parts))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
