"""The sink of files before and after: its columns, its options, and how its format is written."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.compatibility.verdict import ReportItem
from airflow_provider_streamupdate.core.plan.plan import JVM_ZONE, TIME_ZONE, SinkPlan

from .builders import app_plan, query_plan


def item(old: SinkPlan, new: SinkPlan) -> ReportItem:
    [found] = [i for i in compare(*(app_plan(query_plan(sink=s)) for s in (old, new)), "s1").items if i.thing == "sink"]
    return found


def sink(format: str, columns: str | None = None, *partitions: str, **options: str) -> SinkPlan:
    """columns: ``name:type``, with spaces between them"""
    pairs = None if columns is None else tuple(tuple(c.split(":", 1)) for c in columns.split())
    location = {"location": "file:/out", "partitioned_by": partitions}
    return SinkPlan(format=format, columns=pairs, options=options, **location)


@pytest.mark.parametrize(
    ("format", "old", "new", "asked"),
    [
        ("csv", "k:string a:integer", "k:string a:integer", ""),
        ("csv", "k:string a:integer b:integer", "k:string b:integer a:integer", "the order from k, a, b to k, b, a"),
        ("csv", "k:string a:integer", "k:string z:integer", "the order from k, a to k, z"),
        ("csv", "k:string a:integer", "k:string", "the order from k, a to k"),
        ("csv", "k:string", "k:string a:integer", ""),
        ("csv", "k:string a:integer", "k:string a:string", "a from int to string"),
        ("csv", "k:string a:integer", "k:string a:long", ""),
        ("text", "value:string", "line:string", "the order from value to line"),
        ("parquet", "k:string a:integer", "a:integer k:string", ""),
        ("parquet", "k:string a:integer", "k:string b:integer", ""),
        ("parquet", "k:string a:integer", "k:string a:long", ""),
        ("parquet", "k:string a:long", "k:string a:integer", "a from bigint to int"),
        ("json", "a:timestamp", "a:string", "a from timestamp to string"),
        ("orc", "a:decimal(5,2)", "a:decimal(7,2)", ""),
    ],
)
def test_columns_of_files(format: str, old: str, new: str, asked: str) -> None:
    found = item(sink(format, old), sink(format, new))
    assert found.needs_agreement == bool(asked) and asked in found.reason
    assert ("sink.columns" in found.rules) == bool(asked)


@pytest.mark.parametrize("format", ["json", "JSON", "org.apache.spark.sql.execution.datasources.json.JsonFileFormat"])
def test_a_format_written_otherwise_is_the_same(format: str) -> None:
    found = item(sink("json"), sink(format))
    assert (found.verdict, found.rules) == ("carried", ("sink.same",))
    assert item(SinkPlan(format="com.acme.Sink"), SinkPlan(format="org.acme.Sink")).needs_agreement


def test_what_is_written_otherwise_is_the_same() -> None:
    for options in ({"sep": ","}, {"delimiter": ","}, {"header": "FALSE"}, {"compression": "gzip"}):
        assert item(sink("csv"), sink("csv", **options)).verdict == "carried", options
    assert item(sink("csv", sep=";"), sink("csv", delimiter=";")).verdict == "carried"
    for options in ({"sep": ";"}, {"delimiter": ";"}, {"header": "true"}, {"nullvalue": " "}):
        found = item(sink("csv"), sink("csv", **options))
        assert found.needs_agreement and "sink.file-options" in found.rules, options
    # a column that files are partitioned by has no place in them
    found = item(sink("csv", "k:string a:integer", "k"), sink("csv", "a:integer k:string", "k"))
    assert found.verdict == "carried"
    # an option that says what the session said is no change
    plain = sink("csv", "k:string ts:timestamp", **PLAIN)
    given = sink("csv", "k:string ts:timestamp", **PLAIN, timezone="UTC")
    assert not under(plain, given, UTC, TOKYO).needs_agreement
    assert not under(plain, given, UTC, UTC).needs_agreement
    assert under(plain, given, TOKYO, TOKYO).rules[-2:] == ("sink.file-options", "sink.zone")


UTC, TOKYO = {TIME_ZONE: "UTC", JVM_ZONE: "UTC"}, {TIME_ZONE: "Asia/Tokyo", JVM_ZONE: "Asia/Tokyo"}


def under(old: SinkPlan, new: SinkPlan, before: dict[str, str], after: dict[str, str]) -> ReportItem:
    """Of a query without state."""
    plans = (
        app_plan(attrs.evolve(query_plan(sink=sink, conf=conf), stages=()))
        for sink, conf in ((old, before), (new, after))
    )
    [found] = [i for i in compare(*plans, "s1").items if i.thing == "sink"]
    return found


PLAIN = {"timestampformat": "yyyy-MM-dd HH:mm:ss"}
ARRAY = {"type": "array", "elementType": "timestamp", "containsNull": True}
NESTED = {"type": "struct", "fields": [{"name": "timestamp", "type": "string"}, {"name": "a", "type": ARRAY}]}
NAMED = {"type": "struct", "fields": [{"name": "timestamp", "type": "string"}]}


@pytest.mark.parametrize(
    ("format", "kind", "partitions", "options", "asked"),
    [
        ("parquet", "timestamp", ("ts",), {}, True),
        ("json", "timestamp", ("ts",), {}, True),
        ("parquet", "timestamp", (), {}, False),
        ("parquet", "timestamp_ntz", ("ts",), {}, False),
        ("parquet", "date", ("ts",), {}, False),
        ("csv", "timestamp", (), {}, False),
        *((format, "timestamp", (), PLAIN, True) for format in ("csv", "json", "xml")),
        ("parquet", "timestamp", (), PLAIN, False),
        ("json", NESTED, (), PLAIN, True),
        ("json", NAMED, (), PLAIN, False),
        ("csv", "timestamp_ntz", (), PLAIN, False),
        ("csv", "string", (), PLAIN, False),
        ("csv", "timestamp", (), {"timestampformat": "yyyy-MM-dd HH:mm:ssXXX"}, False),
        ("csv", "timestamp", (), {"timestampformat": "yyyy-MM-dd HH:mm:ss VV"}, False),
        ("csv", "timestamp", (), {"timestampformat": "yyyy-MM-dd'Z'HH:mm:ss"}, True),
        ("csv", "timestamp", (), {**PLAIN, "timezone": "UTC"}, False),
        ("parquet", "timestamp", ("ts",), {"timezone": "UTC"}, False),
        ("orc", "timestamp", (), {}, True),
        ("orc", "timestamp_ntz", (), {"timezone": "UTC"}, True),
        ("orc", ARRAY, (), {}, True),
        ("orc", "date", (), {}, False),
    ],
)
def test_a_zone_counts_where_times_do_not_say_theirs(
    format: str, kind: Any, partitions: tuple[str, ...], options: dict[str, str], asked: bool
) -> None:
    columns = (("k", "string"), ("ts", kind))
    made = attrs.evolve(sink(format, "", *partitions, **options), columns=columns)
    found = under(made, made, UTC, TOKYO)
    assert (found.needs_agreement, "sink.zone" in found.rules) == (asked, asked)
    assert not asked or (
        "(ts)" in found.reason and "in the zone UTC, and will be written in Asia/Tokyo" in found.reason
    )
    for other in (UTC, {}):
        assert not under(made, made, other, UTC).needs_agreement
    assert not under(attrs.evolve(made, columns=None), made, UTC, TOKYO).needs_agreement
