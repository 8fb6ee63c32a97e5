"""A thread that repeats an action, and an event that a signal's handler may set."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator


class Alarm(threading.Event):
    """`threading.Event` has a lock that cannot be taken twice: a handler that sets it never returns when it comes in
    the moment in which the thread that it interrupts holds that lock in `wait` (measured). This one is set without one.

    It stays set. Of several threads that wait, one is woken; the others see it when their timeout is over.
    """

    def __init__(self) -> None:
        super().__init__()
        self._on = False
        self._came: queue.SimpleQueue[None] = queue.SimpleQueue()  # its `put` may interrupt itself and `get`

    def is_set(self) -> bool:
        return self._on

    def set(self) -> None:
        self._on = True
        self._came.put(None)

    def wait(self, timeout: float | None = None) -> bool:
        if not self._on:
            with contextlib.suppress(queue.Empty):
                self._came.get(timeout=timeout)
        return self._on


@contextlib.contextmanager
def repeating(seconds: float, action: Callable[[], object], *errors: type[Exception]) -> Iterator[None]:
    """Call `action` at an interval in seconds. After one of `errors` it is called again, since the next call may
    succeed."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(seconds):
            with contextlib.suppress(*errors):
                action()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
