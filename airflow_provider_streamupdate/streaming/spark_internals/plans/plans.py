"""Logical plans, as Spark's own JSON with what that leaves out."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ...catalyst.tree import BUFFER, OUTPUT, is_tree
from ...catalyst.types import COLLATIONS
from ...code import describe
from ..jvm import asking, class_names, identity_function, is_a, java_class, lines, module, named, pairs, sequence
from ..settings import session_setting
from .clocks import at_one_time
from .expressions import AGGREGATE, Expressions, first_delay_ms, timed
from .fields import RENDERED, Special, complete, rendered_fields
from .leaves import choosy, identity, partitions, reading_all
from .python_source import RELATIONS, broadcasts, python_class
from .tables import reads
from .user_types import with_codes

# Expressions that are Python functions
_PYTHON = tuple(
    f"org.apache.spark.sql.catalyst.expressions.{name}" for name in ("PythonUDF", "PythonUDAF", "PythonUDTF")
)


# Expressions with a plan of their own
_SUBQUERIES = tuple(
    f"org.apache.spark.sql.catalyst.expressions.{name}"
    for name in ("ScalarSubquery", "Exists", "ListQuery", "LateralSubquery")
)
_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
_JSON_PARSER = f"{_EXPRESSIONS}.JsonToStructs"
_CSV_PARSER = f"{_EXPRESSIONS}.CsvToStructs"
_XML_PARSER = f"{_EXPRESSIONS}.XmlToStructs"
# Options of both that say how a value, or the whole text, is read (JSONOptions, CSVOptions). Others are not known here.
_OF_VALUES = {"timestampformat", "timestampntzformat", "dateformat", "timezone", "locale", "encoding", "linesep"}
_OPTIONS = {
    _JSON_PARSER: _OF_VALUES | {
        "allowcomments", "allowunquotedfieldnames", "allowsinglequotes", "allownumericleadingzeros",
        "allownonnumericnumbers", "allowbackslashescapinganycharacter", "allowunquotedcontrolchars", "multiline"},
    _CSV_PARSER: _OF_VALUES | {
        "sep", "delimiter", "quote", "escape", "nullvalue", "emptyvalue", "ignoreleadingwhitespace",
        "ignoretrailingwhitespace"},
    _XML_PARSER: set(),  # a malformed value takes those beside it along
}  # fmt: skip
# Types whose values may be malformed without a part in the other fields (tests/spark/test_parser_schema.py).
_PARSED = frozenset({"string", "boolean", "byte", "short", "integer", "long", "float", "double", "date", "timestamp",
                     "timestamp_ntz", "binary"})  # fmt: skip
# Under it a value that cannot be parsed is null, and the others are what they are.
_PARTIAL = "spark.sql.json.enablePartialResults"
_CORRUPT = "spark.sql.columnNameOfCorruptRecord"
_INLINE = "org.apache.spark.sql.catalyst.optimizer.InlineCTE"
_TREE = "org.apache.spark.sql.catalyst.trees.TreeNode"
_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical"
# What the shape of a plan tells of a node: the class, the field, the method that gives it.
_TOLD = (
    (f"{_LOGICAL}.SubqueryAlias", "identifier", "alias"),
    (f"{_LOGICAL}.CTERelationRef", "cteId", "cteId"),
    (f"{_LOGICAL}.CTERelationDef", "id", "id"),
)
_ID = re.compile(r"#(\d+)L?$", re.MULTILINE)  # at the end of an attribute's text


def analyzed_plan(df: DataFrame) -> list[dict[str, Any]]:
    """The analyzed logical plan as Spark's own JSON (TreeNode.toJSON), nodes in pre-order, with what ``WITH`` defines
    where it is used."""
    return plan_json(df.sparkSession, _written(df))


def plan_shape(df: DataFrame) -> list[dict[str, Any]]:
    """The analyzed plan as Spark has it, in the form of its JSON: its operators, whether a leaf is a stream, the names
    of aliases and the numbers of what ``WITH`` defines. No expressions: it takes a few calls of the JVM, however many
    there are."""
    jvm = df.sparkSession._jvm
    inner = df._jdf.queryExecution().analyzed().map(identity_function(jvm))
    names = class_names(jvm, inner)
    children = lines(jvm, inner.map(asking(jvm, f"{_TREE}#children", "scala.collection.SeqOps#size")))
    streams = lines(jvm, inner.map(asking(jvm, f"{_LOGICAL}.LogicalPlan#isStreaming")))
    nodes: list[dict[str, Any]] = [
        {"class": name, "num-children": int(count), "isStreaming": streaming == "true"}
        for name, count, streaming in zip(names, children, streams, strict=True)
    ]
    for kind, field, asked in _TOLD:
        if kind in names:
            told = lines(jvm, inner.filter(is_a(jvm, kind)).map(asking(jvm, f"{kind}#{asked}")))
            for node, text in zip((n for n in nodes if n["class"] == kind), told, strict=True):
                node[field] = text
    return nodes


def _written(df: DataFrame) -> Any:
    """The analyzed plan with each common table expression in the place of its references, as the optimizer puts it
    (InlineCTE); a reference by itself says nothing."""
    plan = df._jdf.queryExecution().analyzed()
    patterns = module(df.sparkSession, "org.apache.spark.sql.catalyst.trees.TreePattern")
    if not plan.containsPattern(patterns.CTE()):
        return plan
    rule = java_class(df.sparkSession._jvm, _INLINE)
    parameters = int(rule.getConstructors()[0].getParameterCount())  # Spark 4.3 has more than 4.2
    always = (True, *(False for _ in range(parameters - 1)))
    return named(df.sparkSession._jvm, _INLINE)(*always).apply(plan)


def optimized_inputs(df: DataFrame, position: int) -> list[list[dict[str, Any]]]:
    """Return the children of a node of the analyzed plan (by its position in pre-order), each optimized alone, as
    without the node and everything above it."""
    execution = df._jdf.queryExecution()
    node = _written(df).map(identity_function(df.sparkSession._jvm)).apply(position)
    optimizer = execution.sparkSession().sessionState().optimizer()
    inputs = [at_one_time(df.sparkSession, child) or child for child in sequence(node.children())]
    return [plan_json(df.sparkSession, optimizer.execute(child)) for child in inputs]


# Nodes whose state goes by the event time of a column.
_TIMED = ("Aggregate", "Deduplicate", "DeduplicateWithinWatermark", "Join", "FlatMapGroupsInPandasWithState",
          "FlatMapGroupsWithState", "TransformWithState", "TransformWithStateInPandas",
          "TransformWithStateInPySpark")  # fmt: skip


def plan_json(spark: SparkSession, plan: Any) -> list[dict[str, Any]]:
    """TreeNode.toJSON, with what it leaves out (fields.py; measured): fields of expressions and of what is no stream,
    watermark delays (a CalendarInterval becomes null) as ``delay_ms``, what a leaf that is no stream reads as
    ``identity`` (absent: not known) and its format as ``reads``, of Python functions the digest of their ``code``
    (None: not comparable, and ``uncomparable`` says why) and what it ``uses``, with versions; of user-defined types
    the digest of their classes' ``code``; and of all that is Python what importing its modules does (``imports``)."""
    told = str(plan.toJSON())
    nodes: list[dict[str, Any]] = json.loads(told)
    inner = plan.map(identity_function(spark._jvm))
    told_streams = lines(spark._jvm, inner.map(asking(spark._jvm, f"{_LOGICAL}.LogicalPlan#isStreaming")))
    streams = [streaming == "true" for streaming in told_streams]
    at = functools.cache(inner.apply)  # most nodes are not looked at
    for number, (node, streaming) in enumerate(zip(nodes, streams, strict=True)):
        kind = _kind(node)
        if kind == "EventTimeWatermark":
            companion = module(spark, "org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark")
            node["delay_ms"] = companion.getDelayMs(at(number).delay())
        if kind == "Expand" and node["projections"] is None:  # lists that are no scala List (unpivot)
            rows = sequence(at(number).projections())
            node["projections"] = [[json.loads(e.toJSON()) for e in sequence(row)] for row in rows]
        if node["num-children"] and not (streaming and kind == "EventTimeWatermark"):
            rendered_fields(spark, node, functools.partial(at, number))
    _complete_expressions(spark, plan, nodes, at)
    for number, (node, streaming) in enumerate(zip(nodes, streams, strict=True)):
        if streaming and _kind(node) in _TIMED:
            node["timed"] = timed(spark._jvm, at(number).references().toSeq())
        if streaming and _kind(node) == "DeduplicateWithinWatermark":
            node["expiry_ms"] = first_delay_ms(spark._jvm, at(number).child().output())
        if streaming and _kind(node) == "Join":
            node["never_null"] = [i for child in sequence(at(number).children()) for i in _never_null(spark, child)]
        if _kind(node) in RELATIONS and (python := python_class(spark, at(number))):
            node["imports"] = list(python.imports)
        if not node["num-children"] and (notes := _notes(spark, at(number))):
            node["notes"] = notes
        if not streaming and not node["num-children"]:
            node["identity"] = identity(spark, _kind(node), at(number))
            node["reads"] = reads(_kind(node), at(number))
            node["partitions"] = node["identity"] and partitions(_kind(node), at(number))
            node["choosy"] = choosy(spark, _kind(node), at(number))
        elif not streaming:
            node[OUTPUT] = [int(i) for i in _ID.findall(str(at(number).output().mkString("\n")))]
    if '"udt"' in told:
        with_codes(nodes)
    _number_loops(nodes)
    return nodes


