"""Reading roots that may not answer, without taking the API server's threads along."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Unanswered
from typing import Any, TypeVar

from ..state.errors import WaitTimeoutError

T = TypeVar("T")
AT_ONCE = 16
SECONDS = 10.0  # a request waits for its roots no longer


class Looks:
    """Work in threads of its own. Who asks for what is being looked at already shares the answer."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds = seconds
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="streaming-apps")
        self._lock = threading.RLock()  # work that is done at once ends inside `start`
        self._under_way: dict[Hashable, Future[Any]] = {}

    def start(self, key: Hashable, work: Callable[[], T]) -> Future[T]:
        """Begin `work`, or join the one with the same key that is under way."""
        with self._lock:
            future = self._under_way.get(key)
            if future is None:
                future = self._under_way[key] = self._pool.submit(work)
                future.add_done_callback(lambda _: self._end(key))
            return future

    def wait(self, future: Future[T], what: str, since: float) -> T:
        """The answer, or what was raised; WaitTimeoutError when there is none so long after `since` (monotonic)."""
        try:
            return future.result(max(0.0, since + self.seconds - time.monotonic()))
        except Unanswered as error:
            if future.done():
                raise  # the work's own
            raise WaitTimeoutError(
                f"{what} did not answer within {self.seconds:g} s; check that its root can be reached from the API "
                "server"
            ) from error

    def look(self, key: Hashable, what: str, work: Callable[[], T]) -> T:
        """`start` and `wait`."""
        return self.wait(self.start(key, work), what, time.monotonic())

    def _end(self, key: Hashable) -> None:
        with self._lock:
            self._under_way.pop(key, None)
