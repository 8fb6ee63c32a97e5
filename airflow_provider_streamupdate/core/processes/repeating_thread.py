"""Something done again and again in a thread, beside what goes on."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def repeating(seconds: float, action: Callable[[], object], *errors: type[Exception]) -> Iterator[None]:
    """Call `action` every so many seconds. After one of `errors` the next call may succeed."""
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
