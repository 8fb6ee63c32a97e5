"""The streaming sources of a plan: what Spark was told of each, which TreeNode.toJSON leaves out."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ....core.plan.plan import UNKNOWN
from ..jvm import named, scala_map, sequence
from .python_source import is_python, python_class
from .tables import made_with


def streaming_sources(df: DataFrame) -> list[dict[str, Any]]:
    """The streaming leaves of the analyzed plan, in pre-order, which is that of an offset log's lines: ``leaf`` (as
    TreeNode.toJSON has it), ``format, ``options``, given ``name`` (or None),
    ``path`` (whole, of a source of files), ``table`` (of a catalog's table) and ``code`` (the digest of a Python
    data source) of each. TreeNode.toJSON leaves these out (``UserProvided`` becomes null; measured). What ``WITH``
    defines is read once, however often it is referred to."""
    return [
        {"leaf": json.loads(leaf.toJSON()), "name": given_name(leaf), **_details(df.sparkSession, leaf)}
        for leaf in streaming_leaves(df)
    ]


def streaming_leaves(df: DataFrame) -> list[Any]:
    """The streaming leaves of the analyzed plan themselves, in pre-order."""
    leaves = sequence(df._jdf.queryExecution().analyzed().collectLeaves())
    return [leaf for leaf in leaves if leaf.isStreaming() and leaf.getClass().getSimpleName() != "CTERelationRef"]


def _details(spark: SparkSession, leaf: Any) -> dict[str, Any]:
    kind = leaf.getClass().getSimpleName()
    if kind == "StreamingRelation":
        source = leaf.dataSource()
        options = scala_map(source.options())
        path = next((v for k, v in options.items() if k.lower() == "path"), None)
        # A folder whose source is Spark's own: DataSource.sourceInfo calls it FileSource[path].
        whole = _whole(spark, path) if path is not None and str(leaf.sourceName()).startswith("FileSource[") else None
        return {"format": str(source.className()), "options": options, "path": whole, "table": None, "code": None}
    if kind == "StreamingRelationV2":
        name, table = str(leaf.sourceName()), None
        if leaf.catalog().isDefined() and leaf.identifier().isDefined():
            table = f"{leaf.catalog().get().name()}.{leaf.identifier().get().toString()}"
        found = python_class(spark, leaf)
        code = ((found.with_imports if found else None) or UNKNOWN) if is_python(leaf) else None
        options = {**made_with(spark, leaf), **dict(leaf.extraOptions())}
        return {"format": name, "options": options, "path": None, "table": table, "code": code}
    return {"format": kind, "options": {}, "path": None, "table": None, "code": None}


def given_name(leaf: Any) -> str | None:
    """Return the argument of ``.name()`` (HasStreamingSourceIdentifyingName: UserProvided)."""
    names = identifying_name(leaf)
    return next((str(name.name()) for name in names if name.getClass().getSimpleName() == "UserProvided"), None)


def identifying_name(leaf: Any) -> list[Any]:
    """Return the last argument of a streaming leaf's constructor, by which Spark knows the source; none where it has
    none."""
    return [leaf.sourceIdentifyingName()] if _may_be_named(leaf.getClass()) else []


_MAY_BE_NAMED: dict[str, bool] = {}  # by class: to list a class's methods takes many calls of the JVM


def _may_be_named(kind: Any) -> bool:
    name = str(kind.getName())
    if name not in _MAY_BE_NAMED:
        _MAY_BE_NAMED[name] = any(m.getName() == "sourceIdentifyingName" for m in kind.getMethods())
    return _MAY_BE_NAMED[name]


def _whole(spark: SparkSession, path: str) -> str:
    """A path as FileStreamSource makes it whole: with its file system (fs.defaultFS) and, of a relative one, the
    working folder."""
    made = named(spark._jvm, "org.apache.hadoop.fs.Path")(path)
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    return str(made.getFileSystem(conf).makeQualified(made).toString())
