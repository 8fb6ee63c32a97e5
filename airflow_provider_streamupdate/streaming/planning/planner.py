"""The planner: from the writers an app's query functions return to the app's plan. Nothing is run."""

from __future__ import annotations

import contextlib
import gc
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import attrs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

from ...core.compatibility.rules.settings.setting import SHARES
from ...core.compatibility.rules.sinks import kind_of
from ...core.difference.request import ExpectedDifference
from ...core.errors import ApplicationError, StreamUpdateError, cut, describe
from ...core.names import confused, is_positional
from ...core.plan.expressions import Call, Expression, Literal, Unknown
from ...core.plan.plan import (
    UNKNOWN,
    AggregateBuffer,
    Aggregation,
    AppPlan,
    PandasFunction,
    QueryPlan,
    SinkPlan,
    SourcePlan,
    StagePlan,
    StateSchema,
)
from ...core.plan.plan import (
    Path as RowPath,
)
from ...core.plan.visitors import is_unknown
from .. import spark_internals
from ..catalyst.tree import STATEFUL, Node, parse_plan
from ..catalyst.types import type_text
from ..sources import (
    columns_read,
    names_read,
    output_ids,
    plan_sources,
    streaming_leaves,
    with_what_is_above,
    without_secrets,
)
from ..stages import stage_aliases, stage_names
from .author import Declarations
from .batch_id import seen_batch, undeclared
from .definition import KINDS, asks_time, define, with_clocks
from .expressions.scope import digest
from .first_batch import keep, planned_beside
from .lineage.arrivals import arrivals, below
from .lineage.arrivals import filters as filters_below
from .lineage.arrivals import paths as paths_below
from .lineage.lineage import Lineage, aggregates, watermarks
from .schema_file import read_schemas
from .settings.python_imports import imports, migration_imports, with_imports
from .settings.query_settings import query_settings
from .settings.unaffected import unaffected

# Class of a trigger -> what it does, and where that is known from.
_TRIGGERS = {
    # MicroBatchExecution.markMicroBatchStart logs no offsets in this mode; AsyncProgressTrackingMicroBatchExecution
    "RealTimeTrigger": "real-time mode (trigger(realTime=...)) runs batches that last minutes (5 by default), and "
    "emits their rows before it logs their offsets: it cannot be drained soon, and what it has written when it is "
    "stopped is unknown",
    # ContinuousExecution: epochs, commits after the rows were written
    "ContinuousTrigger": "continuous processing (trigger(continuous=...)) has epochs instead of batches: it commits "
    "offsets after writing the rows, and there is no end of a batch at which a new version could begin",
}
# AsyncProgressTrackingMicroBatchExecution
_ASYNC = "asyncprogresstrackingenabled"


def note_tables_read(analyzed: Node, optimized: Node) -> None:
    """Make the columns that are read, and their types, a part of what such a table is, in both plans of a query."""
    read: dict[str, set[str]] = {}
    for leaf, above in with_what_is_above(optimized, ()):
        if leaf.fields.get("choosy") and leaf.fields["identity"]:
            read.setdefault(leaf.fields["identity"], set()).add(_typed(leaf, names_read(leaf, above)))
    for node in (*analyzed.walk(), *optimized.walk()):
        if node.fields.get("choosy") and (identity := node.fields["identity"]):
            told = read.get(identity) or {_typed(node, None)}  # all of them, where the optimizer made another leaf
            node.fields["identity"] = f"{identity} as #{digest(sorted(told))}"


def _typed(leaf: Node, names: tuple[str, ...] | None) -> str:
    columns = [(str(a.fields["name"]), type_text(a.fields["dataType"])) for a in leaf.expressions("output")]
    return ", ".join(f"{name} {kind}" for name, kind in sorted(columns) if names is None or name in names)


