"""The rules for batch ids that a sink may have had before: a fork's, those of batches that run again because a version
replaces another one from an older snapshot (under the same query id), and those of a start without state (from 0 again,
under a new query id)."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from ...plan.plan import QueryPlan
from ..verdict import CARRIED, EMPTY, LOSS, REFUSED
from .rule import Facts, Rule
from .sinks import SinkKind, declares_skips, is_function, kind_of, same_sink

_AGAIN = "{batches} run again, maybe with other rows in each: "
_TWICE = (
    "both write the rows of batches after the snapshot, and a sink that detects repeats by query id and batch id (a "
    "Delta table's txn) accepts both"
)
_BY_FUNCTION = "foreachBatch is given the batch id, not the query id"


@attrs.frozen(kw_only=True)
class BatchIds:
    """A query, and those whose batch ids its sink may have had.

    others: of a fork, the forked query and those its app runs now; of batches that run again, the query that ran them;
        of a start without state, the queries of deployments that have committed batches
    batches: those that run again, in words
    logged: the last batch in the log of the file sink that it writes to (None: there is none)
    """

    new: QueryPlan
    others: tuple[QueryPlan, ...]
    batches: str = ""
    logged: int | None = None

    @property
    def kind(self) -> SinkKind:
        return kind_of(self.new.sink.format)

    @property
    def same(self) -> bool:
        return same_sink(self.new, self.others)

    @property
    def skips(self) -> bool:
        """Whether the sink is a function that says that it skips ids, and may have had them."""
        return declares_skips(self.new) and any(map(is_function, self.others))

    @property
    def facts(self) -> Facts:
        sink = self.new.sink
        given = {"format": sink.format, "options": sink.options, "path": sink.path}
        return {**given, "batches": self.batches, "logged": self.logged}


def _when(condition: Callable[[BatchIds], bool]) -> Callable[[BatchIds], Facts | None]:
    return lambda c: c.facts if condition(c) else None


def _cleaned(c: BatchIds) -> Facts | None:
    read = {s.location for o in c.others for s in o.sources}
    names = [
        s.name for s in c.new.sources if s.location in read and s.options.get("cleansource", "off").lower() != "off"
    ]
    return {"names": names} if names else None


_IdRule = Rule[BatchIds]
_FORKS = ("core/test_rows_again.py::test_a_fork_s_sink",)
_HAD = ("core/test_rows_again.py::test_what_a_sink_does_with_batches_it_had",)
_FROM_0 = ("core/test_rows_again.py::test_what_a_sink_does_with_a_start_from_batch_0",)

FORK_RULES: tuple[Rule[BatchIds], ...] = (
    _IdRule(
        id="fork.identity",
        verdict=CARRIED,
        change="a fork",
        reason="forked: state, offsets, watermark and batch ids continue, under a new query id",
        source="StreamMetadata: the query id is in the checkpoint's metadata file",
        applies=lambda c: {},
        tests=("spark/test_fork.py::test_a_fork_and_its_original_go_on_side_by_side",),
    ),
    _IdRule(
        id="fork.files",
        verdict=REFUSED,
        change="a fork with a file sink",
        reason="the log of a file sink ({path}) identifies batches by id alone: in the forked query's folder, one of "
        "two batches with the same id would be lost; in another folder, the log cannot begin in the middle. Write "
        "with foreachBatch, or start without state",
        source="FileStreamSink.addBatch skips a batch id that its log has; CompactibleFileStreamLog.compact needs the "
        "entries of all earlier batches",
        applies=_when(lambda c: c.kind.has_log),
        tests=_FORKS,
    ),
    _IdRule(
        id="fork.place",
        verdict=LOSS,
        change="a fork that writes to the same place as the forked query, or as its app's current deployment",
        reason="it writes to the same place ({format} {options}): " + _TWICE,
        source="exactly-once sinks compare query id and batch id",
        applies=_when(lambda c: c.same and c.kind.has_place and not c.kind.has_log),
        tests=(*_FORKS, "core/test_rows_again.py::test_what_the_forked_app_writes_to_now_counts_as_well"),
    ),
    _IdRule(
        id="fork.function",
        verdict=LOSS,
        change="a fork whose sink is a function",
        reason="where the {format} function writes is unknown; if it is the same place, " + _TWICE,
        source=_BY_FUNCTION,
        applies=_when(lambda c: c.kind.is_function),
        tests=_FORKS,
    ),
    _IdRule(
        id="fork.cleaned",
        verdict=LOSS,
        change="a fork that reads the same files, and removes them after reading (cleanSource)",
        reason="source {names} removes or moves files after reading them, maybe before the other query has read them",
        source="FileStreamSource: cleanSource",
        applies=_cleaned,
    ),
)

AGAIN_RULES: tuple[Rule[BatchIds], ...] = (
    _IdRule(
        id="again.skipped",
        verdict=REFUSED,
        change="an update in place from an older snapshot, with a sink that skips batch ids that it has (a function: "
        "if the app declares so)",
        reason=_AGAIN + "{format} ({options}) already has batches with these ids and skips them, so nothing is "
        "corrected, and rows that now come in another batch are lost. Write to another place with strategy parallel "
        "or a fork",
        source="FileStreamSink.addBatch; the sinks of Delta Lake, Iceberg and Hudi compare query id and batch id with "
        "the table's log",
        applies=_when(lambda c: c.skips or (c.same and c.kind.skips_ids)),
        tests=(
            *_HAD,
            "spark/test_again.py::test_rows_that_come_in_another_batch_the_second_time_are_lost_in_a_sink_that_skips",
        ),
    ),
    _IdRule(
        id="again.function",
        verdict=LOSS,
        change="an update in place from an older snapshot, with a function as the sink",
        reason=_AGAIN + "the {format} function receives the same batch ids a second time; its output is correct "
        "afterwards only if it replaces what it wrote for them, or the rows of the same keys (rows whose keys do not "
        "come again stay)",
        source="foreachBatch: the batch id can be used to deduplicate; two runs of a batch need not hold the same rows",
        applies=_when(lambda c: c.kind.is_function and not c.skips),
        tests=_HAD,
    ),
    _IdRule(
        id="again.place",
        verdict=LOSS,
        change="an update in place from an older snapshot, with the same sink",
        reason=_AGAIN + "{format} ({options}) receives their results a second time",
        source="sinks other than those that compare batch ids append",
        applies=_when(lambda c: c.same and c.kind.has_place and not c.kind.skips_ids),
        tests=_HAD,
    ),
    _IdRule(
        id="again.elsewhere",
        verdict=CARRIED,
        change="an update in place from an older snapshot, with another sink or one that keeps nothing",
        reason=_AGAIN + "{format} has none of their results",
        source="the sink is another one, or keeps nothing",
        applies=_when(lambda c: not c.kind.is_function and not (c.same and c.kind.has_place)),
        tests=_HAD,
    ),
)

FRESH_RULES: tuple[Rule[BatchIds], ...] = (
    _IdRule(
        id="fresh.start",
        verdict=EMPTY,
        change="a start without state",
        reason="starts without state, with batch 0, at its sources' configured offsets",
        source="a new checkpoint: StreamExecution begins with batch 0 under a new query id",
        applies=lambda c: {},
        tests=_FROM_0,
    ),
    _IdRule(
        id="fresh.files",
        verdict=REFUSED,
        change="a start without state, with a file sink whose folder already has a log",
        reason="the log of the file sink in {path} has batches up to {logged}, and the sink skips batches with these "
        "ids: their rows would be lost. Write to another folder, or continue from the state that belongs to the log",
        source="FileStreamSink.addBatch skips a batch id that is not after its log's last",
        applies=_when(lambda c: c.kind.has_log and c.logged is not None),
        tests=(*_FROM_0, "spark/test_fresh.py::test_a_file_sink_that_has_batches_is_refused"),
    ),
    _IdRule(
        id="fresh.skipped",
        verdict=REFUSED,
        change="a start without state into the same table, with a sink that skips batch ids no matter which query "
        "wrote them, or with a function that is declared to skip them",
        reason="{format} ({options}) already has batches with these ids and skips them: their rows would be lost. "
        "Write to another place",
        source="HoodieStreamingSink.canSkipBatch compares the batch id alone",
        applies=_when(lambda c: c.skips or (c.same and c.kind.ignores_query)),
        tests=_FROM_0,
    ),
    _IdRule(
        id="fresh.function",
        verdict=LOSS,
        change="a start without state of an app that had some, with a function as the sink",
        reason="the {format} function receives the batch ids from 0 on a second time: rows are lost if it skips ids "
        "that it has seen, right if it replaces rows of the same key and the sources still have all input of the key, "
        "and written twice otherwise",
        source=_BY_FUNCTION,
        applies=_when(lambda c: c.kind.is_function and bool(c.others) and not c.skips),
        tests=_FROM_0,
    ),
    _IdRule(
        id="fresh.place",
        verdict=LOSS,
        change="a start without state into the sink that the app wrote to before",
        reason="{format} ({options}) has the results of an earlier deployment, and receives the recomputed ones "
        "beside them",
        source="sinks that detect repeats do so by query id and batch id (Delta Lake, Iceberg), and the query id is "
        "new",
        applies=_when(lambda c: c.same and c.kind.has_place and not (c.kind.has_log or c.kind.ignores_query)),
        tests=_FROM_0,
    ),
)
