"""How long a driver waits for failing storage. Its queries continue meanwhile, as long as their checkpoints allow it:
the fence (fence.py) keeps two drivers from running the same batch, not a look at the root."""

from __future__ import annotations

import time


class Patience:
    """seconds: between the last time the storage answered and the end of it"""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.reached()

    def reached(self) -> None:
        """Note that the storage has answered."""
        self._at = time.monotonic()

    def over(self) -> bool:
        return time.monotonic() - self._at > self._seconds
