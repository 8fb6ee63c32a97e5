"""How long a driver waits for storage that fails. Its queries go on meanwhile, as long as their checkpoints let them:
what keeps two drivers from the same batch is the fence (fence.py), not a look at the root."""

from __future__ import annotations

import time


class Patience:
    """seconds: between the last time the storage answered and the end of it"""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.reached()

    def reached(self) -> None:
        """The storage has answered."""
        self._at = time.monotonic()

    def over(self) -> bool:
        return time.monotonic() - self._at > self._seconds
