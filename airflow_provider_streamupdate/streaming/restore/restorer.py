"""Restore in the driver: the new plan's metadata from a dry run, the old stages' files under their new operator ids,
an empty store for each new stage."""

from __future__ import annotations

import itertools
import json
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from ...core.boundaries import boundary
from ...core.checkpoint.snapshot import QuerySnapshot
from ...core.compatibility.report import CompatibilityReport
from ...core.compatibility.verdict import REFUSED, ReportItem
from ...core.errors import ApplicationError, CorruptError, StorageError, StreamUpdateError, describe
from ...core.plan.plan import AppPlan, QueryPlan, StagePlan
from ...core.plan.state_stores import PARTITIONS, column_families, single_partition
from ...core.registry.registry import AppRegistry
from ...core.serde import to_json
from ...core.snapshots.restore import (
    RestoredMark,
    RestorePlan,
    bring_ahead,
    bring_files,
    plan_restore,
    room_needed,
    write_commits,
)
from ...core.storage import Folder
from ...core.storage.space import check_room
from .. import spark_internals
from ..planning.first_batch import dry_run, kept, planned
from .migrator import MigrationFunctions, find_functions, migrate_stage, readable
from .next_input import judge_next_input
from .saved_state import SavedState
from .skipped import in_sink, skipped_problem

COPY_ROUNDS = 5  # of what a running app adds meanwhile
LITTLE = 8  # files that need no other round
LOGS = ("metadata", "offsets", "commits", "sources")  # of a checkpoint


@attrs.frozen(kw_only=True)
class MetadataAhead:
    """The metadata files of a query, written by a dry run before they are needed, by their paths in the checkpoint.

    conf: the configuration of the dry run; under another one the files may differ
    """

    conf: dict[str, str]
    files: dict[str, bytes]


def metadata_ahead(
    saved: SavedState, new: AppPlan, writers: Mapping[str, DataStreamWriter]
) -> dict[str, MetadataAhead]:
    """Make a restore's dry runs away from the checkpoints, for a restore that has no time for them. They do not depend
    on the saved batch. A query is left out where they depend on the place (transformWithState's metadata holds
    absolute paths)."""
    found = {}
    for query in new.queries:
        old = saved.before(query)
        if old is None or not saved.holds(query.name):
            continue
        conf = plan_restore(saved.queries[query.name], old, query).conf
        with tempfile.TemporaryDirectory(prefix="streamupdate-ahead-") as scratch:
            made = Folder.scratch(scratch)
            _write_metadata(writers[query.name], query, made, conf)
            files = {path: made.read(path) or b"" for path in made.files()}
            if not any(scratch.encode() in data for data in files.values()):
                found[query.name] = MetadataAhead(conf=conf, files=files)
    return found


def copy_ahead(
    find: Callable[[], SavedState], new: AppPlan, app: AppRegistry, deployment: str
) -> dict[str, dict[str, int]]:
    """Bring state into the deployment's checkpoints before the restore, in rounds, until little is left; what is there
    then, by query (`bring_ahead`). Nothing on a local file system, where a restore links. What goes wrong is left to
    the restore.

    find: the running deployment's state, as it is
    """
    copied: dict[str, dict[str, int]] = {}
    try:
        for _ in range(COPY_ROUNDS):
            saved, missing = find(), 0
            for query in new.queries:
                old, checkpoint = saved.before(query), app.checkpoint(deployment, query.name)
                if old is None or checkpoint.links or not saved.holds(query.name):
                    continue
                if query.name not in copied:
                    checkpoint.remove("")
                plan = plan_restore(saved.queries[query.name], old, query)
                there = copied.setdefault(query.name, {})
                missing += bring_ahead(plan, saved.folders[query.name], checkpoint, there)
            if missing <= LITTLE:
                break
    except (CorruptError, StorageError, FileNotFoundError) as error:  # the running app may have removed files
        print(f"WARNING: state could not be copied ahead: {describe(error)}", file=sys.stderr)
    return copied


