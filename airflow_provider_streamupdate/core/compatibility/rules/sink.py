"""The rules for a query's sink and output mode. A query has one sink, identified by the query's name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from ...plan.plan import JVM_ZONE, TIME_ZONE, QueryPlan, SinkPlan
from ...plan.spark_types import ddl, widens
from ..report import CARRIED, LOSS, REFUSED, Verdict
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

    def mode(self, old: str, new: str) -> bool:
        return self.stateful and (self.old.output_mode, self.new.output_mode) == (old, new)


Predicate = Callable[[SinkChange], Facts | None]


def _mode(old: str, new: str, only: bool | None = None) -> Predicate:
    """A predicate for one change of the output mode; `only` for queries with (True) or without watermarks."""

    def applies(c: SinkChange) -> Facts | None:
        if not c.mode(old, new) or (only is not None and bool(c.old.watermarks) != only):
            return None
        return {"old": old, "new": new}

    return applies


def _stateless_mode(c: SinkChange) -> Facts | None:
    return None if c.stateful else differ(c.old.output_mode, c.new.output_mode)


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
    if _format(c) or _to_files(c):
        return None
    return differ(c.old.sink.partitioned_by, c.new.sink.partitioned_by)


def _file_options(c: SinkChange) -> Facts | None:
    if not kind_of(c.new.sink.format).has_log or _format(c) or _to_files(c):
        return None
    old, new = written(c.old.sink), written(c.new.sink)
    names = {k for k in {*old, *new} if old.get(k) != new.get(k)}
    if _session_s_zone(c.old) == _session_s_zone(c.new):
        names.discard(ZONE)  # the option has the session's value
    return {"names": ", ".join(sorted(names))} if names else None


def _session_s_zone(query: QueryPlan) -> str | None:
    """The zone by which a file sink writes times, except those written by Java's zone."""
    return query.sink.options.get(ZONE, query.conf.get(TIME_ZONE))


# Formats that have times as texts; and ORC, which has the time of day of Java's default zone (OrcSerializer).
_TEXTS, _BY_JAVA_S_ZONE = ("csv", "json", "xml"), "orc"
_OF_NO_ZONE = "timestamp_ntz"
_QUOTED = re.compile("'[^']*'")
_SAYS_ITS_ZONE = re.compile("[VzOXxZ]")  # java.time.format.DateTimeFormatter: zones and offsets


def _zone(c: SinkChange) -> Facts | None:
    """The facts when times that are written without a zone are written by another zone than before."""
    if c.old.sink.columns is None or c.new.sink.columns is None or _format(c) or _to_files(c):
        return None
    zones = (_session_s_zone(c.old), _session_s_zone(c.new))
    if None not in zones and zones[0] != zones[1] and (what := _without_zone(c.new.sink)):
        return {"old": zones[0], "new": zones[1], "what": what, "which": "the session's zone or the option timeZone"}
    zones = (c.old.conf.get(JVM_ZONE), c.new.conf.get(JVM_ZONE))
    if None not in zones and zones[0] != zones[1] and (what := _by_java(c.new.sink)):
        return {"old": zones[0], "new": zones[1], "what": what, "which": "Java's zone: TZ or -Duser.timezone"}
    return None


def _without_zone(sink: SinkPlan) -> str:
    """The columns of a sink whose times are written as texts that do not say their zone."""
    folders, inside = _columns_of(sink)
    given = _QUOTED.sub("", sink.options.get("timestampformat", "XXX"))
    as_texts = short_format(sink.format) in _TEXTS and not _SAYS_ITS_ZONE.search(given)
    found = [*folders, *(inside if as_texts else ())]
    return ", ".join(name for name, kind in found if any(t != _OF_NO_ZONE for t in _times(kind)))


def _by_java(sink: SinkPlan) -> str:
    inside = _columns_of(sink)[1] if short_format(sink.format) == _BY_JAVA_S_ZONE else []
    return ", ".join(name for name, kind in inside if any(_times(kind)))


def _columns_of(sink: SinkPlan) -> tuple[list[tuple[str, Any]], list[tuple[str, Any]]]:
    """The columns that name folders, and the columns that are in files."""
    columns, names = sink.columns or (), sink.partitioned_by
    return [c for c in columns if c[0] in names], [c for c in columns if c[0] not in names]


