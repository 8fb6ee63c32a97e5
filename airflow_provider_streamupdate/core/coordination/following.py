"""Which updates the strategy ``follow`` can bring in.

While the new version follows, it runs the running one's batches into nothing, and their results are the running one's.
So an update that was followed gives what a restart would have given only if each stage that both versions have is given
the same rows by both in those batches, and makes the same state of them: a deduplication that lets more rows pass
would remember rows that nobody has written (*measured*, tests/spark/test_following_refused.py). What is not known to
be so is refused. Another filter below aggregations alone is let pass (`_counts_only`): the answer is that of a restart
where the following began. A stage that is new is given no rows before the takeover
(spark_internals/queries/following.py).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import attrs

from ..compatibility.compatibility import compare
from ..compatibility.report import LOSS, REFUSED, ReportItem
from ..compatibility.rules.query import minor
from ..compatibility.rules.sinks import kind_of
from ..compatibility.rules.sources.source_options import (
    FILES,
    effective,
    format_of,
    meaning,
    place,
    same_place,
    servers,
    short_format,
)
from ..compatibility.rules.stages.grouping import AGGREGATES_ADDED
from ..compatibility.rules.stages.stage import STAGE_RULES
from ..compatibility.successors import app_under_new_names
from ..plan.plan import LATE, AppPlan, QueryPlan, SourcePlan, StagePlan, unknown, untold, without_quoted
from ..union_branches import OR, apart, ordered, without

# Sources that give a batch again by its offsets alone, and whose memory is brought up to date while it follows
# (spark_internals/queries/following.py): a file source's, from its log; the others have none that decides about rows
# (KafkaMicroBatchStream, RateStreamMicroBatchStream, RatePerMicroBatchStream; Delta Lake's DeltaSource.getBatch).
DELTA = "delta"
SOURCES = frozenset({*FILES, "kafka", "rate", "rate-micro-batch", DELTA})
# What a Delta source asks the table for again when its first batch is run again (DeltaSource.getStartingVersion), or
# notes where the running version's notes it, too (DeltaSourceMetadataTrackingLog).
_OF_DELTA = {
    "startingtimestamp": "its first batch would begin where the table is now",
    "schematrackinglocation": "both versions would write its log of schemas",
    "schemalocation": "both versions would write its log of schemas",
}

# How many entries the log of a file source has between two compactions. A log without a compaction yet is read by
# one's own setting (CompactibleFileStreamLog.compactInterval), and the running version writes it by its own.
COMPACTION = "spark.sql.streaming.fileSource.log.compactInterval"
ASYNC = "asyncprogresstrackingenabled"
# Settings and options with which rows may be missing in one version's batch and not in the other's.
_LENIENT = ("ignoremissingfiles", "ignorecorruptfiles")

# What another run of the same batch may give another value. Seeds of random functions are new in each batch of each
# run (Spark: MicroBatchExecution makes a plan of its own for each). `callmethodviareflection` is java_method. Which
# partition a row is in, and what a function of whole partitions makes of it (PythonEvalType: those over iterators),
# depends on the machine's cores; the order of rows within a group, on which shuffled block comes first (Spark calls
# some of these aggregates not deterministic).
_CHANCE = re.compile(
    r"\b(?:(?:rand|randn|randstr|uuid|shuffle|sparkpartitionid|monotonicallyincreasingid|callmethodviareflection"
    r"|inputfileblockstart|inputfileblocklength|sample|MapInPandas|MapInArrow|PythonMapInArrow"
    r"|first|last|anyvalue|collectlist|collectset|listagg|mode|maxby|minby|approximatepercentile|histogramnumeric"
    r"|approxtopk\w*)\(|udfDeterministic=False|evalType=(?:204|205|207|251)\b|functionName=aesEncrypt\b"
    r"|isDeterministic=False|file_block_(?:start|length)\b)"
)
_EVERY_ROW = "1"  # the argument of count(*)
_EVENT_TIME = "event time "  # of a stage's arrivals: which column has a watermark
_TABLE = re.compile(r"\blookup\b|\bstatic:|subquery\(|\binsubquery|\bexists\(#")
_WHOLE_RESULTS = ("complete", "append")
# Stages that let some rows pass, the first that come: which ones of a batch, its order decides.
_FIRST_COME = frozenset({"deduplicate", "deduplicate-within-watermark", "limit"})
_FUNCTIONS = frozenset({"apply-in-pandas-with-state", "transform-with-state"})
_BY_KEYS = frozenset({"aggregate", "deduplicate"})


def unfollowable(new: AppPlan, old: AppPlan | None = None) -> list[str]:
    """Why a version with plan `new` cannot follow one with plan `old`; empty where it can. Without `old`: what can be
    told of the new one alone."""
    problems = [problem for query in new.queries for problem in _alone(query)]
    if old is None:
        return problems
    old = app_under_new_names(old, new)
    for query in new.queries:
        if before := old.query(query.name):
            problems += [problem for problem in _alone(before) if problem not in problems]
            problems += _together(before, query)
    return [*problems, *_compared(old, new)]


def _alone(query: QueryPlan) -> Iterator[str]:
    """What does not depend on the other version."""
    for source in query.sources:
        yield from (f"source {source.name} of query {query.name} {problem}" for problem in _of_source(source))
    if not kind_of(query.sink.format).made_early:
        yield f"the sink of query {query.name} is of format {short_format(query.sink.format)}, which was not tried"
    if {k.lower(): v for k, v in query.sink.options.items()}.get(ASYNC, "false").lower() == "true":
        yield f"query {query.name} tracks its progress asynchronously, so that its log does not hold every batch"
    for key, value in {**query.conf, **query.given}.items():
        if key.lower().endswith(_LENIENT) and key.startswith("spark.sql.files.") and value.lower() != "false":
            yield f"query {query.name} runs with {key}={value}: {_MISSING}"


_MISSING = "a file that one version has read might be left out by the other, silently"


def _of_source(source: SourcePlan) -> Iterator[str]:
    kind = short_format(source.format)
    if kind not in SOURCES:
        yield f"is of format {kind}, which was not tried"
    if effective(source, "cleansource", "off").lower() != "off":
        yield "has cleanSource: files that the running version has read go before the new one has read them"
    if kind == DELTA:
        yield from (f"has {option}: {why}" for option, why in _OF_DELTA.items() if option in source.options)
        if source.options.get("startingversion", "").lower() == "latest":
            yield f"has startingVersion=latest: {_OF_DELTA['startingtimestamp']}"
    for option in _LENIENT:
        if effective(source, option, "false").lower() != "false":
            yield f"has {option}: {_MISSING}"
    if effective(source, "failondataloss", "true").lower() == "false":
        yield "has failOnDataLoss=false: records that one version has read might be left out by the other, silently"
    if "kafka.group.id" in source.options:
        yield "has kafka.group.id: two queries of one consumer group may each be given a part of the records only"


def _together(old: QueryPlan, new: QueryPlan) -> Iterator[str]:
    for source in new.sources:
        if before := next((s for s in old.sources if s.name == source.name), None):
            yield from (f"source {source.name} of query {new.name} {problem}" for problem in _of_both(before, source))
    if any(short_format(s.format) in FILES for s in old.sources) and _compaction(old) != _compaction(new):
        yield (
            f"query {new.name} has another {COMPACTION} ({_compaction(new)} instead of {_compaction(old)}): the files "
            "of its sources' logs would be called otherwise"
        )
    if not (old.stages and new.stages):
        return
    if old.output_mode != new.output_mode:
        yield f"query {new.name} has another output mode"
    kept, come = _sources(old) & _sources(new), _sources(new) - _sources(old)
    counts_only = _counts_only(old) and _counts_only(new)
    if sorted(old.watermarks) != sorted(apart(new.watermarks, come, kept)):
        yield f"query {new.name} has other watermarks"
    for stage in new.stages:
        was = old.stage(stage.name)
        problems = _of_stage(was, _without(stage, come, kept), come, counts_only) if was else _of_new(stage)
        if was and (first := sorted(s.name for s in new.stages if _depends_on_the_first(stage, s, new))):
            yield (
                f"stage {stage.name} of query {new.name} is above stage {first[0]}, which lets the first of several "
                "rows pass: which one that is, is a matter of chance"
            )
        yield from (f"stage {stage.name} of query {new.name} {problem}" for problem in problems)


def _of_new(stage: StagePlan) -> Iterator[str]:
    if not stage.named:
        yield "is new and has no name, by which it could be kept without rows until the takeover"


def _without(stage: StagePlan, come: Collection[str], kept: Collection[str]) -> StagePlan:
    """A stage without the branches of unions that begin at a new source: they bring no rows before the takeover."""

    def left(value: Any) -> Any:
        return ordered(without(value, come, kept))

    windows = tuple(attrs.evolve(w, column=left(w.column)) for w in stage.windows)
    return attrs.evolve(stage, definition=left(stage.definition), windows=windows)


def _compaction(query: QueryPlan) -> str:
    return {**query.conf, **query.given}.get(COMPACTION, "10")


def _of_both(old: SourcePlan, new: SourcePlan) -> Iterator[str]:
    """The running version's offsets have to mean the same rows."""
    if format_of(old) is not format_of(new) or short_format(old.format) != short_format(new.format):
        yield "has another format"
    elif not same_place(old, new) or (place(old) and not place(new)):
        yield "reads another place"
    elif servers(old) != servers(new):
        yield "has other servers"
    before, now = meaning(old), meaning(new)
    if changed := sorted(k for k in {*before, *now} if before.get(k) != now.get(k)):
        yield f"has other options: {', '.join(changed)}"
    if old.native != new.native:
        yield "has its name in another way"


