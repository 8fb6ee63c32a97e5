"""The twelve causes by which an update was called carried and computed wrong results: for each a pair of real apps. The
check refuses it or asks, and what Spark makes of the pair without it is not what a batch makes of the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import attrs
import pytest
from bench import Bench, stage
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamReader

from airflow_provider_streamupdate.core.errors import ApplicationError
from airflow_provider_streamupdate.streaming import source
from tests.cases import one_is_fast

USER = "home: string, country: string"
SCHEMA = f"k string, k2 string, a int, b int, day string, ts timestamp, user struct<{USER}>"
NAMES = [f"v{n:02d}" for n in range(12)]
Version = Callable[[Bench], DataFrame]


def _rows(at: int) -> list[dict]:
    """Those of one file: every second one is the first version's."""
    return [
        {
            "k": "ab"[n % 2],
            "k2": f"{'vw'[n % 3 == 0]}{n % 12:02d}",
            "a": n + at,
            "b": n * 3 % 7,
            "day": f"2026-1-{n % 3 + 1}",
            "ts": f"2026-01-01T00:{n + at:02d}:00Z",
            "user": {"home": "xyz"[n % 3], "country": "zx"[n % 2]},
        }
        for n in range(12)
    ]


def total(key: str, value: str = "sum(a)", schema: str = SCHEMA) -> Version:
    def build(bench: Bench) -> DataFrame:
        return stage("t", bench.source(schema).groupBy(F.expr(key).alias("key")).agg(F.expr(value).alias("x")))

    return build


def called(keyword: str) -> Version:
    def build(bench: Bench) -> DataFrame:
        @F.udf("int")
        def made(x: int = 0, y: int = 0) -> int:
            return x % 3 + 10 * (y % 3)

        return stage("t", bench.source(SCHEMA).groupBy(made(**{keyword: F.col("a")}).alias("key")).count())

    return build


def first_of(*divisors: int) -> Version:
    """By the first number of a dict that divides."""
    names = {d: f"by {d}" for d in divisors}

    def made(x: int) -> str:
        return next((name for d, name in names.items() if x % d == 0), "none")

    def build(bench: Bench) -> DataFrame:
        return stage("t", bench.source(SCHEMA).groupBy(F.udf(made, "string")("a").alias("key")).count())

    return build


def branches(first: str, second: str) -> Version:
    def build(bench: Bench) -> DataFrame:
        rows = bench.source(SCHEMA)
        small = rows.where(first).withColumn("key", F.lit("small"))
        return stage("t", small.union(rows.where(second).withColumn("key", F.lit("big"))).groupBy("key").count())

    return build


def looked_up(order: str) -> Version:
    """In a table that has two rows of each key: in the first one."""

    def build(bench: Bench) -> DataFrame:
        table = bench.spark.read.schema("k string, key string, rank int").json(str(bench.input("table")))
        first = table.orderBy(F.expr(order)).dropDuplicates(["k"])
        return stage("t", bench.source(SCHEMA).join(first, "k").groupBy("key").count())

    return build


def met(condition: str) -> Version:
    def build(bench: Bench) -> DataFrame:
        rows = bench.source(SCHEMA).select(F.col("k").alias("k"), (F.col("a") + 1).alias("a"))
        pairs = rows.alias("l").join(rows.alias("r"), F.expr(f"l.k = r.k AND {condition}"))
        return stage("t", pairs.select(F.col("l.a").alias("x"), F.col("r.a").alias("y")))

    return build


def numbered(name: str) -> Version:
    """What comes out of stage `t` and out of the source that has its name are both called k."""

    def build(bench: Bench) -> DataFrame:
        rows = bench.source(SCHEMA)
        rows = source("t", rows) if rows.isStreaming else rows
        counts = stage("t", rows.withWatermark("ts", "1 minute").groupBy(F.window("ts", "1 minute"), "k", "k2").count())
        return stage("once", counts.dropDuplicates([name]))

    return build


def watermarked(above: bool) -> Version:
    def build(bench: Bench) -> DataFrame:
        rows = bench.source(SCHEMA)
        if above:
            once = stage("once", rows.dropDuplicates(["k2"])).withWatermark("ts", "1 minute")
        else:
            once = stage("once", rows.withWatermark("ts", "1 minute").dropDuplicates(["k2"]))
        return stage("t", once.groupBy(F.window("ts", "1 minute")).count())

    return build


