"""The planner: from the writers an app's query functions return to the app's plan. Nothing is run."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

from ..state.errors import ApplicationError
from ..state.plan import UNKNOWN, AppPlan, QueryPlan, SinkPlan, SourcePlan, StagePlan, StateSchema
from . import spark_internals
from .lineage import Lineage, aggregates, watermarks
from .schema_file import read_schemas
from .stage import stage_names
from .tree import STATEFUL, Node, parse

_KINDS = {
    "stateStoreSave": "aggregate",
    "dedupe": "deduplicate",
    "transformWithStateInPySparkExec": "transform-with-state",
    "transformWithStateInPandasExec": "transform-with-state",
}


def plan_app(
    spark: SparkSession,
    app: str,
    writers: Mapping[str, DataStreamWriter],
    require_names: bool = False,
    migrations: Iterable[tuple[str, str]] = (),
) -> AppPlan:
    """The plan of all queries; `migrations` are the stages and states the app has functions for.

    ApplicationError where a name is missing (`require_names`) or used twice, or where a plan is not understood; Spark's
    own errors where it refuses the query.
    """
    version = spark_internals.check_version(spark)
    queries = tuple(_plan_query(name, writer, tuple(migrations)) for name, writer in writers.items())
    warnings = [
        f"query {q.name}: stateful operator {s.name} has no name; name it with stage() so that its state can be "
        "matched after the plan changes"
        for q in queries
        for s in q.stages
        if not s.named
    ]
    if warnings and require_names:
        raise ApplicationError(f"app {app} requires names: {'; '.join(warnings)}")
    return AppPlan(app=app, spark_version=version, queries=queries, warnings=tuple(warnings))


def _plan_query(name: str, writer: DataStreamWriter, migrations: tuple[tuple[str, str], ...]) -> QueryPlan:
    df = spark_internals.writer_frame(writer)
    details = spark_internals.writer_details(writer)
    analyzed = parse(spark_internals.analyzed_plan(df))
    sources, order = _sources(df, analyzed)
    with tempfile.TemporaryDirectory(prefix="streamupdate-plan-") as scratch:
        planned = dry_run(df, details["output_mode"], f"file://{scratch}", Path(scratch))
        optimized = parse(planned.optimized)
        leaf_names = dict(zip(map(_output_ids, _leaves(analyzed)), order, strict=True))
        stages, lineage = _stages(name, analyzed, optimized, leaf_names, Path(scratch) / "state")
    stages = tuple(
        attrs.evolve(
            stage,
            buffers=planned.buffers.get(stage.operator_id, ()),
            migrates=tuple(state for which, state in migrations if which in (stage.name, f"{name}/{stage.name}")),
        )
        for stage in stages
    )
    return QueryPlan(
        name=name,
        output_mode=details["output_mode"],
        sink=SinkPlan(format=details["format"], options=details["options"]),
        sources=sources,
        stages=stages,
        source_order=order,
        watermarks=tuple(watermarks(lineage)),
    )


def dry_run(
    df: DataFrame, output_mode: str, uri: str, local: Path, conf: dict[str, str] | None = None
) -> spark_internals.DryRun:
    """Write Spark's metadata of a first batch under `uri` (= `local`) and return what was planned."""
    (local / "offsets").mkdir(parents=True, exist_ok=True)
    placeholder = local / "offsets" / "0"  # OperatorStateMetadataV2Reader wants the batch to be in the offset log
    placeholder.write_text("v1\n")
    try:
        return spark_internals.dry_run(df, output_mode, uri, batch=0, conf=conf, write=True)
    finally:
        placeholder.unlink()


def _sources(df: DataFrame, analyzed: Node) -> tuple[tuple[SourcePlan, ...], tuple[str, ...]]:
    """The sources, and for each streaming leaf (a line of the offset log) the name of its source.

    Leaves with the same columns (by id) are one source: a DataFrame used twice (MicroBatchExecution's
    toExecutionRelationMap is keyed by the whole relation).
    """
    plans: dict[str, SourcePlan] = {}
    order = []
    found = spark_internals.streaming_sources(df)
    for leaf, source in zip(_leaves(analyzed), found, strict=True):
        key = _output_ids(leaf)
        if key not in plans:
            plans[key] = _source(leaf, source, len(plans) + 1)
        order.append(plans[key].name)
    return tuple(plans.values()), tuple(order)


def _source(leaf: Node, source: dict[str, Any], number: int) -> SourcePlan:
    options = {k.lower(): v for k, v in source["options"].items()}
    given = leaf.fields.get("sourceIdentifyingName")
    own = given.get("name") if isinstance(given, dict) else None
    return SourcePlan(
        name=str(own) if own else f"source-{number}",
        named=bool(own),
        format=source["format"],
        location=options.get("path") or options.get("subscribe") or options.get("subscribepattern"),
        columns={a.fields["name"]: a.fields["dataType"] for a in leaf.expressions("output")},
    )


