"""Writes down what a driver's queries did, minute by minute (core/history)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

import attrs

from ...core import clock
from ...core.history.history import (
    Minutes,
    hour_of,
    joined,
    minute_of,
    minutes_path,
    read_minutes,
    sum_up,
    write_minutes,
)
from ...core.history.span import Span, watermark_age
from ...core.registry.deployment import QueryStatus
from ...core.storage import Folder

LOOK_SECONDS = 5.0  # between looks whether a minute has ended
END_SECONDS = 2.0  # that the driver's end waits for the last minute
HOURS_KEPT = 48  # in memory, while the storage does not take them


class Recorder:
    """app: the app's folder. now: the time in UTC, which may jump

    Nothing depends on what it writes: what cannot be written is written with the next minute, or is lost. Whatever goes
    wrong in it ends neither the thread that writes nor the driver.
    """

    def __init__(self, app: Folder, deployment: str, epoch: int, now: Callable[[], datetime] = clock.utc_now) -> None:
        self._app, self._deployment, self._epoch, self._now = app, deployment, epoch, now
        self._lock = threading.Lock()
        self._spans: dict[str, dict[datetime, Span]] = {}  # by query and minute, of the hours in memory
        self._before: dict[datetime, Minutes | None] = {}  # what the files of these hours held when they were begun
        self._unwritten: set[datetime] = set()  # minutes
        self._seen: dict[str, int] = {}  # the last batch of each query that was counted
        self._told: dict[str, int] = {}  # and the last one whose figures were added
        self._summed_up: datetime | None = None  # the hour in which the hours before were
        self._thread: threading.Thread | None = None

    def note(self, queries: Mapping[str, QueryStatus]) -> None:
        """Add what has been committed since the last call to the minute that is now."""
        at = minute_of(self._now())
        with self._lock:
            for name, status in queries.items():
                minutes = self._spans.setdefault(name, {})
                minutes[at] = self._with(minutes.get(at) or Span(at=at.isoformat()), name, status)
                self._unwritten.add(at)
            for hour in sorted({hour_of(at) for at in self._unwritten})[:-HOURS_KEPT]:
                self._forget(hour)

    def skip(self, last: Mapping[str, int]) -> None:
        """These batch ids, and those before them, are of others."""
        with self._lock:
            for name, batch in last.items():
                for known in (self._seen, self._told):
                    known[name] = max(known.get(name, -1), batch)

    def _with(self, span: Span, name: str, status: QueryStatus) -> Span:
        first = status.batch + 1 if status.first_batch is None else status.first_batch
        before, told = self._seen.get(name, first - 1), self._told.get(name, first - 1)
        # Spark reports a batch a little after its commit.
        new = [f for f in status.figures if told < f.batch <= status.batch]
        self._seen[name] = max(before, status.batch)
        self._told[name] = max([told, *(f.batch for f in new)])
        lags = [lag for lag in (span.lag_most, status.lag) if lag is not None]
        return attrs.evolve(
            span,
            batches=span.batches + max(status.batch - before, 0),
            timed=span.timed + len(new),
            rows_in=span.rows_in + sum(f.rows_in or 0 for f in new),
            rows_out=_rows_out(span, [f.rows_out for f in new]),
            seconds=span.seconds + sum(f.seconds for f in new),
            longest=max([span.longest, *(f.seconds for f in new)]),
            lag=status.lag,
            lag_most=max(lags) if lags else None,
            watermark_age=watermark_age(status.watermark, self._now()),
            state_rows=dict(status.state_rows),
            state_bytes=status.state_bytes,
        )

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """While the block runs, write every minute that has ended; after it, the last one. Its end waits for nothing:
        that is what `settle` is for."""
        over = threading.Event()

        def work() -> None:
            while not over.wait(LOOK_SECONDS):
                with contextlib.suppress(Exception):
                    self.write()
            with contextlib.suppress(Exception):
                self.write(over=True)

        self._thread = threading.Thread(target=work, name="recorder", daemon=True)
        self._thread.start()
        try:
            yield
        finally:
            over.set()

    def wait_written(self, seconds: float = END_SECONDS) -> None:
        """Wait for what is written last, at most so long."""
        if self._thread is not None:
            self._thread.join(seconds)

    def write(self, over: bool = False) -> None:
        """Write the minutes that have ended, if there are any that were not; StorageError when it fails.

        over: and the one that has not; what has ended is then summed up by the next driver
        """
        now = self._now()
        with self._lock:
            ended = {at for at in self._unwritten if at != minute_of(now) or over}
        for hour in sorted({hour_of(at) for at in ended}):
            self._write_hour(hour, ended)
        if ended and not over and self._summed_up != hour_of(now):
            sum_up(self._app, now)
            self._summed_up = hour_of(now)

    def _write_hour(self, hour: datetime, ended: set[datetime]) -> None:
        """Replace the file. It is this driver's alone: what it held was written before the clock jumped."""
        path = minutes_path(hour, self._deployment, self._epoch)
        if hour not in self._before:
            self._before[hour] = read_minutes(self._app, path)
        with self._lock:
            mine = self._of(hour, ended)
        write_minutes(self._app, hour, joined(self._before[hour], mine))
        with self._lock:
            self._unwritten -= {at for at in ended if hour_of(at) == hour}
            if hour != hour_of(self._now()) and not any(hour_of(at) == hour for at in self._unwritten):
                self._forget(hour)

    def _forget(self, hour: datetime) -> None:
        self._before.pop(hour, None)
        self._unwritten = {at for at in self._unwritten if hour_of(at) != hour}
        for query, spans in self._spans.items():
            self._spans[query] = {at: span for at, span in spans.items() if hour_of(at) != hour}

    def _of(self, hour: datetime, ended: set[datetime]) -> Minutes:
        """Return the minutes of an hour: those written so far, and those in `ended`."""
        shown = {
            query: tuple(
                minutes[at]
                for at in sorted(minutes)
                if hour_of(at) == hour and (at in ended or at not in self._unwritten)
            )
            for query, minutes in self._spans.items()
        }
        spans = {query: found for query, found in shown.items() if found}
        return Minutes(deployment=self._deployment, epoch=self._epoch, spans=spans)


def _rows_out(span: Span, new: list[int | None]) -> int | None:
    """Known when it is of every batch."""
    if not new:
        return span.rows_out
    if (span.timed and span.rows_out is None) or None in new:
        return None
    return (span.rows_out or 0) + sum(rows for rows in new if rows is not None)