def table(schema: str) -> Version:
    """Of CSV files, whose columns go by their places."""

    def build(bench: Bench) -> DataFrame:
        read = bench.spark.read if bench.at_rest else bench.spark.readStream.option("maxFilesPerTrigger", 1)
        assert isinstance(read, DataStreamReader) or bench.at_rest
        return stage("t", read.schema(schema).csv(str(bench.input("csv"))).groupBy("k").agg(F.count("*").alias("n")))

    return build


@attrs.frozen
class Cause:
    old: Version
    new: Version
    mode: str = "update"
    key: tuple[str, ...] = ("key",)
    settings: tuple[dict[str, str], dict[str, str]] = ({}, {})


_PARSER = "spark.sql.legacy.timeParserPolicy"
CAUSES = {
    "1 a field that Spark's JSON leaves out": Cause(
        total("k", f"sum(CASE WHEN k2 IN ({', '.join(repr(n) for n in NAMES)}) THEN a END)"),
        total("k", f"sum(CASE WHEN k2 IN ({', '.join(repr(n.replace('v', 'w')) for n in NAMES)}) THEN a END)"),
    ),
    "2 a type": Cause(
        total("k", "collect_list(a)"), total("k", "collect_list(a)", SCHEMA.replace("a int", "a bigint"))
    ),
    "3 a field of a struct": Cause(
        total("k", "max(user)"), total("k", "max(user)", SCHEMA.replace(USER, "country: string, home: string"))
    ),
    "4 a keyword": Cause(called("x"), called("y")),
    "5 a branch's filter": Cause(branches("a < 3", "a >= 3"), branches("a >= 3", "a < 3")),
    "6 a lookup": Cause(looked_up("rank"), looked_up("-rank")),
    "7 a side of a self join": Cause(met("l.a < r.a"), met("r.a < l.a"), "append", ("x", "y")),
    "9 a watermark's place": Cause(watermarked(False), watermarked(True), "append", ("window",)),
    "10 the order of a dict": Cause(first_of(2, 3), first_of(3, 2)),
    "11 a setting": Cause(
        total("to_date(day, 'yyyy-MM-dd')"),
        total("to_date(day, 'yyyy-MM-dd')"),
        settings=(
            {_PARSER: "LEGACY", "spark.sql.ansi.enabled": "false"},
            {_PARSER: "CORRECTED", "spark.sql.ansi.enabled": "false"},
        ),
    ),
    "12 a positional schema": Cause(table("k string, k2 string"), table("k2 string, k string"), key=("k",)),
}


@pytest.fixture
def bench(spark, tmp_path) -> Iterator[Bench]:
    before = {key: spark.conf.get(key, None) for key in (_PARSER, "spark.sql.ansi.enabled")}
    yield Bench(spark, tmp_path)
    for key, value in before.items():
        spark.conf.unset(key) if value is None else spark.conf.set(key, value)


def write(bench: Bench, at: int) -> None:
    bench.write(_rows(at))
    table = [{"k": k, "key": f"{k}{rank}", "rank": rank} for k in "ab" for rank in (1, 2)]
    (bench.input("table") / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in table))
    (bench.input("csv") / f"{at}.csv").write_text("".join(f"{r['k']},{r['k2']}\n" for r in _rows(at)))


def use(bench: Bench, settings: dict[str, str]) -> None:
    for key, value in settings.items():
        bench.spark.conf.set(key, value)


def answer(rows: list[dict], cause: Cause) -> dict[str, str]:
    return {str([r[k] for k in cause.key]): str(sorted(r.items())) for r in rows}


@pytest.mark.parametrize("name", one_is_fast(CAUSES, 3))
def test_it_is_not_carried_and_would_be_wrong(bench: Bench, name: str) -> None:
    cause = CAUSES[name]
    use(bench, cause.settings[0])
    write(bench, 0)
    snapshot = bench.run(cause.old, cause.mode)
    use(bench, cause.settings[1])
    report = bench.check(snapshot, cause.new, cause.mode)
    assert not report.compatible, report.to_markdown()
    before = dict(bench.emitted)
    write(bench, 1)
    try:
        bench.spark_alone(cause.new, cause.mode)
    except Exception:
        return  # Spark does not start it: then nothing is silent
    wanted = answer(bench.batch(cause.new), cause)
    found = answer([r for b in sorted({**before, **bench.emitted}) for r in {**before, **bench.emitted}[b]], cause)
    assert found != wanted


def test_8_a_stage_under_the_name_of_a_source(bench: Bench) -> None:
    with pytest.raises(ApplicationError, match="a source and a stage"):
        bench.plan(numbered("k"), "append")
