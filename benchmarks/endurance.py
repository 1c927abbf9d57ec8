"""Long runs: 10,000 iterations without drift, 200 fits without growing memory.

    python -m benchmarks.endurance                                  # some minutes
    python -m benchmarks.endurance --iterations 300 --fits 20       # a short run

The loop is made to go on whatever the objective does, with plain steps, so that rounding has every
chance to add up. Shown for every estimator that iterates: how far the objective ever fell, as a
share of its size; whether all that was fitted is finite; how far loadings that must be orthonormal
or of unit length are from it. Then the same estimator is fitted again and again: what Python's
allocations and the process have grown by after a warm-up.
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
HOLES = np.where(np.random.default_rng(2).random(DATA.X.shape) < 0.1, np.nan, DATA.X)

# What is iterated, on which table, and which rows of `components_` are kept how.
ITERATIVE: dict[str, tuple[Any, np.ndarray, str]] = {
    "GSPPCA": (GSPPCA(2), DATA.X, "orthonormal"),
    "SCA": (SCA(2), DATA.X, ""),
    "SCA, hyperbolic": (SCA(2, prior="hyperbolic"), DATA.X, ""),
    "SCA, gaps": (SCA(2), HOLES, ""),
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
    """Stands in for the loop's one iteration: a plain step, and no end to it."""

    def __init__(self) -> None:
        self.steps, self.fall, self.longest = 0, 0.0, 0

    def __call__(self, step: Any, at: Any, *rest: Any) -> tuple[Any, None]:
        result = step(at.best)
        self.steps += 1
        if at.bounds:
            size = max(abs(at.bounds[-1]), abs(result.bound), 1e-300)
            self.fall = max(self.fall, (at.bounds[-1] - result.bound) / size)
        bounds = at.bounds
        bounds.append(float(result.bound))  # in place: ten thousand copies would be the run
        self.longest = max(self.longest, len(bounds))
        return loop.Position(result, result, None, True, 0, False, bounds), None


def finite(model: Any) -> bool:
    """Whether all fitted numbers are."""
    fitted = [v for k, v in vars(model).items() if k.endswith("_")]
    parts = [part for v in fitted for part in (v if isinstance(v, list) else [v])]
    arrays = [np.asarray(part) for part in parts]
    return all(np.isfinite(a).all() for a in arrays if a.dtype.kind == "f")


def departure(model: Any, kept: str) -> float:
    """How far the components are from what they must be."""
    if not kept:
        return 0.0
    W = np.asarray(model.components_)
    gram = W @ W.T
    wanted = np.eye(len(W))
    return float(np.abs(gram - wanted if kept == "orthonormal" else np.diag(gram - wanted)).max())


def drift(name: str, iterations: int) -> dict[str, Any]:
    """A fit whose every loop runs ``iterations`` steps."""
    model, X, kept = ITERATIVE[name]
    forced = Forced()
    with warnings.catch_warnings(), mock.patch.object(loop, "_advance", forced):
        warnings.simplefilter("ignore")  # that it did not converge
        model = type(model)(**model.get_params()).set_params(max_iter=iterations)
        model.fit(X, RESPONSE)
    return {
        "steps": forced.steps,
        "longest run": forced.longest,
        "largest fall, as a share": float(f"{max(forced.fall, 0.0):.2g}"),
        "finite": finite(model),
        "departure of the components": float(f"{departure(model, kept):.2g}"),
    }


def growth(name: str, fits: int, warm: int = 10) -> dict[str, Any]:
    """What ``fits`` fits leave behind, in KiB, after a warm-up."""
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

    fit(warm)
    tracemalloc.start()
    fit(2)
    before, resident = tracemalloc.get_traced_memory()[0], _resident()
    fit(fits)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return {
        "fits": fits,
        "allocated, KiB": round((after - before) / 1024, 1),
        "resident, KiB": round((_resident() - resident) / 1024),
    }


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=10_000)
    parser.add_argument("--fits", type=int, default=200)
    parser.add_argument("--record", type=Path, help="file for the record")
    given = parser.parse_args()
    record: dict[str, Any] = {
        "command": " ".join(["python -m benchmarks.endurance", *sys.argv[1:]])
    }
    record["drift"], record["memory"] = {}, {}
    for name in ITERATIVE:
        record["drift"][name] = drift(name, given.iterations)
        print(name, record["drift"][name], flush=True)
    for name in ITERATIVE | OTHERS:
        record["memory"][name] = growth(name, given.fits)
        print(name, record["memory"][name], flush=True)
    if given.record:
        given.record.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
