"""The rules for a query's sink and output mode. A query has one sink, identified by the query's name."""

from __future__ import annotations

import re
from typing import Any

import attrs

from ...plan.plan import JVM_ZONE, TIME_ZONE, QueryPlan, SinkPlan
from ...plan.spark_types import ddl, widens
from ..verdict import CARRIED, LOSS, REFUSED
from .rule import Facts, Rule, differ
from .sinks import is_function, kind_of
from .sources.source_options import ALIASES, FORMATS, ZONE, folder, form, short_format

BATCH_AGAIN = "sink.batch-again"
_GUIDE = "Structured Streaming guide, Recovery semantics after changes in a streaming query"
_BATCH_IDS = "batch ids continue"
# Stages that emit a row once, in append mode and in update mode alike (Spark has outer joins in append mode only).
_ONE_WAY = ("deduplicate", "deduplicate-within-watermark", "join")
# Options of a file sink that say nothing of how its files are read.
_UNREAD = frozenset(
    {"compression", "codec", "checkpointlocation", "retention", "maxrecordsperfile", "path", "ignorenullfields"}
)
_UNREAD_OF = ("parquet.", "orc.")


@attrs.frozen(kw_only=True)
class SinkChange:
    """The query before and after: its sink, its output mode, and whether it has state. fork: the new one runs beside
    the old one, so no rollback starts the old one again in its place."""

    old: QueryPlan
    new: QueryPlan
    fork: bool = False

    @property
    def stateful(self) -> bool:
        """Whether what it emits depends on the output mode."""
        return all(any(s.kind not in _ONE_WAY for s in query.stages) for query in (self.old, self.new))

    @property
    def same_place(self) -> bool:
        """True when it writes in the same format to the same place."""
        return _format(self) is None and _to_files(self) is None


# What a change of the output mode does to a query whose results depend on it: old and new mode -> the effect.
_MODES = {
    ("update", "complete"): "groups that the watermark has closed have left the state and are missing from the result",
    ("update", "append"): "open groups that the sink has received as early results are emitted again when they close",
    ("append", "update"): "open groups that get no further row are never emitted",
    ("append", "complete"): "closed groups have left the state and are missing from the result",
    ("complete", "append"): "every group that closed before is emitted again, because complete mode has kept them all",
}


def _mode(c: SinkChange) -> Facts | None:
    facts = differ(c.old.output_mode, c.new.output_mode)
    if facts is None or _harmless_mode(c):
        return None
    return {**facts, "effect": _MODES.get((c.old.output_mode, c.new.output_mode), "what this does is unknown")}


def _harmless_mode(c: SinkChange) -> Facts | None:
    """The facts when each row is emitted once in both modes, or the state and the sink have the whole result."""
    modes = (c.old.output_mode, c.new.output_mode)
    whole = modes == ("complete", "update") or (modes == ("update", "complete") and not c.old.watermarks)
    return differ(*modes) if whole or not c.stateful else None


def _batch_again(c: SinkChange) -> Facts | None:
    if c.fork or c.old.sink.seen_batch is not None or not (is_function(c.old) and is_function(c.new)):
        return None
    return {"format": c.old.sink.format}


def _format(c: SinkChange) -> Facts | None:
    if _known_by(c.old.sink.format) == _known_by(c.new.sink.format):
        return None
    return {"old": c.old.sink.format, "new": c.new.sink.format}


def _known_by(format: str) -> str:
    """One short name for each format of Spark's; an unknown format keeps its name."""
    short = short_format(format)
    return short if short in FORMATS else format


def _to_files(c: SinkChange) -> Facts | None:
    """The facts when a file sink is new, or writes to another folder."""
    if not kind_of(c.new.sink.format).has_log:
        return None
    sinks = (c.old.sink, c.new.sink)
    known = all(sink.location for sink in sinks)
    before, after = (
        (short_format(sink.format), folder(str((sink.location if known else sink.path) or ""))) for sink in sinks
    )
    old, new = (f"{sink.format} {sink.path or ''}".strip() for sink in sinks)
    return None if before == after else {"old": old, "new": new}


