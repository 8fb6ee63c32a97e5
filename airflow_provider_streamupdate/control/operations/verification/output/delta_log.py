"""The output of a query to a table of Delta Lake: its log names the batch of each commit, and counts its rows and
nulls (`txn` and the `stats` of `add`, https://github.com/delta-io/delta/blob/master/PROTOCOL.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from .....core.slo.output import Output
from .....core.storage import Folder

FORMAT = "delta"
LOG = "_delta_log"
COMMITS = 200  # the last ones, among which the query's batches are looked for: others may write, too


def read(folder: Folder, query_id: str, count: int, wanted: Callable[[int], bool]) -> tuple[Output, ...]:
    """The last batches of the query that are wanted, oldest first."""
    commits = sorted(n for n in folder.names(LOG) if n.endswith(".json") and n.removesuffix(".json").isdigit())
    found: list[Output] = []
    for name in reversed(commits[-COMMITS:]):
        actions = [json.loads(line) for line in (folder.read(f"{LOG}/{name}") or b"").splitlines() if line]
        batch = next((a["txn"]["version"] for a in actions if a.get("txn", {}).get("appId") == query_id), None)
        if batch is None or not wanted(int(batch)):
            continue
        found.append(_counted(int(batch), [a["add"] for a in actions if "add" in a]))
        if len(found) == count:
            break
    return tuple(reversed(found))


def commits(folder: Folder, query_id: str, batches: range) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Yield the batch, the table's version and the files of each commit of the query's batches."""
    names = [n for n in folder.names(LOG) if n.endswith(".json") and n.removesuffix(".json").isdigit()]
    for name in sorted(names, reverse=True):
        actions = [json.loads(line) for line in (folder.read(f"{LOG}/{name}") or b"").splitlines() if line]
        batch = next((a["txn"]["version"] for a in actions if a.get("txn", {}).get("appId") == query_id), None)
        if batch is not None and int(batch) < batches.start:
            return
        if batch is not None and int(batch) in batches:
            yield int(batch), int(name.removesuffix(".json")), tuple(a["add"]["path"] for a in actions if "add" in a)


def _counted(batch: int, files: list[dict[str, Any]]) -> Output:
    rows, nulls = 0, None
    for file in files:
        stats = json.loads(file.get("stats") or "{}")
        rows += int(stats.get("numRecords", 0))
        found = {name: n for name, n in stats.get("nullCount", {}).items() if isinstance(n, int)}
        nulls = found if nulls is None else {name: nulls[name] + found[name] for name in nulls if name in found}
    return Output(batch=batch, rows=rows, nulls=nulls or {})
