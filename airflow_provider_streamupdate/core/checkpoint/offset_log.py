"""Entries of the offset log (``offsets/N``). Sources: OffsetSeqLog, OffsetSeq and OffsetMap of Spark 4.2 and 4.3."""

from __future__ import annotations

import attrs

from ..errors import CorruptError
from ..names import check_part
from ..serde import parse_json


@attrs.frozen(kw_only=True)
class OffsetEntry:
    """One entry of the offset log."""

    watermark_ms: int
    conf: dict[str, str]
    sources: tuple[str, ...]  # the raw JSON offsets, ``-`` for a source that has none yet, in the entry's order
    # the sources' names in an entry of version 2 (OffsetMap, written when sources have `.name()`); empty in
    # version 1 (OffsetSeq), which is ordered by position
    names: tuple[str, ...] = ()

    @classmethod
    def parse(cls, data: bytes, where: str) -> OffsetEntry:
        """Parse an entry; CorruptError when it is truncated, of an unknown version, or has a source whose name cannot
        be a folder's."""
        try:
            version, *lines = data.decode().split("\n")
        except UnicodeDecodeError as error:
            raise CorruptError(f"{where} is not an entry of an offset log: {error}") from error
        if version not in ("v1", "v2") or not lines:
            raise CorruptError(f"{where} has version {version[:40]!r}; offset logs v1 and v2 are understood")
        metadata = parse_json(lines[0].encode(), where) if lines[0] else {}
        named = [line.partition(":") for line in lines[1:]] if version == "v2" else []
        try:
            watermark_ms = int(metadata.get("batchWatermarkMs", 0))
            conf = {k: str(v) for k, v in metadata.get("conf", {}).items()}
        except (AttributeError, TypeError, ValueError) as error:
            raise CorruptError(f"{where} is not an entry of an offset log: {error}") from error
        return cls(
            watermark_ms=watermark_ms,
            conf=conf,
            sources=tuple(offset for _, _, offset in named) if named else tuple(lines[1:]),
            names=tuple(check_part(name, where) for name, _, _ in named),
        )
