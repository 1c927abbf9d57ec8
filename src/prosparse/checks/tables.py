"""Check of a table at the beginning of an analysis."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ..tables import ReadOptions, Table
from ..tables.orientation import find_orientation
from .frames import split_columns
from .numbers import Numbers
from .problems import find_number_problems
from .result import Finding, Severity, TableCheck
from .text import find_numeric_roles


def check_table(
    table: Table, options: ReadOptions | None = None, settings: Collection[str] = ()
) -> TableCheck:
    """Detect problems of a table from a file.

    Parameters
    ----------
    table : Table
        Table before the preparation.
    options : ReadOptions or None, default=None
        Options with which the table was read. Columns in ``as_variables`` are accepted as
        variables.
    settings : collection of {"counts", "scale"}, default=()
        Settings already used by the analysis, which are not recommended again.

    Returns
    -------
    TableCheck
    """
    options = options or ReadOptions()
    columns = split_columns(table.X)
    n = int(table.X.shape[0])
    rows = table.ids or [str(k + 1) for k in range(n)]
    names = [table.names[int(name[1:])] for name in columns.numbers.names]
    numbers = Numbers(columns.numbers.X, names, rows)
    accepted = {*options.as_variables}
    findings: list[Finding] = []
    removed: set[str] = set()
    for _, finding in find_numeric_roles(numbers, groups_known=table.groups is not None):
        if not accepted.issuperset(finding.columns):
            findings.append(finding)
            removed |= {*finding.columns}
    if removed:
        kept = [k for k, name in enumerate(names) if name not in removed]
        numbers = Numbers(numbers.X[:, kept], [names[k] for k in kept], rows)
    findings += find_number_problems(numbers)
    reasons = find_orientation(table.id_name, table.names, table.ids or (), (n, len(table.names)))
    if len(reasons) > 1 and not options.transpose:
        findings.append(
            Finding(
                "variables-in-rows",
                Severity.WARNING,
                f"Rows may be variables and columns samples: {'; '.join(reasons)}.",
                fix="--transpose",
            )
        )
    known = {f"--{name}" for name in settings}
    if options.transpose:
        findings = [ignore_columns_instead(finding) for finding in findings]
    shape = (n, len(table.names))
    return TableCheck((f for f in findings if not f.fix or f.fix not in known), shape)


def ignore_columns_instead(finding: Finding) -> Finding:
    """Convert ignored rows of a transposed table to columns of the file."""
    return replace(finding, fix=finding.fix.replace("--ignore-rows", "--ignore"))
