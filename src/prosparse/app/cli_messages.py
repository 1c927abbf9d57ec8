"""Estimator messages with options of the command instead of parameters.

Estimators quote their parameters in backquotes. The descriptions of the methods map parameters to
command-line options: ``n_components`` becomes ``--components``.
"""

from __future__ import annotations

import re

from ..registry import Method

# Parameters that the command sets for several methods.
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
# Fitted attributes, as the results of the command present them.
_ATTRIBUTES = {
    "support_": "the selection",
    "ranking_": "the ranking",
    "components_": "the loadings",
    "communality_": "the communality",
}
_QUOTED = re.compile(r"`(-{0,2}[\w-]+)(?:=([^`]*))?`")


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
