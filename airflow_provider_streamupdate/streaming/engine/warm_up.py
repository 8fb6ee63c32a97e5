"""Warm-up: what a standby runs before it takes over, so that its first real batch takes no longer than later ones."""

from __future__ import annotations

import contextlib
import math
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from ...core.errors import CorruptError, StorageError, WaitTimeoutError, describe
from ...core.plan.plan import AppPlan, QueryPlan
from ...core.plan.state_stores import PROVIDER, ROCKSDB
from ...core.registry import scratch
from ...core.registry.registry import AppRegistry
from ...core.snapshots.restore import NO_OFFSET
from ...core.storage import Folder
from .. import spark_internals
from ..restore.migrator import MigrationFunctions
from ..restore.restorer import restore_query
from ..restore.saved_state import SavedState

# The first batches of a driver compile code and start workers. And so do the first starts of a query on saved state,
# which a pause has one of. The third start is as fast as it gets, mostly (measured, of 10,000 keys on a machine with a
# load of 18: 12.7, 9.1, 10.8, 10.4 and 9.1 s; 2.6, 2.0, 2.3, 2.0 and 1.7 s of its processors).
LEAST_STARTS, STARTS = 3, 5
FASTER = 0.9  # of the fastest start before: one that takes longer is the last
BATCHES = 3  # of a start
MOST_SECONDS = 60.0  # for all starts together: a driver that is not quite warm is better than one that is never ready
MOMENT_SECONDS = 0.01  # of a start that comes too late
# A state function in processing time has a batch made all the time (StatefulOperator.shouldRunAnotherBatch), so that
# `availableNow` would never end (measured).
_BATCHES_WITHOUT_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
# Of state, that all starts of a query may bring to the executors' disks and memory, where the running app's is, too.
# Spark lets go of a start's copy only at its next maintenance, 60 s later (StateStore.doMaintenance).
MOST_BYTES = 1_000_000_000
# Beside the planning, with rows that are the driver's own. Another start of that takes a third of the first one's time
# for what the query's own starts do, too (measured: 8.1 and 2.9 s of the processors, of three batches each).
ROW_BATCHES = 2
ROWS = 1000  # a batch
CLONE, ANEW = "checkpoint", "anew"  # folders


def warm_up(
    spark: SparkSession,
    writers: Mapping[str, DataStreamWriter],
    saved: SavedState,
    plan: AppPlan,
    folder: Path,
    migrations: MigrationFunctions | None = None,
) -> Generator[None, None, None]:
    """Run every query on sources without rows, into a sink that writes nothing, on a clone of the saved state, until
    that gets no faster, so that the code of its restore and first real batch has run. Nothing of the app is written.
    A query that cannot be run so is only slower in its first batches; but what its restore raises, the app's
    own migration functions among it, is raised, because the real one would. After each part of it, the caller may stop.

    folder: a scratch folder that executors can reach, on the disk of the state, so that it is linked. State that lies
        elsewhere is not brought there twice, and what is larger than MOST_BYTES allows is not loaded: then the query
        starts without any
    """
    until = time.monotonic() + MOST_SECONDS
    for query in plan.queries:
        writer, scratched = writers[query.name], folder / query.name
        scratched.mkdir(parents=True)
        settings = {spark_internals.FILE_MANAGER: None, _BATCHES_WITHOUT_DATA: "false"}
        with _settings(spark, {**saved.recorded().get(query.name, {}), **settings}):
            if saved.holds(query.name) and saved.folders[query.name].links:
                _clone(saved, query, writer, Folder.scratch(scratched / CLONE), migrations)
            yield
            large = STARTS * _state_bytes(saved, query.name) > MOST_BYTES
            try:
                yield from _starts(writer, scratched, scratched / (ANEW if large else CLONE), until)
            except Exception as error:
                print(f"WARNING: query {query.name} could not be warmed up: {describe(error)}", file=sys.stderr)


@contextlib.contextmanager
def scratch_folder(app: AppRegistry, deployment: str) -> Iterator[Path]:
    """Make a folder for `warm_up`: below the root when executors reach that as this driver does."""
    if app.deployment_folder(deployment).path_here is None:
        with tempfile.TemporaryDirectory(prefix="streamupdate-standby-", ignore_cleanup_errors=True) as made:
            yield Path(made)
        return
    name = f"standby-{uuid.uuid4().hex}"  # a process id comes again, in a container always
    try:
        yield Path(scratch.take(app, name).path())
    finally:
        with contextlib.suppress(StorageError):  # what is left is removed by who takes such a folder next
            scratch.remove(app, name)


