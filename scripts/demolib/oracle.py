"""What the example apps must have written, computed in plain Python from their input.

The rows that version 1 processed count under its rules, those after the cut-over under version 2's. Which
they were is known from the snapshot the update took (source_log.py).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple

from airflow_provider_streamupdate.core import clock

LENGTHS = {"daily": timedelta(hours=24), "hourly": timedelta(hours=1)}
STAGES = {1: ("daily",), 2: ("daily", "hourly")}


class Window(NamedTuple):
    """A row of flight-windows: `start` in UTC, `delay` in minutes (None when no flight of it departed)."""

    stage: str
    start: str
    origin: str
    flights: int
    delay: float | None


LEAST_FLIGHTS = 5  # of a window that version 3 writes


class Alarm(NamedTuple):
    """A row of motion-alarm."""

    room: str
    ts: str


class WindowsOracle(NamedTuple):
    """rows: what must have been written
    carried: daily windows with flights of both versions
    watermark: the last one
    """

    rows: Counter[Window]
    carried: int
    watermark: datetime


def read_rows(folder: Path, names: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The rows of JSON-lines files."""
    for name in names:
        for line in (folder / name).read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def expected_windows(
    before: Iterable[dict[str, Any]], after: Iterable[dict[str, Any]], delay: timedelta
) -> WindowsOracle:
    """flight-windows after all its input, of which v1 processed `before` and v2 `after`.

    `delay` is the watermark's. Both must come in the order of their scheduled departures, so that none is
    late. Spark emits a window once the watermark, the latest departure less `delay`, has reached the window's
    end; v2 sees departed flights only, so a cancelled one does not move its watermark.
    """
    windows: dict[tuple[str, datetime, str], list[Any]] = {}
    versions: dict[tuple[str, datetime, str], set[int]] = {}
    latest = datetime.min.replace(tzinfo=timezone.utc)
    for version, flights in ((1, before), (2, after)):
        for flight in flights:
            minutes = flight["dep_delay"]
            if version == 2 and minutes is None:
                continue
            scheduled = clock.parse(flight["scheduled"])
            latest = max(latest, scheduled)
            for stage in STAGES[version]:
                key = (stage, _window_start(scheduled, LENGTHS[stage]), flight["origin"])
                window = windows.setdefault(key, [0, None])
                window[0] += 1
                if minutes is not None:
                    window[1] = (window[1] or 0.0) + float(minutes)
                versions.setdefault(key, set()).add(version)
    watermark = latest - delay
    rows = Counter(
        Window(stage, _iso(start), origin, flights, total)
        for (stage, start, origin), (flights, total) in windows.items()
        if start + LENGTHS[stage] <= watermark
    )
    return WindowsOracle(rows, sum(len(v) == 2 for v in versions.values()), watermark)


def written_by_v3(rows: Counter[Window], watermark: datetime) -> Counter[Window]:
    """What is left of version 2's rows when version 3 takes over after a batch with this watermark: windows that had
    ended by then were written, all others only with enough flights."""
    return Counter(
        {
            row: number
            for row, number in rows.items()
            if row.flights >= LEAST_FLIGHTS or clock.parse(row.start) + LENGTHS[row.stage] <= watermark
        }
    )


def expected_alarms(
    before: Iterable[dict[str, Any]], after: Iterable[dict[str, Any]], grace: timedelta
) -> Counter[Alarm]:
    """motion-alarm after all its input, of which v1 processed `before` and v2 `after`.

    Both must come in the order of their times. v2 tolerates motion up to `grace` after the activation, also
    one that v1 has seen.
    """
    since: dict[str, datetime] = {}  # rooms whose alarm is active
    alarms: Counter[Alarm] = Counter()
    for tolerated, events in ((None, before), (grace, after)):
        for event in events:
            room, ts = event["room"], clock.parse(event["ts"])
            if event["event"] == "activate":
                since.setdefault(room, ts)
            elif event["event"] == "deactivate":
                since.pop(room, None)
            elif room in since and (tolerated is None or ts - since[room] > tolerated):
                alarms[Alarm(room, event["ts"])] += 1
    return alarms


def found_windows(rows: Iterable[dict[str, Any]]) -> Counter[Window]:
    """Sink rows of flight-windows as the oracle has them."""
    return Counter(Window(r["stage"], r["start"], r["origin"], r["flights"], r["delay"]) for r in rows)


def found_alarms(rows: Iterable[dict[str, Any]]) -> Counter[Alarm]:
    """Sink rows of motion-alarm as the oracle has them."""
    return Counter(Alarm(r["room"], r["ts"]) for r in rows)


def _window_start(time: datetime, length: timedelta) -> datetime:
    """Windows are aligned to the epoch, as Spark's are."""
    return time - (time - datetime.fromtimestamp(0, timezone.utc)) % length


def _iso(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