def _never_null(spark: SparkSession, node: Any) -> list[int]:
    """Return the ids of the columns below a node that cannot be null."""
    columns = node.output()
    ids = lines(
        spark._jvm, columns.map(asking(spark._jvm, f"{_EXPRESSIONS}.Attribute#exprId", f"{_EXPRESSIONS}.ExprId#id"))
    )
    nullable = lines(spark._jvm, columns.map(asking(spark._jvm, f"{_EXPRESSIONS}.Expression#nullable")))
    return [int(i) for i, told in zip(ids, nullable, strict=True) if told == "false"]


def _number_loops(nodes: list[dict[str, Any]]) -> None:
    """Recursive queries (WITH RECURSIVE) by their places in the plan: their ids count in the session."""
    loops = {node["id"]: number for number, node in enumerate(n for n in nodes if _kind(n) == "UnionLoop")}
    for node in nodes if loops else ():
        if _kind(node) == "UnionLoop":
            node["id"] = loops[node["id"]]
            del node["outputAttrIds"]
        elif _kind(node) == "UnionLoopRef" and node["loopId"] in loops:
            node["loopId"] = loops[node["loopId"]]
            node["identity"] = f"loop {node['loopId']}{' so far' if node.get('accumulated') else ''}"


def _kind(node: dict[str, Any]) -> str:
    return str(node["class"].rsplit(".", 1)[-1])


