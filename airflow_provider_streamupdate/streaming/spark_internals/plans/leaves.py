"""What a leaf of a plan that is no stream reads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from ....core.compatibility.rules.sources.source_options import CORRUPT, OF_THE_SESSION, ORC_BY_POSITION, TRIED
from ...catalyst.types import field_type, type_text
from ..jvm import module, scala_map, sequence
from ..settings import hadoop_setting, session_setting
from .exact_rows import Unreadable, exact_rows
from .python_source import is_python, python_class
from .tables import FILES, database_of, files_of, made_with, place_of

_TRUE = "true"
_TRIED_V2 = ("CSVTable", "JsonTable")  # those of TRIED that have a table of V2 (xml has none)
# Options that say where, not what.
_PLACES = ("path", "paths", "serialization.format")


def identity(spark: SparkSession, kind: str, leaf: Any) -> str | None:
    """Describe what a leaf reads: a table, files with their paths and options, or rows given in the code. None when it
    is unknown."""
    if kind in ("LocalRelation", "Transpose"):  # DataFrame.transpose() has read all rows, and gives them as a list
        return _given_rows(spark, leaf)
    if kind == "OneRowRelation":
        return "one row"
    if kind == "Range":
        return f"range({leaf.start()}, {leaf.end()}, {leaf.step()})"
    if kind == "LogicalRDD":
        return _rows_of_rdd(spark, leaf)
    if kind == "DataSourceV2Relation":
        read = [*sorted(dict(leaf.options()).items()), *place_of(spark, leaf)]
        options = {k.lower(): v for k, v in {**made_with(spark, leaf), **dict(leaf.options())}.items()}
        if leaf.table().getClass().getSimpleName() in _TRIED_V2 and _strict(spark, options, leaf.schema()):
            return None  # which of its columns are read is not looked at here
        if not is_python(leaf):
            return f"{leaf.name()}#{_digest(read)}"
        code = python_class(spark, leaf)
        if code is None or code.with_imports is None:
            return None
        return f"{leaf.name()}#{_digest([read, _columns(leaf)])} python#{code.with_imports}"  # rows are tuples
    if kind != "LogicalRelation":
        return None
    if leaf.relation().getClass().getSimpleName() != FILES:
        database = database_of(leaf)
        return None if database is None else f"{database[0]}#{_digest(database)}"
    if (table := files_of(leaf)) is not None:
        return f"{table}#{_digest(_reading(spark, leaf))}"
    paths = sorted(str(path.toString()) for path in sequence(leaf.relation().location().rootPaths()))
    return f"{','.join(paths)}#{_digest(_reading(spark, leaf))}"


def partitions(kind: str, leaf: Any) -> int | None:
    """Return the number of partitions in which the code gives rows; None when it gives no number, and for files and
    tables."""
    if kind == "Range":
        return int(leaf.numSlices().get()) if leaf.numSlices().isDefined() else None
    return int(leaf.rdd().getNumPartitions()) if kind == "LogicalRDD" else None


def choosy(spark: SparkSession, kind: str, leaf: Any) -> bool:
    """Whether the rows depend on which columns are read, and as which types: where malformed records are dropped, fail,
    or are told in a column (source_options.choosy: the same of sources)."""
    if kind != "LogicalRelation" or leaf.relation().getClass().getSimpleName() != FILES:
        return False
    relation = leaf.relation()
    options = {k.lower(): v for k, v in scala_map(relation.options()).items()}
    return str(relation.fileFormat().toString()).lower() in TRIED and _strict(spark, options, relation.dataSchema())


def _strict(spark: SparkSession, options: dict[str, str], schema: Any) -> bool:
    corrupt = options.get(CORRUPT) or session_setting(spark, OF_THE_SESSION[CORRUPT])
    columns = {str(name).lower() for name in schema.fieldNames()}
    return options.get("mode", "permissive").lower() != "permissive" or corrupt.lower() in columns


def reading_all(leaf: dict[str, Any]) -> str | None:
    """Describe a leaf with pruned columns as if it read all of them, with their types."""
    columns = [[attribute[0]["name"], type_text(attribute[0]["dataType"])] for attribute in leaf["output"]]
    return leaf["identity"] and f"{leaf['identity']} as #{_digest(columns)}"


def _reading(spark: SparkSession, leaf: Any) -> list[Any]:
    """How files are read: format, options, and where columns go by place, their order."""
    relation = leaf.relation()
    form = str(relation.fileFormat().toString()).lower()
    options = {k.lower(): v for k, v in scala_map(relation.options()).items() if k.lower() not in _PLACES}
    by_place = _by_place(spark, form, options)
    places = [str(name) for name in relation.dataSchema().fieldNames()] if by_place else []
    return [form, sorted(options.items()), places]


def _by_place(spark: SparkSession, form: str, options: dict[str, str]) -> bool:
    """Whether files' columns are found by their position, not by their names. (CSVOptions: header is for writing and
    for skipping a line; UnivocityParser reads tokens by place.)"""
    if form.startswith("avro"):
        return options.get("positionalfieldmatching", "").lower() == _TRUE
    if form.startswith("orc"):
        return (options.get(ORC_BY_POSITION) or hadoop_setting(spark, ORC_BY_POSITION) or "").lower() == _TRUE
    return form.startswith("csv")


def _given_rows(spark: SparkSession, leaf: Any) -> str | None:
    """Rows that the code gives, as Spark keeps them, with the columns they are given to by their places: in their order
    and in any order. (As texts of the JVM null and a text that says so are alike; Python has no type for some.)"""
    frame = module(spark, "org.apache.spark.sql.classic.Dataset").ofRows(spark._jsparkSession, leaf)
    try:
        rows = exact_rows(spark, frame.queryExecution().executedPlan())
    except (Py4JError, Unreadable):
        return None
    columns = _columns(leaf)
    return f"rows#{_digest([columns, *rows])}|{_digest(['in any order', columns, *sorted(rows)])}"


def _columns(leaf: Any) -> list[list[str]]:
    """The columns' names and types, where rows are given to them by their places."""
    fields = json.loads(str(leaf.schema().json()))["fields"]
    return [[str(field["name"]), type_text(field_type(field))] for field in fields]


def _rows_of_rdd(spark: SparkSession, leaf: Any) -> str | None:
    """Read the rows that the code gives (createDataFrame of a list or a pandas frame). Return None for any other
    RDD."""
    roots = [line for line in str(leaf.rdd().toDebugString()).splitlines() if "RDD[" in line]
    if not roots or not any(name in roots[-1] for name in ("ParallelCollectionRDD", "ParallelCollection")):
        return None
    if any("Shuffled" in line or "Hadoop" in line for line in roots):
        return None
    return _given_rows(spark, leaf)


def _digest(value: Iterable[Any]) -> str:
    return hashlib.sha256(json.dumps(list(value), default=str).encode()).hexdigest()[:8]