@contextlib.contextmanager
def gc_paused() -> Iterator[None]:
    """Nothing looks for circles of objects that nobody needs any more. A plan's trees are some 100,000 objects without
    any: while they are made the collector looks through them again and again, and through all that a driver holds
    about once a plan (*measured*: a tenth of a check)."""
    collected = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collected:
            gc.enable()


class App(Protocol):
    """A `StreamingApp`, as the engine and the planner know it."""

    name: str
    reloadable: tuple[str, ...]
    migrations: dict[tuple[str, str], Callable[[DataFrame], DataFrame]]
    expected_differences: tuple[ExpectedDifference, ...]

    def build(self, spark: SparkSession, params: dict[str, str]) -> dict[str, DataStreamWriter]:
        """Return the writer of each query. ApplicationError names the query and what is wrong."""
        ...

    def checkpoints(self) -> dict[str, str]:
        """Return the checkpoint locations that its own code names, by query."""
        ...

    def check(self) -> None:
        """Raise ApplicationError where its code has started a query that was not planned."""
        ...

    def begin(self) -> None:
        """The driver runs the queries."""
        ...

    def finish(self, failed: bool = False) -> None:
        """The driver has ended the queries. failed: they, or the driver, with an error"""
        ...

    def unread(self, params: Iterable[str]) -> list[str]:
        """Return a warning for each parameter that no query function has read."""
        ...

    def declarations(self) -> Declarations:
        """Return what the app declares besides its queries, once they are built."""
        ...


@gc_paused()
def plan_app(
    spark: SparkSession,
    app: Declarations,
    writers: Mapping[str, DataStreamWriter],
    recorded: Mapping[str, Mapping[str, str]] | None = None,
) -> AppPlan:
    """Return the plan of all queries. ApplicationError where a name is missing or used twice, or where Spark refuses a
    query or its plan is not understood.

    recorded: for each query that will continue from saved state, the configuration in its offset log. It wins over the
        session's on a restart (OffsetSeqMetadata.setSessionConf), so state formats and schemas are planned under it.
        Only the state stores become what the session was told, when it was told: a restore rewrites them.
    """
    version = spark_internals.check_version(spark)
    imported = set(migration_imports(app.migrations))
    planned = [
        _plan_query(
            name,
            writer,
            dict((recorded or {}).get(name, {})),
            tuple(app.migrations),
            app.written.get(name, ""),
            app.seen_batch.get(name),
            imported,
        )
        for name, writer in writers.items()
    ]
    planned = [attrs.evolve(query, checkpoint=app.checkpoints.get(query.name, "")) for query in planned]
    queries = with_imports(planned, imported)
    unnamed = [
        f"query {q.name}: stateful operator {s.name} has no name; name it with stage() or .alias() so that its "
        "state can be matched after the plan changes"
        for q in queries
        for s in q.stages
        if is_positional(s.name)
    ]
    if unnamed and app.require_names:
        raise ApplicationError(f"app {app.name} requires names: {'; '.join(unnamed)}")
    warnings = (*unnamed, *undeclared(queries))
    return AppPlan(app=app.name, spark_version=version, queries=queries, warnings=warnings, reloadable=app.reloadable)


