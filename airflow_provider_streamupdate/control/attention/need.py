"""The needs of an app: what is wrong, since when, and which command helps. Pure.

The thresholds are those of docs/monitoring/alerts.yaml.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import takewhile

import attrs

from ...core import clock
from ...core.errors import way_on
from ...core.history.span import Span, watermark_age
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
from ..supervision.outlook import Outlook

# Seconds
NO_HEARTBEAT = 120.0  # a driver that should run was last heard this long ago
CATCH_UP = 300.0  # a lag counts if catching up takes longer than this, at the present rate
GROWING = 900.0  # a lag that counts must have grown for this long; a younger driver is catching up
NO_PROGRESS = 1800.0  # a query that is behind has committed nothing for this long, while its driver ran
WATERMARK_OLD = 3600.0  # a watermark that is closer to the clock is ignored
WATERMARK_STANDS = 1800.0  # a watermark has not moved for this long
SNAPSHOT_AGE = 86_400.0  # the newest verified snapshot may be this old
SNAPSHOT_GRACE = 3600.0  # a younger driver may have no snapshot yet
UPDATE_STUCK = 3600.0  # an update has been under way for this long

_SHOULD_BE_HEARD = (STARTING, RESTORING, RUNNING, DRAINING)


class Severity(TextEnum):
    """The severity of a need."""

    CRITICAL = "critical"  # results are late now, or nobody knows
    WARNING = "warning"  # results may be late, or the app could not be brought back
    INFO = "info"  # somebody wanted it so


class Kind(TextEnum):
    """The matter, the most urgent first."""

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
    """The page's button that helps."""

    RESTART = "restart"
    ROLLBACK = "rollback"
    SNAPSHOT = "snapshot"
    VERIFY = "verify"


@attrs.frozen
class Need:
    """One reason why an app needs a person."""

    kind: Kind
    severity: Severity
    reason: str  # one plain sentence, without a full stop
    help: str  # what to do
    command: str | None = None  # the command that does it; None: no single one does
    button: Button | None = attrs.field(default=None, kw_only=True)
    since: str | None = attrs.field(default=None, kw_only=True)  # when it began, ISO; None: not known
    snapshot: str | None = attrs.field(default=None, kw_only=True)  # the one that the button is about

    def __str__(self) -> str:
        return f"{self.reason}: {self.help}"

    @property
    def urgency(self) -> tuple[int, int, str]:
        """Sort key: the most urgent first, then the one that has lasted longer."""
        return _SEVERITIES.index(self.severity), _KINDS.index(self.kind), self.since or ""


@attrs.frozen(kw_only=True)
class Snapshots:
    """The snapshots of the last day (`SNAPSHOT_AGE`)."""

    verified: str | None = None  # the newest that was verified and is whole
    newest: str | None = None
    problem: str | None = None  # what the verification of the newest found


@attrs.frozen(kw_only=True)
class Evidence:
    """The facts by which an app is judged."""

    app: str
    state: DriverState
    current: Current | None = None
    status: Status | None = None
    update: UpdateRecord | None = None  # the last one, ended or not
    interrupted: Interruption | None = None
    supervision: Outlook | None = None
    runs_since: str | None = None  # when the driver began to run, or was resumed, ISO; None: not read, or not known
    snapshots: Snapshots | None = None  # None: not read
    # By query, its last hour, oldest first. Only queries whose lag or watermark calls for it.
    minutes: Mapping[str, Sequence[Span]] = attrs.field(factory=dict)

    @property
    def ongoing(self) -> UpdateRecord | None:
        """The update that has not ended and is about what runs."""
        update, current = self.update, self.current
        return update if update and current and update.under_way(current.deployment) else None

    @property
    def abandoned(self) -> Interruption | None:
        """The update or rollback that no process works on."""
        return self.interrupted if self.interrupted and (self.ongoing or self.interrupted.back_to) else None

    @property
    def next_step(self) -> str | None:
        """The remedy for a dead driver or an abandoned update; None when nothing has to be done."""
        if self.current is None:
            return None
        if self.abandoned is not None:
            return str(self.abandoned)
        return _revival(self) if self.state in (*DEAD_STATES, SILENT) else None


def needs(evidence: Evidence, now: datetime) -> tuple[Need, ...]:
    """Return what the app needs a person for, the most urgent first."""
    rules = (_driver, _update, _queries, _snapshots)
    return tuple(sorted((need for rule in rules for need in rule(evidence, now)), key=lambda need: need.urgency))


def unreadable(app: str, problem: str) -> Need:
    """Return the need of an app whose files cannot be read."""
    return Need(
        Kind.UNREADABLE,
        CRITICAL,
        f"its files cannot be read, so nobody knows whether it runs: {problem}",
        "mend what the message names",
        f"streamupdate status {shlex.quote(app)}",  # a folder may be called anything
    )


