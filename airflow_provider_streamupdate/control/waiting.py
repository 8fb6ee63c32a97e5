"""Wait for a change that shows only in storage: poll with a deadline; a timeout names what was awaited."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..core import clock
from ..core.errors import WaitTimeoutError

T = TypeVar("T")
Progress = Callable[[str], None]
POLL_SECONDS = 0.2


class Phase(str):
    """A line of progress that says what is going on, until the next phase. Other lines say what has happened.

    name: phases of one name are one phase, whose detail changes
    """

    name: str

    def __new__(cls, name: str, detail: str = "") -> Phase:
        phase = super().__new__(cls, f"{name}: {detail}" if detail else name)
        phase.name = name
        return phase


def discard_progress(_line: str) -> None:
    """Discard a line of progress."""


def wait_for(
    poll: Callable[[], T | None],
    what: str,
    timeout: float,
    poll_seconds: float = POLL_SECONDS,
    why: Callable[[], str | None] = lambda: None,
) -> T:
    """Call `poll` until it returns something other than None, and return that.

    WaitTimeoutError, naming `what` and `why` it may not have happened, after `timeout` seconds. An exception from
    `poll` ends the wait.
    """
    deadline = clock.monotonic() + timeout
    while (result := poll()) is None:
        if clock.monotonic() >= deadline:
            reason = why()
            raise WaitTimeoutError(f"{what} did not happen within {timeout:g} s{f': {reason}' if reason else ''}")
        clock.sleep(poll_seconds)
    return result
