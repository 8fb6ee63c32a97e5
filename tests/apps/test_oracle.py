"""The demo's oracles against input small enough to compute by hand."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta, timezone

from scripts.demolib.oracle import Alarm, Window, expected_alarms, expected_windows

TWO_HOURS = timedelta(hours=2)


def flight(scheduled: str, delay: int | None, origin: str = "JFK") -> dict:
    return {"origin": origin, "scheduled": f"2013-{scheduled}:00Z", "dep_delay": delay}


def event(room: str, kind: str, second: int) -> dict:
    return {"room": room, "event": kind, "ts": f"2024-05-01T08:00:{second:02}.000Z"}


def alarm(room: str, second: int) -> Alarm:
    return Alarm(room, f"2024-05-01T08:00:{second:02}.000Z")


def test_windows_follow_the_version_that_saw_the_flight():
    before = [flight("01-01T10:10", 5), flight("01-01T10:20", None), flight("01-01T11:00", -2)]
    after = [
        flight("01-01T11:30", None),  # cancelled: v2 does not count it
        flight("01-01T11:40", 7),
        flight("01-01T11:50", 1, "EWR"),
        flight("01-02T02:00", 100),  # moves the watermark to midnight
    ]
    oracle = expected_windows(before, after, TWO_HOURS)
    assert oracle.rows == Counter(
        [
            Window("daily", "2013-01-01T00:00:00Z", "JFK", 4, 10.0),
            Window("daily", "2013-01-01T00:00:00Z", "EWR", 1, 1.0),
            Window("hourly", "2013-01-01T11:00:00Z", "JFK", 1, 7.0),
            Window("hourly", "2013-01-01T11:00:00Z", "EWR", 1, 1.0),
        ]
    )
    assert oracle.carried == 1  # JFK's day; EWR's has flights of v2 only
    assert oracle.watermark == datetime(2013, 1, 2, tzinfo=timezone.utc)


def test_alarms_follow_the_version_that_saw_the_event():
    before = [
        event("a", "motion", 0),  # not active yet
        event("a", "activate", 1),
        event("a", "motion", 2),  # v1 tolerates nothing
        event("b", "activate", 3),
        event("c", "activate", 3),
        event("c", "deactivate", 4),
    ]
    after = [
        event("a", "motion", 11),  # 10 s after the activation v1 saw: tolerated to the second
        event("a", "motion", 12),
        event("b", "motion", 10),
        event("b", "activate", 20),  # already active: the grace period does not begin again
        event("b", "motion", 21),
        event("c", "motion", 30),
        event("d", "activate", 30),
        event("d", "motion", 35),
        event("d", "deactivate", 36),
        event("d", "motion", 50),
    ]
    assert expected_alarms(before, after, timedelta(seconds=10)) == Counter(
        [alarm("a", 2), alarm("a", 12), alarm("b", 21)]
    )
