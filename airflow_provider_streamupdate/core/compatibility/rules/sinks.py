"""The kinds of sinks, and what each does with the ids of batches."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from ...plan.plan import SKIPS, QueryPlan
from .sources.source_options import FILES, short_format


@attrs.frozen(kw_only=True)
class SinkKind:
    """A kind of sink. The defaults are those of a format that is not known."""

    formats: tuple[str, ...] = ()
    skips_ids: bool = False  # it skips a batch id that it has had, mostly without computing the batch
    has_log: bool = False  # the log in its folder tells the last batch id (FileStreamSinkLog)
    ignores_query: bool = False  # it compares batch ids without the query's id
    forgets: bool = False  # in a new driver it knows of no batch
    has_place: bool = True  # its options say where it writes
    is_function: bool = False  # the app's own code writes
    must_compute: bool = (
        False  # each batch (MicroBatchExecution.setupStateStoreCommitTracking), or Spark ends the query
    )
    made_early: bool = False  # strategy follow makes it before the takeover: making it has no effect


# Files: FileStreamSink.addBatch. Tables compare the query's id and the batch's with their own log: DeltaSink.addBatch,
# Iceberg's SparkWrite.BaseStreamingWrite.commit; Hudi by the batch's alone: HoodieStreamingSink.canSkipBatch.
KINDS = (
    SinkKind(formats=FILES, skips_ids=True, has_log=True, made_early=True),
    SinkKind(formats=("delta",), skips_ids=True, made_early=True),
    SinkKind(formats=("iceberg",), skips_ids=True),
    SinkKind(formats=("hudi",), skips_ids=True, ignores_query=True),
    SinkKind(formats=("kafka",), forgets=True, made_early=True),
    SinkKind(formats=("noop", "console"), forgets=True, has_place=False, made_early=True),
    SinkKind(formats=("memory",), forgets=True, has_place=False),  # its rows are gone with the driver
    SinkKind(formats=("foreachbatch",), has_place=False, is_function=True, must_compute=True, made_early=True),
    SinkKind(formats=("foreach",), has_place=False, is_function=True, made_early=True),
)
_BY_FORMAT = {name: kind for kind in KINDS for name in kind.formats}
_UNKNOWN = SinkKind()


def kind_of(sink_format: str) -> SinkKind:
    """Return the kind of the sinks of a format."""
    return _BY_FORMAT.get(short_format(sink_format), _UNKNOWN)


def is_function(query: QueryPlan) -> bool:
    """Return whether the app's own code writes what the query makes."""
    return kind_of(query.sink.format).is_function


def declares_skips(query: QueryPlan) -> bool:
    """Return whether the query's sink is a function that is declared to skip batch ids it has had."""
    return is_function(query) and query.sink.seen_batch == SKIPS


def same_sink(new: QueryPlan, others: Iterable[QueryPlan]) -> bool:
    """Return whether one of the others writes with the same format and options."""
    sink = (short_format(new.sink.format), new.sink.options)
    return any((short_format(other.sink.format), other.sink.options) == sink for other in others)