def _sources(query: QueryPlan) -> frozenset[str]:
    return frozenset(source.name for source in query.sources)


def _above(stage: StagePlan, name: str) -> bool:
    return any(f"after {name}." in path for path in stage.paths or ())


def _depends_on_the_first(stage: StagePlan, below: StagePlan, query: QueryPlan) -> bool:
    """Return whether it may matter to a stage which of several rows a stage below lets pass. Not where it reads columns
    alone in which these rows are equal: the keys of a deduplication."""
    if below.kind not in _FIRST_COME or not _above(stage, below.name):
        return False
    keys = {*_texts(below.definition.get("keys"))} - {*_looser_than_equal(below)}
    if below.kind != "deduplicate" or stage.kind not in _BY_KEYS or stage.types is None or stage.types.keys() - keys:
        return True
    # What is read from no column may differ from row to row, too: by explode, by branches, by files.
    if below.arrivals is None or any(not made.startswith(_EVENT_TIME) for made in below.arrivals):
        return True
    read = {*_texts(stage.definition.get("keys")), *stage.arguments} - keys - {_EVERY_ROW}
    if any(OR in text or "inputfile" in text or not any(key in text for key in keys) for text in read):
        return True
    ways = {f"from {s.name}." for s in query.sources} | {f"after {s.name}." for s in query.stages}
    passed = (text for path in stage.paths or () for text in path if text not in ways)
    return any(text.removeprefix(LATE) not in {f"isnotnull({key})" for key in keys} for text in passed)


