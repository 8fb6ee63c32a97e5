"""The oracle: a spec computed in plain Python, batch by batch, with its state by the names of its stages.

It follows what Spark documents: a row is late by the watermark of the batch before, state is removed by the one of this
batch, and when there is nothing more to read and the watermark has moved, a batch without rows follows
(MicroBatchExecution). Times are whole minutes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from .meaning import functions, keys, labels
from .spec import (
    STAGES,
    Aggregate,
    Counter,
    Deduplicate,
    Filter,
    Function,
    Join,
    Limit,
    Session,
    Spec,
    Stage,
    Step,
    Swap,
)

Row = dict[str, Any]
TIME = "_time"  # a row's event time: its own, or the end of its window

# What a group keeps for each aggregate: how many values, their sum, the least and the greatest one.
Kept = tuple[int, int | None, int | None, int | None]
NOTHING: Kept = (0, None, None, None)


def merged(one: Kept, other: Kept) -> Kept:
    def of(function: Any, x: int | None, y: int | None) -> int | None:
        return y if x is None else x if y is None else function((x, y))

    return one[0] + other[0], of(sum, one[1], other[1]), of(min, one[2], other[2]), of(max, one[3], other[3])


def kept_of(function: Function, row: Row) -> Kept:
    value = 1 if function.column == "*" else row[function.column]
    return NOTHING if value is None else (1, value, value, value)


def result(function: Function, kept: Kept) -> Any:
    n, total, least, greatest = kept
    if function.name == "avg":
        return total / n if n and total is not None else None
    return {"count": n, "sum": total, "min": least, "max": greatest}[function.name]


@attrs.frozen
class Group:
    """Of an aggregation: key texts (meaning.keys) -> value, the window, and what is kept by the aggregates' texts."""

    keys: tuple[tuple[str, Any], ...]
    start: int | None = None
    end: int | None = None


Groups = dict[Group, dict[str, Kept]]


@attrs.define
class Clock:
    """late: the watermark of the batch before; now: the one of the next batch."""

    late: int | None = None
    now: int | None = None

    def is_late(self, time: int | None) -> bool:
        return time is not None and self.late is not None and time <= self.late

    def is_over(self, time: int | None) -> bool:
        return time is not None and self.now is not None and time <= self.now


