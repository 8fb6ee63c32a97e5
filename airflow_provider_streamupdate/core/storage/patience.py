"""How long a driver waits for failing storage. Its queries continue meanwhile, as long as their checkpoints allow it:
the fence (fence.py) keeps two drivers from running the same batch, not a look at the root."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

from .. import clock
from ..errors import StorageError

_P = ParamSpec("_P")
_T = TypeVar("_T")
Wait = Callable[[StorageError, float], bool]  # given the seconds since a call failed first; False: give up
_wait: ContextVar[Wait | None] = ContextVar("wait", default=None)  # of this thread


class Patience:
    """The time for which the storage may fail. seconds: from its last answer on"""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.reached()

    def reached(self) -> None:
        """Note that the storage has answered."""
        self._at = clock.monotonic()

    def over(self) -> bool:
        return clock.monotonic() - self._at > self._seconds


@contextlib.contextmanager
def patiently(wait: Wait | None) -> Iterator[None]:
    """Try each call that this thread makes inside the block, and that fails, again for as long as `wait` says. None:
    do not."""
    token = _wait.set(wait)
    try:
        yield
    finally:
        _wait.reset(token)


def tried_again(call: Callable[_P, _T]) -> Callable[_P, _T]:
    """Decorate a call to the storage that may be made again after it has failed: see `patiently`."""

    @functools.wraps(call)
    def until_given_up(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        if _wait.get() is None:
            return call(*args, **kwargs)
        began = clock.monotonic()
        while True:
            try:
                return call(*args, **kwargs)
            except StorageError as error:
                wait = _wait.get()
                if wait is None:
                    raise
                with patiently(None):
                    if not wait(error, clock.monotonic() - began):
                        raise

    return until_given_up
