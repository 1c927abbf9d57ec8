"""One self-contained HTML page: text by jinja2, pictures drawn by a script in the page itself.

Names come from files of strangers. In the text jinja2 escapes them; in the data every ``<``, ``>``
and ``&`` is written as an escape of JSON; the script only ever sets text, never HTML; and the
page's policy lets no other script run and nothing be fetched.
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

from ..files import write_text
from ..findings import Findings, ModelPath, VariableTests, findings_of, scores_of
from ..models._base import VariableSelector
from ..persistence import versions
from ..phrases import listed, percent
from ..stability import PermutationNull, Stability
from .links import Place, place_of
from .narrative import Doubts, kept, reading
from .redundancy import Alike, alike, named

GENERATOR = "prosparse"  # content of the meta tag by which a report is recognised
_HEAD = 1024  # bytes of a file in which that tag must be
MOST_POINTS = 3000  # in the scatter of scores
MOST_PATH = 1500  # points of a curve
MOST_BARS = 800
MOST_LOADINGS = 200  # variables in the heat map
MOST_COMPONENTS = 12
MOST_GROUPS = 16  # colours
MOST_PRINTED = (40, 8)  # variables and components of the heat map on paper: see page.css
MOST_ALIKE = 20  # groups of variables that stand for each other


def write_report(
    model: VariableSelector,
    path: str | os.PathLike[str],
    *,
    X: Any = None,
    ids: Sequence[Any] | None = None,
    label: Sequence[Any] | None = None,
    about: dict[str, Any] | None = None,
    chance: PermutationNull | None = None,
    stability: Stability | None = None,
) -> Path:
    """Write what a model found to one HTML file that needs no network.

    Parameters
    ----------
    model : fitted estimator
    path : str or path
    X : table or None
        The page then has the scores of its rows, and which of the chosen variables stand for each
        other.
    ids : sequence or None
        Names of these rows.
    label : sequence or None
        What colours them: numbers, or names of groups.
    about : dict or None
        ``title``, ``settings``, ``data`` and ``command``, as the command fills them in.
    chance : PermutationNull or None
        What `prosparse.stability.permutation_null` found, for the headline.
    stability : Stability or None
        What `prosparse.stability.stability_selection` found.

    Returns
    -------
    Path

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from prosparse import GSPPCA, datasets
    >>> from prosparse.report import write_report
    >>> X = datasets.make_globally_sparse(random_state=0).X
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_report(GSPPCA(5).fit(X), Path(folder) / "report.html", X=X).read_text()
    >>> "10 of 30 variables carry the common structure" in page
    True
    """
    scores = None if X is None else scores_of(model, X)
    path, about = Path(path), dict(about or {})
    found = findings_of(model, about.get("total_variance"))
    if chance is not None:
        about["permutation_null"] = chance.to_json()
    if stability is not None:
        about["stability"] = stability.to_json()
    if X is not None and "redundancy" not in about:
        groups = alike(found, X)
        about["redundancy"] = None if groups is None else groups.to_json()
    write_text(path, render(found, scores=scores, ids=ids, label=label, about=about))
    return path


def is_report(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is a report, by the generator named in its first lines.

    Parameters
    ----------
    path : str or path
        A regular file.

    Returns
    -------
    bool
    """
    with Path(path).open("rb") as file:
        head = file.read(_HEAD)
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
    """The page as text.

    Parameters
    ----------
    model : fitted estimator, or Findings
        What was read already is not read again.
    scores : array (n_rows, n_components) or None
        Of the rows that the page shows.
    ids : sequence or None
        As in `write_report`.
    label : sequence or None
        As in `write_report`.
    about : dict or None
        As in `write_report`.

    Returns
    -------
    str
    """
    try:
        from jinja2 import Environment, PackageLoader
    except ImportError as error:
        raise ImportError(
            "a report needs jinja2, which is not installed: pip install 'prosparse[cli]'"
        ) from error
    about = about or {}
    found = (
        model if isinstance(model, Findings) else findings_of(model, about.get("total_variance"))
    )
    doubts, heat = doubts_of(found, about), _heat(found)
    groups = Alike.from_json(about.get("redundancy"), len(found.names))
    place = place_of(found.names) if found.named else None
    if scores is not None and scores.shape[1] == 0:
        scores = None  # without a component there is nothing to draw
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
        "reading": reading(found, warnings=about.get("warnings"), doubts=doubts),
        "doubtful": doubts.chance is not None
        and (doubts.chance.telling or doubts.chance.nothing_more),
        "stability": doubts.stability,
        "kept": kept(found, doubts.chance),
        "alike": None if groups is None else _alike(groups, found),
        "place": place,
        "retained": percent(found.explained),
        "heat": heat,
        "views": _views(found),
        "converges": bool(found.stop_reason or found.objective_paths),
        "curve_caption": None if found.comparison is None else _curve_caption(found.comparison),
        "parameters": {k: _shown(v) for k, v in found.parameters.items()},
        "versions": about.get("versions") or versions(),
        "data": _embedded(
            page_data(found, scores, ids, label, about.get("label"), doubts.stability, place)
        ),
        "printed": _printed(heat),
        "n_shown": None if scores is None else min(len(scores), MOST_POINTS),
        "n_rows": None if scores is None else len(scores),
        "script": script,
        "style": resources.files(__package__).joinpath("page.css").read_text("utf-8"),
        "policy": f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
    }
    return environment.get_template("page.html.j2").render(context)


