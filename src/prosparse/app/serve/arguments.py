"""Choices of the user as arguments of the command.

The page runs the commands of ``prosparse``. What it shows as "the command that repeats this
analysis" is therefore what it ran.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

Words = list[tuple[str, str | None]]  # options with their values; None for flags

# Option of the command for each role of a column, by the value of `prosparse.tables.roles.Role`.
ROLE_OPTIONS = {
    "variable": "as_variable",
    "row names": "row_names",
    "label": "label",
    "groups": "groups",
    "covariate": "covariates",
    "response": "response",
    "ignored": "ignore",
}
SINGLE_ROLES = ("row names", "groups", "response")  # roles of at most one column
# Options of `TableOptions` that describe the format of the file, and whether they are flags.
FORMAT_FIELDS = {
    "transpose": True,
    "no_header": True,
    "na": False,
    "censored": False,
    "thousands": False,
    "decimal": False,
    "skip_lines": False,
    "ignore_rows": False,
    "encoding": False,
    "separator": False,
    "sheet": False,
}
_REPEATED = {"label", "ignore", "as_variable", "covariates", "na", "ignore_rows"}
REPEATABLE = {f"--{name.replace('_', '-')}" for name in (*_REPEATED, "include", "exclude")}


class Settings(NamedTuple):
    """Choices of the user for a table, as JSON."""

    roles: Mapping[str, str] = {}  # roles that differ from the guess, by column
    file_format: Mapping[str, Any] = {}  # fields of `FORMAT_FIELDS`
    refused: tuple[str, ...] = ()  # codes of findings whose fix is not applied
    question: str = "together"
    answers: Mapping[str, Any] = {}  # options of the question
    shown: tuple[str, ...] = ()  # columns that the page shows in addition


def table_options(settings: Settings) -> dict[str, Any]:
    """Return the fields of `TableOptions`, and ``response``."""
    options: dict[str, Any] = {}
    for name, role in settings.roles.items():
        field = ROLE_OPTIONS[role]
        if field in _REPEATED:
            options.setdefault(field, []).append(name)
        else:
            options[field] = name
    for field, value in settings.file_format.items():
        if field in _REPEATED:
            options.setdefault(field, []).append(value)
        else:
            options[field] = value
    return options


def to_words(options: Mapping[str, Any]) -> Words:
    """Return options as words of the command line."""
    words: Words = []
    for field, value in options.items():
        flag = f"--{field.replace('_', '-')}"
        if value is True:
            words.append((flag, None))
        elif isinstance(value, list | tuple):
            words += [(flag, str(entry)) for entry in value]
        elif value not in (None, "", False):
            words.append((flag, str(value)))
    return words


def split_fix(fix: str) -> Words:
    """Return the options in a fix of `prosparse.checks`."""
    words: Words = []
    for word in shlex.split(fix):
        if word.startswith("--"):
            words.append((word, None))
        else:
            words[-1] = (words[-1][0], word)
    return words


def join_words(first: Words, others: Iterable[tuple[str, str | None]]) -> Words:
    """Add options that are not given yet, or that may be repeated."""
    given = {flag for flag, _ in first}
    added = [
        (flag, value)
        for flag, value in others
        if flag not in given or (flag in REPEATABLE and (flag, value) not in first)
    ]
    return [*first, *added]


def to_arguments(words: Words) -> list[str]:
    """Return arguments of the command; a value may begin with a dash."""
    arguments = []
    for flag, value in words:
        if value is None:
            arguments.append(flag)
        elif value.startswith("-"):
            arguments.append(f"{flag}={value}")
        else:
            arguments += [flag, value]
    return arguments


def analysis_words(
    settings: Settings, fix: str, accepted: Iterable[str], answers: Mapping[str, Any]
) -> Words:
    """Return the options of an analysis: choices of the user first, then fixes.

    Labels replace groups, covariates and the response if the command has no such option
    (``accepted``), so that they are not taken for variables.
    """
    accepted = {*accepted}
    words = join_words(
        to_words(answers), join_words(to_words(table_options(settings)), split_fix(fix))
    )
    labels = ("--groups", "--covariates", "--response")
    result: Words = []
    for flag, value in words:
        word = (flag, value)
        if flag not in accepted and flag in labels and value is not None:
            name = value.removeprefix("C(").removesuffix(")") if value.startswith("C(") else value
            word = ("--label", name)
        if word[0] in accepted and word not in result:
            result.append(word)
    return result
