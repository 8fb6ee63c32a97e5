#!/usr/bin/env python
"""What a restore, a check and a migration of state cost: real Spark, real files, RocksDB.

python benchmarks/state.py [--help]   (or: make bench KIND=state; it goes on in .venv-spark by itself)

- restore: a snapshot's checkpoint is built for an unchanged version, at several numbers of keys. Its files are linked,
  so the time should not grow with the state.
- check: what `streamupdate check` does once its driver is up: plan, compare, restore into a scratch folder, Spark's own
  check of the result.
- migration: an aggregate is added, which rewrites every row, against Spark's own StateRewriter that reads and writes
  the same state unchanged. One after the other, by turns: a busy machine slows both.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from airflow_provider_streamupdate.streaming.planning.author import Declarations

ROOT = Path(__file__).parents[1]
GOALS = {"restore": 1.5, "check": 0.5, "migration": 0.5}


def main() -> None:
    options = arguments()
    in_spark_environment()
    with tempfile.TemporaryDirectory(prefix="streamupdate-bench-", dir=options.folder) as folder:
        spark = session(Path(folder), options.partitions)
        try:
            rows = measure(spark, Path(folder), options)
        finally:
            spark.stop()
    print(f"\n{machine()}; local[2], {options.partitions} partitions, RocksDB; medians of {options.repeat}\n")
    print("| what | state | median | all | |\n|---|---|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, nargs="+", default=[10_000, 1_000_000, 5_000_000], metavar="N",
                        help="sizes of the state for restore and check (default: 10000 1000000 5000000)")  # fmt: skip
    parser.add_argument("--migrate", type=int, default=1_000_000, metavar="N", help="keys to migrate, one of the sizes")
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="measurements of each (default: 5)")
    parser.add_argument("--warm", type=int, default=50, metavar="N",
                        help="checks of the large plan before its measured ones, to warm up (default: 50)")  # fmt: skip
    parser.add_argument("--partitions", type=int, default=4, metavar="N", help="of the state (default: 4)")
    parser.add_argument("--folder", help="where to work (default: the system's temporary folder)")
    options = parser.parse_args()
    if options.migrate not in options.keys:
        parser.error(f"--migrate {options.migrate} is none of --keys {' '.join(map(str, options.keys))}")
    return options


def in_spark_environment() -> None:
    """Go on in .venv-spark with nothing of another environment (as scripts/env.sh has it)."""
    home = ROOT / ".venv-spark"
    if Path(sys.prefix).resolve() == home.resolve() and os.environ.get("PYTHONPATH") == str(ROOT):
        return
    python = home / "bin" / "python"
    if not python.exists():
        sys.exit(f"{python} is not there; run make setup first")
    foreign = ("SPARK_HOME", "SPARK_CONF_DIR", "PYTHONHOME", "VIRTUAL_ENV")
    env = {k: v for k, v in os.environ.items() if k not in foreign}
    env |= dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), str(python)) | {"PYTHONPATH": str(ROOT)}
    if (home / "java_home").exists():
        env["JAVA_HOME"] = (home / "java_home").read_text().strip()
    os.execve(python, [str(python), *sys.argv], env)


def session(folder: Path, partitions: int):  # type: ignore[no-untyped-def]
    from pyspark.sql import SparkSession

    from airflow_provider_streamupdate.core.plan.state_stores import PARTITIONS, PROVIDER, ROCKSDB

    spark = (
        SparkSession.builder.master("local[2]")
        .appName("state benchmark")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "3g")
        .config("spark.local.dir", str(folder / "spark"))
        .config(PROVIDER, ROCKSDB)
        .config(PARTITIONS, str(partitions))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


class App:
    """An app that counts rows by key, with `keys` of them in one batch, and its registry."""

    def __init__(self, spark, folder: Path, keys: int) -> None:  # type: ignore[no-untyped-def]
        from airflow_provider_streamupdate.core.registry.registry import Registry

        self.spark, self.folder, self.keys, self.deployments = spark, folder, keys, 0
        self.building = 0.0  # seconds the last check took to build the query
        self.registry = Registry(str(folder / "root")).app("bench")
        source = spark.range(keys).selectExpr("concat('key-', id) k", "id % 1000 a")
        source.coalesce(2).write.parquet(str(folder / "in"))

    def writers(self, latest: bool = False):  # type: ignore[no-untyped-def]
        from pyspark.sql import functions as F

        from airflow_provider_streamupdate.streaming import StreamingApp, stage

        app = StreamingApp("bench")

        @app.query("q")
        def query(spark, params):  # type: ignore[no-untyped-def]
            rows = spark.readStream.schema("k string, a bigint").parquet(str(self.folder / "in"))
            more = [F.max("a").alias("most")] if latest else []
            counted = rows.groupBy("k").agg(F.count("*").alias("n"), F.sum("a").alias("s"), *more)
            return stage("totals", counted).writeStream.outputMode("update").format("noop")

        return app.build(self.spark, {})

    def snapshot(self) -> int:
        """Read all input in one batch and take a snapshot; the number of its state files."""
        from airflow_provider_streamupdate.core.registry.application import Application
        from airflow_provider_streamupdate.core.registry.deployment import DeploymentSpec
        from airflow_provider_streamupdate.core.snapshots.export import export
        from airflow_provider_streamupdate.streaming.engine.queries import RunningQueries
        from airflow_provider_streamupdate.streaming.planning.planner import plan_app

        writers = self.writers()
        plan = plan_app(self.spark, Declarations("bench"), writers)
        file = Application(file="state.py")
        self.registry.create_deployment(
            DeploymentSpec(
                app="bench", deployment="d0", application=file, digest="", submitted_at="2026-01-01T00:00:00+00:00"
            )
        )
        queries = RunningQueries(self.spark, writers, {"q": self.registry.checkpoint("d0", "q")}, plan)
        queries.start()
        try:
            queries._queries["q"].processAllAvailable()
            queries.drain()
        finally:
            queries.stop()
        saved = export(self.registry, "d0", "s0", plan, True, {}).queries["q"]
        return sum(f.path.startswith("state/") for f in saved.files)

    def restore(self, latest: bool = False) -> float:
        """Seconds to build a new deployment's checkpoint."""
        from airflow_provider_streamupdate.streaming.planning.planner import plan_app
        from airflow_provider_streamupdate.streaming.restore.restorer import restore_app
        from airflow_provider_streamupdate.streaming.restore.saved_state import SavedState

        self.deployments += 1
        name = f"r{self.deployments}"
        writers = self.writers(latest)
        saved = SavedState.find(self.registry, "snapshot:s0")
        plan = plan_app(self.spark, Declarations("bench"), writers, recorded=saved.recorded())
        assert saved.compare(plan, ("q/totals",) if latest else ()).compatible
        took = timed(lambda: restore_app(saved, plan, writers, self.registry, name))
        checkpoint = self.registry.checkpoint(name, "q")
        if latest:
            state = self.spark.read.format("statestore").load(checkpoint.uri)
            assert (state.count(), len(state.schema["value"].dataType.names)) == (self.keys, 3)
        shutil.rmtree(checkpoint.base)
        return took

    def check(self) -> float:
        """Seconds of a check in a driver that is up."""
        from airflow_provider_streamupdate.streaming.planning.planner import plan_app
        from airflow_provider_streamupdate.streaming.restore.restorer import check_restorable
        from airflow_provider_streamupdate.streaming.restore.saved_state import SavedState

        def work() -> None:
            built = time.perf_counter()
            writers = self.writers()
            self.building = time.perf_counter() - built
            saved = SavedState.find(self.registry, "snapshot:s0")
            plan = plan_app(self.spark, Declarations("bench"), writers, recorded=saved.recorded())
            with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
                report = check_restorable(saved, saved.compare(plan, ()), plan, writers, Path(scratch))
            assert report.compatible, report.problems

        return timed(work)

    def spark_alone(self) -> float:
        """Seconds Spark takes to plan one batch of the query, with nothing of ours but the call."""
        from airflow_provider_streamupdate.streaming.planning.first_batch import dry_run
        from airflow_provider_streamupdate.streaming.spark_internals import writer_frame

        df = writer_frame(self.writers()["q"])
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            return timed(lambda: dry_run(df, "append", f"file://{scratch}", Path(scratch), {}, scratch=True))

    def rewrite(self) -> float:
        """Seconds Spark's own StateRewriter takes to read and write the state unchanged."""
        from airflow_provider_streamupdate.core.storage import Folder
        from airflow_provider_streamupdate.streaming.restore.saved_state import SavedState
        from airflow_provider_streamupdate.streaming.spark_internals import rewrite_stores

        old = self.registry.checkpoint("d0", "q")
        new = Folder.open(str(self.folder / "rewritten"))
        for path in old.files():
            if "_metadata/" in path:
                new.copy_from(old, path, path)
        new.copy_from(old, "offsets/0", "offsets/0")
        [saved] = SavedState.find(self.registry, "snapshot:s0").queries.values()
        took = timed(
            lambda: rewrite_stores(self.spark, old.uri, new.uri, saved.batch, saved.conf, None, saved.state_format)
        )
        shutil.rmtree(new.base)
        return took


