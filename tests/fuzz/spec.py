"""A spec: an app version as data. `build` makes a DataFrame of it, `oracle` computes it in plain Python."""

from __future__ import annotations

from random import Random

import attrs

COLUMNS = ("k", "k2", "a", "b", "ts")


@attrs.frozen
class Filter:
    """Keeps rows whose column is (``>``, ``<``) than the value; never one whose column is null."""

    column: str
    sign: str
    value: int

    def keeps(self, row: dict) -> bool:
        found = row[self.column]
        return found is not None and (found > self.value if self.sign == ">" else found < self.value)


@attrs.frozen
class Select:
    """All columns in another order, under aliases and back: changes nothing."""

    seed: int

    def order(self, columns: list[str]) -> list[str]:
        return Random(self.seed).sample(columns, len(columns))


@attrs.frozen
class Swap:
    """Two columns change names: the same names above it mean something else."""

    one: str
    other: str


@attrs.frozen
class Function:
    """An aggregate: count, sum, min, max, avg of a column (``*``: of rows); or min_by, max_by: the column where another
    one, `by`, is least or greatest."""

    name: str
    column: str
    alias: str
    by: str | None = None


@attrs.frozen
class Window:
    """In minutes."""

    size: int
    slide: int

    def starts(self, minute: int) -> list[int]:
        last = minute - minute % self.slide
        return [s for s in range(last, minute - self.size, -self.slide) if s <= minute < s + self.size]


@attrs.frozen(kw_only=True)
class Aggregate:
    """keys: columns, ``m`` for the expression a % 3, or ``h`` for the hour of ts, which depends on the time zone. Its
    columns are keys, the window ``w`` and the aliases."""

    name: str
    keys: tuple[str, ...]
    functions: tuple[Function, ...]
    window: Window | None = None


@attrs.frozen(kw_only=True)
class Session:
    name: str
    keys: tuple[str, ...]
    functions: tuple[Function, ...]
    gap: int


@attrs.frozen(kw_only=True)
class Deduplicate:
    name: str
    columns: tuple[str, ...]
    within: bool = False  # dropDuplicatesWithinWatermark
    distinct: bool = False  # written as distinct(), of all columns


@attrs.frozen(kw_only=True)
class Limit:
    name: str
    rows: int


@attrs.frozen(kw_only=True)
class Counter:
    """How many rows a key has had so far, a row a key and batch. `way`: transformWithState with rows (``value``: in a
    value, ``list``: in a list, ``map``: in a map) or with ``pandas``, or ``apply``InPandasWithState; `step`: its code,
    what a row counts."""

    name: str
    key: str
    way: str = "value"
    step: int = 1

    @property
    def variable(self) -> str:
        return "value" if self.way == "pandas" else self.way


@attrs.frozen(kw_only=True)
class Alarm:
    """transformWithState: tells once how many rows a key has had, by a timer `after` minutes after its first one."""

    name: str
    key: str
    after: int


@attrs.frozen(kw_only=True)
class Join:
    """The first step: `left` rows with the `right` rows of the same k that come up to `within` minutes later."""

    name: str
    within: int
    kind: str = "inner"


Stage = Aggregate | Session | Deduplicate | Limit | Counter | Alarm | Join
Step = Filter | Select | Swap | Stage
STAGES = (Aggregate, Session, Deduplicate, Limit, Counter, Alarm, Join)


@attrs.frozen(kw_only=True)
class Spec:
    """watermark: minutes, on every source; store: a key of `build.STORES`; extra: the source has a column nobody uses;
    strict: an option of the sources; partitions, join_format, checkpoint_format: the session's settings (the offset
    log's join format wins); zone: the session's; union: of two sources."""

    steps: tuple[Step, ...]
    watermark: int | None = None
    mode: str = "append"
    store: str = "rocksdb"
    extra: bool = False
    partitions: int = 2
    join_format: int = 2
    checkpoint_format: int = 1
    union: bool = False
    strict: bool = False
    zone: str = "UTC"

    @property
    def stages(self) -> tuple[Stage, ...]:
        return tuple(s for s in self.steps if isinstance(s, STAGES))

    @property
    def sources(self) -> tuple[str, ...]:
        if any(isinstance(s, Join) for s in self.steps):
            return ("left", "right")
        return ("in", "more") if self.union else ("in",)

    @property
    def joined(self) -> bool:
        return "left" in self.sources

    def stage(self, name: str) -> Stage | None:
        return next((s for s in self.stages if s.name == name), None)

    def replaced(self, old: Step, *new: Step) -> Spec:
        at = next(i for i, s in enumerate(self.steps) if s is old)
        return attrs.evolve(self, steps=(*self.steps[:at], *new, *self.steps[at + 1 :]))

    def inserted(self, at: int, step: Step) -> Spec:
        return attrs.evolve(self, steps=(*self.steps[:at], step, *self.steps[at:]))

    def renamed(self, renames: dict[str, str]) -> Spec:
        """With its stages under other names."""
        steps = (attrs.evolve(s, name=renames.get(s.name, s.name)) if isinstance(s, STAGES) else s for s in self.steps)
        return attrs.evolve(self, steps=tuple(steps))


def title(stage: Stage) -> str:
    if isinstance(stage, Aggregate) and stage.window:
        return "tumbling window" if stage.window.size == stage.window.slide else "sliding window"
    if isinstance(stage, Deduplicate) and (stage.distinct or stage.within):
        return "distinct" if stage.distinct else "deduplicate within watermark"
    kind = {"Join": "kind", "Counter": "way"}.get(type(stage).__name__)
    return " ".join([type(stage).__name__.lower(), *([getattr(stage, kind)] if kind else [])])
