"""What one listing of a checkpoint tells is what asking for each folder tells (test_golden.py: for all that Spark
wrote), and it costs no request for each folder."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.errors import CorruptError
from airflow_provider_streamupdate.core.snapshots.restore import bring_files, plan_restore
from airflow_provider_streamupdate.core.storage import Folder, call_count
from airflow_provider_streamupdate.core.storage.backends.fsspec_store import FsspecStore
from airflow_provider_streamupdate.core.storage.listing import Listing
from tests.stores import ObjectStore

from .builders import CheckpointFiles, golden, query_plan


def bucket(disk: Folder | None = None) -> Folder:
    made = Folder(FsspecStore(ObjectStore()), f"/{uuid.uuid4().hex}")
    for path in disk.files(hidden=True) if disk else ():
        made.write(path, disk.read(path) or b"")
    return made


def test_names_files_and_sizes_are_those_that_a_folder_tells(tmp_path: Path) -> None:
    disk = golden("rocksdb", tmp_path)
    there = bucket(disk)
    there.write("state/.hidden", b"")
    there.write("state/0/.tmp/x", b"1")
    listed = Listing.of(there, "state")
    folders = {path.rpartition("/")[0] for path in there.files("", hidden=True)} | {"state", "state/7", "nothing"}
    assert listed.sizes
    for folder in sorted(f for f in folders if f.startswith("state")):
        assert listed.names(folder) == there.names(folder), folder
        assert listed.files(folder) == there.files(folder), folder
    for path in there.files("state", hidden=True):
        assert listed.size(f"state/{path}") == there.size(f"state/{path}")
    with pytest.raises(FileNotFoundError):
        listed.size("state/nothing")


def many(folder: Folder, partitions: int) -> CheckpointFiles:
    files = CheckpointFiles(folder)
    for batch in range(3):
        files.batch(batch)
    for partition in range(partitions):
        files.rocksdb(0, partition, 3, [f"{partition:06d}-a.sst", f"{partition:06d}-b.sst"])
    return files


def asked(work: Callable[[], object]) -> int:
    before = call_count()
    work()
    return call_count() - before


def test_what_an_export_asks_of_a_store() -> None:
    few, lots = (many(bucket(), partitions) for partitions in (1, 41))
    costs = [asked(lambda f=files: Checkpoint(f.folder).export(False)) for files in (few, lots)]
    assert costs[1] - costs[0] == 40, "a zip for each partition, which names its files"
    # who has run the same batches asks for no store
    few, lots = (many(bucket(), partitions) for partitions in (1, 41))
    found = {
        asked(lambda files=files: Checkpoint(files.folder).export(True, with_files=False)) for files in (few, lots)
    }
    assert len(found) == 1 and found.pop() <= 8
    whole, only_logs = (Checkpoint(lots.folder).export(True, with_files=each) for each in (True, False))
    assert only_logs == attrs.evolve(whole, files=(), state_ahead=False) != whole


def test_a_file_that_is_gone_or_changed_is_told() -> None:
    plan = query_plan()
    files = many(bucket(), 11)
    live = Checkpoint(files.folder).export(False)
    made = plan_restore(live, plan, plan)
    files.folder.write("state/0/5/SSTs/000005-a.sst", b"longer than it was by some bytes, which is told")
    with pytest.raises(CorruptError, match=r"000005-a.sst .* bytes instead of"):
        bring_files(made, files.folder, bucket(), state=False)
    files.folder.remove("state/0/5/SSTs/000005-a.sst")
    with pytest.raises(CorruptError, match=r"000005-a.sst .* is missing"):
        bring_files(made, files.folder, bucket(), state=False)
