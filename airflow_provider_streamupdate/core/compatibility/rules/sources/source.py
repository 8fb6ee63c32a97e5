"""The rules for a query's sources. Named ones are matched by name. Unnamed ones are matched by position, and only while
no position can have changed."""

from __future__ import annotations

import attrs

from ....plan.plan import UNKNOWN, SourcePlan
from ....redaction import redacted
from ...verdict import CARRIED, EMPTY, IGNORED, LOSS, REFUSED, rename_way
from ..rule import Facts, Rule, differ
from .source_options import (
    OF_THE_SESSION,
    choosy,
    corrupt_column,
    known_format,
    meaning,
    place,
    positional,
    reads_the_same,
    same_place,
    servers,
    short_format,
    start,
    strict,
)

_SUPPORTED_GUIDE = "Structured Streaming guide, Recovery semantics after changes in a streaming query"


@attrs.frozen(kw_only=True)
class SourceChange:
    """A source before and after. `alone`: both plans have only this one, so it needs no name. `stateful`: the query has
    state before and after, so old and new rows meet. `others`: the new plan's other sources."""

    old: SourcePlan
    new: SourcePlan
    alone: bool = False
    stateful: bool = True
    others: tuple[SourcePlan, ...] = ()

    @property
    def options(self) -> list[str]:
        """The changed options among those that decide what the rows are."""
        old, new = meaning(self.old), meaning(self.new)
        given, now = self.old.options, self.new.options
        alike = {k for k in OF_THE_SESSION if k in given and given[k] == now.get(k)}  # whatever the session says
        return sorted(k for k in {*old, *new} - alike if old.get(k) != new.get(k))


def _shown_options(c: SourceChange) -> list[str]:
    old, new = meaning(c.old), meaning(c.new)

    def setting_text(values: dict[str, str], name: str) -> str:
        return repr(redacted(values)[name]) if name in values else "its default"

    return [f"{k} from {setting_text(old, k)} to {setting_text(new, k)}" for k in c.options]


def _same_format(c: SourceChange) -> bool:
    return short_format(c.old.format) == short_format(c.new.format)


def _position(c: SourceChange) -> Facts | None:
    """An unnamed source among others is identified by its position alone, so it must read the same place."""
    if c.alone or (c.old.named and c.new.named):
        return None
    same = _same_format(c) and same_place(c.old, c.new)
    if not place(c.new):  # known by its options
        same = same and meaning(c.old) == meaning(c.new)
    return None if same else {"old": _shown(c.old), "new": _shown(c.new)}


def _twins(c: SourceChange) -> Facts | None:
    """Two unnamed sources that have no place and the same options, such as two of the rate source."""
    if c.new.named or place(c.new):
        return None
    twins = [s.name for s in c.others if not s.named and (s.format, meaning(s)) == (c.new.format, meaning(c.new))]
    return {"others": ", ".join(twins), "format": c.new.format} if twins else None


def _shown(source: SourcePlan) -> str:
    return " ".join(filter(None, (source.format, source.location)))


def _position_free(c: SourceChange) -> bool:
    return _position(c) is None and _same_format(c)


def _other_place(c: SourceChange) -> Facts | None:
    if not _position_free(c) or same_place(c.old, c.new):
        return None
    old, new = place(c.old), place(c.new)
    changed = sorted(k for k in {*old, *new} if old.get(k) != new.get(k))
    if changed == ["path"]:
        return {"old": old.get("path"), "new": new.get("path")}
    return {"old": {k: old[k] for k in changed if k in old}, "new": {k: new[k] for k in changed if k in new}}


def _naming(c: SourceChange) -> Facts | None:
    return differ(_by(c.old), _by(c.new))


def _by(source: SourcePlan) -> str:
    return "name()" if source.native else "source(), or not at all"


def _start(c: SourceChange) -> Facts | None:
    return differ(start(c.old), start(c.new))


def _options(c: SourceChange) -> Facts | None:
    if not c.options or not _position_free(c):
        return None
    unknown = "" if known_format(c.new) else f"; what they mean to {c.new.format} is unknown"
    return {"options": _shown_options(c), "unknown": unknown}


