"""The history of an app under its root, ``history/``: minutes for a day, hours for 90 days.

A driver replaces the file of its hour once a minute. What hours have ended is summed up, one span a query and hour, in
a file a month; then the minutes are removed. Each file of minutes has one writer, the driver of one epoch. A month has
one after the other; should two overlap, the minutes that one of them missed are still there for the next.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

import attrs

from .. import clock
from ..errors import CorruptError, NewerFormatError
from ..serde import from_json, to_json
from ..storage import Folder
from .span import Span, merged

FOLDER = "history"
MINUTES, MONTHS = f"{FOLDER}/minutes", f"{FOLDER}/months"
MINUTES_KEPT = timedelta(hours=26)  # a day, whenever it is looked at
HOURS_KEPT = timedelta(days=90)
LATE = timedelta(hours=3)
_HOUR, _MONTH = "%Y%m%dT%H", "%Y%m"

Spans = dict[str, tuple[Span, ...]]


@attrs.frozen(kw_only=True)
class Minutes:
    """What the driver of an epoch did in an hour. spans: by query, oldest first, a minute each"""

    deployment: str
    epoch: int
    spans: Spans


@attrs.frozen(kw_only=True)
class Month:
    """spans: by driver (`driver_key`) and query, oldest first, an hour each"""

    spans: dict[str, Spans] = attrs.field(factory=dict)


def minute_of(moment: datetime) -> datetime:
    return moment.replace(second=0, microsecond=0)


def hour_of(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)


def driver_key(deployment: str, epoch: int) -> str:
    """How a month names a driver."""
    return f"{epoch}-{deployment}"


def of_driver(key: str) -> tuple[str, int]:
    """The deployment and the epoch of a key. ValueError when it is none."""
    epoch, separator, deployment = key.partition("-")
    if not separator or not deployment:
        raise ValueError(f"{key!r} names no driver")
    return deployment, int(epoch)


def write_minutes(app: Folder, hour: datetime, minutes: Minutes) -> None:
    """Replace the file of a driver's hour."""
    name = f"{hour.strftime(_HOUR)}-{driver_key(minutes.deployment, minutes.epoch)}.json"
    app.write(f"{MINUTES}/{name}", to_json(minutes), lasting=False)  # another comes in a minute


def minute_files(app: Folder) -> list[tuple[datetime, str]]:
    """The hour and the path of each, oldest first. What is none is left alone."""
    return sorted(_dated(app, MINUTES, _HOUR))


def month_files(app: Folder) -> list[tuple[datetime, str]]:
    """The first moment and the path of each, oldest first."""
    return sorted(_dated(app, MONTHS, _MONTH))


def _dated(app: Folder, folder: str, form: str) -> Iterator[tuple[datetime, str]]:
    for name in app.names(folder):
        try:
            at = datetime.strptime(f"{name.removesuffix('.json').split('-')[0]}+0000", f"{form}%z")
        except ValueError:
            continue
        yield at, f"{folder}/{name}"


def read_minutes(app: Folder, path: str) -> Minutes | None:
    """None: it is gone. CorruptError or NewerFormatError when it cannot be read."""
    text = app.read(path)
    return None if text is None else from_json(text, Minutes, app.path(path))


def read_month(app: Folder, path: str) -> Month | None:
    """None: there is none. CorruptError or NewerFormatError when it cannot be read."""
    text = app.read(path)
    return None if text is None else from_json(text, Month, app.path(path))


def sum_up(app: Folder, now: datetime) -> None:
    """Bring the hours that have ended into their months, and remove what is older than it is kept. A damaged file is
    given up: nothing but charts depends on it. What a newer version of this package wrote is left to that one."""
    files = [(hour, path) for hour, path in minute_files(app) if hour < hour_of(now)]
    for month in sorted({hour.strftime(_MONTH) for hour, _ in files}):
        with contextlib.suppress(NewerFormatError):
            _sum_up_month(app, month, [(hour, path) for hour, path in files if hour.strftime(_MONTH) == month], now)
    for hour, path in files:
        if now - hour > MINUTES_KEPT:
            app.remove(path)
    for begin, path in month_files(app):
        if now - begin > HOURS_KEPT + timedelta(days=31):
            app.remove(path)


def _sum_up_month(app: Folder, month: str, ended: Sequence[tuple[datetime, str]], now: datetime) -> None:
    path = f"{MONTHS}/{month}.json"
    try:
        before = read_month(app, path) or Month()
    except CorruptError:
        before = Month()
    known = {(key, span.at) for key, queries in before.spans.items() for spans in queries.values() for span in spans}
    found = []
    for hour, file in ended:
        settled = now - hour > LATE  # until then its driver may have had a last word
        if settled and (_key_of(file), hour.isoformat()) in known:
            continue
        with contextlib.suppress(CorruptError):
            found.append(read_minutes(app, file))
    after = with_hours(before, [minutes for minutes in found if minutes is not None])
    if after != before:
        app.write(path, to_json(after))


def _key_of(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".json").partition("-")[2]


def with_hours(month: Month, ended: Iterable[Minutes]) -> Month:
    """The month with these hours, each in place of what it has of the same driver, query and hour."""
    spans = {key: dict(queries) for key, queries in month.spans.items()}
    for minutes in ended:
        queries = spans.setdefault(driver_key(minutes.deployment, minutes.epoch), {})
        for query, found in minutes.spans.items():
            hours = {span.at: span for span in (*queries.get(query, ()), *by_hour(found))}
            queries[query] = tuple(hours[at] for at in sorted(hours))
    return Month(spans=spans)


def by_hour(spans: Iterable[Span]) -> list[Span]:
    """Spans of minutes, oldest first, as spans of hours."""
    hours: dict[str, list[Span]] = {}
    for span in spans:
        hours.setdefault(hour_of(clock.parse(span.at)).isoformat(), []).append(span)
    return [merged(at, found) for at, found in hours.items()]
