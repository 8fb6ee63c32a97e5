"""Entries of the commit log (``commits/N``), and the lineage that changelogs of checkpoint format v2 begin with.

Sources: CommitLog (CommitMetadata, CommitMetadataV2), StateStoreChangelogWriterV3/V4, RocksDB.loadWithCheckpointId of
Spark 4.2 and 4.3. In checkpoint format v2 (RocksDB only) every state file carries an id in its name, ``V_<id>.zip``
or ``V_<id>.changelog``, and the commit log says which id is the committed one: without it, the files of a batch could
not be distinguished from those of an abandoned attempt.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from ..errors import CorruptError, StreamUpdateError
from ..names import check_part
from ..serde import parse_json
from . import lz4

# operator id -> one tuple a partition -> one id a store
StateIds = dict[int, tuple[tuple[str, ...], ...]]

# The order in which an entry names the stores of a join with four (SymmetricHashJoinStateManager:
# mergeStateStoreCheckpointInfo). All others have one, and so have joins whose sides share a store.
_JOIN_STORES = ("left-keyToNumValues", "left-keyWithIndexToValue", "right-keyToNumValues", "right-keyWithIndexToValue")

# Of a changelog, enough for its lineage: writeUTF takes 64 KB at most, and Spark's blocks have 32 KB.
LINEAGE_BYTES = 1 << 18
_LONGEST_TEXT = (1 << 16) - 1  # DataOutputStream.writeUTF


@attrs.frozen(kw_only=True)
class CommitEntry:
    """One entry. `state_ids` is None in checkpoint format v1, whose files have no ids."""

    version: str
    fields: dict[str, Any]
    state_ids: StateIds | None

    @classmethod
    def parse(cls, data: bytes, where: str) -> CommitEntry:
        """Parse an entry; CorruptError when it is truncated or of an unknown version."""
        try:
            version, _, metadata = data.decode().partition("\n")
        except UnicodeDecodeError as error:
            raise CorruptError(f"{where} is not an entry of a commit log: {error}") from error
        if version not in ("v1", "v2"):
            raise CorruptError(f"{where} has version {version[:40]!r}; commit logs v1 and v2 are understood")
        fields = parse_json(metadata.encode(), where) if metadata else {}
        state_ids = None
        try:
            ids = fields.get("stateUniqueIds")
            if ids is not None:
                state_ids = {int(operator): tuple(map(tuple, partitions)) for operator, partitions in ids.items()}
        except (AttributeError, TypeError, ValueError) as error:
            raise CorruptError(f"{where} is not an entry of a commit log: {error}") from error
        if state_ids is not None:
            for state_id in (i for partitions in state_ids.values() for stores in partitions for i in stores):
                check_part(state_id, where)
        return cls(version=version, fields=fields, state_ids=state_ids)

    @property
    def next_watermark_ms(self) -> int:
        return int(self.fields.get("nextBatchWatermarkMs", 0))

    def stores(self, operator: int, where: str) -> list[dict[str, str]]:
        """Return the id of each store of an operator, by partition; CorruptError when the entry lacks them."""
        found = []
        for ids in (self.state_ids or {}).get(operator, ()):
            names = {1: ("default",), 4: _JOIN_STORES}.get(len(ids))
            if names is None:
                raise CorruptError(
                    f"{where} names {len(ids)} state files per partition of operator {operator}; only 1 or 4 are "
                    "supported"
                )
            found.append(dict(zip(names, ids, strict=True)))
        if not found:
            raise CorruptError(f"{where} names no state files of operator {operator}, but the checkpoint has some")
        return found

    def with_state_ids(self, state_ids: Mapping[int, tuple[tuple[str, ...], ...]]) -> bytes:
        """The entry as a file, naming other state files."""
        ids = {str(operator): partitions for operator, partitions in sorted(state_ids.items())}
        fields = {**self.fields, "stateUniqueIds": ids}
        return f"{self.version}\n{json.dumps(fields, separators=(',', ':'))}".encode()


def read_lineage(changelog: bytes, where: str) -> dict[int, str]:
    """Return {version: id} of the state files that led to a changelog, from its first `LINEAGE_BYTES`; its own is not
    among them. CorruptError when it has no lineage, or is compressed by another codec than lz4 (Spark's default)."""
    return _beginning(changelog, where).lineage


def with_lineage(changelog: bytes, lineage: Mapping[int, str], where: str) -> bytes:
    """Return a whole changelog with another lineage. What follows is unchanged, and from the next block on still
    compressed."""
    begins = _beginning(changelog, where)
    items = [{"version": version, "checkpointUniqueId": state_id} for version, state_id in sorted(lineage.items())]
    texts = (begins.version.encode(), json.dumps(items, separators=(",", ":")).encode())
    if max(map(len, texts)) > _LONGEST_TEXT:
        raise StreamUpdateError(
            f"{where} would name {len(items)} earlier files, more than the format has room for; continue with the "
            "newer version, or fork a snapshot into another sink (submit --fork)"
        )
    new = b"".join(len(text).to_bytes(2, "big") + text for text in texts)
    return lz4.raw_blocks(new + begins.rest) + changelog[begins.blocks_at :]


@attrs.frozen(kw_only=True)
class _Beginning:
    """The beginning of a changelog."""

    version: str
    lineage: dict[int, str]
    rest: bytes  # what follows the lineage in its last block
    blocks_at: int  # where the blocks after that one lie


def _beginning(changelog: bytes, where: str) -> _Beginning:
    if not changelog.startswith(lz4.MAGIC):
        raise CorruptError(
            f"{where} is not compressed with lz4, so the files that it builds on cannot be read from it; start the "
            "query without state with spark.sql.streaming.stateStore.compression.codec=lz4, or switch changelog "
            "checkpointing off"
        )
    try:
        blocks = lz4.Blocks(changelog)
        version, rest = _text(b"", blocks)
        if version not in ("v3", "v4"):
            raise ValueError(f"version {version!r}")
        text, rest = _text(rest, blocks)
        lineage = {int(item["version"]): check_part(item["checkpointUniqueId"], where) for item in json.loads(text)}
    except (ValueError, KeyError, TypeError, StopIteration) as error:
        raise CorruptError(f"{where} is not a changelog with a lineage: {error}") from error
    return _Beginning(version=version, lineage=lineage, rest=rest, blocks_at=blocks.at)


def _text(data: bytes, blocks: Iterator[bytes]) -> tuple[str, bytes]:
    """Split off a text that DataOutputStream.writeUTF wrote: its length in two bytes, then its bytes."""
    while len(data) < 2 or len(data) < (end := 2 + int.from_bytes(data[:2], "big")):
        data += next(blocks)
    return data[2:end].decode(), data[end:]
