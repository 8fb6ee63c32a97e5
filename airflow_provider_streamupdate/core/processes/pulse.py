"""Signs of life as one reader sees them. Whether another process's heartbeat is fresh is decided by its *change*, on
the reader's own monotonic clock: no two clocks are compared, and no clock that can be set is read."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

import attrs

from .. import clock

KNOWN = 10_000  # heartbeats that are kept in mind


@attrs.frozen
class Beat:
    """A heartbeat as one reader saw it."""

    quiet: float  # seconds for which this same heartbeat has been seen
    changed: bool  # another one was seen before it, so its writer was alive while this reader watched


@attrs.define
class _Last:
    value: object
    seen_at: float
    changed: bool


class Pulse:
    """The last heartbeats of many writers. seconds: a monotonic clock"""

    def __init__(self, seconds: Callable[[], float] = clock.monotonic) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._last: OrderedDict[str, _Last] = OrderedDict()

    def observe(self, whose: str, value: object) -> Beat:
        """Note a heartbeat. A living process never writes the same one twice."""
        with self._lock:
            now, last = self._seconds(), self._last.get(whose)
            if last is None or last.value != value:
                last = self._last[whose] = _Last(value, now, last is not None)
                while len(self._last) > KNOWN:
                    self._last.popitem(last=False)
            self._last.move_to_end(whose)
            return Beat(now - last.seen_at, last.changed)