def _layout(c: SinkChange) -> Facts | None:
    return differ(c.old.sink.partitioned_by, c.new.sink.partitioned_by) if c.same_place else None


def _file_options(c: SinkChange) -> Facts | None:
    if not kind_of(c.new.sink.format).has_log or not c.same_place:
        return None
    old, new = written(c.old.sink), written(c.new.sink)
    names = {k for k in {*old, *new} if old.get(k) != new.get(k)}
    if _session_s_zone(c.old) == _session_s_zone(c.new):
        names.discard(ZONE)  # the option has the session's value
    return {"names": ", ".join(sorted(names))} if names else None


def _session_s_zone(query: QueryPlan) -> str | None:
    """The zone by which a file sink writes times, except those written by Java's zone."""
    return query.sink.options.get(ZONE, query.conf.get(TIME_ZONE))


_TIMES = re.compile(r"\b(timestamp|timestamp_ntz)\b(?!:)")  # in a type in words; not a field of this name
_OFFSET = re.compile("[VzOXxZ]")  # java.time.format.DateTimeFormatter: zones and offsets


def _zone(c: SinkChange) -> Facts | None:
    """The facts when times that are written without a zone are written by another zone than before."""
    if c.old.sink.columns is None or c.new.sink.columns is None or not c.same_place:
        return None
    for old, new, which, java in (
        (_session_s_zone(c.old), _session_s_zone(c.new), "the session's zone or the option timeZone", False),
        (c.old.conf.get(JVM_ZONE), c.new.conf.get(JVM_ZONE), "Java's zone: TZ or -Duser.timezone", True),
    ):
        if None not in (old, new) and old != new and (what := _without_zone(c.new.sink, java)):
            return {"old": old, "new": new, "what": what, "which": which}
    return None


def _without_zone(sink: SinkPlan, java: bool) -> str:
    """The columns with times without a zone: in folders' names and texts, or (Java's) in ORC."""
    written_by = re.sub("'[^']*'", "", sink.options.get("timestampformat", "XXX"))
    inside = ("orc",) if java else ("csv", "json", "xml") if not _OFFSET.search(written_by) else ()
    found = []
    for name, kind in sink.columns or ():
        has_times = any(java or time == "timestamp" for time in _TIMES.findall(ddl(kind)))
        if has_times and (short_format(sink.format) in inside if name not in sink.partitioned_by else not java):
            found.append(name)
    return ", ".join(found)


# What an option for writing is when it is not given (CSVOptions).
WRITTEN = {
    "csv": {"header": "false", "sep": ",", "quote": '"', "escape": "\\", "quoteall": "false", "escapequotes": "true",
            "nullvalue": "", "emptyvalue": '""', "encoding": "utf-8", "ignoreleadingwhitespace": "true",
            "ignoretrailingwhitespace": "true"},
}  # fmt: skip


def written(sink: SinkPlan) -> dict[str, str]:
    """The options by which files are written and must be read, except those that have their default."""
    found, defaults = {}, WRITTEN.get(short_format(sink.format), {})
    for name, value in sink.options.items():
        option = ALIASES.get(name, name)
        unread = option in _UNREAD or option.startswith(_UNREAD_OF)
        if not unread and not (option != name and option in sink.options):
            found[option] = form(option, value)
    return {k: v for k, v in found.items() if k not in defaults or form(k, defaults[k]) != v}


# Formats whose files have their columns by place, without names.
_BY_PLACE = ("csv", "text")


