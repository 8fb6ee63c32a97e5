"""The check, before an update stops anything, that tables still have the rows that come next."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql.streaming import DataStreamWriter

from ...core.checkpoint.offset_log import OffsetEntry
from ...core.checkpoint.snapshot import QuerySnapshot
from ...core.compatibility.compatibility import report_item
from ...core.compatibility.rules import judge
from ...core.compatibility.rules.sources.next_input import ASKED, INPUT_RULES, NextInput, askable
from ...core.compatibility.rules.sources.source_options import short_format
from ...core.compatibility.verdict import ReportItem
from ...core.plan.plan import QueryPlan
from ...core.snapshots.restore import NO_OFFSET
from ...core.storage import Folder
from .. import spark_internals

SUFFIX = ":next"  # of a source's name, in a report


def judge_next_input(
    query: QueryPlan, writer: DataStreamWriter, checkpoint: Folder, snapshot: QuerySnapshot | None
) -> Iterator[ReportItem]:
    """Yield a report item for each table that does not give its next rows.

    checkpoint: a scratch folder, with the logs of the new version's checkpoint
    snapshot: the state to continue from; None: the query is new, so that each table is asked for its first rows
    """
    sources = [source for source in query.sources if short_format(source.format) in ASKED]
    start, place = _last_batch(query, checkpoint, snapshot) if sources else ({}, {})
    in_flight = snapshot is not None and snapshot.in_flight is not None
    names = list(dict.fromkeys(query.source_order))
    for source in sources:
        name, problem = source.name, None
        if askable(source):
            offsets = spark_internals.SourceOffsets(start=start.get(name), place=place.get(name), in_flight=in_flight)
            folder = f"{checkpoint.uri}/sources/{name if source.native else names.index(name)}"
            frame, line = spark_internals.writer_frame(writer), query.source_order.index(name)
            problem = spark_internals.next_input_problem(frame, line, offsets, folder)
        answer = NextInput(source=source, problem=problem)
        if findings := judge(INPUT_RULES, answer):
            yield report_item("source", f"{query.name}/{name}{SUFFIX}", findings)


def _last_batch(
    query: QueryPlan, checkpoint: Folder, snapshot: QuerySnapshot | None
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the offsets by source before and after the last logged batch. Sources without one are missing."""
    if snapshot is None:
        return {}, {}
    last = snapshot.batch if snapshot.in_flight is None else snapshot.in_flight
    return _offsets(query, checkpoint, last - 1), _offsets(query, checkpoint, last)


def _offsets(query: QueryPlan, checkpoint: Folder, batch: int) -> dict[str, str]:
    data = checkpoint.read(path := f"offsets/{batch}")
    if not data:  # there is none before the first one
        return {}
    entry = OffsetEntry.parse(data, checkpoint.path(path))
    lines = zip(entry.names or query.source_order, entry.sources, strict=False)
    return {name: offset for name, offset in lines if offset != NO_OFFSET}
