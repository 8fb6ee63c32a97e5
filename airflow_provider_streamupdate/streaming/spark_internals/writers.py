"""What a DataStreamWriter was told."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter

from .jvm import scala_map


def writer_frame(writer: DataStreamWriter) -> DataFrame:
    """The DataFrame a writer writes."""
    return writer._df


def writer_details(writer: DataStreamWriter) -> dict[str, Any]:
    """What a DataStreamWriter was told: format, output_mode, options, and whether it has a function as its sink."""
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
        "output_mode": str(field("outputMode").toString()).lower(),
    }
