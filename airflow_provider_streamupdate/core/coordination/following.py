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
from collections.abc import Collection, Iterator
from typing import Any

import attrs

from ..compatibility.compatibility import compare
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
from ..compatibility.verdict import LOSS, REFUSED, ReportItem
from ..plan.expressions import Call, Column, Expression, Literal, Python, Union
from ..plan.plan import AppPlan, Path, QueryPlan, SourcePlan, StagePlan, in_order, parts
from ..plan.visitors import calls, contains, is_comparable, references, refers_only_to, without_branches

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
_CHANCE = frozenset({
    "rand", "randn", "randstr", "uuid", "shuffle", "sparkpartitionid", "monotonicallyincreasingid",
    "callmethodviareflection", "inputfileblockstart", "inputfileblocklength", "sample", "mapinpandas", "mapinarrow",
    "pythonmapinarrow", "first", "last", "anyvalue", "collectlist", "collectset", "listagg", "mode", "maxby", "minby",
    "approximatepercentile", "histogramnumeric",
})  # fmt: skip
_CHANCE_OPTIONS = {("udfDeterministic", "False"), ("isDeterministic", "False"), ("functionName", "aesEncrypt"),
                   *(("evalType", kind) for kind in ("204", "205", "207", "251"))}  # fmt: skip
_EVERY_ROW = Call("", (Literal("1"),))  # what count(*) is computed from
_OF_TABLES = ("lookup", "exists", "insubquery", "listquery")
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
    """Yield the problems that do not depend on the other version."""
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
    watermarks = (w for w in new.watermarks if not (w.column and refers_only_to(w.column, come, kept)))
    if old.watermarks != in_order(watermarks):
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
    """Return a stage without the branches of unions that begin at a new source: they bring no rows before the
    takeover."""
    shared = stage.changed(lambda expression: without_branches(expression, come, kept))
    return attrs.evolve(stage, definition=shared.definition)


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


def _depends_on_the_first(stage: StagePlan, below: StagePlan, query: QueryPlan) -> bool:
    """Return whether it may matter to a stage which of several rows a stage below lets pass. Not where it reads columns
    alone in which these rows are equal: the keys of a deduplication."""
    if below.kind not in _FIRST_COME or not any(below.name in path.stages for path in stage.paths):
        return False
    keys = {key for key in below.keys if not _is_looser_than_equal(key)}
    if below.kind != "deduplicate" or stage.kind not in _BY_KEYS or _columns(stage) - keys:
        return True
    # What is read from no column may differ from row to row, too: by explode, by branches, by files.
    if any(not _is_event_time(made) for made in below.arrivals):
        return True
    read = {*stage.keys, *stage.aggregated} - keys - {_EVERY_ROW}
    if any(_differs_by_row(each) or not any(contains(each, key) for key in keys) for each in read):
        return True
    known = {Call("isnotnull", (key,)) for key in keys}
    return any(step.expression not in known for path in stage.paths for step in path.steps)


def _is_event_time(arrival: Expression) -> bool:
    """Return whether a stage's arrival only says which column has a watermark."""
    return isinstance(arrival, Call) and arrival.function == "event time"


def _columns(stage: StagePlan) -> set[Expression]:
    every = (each for part in stage.expressions.values() for each in part)
    return {node for each in every for node in each.walk() if isinstance(node, Column) and node.source}


def _differs_by_row(expression: Expression) -> bool:
    return any(
        isinstance(node, Union) or (isinstance(node, Call) and node.function.startswith("inputfile"))
        for node in expression.walk()
    )


def _is_looser_than_equal(key: Expression) -> bool:
    """Return whether values of the column may count as equal and differ: 0.0 and -0.0, texts of some collations. So may
    those of a column whose type is unknown."""
    return isinstance(key, Column) and (
        not key.type or bool(re.search("float|double|collate", key.type, re.IGNORECASE))
    )


