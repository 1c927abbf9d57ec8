"""Conversion of fixes into options of the command."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Any

from ..tables import ReadOptions
from ..tables.number_format import THOUSANDS
from ..tables.quoting import quote_argument
from .result import Finding, Severity

# Findings whose fix is left to the user.
_OPTIONAL = {"outlying-rows", "near-duplicate-rows", "outlying-cells", "constant-columns"}
_SEVERAL = {
    "--na": "na",
    "--ignore": "ignore",
    "--ignore-rows": "ignore_rows",
    "--label": "label",
    "--covariates": "covariates",
}
_SINGLE = {
    "--groups": "groups",
    "--row-names": "row_names",
    "--censored": "censored",
    "--encoding": "encoding",
}
_FLAGS = {"--transpose": ("transpose", True), "--no-header": ("header", False)}
_ANALYSIS = {"--counts", "--scale"}


def join_fixes(findings: Iterable[Finding]) -> str:
    """Combine the fixes of problems and warnings into options of one command.

    Values of options that may be repeated are joined by commas.
    """
    several: dict[str, list[str]] = {}
    others: dict[str, str] = {}
    for finding in findings:
        if finding.severity is Severity.NOTE or finding.code in _OPTIONAL:
            continue
        words = shlex.split(finding.fix)
        while words:
            flag = words.pop(0)
            value = words.pop(0) if words and not words[0].startswith("--") else ""
            if flag in _SEVERAL or flag == "--skip-lines":
                values = several.setdefault(flag, [])
                values += [value] if value not in values else []
            else:
                others.setdefault(flag, value)
    parts = []
    for flag, values in several.items():
        if flag == "--label" or any("," in v for v in values if flag != "--na"):
            parts += [f"{flag} {quote_argument(value)}" for value in values]
        else:
            parts.append(f"{flag} {quote_argument(','.join(values))}")
    parts += [
        f"{flag} {quote_argument(value)}" if value else flag for flag, value in others.items()
    ]
    return " ".join(parts)


def apply_fix(options: ReadOptions, fix: str) -> tuple[ReadOptions, dict[str, Any]]:
    """Apply a fix to the reading options; also return analysis options."""
    analysis: dict[str, Any] = {}
    changes: dict[str, Any] = {}
    words = shlex.split(fix)
    while words:
        flag = words.pop(0)
        value = words.pop(0) if words and not words[0].startswith("--") else ""
        if flag in _SEVERAL:
            field = _SEVERAL[flag]
            before = changes.get(field, getattr(options, field))
            before = (before,) if isinstance(before, str) else tuple(before)
            changes[field] = (*before, value)
        elif flag in _SINGLE:
            changes[_SINGLE[flag]] = value
        elif flag in _FLAGS:
            name, setting = _FLAGS[flag]
            changes[name] = setting
        elif flag == "--thousands":
            changes["thousands"] = THOUSANDS[value]
        elif flag == "--decimal":
            changes["decimal"] = {"point": ".", "comma": ","}.get(value, value)
        elif flag == "--skip-lines":
            lines = tuple(int(part) for part in value.split(","))
            changes["skip_lines"] = (*options.skip_lines, *lines)
        elif flag == "--missing":
            analysis["missing"] = value
        elif flag in _ANALYSIS:
            analysis[flag.removeprefix("--")] = True
    return options._replace(**changes), analysis
