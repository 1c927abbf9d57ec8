"""Log messages of the AnnData functions."""

from __future__ import annotations

import logging
import sys
import time
from datetime import timedelta
from typing import Any

_log = logging.getLogger("prosparse.anndata")

# Minimum verbosity at which scanpy prints the actions of its functions ("info").
_SCANPY_INFO = 3


class Report:
    """Log messages of a function.

    Messages go to the logger ``prosparse.anndata`` at level INFO, and to scanpy's log file if
    scanpy is imported and its ``settings.verbosity`` is at least 3.
    """

    def __init__(self, function: str):
        self.function, self.start = function, time.monotonic()

    def log(self, message: str) -> None:
        """Log one message."""
        _log.info("%s: %s", self.function, message)
        file = _scanpy_file()
        if file is not None:
            print(f"{self.function}: {message}", file=file)

    def finish(self, result: str, added: list[str]) -> None:
        """Log the result, the run time and the added slots."""
        duration = timedelta(seconds=round(time.monotonic() - self.start))
        self.log(f"{result} ({duration})\n    --> added " + ",\n              ".join(added))


def _scanpy_file() -> Any:
    """Return scanpy's log file, or None if scanpy would not print."""
    settings = getattr(sys.modules.get("scanpy"), "settings", None)
    if settings is None or int(settings.verbosity) < _SCANPY_INFO:
        return None
    return settings.logfile