def approval(update: str, since: str | None) -> Need:
    """Return the need of an update that waits for a person's approval in Airflow."""
    reason = f"the update to {update} waits for an approval"
    return Need(Kind.WAITS, WARNING, reason, "approve or reject it in Airflow", since=since)


def with_approval(others: Iterable[Need], waiting: Need) -> tuple[Need, ...]:
    """Return an app's needs while its update waits for an approval: it is neither stuck nor abandoned."""
    kept = (need for need in others if need.kind not in (Kind.STUCK, Kind.WAITS))
    return tuple(sorted([*kept, waiting], key=lambda need: need.urgency))


def rank(app: str, its_needs: tuple[Need, ...]) -> tuple[tuple[int, int, str], str]:
    """Sort key of apps: the most urgent first, then by name."""
    return its_needs[0].urgency if its_needs else (len(_SEVERITIES), 0, ""), app


def _driver(evidence: Evidence, now: datetime) -> Iterator[Need]:
    app, state, status, outlook = evidence.app, evidence.state, evidence.status, evidence.supervision
    heard = status.heartbeat_at if status else None
    if state == SUSPENDED:
        command = f"streamupdate resume {app}"
        reason = "it was suspended on request, and runs no batch"
        yield Need(Kind.SUSPENDED, INFO, reason, f"{command} lets it go on", command)
    elif state in (*DEAD_STATES, SILENT) and not (evidence.interrupted and evidence.ongoing):
        gave_up = outlook is not None and outlook.gave_up is not None
        helped = outlook is not None and outlook.watched and outlook.off is None and not gave_up
        cause = {FAILED: status.error, STOPPED: status.reason}.get(state) if status else None
        lasted = f" since {clock.format_timestamp(heard)}" if heard and state != FAILED else ""
        yield Need(
            Kind.CRASH_LOOP if gave_up else Kind(str(state)),
            WARNING if state == SILENT or helped else CRITICAL,
            f"its driver is {state}{lasted}{f': {_first_line(cause)}' if cause else ''}",
            _revival(evidence),
            None if evidence.ongoing else f"streamupdate restart {app}",
            button=None if evidence.ongoing else Button.RESTART,
            since=(outlook.gave_up_at if outlook and gave_up else None) or heard,
        )
    elif state in _SHOULD_BE_HEARD and (age := _age(heard, now)) > NO_HEARTBEAT:
        command = f"streamupdate log {app}"
        reason = f"its driver has not been heard for {_duration(age)}"
        yield Need(Kind.SILENT, WARNING, reason, f"{command} shows what it does", command, since=heard)


def _revival(evidence: Evidence) -> str:
    """Return what brings a dead or silent driver back."""
    app, update, current = evidence.app, evidence.update, evidence.current
    if ongoing := evidence.ongoing:
        return (
            f"an update to {ongoing.new} is under way (after {ongoing.step}): run it again to continue it, or "
            f"streamupdate rollback {app}"
        )
    if evidence.state == SILENT:
        return f"streamupdate restart {app} watches its driver for a sign of life, and starts it again if there is none"
    if evidence.state == FAILED:
        back = update is not None and current is not None and update.new == current.deployment and bool(update.old)
        step = f"{way_on(app, back)}. streamupdate log {app} shows its error"
    else:
        step = (
            f"streamupdate restart {app} continues from its own checkpoint (streamupdate log {app} shows why it ended)"
        )
    forecast = evidence.supervision.forecast(app) if evidence.supervision else None
    return f"{forecast}; {step}" if forecast else step


def _update(evidence: Evidence, now: datetime) -> Iterator[Need]:
    update, abandoned, command = evidence.ongoing, evidence.abandoned, f"streamupdate rollback {evidence.app}"
    if abandoned is not None:
        kind = Kind.INTERRUPTED if abandoned.killed else Kind.WAITS
        severity = WARNING if evidence.state in (RUNNING, SUSPENDED) else CRITICAL
        reason, ways_on, since = abandoned.reason, abandoned.help, abandoned.since
        yield Need(kind, severity, reason, ways_on, command, button=Button.ROLLBACK, since=since)
    elif update is not None and (age := _age(update.started_at, now)) > UPDATE_STUCK:
        reason = f"the update to {update.new} has been under way for {_duration(age)}, after step {update.step!r}"
        ways_on, since = f"look at what it waits for; {command} gives it up", update.started_at
        yield Need(Kind.STUCK, WARNING, reason, ways_on, command, button=Button.ROLLBACK, since=since)


