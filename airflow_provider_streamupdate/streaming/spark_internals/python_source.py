"""Data sources written in Python (pyspark.sql.datasource)."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ...state.plan import UNKNOWN
from ..code import code_digest
from .jvm import module

PYTHON_TABLE = "PythonTable"  # org.apache.spark.sql.execution.datasources.v2.python


def python_code(spark: SparkSession, table: Any) -> str:
    """A digest of the class of a Python data source, which Spark keeps as a pickle; UNKNOWN when it cannot be told.

    table: the relation's PythonTable. It has the class that it was made of (or, where it has not looked for it yet,
        finds it now, and keeps it), whatever was registered under the name since
    """
    byte = module(spark, "scala.reflect.ClassTag").Byte()
    try:
        field = table.getClass().getDeclaredField("ds")
        field.setAccessible(True)
        source = field.get(table).source()
        return code_digest(bytes(source.dataSourceCls().command().toArray(byte))) or UNKNOWN
    except (Py4JError, PySparkException):  # this Spark has it elsewhere; none is registered any more
        return UNKNOWN