class Oracle:
    """One run of a version; `states` and `clock` go on from another run's."""

    def __init__(self, spec: Spec, states: dict[str, Any] | None = None, clock: Clock | None = None) -> None:
        self.spec = spec
        self.states: dict[str, Any] = {} if states is None else states
        self.clock = clock or Clock()
        self._greatest: dict[str, int] = {}  # event time of each source; not known again after a restart
        self._below = labels(spec)

    def read(self, batches: Iterable[dict[str, list[Row]]]) -> list[list[Row]]:
        """What each batch that has anything to emit emits; rows of sources it does not have are nothing to it."""
        mine = ({s: batch[s] for s in self.spec.sources} for batch in batches)
        made = [self._batch(batch) for batch in mine]
        if self._asked_for_another:
            made.append(self._run({s: [] for s in self.spec.sources}))
            self.clock.late = self.clock.now
        return [rows for rows in made if rows]

    def _batch(self, given: dict[str, list[Row]]) -> list[Row]:
        rows = self._run(given)
        self._advance(given)
        return rows

    @property
    def _asked_for_another(self) -> bool:
        """Whether a batch without rows follows the last one: the watermark has moved, and a stage wants to know."""
        asking = any(not isinstance(s, (Limit, Counter)) for s in self.spec.stages)
        return self.clock.now != self.clock.late and asking and self.spec.mode != "complete"

    def _run(self, given: dict[str, list[Row]]) -> list[Row]:
        rows = [] if self.spec.joined else [self._timed(r) for source in given.values() for r in source]
        for step, below in zip(self.spec.steps, self._below, strict=False):
            if isinstance(step, Join):
                rows = self._join(step, given["left"], given["right"])
            else:
                rows = self._step(step, rows, below)
        return [{k: v for k, v in r.items() if k != TIME} for r in rows]

    def _advance(self, given: dict[str, list[Row]]) -> None:
        """The watermark after a batch: the least over the sources, and it never goes back. Filters that only stand
        above projections are pushed below it (PushPredicateThroughNonJoin): it does not see what they drop."""
        self.clock.late = self.clock.now
        if self.spec.watermark is None:
            return
        for source, rows in given.items():
            for row in rows:
                if all(f.keeps({f.column: row[c]}) for f, c in self._first_filters(source)):
                    self._greatest[source] = max(row["ts"], self._greatest.get(source, row["ts"]))
        if len(self._greatest) == len(given):
            reached = min(self._greatest.values()) - self.spec.watermark
            self.clock.now = reached if self.clock.now is None else max(reached, self.clock.now)

    def _first_filters(self, source: str) -> list[tuple[Filter, str]]:
        """Filters above no stage but a join, with the column of this source they look at."""
        found = []
        for step, below in zip(self.spec.steps, self._below, strict=False):
            if isinstance(step, STAGES) and not isinstance(step, Join):
                break
            first = "in" if self.spec.union else source  # a union's columns are called after its first branch
            if isinstance(step, Filter) and below[step.column].startswith(f"{first}."):
                found.append((step, below[step.column].split(".")[1]))
        return found

    def _timed(self, row: Row) -> Row:
        return {**row, TIME: row["ts"] if self.spec.watermark is not None else None}

    def _step(self, step: Step, rows: list[Row], below: dict[str, str]) -> list[Row]:
        if isinstance(step, Filter):
            return [r for r in rows if step.keeps(r)]
        if isinstance(step, Swap):
            return [{**r, step.one: r[step.other], step.other: r[step.one]} for r in rows]
        if isinstance(step, Aggregate):
            return self._aggregate(step, rows, below)
        if isinstance(step, Session):
            return self._sessions(step, rows, below)
        if isinstance(step, Deduplicate):
            return self._deduplicate(step, rows)
        if isinstance(step, Limit):
            passed = rows[: max(0, step.rows - self._state(step, 0))]
            self.states[step.name] += len(passed)
            return passed
        if isinstance(step, Counter):
            return self._count(step, rows)
        return rows

    def _state(self, stage: Stage, empty: Any) -> Any:
        return self.states.setdefault(stage.name, empty)

    def _aggregate(self, stage: Aggregate, rows: list[Row], below: dict[str, str]) -> list[Row]:
        state: Groups = self._state(stage, {})
        complete = self.spec.mode == "complete"
        touched = {}
        for row in rows:
            for start in stage.window.starts(row["ts"]) if stage.window else [None]:
                end = start + stage.window.size if stage.window and start is not None else None
                timed = self.spec.watermark is not None and not complete
                if timed and self.clock.is_late(end):
                    continue
                group = Group(_values(stage, row, below), start, end)
                _add(state, group, stage, below, row)
                touched[group] = None
        if self.spec.mode == "update":
            shown = [_shown(stage, g, state[g], below) for g in touched]
            self._close(state)
            return shown
        if complete:
            return [_shown(stage, g, kept, below) for g, kept in state.items()]
        return [_shown(stage, g, kept, below) for g, kept in self._close(state).items()]

    def _close(self, state: Groups) -> Groups:
        """Removes what the watermark has passed; what that was."""
        over = {g: kept for g, kept in state.items() if self.clock.is_over(g.end)}
        for group in over if self.spec.watermark is not None else ():
            del state[group]
        return over

    def _sessions(self, stage: Session, rows: list[Row], below: dict[str, str]) -> list[Row]:
        state: Groups = self._state(stage, {})
        for row in rows:
            if self.clock.is_late(row["ts"] + stage.gap):
                continue
            group = Group(_values(stage, row, below), row["ts"], row["ts"] + stage.gap)
            # The rows of one batch are put together first, and with the state afterwards: the order does not matter,
            # because sessions that overlap one session become one.
            kept: dict[str, Kept] = {}
            for text, function in zip(functions(stage, below), stage.functions, strict=True):
                kept[text] = kept_of(function, row)
            for other in [o for o in state if o.keys == group.keys and _overlap(o, group)]:
                kept = {t: merged(kept[t], state[other][t]) for t in kept}
                group = attrs.evolve(group, start=min(group.start, other.start), end=max(group.end, other.end))
                del state[other]
            state[group] = kept
        return [_shown(stage, g, kept, below) for g, kept in self._close(state).items()]

    def _deduplicate(self, stage: Deduplicate, rows: list[Row]) -> list[Row]:
        seen = self._state(stage, {})  # values -> when they are forgotten
        passed = []
        for row in rows:
            key = tuple(row[c] for c in stage.columns)
            if self.clock.is_late(row[TIME]) or key in seen:
                continue
            seen[key] = row["ts"] + self.spec.watermark if stage.within else None
            passed.append(row)
        for key in [k for k, until in seen.items() if self.clock.is_over(until)]:
            del seen[key]
        return passed

    def _count(self, stage: Counter, rows: list[Row]) -> list[Row]:
        state = self._state(stage, {})
        found = dict.fromkeys(r[stage.key] for r in rows)
        for row in rows:
            state[row[stage.key]] = state.get(row[stage.key], 0) + 1
        return [{"k": k, "n": state[k], TIME: None} for k in found]

    def _join(self, stage: Join, left: list[Row], right: list[Row]) -> list[Row]:
        """Rows stay forever here: what Spark removes could only meet late rows."""
        state = self._state(stage, {"left": [], "right": []})
        left, right = ([r for r in rows if not self._late(r)] for rows in (left, right))
        old = state["left"]
        pairs = [(x, y) for x in old for y in right] + [(x, y) for x in left for y in [*state["right"], *right]]
        state["left"], state["right"] = [*old, *left], [*state["right"], *right]
        return [
            {"k": x["k"], "k2": y["k2"], "a": x["a"], "b": y["a"], "ts": x["ts"], TIME: None}
            for x, y in pairs
            if x["k"] == y["k"] and 0 <= y["ts"] - x["ts"] <= stage.within
        ]

    def _late(self, row: Row) -> bool:
        return self.spec.watermark is not None and self.clock.is_late(row["ts"])


