"""Two versions of one query, planned by real Spark and compared by the rules.

A version is the text of a key by which rows are summed, a query in SQL, or a function that makes the DataFrame. Its
last stage is called `t`. In SQL there are the streams `rws`, `oth` and (with a watermark) `late`, and the tables `tabl`
and `labl`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceReader, SimpleDataSourceStreamReader

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.plan.plan import AppPlan
from airflow_provider_streamupdate.core.serde import from_dict, to_json
from airflow_provider_streamupdate.streaming import StreamingApp, source, stage
from airflow_provider_streamupdate.streaming.planning.author import Declarations
from airflow_provider_streamupdate.streaming.planning.planner import plan_app

ROWS = (
    "k string, k2 string, a int, b int, d double, dec decimal(7,2), ts timestamp, ts2 timestamp, tn timestamp_ntz, "
    "v string, bin binary, nums array<int>, items array<string>, s struct<x: int, y: int>, "
    "user struct<id: long, country: string>"
)
Version = str | Callable[["Ground"], DataFrame]


class Ground:
    """Where versions are planned: input folders, tables, a session. columns: of the streams."""

    def __init__(self, spark, folder: Path) -> None:
        self.spark, self.folder, self.columns = spark, folder, ROWS

    def input(self, name: str = "in") -> str:
        path = self.folder / name
        path.mkdir(exist_ok=True)
        return str(path)

    def read(self, schema: str | None = None, folder: str = "in", form: str = "json", **options: str) -> DataFrame:
        reader = self.spark.readStream.schema(schema or self.columns).options(**options)
        return reader.format(form).load(self.input(folder))

    def late(self, delay: str = "1 hour") -> DataFrame:
        return self.read().withWatermark("ts", delay)

    def table(
        self, name: str = "table", schema: str = "k string, label string, weight int", form: str = "json", **options
    ) -> DataFrame:
        return self.spark.read.schema(schema).options(**options).format(form).load(self.input(name))

    def sql(self, text: str) -> DataFrame:
        def named(name: str, rows: DataFrame) -> DataFrame:
            return source(name, rows) if "oth" in text else rows

        views: dict[str, Callable[[], DataFrame]] = {
            "rws": lambda: named("in", self.read()),
            "oth": lambda: named("other", self.read(folder="other")),
            "late": lambda: named("in", self.late()),
            "tabl": self.table,
            "labl": lambda: self.table("labels"),
        }
        for name, frame in views.items():
            if re.search(rf"\b{name}\b", text):
                frame().createOrReplaceTempView(name)
        return self.spark.sql(text)

    def made(self, version: Version) -> DataFrame:
        if not isinstance(version, str):
            return version(self)
        if re.match(r"\s*(select|with)\b", version):
            return stage("t", self.sql(version))
        return stage("t", self.read().groupBy(F.expr(version).alias("key")).agg(F.sum("a").alias("x")))

    def plan(self, version: Version, mode: str = "update") -> AppPlan:
        app = StreamingApp("app")
        app.query("q")(lambda spark, params: self.made(version).writeStream.format("noop").outputMode(mode))
        plan = plan_app(self.spark, Declarations(app.name), app.build(self.spark, {}))
        return from_dict(json.loads(to_json(plan)), AppPlan, "plan")  # as it is kept


def data_source(known_as: str, columns: str, rows: Callable[[], Iterable[tuple]]) -> type[DataSource]:
    """A data source in Python whose rows a function gives, as a table and as a stream."""

    class Reader(DataSourceReader):
        def read(self, partition: object) -> Iterator[tuple]:
            yield from rows()

    class StreamReader(SimpleDataSourceStreamReader):
        def initialOffset(self) -> dict:
            return {"n": 0}

        def read(self, start: dict) -> tuple[Iterator[tuple], dict]:
            return iter(rows()), {"n": start["n"] + 1}

        def readBetweenOffsets(self, start: dict, end: dict) -> Iterator[tuple]:
            return iter(rows())

    class Given(DataSource):
        @classmethod
        def name(cls) -> str:
            return known_as

        def schema(self) -> str:
            return columns

        def reader(self, schema: object) -> DataSourceReader:
            return Reader()

        def simpleStreamReader(self, schema: object) -> SimpleDataSourceStreamReader:
            return StreamReader()

    return Given


def verdict(old: AppPlan, new: AppPlan) -> str:
    """Of the stages: ``asked`` where one needs agreement, ``carried`` where all are."""
    items = [i for i in compare(old, new, "test").items if i.thing == "stage"]
    assert items
    found = ["asked" if i.needs_agreement else i.verdict for i in items]
    return next((each for each in found if each != "carried"), "carried")


# Versions made of versions and of texts

NAMES = [f"v{n:02d}" for n in range(12)]
TWELVE, OTHERS, TURNED = (
    ", ".join(f"'{n}'" for n in names) for names in (NAMES, [n.replace("v", "w") for n in NAMES], NAMES[::-1])
)
CI, N = "collate UTF8_LCASE", "count(*)"


def count(rows: DataFrame, *keys: object) -> DataFrame:
    return stage("t", rows.groupBy(*keys).count())


def once(text: str, *columns: str) -> Callable[[Ground], DataFrame]:
    return lambda g: stage("t", (g.sql(text) if text else g.read()).dropDuplicates(list(columns)))


def windows(rows: DataFrame) -> DataFrame:
    return count(rows, F.window("ts", "10 minutes"), "k")


def passed_on(key: object, batches: Iterator, state: object) -> Iterator:
    yield from batches


def per_key(aggregate: str, of: str = "rws") -> str:
    return f"select k, {aggregate} as x from {of} group by k"


def counts(columns: str, of: str) -> str:
    return f"select {columns}, count(*) n from {of} group by all"


def looked_up(table: str = "tabl", column: str = "label", how: str = "join", where: str = "true") -> str:
    return counts(column, f"rws {how} {table} using (k) where {where}")


def values(rows: str, label: str = "label", columns: str = "k, label") -> str:
    return counts(f"{label} l", f"rws join (select * from values {rows} as t({columns})) using (k)")


def united(*branches: str, key: str = "x", total: str = "sum(y)") -> str:
    """A total by key over branches, each the columns and the rest of a SELECT."""
    return f"select {key}, {total} t from ({' union all '.join(f'select {b}' for b in branches)}) group by {key}"


def turned(text: str, one: str, other: str) -> tuple[str, str]:
    """A text with two places, and with what is in them exchanged."""
    return text.format(one, other), text.format(other, one)


def retyped(old: str, new: str, version: Version) -> Callable[[Ground], DataFrame]:
    """A version of which a column of the input has another type."""

    def build(ground: Ground) -> DataFrame:
        assert old in ROWS
        ground.columns = ROWS.replace(old, new)
        try:
            return ground.made(version)
        finally:
            ground.columns = ROWS

    return build


def retyped_pair(old: str, new: str, version: Version) -> tuple:
    return version, retyped(old, new, version)


def under(version: Version, *statements: str, **settings: str) -> Callable[[Ground], DataFrame]:
    """A version after statements in SQL, with settings of `spark.sql`."""

    def build(ground: Ground) -> DataFrame:
        for name, value in settings.items():
            ground.spark.conf.set(f"spark.sql.{name.replace('_', '.')}", value)
        for statement in statements:
            ground.sql(statement)
        return ground.made(version)

    return build
