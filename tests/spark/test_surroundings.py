"""What a query depends on beside the settings of SQL: Hadoop's settings, the machine's time zone and language, and how
rows are shared out among tasks."""

from __future__ import annotations

import datetime
import json
import os
import time
from collections.abc import Callable, Iterator

import pytest
from bench import HDFS, Bench, stage
from pairs import Ground, data_source
from pairs_of_partitions import LOOKING, PARTS, in_order
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.plan.plan import JVM_LOCALE, JVM_ZONE, PARALLELISM, PYTHON_ZONE, AppPlan
from airflow_provider_streamupdate.streaming import spark_internals
from airflow_provider_streamupdate.streaming.planning.settings.query_settings import python_zone
from tests.cases import one_is_fast

STORE = HDFS  # of `bench`

LONGEST = "mapreduce.input.linerecordreader.line.maxlength"
BYTES = "spark.sql.files.maxPartitionBytes"


@pytest.fixture
def hadoop(spark) -> Iterator:
    """The context's Hadoop configuration, as new afterwards."""
    found = spark.sparkContext._jsc.hadoopConfiguration()
    yield found
    for key in (LONGEST, "fs.s3a.endpoint", "acme.password"):
        found.unset(key)


@pytest.fixture
def zone() -> Iterator[Callable[[str], None]]:
    """Sets the zone of the process."""
    before = os.environ.get("TZ")

    def put(name: str) -> None:
        os.environ["TZ"] = name
        time.tzset()

    yield put
    os.environ.pop("TZ")
    if before is not None:
        os.environ["TZ"] = before
    time.tzset()


def write(bench: Bench, rows: int, a: int = 1) -> None:
    lines = (json.dumps({"k": "x", "a": a, "ts": "2026-01-01T12:00:00Z"}) + "\n" for _ in range(rows))
    (bench.input() / f"{bench.files:04d}.json").write_text("".join(lines))
    bench.files += 1


def by(*keys: str) -> Callable:
    def build(bench: Bench):
        read = bench.source("k string, a int, ts timestamp")
        return stage("t", read.groupBy(*map(F.expr, keys)).agg(F.count("*").alias("n")))

    return build


def asked(bench: Bench, saved: AppPlan, build: Callable) -> set[str]:
    return {i.name for i in compare(saved, bench.plan(build)[0], "s1").items if i.blocks}


def test_hadoop_s_settings_are_asked_about(bench: Bench, hadoop) -> None:
    """Lines that are longer are left out: Hadoop's reader of lines asks for it (LineRecordReader)."""
    totals = by("k")
    write(bench, 1)
    write(bench, 1, 100_000_000)
    saved, _ = bench.plan(totals)
    assert asked(bench, saved, totals) == set()
    hadoop.set(LONGEST, "50")
    assert [row["n"] for row in bench.batch(totals)] == [1]
    assert asked(bench, saved, totals) == {f"q:spark.hadoop.{LONGEST}"}
    hadoop.unset(LONGEST)
    bench.spark.conf.set(f"spark.hadoop.{LONGEST}", "50")
    assert asked(bench, saved, totals) == {f"q:spark.hadoop.{LONGEST}"}


def test_how_a_store_is_reached_is_not_and_no_secret_is_kept(bench: Bench, hadoop) -> None:
    totals = by("k")
    plain, _ = bench.plan(totals)
    assert plain.queries[0].hadoop == {}
    hadoop.set("fs.s3a.endpoint", "https://store.example")
    bench.spark.conf.set("spark.hadoop.fs.s3a.secret.key", "sesame")
    other, _ = bench.plan(totals)
    assert other.queries[0].hadoop == {} and compare(plain, other, "s1").compatible
    hadoop.set("acme.password", "sesame")
    assert bench.plan(totals)[0].queries[0].hadoop == {"spark.hadoop.acme.password": "(hidden)"}


