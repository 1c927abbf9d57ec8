"""How the functions are called: names of parameters, and what is said while they run."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")

_log = logging.getLogger("prosparse.anndata")

# scanpy's `settings.verbosity` from which on its own functions say what they did ("info").
_SCANPY_INFO = 3

# What scanpy's functions and our estimators call a parameter, and what it may be called here: the
# first that a function has.
_OTHER_NAMES: dict[str, tuple[str, ...]] = {
    "n_comps": ("n_components",),
    "n_pcs": ("n_components",),
    "n_top_genes": ("n_genes", "n_features_to_select"),
    "n_features": ("n_genes", "n_features_to_select"),
    "genes": ("include",),
    "use_highly_variable": ("mask_var",),
    "mask": ("mask_var",),
    "groups": ("batch_key",),
    "batch": ("batch_key",),
    "key": ("key_added",),
    "alpha": ("fdr",),
}


def with_suggestions(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Refuse a parameter that a function does not have, and name the one that was meant."""
    there = signature(function).parameters

    @wraps(function)
    def called(*args: Given.args, **given: Given.kwargs) -> Result:
        for name in given:
            if name not in there:
                raise TypeError(_unknown(function.__name__, name, list(there)))
        return function(*args, **given)

    return called


def _unknown(function: str, name: str, there: list[str]) -> str:
    known = [other for other in _OTHER_NAMES.get(name, ()) if other in there]
    near = known or get_close_matches(name, there, n=1)
    if near:
        return f"{function}() has no parameter `{name}`: it is called `{near[0]}` here"
    if name == "inplace":
        return f"{function}() has no parameter `inplace`: use `copy=True` to leave the data as is"
    return f"{function}() has no parameter `{name}`; it has {', '.join(there)}"


class Report:
    """What a function says of itself: to the log ``prosparse.anndata``, at level INFO, and as
    scanpy's own functions do, if scanpy was imported and its ``settings.verbosity`` is at least 3.
    """

    def __init__(self, function: str):
        self.function, self.begun = function, time.monotonic()

    def say(self, words: str) -> None:
        """One line."""
        _log.info("%s: %s", self.function, words)
        file = _scanpy_file()
        if file is not None:
            print(f"{self.function}: {words}", file=file)

    def finish(self, found: str, added: list[str]) -> None:
        """What was found, how long it took, and where the results are."""
        passed = timedelta(seconds=round(time.monotonic() - self.begun))
        self.say(f"{found} ({passed})\n    --> added " + ",\n              ".join(added))


def _scanpy_file() -> Any:
    """Where scanpy's functions write, if they would write now."""
    settings = getattr(sys.modules.get("scanpy"), "settings", None)
    if settings is None or int(settings.verbosity) < _SCANPY_INFO:
        return None
    return settings.logfile