def _complete_expressions(
    spark: SparkSession, plan: Any, nodes: list[dict[str, Any]], at: Callable[[int], Any]
) -> None:
    """Complete the expressions of all nodes at once when the JVM has them in the order of the JSON, else one by one.

    at: returns a node of the plan by its position
    """
    special: dict[str, Special] = {name: functools.partial(_add_code, spark) for name in _PYTHON}
    special |= dict.fromkeys(_SUBQUERIES, functools.partial(_add_plan, spark))
    special |= {name: functools.partial(_mark_parser, spark, options) for name, options in _OPTIONS.items()}
    trees = [
        (number, field, path, tree)
        for number, node in enumerate(nodes)
        for field, value in node.items()
        for path, tree in _trees(value)
    ]
    together = [n for *_, tree in trees for n in tree]
    expressions = Expressions.of_plan(spark, plan)
    if expressions.classes == [n["class"] for n in together]:
        complete(spark, together, lambda: expressions, special)
        if AGGREGATE in expressions.classes:
            for number, first in expressions.buffers().items():
                together[number][BUFFER] = first
        return
    for number, field, path, tree in trees:
        complete(spark, tree, functools.partial(_alone, spark, at(number), field, path), special)


# By which Parquet's columns are found instead of their names where a setting says so.
_FIELD_ID, _BY_ID = "parquet.field.id", "spark.sql.parquet.fieldId.read.enabled"
# What a source's schema may note of a column, or of a field in it, without a part in what is read. All other notes
# count: for example the value that a reader puts where a row has none (CURRENT_DEFAULT, ResolveDefaultColumns), the
# length to which it pads (CHAR), that the column tells of the file and not of what is in it, and whatever a source that
# is not known here has put there.
UNREAD = {
    "comment": "for people",
    COLLATIONS: "counts with the type (catalyst/types.py)",
    "GENERATION_EXPRESSION": "of rows that are written",
    "identity.start": "of rows that are written",
    "identity.step": "of rows that are written",
    "identity.allowExplicitInsert": "of rows that are written",
    "delta.generationExpression": "of rows that are written",
    "delta.identity.start": "of rows that are written",
    "delta.identity.step": "of rows that are written",
    "delta.identity.highWaterMark": "of rows that are written",
    "delta.identity.allowExplicitInsert": "of rows that are written",
    "delta.invariants": "of rows that are written",
    "delta.typeChanges": "the type counts",
}


