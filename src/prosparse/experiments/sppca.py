"""E15: sparse probabilistic PCA of the digits 3, 5 and 8 of USPS, [BJ15] section 5."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from ..models.sppca import SPPCA
from ..plot import SlopeDisplay
from .base import Claim, Experiment, Result, Row, saved
from .data import Data

PAPER = "Bouveyron & Jacques 2015"
PENALTY, NONZEROS = 126.0, (21.0, 19.0)


def digits(data: Data) -> tuple[np.ndarray, np.ndarray]:
    """The 1756 images of the digits 3, 5 and 8."""
    file = data("usps")
    kept = np.isin(file["y"], (3, 5, 8))
    return file["X"][kept] / 1000.0, file["y"][kept]


def run(quick: bool, data: Data, output: Path) -> Result:
    """The paper's grid and the default one."""
    X, y = digits(data)
    paper = SPPCA(n_components=2, penalties=np.arange(0.0, 151.0, 10.0 if quick else 1.0)).fit(X)
    wide = SPPCA(n_components=2).fit(X)
    rows = []
    grids = (("0 to 150", paper, PENALTY, NONZEROS), ("default", wide, None, (None, None)))
    for grid, model, penalty, nonzeros in grids:
        rows.append(Row(f"penalty chosen, grid {grid}", float(model.penalty_), None, penalty))
        counts = np.count_nonzero(model.components_, axis=1)
        for j, (count, published) in enumerate(zip(counts, nonzeros, strict=True), start=1):
            text = f"nonzeros of component {j}, grid {grid}"
            rows.append(Row(text, float(count), None, published))
    at = int(np.argmin(np.abs(paper.penalties_ - PENALTY)))
    there = int(paper.n_parameters_path_[at]) - 1
    rows.append(Row(f"nonzeros at penalty {paper.penalties_[at]:g}", there, None, sum(NONZEROS)))
    alike = int(np.argmin(np.abs(wide.n_parameters_path_ - 1 - sum(NONZEROS))))
    text = f"penalty at which {wide.n_parameters_path_[alike] - 1:.0f} nonzeros are left"
    rows.append(Row(text, float(wide.penalties_[alike]), None, PENALTY))
    chosen = np.count_nonzero(paper.components_, axis=1)
    claims = [
        Claim(
            "on the grid from 0 to 150 the slope heuristic chooses 126, with 21 and 19 nonzeros",
            bool(abs(paper.penalty_ - PENALTY) <= 1 and tuple(chosen) == NONZEROS),
            f"{paper.penalty_:g}, with {chosen[0]} and {chosen[1]}: at {paper.penalties_[at]:g} "
            f"the optimum has {there} nonzeros, and {sum(NONZEROS):.0f} are left only near a "
            f"penalty of {wide.penalties_[alike]:.0f}. The paper's quadratic approximation never "
            "reaches zero, so its counts depend on what it took for zero and on its units",
        ),
        Claim(
            "sparse components still show the digits' strokes: both have fewer than half of the "
            "pixels (default grid)",
            bool(np.all(np.count_nonzero(wide.components_, axis=1) < 128)),
        ),
    ]
    figures = [
        _slope_figure(paper, output / "E15_slope_paper_grid.png"),
        _slope_figure(wide, output / "E15_slope_default_grid.png"),
        _plane_figure(PCA(2).fit(X), X, y, output / "E15_pca.png"),
        _plane_figure(wide, X, y, output / "E15_sppca.png"),
    ]
    remarks = "The penalised likelihood bends along the whole path, so the choice follows the grid."
    return Result(rows, claims, figures, "none: nothing is random", remarks)


def _slope_figure(model: SPPCA, path: Path) -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.8), layout="constrained")
    SlopeDisplay.from_estimator(model, axes=figure.subplots(1, 2))
    return saved(figure, path)


def _plane_figure(model: Any, X: np.ndarray, y: np.ndarray, path: Path) -> Path:
    """Scores on the first plane, and the two components as images."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.8), layout="constrained")
    plane, *images = figure.subplots(1, 3)
    scores = model.transform(X)
    for digit, colour in zip((3, 5, 8), ("#1e4e79", "#c2410c", "#4d7c0f"), strict=True):
        plane.plot(*scores[y == digit].T, ".", markersize=3, color=colour, label=str(digit))
    plane.legend(framealpha=0.9, markerscale=3)
    plane.set(xlabel="first component", ylabel="second component")
    for j, ax in enumerate(images):
        image = model.components_[j].reshape(16, 16)
        limit = np.abs(image).max() or 1.0
        ax.imshow(image, cmap="RdBu_r", vmin=-limit, vmax=limit)
        ax.set_title(f"component {j + 1}: {np.count_nonzero(image)} of 256 pixels")
        ax.set_axis_off()
    return saved(figure, path)


EXPERIMENTS = [Experiment("E15", "the digits 3, 5 and 8 of USPS", PAPER, ("usps",), run)]
