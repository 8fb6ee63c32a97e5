"""A test bench: versions of an app run one after the other on real input, each from the snapshot of the one before.

Everything but the process boundary is real: Spark's queries, checkpoints, the registry's files, snapshots, the
compatibility check and the restore. What a version emits is kept by batch id, as an idempotent sink would.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from airflow_provider_streamupdate.state.application import Application
from airflow_provider_streamupdate.state.deployment import DeploymentSpec
from airflow_provider_streamupdate.state.export import export
from airflow_provider_streamupdate.state.registry import Registry
from airflow_provider_streamupdate.state.report import CompatibilityReport
from airflow_provider_streamupdate.state.serde import to_json
from airflow_provider_streamupdate.streaming import StreamingApp
from airflow_provider_streamupdate.streaming.planner import plan_app
from airflow_provider_streamupdate.streaming.queries import RunningQueries
from airflow_provider_streamupdate.streaming.restorer import SavedState, check_restorable, restore_app

SCHEMA = "k string, k2 string, a long, b long, ts timestamp"

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"


class Bench:
    """One app under one root; `write` adds input files, `run` runs a version until it has read them all."""

    def __init__(self, spark, folder: Path, provider: str = ROCKSDB, changelog: bool = False) -> None:
        self.spark = spark
        self.folder = folder
        self.input = folder / "in"
        self.input.mkdir()
        self.files = 0
        self.started = time.time() - 3600
        self.registry = Registry(str(folder / "root")).app("bench")
        self.emitted: dict[int, list[dict]] = {}
        self.deployments = 0
        self.migrations: dict[tuple[str, str], Callable] = {}
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
        spark.conf.set("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", str(changelog).lower())

    def write(self, rows: Iterable[dict]) -> None:
        """One input file; its name and time order it after the ones before."""
        path = self.input / f"{self.files:04d}.json"
        self.files += 1
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(path, (self.started + self.files,) * 2)  # Spark reads by time, and the clock may tick too slowly

    def source(self, schema: str = SCHEMA):
        return self.spark.readStream.schema(schema).option("maxFilesPerTrigger", "1").json(str(self.input))

    def app(self, build: Callable, mode: str = "update") -> StreamingApp:
        """An app whose one query writes what `build(bench)` returns to `emitted`."""
        app = StreamingApp("bench")

        def keep(batch, batch_id: int) -> None:
            self.emitted[batch_id] = [row.asDict(recursive=True) for row in batch.collect()]

        @app.query("q")
        def query(spark, params):
            return build(self).writeStream.outputMode(mode).foreachBatch(keep)

        return app

    def plan(self, build: Callable, mode: str = "update"):
        app = self.app(build, mode)
        writers = app.build(self.spark, {})
        return plan_app(self.spark, app.name, writers, migrations=self.migrations), writers

    def run(self, build: Callable, mode: str = "update", snapshot: str | None = None, agree: tuple[str, ...] = ()):
        """Deploy a version, fresh or from a snapshot, and let it read all input; the snapshot it ended with."""
        plan, writers = self.plan(build, mode)
        self.deployments += 1
        deployment = f"d{self.deployments}"
        spec = DeploymentSpec(
            app="bench",
            deployment=deployment,
            application=Application(file="bench.py"),
            digest="",
            submitted_at=f"2026-01-01T00:00:{self.deployments:02d}+00:00",
            from_snapshot=snapshot,
        )
        self.registry.create_deployment(spec)
        self.registry.deployment_folder(deployment).write("plan.json", to_json(plan))
        if snapshot:
            saved = SavedState.find(self.registry, f"snapshot:{snapshot}")
            report = saved.compare(plan, agree)
            assert report.compatible, report.problems
            restore_app(saved, plan, writers, self.registry, deployment, self.migrations)
        queries = RunningQueries(self.spark, writers, {"q": self.registry.checkpoint(deployment, "q")}, plan)
        queries.start()
        query = queries._queries["q"]
        try:
            query.processAllAvailable()
            queries.drain()
        finally:
            queries.stop()
        name = f"s{self.deployments}"
        export(self.registry, deployment, name, plan, True, queries.progress())
        return name

    def check(self, snapshot: str, build: Callable, mode: str = "update", agree: tuple[str, ...] = ()):
        """The compatibility report of a version against a snapshot, by the rules alone."""
        plan, _ = self.plan(build, mode)
        return SavedState.find(self.registry, f"snapshot:{snapshot}").compare(plan, agree)

    def spark_check(self, snapshot: str, build: Callable, mode: str = "update") -> CompatibilityReport:
        """The report with Spark's own check of the restored checkpoint."""
        plan, writers = self.plan(build, mode)
        saved = SavedState.find(self.registry, f"snapshot:{snapshot}")
        scratch = self.folder / "scratch"
        scratch.mkdir()
        return check_restorable(saved, saved.compare(plan, ()), plan, writers, scratch)

    def last(self, *key: str) -> dict[tuple, dict]:
        """The last row emitted for each key, over all batches in order: the answer of an update-mode sink."""
        return {tuple(row[k] for k in key): row for b in sorted(self.emitted) for row in self.emitted[b]}

    def all(self) -> list[dict]:
        """Every row emitted, in batch order: the answer of an append-mode sink."""
        return [row for b in sorted(self.emitted) for row in self.emitted[b]]


def row(k: str, a: int, b: int = 0, minute: int = 0, k2: str = "x") -> dict:
    return {"k": k, "k2": k2, "a": a, "b": b, "ts": f"2026-01-01T{minute // 60:02d}:{minute % 60:02d}:00Z"}
