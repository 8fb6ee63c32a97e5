"""Which apps need a person, why, since when, and which command helps.

The thresholds are those of docs/monitoring/alerts.yaml. A list may show a thousand apps, so a rule reads files only
when what is known already calls for it.
"""

from __future__ import annotations

import contextlib
import functools
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import takewhile

import attrs

from ..core import clock
from ..core.checkpoint.snapshot import Verified
from ..core.coordination import lease
from ..core.coordination.commands import CommandBox
from ..core.coordination.lease import Lease
from ..core.errors import CorruptError, NewerFormatError, NotFoundError, failure_advice
from ..core.history.recorded import recorded
from ..core.history.span import Span, watermark_age
from ..core.names import is_name
from ..core.registry import supervision
from ..core.registry.deployment import (
    CANCELLED,
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
from ..core.registry.hiding import Hiding
from ..core.registry.registry import AppRegistry
from ..core.registry.supervision import Supervision
from ..core.registry.update import UpdateRecord
from ..core.snapshots.snapshots import SnapshotStore
from ..core.text_enum import TextEnum
from .supervision import watch

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
# An update without a sign of life for this long is interrupted. A process gives one every 5 s (lease.RENEW_SECONDS),
# an update that waits without a process (the trigger of a DAG's task) every 60 s (app_lease.KEEP_SECONDS).
QUIET_SECONDS = 90.0

_HEARTBEAT_STATES = (STARTING, RESTORING, RUNNING, DRAINING)


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


class Button(TextEnum):
    """The page's button that helps."""

    RESTART = "restart"
    ROLLBACK = "rollback"
    SNAPSHOT = "snapshot"
    VERIFY = "verify"


CRITICAL, WARNING, INFO = Severity.CRITICAL, Severity.WARNING, Severity.INFO
_SEVERITIES, _KINDS = list(Severity), list(Kind)


@attrs.frozen
class Need:
    """One reason why an app needs a person."""

    kind: Kind
    severity: Severity
    reason: str  # one plain sentence, without a full stop
    help: str  # what to do, with the command that does it, where one does
    since: str | None = attrs.field(default=None, kw_only=True)  # when it began, ISO; None: not known
    about: str | None = attrs.field(default=None, kw_only=True)  # the snapshot or the new version that it is about
    button: Button | None = attrs.field(default=None, kw_only=True)  # the page's that does it, too

    def __str__(self) -> str:
        return f"{self.reason}: {self.help}"

    @property
    def urgency(self) -> tuple[int, int, str]:
        """Sort key: the most urgent first, then the one that has lasted longer."""
        return _SEVERITIES.index(self.severity), _KINDS.index(self.kind), self.since or ""


@attrs.frozen(kw_only=True)
class Outlook:
    """The next steps of supervisors for a dead driver."""

    forecast: str | None = None  # in words; None: nobody supervises the app
    starts_again: bool = False  # a supervisor is about to start it
    gave_up_at: str | None = None  # when supervisors gave it up, ISO; None: they did not


@attrs.frozen(kw_only=True)
class Evidence:
    """The facts by which an app is judged. The functions read files."""

    app: str
    state: DriverState
    current: Current
    status: Status | None = None
    update: UpdateRecord | None = None  # the last one, ended or not
    abandoned: Need | None = None  # the update or rollback that no process works on
    supervision: Outlook = attrs.field(factory=Outlook)
    minutes: Callable[[], Mapping[str, Sequence[Span]]]  # by query, its last hour, oldest first
    # of the last day, the newest first; None: not verified
    snapshots: Callable[[], Iterable[tuple[str, Verified | None]]]

    @property
    def ongoing(self) -> UpdateRecord | None:
        """The update that has not ended and is about what runs."""
        return self.update if self.update and self.update.under_way(self.current.deployment) else None


def assess(
    app: AppRegistry, current: Current | None, state: DriverState, status: Status | None, update: UpdateRecord | None
) -> tuple[Need, ...]:
    """Return what an app needs a person for, the most urgent first.

    state, status: those of the current deployment's driver; update: the last one, ended or not
    """
    if current is None:
        return ()
    if status is not None and status.error:  # it quotes what the driver said
        status = Hiding.in_app(app, current.deployment).status(status)
    now = clock.utc_now()
    evidence = Evidence(
        app=app.name,
        state=state,
        current=current,
        status=status,
        update=update,
        abandoned=_abandoned(app, current, update, state),
        supervision=_outlook(app, current, status) if state in DEAD_STATES else Outlook(),
        minutes=functools.cache(lambda: _minutes(app, current, now)),
        snapshots=lambda: _recent_snapshots(app, now),
    )
    return needs(evidence, now)


def needs(evidence: Evidence, now: datetime) -> tuple[Need, ...]:
    """Return what the evidence says, the most urgent first."""
    rules = (_driver, _update, _queries, _snapshots)
    return tuple(sorted((need for rule in rules for need in rule(evidence, now)), key=lambda need: need.urgency))


def unreadable(app: str, problem: str) -> Need:
    """Return the need of an app whose files cannot be read."""
    reason = f"its files cannot be read, so nobody knows whether it runs: {problem}"
    return Need(Kind.UNREADABLE, CRITICAL, reason, "mend what the message names")


def with_approval(others: Iterable[Need], update: str, since: str | None) -> tuple[Need, ...]:
    """Return an app's needs while its update waits for a person in Airflow: it is neither stuck nor abandoned."""
    reason = f"the update to {update} waits for an approval"
    waiting = Need(Kind.WAITS, WARNING, reason, "approve or reject it in Airflow", since=since)
    kept = (need for need in others if need.kind not in (Kind.STUCK, Kind.WAITS))
    return tuple(sorted([*kept, waiting], key=lambda need: need.urgency))


def rank(app: str, its_needs: tuple[Need, ...]) -> tuple[tuple[int, int, str], str]:
    """Sort key of apps: the most urgent first, then by name."""
    return its_needs[0].urgency if its_needs else (len(_SEVERITIES), 0, ""), app


def _driver(evidence: Evidence, now: datetime) -> Iterator[Need]:
    app, state, status, outlook = evidence.app, evidence.state, evidence.status, evidence.supervision
    heard = status.heartbeat_at if status else None
    if state == SUSPENDED:
        reason = "it was suspended on request, and runs no batch"
        yield Need(Kind.SUSPENDED, INFO, reason, f"streamupdate resume {app} lets it go on")
    elif state in (*DEAD_STATES, SILENT) and evidence.abandoned is None:
        cause = {FAILED: status.error, STOPPED: status.reason}.get(state) if status else None
        lasted = f" since {clock.format_timestamp(heard)}" if heard and state != FAILED else ""
        yield Need(
            Kind(str(state)) if outlook.gave_up_at is None else Kind.CRASH_LOOP,
            WARNING if state == SILENT or outlook.starts_again else CRITICAL,
            f"its driver is {state}{lasted}{f': {_first_line(cause)}' if cause else ''}",
            _revival(evidence),
            button=None if evidence.ongoing else Button.RESTART,
            since=outlook.gave_up_at or heard,
        )
    elif state in _HEARTBEAT_STATES and (age := _age(heard, now)) > NO_HEARTBEAT:
        reason = f"its driver has not been heard for {_duration(age)}"
        yield Need(Kind.SILENT, WARNING, reason, f"streamupdate log {app} shows what it does", since=heard)


def _revival(evidence: Evidence) -> str:
    """Return what brings a dead or silent driver back."""
    app, update = evidence.app, evidence.update
    if ongoing := evidence.ongoing:
        return (
            f"an update to {ongoing.new} is under way (after {ongoing.step}): run it again to continue it, or "
            f"streamupdate rollback {app}"
        )
    if evidence.state == SILENT:
        return f"streamupdate restart {app} watches its driver for a sign of life, and starts it again if there is none"
    step = f"streamupdate restart {app} continues from its own checkpoint (streamupdate log {app} shows why it ended)"
    if evidence.state == FAILED:
        back = update is not None and update.new == evidence.current.deployment and bool(update.old)
        step = f"{failure_advice(app, back)}. streamupdate log {app} shows its error"
    forecast = evidence.supervision.forecast
    return f"{forecast}; {step}" if forecast else step


def _update(evidence: Evidence, now: datetime) -> Iterator[Need]:
    update = evidence.ongoing
    if evidence.abandoned is not None:
        yield evidence.abandoned
    elif update is not None and (age := _age(update.started_at, now)) > UPDATE_STUCK:
        reason = f"the update to {update.new} has been under way for {_duration(age)}, after step {update.step!r}"
        advice = f"look at what it waits for; streamupdate rollback {evidence.app} gives it up"
        yield Need(Kind.STUCK, WARNING, reason, advice, button=Button.ROLLBACK, since=update.started_at)


def _queries(evidence: Evidence, now: datetime) -> Iterator[Need]:
    status = evidence.status
    if evidence.state != RUNNING or status is None:
        return
    for name, query in sorted((name, query) for name, query in status.queries.items() if query.active):
        since = max(query.last_commit_at or status.started_at, status.state_since or status.started_at, key=clock.parse)
        if (query.lag or 0) > 0 and (age := _age(since, now)) > NO_PROGRESS:
            reason = f"query {name} is behind, and has committed nothing for {_duration(age)}"
            advice = f"look for its batch in the Spark UI; streamupdate log {evidence.app} shows what it does"
            yield Need(Kind.NO_PROGRESS, CRITICAL, reason, advice, since=since)
        else:
            yield from _behind(name, query, evidence, young=_age(status.started_at, now) < GROWING)
        yield from _watermark(name, query, evidence, now)


def _behind(name: str, query: QueryStatus, evidence: Evidence, young: bool) -> Iterator[Need]:
    limit = CATCH_UP * max(query.processed_rows_per_second or 0.0, 1.0)
    if query.lag is None or query.lag <= limit:
        return
    known = [span for span in evidence.minutes().get(name, ()) if span.lag is not None]
    lags = [span.lag or 0.0 for span in _last(known, GROWING)]
    if len(lags) < GROWING / 60 / 3:
        trend = None if young else "and whether it catches up is not known"
    else:
        trend = "and falls further behind" if lags[-1] > lags[0] and min(lags) > limit else None
    if trend is not None:
        reason = f"query {name} is {query.lag:,.0f} rows behind, {trend}"
        advice = "give it more executors or partitions, or look for the slow stage in its Spark UI"
        above = list(takewhile(lambda span: (span.lag or 0.0) > limit, reversed(known)))
        yield Need(Kind.BEHIND, WARNING, reason, advice, since=above[-1].at if above else None)


def _watermark(name: str, query: QueryStatus, evidence: Evidence, now: datetime) -> Iterator[Need]:
    if (watermark_age(query.watermark, now) or 0.0) <= WATERMARK_OLD:
        return
    minutes = _last(evidence.minutes().get(name, ()), WATERMARK_STANDS)
    ages = [(span.at, span.watermark_age) for span in minutes if span.watermark_age is not None]
    if len(ages) < WATERMARK_STANDS / 60 / 2 or not any(span.rows_in for span in minutes):
        return
    (first, before), (then, after) = ages[0], ages[-1]
    passed = (clock.parse(then) - clock.parse(first)).total_seconds()
    if after - before >= 0.9 * passed > 0:  # the age of one that stands grows with the clock
        reason = (
            f"the watermark of query {name} ({query.watermark}) has stood still although rows came in, so windows do "
            "not close and the state grows"
        )
        advice = "look whether one of its sources has stopped, or sends old rows only"
        yield Need(Kind.WATERMARK, WARNING, reason, advice, since=first)


def _last(minutes: Sequence[Span], seconds: float) -> Sequence[Span]:
    """Return those of the last seconds before the newest one."""
    return [m for m in minutes if (clock.parse(minutes[-1].at) - clock.parse(m.at)).total_seconds() < seconds]


def _snapshots(evidence: Evidence, now: datetime) -> Iterator[Need]:
    status, app = evidence.status, evidence.app
    if evidence.state != RUNNING or status is None or _age(status.started_at, now) < SNAPSHOT_GRACE:
        return
    unverified = []
    for name, verified in evidence.snapshots():
        if verified is not None and verified.problem is None:
            return
        unverified.append((name, verified.problem if verified else None))
    newest, problem = unverified[0] if unverified else (None, None)
    reason = "it has no verified snapshot of the last 24 hours"
    button, command = Button.SNAPSHOT, f"streamupdate save-snapshot {app}"
    advice = f"{command} takes one; then verify it, or unpause the DAG stream_maintenance, which does both"
    if problem is not None:
        reason = f"{reason}: {newest} failed its verification ({_first_line(problem)})"
    elif newest is not None:
        button = Button.VERIFY
        advice = f"streamupdate verify-snapshot {app} {shlex.quote(newest)} verifies the newest one"
    its = newest if button is Button.VERIFY else None
    yield Need(Kind.NO_SNAPSHOT, WARNING, reason, advice, button=button, about=its)


def _abandoned(registry: AppRegistry, current: Current, update: UpdateRecord | None, state: DriverState) -> Need | None:
    """Return the need of an update or rollback that no process works on; None when there is none. Never waits.

    state: the current driver's. When it is cancelled, an interrupted rollback is looked for, too
    """
    update = update if update is not None and update.under_way(current.deployment) else None
    rollback = registry.rollback_under_way(current) if state == CANCELLED else None
    if update is None and rollback is None:
        return None
    held = lease.read(registry.folder)
    if held is not None and (held.released or (update is not None and held.owner != update.new)):
        held = None  # it is about other work
    waits = held is not None and held.holder is None and rollback is None  # a task of a DAG may continue an update
    if held is not None and (waits or held.holder is not None) and _worked_on(held):
        return None
    since, command = held.renewed_at if held else "", f"streamupdate rollback {registry.name}"
    if update is not None:
        at = clock.format_timestamp(since := since or max([update.started_at, *update.step_times.values()]))
        about, work = update.new, f"the update to {update.new} was interrupted at {at} after step {update.step!r}"
        if waits:
            work = f"the update to {update.new} has been waiting since {at}, after step {update.step!r}"
        advice = f"run the same update again to continue it, or {command}"
    else:
        assert rollback is not None
        at = clock.format_timestamp(since := since or rollback.started_at)
        about, work = rollback.left, f"the rollback of {rollback.left} to {rollback.back_to} was interrupted at {at}"
        advice = f"the app is down; {command} completes it"
    return Need(
        Kind.WAITS if waits else Kind.INTERRUPTED,
        WARNING if state in (RUNNING, SUSPENDED) else CRITICAL,
        f"{work}, and no process works on it",
        advice,
        button=Button.ROLLBACK,
        about=about,
        since=since,
    )


def _worked_on(held: Lease) -> bool:
    """Return whether a lease's holder, or what waits without one, gave a sign of life lately."""
    if held.holder is not None and held.holder.lives() is False:
        return False
    ago = held.uptime.ago() if held.uptime else None  # by the machine's uptime, where that is known
    if ago is None:
        ago = clock.age(held.renewed_at) if held.renewed_at else QUIET_SECONDS
    return ago < QUIET_SECONDS


def _outlook(app: AppRegistry, current: Current, status: Status | None) -> Outlook:
    """Return what supervisors make of a dead driver. Reads a handful of files."""
    if asked_to_end(app, current, status):
        return Outlook(
            forecast="it died after it was told to end, or suspended, so no supervisor starts it (cancel ends it)"
        )
    if off := supervision.off(app.folder):
        return Outlook(forecast=f"its supervision is off since {clock.format_timestamp(off.at)}: {off.reason}")
    starts = supervision.read(app.folder)
    if starts.epoch is None or current.epoch > starts.epoch:
        starts = Supervision()  # somebody else started a driver since
    if starts.gave_up is not None:
        since = f" since {clock.format_timestamp(starts.gave_up_at)}" if starts.gave_up_at else ""
        forecast = f"it is in a crash loop{since}, and supervisors leave it alone: {starts.gave_up}"
        return Outlook(forecast=forecast, gave_up_at=starts.gave_up_at)
    if not watch.watched(app):
        return Outlook()
    of = f" of {starts.limit}" if starts.limit else ""
    row = f" (start {starts.attempts + 1}{of} in a row)" if starts.attempts else ""
    waits = bool(starts.next_start_at) and clock.age(starts.next_start_at) < 0
    when = f"at {clock.format_timestamp(starts.next_start_at)}" if waits else "soon"
    forecast = f"a supervisor starts it again {when}{row}; streamupdate cancel {app.name} keeps it down"
    return Outlook(forecast=forecast, starts_again=True)


def asked_to_end(app: AppRegistry, current: Current, status: Status | None) -> bool:
    """Return whether a dead driver had been suspended, or had been told to suspend or end and had not refused."""
    if status is not None and status.state == SUSPENDED:
        return True
    return CommandBox(app.deployment_folder(current.deployment), current.epoch).told_to_rest()


def _recent_snapshots(app: AppRegistry, now: datetime) -> Iterator[tuple[str, Verified | None]]:
    """Yield the snapshots of the last day, the newest first, each with its verification as far as it can be read."""
    store, manifests = SnapshotStore(app), []
    for name in filter(is_name, app.folder.names("snapshots")):  # a copy made by hand does not count
        with contextlib.suppress(NotFoundError, FileNotFoundError):  # it is being taken, or deleted
            manifests.append((app.folder.modified(f"snapshots/{name}/snapshot.json"), name))
    for modified, name in sorted(manifests, reverse=True):
        if modified >= now.timestamp() - SNAPSHOT_AGE:
            verified = None
            with contextlib.suppress(CorruptError, NewerFormatError):
                verified = store.verified(name)
            yield name, verified


def _minutes(app: AppRegistry, current: Current, now: datetime) -> Mapping[str, Sequence[Span]]:
    """Return each query's minutes of the last hour; of a minute of several drivers the newest one's.

    Drivers that run beside the app have later epochs, and are left out.
    """
    by_query: dict[str, dict[str, Span]] = {}
    for one in recorded(app.folder, now - timedelta(hours=1)):
        if one.epoch <= current.epoch:
            by_query.setdefault(one.query, {})[one.span.at] = one.span
    return {query: tuple(spans.values()) for query, spans in by_query.items()}


def _age(at: str | None, now: datetime) -> float:
    """Return the seconds since then; 0 when it is not known."""
    return (now - clock.parse(at)).total_seconds() if at else 0.0


def _duration(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def _first_line(text: str) -> str:
    first = text.strip().splitlines()[0] if text.strip() else ""
    return first if len(first) <= 200 else f"{first[:199]}…"
