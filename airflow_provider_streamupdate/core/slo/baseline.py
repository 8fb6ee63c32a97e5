"""What the old version of an app did in the 24 hours before an update."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

import attrs

from .. import clock
from ..compatibility.report import CompatibilityReport
from ..compatibility.verdict import CARRIED
from ..difference.figures import COLD_BATCHES
from ..history.history import minute_of
from ..history.recorded import Recorded, recorded
from ..history.span import Span
from ..registry.deployment import QueryStatus
from ..registry.registry import AppRegistry
from ..registry.update import Step, UpdateRecord

A_DAY, MINUTE = timedelta(hours=24), timedelta(minutes=1)
UNIT = Span(at=clock.from_epoch_ms(0), timed=1)
DAY_MINUTES = 20 * 60  # of a day, with which windows of an hour are known


@attrs.frozen(kw_only=True)
class Baseline:
    """The figures of a query of the old version."""

    minutes: tuple[Span, ...] = ()  # oldest first
    batches: tuple[Span, ...] = ()  # the last ones of its driver, a span each
    pace: float = 0.0  # batches a minute of its driver
    quiet: float = 0.0  # seconds from its last batch with rows to its driver's last heartbeat
    changed: str = ""  # why rows cannot be compared; empty: they can
    windows_known: bool = True  # whether it is known how many rows come when windows close
    unread: tuple[str, ...] = ()  # files of its minutes that cannot be read


def driver_batches(query: QueryStatus, skip: int = COLD_BATCHES) -> tuple[Span, ...]:
    """Return a span for each known batch of the query's driver, without its first ones, which are slow."""
    first = query.batch + 1 if query.first_batch is None else query.first_batch
    return tuple(
        attrs.evolve(
            UNIT, seconds=b.seconds, rows_in=b.rows_in or 0, rows_out=b.rows_out, state_rows=b.state_rows or {}
        )
        for b in query.figures
        if b.batch >= first + skip
    )


def empty_at_end(batches: Sequence[Span]) -> int:
    """Return how many of the last batches had no rows. Spark makes such batches without end where a timeout goes by
    processing time."""
    return next((at for at, batch in enumerate(reversed(batches)) if batch.rows_in), len(batches))


def read_baselines(registry: AppRegistry, record: UpdateRecord) -> dict[str, Baseline]:
    """Read what each query of the old version did before the update's cut-over."""
    old, plan, report = registry.status(str(record.old)), registry.plan(record.new), registry.report(record.new)
    unread: list[str] = []
    minutes, baselines = list(_minutes(registry, record, unread)), {}
    for name, query in old.queries.items() if old else ():
        seconds = _seconds_between(query.first_commit_at, query.last_commit_at)
        planned = plan.query(name) if plan else None
        windows = planned is None or bool(planned.watermarks or any(stage.windows for stage in planned.stages))
        pace = 60 * (query.batch - (query.first_batch or 0)) / seconds if seconds > 0 else 0.0
        batches = driver_batches(query)
        idle = _seconds_between(query.last_commit_at, old.heartbeat_at if old else None)
        baselines[name] = Baseline(
            minutes=tuple(one.span for one in minutes if one.query == name),
            batches=batches,
            pace=pace,
            quiet=idle + (60 * empty_at_end(batches) / pace if pace else 0.0),
            changed=_change(report, name),
            windows_known=not windows or sum(one.query == name for one in minutes) >= DAY_MINUTES,
            unread=tuple(sorted(unread)),
        )
    return baselines


def _minutes(registry: AppRegistry, record: UpdateRecord, unread: list[str]) -> Iterator[Recorded]:
    """Yield the old version's minutes until the cut-over, without the first one of each driver, which is slow."""
    until = minute_of(clock.parse(record.step_times.get(Step.SNAPSHOT_AND_CANCEL, clock.now())))
    drivers = set[tuple[int, str]]()
    for one in recorded(registry.folder, clock.utc_now() - A_DAY, unread):
        if one.deployment == record.old and clock.parse(one.span.at) + MINUTE <= until:
            if (one.epoch, one.query) in drivers:
                yield one
            drivers.add((one.epoch, one.query))


def _seconds_between(begin: str | None, end: str | None) -> float:
    return (clock.parse(end) - clock.parse(begin)).total_seconds() if begin and end else 0.0


def _change(report: CompatibilityReport | None, query: str) -> str:
    """Return what the update changed of the query on purpose: all but what is carried, and its sink."""
    if report is None:
        return "what the update changed is not known"
    for item in report.items:
        changed = item.verdict != CARRIED or item.agreed or (item.thing == "sink" and item.changed)
        if changed and item.name.partition("/")[0].partition(":")[0] == query:
            return f"the update changed {item.thing} {item.name}"
    return ""
