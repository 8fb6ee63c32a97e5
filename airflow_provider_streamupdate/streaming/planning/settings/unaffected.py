"""Settings that provably cannot change what a query keeps in its state: what they are about is not in it.

A proof looks at the whole analyzed plan, at what the author wrote and what lies below and above each stage. Where it
finds nothing of the kind, the setting is harmless; where anything is there, or is not understood, it says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from ....core.compatibility.rules.settings.setting import SHARES
from ....core.compatibility.rules.sources.source_options import short_format
from ....core.plan.plan import JVM_ZONE, PARALLELISM, PYTHON_ZONE, TIME_ZONE, SinkPlan, SourcePlan
from ...catalyst.tree import Node
from ..expressions.expression import looks_at_partitions

# In names of classes and types: what has to do with time (a watermark has; a variant may hold one), and what runs or
# feeds Python.
_TIME = re.compile(
    r"variant|date|time|interval|day|week|month|quarter|year|hour|minute|second|zone|now|window", re.IGNORECASE
)
_PYTHON = re.compile(r"python|pandas|arrow|pyspark", re.IGNORECASE)
# How rows are handed to Python and back.
_FOR_PYTHON = re.compile(r"spark\.sql\.(legacy\.)?execution\.(arrow|pandas|python)")
# Sources and sinks whose files (if any) are of the format they are called after.
_FORMATS = frozenset({"json", "csv", "text", "xml", "parquet", "orc", "kafka", "rate", "socket", "console", "memory",
                      "noop", "foreachbatch", "foreach"})  # fmt: skip
_FILES = {"spark.sql.parquet.": "parquet", "spark.sql.orc.": "orc"}
# What tells how the rows of a batch were shared out among tasks.
_SHARED = frozenset({"InputFileBlockStart", "InputFileBlockLength", "SparkPartitionID", "MonotonicallyIncreasingID"})
# Code of the JVM's that Spark calls: java_method, Scala's and Hive's functions, scripts, a package's readers.
_OF_JAVA = re.compile(r"Reflect|Scala(?!r)|Hive|ScriptTransformation|Avro")
_FORMATS_TIME = re.compile(r"%[^a-zA-Z%]*[tT]")
_OF_FILES = re.compile(r"date|time")
_PYTHON_SOURCE = "python"
# ORC has the time of day where it was written, and Java's classes make it one of here (OrcDeserializer, OrcSerializer,
# java.sql.Timestamp). Parquet's and Avro's times before 1900 are put right by Java's zone in files that do not say
# which they were written in (RebaseDateTime.RebaseSpec).
_BY_JAVA_S_ZONE = frozenset({"orc", "parquet", "avro", "delta"})
# These go by the session's zone, or have points in time. All others may not, databases among them: their drivers make
# times by Java's zone, and tell it the database.
_OF_NO_ZONE_OF_JAVA = frozenset({"json", "csv", "text", "xml", "binaryfile", "kafka", "rate", "rate-micro-batch",
                                 "socket", "rows", _PYTHON_SOURCE})  # fmt: skip
# A Cast names a zone whether or not it needs one; its types tell (Cast.needsTimeZone).
_HAS_A_ZONE = ("Cast",)


def unaffected(analyzed: Node, things: Iterable[SourcePlan | SinkPlan], settings: Iterable[str]) -> tuple[str, ...]:
    """Return the settings that cannot change the query. things: the query's sources and its sink."""
    nodes = [inner for node in analyzed.walk() for inner in (node, *node.all_expressions())]
    things = list(things)
    python = any(_PYTHON.search(n.name) for n in nodes)
    found = set()
    if not python and not any(map(_timed, nodes)) and not any(_TIME.search(str(_columns(t))) for t in things):
        found.add(TIME_ZONE)
    read = [*_read(nodes), *((_format(t), _columns(t)) for t in things if isinstance(t, SourcePlan))]
    if not python and all(kind != _PYTHON_SOURCE for kind, _ in read):
        found |= {PYTHON_ZONE, *filter(_FOR_PYTHON.match, settings)}
    if not any(map(_asks_java, nodes)) and not any(_by_java_s_zone(*each) for each in read):
        found.add(JVM_ZONE)
    if not any(n.name in _SHARED or _asks_for_block(n) or looks_at_partitions(n) for n in nodes):
        found |= {*SHARES, PARALLELISM}
    for prefix, kind in _FILES.items():
        if _only_known(analyzed, things) and not any(kind in t.format.lower() for t in things):
            found |= {key for key in settings if key.startswith(prefix)}
    return tuple(sorted(found & set(settings)))


def _asks_for_block(node: Node) -> bool:
    """Return whether it is ``_metadata.file_block_start`` or ``file_block_length``."""
    return node.name == "GetStructField" and "file_block_" in str(node.fields.get("name"))


def _read(nodes: Iterable[Node]) -> Iterator[tuple[str, Any]]:
    """The formats of what is no stream, with the types of the columns."""
    for node in nodes:
        if "reads" in node.fields:
            yield short_format(node.fields["reads"]), [a.fields.get("dataType") for a in node.expressions("output")]


def _format(source: SourcePlan) -> str:
    return _PYTHON_SOURCE if source.code is not None else short_format(source.format)


def _by_java_s_zone(kind: str, columns: Any) -> bool:
    """Whether a format's values may depend on Java's default time zone, which is no setting of the session."""
    if kind in _BY_JAVA_S_ZONE:
        return _OF_FILES.search(str(columns)) is not None
    return kind not in _OF_NO_ZONE_OF_JAVA


def _asks_java(node: Node) -> bool:
    """Whether code of the JVM's that is not known runs, or Java's Formatter writes a number as a time."""
    if node.name == "FormatString":
        given = node.children[0].fields.get("value") if node.children else None
        return not isinstance(given, str) or _FORMATS_TIME.search(given.replace("%%", "")) is not None
    return _OF_JAVA.search(node.name) is not None


def _timed(node: Node) -> bool:
    if _TIME.search(node.name):
        return True
    if node.fields.get("timeZoneId") and node.name not in _HAS_A_ZONE:
        return True
    return any(_TIME.search(kind) for kind in _types(node.fields))


def _types(value: Any) -> Iterator[str]:
    """All that is said of types in a node's fields: whatever is called a data type or a schema, and what is in it."""
    for key, inner in value.items():
        if key.lower().endswith(("type", "schema", "ddl")):
            yield str(inner)
        elif isinstance(inner, dict):
            yield from _types(inner)


def _columns(thing: SourcePlan | SinkPlan) -> Any:
    return thing.columns if isinstance(thing, SourcePlan) else ""


def _only_known(analyzed: Node, things: list[SourcePlan | SinkPlan]) -> bool:
    """Whether all files are those of sources and sinks that are known: no table is looked up."""
    leaves = [n for n in analyzed.walk() if not n.children]
    return all(n.streaming for n in leaves) and all(t.format.lower() in _FORMATS for t in things)
