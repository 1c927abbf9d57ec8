"""Output of the findings of a check."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from ..checks import FileCheck, Finding, Severity, TableCheck
from ..checks.result import list_names
from ..errors import plural
from ..tables.quoting import quote_argument
from ..tables.roles import Role
from .terminal import escape_control

STYLES = {Severity.STOP: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}
WORDS = {Severity.STOP: "problem", Severity.WARNING: "warning", Severity.NOTE: "note"}
MAX_PRINTED = 4  # maximum number of findings in the summary of an analysis


def summarize_check(path: Path, result: FileCheck) -> dict[str, Any]:
    """Convert the check of a file to objects that JSON supports."""
    return {
        "file": str(path),
        "rows": result.shape[0],
        "columns": result.shape[1],
        "roles": {name: role.value for name, role in result.roles.items()},
        "findings": result.check.to_json()["findings"],
        "fix": result.fix,
        "notes": [*result.notes],
    }


def print_check(path: Path, result: FileCheck, fix: str, written: Path | None) -> None:
    """Print the findings of a file, and the command that applies their fixes.

    ``fix`` contains the given options and the options that fix the findings.
    """
    n, p = result.shape
    rows: list[tuple[Text, Text]] = [
        (Text("file", "bold"), _text(f"{path.name}, {n:,} rows, {p:,} columns"))
    ]
    rows += [(Text(""), _text(note)) for note in result.notes]
    for role in Role:
        names = [name for name, given in result.roles.items() if given is role]
        if names:
            rows.append((Text(role.value, "bold"), _text(_describe_role(role, names))))
    for finding in result.check.findings:
        rows += _finding_rows(finding)
    if not result.check.findings:
        rows.append((Text("findings", "bold"), Text("none")))
    grid = Grid.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for key, value in rows:
        grid.add_row(key, value)
    console = Console()
    console.print(grid)
    file = quote_argument(str(path))
    if written is not None:
        command = f"prosparse select {file} --roles {quote_argument(str(written))}"
        console.print(_text(f"wrote {written}; use it by: {command}"), soft_wrap=True)
    elif fix:
        console.print(_text("The options above together:"), soft_wrap=True)
        console.print(_text(f"  prosparse select {file} {fix}"), soft_wrap=True)


def _describe_role(role: Role, names: list[str]) -> str:
    if role is Role.VARIABLE:
        return f"{plural(len(names), 'column')}: {list_names(names, 3)}"
    return list_names(names, 5)


def _finding_rows(finding: Finding) -> list[tuple[Text, Text]]:
    word = Text(WORDS[finding.severity], STYLES[finding.severity])
    rows = [(word, _text(finding.message))]
    if finding.fix:
        rows.append((Text(""), Text(escape_control(finding.fix), "bold")))
    return rows


def _text(text: str) -> Text:
    return Text(escape_control(text))


def describe_findings(check: TableCheck | None) -> list[tuple[str, str]]:
    """Return the findings as rows of the summary of an analysis."""
    if check is None:
        return []
    found = check.select(Severity.STOP, Severity.WARNING)
    rows = [
        ("check" if k == 0 else "", f"{finding.message} {finding.fix}".strip())
        for k, finding in enumerate(found[:MAX_PRINTED])
    ]
    if len(found) > MAX_PRINTED:
        rows.append(("", f"… ({len(found) - MAX_PRINTED:,} more in the report)"))
    return rows


def advise(message: str, result: FileCheck) -> str:
    """Add the fixes of a check to the message of an error."""
    if not result.fix or result.fix in message:
        return message
    return f"{message} The check of the file suggests: {result.fix}"
