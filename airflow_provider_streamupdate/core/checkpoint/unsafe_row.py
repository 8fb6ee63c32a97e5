"""The bytes of Spark's UnsafeRow, read and written without Spark. Pure Python.

A row of n fields (UnsafeRow, UnsafeRowWriter of Spark 4.3), everything little-endian:

    null bits   one bit a field, in words of 8 bytes
    fields      8 bytes each: a fixed-length value in the first of them, zeros after it; otherwise
                (offset from the row's first byte) << 32 | (size in bytes); a null is 0
    variable    the values referred to, in the order of the fields, each filled up with zeros to whole words

What is where:

    boolean, tinyint, smallint, int, bigint      field: 1, 1, 2, 4, 8 bytes, two's complement
    float, double                                field: IEEE 754
    date, year-month interval                    field: int, days since 1970-01-01, months
    timestamp, timestamp_ntz, day-time interval  field: long, microseconds (since 1970-01-01 00:00)
    time                                         field: long, nanoseconds since midnight
    decimal of up to 18 digits                   field: long, unscaled
    decimal of more digits                       variable: unscaled, big-endian, as short as can be, in 16 bytes, which
                                                 are kept for a null as well, so that it can be changed in place
    string (of any collation), binary            variable: the bytes
    calendar interval                            variable: int months, int days, long microseconds; kept for a null too
    variant                                      variable: int size of the value, value, metadata (VariantVal)
    struct                                       variable: a row
    array                                        variable: long count; null bits in words; the elements' fixed parts,
                                                 not widened to 8 bytes, filled up to words; their variable parts.
                                                 Offsets are from the array's first byte, nulls keep no room, large
                                                 decimals only whole words (UnsafeArrayWriter)
    map                                          variable: long size of the key array, key array, value array
                                                 (UnsafeMapData)
    void                                         field: null

Types are Spark's JSON types (DataType.json). Values are Python's: int, float, bool, str, bytes, `decimal.Decimal`,
tuple for a struct, list for an array, list of pairs for a map (its order is part of the bytes), `CalendarInterval`,
`Variant`; dates, times and timestamps are the integers above, because Python's own cannot hold all of Spark's.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from typing import Any, NamedTuple

from ..errors import CorruptError, InvalidInputError


class CalendarInterval(NamedTuple):
    months: int
    days: int
    microseconds: int


class Variant(NamedTuple):
    value: bytes
    metadata: bytes


# name of the type -> struct format of its fixed-length form
_FIXED = {
    "boolean": "?",
    "byte": "b",
    "short": "h",
    "integer": "i",
    "long": "q",
    "float": "f",
    "double": "d",
    "date": "i",
    "timestamp": "q",
    "timestamp_ntz": "q",
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_LONG_DIGITS = 18  # Decimal.MAX_LONG_DIGITS
_RESERVED = 16  # bytes of a large decimal and of a calendar interval, null or not


def decode(schema: Any, data: bytes) -> tuple[Any, ...]:
    """The values of a row; CorruptError when the bytes cannot be one of that schema."""
    try:
        return _decode_row([f["type"] for f in schema["fields"]], memoryview(data))
    except InvalidInputError:
        raise
    except (struct.error, IndexError, ValueError) as error:
        raise CorruptError(f"{len(data)} bytes are not a row of {len(schema['fields'])} fields: {error}") from error


def encode(schema: Any, values: Sequence[Any]) -> bytes:
    """The row's bytes as Spark writes them; InvalidInputError for a value that does not fit its type."""
    try:
        return bytes(_encode_row([f["type"] for f in schema["fields"]], values))
    except InvalidInputError:
        raise
    except (struct.error, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise InvalidInputError(f"{values!r} is not a row of this schema: {error}") from error


# Reading


def _decode_row(types: Sequence[Any], data: memoryview) -> tuple[Any, ...]:
    first = _bits_width(len(types))
    if len(data) < first + 8 * len(types) or len(data) % 8:
        raise ValueError("it was cut off")
    return tuple(
        None if _is_set(data, 0, i) or kind == "void" else _decode(kind, data, first + 8 * i)
        for i, kind in enumerate(types)
    )


def _decode(kind: Any, data: memoryview, at: int) -> Any:
    """The value whose fixed part is at `at`; offsets count from the start of `data`."""
    kind = _stored(kind)
    if (form := _fixed(kind)) is not None:
        return struct.unpack_from("<" + form, data, at)[0]
    if (decimal := _decimal(kind)) is not None:
        precision, scale = decimal
        unscaled = (
            struct.unpack_from("<q", data, at)[0]
            if precision <= _LONG_DIGITS
            else int.from_bytes(_slice(data, at), "big", signed=True)
        )
        return Decimal(unscaled).scaleb(-scale, Context(prec=40))
    return _decode_variable(kind, _slice(data, at))


def _slice(data: memoryview, at: int) -> memoryview:
    word = struct.unpack_from("<q", data, at)[0]
    offset, size = word >> 32, word & 0xFFFFFFFF
    if offset < 0 or offset + size > len(data):
        raise ValueError(f"a field refers to bytes {offset} to {offset + size}")
    return data[offset : offset + size]


def _decode_variable(kind: Any, data: memoryview) -> Any:
    name = _name(kind)
    if name == "string":
        return bytes(data).decode()
    if name == "binary":
        return bytes(data)
    if name == "interval":
        return CalendarInterval(*struct.unpack("<iiq", data))
    if name == "variant":
        size = struct.unpack_from("<i", data)[0]
        return Variant(bytes(data[4 : 4 + size]), bytes(data[4 + size :]))
    if name == "struct":
        return _decode_row([f["type"] for f in kind["fields"]], data)
    if name == "array":
        return _decode_array(kind["elementType"], data)
    if name == "map":
        size = struct.unpack_from("<q", data)[0]
        keys = _decode_array(kind["keyType"], data[8 : 8 + size])
        return list(zip(keys, _decode_array(kind["valueType"], data[8 + size :]), strict=True))
    raise InvalidInputError(f"values of type {kind!r} are not supported in a state row")


def _decode_array(kind: Any, data: memoryview) -> list[Any]:
    count = struct.unpack_from("<q", data)[0]
    first, width = 8 + _bits_width(count), _element_width(kind)
    if count < 0 or len(data) < first + count * width:
        raise ValueError(f"an array of {count} elements is too short")
    return [None if _is_set(data, 8, i) else _decode(kind, data, first + i * width) for i in range(count)]


# Writing


def _encode_row(types: Sequence[Any], values: Sequence[Any]) -> bytearray:
    if len(types) != len(values):
        raise ValueError(f"{len(values)} values for {len(types)} fields")
    first = _bits_width(len(types))
    made = bytearray(first + 8 * len(types))
    for i, (kind, value) in enumerate(zip(types, values, strict=True)):
        at = first + 8 * i
        if value is None:
            made[i // 8] |= 1 << i % 8
            if _reserves(kind):
                # UnsafeRowWriter keeps the offset: a null decimal has size 0, a null interval its full size.
                size = 0 if _decimal(kind) else _RESERVED
                struct.pack_into("<q", made, at, len(made) << 32 | size)
                made += bytes(_RESERVED)
        else:
            _encode(kind, value, made, at, padded=_RESERVED if _reserves(kind) else 0)
    return made


def _encode_array(kind: Any, values: Sequence[Any]) -> bytearray:
    """An array does not reserve space for nulls, and fills decimals up to whole words only (UnsafeArrayWriter)."""
    first, width = 8 + _bits_width(len(values)), _element_width(kind)
    made = bytearray(first + _rounded(width * len(values)))
    struct.pack_into("<q", made, 0, len(values))
    for i, value in enumerate(values):
        if value is None:
            made[8 + i // 8] |= 1 << i % 8
        else:
            _encode(kind, value, made, first + i * width, padded=0)
    return made


def _encode(kind: Any, value: Any, made: bytearray, at: int, padded: int) -> None:
    """Write a value whose fixed part is at `at`, its variable part (at least `padded` bytes) at the end."""
    kind = _stored(kind)
    if (form := _fixed(kind)) is not None:
        struct.pack_into("<" + form, made, at, _canonical(form, value))
        return
    if (decimal := _decimal(kind)) is not None:
        precision, scale = decimal
        unscaled = _unscaled(value, precision, scale)
        if precision <= _LONG_DIGITS:
            struct.pack_into("<q", made, at, unscaled)
            return
        # BigInteger.toByteArray: the shortest two's complement
        data = unscaled.to_bytes((unscaled + (unscaled < 0)).bit_length() // 8 + 1, "big", signed=True)
    else:
        data = bytes(_encode_variable(kind, value))
    struct.pack_into("<q", made, at, len(made) << 32 | len(data))
    made += data
    made += bytes(max(padded, _rounded(len(data))) - len(data))


def _encode_variable(kind: Any, value: Any) -> bytes | bytearray:
    writers: dict[str, Callable[[], bytes | bytearray]] = {
        "string": lambda: value.encode(),
        "binary": lambda: bytes(value),
        "interval": lambda: struct.pack("<iiq", *value),
        "variant": lambda: struct.pack("<i", len(value[0])) + value[0] + value[1],
        "struct": lambda: _encode_row([f["type"] for f in kind["fields"]], value),
        "array": lambda: _encode_array(kind["elementType"], value),
        "map": lambda: _encode_map(kind, value),
    }
    name = _name(kind)
    if name not in writers:
        raise InvalidInputError(f"values of type {kind!r} are not supported in a state row")
    return writers[name]()


def _encode_map(kind: Any, pairs: Sequence[tuple[Any, Any]]) -> bytes:
    keys = _encode_array(kind["keyType"], [k for k, _ in pairs])
    return struct.pack("<q", len(keys)) + keys + _encode_array(kind["valueType"], [v for _, v in pairs])


# Types


def _stored(kind: Any) -> Any:
    """A user-defined type is stored as its SQL type."""
    return _stored(kind["sqlType"]) if isinstance(kind, dict) and kind["type"] == "udt" else kind


def _name(kind: Any) -> str:
    name = str(kind["type"]) if isinstance(kind, dict) else str(kind)
    return "string" if re.match(r"(string|char|varchar)\b", name) else name


def _fixed(kind: Any) -> str | None:
    """The struct format of a type that fits a field and needs no conversion."""
    if isinstance(kind, dict):
        return None
    if kind in _FIXED:
        return _FIXED[kind]
    if kind.startswith("time("):
        return "q"
    if kind.startswith("interval "):
        return "i" if re.fullmatch(r"interval (year|month)( to month)?", kind) else "q"
    return None


def _decimal(kind: Any) -> tuple[int, int] | None:
    match = _DECIMAL.fullmatch(kind) if isinstance(kind, str) else None
    return (int(match[1]), int(match[2])) if match else None


def _reserves(kind: Any) -> bool:
    kind = _stored(kind)
    decimal = _decimal(kind)
    return kind == "interval" or (decimal is not None and decimal[0] > _LONG_DIGITS)


def _element_width(kind: Any) -> int:
    form = _fixed(_stored(kind))
    return struct.calcsize("<" + form) if form else 8


def _unscaled(value: Decimal, precision: int, scale: int) -> int:
    unscaled = Decimal(value).scaleb(scale, Context(prec=80))
    if unscaled != int(unscaled) or abs(unscaled) >= 10**precision:
        raise ValueError(f"{value} does not fit decimal({precision},{scale})")
    return int(unscaled)


def _canonical(form: str, value: Any) -> Any:
    """Not-a-number has many bit patterns; Spark writes Java's one."""
    if form in "fd":
        return float("nan") if value != value else value
    return value


def _bits_width(count: int) -> int:
    return (count + 63) // 64 * 8


def _is_set(data: memoryview, start: int, bit: int) -> bool:
    return bool(data[start + bit // 8] >> bit % 8 & 1)


def _rounded(size: int) -> int:
    return (size + 7) // 8 * 8
