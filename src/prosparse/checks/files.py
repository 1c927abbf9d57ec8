"""Check of a file: format, roles of the columns, and values."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import TableError, plural
from ..inference.progress import announce
from ..tables import READERS, ReadOptions, file_extension, read_table
from ..tables.cells import Cells, read_cells
from ..tables.columnar import read_arrow, read_parquet
from ..tables.delimited import read_delimited
from ..tables.identifiers import describe_identifier, identifier_candidates
from ..tables.missing_codes import MISSING, numeric_codes, split_codes
from ..tables.number_format import NumberFormat
from ..tables.orientation import find_orientation, looks_like_variable_names
from ..tables.quoting import quote_argument
from ..tables.roles import Guess, Role
from ..tables.workbook import read_workbook
from .cells import CellColumn, find_cell_problems, parse_column
from .fixes import apply_fix, join_fixes
from .frames import split_columns
from .numbers import Numbers
from .problems import find_number_problems
from .result import Finding, Severity, TableCheck, list_names
from .tables import check_table, ignore_columns_instead
from .text import (
    demote_constant_covariates,
    find_numeric_roles,
    find_text_problems,
    guess_text_roles,
)

MAX_ROUNDS = 4  # maximum number of checks of a file
N_PREVIEW = 8  # number of rows in the preview


class Preview(NamedTuple):
    """Column names and first rows of a file, as text."""

    header: list[str]
    rows: list[list[str]]


class FileCheck(NamedTuple):
    """Result of the check of a file.

    Attributes
    ----------
    check : TableCheck
        Findings.
    roles : dict of str to Role
        Guessed or given role of each column of the file. In a table with variables in rows, columns
        of samples have the role "variable".
    preview : Preview
        Column names and first rows of the file.
    shape : (int, int)
        Numbers of rows and columns of the file.
    fix : str
        Options of the command that apply all fixes.
    options : ReadOptions
        Options for reading the file with all fixes.
    analysis : dict
        Options of the analysis in these fixes: ``counts``, ``missing``, ``scale``.
    notes : list of str
        Observations about the format of the file.
    """

    check: TableCheck
    roles: dict[str, Role]
    preview: Preview
    shape: tuple[int, int]
    fix: str
    options: ReadOptions
    analysis: dict[str, Any]
    notes: list[str]


def check_file(path: str | os.PathLike[str], options: ReadOptions | None = None) -> FileCheck:
    """Check a file before an analysis.

    A problem that prevents reading is returned as a finding.

    Parameters
    ----------
    path : str or path-like
        File whose extension is a key of `prosparse.tables.READERS`.
    options : ReadOptions or None, default=None
        Known roles of columns and format of the file.

    Returns
    -------
    FileCheck

    Raises
    ------
    TableError
        If the file does not exist, or its type is not supported.
    """
    path, options = Path(path), options or ReadOptions()
    reader = _reader_of(path)
    if reader in (read_delimited, read_workbook):
        try:
            cells = read_cells(path, options)
        except TableError as error:
            return _unreadable(str(error), options)
        return _check_cells(cells, options)
    if reader in (read_parquet, read_arrow):
        cells = _cells_of_arrow(path, reader is read_parquet)
        return _check_cells(cells, options)
    return _check_matrix(path, options)


def correct_file(
    path: str | os.PathLike[str],
    options: ReadOptions | None = None,
    refused: Collection[str] = (),
) -> FileCheck:
    """Check a file, apply the fixes, and check it again.

    A corrected table may have further problems, such as missing values once their codes are known.

    Parameters
    ----------
    path : str or path-like
        File whose extension is a key of `prosparse.tables.READERS`.
    options : ReadOptions or None, default=None
        Known roles of columns and format of the file.
    refused : collection of str, default=()
        Codes of findings whose fixes are not applied.

    Returns
    -------
    FileCheck
        Findings of all rounds. ``fix``, ``options`` and ``analysis`` apply all fixes.
    """
    options = options or ReadOptions()
    corrected: dict[tuple[str, tuple[str, ...]], Finding] = {}
    analysis: dict[str, Any] = {}
    for _ in range(MAX_ROUNDS):
        result = check_file(path, options)
        rest = [f for f in result.check.findings if (f.code, f.columns) not in corrected]
        new = [f for f in rest if f.code not in refused and join_fixes([f])]
        corrected |= {(finding.code, finding.columns): finding for finding in new}
        before, (options, further) = options, apply_fix(options, join_fixes(new))
        analysis |= further
        if options == before:
            break
        announce("checking the corrected table")
    rest = [f for f in result.check.findings if (f.code, f.columns) not in corrected]
    return result._replace(
        check=TableCheck([*corrected.values(), *rest], result.check.shape),
        fix=join_fixes(corrected.values()),
        options=options,
        analysis=analysis,
    )


def _reader_of(path: Path) -> Any:
    extension = file_extension(path).lower()
    extension = extension.removesuffix(".gz") or extension
    if extension not in READERS or not path.is_file() or path.stat().st_size == 0:
        read_table(path)  # raises an informative error
    return READERS[extension]


def _unreadable(message: str, options: ReadOptions) -> FileCheck:
    finding = Finding("unreadable", Severity.STOP, message)
    check = TableCheck([finding], (0, 0))
    return FileCheck(check, {}, Preview([], []), (0, 0), "", options, {}, [])


def _check_matrix(path: Path, options: ReadOptions) -> FileCheck:
    """Check a file that contains only numbers: NPY, NPZ, MTX, H5AD."""
    try:
        table = read_table(path, options)
    except TableError as error:
        return _unreadable(str(error), options)
    dense = split_columns(table.X).numbers
    numbers = Numbers(dense.X, [table.names[int(name[1:])] for name in dense.names], [])
    findings = [*_missing_values(numbers), *check_table(table, options).findings]
    shape = (int(table.X.shape[0]), int(table.X.shape[1]))
    roles = dict.fromkeys(table.names, Role.VARIABLE)
    preview = Preview(
        numbers.names[:N_PREVIEW],
        [[f"{v:g}" for v in row] for row in numbers.X[:N_PREVIEW, :N_PREVIEW]],
    )
    fix = join_fixes(findings)
    fixed, analysis = apply_fix(options, fix)
    return FileCheck(
        TableCheck(findings, shape), roles, preview, shape, fix, fixed, analysis, [*table.notes]
    )


def _cells_of_arrow(path: Path, is_parquet: bool) -> Cells:
    import pyarrow as pa
    from pyarrow import feather, parquet

    table = parquet.read_table(path) if is_parquet else feather.read_table(path)
    names = [str(name) for name in table.column_names]
    columns = [
        ["" if cell is None else _text(cell) for cell in table.column(k).to_pylist()]
        for k in range(len(names))
    ]
    assert isinstance(table, pa.Table)
    rows = [list(row) for row in zip(*columns, strict=True)]
    return Cells(names, rows, list(range(1, len(rows) + 1)), len(rows), ".", [])


def _text(cell: object) -> str:
    if isinstance(cell, float):
        return repr(int(cell)) if cell.is_integer() and abs(cell) < 1e15 else repr(cell)
    return str(int(cell)) if isinstance(cell, bool) else str(cell)


# --- text files and spreadsheets


def _check_cells(cells: Cells, options: ReadOptions) -> FileCheck:
    names = _unique(cells.names)
    preview = Preview(names, cells.rows[:N_PREVIEW])
    findings: list[Finding] = []
    transposed = options.transpose
    columns = [list(column) for column in zip(*cells.rows, strict=True)] or [[] for _ in names]
    if not transposed:
        reasons = find_orientation(
            names[0], names[1:], columns[0] if columns else [], (len(cells.rows), len(names) - 1)
        )
        if len(reasons) > 1 or (reasons and len(cells.rows) > len(names)):
            transposed = True
            findings.append(
                Finding(
                    "variables-in-rows",
                    Severity.STOP,
                    f"Rows may be variables and columns samples: {'; '.join(reasons)}.",
                    fix="--transpose",
                )
            )
    number_format = NumberFormat(
        cells.decimal, options.thousands, frozenset({*MISSING, *split_codes(options.na)})
    )
    examine = _examine_transposed if transposed else _examine
    numbers, roles = examine(names, columns, options, number_format, findings)
    numbers = numbers.without_rows(options.ignore_rows)
    findings += _missing_values(numbers)
    findings += find_number_problems(numbers) if transposed else _number_problems(numbers, roles)
    if transposed:
        for finding in findings:
            if finding.code == "unlike-rows":
                roles.update(dict.fromkeys(finding.rows, Role.IGNORED))
        findings = [ignore_columns_instead(found) for found in findings]
    n_variables = sum(role is Role.VARIABLE for role in roles.values())
    n_rows = cells.n_rows
    n_ignored = len(columns[0]) - numbers.X.shape[0] if columns and not transposed else 0
    shape = (n_variables, n_rows) if transposed else (n_rows - n_ignored, n_variables)
    fix = join_fixes(findings)
    fixed, analysis = apply_fix(options, fix)
    return FileCheck(
        TableCheck(findings, shape),
        roles,
        preview,
        (n_rows, len(names)),
        fix,
        fixed,
        analysis,
        cells.notes,
    )


def _unique(names: Sequence[str]) -> list[str]:
    from ..tables.base import make_unique

    return make_unique([name or f"column {k + 1}" for k, name in enumerate(names)])[0]


def _examine(
    names: list[str],
    columns: list[list[str]],
    options: ReadOptions,
    number_format: NumberFormat,
    findings: list[Finding],
) -> tuple[Numbers, dict[str, Role]]:
    """Guess the roles of the columns, and find problems of their cells."""
    roles = _given_roles(names, options)
    row_names = next((k for k, name in enumerate(names) if roles.get(name) is Role.ROW_NAMES), None)
    candidates = {
        k
        for k in identifier_candidates(names)
        if names[k] not in roles and describe_identifier(names[k], columns[k]) is not None
    }
    parsed = {
        k: parse_column(column, number_format)
        for k, column in enumerate(columns)
        if roles.get(names[k], Role.VARIABLE) is Role.VARIABLE
    }
    first = columns[0] if columns else []
    is_index = (
        row_names is None
        and names[0] not in roles
        and (
            names[0] == "column 1"
            or (not parsed[0].is_numeric and len(set(first)) == len(first) > 1)
        )
    )
    if is_index:
        row_names, roles[names[0]] = 0, Role.ROW_NAMES
    for k in sorted(candidates - {row_names}):
        roles[names[k]] = Role.ROW_NAMES if row_names is None else Role.IGNORED
        row_names = k if row_names is None else row_names
    numeric = {
        names[k]: column
        for k, column in parsed.items()
        if names[k] not in roles and column.is_numeric
    }
    texts = {
        names[k]: [cell.strip() if cell.strip() not in MISSING else "" for cell in columns[k]]
        for k, column in parsed.items()
        if names[k] not in roles and not column.is_numeric
    }
    guesses = guess_text_roles(texts, named=row_names is not None)
    if options.groups is not None:
        guesses = {
            name: Guess(Role.LABEL, guess.reason) if guess.role is Role.GROUPS else guess
            for name, guess in guesses.items()
        }
    groups = next((n for n, r in roles.items() if r is Role.GROUPS), None) or next(
        (n for n, guess in guesses.items() if guess.role is Role.GROUPS), None
    )
    if groups is not None:
        guesses = demote_constant_covariates(guesses, texts, columns[names.index(groups)])
    findings += find_text_problems(guesses, Severity.STOP)
    for name, guess in guesses.items():
        roles[name] = guess.role
        if guess.role is Role.ROW_NAMES:
            row_names = names.index(name)
    if options.censored is None:
        problems = numeric
    else:
        problems = {name: _without_limits(column) for name, column in numeric.items()}
    findings += find_cell_problems(problems, number_format, Severity.STOP)
    rows = [str(k + 1) for k in range(len(first))] if row_names is None else columns[row_names]
    for name in names:
        roles.setdefault(name, Role.VARIABLE)
    return _numbers(numeric, rows, options), {name: roles[name] for name in names}


def _without_limits(column: CellColumn) -> CellColumn:
    from collections import Counter

    from ..tables.censored_values import is_censored

    others = Counter({text: c for text, c in column.others.items() if not is_censored(text)})
    return column._replace(others=others)


def _numbers(numeric: dict[str, CellColumn], rows: Sequence[str], options: ReadOptions) -> Numbers:
    n = len(rows)
    X = np.column_stack(list(map(_filled, numeric.values()))) if numeric else np.empty((n, 0))
    codes = numeric_codes(split_codes(options.na))
    if codes:
        X[np.isin(X, codes)] = np.nan
    return Numbers(X, list(numeric), list(rows))


def _filled(column: CellColumn) -> np.ndarray:
    """Replace values below a limit by half of the smallest number."""
    numbers = column.numbers
    if column.limits and column.n_filled > len(column.limits):
        smallest = float(np.nanmin(numbers)) if not np.isnan(numbers).all() else 0.0
        numbers = numbers.copy()
        numbers[column.limits] = smallest / 2.0 if smallest > 0.0 else smallest
    return numbers


def _given_roles(names: list[str], options: ReadOptions) -> dict[str, Role]:
    roles: dict[str, Role] = {}
    if options.row_names is not None:
        roles[options.row_names] = Role.ROW_NAMES
    for role, name in options.annotations.items():
        kind = {"groups": Role.GROUPS, "response": Role.RESPONSE}
        given = kind.get(role, Role.LABEL if role.startswith("label") else Role.COVARIATE)
        roles[name] = given
    for value in options.ignore:
        for name in [value] if value in names else map(str.strip, value.split(",")):
            roles[name] = Role.IGNORED
    return {name: role for name, role in roles.items() if name in names}


def _number_problems(numbers: Numbers, roles: dict[str, Role]) -> list[Finding]:
    """Find problems of the numbers.

    Only variables are compared.
    """
    has_groups = Role.GROUPS in roles.values()
    findings = []
    removed = set()
    for role, finding in find_numeric_roles(numbers, groups_known=has_groups):
        findings.append(finding)
        for name in finding.columns:
            roles[name] = role
            removed.add(name)
    kept = [k for k, name in enumerate(numbers.names) if name not in removed]
    rest = Numbers(numbers.X[:, kept], [numbers.names[k] for k in kept], numbers.rows)
    return [*findings, *(found for found in find_number_problems(rest))]


def _missing_values(numbers: Numbers) -> list[Finding]:
    count = int(numbers.missing.sum())
    if not count:
        return []
    columns = np.flatnonzero(numbers.missing.any(axis=0))
    names = numbers.name(columns)
    return [
        Finding(
            "missing-values",
            Severity.STOP,
            f"{plural(count, 'value')} ({count / numbers.X.size:.1%}) in "
            f"{plural(len(names), 'column')} {'is' if count == 1 else 'are'} missing or not "
            f"numbers, such as in {list_names(names, 3)}. Impute them, or drop incomplete rows or "
            "columns (--missing drop).",
            columns=names,
            fix="--missing impute",
        )
    ]


# --- tables with variables in rows


def _examine_transposed(
    names: list[str],
    columns: list[list[str]],
    options: ReadOptions,
    number_format: NumberFormat,
    findings: list[Finding],
) -> tuple[Numbers, dict[str, Role]]:
    """Separate annotation columns from samples in a transposed table."""
    roles = _given_roles(names, options._replace(label=(), covariates=(), groups=None))
    key = options.row_names
    if key not in names:
        key = _find_variable_names(names, columns, roles)
        if key != names[0]:
            findings.append(
                Finding(
                    "row-names",
                    Severity.WARNING,
                    f"Column {list_names([key])} names the variables in the rows.",
                    columns=(key,),
                    fix=f"--row-names {quote_argument(key)}",
                )
            )
    roles[key] = Role.ROW_NAMES
    variables = columns[names.index(key)]
    parsed = {
        name: parse_column(columns[k], number_format)
        for k, name in enumerate(names)
        if name not in roles
    }
    samples = {name: column for name, column in parsed.items() if column.is_numeric}
    texts = tuple(name for name in parsed if name not in samples)
    if texts:
        findings.append(
            Finding(
                "annotation-columns",
                Severity.STOP,
                f"{'Column' if len(texts) == 1 else 'Columns'} {list_names(texts)} "
                f"{'describes' if len(texts) == 1 else 'describe'} the variables in the rows and "
                f"{'is' if len(texts) == 1 else 'are'} not a sample.",
                columns=texts,
                fix=f"--ignore {_join(texts)}",
            )
        )
        roles.update(dict.fromkeys(texts, Role.IGNORED))
    findings += find_cell_problems(samples, number_format, Severity.STOP)
    X = np.array(list(map(_filled, samples.values())))
    if not samples:
        X = np.empty((0, len(variables)))
    for name in names:
        roles.setdefault(name, Role.VARIABLE)
    numbers = Numbers(X, _unique(variables), list(samples))
    return numbers, {name: roles[name] for name in names}


def _find_variable_names(names: list[str], columns: list[list[str]], roles: dict[str, Role]) -> str:
    """Return the column with the names of the variables."""
    candidates = [
        (name, cells)
        for name, cells in zip(names, columns, strict=True)
        if name not in roles and len(set(cells)) == len(cells)
    ]
    named = [name for name, cells in candidates if looks_like_variable_names(name, cells)]
    return names[0] if names[0] in named or not named else named[0]


def _join(names: Sequence[str]) -> str:
    return quote_argument(",".join(names))
