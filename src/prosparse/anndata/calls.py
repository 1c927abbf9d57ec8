"""Parameter names and log messages of the AnnData functions."""

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

# Verbosity from which scanpy prints what its functions did ("info").
_SCANPY_INFO = 3

# Parameter names of scanpy and of the estimators, and the names of the AnnData functions. The first
# that a function has is suggested.
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
    """Suggest the correct name in the error about an unknown parameter."""
    known = signature(function).parameters

    @wraps(function)
    def called(*args: Given.args, **given: Given.kwargs) -> Result:
        for name in given:
            if name not in known:
                raise TypeError(_unknown(function.__name__, name, list(known)))
        return function(*args, **given)

    return called


def _unknown(function: str, name: str, known: list[str]) -> str:
    renamed = [other for other in _OTHER_NAMES.get(name, ()) if other in known]
    similar = renamed or get_close_matches(name, known, n=1)
    if similar:
        return f"{function}() has no parameter `{name}`. Use `{similar[0]}`."
    if name == "inplace":
        return (
            f"{function}() has no parameter `inplace`. Use `copy=True` to keep the data unchanged."
        )
    return f"{function}() has no parameter `{name}`. Its parameters are {', '.join(known)}."


class Report:
    """Report the progress of a function.

    Messages go to the logger ``prosparse.anndata`` at level INFO, and to scanpy's log file if
    scanpy is imported and its ``settings.verbosity`` is at least 3.
    """

    def __init__(self, function: str):
        self.function, self.start = function, time.monotonic()

    def say(self, message: str) -> None:
        """Report one message."""
        _log.info("%s: %s", self.function, message)
        file = _scanpy_file()
        if file is not None:
            print(f"{self.function}: {message}", file=file)

    def finish(self, result: str, added: list[str]) -> None:
        """Report the result, the run time and the slots that were added."""
        duration = timedelta(seconds=round(time.monotonic() - self.start))
        self.say(f"{result} ({duration})\n    --> added " + ",\n              ".join(added))


def _scanpy_file() -> Any:
    """Return scanpy's log file, or None if scanpy would not print."""
    settings = getattr(sys.modules.get("scanpy"), "settings", None)
    if settings is None or int(settings.verbosity) < _SCANPY_INFO:
        return None
    return settings.logfile
