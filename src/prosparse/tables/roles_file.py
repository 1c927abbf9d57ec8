"""File with the roles of the columns and the format of a table.

The keys are the options of the command without dashes: ``row-names``, ``label``, ``groups``,
``covariates``, ``ignore`` and ``na``, and for the analysis ``missing``, ``counts`` and ``scale``.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import TableError
from ..files import write_text
from .base import ReadOptions
from .number_format import THOUSANDS
from .quoting import quote_argument

HEADER = "# Roles of columns and format of a table, for prosparse --roles"
# Keys of the options whose names differ.
_KEYS = {"as_variables": "as-variable", "header": "no-header"}
_TRANSIENT = ("progress", "variables", "identifiers", "response")
ANALYSIS: dict[str, type] = {"missing": str, "counts": bool, "scale": bool}


class RolesFile(NamedTuple):
    """Content of a roles file."""

    options: ReadOptions
    analysis: dict[str, Any]  # ``missing``, ``counts``, ``scale``


def write_roles(
    path: str | os.PathLike[str], options: ReadOptions, analysis: Mapping[str, Any]
) -> None:
    """Write the options that differ from their defaults."""
    lines = [HEADER]
    defaults = ReadOptions()
    for name, value in options._asdict().items():
        if name not in _TRANSIENT and value != getattr(defaults, name):
            lines.append(f"{_key(name)} = {_format(_to_option(name, value))}")
    lines += [f"{name} = {_format(value)}" for name, value in analysis.items() if name in ANALYSIS]
    write_text(Path(path), "\n".join(lines) + "\n")


def format_options(options: ReadOptions, analysis: Mapping[str, Any]) -> str:
    """Return the command-line options equivalent to a roles file."""
    defaults = ReadOptions()
    words: list[str] = []
    for name, field in options._asdict().items():
        if name in _TRANSIENT or field == getattr(defaults, name):
            continue
        flag, value = f"--{_key(name)}", _to_option(name, field)
        if value is True:
            words.append(flag)
        elif name == "skip_lines":
            words += [flag, ",".join(map(str, value))]
        else:
            for text in [value] if isinstance(value, str) else value:
                words += [flag, quote_argument(str(text))]
    for name, value in analysis.items():
        words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return " ".join(words)


def is_roles_file(path: str | os.PathLike[str]) -> bool:
    """Return whether a file was written by `write_roles`."""
    with Path(path).open("rb") as file:
        return file.read(len(HEADER)) == HEADER.encode()


def read_roles(path: str | os.PathLike[str]) -> RolesFile:
    """Read a roles file."""
    path = Path(path)
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise TableError(f"{path}: the file does not exist.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TableError(f"{path}: the file is not valid TOML ({error}).") from error
    fields = {_key(name): name for name in ReadOptions._fields if name not in _TRANSIENT}
    changes: dict[str, Any] = {}
    analysis: dict[str, Any] = {}
    for key, value in entries.items():
        if key in ANALYSIS:
            _check_type(path, key, value, ANALYSIS[key])
            analysis[key] = value
        elif key in fields:
            changes[fields[key]] = _from_option(path, key, fields[key], value)
        else:
            known = ", ".join([*fields, *ANALYSIS])
            raise TableError(f"{path}: there is no key {key!r}; known keys: {known}.")
    return RolesFile(ReadOptions(**changes), analysis)


def merge_options(stored: ReadOptions, given: ReadOptions) -> ReadOptions:
    """Replace stored options by given options."""
    defaults = ReadOptions()._asdict()
    changed = {name: value for name, value in given._asdict().items() if value != defaults[name]}
    return stored._replace(**changed)


def _key(name: str) -> str:
    return _KEYS.get(name, name.replace("_", "-"))


def _to_option(name: str, value: Any) -> Any:
    """Convert a field of `ReadOptions` to the value of a command-line option."""
    if name == "header":
        return not value
    if name == "thousands":
        return next(word for word, mark in THOUSANDS.items() if mark == value)
    if name == "decimal":
        return {".": "point", ",": "comma"}.get(value, value)
    if name == "label" and isinstance(value, str):
        return [value]
    return value


def _from_option(path: Path, key: str, name: str, value: Any) -> Any:
    """Convert the value of a command-line option to a field of `ReadOptions`."""
    default = getattr(ReadOptions(), name)
    if isinstance(default, bool):
        _check_type(path, key, value, bool)
        return not value if name == "header" else value
    if isinstance(default, tuple):
        return _to_tuple(path, key, name, value)
    _check_type(path, key, value, str)
    if name == "thousands":
        if value not in THOUSANDS:
            raise TableError(f"{path}: {key} must be one of {', '.join(THOUSANDS)}, got {value!r}.")
        return THOUSANDS[value]
    return {"point": ".", "comma": ","}.get(value, value) if name == "decimal" else value


def _to_tuple(path: Path, key: str, name: str, value: Any) -> tuple[Any, ...]:
    if name == "skip_lines":
        if not isinstance(value, list) or not all(type(line) is int for line in value):
            raise TableError(f"{path}: {key} must be a list of line numbers, got {value!r}.")
        return tuple(value)
    values = [value] if isinstance(value, str | int | float) else value
    if not isinstance(values, list) or any(isinstance(v, list | dict) for v in values):
        raise TableError(f"{path}: {key} must be a list of texts, got {value!r}.")
    return tuple(map(str, values))


def _check_type(path: Path, key: str, value: Any, expected: type) -> None:
    if not isinstance(value, expected):
        noun = {bool: "true or false", str: "a text"}[expected]
        raise TableError(f"{path}: {key} must be {noun}, got {value!r}.")


def _format(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_format, value))}]"
    if isinstance(value, int):
        return str(value)
    # JSON strings are valid TOML strings, except for the character DEL.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