def test_how_files_are_shared_out_counts_where_an_expression_tells(bench: Bench) -> None:
    def numbered(bench: Bench):
        table = bench.spark.range(3).select(F.col("id").alias("a"), F.monotonically_increasing_id().alias("n"))
        return stage("t", bench.source("a long").join(table, "a").groupBy("n").count())

    telling = [by(f"{name}()") for name in ("input_file_block_start", "input_file_block_length", "spark_partition_id")]
    bench.spark.conf.set("spark.sql.streaming.unsupportedOperationCheck", "false")  # it refuses `numbered`
    for build in (*telling, numbered, by("a")):
        bench.spark.conf.unset(BYTES)
        old, _ = bench.plan(build)
        bench.spark.conf.set(BYTES, "100b")
        new, _ = bench.plan(build)
        found = {i.name for i in compare(old, new, "s1").items if i.thing == "setting"}
        assert found == ({f"q:{BYTES}"} if build in (*telling, numbered) else set())


def hour(at) -> int:
    return at.hour


def by_hour(bench: Bench):
    """Of the Python function; Spark's own looks at the session's zone."""
    read = bench.source("k string, a int, ts timestamp")
    return stage("t", read.groupBy(F.udf(hour, "int")("ts").alias("hour")).agg(F.count("*").alias("n")))


def test_the_zone_of_the_machine_counts_for_python_functions(bench: Bench, zone) -> None:
    zone("UTC")
    saved = {build: bench.plan(build)[0] for build in (by_hour, by("hour(ts)"))}
    for build, plan in saved.items():
        assert asked(bench, plan, build) == set()
    zone("Asia/Tokyo")
    assert [asked(bench, plan, build) for build, plan in saved.items()] == [{f"q:{PYTHON_ZONE}"}, set()]
    [item] = [i for i in compare(saved[by_hour], bench.plan(by_hour)[0], "s1").items if i.blocks]
    assert "changed from UTC to Asia/Tokyo: the zone of the machine (TZ)" in item.reason


def test_the_zone_of_the_machine_is_found(zone) -> None:
    for given, found in (("Asia/Tokyo", "Asia/Tokyo"), (":Asia/Tokyo", "Asia/Tokyo"), ("", "UTC")):
        zone(given)
        assert python_zone() == found
    os.environ.pop("TZ")
    told = python_zone()
    assert told and not told.startswith("/")
    zone("UTC")


def test_the_language_of_java_counts(bench: Bench) -> None:
    """In Turkish a small letter i has its dot in capitals, too."""
    locale = bench.spark._jvm.java.util.Locale
    before = locale.getDefault()
    build = by("upper(k || 'é')")
    saved, _ = bench.plan(build)
    try:
        locale.setDefault(locale.forLanguageTag("tr-TR"))
        assert spark_internals.jvm_locale(bench.spark) == "tr-TR"
        assert asked(bench, saved, build) == {f"q:{JVM_LOCALE}"}
    finally:
        locale.setDefault(before)
    assert asked(bench, saved, build) == set()


def of_files(kind: str, columns: str = "k string, ts timestamp", key: str = "k") -> Callable:
    """A stream of files."""

    def build(bench: Bench):
        read = bench.spark.read if bench.at_rest else bench.spark.readStream
        return stage("t", read.schema(columns).format(kind).load(str(bench.input(kind))).groupBy(F.expr(key)).count())

    return build


def looked_up(kind: str, columns: str = "k string, ts timestamp", within: bool = False) -> Callable:
    """A table of files, as it is or in a subquery."""

    def build(bench: Bench):
        table = bench.spark.read.schema(columns).format(kind).load(str(bench.input(kind)))
        if not within:
            return stage("t", bench.source("k string").join(table, "k").groupBy("k").count())
        table.createOrReplaceTempView("of_files")
        rows = bench.source("k string").selectExpr("k", "(SELECT max(ts) FROM of_files) AS last")
        return stage("t", rows.groupBy("last").count())

    return build


