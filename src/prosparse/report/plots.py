"""Files with all plots of a fitted model, for papers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import check_choice
from ..findings import Findings
from ..interpretation import Association
from ..models._base import VariableSelector
from ..phrases import quote_name

FORMATS = ("svg", "pdf", "png")
PREFIX = "plot-"  # prefix of the file names
PNG_RESOLUTION = 300  # dots per inch


def is_plot(name: str) -> bool:
    """Return whether a file has a name of `write_plots`."""
    return name.startswith(PREFIX) and name.rpartition(".")[2] in FORMATS


def write_plots(
    model: VariableSelector,
    folder: str | os.PathLike[str],
    *,
    formats: Sequence[str] = FORMATS,
    scores: np.ndarray | None = None,
    ids: Sequence[Any] | None = None,
    label: Sequence[Any] | None = None,
    label_name: str | None = None,
    tests: Sequence[Association] = (),
    view_names: Sequence[str] | None = None,
) -> list[Path]:
    """Write all plots of a fitted model to files.

    Parameters
    ----------
    model : fitted estimator
        Estimator of any method.
    folder : str or path-like
        Existing folder.
    formats : sequence of {"svg", "pdf", "png"}, default=("svg", "pdf", "png")
        Formats of the files.
    scores : ndarray of shape (n_samples, n_components) or None, default=None
        Scores of rows, drawn both without and with arrows for variables.
    ids : sequence of length n_samples or None, default=None
        Names of the rows. Names of the most extreme rows are written next to their points.
    label : sequence of length n_samples or None, default=None
        Numbers or categories by which rows are coloured. Categories are drawn with ellipses.
    label_name : str or None, default=None
        Name of the label.
    tests : sequence of Association, default=()
        Tests of labels against components, stated in the titles of the score plots.
    view_names : sequence of str or None, default=None
        Names of the views of the model, if it has several.

    Returns
    -------
    list of Path
        Files named after the plots, such as ``plot-scores.svg``.
    """
    import matplotlib as mpl
    from matplotlib import pyplot

    from ..findings import findings_of
    from ..plot import ScoresDisplay, ViewsDisplay, displays_of

    for name in formats:
        check_choice("formats", name, FORMATS)
    found, folder = findings_of(model), Path(folder)
    # Text is not converted to paths, so that it can be edited.
    style: Any = {"svg.fonttype": "none", "pdf.fonttype": 42, "svg.hashsalt": "prosparse"}
    paths = []
    with mpl.rc_context(style):
        for display in displays_of(model):
            if display is not ScoresDisplay:
                names = {"view_names": view_names} if display is ViewsDisplay else {}
                drawn = display.from_estimator(model, **names)
                paths += _save(drawn.figure_, folder, _file_name(display.__name__), formats)
        if scores is None or not scores.shape[1]:
            scores = np.empty((0, 0))
        for biplot in (False, True)[: min(2, scores.shape[1])]:  # a biplot requires two components
            drawn = ScoresDisplay.from_findings(
                found, scores, label=label, biplot=biplot, ids=ids
            ).plot(ellipses=True)
            if label_name is not None:
                drawn.ax_.set_title(_describe_tests(found, label_name, tests), fontsize=9)
            paths += _save(drawn.figure_, folder, "biplot" if biplot else "scores", formats)
        pyplot.close("all")
    return paths


def _file_name(display: str) -> str:
    """Convert a class name to a file name: "model-size" for ModelSizeDisplay."""
    name = display.removesuffix("Display")
    return "".join(f"-{c.lower()}" if c.isupper() else c for c in name).lstrip("-")


def _describe_tests(found: Findings, label: str, tests: Sequence[Association]) -> str:
    """Return the name of a label, and its tests against two components."""
    of_label = {test.factor: test for test in tests if test.covariate == label}
    parts = [
        f"{_pvalue(of_label[k].q_value)} (component {k + 1})"
        for k in range(min(2, found.loadings.shape[0]))
        if k in of_label
    ]
    name = quote_name(label).replace("$", r"\$")
    if not parts:
        return name
    kind = "Spearman" if next(iter(of_label.values())).kind == "number" else "Kruskal-Wallis"
    return f"{name}\n{kind} test, adjusted {', '.join(parts)}"


def _pvalue(value: float) -> str:
    return "p < 1e-10" if value < 1e-10 else f"p = {value:.2g}"


def _save(figure: Any, folder: Path, name: str, formats: Sequence[str]) -> list[Path]:
    """Save a figure without dates, so that equal results have equal files."""
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
    paths = []
    for extension in formats:
        path = folder / f"{PREFIX}{name}.{extension}"
        figure.savefig(path, dpi=PNG_RESOLUTION, metadata=undated[extension])
        paths.append(path)
    return paths
