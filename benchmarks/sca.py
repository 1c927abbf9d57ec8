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
    goals = []
    for name, fit in methods.items():
        result = fit()
        if result is None:
            print(f"{name:24s}  not installed")
            continue
        error, likelihood = held_out(result, test)
        shown = "none" if likelihood is None else f"{likelihood:.2f}"
        cells = f"{result.seconds:9.2f}{error:17.4f}{shown:>16s}{result.zeros:8.2f}"
        print(f"{name:24s}{cells}")
        if not name.startswith("SCA"):
            goals.append((name, result.seconds, error, likelihood))
    print("seconds of the shortest fit of ours that does as well on the held-out samples:")
    print(f"{'':34s}{'error of view 3':>24s}{'log-likelihood':>24s}")
    print(f"{'':24s}{'peer':>10s}" + 2 * f"{'ard':>12s}{'hyperbolic':>12s}")
    for name, seconds, error, likelihood in goals:
        times = [time_to(train, test, k, prior, error, None) for prior in PRIORS]
        times += [time_to(train, test, k, prior, None, likelihood) for prior in PRIORS]
        print(f"{name:24s}{seconds:10.2f}" + "".join(f"{t:>12s}" for t in times))


PRIORS = ("ard", "hyperbolic")


def held_out(result, test):
    """Error of view 3 from the others; log-likelihood per sample where there is one."""
    error = np.mean((result.predict(test, 2) - test[2]) ** 2)
    return error, result.log_likelihood(test) if result.log_likelihood else None


def time_to(train, test, k, prior, error, likelihood):
    """Seconds of the shortest fit that reaches the goal, among 2, 3, 4, 6, 8, 12, ... passes."""
    if error is None and likelihood is None:
        return "-"
    for passes in (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256):
        result = ours(train, k, prior=prior, max_iter=passes)
        ours_error, ours_likelihood = held_out(result, test)
        if (error is not None and ours_error <= error) or (
            likelihood is not None and ours_likelihood >= likelihood
        ):
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