def doubts_of(found: Findings, about: dict[str, Any]) -> Doubts:
    """What the command, or a caller, did to see how sure the choice is."""
    return Doubts(
        PermutationNull.from_json(about.get("permutation_null")),
        Stability.from_json(about.get("stability"), found.names),
    )


def _alike(groups: Alike, found: Findings) -> dict[str, Any]:
    shown = groups.groups[:MOST_ALIKE]
    return {
        "words": groups.summary(found),
        "rows": [(found.names[one.first], len(one.others), named(one, found)) for one in shown],
        "left_out": len(groups.groups) - len(shown),
    }


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:199] + "…"


def _embedded(data: dict[str, Any]) -> str:
    """JSON that no HTML parser can mistake for the end of its element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.translate({ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"})


# --- what the pictures are drawn from


def page_data(
    found: Findings,
    scores: np.ndarray | None,
    ids: Sequence[Any] | None,
    label: Sequence[Any] | None,
    label_name: str | None,
    stability: Stability | None = None,
    place: Place | None = None,
) -> dict[str, Any]:
    order = found.order
    return {
        "names": [found.names[k] for k in order],  # most relevant first: rank is position + 1
        "relevance": _numbers(_sizes(found)[order]),
        "chosen": found.support[order].astype(int).tolist(),
        **_bars(found),
        "shared": None if found.tests is None else _shared(found.tests, order),
        "frequency": None if stability is None else _numbers(stability.frequency[order]),
        "link": None if place is None else {"address": place.address, "form": place.form.pattern},
        "choice": None if found.comparison is None else _curve(found.comparison),
        "traces": [_trace(trace) for trace in found.objective_paths if trace.size > 1],
        "scores": None if scores is None else _scatter(scores, ids, label, label_name),
    }


def _sizes(found: Findings) -> np.ndarray:
    """What the variables are shown by, (n_features,): what they share, or their relevance."""
    return found.relevance if found.tests is None else found.tests.communality


def _numbers(values: Any, digits: int = 4) -> list[float | None]:
    """Few digits, for a small page; what JSON has no word for is null."""
    return [float(f"{v:.{digits}g}") if math.isfinite(v) else None for v in np.ravel(values)]


def _thinned(n: int, most: int, centre: int | None = None) -> np.ndarray:
    """At most about ``most`` of n positions, evenly, and all of those next to ``centre``."""
    kept = np.linspace(0, n - 1, min(n, most)).round().astype(int)
    if centre is not None:
        kept = np.concatenate([kept, np.arange(max(0, centre - 30), min(n, centre + 31))])
    return np.unique(kept)


def _bars(found: Findings) -> dict[str, Any]:
    """Which of the ranked variables the picture of relevance shows, and at which place: all around
    the choice, the highest first."""
    shown = min(len(found.names), max(60, 3 * found.n_selected))
    falling = np.argsort(-_sizes(found)[found.order], kind="stable")
    kept = _thinned(shown, MOST_BARS)
    return {"bars": falling[kept].tolist(), "places": (kept + 1).tolist()}


def _shared(shared: VariableTests, order: np.ndarray) -> dict[str, Any]:
    return {"chance": shared.null_communality, "qvalues": _numbers(shared.qvalues[order])}


def _curve(choice: ModelPath) -> dict[str, Any]:
    y = choice.criterion
    kept = _thinned(choice.x.size, MOST_PATH, choice.best)
    kept = kept[np.isfinite(y[kept])]
    return {
        "x": _numbers(choice.x[kept], 6),
        # Four digits would not distinguish -6211.9 from -6224.8.
        "y": _numbers(y[kept] - y[choice.best]),
        "best": int(np.searchsorted(kept, choice.best)),
        "xLabel": choice.x_label,
        "yLabel": f"{_compared_label(choice)}, relative to the selected model",
        "caption": _curve_caption(choice),
        "noun": choice.noun,
    }


def _compared_label(choice: ModelPath) -> str:
    """Return the name of what the models were compared by."""
    return choice.y_label if choice.posterior is None else "log posterior probability"


def _curve_caption(choice: ModelPath) -> str:
    """Describe the plot of the compared models, and where its maximum is if not selected."""
    label = _compared_label(choice)
    said = f"{label[0].upper()}{label[1:]} against the {choice.x_label}; the marked point was "
    y = np.where(np.isfinite(choice.criterion), choice.criterion, -np.inf)
    if not choice.evidence or y[choice.best] >= np.max(y):
        return f"{said}selected."
    highest = int(choice.x[int(np.argmax(y))])
    noun = choice.noun.removesuffix("s") if highest == 1 else choice.noun
    return f"{said}selected for the reason above. The maximum is at {highest:,} {noun}."


def _trace(trace: np.ndarray) -> dict[str, Any]:
    """How far the objective was below its last value, at every iteration where it was."""
    below = trace[-1] - trace
    kept = _thinned(trace.size, MOST_PATH)
    kept = kept[np.isfinite(below[kept]) & (below[kept] > 0)]
    return {"x": (kept + 1).tolist(), "y": _numbers(below[kept])}


def _scatter(
    scores: np.ndarray, ids: Sequence[Any] | None, label: Sequence[Any] | None, name: str | None
) -> dict[str, Any]:
    n = scores.shape[0]
    rows = np.arange(n)
    if n > MOST_POINTS:
        rows = np.sort(np.random.default_rng(0).choice(n, MOST_POINTS, replace=False))
    picked = None if label is None else [label[int(k)] for k in rows]
    return {
        "values": [_numbers(scores[rows, k]) for k in range(min(scores.shape[1], MOST_COMPONENTS))],
        "rows": (rows + 1).tolist(),
        "ids": None if ids is None else [str(ids[int(k)]) for k in rows],
        "label": None if picked is None else _coloured(picked, name or "label"),
    }


def _coloured(values: list[Any], name: str) -> dict[str, Any]:
    """Numbers with many values get a scale of colours, all else one colour for each value."""
    numbers = [_as_number(value) for value in values]
    known = {v for v in numbers if v is not None and math.isfinite(v)}
    texts = ["missing" if str(v) in ("", "nan", "None") else str(v) for v in values]
    if len(known) > MOST_GROUPS and all(
        v is not None or t == "missing" for v, t in zip(numbers, texts)
    ):
        finite = [math.nan if v is None else v for v in numbers]
        return {"name": name, "kind": "number", "values": _numbers(finite)}
    counts: dict[str, int] = {}
    for text in texts:
        counts[text] = counts.get(text, 0) + 1
    groups = sorted(counts, key=lambda t: (-counts[t], t))[:MOST_GROUPS]
    if len(counts) > MOST_GROUPS:
        groups[-1] = f"{len(counts) - MOST_GROUPS + 1} others"
    groups = sorted(groups, key=lambda t: (t.endswith(" others"), _natural(t)))
    place = {text: k for k, text in enumerate(groups)}
    return {
        "name": name,
        "kind": "group",
        "groups": groups,
        "values": [place.get(text, len(groups) - 1) for text in texts],
    }


def _natural(text: str) -> list[tuple[int, int, str]]:
    """An order in which label 2 comes before label 10."""
    parts = re.split(r"([0-9]+)", text)
    return [(1, int(one), "") if one.isdigit() else (0, 0, one) for one in parts if one]


def _as_number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _printed(heat: dict[str, Any]) -> str:
    """What of the heat map is on paper, if not all of it."""
    parts = [
        f"the first {most} {what}"
        for count, most, what in (
            (len(heat["rows"]), MOST_PRINTED[0], "variables"),
            (heat["n_components"], MOST_PRINTED[1], "components"),
        )
        if count > most
    ]
    return f"On paper are {listed(parts)} of these." if parts else ""


def _views(found: Findings) -> dict[str, Any] | None:
    """Shares of every view's variance, where there are several views."""
    if found.views is None or len(found.views.columns) < 2:
        return None
    shares = found.views.explained[:, :MOST_COMPONENTS]
    largest = float(np.max(shares, initial=0.0)) or 1.0
    rows = [
        (
            f"view {number + 1}, {columns.size:,} variables",
            percent(float(found.views.explained[number].sum())),
            [(f"{share:.1%}" if share else "0", share / largest) for share in row.tolist()],
        )
        for number, (columns, row) in enumerate(zip(found.views.columns, shares, strict=True))
    ]
    return {"rows": rows, "n_components": shares.shape[1]}


def _heat(found: Findings) -> dict[str, Any]:
    """Loadings of the chosen variables, each as a share of the largest, for the colours."""
    rows = found.selected[:MOST_LOADINGS]
    values = found.loadings[:MOST_COMPONENTS, rows].T
    largest = float(np.max(np.abs(values), initial=0.0)) or 1.0
    decimals = min(max(0, 2 - math.floor(math.log10(largest))), 12)  # three digits of the largest
    body = [
        (found.names[k], [(float(v), f"{v:.{decimals}f}", abs(v) / largest) for v in row])
        for k, row in zip(rows, values, strict=True)
    ]
    return {
        "rows": body,
        "n_components": values.shape[1],
        "of_components": found.loadings.shape[0],
        "n_chosen": found.n_selected,
    }
