"""The output of a query to a table of Delta Lake: its log names the batch of each commit, and counts its rows and
nulls (`txn` and the `stats` of `add`, https://github.com/delta-io/delta/blob/master/PROTOCOL.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .....core.storage import Folder
from .counts import RowCounts

FORMAT = "delta"
LOG = "_delta_log"


def commits(
    folder: Folder, query_id: str, batches: range, most: int | None = None
) -> Iterator[tuple[int, int, list[dict[str, Any]]]]:
    """Yield the batch, the table's version and the added files of each commit of the query's batches, newest first.

    most: commits that are read, of others, too; None: all
    """
    names = [n for n in folder.names(LOG) if n.endswith(".json") and n.removesuffix(".json").isdigit()]
    for name in sorted(names, reverse=True)[:most]:
        actions = [json.loads(line) for line in (folder.read(f"{LOG}/{name}") or b"").splitlines() if line]
        batch = next((a["txn"]["version"] for a in actions if a.get("txn", {}).get("appId") == query_id), None)
        if batch is not None and int(batch) < batches.start:
            return
        if batch is not None and int(batch) in batches:
            yield int(batch), int(name.removesuffix(".json")), [a["add"] for a in actions if "add" in a]


def count(file: dict[str, Any]) -> RowCounts:
    """Return the counts of an added file; not of columns within others."""
    stats = json.loads(file.get("stats") or "{}")
    nulls = {name: number for name, number in stats.get("nullCount", {}).items() if isinstance(number, int)}
    return RowCounts(int(stats.get("numRecords", 0)), nulls)
