"""What an export takes from a checkpoint's files, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint, _full_and_changes
from airflow_provider_streamupdate.core.checkpoint.fence import fence, unfence
from airflow_provider_streamupdate.core.checkpoint.snapshot import QuerySnapshot
from airflow_provider_streamupdate.core.errors import CorruptError, InvalidInputError, NotFoundError
from airflow_provider_streamupdate.core.snapshots.adoption import find_checkpoint
from airflow_provider_streamupdate.core.storage import Folder

from .builders import CONF, CheckpointFiles, rocksdb_zip


@pytest.fixture
def files(tmp_path: Path) -> CheckpointFiles:
    return CheckpointFiles(Folder.open(str(tmp_path)))


def export(files: CheckpointFiles, carry_in_flight: bool = False) -> QuerySnapshot:
    return Checkpoint(files.folder).export(carry_in_flight)


def paths(exported: QuerySnapshot, below: str = "") -> list[str]:
    return sorted(f.path for f in exported.files if f.path.startswith(below))


def test_the_batch_is_the_last_committed_one_whatever_state_files_are_there(files: CheckpointFiles) -> None:
    for number in range(3):
        files.batch(number, commit=number < 2)
        files.rocksdb(0, 0, number + 1)
    exported = export(files)
    assert (exported.batch, exported.in_flight) == (1, None)
    assert paths(exported) == ["commits/0", "commits/1", "metadata", "offsets/0", "offsets/1", "state/0/0/2.zip"]


def test_the_watermark_is_what_the_next_batch_starts_with(files: CheckpointFiles) -> None:
    files.batch(0)
    files.batch(1)
    exported = export(files)
    assert exported.watermark_ms == 1500  # commits/1 says it, offsets/1 has 1000
    assert (exported.conf, exported.query_id) == (CONF, "11111111-2222-3333-4444-555555555555")


def test_before_the_first_commit_there_is_nothing_to_carry(files: CheckpointFiles) -> None:
    exported = export(files)
    assert (exported.batch, exported.files) == (-1, ())
    files.batch(0, commit=False)
    assert export(files).batch == -1  # of a running query: it will commit the batch itself
    with pytest.raises(NotFoundError, match="stopped during its first batch"):
        export(files, carry_in_flight=True)


def test_state_is_taken_from_the_newest_whole_file_on_and_a_zip_with_the_files_it_names(files: CheckpointFiles) -> None:
    for number in range(4):
        files.batch(number)
    files.rocksdb(0, 0, 1, ["000008-old.sst"])
    files.rocksdb(0, 0, 2, ["000009-b.sst", "000010-c.sst"])
    for version in (2, 3, 4, 5):
        files.state(f"0/0/{version}.changelog")
    for name in ("1.delta", "2.delta", "2.snapshot", "3.delta", "3.delta.crc", "4.delta", "5.delta"):
        files.state(f"1/0/{name}")
    assert paths(export(files), "state/0") == [
        *("state/0/0/2.zip", "state/0/0/3.changelog", "state/0/0/4.changelog"),
        *("state/0/0/SSTs/000009-b.sst", "state/0/0/SSTs/000010-c.sst"),
    ]
    names = ("2.snapshot", "3.delta", "3.delta.crc", "4.delta")
    assert paths(export(files), "state/1") == [f"state/1/0/{name}" for name in names]


def test_named_stores_and_spark_s_descriptions_are_taken(files: CheckpointFiles) -> None:
    files.batch(0)
    described = ["0/_metadata/v2/0", "0/_stateSchema/default/0_x", "0/0/_metadata/schema"]
    stores = [f"0/0/{side}-{part}/1.delta" for side in ("left", "right") for part in ("keyToNumValues", "keyWithIndex")]
    for path in [*described, *stores]:
        files.state(path)
    files.operator(0)
    assert paths(export(files), "state") == sorted(f"state/{path}" for path in [*described, *stores])


def without(files: CheckpointFiles, path: str) -> None:
    files.folder.write(path, b"x")
    files.folder.remove(path)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda files: files.batch(1, sources=['{"logOffset":2}']), "has no files for version 2"),
        (lambda files: without(files, "state/0/0/SSTs/8-a.sst"), r"8-a\.sst is missing"),
        *(
            (lambda files, data=data: files.state("0/0/1.zip", data), r"1\.zip is not a RocksDB version file")
            for data in (b"no zip", rocksdb_zip({})[:40], b"")
        ),
        *(
            (lambda files, log=log: files.folder.write(f"{log}/0", b"v9\n{}\n-"), "has version 'v9'; ")
            for log in ("offsets", "commits")
        ),
        (lambda files: without(files, "offsets/0"), "offsets/0 is missing, but the checkpoint needs it"),
        (lambda files: files.folder.write("offsets/0", b'v1\n{"batchWater'), "offsets/0 is not valid JSON"),
        (lambda files: without(files, "sources/0/2"), "has no entry 2, which the offset log names"),
    ],
)
def test_what_is_damaged_is_told(files: CheckpointFiles, damage: Callable[[CheckpointFiles], None], told: str) -> None:
    files.batch(0, sources=['{"logOffset":2}'])
    files.rocksdb(0, 0, 1, ["8-a.sst"])
    for number in range(3):
        files.source_log(str(number), (f"{number}.json", number))
    assert export(files).batch == 0
    damage(files)
    with pytest.raises(CorruptError, match=told):
        export(files)


def test_an_offset_log_by_name_is_understood(files: CheckpointFiles) -> None:
    """Spark writes it (OffsetMap) when the sources have `.name()`; their folders are called after it, too."""
    files.batch(0)
    files.folder.write("offsets/0", b'v2\n{}\na:{"x":"y:z"}\nb:-')
    for source in "ab":
        files.folder.write(f"sources/{source}/0", b"v1\n")
    entry = Checkpoint(files.folder).offsets(0)
    assert (entry.names, entry.sources) == (("a", "b"), ('{"x":"y:z"}', "-"))
    assert {"sources/a/0", "sources/b/0"} <= {f.path for f in export(files).files}


def test_all_of_another_source_s_own_files_are_taken(files: CheckpointFiles) -> None:
    files.batch(0, sources=['{"flights":{"0":7}}', "-"])
    files.folder.write("sources/0/0", b"v1\n{}")
    files.folder.write("sources/1/offsets/0", b'{"version":1}')  # Iceberg's (SparkMicroBatchStream.InitialOffsetStore)
    assert paths(export(files), "sources") == ["sources/0/0", "sources/1/offsets/0"]


@pytest.mark.parametrize(
    ("offset", "names", "kept"),
    [
        (2, [str(n) for n in range(5)], ["0", "1", "2"]),
        # it begins with the last compaction but one, or with the only one
        (
            31,
            [f"{n}.compact" if n % 10 == 9 else str(n) for n in range(35)],
            ["19.compact", *map(str, range(20, 29)), "29.compact", "30", "31"],
        ),
        (10, ["8", "9.compact", "10"], ["9.compact", "10"]),
    ],
)
def test_a_file_source_s_log_is_cut_at_its_offset(
    files: CheckpointFiles, offset: int, names: list[str], kept: list[str]
) -> None:
    files.batch(0, sources=[f'{{"logOffset":{offset}}}'])
    for number, name in enumerate(names):
        files.source_log(name, (f"{number}.json", number))
    assert paths(export(files), "sources") == sorted(f"sources/0/{name}" for name in kept)


def test_the_state_of_the_batch_in_flight_is_carried_when_it_is_whole(files: CheckpointFiles) -> None:
    """A sink that has the batch already skips it, so that nobody makes its state again."""
    files.batch(0)
    files.batch(1, commit=False)
    for partition in (0, 1):
        for name in (f"0/{partition}/1.delta", f"0/{partition}/2.delta", f"1/{partition}/1.delta"):
            files.state(name)
    files.state("1/0/2.delta")
    torn = export(files, carry_in_flight=True)
    assert torn.in_flight == 1 and not torn.state_ahead
    assert [p for p in paths(torn, "state/") if p.endswith("2.delta")] == []
    files.state("1/1/2.delta")
    whole = export(files, carry_in_flight=True)
    assert whole.state_ahead
    assert [p for p in paths(whole, "state/") if p.endswith("2.delta")] == [
        f"state/{o}/{p}/2.delta" for o in (0, 1) for p in (0, 1)
    ]
    assert not export(files).state_ahead


def test_the_offsets_of_the_batch_in_flight_decide_how_far_the_log_goes(files: CheckpointFiles) -> None:
    files.batch(0, sources=['{"logOffset":0}'])
    files.batch(1, sources=['{"logOffset":1}'], commit=False)
    for number in range(3):
        files.source_log(str(number), (f"{number}.json", number))
    assert paths(export(files), "sources") == ["sources/0/0"]
    carried = export(files, carry_in_flight=True)
    assert paths(carried, "sources") == ["sources/0/0", "sources/0/1"]
    assert (carried.batch, carried.in_flight, paths(carried, "commits")) == (0, 1, ["commits/0"])
    assert paths(carried, "offsets") == ["offsets/0", "offsets/1"]


def test_a_source_that_is_used_twice_has_two_lines_and_one_folder(files: CheckpointFiles) -> None:
    files.batch(0, sources=['{"logOffset":0}', '{"logOffset":5}', '{"logOffset":0}'])
    files.source_log("0", ("a.json", 0), position=0)
    for number in range(7):
        files.source_log(str(number), ("b.json", number), position=1)
    exported = Checkpoint(files.folder).export(False, source_order=("left", "right", "left"))
    assert paths(exported, "sources") == ["sources/0/0", *(f"sources/1/{n}" for n in range(6))]
    with pytest.raises(CorruptError, match="3 lines per entry, but the plan has 2 sources"):
        Checkpoint(files.folder).export(False, source_order=("left", "right"))


# The choice of files, for any set of them

versions = st.sets(st.integers(1, 12))


@given(st.sampled_from([("zip", "changelog"), ("snapshot", "delta")]), versions, versions, st.integers(1, 12))
def test_the_chosen_files_lead_to_the_version_without_a_gap(
    kinds: tuple[str, str], whole: set[int], parts: set[int], version: int
) -> None:
    full, part = kinds
    have = {f"{n}.{full}" for n in whole} | {f"{n}.{part}" for n in parts}
    base, changes = _full_and_changes(have, version)
    start = int(base.split(".")[0]) if base else 0
    possible = [n for n in {*whole, 0} if n <= version and set(range(n + 1, version + 1)) <= parts]
    if possible:
        assert start == max(possible)
        assert [*changes] == [f"{n}.{part}" for n in range(start + 1, version + 1)]
        assert {*changes, *([base] if base else [])} <= have
    else:
        assert (base, changes) == (None, [])


def test_the_folder_of_a_pipeline_s_flow_names_its_newest_checkpoint(tmp_path: Path) -> None:
    flow = tmp_path / "_checkpoints" / "spark_catalog" / "default" / "orders" / "orders"
    for version in ("9", "10"):
        (flow / version / "offsets").mkdir(parents=True)
        (flow / version / "metadata").write_text("{}")
    with pytest.raises(InvalidInputError, match=r"Spark Declarative Pipeline.* give the one in use, .*/orders/10$"):
        find_checkpoint(str(flow))


def test_an_empty_folder_and_the_offsets_of_a_checkpoint_are_none(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(InvalidInputError, match="is not a checkpoint: it has no metadata and no offsets"):
            find_checkpoint(str(tmp_path))
        (tmp_path / "0").write_text("v1\n{}\n")


# A fence keeps every later batch of a checkpoint from beginning, whatever its driver does meanwhile


@pytest.mark.parametrize("meanwhile", [[], [3], [3, 4, 5]], ids=["nothing", "the next batch", "more than are kept"])
def test_it_blocks_the_batch_after_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: list[int]
) -> None:
    checkpoint = Checkpoint(Folder.open(str(tmp_path)))
    for batch in range(3):
        checkpoint.folder.write(f"offsets/{batch}", b"v1\n{}\n1")
    create, calls = Folder.create, []

    def slow(folder: Folder, relative: str, data: bytes, nonce: str | None = None) -> bool:
        calls.append(relative)
        for batch in meanwhile if len(calls) == 1 else ():
            folder.write(f"offsets/{batch}", b"v1\n{}\n1")
            folder.remove(f"offsets/{batch - 2}")
        return create(folder, relative, data, nonce)

    monkeypatch.setattr(Folder, "create", slow)
    assert fence(checkpoint) == 3 + len(meanwhile) == checkpoint.fenced()
    assert checkpoint.logged_batch() == 2 + len(meanwhile)
    unfence(checkpoint)
    assert checkpoint.fenced() is None
