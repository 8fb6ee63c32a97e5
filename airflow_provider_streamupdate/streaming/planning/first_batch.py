"""What Spark plans and writes for a query before its first batch: state schemas, and metadata of operators.

It is kept between planning a query and checking its restore, which needs the same: planning a batch takes most of a
check's time."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from pathlib import Path

import attrs
from pyspark.sql.streaming import DataStreamWriter

from .. import spark_internals


@attrs.frozen
class Written:
    """What was planned, and the files by their paths in the checkpoint; and the configuration of both: under another
    one they may be others.

    files: None where they depend on the place
    """

    conf: dict[str, str]
    planned: spark_internals.DryRun
    files: dict[str, bytes] | None


_KEPT: weakref.WeakKeyDictionary[DataStreamWriter, Written] = weakref.WeakKeyDictionary()


def keep(writer: DataStreamWriter, conf: Mapping[str, str], folder: Path, planned: spark_internals.DryRun) -> None:
    """Keep what was planned, and what was written into a folder, unless it depends on the place (transformWithState's
    metadata holds absolute paths)."""
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    anywhere = not any(str(folder).encode() in data for data in files.values())
    _KEPT[writer] = Written(dict(conf), planned, files if anywhere else None)


def kept(writer: DataStreamWriter, conf: Mapping[str, str]) -> Mapping[str, bytes] | None:
    """The files that were written for the writer under this configuration."""
    written = _KEPT.get(writer)
    return written.files if written is not None and written.conf == conf else None


def planned(writer: DataStreamWriter, conf: Mapping[str, str]) -> spark_internals.DryRun | None:
    """What was planned of the writer's query under this configuration."""
    written = _KEPT.get(writer)
    return written.planned if written is not None and written.conf == conf else None