def _plan_query(
    name: str,
    writer: DataStreamWriter,
    recorded: dict[str, str],
    migrations: tuple[tuple[str, str], ...],
    written: str,
    declared: str | None,
    imported: set[str],
) -> QueryPlan:
    """imported: takes what importing the modules of the query's Python code does."""
    where = f"query {name}" + (f" ({written})" if written else "")
    df = spark_internals.writer_frame(writer)
    details = spark_internals.writer_details(writer)
    settings = query_settings(df.sparkSession, recorded)
    mode = details["output_mode"]
    _check_startable(where, df, details)
    with tempfile.TemporaryDirectory(prefix="streamupdate-plan-") as scratch:
        with planned_beside(df, mode, Path(scratch), settings.first) as first:
            told = spark_internals.analyzed_plan(df)
            imported |= set(imports(told))
            if details["format"] == spark_internals.FOREACH:
                imported |= set(spark_internals.foreach_imports(writer))
            analyzed = parse_plan(told, mode)
            sources, order, leaf_names = plan_sources(name, df, analyzed)
            sink = _sink(df, details, seen_batch(where, writer, details["format"], declared))
            read = first.optimized()
            with _instead(
                f"{where}: Spark cannot plan it, and would refuse to start it: ",
                "; correct the query (`streamupdate plan` tries it without starting anything)",
            ):
                planned = first.whole()
        keep(writer, settings.first, Path(scratch), planned)
        with _instead(
            f"{where}: its plan is not understood, so its state could not be found again (",
            "); write it in another way, or report it with the query",
        ):
            optimized = parse_plan(read.result(), mode)
            sources = columns_read(sources, leaf_names, optimized)
            note_tables_read(analyzed, optimized)
            stages, lineage = _stages(where, df, analyzed, optimized, leaf_names, Path(scratch) / "state", mode)
        filters, paths = _to_the_sink(lineage)
    _check_names(where, sources, stages)
    return QueryPlan(
        name=name,
        output_mode=mode,
        sink=sink,
        sources=sources,
        stages=tuple(_with_migrations(name, _with_run_facts(stages, lineage, planned), migrations)),
        source_order=order,
        watermarks=tuple(watermarks(lineage)),
        conf=settings.results,
        unaffected=unaffected(analyzed, (*sources, sink), (*settings.results, *SHARES)),
        given=settings.others,
        hadoop=settings.hadoop,
        stores=settings.stores,
        written=written,
        filters=filters,
        paths=paths,
    )


def _check_names(where: str, sources: Iterable[SourcePlan], stages: Iterable[StagePlan]) -> None:
    """Raise ApplicationError when a source and a stage have names that are taken for each other."""
    if problems := list(confused((s.name for s in sources), (s.name for s in stages))):
        raise ApplicationError(
            f"{where}: {'; '.join(problems)}: descriptions of state refer to both by name; give one of them another "
            "name (with --rename old=new when state under the old name must continue)"
        )


def _sink(df: DataFrame, details: dict[str, Any], seen: str | None) -> SinkPlan:
    return SinkPlan(
        format=details["format"],
        options=without_secrets(details["options"]),
        location=details["location"],
        partitioned_by=tuple(details["partitioned_by"]),
        columns=_columns(df) if kind_of(details["format"]).has_log else None,
        seen_batch=seen,
    )


def _with_run_facts(
    stages: Iterable[StagePlan], lineage: Lineage, planned: spark_internals.DryRun
) -> Iterator[StagePlan]:
    """Yield the stages with what only the plan of a batch says: their buffers, and which late rows they drop."""
    nodes = {lineage.stages[id(node)]: node for node in lineage.plan.walk() if node.stateful}
    for stage in stages:
        timed = planned.event_times.get(stage.operator_id, {})
        late_rows = tuple(_late_rows(lineage, nodes[stage.name], stage, timed))
        buffers = planned.buffers.get(stage.operator_id, ())
        never_null = _never_null(lineage, nodes[stage.name])
        yield attrs.evolve(_with_buffers(stage, buffers), late_rows=late_rows, never_null=never_null)


def _never_null(lineage: Lineage, node: Node) -> tuple[Expression, ...]:
    """Return the columns of a join's sides that cannot be null."""
    ids = {*node.fields.get("never_null", ())}
    return tuple(dict.fromkeys(each for child in node.children for key, each in lineage.columns(child) if key in ids))


