"""Report as a self-contained HTML page.

Jinja2 renders the text, and a script in the page draws the plots.

Names come from untrusted files. Jinja2 escapes them in the text, and JSON escapes ``<``, ``>`` and
``&`` in the data. The script inserts text only, never HTML. The content security policy of the page
forbids other scripts and all requests.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from ..checks import TableCheck
from ..files import write_text
from ..findings import Findings, findings_of, scores_of
from ..models._base import VariableSelector
from ..models.description import ModelPath
from ..persistence import versions
from ..phrases import join_items, percent, truncate
from ..stability import PermutationNull, Stability
from .methods_text import describe_methods
from .narrative import (
    describe_selection,
    describe_shared,
    name_views,
    narrate,
    selects_many_under_null,
)
from .redundancy import Redundancy, find_redundancy, list_others
from .robustness import Robustness

GENERATOR = "prosparse"  # content of the meta tag that identifies a report
MAX_TAG_OFFSET = 1024  # maximum number of bytes before the end of this tag
MAX_POINTS = 3000  # maximum number of points in the scatter plot of scores
MAX_PATH = 1500  # maximum number of points of a curve
N_NEIGHBOURS = 30  # number of points on both sides of the selected model that are always drawn
MAX_BARS = 800  # maximum number of bars
MIN_RANKED = 60  # minimum number of variables in the bar plot
MAX_LOADINGS = 200  # maximum number of variables in the heat map
MAX_COMPONENTS = 12  # maximum number of components in the heat map and the scatter plot
MAX_COLOURS = 16  # maximum number of labels with distinct colours
MAX_PRINTED = (40, 8)  # maximum number of variables and components in a printed heat map (page.css)
MAX_ELLIPSES = 8  # maximum number of groups with ellipses; see page.js
MAX_GROUPS = 20  # maximum number of redundant groups
MAX_PARAMETER_LENGTH = 200  # maximum number of characters of a parameter


def write_report(
    model: VariableSelector,
    path: str | os.PathLike[str],
    *,
    X: Any = None,
    ids: Sequence[Any] | None = None,
    label: Sequence[Any] | None = None,
    about: dict[str, Any] | None = None,
    permutations: PermutationNull | None = None,
    stability: Stability | None = None,
    covariates: Any = None,
) -> Path:
    """Write a report of a fitted model to a self-contained HTML file.

    Parameters
    ----------
    model : fitted estimator
        Estimator of any method.
    path : str or path-like
        File to write.
    X : data matrix of shape (n_samples, n_features), list of views, or None, default=None
        Data for the plot of scores and for the detection of redundant variables.
    ids : sequence of length n_samples or None, default=None
        Names of the rows of ``X``.
    label : sequence of length n_samples or None, default=None
        Numbers or categories by which the rows of ``X`` are coloured.
    about : dict or None, default=None
        Description of the analysis; the command sets ``title``, ``settings``, ``data`` and
        ``command``.
    permutations : PermutationNull or None, default=None
        Result of `prosparse.stability.permutation_null`.
    stability : Stability or None, default=None
        Result of `prosparse.stability.stability_selection`.
    covariates : DataFrame or array-like of shape (n_samples, n_covariates), default=None
        Covariates of the rows of ``X``, for a model fitted with covariates.

    Returns
    -------
    Path
        Path of the file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from prosparse import GSPPCA, datasets
    >>> from prosparse.report import write_report
    >>> X = datasets.make_globally_sparse(random_state=0).X
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_report(GSPPCA(5).fit(X), Path(folder) / "report.html", X=X).read_text()
    >>> "GSPPCA selected 10 of 30 variables, with 5 components." in page
    True
    """
    scores = None if X is None else scores_of(model, X, covariates)
    path, about = Path(path), dict(about or {})
    found = findings_of(model, about.get("total_variance"))
    if permutations is not None:
        about["permutation_null"] = permutations.to_json()
    if stability is not None:
        about["stability"] = stability.to_json()
    if X is not None and "redundancy" not in about:
        redundancy = find_redundancy(found, X, covariates=covariates)
        about["redundancy"] = None if redundancy is None else redundancy.to_json()
    write_text(path, render(found, scores=scores, ids=ids, label=label, about=about))
    return path


def is_report(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is a report, according to its generator tag.

    Parameters
    ----------
    path : str or path-like
        File to examine.

    Returns
    -------
    bool
    """
    with Path(path).open("rb") as file:
        head = file.read(MAX_TAG_OFFSET)
    tag = f'<meta name="generator" content="{GENERATOR}">'.encode()
    return head.startswith(b"<!DOCTYPE html>") and tag in head


