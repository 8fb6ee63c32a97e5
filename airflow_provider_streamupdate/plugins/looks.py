"""Asking roots that may not answer, without taking the API server's threads along."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from ..core.errors import WaitTimeoutError

T = TypeVar("T")
AT_ONCE = 8  # threads a connection: one whose root does not answer takes none of another's
SECONDS = 10.0  # a request waits for its root no longer
# The API server has 40 threads for all of Airflow's routes (AnyIO's default). So many may wait for roots that do not
# answer at once; any other gives up when it has waited for a moment.
WAITING, MOMENT = 16, 0.5


class Looks:
    """Work in threads of its own, by connection. Who asks for what is being looked at already shares the answer."""

    def __init__(self, seconds: float = SECONDS, moment: float = MOMENT) -> None:
        self.seconds, self.moment = seconds, min(moment, seconds)
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._lock = threading.RLock()  # work that is done at once ends inside `start`
        self._under_way: dict[Hashable, Future[Any]] = {}
        self._waiting = threading.BoundedSemaphore(WAITING)

    def start(self, conn_id: str, key: Hashable, work: Callable[[], T]) -> Future[T]:
        """Begin `work`, or join the one with the same key that is under way."""
        with self._lock:
            future = self._under_way.get((conn_id, key))
            if future is None:
                if conn_id not in self._pools:
                    self._pools[conn_id] = ThreadPoolExecutor(AT_ONCE, thread_name_prefix=f"streaming-apps-{conn_id}")
                future = self._under_way[conn_id, key] = self._pools[conn_id].submit(work)
                future.add_done_callback(lambda _: self._end((conn_id, key)))
            return future

    def wait(self, future: Future[T], what: str, since: float) -> T:
        """The answer, or what was raised; WaitTimeoutError when there is none so long after `since` (monotonic), or
        when too many requests wait already."""
        if not _done(future, since + self.moment):
            if not self._waiting.acquire(blocking=False):
                raise WaitTimeoutError(
                    f"{what} did not answer at once, and {WAITING} requests wait for roots that do not answer: try "
                    "again later, and check that the roots can be reached from the API server"
                )
            try:
                _done(future, since + self.seconds)
            finally:
                self._waiting.release()
        if not future.done():
            raise WaitTimeoutError(
                f"{what} did not answer within {self.seconds:g} s; check that its root can be reached from the API "
                "server"
            )
        return future.result()

    def look(self, conn_id: str, key: Hashable, what: str, work: Callable[[], T]) -> T:
        """`start` and `wait`."""
        return self.wait(self.start(conn_id, key, work), what, time.monotonic())

    def _end(self, key: Hashable) -> None:
        with self._lock:
            self._under_way.pop(key, None)


def _done(future: Future[Any], until: float) -> bool:
    """Whether it is, by then (monotonic)."""
    return bool(wait([future], max(0.0, until - time.monotonic())).done)
