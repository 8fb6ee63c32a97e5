"""Tables of catalogs: a table is what its files are, or what its database has, whatever it is called."""

from __future__ import annotations

from typing import Any

from ...state.redaction import redacted
from ...state.rules.source_options import folder
from .jvm import scala_map

_DATABASE = "JDBCRelation"  # org.apache.spark.sql.execution.datasources.jdbc
_FILES = "HadoopFsRelation"


def files_of(leaf: Any) -> str | None:
    """Where the files of a catalog's table are; None for files that are read by their paths. The catalog is asked, and
    not the relation: of one whose partitions are told by a filter the optimizer keeps the folders that are left."""
    if leaf.catalogTable().isEmpty():
        return None
    table = leaf.catalogTable().get()
    place = table.storage().locationUri()
    if place.isEmpty():
        return str(table.identifier().toString())
    # Of such a one the catalog says which partitions there are, else the folders do.
    listed = " by its catalog" if table.tracksPartitionsInCatalog() and table.partitionColumnNames().nonEmpty() else ""
    return f"{folder(str(place.get().toString()))}{listed}"


def database_of(leaf: Any) -> list[Any] | None:
    """What is asked of which database: the table's name, and the options; None for what is not known. Of other
    relations nothing but the class is told, and options that are given where a table is read are in none of its
    properties."""
    if leaf.catalogTable().isEmpty() or leaf.relation().getClass().getSimpleName() != _DATABASE:
        return None
    options = redacted({k.lower(): v for k, v in scala_map(leaf.relation().jdbcOptions().parameters()).items()})
    return [str(leaf.catalogTable().get().identifier().toString()), sorted(options.items())]


def place_of(leaf: Any) -> list[str]:
    """Of a table of another catalog (a DataSourceV2Relation) what its name does not say: where it is, and of which
    time."""
    found = [str(place)] if (place := leaf.table().properties().get("location")) is not None else []
    if "timeTravelSpec" in str(leaf.productElementNames().mkString(" ")) and leaf.timeTravelSpec().isDefined():
        found.append(str(leaf.timeTravelSpec().get().toString()))
    return found


def reads(kind: str, leaf: Any) -> str:
    """The format of what a leaf that is no stream reads, in lower case: ``orc``, ``jdbc``; ``rows`` of those that the
    code gives; a class's name where it is no known one."""
    if kind in ("LocalRelation", "OneRowRelation", "Range", "LogicalRDD"):
        return "rows"
    if kind == "DataSourceV2Relation":
        return str(leaf.table().getClass().getSimpleName()).lower().removesuffix("table")
    if kind != "LogicalRelation":
        return kind.lower()
    name = str(leaf.relation().getClass().getSimpleName())
    if name == _FILES:
        return str(leaf.relation().fileFormat().toString()).lower().removesuffix("()")
    return "jdbc" if name == _DATABASE else name.lower()