def _queries(evidence: Evidence, now: datetime) -> Iterator[Need]:
    status = evidence.status
    if evidence.state != RUNNING or status is None:
        return
    for name, query in sorted(status.queries.items()):
        minutes = evidence.minutes.get(name, ())
        if (since := no_progress_since(query, status, now, evidence.runs_since)) is not None:
            reason = f"query {name} is behind, and has committed nothing for {_duration(_age(since, now))}"
            command = f"streamupdate log {evidence.app}"
            advice = f"look for its batch in the Spark UI; {command} shows what it does"
            yield Need(Kind.NO_PROGRESS, CRITICAL, reason, advice, command, since=since)
        elif limit := lag_limit(query):
            yield from _behind(name, query, minutes, limit, young=_age(status.started_at, now) < GROWING)
        if old_watermark(query, now) and (since := watermark_stands_since(minutes)):
            reason = (
                f"the watermark of query {name} ({query.watermark}) has stood still although rows came in, so windows "
                "do not close and the state grows"
            )
            advice = "look whether one of its sources has stopped, or sends old rows only"
            yield Need(Kind.WATERMARK, WARNING, reason, advice, since=since)


def _behind(name: str, query: QueryStatus, minutes: Sequence[Span], limit: float, young: bool) -> Iterator[Need]:
    lags = [span.lag for span in _last(minutes, GROWING) if span.lag is not None]
    if len(lags) < GROWING / 60 / 3:
        trend = None if young else "and whether it catches up is not known"
    else:
        trend = "and falls further behind" if lags[-1] > lags[0] and min(lags) > limit else None
    if trend is None:
        return
    known = [span for span in minutes if span.lag is not None]
    above = list(takewhile(lambda span: (span.lag or 0.0) > limit, reversed(known)))
    yield Need(
        Kind.BEHIND,
        WARNING,
        f"query {name} is {query.lag:,.0f} rows behind, {trend}",
        "give it more executors or partitions, or look for the slow stage in its Spark UI",
        since=above[-1].at if above else None,
    )


def _snapshots(evidence: Evidence, now: datetime) -> Iterator[Need]:
    kept, status, app = evidence.snapshots, evidence.status, evidence.app
    if kept is None or kept.verified is not None or evidence.state != RUNNING or status is None:
        return
    if _age(status.started_at, now) < SNAPSHOT_GRACE:
        return
    reason, to_verify = "it has no verified snapshot of the last 24 hours", kept.newest
    if kept.problem is not None:
        reason, to_verify = f"{reason}: {kept.newest} failed its verification ({_first_line(kept.problem)})", None
    if to_verify is not None:
        command, button = f"streamupdate verify-snapshot {app} {shlex.quote(to_verify)}", Button.VERIFY
        advice = f"{command} verifies the newest one"
    else:
        command, button = f"streamupdate save-snapshot {app}", Button.SNAPSHOT
        advice = f"{command} takes one; then verify it, or unpause the DAG stream_maintenance, which does both"
    yield Need(Kind.NO_SNAPSHOT, WARNING, reason, advice, command, button=button, snapshot=to_verify)


def no_progress_since(query: QueryStatus, status: Status, now: datetime, runs_since: str | None = None) -> str | None:
    """Return since when (ISO) a query that is behind has committed nothing; None: not for too long.

    runs_since: time before it does not count
    """
    since = max(filter(None, (query.last_commit_at or status.started_at, runs_since)), key=clock.parse)
    return since if query.active and (query.lag or 0) > 0 and _age(since, now) > NO_PROGRESS else None


def lag_limit(query: QueryStatus) -> float | None:
    """Return the lag that the query can catch up with in time; None when its lag is below it, or not known."""
    limit = CATCH_UP * max(query.processed_rows_per_second or 0.0, 1.0)
    return limit if query.active and query.lag is not None and query.lag > limit else None


def old_watermark(query: QueryStatus, now: datetime) -> bool:
    age = watermark_age(query.watermark, now)
    return query.active and age is not None and age > WATERMARK_OLD


def watermark_stands_since(minutes: Sequence[Span]) -> str | None:
    """Return since when (ISO) the watermark has not moved although rows came in; None: not known, or it has."""
    last = _last(minutes, WATERMARK_STANDS)
    ages = [(span.at, span.watermark_age) for span in last if span.watermark_age is not None]
    if len(ages) < WATERMARK_STANDS / 60 / 2 or not any(span.rows_in for span in last):
        return None
    (first, before), (then, after) = ages[0], ages[-1]
    passed = (clock.parse(then) - clock.parse(first)).total_seconds()
    return first if after - before >= 0.9 * passed > 0 else None  # the age of one that stands grows with the clock


def _last(minutes: Sequence[Span], seconds: float) -> Sequence[Span]:
    if not minutes:
        return ()
    begin = clock.parse(minutes[-1].at) - timedelta(seconds=seconds)
    return [span for span in minutes if clock.parse(span.at) > begin]


def _age(at: str | None, now: datetime) -> float:
    """Return the seconds since then; 0 when it is not known."""
    return (now - clock.parse(at)).total_seconds() if at else 0.0


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _first_line(text: str) -> str:
    first = text.strip().splitlines()[0] if text.strip() else ""
    return first if len(first) <= 200 else f"{first[:199]}…"