def _with_buffers(stage: StagePlan, buffers: tuple[AggregateBuffer, ...]) -> StagePlan:
    """Return a stage with the buffers of its aggregates. Where these are not as many, it is unknown which is whose."""
    if stage.kind == "session-window" and len(buffers) != len(stage.aggregates):
        return stage  # only the app's own function rewrites its rows: they are shown as Spark has them
    stage = attrs.evolve(stage, buffers=buffers)
    if not buffers or len(buffers) == len(stage.aggregates) or any(map(is_unknown, stage.aggregates)):
        return stage
    unknown = Unknown(f"{len(buffers)} buffers for", stage.aggregates)
    return attrs.evolve(stage, definition=Aggregation(keys=stage.keys, aggregates=(unknown,)))


def _late_rows(lineage: Lineage, node: Node, stage: StagePlan, timed: dict[int, int]) -> Iterator[Expression]:
    """Yield for each input of which the stage drops late rows by which column they are late. A limit drops none, and an
    applyInPandasWithState only with a timeout of event time (FlatMapGroupsWithStateExecBase).

    timed: the ids of the columns with an event time, by the number of the input"""
    kept = isinstance(stage.definition, PandasFunction) and stage.definition.timeout != "EventTimeTimeout"
    if stage.kind == "limit" or kept:
        return
    for number, column in timed.items():
        if stage.kind in ("aggregate", "session-window"):
            yield Call("by", (Literal("its keys"),))  # the only columns that reach it
            continue
        late = Call("by", (dict(lineage.columns(node.children[number])).get(column, Unknown("column")),))
        yield Call(("left", "right")[number], (late,)) if stage.kind == "join" else late


def _columns(df: DataFrame) -> tuple[tuple[str, Any], ...]:
    return tuple((field["name"], field["type"]) for field in df.schema.jsonValue()["fields"])


@contextlib.contextmanager
def _instead(before: str, after: str) -> Iterator[None]:
    """ApplicationError in place of an error that names neither the query nor what to do: what that says, between."""
    try:
        yield
    except StreamUpdateError:
        raise
    except Exception as error:
        said = " ".join(describe(error).splitlines()[:2])  # a JVM's error has its own on the second line
        raise ApplicationError(f"{before}{cut(said, 600)}{after}") from error


def _with_migrations(
    query: str, stages: Iterable[StagePlan], migrations: tuple[tuple[str, str], ...]
) -> Iterator[StagePlan]:
    for stage in stages:
        migrates = tuple(_migrates(migrations, f"{query}/{stage.name}", stage.name))
        yield attrs.evolve(stage, migrates=migrates)


def _migrates(migrations: Iterable[tuple[str, str]], *names: str) -> Iterator[str]:
    """The states there are functions for of a stage (and, as ``variable: state``, of its state variables)."""
    for which, state in migrations:
        if which in names:
            yield state
        for variable in {which.removeprefix(f"{name}/") for name in names} - {which}:
            yield f"{variable}: {state}"


def _stages(
    where: str,
    df: DataFrame,
    analyzed: Node,
    optimized: Node,
    leaf_names: dict[str, str],
    state: Path,
    mode: str,
) -> tuple[tuple[StagePlan, ...], Lineage]:
    """Three views of the same operators, all in pre-order: names from the analyzed plan, meaning from the optimized
    one, Spark's operator ids and schemas from what the dry run wrote. They must agree, or nothing can be said."""
    given = stage_names(analyzed)
    nodes = [n for n in optimized.walk() if n.stateful]
    operators = _operators(state)
    fits = len(given) == len(nodes) == len(operators) and all(
        operator["operatorInfo"]["operatorName"] in STATEFUL[node.name]
        for node, operator in zip(nodes, operators, strict=True)
    )
    written = [n for n in analyzed.walk() if n.stateful]
    if not fits:
        raise ApplicationError(
            f"{where}: its stateful operators cannot be matched, so their state could not be found again: as written "
            f"it has {_listed(n.name for n in written)}, after optimization {_listed(n.name for n in nodes)}, and "
            f"Spark runs {_listed(o['operatorInfo']['operatorName'] for o in operators)}; {_differing(written, nodes)}"
        )
    names = _names(where, given, stage_aliases(analyzed), operators)
    before = Lineage(analyzed, _leaf_names(analyzed, leaf_names), names)
    lineage = Lineage(optimized, _leaf_names(optimized, leaf_names), names, before)
    stages = tuple(
        _stage(lineage, node, operator, name, named is not None, state)
        for node, operator, name, named in zip(nodes, operators, names, given, strict=True)
    )
    inputs = _Inputs(df, analyzed, before, dict(zip(map(id, written), names, strict=True)), leaf_names, mode)
    stages = tuple(
        attrs.evolve(stage, hidden=inputs.hidden(node, stage.filters))
        for stage, node in zip(stages, written, strict=True)
    )
    if any(asks_time(n) for plan_node in analyzed.walk() for n in plan_node.all_expressions()):
        stages = tuple(
            attrs.evolve(s, definition=with_clocks(s.definition, define(before, n, o)))
            for s, n, o in zip(stages, written, operators, strict=True)
        )
    return stages, lineage


