"""The main job on built-in data: ``python -m prosparse.app.demo [FOLDER]``.

Hides the handwritten digits that ship with scikit-learn among shuffled columns, and finds their
pixels again; simulates the introductory example of Mattei, Bouveyron & Latouche (2016) and weighs
every number of variables by its evidence. Prints the chosen variables of each and draws why. It
ends in a report on the digits, one page to be opened in a browser.
"""

from __future__ import annotations

import sys
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
from .output_paths import REPORT, check_page

_MOST_NAMES = 12


def digits(folder: Path) -> FDRPCA:
    """1,797 images of 8 x 8 pixels: which pixels vary together, and how much do they share?"""
    named = find_spec("pandas") is not None  # with it, the pixels have names
    X, digit = load_digits(return_X_y=True, as_frame=named)
    print("Handwritten digits (scikit-learn): 1797 images of 64 pixels")
    model = FDRPCA().fit(X)
    _report(model)
    print("  the share of each pixel's variance that it has in common, in tenths (. not chosen):")
    tenths = np.where(
        model.support_, np.floor(10 * model.communality_).astype(int).astype(str), "."
    )
    for row in tenths.reshape(8, 8):
        print("    " + " ".join(row))
    _among_shuffled(np.asarray(X))
    _draw(
        folder / "communality_digits.png",
        "Handwritten digits",
        lambda ax: CommunalityDisplay.from_estimator(model, ax=ax),
    )
    about = {
        "title": "Which pixels of handwritten digits vary together?",
        "asked": {
            "method": "FDRPCA",
            "components": "decided by the data",
            "variables": "decided by the data",
        },
        "data": {
            "table": "handwritten digits of scikit-learn",
            "rows": f"{len(X):,}",
            "variables": f"{X.shape[1]:,}",
            "coloured by": "digit",
        },
        "command": "prosparse demo",
        "label": "digit",
    }
    page = write_report(model, folder / REPORT, X=X, label=list(digit), about=about)
    print(f"  wrote {page}: open it in a browser")
    return model


def _among_shuffled(X: np.ndarray) -> None:
    """The same pixels among as many columns of theirs in random order, which share nothing."""
    rng = np.random.default_rng(0)
    model = FDRPCA().fit(np.hstack([X, rng.permuted(X, axis=0)]))
    true, false = (int(half.sum()) for half in np.split(model.support_, 2))
    share = percent(false / max(true + false, 1), 0)
    print(
        f"  among 64 shuffled columns, which share nothing: {true} pixels found again, and "
        f"{false} of the shuffled ({share} of all that were chosen)"
    )


def introductory_example(folder: Path) -> GSPPCA:
    """50 samples of 30 variables, 10 of which follow 5 common factors."""
    X, support, _ = make_globally_sparse(random_state=0)
    model = GSPPCA(n_components=5).fit(X)
    print("\nSimulated: 50 samples, 30 variables, of which 10 carry 5 common factors; by evidence")
    _report(model)
    print(f"  {model.n_iter_} passes; {model.stop_reason_}")
    print(f"  F-score against the truth: {support_f_score(support, model.support_):.3f}")
    _draw(
        folder / "evidence_simulated.png",
        "Introductory example",
        lambda ax: EvidenceDisplay.from_estimator(model, ax=ax),
        lambda ax: RelevanceDisplay.from_estimator(model, ax=ax),
    )
    return model


def _report(model: VariableSelector) -> None:
    found = findings_of(model)
    few = [found.names[k] for k in found.chosen[:_MOST_NAMES]]
    more = f", and {found.n_selected - len(few)} more" if found.n_selected > len(few) else ""
    print(f"  chosen: {found.n_selected} of {len(found.names)} variables")
    print(f"  why: {found.why}")
    print(f"  first of the ranking: {', '.join(few)}{more}")
    print(
        f"  their {found.loadings.shape[0]} components hold {percent(found.retained, 0)} of the "
        "variance of all columns"
    )


def _draw(path: Path, title: str, *pictures: Callable[[Any], object]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.0 * max(len(pictures), 1) + 1, 3.8), layout="constrained")
    for draw, ax in zip(pictures, np.ravel(figure.subplots(1, len(pictures))), strict=True):
        draw(ax)
    figure.suptitle(title)
    figure.savefig(path, dpi=120)
    print(f"  wrote {path}")
    return figure


def main(arguments: list[str]) -> None:
    folder = Path(arguments[0]) if arguments else Path("demo-output")
    check_page(folder / REPORT)
    folder.mkdir(parents=True, exist_ok=True)
    digits(folder)
    introductory_example(folder)


if __name__ == "__main__":
    main(sys.argv[1:])