class Wide(App):
    """An app of 5 stages and 200 expressions: a deduplication, and windows of windows with 50 aggregates each."""

    STAGES, EACH = 5, 50

    def __init__(self, spark, folder: Path) -> None:  # type: ignore[no-untyped-def]
        super().__init__(spark, folder, 100)
        more = [f"{n} + id AS a{n}" for n in range(self.EACH)]
        rows = spark.range(self.keys).selectExpr("id", "'k' AS k", "timestamp_seconds(id * 60) AS ts", *more)
        rows.coalesce(1).write.parquet(str(folder / "wide"))

    def writers(self, latest: bool = False):  # type: ignore[no-untyped-def]
        from pyspark.sql import functions as F

        from airflow_provider_streamupdate.streaming import StreamingApp, stage

        app = StreamingApp("bench")

        @app.query("q")
        def query(spark, params):  # type: ignore[no-untyped-def]
            schema = "id bigint, k string, ts timestamp, " + ", ".join(f"a{n} bigint" for n in range(self.EACH))
            rows = spark.readStream.schema(schema).parquet(str(self.folder / "wide")).withWatermark("ts", "1 minute")
            rows = stage("once", rows.dropDuplicates(["id", "ts"]))
            made = [F.expr(f"sum(CASE WHEN a{n} % 7 < {n % 5} THEN a{n} * {n} END) AS a{n}") for n in range(self.EACH)]
            rows = stage("w1", rows.groupBy(F.window("ts", "1 minute").alias("w"), "k").agg(*made))
            for minutes in (5, 15, 60):
                more = [F.expr(f"max(greatest(a{n}, {n}) + {minutes}) AS a{n}") for n in range(self.EACH)]
                below = rows.withColumnRenamed("w", "v")
                rows = stage(
                    f"w{minutes}", below.groupBy(F.window("v", f"{minutes} minutes").alias("w"), "k").agg(*more)
                )
            return rows.writeStream.outputMode("append").format("noop")

        return app.build(self.spark, {})


