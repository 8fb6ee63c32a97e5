"""A field of a parsed text is a field: another one in the schema of from_json changes no stage that does not read it.

By Spark itself: the same fields of the same texts, by schemas with and without others beside them. And by plans: which
versions are carried, and which are not because their fields depend on each other.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from pairs import Ground, Version, verdict
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from airflow_provider_streamupdate.streaming import stage

FIELDS = "k string, n int, at timestamp, s struct<x: int, y: string>, items array<struct<sku: string, n: int>>, "
ONE = FIELDS + "m map<string, struct<q: int>>"
MORE = "coupon string, " + ONE.replace("y: string", "y: string, z: int").replace(
    "sku: string", "tax: double, sku: string"
)
MORE = MORE.replace("q: int", "q: int, w: int") + (
    ", late boolean, d decimal(4,1), b binary, day date, ntz timestamp_ntz, l long, f float, h short, y byte, "
    "list array<int>, counts map<string, int>, whole struct<a: struct<b: array<double>>>"
)


def parsed(schema: str, **options: str) -> Callable[[Ground], DataFrame]:
    return lambda g: g.read().select(F.from_json("v", schema, options).alias("p"))


def key(text: str, **options: str) -> Callable[[str], Version]:
    return lambda schema: lambda g: stage("t", parsed(schema, **options)(g).groupBy(F.expr(text).alias("key")).count())


def of_fields(build: Callable[[DataFrame], DataFrame]) -> Callable[[str], Version]:
    return lambda schema: lambda g: stage("t", build(parsed(schema)(g).select("p.*")))


def exploded(rows: DataFrame) -> DataFrame:
    return rows.select("k", F.explode("items").alias("i")).groupBy("i.sku").agg(F.sum("i.n"))


def windowed(rows: DataFrame) -> DataFrame:
    timed = rows.withWatermark("at", "1 hour").where("n > 1")
    return timed.groupBy(F.window("at", "10 minutes"), "k").agg(F.sum("n"))


CARRIED = {
    "a field": key("p.k"),
    "a field of a struct": key("p.s.x"),
    "a field of all elements": key("p.items.sku"),
    "a field of an element": key("p.items[0].sku"),
    "a field of a map's value": key("p.m['a'].q"),
    "by a lambda function": key("transform(p.items, i -> i.sku)"),
    "whether it is there": key("p is null"),
    "how many": key("size(p.items)"),
    "with options of values": key("p.at", timestampFormat="yyyy", mode="permissive"),
    "a window over fields": of_fields(windowed),
    "a deduplication": of_fields(lambda rows: rows.withWatermark("at", "1 hour").dropDuplicates(["k", "at"])),
    "exploded elements": of_fields(exploded),
    "an exploded map": of_fields(lambda rows: rows.select(F.explode("m")).groupBy("value.q").count()),
}
ASKED = {
    "the whole": key("to_json(p)"),
    "all elements": key("to_json(p.items)"),
    "any that fails": key("p.k", mode="FAILFAST"),
    "an option that is not known": key("p.k", maxNestingDepth="10"),
    # with an option, or Spark leaves the column out by itself
    "a type that may spoil the others": lambda schema: key("p.k", lineSep=",")(
        schema + (", w variant" if "late" in schema else "")
    ),
    "a column of corrupt records": lambda schema: key("p.k", lineSep=",")(schema + ", _corrupt_record string"),
}


@pytest.fixture
def ground(spark, tmp_path) -> Ground:
    return Ground(spark, tmp_path)


@pytest.mark.parametrize("name", CARRIED)
def test_another_field_beside_those_that_are_read_changes_nothing(ground: Ground, name: str) -> None:
    old, new = (ground.plan(CARRIED[name](schema)) for schema in (ONE, MORE))
    assert (verdict(old, new), verdict(new, old)) == ("carried", "carried")


COLUMNS = "k string, n int, at timestamp"
MORE_COLUMNS = ", coupon string, d decimal(4,1), late boolean, l long, day date, f float"


def of_csv(text: str, **options: str) -> Callable[[str], Version]:
    return lambda schema: (
        lambda g: stage(
            "t", g.read().select(F.from_csv("v", schema, options).alias("p")).groupBy(F.expr(text).alias("key")).count()
        )
    )


@pytest.mark.parametrize(
    ("build", "new", "verdicts"),
    [
        (of_csv("p.k"), COLUMNS + MORE_COLUMNS, {"carried"}),
        (of_csv("concat(p.k, p.n)", sep=";"), COLUMNS + MORE_COLUMNS, {"carried"}),
        (of_csv("p.k"), f"coupon string, {COLUMNS}", {"asked", "refused"}),
        (of_csv("p.k", mode="FAILFAST"), COLUMNS + MORE_COLUMNS, {"asked", "refused"}),
        (of_csv("to_csv(p)"), COLUMNS + MORE_COLUMNS, {"asked", "refused"}),
    ],
    ids=["a field", "with an option", "in front", "any that fails", "the whole"],
)
def test_a_column_of_csv_behind_those_that_are_read_changes_nothing(
    ground: Ground, build: Callable[[str], Version], new: str, verdicts: set[str]
) -> None:
    old, now = (ground.plan(build(schema)) for schema in (COLUMNS, new))
    assert {verdict(old, now), verdict(now, old)} <= verdicts


@pytest.mark.parametrize("pruned", ["true", "false"])
def test_a_value_of_csv_does_not_depend_on_the_columns_behind_it(ground: Ground, pruned: str) -> None:
    """Of cut-off texts, unbalanced quotes and malformed values as well."""
    chance = random.Random(5)
    values = [["a", "", '"q,""x"', "un\u00e9"], ["1", "no", ""], ["2020-01-05T01:02:03Z", "no"], ["c", '"', "a\nb"]]
    values += [["1.5", "1e9"], ["true", "no"], ["99999999999", "1e99"], ["2020-01-05", "x"], ["NaN", "no"], ["zz"]]
    lines = [",".join([chance.choice(v) for v in values][: chance.randint(0, len(values))]) for _ in range(800)]
    rows = ground.spark.createDataFrame(list(enumerate(lines)), "i int, v string")
    ground.spark.conf.set("spark.sql.csv.parser.columnPruning.enabled", pruned)
    one, more = (
        rows.select("i", F.from_csv("v", schema).alias("p")).select("i", "p.k", "p.n", "p.at").sort("i").collect()
        for schema in (COLUMNS, COLUMNS + MORE_COLUMNS)
    )
    assert one == more and len({tuple(row[1:]) for row in one}) > 10


def test_another_field_of_from_xml_is_asked_about(ground: Ground) -> None:
    """A malformed value takes the fields beside it along."""

    def version(schema: str) -> Version:
        parsed = F.from_xml("v", schema).alias("p")
        return lambda g: stage("t", g.read().select(parsed).groupBy("p.k").count())

    one, same, more = (ground.plan(version(schema)) for schema in ("k string", "k string", "k string, n int"))
    assert verdict(one, same) == "carried" and verdict(one, more) in ("asked", "refused")


@pytest.mark.parametrize("name", ASKED)
def test_a_field_counts_where_all_are_read_or_where_they_depend_on_each_other(ground: Ground, name: str) -> None:
    old, new, again = (ground.plan(ASKED[name](schema)) for schema in (ONE, MORE, MORE))
    assert verdict(old, new) in ("asked", "refused")
    assert verdict(new, again) == "carried"


def test_another_type_of_a_field_that_is_read_counts(ground: Ground) -> None:
    for text, was, now in (("p.s.x", "x: int", "x: string"), ("size(p.items)", "items array", "items struct<a: array")):
        changed = ONE.replace(was, now).replace("n: int>>, m", "n: int>>>, m" if "struct<a" in now else "n: int>>, m")
        other = text.replace("p.items", "p.items.a") if "struct<a" in now else text
        old, new = (
            ground.plan(key(f"cast({text} as string)")(ONE)),
            ground.plan(key(f"cast({other} as string)")(changed)),
        )
        assert verdict(old, new) in ("asked", "refused")


def test_without_partial_results_fields_depend_on_each_other(ground: Ground) -> None:
    ground.spark.conf.set("spark.sql.json.enablePartialResults", "false")
    old, new = (ground.plan(key("p.s.x")(schema)) for schema in (ONE, MORE))
    assert verdict(old, new) in ("asked", "refused")


# Values of each field; of all of these any field gets some; and texts that are no JSON.
RIGHT = {
    "coupon": ['"c"', "null"],
    "k": ['"a"', '"un\\u00e9"', '""'],
    "n": ["1", "-7", "null"],
    "at": ['"2020-01-05T01:02:03Z"', '"2020-01-05"'],
    "s": ['{"x": 1, "y": "b", "z": 5}', '{"x": "no", "z": 3, "x": 4}', '{"y": "b", "z": "no"}'],
    "items": ['[{"sku": "s", "n": 1, "tax": 0.5}, {"sku": 2, "tax": "no"}, 7, null]', "[]"],
    "m": ['{"a": {"q": 1, "w": "no"}, "b": 3}', '{"a": {"q": 1, "w": 2}}'],
    "late": ["true", '"yes"'],
    "d": ["1.5", "123456.789", '"1.5"'],
    "b": ['"YWJj"', '"?"'],
    "day": ['"2020-01-05"', '"20/1"'],
    "ntz": ['"2020-01-05T01:02:03"', '"noon"'],
    "l": ["99999999999", "99999999999999999999"],
    "f": ["1e400", '"NaN"'],
    "h": ["70000"],
    "y": ["300", "1"],
    "list": ["[1, 2]", '[1, "no"]', "1"],
    "counts": ['{"a": 1, "b": "no"}'],
    "whole": ['{"a": {"b": [1, "no"]}}', '{"a": 1}'],
    "other": ["99999999999", "1e400", "1.5", "[1]", '"13/1/x"'],
    "K": ['"1"'],
}
VALUES = [value for values in RIGHT.values() for value in values]
BROKEN = ["NaN", "nul", "'single'", '"un\\q"', '"open', "{", "[1,", "01"]


def texts(chance: random.Random, count: int) -> list[str]:
    found = ["", " ", "null", "[]", "{}", "1", '"text"', "{}{}", "[{}]", '{"k": "a"} rest']
    for _ in range(count):
        names = [chance.choice([*RIGHT]) for _ in range(chance.randint(0, 14))]  # some twice
        values = [chance.choice(chance.choices([RIGHT[name], VALUES, BROKEN], [90, 8, 2])[0]) for name in names]
        text = "{" + ", ".join(f'"{name}": {value}' for name, value in zip(names, values, strict=True)) + "}"
        text = f"[{text}, {text}]" if chance.random() < 0.1 else text
        found.append(text[: chance.randrange(len(text))] if chance.random() < 0.15 else text)
    return found


def part(value: Any, like: Any) -> Any:
    """Return the fields of a value that another one has, too."""
    if isinstance(value, Row) and isinstance(like, Row):
        return {name: part(value[name], like[name]) for name in like.asDict()}
    if isinstance(value, dict) and isinstance(like, dict):  # a map
        return {name: part(inner, like.get(name)) for name, inner in value.items()}
    if isinstance(value, list) and isinstance(like, list) and len(value) == len(like):
        return [part(*pair) for pair in zip(value, like, strict=True)]
    return value


@pytest.mark.parametrize("options", [{}, {"timestampFormat": "yyyy-MM-dd"}, {"allowSingleQuotes": "false"}], ids=str)
def test_spark_gives_a_field_the_same_value_beside_others(spark, options: dict[str, str]) -> None:
    chance = random.Random(41)
    rows = spark.createDataFrame([(text,) for text in texts(chance, 2000)], "v string").repartition(1)
    schemas = {"old": ONE, "new": MORE, "s": "s struct<x: int, y: string>", "items": "items array<struct<sku: string>>"}
    told = rows.select("v", *(F.from_json("v", schema, options).alias(name) for name, schema in schemas.items()))
    differ, values = [], 0
    for row in told.collect():
        for name in ("old", "s", "items"):
            values += sum(value is not None for value in row[name] or ())
            if part(row[name], row[name]) != part(row["new"], row[name]) and is_json(row["v"]):
                differ.append((row["v"], row[name], row["new"]))
    assert not differ, (len(differ), json.dumps(differ[:3], default=str, indent=1))
    assert values > 2000


FORMATS = {"timestampFormat": "yyyy-MM-dd", "dateFormat": "dd/MM/yyyy", "timestampNTZFormat": "yyyy"}


@pytest.mark.parametrize("parser", ["json", "csv"])
def test_a_format_of_times_changes_no_other_value(spark, parser: str) -> None:
    chance = random.Random(7)
    kinds = "k string, day date, n int, at timestamp, d decimal(4,1), ntz timestamp_ntz, b boolean"
    values = ["x", "2020-01-05", "05/01/2020", "7", "", "2020-01-05T01:02:03Z", "1.5", "true", "2020"]
    names = [column.split()[0] for column in kinds.split(", ")]
    drawn = [[chance.choice(values) for _ in names] for _ in range(1500)]
    lines = [json.dumps(dict(zip(names, each, strict=True))) if parser == "json" else ",".join(each) for each in drawn]
    read = F.from_json if parser == "json" else F.from_csv
    rows = spark.createDataFrame([(line,) for line in lines], "v string")
    told = rows.select(read("v", kinds).alias("old"), read("v", kinds, FORMATS).alias("new")).collect()
    others = [name for name in names if name not in ("day", "at", "ntz")]
    assert [r for r in told if any(r["old"][name] != r["new"][name] for name in others)] == []
    assert all(any(r["old"][name] != r["new"][name] for r in told) for name in ("day", "at", "ntz"))


@pytest.mark.parametrize(
    ("text", "found"),
    [("p.k", "carried"), ("p.s.y", "carried"), ("p.at", "refused"), ("p", "refused")],
)
def test_a_format_counts_where_its_type_is_read(ground: Ground, text: str, found: str) -> None:
    old, new = (ground.plan(key(text, **options)(ONE)) for options in ({}, {"timestampFormat": "yyyy"}))
    assert (verdict(old, new), verdict(new, old)) == (found, found)


def is_json(text: str) -> bool:
    """Return whether a text is whole. Of another one Spark keeps what comes before the break only where it parses the
    value with the break, so that there other fields do matter (measured)."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
