"""Changes around the stages: other code, other files that come with it, other names of steps. State goes on."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from bench import HDFS, Bench, row, stage
from pyspark.sql import functions as F


@pytest.mark.slow
def test_other_code_other_assets_and_other_names_of_steps_around_a_stage(spark, tmp_path) -> None:
    """A function above it, a file of prices below it and the alias of a step change; all hold from now on."""

    def sales(step: str, percent: int) -> Callable:
        def build(bench: Bench):
            prices = bench.spark.read.schema("k string, price long").json(str(tmp_path / "prices"))
            priced = bench.source().alias(step).join(prices, "k")
            totals = stage("totals", priced.groupBy("k").agg(F.sum("price").alias("s")))
            taxed = F.udf(lambda s: s * (100 + percent) // 100, "long")
            return totals.select("k", taxed("s").alias("s"))

        return build

    def price(of_a: int) -> None:
        (tmp_path / "prices" / "prices.json").write_text(json.dumps({"k": "a", "price": of_a}) + "\n")

    bench = Bench(spark, tmp_path, HDFS)
    (tmp_path / "prices").mkdir()
    price(100)
    bench.write([row("a", 1), row("a", 1)])
    snapshot = bench.run(sales("read", 0))
    price(1000)
    assert {i.verdict for i in bench.check(snapshot, sales("received", 10)).items} == {"carried"}
    bench.write([row("a", 1)])
    bench.run(sales("received", 10), snapshot=snapshot)
    assert [r["s"] for r in bench.all()] == [200, (200 + 1000) * 110 // 100]
