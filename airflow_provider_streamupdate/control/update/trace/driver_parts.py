"""What a driver did in an update, from its events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

import attrs

from ....core import clock
from ....core.registry.deployment import DRAINING, FAILED, RESTORING, RUNNING

LAUNCHED = "launched"  # no event, but known from launch.json
STARTED = "started"  # no event, but told by the first ones
# What a driver does from one event to the next, by the first of them.
_AFTER = {
    LAUNCHED: "launch",
    STARTED: "start",
    "planned": "get ready",
    RESTORING: "restore",
    "restored": "start queries",
    RUNNING: "first batch",
    DRAINING: "drain",
    "handed over": "wait for successor",
    "changed": "start queries",
    "taken over": "take over",
}
# What is told of a driver, and changes nothing in what it does.
_BESIDE = {"command", "renumbered", "snapshot"}


@attrs.frozen(kw_only=True)
class Part:
    """What one driver did without a break.

    name: what it did; deployment, epoch: whose driver; begin, end: UTC
    error: what it failed with, in the middle of this
    """

    name: str
    deployment: str
    epoch: int | None
    begin: datetime
    end: datetime
    error: str | None = None


def parts(deployment: str, events: Iterable[Mapping[str, Any]]) -> list[Part]:
    """Return what the drivers of a deployment did, by their events, oldest first. What was begun and is not known to
    have ended is left out, as is every event of another form."""
    by_driver: dict[int | None, list[tuple[str, datetime, Mapping[str, Any]]]] = {}
    for event in events:
        known = by_driver.setdefault(event.get("epoch"), [])
        begun = {kind for kind, _, _ in known} - {LAUNCHED}
        known += [moment for moment in _moments(event) if moment[0] != STARTED or not begun]
    found = [part for epoch, moments in by_driver.items() for part in _of_driver(deployment, epoch, moments)]
    return sorted(found, key=lambda part: (part.begin, part.end))


def _moments(event: Mapping[str, Any]) -> Iterator[tuple[str, datetime, Mapping[str, Any]]]:
    """An event by what it says, and before it the driver's start, where it tells it."""
    at, since = _time(event.get("at")), _time(event.get("since"))
    kind = event.get("state") if event.get("event") == "state" else event.get("event")
    if at is None or not isinstance(kind, str):
        return
    if since is not None:
        yield STARTED, since, {}
    if kind not in _BESIDE:
        yield kind, at, event


def _of_driver(
    deployment: str, epoch: int | None, moments: Sequence[tuple[str, datetime, Mapping[str, Any]]]
) -> Iterator[Part]:
    for (kind, begin, _), (then, at, event) in pairwise(moments):
        if kind not in _AFTER or (kind == RUNNING and then != "first batch"):
            continue
        first = _first_commit(event) if then == "first batch" else None
        error = str(event.get("error") or event.get("reason") or "it failed") if then == FAILED else None
        name = _AFTER[kind]
        yield Part(name=name, deployment=deployment, epoch=epoch, begin=begin, end=max(begin, first or at), error=error)


def _first_commit(event: Mapping[str, Any]) -> datetime | None:
    """When the last of the queries had committed its first batch."""
    queries = event.get("queries")
    times = [_time(text) for text in queries.values()] if isinstance(queries, Mapping) else []
    return max((t for t in times if t is not None), default=None)


def _time(text: object) -> datetime | None:
    try:
        return clock.parse(text) if isinstance(text, str) else None
    except ValueError:
        return None
