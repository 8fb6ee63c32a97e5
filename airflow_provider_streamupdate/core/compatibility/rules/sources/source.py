"""The rules for a query's sources. Named ones are matched by name; unnamed ones by position, and only while nothing
about their positions can have changed."""

from __future__ import annotations

import attrs

from ....plan.plan import UNKNOWN, SourcePlan
from ...report import CARRIED, EMPTY, IGNORED, LOSS, REFUSED
from ..rule import Facts, Rule, differ
from .source_options import (
    FILES,
    KAFKA,
    OF_THE_SESSION,
    choosy,
    corrupt_column,
    format_of,
    known_format,
    meaning,
    place,
    positional,
    same_place,
    servers,
    short_format,
    start,
    strict,
)

_SUPPORTED_GUIDE = "Structured Streaming guide, Recovery semantics after changes in a streaming query"


@attrs.frozen(kw_only=True)
class SourceChange:
    """A source before and after. `alone`: both plans have just this one, so that it needs no name. `stateful`: the
    query has state before and after, so that rows of before and of now meet. `others`: the new plan's other
    sources."""

    old: SourcePlan
    new: SourcePlan
    alone: bool = False
    stateful: bool = True
    others: tuple[SourcePlan, ...] = ()

    @property
    def options(self) -> list[str]:
        """Options that changed, of those that decide what the rows are."""
        old, new = meaning(self.old), meaning(self.new)
        given, now = self.old.options, self.new.options
        alike = {k for k in OF_THE_SESSION if k in given and given[k] == now.get(k)}  # whatever the session says
        return sorted(k for k in {*old, *new} - alike if old.get(k) != new.get(k))

    @property
    def parsing(self) -> list[str]:
        """Those of them by which a row is read, in a query whose rows of before nobody remembers."""
        known = set() if self.stateful else format_of(self.new).parsing
        return [k for k in self.options if k in known]


# Why an option counts, where its name does not say so.
_WHY = {
    "rowspersecond": "an offset is a number of seconds, and it says which values are in them",
    "rampuptime": "an offset is a number of seconds, and it says which values are in them",
    "cleansource": "files that are removed are missing after a rollback",
    "latestfirst": "rows come in another order, and are late otherwise",
}


def _shown_options(c: SourceChange, names: list[str]) -> list[str]:
    old, new = meaning(c.old), meaning(c.new)

    def said(values: dict[str, str], name: str) -> str:
        return repr(values[name]) if name in values else "its default"

    return [f"{k} from {said(old, k)} to {said(new, k)}" + (f" ({_WHY[k]})" if k in _WHY else "") for k in names]


def _same_format(c: SourceChange) -> bool:
    return short_format(c.old.format) == short_format(c.new.format)


def _position(c: SourceChange) -> Facts | None:
    """An unnamed source among others is known by its position alone: it must read the same place."""
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


def _files(c: SourceChange) -> Facts | None:
    return _other_place(c) if short_format(c.new.format) in FILES else None


def _topics(c: SourceChange) -> Facts | None:
    return _other_place(c) if format_of(c.new) is KAFKA else None


def _elsewhere(c: SourceChange) -> Facts | None:
    return None if _files(c) or _topics(c) else _other_place(c)


def _naming(c: SourceChange) -> Facts | None:
    return differ(_by(c.old), _by(c.new))


def _by(source: SourcePlan) -> str:
    return "name()" if source.native else "source(), or not at all"


def _start(c: SourceChange) -> Facts | None:
    return differ(start(c.old), start(c.new))


def _options(c: SourceChange) -> Facts | None:
    names = [k for k in c.options if k not in c.parsing]
    if not names or not _position_free(c):
        return None
    unknown = "" if known_format(c.new) else f"; what they mean to {c.new.format} is not known here"
    return {"options": _shown_options(c, names), "unknown": unknown}


def _parsing(c: SourceChange) -> Facts | None:
    return {"options": _shown_options(c, c.parsing)} if c.parsing else None


def _moved(c: SourceChange) -> str | None:
    """The first column by position that has another name: more or fewer columns at the end are no rename."""
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


def _order_unknown(c: SourceChange) -> Facts | None:
    return {} if c.stateful and _same_format(c) and positional(c.new) and c.new.order and not c.old.order else None


def _columns_number(c: SourceChange) -> Facts | None:
    """Where a line with more or fewer values than the schema has columns is dropped or fails, their number counts."""
    csv = short_format(c.new.format) == "csv" and strict(c.new)
    if not csv or not c.stateful or not c.old.order or _moved(c):
        return None
    return differ(len(c.old.order), len(c.new.order))


