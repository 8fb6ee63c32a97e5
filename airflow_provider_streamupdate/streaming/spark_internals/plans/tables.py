"""Tables of catalogs: a table is what its files are, or what its database has, whatever it is called."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ....core.compatibility.rules.sources.source_options import folder
from ....core.secret_names import redacted_in_plan
from ..jvm import scala_map

_DATABASE = "JDBCRelation"  # org.apache.spark.sql.execution.datasources.jdbc
FILES = "HadoopFsRelation"
_SESSIONS = "spark_catalog"


def files_of(leaf: Any) -> str | None:
    """Return where the files of a catalog's table are; None for files that are read by their paths. The catalog is
    asked, and not the relation: of one whose partitions are told by a filter the optimizer keeps the folders that are
    left."""
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
    """Return what is asked of which database: the table's name, and the options; None for what is not known. Of other
    relations nothing but the class is told, and options that are given where a table is read are in none of its
    properties."""
    if leaf.catalogTable().isEmpty() or leaf.relation().getClass().getSimpleName() != _DATABASE:
        return None
    options = redacted_in_plan({k.lower(): v for k, v in scala_map(leaf.relation().jdbcOptions().parameters()).items()})
    return [str(leaf.catalogTable().get().identifier().toString()), sorted(options.items())]


def place_of(spark: SparkSession, leaf: Any) -> list[Any]:
    """Return what the name of a catalog's table (a DataSourceV2Relation) does not say: its options, where it is, and of
    which time."""
    found: list[Any] = sorted(made_with(spark, leaf).items())
    if (place := leaf.table().properties().get("location")) is not None:
        found.append(str(place))
    if "timeTravelSpec" in str(leaf.productElementNames().mkString(" ")) and leaf.timeTravelSpec().isDefined():
        found.append(str(leaf.timeTravelSpec().get().toString()))
    return found


def made_with(spark: SparkSession, leaf: Any) -> dict[str, str]:
    """The options that a table of the session's catalog was made with; its relation of V2 has those alone that it is
    read with."""
    if leaf.catalog().isEmpty() or leaf.identifier().isEmpty() or str(leaf.catalog().get().name()) != _SESSIONS:
        return {}
    identifier, state = leaf.identifier().get(), spark._jsparkSession.sessionState()
    parts = [str(part).replace("`", "``") for part in (*identifier.namespace(), identifier.name())]
    try:
        name = state.sqlParser().parseTableIdentifier(".".join(f"`{part}`" for part in parts))
        options = scala_map(state.catalog().getTableMetadata(name).storage().properties())
    except (Py4JError, PySparkException):  # a catalog of someone's own in its place
        return {}
    return redacted_in_plan({key.lower(): value for key, value in options.items()})


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
    if name == FILES:
        return str(leaf.relation().fileFormat().toString()).lower().removesuffix("()")
    return "jdbc" if name == _DATABASE else name.lower()