def _moved(c: SourceChange) -> str | None:
    """The first column whose name changed at its position. More or fewer columns at the end are no rename."""
    pairs = zip(c.old.order, c.new.order, strict=False)
    found = next(((i, old, new) for i, (old, new) in enumerate(pairs, 1) if old != new), None)
    return f"column {found[0]} was {found[1]} and is {found[2]}" if found and c.stateful else None


def _columns(c: SourceChange) -> Facts | None:
    known = known_format(c.new) and (positional(c.old) or positional(c.new))
    moved = _moved(c) if known and _same_format(c) else None
    return {"moved": moved, "format": short_format(c.new.format)} if moved else None


def _columns_unknown(c: SourceChange) -> Facts | None:
    if known_format(c.new) or not _same_format(c) or not (moved := _moved(c)):
        return None
    return {"moved": moved, "format": c.new.format}


def _malformed(c: SourceChange) -> Facts | None:
    """Compare the types of all columns where malformed records are dropped, or reported in a column: they decide which
    ones are malformed."""
    if not c.stateful or not choosy(c.new):
        return None
    old, new, corrupt = c.old.columns, c.new.columns, corrupt_column(c.new)
    changed = sorted(k for k in {*old, *new} if old.get(k) != new.get(k) and (strict(c.new) or k != corrupt))
    return {"columns": ", ".join(changed)} if changed else None


def _which_are_read(c: SourceChange) -> bool:
    """Return whether it matters which of its columns are read, before or now."""
    if not c.stateful or not choosy(c.new):
        return False
    readings = (*c.old.read, *c.new.read)
    return strict(c.new) or any(corrupt_column(c.new) in columns for columns in readings)


def _read(c: SourceChange) -> Facts | None:
    if not choosy(c.old) or not _which_are_read(c):
        return None
    return differ(*(" and ".join(", ".join(r) or "no column" for r in s.read) for s in (c.old, c.new)))


def _code(c: SourceChange) -> Facts | None:
    unknown = UNKNOWN in (c.old.code, c.new.code)
    return {} if _same_format(c) and (unknown or c.old.code != c.new.code) else None


_SourceRule = Rule[SourceChange]

