"""The main job on built-in data: ``python -m prosparse.app.demo [FOLDER]``.

Simulates the introductory example of Mattei, Bouveyron & Latouche (2016), takes the handwritten
digits that ship with scikit-learn, prints the chosen variables of each, and writes the evidence
against the number of variables, with the relevance of each variable, as pictures. It ends in a
report on the digits, one page to be opened in a browser.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sklearn.datasets import load_digits

from ..datasets import make_globally_sparse
from ..findings import findings_of
from ..metrics import support_f_score
from ..models.gsppca import GSPPCA
from ..plot import EvidenceDisplay, RelevanceDisplay
from ..report import write_report
from .places import REPORT, check_page


def introductory_example(folder: Path) -> GSPPCA:
    """50 samples of 30 variables, 10 of which follow 5 common factors."""
    X, support, _ = make_globally_sparse(random_state=0)
    model = GSPPCA(n_components=5).fit(X)
    print("Simulated: 50 samples, 30 variables, of which 10 carry 5 common factors")
    _report(model)
    print(f"  F-score against the truth: {support_f_score(support, model.support_):.3f}")
    _draw(model, folder / "evidence_simulated.png", "Introductory example")
    return model


def digits(folder: Path) -> GSPPCA:
    """1,797 images of 8 x 8 pixels: which pixels carry the common structure?"""
    named = find_spec("pandas") is not None  # with it, the pixels have names
    X, digit = load_digits(return_X_y=True, as_frame=named)
    model = GSPPCA(n_components=5).fit(X)
    print("\nHandwritten digits (scikit-learn): 1797 images of 64 pixels, 5 components")
    _report(model)
    print("  the chosen pixels, where they are:")
    for row in model.support_.reshape(8, 8):
        print("    " + " ".join("#" if chosen else "." for chosen in row))
    _draw(model, folder / "evidence_digits.png", "Handwritten digits")
    about = {
        "title": "Which pixels carry the structure of handwritten digits?",
        "asked": {"method": "GSPPCA", "components": "5", "variables": "decided by the data"},
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


def _report(model: GSPPCA) -> None:
    found = findings_of(model)
    print(f"  chosen: {found.n_selected} of {len(found.names)} variables, most relevant first")
    print("  " + ", ".join(found.names[k] for k in found.chosen))
    print(
        f"  their {found.loadings.shape[0]} components hold {found.retained:.0%} of the variance "
        "of all columns"
    )
    print(f"  {model.n_iter_} passes; {found.stop}")


def _draw(model: GSPPCA, path: Path, title: str) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    EvidenceDisplay.from_estimator(model, ax=left)
    RelevanceDisplay.from_estimator(model, ax=right)
    figure.suptitle(title)
    figure.savefig(path, dpi=120)
    print(f"  wrote {path}")
    return figure


def main(arguments: list[str]) -> None:
    folder = Path(arguments[0]) if arguments else Path("demo-output")
    check_page(folder / REPORT)
    folder.mkdir(parents=True, exist_ok=True)
    introductory_example(folder)
    digits(folder)


if __name__ == "__main__":
    main(sys.argv[1:])
