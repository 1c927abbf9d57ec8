"""GSPPCA beside bare products, thin SVDs and plain VEM, in one run.

    python -m benchmarks.gsppca            # a minute or two

Times are the best of several, on the threads BLAS takes by default; what counts are the ratios.
Golub's table is read from the folder PROSPARSE_DATA; without it a simulated 38 x 3051 table
stands in.
"""

from __future__ import annotations

import os
import time
import tracemalloc
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info

from prosparse import GSPPCA
from prosparse.data import DenseOperator
from prosparse.datasets import make_globally_sparse
from prosparse.inference.loop import iterate
from prosparse.models.gsppca.factors import make_factor_step, over_factors, to_factor_state
from prosparse.models.gsppca.model import init
from prosparse.numerics.spectrum import spectrum


def best(f, repeats=7):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return min(times)


def golub():
    folder = os.environ.get("PROSPARSE_DATA")
    path = Path(folder or ".") / "golub_leukemia_38x3051.npz"
    if path.exists():
        return "Golub 38 x 3051", np.load(path)["X"].astype(float)
    data = make_globally_sparse(38, 3051, n_components=30, n_informative=800, random_state=0)
    return "simulated 38 x 3051", data.X


class PlainVEM:
    """[MBL16] as printed (misprints mended): u and alpha, one re-estimation each per pass."""

    def __init__(self, X, d):
        self.X, self.d = X, d
        n, p = X.shape
        _, s, Vt = np.linalg.svd(X, full_matrices=False)
        self.sigma2 = max(np.sum(s[d:] ** 2) / n / (p - d), 1e-3 * np.sum(s**2) / n / p)
        self.u, self.alpha2 = np.ones(p), d / X.var()
        self.M = Vt[:d].T * np.sqrt(np.maximum(s[:d] ** 2 / n - self.sigma2, 1e-3 * self.sigma2))
        self.S_sum = np.zeros((d, d))

    def step(self):
        X, d, c = self.X, self.d, 1 / self.sigma2
        n, p = X.shape
        U = self.u[:, None]
        Sigma = np.linalg.inv(np.eye(d) + c * ((U * self.M).T @ (U * self.M) + self.S_sum))
        mu = c * X @ (U * self.M) @ Sigma
        A = n * Sigma + mu.T @ mu
        a, Q = np.linalg.eigh(A)
        G = X.T @ mu @ Q
        S = 1 / (self.alpha2 + c * self.u[:, None] ** 2 * a)
        m = c * U * S * G
        second = S + m**2
        linear, square = np.sum(m * G, axis=1), second @ a
        residual = np.sum(X**2) - 2 * self.u @ linear + self.u**2 @ square
        kl_Y = n * np.trace(Sigma) + np.sum(mu**2) - n * d - n * np.linalg.slogdet(Sigma)[1]
        kl_W = np.sum(self.alpha2 * second - 1 - np.log(self.alpha2 * S))
        bound = -0.5 * n * p * np.log(2 * np.pi / c) - 0.5 * (c * residual + kl_Y + kl_W)
        self.M = m @ Q.T
        self.u = np.clip(linear / square, 0, 1)
        self.S_sum = (Q * (self.u**2 @ S)) @ Q.T
        self.alpha2 = d * p / np.sum(second)
        self.sigma2 = (np.sum(X**2) - 2 * self.u @ linear + self.u**2 @ square) / (n * p)
        return bound


def trajectory(X, d, accelerated, passes):
    op = DenseOperator(X)
    start = to_factor_state(init(spectrum(op), d), op)
    run = iterate(
        make_factor_step(op, X.shape[0]),
        start,
        max_iter=passes,
        tol=0.0,
        accelerator=over_factors(start, op.xp) if accelerated else None,
    )
    return np.array(run.bounds)


def passes_within(bounds, limit, tolerance=1e-6):
    inside = np.flatnonzero(bounds >= limit - tolerance * abs(limit))
    return str(inside[0] + 1) if inside.size else f"> {bounds.size}"


def iteration_against_products():
    X, _, _ = make_globally_sparse(1000, 5000, n_components=20, n_informative=200, random_state=0)
    X -= X.mean(axis=0)
    op = DenseOperator(X)
    step, state = make_factor_step(op, 1000), to_factor_state(init(spectrum(op), 20), op)
    for _ in range(3):
        state = step(state)
    F = np.ascontiguousarray(spectrum(op).directions(20))
    step(state), X.T @ (X @ F)
    rounds = [(best(lambda: step(state), 5), best(lambda: X.T @ (X @ F), 5)) for _ in range(4)]
    ours, products = (min(times) for times in zip(*rounds, strict=True))
    print(f"1000 x 5000, d = 20: one iteration {1e3 * ours:.1f} ms,")
    print(f"  the two products X F and X'Y {1e3 * products:.1f} ms: ratio {ours / products:.2f}")


def whole_fit_against_svd():
    name, X = golub()
    centred = X - X.mean(axis=0)
    model = GSPPCA(n_components=30).fit(X)
    rounds = [
        (
            best(lambda: GSPPCA(n_components=30).fit(X), 3),
            best(lambda: np.linalg.svd(centred, full_matrices=False), 10),
        )
        for _ in range(8)
    ]
    ours, svd = (min(times) for times in zip(*rounds, strict=True))
    ratios = sorted(fit / thin for fit, thin in rounds)
    print(f"{name}, d = 30: whole fit {ours:.3f} s ({model.n_iter_} passes and the evidence of")
    print(f"  {model.cardinalities_.size} cardinalities), thin SVD {1e3 * svd:.2f} ms:", end=" ")
    print(f"ratio {ours / svd:.1f}, in single rounds {ratios[0]:.1f} to {ratios[-1]:.1f};")
    print(f"  the authors' R program: 117 s, {117 / ours:.0f} times as long")


def passes_to_the_limit():
    name, X = golub()
    X = X - X.mean(axis=0)
    intro = make_globally_sparse(
        50, 500, n_components=5, n_informative=20, noise=1.0, random_state=0
    ).X
    cases = [("50 x 500, d = 5", intro - intro.mean(axis=0), 5)]
    cases += [(f"{name}, d = {d}", X, d) for d in (10, 30)]
    print("passes over the data until the bound is within 1e-6 (relative) of its limit:")
    print(f"  {'':26s}{'ours':>10s}{'not accelerated':>18s}{'plain VEM':>12s}")
    for label, table, d in cases:
        ours, slow = trajectory(table, d, True, 500), trajectory(table, d, False, 1500)
        plain = PlainVEM(table, d)
        bounds = np.array([plain.step() for _ in range(1500)])
        limit = max(ours.max(), slow.max(), bounds.max())
        cells = [passes_within(b, limit) for b in (ours, slow, bounds)]
        print(f"  {label:26s}{cells[0]:>10s}{cells[1]:>18s}{cells[2]:>12s}")


def peak_memory():
    X, _, _ = make_globally_sparse(1000, 5000, n_components=20, n_informative=200, random_state=0)
    tracemalloc.start()
    GSPPCA(n_components=20).fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(
        f"1000 x 5000, d = 20: peak memory of the whole fit, X included: {1 + peak / X.nbytes:.2f}",
        end="",
    )
    print(f" times X ({peak / 2**20:.0f} MiB beside the {X.nbytes / 2**20:.0f} MiB of X)")


if __name__ == "__main__":
    threads = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    print(f"{os.cpu_count()} cores, BLAS threads {threads}")
    iteration_against_products()
    whole_fit_against_svd()
    passes_to_the_limit()
    peak_memory()
