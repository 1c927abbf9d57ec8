"""Demonstration with built-in data.

The handwritten digits of scikit-learn are analysed with and without added permuted columns. Data as
in the introductory example of Mattei, Bouveyron and Latouche (2016) are simulated, and the number
of variables is selected by the marginal likelihood (evidence).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from ..datasets import make_globally_sparse
from ..findings import findings_of
from ..metrics import support_f_score
from ..models._base import VariableSelector
from ..models.fdrpca import FDRPCA
from ..models.gsppca import GSPPCA
from ..phrases import percent
from ..plot import CommunalityDisplay, EvidenceDisplay, RelevanceDisplay
from ..report import write_report
from .output_paths import PLOT_METADATA, REPORT, check_plot_path, check_report_path

MAX_NAMED = 12  # maximum number of printed variables
DIGITS_PLOT, EXAMPLE_PLOT = "communality_digits.png", "evidence_simulated.png"


def run_demo(folder: Path) -> None:
    """Analyse built-in data, and write plots and a report to a folder."""
    check_report_path(folder / REPORT)
    for name in (DIGITS_PLOT, EXAMPLE_PLOT):
        check_plot_path(folder / name)
    folder.mkdir(parents=True, exist_ok=True)
    analyse_digits(folder)
    analyse_example(folder)


def analyse_digits(folder: Path) -> FDRPCA:
    """Select correlated pixels of 1,797 images of handwritten digits."""
    has_pandas = find_spec("pandas") is not None  # pandas is required for names of the pixels
    X, digit = load_digits(return_X_y=True, as_frame=has_pandas)
    print("Handwritten digits (scikit-learn): 1797 images of 64 pixels")
    model = FDRPCA().fit(X)
    _print_selection(model)
    print("  communality of each pixel in tenths (. not selected):")
    tenths = np.where(
        model.support_, np.floor(10 * model.communality_).astype(int).astype(str), "."
    )
    for row in tenths.reshape(8, 8):
        print("    " + " ".join(row))
    _analyse_permuted(np.asarray(X))
    _save_plot(
        folder / DIGITS_PLOT,
        "Handwritten digits",
        lambda ax: CommunalityDisplay.from_estimator(model, ax=ax),
    )
    about = {
        "title": "Variable selection: handwritten digits",
        "settings": {
            "method": "FDRPCA",
            "components": "estimated from the data",
            "variables": "estimated from the data",
        },
        "data": {
            "table": "handwritten digits of scikit-learn",
            "rows": f"{len(X):,}",
            "variables": f"{X.shape[1]:,}",
            "label": "digit",
        },
        "command": "prosparse demo",
        "label": "digit",
    }
    path = write_report(model, folder / REPORT, X=X, label=list(digit), about=about)
    print(f"  wrote {path}: open it in a browser")
    return model


def _analyse_permuted(X: np.ndarray) -> None:
    """Count selected columns after adding a permuted copy of each column."""
    rng = np.random.default_rng(0)
    model = FDRPCA().fit(np.hstack([X, rng.permuted(X, axis=0)]))
    n_true, n_false = (int(half.sum()) for half in np.split(model.support_, 2))
    proportion = percent(n_false / max(n_true + n_false, 1), 0)
    print(
        f"  with 64 permuted columns added: {n_true} pixels and {n_false} permuted columns "
        f"selected (false discovery proportion {proportion})"
    )


def analyse_example(folder: Path) -> GSPPCA:
    """Fit 50 samples of 30 variables, 10 of which depend on 5 common factors."""
    X, support, _ = make_globally_sparse(random_state=0)
    model = GSPPCA(n_components=5).fit(X)
    print("\nSimulated data: 50 samples, 30 variables, of which 10 depend on 5 common factors")
    _print_selection(model)
    print(f"  {model.n_iter_} iterations; {model.stop_reason_}")
    print(f"  F-score of the selection: {support_f_score(support, model.support_):.3f}")
    _save_plot(
        folder / EXAMPLE_PLOT,
        "Introductory example",
        lambda ax: EvidenceDisplay.from_estimator(model, ax=ax),
        lambda ax: RelevanceDisplay.from_estimator(model, ax=ax),
    )
    return model


def _print_selection(model: VariableSelector) -> None:
    found = findings_of(model)
    names = [found.names[k] for k in found.selected[:MAX_NAMED]]
    more = f", and {found.n_selected - len(names)} more" if found.n_selected > len(names) else ""
    print(f"  selected: {found.n_selected} of {len(found.names)} variables")
    print(f"  reason: {found.reason}")
    print(f"  highest ranks: {', '.join(names)}{more}")
    print(
        f"  {found.loadings.shape[0]} components explain {percent(found.explained, 0)} of the "
        "total variance"
    )


def _save_plot(path: Path, title: str, *plots: Callable[[Any], object]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.0 * len(plots) + 1, 3.8), layout="constrained")
    for plot, ax in zip(plots, np.ravel(figure.subplots(1, len(plots))), strict=True):
        plot(ax)
    figure.suptitle(title)
    figure.savefig(path, dpi=120, metadata=PLOT_METADATA)
    print(f"  wrote {path}")
