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
    Alarm,
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
# Of rows in a join's state that came before its filters, and of pairs with them: the sides no filter holds for, because
# the optimizer puts it below the state (rule stage.hidden-filter).
EXEMPT = "_exempt"

# What a group keeps for each aggregate: how many values, their sum, the least and the greatest one. For min_by and
# max_by a value is a pair: what it is ordered by, and the column's value (each a tuple, so that nulls can be compared).
Kept = tuple[int, Any, Any, Any]
NOTHING: Kept = (0, None, None, None)


def merged(one: Kept, other: Kept) -> Kept:
    def of(function: Any, x: Any, y: Any) -> Any:
        return y if x is None else x if y is None else function((x, y))

    return one[0] + other[0], of(sum, one[1], other[1]), of(min, one[2], other[2]), of(max, one[3], other[3])


def kept_of(function: Function, row: Row) -> Kept:
    if function.by:
        pair = _comparable(row[function.by]), _comparable(row[function.column])
        return 1, None, pair, pair
    value = 1 if function.column == "*" else row[function.column]
    return NOTHING if value is None else (1, value, value, value)


def _comparable(value: Any) -> tuple[Any, ...]:
    """Nulls come first."""
    return () if value is None else (value,)


def result(function: Function, kept: Kept) -> Any:
    n, total, least, greatest = kept
    if function.by:
        best = least if function.name == "min_by" else greatest
        return best[1][0] if best and best[1] else None  # of no rows at all: a function that was added
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
        self._pushed = [f for source in spec.sources for f, _ in self.first_filters(source)]

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
        return [{k: v for k, v in r.items() if k not in (TIME, EXEMPT)} for r in rows]

    def _advance(self, given: dict[str, list[Row]]) -> None:
        """The watermark after a batch: the least over the sources, and it never goes back. Filters that only stand
        above projections are pushed below it (PushPredicateThroughNonJoin): it does not see what they drop."""
        self.clock.late = self.clock.now
        if self.spec.watermark is None:
            return
        for source, rows in given.items():
            for row in rows:
                if all(f.keeps({f.column: row[c]}) for f, c in self.first_filters(source)):
                    self._greatest[source] = max(row["ts"], self._greatest.get(source, row["ts"]))
        if len(self._greatest) == len(given):
            reached = min(self._greatest.values()) - self.spec.watermark
            self.clock.now = reached if self.clock.now is None else max(reached, self.clock.now)

    def first_filters(self, source: str) -> list[tuple[Filter, str]]:
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
            side = below[step.column].split(".")[0] if step in self._pushed else ""
            return [r for r in rows if step.keeps(r) or side in r.get(EXEMPT, ())]
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
        if isinstance(step, Alarm):
            return self._alarm(step, rows)
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
                group = Group(_values(stage, row, below, self.spec.zone), start, end)
                _add(state, group, stage, below, row)
                touched[group] = None
        if not stage.keys and not stage.window:  # the one group there is: of no rows at all, too, in every batch
            group = Group(())
            state.setdefault(group, dict.fromkeys(functions(stage, below), NOTHING))
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
            group = Group(_values(stage, row, below, self.spec.zone), row["ts"], row["ts"] + stage.gap)
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
            state[row[stage.key]] = state.get(row[stage.key], 0) + stage.step
        return [{"k": k, "n": state[k], TIME: None} for k in found]

    def _alarm(self, stage: Alarm, rows: list[Row]) -> list[Row]:
        """The timer is set half a minute later, so that no watermark meets it."""
        state: dict[str, list[Any]] = self._state(stage, {})  # key -> rows, when its timer fires
        rows = [r for r in rows if not self.clock.is_late(r["ts"])]
        first = {}
        for row in rows:
            first[row[stage.key]] = min(row["ts"], first.get(row[stage.key], row["ts"]))
        for key, at in first.items():
            state.setdefault(key, [0, at + stage.after + 0.5])
        for row in rows:
            state[row[stage.key]][0] += 1
        fired = [key for key, (_, at) in state.items() if self.clock.is_over(at)]
        made = [{"k": key, "n": state[key][0], TIME: None} for key in fired]
        for key in fired:
            state[key][1] = None
        return made

    def _join(self, stage: Join, left: list[Row], right: list[Row]) -> list[Row]:
        """Left rows meet the right rows kept so far, then right rows the left rows kept by now; an outer join tells of
        a row without a partner when it is removed."""
        state: dict[str, list[list[Any]]] = self._state(stage, {"left": [], "right": []})  # [row, has met one]
        if stage.kind == "left_semi":
            return self._semi_join(stage, state, left, right)
        found: list[tuple[Row | None, Row | None]] = []
        for x in self._not_late(left):
            partners = [y for y in state["right"] if _pair(stage, x, y[0])]
            for y in partners:
                y[1] = True
            found += [(x, y[0]) for y in partners]
            state["left"].append([x, bool(partners)])
        for y in self._not_late(right):
            partners = [x for x in state["left"] if _pair(stage, x[0], y)]
            for x in partners:
                x[1] = True
            found += [(x[0], y) for x in partners]
            state["right"].append([y, bool(partners)])
        for side, gone in self._removed(stage, state).items():
            if stage.kind in (f"{side}_outer", "full_outer"):
                found += [(x, None) if side == "left" else (None, x) for x, met in gone if not met]
        return [_put_together(x, y) for x, y in found]

    def _semi_join(
        self, stage: Join, state: dict[str, list[list[Any]]], left: list[Row], right: list[Row]
    ) -> list[Row]:
        """Right rows come first and are kept unless this batch removes them, so that a left row of the same batch never
        meets those; a left row that has met one is not kept (measured, Spark 4.3)."""
        found = []
        for y in self._not_late(right):
            for x in [x for x in state["left"] if not x[1] and _pair(stage, x[0], y)]:
                x[1] = True
                found.append(x[0])
            if not self._gone(y["ts"]):
                state["right"].append([y, False])
        for row in self._not_late(left):
            if any(_pair(stage, row, y[0]) for y in state["right"]):
                found.append(row)
            else:
                state["left"].append([row, False])
        self._removed(stage, state)
        return [_put_together(x, x) for x in found]

    def _removed(self, stage: Join, state: dict[str, list[list[Any]]]) -> dict[str, list[list[Any]]]:
        """What the watermark has passed, by side."""
        found = {}
        for side, reach in (("left", stage.within), ("right", 0)):
            found[side] = [x for x in state[side] if self._gone(x[0]["ts"] + reach)]
            state[side] = [x for x in state[side] if all(x is not g for g in found[side])]
        return found

    def _not_late(self, rows: list[Row]) -> list[Row]:
        return [r for r in rows if not self.clock.is_late(r["ts"])]

    def _gone(self, time: int) -> bool:
        return self.clock.now is not None and time < self.clock.now


def _pair(stage: Join, left: Row, right: Row) -> bool:
    return left["k"] == right["k"] and 0 <= right["ts"] - left["ts"] <= stage.within


def _put_together(left: Row | None, right: Row | None) -> Row:
    """Of a left semi join both are the left row."""
    x, y = left or {}, right or {}
    b = y.get("b") if left is right else y.get("a")
    exempt = [side for side, row in (("left", x), ("right", y)) if EXEMPT in row]
    return {"k": x.get("k"), "k2": y.get("k2"), "a": x.get("a"), "b": b, "ts": x.get("ts"), TIME: None, EXEMPT: exempt}


ZONES = {"UTC": 0, "Asia/Tokyo": 9}  # hours from UTC


def _values(stage: Aggregate | Session, row: Row, below: dict[str, str], zone: str) -> tuple[tuple[str, Any], ...]:
    def value(name: str) -> Any:
        if name == "h":
            return (row["ts"] // 60 + ZONES[zone]) % 24
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
