"""Reading what an app's drivers recorded."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import attrs

from .. import clock
from ..errors import CorruptError, NewerFormatError, StorageError
from ..storage import Folder
from .history import (
    AHEAD,
    MINUTES_KEPT,
    Minutes,
    Month,
    by_hour,
    hour_of,
    minute_files,
    minute_of,
    month_files,
    of_driver,
    read_minutes,
    read_month,
)
from .span import Span

MINUTE, HOUR = 60.0, 3600.0


@attrs.frozen(kw_only=True)
class Recorded:
    """A span of a query, and whose it is. seconds: its length"""

    deployment: str
    epoch: int
    query: str
    span: Span
    seconds: float


def recorded(app: Folder, since: datetime, unread: list[str] | None = None) -> list[Recorded]:
    """Return the spans that an app's drivers recorded from `since` (UTC) until now, oldest first: minutes where they
    are kept that long, else hours. Unreadable files and spans of a clock that was ahead are left out.

    unread: receives the paths of unreadable files
    """
    left_out = [] if unread is None else unread
    now = clock.utc_now()
    if now - since <= MINUTES_KEPT:
        found = _minutes(app, minute_of(since), now + AHEAD, left_out)
    else:
        found = _hours(app, hour_of(since), now + AHEAD, left_out)
    return sorted(found, key=lambda r: (r.span.at, r.epoch, r.query))


def _minutes(app: Folder, since: datetime, until: datetime, left_out: list[str]) -> Iterator[Recorded]:
    files = [path for hour, path in minute_files(app) if hour_of(since) <= hour <= until]
    for minutes in _read(app, files, read_minutes, left_out):
        for query, spans in minutes.spans.items():
            for span in spans:
                if since <= clock.parse(span.at) <= until:
                    yield _of(minutes, query, span, MINUTE)


def _hours(app: Folder, since: datetime, until: datetime, left_out: list[str]) -> Iterator[Recorded]:
    known: set[tuple[str, int, str, str]] = set()
    months = [path for begin, path in month_files(app) if since - timedelta(days=31) <= begin <= until]
    for month in _read(app, months, read_month, left_out):
        for key, queries in month.spans.items():
            deployment, epoch = of_driver(key)
            for query, spans in queries.items():
                known |= {(deployment, epoch, query, span.at) for span in spans}
                yield from (
                    Recorded(deployment=deployment, epoch=epoch, query=query, span=span, seconds=HOUR)
                    for span in spans
                    if since <= clock.parse(span.at) <= until
                )
    files = [path for hour, path in minute_files(app) if hour <= until]
    for minutes in _read(app, files, read_minutes, left_out):
        for query, found in minutes.spans.items():
            for span in by_hour(found):
                summed_up = (minutes.deployment, minutes.epoch, query, span.at) in known
                if not summed_up and since <= clock.parse(span.at) <= until:
                    yield _of(minutes, query, span, HOUR)


def _of(minutes: Minutes, query: str, span: Span, seconds: float) -> Recorded:
    return Recorded(deployment=minutes.deployment, epoch=minutes.epoch, query=query, span=span, seconds=seconds)


def _read(app: Folder, paths: list[str], read: Any, left_out: list[str]) -> list[Any]:
    def one(path: str) -> Minutes | Month | None:
        try:
            found: Minutes | Month | None = read(app, path)
        except (CorruptError, NewerFormatError, StorageError):
            left_out.append(path)
            return None
        return found

    return [found for found in app.read_many(one, paths) if found is not None]
