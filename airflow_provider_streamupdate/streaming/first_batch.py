"""What Spark writes of a query before its first batch: state schemas, and metadata of operators.

It is kept between the plan of a query and the check of a restore, which needs the same: to plan a batch takes Spark
most of a check's time."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from pathlib import Path

import attrs
from pyspark.sql.streaming import DataStreamWriter


@attrs.frozen
class Written:
    """The files by their paths in the checkpoint, and the configuration they were written under; under another one they
    may be others."""

    conf: dict[str, str]
    files: dict[str, bytes]


_KEPT: weakref.WeakKeyDictionary[DataStreamWriter, Written] = weakref.WeakKeyDictionary()


def keep(writer: DataStreamWriter, conf: Mapping[str, str], folder: Path) -> None:
    """Keep what was written into a folder, unless it depends on the place (transformWithState's metadata holds absolute
    paths)."""
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    if not any(str(folder).encode() in data for data in files.values()):
        _KEPT[writer] = Written(dict(conf), files)


def kept(writer: DataStreamWriter, conf: Mapping[str, str]) -> Mapping[str, bytes] | None:
    """The files that were written for the writer under this configuration."""
    written = _KEPT.get(writer)
    return written.files if written is not None and written.conf == conf else None
