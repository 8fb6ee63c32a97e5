"""What an app may need somebody for. Pure: it is given what was found, and the time.

The thresholds are those of docs/monitoring/alerts.yaml.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

import attrs

from ...core import clock
from ...core.history.span import watermark_age
from ...core.registry.deployment import (
    DEAD_STATES,
    DRAINING,
    FAILED,
    RESTORING,
    RUNNING,
    SILENT,
    STARTING,
    STOPPED,
    SUSPENDED,
    Current,
    DriverState,
    QueryStatus,
    Status,
)
from ...core.registry.update import UpdateRecord
from ...core.text_enum import TextEnum
from ..interruption import Interruption
from ..next_step import next_step
from ..supervision.outlook import Outlook, told
from .trend import Trend

NO_HEARTBEAT = 120.0  # seconds: a driver that should run was not heard for so long
CATCH_UP = 300.0  # a lag that takes longer to catch up with, at the present rate, is a lag that counts
GROWING = 900.0  # for so long a lag that counts must have grown; a driver that is younger is catching up
NO_PROGRESS = 1800.0  # a query that is behind has committed nothing for so long, while its driver ran
WATERMARK_OLD = 3600.0  # a watermark that is closer to the clock is not looked at
SNAPSHOT_AGE = 86_400.0  # the newest verified snapshot is at most so old
SNAPSHOT_GRACE = 3600.0  # a driver that has run for less may not have one yet
UPDATE_STUCK = 3600.0  # an update has been under way for so long

_SHOULD_BE_HEARD = (STARTING, RESTORING, RUNNING, DRAINING)


class Severity(TextEnum):
    """Critical: results are late now, or nobody knows. Warning: they may be, or cannot be brought back. Info: somebody
    wanted it so."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class Kind(TextEnum):
    """What is the matter; the most urgent first."""

    UNREADABLE = "unreadable"
    CRASH_LOOP = "crash-loop"
    FAILED = "failed"
    LOST = "lost"
    STOPPED = "stopped"
    INTERRUPTED = "update-interrupted"
    SILENT = "silent"
    NO_PROGRESS = "no-progress"
    BEHIND = "behind"
    WATERMARK = "watermark-stands"
    STUCK = "update-stuck"
    WAITS = "update-waits"
    NO_SNAPSHOT = "no-verified-snapshot"
    SUSPENDED = "suspended"


CRITICAL, WARNING, INFO = Severity.CRITICAL, Severity.WARNING, Severity.INFO
_SEVERITIES, _KINDS = list(Severity), list(Kind)


class Button(TextEnum):
    """What the page has for it."""

    RESTART = "restart"
    ROLLBACK = "rollback"
    SNAPSHOT = "snapshot"
    VERIFY = "verify"


@attrs.frozen(kw_only=True)
class Need:
    """What an app needs somebody for.

    since: when it began, as far as is known (ISO; None: not known)
    reason: one plain sentence, without a full stop
    help: what to do; command: the command that does it (None: no single one does)
    button: what the page has for it (None: nothing); snapshot: the one that a button is about
    """

    kind: Kind
    severity: Severity
    reason: str
    help: str
    since: str | None = None
    command: str | None = None
    button: Button | None = None
    snapshot: str | None = None

    def __str__(self) -> str:
        return f"{self.reason}: {self.help}"

    @property
    def urgency(self) -> tuple[int, int, str]:
        """Sorts the most urgent first; of two alike the one that has lasted longer."""
        return _SEVERITIES.index(self.severity), _KINDS.index(self.kind), self.since or ""


@attrs.frozen(kw_only=True)
class Snapshots:
    """The snapshots of the last day (`SNAPSHOT_AGE`).

    verified: the newest that was verified, and found whole (None: there is none)
    newest: the newest of all; problem: what its verification found
    """

    verified: str | None = None
    newest: str | None = None
    problem: str | None = None


@attrs.frozen(kw_only=True)
class Found:
    """What a look at an app found.

    update: the last one; interrupted: the details when no process works on it
    runs_since: when its driver began to run, or went on (ISO; None: not looked at, or not known)
    snapshots: None where they were not looked at; trends: by query, of those whose lag or watermark calls for a look
    """

    app: str
    state: DriverState
    current: Current | None = None
    status: Status | None = None
    update: UpdateRecord | None = None
    interrupted: Interruption | None = None
    supervision: Outlook | None = None
    runs_since: str | None = None
    snapshots: Snapshots | None = None
    trends: Mapping[str, Trend] = attrs.field(factory=dict)

    @property
    def ongoing(self) -> UpdateRecord | None:
        """The update that has not ended, and is about what runs."""
        update, current = self.update, self.current
        return update if update and current and update.under_way(current.deployment) else None


