"""Spark's state schema files. Sources: StateSchemaCompatibilityChecker, SchemaHelper.SchemaReader/WriterV2 and V3."""

from __future__ import annotations

import json
import struct

from ...core.errors import CorruptError
from ...core.plan.plan import StateSchema


class _Reader:
    """java.io.DataInputStream, as far as Spark uses it here. writeUTF's modified UTF-8 differs from UTF-8 only for NUL
    and for characters beyond the basic plane, which it writes as surrogate pairs."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self, size: int) -> int:
        value = int.from_bytes(self.data[self.at : self.at + size], "big")
        self.at += size
        return value

    def utf(self) -> str:
        size = self.number(2)
        raw = self.data[self.at : self.at + size]
        if len(raw) != size:
            raise struct.error("the file ends early")
        self.at += size
        text = raw.replace(b"\xc0\x80", b"\x00").decode("utf-8", "surrogatepass")
        return text.encode("utf-16", "surrogatepass").decode("utf-16")

    def chunks(self) -> str:
        return "".join(self.utf() for _ in range(self.number(4)))


def read_schemas(data: bytes, where: str) -> tuple[StateSchema, ...]:
    """The column families of a store; CorruptError for another version or a truncated file."""
    return tuple(schema for schema, _ in _families(data, where))


def evolved(data: bytes, where: str) -> bool:
    """Whether values of a column family were written under several schemas, which only those in Avro can be
    (StateSchemaCompatibilityChecker counts a value schema's id up; each such row has one)."""
    return any(number > 0 for _, number in _families(data, where))


def write_schema(schema: StateSchema) -> bytes:
    """A file of version 2, of a store without column families."""
    rows = (json.dumps(row, separators=(",", ":")) for row in (schema.key, schema.value))
    return _utf("v2") + b"".join(_chunks(text) for text in rows)


def _chunks(text: str) -> bytes:
    parts = [text[i : i + _CHUNK] for i in range(0, len(text), _CHUNK)]
    return len(parts).to_bytes(4, "big") + b"".join(map(_utf, parts))


_CHUNK = 10_000  # characters: writeUTF takes 65,535 bytes


def _utf(text: str) -> bytes:
    """Encode as DataOutputStream.writeUTF does; characters beyond the basic plane as surrogate pairs."""
    pairs = text.encode("utf-16-be", "surrogatepass")
    units = (pairs[i : i + 2].decode("utf-16-be", "surrogatepass") for i in range(0, len(pairs), 2))
    data = b"".join(b"\xc0\x80" if u == "\0" else u.encode("utf-8", "surrogatepass") for u in units)
    return len(data).to_bytes(2, "big") + data


def _families(data: bytes, where: str) -> list[tuple[StateSchema, int]]:
    """The column families, each with the id of its value schema."""
    try:
        reader = _Reader(data)
        version = reader.utf()
        if version == "v2":
            key, value = json.loads(reader.chunks()), json.loads(reader.chunks())
            schemas = [(StateSchema(name="default", key=key, value=value), 0)]
        elif version == "v3":
            schemas = [_family(reader) for _ in range(reader.number(4))]
        else:
            raise CorruptError(f"{where} has state schema version {version!r}, which is not understood (v2, v3)")
        if reader.at != len(data):
            raise CorruptError(f"{where} has {len(data) - reader.at} bytes after the end of its schemas")
    except (struct.error, ValueError) as error:
        raise CorruptError(f"{where} is not a state schema file: {error}") from error
    return schemas


def _family(reader: _Reader) -> tuple[StateSchema, int]:
    name = reader.utf()
    reader.number(2)  # id of the key schema
    key = json.loads(reader.chunks())
    number = reader.number(2)  # id of the value schema
    value = json.loads(reader.chunks())
    encoder = json.loads(reader.chunks())
    user_key = reader.chunks()  # schema of a map's own key, "{    }" when there is none
    return StateSchema(name=name, key={"encoder": encoder, "row": key, "user_key": user_key}, value=value), number
