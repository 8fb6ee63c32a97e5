"""The history of an app under its root, ``history/``: minutes for a day, hours for 90 days.

A driver replaces the file of its hour once a minute. What hours have ended is summed up, one span a query and hour, in
a file a month; then the minutes are removed. Each file of minutes has one writer, the driver of one epoch. A month has
one after the other; should two overlap, the minutes that one of them missed are still there for the next.

What is kept is counted in files, and not by a clock, which may be wrong.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

import attrs

from .. import clock
from ..errors import CorruptError, NewerFormatError, StorageError
from ..serde import read_file, to_json
from ..storage import Folder
from .span import Span, merged

FOLDER = "history"
MINUTES, MONTHS = f"{FOLDER}/minutes", f"{FOLDER}/months"
MINUTES_KEPT = timedelta(hours=26)  # a day, whenever it is looked at: so many hours that have files
HOURS_KEPT = timedelta(days=90)
MONTHS_KEPT = 5  # files: 90 days touch four of them, and a clock that was wrong may have made another
NAME_LENGTH = 100  # of a deployment in a file's name
LATE = timedelta(hours=3)
AHEAD = timedelta(minutes=2)  # what is noted for later than that is of a clock that was wrong
_HOUR, _MONTH = "%Y%m%dT%H", "%Y%m"

Spans = dict[str, tuple[Span, ...]]


@attrs.frozen(kw_only=True)
class Minutes:
    """The work of one epoch's driver in one hour."""

    deployment: str
    epoch: int
    spans: Spans  # by query, oldest first, one per minute


@attrs.frozen(kw_only=True)
class Month:
    """The hours of one month."""

    spans: dict[str, Spans] = attrs.field(factory=dict)  # by driver (`driver_key`) and query, oldest first

    @spans.validator
    def _of_drivers(self, _field: object, spans: dict[str, Spans]) -> None:
        for key in spans:
            of_driver(key)


def minute_of(moment: datetime) -> datetime:
    return moment.replace(second=0, microsecond=0)


def hour_of(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)


def driver_key(deployment: str, epoch: int) -> str:
    """Return the key of a driver in a month."""
    return f"{epoch}-{deployment}"


def of_driver(key: str) -> tuple[str, int]:
    """Return the deployment and epoch of a driver's key; ValueError when it is not one."""
    epoch, separator, deployment = key.partition("-")
    if not separator or not deployment:
        raise ValueError(f"{key!r} names no driver")
    return deployment, int(epoch)


def minutes_path(hour: datetime, deployment: str, epoch: int) -> str:
    """The file of a driver's hour. A long deployment id is shortened with a digest; the file holds the whole one."""
    return f"{MINUTES}/{hour.strftime(_HOUR)}-{_short_key(deployment, epoch)}.json"


def _short_key(deployment: str, epoch: int) -> str:
    if len(deployment) > NAME_LENGTH:
        deployment = f"{deployment[:NAME_LENGTH]}.{hashlib.sha256(deployment.encode()).hexdigest()[:12]}"
    return driver_key(deployment, epoch)


def write_minutes(app: Folder, hour: datetime, minutes: Minutes) -> None:
    """Replace the file of a driver's hour. It need not last: the next one comes in a minute."""
    app.write(minutes_path(hour, minutes.deployment, minutes.epoch), to_json(minutes), lasting=False)


def joined(before: Minutes | None, later: Minutes) -> Minutes:
    """Merge what a driver had written about an hour with what it noted later. One minute may be in both."""
    if before is None:
        return later
    spans: Spans = {}
    for query in sorted({*before.spans, *later.spans}):
        found: dict[str, list[Span]] = {}
        for span in (*before.spans.get(query, ()), *later.spans.get(query, ())):
            found.setdefault(span.at, []).append(span)
        spans[query] = tuple(merged(at, found[at]) for at in sorted(found))
    return attrs.evolve(later, spans=spans)


def minute_files(app: Folder) -> list[tuple[datetime, str]]:
    """Return the hour and path of each file of minutes, oldest first. Other files are ignored."""
    return sorted((at, path) for at, rest, path in _dated(app, MINUTES, _HOUR) if rest)


