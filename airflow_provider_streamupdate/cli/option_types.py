"""Types of option values: durations and key=value pairs."""

from __future__ import annotations

import re
from typing import Any

import click

_NAME = re.compile(r"[\w.-]{0,80}")
_SHORT = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?", re.IGNORECASE)


class Duration(click.ParamType):
    """A duration in seconds, from ``90``, ``1h30m`` or ISO 8601 ``PT1H30M``; positive, or with `zero` also 0."""

    name = "duration"

    def __init__(self, zero: bool = False) -> None:
        self._zero = zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = _seconds(str(value).strip())
        if seconds is None:
            self.fail(f"{value!r} is not a duration; give seconds (90), 1h30m or ISO 8601 (PT1H30M)", param, ctx)
        if not 0 <= seconds < float("inf") or (seconds == 0 and not self._zero):
            sign = "non-negative" if self._zero else "positive"
            self.fail(f"{value!r} must be a {sign}, finite duration", param, ctx)
        return seconds


def _seconds(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        pass
    import pendulum  # slow to import

    short = _SHORT.fullmatch(text)
    if text and short:
        days, hours, minutes = (int(part or 0) for part in short.groups()[:3])
        whole = pendulum.duration(days=days, hours=hours, minutes=minutes)
        return whole.total_seconds() + float(short[4] or 0)
    try:
        parsed = pendulum.parse(text)
    except (ValueError, OverflowError):
        return None
    return parsed.total_seconds() if isinstance(parsed, pendulum.Duration) else None


class KeyValue(click.ParamType):
    """A pair from ``key=value``; the value may contain ``=``."""

    name = "key=value"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "KEY=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        key, separator, text = str(value).partition("=")
        if not separator or not key.strip():
            name = _NAME.match(str(value))  # what follows it may be a secret
            self.fail(f"{name and name[0]!r} is not KEY=VALUE: it has no = behind its name", param, ctx)
        return key.strip(), text
