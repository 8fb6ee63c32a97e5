"""Differences between expected and found rows, and reading what the sinks wrote."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from scripts.demolib.comparison import compare, sink_rows


def test_equal_rows_have_no_differences():
    result = compare(Counter(["a", "a", "b"]), Counter(["b", "a", "a"]))
    assert (result.expected, result.found, result.differences) == (3, 3, 0)


def test_rows_are_compared_as_multisets():
    result = compare(Counter(["a", "a", "b"]), Counter(["a", "c", "b", "b"]))
    assert result.missing == ["a"]
    assert result.unexpected == ["b", "c"]
    assert result.differences == 3
    assert result.examples(1) == ["missing:    a", "unexpected: b"]


def test_sink_rows_come_in_the_order_of_the_batches_without_unfinished_files(tmp_path: Path):
    (tmp_path / "batch=10.json").write_text('{"n": 3}\n')
    (tmp_path / "batch=9.json").write_text('{"n": 1}\n{"n": 2}\n')
    (tmp_path / "batch=8.json").write_text("")
    (tmp_path / "batch=11.json.77.tmp").write_text('{"n": ')
    assert list(sink_rows(tmp_path)) == [{"batch": 9, "n": 1}, {"batch": 9, "n": 2}, {"batch": 10, "n": 3}]