def measure(spark, folder: Path, options: argparse.Namespace) -> list[tuple[str, ...]]:  # type: ignore[no-untyped-def]
    apps: dict[int, App] = {}
    files: dict[int, int] = {}
    for keys in options.keys:
        (folder / str(keys)).mkdir()
        apps[keys] = App(spark, folder / str(keys), keys)
        took = timed(partial(lambda of: files.update({of: apps[of].snapshot()}), keys))
        say(f"{keys:,} keys: state made in {took:.0f} s, {files[keys]} state files")
    for app in apps.values():  # the first of each is slower, whatever the state's size
        say(f"warming up: restore {app.restore():.1f} s, check {app.check():.1f} s")
    restores: dict[int, list[float]] = {keys: [] for keys in apps}
    checks: dict[int, list[float]] = {keys: [] for keys in apps}
    for _ in range(options.repeat):
        for keys, app in apps.items():
            restores[keys].append(app.restore())
            checks[keys].append(app.check())
            say(f"{keys:,} keys: restore {restores[keys][-1]:.2f} s, check {checks[keys][-1]:.2f} s")
    (folder / "wide-app").mkdir()
    wide = Wide(spark, folder / "wide-app")
    wide.snapshot()
    warming = [wide.check() for _ in range(options.warm)]
    say(f"warming up: check of {Wide.STAGES} stages {warming[0]:.2f} s, the {options.warm}th {warming[-1]:.2f} s")
    wides, builds, alone = [], [], []
    for _ in range(options.repeat):
        wides.append(wide.check())
        builds.append(wide.building)
        alone.append(wide.spark_alone())
        say(f"{Wide.STAGES} stages, {(Wide.STAGES - 1) * Wide.EACH} expressions: check {wides[-1]:.2f} s")
    chosen = apps[options.migrate]
    say(f"warming up: migration {chosen.restore(latest=True):.1f} s, StateRewriter {chosen.rewrite():.1f} s")
    migrations, rewrites = [], []
    for _ in range(options.repeat):
        migrations.append(chosen.restore(latest=True))
        rewrites.append(chosen.rewrite())
        say(f"{options.migrate:,} keys: migration {migrations[-1]:.2f} s, StateRewriter {rewrites[-1]:.2f} s")
    what = f"{Wide.STAGES} stages, {(Wide.STAGES - 1) * Wide.EACH} expressions"
    checked = [both - built for both, built in zip(wides, builds, strict=True)]
    of_wide = [
        ("check of a built query, warm", what, seconds(checked), every(checked), ""),
        ("the app's function builds its query", what, seconds(builds), every(builds), ""),
        ("both", what, seconds(wides), every(wides), f"goal: {GOALS['check']} s"),
        ("both, the first in this driver", what, f"{warming[0]:.2f} s", "", ""),
        ("Spark alone plans one batch", what, seconds(alone), every(alone), "a check does so once"),
    ]
    return [*report(restores, checks, files), *of_wide, *rates(options.migrate, migrations, rewrites)]