def in_python(bench: Bench):
    """A table of a Python data source, whose times Python makes."""
    bench.spark.dataSource.register(
        data_source("given_times", "k string, ts timestamp", lambda: [("x", datetime.datetime(2026, 1, 1))])
    )
    table = bench.spark.read.format("given_times").load()
    return stage("t", bench.source("k string").join(table, "k").groupBy("ts").count())


# Versions, and whether Java's zone counts
ZONED: dict[str, tuple[Callable, bool]] = {
    "orc": (of_files("orc"), True),
    "json": (by("cast(ts as string)", "hour(ts)"), False),
    "java_method": (by("java_method('java.time.LocalDate', 'now')"), True),
    "format_string": (by("format_string('%1$tH', a)"), True),
    "format_string without times": (by("format_string('%s %5.2f%%t', k, 1.5D)"), False),
    "parquet": (of_files("parquet"), True),
    "a table of orc": (looked_up("orc"), True),
    "a list in one": (looked_up("orc", "k string, times array<struct<ts: timestamp>>"), True),
    "a subquery of orc": (looked_up("orc", within=True), True),
    "orc without times": (of_files("orc", "k string, a int"), False),
    "a table of json": (looked_up("json"), False),
    "a Python data source": (in_python, False),
}


def found_under(bench: Bench, build: Callable, change: Callable[[], None]) -> set[str]:
    """The settings that are asked about after a change, and after none."""
    old, again = bench.plan(build)[0], bench.plan(build)[0]
    assert compare(old, again, "s1").compatible
    change()
    return {i.name for i in compare(old, bench.plan(build)[0], "s1").items if i.thing == "setting"}


@pytest.mark.parametrize("what", one_is_fast(ZONED, 5))
def test_the_zone_of_java_counts_where_it_is_looked_at(what: str, bench: Bench, zone_of_java) -> None:
    zone_of_java("UTC")
    build, counts = ZONED[what]
    found = found_under(bench, build, lambda: zone_of_java("Asia/Tokyo"))
    assert found == ({f"q:{JVM_ZONE}"} if counts else set())


def test_other_names_of_one_zone_of_java_are_no_change(bench: Bench, zone_of_java) -> None:
    zone_of_java("Etc/UTC")
    assert found_under(bench, of_files("orc"), lambda: zone_of_java("GMT")) == set()


def test_orc_has_the_time_of_day_of_where_it_is_read(bench: Bench, zone_of_java) -> None:
    """With the session in one zone all the time."""
    build = of_files("orc", "ts timestamp", "cast(ts as string)")
    zone_of_java("UTC")
    rows = bench.spark.sql("SELECT timestamp'2026-01-01 00:00:00' AS ts")
    rows.coalesce(1).write.mode("append").orc(str(bench.input("orc")))
    assert [next(iter(row.values())) for row in bench.batch(build)] == ["2026-01-01 00:00:00"]
    zone_of_java("Asia/Tokyo")
    assert [next(iter(row.values())) for row in bench.batch(build)] == ["2025-12-31 15:00:00"]


def test_the_zone_of_the_machine_counts_for_a_table_of_a_python_data_source(bench: Bench, zone) -> None:
    zone("UTC")
    assert found_under(bench, in_python, lambda: zone("Asia/Tokyo")) == {f"q:{PYTHON_ZONE}"}


def test_how_rows_are_handed_to_python_counts_where_python_takes_part(bench: Bench) -> None:
    """Spark 4.0 has another default, so each upgrade from it would ask."""
    key = "spark.sql.execution.arrow.maxBytesPerBatch"
    for build, counts in ((by("k"), False), (by_hour, True), (in_python, True)):
        found = found_under(bench, build, lambda: bench.spark.conf.set(key, "1000"))
        bench.spark.conf.unset(key)
        assert found == ({f"q:{key}"} if counts else set())


