"""What is asked of a comparison of rows, and what was recorded for it, as files."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.control.update.options import UpdateOptions
from airflow_provider_streamupdate.control.update.strategies import strategy_named
from airflow_provider_streamupdate.core.difference.comparison import NEW, OLD, Comparison, note_rows, rows_of
from airflow_provider_streamupdate.core.difference.request import (
    ComparisonRequest,
    ExpectedDifference,
    ExpectedDifferences,
)
from airflow_provider_streamupdate.core.difference.row_difference import RowDifference
from airflow_provider_streamupdate.core.errors import InvalidInputError
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.storage import Folder


@pytest.fixture
def comparison(tmp_path) -> Comparison:
    return Comparison(Folder.open(str(tmp_path)))


def record(comparison: Comparison, version: str, batch: int, where: str) -> None:
    rows = comparison.rows(version, "q")
    rows.write(f"{where}/part-0.parquet", b"rows")
    note_rows(rows, batch, where)


def test_a_batch_is_there_once_it_was_noted_and_stays_while_it_is_recorded_again(comparison: Comparison) -> None:
    """Found from outside: a new version that was started again replaced the rows that were being read."""
    old, new = (comparison.rows(version, "q") for version in (OLD, NEW))
    record(comparison, OLD, 7, "7-a")
    new.write("7-b/part-0.parquet", b"half of the rows")
    assert comparison.recorded("q") == []
    note_rows(new, 7, "7-b")
    assert comparison.recorded("q") == [7] and (rows_of(old, 7), rows_of(new, 7)) == ("7-a", "7-b")
    record(comparison, NEW, 7, "7-c")
    assert rows_of(new, 7) == "7-c" and new.exists("7-b/part-0.parquet"), "whoever reads it is not disturbed"
    record(comparison, NEW, 8, "8-d")
    comparison.add(RowDifference(query="q", equal=1, batches=(7,)))
    assert comparison.recorded("q") == []
    comparison.remove_compared("q")
    assert old.names() == [] and sorted(new.names()) == ["7-b", "8", "8-d"]
    record(comparison, OLD, 8, "8-e")
    assert comparison.recorded("q") == [8]
    for batch in (5, 6, 9):
        record(comparison, NEW, batch, f"{batch}-f")
    comparison.remove_compared("q")
    assert sorted(new.names()) == ["7-b", "8", "8-d", "9", "9-f"], "what is from before the first of the old is gone"
    comparison.add(RowDifference(query="q", changed=2, batches=(8, 9)))
    assert comparison.findings() == {"q": RowDifference(query="q", equal=1, changed=2, batches=(7, 8, 9))}
    comparison.remove_rows()
    assert comparison.recorded("q") == [] and comparison.compared("q") == {7, 8, 9}


def test_another_question_is_answered_anew(comparison: Comparison) -> None:
    first = ComparisonRequest(keys={"q": ()})
    assert not comparison.replaces(first)
    comparison.ask(first)
    record(comparison, OLD, 7, "7-a")
    comparison.add(RowDifference(query="q", equal=1, batches=(6,)))
    assert not comparison.replaces(first)
    comparison.ask(first)  # a rerun
    assert comparison.compared("q") == {6} and comparison.rows(OLD, "q").names()
    assert comparison.replaces(None)
    comparison.ask(None)
    assert comparison.request() is None and comparison.findings() == {}
    assert comparison.rows(OLD, "q").names() == []
    comparison.ask(None)
    comparison.ask(first)
    others: list[dict[str, Any]] = [{"keys": {"q": ("k",)}}, {"keys": {"q": ()}, "tolerance": 0.1}, {"keys": {"r": ()}}]
    for other in (ComparisonRequest(**each) for each in others):
        assert comparison.replaces(other)
        comparison.ask(other)
        assert comparison.request() == other and comparison.findings() == {}
        assert comparison.rows(OLD, "q").names() == []


def test_what_the_author_expects() -> None:
    rows, column = ExpectedDifference(query="q", where="n < 5"), ExpectedDifference(query="q", column="id")
    expected = ExpectedDifferences(differences=(rows, column, ExpectedDifference(query="r", column="at")))
    assert (expected.predicates("q"), expected.columns("q")) == (["n < 5"], ["id"])
    assert (expected.predicates("r"), expected.columns("r")) == ([], ["at"])
    for wrong, words in (
        ({}, "is no condition"),
        ({"where": " "}, "is no condition"),
        ({"column": ""}, "is no name of a column"),
        ({"column": 1}, "is no name of a column"),
        ({"where": "n < 5", "column": "id"}, "call expect_difference twice"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            ExpectedDifference(query="q", **wrong)


def test_a_tolerance_needs_rows_that_are_paired(tmp_path) -> None:
    def asked(*diff: str, tolerance: str | None) -> ComparisonRequest:
        application = Application(file=str(tmp_path / "app.py"))
        options = UpdateOptions(application=application, strategy="follow", diff=diff, diff_tolerance=tolerance)
        return options.comparison_request

    (tmp_path / "app.py").write_text("")
    assert asked("q=k", tolerance="0.01%") == ComparisonRequest(keys={"q": ("k",)}, tolerance=0.0001)
    assert asked("q=k", "r", tolerance=None) == ComparisonRequest(keys={"q": ("k",), "r": ()})
    for diff, tolerance, words in (
        (("q",), "1%", "has no columns by which rows are paired"),
        (("q=k", "r"), "1%", "write r=COLUMN"),
        (("q=k",), "-1", "is no number of 0 or more"),
        (("q=k",), "5", "write 5%"),
        (("q=k",), "150%", "must be less than 100%"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            asked(*diff, tolerance=tolerance)
    alone = UpdateOptions(application=Application(file=str(tmp_path / "app.py")), diff_tolerance="1%")
    for strategy, words in (("follow", "give --diff"), ("standby", "--diff-tolerance, or use strategy follow")):
        with pytest.raises(InvalidInputError, match=words):
            strategy_named(strategy).accept(attrs.evolve(alone, strategy=strategy))
