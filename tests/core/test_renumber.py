"""A checkpoint under later batch ids: all files of its state have the content they had, whenever a driver dies over
it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.checkpoint.commit_log import read_lineage
from airflow_provider_streamupdate.core.checkpoint.renumber import put_back, renumber
from airflow_provider_streamupdate.core.errors import CorruptError
from airflow_provider_streamupdate.core.storage import Folder
from tests.cases import one_is_fast

from .builders import CheckpointFiles, rocksdb_zip
from .test_commit_log import changelog, commit

BATCH = 5  # the last one committed: the state is at version 6


class Died(Exception):
    pass


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder.open(str(tmp_path / "ck"))


def deltas_from_the_first_on(files: CheckpointFiles) -> None:
    for version in range(1, BATCH + 2):
        files.state(f"0/0/{version}.delta", f"rows {version}".encode())
    files.state("0/0/7.snapshot", b"of a batch in flight")


def a_snapshot_and_deltas(files: CheckpointFiles) -> None:
    files.state("0/0/2.snapshot", b"rows 2")
    for version in range(1, BATCH + 2):
        files.state(f"0/0/{version}.delta", f"rows {version}".encode())
        files.state(f"0/0/{version}.delta.crc", f"checksum {version}".encode())


def a_zip_and_changelogs(files: CheckpointFiles) -> None:
    for version in range(1, BATCH + 2):
        files.state(f"0/1/{version}.changelog", f"rows {version}".encode())
    files.rocksdb(0, 1, 4, ["000008-a.sst"])
    files.rocksdb(0, 1, 7, ["000009-b.sst"])  # of a batch in flight


def partitions_of_both_kinds(files: CheckpointFiles) -> None:
    deltas_from_the_first_on(files)
    a_zip_and_changelogs(files)


LAYOUTS = [deltas_from_the_first_on, a_snapshot_and_deltas, a_zip_and_changelogs, partitions_of_both_kinds]


def checkpoint(folder: Folder, layout: Callable) -> Checkpoint:
    files = CheckpointFiles(folder)
    for number in range(BATCH + 2):
        files.batch(number, commit=number <= BATCH)
    layout(files)
    return Checkpoint(folder)


def content(checkpoint: Checkpoint, shift: int = 0) -> dict[str, bytes]:
    """What an export takes of the state, under the numbers before `shift`, without the empty stores below version 1."""
    found = {}
    for file in checkpoint.export(carry_in_flight=False).files:
        top, _, name = file.path.rpartition("/")
        version, _, rest = name.partition(".")
        if file.path.startswith("state/") and version.isdigit() and "SSTs" not in top:
            number = int(version) - shift
            if number:
                found[f"{top}/{number}.{rest}"] = checkpoint.folder.read(file.path) or b""
            else:
                assert rest in ("snapshot", "zip") and checkpoint.folder.read(file.path) == b"nothing"
    return found


def shifted(checkpoint: Checkpoint, last: int) -> None:
    def empty(operator: int, name: str) -> None:
        folder = checkpoint.folder
        for partition in folder.names(f"state/{operator}"):
            kind = "snapshot" if partition == "0" else "zip"
            made = f"made.{kind}"
            folder.sub("..").write(made, b"nothing")
            folder.copy_from(folder.sub(".."), made, f"state/{operator}/{partition}/{name}.{kind}")

    renumber(checkpoint, last, (), empty)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("last", [BATCH + 1, BATCH + 2, BATCH + 4, BATCH + 6, BATCH + 20])
def test_every_file_has_the_content_it_had(folder: Folder, layout: Callable, last: int) -> None:
    """Also where the store has more files than batches are skipped: some then have new numbers that others had."""
    before = content(checkpoint(folder, layout))
    shifted(Checkpoint(folder), last)
    assert content(Checkpoint(folder), last - BATCH) == before
    assert Checkpoint(folder).export(carry_in_flight=True).in_flight is None
    for top in ("state/0/0", "state/0/1"):  # Spark takes the newest whole file up to a version for its base
        whole = {int(n.partition(".")[0]) for n in folder.names(top) if n.endswith((".zip", ".snapshot"))}
        bases = [int(Path(path).name.partition(".")[0]) for path in before if path.startswith(top)]
        assert not bases or max(whole, default=0) <= min(bases) + last - BATCH
    assert not folder.names("aside")


class Death:
    """Comes with one of the next calls that change the folder, instead of it; with none at 0."""

    def __init__(self, folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
        self.base = folder.base
        self.calls_left = 0
        for method in ("write", "copy_from", "remove"):
            monkeypatch.setattr(Folder, method, self._instead_of(getattr(Folder, method)))

    def _instead_of(self, method: Callable) -> Callable:
        def instead(folder: Folder, *args: object, **options: object) -> object:
            if folder.base.startswith(self.base) and self.calls_left:
                self.calls_left -= 1
                if not self.calls_left:
                    raise Died
            return method(folder, *args, **options)

        return instead


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("last", one_is_fast([BATCH + 2, BATCH + 20]))
def test_a_driver_may_die_at_any_point(
    folder: Folder, layout: Callable, last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the next one at the same point. What lies between is never taken for the state."""
    death = Death(folder, monkeypatch)
    for point in itertools.count(1):
        folder.remove("")
        before = content(checkpoint(folder, layout))
        died = 0
        for _ in range(2):
            death.calls_left = point
            try:
                again(Checkpoint(folder), last)
            except Died:
                died += 1
            death.calls_left = 0
            unread(folder, before, last)
        again(Checkpoint(folder), last)
        assert content(Checkpoint(folder), last - BATCH) == before
        assert not folder.names("aside")
        if not died:
            assert point > 20
            return


