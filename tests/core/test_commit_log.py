"""Checkpoint format v2: the state files are those the commit log names by id, however many others lie beside them. Its
lineages, in Spark's lz4 blocks: that the JVM reads ours is looked at in tests/spark/test_renumber.py."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_streamupdate.core.checkpoint import lz4
from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.checkpoint.commit_log import CommitEntry, read_lineage, with_lineage
from airflow_provider_streamupdate.core.checkpoint.lz4 import xxhash32
from airflow_provider_streamupdate.core.errors import CorruptError, StreamUpdateError
from airflow_provider_streamupdate.core.snapshots.restore import bring_files, plan_restore, write_commits
from airflow_provider_streamupdate.core.storage import Folder

from .builders import CheckpointFiles, query_plan, rocksdb_zip, stage_plan

# What Spark 4.3.0 wrote for version 4 of a deduplication.
OF_SPARK = bytes.fromhex(
    "4c5a34426c6f636b25e40000004d0100006fe77809f7420002763300df5b7b2276657273696f6e223a312c22636865636b706f696e7455"
    "6e697175654964223a2235373065386663342d356236352d343066362d383130642d633333306539356661663034227d2c4a001f324a00"
    "04c031323130343466622d3039624a00fa0531312d383330622d6232333061333062636539614a001f334a0005f41c313566343265652d"
    "366139382d343232332d383966392d366366643834353932333235227d5d00000019000100940100000010000000611100300000110500"
    "010200110406000102000e3200116318000102000d32005000ffffffff4c5a34426c6f636b15000000000000000000000000"
)
LINEAGE_OF_SPARK = {
    1: "570e8fc4-5b65-40f6-810d-c330e95faf04",
    2: "121044fb-09b5-4011-830b-b230a30bce9a",
    3: "115f42ee-6a98-4223-89f9-6cfd84592325",
}


@pytest.fixture
def files(tmp_path: Path) -> CheckpointFiles:
    return CheckpointFiles(Folder.open(str(tmp_path / "ck")))


def commit(files: CheckpointFiles, number: int, ids: dict[str, list[list[str]]]) -> None:
    files.batch(number)
    entry = {"nextBatchWatermarkMs": 1000 * number + 500, "stateUniqueIds": ids}
    files.folder.write(f"commits/{number}", b"v2\n" + json.dumps(entry).encode())


def changelog(lineage: dict[int, str], version: str = "v3", block: int = 1 << 15) -> bytes:
    """A changelog as Spark lays it out, in lz4 blocks that are not compressed."""
    items = [{"version": v, "checkpointUniqueId": name} for v, name in lineage.items()]
    data = b"".join(len(text).to_bytes(2, "big") + text.encode() for text in (version, json.dumps(items)))
    data += b"\xff" * 4  # no rows
    written = b""
    for part in [data[i : i + block] for i in range(0, len(data), block)] + [b""]:
        length = len(part).to_bytes(4, "little")
        written += b"LZ4Block\x15" + length + length + b"\0" * 4 + part
    return written


def state_files(files: CheckpointFiles) -> list[str]:
    exported = Checkpoint(files.folder).export(carry_in_flight=False)
    assert exported.state_format == 2
    return [f.path.removeprefix("state/") for f in exported.files if f.path.startswith("state/")]


def test_lineages_of_changelogs_that_spark_wrote() -> None:
    assert read_lineage(OF_SPARK, "4.changelog") == LINEAGE_OF_SPARK
    later = {version + 7: state_id for version, state_id in LINEAGE_OF_SPARK.items()}
    changed = with_lineage(OF_SPARK, later, "4.changelog")
    assert read_lineage(changed, "11.changelog") == later
    assert with_lineage(changed, LINEAGE_OF_SPARK, "11.changelog") != OF_SPARK  # it is not compressed
    back = b"".join(lz4.Blocks(with_lineage(changed, LINEAGE_OF_SPARK, "11.changelog")))
    assert back == b"".join(lz4.Blocks(OF_SPARK))
    [content] = lz4.Blocks(OF_SPARK)
    [header] = [lz4.raw_blocks(content)[:21]]
    assert (header[13:21], header[8] & 15) == (OF_SPARK[13:21], OF_SPARK[8] & 15)  # length, checksum; level


@given(lineage=st.dictionaries(st.integers(1, 10**6), st.uuids().map(str), max_size=60), block=st.integers(7, 1 << 15))
def test_any_lineage_is_read_whatever_the_blocks(lineage: dict[int, str], block: int) -> None:
    assert read_lineage(changelog(lineage, block=block), "x") == lineage


@given(st.integers(0, len(OF_SPARK) - 1))
def test_a_truncated_changelog_is_told_or_still_has_its_lineage(length: int) -> None:
    with contextlib.suppress(CorruptError):
        assert read_lineage(OF_SPARK[:length], "4.changelog") == LINEAGE_OF_SPARK


@pytest.mark.parametrize("data", [changelog({}, version="v2"), changelog({})[:30], b"LZ4Block", b"\x28\xb5\x2f\xfd"])
def test_what_has_no_lineage_is_told(data: bytes) -> None:
    with pytest.raises(CorruptError, match=r"4\.changelog is not"):
        read_lineage(data, "4.changelog")


def test_the_zip_with_the_id_is_taken_and_none_of_an_attempt_that_was_given_up(files: CheckpointFiles) -> None:
    commit(files, 0, {"0": [["good"], ["right"]]})
    metadata = {"sstFiles": [{"localFileName": "8.sst", "dfsSstFileName": "8-a.sst", "sizeBytes": 9}]}
    files.state("0/0/1_good.zip", rocksdb_zip(metadata))
    files.state("0/0/SSTs/8-a.sst")
    files.state("0/0/1_bad.zip", rocksdb_zip({}))
    files.state("0/1/1_right.zip", rocksdb_zip({}))
    files.state("0/1/1.zip", rocksdb_zip({}))
    assert state_files(files) == ["0/0/1_good.zip", "0/0/SSTs/8-a.sst", "0/1/1_right.zip"]


def test_changelogs_are_taken_by_lineage_from_the_newest_zip_it_names(files: CheckpointFiles) -> None:
    for number in range(4):
        commit(files, number, {"0": [["d"]]})
    files.state("0/0/2_other.zip", rocksdb_zip({}))  # of another lineage
    files.state("0/0/1_a.zip", rocksdb_zip({}))
    files.state("0/0/3_other.changelog", changelog({1: "a", 2: "other"}))
    for version, name in ((2, "b"), (3, "c")):
        files.state(f"0/0/{version}_{name}.changelog", b"not read")
    files.state("0/0/4_d.changelog", changelog({1: "a", 2: "b", 3: "c"}))
    files.state("0/0/4_d.changelog.crc")
    assert state_files(files) == [
        *("0/0/1_a.zip", "0/0/2_b.changelog", "0/0/3_c.changelog", "0/0/4_d.changelog", "0/0/4_d.changelog.crc")
    ]
    files.state("0/0/3_c.zip", rocksdb_zip({}))  # the maintenance thread has uploaded it meanwhile
    assert state_files(files) == ["0/0/3_c.zip", "0/0/4_d.changelog", "0/0/4_d.changelog.crc"]


@pytest.mark.parametrize(
    ("ids", "problem"),
    [
        ({"0": [["gone"]]}, "state/0/0 has no files for version 1 and id gone"),
        ({"0": [["a"], ["b"]]}, "state/0/1 has no files for version 1 and id b"),
        ({"0": [["a"]], "1": [["c"]]}, "state/1/0 has no files"),
        ({}, "names no state files of operator 0"),
        ({"0": [["a", "b"]]}, "names 2 state files per partition of operator 0"),
    ],
)
def test_what_the_entry_names_must_be_there(files: CheckpointFiles, ids: dict, problem: str) -> None:
    commit(files, 0, ids)
    files.state("0/0/1_a.zip", rocksdb_zip({}))
    with pytest.raises(CorruptError, match=problem):
        Checkpoint(files.folder).export(carry_in_flight=False)


def test_what_the_lineage_names_must_be_there_and_fit(files: CheckpointFiles) -> None:
    for number in range(3):
        commit(files, number, {"0": [["c"]]})
    files.state("0/0/1_a.zip", rocksdb_zip({}))
    files.state("0/0/3_c.changelog", changelog({1: "a", 2: "b"}))
    with pytest.raises(CorruptError, match="no files for version 3 and id c"):
        Checkpoint(files.folder).export(carry_in_flight=False)
    # a lineage that the format has no room for
    with pytest.raises(StreamUpdateError, match=r"4\.changelog would name 1000 earlier files"):
        with_lineage(OF_SPARK, dict.fromkeys(range(1000), "i" * 36), "4.changelog")


def test_a_restore_rewrites_the_entries_for_the_new_operator_ids(files: CheckpointFiles, tmp_path: Path) -> None:
    """Of two stages one is removed, the other one moves; a new one takes its place."""
    for number in range(2):
        commit(files, number, {"0": [[f"gone{number}"], ["x"]], "1": [[f"kept{number}"], ["y"]]})
        for operator, name in ((0, f"gone{number}"), (1, f"kept{number}")):
            files.state(f"{operator}/0/{number + 1}_{name}.zip", rocksdb_zip({}))
    files.state("0/1/2_x.zip", rocksdb_zip({}))
    files.state("1/1/2_y.zip", rocksdb_zip({}))
    exported = Checkpoint(files.folder).export(carry_in_flight=False)
    old = query_plan(stage_plan("gone", 0), stage_plan("kept", 1))
    new = query_plan(stage_plan("kept", 0), stage_plan("new", 1))
    plan = plan_restore(exported, old, new)
    target = Folder.open(str(tmp_path / "restored"))
    bring_files(plan, files.folder, target)
    assert not target.exists("commits/1")  # it names files that are not there yet
    assert plan.made_state_id and plan.made_state_name == f"2_{plan.made_state_id}"
    for partition in (0, 1):
        target.write(f"state/1/{partition}/{plan.made_state_name}.zip", rocksdb_zip({}))
    write_commits(plan, files.folder, target)
    last, before = (CommitEntry.parse(target.read(f"commits/{n}") or b"", "restored") for n in (1, 0))
    assert last.state_ids == {0: (("kept1",), ("y",)), 1: ((plan.made_state_id,), (plan.made_state_id,))}
    assert before.state_ids == {0: (("kept0",), ("y",))}
    assert (last.version, last.next_watermark_ms) == ("v2", 1500)
    again = Checkpoint(target).export(carry_in_flight=False)
    assert sorted(f.path for f in again.files if f.path.startswith("state/")) == [
        *("state/0/0/2_kept1.zip", "state/0/1/2_y.zip"),
        *(f"state/1/{partition}/{plan.made_state_name}.zip" for partition in (0, 1)),
    ]


END = b"LZ4Block\x15" + bytes(12)


@pytest.mark.parametrize(
    ("data", "seed", "found"),
    [
        (b"", 0, 0x02CC5D05),
        (b"", 2654435761, 0x36B78AE7),
        (b"a", 0, 0x550D7456),
        (b"Nobody inspects the spammish repetition", 0, 0xE2293B2F),
    ],
)
def test_checksums_that_are_known(data: bytes, seed: int, found: int) -> None:
    """Of the published test vectors of xxHash."""
    assert xxhash32(data, seed) == found


@given(st.binary(max_size=70_000))
def test_what_is_written_is_read(data: bytes) -> None:
    assert b"".join(lz4.Blocks(lz4.raw_blocks(data) + END)) == data


@given(
    lineage=st.dictionaries(st.integers(1, 10**6), st.uuids().map(str), max_size=60),
    shift=st.integers(1, 10**6),
    block=st.integers(7, 1 << 15),
)
def test_blocks_after_the_lineage_stay_as_they_are(lineage: dict[int, str], shift: int, block: int) -> None:
    before = changelog(lineage, block=block)
    after = with_lineage(before, {version + shift: i for version, i in lineage.items()}, "x")
    assert read_lineage(after, "x") == {version + shift: i for version, i in lineage.items()}
    assert b"".join(lz4.Blocks(after)).endswith(b"]\xff\xff\xff\xff")
    assert after.endswith(before[-21:])
