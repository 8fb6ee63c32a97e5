"""The rules for batches that run again because a version replaces another one from an older snapshot. They run with the
same query id and batch ids as the first time."""

from __future__ import annotations

import attrs

from ...plan.plan import QueryPlan
from ..report import CARRIED, LOSS, REFUSED
from .rule import Facts, Rule
from .sinks import SinkKind, declares_skips, is_function, kind_of, same_sink

_AGAIN = "{batches} run again, maybe with other rows in each: "


@attrs.frozen(kw_only=True)
class AgainChange:
    """A query, what it was when its batches ran for the first time, and which those are, in words."""

    old: QueryPlan
    new: QueryPlan
    batches: str

    @property
    def kind(self) -> SinkKind:
        return kind_of(self.new.sink.format)

    @property
    def same(self) -> bool:
        return same_sink(self.new, (self.old,))


def _skips(c: AgainChange) -> bool:
    """Return whether it is a function that says that it skips ids, and had the batches."""
    return declares_skips(c.new) and is_function(c.old)


def _skipped(c: AgainChange) -> Facts | None:
    if not _skips(c) and (not c.kind.skips_ids or not c.same):
        return None
    return {"batches": c.batches, "format": c.new.sink.format, "options": c.new.sink.options}


def _function(c: AgainChange) -> Facts | None:
    if not is_function(c.new) or _skips(c):
        return None
    return {"batches": c.batches, "format": c.new.sink.format}


def _place(c: AgainChange) -> Facts | None:
    if c.kind.skips_ids or not c.kind.has_place or not c.same:
        return None
    return {"batches": c.batches, "format": c.new.sink.format, "options": c.new.sink.options}


def _elsewhere(c: AgainChange) -> Facts | None:
    if c.kind.is_function or (c.same and c.kind.has_place):
        return None
    return {"batches": c.batches, "format": c.new.sink.format}


AGAIN_RULES: tuple[Rule[AgainChange], ...] = (
    Rule[AgainChange](
        id="again.skipped",
        verdict=REFUSED,
        change="an update in place from an older snapshot, with a sink that skips batch ids that it has (a function: "
        "if the app declares so)",
        reason=_AGAIN + "{format} ({options}) already has batches with these ids and skips them, so nothing is "
        "corrected, and rows that now come in another batch are lost. Write to another place with strategy parallel "
        "or a fork",
        source="FileStreamSink.addBatch; the sinks of Delta Lake, Iceberg and Hudi compare query id and batch id with "
        "the table's log",
        applies=_skipped,
        tests=(
            "core/test_rows_again.py::test_what_a_sink_does_with_batches_it_had",
            "spark/test_again.py::test_rows_that_come_in_another_batch_the_second_time_are_lost_in_a_sink_that_skips",
        ),
    ),
    Rule[AgainChange](
        id="again.function",
        verdict=LOSS,
        change="an update in place from an older snapshot, with a function as the sink",
        reason=_AGAIN + "the {format} function receives the same batch ids a second time; its output is correct "
        "afterwards only if it replaces what it wrote for them, or the rows of the same keys (rows whose keys do not "
        "come again stay)",
        source="foreachBatch: the batch id can be used to deduplicate; two runs of a batch need not hold the same rows",
        applies=_function,
        tests=("core/test_rows_again.py::test_what_a_sink_does_with_batches_it_had",),
    ),
    Rule[AgainChange](
        id="again.place",
        verdict=LOSS,
        change="an update in place from an older snapshot, with the same sink",
        reason=_AGAIN + "{format} ({options}) receives their results a second time",
        source="sinks other than those that compare batch ids append",
        applies=_place,
        tests=("core/test_rows_again.py::test_what_a_sink_does_with_batches_it_had",),
    ),
    Rule[AgainChange](
        id="again.elsewhere",
        verdict=CARRIED,
        change="an update in place from an older snapshot, with another sink or one that keeps nothing",
        reason=_AGAIN + "{format} has none of their results",
        source="the sink is another one, or keeps nothing",
        applies=_elsewhere,
        tests=("core/test_rows_again.py::test_what_a_sink_does_with_batches_it_had",),
    ),
)
