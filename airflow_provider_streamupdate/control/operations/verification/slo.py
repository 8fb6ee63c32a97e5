"""Hold a new version to what the app did in the hours before (core/slo)."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import attrs

from ....core import clock
from ....core.errors import StorageError, describe
from ....core.registry.deployment import QueryStatus, Status
from ....core.registry.registry import AppRegistry
from ....core.registry.update import UpdateRecord
from ....core.slo.before import Before
from ....core.slo.finding import (
    ENOUGH_BATCHES,
    FEWEST_BATCHES,
    FEWEST_BEFORE,
    LONGEST_SECONDS,
    PATIENCE_SECONDS,
    warm,
    with_rows,
)
from ....core.slo.hours_before import hours_before
from ....core.slo.judging import Judgement, judge, told
from ....core.slo.limits import SloLimits
from ....core.slo.output import judge_nulls
from .health import Health
from .output.reading import UnreadableOutputError, outputs

WAIT = 2.5  # times as long as batches took before: one that misses its trigger takes two


@attrs.frozen(kw_only=True)
class Gate:
    """storage_options: of the root, which are tried for what queries write, too
    run_for: seconds that the new version must run
    longest: seconds in addition, at most, to wait for batches to judge by. Up to PATIENCE_SECONDS of them, a version
        that exceeds a limit may still do better: a new driver is slow at first"""

    registry: AppRegistry
    limits: SloLimits
    run_for: float = 0.0
    longest: float = LONGEST_SECONDS
    storage_options: dict[str, Any] = attrs.field(factory=dict, repr=False)
    _known: dict[tuple[str, tuple[str, ...]], Mapping[str, Before]] = attrs.field(factory=dict, init=False)

    def hold(self, deployment: str, found: Health, uncounted: Collection[str]) -> Health:
        """Return the health of a new version that is healthy by itself (`found`), held to the hours before its update.

        While it exceeds a limit it is not healthy; once it has done so for PATIENCE_SECONDS after `run_for` it has
        failed. As long it is waited for rows, where too few came to say what looks like a fault; and for batches to
        judge by WAIT times as long as they took before, where they took no longer than `longest`. A query for which
        nothing arrives (`_without_input`) is not waited for. Nothing is compared of a deployment that no update
        brought in; whatever goes wrong here is told, and is no reason to roll back.

        uncounted: stages (``query/stage``) whose rows are not compared
        """
        try:
            return self._held(deployment, found, uncounted)
        except Exception as error:  # what was before may be damaged, or written by whoever
            why = f"the hours before were not compared: {describe(error)}"
            waits = min(PATIENCE_SECONDS, self.longest) + self.run_for if self.run_for else 0.0
            if isinstance(error, StorageError) and found.status is not None and _ran_for(found.status) < waits:
                return attrs.evolve(found, healthy=False, reasons=(why,))  # it may answer at the next look
            return attrs.evolve(found, holds=(*found.holds, why))

    def _held(self, deployment: str, found: Health, uncounted: Collection[str]) -> Health:
        record, status = self.registry.update(deployment), found.status
        if record is None or record.old is None or record.in_place or status is None or not self.limits.any:
            return found
        before = self._before(record, status.queries, uncounted)
        ran = _ran_for(status) - self.run_for
        patience = min(PATIENCE_SECONDS, self.longest)
        without_input = _without_input(status, before)
        few = _too_few(status, before, self.longest) if self.run_for else {}
        few = {name: reason for name, reason in few.items() if name not in without_input}
        waits = max((min(self.longest, WAIT * _for_enough(before[name])) for name in few), default=0.0)
        if few and ran < max(patience, waits):
            return attrs.evolve(found, healthy=False, reasons=tuple(few.values()))
        patient = ran < patience
        judged = [
            judgement
            for name, query in sorted(status.queries.items())
            if name not in without_input
            for judgement in (
                *judge(
                    name,
                    query,
                    before.get(name),
                    self.limits,
                    over=name in few,
                    longest=self.longest,
                ),
                *self._nulls(name, query, record, before.get(name)),
            )
        ]
        waits_for = [j for j in judged if j.ends or (self.run_for and ran < min(j.open, self.longest))]
        not_yet = tuple(j.text for j in waits_for if not j.exceeded)
        worse = tuple(
            f"{j.text}; to allow it, give option slo: {j.limit}=LIMIT, or {j.limit}=off" for j in judged if j.exceeded
        )
        unread = _unread(before.values())
        compared = told(j for j in judged if not j.exceeded)
        holds = (*found.holds, *without_input.values(), *_reads_nothing(status, few), *compared, *unread)
        reasons = (*worse, *not_yet, *(unread if worse else ()))
        failed = not patient and any(j.exceeded for j in judged if j not in waits_for)
        return attrs.evolve(found, healthy=not reasons, failed=failed, reasons=reasons, holds=holds)

    def _before(self, record: UpdateRecord, queries: Iterable[str], uncounted: Collection[str]) -> Mapping[str, Before]:
        """Read once: it is over."""
        key = record.new, tuple(sorted(queries))
        if key not in self._known:
            self._known[key] = hours_before(self.registry, record, queries, uncounted)
        return self._known[key]

    def _nulls(self, name: str, query: QueryStatus, record: UpdateRecord, before: Before | None) -> Iterator[Judgement]:
        if self.limits.nulls is None or before is None or query.first_batch is None:
            return
        if before.changed:
            yield Judgement(query=name, limit="nulls", exceeded=None, why=before.changed)
            return
        plans = self.registry.plan(str(record.old)), self.registry.plan(record.new)
        old, new = (plan.query(name) if plan else None for plan in plans)
        if old is None or new is None:
            return
        judged: list[tuple[bool | None, str]]
        try:
            ids = (self._id(str(record.old), name), self._id(record.new, name))
            found = outputs((old.sink, new.sink), ids, query.first_batch, self.storage_options)
            judged = judge_nulls(found, self.limits.nulls)
        except UnreadableOutputError as error:
            judged = [(None, str(error))]
        for exceeded, text in judged:
            yield Judgement(query=name, limit="nulls", exceeded=exceeded, why=text)

    def _id(self, deployment: str, query: str) -> str:
        """What Spark calls the query."""
        folder = self.registry.checkpoint(deployment, query)
        text = folder.read("metadata")
        try:
            return str(json.loads(text)["id"]) if text else ""
        except (ValueError, KeyError, TypeError) as error:
            raise UnreadableOutputError(f"{folder.path('metadata')} tells no id: {describe(error)}") from error


def _unread(before: Iterable[Before]) -> tuple[str, ...]:
    """One text on the minutes that cannot be read, or none."""
    paths = sorted({path for each in before for path in each.unread})
    if not paths:
        return ()
    more = f", and {len(paths) - 1} more" if len(paths) > 1 else ""
    return (f"a part of the hours before is missing, because {paths[0]}{more} cannot be read",)


def _ran_for(status: Status) -> float:
    """Return the seconds that all its queries have run until its last sign of life, by the driver's own clock; no end
    of one that has ended: nothing more comes of it."""
    if status.final:
        return math.inf
    return (clock.parse(status.heartbeat_at) - clock.parse(status.runs_since)).total_seconds()


def _too_few(status: Status, before: Mapping[str, Before], longest: float) -> dict[str, str]:
    """Queries that have committed too few batches to be judged, where enough come within `longest` seconds."""
    return {
        name: f"query {name} has {known} of {FEWEST_BATCHES} batches by which to compare it with the hours before"
        for name, query in sorted(status.queries.items())
        if name in before and _for_enough(before[name]) <= longest
        if (known := len(with_rows(warm(query)))) < FEWEST_BATCHES
    }


def _without_input(status: Status, before: Mapping[str, Before]) -> dict[str, str]:
    """Return, by query, that nothing arrives for it: neither the new version nor, when it was replaced, the old one had
    a batch where one came before.

    What only the new version does not read may be there: it reads something else, or waits for more.
    """
    return {
        name: f"query {name} was not compared with the hours before: nothing has arrived since {known.quiet:.0f} s "
        "before the update"
        for name, query in sorted(status.queries.items())
        if (known := before.get(name)) and _has_read_nothing(query) and not query.lag
        if (pace := _batches_a_minute(known)) and known.quiet > WAIT * 60 / pace
    }


def _reads_nothing(status: Status, names: Iterable[str]) -> list[str]:
    return [
        f"query {name} has read nothing since the update, although rows came until then: see that its sources are right"
        for name in names
        if _has_read_nothing(status.queries[name])
    ]


def _has_read_nothing(query: QueryStatus) -> bool:
    first = query.batch + 1 if query.first_batch is None else query.first_batch
    return query.idle and not any(f.rows_in for f in query.figures if f.batch >= first)


def _for_enough(before: Before) -> float:
    """Seconds that as many batches took before as are needed to judge."""
    pace = _batches_a_minute(before)
    return 60 * ENOUGH_BATCHES / pace if pace else math.inf


def _batches_a_minute(before: Before) -> float:
    """The least of the last ten minutes that were not cut short by a driver's end. Of an app that is too young for such
    a minute, the mean of its driver; 0 where it had too few batches to compare with."""
    last = [span.batches for span in before.runs[-1][-11:-1]] if before.runs else []
    return min(last, default=before.pace if len(with_rows(before.batches)) >= FEWEST_BEFORE else 0.0)
