"""Data sources written in Python (pyspark.sql.datasource)."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ...code import CodeDigest, describe
from ..jvm import module

RELATIONS = ("StreamingRelationV2", "DataSourceV2Relation")
_PYTHON_TABLE = "PythonTable"  # org.apache.spark.sql.execution.datasources.v2.python


def python_class(spark: SparkSession, leaf: Any) -> CodeDigest | None:
    """The code of the class of a Python data source that a leaf of a plan reads; None where it reads another, or the
    class cannot be found."""
    return python_code(spark, leaf.table()) if is_python(leaf) else None


def is_python(leaf: Any) -> bool:
    """Whether a leaf of a plan reads a Python data source."""
    return leaf.getClass().getSimpleName() in RELATIONS and leaf.table().getClass().getSimpleName() == _PYTHON_TABLE


def python_code(spark: SparkSession, table: Any) -> CodeDigest | None:
    """The digest of the class of a Python data source, which Spark keeps as a pickle; None when it cannot be found.

    table: the relation's PythonTable. It has the class that it was made of (or, where it has not looked for it yet,
        finds it now, and keeps it), whatever was registered under the name since
    """
    byte = module(spark, "scala.reflect.ClassTag").Byte()
    try:
        field = table.getClass().getDeclaredField("ds")
        field.setAccessible(True)
        source = field.get(table).source()
        return describe(bytes(source.dataSourceCls().command().toArray(byte)))
    except (Py4JError, PySparkException):  # this Spark has it elsewhere; none is registered any more
        return None