def _malformed(c: SourceChange) -> Facts | None:
    """Where a record with a value that does not fit is dropped, or told in a column, all types decide which."""
    if not c.stateful or not choosy(c.new):
        return None
    corrupt = corrupt_column(c.new)
    old, new = ({k: v for k, v in source.columns.items() if k != corrupt} for source in (c.old, c.new))
    changed = sorted(k for k in {*old, *new} if old.get(k) != new.get(k))
    return {"columns": ", ".join(changed)} if changed else None


def _which_are_read(c: SourceChange) -> bool:
    """Whether it counts which of its columns are read, before or now."""
    if not c.stateful or not choosy(c.new):
        return False
    readings = (*(c.old.read or ()), *(c.new.read or ()))
    return strict(c.new) or any(corrupt_column(c.new) in columns for columns in readings)


def _read(c: SourceChange) -> Facts | None:
    if c.old.read is None or not _which_are_read(c):
        return None
    return differ(*(" and ".join(", ".join(r) or "no column" for r in s.read or ()) for s in (c.old, c.new)))


def _read_earlier(c: SourceChange) -> Facts | None:
    return {} if c.old.read is None and choosy(c.old) and _which_are_read(c) else None


def _code(c: SourceChange) -> Facts | None:
    unknown = UNKNOWN in (c.old.code, c.new.code)
    return {} if _same_format(c) and (unknown or c.old.code != c.new.code) else None


_SourceRule = Rule[SourceChange]

