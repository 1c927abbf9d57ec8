"""E15: sparse probabilistic PCA of the digits 3, 5 and 8 of USPS, [BJ15] section 5.

    python -m prosparse.experiments.sppca --data FOLDER --output FOLDER

FOLDER holds ``usps_16x16.npz`` with arrays X (thousandths) and y.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from ..errors import InputError
from ..models.sppca import SPPCA
from ..plot import SlopeDisplay
from ..selection.slope import choice_shape, robust_slope

PUBLISHED: dict[str, Any] = {"penalty": 126, "nonzeros": (21, 19)}


def load(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """The 1756 images of the digits 3, 5 and 8."""
    with np.load(folder / "usps_16x16.npz") as file:
        X, y = file["X"], file["y"]
    kept = np.isin(y, (3, 5, 8))
    return X[kept] / 1000.0, y[kept]


def run(data: Path, output: Path) -> dict[str, Any]:
    """Fit the paper's grid and the default one, print ours beside the published figures.

    On the paper's grid the exact optimum keeps four fifths of the loadings even at the largest
    penalty, and the slope heuristic refuses such a path: there the choice is BIC's.
    """
    X, y = load(data)
    output.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    paper = SPPCA(n_components=2, penalty="bic", penalties=np.arange(151.0)).fit(X)
    seconds = time.perf_counter() - start
    try:
        robust_slope(choice_shape(paper.n_parameters_path_ - 1, 512), paper.log_likelihood_path_)
    except InputError as refusal:
        print(f"slope heuristic on 0, 1, ..., 150: {refusal}")
    wide = SPPCA(n_components=2).fit(X)
    at_126 = int(paper.n_parameters_path_[126] - 1)
    print(f"nonzeros at penalty 126: {at_126} in all, published {sum(PUBLISHED['nonzeros'])}")
    print(f"{'':44s}{'ours':>14s}{'published':>14s}")
    for name, model, published in (
        ("BIC on 0, 1, ..., 150", paper, PUBLISHED),
        ("slope heuristic up to W = 0", wide, PUBLISHED),
    ):
        counts = tuple(int(k) for k in np.count_nonzero(model.components_, axis=1))
        print(f"{'penalty, ' + name:44s}{model.penalty_:14.0f}{published['penalty']!s:>14s}")
        print(f"{'nonzeros of the two':44s}{counts!s:>14s}{published['nonzeros']!s:>14s}")
    print(f"151 penalties in {seconds:.1f} s")
    _slope_figure(paper, output / "slope_paper_grid.png")
    _slope_figure(wide, output / "slope_default_grid.png")
    _plane_figure(PCA(2).fit(X), X, y, output / "pca.png")
    _plane_figure(wide, X, y, output / "sppca.png")
    return {"paper": paper, "wide": wide, "seconds": seconds}


def _slope_figure(model: SPPCA, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.8), layout="constrained")
    SlopeDisplay.from_estimator(model, axes=figure.subplots(1, 2))
    figure.savefig(path, dpi=110)


def _plane_figure(model: Any, X: np.ndarray, y: np.ndarray, path: Path) -> None:
    """Scores on the first plane, and the two components as images."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.8), layout="constrained")
    plane, *images = figure.subplots(1, 3)
    scores = model.transform(X)
    for digit, colour in zip((3, 5, 8), ("#1e4e79", "#c2410c", "#4d7c0f"), strict=True):
        plane.plot(*scores[y == digit].T, ".", markersize=3, color=colour, label=str(digit))
    plane.legend(frameon=False)
    plane.set(xlabel="first component", ylabel="second component")
    for j, ax in enumerate(images):
        image = model.components_[j].reshape(16, 16)
        limit = np.abs(image).max() or 1.0
        ax.imshow(image, cmap="RdBu_r", vmin=-limit, vmax=limit)
        ax.set_title(f"component {j + 1}: {np.count_nonzero(image)} of 256 pixels")
        ax.set_axis_off()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--output", type=Path, default=Path("e15"))
    arguments = parser.parse_args()
    run(arguments.data, arguments.output)


if __name__ == "__main__":
    main()
