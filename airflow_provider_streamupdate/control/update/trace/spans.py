"""An update's trace, from its record and the drivers' events. A pure function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import attrs

from ....core import clock
from ....core.registry.rollback import RollbackRecord
from ....core.registry.update import PROMOTED, UpdateRecord
from ..step import NOTED, Step
from .driver_parts import Part, parts
from .span import Span, Trace, Value, context_of, made_id

NOT_ENDED = "it did not end: its process died, or was killed"
_STEP_OF = {noted: str(step) for step, noted in NOTED.items()}


def trace_of(
    record: UpdateRecord,
    rollbacks: Iterable[RollbackRecord] = (),
    events: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    now: datetime | None = None,
) -> Trace:
    """Return the trace of an update. Equal arguments give an equal trace, ids included.

    rollbacks: of the app; those of other updates, and those after it was promoted, are left out
    events: of the drivers, by deployment, oldest first
    now: the end of what is under way; None: the last thing that is known of it
    """
    making = _Making(record, list(rollbacks), events or {}, now)
    return Trace(trace_id=making.trace_id, parent=making.parent, spans=making.spans())


@attrs.frozen
class _Stretch:
    """A span without its id, and with the key that makes it."""

    key: tuple[object, ...]
    name: str
    begin: datetime
    end: datetime
    attributes: dict[str, Value]
    error: str | None = None
    links: tuple[str, ...] = ()


class _Making:
    def __init__(
        self,
        record: UpdateRecord,
        rollbacks: list[RollbackRecord],
        events: Mapping[str, Sequence[Mapping[str, Any]]],
        now: datetime | None,
    ) -> None:
        self.record = record
        self.outcome = PROMOTED if str(PROMOTED) in record.step_times else record.outcome
        self.begin = min([clock.parse(record.started_at), *(clock.parse(a.began_at) for a in record.attempts)])
        self.rollbacks = [] if self.outcome == PROMOTED else [r for r in rollbacks if self._is_own(r)]
        self.end = self._end(now)
        self.parts = self._parts(events)
        self.identity = record.app, record.new, record.started_at
        first = record.attempts[0].traceparent if record.attempts else None
        joined = context_of(first)
        self.parent = first if joined else None
        self.trace_id = joined[0] if joined else made_id(128, "trace", *self.identity)

    def _is_own(self, rollback: RollbackRecord) -> bool:
        return rollback.left == self.record.new and clock.parse(rollback.started_at) >= self.begin

    def _end(self, now: datetime | None) -> datetime:
        record = self.record
        if self.outcome == PROMOTED and (at := record.step_times.get(str(PROMOTED))):
            return max(self.begin, clock.parse(record.ended_at or at))
        known = [record.ended_at] if record.ended_at else list(record.step_times.values())
        known += [r.ended_at or r.started_at for r in self.rollbacks]
        if not record.ended_at:
            known += [time for a in record.attempts for time in (a.began_at, a.ended_at) if time]
        times = [clock.parse(text) for text in known]
        if now is not None and record.outcome is None:
            times.append(now)
        return max([self.begin, *times])

    def _parts(self, events: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Part]:
        found = [part for deployment, told in events.items() for part in parts(deployment, told)]
        inside = {p for p in found if self.begin <= p.begin <= self.end}  # no event counts twice
        return sorted(inside, key=lambda p: (p.begin, p.end, p.deployment))

    def spans(self) -> tuple[Span, ...]:
        steps = self._steps() if self.record.attempts else self._steps_by_their_ends()
        steps += [self._rollback(each) for each in self.rollbacks]
        steps.sort(key=lambda s: s.begin)
        root_id = made_id(64, "update", *self.identity)
        made = [(self._id(step), step) for step in steps]
        below = [
            self._span(stretch, self._around(stretch, made, root_id))
            for stretch in (*map(self._driver_part, self.parts), *self._pause())
        ]
        children = [self._span(step, root_id) for step in steps]
        return self._root(root_id), *sorted([*children, *below], key=lambda s: (s.begin, s.parent_id != root_id))

    def _root(self, span_id: int) -> Span:
        record = self.record
        failed = (
            None if self.outcome in (None, PROMOTED) else f"{self.outcome}: {record.reason or 'no reason is known'}"
        )
        return Span(
            name=f"update {text(record.app)}",
            span_id=span_id,
            parent_id=None,
            begin=self.begin,
            end=self.end,
            attributes=self._about(),
            error=failed and text(failed),
        )

    def _about(self) -> dict[str, Value]:
        record = self.record
        by = record.attempts[0].by if record.attempts else ""
        told: dict[str, Value | None] = {
            "streamupdate.app": record.app,
            "streamupdate.deployment.from": record.old,
            "streamupdate.deployment.to": record.runs if record.in_place else record.new,
            "streamupdate.update.id": record.new,
            "streamupdate.strategy": record.strategy,
            "streamupdate.outcome": str(self.outcome) if self.outcome else "under way",
            "streamupdate.pause_seconds": record.pause_seconds,
            "streamupdate.snapshot": record.snapshot,
            "streamupdate.digest": record.digest or None,
            **asker(by),
        }
        return {
            name: text(value) if isinstance(value, str) else value for name, value in told.items() if value is not None
        }

    def _steps(self) -> list[_Stretch]:
        found, counts = [], dict[str, int]()
        for index, attempt in enumerate(self.record.attempts):
            counts[attempt.step] = counts.get(attempt.step, 0) + 1
            begin = min(clock.parse(attempt.began_at), self.end)
            error, ended = attempt.error, attempt.ended_at
            if ended is None:
                end = self._interrupted(begin, index)
                error = self._why_not_ended(index)
            else:
                end = clock.parse(ended)
            found.append(
                _Stretch(
                    key=("step", attempt.step, counts[attempt.step]),
                    name=text(attempt.step),
                    begin=begin,
                    end=max(begin, min(end, self.end)),
                    attributes={
                        "streamupdate.step": text(attempt.step),
                        "streamupdate.attempt": counts[attempt.step],
                        **asker(attempt.by),
                    },
                    error=error and text(error),
                    links=(attempt.traceparent,) if attempt.traceparent and context_of(attempt.traceparent) else (),
                )
            )
        return found

    def _interrupted(self, begin: datetime, index: int) -> datetime:
        """Until when a step was under way that did not end: at the latest until somebody went on."""
        later = [clock.parse(a.began_at) for a in self.record.attempts[index + 1 :]]
        later += [clock.parse(r.started_at) for r in self.rollbacks]
        return min([t for t in later if t >= begin] or [self.end])

    def _why_not_ended(self, index: int) -> str | None:
        if self.outcome is None and index == len(self.record.attempts) - 1:
            return None  # it is under way, or was interrupted a moment ago
        if index == len(self.record.attempts) - 1 and self.record.reason:
            return self.record.reason
        return NOT_ENDED

    def _steps_by_their_ends(self) -> list[_Stretch]:
        """Those of a record of an earlier release, which notes only when they were completed."""
        found, before = [], self.begin
        for noted, at in sorted(self.record.step_times.items(), key=lambda item: clock.parse(item[1])):
            step = _STEP_OF.get(noted, str(Step.STANDBY))
            end = min(max(clock.parse(at), before), self.end)
            attributes: dict[str, Value] = {"streamupdate.step": step, "streamupdate.attempt": 1}
            found.append(_Stretch(("step", step, 1), step, before, end, attributes))
            before = end
        return found

    def _rollback(self, rollback: RollbackRecord) -> _Stretch:
        begin = min(clock.parse(rollback.started_at), self.end)
        end = clock.parse(rollback.ended_at) if rollback.ended_at else self.end
        about: dict[str, Value] = {
            "streamupdate.step": "rollback",
            "streamupdate.deployment.from": text(rollback.left),
            "streamupdate.deployment.to": text(rollback.back_to),
            **asker(rollback.asked_by),
        }
        error = None if rollback.ended_at or self.outcome is None else NOT_ENDED
        return _Stretch(("rollback", rollback.number), "rollback", begin, max(begin, min(end, self.end)), about, error)

    def _driver_part(self, part: Part) -> _Stretch:
        about: dict[str, Value] = {"streamupdate.deployment": text(part.deployment)}
        if part.epoch is not None:
            about["streamupdate.epoch"] = part.epoch
        return _Stretch(
            ("driver", part.deployment, part.epoch, part.name, part.begin.isoformat(), part.end.isoformat()),
            f"driver: {part.name}",
            part.begin,
            part.end,
            about,
            part.error and text(part.error),
        )

    def _pause(self) -> list[_Stretch]:
        """The pause, where it lies within the update: that of a version that had died began before."""
        seconds, since = self.record.pause_seconds, self.record.paused_at
        if seconds is None or since is None or seconds < 0:
            return []
        began = clock.parse(since)
        ended = began + timedelta(seconds=seconds)
        if began < self.begin or ended > self.end:
            return []
        return [_Stretch(("pause",), "pause", began, ended, {"streamupdate.pause_seconds": seconds})]

    def _around(self, stretch: _Stretch, steps: Sequence[tuple[int, _Stretch]], root_id: int) -> int:
        """The id of the step in which all of it happened; the update's where there is none."""
        inside = [
            (step.begin, found) for found, step in steps if step.begin <= stretch.begin and stretch.end <= step.end
        ]
        return max(inside)[1] if inside else root_id

    def _id(self, stretch: _Stretch) -> int:
        return made_id(64, "span", *self.identity, *stretch.key)

    def _span(self, stretch: _Stretch, parent: int) -> Span:
        return Span(
            name=stretch.name,
            span_id=self._id(stretch),
            parent_id=parent,
            begin=stretch.begin,
            end=stretch.end,
            attributes=stretch.attributes,
            error=stretch.error,
            links=stretch.links,
        )


def asker(by: str) -> dict[str, Value]:
    """Return who asked as attributes; of a task, its DAG and run under the names that Airflow's own spans use."""
    if not by:
        return {}
    found: dict[str, Value] = {"streamupdate.asked_by": text(by)}
    scheme, _, rest = by.partition(":")
    dag, _, rest = rest.partition("/")
    run, _, rest = rest.rpartition("/")  # the map index
    run, _, task = run.rpartition("/")  # a run's id may have slashes
    if scheme == "airflow" and dag and run and task:
        names = {"airflow.dag_id": dag, "airflow.dag_run.run_id": run, "airflow.task_id": task}
        found |= {name: text(value) for name, value in names.items()}
    return found


def text(value: object) -> str:
    """A name in a file may hold what cannot be sent (half of a surrogate pair)."""
    return str(value).encode("utf-8", "replace").decode()
