"""Data sources written in Python (pyspark.sql.datasource), and the broadcast variables of Python functions."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
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


@attrs.frozen
class Broadcasts(Mapping[int, Any]):
    """Values by ids, each loaded when it is asked for. KeyError for an id that the function does not have; what
    loading raises (a destroyed variable, encrypted files) is passed on.

    variables: those of the JVM, which know the files that the driver has written (pyspark.core.broadcast.Broadcast)
    """

    variables: Mapping[int, Any]

    def __getitem__(self, key: int) -> Any:
        with open(self.variables[key].value().path(), "rb") as file:
            return pickle.load(file)

    def __iter__(self) -> Iterator[int]:
        return iter(self.variables)

    def __len__(self) -> int:
        return len(self.variables)


def broadcasts(function: Any) -> Broadcasts:
    """Return the broadcast variables of a JVM's PythonFunction (PythonUDF.func)."""
    variables = function.broadcastVars()
    found = [variables.get(index) for index in range(variables.size())]
    return Broadcasts({int(variable.id()): variable for variable in found})
