"""From a spec to a DataFrame."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

from airflow_provider_streamupdate.streaming import source, stage
from tests.spark.bench import HDFS, ROCKSDB, SCHEMA

from .spec import Aggregate, Counter, Deduplicate, Filter, Function, Join, Limit, Select, Session, Spec, Step, Swap

if TYPE_CHECKING:
    from tests.spark.bench import Bench

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # Python workers cannot import test modules

# provider, changelog checkpointing
STORES = {"hdfs": (HDFS, False), "rocksdb": (ROCKSDB, False), "changelog": (ROCKSDB, True)}


def build(spec: Spec) -> Callable[[Bench], DataFrame]:
    """A version for `Bench`."""

    def made(bench: Bench) -> DataFrame:
        if not spec.joined:
            df = _source(bench, spec, "in")
            df = df.union(_source(bench, spec, "more")) if spec.union else df
        else:
            [join] = [s for s in spec.steps if isinstance(s, Join)]
            df = _joined(join, _source(bench, spec, "left"), _source(bench, spec, "right"))
        for step in spec.steps:
            df = _step(df, step, spec)
        return df.select(*(_shown(df, c) for c in df.columns))

    return made


def _source(bench: Bench, spec: Spec, name: str) -> DataFrame:
    df = bench.source(SCHEMA + (", extra string" if spec.extra else ""), name)
    named = source(name, df.withWatermark("ts", f"{spec.watermark} minutes") if spec.watermark is not None else df)
    return named.select("k", "k2", "a", "b", "ts")


def _joined(join: Join, left: DataFrame, right: DataFrame) -> DataFrame:
    left = left.select(F.col("k").alias("lk"), F.col("a").alias("la"), F.col("ts").alias("lts"))
    right = right.select(
        F.col("k").alias("rk"), F.col("k2").alias("rk2"), F.col("a").alias("ra"), F.col("ts").alias("rts")
    )
    on = F.expr(f"lk = rk AND rts >= lts AND rts <= lts + INTERVAL {join.within} MINUTES")
    pairs = stage(join.name, left.join(right, on))
    # a plain number: no event time above the join, whose watermark is another one
    return pairs.select(
        F.col("lk").alias("k"), F.col("rk2").alias("k2"), F.col("la").alias("a"), F.col("ra").alias("b"),
        _minute(F.col("lts")).alias("ts"),
    )  # fmt: skip


def _minute(time: Any) -> Any:
    return (F.unix_timestamp(time) / 60).cast("long")


def _shown(df: DataFrame, column: str) -> Any:
    kind = df.schema[column].dataType.typeName()
    if kind == "struct":
        return _minute(F.col(f"{column}.start")).alias(column)
    return _minute(F.col(column)).alias(column) if kind == "timestamp" else F.col(column)


def _step(df: DataFrame, step: Step, spec: Spec) -> DataFrame:
    if isinstance(step, Filter):
        return df.where(f"{step.column} {step.sign} {step.value}")
    if isinstance(step, Select):
        order = step.order(sorted(df.columns))
        aliased = df.select(*(F.col(c).alias(f"{c}_") for c in order))
        return aliased.select(*(F.col(f"{c}_").alias(c) for c in order))
    if isinstance(step, Swap):
        names = {step.one: step.other, step.other: step.one}
        return df.select(*(F.col(names.get(c, c)).alias(c) for c in df.columns))
    if isinstance(step, Aggregate):
        windows = [F.window("ts", *_minutes(step.window.size, step.window.slide)).alias("w")] if step.window else []
        return stage(step.name, df.groupBy(*windows, *map(_key, step.keys)).agg(*map(_function, step.functions)))
    if isinstance(step, Session):
        window = F.session_window("ts", f"{step.gap} minutes").alias("w")
        return stage(step.name, df.groupBy(window, *map(_key, step.keys)).agg(*map(_function, step.functions)))
    if isinstance(step, Deduplicate):
        columns = list(step.columns)
        return stage(
            step.name, df.dropDuplicatesWithinWatermark(columns) if step.within else df.dropDuplicates(columns)
        )
    if isinstance(step, Limit):
        return stage(step.name, df.limit(step.rows))
    if isinstance(step, Counter):
        made = df.groupBy(F.col(step.key)).transformWithState(Count(), "k string, n long", spec.mode.title(), "None")
        return stage(step.name, made)
    return df  # the join is where the sources meet


def _minutes(*numbers: int) -> list[str]:
    return [f"{n} minutes" for n in numbers]


def _key(name: str) -> Any:
    return (F.col("a") % 3).alias("m") if name == "m" else F.col(name)


def _function(function: Function) -> Any:
    return getattr(F, function.name)(function.column).alias(function.alias)


class Count(StatefulProcessor):
    def init(self, handle) -> None:
        self.count = handle.getValueState("count", "n long")

    def handleInputRows(self, key, rows, timers) -> Iterator[Row]:
        n = (self.count.get()[0] if self.count.exists() else 0) + sum(1 for _ in rows)
        self.count.update((n,))
        yield Row(k=key[0], n=n)

    def close(self) -> None:
        pass
