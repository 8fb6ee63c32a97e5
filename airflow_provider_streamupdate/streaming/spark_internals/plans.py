"""Logical plans, as Spark's own JSON with what that leaves out."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ..code import code_digest
from .jvm import module, pre_order, scala_map, sequence

_PYTHON_UDF = "org.apache.spark.sql.catalyst.expressions.PythonUDF"


def analyzed_plan(df: DataFrame) -> list[dict[str, Any]]:
    """The analyzed logical plan as Spark's own JSON (TreeNode.toJSON), nodes in pre-order."""
    return plan_json(df.sparkSession, df._jdf.queryExecution().analyzed())


def optimized_inputs(df: DataFrame, position: int) -> list[list[dict[str, Any]]]:
    """What lies below a node of the analyzed plan (by its position in pre-order), each child optimized on its own: as
    it would be without the node and everything above it."""
    execution = df._jdf.queryExecution()
    node = pre_order(execution.analyzed())[position]
    optimizer = execution.sparkSession().sessionState().optimizer()
    return [plan_json(df.sparkSession, optimizer.execute(child)) for child in sequence(node.children())]


def streaming_sources(df: DataFrame) -> list[dict[str, Any]]:
    """The streaming leaves of the analyzed plan, in pre-order: format, options and given name (or None) of each.

    TreeNode.toJSON leaves out a source's options and its name (``UserProvided`` becomes null; measured), so they are
    read from the nodes.
    """
    found = []
    leaves = df._jdf.queryExecution().analyzed().collectLeaves()
    for index in range(leaves.size()):
        leaf = leaves.apply(index)
        if not leaf.isStreaming():
            continue
        kind = leaf.getClass().getSimpleName()
        options: dict[str, str] = {}
        if kind == "StreamingRelation":
            source = leaf.dataSource()
            format_name = source.className()
            options = scala_map(source.options())
        elif kind == "StreamingRelationV2":
            format_name = leaf.sourceName()
            options = dict(leaf.extraOptions())
        else:
            format_name = kind
        found.append({"format": str(format_name), "options": options, "name": _source_name(leaf)})
    return found


def _source_name(leaf: Any) -> str | None:
    """What ``.name()`` was given (HasStreamingSourceIdentifyingName: UserProvided)."""
    if all(m.getName() != "sourceIdentifyingName" for m in leaf.getClass().getMethods()):
        return None
    name = leaf.sourceIdentifyingName()
    return str(name.name()) if name.getClass().getSimpleName() == "UserProvided" else None


def plan_json(spark: SparkSession, plan: Any) -> list[dict[str, Any]]:
    """TreeNode.toJSON, with what it leaves out (measured): watermark delays (a CalendarInterval becomes null) as
    ``delay_ms``, what a leaf that is no stream reads as ``identity`` (absent: not known), and the digests of Python
    functions' code as ``code`` of each PythonUDF (None: not comparable)."""
    text = plan.toJSON()
    nodes: list[dict[str, Any]] = json.loads(text)
    for node, jnode in zip(nodes, pre_order(plan), strict=True):
        if node["class"].endswith(".EventTimeWatermark"):
            companion = module(spark, "org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark")
            node["delay_ms"] = companion.getDelayMs(jnode.delay())
        if not node["num-children"] and (identity := _identity(node["class"].rsplit(".", 1)[-1], jnode)):
            node["identity"] = identity
    if _PYTHON_UDF in text:
        digests: dict[int, str | None] = {}
        byte = module(spark, "scala.reflect.ClassTag").Byte()
        for jnode in pre_order(plan):
            for expression in sequence(jnode.expressions()):
                for inner in pre_order(expression):
                    if inner.getClass().getName() == _PYTHON_UDF:
                        digests[inner.resultId().id()] = code_digest(bytes(inner.func().command().toArray(byte)))
        _add_digests(nodes, digests)
    return nodes


def _identity(kind: str, leaf: Any) -> str | None:
    """What a leaf reads: a table, files under their paths, or rows given in the code."""
    if kind == "LocalRelation":
        return "rows#" + hashlib.sha256(leaf.data().mkString("\n").encode()).hexdigest()[:8]
    if kind == "Range":
        return f"range({leaf.start()}, {leaf.end()}, {leaf.step()})"
    if kind == "DataSourceV2Relation":
        return str(leaf.name())
    if kind != "LogicalRelation":
        return None
    if leaf.catalogTable().isDefined():
        return str(leaf.catalogTable().get().identifier().toString())
    relation = leaf.relation()
    if relation.getClass().getSimpleName() != "HadoopFsRelation":
        return None
    return ",".join(sorted(str(path.toString()) for path in sequence(relation.location().rootPaths())))


def _add_digests(value: Any, digests: dict[int, str | None]) -> None:
    if isinstance(value, dict):
        if value.get("class") == _PYTHON_UDF:
            value["code"] = digests.get(value["resultId"]["id"])
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            _add_digests(inner, digests)
