"""What is read to tell whether an app needs somebody, beside what a list reads anyway: as little as possible, since a
list may be of a thousand apps. A query's minutes are read only where its lag or its watermark calls for it, and the
driver's events only where a query stands."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from datetime import datetime, timedelta

import attrs

from ...core import clock
from ...core.errors import CorruptError, NewerFormatError, NotFoundError, StorageError
from ...core.formats import EVENT
from ...core.history.history import AHEAD, hour_of, minute_files, read_minutes
from ...core.history.span import Span
from ...core.names import is_name
from ...core.registry.deployment import RUNNING, Current, DriverState, Status
from ...core.registry.events import latest_lines
from ...core.registry.hiding import Hiding
from ...core.registry.registry import AppRegistry
from ...core.registry.update import UpdateRecord
from ...core.serde import parse_json
from ...core.snapshots.snapshots import SnapshotStore
from ..interruption import Interruption
from ..supervision.outlook import Outlook
from .need import (
    SNAPSHOT_AGE,
    SNAPSHOT_GRACE,
    Found,
    Need,
    Snapshots,
    lag_limit,
    needs,
    no_progress_since,
    old_watermark,
)
from .trend import Trend


def look_for_needs(
    app: AppRegistry,
    state: DriverState,
    current: Current,
    status: Status | None,
    update: UpdateRecord | None,
    interrupted: Interruption | None,
    supervision: Outlook | None,
) -> tuple[Need, ...]:
    """What an app needs somebody for, the most urgent first.

    update: the last one; interrupted: the details when no process works on it
    """
    if status is not None and status.error:  # it quotes what the driver said
        status = Hiding.in_app(app, current.deployment).status(status)
    found = Found(
        app=app.name,
        state=state,
        current=current,
        status=status,
        update=update,
        interrupted=interrupted,
        supervision=supervision,
    )
    now = clock.utc_now()
    return needs(_with_more(found, app, current, now), now)


def _with_more(found: Found, app: AppRegistry, current: Current, now: datetime) -> Found:
    """With the app's snapshots and trends. Nothing more is read of an app that does not run."""
    status = found.status
    if found.state != RUNNING or status is None:
        return found
    queries = status.queries.values()
    asked = any(lag_limit(q) or old_watermark(q, now) for q in queries)
    stands = any(no_progress_since(q, status, now) for q in queries)
    trends = _trends(app, current, now) if asked else {}
    young = (now - clock.parse(status.started_at)).total_seconds() < SNAPSHOT_GRACE
    return attrs.evolve(
        found,
        runs_since=_runs_since(app, current) if stands else None,
        trends=trends,
        snapshots=None if young else _snapshots(app, now),
    )


def _runs_since(app: AppRegistry, current: Current) -> str | None:
    """When the driver last came to run, by its events; they are for people, so what cannot be read is not known."""
    path = f"deployments/{current.deployment}/events.jsonl"
    with contextlib.suppress(StorageError):
        for line in reversed(latest_lines(app.deployment_folder(current.deployment))):
            with contextlib.suppress(CorruptError, NewerFormatError, ValueError):
                event = EVENT.understood(parse_json(line, path, finite=True), path)
                if isinstance(event, dict) and (event.get("event"), event.get("epoch")) == ("state", current.epoch):
                    at = str(event.get("at"))
                    return at if event.get("state") == RUNNING and clock.parse(at) else None
    return None


def _snapshots(app: AppRegistry, now: datetime) -> Snapshots:
    """Of the last day, by the time at which their manifests were written, the newest first, until one was verified: in
    an app whose snapshots are verified that is one file."""
    store, least = SnapshotStore(app), now.timestamp() - SNAPSHOT_AGE
    taken = []
    for name in filter(is_name, app.folder.names("snapshots")):  # a copy made by hand is none
        try:
            taken.append((app.folder.modified(f"snapshots/{name}/snapshot.json"), name))
        except (NotFoundError, FileNotFoundError):
            pass  # it is being taken, or deleted
    newest, problem = None, None
    for _, name in sorted((each for each in taken if each[0] >= least), reverse=True):
        try:
            found = store.verified(name)
        except (CorruptError, NewerFormatError):
            found = None
        if found is not None and found.problem is None:
            return Snapshots(verified=name, newest=newest or name)
        if newest is None:
            newest, problem = name, found.problem if found else None
    return Snapshots(newest=newest, problem=problem)


def _trends(app: AppRegistry, current: Current, now: datetime) -> Mapping[str, Trend]:
    """Of the last hour. Of a minute of several drivers the newest one's; those that run beside the app are left out,
    and what a clock that was ahead noted for later."""
    since, until = now - timedelta(hours=1), now + AHEAD
    made: dict[str, dict[str, tuple[int, Span]]] = {}
    for hour, path in minute_files(app.folder):
        if not hour_of(since) <= hour <= until:
            continue
        try:
            minutes = read_minutes(app.folder, path)
        except (CorruptError, NewerFormatError, StorageError):
            continue  # the trend is of what can be read, or not known
        if minutes is None or minutes.epoch > current.epoch:
            continue
        for query, spans in minutes.spans.items():
            of_query = made.setdefault(query, {})
            for span in spans:
                if not since <= clock.parse(span.at) <= until:
                    continue
                if span.at not in of_query or of_query[span.at][0] < minutes.epoch:
                    of_query[span.at] = (minutes.epoch, span)
    return {q: Trend(spans=tuple(spans[at][1] for at in sorted(spans))) for q, spans in made.items()}
