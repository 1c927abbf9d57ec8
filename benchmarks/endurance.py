"""Long runs: numerical drift over 10,000 iterations, memory growth over 200 fits.

    python -m benchmarks.endurance                                  # minutes
    python -m benchmarks.endurance --iterations 300 --fits 20       # a short run

The loop continues after convergence with unaccelerated steps, so that rounding errors accumulate.
For each iterative estimator the record contains the largest relative decrease of the objective,
whether all fitted values are finite, and the deviation of the loadings from orthonormality or unit
norm. Each estimator is then refitted repeatedly; the record contains the growth of allocated and
resident memory after a warm-up.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import sys
import tracemalloc
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from sklearn.base import is_classifier

from prosparse import EMPCA, FDRPCA, GSPPCA, SCA, SPPCA, Panel, SpinyClassifier, SpinyRegressor
from prosparse.datasets import make_globally_sparse
from prosparse.inference import loop

DATA = make_globally_sparse(40, 12, n_components=2, n_informative=5, random_state=0)
RESPONSE = DATA.X[:, 0] - DATA.X[:, 3] + np.random.default_rng(1).normal(size=40)
MISSING = np.where(np.random.default_rng(2).random(DATA.X.shape) < 0.1, np.nan, DATA.X)

# Estimator, data, and the constraint on the rows of `components_`.
ITERATIVE: dict[str, tuple[Any, np.ndarray, str]] = {
    "GSPPCA": (GSPPCA(2), DATA.X, "orthonormal"),
    "SCA": (SCA(2), DATA.X, ""),
    "SCA, hyperbolic": (SCA(2, prior="hyperbolic"), DATA.X, ""),
    "SCA, missing values": (SCA(2), MISSING, ""),
    "SPPCA": (SPPCA(2, penalty=5.0, penalties=[5.0]), DATA.X, ""),
    "EMPCA": (EMPCA(1, n_nonzero=4, n_restarts=1, random_state=0), DATA.X, "unit"),
    "SpinyRegressor": (SpinyRegressor(), DATA.X, ""),
}
OTHERS: dict[str, tuple[Any, np.ndarray, str]] = {
    "FDRPCA": (FDRPCA(2), DATA.X, ""),
    "Panel": (Panel(4, random_state=0), DATA.X, ""),
    "SpinyClassifier": (SpinyClassifier(random_state=0), DATA.X, ""),
}


class Forced:
    """Replacement for one iteration of the loop: a plain step without stopping rule."""

    def __init__(self) -> None:
        self.steps, self.largest_decrease, self.longest = 0, 0.0, 0

    def __call__(self, step: Any, position: Any, *rest: Any) -> tuple[Any, None]:
        result = step(position.best)
        self.steps += 1
        if position.bounds:
            size = max(abs(position.bounds[-1]), abs(result.bound), 1e-300)
            self.largest_decrease = max(
                self.largest_decrease, (position.bounds[-1] - result.bound) / size
            )
        bounds = position.bounds
        bounds.append(float(result.bound))  # In place: copies would dominate the run time.
        self.longest = max(self.longest, len(bounds))
        return loop.Position(result, result, None, True, 0, False, bounds), None


def finite(model: Any) -> bool:
    """Return whether all fitted values are finite."""
    fitted = [v for k, v in vars(model).items() if k.endswith("_")]
    parts = [part for v in fitted for part in (v if isinstance(v, list) else [v])]
    arrays = [np.asarray(part) for part in parts]
    return all(np.isfinite(a).all() for a in arrays if a.dtype.kind == "f")


def norm_error(model: Any, constraint: str) -> float:
    """Return the deviation of the components from the constraint."""
    if not constraint:
        return 0.0
    W = np.asarray(model.components_)
    gram = W @ W.T
    identity = np.eye(len(W))
    return float(
        np.abs(gram - identity if constraint == "orthonormal" else np.diag(gram - identity)).max()
    )


def drift(name: str, iterations: int) -> dict[str, Any]:
    """Fit with ``iterations`` forced iterations and measure the drift."""
    model, X, constraint = ITERATIVE[name]
    forced = Forced()
    with warnings.catch_warnings(), mock.patch.object(loop, "_advance", forced):
        warnings.simplefilter("ignore")  # Non-convergence is expected.
        model = type(model)(**model.get_params()).set_params(max_iter=iterations)
        model.fit(X, RESPONSE)
    return {
        "steps": forced.steps,
        "longest run": forced.longest,
        "largest relative decrease": float(f"{max(forced.largest_decrease, 0.0):.2g}"),
        "finite": finite(model),
        "norm error": float(f"{norm_error(model, constraint):.2g}"),
    }


def growth(name: str, fits: int, n_warm_up: int = 10) -> dict[str, Any]:
    """Return the memory growth over ``fits`` fits after a warm-up, in KiB."""
    model, X, _ = (ITERATIVE | OTHERS)[name]
    model = type(model)(**model.get_params())
    if "max_iter" in model.get_params():
        model.set_params(max_iter=50)

    def fit(times: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(times):
                model.fit(X, RESPONSE > 0.0 if is_classifier(model) else RESPONSE)
        gc.collect()

    fit(n_warm_up)
    tracemalloc.start()
    fit(2)
    before, resident_before = tracemalloc.get_traced_memory()[0], _resident_memory()
    fit(fits)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return {
        "fits": fits,
        "allocated, KiB": round((after - before) / 1024, 1),
        "resident, KiB": round((_resident_memory() - resident_before) / 1024),
    }


def _resident_memory() -> int:
    """Return the resident memory in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=10_000)
    parser.add_argument("--fits", type=int, default=200)
    parser.add_argument("--record", type=Path, help="file for the record")
    options = parser.parse_args()
    record: dict[str, Any] = {
        "command": " ".join(["python -m benchmarks.endurance", *sys.argv[1:]])
    }
    record["drift"], record["memory"] = {}, {}
    for name in ITERATIVE:
        record["drift"][name] = drift(name, options.iterations)
        print(name, record["drift"][name], flush=True)
    for name in ITERATIVE | OTHERS:
        record["memory"][name] = growth(name, options.fits)
        print(name, record["memory"][name], flush=True)
    if options.record:
        options.record.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