def _times(kind: Any) -> Iterator[str]:
    """The timestamps in a type (as JSON)."""
    if isinstance(kind, dict):
        parts = [kind.get(part) for part in ("elementType", "keyType", "valueType", "sqlType")]
        for inner in (*parts, *(field["type"] for field in kind.get("fields") or ())):
            yield from _times(inner)
    elif str(kind).startswith("timestamp"):
        yield str(kind)


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
    if old.columns is None or new.columns is None or _format(c) or _to_files(c):
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
    if _format(c) or _to_files(c):
        return None
    old, new = c.old.sink.options, c.new.sink.options
    names = sorted(k for k in {*old, *new} - {"path"} if old.get(k) != new.get(k))
    return {"names": ", ".join(names)} if names else None


_SinkRule = Rule[SinkChange]


def _mode_rule(id: str, verdict: Verdict, change: str, reason: str, applies: Predicate, test: str) -> Rule[SinkChange]:
    return _SinkRule(
        id=id,
        verdict=verdict,
        change=change,
        reason="output mode changed from {old} to {new}: " + reason,
        source="StateStoreSaveExec.doExecute: what each mode emits and removes",
        tests=(f"spark/test_modes.py::{test}",),
        applies=applies,
    )


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
        reason="if this update is rolled back, the running version receives batch ids that the new one has used, and "
        "a {format} function that skips ids it has seen keeps the new version's rows. Declare what it does, "
        "@app.query(..., seen_batch='skips', 'replaces', 'upserts' or 'adds'), and agree until a version that declares "
        "it runs",
        source="foreachBatch is given the batch id to detect repeats (Structured Streaming guide); a rollback "
        "continues from the older version's own checkpoint, with its next batch id",
        tests=(
            "spark/test_batch_id.py::test_a_function_that_uses_the_id_and_does_not_say_how_is_agreed_to",
            "spark/test_batch_id.py::test_after_a_rollback_every_kind_of_function_has_every_row",
        ),
        applies=_batch_again,
    ),
    _SinkRule(
        id="sink.mode-stateless",
        verdict=CARRIED,
        change="another output mode of a query without state, or whose state only remembers which rows came "
        "(deduplications, inner joins)",
        reason="output mode changed from {old} to {new}: every stage emits the same rows in both",
        source="without an aggregation or a state function, every mode emits each row once (StreamingDeduplicateExec "
        "and StreamingSymmetricHashJoinExec have no output mode)",
        tests=("core/test_rules.py::test_the_example_of_a_rule",),
        applies=_stateless_mode,
    ),
    _mode_rule(
        "sink.update-to-complete",
        CARRIED,
        "early results to complete ones, without a watermark",
        "nothing was removed from the state, so it holds the whole result",
        _mode("update", "complete", False),
        "test_update_to_complete_and_back",
    ),
    _mode_rule(
        "sink.update-to-complete-evicted",
        LOSS,
        "early results to complete ones, with a watermark",
        "groups that the watermark has closed have left the state and are missing from the result",
        _mode("update", "complete", True),
        "test_complete_after_groups_have_left_the_state_misses_them",
    ),
    _mode_rule(
        "sink.complete-to-update",
        CARRIED,
        "complete results to changed ones only",
        "the sink has received every group, and receives those that change from now on",
        _mode("complete", "update"),
        "test_update_to_complete_and_back",
    ),
    _mode_rule(
        "sink.update-to-append",
        LOSS,
        "early results off (update to append)",
        "open groups that the sink has received as early results are emitted again when they close",
        _mode("update", "append"),
        "test_update_to_append_emits_open_groups_again_when_they_close",
    ),
    _mode_rule(
        "sink.append-to-update",
        LOSS,
        "early results on (append to update)",
        "open groups that get no further row are never emitted",
        _mode("append", "update"),
        "test_append_to_update_never_emits_what_gets_no_further_row",
    ),
    _mode_rule(
        "sink.append-to-complete",
        LOSS,
        "append to complete",
        "closed groups have left the state and are missing from the result",
        _mode("append", "complete"),
        "test_complete_after_groups_have_left_the_state_misses_them",
    ),
    _mode_rule(
        "sink.complete-to-append",
        LOSS,
        "complete to append",
        "every group that closed before is emitted again, because complete mode has kept them all",
        _mode("complete", "append"),
        "test_complete_to_append_emits_every_closed_group_again",
    ),
)
