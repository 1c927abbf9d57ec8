"""Run experiments, store their results as JSON records, and write the records as pages."""

from __future__ import annotations

import json
import math
import time
import warnings
from pathlib import Path
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from prosparse.errors import FewerComponentsWarning, FewVariablesWarning, NoStructureWarning
from prosparse.files import write_text

from .base import Result, Row
from .data import Data
from .registry import experiment, experiments

INDEX = "index.md"


def run(name: str, quick: bool, data: Data, output: Path) -> dict[str, Any]:
    """Run one experiment; write its record and plots to ``output``."""
    selected = experiment(name)
    output.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    with warnings.catch_warnings():
        # Some of the hundreds of fits have no signal by design.
        for category in (
            ConvergenceWarning,
            FewerComponentsWarning,
            FewVariablesWarning,
            NoStructureWarning,
        ):
            warnings.simplefilter("ignore", category)
        result = selected.run(quick, data, output)
    record = record_of(selected.name, result, quick, time.perf_counter() - start)
    write_text(output / f"{selected.name}.json", json.dumps(record, indent=1) + "\n")
    return record


def record_of(name: str, result: Result, quick: bool, seconds: float) -> dict[str, Any]:
    record = {
        "name": name,
        "quick": quick,
        "seconds": round(seconds, 1),
        "seeds": result.seeds,
        "remarks": result.remarks,
        "rows": [_plain(row) for row in result.rows],
        "claims": [claim._asdict() for claim in result.claims],
        "figures": [path.name for path in result.figures],
    }
    if result.tables:
        record["tables"] = [
            {"title": title, "header": list(header), "rows": [list(row) for row in rows]}
            for title, header, rows in result.tables
        ]
    return record


def _plain(row: Row) -> dict[str, Any]:
    """Round to ten significant digits, which makes records comparable; NaN becomes null."""
    values = row._asdict()
    for key in ("ours", "error", "published"):
        value = values[key]
        if value is not None:
            values[key] = float(f"{value:.10g}") if math.isfinite(value) else None
    return values


def cell(value: float | None, sign: bool = False) -> str:
    """Format a number with four significant digits and no trailing zeros."""
    if value is None:
        return ""
    size = abs(value)
    decimals = 0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 10 else 3
    text = f"{value:{'+' if sign else ''}.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def cells(row: dict[str, Any]) -> tuple[str, str, str, str, str]:
    """Return quantity, result with standard error, published value, difference and note."""
    ours, published = row["ours"], row["published"]
    shown = "none" if ours is None else cell(ours)
    if row["error"] is not None:
        shown += f" ± {cell(row['error'])}"
    difference = cell(ours - published, sign=True) if None not in (ours, published) else ""
    return row["quantity"], shown, cell(published), difference, row["note"]


def section(record: dict[str, Any]) -> str:
    """Return the page of one experiment as Markdown."""
    entry = experiments()[record["name"]]
    lines = [f"# {entry.name}: {entry.title}", "", f"{entry.paper}."]
    if record["remarks"]:
        lines[-1] += f" {record['remarks']}"
    lines += ["", f"Seeds: {record['seeds']}. Run time: {record['seconds']:g} s."]
    if record["quick"]:
        lines[-1] += " **Quick run: fewer repetitions than in the paper.**"
    if record["claims"]:
        lines += ["", "| claim | holds | evidence |", "|---|---|---|"]
        for claim in record["claims"]:
            verdict = "yes" if claim["holds"] else "**no**"
            lines.append(f"| {claim['text']} | {verdict} | {claim['note']} |")
    for table in record.get("tables", [_table_of_rows(record)]):
        if table["title"]:
            lines += ["", f"## {table['title']}"]
        rules = table.get("rules", ["---"] * len(table["header"]))
        lines += ["", f"| {' | '.join(table['header'])} |", f"|{'|'.join(rules)}|"]
        lines += [f"| {' | '.join(row)} |" for row in table["rows"]]
    for figure in record["figures"]:
        lines += ["", f"![{entry.title}]({figure})"]
    return "\n".join(lines) + "\n"


def _table_of_rows(record: dict[str, Any]) -> dict[str, Any]:
    """Return the table of results and published values."""
    return {
        "title": "",
        "header": ["quantity", "prosparse", "published", "difference", "note"],
        "rules": ["---", "---:", "---:", "---:", "---"],
        "rows": [cells(row) for row in record["rows"]],
    }


def write_pages(folder: Path) -> Path:
    """Write one page per record in ``folder``, and their index; return the index."""
    records = []
    for name in experiments():
        path = folder / f"{name}.json"
        if path.is_file():
            records.append(json.loads(path.read_text()))
    for record in records:
        write_text(folder / f"{record['name']}.md", section(record))
    index = folder / INDEX
    write_text(index, index_page(records))
    return index


def index_page(records: list[dict[str, Any]]) -> str:
    """Return the index of the pages: how many claims hold in each experiment, and which fail."""
    total = sum(len(record["claims"]) for record in records)
    failed = [
        f"- [{record['name']}]({record['name']}.md): {claim['text']} ({claim['note']})"
        for record in records
        for claim in record["claims"]
        if not claim["holds"]
    ]
    lines = [
        "# Benchmarks",
        "",
        "`python -m papers --all` writes these pages. Results of prosparse are means over the "
        "seeds, shown with standard errors. Published results are the values printed in the "
        "paper, if any. A claim is a finding of the paper, or the comparison for which the "
        f"experiment was designed; {total - len(failed)} of {total} claims hold.",
        "",
        "| experiment | paper | claims that hold |",
        "|---|---|---:|",
    ]
    for record in records:
        entry = experiments()[record["name"]]
        held = sum(claim["holds"] for claim in record["claims"])
        lines.append(
            f"| [{entry.name}: {entry.title}]({entry.name}.md) | {entry.paper} | "
            f"{held} of {len(record['claims'])} |"
        )
    if failed:
        lines += ["", "Claims that do not hold:", "", *failed]
    names = [record["name"] for record in records]
    lines += ["", "```{toctree}", ":hidden:", "", *names, "```"]
    return "\n".join(lines) + "\n"