def _columns(c: SinkChange) -> Facts | None:
    """The facts when a reader of the folder would find columns at another place, or of an unexpected type."""
    old, new = c.old.sink, c.new.sink
    if old.columns is None or new.columns is None or not c.same_place:
        return None
    before, after = (dict(sink.columns or ()) for sink in (old, new))
    types = {n: (before[n], after[n]) for n in before if n in after and not _reads(before[n], after[n])}
    changes = [f"{n} from {ddl(a)} to {ddl(b)}" for n, (a, b) in types.items()]
    if short_format(new.format) in _BY_PLACE:
        places, now = ([n for n in sink.columns or () if n[0] not in sink.partitioned_by] for sink in (old, new))
        names = [[name for name, _ in columns] for columns in (places, now)]
        if names[1][: len(names[0])] != names[0]:
            changes.insert(0, f"the order from {', '.join(names[0])} to {', '.join(names[1])}")
    return {"changes": "; ".join(changes)} if changes else None


def _reads(old: Any, new: Any) -> bool:
    """Whether values of the old type and of the new one are read as the new one."""
    nested = isinstance(old, dict) or isinstance(new, dict)
    return ddl(old) == ddl(new) or (not nested and widens(old, new))


def _options(c: SinkChange) -> Facts | None:
    if not c.same_place:
        return None
    old, new = c.old.sink.options, c.new.sink.options
    names = sorted(k for k in {*old, *new} - {"path"} if old.get(k) != new.get(k))
    return {"names": ", ".join(names)} if names else None


_SinkRule = Rule[SinkChange]

