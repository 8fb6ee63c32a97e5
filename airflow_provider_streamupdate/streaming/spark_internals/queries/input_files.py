"""The files that a query reads."""

from __future__ import annotations

from collections.abc import Mapping

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from ..jvm import named

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


def changed_file(spark: SparkSession, files: Mapping[str, int]) -> str | None:
    """The first of these files that is gone, or has been changed since; None: all are as they were.

    files: as the log of a file source names them (SparkPath.urlEncoded), with their times in milliseconds
    """
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    for name, changed_at in files.items():
        path = named(spark._jvm, "org.apache.hadoop.fs.Path")(named(spark._jvm, "java.net.URI")(name))
        try:
            if int(path.getFileSystem(conf).getFileStatus(path).getModificationTime()) != changed_at:
                return name
        except Py4JJavaError as error:
            if "FileNotFoundException" not in str(error.java_exception.getClass().getName()):
                raise
            return name
    return None