SOURCE_RULES: tuple[Rule[SourceChange], ...] = (
    _SourceRule(
        id="source.same",
        verdict=CARRIED,
        change="nothing, or only which of its columns are read, rate limits and credentials",
        reason="same {format}: offsets continue",
        source=_SUPPORTED_GUIDE,
        tests=("spark/test_restore_by_name.py::test_an_unchanged_stage_keeps_its_state",),
        applies=lambda c: {"format": c.new.format},
    ),
    _SourceRule(
        id="source.position",
        verdict=REFUSED,
        change="unnamed sources whose format or location changed (two that swapped places are told apart by these)",
        reason="the unnamed source at this position changed from {old} to {new}; name the sources with source() or "
        ".alias() (a rename such as source-1=NAME states which one it was)",
        source="the offset log has a line a source, by position; measured: Spark continues at the other source's "
        "offsets",
        tests=("spark/test_traps.py::test_two_unnamed_sources_that_swap_places",),
        applies=_position,
    ),
    _SourceRule(
        id="source.twins",
        verdict=REFUSED,
        change="unnamed sources with the same format and options, whose format has no place (such as rate)",
        reason="it has no name, and nothing distinguishes it from {others} (format {format}): they may have swapped "
        "places; name them with source() or .alias()",
        source="the offset log has a line a source, by position",
        applies=_twins,
    ),
    _SourceRule(
        id="source.naming",
        verdict=REFUSED,
        change="a source named with Spark's own name() that was not before, or the reverse",
        reason="it was named with {old} and is now named with {new}: Spark writes another kind of offset log for its "
        "own names, and cannot switch; keep the kind it began with",
        source="STREAMING_QUERY_EVOLUTION_ERROR.CANNOT_ENABLE_ON_EXISTING_CHECKPOINT; OffsetMap, OffsetSeq",
        tests=("core/test_compatibility.py::test_spark_s_own_names_are_kept_to_and_kept",),
        applies=_naming,
    ),
    _SourceRule(
        id="source.format",
        verdict=REFUSED,
        change="another format of a source under the same name",
        reason="format changed from {old} to {new}: its offsets are meaningless to the new format; give the source "
        "another name",
        source=_SUPPORTED_GUIDE,
        applies=lambda c: None if _same_format(c) or _position(c) else differ(c.old.format, c.new.format),
    ),
    _SourceRule(
        id="source.place",
        verdict=REFUSED,
        change="another place under the same name: folder, Kafka topics (their order does not count), host and port, "
        "table, query, and every option that names a place in an unknown format",
        reason="location changed from {old} to {new}: its offsets belong to the old one; give the source another name "
        "to start it at its configured offset",
        source=_SUPPORTED_GUIDE + ": generally not allowed, results are unpredictable; measured: on a restart Spark "
        "looks at a folder's last files again, and fails with 'Wrong basePath'",
        tests=("spark/test_source_options.py::test_another_place_is_refused",),
        applies=_other_place,
    ),
    _SourceRule(
        id="source.cluster",
        verdict=LOSS,
        change="other Kafka bootstrap servers",
        reason="bootstrap servers changed from {old} to {new}: agree if they belong to the same cluster, or to one "
        "with the same offsets",
        source="KafkaSourceOffset holds topic, partition and number, and no cluster",
        applies=lambda c: differ(servers(c.old), servers(c.new)),
    ),
    _SourceRule(
        id="source.start",
        verdict=CARRIED,
        change="another starting offset of a source that is carried",
        reason="its starting offset changed, which has no effect: only a new source uses it",
        source="Kafka guide: applies when a new query is started; resuming picks up where the query left off",
        applies=_start,
    ),
    _SourceRule(
        id="source.options",
        verdict=LOSS,
        change="another option of a source that may change rows: how rows are parsed, which files or records are "
        "read, and every option of an unknown format",
        reason="options changed: {options}; the rows so far were read differently from the rows to come{unknown}. "
        "Agree if they mean the same, or in a query without state",
        source="CSVOptions, JSONOptions, XmlOptions, TextOptions, ParquetOptions, OrcOptions and FileStreamOptions of "
        "Spark 4.3; core/compatibility/rules/sources/source_options.py lists what is harmless",
        tests=(
            "spark/test_ends.py::test_rows_are_read_by_other_options_from_now_on",
            "spark/test_source_options.py::test_an_option_that_changes_rows_needs_agreement",
        ),
        applies=_options,
    ),
    _SourceRule(
        id="source.columns",
        verdict=REFUSED,
        change="another name at a position of a schema that is applied by position (csv, text, socket; avro with "
        "positionalFieldMatching): other data under an old name. More columns at the end do not count",
        reason="{moved}, and {format} assigns data to columns by position: a name then means other data than in the "
        "state. Keep the schema's names, and rename after reading (withColumnRenamed)",
        source="UnivocityParser: a token goes to the column of its position; TextFileFormat has one; measured",
        tests=(
            "spark/test_source_options.py::test_swapped_names_of_a_csv_schema_are_refused",
            "spark/test_source_options.py::test_swapped_names_of_a_csv_schema_are_wrong_with_spark_alone",
        ),
        applies=_columns,
    ),
    _SourceRule(
        id="source.columns-unknown",
        verdict=LOSS,
        change="another name at a position of the schema, for a source of unknown format",
        reason="{moved}, and it is unknown whether {format} assigns data to columns by position or by name: agree if "
        "by name",
        source="what is not known to be harmless needs agreement or is refused",
        applies=_columns_unknown,
    ),
    _SourceRule(
        id="source.malformed",
        verdict=LOSS,
        change="other columns or types, more or fewer columns of csv, json or xml, where malformed records are dropped "
        "or fail (option mode), or are reported in a column (`_corrupt_record`)",
        reason="{columns} of the schema changed, and with them which records are malformed: agree if the same records "
        "are dropped or reported as corrupt",
        source="FailureSafeParser: the mode decides what happens to a record that cannot be parsed with the schema; "
        "columnNameOfCorruptRecord",
        tests=("spark/test_source_options.py::test_which_records_are_corrupt_depends_on_all_types",),
        applies=_malformed,
    ),
    _SourceRule(
        id="source.read",
        verdict=LOSS,
        change="a query that reads other columns of csv, json or xml, where malformed records are dropped or fail "
        "(option mode), or are reported in a column that is read (`_corrupt_record`)",
        reason="the query read {old} of it and now reads {new}: only columns that are read decide whether a record is "
        "malformed, so other records are dropped or reported as corrupt. Agree if no record is malformed",
        source="CSVOptions.columnPruning, FileSourceStrategy: the parser gets the schema of the columns that are used; "
        "measured",
        tests=("spark/test_read_columns.py::test_another_column_that_is_read_drops_other_records",),
        applies=_read,
    ),
    _SourceRule(
        id="source.code",
        verdict=LOSS,
        change="other code of a Python data source, or code that cannot be compared",
        reason="the data source's code changed or cannot be compared: agree if it continues from the old code's "
        "offsets and gives the same rows",
        source="pyspark.sql.datasource: its code alone decides offsets and rows; a digest of its class "
        "(streaming/code/)",
        tests=("spark/test_source_options.py::test_a_python_data_source_is_its_options_and_its_code",),
        applies=_code,
    ),
)


