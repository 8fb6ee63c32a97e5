"""Restore by name: which snapshot file goes where in the new deployment's checkpoint. No state byte is rewritten, so
the cost is files, not bytes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import attrs

from ..checkpoint.checkpoint import is_state_at
from ..checkpoint.commit_log import CommitEntry
from ..checkpoint.snapshot import QuerySnapshot, SnapshotFile
from ..compatibility.compatibility import migrations
from ..compatibility.migration import Migration
from ..errors import CorruptError
from ..plan.plan import QueryPlan, StagePlan
from ..plan.state_stores import PARTITIONS, other_partitions, other_provider, store_settings
from ..storage import CHUNK, Folder
from ..storage.listing import Listing
from ..storage.space import check_room
from .snapshots import COPIES_AT_ONCE

_STATE = re.compile(r"state/(\d+)/(.+)")
# State files that stay what they are once their batch has committed: what RocksDB calls by unique names, and changes
# and whole copies of a version. Not its zips, which maintenance may write anew with other names in them.
_LASTING = re.compile(r"state/\d+/\d+/(.+/)?((SSTs|logs)/.+|\d+(_[^/]+)?\.(delta|snapshot|changelog))")
_SOURCE = re.compile(r"sources/([^/]+)/(.+)")
FEW_FILES = 5  # of a folder, from which on one listing is cheaper than looking for each
NO_OFFSET = "-"  # OffsetSeqLog: a source that has no offset yet, so that it starts at its configured one (measured)


@attrs.frozen(kw_only=True)
class RestoredMark:
    """The mark that a query's checkpoint is complete. source: what it was restored from; batch: the last committed one
    there"""

    source: str
    batch: int


@attrs.frozen(kw_only=True)
class MigratedStage:
    """A stage whose state is rewritten instead of moved. `migration` is None when its rows are unchanged, and only
    their stores change."""

    old: StagePlan
    new: StagePlan
    migration: Migration | None


@attrs.frozen(kw_only=True)
class RestorePlan:
    """The way from a snapshot to a new checkpoint."""

    moves: tuple[tuple[SnapshotFile, str], ...]  # snapshot file, path in the new checkpoint
    offsets: tuple[SnapshotFile, ...]  # of the offset log; each gets a line for each source of the new plan
    old_order: tuple[str, ...]
    new_order: tuple[str, ...]
    empty: tuple[StagePlan, ...]  # new stages, which need a store without rows in each partition
    migrated: tuple[MigratedStage, ...]  # their state is rewritten, so that their files are not among the moves
    version: int  # of the state stores
    partitions: int
    stores: dict[str, str]  # settings of the new state stores, which the offset log's entries get
    conf: dict[str, str]  # the configuration that these entries then record
    commits: tuple[SnapshotFile, ...] = ()  # of the commit log, where it names state files (checkpoint format v2)
    operators: dict[int, int] = attrs.field(factory=dict)  # old operator id -> new, of the stages that move
    made_state_name: str = ""  # of the state files made for empty and migrated stages, without its ending
    made_state_id: str | None = None  # the id in that name; None in format v1
    # The state of the batch in flight is brought, too. Only when the sink is known to have that batch: otherwise Spark
    # would continue from this state where a batch that runs again has written its changes beside it.
    ahead: bool = False

    @property
    def empty_state_names(self) -> tuple[str, ...]:
        return (self.made_state_name, *([str(self.version + 1)] if self.ahead else []))


def plan_restore(snapshot: QuerySnapshot, old: QueryPlan, new: QueryPlan, in_sink: bool | None = False) -> RestorePlan:
    """Match stages by name. The caller has made sure that the plans are compatible.

    in_sink: whether the sink has the batch in flight, and will skip it; None where this is unknown

    Spark's own description of an operator (``_metadata``, ``_stateSchema``) is not taken from the snapshot: the dry
    run of the new plan writes it, with the new operator ids and paths.
    """
    kept = [(stage, now) for stage in old.stages if (now := new.stage(stage.name))]
    decided = migrations(old, new)
    before = store_settings(snapshot.conf)
    migrated = tuple(
        MigratedStage(old=stage, new=now, migration=decided.get(now.name))
        for stage, now in kept
        if now.name in decided or other_provider(before, new.stores) or other_partitions(now, before, new.stores)
    )
    rewritten = {m.old.operator_id for m in migrated}
    target = {s.operator_id: now.operator_id for s, now in kept if s.operator_id not in rewritten}
    conf = {**snapshot.conf, **new.stores}
    partitions = int(conf.get(PARTITIONS, 0))
    added = tuple(stage for stage in new.stages if old.stage(stage.name) is None)
    if added and partitions <= 0:
        raise CorruptError(
            "the snapshot's offset log does not record spark.sql.shuffle.partitions, so empty state cannot be made "
            f"for {', '.join(s.name for s in added)}; update without adding a stage first"
        )
    left = snapshot.state_ahead or (snapshot.in_flight is not None and not old.stages)
    same_files = not migrated and not added
    ahead = left and snapshot.state_format == 1 and (same_files if in_sink is None else in_sink)
    moves = _moves(snapshot, target, source_folders(old, new))
    return RestorePlan(
        moves=tuple(m for m in moves if ahead or not is_state_at(m[0].path, snapshot.batch + 2)),
        offsets=tuple(f for f in snapshot.files if f.path.startswith("offsets/")),
        old_order=old.source_order,
        new_order=new.source_order,
        empty=added,
        migrated=migrated,
        version=snapshot.batch + 1,
        partitions=partitions,
        stores=new.stores,
        conf=conf,
        commits=tuple(f for f in snapshot.files if f.path.startswith("commits/") and snapshot.state_format == 2),
        operators=target,
        made_state_name=snapshot.made_state_name,
        made_state_id=snapshot.made_state_id,
        ahead=ahead,
    )


def source_folders(old: QueryPlan, new: QueryPlan) -> dict[str, str] | None:
    """A source's folder in the old checkpoint -> in the new one; None when the old plan does not tell its sources.
    Spark numbers them in the order of the sources' first uses (MicroBatchExecution: nextSourceId), or, where sources
    have `.name()`, calls them after it."""
    if not old.source_order:
        return None
    names = {name: str(number) for number, name in enumerate(dict.fromkeys(new.source_order))}
    numbers = {str(number): names.get(name) for number, name in enumerate(dict.fromkeys(old.source_order))}
    kept = {**numbers, **{s.name: s.name for s in old.sources if s.name in names}}
    return {before: after for before, after in kept.items() if after is not None}


def _moves(
    snapshot: QuerySnapshot, target: dict[int, int], folders: dict[str, str] | None
) -> Iterator[tuple[SnapshotFile, str]]:
    for file in snapshot.files:
        if match := _SOURCE.fullmatch(file.path):
            folder = match[1] if folders is None else folders.get(match[1])
            if folder is not None:
                yield file, f"sources/{folder}/{match[2]}"
        elif match := _STATE.fullmatch(file.path):
            operator = int(match[1])
            described = "_metadata/" in match[2] or match[2].startswith("_stateSchema/")
            if operator in target and not described:
                yield file, f"state/{target[operator]}/{match[2]}"
        elif not file.path.startswith(("offsets/", "commits/") if snapshot.state_format == 2 else "offsets/"):
            yield file, file.path


def bring_ahead(plan: RestorePlan, source: Folder, checkpoint: Folder, copied: dict[str, int]) -> int:
    """Copy the immutable state files of a checkpoint that is still in use, for a later restore; return how many were
    missing. `copied`: path -> bytes of what is there already; it is updated."""
    known: set[str] = set()
    missing = [m for m in plan.moves if _LASTING.fullmatch(m[1]) and copied.get(m[1]) != m[0].size]
    if not checkpoint.same_disk(source):
        check_room(checkpoint, sum(file.size for file, _ in missing), "copying state ahead")

    def bring(move: tuple[SnapshotFile, str]) -> None:
        file, path = move
        source.check_regular(file.object, known)
        checkpoint.copy_from(source, file.object, path)
        copied[path] = file.size

    with ThreadPoolExecutor(COPIES_AT_ONCE) as pool:
        list(pool.map(bring, missing))
    return len(missing)


def room_needed(
    plan: RestorePlan,
    snapshot: QuerySnapshot,
    source: Folder,
    checkpoint: Folder,
    state: bool = True,
    copied: Mapping[str, int] | None = None,
) -> int:
    """Bytes that a restore writes: those of the files that are copied (none where they are linked), and as many as the
    stages that are migrated have now."""
    there = copied or {}
    moved = sum(
        file.size
        for file, path in plan.moves
        if (state or not path.startswith("state/")) and there.get(path) != file.size
    )
    rewritten = tuple(f"state/{stage.old.operator_id}/" for stage in plan.migrated)
    made = sum(file.size for file in snapshot.files if rewritten and file.path.startswith(rewritten))
    return made + (0 if checkpoint.same_disk(source) else moved)


def bring_files(
    plan: RestorePlan, source: Folder, checkpoint: Folder, state: bool = True, copied: Mapping[str, int] | None = None
) -> None:
    """Link or copy the files, in parallel; `source` is the app's folder for a snapshot, the live checkpoint for an
    export that was not stored. CorruptError when one is missing or has another size or content.

    Small files (logs, metadata) are compared by checksum on the way; state files by size, because reading them would
    make the cost grow with the state: they were read before the start (operations/submit.py, shared_objects.py).
    Without `state` those are only checked. `copied` is what `bring_ahead` has brought.
    """
    if not plan.moves and not plan.offsets:
        raise CorruptError(
            f"the state in {source.path()} cannot be restored: none of its files is listed. Nothing is lost there; "
            "start the deployment again, and report this with its driver's log"
        )
    there = copied or {}
    known: set[str] = set()
    places = Counter(_place(file.object) for file, _ in plan.moves)
    listed = Listing.of_folders(source, (place for place, count in places.items() if place and count > FEW_FILES))

    def bring(move: tuple[SnapshotFile, str]) -> None:
        file, path = move
        if there.get(path) == file.size:
            return
        check_file(source, file, known, listed)
        if state or not path.startswith("state/"):
            checkpoint.copy_from(source, file.object, path)

    with ThreadPoolExecutor(COPIES_AT_ONCE) as pool:
        list(pool.map(bring, plan.moves))
    for file in plan.offsets:
        check_file(source, file, known)
        entry = (source.read(file.object) or b"").decode()
        entry = record_stores(entry, plan.stores)
        checkpoint.write(file.path, reorder_offsets(entry, plan.old_order, plan.new_order).encode())


def record_stores(entry: str, stores: Mapping[str, str]) -> str:
    """An offset log entry whose recorded configuration has these settings. All entries get the same: Spark takes one
    whose number of partitions differs from the one before for a repartitioning (OfflineStateRepartitionUtils)."""
    version, metadata, *lines = entry.split("\n")
    recorded = json.loads(metadata)
    conf = recorded.get("conf", {})
    if {**conf, **stores} == conf:
        return entry
    changed = json.dumps({**recorded, "conf": {**conf, **stores}}, separators=(",", ":"))
    return "\n".join([version, changed, *lines])


def write_commits(plan: RestorePlan, source: Folder, checkpoint: Folder) -> None:
    """Bring the entries of the commit log that name state files, with the new operator ids and, in the last one, the
    files that were made for new and migrated stages. To be called when these are there."""
    known: set[str] = set()
    for file in plan.commits:
        check_file(source, file, known)
        where = source.path(file.object)
        entry = CommitEntry.parse(source.read(file.object) or b"", where)
        ids = {plan.operators[old]: names for old, names in (entry.state_ids or {}).items() if old in plan.operators}
        if plan.made_state_id and file.path == f"commits/{plan.version - 1}":
            for stage in (*plan.empty, *(m.new for m in plan.migrated)):
                top = f"state/{stage.operator_id}"
                partitions = [name for name in checkpoint.names(top) if name.isdigit()]
                ids[stage.operator_id] = ((plan.made_state_id,) * len(stage.stores),) * len(partitions)
        checkpoint.write(file.path, entry.with_state_ids(ids))


def reorder_offsets(entry: str, old_order: tuple[str, ...], new_order: tuple[str, ...]) -> str:
    """An offset log entry with its sources' lines in another plan's order. A source used more than once there gets its
    line as often, a new one ``-``, and the line of one that is gone is left out."""
    version, metadata, *lines = entry.split("\n")
    if version == "v2":  # by name
        offsets = {name: offset for name, _, offset in (line.partition(":") for line in lines)}
        kept = [f"{name}:{offsets[name]}" for name in dict.fromkeys(new_order) if name in offsets]
        return "\n".join([version, metadata, *kept])
    if old_order == new_order:
        return entry
    if len(lines) != len(old_order):
        raise CorruptError(f"an offset log entry has {len(lines)} source lines, but its plan has {len(old_order)}")
    offsets = dict(zip(old_order, lines, strict=True))
    return "\n".join([version, metadata, *(offsets.get(name, NO_OFFSET) for name in new_order)])


def _place(path: str) -> str:
    """Return the folder to list for a file: the objects of its export, or the state of its checkpoint."""
    return "state" if path.startswith("state/") else path.rpartition("/")[0]


def check_file(source: Folder, file: SnapshotFile, known: set[str], listed: Listing | None = None) -> None:
    """CorruptError unless a file that is to be brought is there, of its size, and no link; a small one by its checksum,
    too. known: as `Folder.check_regular` has it. listed: sizes that are known already"""
    shown = f"{source.path(file.object)} ({file.path})"
    source.check_regular(file.object, known)
    try:
        size = (listed or source).size(file.object)
    except FileNotFoundError:
        raise CorruptError(f"{shown} is missing; use another snapshot") from None
    if size != file.size:
        raise CorruptError(f"{shown} has {size} bytes instead of {file.size}; use another snapshot")
    if file.sha256 and size <= CHUNK and source.sha256(file.object, size)[0] != file.sha256:
        raise CorruptError(f"{shown} was altered; use another snapshot")