def report(
    restores: dict[int, list[float]], checks: dict[int, list[float]], files: dict[int, int]
) -> list[tuple[str, ...]]:
    least, most = min(restores), max(restores)
    ratio = statistics.median(restores[most]) / statistics.median(restores[least])
    made: list[tuple[str, ...]] = [
        ("restore by name", f"{keys:,} keys, {files[keys]} files", seconds(times), every(times),
         f"{ratio:.2f} times {least:,} keys (goal: {GOALS['restore']})" if keys == most != least else "")
        for keys, times in restores.items()
    ]  # fmt: skip
    made += [
        ("check, warm", f"{keys:,} keys", seconds(times), every(times), f"goal: {GOALS['check']} s")
        for keys, times in checks.items()
    ]
    return made


def rates(keys: int, migrations: list[float], rewrites: list[float]) -> list[tuple[str, ...]]:
    ours, spark = (statistics.median(times) for times in (migrations, rewrites))
    pairs = statistics.median(b / a for a, b in zip(migrations, rewrites, strict=True))
    goal = f"{spark / ours:.0%} of Spark's rate, {pairs:.0%} pair by pair (goal: {GOALS['migration']:.0%})"
    return [
        ("migration: adds max(a)", f"{keys:,} keys", f"{keys / ours:,.0f} rows/s", every(migrations), goal),
        ("Spark's StateRewriter, unchanged", f"{keys:,} keys", f"{keys / spark:,.0f} rows/s", every(rewrites), ""),
    ]


def timed(work: Callable[[], object]) -> float:
    before = time.perf_counter()
    work()
    return time.perf_counter() - before


def seconds(times: list[float]) -> str:
    return f"{statistics.median(times):.2f} s"


def every(times: list[float]) -> str:
    return " ".join(f"{t:.2f}" for t in times)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = os.getloadavg()[0]
    return f"{os.uname().sysname} {os.uname().machine}, {os.cpu_count()} CPUs, {memory:.0f} GiB, load {load:.1f}"


if __name__ == "__main__":
    main()