def _leaves(plan: Node) -> list[Node]:
    return [n for n in plan.walk() if not n.children and n.streaming]


def _output_ids(leaf: Node) -> str:
    return json.dumps([a.fields["exprId"]["id"] for a in leaf.expressions("output")])


def _stages(
    query: str, analyzed: Node, optimized: Node, leaf_names: dict[str, str], state: Path
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
    if not fits:
        raise ApplicationError(
            f"query {query}: its stateful operators cannot be told apart: the plan has {len(given)}, after "
            f"optimization {len(nodes)}, and Spark made {len(operators)} "
            f"({', '.join(o['operatorInfo']['operatorName'] for o in operators)}); simplify the query"
        )
    names = _names(query, given, operators)
    found = [leaf_names.get(_output_ids(leaf), f"{UNKNOWN}source") for leaf in _leaves(optimized)]
    lineage = Lineage(optimized, found, names)
    stages = tuple(
        _stage(lineage, node, operator, name, named is not None, state)
        for node, operator, name, named in zip(nodes, operators, names, given, strict=True)
    )
    return stages, lineage


def _stage(lineage: Lineage, node: Node, operator: dict[str, Any], name: str, named: bool, state: Path) -> StagePlan:
    info = operator["operatorInfo"]
    kind = _kind(info["operatorName"])
    known = kind in _KINDS.values()
    return StagePlan(
        name=name,
        named=named,
        kind=kind,
        operator=info["operatorName"],
        operator_id=info["operatorId"],
        definition=_definition(lineage, node, operator) if known else {},
        windows=lineage.windows(node, lineage.texts(node, "groupingExpressions")) if node.name == "Aggregate" else (),
        schemas=_schemas(state / str(info["operatorId"]), operator) if known else (),
        stores=tuple(s["storeName"] for s in operator["stateStoreInfo"]),
    )


def _definition(lineage: Lineage, node: Node, operator: dict[str, Any]) -> dict[str, Any]:
    env = lineage.inputs(node)
    if node.name in ("Aggregate", "Distinct"):
        return {"keys": lineage.texts(node, "groupingExpressions"), "aggregates": aggregates(node, env)}
    if node.name == "Deduplicate":
        return {"keys": lineage.texts(node, "keys")}
    # transformWithState: the first columns of its input are the keys; its state variables are the processor's own.
    properties = json.loads(operator.get("operatorPropertiesJson") or "{}")
    count = int(node.fields.get("groupingAttributesLen") or 0)
    return {
        "keys": [text for _, text in lineage.columns(node.children[0])[:count]],
        "time mode": properties.get("timeMode", "?"),
        "initial state": bool(node.fields.get("hasInitialState")),
        "state variables": sorted(
            f"{v['stateName']}: {v['stateVariableType']}" + (" with TTL" if v.get("ttlEnabled") else "")
            for v in properties.get("stateVariables", [])
        ),
    }


def _operators(state: Path) -> list[dict[str, Any]]:
    """Spark's operator metadata as the dry run wrote it, by operator id (OperatorStateMetadataV1/V2)."""
    found = []
    for folder in sorted((p for p in state.glob("*") if p.name.isdigit()), key=lambda p: int(p.name)):
        path = next((p for p in (folder / "_metadata/metadata", folder / "_metadata/v2/0") if p.exists()), None)
        if path is not None:
            found.append(json.loads(path.read_text().split("\n", 1)[1]))
    return found


def _schemas(folder: Path, operator: dict[str, Any]) -> tuple[StateSchema, ...]:
    paths = [p for s in operator["stateStoreInfo"] for p in s.get("stateSchemaFilePaths", [])]
    files = [Path(p.removeprefix("file:")) for p in paths] or [folder / "0/_metadata/schema"]
    return tuple(s for f in files for s in read_schemas(f.read_bytes(), str(f)))


def _names(query: str, given: list[str | None], operators: list[dict[str, Any]]) -> list[str]:
    counts: dict[str, int] = {}
    names = []
    for name, operator in zip(given, operators, strict=True):
        if name is None:
            kind = _kind(operator["operatorInfo"]["operatorName"])
            counts[kind] = counts.get(kind, 0) + 1
            name = f"{kind}-{counts[kind]}"
        if name in names:
            raise ApplicationError(
                f"query {query}: two stages are named {name!r}; give each stateful operator its own name "
                "(a named DataFrame that is used twice becomes two operators)"
            )
        names.append(name)
    return names


def _kind(operator: str) -> str:
    return _KINDS.get(operator, operator)
