"""Compare GSPPCA with matrix products, thin SVDs and plain variational EM.

    python -m benchmarks.gsppca            # one to two minutes

Times are the shortest of several, with the default BLAS threads; compare the ratios. The data of
Golub et al. are read from the folder PROSPARSE_DATA; without the file, 38 x 3051 data are
simulated.
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


def shortest_time(f, repeats=7):
    """Return the shortest wall time."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return min(times)


def golub():
    """Return a label and the data of Golub et al., or simulated data of the same shape."""
    folder = os.environ.get("PROSPARSE_DATA")
    path = Path(folder or ".") / "golub_leukemia_38x3051.npz"
    if path.exists():
        return "Golub 38 x 3051", np.load(path)["X"].astype(float)
    data = make_globally_sparse(38, 3051, n_components=30, n_informative=800, random_state=0)
    return "simulated 38 x 3051", data.X


class PlainVEM:
    """Algorithm of [MBL16] with misprints corrected: one update of u and alpha per iteration."""

    def __init__(self, X, d):
        self.X, self.d = X, d
        n, p = X.shape
        _, s, Vt = np.linalg.svd(X, full_matrices=False)
        self.sigma2 = max(np.sum(s[d:] ** 2) / n / (p - d), 1e-3 * np.sum(s**2) / n / p)
        self.u, self.alpha2 = np.ones(p), d / X.var()
        self.M = Vt[:d].T * np.sqrt(np.maximum(s[:d] ** 2 / n - self.sigma2, 1e-3 * self.sigma2))
        self.S_sum = np.zeros((d, d))

    def step(self):
        """Run one iteration and return the bound."""
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


def bound_path(X, d, accelerated, max_iter):
    """Return the bounds of GSPPCA with or without acceleration."""
    op = DenseOperator(X)
    start = to_factor_state(init(spectrum(op), d), op)
    run = iterate(
        make_factor_step(op, X.shape[0]),
        start,
        max_iter=max_iter,
        tol=0.0,
        accelerator=over_factors(start, op.xp) if accelerated else None,
    )
    return np.array(run.bounds)


def iterations_to(bounds, limit, tolerance=1e-6):
    """Return the number of iterations until the bound is within tolerance of its limit."""
    inside = np.flatnonzero(bounds >= limit - tolerance * abs(limit))
    return str(inside[0] + 1) if inside.size else f"> {bounds.size}"


def compare_iteration_with_products():
    """Compare one iteration with two products with X."""
    X, _, _ = make_globally_sparse(1000, 5000, n_components=20, n_informative=200, random_state=0)
    X -= X.mean(axis=0)
    op = DenseOperator(X)
    step, state = make_factor_step(op, 1000), to_factor_state(init(spectrum(op), 20), op)
    for _ in range(3):
        state = step(state)
    F = np.ascontiguousarray(spectrum(op).directions(20))
    step(state), X.T @ (X @ F)
    rounds = [
        (shortest_time(lambda: step(state), 5), shortest_time(lambda: X.T @ (X @ F), 5))
        for _ in range(4)
    ]
    ours, products = (min(times) for times in zip(*rounds, strict=True))
    print(f"1000 x 5000, d = 20: one iteration {1e3 * ours:.1f} ms,")
    print(f"  two products, X F and X'Y, {1e3 * products:.1f} ms: ratio {ours / products:.2f}")


def compare_fit_with_svd():
    """Compare complete fits, with and without refinement, with a thin SVD."""
    name, X = golub()
    centred = X - X.mean(axis=0)
    print(f"{name}: complete fit, and its time relative to a thin SVD (R program of the authors,")
    print("  d = 30 without refinement: 117 s)")
    for d in (2, 10, 30):
        for refine in (False, True):
            model = GSPPCA(d, refine=refine).fit(X)
            rounds = [
                (
                    shortest_time(lambda d=d, r=refine: GSPPCA(d, refine=r).fit(X), 3),
                    shortest_time(lambda: np.linalg.svd(centred, full_matrices=False), 10),
                )
                for _ in range(4)
            ]
            ours, svd = (min(times) for times in zip(*rounds, strict=True))
            print(
                f"  d = {d}, refine={refine}: {ours:.3f} s, {model.n_iter_} iterations, "
                f"{model.cardinalities_.size} cardinalities; thin SVD {1e3 * svd:.2f} ms: "
                f"ratio {ours / svd:.0f}"
            )


def compare_iterations():
    """Print the numbers of iterations to convergence."""
    name, X = golub()
    X = X - X.mean(axis=0)
    intro = make_globally_sparse(
        50, 500, n_components=5, n_informative=20, noise=1.0, random_state=0
    ).X
    cases = [("50 x 500, d = 5", intro - intro.mean(axis=0), 5)]
    cases += [(f"{name}, d = {d}", X, d) for d in (10, 30)]
    print("iterations until the bound is within 1e-6 (relative) of its limit:")
    print(f"  {'':26s}{'GSPPCA':>10s}{'not accelerated':>18s}{'plain VEM':>12s}")
    for label, X, d in cases:
        ours, slow = bound_path(X, d, True, 500), bound_path(X, d, False, 1500)
        plain = PlainVEM(X, d)
        bounds = np.array([plain.step() for _ in range(1500)])
        limit = max(ours.max(), slow.max(), bounds.max())
        cells = [iterations_to(b, limit) for b in (ours, slow, bounds)]
        print(f"  {label:26s}{cells[0]:>10s}{cells[1]:>18s}{cells[2]:>12s}")


def print_peak_memory():
    """Print the peak memory of a fit."""
    X, _, _ = make_globally_sparse(1000, 5000, n_components=20, n_informative=200, random_state=0)
    tracemalloc.start()
    GSPPCA(n_components=20).fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(
        f"1000 x 5000, d = 20: peak memory of a fit, including X: {1 + peak / X.nbytes:.2f}",
        end="",
    )
    print(f" times X ({peak / 2**20:.0f} MiB in addition to the {X.nbytes / 2**20:.0f} MiB of X)")


if __name__ == "__main__":
    threads = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    print(f"{os.cpu_count()} cores, BLAS threads {threads}")
    compare_iteration_with_products()
    compare_fit_with_svd()
    compare_iterations()
    print_peak_memory()