def render(
    model: VariableSelector | Findings,
    *,
    scores: np.ndarray | None = None,
    ids: Sequence[Any] | None = None,
    label: Sequence[Any] | None = None,
    about: dict[str, Any] | None = None,
) -> str:
    """Render the report of a fitted model as HTML.

    Parameters
    ----------
    model : fitted estimator or Findings
        Estimator of any method, or its results.
    scores : ndarray of shape (n_samples, n_components) or None, default=None
        Scores to plot.
    ids : sequence of length n_samples or None, default=None
        Names of the rows.
    label : sequence of length n_samples or None, default=None
        Numbers or categories by which the rows are coloured.
    about : dict or None, default=None
        Description of the analysis, as in `write_report`.

    Returns
    -------
    str
    """
    try:
        from jinja2 import Environment, PackageLoader
    except ImportError as error:
        raise ImportError(
            "Reports need Jinja2, which is not installed: pip install 'prosparse[cli]'"
        ) from error
    about = about or {}
    found = (
        model if isinstance(model, Findings) else findings_of(model, about.get("total_variance"))
    )
    null = PermutationNull.from_json(about.get("permutation_null"))
    stability = Stability.from_json(about.get("stability"), found.names)
    robustness = Robustness.from_json(about.get("robustness"))
    heat = _heat_map(found)
    redundancy = Redundancy.from_json(about.get("redundancy"), len(found.names))
    if scores is not None and scores.shape[1] == 0:
        scores = None  # no components to plot
    environment = Environment(
        loader=PackageLoader("prosparse.report", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = resources.files(__package__).joinpath("page.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    context = {
        "about": about,
        "found": found,
        "generator": GENERATOR,
        "title": about.get("title") or f"{found.method} report",
        "check": TableCheck.from_json(about.get("check")),
        "sentences": narrate(
            found,
            warnings=about.get("warnings"),
            null=null,
            stability=stability,
            robustness=robustness,
            view_names=about.get("views") or (),
            shared_null=about.get("shared_null") or (),
        ),
        "shared": describe_shared(found, about.get("views") or ()),
        "robustness": robustness,
        "caution": selects_many_under_null(found, null)
        or (null is not None and null.consistent_with_null)
        or (robustness is not None and robustness.headline() is not None),
        "stability": stability,
        "selection": describe_selection(found, null),
        "redundancy": None if redundancy is None else _redundancy_table(redundancy, found),
        "explained": percent(found.explained),
        "heat": heat,
        "views": _views(found, about.get("views") or ()),
        "converges": bool(found.stop_reason or found.objective_paths),
        "curve_caption": None if found.comparison is None else _curve_caption(found.comparison),
        "parameters": {
            k: truncate(repr(v), MAX_PARAMETER_LENGTH) for k, v in found.parameters.items()
        },
        "versions": about.get("versions") or versions(),
        "data": _to_embedded_json(
            page_data(found, scores, ids, label, about.get("label"), stability)
        ),
        "print_note": _print_note(heat),
        "n_shown": None if scores is None else min(len(scores), MAX_POINTS),
        "n_rows": None if scores is None else len(scores),
        "has_ids": ids is not None,
        "has_groups": label is not None and len({*map(str, label)}) <= MAX_ELLIPSES,
        "methods": describe_methods(found, about),
        "script": script,
        "style": resources.files(__package__).joinpath("page.css").read_text("utf-8"),
        "policy": f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
    }
    return environment.get_template("page.html.j2").render(context)


def _redundancy_table(redundancy: Redundancy, found: Findings) -> dict[str, Any]:
    shown = redundancy.groups[:MAX_GROUPS]
    return {
        "summary": redundancy.summary(found),
        "rows": [
            (found.names[group.representative], len(group.others), list_others(group, found))
            for group in shown
        ],
        "n_omitted": len(redundancy.groups) - len(shown),
    }


def _to_embedded_json(data: dict[str, Any]) -> str:
    """Convert data to JSON that cannot end the enclosing HTML element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.translate({ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"})


# --- data of the plots


def page_data(
    found: Findings,
    scores: np.ndarray | None,
    ids: Sequence[Any] | None,
    label: Sequence[Any] | None,
    label_name: str | None,
    stability: Stability | None = None,
) -> dict[str, Any]:
    """Return the data of plots and table, with the most relevant first."""
    order = found.order
    return {
        "names": [found.names[k] for k in order],
        "relevance": _round(_bar_heights(found)[order]),
        "selected": found.support[order].astype(int).tolist(),
        **_bars(found),
        "tests": None
        if found.tests is None
        else {
            "nullCommunality": found.tests.null_communality,
            "qvalues": _round(found.tests.qvalues[order]),
        },
        "frequency": None if stability is None else _round(stability.frequency[order]),
        "path": None if found.comparison is None else _curve(found.comparison),
        "objectives": [_objective(path) for path in found.objective_paths if path.size > 1],
        "scores": None
        if scores is None
        else _scatter(scores, ids, label, label_name)
        | {
            "variance": None
            if found.component_variance is None
            else _round(found.component_variance[:MAX_COMPONENTS])
        },
    }


def _bar_heights(found: Findings) -> np.ndarray:
    """Return the communality if variables were tested, otherwise relevance."""
    return found.relevance if found.tests is None else found.tests.communality


def _round(values: Any, digits: int = 4) -> list[float | None]:
    """Round to a few digits to reduce the size of the page.

    Non-finite values become null.
    """
    return [float(f"{v:.{digits}g}") if math.isfinite(v) else None for v in np.ravel(values)]


def _thin(n: int, maximum: int, centre: int | None = None) -> np.ndarray:
    """Return at most ``maximum`` evenly spaced indices, and all near ``centre``."""
    indices = np.linspace(0, n - 1, min(n, maximum)).round().astype(int)
    if centre is not None:
        close = np.arange(max(0, centre - N_NEIGHBOURS), min(n, centre + N_NEIGHBOURS + 1))
        indices = np.concatenate([indices, close])
    return np.unique(indices)


def _bars(found: Findings) -> dict[str, Any]:
    """Return the variables of the bar plot and their positions, highest first."""
    n_ranked = min(len(found.names), max(MIN_RANKED, 3 * found.n_selected))
    decreasing = np.argsort(-_bar_heights(found)[found.order], kind="stable")
    indices = _thin(n_ranked, MAX_BARS)
    return {"bars": decreasing[indices].tolist(), "positions": (indices + 1).tolist()}


def _curve(path: ModelPath) -> dict[str, Any]:
    y = path.criterion
    indices = _thin(path.x.size, MAX_PATH, path.best)
    indices = indices[np.isfinite(y[indices])]
    return {
        "x": _round(path.x[indices], 6),
        # Four digits would not distinguish -6211.9 from -6224.8.
        "y": _round(y[indices] - y[path.best]),
        "best": int(np.searchsorted(indices, path.best)),
        "xLabel": path.x_label,
        "yLabel": f"{_criterion_label(path)}, relative to the selected model",
        "caption": _curve_caption(path),
        "noun": path.noun,
    }


def _criterion_label(path: ModelPath) -> str:
    """Return the name of the criterion by which models are compared."""
    return path.y_label if path.posterior is None else "log posterior probability"


def _curve_caption(path: ModelPath) -> str:
    """Describe the plot of the compared models.

    The maximum is stated if another model was selected.
    """
    label = _criterion_label(path)
    caption = f"{label[0].upper()}{label[1:]} against the {path.x_label}; the marked point was "
    y = np.where(np.isfinite(path.criterion), path.criterion, -np.inf)
    if not path.evidence or y[path.best] >= np.max(y):
        return f"{caption}selected."
    highest = int(path.x[int(np.argmax(y))])
    noun = path.noun.removesuffix("s") if highest == 1 else path.noun
    return f"{caption}selected for the reason above. The maximum is at {highest:,} {noun}."


def _objective(path: np.ndarray) -> dict[str, Any]:
    """Compute the difference of the final and each objective of the path.

    Iterations at or above the final value are omitted.
    """
    distance = path[-1] - path
    indices = _thin(path.size, MAX_PATH)
    indices = indices[np.isfinite(distance[indices]) & (distance[indices] > 0)]
    return {"x": (indices + 1).tolist(), "y": _round(distance[indices])}


def _scatter(
    scores: np.ndarray, ids: Sequence[Any] | None, label: Sequence[Any] | None, name: str | None
) -> dict[str, Any]:
    n = scores.shape[0]
    rows = np.arange(n)
    if n > MAX_POINTS:
        rows = np.sort(np.random.default_rng(0).choice(n, MAX_POINTS, replace=False))
    labels = None if label is None else [label[int(k)] for k in rows]
    return {
        "values": [_round(scores[rows, k]) for k in range(min(scores.shape[1], MAX_COMPONENTS))],
        "rows": (rows + 1).tolist(),
        "ids": None if ids is None else [str(ids[int(k)]) for k in rows],
        "label": None if labels is None else _colours(labels, name or "label"),
    }


def _colours(values: list[Any], name: str) -> dict[str, Any]:
    """Return a colour scale for many numbers, or one colour per value."""
    numbers = [_to_number(value) for value in values]
    different = {v for v in numbers if v is not None and math.isfinite(v)}
    texts = ["missing" if str(v) in ("", "nan", "None") else str(v) for v in values]
    if len(different) > MAX_COLOURS and all(
        v is not None or t == "missing" for v, t in zip(numbers, texts)
    ):
        return {
            "name": name,
            "kind": "number",
            "values": _round([math.nan if v is None else v for v in numbers]),
        }
    counts: dict[str, int] = {}
    for text in texts:
        counts[text] = counts.get(text, 0) + 1
    groups = sorted(counts, key=lambda t: (-counts[t], t))[:MAX_COLOURS]
    if len(counts) > MAX_COLOURS:
        groups[-1] = f"{len(counts) - MAX_COLOURS + 1} others"
    groups = sorted(groups, key=lambda t: (t.endswith(" others"), _natural_key(t)))
    index = {text: k for k, text in enumerate(groups)}
    return {
        "name": name,
        "kind": "group",
        "groups": groups,
        "values": [index.get(text, len(groups) - 1) for text in texts],
    }


def _natural_key(text: str) -> list[tuple[int, int, str]]:
    """Return a sort key by which "label 2" precedes "label 10"."""
    parts = re.split(r"([0-9]+)", text)
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts if part]


def _to_number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _print_note(heat: dict[str, Any]) -> str:
    """Return a note on the printed part of the heat map, if not complete."""
    parts = [
        f"the first {maximum} {noun}"
        for count, maximum, noun in (
            (len(heat["rows"]), MAX_PRINTED[0], "variables"),
            (heat["n_components"], MAX_PRINTED[1], "components"),
        )
        if count > maximum
    ]
    return f"Only {join_items(parts)} are printed." if parts else ""


def _views(found: Findings, names: Sequence[str]) -> dict[str, Any] | None:
    """Return the proportions of variance explained in each of several views."""
    if found.views is None or len(found.views.columns) < 2:
        return None
    proportions = found.views.explained[:, :MAX_COMPONENTS]
    largest = float(np.max(proportions, initial=0.0)) or 1.0
    rows = [
        (
            f"{name}, {columns.size:,} variables",
            percent(float(found.views.explained[view].sum())),
            [(f"{value:.1%}" if value else "0", value / largest) for value in row.tolist()],
        )
        for view, (name, columns, row) in enumerate(
            zip(name_views(found, names), found.views.columns, proportions, strict=True)
        )
    ]
    return {"rows": rows, "n_components": proportions.shape[1]}


def _heat_map(found: Findings) -> dict[str, Any]:
    """Return the loadings of the selected variables, relative to the largest."""
    rows = found.selected[:MAX_LOADINGS]
    values = found.loadings[:MAX_COMPONENTS, rows].T
    largest = float(np.max(np.abs(values), initial=0.0)) or 1.0
    decimals = min(max(0, 2 - math.floor(math.log10(largest))), 12)  # three digits of the largest
    cells = [
        (found.names[k], [(float(v), f"{v:.{decimals}f}", abs(v) / largest) for v in row])
        for k, row in zip(rows, values, strict=True)
    ]
    return {
        "rows": cells,
        "n_components": values.shape[1],
        "total_components": found.loadings.shape[0],
        "n_selected": found.n_selected,
    }
