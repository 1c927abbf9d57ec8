"""Fits on the threads that they choose, on one thread and on all, idle and beside busy processes.

    python -m benchmarks.threads            # a few minutes on two cores
    python -m benchmarks.threads --busy 0   # only as the machine is now

Best of several wall times, the settings in turn. Users set nothing: the first column should never
be much above the smaller of the other two. Run it on a machine that does nothing else, as the
line with the number of computing threads says.
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
    """Beside so many processes that compute."""
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
def as_libraries_do() -> Iterator[None]:
    """All the threads that BLAS takes of itself."""
    ours, parallel._libraries = parallel._libraries, list
    try:
        yield
    finally:
        parallel._libraries = ours


SETTINGS = {
    "chosen": nullcontext,
    "one": lambda: threadpool_limits(1, user_api="blas"),
    "all": as_libraries_do,
}


def compare(fit: Callable[[], object], repeats: int, most: float) -> dict[str, float]:
    """The best time of every setting, in turn; no more repeats after ``most`` seconds."""
    best = dict.fromkeys(SETTINGS, np.inf)
    begun = time.perf_counter()
    for _ in range(repeats):
        for name, setting in SETTINGS.items():
            with setting():
                time.sleep(0.3)  # threads of the setting before wait for work, and keep a core busy
                start = time.perf_counter()
                fit()
                best[name] = min(best[name], time.perf_counter() - start)
        if time.perf_counter() - begun > most:
            break
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--busy", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--most", type=float, default=60.0, help="seconds for a row")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{parallel.usable_cores()} cores, others computing: {parallel._others_computing()}")
    print(f"{'seconds':34s}{'beside':>8s}{'chosen':>9s}{'one':>9s}{'all':>9s}  chosen / best")
    for name, fit in cases().items():
        for count in options.busy:
            with busy(count):
                best = compare(fit, options.repeats, options.most)
            ratio = best["chosen"] / min(best["one"], best["all"])
            times = "".join(f"{value:9.3f}" for value in best.values())
            print(f"{name:34s}{count:8d}{times}{ratio:15.2f}", flush=True)


if __name__ == "__main__":
    main()
