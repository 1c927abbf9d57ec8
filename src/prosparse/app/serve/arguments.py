"""Conversion of the settings of the page to arguments of the command.

The page runs the commands of ``prosparse`` and shows each command that it runs.
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


class Settings(NamedTuple):
    """Settings of the user for a table, as JSON."""

    roles: Mapping[str, str] = {}  # roles that differ from the guess, by column
    file_format: Mapping[str, Any] = {}  # fields of `FORMAT_FIELDS`
    refused: tuple[str, ...] = ()  # codes of findings whose fixes are not applied
    question: str = "together"
    answers: Mapping[str, Any] = {}  # options of the question
    shown: tuple[str, ...] = ()  # columns shown on the page in addition
    tables: tuple[int, ...] = ()  # numbers of other tables with the same rows


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


def split_words(options: str) -> Words:
    """Split options into words of the command line."""
    words: Words = []
    for word in shlex.split(options):
        if word.startswith("--"):
            flag, equals, value = word.partition("=")
            words.append((flag, value if equals else None))
        else:
            words[-1] = (words[-1][0], word)
    return words


def answer_words(answers: Mapping[str, Any]) -> Words:
    """Convert the options of a question to words of the command line."""
    return [(f"--{name}", None if value is True else str(value)) for name, value in answers.items()]


def to_arguments(words: Words) -> list[str]:
    """Convert words to arguments; values may begin with a dash."""
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
    settings: Settings, implied: Words, options: str, accepted: Iterable[str]
) -> Words:
    """Return the options of an analysis.

    ``implied`` contains the options of the question, which cannot be overridden. ``options`` are
    the command-line options found by the check of the table. Answers of the user override these
    options. If the command does not accept groups, covariates or a response, these columns become
    labels, so that they are not treated as variables.
    """
    accepted = {*accepted}
    words = [*implied, *answer_words(settings.answers)]
    given = {flag for flag, _ in words}
    words += [word for word in split_words(options) if word[0] not in given]
    words += [("--response", name) for name, role in settings.roles.items() if role == "response"]
    labels = ("--groups", "--covariates", "--response")
    result: Words = []
    for flag, value in words:
        names = [value]
        if flag in labels and flag not in accepted and value is not None:
            names = [part.removeprefix("C(").removesuffix(")") for part in value.split(",")]
            flag = "--label"  # noqa: PLW2901
        result += [(flag, name) for name in names if flag in accepted]
    return list(dict.fromkeys(result))
