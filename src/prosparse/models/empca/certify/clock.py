"""When a proof has to end: the time is up, or the user said so."""

from __future__ import annotations

import math
import time


class Clock:
    """Says whether the time is up. Ctrl-C, once noticed, ends everything that asks it."""

    def __init__(self, seconds: float = math.inf):
        self.end = time.monotonic() + seconds
        self.interrupted = False

    def expired(self) -> bool:
        return self.interrupted or time.monotonic() > self.end

    def interrupt(self) -> None:
        self.interrupted = True

    def share(self, parts: int) -> Clock:
        """A clock for the next of so many parts of what is left."""
        left = max(self.end - time.monotonic(), 0.0)
        part = Clock(left / parts)
        part.interrupted = self.interrupted
        return part
