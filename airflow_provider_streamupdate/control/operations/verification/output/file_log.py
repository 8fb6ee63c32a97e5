"""The output of a file sink: its log (`_spark_metadata`, FileStreamSinkLog) names the files of each batch."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Container, Iterator
from urllib.parse import unquote, urlsplit

from .....core.plan.plan import SinkPlan
from .....core.slo.output import Output
from .....core.storage import Folder

LOG = "_spark_metadata"
MOST_BYTES = 64 * 1024 * 1024  # of files that are read in one look


def read(folder: Folder, sink: SinkPlan, count: int, wanted: Callable[[int], bool]) -> tuple[Output, ...]:
    """The last batches that are wanted, oldest first. Without those whose log was compacted: that names the files of
    all batches together."""
    logged = [batch for batch in batches(folder) if wanted(batch)]
    found: list[Output] = []
    left = MOST_BYTES
    for batch in reversed(logged[-count:]):
        named = list(files(folder, batch))
        left -= sum(size for _, size in named)
        if left < 0:
            break
        found.append(_counted(folder, sink, batch, [name for name, _ in named]))
    return tuple(reversed(found))


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


def _counted(folder: Folder, sink: SinkPlan, batch: int, files: list[str]) -> Output:
    columns = [name for name, _ in sink.columns or () if name not in (sink.partitioned_by or ())]
    rows, nulls = 0, dict.fromkeys(columns, 0)
    for file in files:
        data = folder.read(file)
        if data is None:
            raise FileNotFoundError(f"{file} is gone")
        more, found = COUNTED[sink.format](data, columns)
        rows += more
        nulls = {name: nulls[name] + found[name] for name in nulls if name in found}
    return Output(batch=batch, rows=rows, nulls=nulls)


def _json(data: bytes, columns: list[str]) -> tuple[int, dict[str, int]]:
    """Spark writes no field for a null (ignoreNullFields), unless told to."""
    rows = [json.loads(line) for line in data.decode().splitlines() if line]
    return len(rows), {name: sum(row.get(name) is None for row in rows) for name in columns}


def _parquet(data: bytes, columns: list[str]) -> tuple[int, dict[str, int]]:
    """By what the file's footer says of its columns; not of those within others."""
    import pyarrow.parquet

    found = pyarrow.parquet.ParquetFile(io.BytesIO(data)).metadata
    nulls: dict[str, int] = {}
    unknown: set[str] = set()
    for group in range(found.num_row_groups):
        for at in range(found.num_columns):
            column = found.row_group(group).column(at)
            name, told = column.path_in_schema, column.statistics
            if told is None or not told.has_null_count:
                unknown.add(name)
            else:
                nulls[name] = nulls.get(name, 0) + told.null_count
    return found.num_rows, {name: nulls[name] for name in columns if name in nulls and name not in unknown}


COUNTED: dict[str, Callable[[bytes, list[str]], tuple[int, dict[str, int]]]] = {"json": _json, "parquet": _parquet}
