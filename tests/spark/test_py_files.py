"""State functions of modules of --py-files: Spark asks a StatefulProcessor for its state variables in a process of the
driver, which has to find its module."""

from __future__ import annotations

import importlib
import zipfile
from collections import Counter
from pathlib import Path

import pytest
from bench import ROCKSDB, Bench, row
from pyspark.errors import StreamingQueryException

from airflow_provider_streamupdate.core.errors import describe
from airflow_provider_streamupdate.streaming import StreamingApp, stage
from airflow_provider_streamupdate.streaming.planning.author import Declarations
from airflow_provider_streamupdate.streaming.planning.planner import plan_app

MODULE = """
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

class Counted(StatefulProcessor):
    def init(self, handle):
        self.count = handle.getValueState("count", "n int")

    def handleInputRows(self, key, rows, timers):
        n = (self.count.get()[0] if self.count.exists() else 0) + len(list(rows))
        self.count.update((n,))
        yield Row(k=key[0], n=n)

    def close(self):
        pass
"""


def processor(spark, folder: Path, name: str, packed: str):
    """The class, of a module that was given as `packed`."""
    path = folder / f"{name}.py"
    path.write_text(MODULE)
    if packed == "zip":
        path = folder / f"{name}.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(f"{name}.py", MODULE)
    spark.sparkContext.addPyFile(str(path))
    importlib.invalidate_caches()
    return importlib.import_module(name).Counted


@pytest.mark.slow  # what Python workers import changes, so that all of them are started again
@pytest.mark.parametrize("packed", ["zip", "py"])
def test_a_processor_of_a_module_is_planned_and_runs(spark, tmp_path, packed) -> None:
    bench = Bench(spark, tmp_path, ROCKSDB)
    counted = processor(spark, tmp_path, f"counted_in_a_{packed}", packed)
    app = StreamingApp("counts")

    @app.query("counts")
    def counts(spark, params):
        keyed = bench.source().groupBy("k")
        made = stage("counted", keyed.transformWithState(counted(), "k string, n int", "Update", "None"))
        return made.writeStream.outputMode("update").format("memory")

    writers = app.build(spark, {})
    [query] = plan_app(spark, Declarations(app.name), writers).queries
    assert [s.name for s in query.stages] == ["counted"]
    rows = [row(k, n) for n, k in enumerate("abaab")]
    bench.write(rows)
    started = writers["counts"].queryName("counts").option("checkpointLocation", str(tmp_path / "c"))
    running = started.trigger(availableNow=True).start()
    assert running.awaitTermination(120) and running.exception() is None
    assert dict(spark.table("counts").collect()) == Counter("abaab")


def test_an_error_of_a_running_query_is_told_by_its_last_line(bench: Bench, tmp_path) -> None:
    def each(batch, number: int) -> None:
        try:
            {}["EUR"]
        except KeyError as error:
            raise ValueError("no rate") from error

    bench.write([row("a", 1)])
    writer = bench.source().writeStream.foreachBatch(each).option("checkpointLocation", str(tmp_path / "c"))
    with pytest.raises(StreamingQueryException) as caught:
        writer.trigger(availableNow=True).start().awaitTermination(120)
    message = describe(caught.value)
    assert "ValueError: no rate" in message and "Traceback" not in message and "KeyError" not in message
    assert len(message) < 300, message
