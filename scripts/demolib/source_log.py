"""Which input files a query had processed, read from the log of Spark's file source in its checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import PurePosixPath
from urllib.parse import unquote, urlparse

from airflow_provider_streamupdate.core.checkpoint.snapshot import QuerySnapshot

Read = Callable[[str], bytes]


def files_of_snapshot(snapshot: QuerySnapshot, read: Read) -> list[str]:
    """Names of the files whose rows are in the snapshot's state, in the order they were processed.

    `read` gets the bytes of an object by its path below the app's folder. A batch that was logged but not
    committed when the snapshot was taken is not counted: the next version runs it.
    """
    objects = {file.path: file.object for file in snapshot.files}
    return processed_files(objects, lambda path: read(objects[path]), snapshot.batch)


def processed_files(paths: Iterable[str], read: Read, batch: int) -> list[str]:
    """The same for `paths` of a checkpoint (``offsets/7``, ``sources/0/7`` ...) with one source."""
    _version, _metadata, *offsets = read(f"offsets/{batch}").decode().split("\n")
    # A query has a line for each use of the source. The source numbers its own batches: a batch of the query without
    # new files has none.
    last = max(json.loads(offset)["logOffset"] for offset in offsets)
    entries: dict[str, tuple[int, int]] = {}
    for path in paths:
        if path.startswith("sources/0/") and not PurePosixPath(path).name.startswith("."):
            # ``7`` holds the files of one batch, ``9.compact`` those of all batches up to 9
            _version, *lines = read(path).decode().splitlines()
            for line in lines:
                entry = json.loads(line)
                if entry["batchId"] <= last:
                    entries[_name(entry["path"])] = (entry["batchId"], entry["timestamp"])
    return sorted(entries, key=lambda name: (*entries[name], name))


def _name(uri: str) -> str:
    return PurePosixPath(unquote(urlparse(uri).path)).name
