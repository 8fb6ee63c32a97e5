"""xxHash32 in pure Python, for a few blocks: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md."""

from __future__ import annotations

import struct

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
