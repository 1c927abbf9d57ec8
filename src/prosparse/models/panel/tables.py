"""Tables and sentences that describe a fitted panel."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ...data.arrays import Array, to_numpy
from ...data.frames import data_frame

# `summarise_panel` lists variables whose R2 is below the limit, up to a maximum number of names.
MAX_UNPREDICTED_R2, MAX_NAMED = 0.1, 10


def tabulate_sizes(paths: dict[str, Array]) -> Any:
    """Return the results of panels of 1, 2, ... variables as a data frame."""
    values = {name: to_numpy(path) for name, path in paths.items()}
    n_sizes = next(iter(values.values())).size
    return data_frame(values, list(range(1, n_sizes + 1)), "n_selected")


def group_by_proxy(order: np.ndarray, proxy: np.ndarray, r2: np.ndarray) -> list[np.ndarray]:
    """Return the other variables of each proxy in ``order``, by decreasing R2."""
    proxied = []
    for k in order.tolist():
        others = np.flatnonzero(proxy == k)
        others = others[others != k]
        proxied.append(others[np.argsort(-r2[others], kind="stable")])
    return proxied


def tabulate_panel(
    order: np.ndarray,
    names: list[str],
    included: Iterable[int],
    marker_of: np.ndarray,
    mean: np.ndarray,
    communality: np.ndarray,
    proxied: list[list[str]],
) -> Any:
    """Tabulate the variables of a panel for `Panel.panel_to_frame`."""
    is_included = np.isin(order, list(included))
    reasons = [
        f"marker of {label}" if label else "included" if given else "selected"
        for given, label in zip(is_included.tolist(), marker_of[order].tolist(), strict=True)
    ]
    values = {
        "rank": np.arange(1, order.size + 1),
        "reason": np.array(reasons, dtype=object),
        "mean": mean[order],
        "communality": communality[order],
        "n_proxied": np.array([len(others) for others in proxied]),
        "proxied": np.array([", ".join(others) for others in proxied], dtype=object),
    }
    return data_frame(values, [names[k] for k in order.tolist()], "variable")


def summarise_panel(
    r2_limits: np.ndarray,
    outside: np.ndarray,
    explained: float,
    explained_std: float,
    name: Callable[[int], str],
) -> str:
    """Describe the panel and the variables that it does not predict.

    ``r2_limits``, (p, 3), contains R2 and its confidence limits. ``outside``, (p,), marks the
    varying variables outside the panel.
    """
    r2, _, upper = r2_limits.T
    lost = np.flatnonzero(outside & (upper < MAX_UNPREDICTED_R2))
    lost = lost[np.argsort(r2[lost], kind="stable")]
    n_outside = int(outside.sum())
    lines = [
        f"explains {explained:.2f} ± {explained_std:.2f} of the variance of held-out rows.",
        f"For {n_outside - lost.size} of the {n_outside} other variables, the upper confidence "
        f"limit of the R2 is at least {MAX_UNPREDICTED_R2:g}.",
    ]
    if lost.size:
        names = ", ".join(name(k) for k in lost[:MAX_NAMED].tolist())
        more = f" and {lost.size - MAX_NAMED} others" if lost.size > MAX_NAMED else ""
        lines.append(f"The panel does not predict {names}{more}: measure them if they are needed.")
    return "\n".join(lines)
