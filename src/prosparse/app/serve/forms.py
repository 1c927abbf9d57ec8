"""Form of a setup, with the displayed table and the submitted settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from .arguments import FORMAT_FIELDS, ROLE_OPTIONS, SINGLE_ROLES, Settings
from .questions import QUESTIONS

MAX_SHOWN = 12  # maximum number of columns of the table on the page
MAX_SPECIAL = 12  # maximum number of columns with roles other than variable
MAX_CELL = 40  # maximum number of characters of a cell
MAX_NAMES = 3000  # maximum number of column names offered for completion
MAX_VALUE = 2000  # maximum number of characters of a text field
ORIENTATION = "variables-in-rows"  # code of the finding that transposes the table

ROLE_TITLES = {
    "variable": "Variable",
    "row names": "Row name",
    "label": "Label",
    "groups": "Group",
    "covariate": "Covariate",
    "response": "Response",
    "ignored": "Leave out",
}
ROLE_HELP = {
    "variable": "is analysed.",
    "row names": "names the rows.",
    "label": "colours the plots and is tested against the components.",
    "groups": "contains the groups of the rows, such as the patient of each visit.",
    "covariate": "has effects that are removed before the analysis, such as age or batch.",
    "response": "is predicted from the other variables.",
    "ignored": "is not used.",
}
_SAMPLE_ROLES = {"variable": "Sample", "row names": "Names", "ignored": "Leave out"}


class Heading(NamedTuple):
    """Column or row of the displayed table, with its role."""

    name: str
    role: str
    field: str  # name of the field in the form
    choices: list[tuple[str, str]]


class Shown(NamedTuple):
    """Table as displayed on the page."""

    columns: list[Heading]
    rows: list[tuple[Heading | str, list[str]]]  # heading or name of the row, and cells
    asides: list[Heading]  # columns of the file that are not shown as columns
    n_hidden_columns: int
    n_hidden_rows: int
    transposed: bool


def show_table(check: Mapping[str, Any], settings: Settings) -> Shown:
    """Build the display of the first rows and columns of a checked table."""
    if check["transposed"]:
        return _show_transposed(check, settings)
    header, roles = check["header"], check["roles"]
    position = {name: k for k, name in enumerate(header)}
    chosen = [name for name in (*settings.shown, *settings.roles) if name in position]
    special = [name for name in header if _role(name, roles, settings) != "variable"]
    variables = [name for name in header if _role(name, roles, settings) == "variable"]
    names = dict.fromkeys([*chosen, *special[:MAX_SPECIAL]])
    names |= dict.fromkeys(variables[: max(4, MAX_SHOWN - len(names))])
    shown = sorted(names, key=position.__getitem__)
    columns = [_heading(name, roles, settings, ROLE_TITLES) for name in shown]
    rows: list[tuple[Heading | str, list[str]]] = [
        (str(k + 1), [_cell(row, position[name]) for name in shown])
        for k, row in enumerate(check["rows"])
    ]
    return Shown(
        columns, rows, [], len(header) - len(shown), max(0, check["n_rows"] - len(rows)), False
    )


def _show_transposed(check: Mapping[str, Any], settings: Settings) -> Shown:
    """Build the display of a transposed table, with variables in columns."""
    header, roles = check["header"], check["roles"]
    key = next((name for name in header if roles.get(name) == "row names"), header[0])
    variables = [_cell(row, header.index(key)) for row in check["rows"]]
    columns = [_heading(name, {}, settings, ROLE_TITLES) for name in dict.fromkeys(variables)]
    samples = [name for name in header if name != key and roles.get(name) == "variable"]
    shown = samples[: len(check["rows"])]
    rows: list[tuple[Heading | str, list[str]]] = [
        (
            _heading(name, roles, settings, _SAMPLE_ROLES),
            [_cell(row, header.index(name)) for row in check["rows"][: len(columns)]],
        )
        for name in shown
    ]
    others = [name for name in header if name not in samples]
    chosen = [name for name in settings.shown if name in header and name not in {*shown, *others}]
    asides = [_heading(n, roles, settings, _SAMPLE_ROLES) for n in (*others[:MAX_SPECIAL], *chosen)]
    return Shown(
        columns,
        rows,
        asides,
        max(0, check["n_rows"] - len(columns)),
        len(samples) - len(shown),
        True,
    )


def _role(name: str, roles: Mapping[str, str], settings: Settings) -> str:
    return settings.roles.get(name) or roles.get(name, "variable")


def _heading(
    name: str, roles: Mapping[str, str], settings: Settings, titles: Mapping[str, str]
) -> Heading:
    role = _role(name, roles, settings)
    choices = [*titles.items()]
    if role not in titles:
        choices.append((role, ROLE_TITLES[role]))
    return Heading(name, role, f"role:{name}", choices)


def _cell(row: list[str], k: int) -> str:
    text = row[k] if k < len(row) else ""
    return text if len(text) <= MAX_CELL else f"{text[: MAX_CELL - 1]}…"


def read_settings(
    fields: Iterable[tuple[str, str]], before: Settings, check: Mapping[str, Any]
) -> Settings:
    """Read the settings in a submitted form.

    Unknown fields and values, which cannot come from the page, are ignored.
    """
    given = {name: value[:MAX_VALUE] for name, value in fields}
    roles = _read_roles(given, before, check)
    file_format: dict[str, Any] = {}
    for name, is_flag in FORMAT_FIELDS.items():
        value = given.get(f"format:{name}", "").strip()
        if value:
            file_format[name] = True if is_flag else value
    codes = {found["code"] for found in check.get("findings", ()) if found["is_fixed"]}
    shown_fixes = {name.removeprefix("shown-fix:") for name in given if "shown-fix:" in name}
    refused = (({*before.refused} | shown_fixes) & codes) - {
        name.removeprefix("fix:") for name in given if name.startswith("fix:")
    }
    if check and ("transpose" in file_format) != check["transposed"]:
        refused = refused - {ORIENTATION} if "transpose" in file_format else refused | {ORIENTATION}
    elif "transpose" not in before.file_format:  # transposed by a fix
        file_format.pop("transpose", None)
    question = given.get("question", before.question)
    if "response" in roles.values() and "response" not in before.roles.values():
        question = "predict"
    answers: dict[str, Any] = {}
    for choice in QUESTIONS[question].choices if question in QUESTIONS else ():
        value = given.get(f"answer:{question}:{choice.name}", "").strip()
        if value:
            answers[choice.name] = True if choice.kind == "flag" else value
    column = given.get("show", "").strip()
    is_known = column in check.get("roles", {})
    return Settings(
        roles,
        file_format,
        tuple(sorted(refused)),
        question if question in QUESTIONS else before.question,
        answers,
        (*before.shown, column) if is_known and column not in before.shown else before.shown,
        _read_tables(given, before),
    )


def _read_tables(given: Mapping[str, str], before: Settings) -> tuple[int, ...]:
    """Return the numbers of the selected other tables."""
    fields = {name.removeprefix("table:") for name in given if name.startswith("table:")}
    if "offered" not in fields:
        return before.tables
    return tuple(sorted(int(number) for number in fields if number.isdecimal()))


def _read_roles(
    given: Mapping[str, str], before: Settings, check: Mapping[str, Any]
) -> dict[str, str]:
    """Return the roles that differ from the guesses.

    A role of at most one column is assigned to the column selected last.
    """
    guesses = check.get("roles", {})
    roles = dict(before.roles)
    for field, role in given.items():
        name = field.removeprefix("role:")
        if not field.startswith("role:") or role not in ROLE_OPTIONS:
            continue
        if role == _role(name, guesses, before):
            continue
        roles[name] = role
        if role in SINGLE_ROLES:
            roles = {n: r for n, r in roles.items() if r != role or n == name}
    response = given.get("response", "").strip()
    if given.get("question") == "predict" and response:
        roles = {n: r for n, r in roles.items() if r != "response"} | {response: "response"}
    return roles
