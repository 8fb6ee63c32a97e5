"""Where a restore puts the files and offsets of a snapshot, what is damaged, and the room it needs."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from airflow_provider_streamupdate.core.checkpoint.snapshot import QuerySnapshot, SnapshotFile
from airflow_provider_streamupdate.core.errors import CorruptError, NoRoomError, StorageError
from airflow_provider_streamupdate.core.plan.plan import QueryPlan, SourcePlan
from airflow_provider_streamupdate.core.registry.registry import AppRegistry
from airflow_provider_streamupdate.core.snapshots.restore import (
    RestorePlan,
    bring_ahead,
    bring_files,
    plan_restore,
    reorder_offsets,
    room_needed,
)
from airflow_provider_streamupdate.core.snapshots.snapshots import SnapshotStore
from airflow_provider_streamupdate.core.storage import Folder
from airflow_provider_streamupdate.core.storage.space import MARGIN_BYTES, check_room, no_room, size

from .builders import CONF, app_with_snapshots, query_plan, stage_plan


def snapshot_of(*paths: str, batch: int = 3, conf: dict[str, str] | None = None) -> QuerySnapshot:
    files = tuple(SnapshotFile(path=p, size=1, object=f"objects/x/{p}") for p in paths)
    return QuerySnapshot(batch=batch, query_id="id", files=files, conf=CONF if conf is None else conf)


def targets(snapshot: QuerySnapshot, old: list[str], new: list[str]) -> dict[str, str]:
    """Snapshot path to new path, for stages given in the order of their operator ids."""
    plans = (query_plan(*(stage_plan(name, number) for number, name in enumerate(names))) for names in (old, new))
    return {file.path: path for file, path in plan_restore(snapshot, *plans).moves}


STATE = snapshot_of("state/0/0/4.zip", "state/0/1/4.zip", "state/1/0/4.zip", "state/1/0/SSTs/9.sst")


@pytest.mark.parametrize(
    ("old", "new", "operators"),
    [
        (["a", "b"], ["a", "b"], {0: 0, 1: 1}),
        (["a", "b"], ["new", "a", "b"], {0: 1, 1: 2}),  # added downstream: the others move
        (["a", "b"], ["b", "a"], {0: 1, 1: 0}),
        (["a", "b"], ["b"], {1: 0}),  # what is removed is left behind
    ],
)
def test_state_follows_its_stage(old: list[str], new: list[str], operators: dict[int, int]) -> None:
    files = {(int(f.path.split("/")[1]), f.path.split("/", 2)[2]): f.path for f in STATE.files}
    expected = {path: f"state/{operators[o]}/{rest}" for (o, rest), path in files.items() if o in operators}
    assert targets(STATE, old, new) == expected


def test_what_a_restore_takes_and_leaves() -> None:
    described = ["state/0/_metadata/metadata", "state/0/_metadata/v2/0", "state/0/_stateSchema/default/0_x"]
    snapshot = snapshot_of(*described, "state/0/0/_metadata/schema", "state/0/0/4.zip")
    assert list(targets(snapshot, ["a"], ["a"])) == ["state/0/0/4.zip"]
    # logs are taken as they are but offsets go their own way
    snapshot = snapshot_of("metadata", "commits/3", "sources/0/2", "offsets/3")
    assert targets(snapshot, ["a"], ["a"]) == {p: p for p in ("metadata", "commits/3", "sources/0/2")}
    plan = plan_restore(snapshot, query_plan(), query_plan())
    assert [f.path for f in plan.offsets] == ["offsets/3"]


def test_new_stages_get_an_empty_store_in_every_partition() -> None:
    old, new = query_plan(stage_plan("a")), query_plan(stage_plan("n", 0), stage_plan("a", 1))
    plan = plan_restore(STATE, old, new)
    assert [s.name for s in plan.empty] == ["n"]
    assert (plan.version, plan.partitions) == (4, 2)
    # without the number of partitions no stage can be added
    bare = snapshot_of("state/0/0/4.zip", conf={})
    old, new = query_plan(stage_plan("a")), query_plan(stage_plan("n", 0), stage_plan("a", 1))
    with pytest.raises(CorruptError, match=r"does not record spark\.sql\.shuffle\.partitions.* for n;"):
        plan_restore(bare, old, new)
    assert plan_restore(bare, old, old).empty == ()


def sources_of(*names: str) -> QueryPlan:
    plans = tuple(SourcePlan(name=n, named=True, format="json") for n in dict.fromkeys(names))
    return query_plan(sources=plans, source_order=names)


@pytest.mark.parametrize(
    ("old", "new", "paths", "expected"),
    [
        # folders are numbered in the order of the sources' first uses; one that is gone is left behind
        (
            ("a", "b", "a", "c"),
            ("new", "c", "a"),
            ("sources/0/1", "sources/1/1.compact", "sources/2/0"),
            {"sources/0/1": "sources/2/1", "sources/2/0": "sources/1/0"},
        ),
        (("a",), ("b",), ("sources/0/1",), {}),  # another source's place
        (("a", "b"), ("b", "c"), ("sources/a/1", "sources/b/1"), {"sources/b/1": "sources/b/1"}),  # by Spark's names
    ],
)
def test_a_source_s_own_files_follow_it(
    old: tuple[str, ...], new: tuple[str, ...], paths: tuple[str, ...], expected: dict[str, str]
) -> None:
    plan = plan_restore(snapshot_of(*paths), sources_of(*old), sources_of(*new))
    assert {file.path: path for file, path in plan.moves} == expected


@pytest.mark.parametrize(
    ("version", "lines", "new", "expected"),
    [
        ("v1", ['{"a":1}', '{"b":2}'], ("a", "b"), ['{"a":1}', '{"b":2}']),
        ("v1", ['{"a":1}', '{"b":2}'], ("b", "a"), ['{"b":2}', '{"a":1}']),
        ("v1", ['{"a":1}', '{"b":2}'], ("b", "a", "b"), ['{"b":2}', '{"a":1}', '{"b":2}']),
        ("v1", ['{"a":1}', '{"b":2}'], ("c", "b"), ["-", '{"b":2}']),  # a new source has no offset yet
        ("v2", ['a:{"logOffset":1}', 'b:{"x":"y:z"}'], ("c", "b"), ['b:{"x":"y:z"}']),
    ],
)
def test_offsets_follow_their_sources(
    version: str, lines: list[str], new: tuple[str, ...], expected: list[str]
) -> None:
    entry = "\n".join([version, '{"conf":{}}', *lines])
    assert reorder_offsets(entry, ("a", "b"), new) == "\n".join([version, '{"conf":{}}', *expected])


def test_an_entry_with_another_number_of_lines_is_refused() -> None:
    with pytest.raises(CorruptError, match="has 1 source lines, but its plan has 2"):
        reorder_offsets("v1\n{}\n-", ("a", "b"), ("b", "a"))


@pytest.fixture
def app(tmp_path: Path) -> AppRegistry:
    return app_with_snapshots(tmp_path / "root", ["s1", "s2"])


def bring(app: AppRegistry, checkpoint: Folder, state: bool = True) -> None:
    snapshot = SnapshotStore(app).get("s2")
    query = snapshot.plan.queries[0]
    bring_files(plan_restore(snapshot.queries["windows"], query, query), app.folder, checkpoint, state)


def test_what_stays_is_brought_ahead_and_not_again(app: AppRegistry, tmp_path: Path) -> None:
    """From a checkpoint that goes on: the second time it has more files, and its zip is another one."""
    source, target = Folder.open(str(tmp_path / "running")), Folder.open(str(tmp_path / "new"))
    lasting = ("state/0/0/SSTs/9.sst", "state/0/0/logs/7.log", "state/0/1/3.changelog", "state/0/1/left/2.delta")
    for path in (*lasting, "state/0/0/4.zip", "state/0/1/5.changelog", "offsets/3"):
        source.write(path, path.encode())
    stage = query_plan(stage_plan("a", 0))

    def plan(*paths: str) -> RestorePlan:
        files = tuple(SnapshotFile(path=p, size=source.size(p), object=p) for p in paths)
        return plan_restore(QuerySnapshot(batch=3, query_id="id", files=files, conf=CONF), stage, stage)

    copied: dict[str, int] = {}
    first = plan(*lasting, "state/0/0/4.zip")
    assert bring_ahead(first, source, target, copied) == len(lasting)
    assert sorted(target.files()) == sorted(copied) == sorted(lasting)
    assert bring_ahead(first, source, target, copied) == 0
    later = plan(*lasting, "state/0/0/4.zip", "state/0/1/5.changelog")
    for path in lasting:  # would be missed if they were looked for once more
        source.remove(path)
    bring_files(later, source, target, copied=copied)
    assert {p: target.read(p) for p in target.files()} == {f.path: f.path.encode() for f, _ in later.moves}


def test_without_state_it_is_only_looked_for(app: AppRegistry, tmp_path: Path) -> None:
    checkpoint = Folder.open(str(tmp_path / "new"))
    bring(app, checkpoint, state=False)
    assert checkpoint.names() == ["commits", "metadata", "offsets"]
    snapshot = SnapshotStore(app).get("s2").queries["windows"]
    app.folder.remove(next(f.object for f in snapshot.files if "/SSTs/" in f.path))
    with pytest.raises(CorruptError, match="is missing"):
        bring(app, checkpoint, state=False)


def test_the_checkpoint_gets_the_files_of_the_snapshot_s_batch(app: AppRegistry, tmp_path: Path) -> None:
    checkpoint = Folder.open(str(tmp_path / "new"))
    bring(app, checkpoint)
    bring(app, checkpoint)  # again, after a crash
    old = app.checkpoint("v1", "windows")
    assert checkpoint.names("commits") == ["0", "1"] and checkpoint.names("state/0/0/SSTs")
    assert {p: checkpoint.read(p) for p in checkpoint.files()} == {p: old.read(p) for p in checkpoint.files()}


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: None, "is missing; use another snapshot"),
        (lambda data: data + b"x", "has .* bytes instead of"),
        (lambda data: bytes([data[0] ^ 1]) + data[1:], "was altered"),
    ],
)
@pytest.mark.parametrize("damaged", ["offsets/1", "commits/1", "state/0/0/2.zip"])
def test_a_damaged_file_stops_the_restore(app: AppRegistry, tmp_path: Path, damaged: str, damage, message: str) -> None:
    file = next(f for f in SnapshotStore(app).get("s2").queries["windows"].files if f.path == damaged)
    path = Path(app.folder.path(file.object))
    data = damage(path.read_bytes())
    os.unlink(path)
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(CorruptError, match=rf"\({damaged}\) {message}"):
        bring(app, Folder.open(str(tmp_path / "new")))


PATHS = {"metadata": 10, "offsets/3": 20, "state/0/0/4.zip": 3000, "state/0/0/SSTs/1.sst": 40_000, "state/1/0/4.zip": 5}


@pytest.fixture
def snapshot() -> QuerySnapshot:
    files = tuple(SnapshotFile(path=p, size=count, object=f"objects/x/{p}") for p, count in PATHS.items())
    return QuerySnapshot(batch=3, query_id="id", files=files, conf=CONF)


@pytest.fixture
def here(tmp_path: Path) -> Folder:
    return Folder.open(str(tmp_path / "app"))


ELSEWHERE = Folder.open("memory://elsewhere")


def test_links_need_no_room_and_copies_need_their_bytes(snapshot: QuerySnapshot, here: Folder) -> None:
    plan = query_plan(stage_plan("a", 0), stage_plan("b", 1))
    restore = plan_restore(snapshot, plan, plan)
    assert room_needed(restore, snapshot, here, here.sub("deployments/v2")) == 0
    assert room_needed(restore, snapshot, ELSEWHERE, here) == 43_015
    assert room_needed(restore, snapshot, ELSEWHERE, here, state=False) == 10
    assert room_needed(restore, snapshot, ELSEWHERE, here, copied={"state/0/0/SSTs/1.sst": 40_000}) == 3_015


def test_a_migrated_stage_needs_as_much_as_it_has_although_the_rest_is_linked(
    snapshot: QuerySnapshot, here: Folder
) -> None:
    stages = (stage_plan("a", 0), stage_plan("b", 1))
    more = query_plan(*stages, stores={"spark.sql.shuffle.partitions": "4"})  # state of other partitions is rewritten
    restore = plan_restore(snapshot, query_plan(*stages), more)
    assert restore.migrated
    assert room_needed(restore, snapshot, here, here.sub("deployments/v2")) == 43_005


def test_what_would_fill_the_disk_is_refused(here: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Folder, "free", lambda _: 2_000_000 + MARGIN_BYTES)
    check_room(here, 2_000_000, "it")
    with pytest.raises(
        NoRoomError, match=r"it needs 2\.1 MB \(plus 16\.8 MB that are kept free\), but only 18\.8 MB are free at "
    ) as e:
        check_room(here, 2_100_000, "it")
    assert "streamupdate gc" in str(e.value) and here.path() in str(e.value)
    monkeypatch.setattr(Folder, "free", lambda _: 0)
    check_room(here, 0, "links")
    assert (size(999), size(3.4e12)) == ("999 bytes", "3.4 TB")
    # that no room is left is known below our own errors
    full = StorageError("cannot write")
    full.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    assert no_room(full) and no_room(OSError(errno.EDQUOT, "quota"))
    assert not no_room(StorageError("cannot reach")) and not no_room(PermissionError(errno.EACCES, "no"))


def test_copying_ahead_is_refused_before_the_first_file(
    snapshot: QuerySnapshot, here: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Folder, "free", lambda _: 0)
    restore = plan_restore(snapshot, query_plan(stage_plan("a", 0)), query_plan(stage_plan("a", 0)))
    with pytest.raises(NoRoomError, match=r"copying state ahead needs 40\.0 kB"):
        bring_ahead(restore, ELSEWHERE, here, {})
    assert here.files() == []
