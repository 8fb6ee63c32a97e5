"""Room is looked for before it is needed."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from airflow_provider_streamupdate.core.checkpoint.snapshot import QuerySnapshot, SnapshotFile
from airflow_provider_streamupdate.core.errors import NoRoomError, StorageError
from airflow_provider_streamupdate.core.snapshots.restore import bring_ahead, plan_restore, room_needed
from airflow_provider_streamupdate.core.storage import Folder
from airflow_provider_streamupdate.core.storage.space import MARGIN_BYTES, check_room, no_room, size

from .builders import CONF, query_plan, stage_plan

PATHS = {"metadata": 10, "offsets/3": 20, "state/0/0/4.zip": 3000, "state/0/0/SSTs/1.sst": 40_000, "state/1/0/4.zip": 5}


@pytest.fixture
def snapshot() -> QuerySnapshot:
    files = tuple(SnapshotFile(path=p, size=count, object=f"objects/x/{p}") for p, count in PATHS.items())
    return QuerySnapshot(batch=3, query_id="id", files=files, conf=CONF)


@pytest.fixture
def here(tmp_path: Path) -> Folder:
    return Folder.open(str(tmp_path / "app"))


@pytest.fixture
def elsewhere() -> Folder:
    return Folder.open("memory://elsewhere")


def test_links_need_no_room_and_copies_need_their_bytes(
    snapshot: QuerySnapshot, here: Folder, elsewhere: Folder
) -> None:
    plan = query_plan(stage_plan("a", 0), stage_plan("b", 1))
    restore = plan_restore(snapshot, plan, plan)
    assert room_needed(restore, snapshot, here, here.sub("deployments/v2")) == 0
    assert room_needed(restore, snapshot, elsewhere, here) == 43_015
    assert room_needed(restore, snapshot, elsewhere, here, state=False) == 10
    assert room_needed(restore, snapshot, elsewhere, here, copied={"state/0/0/SSTs/1.sst": 40_000}) == 3_015


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


def test_copying_ahead_is_refused_before_the_first_file(
    snapshot: QuerySnapshot, here: Folder, elsewhere: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Folder, "free", lambda _: 0)
    restore = plan_restore(snapshot, query_plan(stage_plan("a", 0)), query_plan(stage_plan("a", 0)))
    with pytest.raises(NoRoomError, match=r"copying state ahead needs 40\.0 kB"):
        bring_ahead(restore, elsewhere, here, {})
    assert here.files() == []


def test_that_no_room_is_left_is_known_below_our_own_errors() -> None:
    full = StorageError("cannot write")
    full.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    assert no_room(full) and no_room(OSError(errno.EDQUOT, "quota"))
    assert not no_room(StorageError("cannot reach")) and not no_room(PermissionError(errno.EACCES, "no"))
