"""Ask roots that may not answer, without blocking the API server's threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Generic, TypeVar

import attrs

from ..core.errors import WaitTimeoutError

T = TypeVar("T")
AT_ONCE = 8  # threads per connection: a root that does not answer blocks no other connection
SECONDS = 10.0  # the longest that a request waits for its root
# The API server has 40 threads for all of Airflow's routes (AnyIO's default). At most WAITING of them may wait for
# roots that do not answer at once; further requests give up after MOMENT seconds.
WAITING, MOMENT = 16, 0.5
PATIENCE = 2.0  # for a fresh answer, when there is an earlier one
ANSWERS = 16  # the earlier ones that are kept, of all connections


@attrs.frozen
class Answer(Generic[T]):
    """An answer of a root."""

    value: T
    taken_at: float  # when the work began (monotonic)
    seconds: float  # how long it took
    whole: bool = True  # False: only what was read so far

    @property
    def age(self) -> float:
        return time.monotonic() - self.taken_at - self.seconds


class RootRequests:
    """Runs work in separate threads per connection. Requests for the same thing share one answer."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds, self.moment = seconds, min(MOMENT, seconds)
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._lock = threading.RLock()  # work that is done at once ends inside `start`
        self._under_way: dict[Hashable, Future[Any]] = {}
        self._answers: dict[Hashable, Answer[Any]] = {}
        self._begun: dict[Hashable, Answer[list[Any]]] = {}  # what is there of the answers under way
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
        """Return the answer, or raise its error.

        WaitTimeoutError when there is none within the time limit after `since` (monotonic), or when too many requests
        wait already. Work that was not begun by then never is: who asked has been told, and may have asked again.
        """
        if not _is_done(future, since + self.moment):
            if not self._waiting.acquire(blocking=False):
                future.cancel()
                raise WaitTimeoutError(
                    f"{what} did not answer at once, and {WAITING} other requests already wait for roots that do not "
                    "answer: check that the roots can be reached from the API server, and try again later"
                )
            try:
                _is_done(future, since + self.seconds)
            finally:
                self._waiting.release()
        if future.cancel():
            raise WaitTimeoutError(
                f"{what} was not asked within {self.seconds:g} s, because its root has not answered earlier requests; "
                "check that it can be reached from the API server, and try again"
            )
        if not future.done():
            raise WaitTimeoutError(
                f"{what} did not answer within {self.seconds:g} s; a root with many apps is read on: try again in a "
                "moment. If that does not help, check that the root can be reached from the API server"
            )
        return future.result()

    def ask(self, conn_id: str, key: Hashable, what: str, work: Callable[[], T]) -> T:
        """Begin `work` and return its answer: `start` and `wait`."""
        return self.wait(self.start(conn_id, key, work), what, time.monotonic())

    def start_recent(self, conn_id: str, key: Hashable, work: Callable[[], Iterable[T]]) -> Future[Answer[list[T]]]:
        """Begin work on all apps, which takes long under a large root. Its answer is kept for `wait_recent`.

        It begins again only after as much time as it took.
        """

        def kept() -> Answer[list[T]]:
            began = time.monotonic()
            parts = list[T]()
            self._begun[conn_id, key] = Answer(parts, began, 0.0, whole=False)
            try:
                parts.extend(work())
            finally:
                self._begun.pop((conn_id, key), None)
            answer = Answer(parts, began, time.monotonic() - began)
            with self._lock:
                self._answers.pop((conn_id, key), None)
                self._answers[conn_id, key] = answer
                while len(self._answers) > ANSWERS:
                    self._answers.pop(next(iter(self._answers)))
            return answer

        with self._lock:
            last = self._answers.get((conn_id, key))
            if last is not None and last.age < last.seconds and last.seconds > self.moment:
                recent: Future[Answer[list[T]]] = Future()
                recent.set_result(last)
                return recent
            return self.start(conn_id, key, kept)

    def wait_recent(
        self, conn_id: str, key: Hashable, future: Future[Answer[list[T]]], what: str, since: float
    ) -> Answer[list[T]]:
        """Return the answer; after `PATIENCE` seconds the last one, or what was read so far. The work goes on."""
        if not _is_done(future, since + min(PATIENCE, self.seconds)):
            begun = self._begun.get((conn_id, key))
            if (last := self._answers.get((conn_id, key))) is not None:
                return last
            if begun is not None and begun.value:
                return attrs.evolve(begun, value=list(begun.value))
        return self.wait(future, what, since)

    def _end(self, key: Hashable) -> None:
        with self._lock:
            self._under_way.pop(key, None)


def _is_done(future: Future[Any], until: float) -> bool:
    """Return whether the future is done by `until` (monotonic)."""
    return bool(wait([future], max(0.0, until - time.monotonic())).done)
