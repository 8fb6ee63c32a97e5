"""python -m tests.golden FOLDER [STORE ...]: the checkpoints of the Spark this runs with, one archive a store."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.deployment import DeploymentSpec
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.serde import to_json
from airflow_provider_streamupdate.streaming.engine.queries import RunningQueries
from airflow_provider_streamupdate.streaming.planning.author import Declarations
from airflow_provider_streamupdate.streaming.planning.planner import plan_app

from . import DEPLOYMENT, NAME, STORES, pack
from .app import Emitted, app, expected, queries_kept

BATCHES = 4  # enough for changelogs with a zip before them
# A query runs for seconds: thorough compilation costs more than it brings. Code that was compiled less needs more stack
# (measured: an overflow where Spark strips comments from generated code).
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss8m"


def main(arguments: list[str]) -> None:
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    spark = session()
    spark.sparkContext.setLogLevel("ERROR")
    minor = ".".join(spark.version.split(".")[:2])
    for store in arguments[1:] or STORES:
        # Spark's maintenance may still write a zip of a query that has ended.
        with tempfile.TemporaryDirectory(prefix="streamupdate-golden-", ignore_cleanup_errors=True) as scratch:
            _write(spark, store, Registry(scratch).app(NAME))
            target = folder / f"spark-{minor}-{store}.tar.xz"
            pack(Path(scratch), target)
            print(f"{target}: {target.stat().st_size} bytes", flush=True)
    spark.stop()


def session() -> SparkSession:
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.extraJavaOptions", JAVA)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.streaming.stateStore.minDeltasForSnapshot", "2")
        .config("spark.sql.streaming.stateStore.maintenanceInterval", "1s")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )


def choose_store(spark: SparkSession, store: str) -> None:
    provider, changelog, format = STORES[store]
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
    spark.conf.set("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", str(changelog).lower())
    spark.conf.set("spark.sql.streaming.stateStore.checkpointFormatVersion", str(format))


def _write(spark: SparkSession, store: str, registry: AppRegistry) -> None:
    choose_store(spark, store)
    names = queries_kept(store, spark.version)
    emitted: Emitted = {}
    made = app(names, emitted)
    writers = made.build(spark, {})
    plan = plan_app(spark, Declarations(NAME, seen_batch=made.seen_batch), writers)
    registry.create_deployment(
        DeploymentSpec(
            app=NAME,
            deployment=DEPLOYMENT,
            application=Application(file="tests/golden/app.py"),
            digest="",
            submitted_at="2026-01-01T00:00:00+00:00",
        )
    )
    registry.deployment_folder(DEPLOYMENT).write("plan.json", to_json(plan))
    for name in names:
        run(spark, registry, DEPLOYMENT, name, writers, BATCHES, plan)
    check(emitted)


def run(spark, registry, deployment, name, writers, batches, plan) -> None:
    """Run one query until it has committed so many batches at least."""
    checkpoint = registry.checkpoint(deployment, name)
    queries = RunningQueries(spark, {name: writers[name]}, {name: checkpoint}, plan)
    queries.start()
    try:
        while (Checkpoint(checkpoint).committed_batch() or 0) < batches - 1 and not queries.ended():
            time.sleep(0.1)
        queries.drain()
    finally:
        queries.stop()
    committed = Checkpoint(checkpoint).committed_batch()
    assert committed is not None and committed >= batches - 1, (name, committed)


def check(emitted: Emitted) -> None:
    for (name, batch), rows in emitted.items():
        assert rows == expected(name, batch), (name, batch, rows, expected(name, batch))


if __name__ == "__main__":
    main(sys.argv[1:])
