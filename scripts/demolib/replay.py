"""Lets prepared files arrive one by one in a folder that a Spark file source reads."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

# Spark lists the folder while files arrive; with less time between two of them a listing might show only the
# later.
SHORTEST_GAP = 0.05


class Replay(threading.Thread):
    """Moves `files` into `target` in their order, one every `gap` seconds; `gap` may be changed at any time.

    Spark takes files in the order of their modification times (in ms) and never looks at a file again, so
    each file appears complete, by a rename on the same file system, and with a later time than the one
    before.
    """

    def __init__(self, files: Sequence[Path], target: Path, gap: float) -> None:
        super().__init__(name="replay", daemon=True)
        target.mkdir(parents=True, exist_ok=True)
        self.files = list(files)
        self.target = target
        self.gap = gap
        self.arrived = 0
        self.error: Exception | None = None
        self._changed = threading.Condition()
        self._stop_requested = threading.Event()
        self._last_ms = 0

    def run(self) -> None:
        try:
            for file in self.files:
                self._release(file)
                if self._stop_requested.wait(max(self.gap, SHORTEST_GAP)):
                    return
        except Exception as error:
            self.error = error
            with self._changed:
                self._changed.notify_all()

    def stop(self) -> None:
        """No further file arrives after this returns."""
        self._stop_requested.set()
        if self.is_alive():
            self.join()

    @property
    def done(self) -> bool:
        return self.arrived == len(self.files)

    def wait_for(self, count: int, timeout: float) -> None:
        """Return when `count` files have arrived; TimeoutError, or the error that ended the replay."""
        with self._changed:
            reached = self._changed.wait_for(lambda: self.error is not None or self.arrived >= count, timeout)
        if self.error is not None:
            raise RuntimeError(f"the replay ended after {self.arrived} files: {self.error}") from self.error
        if not reached:
            raise TimeoutError(f"only {self.arrived} of {count} files arrived in {timeout:.0f} s")

    def _release(self, file: Path) -> None:
        self._last_ms = max(self._last_ms + 1, time.time_ns() // 1_000_000)
        os.utime(file, ns=(self._last_ms * 1_000_000,) * 2)
        os.rename(file, self.target / file.name)
        with self._changed:
            self.arrived += 1
            self._changed.notify_all()