def test_the_number_of_parts_counts_where_an_expression_tells(bench: Bench, monkeypatch) -> None:
    def of_range(bench: Bench):
        table = bench.spark.range(4).select(F.col("id").alias("a"), F.spark_partition_id().alias("n"))
        return stage("t", bench.source("a long").join(table, "a").groupBy("n").count())

    plain, context = by("a"), type(bench.spark.sparkContext)
    for build in (of_range, by("spark_partition_id()"), by("input_file_block_start()"), plain):
        with monkeypatch.context() as patched:
            found = found_under(bench, build, lambda p=patched: p.setattr(context, "defaultParallelism", 7))
        assert found == (set() if build is plain else {f"q:{PARALLELISM}"})


BROADCAST, SPLIT = "spark.sql.autoBroadcastJoinThreshold", "spark.sql.files.maxPartitionBytes"


def joined_table(looks: bool, whole: bool = False) -> Callable:
    def build(g: Ground):
        rows = g.read("k string, a long").join(g.table(schema="k string, label string"), "k")
        rows = PARTS["pandas"](g, rows) if whole else rows
        return stage("t", rows.groupBy(F.expr("spark_partition_id()" if looks else "k").alias("key")).count())

    return build


# A join is sent to all tasks, or brought together by its keys with the stream's rows.
SHARED = [
    (joined_table(True), BROADCAST, "-1", True),
    (joined_table(False, True), BROADCAST, "-1", True),
    (joined_table(False), BROADCAST, "-1", False),
    *((in_order(part), SPLIT, "150", part in LOOKING) for part in (*LOOKING, "explode")),
]


@pytest.mark.parametrize(("build", "key", "value", "counts"), SHARED)
def test_how_rows_are_shared_out_counts_where_a_partition_is_looked_at(ground, build, key, value, counts) -> None:
    before = ground.plan(build)
    ground.spark.conf.set(key, value)
    found = {i.thing for i in compare(before, ground.plan(build), "test").items if i.blocks}
    assert found == ({"setting"} if counts else set())


class Context:
    """A session as far as the language is asked of it."""

    def __init__(self, spark, **conf: str) -> None:
        self._jvm, self.sparkContext = spark._jvm, self
        self._conf = {k.replace("_", "."): v for k, v in conf.items()}


def test_what_executors_are_told_of_their_language(spark) -> None:
    options = {"spark_executor_extraJavaOptions": "-Xmx1g -Duser.language=tr -Dfile.encoding=ISO-8859-1 -Da=b"}
    alone = spark_internals.jvm_locale(spark)
    assert spark_internals.jvm_locale(Context(spark, spark_master="local[2]", **options)) == alone
    found = spark_internals.jvm_locale(Context(spark, spark_master="yarn", spark_executorEnv_LANG="C", **options))
    assert found == f"{alone}, LANG=C, file.encoding=ISO-8859-1, user.language=tr"


def test_what_executors_are_told_of_their_zone(spark) -> None:
    options = {"spark_executor_defaultJavaOptions": "-Duser.timezone=Asia/Tokyo -Da=b", "spark_executorEnv_TZ": "UTC"}
    [alone] = spark_internals.jvm_zone(spark)
    assert spark_internals.jvm_zone(Context(spark, spark_master="local[2]", **options)) == [alone]
    found = spark_internals.jvm_zone(Context(spark, spark_master="yarn", **options))
    assert found == [alone, "TZ=UTC", "user.timezone=Asia/Tokyo"]


def test_the_number_of_parts_is_what_a_cluster_was_asked_for(spark) -> None:
    """It grows while executors come."""
    assert spark_internals.parallelism(spark) == str(spark.sparkContext.defaultParallelism)
    cluster = Context(spark, spark_master="yarn", spark_executor_cores="4", spark_executor_instances="2")
    assert spark_internals.parallelism(cluster) == "spark.executor.cores=4, spark.executor.instances=2"
    assert spark_internals.parallelism(Context(spark, spark_master="yarn")) == "what the cluster has"
    given = Context(spark, spark_master="yarn", spark_default_parallelism="6")
    given.defaultParallelism = 6  # type: ignore[attr-defined]
    assert spark_internals.parallelism(given) == "6"
