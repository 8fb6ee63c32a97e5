"""Which files a version had processed, from Spark's file source log."""

from __future__ import annotations

import json

from airflow_provider_streamupdate.core.checkpoint.snapshot import QuerySnapshot, SnapshotFile
from scripts.demolib.source_log import files_of_snapshot


def entries(*files: tuple[str, int]) -> bytes:
    lines = [
        json.dumps({"path": f"file:///data/in/{name}", "timestamp": 1000 + batch, "batchId": batch})
        for name, batch in files
    ]
    return "\n".join(["v1", *lines]).encode()


def offsets(log_offset: int) -> bytes:
    """As Spark writes them for a query that uses its source twice."""
    line = json.dumps({"logOffset": log_offset})
    return f'v1\n{{"batchWatermarkMs":0}}\n{line}\n{line}'.encode()


def test_only_files_of_committed_batches_count():
    objects = {
        "o/offsets": offsets(11),
        "o/in-flight": offsets(12),
        "o/compact": entries(("a.json", 0), ("b%20c.json", 9)),
        "o/10": entries(("d.json", 10)),
        "o/11": entries(("e.json", 11)),
        "o/12": entries(("late.json", 12)),  # of the batch that was logged, not committed
    }
    paths = {
        "offsets/20": "o/offsets",
        "offsets/21": "o/in-flight",
        "sources/0/9.compact": "o/compact",
        "sources/0/10": "o/10",
        "sources/0/11": "o/11",
        "sources/0/12": "o/12",
        "state/0/0/21.zip": "o/state",
    }
    snapshot = QuerySnapshot(
        batch=20,
        query_id="q",
        files=tuple(SnapshotFile(path=path, size=1, object=name) for path, name in paths.items()),
        in_flight=21,
    )
    files = files_of_snapshot(snapshot, objects.__getitem__)
    assert files == ["a.json", "b c.json", "d.json", "e.json"]
