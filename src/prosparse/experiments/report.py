"""Run experiments, keep what they found as JSON, and write all of it as one page."""

from __future__ import annotations

import json
import math
import time
import warnings
from pathlib import Path
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from ..errors import FewerComponentsWarning, FewVariablesWarning, NoStructureWarning
from ..files import write_text
from .base import Result, Row
from .data import Data
from .registry import experiment, experiments

PAGE = "results.md"
FOLDER = "results"


def run(name: str, quick: bool, data: Data, output: Path) -> dict[str, Any]:
    """Run one experiment; leave its record and figures in ``output/results``."""
    chosen = experiment(name)
    folder = output / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    begun = time.perf_counter()
    with warnings.catch_warnings():
        # Hundreds of fits, some of them meant to be hopeless.
        for category in (
            ConvergenceWarning,
            FewerComponentsWarning,
            FewVariablesWarning,
            NoStructureWarning,
        ):
            warnings.simplefilter("ignore", category)
        result = chosen.run(quick, data, folder)
    record = record_of(chosen.name, result, quick, time.perf_counter() - begun)
    write_text(folder / f"{chosen.name}.json", json.dumps(record, indent=1) + "\n")
    return record


def record_of(name: str, result: Result, quick: bool, seconds: float) -> dict[str, Any]:
    return {
        "name": name,
        "quick": quick,
        "seconds": round(seconds, 1),
        "seeds": result.seeds,
        "remarks": result.remarks,
        "rows": [_plain(row) for row in result.rows],
        "claims": [claim._asdict() for claim in result.claims],
        "figures": [path.name for path in result.figures],
    }


def _plain(row: Row) -> dict[str, Any]:
    """Ten significant digits, for files that can be compared; NaN has no place in JSON."""
    values = row._asdict()
    for key in ("ours", "error", "published"):
        value = values[key]
        if value is not None:
            values[key] = float(f"{value:.10g}") if math.isfinite(value) else None
    return values


def cell(value: float | None, sign: bool = False) -> str:
    """A number as a person reads it: four digits, and no more decimals than they need."""
    if value is None:
        return ""
    size = abs(value)
    decimals = 0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 10 else 3
    text = f"{value:{'+' if sign else ''}.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def cells(row: dict[str, Any]) -> tuple[str, str, str, str, str]:
    """Quantity, ours with its standard error, published, difference, note."""
    ours, published = row["ours"], row["published"]
    shown = "none" if ours is None else cell(ours)
    if row["error"] is not None:
        shown += f" ± {cell(row['error'])}"
    apart = cell(ours - published, sign=True) if None not in (ours, published) else ""
    return row["quantity"], shown, cell(published), apart, row["note"]


def section(record: dict[str, Any]) -> str:
    """One experiment as Markdown."""
    about = experiments()[record["name"]]
    lines = [f"## {about.name} {about.title}", "", f"{about.paper}."]
    if record["remarks"]:
        lines[-1] += f" {record['remarks']}"
    lines += ["", f"Seeds: {record['seeds']}. {record['seconds']:g} s."]
    if record["quick"]:
        lines[-1] += " **A quick run: fewer repetitions than the paper.**"
    if record["claims"]:
        lines += ["", "| what should hold | here | |", "|---|---|---|"]
        for claim in record["claims"]:
            shown = "yes" if claim["holds"] else "**no**"
            lines.append(f"| {claim['text']} | {shown} | {claim['note']} |")
    lines += ["", "| | ours | published | difference | |", "|---|---:|---:|---:|---|"]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in record["rows"]]
    for figure in record["figures"]:
        lines += ["", f"![{about.title}]({FOLDER}/{figure})"]
    return "\n".join(lines) + "\n"


def write_page(output: Path) -> Path:
    """``results.md`` from every record in the folder, in the order of the registry."""
    records = []
    for name in experiments():
        path = output / FOLDER / f"{name}.json"
        if path.is_file():
            records.append(json.loads(path.read_text()))
    failed = [
        f"- {record['name']}: {claim['text']} ({claim['note']})"
        for record in records
        for claim in record["claims"]
        if not claim["holds"]
    ]
    total = sum(len(record["claims"]) for record in records)
    head = (
        "# The papers' experiments, run here\n\n"
        "Written by `prosparse reproduce`; do not edit. *Ours* is a mean over the seeds with "
        "its standard error; *published* is what the paper prints, empty where it prints no "
        "number. What should hold are the findings of the papers, or, where they print none, the "
        f"comparison that the experiment is for: {total - len(failed)} of {total} hold here"
    )
    head += ".\n" if not failed else "; these do not:\n\n" + "\n".join(failed) + "\n"
    page = output / PAGE
    write_text(page, "\n".join([head, *map(section, records)]))
    return page
