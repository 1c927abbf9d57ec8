"""Fit times of all estimators on a grid of shapes and contents.

    python -m benchmarks.cliffs                     # minutes on one thread
    python -m benchmarks.cliffs --output cliffs.png # with a plot
    python -m benchmarks.cliffs --only EMPCA --limit 60

A cell is reported as a cliff if it takes 20 times as long as the same estimator on data of the same
shape and other content or, per entry, on the next smaller shape. A fit is stopped after ``--limit``
seconds and counted with that time.
"""

from __future__ import annotations

import argparse
import signal
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from prosparse import EMPCA, FDRPCA, GSPPCA, SCA, SPPCA, Panel, SpinyRegressor

SHAPES = ((40, 12), (40, 120), (40, 1200), (400, 12), (400, 120), (400, 1200))
CONTENTS = ("factors", "units", "noise", "heavy")
CLIFF_RATIO = 20.0
MIN_SECONDS = 0.05  # minimum time of a cliff


def simulate(shape: tuple[int, int], content: str) -> np.ndarray:
    """Simulate three factors on a third of the columns, or noise.

    Content "units" has scales over six decades; "heavy" has heavy-tailed noise.
    """
    n, p = shape
    rng = np.random.default_rng(n + p)
    noise = rng.standard_t(2.1, (n, p)) if content == "heavy" else rng.standard_normal((n, p))
    if content == "noise":
        return noise
    W = rng.standard_normal((3, p)) * (np.arange(p) < max(6, p // 3))
    X = 1.5 * rng.standard_normal((n, 3)) @ W + noise
    return X * 10.0 ** rng.uniform(-3, 3, p) if content == "units" else X


def fit_regression(X: np.ndarray) -> Any:
    """Fit SpinyRegressor to a response of three columns."""
    y = X[:, :3] @ np.array([1.0, -1.0, 0.5]) / X[:, :3].std(axis=0).max()
    y = y + 0.5 * y.std() * np.random.default_rng(0).standard_normal(len(X))
    return SpinyRegressor().fit(X, y)


ESTIMATORS: dict[str, Callable[[np.ndarray], Any]] = {
    "GSPPCA(3)": lambda X: GSPPCA(3).fit(X),
    "GSPPCA": lambda X: GSPPCA().fit(X),
    "SCA(3)": lambda X: SCA(3).fit(X),
    "SCA(3), hyperbolic": lambda X: SCA(3, prior="hyperbolic").fit(X),
    "SPPCA(3)": lambda X: SPPCA(3).fit(X),
    "SPPCA(3), given penalty": lambda X: SPPCA(3, penalty=10.0 / X.std()).fit(X),
    "EMPCA(3), 4 nonzeros": lambda X: EMPCA(3, n_nonzero=4, random_state=0).fit(X),
    "EMPCA(3), p/4": lambda X: EMPCA(3, n_nonzero=X.shape[1] // 4, random_state=0).fit(X),
    "EMPCA(3), p/2": lambda X: EMPCA(3, n_nonzero=X.shape[1] // 2, random_state=0).fit(X),
    "EMPCA(3), p/2, non-negative": lambda X: EMPCA(
        3, n_nonzero=X.shape[1] // 2, nonnegative=True, random_state=0
    ).fit(X),
    "FDRPCA": lambda X: FDRPCA().fit(X),
    "Panel(5)": lambda X: Panel(5).fit(X),
    "Panel": lambda X: Panel().fit(X),
    "SpinyRegressor": fit_regression,
}


class TooLongError(Exception):
    """The time limit of a fit is exceeded."""


def stop(number: int, frame: FrameType | None) -> None:
    raise TooLongError


def seconds(fit: Callable[[np.ndarray], Any], X: np.ndarray, limit: float) -> float:
    """Return the processor time of one fit; fast fits are repeated to exclude warm-up."""
    start = time.process_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, limit)
    try:
        fit(X)
        taken = time.process_time() - start
        if taken < 1.0:
            start = time.process_time()
            fit(X)
            taken = min(taken, time.process_time() - start)
    except TooLongError:
        return limit
    except ValueError as error:  # The estimator rejects the data.
        print(f"      rejected: {str(error)[:90]}")
        return np.nan
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
    return taken


def cliffs(times: dict[tuple[str, tuple[int, int], str], float]) -> list[str]:
    """Describe the cells that take `CLIFF_RATIO` times as long as a neighbour."""
    messages = []
    for (name, shape, content), taken in times.items():
        if not taken > MIN_SECONDS:
            continue
        cell = f"{name} on {shape[0]} x {shape[1]}, {content}: {taken:.2f} s"
        others = {
            other: times[name, shape, other]
            for other in CONTENTS
            if times.get((name, shape, other), np.nan) > 0
        }
        fastest = min(others, key=others.__getitem__)
        if taken > CLIFF_RATIO * others[fastest]:
            messages.append(f"{cell}, {taken / others[fastest]:.0f} times as long as {fastest}")
        for smaller in SHAPES:
            steps = (smaller[0] < shape[0]) + (smaller[1] < shape[1])
            if steps != 1 or smaller[0] > shape[0] or smaller[1] > shape[1]:
                continue
            before = times.get((name, smaller, content), np.nan)
            if shape[0] * shape[1] == 10 * smaller[0] * smaller[1]:
                growth = taken / max(before, MIN_SECONDS) / 10.0
                if growth > CLIFF_RATIO:
                    messages.append(
                        f"{cell}, {growth:.0f} times as long per entry as "
                        f"{smaller[0]} x {smaller[1]}"
                    )
    return messages


def plot_times(times: dict[tuple[str, tuple[int, int], str], float], path: Path) -> None:
    """Plot the time per entry as a heat map."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.colors import LogNorm

    names = list(dict.fromkeys(key[0] for key in times))
    columns = [(shape, content) for shape in SHAPES for content in CONTENTS]
    grid = np.array([[times.get((name, *column), np.nan) for column in columns] for name in names])
    entries = np.array([shape[0] * shape[1] for shape, _ in columns])
    figure, axes = plt.subplots(figsize=(13, 0.42 * len(names) + 2.4), layout="constrained")
    image = axes.imshow(1e6 * grid / entries, norm=LogNorm(), cmap="viridis", aspect="auto")
    for (i, j), taken in np.ndenumerate(grid):
        if np.isfinite(taken):
            light = image.norm(1e6 * taken / entries[j]) < 0.6
            label = f"{taken:.1f}" if taken >= 0.1 else f"{taken:.2f}".lstrip("0")
            axes.text(j, i, label, ha="center", va="center", fontsize=7, color="wk"[not light])
    axes.set_xticks(range(len(columns)), [content for _, content in columns], rotation=90)
    axes.set_yticks(range(len(names)), names)
    for k, shape in enumerate(SHAPES):
        middle = len(CONTENTS) * (k + 0.5) - 0.5
        axes.text(middle, -0.8, f"{shape[0]} x {shape[1]}", ha="center", va="bottom")
        axes.axvline(len(CONTENTS) * k - 0.5, color="white", linewidth=2)
    figure.colorbar(image, label="microseconds per entry (in the cells: seconds)")
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", nargs="+", default=[""], help="estimators whose names contain one of these"
    )
    parser.add_argument("--limit", type=float, default=20.0, help="time limit of a fit in seconds")
    parser.add_argument("--output", type=Path, help="file for the plot")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGVTALRM, stop)
    times = {}
    with threadpool_limits(1):
        for name, fit in ESTIMATORS.items():
            if not any(part in name for part in options.only):
                continue
            for shape in SHAPES:
                row = []
                for content in CONTENTS:
                    taken = seconds(fit, simulate(shape, content), options.limit)
                    times[name, shape, content] = taken
                    row.append(f"{content} {taken:7.3f}")
                print(f"{name:30s}{shape[0]:5d} x {shape[1]:<6d}{'   '.join(row)}", flush=True)
    messages = cliffs(times)
    print("\n".join(["cliffs:", *messages] if messages else ["no cliffs"]))
    if options.output:
        plot_times(times, options.output)


if __name__ == "__main__":
    main()
