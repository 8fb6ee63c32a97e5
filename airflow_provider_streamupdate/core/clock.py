"""The clocks, and time as this package stores it: UTC, ISO 8601 text. Standard library only, since it runs in the
driver (pendulum has a compiled part and cannot travel with ``--py-files``; it serves the Airflow side)."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from typing import Any, Protocol


class Clock(Protocol):
    """The port to time. All waiting of drivers and of the control side goes through it, so that a simulation can run
    hours in a moment."""

    def wall(self) -> float:
        """Return the machine's time, seconds since the epoch. It may be set, and differ from other machines'."""

    def monotonic(self) -> float:
        """Return seconds since some moment; never goes back, and cannot be set."""

    def sleep(self, seconds: float) -> None:
        """Wait for a time in seconds."""


class SystemClock:
    """The clock of this machine."""

    def wall(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


_clock: Clock = SystemClock()


def use(clock: Clock) -> None:
    """Read the time, and wait, by another clock from now on."""
    global _clock
    _clock = clock


def wall() -> float:
    """Return the machine's time, seconds since the epoch."""
    return _clock.wall()


def monotonic() -> float:
    """Return seconds on a clock that cannot be set."""
    return _clock.monotonic()


def sleep(seconds: float) -> None:
    """Wait for a time in seconds."""
    _clock.sleep(seconds)


def now() -> str:
    """The current UTC time, e.g. ``2026-11-21T03:20:48.123456+00:00``."""
    return utc_now().isoformat(timespec="microseconds")


def later(seconds: float) -> str:
    """Return the UTC time `seconds` from now, to the second."""
    return (utc_now() + timedelta(seconds=seconds)).isoformat(timespec="seconds")


def utc_now() -> datetime:
    """Return the current UTC time."""
    return datetime.fromtimestamp(_clock.wall(), timezone.utc)


def from_epoch_ms(milliseconds: float) -> str:
    """An epoch time in milliseconds (Spark's unit) as ISO text."""
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc).isoformat(timespec="milliseconds")


def parse(text: str) -> datetime:
    """Parse ISO text into an aware datetime, in UTC without a zone; a trailing Z is accepted on Python 3.10, too.
    ValueError when it is not ISO text."""
    found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def is_moment(_instance: object, field: Any, value: Any) -> None:
    """Validator of an attrs field: a time as this package stores it, several by name, or none. So the file that holds a
    bad one is damaged, and none is met in the middle of a list."""
    for text in value.values() if isinstance(value, dict) else [value]:
        if text is None or text == field.default:
            continue
        try:
            parse(text)
        except ValueError as error:
            raise ValueError(f"{field.name} is not an ISO 8601 time: {text!r:.60}") from error


def format_timestamp(text: str) -> str:
    """Return a stored time for people, to the second, e.g. ``2026-11-21 03:20:48 UTC``."""
    return parse(text).strftime("%Y-%m-%d %H:%M:%S UTC")


def age(text: str) -> float:
    """Seconds since `text`."""
    return (utc_now() - parse(text)).total_seconds()


def duration(micros: int) -> str:
    """A length of time in its largest whole unit, for example ``10 minutes``."""
    for unit, size in (
        ("days", 86_400_000_000),
        ("hours", 3_600_000_000),
        ("minutes", 60_000_000),
        ("s", 1_000_000),
    ):
        if micros % size == 0:
            return f"{micros // size} {unit.removesuffix('s') if micros == size and unit != 's' else unit}"
    return f"{micros} us"
