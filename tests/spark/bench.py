"""A test bench: versions of an app run one after the other on real input, each from the snapshot of the one before.

Everything but the process boundary is real: Spark's queries, checkpoints, the registry's files, snapshots, the
compatibility check and the restore. What a version emits is kept by batch id, as an idempotent sink would.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from airflow_provider_streamupdate import streaming
from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.compatibility.report import CompatibilityReport
from airflow_provider_streamupdate.core.compatibility.verdict import ReportItem
from airflow_provider_streamupdate.core.plan.plan import AppPlan
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.deployment import DeploymentSpec
from airflow_provider_streamupdate.core.registry.registry import Registry
from airflow_provider_streamupdate.core.serde import to_json
from airflow_provider_streamupdate.core.snapshots.export import export
from airflow_provider_streamupdate.streaming import StreamingApp
from airflow_provider_streamupdate.streaming.engine.queries import RunningQueries
from airflow_provider_streamupdate.streaming.planning.author import Declarations
from airflow_provider_streamupdate.streaming.planning.planner import plan_app
from airflow_provider_streamupdate.streaming.restore.restorer import check_restorable, restore_app
from airflow_provider_streamupdate.streaming.restore.saved_state import SavedState
from tests.cases import one_is_fast

JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"

SCHEMA = "k string, k2 string, a long, b long, ts timestamp"

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
STORES = {
    "rocksdb": (ROCKSDB, False),
    "changelog": (ROCKSDB, True),
    "hdfs": (HDFS, False),
    "rocksdb-v2": (ROCKSDB, False, 2),  # checkpoint format v2
    "changelog-v2": (ROCKSDB, True, 2),
}


def set_join_format(spark, version: int) -> None:
    """Have joins keep their state in this format; skip the test where Spark does not write it."""
    most = 2 if spark.version < "4.1" else 3 if spark.version < "4.3" else 4  # 4 is under development in 4.2
    if version > most:
        pytest.skip(f"Spark {spark.version} does not write joins in state format {version}")
    spark.conf.set(JOIN_FORMAT, str(version))


def stores(names: str) -> list:
    """Parameters of a Bench, of which the first is fast."""
    return one_is_fast(pytest.param(STORES[name], id=name) for name in names.split())


def stage(name: str, df):
    """`streaming.stage`, for versions that are computed at rest as well."""
    return streaming.stage(name, df) if df.isStreaming else df


def by(keys: str, *aggregates: str, name: str = "totals", delay: str = "", **source: str) -> Callable:
    """A version: aggregates by keys, both in SQL, the keys with `; ` between them; `delay` of a watermark."""

    def build(bench: Bench):
        grouped = bench.late(delay, **source).groupBy(*(F.expr(key) for key in keys.split("; ") if key))
        return stage(name, grouped.agg(*map(F.expr, aggregates or ("count(*) n",))))

    return build


def distinct(*columns: str, name: str = "once", delay: str = "", shown: tuple[str, ...] = ("*",), **source: str):
    """A version: the first row of each value of the columns."""
    return lambda bench: stage(name, bench.late(delay, **source).dropDuplicates([*columns])).select(*shown)


totals = by("k", "count(*) n", "sum(a) s")
counts = by("k", name="counts")


def once_and_totals(bench: Bench):
    """The totals of rows that are not repeated."""
    rows = distinct("k", "a")(bench)
    return stage("totals", rows.groupBy("k").agg(F.count("*").alias("n"), F.sum("a").alias("s")))


once = distinct("k", shown=("k", "a"))


def passed(bench: Bench):
    return bench.source().select("k", "a")


def planned(spark, **writers) -> AppPlan:
    return plan_app(spark, Declarations("bench"), writers)


def blocking(old: AppPlan, new: AppPlan, thing: str = "") -> list[ReportItem]:
    """What is refused or asked about when the new version replaces the old one."""
    return [i for i in compare(old, new, "test").items if i.blocks and thing in (i.thing, "")]


def totals_of(rows: Iterable[dict]) -> dict[tuple, dict]:
    """What `totals` gives at last, in plain Python."""
    rows = list(rows)
    counts = Counter(r["k"] for r in rows)
    return {(k,): {"k": k, "n": n, "s": sum(r["a"] for r in rows if r["k"] == k)} for k, n in counts.items()}


def feed(bench: Bench, files: list[list[dict]]) -> list[dict]:
    """Write files; their rows."""
    for rows in files:
        bench.write(rows)
    return [r for rows in files for r in rows]


def deploy(registry, deployment: str, second: int = 0, **more) -> None:
    """A deployment's record, as the client makes it."""
    spec = DeploymentSpec(
        app=registry.name,
        deployment=deployment,
        application=more.pop("application", Application(file="bench.py")),
        digest=more.pop("digest", ""),
        submitted_at=f"2026-01-01T00:00:{second:02d}+00:00",
        **more,
    )
    registry.create_deployment(spec)