def restore_app(
    saved: SavedState,
    new: AppPlan,
    writers: Mapping[str, DataStreamWriter],
    app: AppRegistry,
    deployment: str,
    migrations: MigrationFunctions | None = None,
    ahead: Mapping[str, MetadataAhead] | None = None,
    copied: Mapping[str, Mapping[str, int]] | None = None,
) -> None:
    """Build the deployment's checkpoints; `migrations` are the app's own functions, `ahead` is what `metadata_ahead`
    made of the same plan, `copied` what this process has brought with `copy_ahead`.

    Each is marked when it is whole; one without the mark is built anew, so that
    a driver that died here can be started again. The caller has compared the plans."""
    check_room_for(saved, new, app, deployment, copied)
    for query in new.queries:
        mark = f"deployments/{deployment}/restored/{query.name}.json"
        if not saved.holds(query.name) or app.folder.exists(mark):
            continue
        checkpoint = app.checkpoint(deployment, query.name)
        there = (copied or {}).get(query.name, {})
        for path in checkpoint.files() if there else [""]:
            if path not in there:
                checkpoint.remove(path)
        made = (ahead or {}).get(query.name)
        plan = restore_query(saved, query, writers[query.name], checkpoint, migrations, made, there)
        if saved.fork:  # StreamMetadata
            checkpoint.write("metadata", json.dumps({"id": str(uuid.uuid4())}).encode())
        # The mark says that the checkpoint is whole, so all of it must last before. A stored snapshot's objects do.
        place = f"deployments/{deployment}/checkpoint/{query.name}"
        app.folder.sync([place], but={f"{place}/{path}" for _, path in plan.moves} if saved.stored else ())
        _mark(saved, query.name, app, deployment)


def mark_taken_over(saved: SavedState, query: str, app: AppRegistry, deployment: str) -> None:
    """Note that a query's checkpoint, in which the running deployment's batches were followed, is at the end of
    `saved`. Its logs must last before; its state is Spark's own work, and lasts as long as that of any batch does."""
    place = f"deployments/{deployment}/checkpoint/{query}"
    there = set(app.folder.names(place))  # sources without a log, as Delta's, leave no folder
    app.folder.sync([f"{place}/{part}" for part in LOGS if part in there])
    _mark(saved, query, app, deployment)


def _mark(saved: SavedState, query: str, app: AppRegistry, deployment: str) -> None:
    boundary("checkpoint-built")
    mark = RestoredMark(source=saved.source, batch=saved.queries[query].batch)
    app.folder.write(f"deployments/{deployment}/restored/{query}.json", to_json(mark))
    boundary("checkpoint-marked")


def check_room_for(
    saved: SavedState,
    new: AppPlan,
    app: AppRegistry,
    deployment: str,
    copied: Mapping[str, Mapping[str, int]] | None = None,
) -> None:
    """NoRoomError when the restore of what is not restored yet would fill the disk."""
    needed = 0
    for query in new.queries:
        old, snapshot = saved.before(query), saved.queries.get(query.name)
        restored = app.folder.exists(f"deployments/{deployment}/restored/{query.name}.json")
        if old is None or snapshot is None or not saved.holds(query.name) or restored:
            continue
        plan, checkpoint = plan_restore(snapshot, old, query), app.checkpoint(deployment, query.name)
        there = (copied or {}).get(query.name)
        needed += room_needed(plan, snapshot, saved.folders[query.name], checkpoint, copied=there)
    check_room(app.folder, needed, f"restoring {saved.source} for deployment {deployment} of {app.name}")


def restore_query(
    saved: SavedState,
    query: QueryPlan,
    writer: DataStreamWriter,
    checkpoint: Folder,
    migrations: MigrationFunctions | None = None,
    ahead: MetadataAhead | None = None,
    copied: Mapping[str, int] | None = None,
) -> RestorePlan:
    """Build one query's checkpoint in a folder that holds nothing, or nothing but what was `copied` ahead; what was
    done."""
    snapshot, source = saved.queries[query.name], saved.folders[query.name]
    if problem := _problem(saved, writer, query):
        raise ApplicationError(f"query {query.name}: {problem}")
    plan = _restore(saved, query, writer, checkpoint, ahead, copied=copied)
    spark = spark_internals.writer_frame(writer).sparkSession
    for stage in plan.migrated:
        functions = find_functions(migrations or {}, query.name, stage)
        migrate_stage(spark, stage, snapshot, source, checkpoint, plan, functions)
        if plan.ahead:  # the sink skips the batch in flight, so that the one after it begins with this state
            after = attrs.evolve(snapshot, batch=snapshot.batch + 1)
            made = attrs.evolve(plan, made_state_name=str(plan.version + 1))
            migrate_stage(spark, stage, after, source, checkpoint, made, functions)
    write_commits(plan, source, checkpoint)
    return plan


