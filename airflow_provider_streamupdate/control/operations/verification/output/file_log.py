"""The output of a file sink: its log (`_spark_metadata`, FileStreamSinkLog) names the files of each batch."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Container, Iterator, Sequence
from urllib.parse import unquote, urlsplit

from .....core.plan.plan import SinkPlan
from .....core.storage import Folder
from .counts import RowCounts, add_up

LOG = "_spark_metadata"


def batches(folder: Folder, among: Container[int] | None = None) -> list[int]:
    """Return the batches whose own log is there, in order. among: only these"""
    names = (int(name) for name in folder.names(LOG) if name.isascii() and name.isdigit())
    return sorted(batch for batch in names if among is None or batch in among)


def files(folder: Folder, batch: int) -> Iterator[tuple[str, int]]:
    """Yield the path of each file of a batch below the folder, and its bytes."""
    base = urlsplit(folder.uri).path.rstrip("/")
    lines = (folder.read(f"{LOG}/{batch}") or b"").decode().splitlines()
    for line in lines[1:]:  # the first is the format's version
        entry = json.loads(line)
        path = unquote(urlsplit(str(entry["path"])).path)
        if entry.get("action", "add") == "add" and path.startswith(f"{base}/"):
            yield path[len(base) + 1 :], int(entry["size"])


def count(folder: Folder, sink: SinkPlan, batches: Sequence[int], most: int) -> Iterator[RowCounts]:
    """Yield the counts of these batches, newest first, until so many bytes would be read."""
    columns = [name for name, _ in sink.columns or () if name not in sink.partitioned_by]
    for batch in reversed(batches):
        named = list(files(folder, batch))
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