class Bench:
    """One app under one root; `write` adds input files, `run` runs a version until it has read them all."""

    def __init__(self, spark, folder: Path, provider: str = ROCKSDB, changelog: bool = False, format: int = 1) -> None:
        self.spark = spark
        self.folder = folder
        self.files = 0
        self.unread = 0
        self.query = "q"  # its name
        self.registry = Registry(str(folder / "root")).app("bench")
        self.emitted: dict[int, list[dict]] = {}
        self.deployments = 0
        self.at_rest = False
        self.first_part = False  # at rest, of the input that has parts
        self.migrations: dict[tuple[str, str], Callable] = {}
        self.sink: Callable | None = None
        self.seen_batch: str | None = "replaces"  # what the app says of `keep`
        self._planned: tuple | None = None
        self.sink_seen_batch: str | None = None  # what it says of `sink`, where that is a function
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
        spark.conf.set("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", str(changelog).lower())
        spark.conf.set("spark.sql.streaming.stateStore.checkpointFormatVersion", str(format))

    def write(self, rows: Iterable[dict], to: str = "in") -> None:
        """One input file; its name and time order it after the ones before."""
        path = self.input(to) / f"{self.files:04d}.json"
        text = "".join(json.dumps(row) + "\n" for row in rows)
        # Spark lists no hidden file. A query that runs would take a part of a file for all of it. A file with today's
        # time would be newer than all that follow, which Spark then passes over as too old (maxFileAge).
        hidden = path.with_name(f".{path.name}")
        hidden.write_text(text)
        # Spark reads by time of change, which two files written at once may share.
        os.utime(hidden, (1_700_000_000 + self.files,) * 2)
        hidden.rename(path)
        self.files += 1
        self.unread += text.count("\n")

    def keys(self, keys: str, to: str = "in") -> None:
        """A file for each key, with one row."""
        for key in keys:
            self.write([row(key, 1)], to)

    def to_files(self, form: str = "json", **options: str) -> str:
        """Have a file sink written; its folder."""
        folder = str(self.folder / "out")
        self.sink = lambda writer: writer.format(form).option("path", folder).options(**options)
        return folder

    def input(self, name: str = "in") -> Path:
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return folder

    def source(self, schema: str = SCHEMA, name: str = "in", **options: str):
        """The input folder as a stream, one file a batch; as a batch while `at_rest`."""
        reader = self.spark.read if self.at_rest else self.spark.readStream.option("maxFilesPerTrigger", "1")
        return reader.schema(schema).options(**options).json(str(self.input(name)))

    def late(self, delay: str = "10 minutes", **source: str):
        """The stream with a watermark, if there is a delay."""
        rows = self.source(**source)
        return rows.withWatermark("ts", delay) if delay and rows.isStreaming else rows

    def batch(self, build: Callable) -> list[dict]:
        """What a version computes of all input in one Spark batch: the oracle of a complete result."""
        self.at_rest = True
        try:
            return [row.asDict(recursive=True) for row in build(self).collect()]
        finally:
            self.at_rest = False

    def app(self, build: Callable, mode: str = "update") -> StreamingApp:
        """An app whose one query writes what `build(bench)` returns to `emitted`, or where `sink` has it written."""
        app = StreamingApp("bench")

        def keep(batch, batch_id: int) -> None:
            self.keep(batch_id, [row.asDict(recursive=True) for row in batch.collect()])

        @app.query(self.query, seen_batch=self.sink_seen_batch if self.sink else self.seen_batch)
        def query(spark, params):
            writer = build(self).writeStream.outputMode(mode)
            return self.sink(writer) if self.sink else writer.foreachBatch(keep)

        return app

    def keep(self, batch_id: int, rows: list[dict]) -> None:
        self.emitted[batch_id] = rows

    def plan(self, build: Callable, mode: str = "update", snapshot: str | None = None):
        """A version's plan, as its driver makes it when it continues from `snapshot`; and its writers."""
        app = self.app(build, mode)
        writers = app.build(self.spark, {})
        recorded = self.saved(snapshot).recorded() if snapshot else None
        declared = Declarations(app.name, migrations=self.migrations, seen_batch=app.seen_batch)
        return plan_app(self.spark, declared, writers, recorded), writers

    def planned_for(self, build: Callable, mode: str, snapshot: str | None) -> tuple:
        """What `plan` gives; the same again until it is run, while nothing else has changed."""
        conf = self.spark._jsparkSession.sessionState().conf().getAllConfs().toString()
        key = (
            build,
            mode,
            snapshot,
            str(conf),
            self.sink,
            self.seen_batch,
            self.sink_seen_batch,
            dict(self.migrations),
        )
        if self._planned is None or self._planned[0] != key:
            self._planned = key, self.plan(build, mode, snapshot)
        return self._planned[1]

    def saved(self, snapshot: str) -> SavedState:
        return SavedState.find(self.registry, f"snapshot:{snapshot}")

    def run(
        self,
        build: Callable,
        mode: str = "update",
        snapshot: str | None = None,
        agree: tuple[str, ...] = (),
        renames: dict[str, str] | None = None,
        planned: tuple | None = None,
    ) -> str:
        """Deploy a version, fresh or from a snapshot, and let it read all input; the snapshot it ended with."""
        plan, writers = planned or self.planned_for(build, mode, snapshot)
        self._planned = None
        self.deployments += 1
        deployment = f"d{self.deployments}"
        deploy(self.registry, deployment, self.deployments, from_snapshot=snapshot)
        self.registry.deployment_folder(deployment).write("plan.json", to_json(plan))
        if snapshot:
            saved = self.saved(snapshot).renamed(renames)
            report = saved.compare(plan, agree)
            assert report.compatible, report.problems
            restore_app(saved, plan, writers, self.registry, deployment, self.migrations)
        queries = self._read_all(writers, self.registry.checkpoint(deployment, self.query), plan)
        export(self.registry, deployment, f"s{self.deployments}", plan, True, queries.progress())
        return f"s{self.deployments}"

    def spark_alone(self, build: Callable, mode: str = "update") -> None:
        """What happens without us: the version starts on the last deployment's own checkpoint and reads all input."""
        plan, writers = self.plan(build, mode)
        self._read_all(writers, self.registry.checkpoint(f"d{self.deployments}", self.query), plan)

    def queries(self, deployment: str = "d", **writers) -> RunningQueries:
        checkpoints = {name: self.registry.checkpoint(deployment, name) for name in writers}
        return RunningQueries(self.spark, writers, checkpoints, planned(self.spark, **writers))

    def _read_all(self, writers, checkpoint, plan) -> RunningQueries:
        queries = RunningQueries(self.spark, writers, {self.query: checkpoint}, plan)
        queries.start()
        try:
            self._wait(queries._queries[self.query], plan)
            queries.drain()
        finally:
            queries.stop()
        return queries

    def _wait(self, query, plan) -> None:
        """Until all input has been read. In processing time a state function has a batch made all the time, so that
        processAllAvailable would not return (measured): there, until all rows have been counted."""
        by_clock = any("ProcessingTime" in str(s.definition) for q in plan.queries for s in q.stages)
        while by_clock and query.isActive:
            if sum(p["numInputRows"] for p in query.recentProgress) >= self.unread:
                break
            time.sleep(0.1)
        if not by_clock:
            query.processAllAvailable()
        if error := query.exception():
            raise error
        self.unread = 0

    def check(
        self,
        snapshot: str,
        build: Callable,
        mode: str = "update",
        agree: tuple[str, ...] = (),
        renames: dict[str, str] | None = None,
    ) -> CompatibilityReport:
        """The compatibility report of a version against a snapshot, by the rules alone."""
        plan, _ = self.planned_for(build, mode, snapshot)
        return self.saved(snapshot).renamed(renames).compare(plan, agree)

    def item(self, snapshot: str, build: Callable, mode: str = "update", thing: str = "stage", **more) -> ReportItem:
        """What the report says of the version's one stage, sink or source."""
        [found] = [i for i in self.check(snapshot, build, mode, **more).items if i.thing == thing]
        return found

    def rules(self, snapshot: str, build: Callable, mode: str = "update") -> set[str]:
        """The rules that stand in the way of a version."""
        return {rule for i in self.check(snapshot, build, mode).items if i.blocks for rule in i.rules}

    def since(self, batch: int) -> list[dict]:
        return [row for b in sorted(self.emitted) if b >= batch for row in self.emitted[b]]

    def spark_check(self, snapshot: str, build: Callable, mode: str = "update") -> CompatibilityReport:
        """The report with Spark's own check of the restored checkpoint."""
        plan, writers = self.planned_for(build, mode, snapshot)
        saved = self.saved(snapshot)
        scratch = self.folder / "scratch"
        scratch.mkdir(exist_ok=True)
        return check_restorable(saved, saved.compare(plan, ()), plan, writers, scratch)

    def last(self, *key: str) -> dict[tuple, dict]:
        """The last row emitted for each key, over all batches in order: the answer of an update-mode sink."""
        return {tuple(row[k] for k in key): row for row in self.all()}

    def all(self) -> list[dict]:
        """Every row emitted, in batch order: the answer of an append-mode sink."""
        return self.since(0)


def row(k: str, a: int, b: int = 0, minute: int = 0, k2: str = "x") -> dict:
    return {"k": k, "k2": k2, "a": a, "b": b, "ts": f"2026-01-01T{minute // 60:02d}:{minute % 60:02d}:00Z"}
