"""Translation of estimator messages into options of the command.

Estimators write parameters in backquotes. The descriptions of the methods map parameters to
command-line options, such as ``n_components`` to ``--components``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..registry import Method
from ..tables.base import quote

# Parameters of several methods and the corresponding options.
_COMMON_OPTIONS = {
    "n_components": "--components",
    "max_iter": "--max-iter",
    "tol": "--tol",
    "scale": "--scale",
    "groups": "--groups",
    "covariates": "--covariates",
    "include": "--include",
    "exclude": "--exclude",
    "costs": "--costs",
    "y": "the response",
    "X": "the table",
}
# Fitted attributes, as named in the results of the command.
_ATTRIBUTES = {
    "support_": "the selection",
    "ranking_": "the ranking",
    "components_": "the loadings",
    "communality_": "the communality",
}
_QUOTED = re.compile(r"`(-{0,2}[\w-]+)(?:=([^`]*))?`")
# Positions of rows or columns: "column 8", "rows 0, 17 and 31", "rows 0, 1 and 5 others".
_POSITIONS = re.compile(r"\b(row|column)(s?) (\d+(?:, \d+)*(?: and \d+(?! other))?)( of X)?")


def translate_parameters(message: str, method: Method) -> str:
    """Replace parameters in backquotes, such as `scale=True`, by options."""
    options = {option.parameter: f"--{option.name}" for option in method.options or ()}
    translations = _COMMON_OPTIONS | options | _ATTRIBUTES

    def translate(match: re.Match[str]) -> str:
        name, value = match[1], match[2]
        if name.startswith("--"):
            return name
        if name not in translations:
            return match[0]
        # `scale=True` becomes --scale, and `n_components="auto"` becomes --components auto.
        if value == "False":
            return f"no {translations[name]}"
        if value in (None, "True"):
            return translations[name]
        return f"{translations[name]} {value.strip(chr(34))}"

    return _QUOTED.sub(translate, message)


def name_positions(message: str, columns: Sequence[str], rows: Sequence[str] | None) -> str:
    """Replace positions of rows and columns by their names.

    Rows without names are numbered from 1, as in messages about the file.
    """

    def replace(match: re.Match[str]) -> str:
        noun, ending, positions, of_data = match.groups()

        def name(found: re.Match[str]) -> str:
            k = int(found[0])
            if noun == "column":
                return quote(columns[k]) if k < len(columns) else found[0]
            return str(k + 1) if rows is None or k >= len(rows) else quote(rows[k])

        where = "" if of_data is None else " of the data"
        return f"{noun}{ending} {re.sub(r'[0-9]+', name, positions)}{where}"

    return _POSITIONS.sub(replace, message)
