"""The rules for a fork: a deployment that starts from another one's state, with its own query ids, and may run beside
it."""

from __future__ import annotations

import attrs

from ...plan.plan import QueryPlan
from ..report import CARRIED, LOSS, REFUSED
from .rule import Facts, Rule
from .sinks import is_function, kind_of, same_sink

_TWICE = (
    "both write the rows of batches after the snapshot, and a sink that detects repeats by query id and batch id (a "
    "Delta table's txn) accepts both"
)


@attrs.frozen(kw_only=True)
class ForkChange:
    """A query of the fork, and the queries it may meet: that of the snapshot, and those its app runs now."""

    new: QueryPlan
    others: tuple[QueryPlan, ...]


def _files(c: ForkChange) -> Facts | None:
    return {"path": c.new.sink.options.get("path")} if kind_of(c.new.sink.format).has_log else None


def _place(c: ForkChange) -> Facts | None:
    kind = kind_of(c.new.sink.format)
    if kind.has_log or not kind.has_place or not same_sink(c.new, c.others):
        return None
    return {"format": c.new.sink.format, "options": c.new.sink.options}


def _function(c: ForkChange) -> Facts | None:
    return {"format": c.new.sink.format} if is_function(c.new) else None


def _cleaned(c: ForkChange) -> Facts | None:
    read = {s.location for o in c.others for s in o.sources}
    names = [
        s.name for s in c.new.sources if s.location in read and s.options.get("cleansource", "off").lower() != "off"
    ]
    return {"names": names} if names else None


FORK_RULES: tuple[Rule[ForkChange], ...] = (
    Rule[ForkChange](
        id="fork.identity",
        verdict=CARRIED,
        change="a fork",
        reason="forked: state, offsets, watermark and batch ids continue, under a new query id",
        source="StreamMetadata: the query id is in the checkpoint's metadata file",
        applies=lambda c: {},
        tests=("spark/test_fork.py::test_a_fork_and_its_original_go_on_side_by_side",),
    ),
    Rule[ForkChange](
        id="fork.files",
        verdict=REFUSED,
        change="a fork with a file sink",
        reason="the log of a file sink ({path}) identifies batches by id alone: in the forked query's folder, one of "
        "two batches with the same id would be lost; in another folder, the log cannot begin in the middle. Write "
        "with foreachBatch, or start without state",
        source="FileStreamSink.addBatch skips a batch id that its log has; CompactibleFileStreamLog.compact needs the "
        "entries of all earlier batches",
        applies=_files,
        tests=("core/test_rows_again.py::test_a_fork_s_sink",),
    ),
    Rule[ForkChange](
        id="fork.place",
        verdict=LOSS,
        change="a fork that writes to the same place as the forked query, or as its app's current deployment",
        reason="it writes to the same place ({format} {options}): " + _TWICE,
        source="exactly-once sinks compare query id and batch id",
        applies=_place,
        tests=(
            "core/test_rows_again.py::test_a_fork_s_sink",
            "core/test_rows_again.py::test_what_the_forked_app_writes_to_now_counts_as_well",
        ),
    ),
    Rule[ForkChange](
        id="fork.function",
        verdict=LOSS,
        change="a fork whose sink is a function",
        reason="where the {format} function writes is unknown; if it is the same place, " + _TWICE,
        source="foreachBatch is given the batch id, not the query id",
        applies=_function,
        tests=("core/test_rows_again.py::test_a_fork_s_sink",),
    ),
    Rule[ForkChange](
        id="fork.cleaned",
        verdict=LOSS,
        change="a fork that reads the same files, and removes them after reading (cleanSource)",
        reason="source {names} removes or moves files after reading them, maybe before the other query has read them",
        source="FileStreamSource: cleanSource",
        applies=_cleaned,
        tests=("core/test_rules.py::test_the_example_of_a_rule",),
    ),
)
