"""The graph of real queries, from the plans that their drivers make."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from bench import Bench, stage
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.compatibility.graph import NodeKind, QueryGraph, graph
from airflow_provider_streamupdate.streaming import source

Build = Callable[[Bench], DataFrame]


def clicks(bench: Bench) -> DataFrame:
    return source("clicks", bench.source(name="a")).withWatermark("ts", "1 hour")


def views(bench: Bench) -> DataFrame:
    return source("views", bench.source(name="b")).withWatermark("ts", "1 hour")


def two_stages(bench: Bench) -> DataFrame:
    tiers = bench.spark.createDataFrame([("a", "gold")], "k string, tier string")
    rows = clicks(bench).where("a > 3").union(views(bench).where("b < 7")).join(tiers, "k")
    distinct = stage("distinct", rows.dropDuplicates(["k", "ts"]))
    return stage("daily", distinct.groupBy(F.window("ts", "1 day")).count()).where("count > 5")


def joined(bench: Bench) -> DataFrame:
    other = views(bench).select(F.col("k").alias("k9"), F.col("ts").alias("ts9"))
    return stage("pairs", clicks(bench).join(other, F.expr("k = k9 and ts9 between ts and ts + interval 1 hour")))


def made(spark, tmp_path, build: Build) -> QueryGraph:
    [found] = graph(Bench(spark, tmp_path).plan(build, "append")[0]).queries
    return found


def steps(found: QueryGraph) -> list[tuple[str, str, tuple[str, ...]]]:
    """What is between two nodes: the one before, the one behind, the steps."""
    boxes = {node.id: node.new or () for node in found.nodes if node.kind == NodeKind.STEPS}
    before, behind = ({getattr(e, key): e for e in found.edges} for key in ("end", "start"))
    return sorted((before[name].start, behind[name].end, lines) for name, lines in boxes.items())


def plain(found: QueryGraph) -> set[tuple[str, str]]:
    """Edges without steps."""
    boxes = {node.id for node in found.nodes if node.kind == NodeKind.STEPS}
    return {(e.start, e.end) for e in found.edges if not {e.start, e.end} & boxes}


def test_a_union_a_lookup_two_stages_and_a_filter_behind_them(spark, tmp_path) -> None:
    found = made(spark, tmp_path, two_stages)
    ways = steps(found)
    assert [(start, end) for start, end, _ in ways if (start, end) != ("stage distinct", "stage daily")] == [
        ("source clicks", "stage distinct"),
        ("source views", "stage distinct"),
        ("stage daily", "sink"),
    ]
    assert any("clicks.a > 3" in line for line in ways[0][2]) and any(
        line.startswith("lookup by") for line in ways[0][2]
    )
    assert next(lines for start, _, lines in ways if start == "stage daily")[0].startswith("filter daily.count(1) > 5")


def test_a_join_of_streams(spark, tmp_path) -> None:
    found = made(spark, tmp_path, joined)
    assert plain(found) == {("stage pairs", "sink")}
    assert {(start, end) for start, end, _ in steps(found)} == {
        ("source clicks", "stage pairs"),
        ("source views", "stage pairs"),
    }


def test_what_cannot_be_told_of_the_sink_refuses_no_app(spark, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_provider_streamupdate.streaming.planning import planner

    def broken(lineage: object, node: object) -> None:
        if getattr(node, "name", "") == "Sink":
            raise RuntimeError("a node nobody has thought of")

    monkeypatch.setattr(planner, "filters_below", lambda lineage, node: broken(lineage, node) or ())
    found = made(spark, tmp_path, lambda b: clicks(b).where("a > 3").select("k"))
    assert found.unknown == ("the plan does not say what feeds sink",) and found.edges == ()
