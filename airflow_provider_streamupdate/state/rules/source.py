"""The rules for a query's sources. Named ones are matched by name; unnamed ones by position, and only while nothing
about their positions can have changed."""

from __future__ import annotations

import attrs

from ..plan import SourcePlan
from ..report import CARRIED, EMPTY, IGNORED, LOSS, REFUSED
from .rule import Facts, Rule, differ

# Spark's own formats that list files: their log knows each file by its path (FileStreamSource).
FILES = ("json", "csv", "text", "parquet", "orc", "avro", "xml")
# Options that say how fast or by which way rows come, not which (Structured Streaming guide and Kafka guide).
_PACE = ("maxfilespertrigger", "maxbytespertrigger", "maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay",
         "minpartitions", "maxrecordsperpartition", "rowspersecond", "rowsperbatch", "numpartitions", "rampuptime",
         "fetchoffset.numretries", "fetchoffset.retryintervalms", "maxcachedfiles", "discardcachedinputratio",
         "kafkaconsumer.polltimeoutms", "groupidprefix", "kafka.group.id", "failondataloss")  # fmt: skip
_START = ("startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp", "startingoffsetsbytimestampstrategy")
_LOCATION = ("path", "subscribe", "subscribepattern", "assign")
_CLUSTER = ("kafka.bootstrap.servers",)
_SUPPORTED_GUIDE = "Structured Streaming guide, Recovery semantics after changes in a streaming query"


@attrs.frozen(kw_only=True)
class SourceChange:
    """A source before and after. `alone`: both plans have just this one, so that it needs no name."""

    old: SourcePlan
    new: SourcePlan
    alone: bool = False

    def options(self, *names: str) -> tuple[dict[str, str], dict[str, str]]:
        old, new = ({k: v for k, v in s.options.items() if k in names} for s in (self.old, self.new))
        return old, new

    @property
    def others(self) -> list[str]:
        """Options that changed, beside those with a rule of their own."""
        known = {*_PACE, *_START, *_LOCATION, *_CLUSTER}
        keys = {*self.old.options, *self.new.options} - known
        return sorted(k for k in keys if self.old.options.get(k) != self.new.options.get(k))


def short_format(name: str) -> str:
    """``json`` for Spark's own class names, too."""
    return name.rsplit(".", 1)[-1].lower().removesuffix("fileformat").removesuffix("sourceprovider")


def _position(c: SourceChange) -> Facts | None:
    """An unnamed source among others is known by its position alone: it must read the same place."""
    if c.alone or (c.old.named and c.new.named):
        return None
    same = (c.old.format, c.old.location) == (c.new.format, c.new.location) and c.old.location is not None
    return None if same else {"old": _shown(c.old), "new": _shown(c.new)}


def _shown(source: SourcePlan) -> str:
    return " ".join(filter(None, (source.format, source.location)))


def _files(c: SourceChange) -> Facts | None:
    return differ(c.old.location, c.new.location) if short_format(c.new.format) in FILES else None


def _topics(c: SourceChange) -> Facts | None:
    return None if short_format(c.new.format) in FILES else differ(*c.options(*_LOCATION))


def _position_free(c: SourceChange) -> bool:
    return _position(c) is None and c.old.format == c.new.format


def _naming(c: SourceChange) -> Facts | None:
    return differ(_by(c.old), _by(c.new))


def _by(source: SourcePlan) -> str:
    return "name()" if source.native else "source(), or not at all"


def _start(c: SourceChange) -> Facts | None:
    return differ(*c.options(*_START))


def _other(c: SourceChange) -> Facts | None:
    return {"names": ", ".join(c.others)} if c.others else None


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
        id="source.naming",
        verdict=REFUSED,
        change="a source named with Spark's own name() that was not, or the other way round",
        reason="it was named with {old} and is now with {new}: Spark writes another offset log for its own names, and "
        "does not change over; keep to the one it began with",
        source="STREAMING_QUERY_EVOLUTION_ERROR.CANNOT_ENABLE_ON_EXISTING_CHECKPOINT; OffsetMap, OffsetSeq",
        tests=("state/test_compatibility.py::test_spark_s_own_names_are_kept_to_and_kept",),
        applies=_naming,
    ),
    _SourceRule(
        id="source.format",
        verdict=REFUSED,
        change="another format of a source under the same name",
        reason="format changed from {old} to {new}: offsets of one mean nothing to the other; give it another name",
        source=_SUPPORTED_GUIDE,
        tests=("state/test_compatibility.py::test_a_named_source_that_changed",),
        applies=lambda c: differ(c.old.format, c.new.format) if _position(c) is None else None,
    ),
    _SourceRule(
        id="source.folder",
        verdict=REFUSED,
        change="another folder of a file source under the same name",
        reason="location changed from {old} to {new}: its log names the old folder's files; give the source another "
        "name to read the new one from its beginning",
        source="measured: at a start Spark looks at the last batch's files again, and stops at 'Wrong basePath'",
        tests=("state/test_compatibility.py::test_a_named_source_that_changed",),
        applies=lambda c: _files(c) if _position_free(c) else None,
    ),
    _SourceRule(
        id="source.topics",
        verdict=REFUSED,
        change="other topics (or another location of a source that is not of files) under the same name",
        reason="location changed from {old} to {new}: its offsets are the old one's; give the source another name to "
        "start it at its configured offset",
        source=_SUPPORTED_GUIDE + ": generally not allowed, results are unpredictable",
        tests=("state/test_compatibility.py::test_a_named_source_that_changed",),
        applies=lambda c: _topics(c) if _position_free(c) else None,
    ),
    _SourceRule(
        id="source.cluster",
        verdict=LOSS,
        change="other Kafka bootstrap servers",
        reason="servers changed from {old} to {new}: agree if they lead to the same cluster, or to one with the same "
        "offsets",
        source="KafkaSourceOffset holds topic, partition and number, and no cluster",
        tests=("state/test_compatibility.py::test_a_named_source_that_changed",),
        applies=lambda c: differ(*c.options(*_CLUSTER)),
    ),
    _SourceRule(
        id="source.start",
        verdict=CARRIED,
        change="another starting offset of a source that is carried",
        reason="its starting offset changed, which only a new source looks at",
        source="Kafka guide: applies when a new query is started; resuming picks up where the query left off",
        tests=("state/test_compatibility.py::test_a_named_source_that_changed",),
        applies=_start,
    ),
    _SourceRule(
        id="source.options",
        verdict=CARRIED,
        change="other options of a source (how rows are parsed): from now on, as any stateless change",
        reason="options {names} changed: they hold for new rows",
        source=_SUPPORTED_GUIDE,
        tests=("spark/test_ends.py::test_rows_are_read_by_other_options_from_now_on",),
        applies=_other,
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
        reason="new source: starts at its configured offset",
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
        tests=("state/test_compatibility.py::test_an_unnamed_source_more_is_refused_and_says_what_to_do",),
        applies=lambda c: None if c.source.named else {},
    ),
    _LoneRule(
        id="source.new-naming",
        verdict=REFUSED,
        change="a new source named with Spark's own name() where the others were not, or the other way round",
        reason="it is named with {new}, and the sources before with {old}: Spark writes another offset log for its own "
        "names, and does not change over; keep to the one the query began with",
        source="STREAMING_QUERY_EVOLUTION_ERROR.CANNOT_ENABLE_ON_EXISTING_CHECKPOINT; OffsetMap, OffsetSeq",
        tests=("state/test_compatibility.py::test_spark_s_own_names_are_kept_to_and_kept",),
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
