"""What a file sink has."""

from __future__ import annotations

from pyspark.sql import SparkSession

_LOG = "_spark_metadata"  # FileStreamSink.metadataDir


def file_sink_batch(spark: SparkSession, path: str) -> int | None:
    """The last batch in the log of the file sink in a folder, which skips all up to it (FileStreamSink.addBatch); None
    when it has none."""
    folder = spark._jvm.org.apache.hadoop.fs.Path(path, _LOG)
    files = folder.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    if not files.exists(folder):
        return None
    names = (str(status.getPath().getName()).removesuffix(".compact") for status in files.listStatus(folder))
    return max((int(name) for name in names if name.isascii() and name.isdigit()), default=None)