def check_restorable(
    saved: SavedState,
    report: CompatibilityReport,
    new: AppPlan,
    writers: Mapping[str, DataStreamWriter],
    scratch: Path,
) -> CompatibilityReport:
    """Restore into `scratch` (local) and plan the next batch there, so that Spark itself checks operators and schemas;
    the report with what Spark refuses, and the tables that are read, added. Spark reads no state for that, so none is
    migrated, or brought there."""
    refusals: list[ReportItem] = []
    for query in new.queries:
        if not saved.holds(query.name):
            refusals += judge_next_input(query, writers[query.name], Folder.scratch(scratch / query.name), None)
            continue
        if problem := _problem(saved, writers[query.name], query):
            refusals.append(ReportItem(thing="query", name=query.name, verdict=REFUSED, reason=problem))
            continue
        _check_migration_fits(saved, query)
        checkpoint = Folder.scratch(scratch / query.name)
        plan = _restore(saved, query, writers[query.name], checkpoint, scratch=True)
        batch = saved.queries[query.name].batch + 1
        (scratch / query.name / "offsets" / str(batch)).touch()
        writer = writers[query.name]
        try:
            spark_internals.dry_run(
                spark_internals.writer_frame(writer),
                query.output_mode,
                checkpoint.uri,
                batch=batch,
                conf=plan.conf,
                options=spark_internals.DryRunOptions(scratch=True, planned=planned(writer, plan.conf)),
            )
        except StreamUpdateError:
            raise
        except Exception as error:
            first = describe(error)
            refusals.append(
                ReportItem(thing="query", name=query.name, verdict=REFUSED, reason=f"Spark refuses it: {first}")
            )
        refusals += judge_next_input(query, writer, checkpoint, saved.queries[query.name])
    return attrs.evolve(report, items=(*report.items, *refusals))


def _check_migration_fits(saved: SavedState, query: QueryPlan) -> None:
    """NoRoomError when the root has no room for the stages that an update would migrate: a restore beside the saved
    state links what it can."""
    old, snapshot, source = saved.before(query), saved.queries[query.name], saved.folders[query.name]
    if old is not None:
        plan = plan_restore(snapshot, old, query)
        check_room(source, room_needed(plan, snapshot, source, source), f"migrating state of query {query.name}")


def _problem(saved: SavedState, writer: DataStreamWriter, query: QueryPlan) -> str | None:
    """Why the query cannot continue, though the plans fit."""
    snapshot, old = saved.queries[query.name], saved.before(query)
    place = saved.folders[query.name] if saved.stored else saved.folders[query.name].parent
    if old is not None and not readable(place) and plan_restore(snapshot, old, query).migrated:
        return (
            f"its state would have to be migrated, and Spark's state reader finds none below {place.path()}, whose "
            "name has a space or another character that URIs quote: use a root without one (adopt brings the app there)"
        )
    if (why := spark_internals.families_problem()) and old is not None:
        migrated = (stage.new for stage in plan_restore(snapshot, old, query).migrated)
        if names := [stage.name for stage in migrated if column_families(stage)]:
            return f"the state of stage {', '.join(names)} would have to be migrated: {why}"
    problem = _format_problem(writer, query, snapshot)
    return problem or (skipped_problem(snapshot, old, query, saved.fork) if old is not None else None)


def _format_problem(writer: DataStreamWriter, query: QueryPlan, snapshot: QuerySnapshot) -> str | None:
    """Why the query cannot continue: it would not find state files of another checkpoint format, or its state, in
    format v2, would have to move (the ids of rewritten stores are not known here)."""
    asked = {k: v for k, v in query.stores.items() if k != PARTITIONS and snapshot.conf.get(k) != v}
    if snapshot.state_format == 2 and asked:
        return (
            f"its state is in checkpoint format v2, which cannot move to {asked}: leave these settings as they were "
            "recorded"
        )
    spark = spark_internals.writer_frame(writer).sparkSession
    now = spark_internals.next_state_format(spark, snapshot.state_format)
    if now == snapshot.state_format or not any(f.path.startswith("state/") for f in snapshot.files):
        return None
    return (
        f"its state is in checkpoint format v{snapshot.state_format}, but the session asks for v{now}: set "
        f"spark.sql.streaming.stateStore.checkpointFormatVersion={snapshot.state_format}"
    )