def _notes(spark: SparkSession, leaf: Any) -> dict[str, str]:
    """Return the notes of a source's schema beside the types, by column: the JSON of a plan leaves them out."""
    fields = json.loads(str(leaf.schema().json()))["fields"]
    unread = {*UNREAD} if session_setting(spark, _BY_ID).lower() == "true" else {*UNREAD, _FIELD_ID}
    notes = {f["name"]: {f"{key}{at}": v for at, key, v in _noted(f) if key not in unread} for f in fields}
    return {name: json.dumps(told, sort_keys=True) for name, told in notes.items() if told}


def _noted(field: dict[str, Any], path: str = "") -> Iterator[tuple[str, str, Any]]:
    """The notes on a field and on all in it: where, what, and its value."""
    for key, value in field["metadata"].items():
        yield path, key, value
    inner: list[tuple[str, Any]] = [(path, field["type"])]
    while inner:
        place, kind = inner.pop()
        if isinstance(kind, dict):
            parts = ("elementType", "keyType", "valueType")
            inner += [(f"{place}.{part}", kind[part]) for part in parts if part in kind]
            for below in kind.get("fields", ()):
                yield from _noted(below, f"{place}.{below['name']}")


def _trees(value: Any, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], list[dict[str, Any]]]]:
    """The expressions in a field of a plan, which holds one, or a list of them or of lists, with their places."""
    if is_tree(value):
        yield path, value
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _trees(inner, (*path, index))


def _alone(spark: SparkSession, plan: Any, field: str, path: tuple[int, ...]) -> Expressions:
    """The expression at a place in a field of a plan's node."""
    value = getattr(plan, field)()
    for index in path:
        value = value.apply(index)
    return Expressions.of(spark, value.get() if str(value.getClass().getName()) == "scala.Some" else value)


def _add_plan(spark: SparkSession, expression: Any, node: dict[str, Any]) -> None:
    node["plan"] = plan_json(spark, expression.plan())
    for below in node["plan"]:
        if below.get("choosy"):  # which of its columns are read follows from this plan; as which types does not
            below["identity"] = reading_all(below)


def _add_code(spark: SparkSession, expression: Any, node: dict[str, Any]) -> None:
    byte = module(spark, "scala.reflect.ClassTag").Byte()
    function = expression.func()
    told = describe(bytes(function.command().toArray(byte)), broadcasts(function))
    if told.digest is not None:  # else the field would count as one that Spark's JSON leaves out
        node["code"] = told.digest
    node["uses"] = {RENDERED: ", ".join(told.packages)}
    node["imports"] = list(told.imports)
    node["uncomparable"] = "; ".join(told.unknown)
    del node["func"]


def _mark_parser(spark: SparkSession, known: set[str], expression: Any, node: dict[str, Any]) -> None:
    """Note of a parser whether it parses each field by itself (``byField``, with its options by their names): in mode
    PERMISSIVE, without a column for the text of corrupt records, whose value depends on all fields. known: the options
    by which it does"""
    options = {key.lower(): value for key, value in pairs(spark._jvm, expression.options().toSeq()).items()}
    mode = options.pop("mode", "PERMISSIVE").upper()
    schema, corrupt = node["schema"], session_setting(spark, _CORRUPT)
    fields = schema.get("fields", ()) if isinstance(schema, dict) else ()
    apart = mode == "PERMISSIVE" and options.keys() <= known and all(f["name"] != corrupt for f in fields)
    if defaults := _defaults(schema):
        node["defaults"] = json.dumps(defaults)  # for what a text lacks
    of_json, apart = node["class"] == _JSON_PARSER, apart and node["class"] != _XML_PARSER
    if apart and _is_parsed(schema) and (not of_json or session_setting(spark, _PARTIAL).lower() == "true"):
        node["byField"], node["options"] = True, options


def _defaults(kind: Any) -> list[Any]:
    """Return the notes of a schema's fields, by the paths to them, that are not for people."""
    if not isinstance(kind, dict):
        return []
    found = [[part, told] for part in ("elementType", "valueType") if (told := _defaults(kind.get(part)))]
    for field in kind.get("fields", ()):
        notes = {key: value for key, value in (field.get("metadata") or {}).items() if key not in UNREAD}
        if told := [*([notes] if notes else []), *_defaults(field["type"])]:
            found.append([field["name"], told])
    return found


def _is_parsed(kind: Any) -> bool:
    if not isinstance(kind, dict):
        return kind in _PARSED or str(kind).startswith("decimal")
    inner = [kind[part] for part in ("elementType", "keyType", "valueType") if part in kind]
    inner += [field["type"] for field in kind.get("fields", ())]
    return kind["type"] in ("struct", "array", "map") and all(map(_is_parsed, inner))
