"""Data sources written in Python (pyspark.sql.datasource)."""

from __future__ import annotations

from pyspark.sql import SparkSession

from ...state.plan import UNKNOWN
from ..code import code_digest
from .jvm import module

PYTHON_TABLE = "PythonTable"  # org.apache.spark.sql.execution.datasources.v2.python


def python_code(spark: SparkSession, name: str) -> str:
    """A digest of a Python data source's class, which Spark keeps as a pickle; UNKNOWN when it cannot be told."""
    registered = spark._jsparkSession.sessionState().dataSourceManager().lookupDataSource(name)
    byte = module(spark, "scala.reflect.ClassTag").Byte()
    return code_digest(bytes(registered.dataSourceCls().command().toArray(byte))) or UNKNOWN