SOURCE_RULES: tuple[Rule[SourceChange], ...] = (
    _SourceRule(
        id="source.same",
        verdict=CARRIED,
        change="nothing, or only columns of it that are read, rate limits and credentials",
        reason="same {format}: offsets continue",
        source=_SUPPORTED_GUIDE,
        tests=("spark/test_restore_by_name.py::test_an_unchanged_stage_keeps_its_state",),
        applies=lambda c: {"format": c.new.format},
    ),
    _SourceRule(
        id="source.position",
        verdict=REFUSED,
        change="unnamed sources whose order, format or location changed (two of them may have swapped places)",
        reason="an unnamed source at this position changed from {old} to {new}; name the sources with source() "
        "(a rename such as source-1=NAME tells which it was)",
        source="the offset log has a line a source, by position; measured: Spark reads on at the other one's offsets",
        tests=("spark/test_traps.py::test_two_unnamed_sources_that_swap_places",),
        applies=_position,
    ),
    _SourceRule(
        id="source.twins",
        verdict=REFUSED,
        change="unnamed sources of one format that have no place and the same options",
        reason="it has no name, and nothing tells it from {others} (format {format}): they may have swapped places; "
        "name them with source()",
        source="the offset log has a line a source, by position",
        tests=("core/test_compatibility.py::test_unnamed_sources_that_cannot_be_told_apart_are_refused",),
        applies=_twins,
    ),
    _SourceRule(
        id="source.naming",
        verdict=REFUSED,
        change="a source named with Spark's own name() that was not, or the other way round",
        reason="it was named with {old} and is now with {new}: Spark writes another offset log for its own names, and "
        "does not change over; keep to the one it began with",
        source="STREAMING_QUERY_EVOLUTION_ERROR.CANNOT_ENABLE_ON_EXISTING_CHECKPOINT; OffsetMap, OffsetSeq",
        tests=("core/test_compatibility.py::test_spark_s_own_names_are_kept_to_and_kept",),
        applies=_naming,
    ),
    _SourceRule(
        id="source.format",
        verdict=REFUSED,
        change="another format of a source under the same name",
        reason="format changed from {old} to {new}: offsets of one mean nothing to the other; give it another name",
        source=_SUPPORTED_GUIDE,
        tests=("core/test_compatibility.py::test_a_named_source_that_changed",),
        applies=lambda c: None if _same_format(c) or _position(c) else differ(c.old.format, c.new.format),
    ),
    _SourceRule(
        id="source.folder",
        verdict=REFUSED,
        change="another folder of a file source under the same name",
        reason="location changed from {old} to {new}: its log names the old folder's files; give the source another "
        "name to read the new one from its beginning",
        source="measured: at a start Spark looks at the last batch's files again, and stops at 'Wrong basePath'",
        tests=("core/test_compatibility.py::test_a_named_source_that_changed",),
        applies=_files,
    ),
    _SourceRule(
        id="source.topics",
        verdict=REFUSED,
        change="other topics of a Kafka source under the same name (their order does not count)",
        reason="location changed from {old} to {new}: its offsets are the old one's; give the source another name to "
        "start it at its configured offset",
        source=_SUPPORTED_GUIDE + ": generally not allowed, results are unpredictable",
        tests=("core/test_compatibility.py::test_a_named_source_that_changed",),
        applies=_topics,
    ),
    _SourceRule(
        id="source.place",
        verdict=REFUSED,
        change="another place of a source that is neither of files nor of Kafka under the same name: host and port, "
        "table, query, and whatever names a place in a format that is not known",
        reason="it reads {new} in place of {old}: its offsets are the old one's; give the source another name to start "
        "it at its configured offset",
        source=_SUPPORTED_GUIDE + ": generally not allowed, results are unpredictable",
        tests=("spark/test_source_options.py::test_another_place_is_refused",),
        applies=_elsewhere,
    ),
    _SourceRule(
        id="source.cluster",
        verdict=LOSS,
        change="other Kafka bootstrap servers",
        reason="servers changed from {old} to {new}: agree if they lead to the same cluster, or to one with the same "
        "offsets",
        source="KafkaSourceOffset holds topic, partition and number, and no cluster",
        tests=("core/test_compatibility.py::test_a_named_source_that_changed",),
        applies=lambda c: differ(servers(c.old), servers(c.new)),
    ),
    _SourceRule(
        id="source.start",
        verdict=CARRIED,
        change="another starting offset of a source that is carried",
        reason="its starting offset changed, which only a new source looks at",
        source="Kafka guide: applies when a new query is started; resuming picks up where the query left off",
        tests=("core/test_compatibility.py::test_a_named_source_that_changed",),
        applies=_start,
    ),
    _SourceRule(
        id="source.options",
        verdict=LOSS,
        change="another option of a source that is not known to change no row: how rows are parsed (in a query with "
        "state), which files or records are read, and every option of a format that is not known",
        reason="options changed: {options}; the rows in its state and the rows to come are not read alike{unknown}: "
        "agree if they mean the same",
        source="CSVOptions, JSONOptions, XmlOptions, TextOptions, ParquetOptions, OrcOptions and FileStreamOptions of "
        "Spark 4.3; core/compatibility/rules/sources/source_options.py lists what is harmless",
        tests=(
            "spark/test_ends.py::test_rows_are_read_by_other_options_from_now_on",
            "spark/test_source_options.py::test_an_option_that_changes_rows_needs_agreement",
        ),
        applies=_options,
    ),
    _SourceRule(
        id="source.parsing",
        verdict=CARRIED,
        change="other options by which rows are parsed, in a query without state",
        reason="options changed: {options}; they hold for new rows, and nothing remembers the old ones",
        source=_SUPPORTED_GUIDE,
        tests=("spark/test_source_options.py::test_a_query_without_state_may_parse_otherwise",),
        applies=_parsing,
    ),
    _SourceRule(
        id="source.columns",
        verdict=REFUSED,
        change="another name at the same place of a schema that is given by position (csv, text, socket; avro with "
        "positionalFieldMatching): other data under an old name. More columns at the end are none",
        reason="{moved}, and {format} gives data to columns by their position: a name then means other data than in "
        "the state; keep the schema's names, and rename after reading (withColumnRenamed)",
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
        change="another name at the same place of the schema of a source whose format is not known",
        reason="{moved}, and it is not known whether {format} gives data to columns by position or by name: agree if "
        "by name",
        source="what is not known to be harmless is agreed to or refused",
        tests=("core/test_source_rules.py::test_columns_of_a_format_that_is_not_known",),
        applies=_columns_unknown,
    ),
    _SourceRule(
        id="source.columns-earlier",
        verdict=LOSS,
        change="a schema that is given by position, after a plan of an earlier version of this package",
        reason="the saved plan does not hold the order of the schema's columns, which says what they mean: agree if it "
        "is what it was",
        source="plans used to have the columns by name alone",
        tests=("core/test_source_rules.py::test_a_plan_without_the_order_of_columns",),
        applies=_order_unknown,
    ),
    _SourceRule(
        id="source.columns-number",
        verdict=LOSS,
        change="more or fewer columns of a csv schema where lines of another length are dropped, or fail (mode)",
        reason="the schema had {old} columns and has {new}: lines of another number of values are dropped, or fail, in "
        "this mode; agree if no line is kept or dropped that was not",
        source="UnivocityParser.convert: a line with more or fewer tokens than the schema is a bad record",
        tests=("core/test_source_rules.py::test_the_number_of_csv_columns",),
        applies=_columns_number,
    ),
    _SourceRule(
        id="source.malformed",
        verdict=LOSS,
        change="other columns, or other types of them, of csv, json or xml where records that do not fit are dropped, "
        "or fail (mode), or are told in a column (`_corrupt_record`)",
        reason="{columns} of the schema changed, and with them which records do not fit: agree if those that are "
        "dropped or told to be corrupt stay the same",
        source="FailureSafeParser: a record that its parser cannot read with the schema goes the way of the mode; "
        "columnNameOfCorruptRecord",
        tests=("spark/test_source_options.py::test_which_records_are_corrupt_depends_on_all_types",),
        applies=_malformed,
    ),
    _SourceRule(
        id="source.read",
        verdict=LOSS,
        change="other columns of csv, json or xml that the query reads, where records that do not fit are dropped, or "
        "fail (mode), or are told in a column that is read (`_corrupt_record`)",
        reason="the query read {old} of it and reads {new}: a record fits, or does not, by the columns that are read "
        "alone, so that others are dropped or told to be corrupt; agree if all records fit",
        source="CSVOptions.columnPruning, FileSourceStrategy: the parser gets the schema of the columns that are used; "
        "measured",
        tests=("spark/test_read_columns.py::test_another_column_that_is_read_drops_other_records",),
        applies=_read,
    ),
    _SourceRule(
        id="source.read-earlier",
        verdict=LOSS,
        change="csv, json or xml where records that do not fit are dropped, or fail (mode), or are told in a column "
        "that is read, after a plan of an earlier version of this package",
        reason="the saved plan does not hold which columns of it the query reads, by which records fit or do not: "
        "agree if the query uses the columns that it used",
        source="plans did not hold it",
        tests=("core/test_source_rules.py::test_a_plan_without_the_columns_that_are_read",),
        applies=_read_earlier,
    ),
    _SourceRule(
        id="source.code",
        verdict=LOSS,
        change="other code of a Python data source, or code that cannot be compared where it could be",
        reason="the data source's code changed: agree if it goes on with the old one's offsets and gives the same rows",
        source="pyspark.sql.datasource: offsets and rows are what its code makes of them; a digest of its class "
        "(streaming/code/)",
        tests=("spark/test_source_options.py::test_a_python_data_source_is_its_options_and_its_code",),
        applies=_code,
    ),
)