def _looser_than_equal(stage: StagePlan) -> Iterator[str]:
    """Columns whose values may count as equal and differ: 0.0 and -0.0, texts of some collations."""
    for column, kind in (stage.types or {}).items():
        if re.search("float|double|collate", str(kind), re.IGNORECASE):
            yield column


def _counts_only(query: QueryPlan) -> bool:
    """Whether all stages are aggregations of rows that have passed no other stage, each result of which is given whole
    or once at its end. (In update mode nobody would write what the new version makes of the batches that are followed.)
    Each group's result follows from the
    rows that were counted into it, and a group leaves by its own time and the watermark, which is the running version's
    while it is followed. So with another filter, a row is counted by the new version's from where the following began,
    as with a restart from where that is; no row is lost or counted twice."""
    return query.output_mode in _WHOLE_RESULTS and all(
        stage.kind == "aggregate" and stage.paths is not None and not any(map(_passed, stage.paths))
        for stage in query.stages
    )


def _passed(path: tuple[str, ...]) -> bool:
    """Whether rows come to a stage on this way after another one."""
    return any(text.startswith("after ") and not text.startswith(LATE) for text in path)


def _without_filters(stage: StagePlan, other: StagePlan) -> tuple[tuple[str, ...], ...]:
    """The ways of a stage's rows without what they have to meet on them."""
    known = {*(stage.filters or ()), *(other.filters or ())}
    return tuple(sorted(tuple(t for t in path if t.removeprefix(LATE) not in known) for path in stage.paths or ()))


