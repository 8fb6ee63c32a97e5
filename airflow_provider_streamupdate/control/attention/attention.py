"""Reading what an app's needs are judged by.

A list may show a thousand apps, so this reads as little as possible: a query's minutes only where its lag or its
watermark calls for it, the driver's events only where a query stands.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import attrs

from ...core import clock
from ...core.errors import CorruptError, NewerFormatError, NotFoundError, StorageError
from ...core.formats import EVENT
from ...core.history.recorded import recorded
from ...core.history.span import Span
from ...core.names import is_name
from ...core.registry.deployment import RUNNING, Current, DriverState, Status
from ...core.registry.events import latest_lines
from ...core.registry.hiding import Hiding
from ...core.registry.registry import AppRegistry
from ...core.registry.update import UpdateRecord
from ...core.serde import parse_json
from ...core.snapshots.snapshots import SnapshotStore
from ..interruption import Interruption, interruption
from ..supervision.outlook import Outlook, outlook
from .need import (
    SNAPSHOT_AGE,
    SNAPSHOT_GRACE,
    Evidence,
    Need,
    Snapshots,
    lag_limit,
    needs,
    no_progress_since,
    old_watermark,
)


@attrs.frozen(kw_only=True)
class Attention:
    """Everything about an app that a person should know."""

    interrupted: Interruption | None = None  # the update or rollback that no process works on
    supervision: Outlook | None = None  # what supervision makes of a dead driver
    needs: tuple[Need, ...] = ()  # the most urgent first
    next_step: str | None = None  # what to do about a dead driver or an interrupted update; None: nothing


def assess(
    app: AppRegistry, current: Current | None, state: DriverState, status: Status | None, update: UpdateRecord | None
) -> Attention:
    """Return what an app needs a person for.

    state, status: those of the current deployment's driver; update: the last one, ended or not
    """
    if current is None:
        return Attention()
    if status is not None and status.error:  # it quotes what the driver said
        status = Hiding.in_app(app, current.deployment).status(status)
    now = clock.utc_now()
    evidence = Evidence(
        app=app.name,
        state=state,
        current=current,
        status=status,
        update=update,
        interrupted=interruption(app, update, state),
        supervision=outlook(app, current, state, status),
    )
    if state == RUNNING and status is not None:
        evidence = _read_more(evidence, app, current, status, now)
    return Attention(
        interrupted=evidence.interrupted,
        supervision=evidence.supervision,
        needs=needs(evidence, now),
        next_step=evidence.next_step,
    )


def _read_more(evidence: Evidence, app: AppRegistry, current: Current, status: Status, now: datetime) -> Evidence:
    """Add what only an app that runs is judged by."""
    queries = status.queries.values()
    calls = any(lag_limit(query) or old_watermark(query, now) for query in queries)
    stands = any(no_progress_since(query, status, now) for query in queries)
    young = (now - clock.parse(status.started_at)).total_seconds() < SNAPSHOT_GRACE
    return attrs.evolve(
        evidence,
        runs_since=_runs_since(app, current) if stands else None,
        minutes=_minutes(app, current, now) if calls else {},
        snapshots=None if young else _snapshots(app, now),
    )


def _runs_since(app: AppRegistry, current: Current) -> str | None:
    """Return when the driver began to run, or was resumed, by its events; None when they do not tell."""
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
    """Return the snapshots of the last day. Reads verifications, the newest first, until one is good."""
    store, least = SnapshotStore(app), now.timestamp() - SNAPSHOT_AGE
    manifests = []
    for name in filter(is_name, app.folder.names("snapshots")):  # a copy made by hand does not count
        with contextlib.suppress(NotFoundError, FileNotFoundError):  # it is being taken, or deleted
            manifests.append((app.folder.modified(f"snapshots/{name}/snapshot.json"), name))
    newest, problem = None, None
    for name in [name for modified, name in sorted(manifests, reverse=True) if modified >= least]:
        result = None
        with contextlib.suppress(CorruptError, NewerFormatError):
            result = store.verified(name)
        if result is not None and result.problem is None:
            return Snapshots(verified=name, newest=newest or name)
        if newest is None:
            newest, problem = name, result.problem if result else None
    return Snapshots(newest=newest, problem=problem)


def _minutes(app: AppRegistry, current: Current, now: datetime) -> Mapping[str, Sequence[Span]]:
    """Return each query's minutes of the last hour; of a minute of several drivers the newest one's.

    Drivers that run beside the app have later epochs, and are left out.
    """
    by_query: dict[str, dict[str, Span]] = {}
    for one in recorded(app.folder, now - timedelta(hours=1)):
        if one.epoch <= current.epoch:
            by_query.setdefault(one.query, {})[one.span.at] = one.span
    return {query: tuple(spans.values()) for query, spans in by_query.items()}