@attrs.frozen
class _Inputs:
    """The plans that the author wrote below each stage. names: the stages' by their nodes in the analyzed plan."""

    df: DataFrame
    analyzed: Node
    lineage: Lineage
    names: dict[int, str]
    leaf_names: dict[str, str]
    mode: str

    def hidden(self, stage: Node, filters: tuple[Expression, ...]) -> tuple[Expression, ...]:
        """Return those of the filters below a stage that are not written there. A filter may be written otherwise than
        the optimizer puts it, so that one that is not found is looked for in the optimized plan of what is below."""
        written = filters_below(self.lineage, stage)
        if not written >= set(filters):
            position = next(i for i, node in enumerate(self.analyzed.walk()) if node is stage)
            plans = [parse_plan(plan, self.mode) for plan in spark_internals.optimized_inputs(self.df, position)]
            below = Node("Inputs", {}, plans)
            names = [self.names[id(n)] for n in stage.walk() if id(n) in self.names and n is not stage]
            if len(names) == sum(n.stateful for n in below.walk()):  # else nothing is known of them
                lineage = Lineage(below, _leaf_names(below, self.leaf_names), names, self.lineage)
                written |= filters_below(lineage, below)
        return tuple(set(filters) - written)


def _leaf_names(plan: Node, names: dict[str, str]) -> list[str]:
    return [names.get(output_ids(leaf), f"{UNKNOWN}source") for leaf in streaming_leaves(plan)]


def _stage(lineage: Lineage, node: Node, operator: dict[str, Any], name: str, named: bool, state: Path) -> StagePlan:
    info = operator["operatorInfo"]
    kind = _kind(info["operatorName"])
    found = aggregates(node, lineage.inputs(node)) if node.name == "Aggregate" else []
    return StagePlan(
        name=name,
        named=named,
        kind=kind,
        operator=info["operatorName"],
        operator_id=info["operatorId"],
        definition=define(lineage, node, operator),
        aggregated=tuple(each.computed_from for each in found),
        results=tuple(each.result for each in found),
        schemas=operator_schemas(state / str(info["operatorId"]), operator) if kind in KINDS.values() else (),
        stores=tuple(s["storeName"] for s in operator["stateStoreInfo"]),
        below=below(lineage, node),
        filters=tuple(filters_below(lineage, node)),
        arrivals=tuple(arrivals(lineage, node)),
        paths=tuple(paths_below(lineage, node)),
    )


def _to_the_sink(lineage: Lineage) -> tuple[tuple[Expression, ...], tuple[RowPath, ...] | None]:
    """Return the filters and the paths of the rows that come to the sink; no paths where they cannot be told. They are
    only shown, so that an app is not refused for them."""
    sink = Node("Sink", {}, [lineage.plan])
    with contextlib.suppress(Exception):
        return tuple(filters_below(lineage, sink)), tuple(paths_below(lineage, sink))
    return (), None