@attrs.frozen(kw_only=True)
class LoneSource:
    """A source that only one of the plans has; `others` are those the other plan has."""

    source: SourcePlan
    others: tuple[SourcePlan, ...] = ()


def _new_naming(c: LoneSource) -> Facts | None:
    before = [s for s in c.others if s.native != c.source.native]
    return {"old": _by(before[0]), "new": _by(c.source)} if before else None


_LoneRule = Rule[LoneSource]

NEW_SOURCE_RULES: tuple[Rule[LoneSource], ...] = (
    _LoneRule(
        id="source.new",
        verdict=EMPTY,
        change="a new named source",
        reason="new source: starts at its configured offset; rows of it that are older than the query's watermark are "
        "late, and dropped where an event time counts",
        source="measured: its line in the offset log is '-' (OffsetSeq, no offset yet)",
        tests=("spark/test_sources.py::test_sources_change_their_order_come_and_go",),
        applies=lambda c: {},
    ),
    _LoneRule(
        id="source.new-unnamed",
        verdict=REFUSED,
        change="a new source without a name",
        reason="more or other sources than before, and this one has no name; name the sources with source()",
        source="the offset log has a line a source, by position",
        tests=("core/test_compatibility.py::test_an_unnamed_source_more_is_refused_and_says_what_to_do",),
        applies=lambda c: None if c.source.named else {},
    ),
    _LoneRule(
        id="source.new-naming",
        verdict=REFUSED,
        change="a new source named with Spark's own name() where the others were not, or the other way round",
        reason="it is named with {new}, and the sources before with {old}: Spark writes another offset log for its own "
        "names, and does not change over; keep to the one the query began with",
        source="STREAMING_QUERY_EVOLUTION_ERROR.CANNOT_ENABLE_ON_EXISTING_CHECKPOINT; OffsetMap, OffsetSeq",
        tests=("core/test_compatibility.py::test_spark_s_own_names_are_kept_to_and_kept",),
        applies=_new_naming,
    ),
)

GONE_SOURCE_RULES: tuple[Rule[LoneSource], ...] = (
    _LoneRule(
        id="source.gone",
        verdict=IGNORED,
        change="a source that is gone, or has another name without a rename",
        reason="the new version has no such source: its offsets are left behind",
        source="measured: its line is left out of the offset log",
        tests=("spark/test_sources.py::test_sources_change_their_order_come_and_go",),
        applies=lambda c: {},
    ),
)
