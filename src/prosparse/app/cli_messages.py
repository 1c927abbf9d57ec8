"""Messages of the estimators in the words of the command: ``--components``, not ``n_components``.

Estimators name their parameters in backquotes. What a parameter is called on the command line is in
the registry, which names the parameter that each option sets.
"""

from __future__ import annotations

import re

from ..registry import Method

# The parameters that the command sets for all methods.
_COMMON = {
    "n_components": "--components",
    "max_iter": "--max-iter",
    "tol": "--tol",
    "scale": "--scale",
    "groups": "--groups",
    "keep": "--keep",
    "exclude": "--exclude",
    "costs": "--costs",
    "y": "the response",
    "X": "the table",
}
# What a fitted estimator has, as the results of the command have it.
_RESULTS = {
    "support_": "the choice",
    "ranking_": "the ranking",
    "components_": "the loadings",
    "communality_": "the communality",
}
_NAMED = re.compile(r"`(-{0,2}[\w-]+)(?:=([^`]*))?`")


def options_of(method: Method) -> dict[str, str]:
    """What the parameters of a method are called on the command line."""
    return _COMMON | {one.parameter: f"--{one.name}" for one in method.options or ()}


def in_words_of_the_command(message: str, method: Method) -> str:
    """The message with the options of the command for the parameters of the estimator."""
    known = options_of(method) | _RESULTS

    def named(found: re.Match[str]) -> str:
        name, value = found[1], found[2]
        if name.startswith("--"):
            return name
        if name not in known:
            return found[0]
        plain = known[name]
        # `scale=True` is --scale, and `n_components="auto"` is --components auto
        if value == "False":
            return f"no {plain}"
        return plain if value in (None, "True") else f"{plain} {value.strip(chr(34))}"

    return _NAMED.sub(named, message)
