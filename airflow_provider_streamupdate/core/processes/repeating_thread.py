"""An action repeated in a background thread."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


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
