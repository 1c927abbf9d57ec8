"""Output of the results of the commands as JSON or as a short table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from ..checks import TableCheck
from ..errors import plural
from ..findings import Findings, Reconstruction
from ..phrases import percent, quote_name
from ..report.narrative import (
    describe_covariates,
    describe_selection,
    describe_shared,
    list_communalities,
)
from ..report.robustness import Robustness
from ..stability import PermutationNull, Stability, near_optimal_sizes
from .analysis import Result
from .application import Application
from .check_output import describe_findings
from .output_paths import REPORT
from .results import intercept_of
from .terminal import escape_control

MAX_NAMED = 8  # maximum number of variables in the table
MAX_PANEL = 200  # maximum number of variables of a panel


def summarize(result: Result, output: Path) -> dict[str, Any]:
    """Convert the results to objects that JSON supports."""
    found, about = result.found, result.about
    null = PermutationNull.from_json(about.get("permutation_null"))
    stability = Stability.from_json(about.get("stability"), found.names)
    robustness = Robustness.from_json(about.get("robustness"))
    selected = found.selected
    summary: dict[str, Any] = {
        "file": str(result.table.path),
        "method": found.method,
        "rows": result.table.X.shape[0],
        "variables": result.table.X.shape[1],
        "n_selected": found.n_selected,
        "selected": [found.names[k] for k in selected],
        "reason": found.reason,
        "communality": None
        if found.tests is None
        else [float(found.tests.communality[k]) for k in selected],
        "covariate_r2": None
        if found.covariates is None
        else [float(found.covariates.r2[k]) for k in selected],
        "null_expected_n_selected": None if null is None else null.expected_n_selected,
        "null_expected_by_kind": None if null is None else null.expected_n_selected_by_kind,
        "selection_frequency": None
        if stability is None
        else [float(stability.frequency[k]) for k in selected],
    }
    if found.regression:
        summary |= {
            "response": about["data"]["response"],
            "coefficients": {found.names[k]: float(found.loadings[0, k]) for k in selected},
            "intercept": intercept_of(result.model),
        }
        summary |= {score: about[score] for score in ("r2", "accuracy") if score in about}
        if hasattr(result.model, "classes_"):
            summary["classes"] = result.model.classes_.tolist()
    else:
        summary |= {
            "n_components": int(found.loadings.shape[0]),
            "explained_variance_ratio": found.explained,
        }
    return summary | {
        "shared": _describe_shared(result),
        "n_imputed": about["n_imputed"],
        "caution": None if robustness is None else robustness.headline(),
        "robustness": about.get("robustness"),
        "check": about["check"]["findings"],
        "notes": about["notes"],
        "warnings": about["warnings"],
        "seconds": about["seconds"],
        "output": str(output),
    }


def print_summary(result: Result, output: Path, replaced: str | None = None) -> None:
    """Print the results as a short table, and the warnings to standard error."""
    found, about = result.found, result.about
    n, p = result.table.X.shape
    null = PermutationNull.from_json(about.get("permutation_null"))
    stability = Stability.from_json(about.get("stability"), found.names)
    rows = [("table", f"{result.table.path.name}, {n:,} rows, {p:,} variables")]
    rows += [("", note) for note in about["notes"]]
    rows += describe_findings(TableCheck.from_json(about.get("check")))
    if found.regression:
        rows.append(("method", f"{found.method}, response {about['data']['response']}"))
    else:
        count = found.loadings.shape[0]
        rows.append(("method", f"{found.method}, {plural(count, 'component')}"))
    robustness = Robustness.from_json(about.get("robustness"))
    qualification = None if robustness is None else robustness.headline()
    if qualification:
        rows.append(("caution", qualification))
    rows += [
        ("shared" if k == 0 else "", sentence)
        for k, sentence in enumerate(
            describe_shared(found, about["views"], about.get("shared_null") or ())
        )
    ]
    rows.append(("selected", describe_selection(found, null)))
    rows.append(("reason", found.reason))
    if found.covariates is not None:
        rows.append(("covariates", describe_covariates(found.covariates)))
    if found.by_evidence:
        rows.append(("similar sizes", near_optimal_sizes(found).summary()))
    if robustness is not None:
        rows += [
            ("robustness" if k == 0 else "", sentence)
            for k, sentence in enumerate(robustness.summary())
        ]
    if null is not None:
        rows.append(("null datasets", " ".join(null.summary())))
    if stability is not None:
        rows.append(("stability", " ".join(stability.summary())))
    rows.append(_describe_fit(result))
    rows += _list_variables(result)
    rows.append(("results", str(output / REPORT if output.is_dir() else output)))
    if replaced:
        rows.append(("", f"replaced earlier results of {replaced}, computed from other data"))
    _print_rows(rows)
    for warning in about["warnings"]:
        Console(stderr=True).print(
            Text(f"warning: {escape_control(warning)}", style="yellow"), soft_wrap=True
        )


def _print_rows(rows: list[tuple[str, str]]) -> None:
    grid = Grid.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")  # long paths must not be shortened
    for key, value in rows:
        grid.add_row(Text(key, style="bold"), Text(escape_control(value)))
    Console().print(grid)


def _describe_shared(result: Result) -> list[str]:
    about = result.about
    return describe_shared(result.found, about["views"], about.get("shared_null") or ())


def _describe_fit(result: Result) -> tuple[str, str]:
    if "accuracy" in result.about:
        return "accuracy", f"{percent(result.about['accuracy'])} of these rows"
    if result.found.regression:
        return (
            "R2",
            f"{percent(result.about['r2'])} of the response's variance in these rows",
        )
    return "explained variance", percent(result.found.explained)


def _describe_panel(found: Findings, reconstruction: Reconstruction) -> list[tuple[str, str]]:
    """List the variables of a panel, and the held-out R² of smaller panels."""
    names = [quote_name(found.names[k]) for k in reconstruction.order[:MAX_PANEL]]
    more = f", … ({found.n_selected - MAX_PANEL:,} more)" if found.n_selected > MAX_PANEL else ""
    path, std = reconstruction.heldout_r2_path, reconstruction.heldout_r2_path_std
    n = found.n_selected
    sizes = sorted({max(1, n // 4), max(1, n // 2), n})
    recovery = ", ".join(
        f"{percent(max(float(path[size - 1]), 0.0))} ± {100 * float(std[size - 1]):.1f}% by "
        f"{'all ' if size == n and n > 1 else 'the first ' if size > 1 else 'the first'}"
        f"{size if size > 1 else ''}"
        for size in sizes
        if size <= len(path)
    )
    return [
        ("panel", ", ".join(names) + more),
        ("recovery", f"{recovery}: variance explained on held-out rows, ± SD over folds"),
    ]


def _list_variables(result: Result) -> list[tuple[str, str]]:
    found = result.found
    first = found.selected[:MAX_NAMED]
    if not len(first):
        return []
    if found.reconstruction is not None:
        return _describe_panel(found, found.reconstruction)
    if found.regression:
        key = "coefficients"
        names = [f"{quote_name(found.names[k])} ({found.loadings[0, k]:.3g})" for k in first]
    elif found.tests is None:
        key, names = "most relevant", [quote_name(found.names[k]) for k in first]
    else:
        key, names = "communality", list_communalities(found, found.tests, MAX_NAMED)
    more = f", … ({found.n_selected - MAX_NAMED:,} more)" if found.n_selected > MAX_NAMED else ""
    return [(key, ", ".join(names) + more)]


# --- application to new rows


def summarize_application(
    applied: Application, file: Path, model: Path, output: Path
) -> dict[str, Any]:
    """Convert results for new rows to objects that JSON supports."""
    return {
        "file": str(file),
        "model": str(model),
        "rows": applied.table.X.shape[0],
        "drift": [
            {"name": drift.names[k], "shift": float(drift.shift[k])}
            for drift in applied.drift
            for k in drift.shifted
        ],
        "notes": applied.notes,
        "warnings": applied.warnings,
        "output": str(output),
    }


def print_application(applied: Application, file: Path, model: Path, output: Path) -> None:
    """Print the results of a model for new rows."""
    n = applied.table.X.shape[0]
    rows = [("model", str(model)), ("table", f"{file.name}, {plural(n, 'row')}")]
    rows += [("", note) for note in applied.notes]
    if applied.scores is not None:
        rows.append(("scores", plural(applied.scores.shape[1], "component")))
    n_reconstructed = len(applied.reconstructions) // 3
    if n_reconstructed:
        text = f"{plural(n_reconstructed, 'variable')} outside the panel, with intervals"
        rows.append(("predictions", text))
    elif "predicted" in applied.columns:
        interval = ", with 95 % intervals" if "lower" in applied.columns else ""
        rows.append(("predictions", f"{plural(n, 'row')}{interval}"))
    rows.append(("drift", "none" if not applied.warnings else " ".join(applied.warnings)))
    rows.append(("results", str(output / REPORT)))
    _print_rows(rows)
