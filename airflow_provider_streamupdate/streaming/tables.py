"""`to_table(writer, name)`: write into a table of the catalog."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from ..core.compatibility.rules.sources.source_options import FILES, short_format
from ..core.errors import ApplicationError
from . import spark_internals

_PARTITIONS, _DETAILS = "# Partition Information", "# Detailed Table Information"


def to_table(writer: DataStreamWriter, name: str) -> DataStreamWriter:
    """Return `writer`, set to write into the table `name`, as ``writer.toTable(name)`` would, which also starts it.

    Spark's own way for such a table: its format, into its location (DataStreamWriter.toTable, writeToV1Table). The
    table must exist, because an update must know where its rows are. ApplicationError for one that does not, and for
    one whose place alone does not tell how to write into it.
    """
    spark = spark_internals.writer_frame(writer).sparkSession
    facts = _description(spark, name)
    format, location = facts.get("Provider", ""), facts.get("Location")
    if location is None or short_format(format) not in (*FILES, "delta"):
        raise ApplicationError(
            f"table {name} cannot be written to by its name ({format or facts.get('Type', 'no format')}): use the "
            f"format and the options of its connector, for example .format({format!r}).option('path', {name!r})"
        )
    if _PARTITIONS in facts and short_format(format) in FILES:
        raise ApplicationError(
            f"table {name} has partitions, and Spark's file sink does not add new ones to the catalog, so that their "
            f"rows would not be seen in the table: write to a folder with .format({format!r}).partitionBy(...)"
        )
    return writer.format(format).option("path", location)


def _description(spark: SparkSession, name: str) -> dict[str, str]:
    try:
        rows = spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
    except AnalysisException as error:
        raise ApplicationError(
            f"table {name} cannot be written to: {str(error).partition(chr(10))[0]} Create it before the query, with "
            "CREATE TABLE IF NOT EXISTS"
        ) from error
    # The columns come first, and may have any name.
    names = [row["col_name"] for row in rows]
    first = names.index(_DETAILS) if _DETAILS in names else len(names)
    partitions = {_PARTITIONS: ""} if _PARTITIONS in names else {}
    return {row["col_name"]: row["data_type"] for row in rows[first:]} | partitions