def month_files(app: Folder) -> list[tuple[datetime, str]]:
    """Return the first moment and path of each file of a month, oldest first."""
    return sorted((at, path) for at, rest, path in _dated(app, MONTHS, _MONTH) if not rest)


def _dated(app: Folder, folder: str, form: str) -> Iterator[tuple[datetime, str, str]]:
    """The moment that a name begins with, what follows it, and the path. Copies that a person made have other names."""
    for name in app.names(folder):
        text, dash, rest = name.removesuffix(".json").partition("-")
        try:
            at = datetime.strptime(f"{text}+0000", f"{form}%z")
        except ValueError:
            continue
        if name.endswith(".json") and at.strftime(form) == text and bool(dash) == bool(rest):
            yield at, rest, f"{folder}/{name}"


def read_minutes(app: Folder, path: str) -> Minutes | None:
    """Read a file of minutes; None when it is gone. CorruptError or NewerFormatError when it cannot be read, or is a
    copy of another driver's."""
    minutes = read_file(app, path, Minutes)
    if minutes is not None and _key_of(path) != (key := _short_key(minutes.deployment, minutes.epoch)):
        raise CorruptError(f"{app.path(path)} holds the minutes of driver {key}; remove the file")
    return minutes


def read_month(app: Folder, path: str) -> Month | None:
    """Read the file of a month; None when there is none. CorruptError or NewerFormatError when it cannot be read."""
    return read_file(app, path, Month)


def sum_up(app: Folder, now: datetime) -> None:
    """Merge the hours that have ended into their months, and remove old files. A damaged file is dropped. Files of a
    newer version of this package are left to that version, unreadable ones to the next call. Hours in the future, from
    a clock that was ahead, do not displace those that have passed."""
    files = minute_files(app)
    ended = [(hour, path) for hour, path in files if hour < hour_of(now)]
    done: set[str] = set()
    for month in sorted({hour.strftime(_MONTH) for hour, _ in ended}):
        with contextlib.suppress(NewerFormatError):
            done |= _sum_up_month(app, month, [(h, path) for h, path in ended if h.strftime(_MONTH) == month], now)
    kept = _newest((hour for hour, _ in files), now, int(MINUTES_KEPT / timedelta(hours=1)))
    for hour, path in files:
        if hour not in kept and (hour > now or path in done):
            app.remove(path)
    months = month_files(app)
    kept = _newest((begin for begin, _ in months), now, MONTHS_KEPT)
    for begin, path in months:
        if begin not in kept:
            app.remove(path)


def _newest(moments: Iterable[datetime], now: datetime, count: int) -> set[datetime]:
    """Return the `count` latest moments in the past, and as many in the future, where a clock was ahead or this one is
    behind."""
    found = sorted(set(moments))
    return {at for later in (False, True) for at in [at for at in found if (at > now) is later][-count:]}


def _sum_up_month(app: Folder, month: str, ended: Sequence[tuple[datetime, str]], now: datetime) -> set[str]:
    """Merge ended hours into one month; return the files of minutes that are no longer needed."""
    path = f"{MONTHS}/{month}.json"
    try:
        before = read_month(app, path) or Month()
    except CorruptError:
        before = Month()
    except StorageError:
        return set()
    known = {(key, span.at) for key, queries in before.spans.items() for spans in queries.values() for span in spans}
    found, done = [], set()
    for hour, file in ended:
        settled = now - hour > LATE  # until then its driver may have had a last word
        if not (settled and (_key_of(file), hour.isoformat()) in known):
            try:
                found.append(read_minutes(app, file))
            except (NewerFormatError, StorageError):
                continue
            except CorruptError:
                pass
        done.add(file)
    after = with_hours(before, [minutes for minutes in found if minutes is not None])
    if after != before:
        app.write(path, to_json(after))
    return done


def _key_of(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".json").partition("-")[2]


def with_hours(month: Month, ended: Iterable[Minutes]) -> Month:
    """Return the month with these hours. Each replaces the one of the same driver, query and hour."""
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
