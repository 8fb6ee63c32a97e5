"""Spark's lz4 blocks, written here. That the JVM reads them is looked at in tests/spark/test_renumber.py."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_streamupdate.core.checkpoint import lz4
from airflow_provider_streamupdate.core.checkpoint.commit_log import read_lineage, with_lineage
from airflow_provider_streamupdate.core.checkpoint.xxhash import xxhash32
from airflow_provider_streamupdate.core.errors import StreamUpdateError

from .test_commit_log import LINEAGE_OF_SPARK, OF_SPARK, changelog

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


def test_the_checksum_of_a_block_that_spark_wrote() -> None:
    [content] = lz4.Blocks(OF_SPARK)
    [header] = [lz4.raw_blocks(content)[:21]]
    assert (header[13:21], header[8] & 15) == (OF_SPARK[13:21], OF_SPARK[8] & 15)  # length, checksum; level


@given(st.binary(max_size=70_000))
def test_what_is_written_is_read(data: bytes) -> None:
    assert b"".join(lz4.Blocks(lz4.raw_blocks(data) + END)) == data


def test_a_changelog_of_spark_with_another_lineage_keeps_its_rows() -> None:
    later = {version + 7: state_id for version, state_id in LINEAGE_OF_SPARK.items()}
    changed = with_lineage(OF_SPARK, later, "4.changelog")
    assert read_lineage(changed, "11.changelog") == later
    assert with_lineage(changed, LINEAGE_OF_SPARK, "11.changelog") != OF_SPARK  # it is not compressed
    back = b"".join(lz4.Blocks(with_lineage(changed, LINEAGE_OF_SPARK, "11.changelog")))
    assert back == b"".join(lz4.Blocks(OF_SPARK))


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


def test_a_lineage_that_the_format_has_no_room_for() -> None:
    with pytest.raises(StreamUpdateError, match=r"4\.changelog would name 1000 earlier files"):
        with_lineage(OF_SPARK, dict.fromkeys(range(1000), "i" * 36), "4.changelog")
