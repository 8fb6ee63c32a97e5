"""From a spec to a DataFrame."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_streamupdate.streaming import source, stage
from tests.spark.bench import HDFS, ROCKSDB, SCHEMA

from .processors import PROCESSORS, Ring, counting
from .spec import (
    COLUMNS,
    Aggregate,
    Alarm,
    Counter,
    Deduplicate,
    Filter,
    Function,
    Join,
    Limit,
    Select,
    Session,
    Spec,
    Step,
    Swap,
)

if TYPE_CHECKING:
    from tests.spark.bench import Bench

# provider, changelog checkpointing
STORES = {"hdfs": (HDFS, False), "rocksdb": (ROCKSDB, False), "changelog": (ROCKSDB, True)}


def store_settings(store: str) -> dict[str, str]:
    provider, changelog = STORES[store]
    return {
        "spark.sql.streaming.stateStore.providerClass": provider,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": str(changelog).lower(),
    }


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
    options = {"mode": "FAILFAST"} if spec.strict else {}
    df = bench.source(SCHEMA + (", extra string" if spec.extra else ""), name, **options)
    named = source(name, df.withWatermark("ts", f"{spec.watermark} minutes") if spec.watermark is not None else df)
    return named.select("k", "k2", "a", "b", "ts")


def _joined(join: Join, left: DataFrame, right: DataFrame) -> DataFrame:
    left, right = (
        df.select(*(F.col(c).alias(f"{side}{c}") for c in COLUMNS)) for side, df in (("l", left), ("r", right))
    )
    on = F.expr(f"lk = rk AND rts >= lts AND rts <= lts + INTERVAL {join.within} MINUTES")
    pairs = stage(join.name, left.join(right, on, join.kind))
    columns = ("lk", "lk2", "la", "lb") if join.kind == "left_semi" else ("lk", "rk2", "la", "ra")
    # a plain number: no event time above the join, whose watermark is another one
    made = (*map(F.col, columns), _minute(F.col("lts")))
    return pairs.select(*(c.alias(name) for c, name in zip(made, COLUMNS, strict=True)))


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
        if step.distinct:
            return stage(step.name, df.select(*columns).distinct())
        return stage(
            step.name, df.dropDuplicatesWithinWatermark(columns) if step.within else df.dropDuplicates(columns)
        )
    if isinstance(step, Limit):
        return stage(step.name, df.limit(step.rows))
    if isinstance(step, Counter):
        return stage(step.name, _counted(df, step, spec.mode))
    if isinstance(step, Alarm):
        ring = Ring(step.after)
        made = df.groupBy(step.key).transformWithState(ring, "k string, n long", spec.mode.title(), "EventTime")
        return stage(step.name, made)
    return df  # the join is where the sources meet


def _counted(df: DataFrame, step: Counter, mode: str) -> DataFrame:
    grouped, made = df.groupBy(step.key), "k string, n long"
    if step.way == "apply":
        return grouped.applyInPandasWithState(counting(step.step), made, "n long", mode, "NoTimeout")
    method = grouped.transformWithStateInPandas if step.way == "pandas" else grouped.transformWithState
    return method(PROCESSORS[step.way](step.step), made, mode.title(), "None")


def _minutes(*numbers: int) -> list[str]:
    return [f"{n} minutes" for n in numbers]


def _key(name: str) -> Any:
    made = {"m": F.col("a") % 3, "h": F.hour("ts")}
    return made[name].alias(name) if name in made else F.col(name)


def _function(function: Function) -> Any:
    """Ties of min_by and max_by are broken by the value itself: the order of rows is not known."""
    order = [F.struct(function.by, function.column)] if function.by else []
    return getattr(F, function.name)(function.column, *order).alias(function.alias)
