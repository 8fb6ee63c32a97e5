"""What a leaf of a plan that is no stream reads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ...state.plan import UNKNOWN
from .jvm import module, scala_map, sequence
from .python_source import PYTHON_TABLE, python_code
from .tables import database_of, files_of, place_of

# Formats of files whose columns are found by their position, not by their names (CSVOptions: header is for writing and
# for skipping a line; UnivocityParser reads tokens by place).
_BY_POSITION = ("csv",)
# Options that say where, not what.
_PLACES = ("path", "paths", "serialization.format")


def identity(spark: SparkSession, kind: str, leaf: Any) -> str | None:
    """What a leaf reads: a table, files under their paths and how they are read, or rows given in the code. None where
    it cannot be told."""
    if kind == "LocalRelation":
        return _given_rows(spark, leaf)
    if kind == "OneRowRelation":
        return "one row"
    if kind == "Range":
        return f"range({leaf.start()}, {leaf.end()}, {leaf.step()})"
    if kind == "LogicalRDD":
        return _rows_of_rdd(spark, leaf)
    if kind == "DataSourceV2Relation":
        told = f"{leaf.name()}#{_digest([*sorted(dict(leaf.options()).items()), *place_of(spark, leaf)])}"
        if leaf.table().getClass().getSimpleName() != PYTHON_TABLE:
            return told
        code = python_code(spark, leaf.table())
        return None if code == UNKNOWN else f"{told} {code}"
    if kind != "LogicalRelation":
        return None
    if leaf.relation().getClass().getSimpleName() != "HadoopFsRelation":
        database = database_of(leaf)
        return None if database is None else f"{database[0]}#{_digest(database)}"
    if (table := files_of(leaf)) is not None:
        return f"{table}#{_digest(_reading(leaf))}"
    paths = sorted(str(path.toString()) for path in sequence(leaf.relation().location().rootPaths()))
    return f"{','.join(paths)}#{_digest(_reading(leaf))}"


def _reading(leaf: Any) -> list[Any]:
    """How files are read: format, options, and where columns go by place, their order."""
    relation = leaf.relation()
    form = str(relation.fileFormat().toString()).lower()
    options = sorted((k.lower(), v) for k, v in scala_map(relation.options()).items() if k.lower() not in _PLACES)
    places = [str(name) for name in relation.dataSchema().fieldNames()] if form.startswith(_BY_POSITION) else []
    return [form, options, places]


def _given_rows(spark: SparkSession, leaf: Any) -> str | None:
    """Rows that the code gives, as Python has them: their texts in the JVM are alike for null and for a text that says
    so, and those of bytes are addresses. None for values that Python has no type for."""
    frame = module(spark, "org.apache.spark.sql.classic.Dataset").ofRows(spark._jsparkSession, leaf)
    try:
        rows = DataFrame(frame, spark).collect()
    except Exception:
        return None
    return "rows#" + _digest([repr(tuple(row)) for row in rows])


def _rows_of_rdd(spark: SparkSession, leaf: Any) -> str | None:
    """Of rows that the code gives (createDataFrame of a list or a pandas frame); they are read. None for an RDD that is
    made of anything else."""
    roots = [line for line in str(leaf.rdd().toDebugString()).splitlines() if "RDD[" in line]
    if not roots or not any(name in roots[-1] for name in ("ParallelCollectionRDD", "ParallelCollection")):
        return None
    if any("Shuffled" in line or "Hadoop" in line for line in roots):
        return None
    return _given_rows(spark, leaf)


def _digest(value: Iterable[Any]) -> str:
    return hashlib.sha256(json.dumps(list(value), default=str).encode()).hexdigest()[:8]
