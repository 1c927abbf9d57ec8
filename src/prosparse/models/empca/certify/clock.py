"""Time limit of branch and bound."""

from __future__ import annotations

import math
import time


class Clock:
    """Time limit that a ``KeyboardInterrupt`` can end early."""

    def __init__(self, seconds: float = math.inf):
        self.end = time.monotonic() + seconds
        self.interrupted = False

    def expired(self) -> bool:
        """Return whether the time limit is reached, or the search was interrupted."""
        return self.interrupted or time.monotonic() > self.end

    def interrupt(self) -> None:
        """Let the time limit expire."""
        self.interrupted = True

    def share(self, parts: int) -> Clock:
        """Return a clock with the remaining time divided by ``parts``."""
        left = max(self.end - time.monotonic(), 0.0)
        part = Clock(left / parts)
        part.interrupted = self.interrupted
        return part
