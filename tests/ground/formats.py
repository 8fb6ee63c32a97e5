"""The format of the tables that the tests run with: Delta Lake or Iceberg (make ground KIND=...)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow.parquet

from tests.e2e.ground import SPARK_SUBMIT

from .records import jars
from .sql_session import SqlSession

FORMAT = os.environ.get("STREAMUPDATE_TABLES", "delta")
DELTA = FORMAT == "delta"
_CONF = {
    "spark.jars": jars(FORMAT),
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",  # VACUUM lists with 10,000 tasks else
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
}
_OF_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
}
_OF_ICEBERG = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop",
}
_FRESH = "spark.sql.catalog.lake.cache-enabled"  # the tests' own session sees what drivers write


class Tables:
    """Tables below a folder, and a Spark of the tests' own for what is not an app's work: SQL, by their bare names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "tables"
        warehouse = "spark.sql.warehouse.dir" if DELTA else "spark.sql.catalog.lake.warehouse"
        self.conf = {**_CONF, **(_OF_DELTA if DELTA else _OF_ICEBERG), warehouse: str(self.folder)}
        # How an app names a table: with its name in place of the braces.
        self.given = {"format": FORMAT, "place": f"{self.folder}/{{}}" if DELTA else "lake.db.{}"}
        self._python = Path(SPARK_SUBMIT).with_name("python")
        self.sql = SqlSession(self._python, {**self.conf, _FRESH: "false"}, folder / "sql.log")
        if not DELTA:
            self.sql.run("create namespace lake.db", "use lake.db")

    def make(self, name: str, columns: str, or_replace: str = "") -> None:
        self.sql.run(f"create {or_replace} table {name} ({columns}) using {FORMAT} {self._where(name)}")

    def _where(self, name: str) -> str:
        mapped = "tblproperties ('delta.columnMapping.mode' = 'name')"
        return f"location '{self.folder / name}' {mapped}" if DELTA else ""

    def call(self, procedure: str, name: str, more: str) -> None:
        """One of Iceberg's own."""
        self.sql.run(f"call lake.system.{procedure}(table => 'db.{name}', {more})")

    def forget_the_past(self, name: str) -> None:
        """What a table's maintenance does at night: fewer and larger files, and nothing of what was there before."""
        if DELTA:
            self.sql.run(f"optimize {name}", f"vacuum {name} retain 0 hours")
        else:
            self.call("rewrite_data_files", name, "options => map('rewrite-all', 'true')")
            self.expire(name)

    def expire(self, name: str) -> None:
        self.call("expire_snapshots", name, "older_than => timestamp '2100-01-01 00:00:00', retain_last => 1")

    def rows(self, name: str) -> list[dict[str, Any]]:
        if DELTA:
            return delta_rows(self.folder / name)
        return [json.loads(row[0]) for row in self.sql.run(f"select to_json(struct(*)) from {name}")]


def delta_rows(table: Path) -> list[dict[str, Any]]:
    """The rows of a table as its log has it (Delta's protocol: files added and not removed), without Delta's own code.
    The log is too short for a checkpoint."""
    files: dict[str, None] = {}
    names: dict[str, str] = {}  # of columns, by those in files
    for entry in sorted((table / "_delta_log").glob("*.json")):
        for action in map(json.loads, entry.read_text().splitlines()):
            if "metaData" in action:
                columns = json.loads(action["metaData"]["schemaString"])["fields"]
                names = {c["metadata"].get("delta.columnMapping.physicalName", c["name"]): c["name"] for c in columns}
            if "add" in action:
                files[action["add"]["path"]] = None
            if "remove" in action:
                files.pop(action["remove"]["path"], None)
    rows = [row for file in files for row in pyarrow.parquet.read_table(table / file).to_pylist()]
    return [{names[column]: value for column, value in row.items() if column in names} for row in rows]
