"""Handling of SIGTERM and SIGINT, which end an app with a final state."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Any

from ...core.processes.threads import Alarm


class Signals:
    """number: the last one that came; None before
    evicted: the cluster is about to end this driver: it leaves as soon as it can, without cutting a batch
    woken: set by a signal, so that a wait for it ends
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self.evicted = False
        self.woken = Alarm()

    @property
    def reason(self) -> str:
        """The reason with which a driver ends after a signal."""
        assert self.number is not None
        return f"stopped by signal {signal.Signals(self.number).name}"

    def exit(self) -> SystemExit:
        """The exception to raise where nothing else checks the signal."""
        assert self.number is not None
        return SystemExit(128 + self.number)

    @contextlib.contextmanager
    def noted(self, at_once: Callable[[], bool]) -> Iterator[None]:
        """Note signals inside the block; Spark's own handlers are put back afterwards.

        at_once: whether the main thread, where handlers run, is to end by the first one
        """

        def note(number: int, _frame: Any) -> None:
            first, self.number = self.number is None, number
            self.woken.set()
            if first and at_once():
                raise self.exit()

        old = {s: signal.signal(s, note) for s in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)