@attrs.frozen(kw_only=True)
class LoneSource:
    """A source that only one of the plans has.

    others: the other plan's sources; of a source that is gone, only those that are new
    query: the name of the query of a source that is gone
    """

    source: SourcePlan
    others: tuple[SourcePlan, ...] = ()
    query: str = ""


def _new_naming(c: LoneSource) -> Facts | None:
    before = [s for s in c.others if s.native != c.source.native]
    return {"old": _by(before[0]), "new": _by(c.source)} if before else None


def _new_source_there(c: LoneSource) -> Facts:
    """Return the hint at new sources that read the same place, or may (a pattern, a link): without a rename, they read
    it all again."""
    known = short_format(c.source.format)
    alike = [s for s in c.others if s.named and short_format(s.format) == known]
    same = [s for s in alike if reads_the_same(c.source, s)]
    if not alike or c.source.native:
        return {"hint": ""}
    names = [s.name for s in same or alike]
    reads = "reads the same place" if same else "may read the same rows"
    then = f"continues where it was: the new source {reads}"
    ways = [rename_way(f"{c.query}/{c.source.name}", name, then, evident=len(same) == 1) for name in names]
    return {
        "hint": f". Without a rename the new source {' or '.join(names)}, which {reads}, begins at its start again: "
        "rows are counted twice in the query's state and sink",
        "ways": tuple(ways),
    }


_LoneRule = Rule[LoneSource]

NEW_SOURCE_RULES: tuple[Rule[LoneSource], ...] = (
    _LoneRule(
        id="source.new",
        verdict=EMPTY,
        change="a new named source",
        reason="new source: starts at its configured offset; its rows that are older than the query's watermark are "
        "late, and are dropped by stages that use event time",
        source="measured: its line in the offset log is '-' (OffsetSeq, no offset yet)",
        tests=("spark/test_sources.py::test_sources_change_their_order_come_and_go",),
        applies=lambda c: {},
    ),
    _LoneRule(
        id="source.new-unnamed",
        verdict=REFUSED,
        change="a new source without a name",
        reason="the sources changed, and this one has no name; name the sources with source() or .alias()",
        source="the offset log has a line a source, by position",
        applies=lambda c: None if c.source.named else {},
    ),
    _LoneRule(
        id="source.new-naming",
        verdict=REFUSED,
        change="a new source named with Spark's own name() where the others were not, or the reverse",
        reason="it is named with {new}, and the earlier sources with {old}: Spark writes another kind of offset log "
        "for its own names, and cannot switch; keep the kind the query began with",
        source="STREAMING_QUERY_EVOLUTION_ERROR.CANNOT_ENABLE_ON_EXISTING_CHECKPOINT; OffsetMap, OffsetSeq",
        tests=("core/test_compatibility.py::test_spark_s_own_names_are_kept_to_and_kept",),
        applies=_new_naming,
    ),
)

GONE_SOURCE_RULES: tuple[Rule[LoneSource], ...] = (
    _LoneRule(
        id="source.gone",
        verdict=IGNORED,
        change="a source that was removed, or renamed without --rename",
        reason="the new version has no source with this name: its offsets are left behind, and what its rows made of "
        "the query's state stays{hint}",
        source="measured: its line is left out of the offset log",
        tests=(
            "spark/test_sources.py::test_sources_change_their_order_come_and_go",
            "core/test_new_names.py::test_a_source_with_another_name",
        ),
        applies=_new_source_there,
    ),
)
