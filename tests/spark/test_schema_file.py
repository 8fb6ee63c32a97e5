"""State schema files of version 3, byte by byte as SchemaHelper.SchemaV3Writer writes them."""

from __future__ import annotations

import json
import struct

import pytest

from airflow_provider_streamupdate.core.plan.plan import StateSchema
from airflow_provider_streamupdate.streaming.planning.schema_file import evolved, read_schemas, write_schema

ROW = {"type": "struct", "fields": [{"name": "n", "type": "long", "nullable": True, "metadata": {}}]}


def utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def chunks(text: str) -> bytes:
    return struct.pack(">i", 1) + utf(text)


def written(*families: tuple[str, int]) -> bytes:
    """Column families with the ids of their value schemas."""
    made = utf("v3") + struct.pack(">i", len(families))
    for name, number in families:
        made += utf(name) + struct.pack(">h", 0) + chunks(json.dumps(ROW))
        made += struct.pack(">h", number) + chunks(json.dumps(ROW)) + chunks("{}") + chunks("{    }")
    return made


@pytest.mark.parametrize(("families", "changed"), [((("a", 0), ("b", 0)), False), ((("a", 0), ("b", 1)), True)])
def test_a_value_schema_that_changed_has_a_higher_id(families: tuple, changed: bool) -> None:
    data = written(*families)
    assert [s.name for s in read_schemas(data, "here")] == ["a", "b"]
    assert evolved(data, "here") is changed


@pytest.mark.parametrize("name", ["n", "größe", "\U0001f600\0", "x" * 30_000])
def test_a_written_schema_is_read_back(name: str) -> None:
    """Names of characters that writeUTF writes in its own way, and a text longer than it takes at once."""
    row = {"type": "struct", "fields": [{**ROW["fields"][0], "name": name}]}
    [read] = read_schemas(write_schema(StateSchema(name="left", key=ROW, value=row)), "here")
    assert (read.key, read.value) == (ROW, row)
