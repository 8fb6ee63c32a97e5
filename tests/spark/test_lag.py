"""How far behind a query is, from Spark's progress reports. With a real broker: tests/ground/kafka.py."""

from __future__ import annotations

import json

from airflow_provider_streamupdate.streaming.engine.queries import rows_arriving, rows_behind

FILES = {"endOffset": '{"logOffset":3}', "latestOffset": "null", "metrics": {}}


def kafka(latest: dict, read: dict, average: str) -> dict:
    offsets = {"startOffset": "null", "latestOffset": json.dumps(latest), "endOffset": json.dumps(read)}
    return {**offsets, "metrics": {"avgOffsetsBehindLatest": average}}


def test_rows_behind_are_those_of_all_partitions_and_topics() -> None:
    a = kafka({"a": {"0": 130, "1": 120, "2": 111}}, {"a": {"0": 11, "1": 10, "2": 9}}, "110.3")
    b = kafka({"b": {"0": 5}, "c": {"0": 7, "1": 9}}, {"b": {"0": 5}, "c": {"0": 7, "1": 2}}, "2.3")
    assert rows_behind({"sources": [a]}, ["one"]) == {"one": 331}
    assert rows_behind({"sources": [a, b]}, ["one", "two"]) == {"one": 331, "two": 7}
    assert rows_behind({"sources": [FILES, b]}, ["one", "two", "one"]) == {"two": 7}
    assert rows_behind({"sources": [kafka({"a": {"0": 3}}, {"a": {"0": 3}}, "0.0")]}, ["one"]) == {"one": 0}


def test_what_a_source_does_not_say_is_not_known() -> None:
    assert rows_behind({"sources": [FILES]}, ["one"]) == {}
    assert rows_behind({"sources": []}, ["one"]) == {}
    for strange in ('"shard-7:12"', "None", '{"shard": 7}'):
        metrics = {"avgOffsetsBehindLatest": "3"}
        report = {"sources": [{"endOffset": strange, "latestOffset": strange, "metrics": metrics}]}
        assert rows_behind(report, ["one"]) == {}


def test_rows_that_arrive_are_told_by_source() -> None:
    one, two = {"inputRowsPerSecond": 12.5}, {"inputRowsPerSecond": 0}
    assert rows_arriving({"sources": [one, two]}, ["a", "b", "a"]) == {"a": 12.5, "b": 0.0}
    assert rows_arriving({"sources": [one, two]}, ["a"]) == {}  # it is not known which is which
    for unknown in ({}, {"inputRowsPerSecond": None}, {"inputRowsPerSecond": float("nan")}):
        assert rows_arriving({"sources": [one, unknown]}, ["a", "b"]) == {"a": 12.5}
    assert rows_arriving({}, []) == {}
