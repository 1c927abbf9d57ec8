"""Result of the check of a table, and its presentation."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from ..data.frames import data_frame
from ..errors import plural
from ..phrases import list_items

MAX_LISTED = 5  # maximum number of names in a message


class Severity(StrEnum):
    """Severity of a finding."""

    STOP = "stop"  # the analysis would fail, or its result would be meaningless
    WARNING = "warning"  # the result is probably wrong
    NOTE = "note"  # the result is valid, but its interpretation may change


@dataclass(frozen=True)
class Finding:
    """One observation about a table.

    Attributes
    ----------
    code : str
        Stable identifier, such as ``"repeated-ids"``.
    severity : Severity
        Consequence for an analysis.
    message : str
        Sentences that state the observation and its consequence.
    columns : tuple of str
        Names of the affected columns.
    rows : tuple of str
        Names of the affected rows; numbers if the rows have no names.
    fix : str
        Options of the command that fix the problem; empty if there are none.
    """

    code: str
    severity: Severity
    message: str
    columns: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    fix: str = ""


class TableCheck:
    """Result of the check of a table.

    Parameters
    ----------
    findings : iterable of Finding
        Findings, which are sorted by severity.
    shape : (int, int)
        Numbers of rows and of variables.

    Attributes
    ----------
    findings : tuple of Finding
        Findings, the most severe first.
    shape : (int, int)
        Numbers of rows and of variables.
    """

    def __init__(self, findings: Iterable[Finding], shape: tuple[int, int]):
        order = list(Severity)
        self.findings = tuple(sorted(findings, key=lambda found: order.index(found.severity)))
        self.shape = shape

    def select(self, *severities: Severity) -> tuple[Finding, ...]:
        """Return the findings with the given severities."""
        return tuple(found for found in self.findings if found.severity in severities)

    def summary(self) -> str:
        """Return a sentence with the numbers of findings by severity."""
        n, p = self.shape
        table = f"{plural(n, 'row')} and {plural(p, 'variable')}"
        counts = [
            plural(len(self.select(severity)), noun)
            for severity, noun in zip(Severity, ("problem", "warning", "note"), strict=True)
            if self.select(severity)
        ]
        return f"{table}: {', '.join(counts) if counts else 'no findings'}."

    def to_frame(self) -> Any:
        """Return the findings as a pandas DataFrame, one row per finding."""
        columns: dict[str, list[Any]] = {
            "code": [found.code for found in self.findings],
            "severity": [found.severity.value for found in self.findings],
            "message": [found.message for found in self.findings],
            "columns": [list(found.columns) for found in self.findings],
            "rows": [list(found.rows) for found in self.findings],
            "fix": [found.fix for found in self.findings],
        }
        return data_frame(columns, range(len(self.findings)))

    def to_json(self) -> dict[str, Any]:
        """Convert the result to objects that JSON supports."""
        findings = [
            asdict(found) | {"columns": list(found.columns), "rows": list(found.rows)}
            for found in self.findings
        ]
        return {"shape": list(self.shape), "findings": findings}

    @classmethod
    def from_json(cls, stored: Any) -> TableCheck | None:
        """Restore a result from `to_json`; return None if it is invalid."""
        try:
            shape = tuple(map(int, stored["shape"]))
            findings = [_read_finding(entry) for entry in stored["findings"]]
        except (TypeError, KeyError, ValueError):
            return None
        return cls(findings, shape) if len(shape) == 2 else None

    def __str__(self) -> str:
        return "\n".join([self.summary(), *map("\n".join, map(_lines, self.findings))])

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.summary()}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{found.severity.value}</td><td>{html.escape(found.message)}</td>"
            f"<td><code>{html.escape(found.fix)}</code></td></tr>"
            for found in self.findings
        )
        head = "<tr><th>severity</th><th>finding</th><th>option of the command</th></tr>"
        table = f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>" if rows else ""
        return f"<p>{html.escape(self.summary())}</p>{table}"


def _lines(found: Finding) -> Iterator[str]:
    yield f"{found.severity.value}: {found.message}"
    if found.fix:
        yield f"    {found.fix}"


def _read_finding(entry: Any) -> Finding:
    return Finding(
        str(entry["code"]),
        Severity(entry["severity"]),
        str(entry["message"]),
        tuple(map(str, entry["columns"])),
        tuple(map(str, entry["rows"])),
        str(entry["fix"]),
    )


def capitalise(text: str) -> str:
    """Return a sentence with an upper-case first letter."""
    return text[:1].upper() + text[1:]


def list_names(names: Iterable[str], limit: int = MAX_LISTED) -> str:
    """List the first names in quotes: "'a', 'b' and 7 others"."""
    quoted = [
        json.dumps(name, ensure_ascii=False) if "'" in name else f"'{name}'" for name in names
    ]
    return list_items(quoted, limit)


def name_columns(names: Iterable[str]) -> str:
    """Name columns in a sentence: "column 'a'", "columns 'a' and 'b'"."""
    names = tuple(names)
    return f"column{'s' if len(names) != 1 else ''} {list_names(names)}"


def name_rows(names: Iterable[str]) -> str:
    """Name rows in a sentence: "row 1", "rows 'a' and 'b'"."""
    names = tuple(names)
    listed = list_names(names)
    if all(name.isdigit() for name in names):
        listed = listed.replace("'", "")
    return f"row{'s' if len(names) != 1 else ''} {listed}"
