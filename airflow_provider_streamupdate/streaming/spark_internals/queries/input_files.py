"""The files that a query reads."""

from __future__ import annotations

from collections.abc import Mapping

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from ..jvm import named


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