SINK_RULES: tuple[Rule[SinkChange], ...] = (
    _SinkRule(
        id="sink.same",
        verdict=CARRIED,
        change="nothing",
        reason="same sink {format}: " + _BATCH_IDS,
        source="the batch id comes from the offset log",
        tests=("spark/test_restore_by_name.py::test_an_unchanged_stage_keeps_its_state",),
        applies=lambda c: (
            {"format": c.new.sink.format} if _format(c) is None and c.old.output_mode == c.new.output_mode else None
        ),
    ),
    _SinkRule(
        id="sink.format",
        verdict=LOSS,
        change="another format of the sink",
        reason="format changed from {old} to {new}: the new sink receives only results from now on; " + _BATCH_IDS,
        source=_GUIDE,
        tests=("spark/test_ends.py::test_another_kind_of_sink_gets_what_comes_from_now_on",),
        applies=lambda c: _format(c) if _to_files(c) is None else None,
    ),
    _SinkRule(
        id="sink.files",
        verdict=REFUSED,
        change="a file sink that is new or moves to another folder while the query continues",
        reason="sink changed from {old} to {new}: the log of a file sink cannot begin in the middle of a query. Write "
        "with foreachBatch, or make it a new query",
        source=_GUIDE + ": not allowed; CompactibleFileStreamLog.compact needs the entries of all batches before",
        tests=("spark/test_ends.py::test_a_file_sink_that_begins_in_the_middle_fails_alone_and_is_refused",),
        applies=_to_files,
    ),
    _SinkRule(
        id="sink.options",
        verdict=CARRIED,
        change="other options of the sink (topic, servers, table ...)",
        reason="options {names} changed: the new values apply from now on; " + _BATCH_IDS,
        source=_GUIDE,
        tests=("spark/test_ends.py::test_a_file_sink_with_other_options_goes_on",),
        applies=_options,
    ),
    _SinkRule(
        id="sink.file-options",
        verdict=LOSS,
        change="options that decide how the files of a file sink are written and must be read (`header`, `sep`, "
        "`dateFormat` ...); not their compression",
        reason="options {names} of the files changed: old and new files are in one folder, and no single set of "
        "options reads both",
        source="CSVOptions, JSONOptions: a reader has one set of options for all files of a folder",
        tests=("spark/test_ends.py::test_a_file_sink_whose_files_are_written_otherwise_is_agreed_to",),
        applies=_file_options,
    ),
    _SinkRule(
        id="sink.columns",
        verdict=LOSS,
        change="columns of a file sink with another type (a wider number does not count); for csv and text, whose "
        "files have no column names, also another order or other names. More columns at the end do not count",
        reason="columns of the files changed: {changes}; old and new files are in one folder, and no single schema "
        "reads both",
        source="UnivocityGenerator writes values by position; a reader has one schema for all files of a folder; "
        "measured",
        tests=(
            "spark/test_sink_columns.py::test_columns_of_csv_files_in_another_order",
            "core/test_sinks.py::test_columns_of_files",
        ),
        applies=_columns,
    ),
    _SinkRule(
        id="sink.zone",
        verdict=LOSS,
        change="another time zone by which a file sink writes times without their zone (also in a query without "
        "state): the session's zone (or the option `timeZone`) for a timestamp in `partitionBy`, and for csv, json "
        "and xml with a `timestampFormat` without a zone; Java's zone for ORC",
        reason="times in the files ({what}) were written in the zone {old}, and will be written in {new} ({which}). "
        "Old and new files are in one folder, and no single zone reads both: keep the zone, or write to a new folder "
        "with a timestampFormat that has one",
        source="FileFormatWriter: the zone of partitions' names; TimestampFormatter; OrcSerializer makes a "
        "java.sql.Timestamp; measured",
        tests=(
            "spark/test_sink_zone.py::test_times_without_a_zone_are_written_by_the_session_s",
            "spark/test_sink_zone.py::test_orc_is_written_by_java_s",
            "core/test_sinks.py::test_a_zone_counts_where_times_do_not_say_theirs",
        ),
        applies=_zone,
    ),
    _SinkRule(
        id="sink.layout",
        verdict=LOSS,
        change="other columns by which the sink's files are partitioned (`partitionBy`)",
        reason="partition columns changed from {old} to {new}: old data in the same folder or table is laid out "
        "differently, and reading both together may fail",
        source="PartitioningUtils.parsePartitions: conflicting partition column names; measured",
        tests=("spark/test_ends.py::test_a_file_sink_whose_files_lie_otherwise_is_agreed_to",),
        applies=_layout,
    ),
    _SinkRule(
        id=BATCH_AGAIN,
        verdict=LOSS,
        change="any change of a query whose function (`foreachBatch`) uses the batch id, when the running version "
        "does not declare what it does with an id that it has seen",
        reason="after a rollback the running version gets batch ids that the new one has used: a {format} function "
        "that skips ids keeps the new version's rows. Declare what it does, seen_batch='skips', 'replaces', "
        "'upserts' or 'adds' (a script: --seen-batch), and agree until it runs",
        source="foreachBatch is given the batch id to detect repeats (Structured Streaming guide); a rollback "
        "continues from the older version's own checkpoint, with its next batch id",
        tests=(
            "spark/test_batch_id.py::test_a_function_that_uses_the_id_and_does_not_say_how_is_agreed_to",
            "spark/test_batch_id.py::test_after_a_rollback_every_kind_of_function_has_every_row",
        ),
        applies=_batch_again,
    ),
    _SinkRule(
        id="sink.mode-harmless",
        verdict=CARRIED,
        change="another output mode where nothing is emitted twice or missing: of a query without state, or whose "
        "stages emit each row once; complete to update; update to complete without a watermark",
        reason="output mode changed from {old} to {new}: each row is emitted once in both, or nothing has left the "
        "state, so that it and the sink have the whole result",
        source="StateStoreSaveExec.doExecute: what each mode emits and removes; StreamingDeduplicateExec and "
        "StreamingSymmetricHashJoinExec have no output mode",
        tests=("spark/test_modes.py::test_update_to_complete_and_back",),
        applies=_harmless_mode,
    ),
    _SinkRule(
        id="sink.mode",
        verdict=LOSS,
        change="another output mode: early results on or off (append, update), all results (complete)",
        reason="output mode changed from {old} to {new}: {effect}",
        source="StateStoreSaveExec.doExecute: what each mode emits and removes",
        tests=(
            "spark/test_modes.py::test_complete_after_groups_have_left_the_state_misses_them",
            "spark/test_modes.py::test_update_to_append_emits_open_groups_again_when_they_close",
            "spark/test_modes.py::test_append_to_update_never_emits_what_gets_no_further_row",
            "spark/test_modes.py::test_complete_to_append_emits_every_closed_group_again",
        ),
        applies=_mode,
    ),
)
