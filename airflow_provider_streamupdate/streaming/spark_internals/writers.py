"""What a DataStreamWriter was told."""

from __future__ import annotations

from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter

from .jvm import module, scala_map
from .settings import session_setting


def writer_frame(writer: DataStreamWriter) -> DataFrame:
    """The DataFrame a writer writes."""
    return writer._df


def writer_details(writer: DataStreamWriter) -> dict[str, Any]:
    """What a DataStreamWriter was told: format, output_mode, options, trigger (the simple name of its
    class), and whether it has a function as its sink."""
    jwriter = writer._jwrite

    def field(name: str) -> Any:
        declared = jwriter.getClass().getDeclaredField(name)
        declared.setAccessible(True)
        return declared.get(jwriter)

    options = scala_map(field("extraOptions").originalMap())
    format_name = str(field("source") or "")
    if field("foreachBatchWriter") is not None:
        format_name = "foreachBatch"
    elif field("foreachWriter") is not None:
        format_name = "foreach"
    return {
        "format": format_name or "default",
        "options": {k: str(v) for k, v in options.items()},
        "trigger": str(field("trigger").getClass().getSimpleName()).removesuffix("$"),
        "output_mode": str(field("outputMode").toString()).lower(),
    }


def unsupported(df: DataFrame, output_mode: str) -> str | None:
    """What Spark will refuse when the query is started (UnsupportedOperationChecker, which ResolveWriteToStream asks),
    in its words; None when it will start, or was told not to check."""
    spark = df.sparkSession
    if session_setting(spark, "spark.sql.streaming.unsupportedOperationCheck").lower() == "false":
        return None
    checker = module(spark, "org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker")
    mode = getattr(spark._jvm.org.apache.spark.sql.streaming.OutputMode, output_mode.capitalize())()
    try:
        checker.checkForStreaming(df._jdf.queryExecution().analyzed(), mode)
    except AnalysisException as error:
        return str(error).split("\n", 1)[0].rstrip(";")
    return None
