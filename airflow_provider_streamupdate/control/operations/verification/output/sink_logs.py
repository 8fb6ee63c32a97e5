"""The logs of sinks, which name the files of each batch, and from which rows and nulls are counted.

A file sink has ``_spark_metadata`` (FileStreamSinkLog). A table of Delta Lake has ``_delta_log`` with `txn` and the
`stats` of `add` (https://github.com/delta-io/delta/blob/master/PROTOCOL.md).
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

import attrs

from .....core.plan.plan import SinkPlan
from .....core.storage import Folder

DELTA = "delta"
_DELTA_LOG = "_delta_log"
_FILE_LOG = "_spark_metadata"


def file_batches(folder: Folder, among: Container[int] | None = None) -> list[int]:
    """Return the batches whose own log is there, in order. among: only these"""
    names = (int(name) for name in folder.names(_FILE_LOG) if name.isascii() and name.isdigit())
    return sorted(batch for batch in names if among is None or batch in among)


def batch_files(folder: Folder, batch: int) -> Iterator[tuple[str, int]]:
    """Yield the path of each file of a batch below the folder, and its bytes."""
    base = urlsplit(folder.uri).path.rstrip("/")
    lines = (folder.read(f"{_FILE_LOG}/{batch}") or b"").decode().splitlines()
    for line in lines[1:]:  # the first is the format's version
        entry = json.loads(line)
        path = unquote(urlsplit(str(entry["path"])).path)
        if entry.get("action", "add") == "add" and path.startswith(f"{base}/"):
            yield path[len(base) + 1 :], int(entry["size"])


def count_batches(folder: Folder, sink: SinkPlan, batches: Sequence[int], most: int) -> Iterator[RowCounts]:
    """Yield the counts of these batches, newest first, until so many bytes would be read."""
    columns = [name for name, _ in sink.columns or () if name not in sink.partitioned_by]
    for batch in reversed(batches):
        named = list(batch_files(folder, batch))
        most -= sum(size for _, size in named)
        if most < 0:
            return
        yield add_up(COUNTERS[sink.format](_read(folder, name), columns) for name, _ in named)


def _read(folder: Folder, name: str) -> bytes:
    data = folder.read(name)
    if data is None:
        raise FileNotFoundError(f"{name} is gone")
    return data


def _json(data: bytes, columns: list[str]) -> RowCounts:
    """Spark writes no field for a null (ignoreNullFields), unless told to."""
    rows = [json.loads(line) for line in data.decode().splitlines() if line]
    return RowCounts(len(rows), {name: sum(row.get(name) is None for row in rows) for name in columns})


def _parquet(data: bytes, columns: list[str]) -> RowCounts:
    """Return what the file's footer says of its columns; not of those within others."""
    import pyarrow.parquet

    footer = pyarrow.parquet.ParquetFile(io.BytesIO(data)).metadata
    nulls: dict[str, int] = {}
    unknown: set[str] = set()
    for group in range(footer.num_row_groups):
        for at in range(footer.num_columns):
            column = footer.row_group(group).column(at)
            name, statistics = column.path_in_schema, column.statistics
            if statistics is None or not statistics.has_null_count:
                unknown.add(name)
            else:
                nulls[name] = nulls.get(name, 0) + statistics.null_count
    return RowCounts(footer.num_rows, {name: nulls[name] for name in columns if name in nulls and name not in unknown})


COUNTERS: dict[str, Callable[[bytes, list[str]], RowCounts]] = {"json": _json, "parquet": _parquet}


@attrs.frozen
class RowCounts:
    """The rows of a file or a batch, and the nulls by column, of the columns whose nulls are known."""

    rows: int
    nulls: dict[str, int]

    def share(self, column: str) -> float:
        return self.nulls[column] / self.rows


def add_up(counts: Iterable[RowCounts]) -> RowCounts:
    """Return all together, with the columns whose nulls are known of each that has rows."""
    full = [one for one in counts if one.rows]
    columns = set.intersection(*(set(one.nulls) for one in full)) if full else set()
    return RowCounts(sum(one.rows for one in full), {name: sum(one.nulls[name] for one in full) for name in columns})


def delta_commits(
    folder: Folder, query_id: str, batches: range, most: int | None = None
) -> Iterator[tuple[int, int, list[dict[str, Any]]]]:
    """Yield the batch, the table's version and the added files of each commit of the query's batches, newest first.

    most: commits that are read, of others, too; None: all
    """
    names = [n for n in folder.names(_DELTA_LOG) if n.endswith(".json") and n.removesuffix(".json").isdigit()]
    for name in sorted(names, reverse=True)[:most]:
        actions = [json.loads(line) for line in (folder.read(f"{_DELTA_LOG}/{name}") or b"").splitlines() if line]
        batch = next((a["txn"]["version"] for a in actions if a.get("txn", {}).get("appId") == query_id), None)
        if batch is not None and int(batch) < batches.start:
            return
        if batch is not None and int(batch) in batches:
            yield int(batch), int(name.removesuffix(".json")), [a["add"] for a in actions if "add" in a]


def count_added(file: dict[str, Any]) -> RowCounts:
    """Return the counts of an added file; not of columns within others."""
    stats = json.loads(file.get("stats") or "{}")
    nulls = {name: number for name, number in stats.get("nullCount", {}).items() if isinstance(number, int)}
    return RowCounts(int(stats.get("numRecords", 0)), nulls)
