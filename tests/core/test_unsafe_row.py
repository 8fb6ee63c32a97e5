"""The UnsafeRow codec: what is written is read back, and the bytes are Spark's (tests/spark/test_unsafe_row.py has rows
that Spark wrote)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_streamupdate.core.checkpoint.unsafe_row import CalendarInterval, Variant, decode, encode
from airflow_provider_streamupdate.core.errors import CorruptError, InvalidInputError


def row(*types: Any) -> dict[str, Any]:
    fields = [{"name": f"c{i}", "type": t, "nullable": True, "metadata": {}} for i, t in enumerate(types)]
    return {"type": "struct", "fields": fields}


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    return st.integers(-(10**precision) + 1, 10**precision - 1).map(lambda n: Decimal(n).scaleb(-scale))


SIMPLE: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "byte": integers(8),
    "short": integers(16),
    "integer": integers(32),
    "long": integers(64),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "string": st.text(st.characters(exclude_categories=["Cs"])),
    "string collate UNICODE_CI": st.text(st.characters(exclude_categories=["Cs"])),
    "varchar(10)": st.text(st.characters(exclude_categories=["Cs"])),
    "binary": st.binary(),
    "date": integers(32),
    "timestamp": integers(64),
    "timestamp_ntz": integers(64),
    "time(6)": integers(64),
    "decimal(7,2)": decimals(7, 2),
    "decimal(18,0)": decimals(18, 0),
    "decimal(38,10)": decimals(28, 10),
    "interval": st.builds(CalendarInterval, integers(32), integers(32), integers(64)),
    "interval day to second": integers(64),
    "interval year to month": integers(32),
    "variant": st.builds(Variant, st.binary(), st.binary()),
    "void": st.none(),
}


@st.composite
def typed(draw: st.DrawFn, depth: int = 2) -> tuple[Any, st.SearchStrategy[Any]]:
    """A type and its values."""
    kinds = ["simple"] * 3 + (["struct", "array", "map", "udt"] if depth else [])
    kind = draw(st.sampled_from(kinds))
    if kind == "simple":
        name = draw(st.sampled_from(sorted(SIMPLE)))
        return name, SIMPLE[name]
    if kind == "struct":
        inner = draw(st.lists(typed(depth - 1), max_size=3))
        return row(*(t for t, _ in inner)), st.tuples(*(maybe(v) for _, v in inner))
    element, values = draw(typed(depth - 1))
    if kind == "udt":
        return {"type": "udt", "class": None, "sqlType": element}, values
    if kind == "array":
        return {"type": "array", "elementType": element, "containsNull": True}, st.lists(maybe(values), max_size=70)
    key = draw(st.sampled_from(["integer", "string", "decimal(20,1)"]))
    made = {"type": "map", "keyType": key, "valueType": element, "valueContainsNull": True}
    keys = decimals(20, 1) if key.startswith("decimal") else SIMPLE[key]
    return made, st.lists(st.tuples(keys, maybe(values)), max_size=5)


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


@given(st.data())
def test_what_is_written_is_read_back(data: st.DataObject) -> None:
    found = data.draw(st.lists(typed(), max_size=5) | st.lists(st.just(("integer", SIMPLE["integer"])), max_size=130))
    schema = row(*(t for t, _ in found))
    values = tuple(data.draw(maybe(v)) for _, v in found)
    written = encode(schema, values)
    assert decode(schema, written) == values
    assert len(written) % 8 == 0
    assert encode(schema, decode(schema, written)) == written


@pytest.mark.parametrize(
    ("types", "values", "words"),
    [
        # as UnsafeRowWriter lays them out: null bits, fields, variable part
        (("integer", "long"), (-1, 2), ["00" * 8, "ffffffff00000000", "0200000000000000"]),
        (("long", "byte"), (None, 1), ["0100000000000000", "00" * 8, "0100000000000000"]),
        (("string",), ("hello",), ["00" * 8, "0500000010000000", "68656c6c6f000000"]),
        (("decimal(20,0)",), (None,), ["0100000000000000", "0000000010000000", "00" * 8, "00" * 8]),
        (("decimal(20,0)",), (Decimal(-129),), ["00" * 8, "0200000010000000", "ff7f000000000000", "00" * 8]),
        (("interval",), (None,), ["0100000000000000", "1000000010000000", "00" * 8, "00" * 8]),
        (
            ({"type": "array", "elementType": "short", "containsNull": True},),
            ([1, None, 3],),
            ["00" * 8, "1800000010000000", "0300000000000000", "0200000000000000", "0100000003000000"],
        ),
        (("float",), (float("nan"),), ["00" * 8, "0000c07f00000000"]),
    ],
)
def test_the_bytes_are_those_of_spark(types: tuple[Any, ...], values: tuple[Any, ...], words: list[str]) -> None:
    assert encode(row(*types), values).hex() == "".join(words)


def test_a_row_that_is_cut_off_and_a_type_that_is_not_known_are_told() -> None:
    schema = row("string", "long")
    whole = encode(schema, ("hello, world", 1))
    for size in (0, 8, 23, 39):
        with pytest.raises(CorruptError, match="not a row of 2 fields"):
            decode(schema, whole[:size])
    for use in (lambda: encode(row("geometry(4326)"), (b"",)), lambda: decode(row("geometry(4326)"), bytes(16))):
        with pytest.raises(InvalidInputError, match="geometry"):
            use()


@pytest.mark.parametrize(
    ("kind", "value"),
    [("integer", 2**31), ("decimal(3,1)", Decimal("1.23")), ("decimal(3,1)", Decimal(100)), ("string", 7)],
)
def test_a_value_that_does_not_fit_its_type_is_not_written(kind: str, value: Any) -> None:
    with pytest.raises(InvalidInputError):
        encode(row(kind), (value,))
