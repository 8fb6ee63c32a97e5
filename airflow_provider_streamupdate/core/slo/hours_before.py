"""What an app did in the hours before an update, read from under its root."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import attrs

from .. import clock
from ..compatibility.report import CARRIED
from ..compatibility.successors import new_names
from ..difference.figures import BatchFigures
from ..history.history import minute_of
from ..history.recorded import Recorded, recorded
from ..history.span import Span
from ..plan.plan import QueryPlan
from ..registry.deployment import QueryStatus
from ..registry.registry import AppRegistry
from ..registry.update import PROMOTED, UpdateRecord
from .before import Before
from .finding import FEWEST_BEFORE, warm

_OF_A_QUERY = ("stage", "source", "sink", "query", "watermark")
A_DAY, AN_HOUR = timedelta(hours=24), timedelta(hours=1)
MINUTE = timedelta(minutes=1)


def hours_before(
    registry: AppRegistry, record: UpdateRecord, queries: Iterable[str], uncounted: Collection[str]
) -> Mapping[str, Before]:
    """What each of these queries that the old version had, too, did before the update's cut-over.

    uncounted: stages (``query/stage``) whose rows cannot be compared
    """
    old = registry.status(str(record.old))
    known = old.queries if old else {}
    plans = registry.plan(str(record.old)), registry.plan(record.new)
    names = new_names(*plans, registry.spec(record.new).renames)
    cut = minute_of(clock.parse(record.step_times.get("snapshotted", clock.now())))
    unread: list[str] = []
    found = _recorded(registry, record, cut, unread)
    changed = _changed_on_purpose(registry, record)
    made = {}
    for name in queries:
        if name not in known:
            continue
        runs = _runs([r for r in found if r.query == name])
        own = _runs([r for r in found if r.query == name and r.deployment == record.old])
        stages = names.get(name, {})
        before, after = (plan.query(name) if plan else None for plan in plans)
        made[name] = Before(
            runs=tuple(tuple(_renamed_span(span, stages) for span in run) for run in runs),
            own=tuple(tuple(_renamed_span(span, stages) for span in run) for run in own)
            if sum(map(len, own)) >= FEWEST_BEFORE
            else (),
            batches=_batches(known[name], stages),
            pace=_pace(known[name]),
            quiet=_seconds_between(known[name].last_commit_at, old.heartbeat_at) if old else 0.0,
            changed=changed.get(name, "") or _changed(before, after),
            uncounted=frozenset(s.partition("/")[2] for s in uncounted if s.partition("/")[0] == name),
            rare=_rare(after, runs, cut),
            unread=tuple(sorted(unread)),
        )
    return made


def _recorded(registry: AppRegistry, record: UpdateRecord, cut: datetime, unread: list[str]) -> list[Recorded]:
    """Minutes of the versions that ran before, since each one took over; not of those that were tried and did not
    stay, and no driver's first minute, which is slow."""
    updates = {u.new: u for u in registry.updates() if not u.in_place}
    kept = []
    begun: set[tuple[str, int, str]] = set()
    for one in recorded(registry.folder, clock.utc_now() - A_DAY, unread):
        update, at = updates.get(one.deployment), clock.parse(one.span.at)
        driver = one.deployment, one.epoch, one.query
        first = driver not in begun
        begun.add(driver)
        stayed = update is None or update.outcome == PROMOTED or one.deployment == record.old
        took_over = update.step_times.get("snapshotted") if update else None
        if first or not stayed or one.deployment == record.new or at + MINUTE > cut:
            continue
        if took_over is None or at > clock.parse(took_over):
            kept.append(one)
    return kept


def _runs(found: Sequence[Recorded]) -> list[list[Span]]:
    """Minutes of one driver each, without a gap."""
    runs: list[list[Span]] = []
    last: Recorded | None = None
    for one in found:
        gap = last is None or (one.deployment, one.epoch) != (last.deployment, last.epoch)
        if last is None or gap or clock.parse(one.span.at) - clock.parse(last.span.at) > 2 * MINUTE:
            runs.append([])
        runs[-1].append(one.span)
        last = one
    return runs


def _rare(query: QueryPlan | None, runs: Sequence[Sequence[Span]], cut: datetime) -> str:
    """Why rows may come that did not come before: windows close, and open, once in a while."""
    if query is None or not (query.watermarks or any(stage.windows for stage in query.stages)):
        return ""
    known = cut
    for at in sorted((clock.parse(span.at) for run in runs for span in run), reverse=True):
        if known - at > AN_HOUR:
            break
        known = at
    if cut - known >= A_DAY - AN_HOUR:
        return ""
    return "its windows may close and open less often than what is known of it, which is less than a day"


def _changed_on_purpose(registry: AppRegistry, record: UpdateRecord) -> dict[str, str]:
    """By query, what the update changed of it and was said to."""
    report = registry.report(record.new)
    found: dict[str, str] = {}
    for item in report.items if report else ():
        query = item.name.partition("/")[0].partition(":")[0]
        if item.thing in _OF_A_QUERY and (item.verdict != CARRIED or item.agreed):
            found.setdefault(query, f"the update changed {item.thing} {item.name}")
    return found


def _changed(before: QueryPlan | None, after: QueryPlan | None) -> str:
    """Why a query's rows out and state cannot be compared; empty: they can."""
    if before is None or after is None:
        return "a plan is missing"
    if before.output_mode != after.output_mode:
        return "its output mode changed"
    if _places(before) != _places(after):
        return "its sources changed"
    if [stage.kind for stage in before.stages] != [stage.kind for stage in after.stages]:
        return "its stages changed"
    return ""


def _places(query: QueryPlan) -> list[tuple[str, str]]:
    return sorted((source.format, str(source.location)) for source in query.sources)


def _batches(query: QueryStatus, renames: Mapping[str, str]) -> tuple[BatchFigures, ...]:
    """But the first ones of its driver, which are slow; of an older driver it is not known which these are."""
    return tuple(
        attrs.evolve(f, state_rows=_renamed(f.state_rows, renames)) if f.state_rows is not None else f
        for f in (query.figures if query.first_batch is None else warm(query))
    )


def _pace(query: QueryStatus) -> float:
    """Batches a minute since its driver's first one."""
    seconds = _seconds_between(query.first_commit_at, query.last_commit_at)
    return 60 * (query.batch - query.first_batch) / seconds if query.first_batch is not None and seconds > 0 else 0.0


def _seconds_between(begin: str | None, end: str | None) -> float:
    return (clock.parse(end) - clock.parse(begin)).total_seconds() if begin and end else 0.0


def _renamed_span(span: Span, renames: Mapping[str, str]) -> Span:
    return attrs.evolve(span, state_rows=_renamed(span.state_rows, renames)) if renames else span


def _renamed(rows: Mapping[str, int], renames: Mapping[str, str]) -> dict[str, int]:
    return {renames.get(stage, stage): n for stage, n in rows.items()}
