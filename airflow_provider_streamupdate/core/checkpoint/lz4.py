"""Reading what Spark compresses with lz4 by default, and writing what it reads as such, in pure Python.

Sources: LZ4BlockOutputStream and LZ4BlockInputStream of lz4-java (blocks of ``LZ4Block``, a token, compressed and own
length and a checksum, in little-endian), and the LZ4 block format (sequences of literals and matches).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

_ONE, _TWO, _THREE, _FOUR, _FIVE = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
_MASK = 0xFFFFFFFF


def xxhash32(data: bytes, seed: int) -> int:
    stripes = len(data) & ~15
    if stripes:
        lanes = [(seed + start) & _MASK for start in (_ONE + _TWO, _TWO, 0, -_ONE)]
        for numbers in struct.iter_unpack("<4I", data[:stripes]):
            lanes = [
                _rotated((lane + number * _TWO) & _MASK, 13) * _ONE & _MASK
                for lane, number in zip(lanes, numbers, strict=True)
            ]
        found = sum(_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
    else:
        found = seed + _FIVE
    found = (found + len(data)) & _MASK
    words = stripes + (len(data) - stripes & ~3)
    for (number,) in struct.iter_unpack("<I", data[stripes:words]):
        found = _rotated((found + number * _THREE) & _MASK, 17) * _FOUR & _MASK
    for byte in data[words:]:
        found = _rotated((found + byte * _FIVE) & _MASK, 11) * _ONE & _MASK
    for bits, factor in ((15, _TWO), (13, _THREE)):
        found = (found ^ found >> bits) * factor & _MASK
    return found ^ found >> 16


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> 32 - bits) & _MASK


MAGIC = b"LZ4Block"
_HEADER = 21
_RAW, _COMPRESSED = 0x10, 0x20
_LEVEL = 5  # of a token: blocks have up to 1 << (10 + 5) bytes, as Spark's have
_BLOCK = 1 << 15
_SEED, _CHECKSUM = 0x9747B28C, 0x0FFFFFFF  # StreamingXXHash32.asChecksum leaves four bits out


class Blocks(Iterator[bytes]):
    """The contents of one block after the other, up to the empty one that ends a stream. ValueError when altered.

    at: the position of the first block that was not read yet
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def __next__(self) -> bytes:
        header = self.data[self.at : self.at + _HEADER]
        if len(header) < _HEADER or not header.startswith(MAGIC):
            raise ValueError("an lz4 block is truncated")
        method = header[8] & 0xF0
        packed, length = (int.from_bytes(header[i : i + 4], "little") for i in (9, 13))
        if not length:
            raise StopIteration
        start = self.at + _HEADER
        body = self.data[start : start + packed]
        made = body if method == _RAW else _decompress(body) if method == _COMPRESSED else b""
        if len(made) != length:
            raise ValueError("an lz4 block does not match its header")
        self.at = start + packed
        return made


def raw_blocks(data: bytes) -> bytes:
    """The data in blocks that are not compressed; without the empty one that ends a stream."""
    parts = (data[at : at + _BLOCK] for at in range(0, len(data), _BLOCK))
    return b"".join(_header(part) + part for part in parts)


def _header(part: bytes) -> bytes:
    numbers = (len(part), len(part), xxhash32(part, _SEED) & _CHECKSUM)
    return MAGIC + bytes([_RAW | _LEVEL]) + b"".join(number.to_bytes(4, "little") for number in numbers)


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
            raise ValueError("an lz4 match refers to data before its block")
        for _ in range(longer(token & 15) + 4):  # a match may overlap what it makes
            made.append(made[-offset])
    return bytes(made)