def _counts_only(query: QueryPlan) -> bool:
    """Whether all stages are aggregations of rows that have passed no other stage, each result of which is given whole
    or once at its end. (In update mode nobody would write what the new version makes of the batches that are followed.)
    Each group's result follows from the
    rows that were counted into it, and a group leaves by its own time and the watermark, which is the running version's
    while it is followed. So with another filter, a row is counted by the new version's from where the following began,
    as with a restart from where that is; no row is lost or counted twice."""
    return query.output_mode in _WHOLE_RESULTS and all(
        stage.kind == "aggregate" and not any(path.stages for path in stage.paths) for stage in query.stages
    )


def _without_filters(stage: StagePlan, other: StagePlan) -> tuple[Path, ...]:
    """Return the ways of a stage's rows without what they have to meet on them."""
    known = {*stage.filters, *other.filters}
    return in_order(
        attrs.evolve(path, steps=tuple(step for step in path.steps if step.expression not in known))
        for path in stage.paths
    )


def _of_stage(old: StagePlan, new: StagePlan, new_sources: Collection[str], counts_only: bool = False) -> Iterator[str]:
    if old.kind != new.kind:
        yield "is of another kind"
    came = tuple(path for path in new.paths if path.source not in new_sources)
    if old.paths != came and not (counts_only and _without_filters(old, new) == _without_filters(new, old)):
        yield (
            "is given other rows in the new version (another filter, lookup, stage or source is below it): what it "
            "made of the batches that are followed would not fit what the running version has written"
        )
    every = [each for part in new.expressions.values() for each in part]
    every += [step.expression for path in new.paths for step in path.steps]
    every += [*new.filters, *new.hidden, *new.arrivals]
    if not all(map(is_comparable, every)) or any(path.source.startswith("?") for path in new.paths):
        yield "depends on something that cannot be read from its plan"
    if chance := sorted({found for each in every for node in each.walk() for found in _chances(node)}):
        yield f"depends on chance ({', '.join(chance)}): the same batch would give it other rows"
    if any(map(_reads_table, every)):
        yield "depends on a table, which may have changed since the running version ran a batch"
    if set(new.migrates) - set(old.migrates):
        yield "is migrated by a function of the app, which would be given the state of an earlier batch"
    yield from _of_definition(old, new)


def _chances(node: Expression) -> Iterator[str]:
    """Yield what may give a node another value in another run of the same batch."""
    if isinstance(node, Call) and (node.function.lower() in _CHANCE or node.function.startswith("approxtopk")):
        yield node.function
    if isinstance(node, Column) and re.search(r"\bfile_block_(start|length)\b", node.path):
        yield node.path
    for name, value in node.options if isinstance(node, Call | Python) else ():
        if (name, value.text) in _CHANCE_OPTIONS:
            yield f"{name}={value.text}"


def _reads_table(expression: Expression) -> bool:
    of_table = (c.function in _OF_TABLES or c.function.endswith("subquery") for c in calls(expression))
    return any(of_table) or any(name.startswith("static:") for name in references(expression))


def _of_definition(old: StagePlan, new: StagePlan) -> Iterator[str]:
    """A state that is rewritten when the following begins has to be what it would be if that were done at its end."""
    types, now_types = old.types, new.types
    if other := sorted(str(c) for c in types.keys() & now_types.keys() if types[c] != now_types[c]):
        yield f"reads columns of other types ({', '.join(other)})"
    windows = [in_order(attrs.evolve(w, digest="") for w in stage.windows) for stage in (old, new)]
    if all(windows) and windows[0] != windows[1]:
        yield "has other windows: those that the running version closes would be other ones"
    elif _meaning(old) != _meaning(new):
        code = "other code or " if new.kind in _FUNCTIONS else ""
        yield f"has {code}another definition: what it gives for the batches that are followed is written nowhere"


def _meaning(stage: StagePlan) -> dict[str, Any]:
    """Return what decides which groups or rows there are in the state and when they leave it. An aggregate more or less
    is kept in the same groups."""
    found = parts(stage.definition)
    if stage.kind in _BY_KEYS:
        found["keys"] = in_order(stage.keys)
    if stage.kind == "aggregate":
        found.pop("aggregates", None)
    return found


def _compared(old: AppPlan, new: AppPlan) -> Iterator[str]:
    """Yield the items that the compatibility check refuses or that need agreement: the batch from which they hold would
    depend on when the new version began to follow."""
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
