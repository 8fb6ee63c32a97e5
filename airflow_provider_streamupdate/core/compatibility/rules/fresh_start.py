"""The rules for a start without state of an app that had some: batch ids begin with 0 again, under a new query id, and
results are computed again from the sources' configured offsets."""

from __future__ import annotations

import attrs

from ...plan.plan import QueryPlan
from ..report import EMPTY, LOSS, REFUSED
from .rule import Facts, Rule
from .sinks import SinkKind, declares_skips, is_function, kind_of, same_sink


@attrs.frozen(kw_only=True)
class FreshChange:
    """A query that starts without state; the queries of the app's deployments that have committed batches; and the last
    batch in the log of the file sink that it writes to (None: there is none)."""

    new: QueryPlan
    others: tuple[QueryPlan, ...]
    logged: int | None

    @property
    def kind(self) -> SinkKind:
        return kind_of(self.new.sink.format)

    @property
    def same(self) -> bool:
        return same_sink(self.new, self.others)


def _files(c: FreshChange) -> Facts | None:
    if not c.kind.has_log or c.logged is None:
        return None
    return {"path": c.new.sink.path, "logged": c.logged}


def _skips(c: FreshChange) -> bool:
    """Return whether it is a function that says that it skips ids, and may have had them."""
    return declares_skips(c.new) and any(is_function(query) for query in c.others)


def _skipped(c: FreshChange) -> Facts | None:
    return _sink(c) if _skips(c) or (c.kind.ignores_query and c.same) else None


def _function(c: FreshChange) -> Facts | None:
    if not is_function(c.new) or not c.others or _skips(c):
        return None
    return {"format": c.new.sink.format}


def _place(c: FreshChange) -> Facts | None:
    exempt = c.kind.has_log or c.kind.ignores_query or not c.kind.has_place
    return _sink(c) if c.same and not exempt else None


def _sink(c: FreshChange) -> Facts:
    return {"format": c.new.sink.format, "options": c.new.sink.options}


FRESH_RULES: tuple[Rule[FreshChange], ...] = (
    Rule[FreshChange](
        id="fresh.start",
        verdict=EMPTY,
        change="a start without state",
        reason="starts without state, with batch 0, at its sources' configured offsets",
        source="a new checkpoint: StreamExecution begins with batch 0 under a new query id",
        applies=lambda c: {},
        tests=("core/test_rows_again.py::test_what_a_sink_does_with_a_start_from_batch_0",),
    ),
    Rule[FreshChange](
        id="fresh.files",
        verdict=REFUSED,
        change="a start without state, with a file sink whose folder already has a log",
        reason="the log of the file sink in {path} has batches up to {logged}, and the sink skips batches with these "
        "ids: their rows would be lost. Write to another folder, or continue from the state that belongs to the log",
        source="FileStreamSink.addBatch skips a batch id that is not after its log's last",
        applies=_files,
        tests=(
            "core/test_rows_again.py::test_what_a_sink_does_with_a_start_from_batch_0",
            "spark/test_fresh.py::test_a_file_sink_that_has_batches_is_refused",
        ),
    ),
    Rule[FreshChange](
        id="fresh.skipped",
        verdict=REFUSED,
        change="a start without state into the same table, with a sink that skips batch ids no matter which query "
        "wrote them, or with a function that is declared to skip them",
        reason="{format} ({options}) already has batches with these ids and skips them: their rows would be lost. "
        "Write to another place",
        source="HoodieStreamingSink.canSkipBatch compares the batch id alone",
        applies=_skipped,
        tests=("core/test_rows_again.py::test_what_a_sink_does_with_a_start_from_batch_0",),
    ),
    Rule[FreshChange](
        id="fresh.function",
        verdict=LOSS,
        change="a start without state of an app that had some, with a function as the sink",
        reason="the {format} function receives the batch ids from 0 on a second time: if it skips ids that it has "
        "seen, these rows are lost; if it replaces rows that have the same key, they are right only where the sources "
        "still have all input of the key; if neither, results are written twice",
        source="foreachBatch is given the batch id, not the query id",
        applies=_function,
        tests=("core/test_rows_again.py::test_what_a_sink_does_with_a_start_from_batch_0",),
    ),
    Rule[FreshChange](
        id="fresh.place",
        verdict=LOSS,
        change="a start without state into the sink that the app wrote to before",
        reason="{format} ({options}) has the results of an earlier deployment, and receives the recomputed ones "
        "beside them",
        source="sinks that detect repeats do so by query id and batch id (Delta Lake, Iceberg), and the query id is "
        "new",
        applies=_place,
        tests=("core/test_rows_again.py::test_what_a_sink_does_with_a_start_from_batch_0",),
    ),
)