def needs(found: Found, now: datetime) -> tuple[Need, ...]:
    """What the app needs somebody for, the most urgent first; nothing when it needs nobody."""
    made = [*_of_the_driver(found, now), *_of_the_update(found, now), *_of_the_queries(found, now)]
    return tuple(sorted([*made, *_of_the_snapshots(found, now)], key=lambda need: need.urgency))


def unreadable(app: str, problem: str) -> Need:
    """Of an app whose files cannot be read: whether it runs is not known."""
    return Need(
        kind=Kind.UNREADABLE,
        severity=CRITICAL,
        reason=f"its files cannot be read, so nobody knows whether it runs: {problem}",
        help="mend what the message names",
        command=f"streamupdate status {shlex.quote(app)}",  # a folder may be called anything
    )


def approval(update: str, since: str | None) -> Need:
    """Of an update that waits for a person; the caller knows where that person answers."""
    return Need(
        kind=Kind.WAITS,
        severity=WARNING,
        since=since,
        reason=f"the update to {update} waits for an approval",
        help="approve or reject it in Airflow",
    )


def with_approval(found: Iterable[Need], asked: Need) -> tuple[Need, ...]:
    """The needs of an app whose update waits for a person: it is not stuck, and nobody has left it."""
    others = (need for need in found if need.kind not in (Kind.STUCK, Kind.WAITS))
    return tuple(sorted([*others, asked], key=lambda need: need.urgency))


def rank(app: str, found: tuple[Need, ...]) -> tuple[tuple[int, int, str], str]:
    """Sorts apps: those that need somebody first, the most urgent of them first, then by name."""
    return found[0].urgency if found else (len(_SEVERITIES), 0, ""), app


def _of_the_driver(found: Found, now: datetime) -> Iterator[Need]:
    app, state, status, supervised = found.app, found.state, found.status, found.supervision
    since = status.heartbeat_at if status else None
    if state == SUSPENDED:
        command = f"streamupdate resume {app}"
        yield Need(
            kind=Kind.SUSPENDED,
            severity=INFO,
            reason="it was suspended on request, and runs no batch",
            help=f"{command} lets it go on",
            command=command,
        )
    elif state in (*DEAD_STATES, SILENT) and not (found.interrupted and found.ongoing):
        left_alone = supervised is not None and supervised.gave_up is not None
        watched = supervised is not None and supervised.watched and not left_alone and supervised.off is None
        kind = Kind.CRASH_LOOP if left_alone else Kind(str(state))
        said = f": {_line(status.error)}" if state == FAILED and status and status.error else ""
        said = f": {_line(status.reason)}" if state == STOPPED and status and status.reason else said
        lasted = f" since {clock.format_timestamp(since)}" if since and state != FAILED else ""
        yield Need(
            kind=kind,
            severity=WARNING if state == SILENT or watched else CRITICAL,
            since=supervised.gave_up_at if supervised and left_alone and supervised.gave_up_at else since,
            reason=f"its driver is {state}{lasted}{said}",
            help=next_step(app, state, found.current, found.update, found.interrupted, told(app, supervised)) or "",
            command=None if found.ongoing else f"streamupdate restart {app}",
            button=None if found.ongoing else Button.RESTART,
        )
    elif state in _SHOULD_BE_HEARD and status is not None and (age := _age(since, now)) > NO_HEARTBEAT:
        command = f"streamupdate log {app}"
        yield Need(
            kind=Kind.SILENT,
            severity=WARNING,
            since=since,
            reason=f"its driver has not been heard for {_long(age)}",
            help=f"{command} shows what it does",
            command=command,
        )


def _of_the_update(found: Found, now: datetime) -> Iterator[Need]:
    update, app = found.ongoing, found.app
    command = f"streamupdate rollback {app}"
    if found.interrupted is not None and (update is not None or found.interrupted.back_to):
        killed = found.interrupted.killed
        lives = found.state in (RUNNING, SUSPENDED)
        yield Need(
            kind=Kind.INTERRUPTED if killed else Kind.WAITS,
            severity=WARNING if lives else CRITICAL,
            since=found.interrupted.since,
            reason=found.interrupted.told,
            help=found.interrupted.ways,
            command=command,
            button=Button.ROLLBACK,
        )
    elif update is not None and (age := _age(update.started_at, now)) > UPDATE_STUCK:
        yield Need(
            kind=Kind.STUCK,
            severity=WARNING,
            since=update.started_at,
            reason=f"the update to {update.new} has been under way for {_long(age)}, after step {update.step!r}",
            help=f"look at what it waits for; {command} gives it up",
            command=command,
            button=Button.ROLLBACK,
        )


