"""Waiting for something that only storage can tell: poll with a deadline (tenacity), saying what is waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import tenacity

from ..core.errors import WaitTimeoutError

T = TypeVar("T")
Progress = Callable[[str], None]
POLL_SECONDS = 0.2


def quiet(_line: str) -> None:
    """Progress that nobody is told."""


def wait_for(poll: Callable[[], T | None], what: str, timeout: float, poll_seconds: float = POLL_SECONDS) -> T:
    """Call `poll` until it returns something other than None; WaitTimeoutError after `timeout` seconds, naming `what`.
    Whatever `poll` raises ends the wait."""
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_result(lambda result: result is None),
        wait=tenacity.wait_fixed(poll_seconds),
        stop=tenacity.stop_after_delay(timeout),
    )
    try:
        result = retrying(poll)
    except tenacity.RetryError as error:
        raise WaitTimeoutError(f"{what} did not happen within {timeout:g} s") from error
    assert result is not None  # retry_if_result sees to it
    return result
