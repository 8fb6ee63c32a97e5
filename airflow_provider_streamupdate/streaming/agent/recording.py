"""Writes down what a driver's queries did, minute by minute (core/history)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timezone

import attrs

from ...core import clock
from ...core.errors import StreamUpdateError
from ...core.history.history import Minutes, hour_of, minute_of, sum_up, write_minutes
from ...core.history.span import Span
from ...core.processes.repeating_thread import repeating
from ...core.registry.deployment import QueryStatus
from ...core.storage import Folder

LOOK_SECONDS = 5.0  # between looks whether a minute has ended


def utc_now() -> datetime:
    return datetime.now(timezone.utc)


class Recorder:
    """app: the app's folder. now: the time in UTC

    Nothing depends on what it writes: what cannot be written is written with the next minute, or is lost.
    """

    def __init__(self, app: Folder, deployment: str, epoch: int, now: Callable[[], datetime] = utc_now) -> None:
        self._app, self._deployment, self._epoch, self._now = app, deployment, epoch, now
        self._lock = threading.Lock()
        self._spans: dict[str, dict[datetime, Span]] = {}  # by query and minute, of the hours that are not written
        self._seen: dict[str, int] = {}  # the last batch of each query that was counted
        self._told: dict[str, int] = {}  # and the last one whose figures were added
        self._written: datetime | None = None  # the minute that was written last
        self._summed_up: datetime | None = None  # the hour in which the hours before were

    def note(self, queries: Mapping[str, QueryStatus]) -> None:
        """Add what has been committed since the last call to the minute that is now."""
        at = minute_of(self._now())
        with self._lock:
            for name, status in queries.items():
                minutes = self._spans.setdefault(name, {})
                span = minutes.get(at, Span(at=at.isoformat()))
                minutes[at] = self._with(span, name, status)

    def _with(self, span: Span, name: str, status: QueryStatus) -> Span:
        first = status.batch + 1 if status.first_batch is None else status.first_batch
        before, told = self._seen.get(name, first - 1), self._told.get(name, first - 1)
        # Spark reports a batch a little after its commit.
        new = [f for f in status.figures if told < f.batch <= status.batch]
        out = [f.rows_out for f in new if f.rows_out is not None]
        self._seen[name] = max(before, status.batch)
        self._told[name] = max([told, *(f.batch for f in new)])
        lags = [lag for lag in (span.lag_most, status.lag) if lag is not None]
        age = None
        if status.watermark and not status.watermark.startswith("1970-01-01T00:00:00"):  # Spark's word for none
            with contextlib.suppress(ValueError):
                age = max((self._now() - clock.parse(status.watermark)).total_seconds(), 0.0)
        return attrs.evolve(
            span,
            batches=span.batches + max(status.batch - before, 0),
            rows_in=span.rows_in + sum(f.rows_in or 0 for f in new),
            rows_out=(span.rows_out or 0) + sum(out) if out else span.rows_out,
            seconds=span.seconds + sum(f.seconds for f in new),
            longest=max([span.longest, *(f.seconds for f in new)]),
            lag=status.lag,
            lag_most=max(lags) if lags else None,
            watermark_age=age,
            state_rows=dict(status.state_rows),
            state_bytes=status.state_bytes,
        )

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """While the block runs, write every minute that has ended; at its end, all."""
        with repeating(LOOK_SECONDS, self.write, StreamUpdateError):
            yield
        with contextlib.suppress(StreamUpdateError):
            self.write(over=True)

    def write(self, over: bool = False) -> None:
        """Write the minutes that have ended, if there are any that were not; StorageError when it fails.

        over: and the one that has not
        """
        now = self._now()
        until = minute_of(now)
        with self._lock:
            ended = [at for minutes in self._spans.values() for at in minutes if at < until or over]
            if not ended or (not over and self._written is not None and max(ended) <= self._written):
                return
            hours = {hour: self._of(hour, max(ended)) for hour in sorted({hour_of(at) for at in ended})}
        for hour, minutes in hours.items():
            write_minutes(self._app, hour, minutes)
        with self._lock:
            self._written = max(ended)
            for spans in self._spans.values():
                for at in [at for at in spans if hour_of(at) < hour_of(now)]:
                    del spans[at]
        if self._summed_up != hour_of(now):
            sum_up(self._app, now)
            self._summed_up = hour_of(now)

    def _of(self, hour: datetime, last: datetime) -> Minutes:
        spans = {
            query: tuple(minutes[at] for at in sorted(minutes) if hour_of(at) == hour and at <= last)
            for query, minutes in self._spans.items()
        }
        return Minutes(
            deployment=self._deployment,
            epoch=self._epoch,
            spans={query: found for query, found in spans.items() if found},
        )
