"""SCA on views of counts and of 0 and 1, beside SCA on Gaussian views and mofapy2.

    python -m benchmarks.sca_counts            # some minutes, most of them mofapy2's

Two views of 300 samples share four sparse latents; the second view of 300 more samples is missing.
What counts is the largest angle between the true and the found latents of all samples, in
degrees, and the deviance of the missing entries per entry. mofapy2 has no means of its own for
entries that are missing, so its latents are regressed on, column by column, with the right
likelihood; so are those of the Gaussian fit, where that is better than its own prediction from the
logarithms of the counts.
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
LATENTS = 4
TRAINED, HELD_OUT = 300, 300


def simulated(likelihood, seed, level=0.0):
    """(views, latents): two views with 30 % nonzero weights. ``level`` is the mean of the logs of
    the expected counts."""
    rng = np.random.default_rng(seed)
    n = TRAINED + HELD_OUT
    Z = rng.standard_normal((n, LATENTS))
    views = []
    for width in WIDTHS:
        W = np.where(rng.random((width, LATENTS)) < 0.3, rng.standard_normal((width, LATENTS)), 0)
        if likelihood == "poisson":
            eta = 0.6 * Z @ W.T + level + 0.7 * rng.standard_normal(width)
            views.append(rng.poisson(np.exp(eta)).astype(float))
        else:
            eta = 1.5 * Z @ W.T + rng.standard_normal(width)
            views.append((rng.random((n, width)) < expit(eta)).astype(float))
    return views, Z


def deviance(likelihood, x, mean):
    """Per entry."""
    if likelihood == "poisson":
        return mean_poisson_deviance(x.ravel(), np.maximum(mean.ravel(), 1e-6))
    return 2.0 * log_loss(x.ravel(), np.clip(mean.ravel(), 1e-6, 1 - 1e-6))


def regressed(likelihood, Z, x):
    """The missing half of a view by regressions of its columns on latents."""
    means = np.empty((HELD_OUT, x.shape[1]))
    for column in range(x.shape[1]):
        seen = x[:TRAINED, column]
        if likelihood == "poisson":
            model = PoissonRegressor(alpha=1e-3, max_iter=1000).fit(Z[:TRAINED], seen)
            means[:, column] = model.predict(Z[TRAINED:])
        elif seen.min() == seen.max():
            means[:, column] = seen[0]
        else:
            model = LogisticRegression(C=10.0, max_iter=1000).fit(Z[:TRAINED], seen)
            means[:, column] = model.predict_proba(Z[TRAINED:])[:, 1]
    return means


def with_gap(views):
    gap = views[1].copy()
    gap[TRAINED:] = np.nan
    return [views[0], gap]


def ours(views, likelihood):
    train = [x[:TRAINED] for x in views]
    model = SCA(LATENTS, likelihood=likelihood, tol=1e-7).fit(train)
    Z = model.transform(with_gap(views))
    return Z, [model.predict_view([views[0][TRAINED:], None], 1).mean]


def gaussian(views, likelihood):
    scale = np.log1p if likelihood == "poisson" else np.asarray
    logs = [scale(x) for x in views]
    model = SCA(LATENTS, tol=1e-7).fit([x[:TRAINED] for x in logs])
    Z = model.transform(with_gap(logs))
    guess = model.predict_view([logs[0][TRAINED:], None], 1)
    own = np.expm1(guess.mean + 0.5 * guess.variance) if likelihood == "poisson" else guess.mean
    return Z, [own, regressed(likelihood, Z, views[1])]


def mofapy2(views, likelihood):
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            from mofapy2.run.entry_point import entry_point
    except ImportError:
        return None
    logging.disable(logging.WARNING)
    with contextlib.redirect_stdout(io.StringIO()):
        run = entry_point()
        run.set_data_options(scale_views=False, center_groups=True)
        run.set_data_matrix([[x] for x in with_gap(views)], likelihoods=[likelihood] * 2)
        run.set_model_options(factors=LATENTS, spikeslab_weights=True, ard_weights=True)
        run.set_train_options(convergence_mode="medium", seed=1, quiet=True, dropR2=None)
        run.build()
        run.run()
    logging.disable(logging.NOTSET)
    Z = np.asarray(run.model.nodes["Z"].getExpectation())
    return Z, [regressed(likelihood, Z, views[1])]


METHODS = {"SCA": ours, "SCA, Gaussian views": gaussian, "mofapy2": mofapy2}


def compared(likelihood, seed, level=0.0):
    """Method -> (angle in degrees, deviance, seconds of the processor)."""
    views, Z = simulated(likelihood, seed, level)
    found = {}
    for name, method in METHODS.items():
        start = time.process_time()
        result = method(views, likelihood)
        if result is None:
            print(f"{name}: not installed")
            continue
        latents, means = result
        angle = np.degrees(subspace_angles(Z - Z.mean(axis=0), latents - latents.mean(axis=0)))
        deviances = [deviance(likelihood, views[1][TRAINED:], mean) for mean in means]
        found[name] = angle.max(), min(deviances), time.process_time() - start
    return found


def main():
    for likelihood, level in (("poisson", 0.0), ("poisson", 2.0), ("bernoulli", 0.0)):
        rows = [compared(likelihood, seed, level) for seed in range(3)]
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
