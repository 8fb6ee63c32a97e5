"""An app whose version is in its parameters: what tests/e2e/test_slo_updates.py updates."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from queries import build

from airflow_provider_streamupdate.streaming import StreamingApp, stage

SCHEMA = "k string, a long, b long, ts timestamp"

app = StreamingApp("levels")


@app.query("q")
def q(spark, params):  # type: ignore[no-untyped-def]
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1").json(params["input"])
    rows = build(params["kind"], stage, source, **json.loads(params["version"]))
    if seconds := float(params["slower"]):
        rows = rows.coalesce(1).mapInArrow(_waiting(seconds), rows.schema)
    return rows.writeStream.format("noop").outputMode(params["mode"])


def _waiting(seconds: float) -> Any:
    def wait(batches: Iterator[Any]) -> Iterator[Any]:
        """Spark calls it once a batch: its rows are in one partition."""
        time.sleep(seconds)
        yield from batches

    return wait


if __name__ == "__main__":
    app.main()
