"""What tables answer when they are asked for the rows that come next."""

from __future__ import annotations

import pytest

from airflow_provider_streamupdate.core.compatibility.rules import judge, worst
from airflow_provider_streamupdate.core.compatibility.rules.sources.next_input import (
    INPUT_RULES,
    MISSING_FILE,
    NextInput,
    askable,
)
from airflow_provider_streamupdate.core.plan.plan import SourcePlan


def table(format: str = "delta", **options: str) -> SourcePlan:
    return SourcePlan(name="orders", named=True, format=format, location="file:/tables/orders", options=options)


# As Delta 4.4 and Iceberg 1.12 say it (tests/ground/table_source.py).
ANSWERS = [
    "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE: The streaming query was reading from",
    'Cannot invoke "java.lang.Long.longValue()" because the return value of "org.apache.iceberg.Snapshot.parentId()'
    '" is null',
    "DELTA_MISSING_FILES_UNEXPECTED_VERSION: The stream from your Delta table was expecting",
    f"{MISSING_FILE}: file:/tables/orders/part-0.parquet",
    "org.apache.hadoop.security.AccessControlException: Permission denied",
    "",
]


@pytest.mark.parametrize("problem", ANSWERS)
def test_answers_of_tables(problem: str) -> None:
    [found] = judge(INPUT_RULES, NextInput(source=table(), problem=problem))
    assert (found.id, found.verdict) == ("input.refused", "refused")
    assert problem in found.reason and "file:/tables/orders" in found.reason


@pytest.mark.parametrize("option", ["schematrackinglocation", "schemalocation"])
def test_a_table_with_a_log_of_schemas_is_not_asked(option: str) -> None:
    source = table(**{option: "/checkpoints/schemas"})
    assert not askable(source)
    found = judge(INPUT_RULES, NextInput(source=source))
    assert [f.id for f in found] == ["input.tracked"] and worst(found) == "carried"


@pytest.mark.parametrize(
    ("format", "asked"),
    [("delta", True), ("iceberg", True), ("org.apache.iceberg.spark.source.IcebergSource", True), ("kafka", False),
     ("json", False), ("hudi", False), ("rate", False), ("my.own.Delta2", False)],
)  # fmt: skip
def test_which_sources_are_asked(format: str, asked: bool) -> None:
    assert askable(table(format)) is asked
