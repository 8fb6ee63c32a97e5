"""Reading what Spark compresses with lz4 by default, in pure Python.

Sources: LZ4BlockOutputStream of lz4-java (blocks of ``LZ4Block``, a token, compressed and own length and a checksum, in
little-endian), and the LZ4 block format (sequences of literals and matches).
"""

from __future__ import annotations

from collections.abc import Iterator

MAGIC = b"LZ4Block"
_HEADER = 21
_RAW, _COMPRESSED = 0x10, 0x20


def blocks(data: bytes) -> Iterator[bytes]:
    """The contents of one block after the other, up to the empty one that ends a stream. ValueError when altered."""
    at = 0
    while True:
        header = data[at : at + _HEADER]
        if len(header) < _HEADER or not header.startswith(MAGIC):
            raise ValueError("an lz4 block is truncated")
        method = header[8] & 0xF0
        packed, length = (int.from_bytes(header[i : i + 4], "little") for i in (9, 13))
        if not length:
            return
        body = data[at + _HEADER : at + _HEADER + packed]
        made = body if method == _RAW else _decompress(body) if method == _COMPRESSED else b""
        if len(made) != length:
            raise ValueError("an lz4 block is not what its header says")
        yield made
        at += _HEADER + packed


def _decompress(data: bytes) -> bytes:
    made = bytearray()
    at = 0

    def longer(length: int) -> int:
        nonlocal at
        while length >= 15 and at < len(data):
            more = data[at]
            at += 1
            length += more
            if more != 255:
                break
        return length

    while at < len(data):
        token = data[at]
        at += 1
        literals = longer(token >> 4)
        made += data[at : at + literals]
        at += literals
        if at >= len(data):  # the last sequence has no match
            break
        offset = int.from_bytes(data[at : at + 2], "little")
        at += 2
        if not 0 < offset <= len(made):
            raise ValueError("an lz4 match lies before its block")
        for _ in range(longer(token & 15) + 4):  # a match may overlap what it makes
            made.append(made[-offset])
    return bytes(made)