def _operators(state: Path) -> list[dict[str, Any]]:
    """Spark's operator metadata as the dry run wrote it, by operator id (OperatorStateMetadataV1/V2)."""
    found = []
    for folder in sorted((p for p in state.glob("*") if p.name.isdigit()), key=lambda p: int(p.name)):
        path = next((p for p in (folder / "_metadata/metadata", folder / "_metadata/v2/0") if p.exists()), None)
        if path is not None:
            found.append(json.loads(path.read_text().split("\n", 1)[1]))
    return found


def operator_schemas(folder: Path, operator: dict[str, Any]) -> tuple[StateSchema, ...]:
    """The column families of all stores. A store with a name of its own (a join's, in state formats 1 and 2) has one
    family, which is called after it."""
    found: list[StateSchema] = []
    for name, path in schema_files(folder, operator):
        schemas = read_schemas(path.read_bytes(), str(path))
        found += schemas if name == "default" else (attrs.evolve(s, name=name) for s in schemas)
    return tuple(found)


def schema_files(folder: Path, operator: dict[str, Any]) -> Iterator[tuple[str, Path]]:
    """The state schema files of all stores, with the store each is of."""
    for store in operator["stateStoreInfo"]:
        paths = [Path(p.removeprefix("file:")) for p in store.get("stateSchemaFilePaths", [])]
        name = store["storeName"]
        inner = folder / "0" if name == "default" else folder / "0" / name
        for path in paths or [inner / "_metadata/schema"]:
            yield name, path


def _names(
    where: str, given: list[str | None], aliases: list[str | None], operators: list[dict[str, Any]]
) -> list[str]:
    counts: dict[str, int] = {}
    names: list[str] = []
    for name, alias, operator in zip(given, aliases, operators, strict=True):
        name = name or alias
        if name is None:
            kind = _kind(operator["operatorInfo"]["operatorName"])
            counts[kind] = counts.get(kind, 0) + 1
            name = f"{kind}-{counts[kind]}"
        if name in names:
            raise ApplicationError(
                f"{where}: two stages are named {name!r}; give each stateful operator its own name "
                "(a named DataFrame that is used twice becomes two operators)"
            )
        names.append(name)
    return names


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _differing(written: list[Node], optimized: list[Node]) -> str:
    """Return what to do, by the kinds of operators that are not the same number before and after optimization."""
    before, after = (Counter(n.name for n in nodes) for nodes in (written, optimized))
    changed = sorted(before.keys() | after.keys(), key=lambda n: (before[n] == after[n], n))
    first = changed[0] if changed else "operator"
    if before[first] == after[first]:
        return f"write the query without one of its {_listed(changed)}"
    how = "merges or drops one" if before[first] > after[first] else "makes more of them"
    return f"the optimizer {how} ({first}: {before[first]} written, {after[first]} planned): write it as it is planned"


def _kind(operator: str) -> str:
    return KINDS.get(operator, operator)


def _check_startable(where: str, df: DataFrame, details: Mapping[str, Any]) -> None:
    """Raise ApplicationError when Spark would refuse the query, or its batches are not logged and committed one by one.

    Only micro-batches that are logged before they run, and committed after, allow snapshots, hand-overs and updates.
    """
    why = _TRIGGERS.get(details["trigger"])
    options = {name.lower(): value for name, value in details["options"].items()}
    if options.get(_ASYNC, "false").strip().lower() == "true":
        why = (
            "asynchronous progress tracking (asyncProgressTrackingEnabled) omits batches from the offset and commit "
            "logs, so what the sink has received when the query is stopped is unknown"
        )
    if why:
        raise ApplicationError(
            f"{where}: {why}; updates are not possible, and nothing was started. Use trigger(processingTime=...) or "
            "trigger(availableNow=True)"
        )
    if refused := spark_internals.unsupported(df, details["output_mode"]):
        raise ApplicationError(f"{where}: Spark will refuse to start it: {refused}")