def _restore(
    saved: SavedState,
    query: QueryPlan,
    writer: DataStreamWriter,
    checkpoint: Folder,
    ahead: MetadataAhead | None = None,
    scratch: bool = False,
    copied: Mapping[str, int] | None = None,
) -> RestorePlan:
    """Everything but the state of migrated stages; what was done and is left to do. Into a `scratch` folder no state is
    brought: the files are only looked for (measured: to link those of 40 stores takes 40 ms, for their folders)."""
    snapshot = saved.queries[query.name]
    old = saved.before(query)
    if old is None:
        raise CorruptError(f"{saved.source} holds files of query {query.name}, but its plan does not know the query")
    plan = plan_restore(snapshot, old, query, in_sink(query, snapshot.in_flight, saved.fork))
    df = spark_internals.writer_frame(writer)
    source = saved.folders[query.name]
    needed = room_needed(plan, snapshot, source, checkpoint, state=not scratch, copied=copied)
    check_room(checkpoint, needed, f"restoring query {query.name} from {saved.source}")
    if scratch and (files := kept(writer, plan.conf)) is not None:
        for path, data in files.items():
            checkpoint.write(path, data)
    elif ahead is not None and ahead.conf == plan.conf:
        for path, data in ahead.files.items():
            checkpoint.write(path, data)
    else:  # straight into the new checkpoint: transformWithState's metadata holds absolute paths
        _write_metadata(writer, query, checkpoint, plan.conf, scratch)
    bring_files(plan, source, checkpoint, state=not scratch, copied=copied)
    for stage in plan.empty:
        empty_stores(df.sparkSession, stage, checkpoint, plan.empty_state_names, plan.partitions, plan.conf)
    return plan


def _write_metadata(
    writer: DataStreamWriter, query: QueryPlan, checkpoint: Folder, conf: dict[str, str], scratch: bool = False
) -> None:
    df = spark_internals.writer_frame(writer)
    if (here := checkpoint.path_here) is not None:
        dry_run(df, query.output_mode, checkpoint.uri, here, conf, scratch, len(query.stages))
        return
    checkpoint.write("offsets/0", b"v1\n")
    try:
        options = spark_internals.DryRunOptions(write=True)
        spark_internals.dry_run(df, query.output_mode, checkpoint.uri, batch=0, conf=conf, options=options)
    finally:
        checkpoint.remove("offsets/0")


def empty_stores(
    spark: SparkSession,
    stage: StagePlan,
    checkpoint: Folder,
    versions: tuple[str, ...],
    partitions: int,
    conf: dict[str, str],
) -> None:
    """Files of a store without rows, as its provider writes them, for every store, partition and version. On the
    default store the same bytes serve as delta and as snapshot (both end with the same mark; measured)."""
    scratch = Path(tempfile.mkdtemp(prefix="streamupdate-empty-"))
    try:
        spark_internals.write_empty_store(spark, f"file://{scratch}", conf, column_families(stage))
        made = Folder.scratch(scratch / "state" / "0" / "0")
        names = [n for n in made.names() if n.startswith("1.") and not n.endswith(".crc")]
        endings = {n.removeprefix("1.") for n in names}
        if endings not in ({"zip"}, {"delta"}):
            raise CorruptError(
                f"an empty state store was written as {', '.join(names) or 'nothing'}, which is not understood"
            )
        wanted = {"zip": ["zip"], "delta": ["delta", "snapshot"]}[endings.pop()]
        used = 1 if single_partition(stage) else partitions
        for partition, store, name, ending in itertools.product(range(used), stage.stores, versions, wanted):
            folder = f"{partition}" if store == "default" else f"{partition}/{store}"
            checkpoint.copy_from(made, names[0], f"state/{stage.operator_id}/{folder}/{name}.{ending}")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
