"""Fit times with automatic, one and all BLAS threads, on an idle and a busy machine.

    python -m benchmarks.threads            # minutes on two cores
    python -m benchmarks.threads --busy 0   # without busy processes

Times are the shortest of several wall times, with alternating settings. The automatic setting
should not be much slower than the better of the other two. Run this on an idle machine; the first
line shows the number of other computing threads.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from prosparse import EMPCA, GSPPCA, parallel
from prosparse.datasets import make_globally_sparse


def golub() -> np.ndarray:
    path = Path(os.environ.get("PROSPARSE_DATA", ".")) / "golub_leukemia_38x3051.npz"
    if path.exists():
        return np.load(path)["X"].astype(float)
    return make_globally_sparse(38, 3051, n_components=30, n_informative=800, random_state=0).X


def cases() -> dict[str, Callable[[], object]]:
    """Return the fits by name."""
    X = golub()
    large = make_globally_sparse(2000, 1500, n_components=10, n_informative=200, random_state=0).X
    noise = np.random.default_rng(0).standard_normal((300, 300))
    return {
        "GSPPCA, 38 x 3051, d = 30": lambda: GSPPCA(30).fit(X),
        "GSPPCA, 2000 x 1500, d = 10": lambda: GSPPCA(10, n_features_to_select=200).fit(large),
        "EMPCA, 300 x 300, 60 nonzeros": lambda: EMPCA(2, n_nonzero=60, random_state=0).fit(noise),
    }


def spin() -> None:
    while True:
        pass


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Run ``count`` processes that keep a core busy."""
    others = [multiprocessing.Process(target=spin, daemon=True) for _ in range(count)]
    for other in others:
        other.start()
    time.sleep(0.2)
    try:
        yield
    finally:
        for other in others:
            other.terminate()
            other.join()


@contextmanager
def all_threads() -> Iterator[None]:
    """Use the default threads of BLAS."""
    original, parallel._libraries = parallel._libraries, list
    try:
        yield
    finally:
        parallel._libraries = original


SETTINGS = {
    "automatic": nullcontext,
    "one": lambda: threadpool_limits(1, user_api="blas"),
    "all": all_threads,
}


def compare(fit: Callable[[], object], repeats: int, max_seconds: float) -> dict[str, float]:
    """Return the shortest time of each setting; stop repeating after ``max_seconds``."""
    best = dict.fromkeys(SETTINGS, np.inf)
    first_start = time.perf_counter()
    for _ in range(repeats):
        for name, setting in SETTINGS.items():
            with setting():
                time.sleep(0.3)  # Idle threads of the previous setting spin for a while.
                start = time.perf_counter()
                fit()
                best[name] = min(best[name], time.perf_counter() - start)
        if time.perf_counter() - first_start > max_seconds:
            break
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--busy", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--max-seconds", type=float, default=60.0, help="time limit of a row")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{parallel.usable_cores()} cores, others computing: {parallel._others_computing()}")
    print(f"{'seconds':34s}{'busy':>8s}{'automatic':>10s}{'one':>9s}{'all':>9s}  automatic / best")
    for name, fit in cases().items():
        for count in options.busy:
            with busy(count):
                best = compare(fit, options.repeats, options.max_seconds)
            ratio = best["automatic"] / min(best["one"], best["all"])
            times = "".join(f"{value:9.3f}" for value in best.values())
            print(f"{name:34s}{count:8d}{times}{ratio:15.2f}", flush=True)


if __name__ == "__main__":
    main()
