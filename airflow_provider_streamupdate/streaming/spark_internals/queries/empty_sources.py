"""A streaming query with sources that have no rows."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ..jvm import module, scala_map, sequence
from ..plans.sources import given_name, identifying_name

# Options that say which files of a source are read and what becomes of them, not what is in them.
_WHICH_FILES = ("path", "latestfirst", "maxfileage", "maxbytespertrigger", "pathglobfilter", "cleansource")


def with_empty_sources(df: DataFrame, folder: Path, files: int) -> DataFrame:
    """The same streaming query with every source replaced by `files` files without rows, read one a batch, that are
    written to `folder` (local): JSON files for a source of JSON files, whose reader is worth warming too, else Parquet.
    The plan above the sources is not made anew, so that it keeps its shape and the code that Spark generates for it."""
    spark = df.sparkSession
    plan = df._jdf.queryExecution().analyzed()
    empty: list[Any] = []
    leaves = plan.collectLeaves()
    for index in range(leaves.size()):
        if (leaf := leaves.apply(index)).isStreaming():
            empty.append(_empty_source(spark, leaf, folder / str(len(empty)), files))
    made = module(spark, "org.apache.spark.sql.classic.Dataset").ofRows(
        spark._jsparkSession, _with_sources(spark, plan, empty)
    )
    return DataFrame(made, spark)


def _empty_source(spark: SparkSession, leaf: Any, folder: Path, files: int) -> Any:
    """A relation with the leaf's own attributes, so that what is above needs no change."""
    session, schema = spark._jsparkSession, leaf.schema()
    reader = session.readStream().schema(schema)
    if (name := given_name(leaf)) is not None:  # where Spark wants names, all sources must have them
        reader = reader.name(name)
    source = leaf.dataSource() if leaf.getClass().getSimpleName() == "StreamingRelation" else None
    if source is not None and str(source.className()).lower() == "json":
        file, kind = folder.with_suffix(".once"), "json"
        file.write_text("\n")  # not empty, so that it is read
        for key, value in scala_map(source.options()).items():
            if key.lower() not in _WHICH_FILES:
                reader = reader.option(key, value)
    else:
        written, kind = folder.with_suffix(".once"), "parquet"
        session.createDataFrame(spark._jvm.java.util.ArrayList(), schema).coalesce(1).write().parquet(f"file:{written}")
        (file,) = written.glob("*.parquet")
    folder.mkdir()
    for number in range(files):
        shutil.copyfile(file, folder / str(number))
    relation = reader.option("maxFilesPerTrigger", "1").format(kind).load(f"file:{folder}").queryExecution().analyzed()
    return relation.copy(relation.dataSource(), relation.sourceName(), leaf.output(), *identifying_name(leaf))


def _with_sources(spark: SparkSession, plan: Any, empty: list[Any]) -> Any:
    """The plan with its streaming leaves, in pre-order, replaced by the relations, which are used up."""
    children = sequence(plan.children())
    if not children:
        return empty.pop(0) if plan.isStreaming() else plan
    made = [_with_sources(spark, child, empty) for child in children]
    return plan.withNewChildren(spark._jvm.PythonUtils.toSeq(made))