def _of_stage(old: StagePlan, new: StagePlan, new_sources: Collection[str], counts_only: bool = False) -> Iterator[str]:
    if old.kind != new.kind:
        yield "is of another kind"
    if old.paths is None or new.paths is None:
        yield "has ways of its rows that are not known: the running version's plan is an earlier release's"
    elif counts_only and _without_filters(old, new) == _without_filters(new, old):
        pass
    elif old.paths != tuple(path for path in new.paths if not _from_any(path, new_sources)):
        yield (
            "is given other rows in the new version (another filter, lookup, stage or source is below it): what it "
            "made of the batches that are followed would not fit what the running version has written"
        )
    texts = [t for path in new.paths or () for t in path] + list(_texts(new.definition))
    texts += [*(new.filters or ()), *(new.hidden or ()), *(new.arrivals or ())]
    shown = [without_quoted(text) for text in texts]
    if any(map(unknown, texts)) or any(map(untold, texts)):
        yield "depends on something that cannot be read from its plan"
    if chance := sorted({found[0].rstrip("(") for text in shown for found in _CHANCE.finditer(text)}):
        yield f"depends on chance ({', '.join(chance)}): the same batch would give it other rows"
    if any(_TABLE.search(text) for text in shown):
        yield "depends on a table, which may have changed since the running version ran a batch"
    if set(new.migrates) - set(old.migrates):
        yield "is migrated by a function of the app, which would be given the state of an earlier batch"
    yield from _of_definition(old, new)


def _from_any(path: Iterable[str], sources: Collection[str]) -> bool:
    return any(f"from {name}." in path for name in sources)


def _of_definition(old: StagePlan, new: StagePlan) -> Iterator[str]:
    """A state that is rewritten when the following begins has to be what it would be if that were done at its end."""
    types, now_types = old.types or {}, new.types or {}
    if other := sorted(c for c in types.keys() & now_types.keys() if types[c] != now_types[c]):
        yield f"reads columns of other types ({', '.join(other)})"
    windows = [sorted(map(_window, stage.windows)) for stage in (old, new)]
    if all(windows) and windows[0] != windows[1]:
        yield "has other windows: those that the running version closes would be other ones"
    elif _meaning(old) != _meaning(new):
        code = "other code or " if new.kind in _FUNCTIONS else ""
        yield f"has {code}another definition: what it gives for the batches that are followed is written nowhere"


def _meaning(stage: StagePlan) -> dict[str, Any]:
    """What decides which groups or rows there are in the state and when they leave it. An aggregate more or less is
    kept in the same groups."""
    order = {"keys": sorted(_texts(stage.definition.get("keys")))} if stage.kind in _BY_KEYS else {}
    told = {**ordered(stage.definition), **order}
    return {k: v for k, v in told.items() if not (k == "aggregates" and stage.kind == "aggregate")}


def _window(window: Any) -> tuple[str, int, int, int]:
    return window.column, window.size, window.slide, window.start


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from (text for each in value.values() for text in _texts(each))
    elif isinstance(value, list | tuple):
        yield from (text for each in value for text in _texts(each))


def _compared(old: AppPlan, new: AppPlan) -> Iterator[str]:
    """What the compatibility check has agreed to or refuses: from which batch it holds would depend on when the
    following began."""
    if minor(old.spark_version) != minor(new.spark_version):
        yield f"it runs on Spark {new.spark_version}, the running version on {old.spark_version}, which was not tried"
    for item in compare(old, new, "the running version").items:
        if item.thing in ("sink", "app"):
            continue
        if item.verdict == REFUSED or (item.verdict == LOSS and _losses(item) != {AGGREGATES_ADDED}):
            yield f"{item.thing} {item.name} is {item.verdict} ({item.reason})"


def _losses(item: ReportItem) -> set[str]:
    """The rules by which something is lost, besides what a migration drops."""
    return {rule.id for rule in STAGE_RULES if rule.verdict == LOSS} & {*item.rules}