def count_rows(spark: SparkSession, folder: Path) -> None:
    """Count rows of its own by key, in a session of its own, so that this can be done beside other work. The app's
    queries get none, because its functions may do anything with one; but what Spark does with a row for the first time
    (reads, shuffles, compresses and stores it, loads native libraries for that) is half a second of a first batch
    (measured: the pause was 1.45 s without this, 0.93 to 1.3 s with). Without it the driver is only slower.

    folder: as that of `warm_up`
    """
    source, own = folder / "source", spark.newSession()
    lines = "".join(f'{{"k": {key}}}\n' for key in range(ROWS))
    _set(own, {"spark.sql.shuffle.partitions": "2", PROVIDER: ROCKSDB, spark_internals.FILE_MANAGER: None})
    source.mkdir(parents=True)
    for file in range(ROW_BATCHES):
        (source / f"{file}").write_text(lines)
    rows = own.readStream.schema("k bigint").option("maxFilesPerTrigger", 1).json(Folder.scratch(source).uri)
    counts = rows.groupBy("k").count().writeStream.format("noop").outputMode("update").trigger(availableNow=True)
    started = counts.option("checkpointLocation", Folder.scratch(folder / "checkpoint").uri).start()
    if not started.awaitTermination(MOST_SECONDS):
        started.stop()


def _clone(
    saved: SavedState,
    query: QueryPlan,
    writer: DataStreamWriter,
    checkpoint: Folder,
    migrations: MigrationFunctions | None,
) -> None:
    """The query's checkpoint as a restore makes it, but none of its sources has an offset."""
    try:
        restore_query(saved, query, writer, checkpoint, migrations)
    except (CorruptError, StorageError) as error:  # the running app may have removed files meanwhile
        checkpoint.remove("")
        print(f"WARNING: query {query.name} is warmed up without its state: {describe(error)}", file=sys.stderr)
        return
    checkpoint.remove("sources")
    for entry in checkpoint.names("offsets"):
        _, metadata, *_ = (checkpoint.read(f"offsets/{entry}") or b"").decode().split("\n")
        lines = ["v1", metadata, *[NO_OFFSET] * len(query.source_order)]
        checkpoint.write(f"offsets/{entry}", "\n".join(lines).encode())


def _state_bytes(saved: SavedState, query: str) -> int:
    files = saved.queries[query].files if saved.holds(query) else ()
    return sum(file.size for file in files if file.path.startswith("state/"))


def _starts(writer: DataStreamWriter, folder: Path, checkpoint: Path, until: float) -> Generator[None, None, None]:
    """Start the query again and again, until that gets no faster; WaitTimeoutError at `until`, on the monotonic
    clock."""
    details = spark_internals.writer_details(writer)
    sources = folder / "sources"
    sources.mkdir()
    frame = spark_internals.writer_frame(writer)
    empty = spark_internals.with_empty_sources(frame, sources, BATCHES)
    muted = empty.writeStream.format("noop").outputMode(details["output_mode"]).trigger(availableNow=True)
    files, fastest = list(sources.glob("*/*")), math.inf
    for start in range(STARTS):
        began = time.monotonic()
        for file in files if start else ():
            shutil.copyfile(file, file.with_name(f"{file.name}-{start}"))
        started = muted.option("checkpointLocation", Folder.scratch(checkpoint).uri).start()
        if not started.awaitTermination(max(until - time.monotonic(), MOMENT_SECONDS)):
            started.stop()
            raise WaitTimeoutError(f"it took more than {MOST_SECONDS:g} s")
        yield
        seconds = time.monotonic() - began
        if start + 1 >= LEAST_STARTS and seconds > FASTER * fastest:
            return
        fastest = min(fastest, seconds)


@contextlib.contextmanager
def _settings(spark: SparkSession, recorded: Mapping[str, str | None]) -> Iterator[None]:
    """The session under the settings that the saved state's offset log will bring (they win on a restart); without
    those that are None."""
    before = {key: spark.conf.get(key, None) for key in recorded}
    try:
        _set(spark, recorded)
        yield
    finally:
        _set(spark, before)


def _set(spark: SparkSession, values: Mapping[str, str | None]) -> None:
    for key, value in values.items():
        if value is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, value)
