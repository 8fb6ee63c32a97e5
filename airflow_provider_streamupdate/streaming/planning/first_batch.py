"""What Spark plans and writes for a query before its first batch: state schemas, and metadata of operators.

It is kept between planning a query and checking its restore, which needs the same: planning a batch takes most of a
check's time."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import Any

import attrs
from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter

from .. import spark_internals
from ..catalyst.tree import parse


@attrs.frozen
class FirstBatch:
    """A query's first batch, which is being planned.

    begun: done as soon as the JVM plans; done: when all is planned and written
    """

    _begun: Future[spark_internals.DryRun]
    _done: Future[spark_internals.DryRun]

    def optimized(self) -> Future[list[dict[str, Any]]]:
        """The optimized plan as JSON, read while the rest is planned; or the error of reading it."""
        read: Future[list[dict[str, Any]]] = Future()
        wait((self._begun, self._done), return_when=FIRST_COMPLETED)
        try:
            read.set_result((self._begun if self._begun.done() else self._done).result().optimized)
        except Exception as error:
            read.set_exception(error)
        return read

    def whole(self) -> spark_internals.DryRun:
        """All of it. Raises what Spark says when it cannot plan."""
        return self._done.result()


@contextlib.contextmanager
def planned_beside(df: DataFrame, output_mode: str, folder: Path, conf: dict[str, str]) -> Iterator[FirstBatch]:
    """Let Spark plan a query's first batch in a folder that is thrown away, while the query is read: two of a check's
    longest parts, and Spark's is in the JVM (*measured*: a sixth of a check)."""
    begun: Future[spark_internals.DryRun] = Future()

    def work() -> spark_internals.DryRun:
        stages = sum(node.stateful for node in parse(spark_internals.plan_shape(df)).walk())
        return dry_run(df, output_mode, f"file://{folder}", folder, conf, True, stages, begun.set_result)

    with spark_internals.in_background(df.sparkSession, work) as done:
        yield FirstBatch(begun, done)


def dry_run(
    df: DataFrame,
    output_mode: str,
    uri: str,
    local: Path,
    conf: dict[str, str] | None = None,
    scratch: bool = False,
    stages: int = 0,
    begun: Callable[[spark_internals.DryRun], None] | None = None,
) -> spark_internals.DryRun:
    """Write Spark's metadata of a first batch under `uri` (= `local`; thrown away later when `scratch`) and return what
    was planned. `stages`: how many stateful operators there are, where that is known."""
    (local / "offsets").mkdir(parents=True, exist_ok=True)
    for operator in range(stages if scratch else 0):
        # Hadoop starts a process for each folder that it makes on a local disk (RawLocalFileSystem.setPermission:
        # chmod; measured: three quarters of a dry run), and none for those that are there.
        for folder in ("_metadata", "0/_metadata"):
            (local / "state" / str(operator) / folder).mkdir(parents=True)
    placeholder = local / "offsets" / "0"  # OperatorStateMetadataV2Reader wants the batch to be in the offset log
    placeholder.write_text("v1\n")
    try:
        options = spark_internals.DryRunOptions(write=True, scratch=scratch, begun=begun)
        return spark_internals.dry_run(df, output_mode, uri, batch=0, conf=conf, options=options)
    finally:
        placeholder.unlink()


@attrs.frozen
class Written:
    """A plan, and the files by their paths in the checkpoint; and the configuration of both: under another
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
    """Return what was planned of the writer's query under this configuration."""
    written = _KEPT.get(writer)
    return written.planned if written is not None and written.conf == conf else None