def _values(stage: Aggregate | Session, row: Row, below: dict[str, str]) -> tuple[tuple[str, Any], ...]:
    def value(name: str) -> Any:
        if name != "m":
            return row[name]
        return None if row["a"] is None else row["a"] % 3

    return tuple(zip(keys(stage, below), map(value, stage.keys), strict=True))


def _add(state: Groups, group: Group, stage: Aggregate, below: dict[str, str], row: Row) -> None:
    kept = state.setdefault(group, {})
    fresh = {t: kept_of(f, row) for t, f in zip(functions(stage, below), stage.functions, strict=True)}
    for text, value in fresh.items():
        kept[text] = merged(kept.get(text, NOTHING), value)


def _shown(stage: Aggregate | Session, group: Group, kept: dict[str, Kept], below: dict[str, str]) -> Row:
    window = {} if group.start is None else {"w": group.start}
    values = dict(zip(stage.keys, (v for _, v in group.keys), strict=True))
    made = {f.alias: result(f, kept[t]) for t, f in zip(functions(stage, below), stage.functions, strict=True)}
    return {**values, **window, **made, TIME: group.end}


def _overlap(one: Group, other: Group) -> bool:
    """Sessions that only touch become one as well (measured, Spark 4.3)."""
    return one.start <= other.end and other.start <= one.end  # type: ignore[operator]
