"""The options and settings of a DataStreamWriter."""

from __future__ import annotations

import functools
import pickle
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

from ....core.plan.plan import UNKNOWN
from ...code import describe
from ..jvm import java_class, module, named, scala_map, sequence, static
from ..plans.python_source import broadcasts
from ..settings import session_setting

_SINK_LOG = "_spark_metadata"  # FileStreamSink.metadataDir
FOREACH = "foreach"  # the format of a writer that is given a function or an object to call with each row


def writer_frame(writer: DataStreamWriter) -> DataFrame:
    """The DataFrame a writer writes."""
    return writer._df


def writer_details(writer: DataStreamWriter) -> dict[str, Any]:
    """Return the settings of a DataStreamWriter: format, output_mode, options, trigger (the simple name of its class),
    the columns it is partitioned_by, and the location of its path (None without one)."""
    jvm, jwriter = writer._df.sparkSession._jvm, writer._jwrite

    def field(name: str) -> Any:
        return _field(jvm, name).get(jwriter)

    options = scala_map(field("extraOptions").originalMap())
    format_name = str(field("source") or "")
    if field("foreachBatchWriter") is not None:
        format_name = "foreachBatch"
    elif field("foreachWriter") is not None:
        format_name = FOREACH
    path = next((str(v) for k, v in options.items() if k.lower() == "path"), None)
    columns = field("partitioningColumns")
    return {
        "format": format_name or "default",
        "options": {k: str(v) for k, v in options.items()},
        "location": qualified(writer._df.sparkSession, path) if path else None,
        "partitioned_by": [str(c) for c in sequence(columns.get())] if columns.isDefined() else [],
        "trigger": str(field("trigger").getClass().getSimpleName()).removesuffix("$"),
        "output_mode": str(field("outputMode").toString()).lower(),
    }


def copied(writer: DataStreamWriter) -> DataStreamWriter:
    """Return a writer with the settings that this one has now."""
    made = writer_frame(writer).writeStream
    for field in writer._jwrite.getClass().getDeclaredFields():
        field.setAccessible(True)
        field.set(made._jwrite, field.get(writer._jwrite))
    return made


def in_session(writer: DataStreamWriter, spark: SparkSession) -> bool:
    """Return whether a writer's query would run in this session, and in none that newSession() has made."""
    return bool(writer_frame(writer).sparkSession._jsparkSession.equals(spark._jsparkSession))


def muted(writer: DataStreamWriter) -> DataStreamWriter:
    """Return a writer of the same rows by the same trigger, into nothing."""
    made = writer_frame(writer).writeStream.format("noop").outputMode(writer_details(writer)["output_mode"])
    made._jwrite.trigger(_field(made._df.sparkSession._jvm, "trigger").get(writer._jwrite))
    return made


def batch_function(writer: DataStreamWriter) -> Any:
    """The Python function given to foreachBatch; None where there is none, or it cannot be found.

    Spark has a closure over the Java proxy of a ForeachBatchFunction (PythonForeachBatchHelper.callForeachBatch), which
    py4j keeps in its pool under the proxy's id (PythonProxyHandler).
    """
    spark = writer._df.sparkSession
    jvm, jwriter = spark._jvm, writer._jwrite
    proxies = jvm.java.lang.reflect.Proxy
    closure = _value(jwriter, jwriter.getClass().getDeclaredField("foreachBatchWriter"))
    if closure is None:
        return None
    for field in closure.getClass().getDeclaredFields():
        held = _value(closure, field)
        if held is not None and proxies.isProxyClass(held.getClass()):
            handler = proxies.getInvocationHandler(held)
            key = _value(handler, handler.getClass().getDeclaredField("id"))
            pool = spark.sparkContext._gateway.gateway_property.pool
            return getattr(pool[key], "func", None) if key in pool else None
    return None


def foreach_imports(writer: DataStreamWriter) -> tuple[str, ...]:
    """Return what importing the modules does that the argument of ``foreach`` uses (PythonForeachWriter)."""
    if (found := _foreach_command(writer)) is None:
        return (f"{UNKNOWN}foreach",)
    command, function = found
    return describe(command, broadcasts(function)).imports


def row_function(writer: DataStreamWriter) -> Any:
    """The Python function given to foreach, which gets each row; None for an object, and where it cannot be found
    (DataStreamWriter._construct_foreach_function)."""
    found = _foreach_command(writer)
    loaded = pickle.loads(found[0]) if found else None
    wrapper = loaded[0] if isinstance(loaded, tuple) else None  # else it is broadcast
    if wrapper is None or getattr(wrapper, "__name__", "") != "func_without_process":
        return None
    return dict(zip(wrapper.__code__.co_freevars, wrapper.__closure__, strict=True))["f"].cell_contents


def _foreach_command(writer: DataStreamWriter) -> tuple[bytes, Any] | None:
    """Return the pickled function of a foreach sink, and Spark's PythonFunction that has it."""
    spark, jwriter = writer._df.sparkSession, writer._jwrite
    held = _value(jwriter, jwriter.getClass().getDeclaredField("foreachWriter"))
    byte = module(spark, "scala.reflect.ClassTag").Byte()
    for field in held.getClass().getDeclaredFields():  # its name is one that Scala has made
        if str(field.getType().getSimpleName()) == "PythonFunction":
            function = _value(held, field)
            return bytes(function.command().toArray(byte)), function
    return None


@functools.cache  # to find one takes three calls of the JVM, and a plan reads 14
def _field(jvm: Any, name: str) -> Any:
    """A field of Spark's DataStreamWriter."""
    found = java_class(jvm, "org.apache.spark.sql.classic.DataStreamWriter").getDeclaredField(name)
    found.setAccessible(True)
    return found


def _value(owner: Any, field: Any) -> Any:
    field.setAccessible(True)
    return field.get(owner)


def qualified(spark: SparkSession, path: str) -> str:
    """The whole URI of a path, as Hadoop's file systems see it; the path itself where there is no such file system."""
    try:
        made = named(spark._jvm, "org.apache.hadoop.fs.Path")(path)
        conf = spark._jsparkSession.sessionState().newHadoopConf()
        return str(made.getFileSystem(conf).makeQualified(made).toString())
    except Exception:  # py4j: no such scheme, or a path that is none
        return path


def unsupported(df: DataFrame, output_mode: str) -> str | None:
    """Spark's message when it will refuse to start the query (UnsupportedOperationChecker, which ResolveWriteToStream
    calls); None when it will start it, or is configured not to check."""
    spark = df.sparkSession
    if session_setting(spark, "spark.sql.streaming.unsupportedOperationCheck").lower() == "false":
        return None
    checker = module(spark, "org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker")
    mode = static(spark._jvm, f"org.apache.spark.sql.streaming.OutputMode#{output_mode.capitalize()}")()
    try:
        checker.checkForStreaming(df._jdf.queryExecution().analyzed(), mode)
    except AnalysisException as error:
        return str(error).split("\n", 1)[0].rstrip(";")
    return None


def file_sink_batch(spark: SparkSession, path: str) -> int | None:
    """Return the last batch in the log of the file sink in a folder; None when it has no log. Spark skips all batches
    up to it (FileStreamSink.addBatch)."""
    folder = spark._jvm.org.apache.hadoop.fs.Path(path, _SINK_LOG)
    files = folder.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    if not files.exists(folder):
        return None
    names = (str(status.getPath().getName()).removesuffix(".compact") for status in files.listStatus(folder))
    return max((int(name) for name in names if name.isascii() and name.isdigit()), default=None)
