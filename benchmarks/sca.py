"""SCA beside mofapy2 and cca-zoo on the same views, in one run.

    python benchmarks/sca.py            # some minutes, most of them mofapy2's

Three views of 300 training samples with eight shared sparse latents; what counts is the error of
predicting the third view of 500 new samples from the first two, and their log-likelihood. Peers
that are not installed are left out and named. Then the time of a large table of ours alone.
"""

from __future__ import annotations

import time
import warnings

import numpy as np

from prosparse import SCA
from prosparse.experiments.peers import cca_zoo, mofa, ours

WIDTHS = (400, 300, 200)


def simulated(n_train=300, n_test=500, k=8, seed=0):
    """Views with 10 % nonzero weights and noise of different strength."""
    rng = np.random.default_rng(seed)
    n = n_train + n_test
    Z = rng.standard_normal((n, k))
    weights, views = [], []
    for width, noise in zip(WIDTHS, (1.0, 0.7, 0.5), strict=True):
        W = np.where(rng.random((width, k)) < 0.1, rng.standard_normal((width, k)), 0.0)
        weights.append(W)
        views.append(Z @ W.T + noise * rng.standard_normal((n, width)))
    return [x[:n_train] for x in views], [x[n_train:] for x in views], weights


def beside_peers():
    train, test, weights = simulated()
    k = 8
    methods = {
        "SCA ard": lambda: ours(train, k),
        "SCA hyperbolic": lambda: ours(train, k, prior="hyperbolic"),
        "mofapy2 spike and slab": lambda: mofa(train, k, True),
        "mofapy2 ard": lambda: mofa(train, k, False),
        "cca-zoo PMDCCA": lambda: cca_zoo(train, k, l1_bound=0.3),
    }
    print(f"views of {WIDTHS} columns, 300 samples, {k} latents; 500 samples held out")
    truth = np.mean(np.vstack(weights) == 0)
    print(f"true share of zero weights {truth:.2f}; noise of view 3 has variance 0.25")
    print(f"{'':24s}{'seconds':>9s}{'error of view 3':>17s}{'log-likelihood':>16s}{'zeros':>8s}")
    to_beat = {}
    for name, fit in methods.items():
        result = fit()
        if result is None:
            print(f"{name:24s}  not installed")
            continue
        error = np.mean((result.predict(test, 2) - test[2]) ** 2)
        likelihood = f"{result.log_likelihood(test):.2f}" if result.log_likelihood else "none"
        cells = f"{result.seconds:9.2f}{error:17.4f}{likelihood:>16s}{result.zeros:8.2f}"
        print(f"{name:24s}{cells}")
        if not name.startswith("SCA"):
            to_beat[name] = (result.seconds, error)
    print("seconds until ours predicts view 3 as well (passes stopped as soon as it does):")
    for name, (seconds, error) in to_beat.items():
        print(f"  {name:24s}{seconds:8.2f}", end="")
        for prior in ("ard", "hyperbolic"):
            print(f"   SCA {prior} {time_to(train, test, k, prior, error)}", end="")
        print()


def time_to(train, test, k, prior, error):
    """Seconds of the shortest fit whose error is no larger, among 2, 3, 4, 6, 8, 12, ... passes."""
    for passes in (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256):
        result = ours(train, k, prior=prior, max_iter=passes)
        if np.mean((result.predict(test, 2) - test[2]) ** 2) <= error:
            return f"{result.seconds:.2f}"
    return "never"


def large():
    rng = np.random.default_rng(0)
    n, p, k = 200, 20000, 20
    W = np.where(rng.random((p, k)) < 0.05, rng.standard_normal((p, k)), 0.0)
    X = rng.standard_normal((n, k)) @ W.T + rng.standard_normal((n, p))
    for prior in ("ard", "hyperbolic"):
        start = time.perf_counter()
        model = SCA(k, prior=prior).fit(X)
        seconds = time.perf_counter() - start
        zeros = np.mean(model.components_ == 0)
        print(f"{n} x {p}, {k} latents, {prior}: {seconds:.1f} s,", end=" ")
        print(f"{model.n_iter_} passes, {zeros:.2f} of the weights zero (true 0.95)")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    beside_peers()
    large()
