"""The rules for a start without state where an app had some: batch ids begin with 0 again, under a query id of its own,
and results are computed once more from where the sources are told to begin."""

from __future__ import annotations

import attrs

from ...plan.plan import QueryPlan
from ..report import EMPTY, LOSS, REFUSED
from .fork import NO_LOCATION, is_function, same_sink, skips_ids
from .rule import Facts, Rule
from .sources.source import FILES, short_format

# Their sinks tell batches by the ids alone: HoodieStreamingSink.canSkipBatch.
BY_ID = ("hudi",)


@attrs.frozen(kw_only=True)
class FreshChange:
    """A query that starts without state; the queries of the app's deployments that have committed batches; and the last
    batch in the log of the file sink that it writes to (None: there is none)."""

    new: QueryPlan
    others: tuple[QueryPlan, ...]
    logged: int | None

    @property
    def kind(self) -> str:
        return short_format(self.new.sink.format)

    @property
    def same(self) -> bool:
        return same_sink(self.new, self.others)


def _files(c: FreshChange) -> Facts | None:
    if c.kind not in FILES or c.logged is None:
        return None
    return {"path": c.new.sink.path, "logged": c.logged}


def _skips(c: FreshChange) -> bool:
    """Whether it is a function that says that it skips ids, and may have had them."""
    return skips_ids(c.new) and any(is_function(query) for query in c.others)


def _skipped(c: FreshChange) -> Facts | None:
    return _sink(c) if _skips(c) or (c.kind in BY_ID and c.same) else None


def _function(c: FreshChange) -> Facts | None:
    if not is_function(c.new) or not c.others or _skips(c):
        return None
    return {"format": c.new.sink.format}


def _place(c: FreshChange) -> Facts | None:
    return _sink(c) if c.same and c.kind not in (*FILES, *NO_LOCATION, *BY_ID) else None


def _sink(c: FreshChange) -> Facts:
    return {"format": c.new.sink.format, "options": c.new.sink.options}


FRESH_RULES: tuple[Rule[FreshChange], ...] = (
    Rule[FreshChange](
        id="fresh.start",
        verdict=EMPTY,
        change="a start without state",
        reason="starts without state, with batch 0, where its sources are told to begin",
        source="a new checkpoint: StreamExecution begins with batch 0 under a new query id",
        applies=lambda c: {},
        tests=("core/test_fresh.py::test_what_a_sink_does_with_a_start_from_batch_0",),
    ),
    Rule[FreshChange](
        id="fresh.files",
        verdict=REFUSED,
        change="a start without state into a folder that has a file sink's log",
        reason="the log of the file sink in {path} has batches up to {logged}, and the sink skips batches of these "
        "ids: their rows would be lost; write to another folder, or go on with the state they belong to",
        source="FileStreamSink.addBatch skips a batch id that is not after its log's last",
        applies=_files,
        tests=(
            "core/test_fresh.py::test_what_a_sink_does_with_a_start_from_batch_0",
            "spark/test_fresh.py::test_a_file_sink_that_has_batches_is_refused",
        ),
    ),
    Rule[FreshChange](
        id="fresh.skipped",
        verdict=REFUSED,
        change="a start without state into the same table, where the sink skips batch ids whoever wrote them; or a "
        "function that is declared to skip them",
        reason="{format} ({options}) has batches of these ids and skips them: their rows would be lost; write to "
        "another place",
        source="HoodieStreamingSink.canSkipBatch compares the batch id alone",
        applies=_skipped,
        tests=("core/test_fresh.py::test_what_a_sink_does_with_a_start_from_batch_0",),
    ),
    Rule[FreshChange](
        id="fresh.function",
        verdict=LOSS,
        change="a start without state, where the sink is a function and the app had state",
        reason="the function of {format} gets the batch ids from 0 on a second time: one that skips ids it has loses "
        "these rows, and one that does not has results twice",
        source="foreachBatch is given the batch id, not the query id",
        applies=_function,
        tests=("core/test_fresh.py::test_what_a_sink_does_with_a_start_from_batch_0",),
    ),
    Rule[FreshChange](
        id="fresh.place",
        verdict=LOSS,
        change="a start without state into the sink that the app wrote to before",
        reason="{format} ({options}) has results of an earlier deployment, and gets those computed again beside them",
        source="sinks that tell repeats do so by query id and batch id (Delta Lake, Iceberg), and the query id is new",
        applies=_place,
        tests=("core/test_fresh.py::test_what_a_sink_does_with_a_start_from_batch_0",),
    ),
)