def _of_the_queries(found: Found, now: datetime) -> Iterator[Need]:
    status = found.status
    if found.state != RUNNING or status is None:
        return
    for name, query in sorted(status.queries.items()):
        trend = found.trends.get(name)
        if (since := no_progress_since(query, status, now, found.runs_since)) is not None:
            yield Need(
                kind=Kind.NO_PROGRESS,
                severity=CRITICAL,
                since=since,
                reason=f"query {name} is behind, and has committed nothing for {_long(_age(since, now))}",
                help=f"look for its batch in the Spark UI; streamupdate log {found.app} shows what it does",
                command=f"streamupdate log {found.app}",
            )
        elif limit := lag_limit(query):
            young = _age(status.started_at, now) < GROWING
            if trend is None or trend.lag_grows is None:
                grows = None if young else "and whether it catches up is not known"
            else:
                grows = "and falls further behind" if trend.lag_grows and trend.least_lag > limit else None
            if grows:
                yield Need(
                    kind=Kind.BEHIND,
                    severity=WARNING,
                    since=trend.behind_since(limit) if trend else None,
                    reason=f"query {name} is {query.lag:,.0f} rows behind, {grows}",
                    help="give it more executors or partitions, or look for the slow stage in its Spark UI",
                )
        if old_watermark(query, now) and trend is not None and trend.watermark_stands:
            yield Need(
                kind=Kind.WATERMARK,
                severity=WARNING,
                since=trend.first_at,
                reason=f"the watermark of query {name} ({query.watermark}) has stood still although rows came in, so "
                "windows do not close and the state grows",
                help="look whether one of its sources has stopped, or sends old rows only",
            )


def _of_the_snapshots(found: Found, now: datetime) -> Iterator[Need]:
    kept, status = found.snapshots, found.status
    if kept is None or kept.verified is not None or found.state != RUNNING or status is None:
        return
    if _age(status.started_at, now) < SNAPSHOT_GRACE:
        return
    what, to_verify = "it has no verified snapshot of the last 24 hours", kept.newest
    if kept.problem is not None:
        what, to_verify = f"{what}: {kept.newest} failed its verification ({_line(kept.problem)})", None
    if to_verify is not None:
        command, button = f"streamupdate verify-snapshot {found.app} {shlex.quote(to_verify)}", Button.VERIFY
        way = f"{command} verifies the newest one"
    else:
        command, button = f"streamupdate save-snapshot {found.app}", Button.SNAPSHOT
        way = f"{command} takes one; then verify it, or unpause the DAG stream_maintenance, which does both"
    yield Need(
        kind=Kind.NO_SNAPSHOT,
        severity=WARNING,
        reason=what,
        help=way,
        command=command,
        button=button,
        snapshot=to_verify,
    )


def no_progress_since(query: QueryStatus, status: Status, now: datetime, runs_since: str | None = None) -> str | None:
    """Since when (ISO) a query that is behind has committed nothing, if that is too long; time before `runs_since` does
    not count."""
    since = max(filter(None, (query.last_commit_at or status.started_at, runs_since)), key=clock.parse)
    return since if query.active and (query.lag or 0) > 0 and _age(since, now) > NO_PROGRESS else None


def lag_limit(query: QueryStatus) -> float | None:
    """The lag from which on one counts; None when the query's does not, or is not known."""
    limit = CATCH_UP * max(query.processed_rows_per_second or 0.0, 1.0)
    return limit if query.active and query.lag is not None and query.lag > limit else None


def old_watermark(query: QueryStatus, now: datetime) -> bool:
    age = watermark_age(query.watermark, now)
    return query.active and age is not None and age > WATERMARK_OLD


def _age(at: str | None, now: datetime) -> float:
    """Seconds since then; 0 when it is not known."""
    return (now - clock.parse(at)).total_seconds() if at else 0.0


def _long(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{timedelta(seconds=seconds) / timedelta(seconds=length):.0f} {unit}"
    return f"{seconds:.0f} s"


def _line(text: str) -> str:
    """The first line of an error, as much of it as a list has room for."""
    first = text.strip().splitlines()[0] if text.strip() else ""
    return first if len(first) <= 200 else f"{first[:199]}…"