def unread(folder: Folder, before: dict[str, bytes], last: int) -> None:
    found = Checkpoint(folder)
    batch = found.committed_batch() or 0
    if found.is_set_aside(batch):
        with pytest.raises(CorruptError, match="start this deployment again"):
            found.export(carry_in_flight=True)
    else:
        assert content(found, last - BATCH if batch == last else 0) == before


def again(checkpoint: Checkpoint, last: int) -> None:
    put_back(checkpoint)
    if checkpoint.committed_batch() != last:
        shifted(checkpoint, last)


def test_in_format_2_changelogs_name_the_files_before_them_under_their_new_numbers(folder: Folder) -> None:
    """In two partitions: down to a zip, and down to the first version, below which there is an empty store then."""
    files = CheckpointFiles(folder)
    for number in range(3):
        commit(files, number, {"0": [["c"], ["z"]]})
    files.state("0/0/1_a.zip", rocksdb_zip({}))
    files.state("0/0/2_b.changelog", changelog({1: "a"}))
    files.state("0/0/3_c.changelog", changelog({1: "a", 2: "b"}))
    files.state("0/0/3_c.changelog.crc")
    for version, name, lineage in ((1, "x", {}), (2, "y", {1: "x"}), (3, "z", {1: "x", 2: "y"})):
        files.state(f"0/1/{version}_{name}.changelog", changelog(lineage))
    made = Checkpoint(folder).export(carry_in_flight=False).made_state_id

    def empty(operator: int, name: str) -> None:
        assert (operator, name) == (0, f"2_{made}")
        files.state(f"0/1/{name}.zip", rocksdb_zip({}))

    renumber(Checkpoint(folder), 4, (), empty)
    exported = Checkpoint(folder).export(carry_in_flight=False)
    assert [f.path.removeprefix("state/0/") for f in exported.files if f.path.startswith("state/")] == [
        *("0/3_a.zip", "0/4_b.changelog", "0/5_c.changelog"),
        *(f"1/2_{made}.zip", "1/3_x.changelog", "1/4_y.changelog", "1/5_z.changelog"),
    ]
    assert (exported.batch, folder.read("commits/4")) == (4, folder.read("commits/2"))
    lineages = {
        file.path: read_lineage(folder.read(file.path) or b"", file.path)
        for file in exported.files
        if file.path.endswith(".changelog")
    }
    assert lineages == {
        "state/0/0/4_b.changelog": {3: "a"},
        "state/0/0/5_c.changelog": {3: "a", 4: "b"},
        "state/0/1/3_x.changelog": {2: made},
        "state/0/1/4_y.changelog": {2: made, 3: "x"},
        "state/0/1/5_z.changelog": {2: made, 3: "x", 4: "y"},
    }
    assert json.loads((folder.read("commits/4") or b"").split(b"\n")[1])["stateUniqueIds"] == {"0": [["c"], ["z"]]}
