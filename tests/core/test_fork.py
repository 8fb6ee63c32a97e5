"""What a fork may do, by two plans; the rules one by one are in test_rules.py."""

from __future__ import annotations

import pytest

from airflow_provider_streamupdate.core.compatibility.fork import compare_fork
from airflow_provider_streamupdate.core.compatibility.report import CompatibilityReport
from airflow_provider_streamupdate.core.errors import InvalidInputError
from airflow_provider_streamupdate.core.plan.plan import AppPlan, QueryPlan, SinkPlan, SourcePlan

from .builders import app_plan, query_plan, stage_plan


def writing(format: str, **options: str) -> QueryPlan:
    return query_plan(sink=SinkPlan(format=format, options=options))


def forked(old: QueryPlan, new: QueryPlan, *agree: str, beside: tuple[AppPlan, ...] = ()) -> CompatibilityReport:
    return compare_fork(app_plan(old), app_plan(new, app="trial"), "snapshot s1", agree, beside)


def verdict(report: CompatibilityReport) -> str:
    [item] = [i for i in report.items if i.name == "windows:fork"]
    return item.verdict


def test_a_fork_that_is_another_app_and_writes_elsewhere_needs_no_agreement() -> None:
    report = forked(writing("kafka", topic="x"), writing("kafka", topic="y"))
    assert report.compatible and report.app == "trial"
    assert [i.name for i in report.items if i.rules == ("fork.identity",)] == ["windows:fork"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (writing("kafka", topic="x"), writing("kafka", topic="x"), "carried with loss"),
        (writing("delta", path="/t"), writing("delta", path="/t"), "carried with loss"),
        (writing("delta", path="/t"), writing("delta", path="/u"), "carried"),
        (writing("foreachBatch"), writing("foreachBatch"), "carried with loss"),
        (writing("json", path="/x"), writing("json", path="/x"), "refused"),
        (writing("json", path="/x"), writing("json", path="/y"), "refused"),
        (writing("console"), writing("console"), "carried"),
    ],
)
def test_a_fork_s_sink(old: QueryPlan, new: QueryPlan, expected: str) -> None:
    assert verdict(forked(old, new)) == expected


def test_a_fork_that_removes_what_the_other_reads_needs_agreement() -> None:
    def reading(clean: str, location: str = "/in") -> QueryPlan:
        source = SourcePlan(
            name="source-1", named=False, format="json", location=location, options={"cleansource": clean}
        )
        return query_plan(sources=(source,))

    assert verdict(forked(reading("off"), reading("delete"))) == "carried with loss"
    assert verdict(forked(reading("off"), reading("off"))) == "carried"
    assert verdict(forked(reading("off", "/elsewhere"), reading("delete"))) != "carried with loss"


def test_agreement_is_to_the_fork_by_its_name() -> None:
    both = writing("foreachBatch"), writing("foreachBatch")
    report = forked(*both)
    assert not report.compatible and "agree to it with --agree windows:fork" in report.problems[0]
    assert forked(*both, "windows:fork").compatible
    with pytest.raises(InvalidInputError, match="agreed losses windows:fork, x are not losses"):
        forked(writing("console"), writing("console"), "windows:fork", "x")


def test_what_the_forked_app_writes_to_now_counts_as_well() -> None:
    moved = app_plan(writing("kafka", topic="new"))
    old, new = writing("kafka", topic="old"), writing("kafka", topic="new")
    assert verdict(forked(old, new)) == "carried"
    assert verdict(forked(old, new, beside=(moved,))) == "carried with loss"


def test_a_fork_s_stages_are_judged_like_any_others() -> None:
    other = query_plan(stage_plan(definition={"keys": ["source-1.dest"], "aggregates": ["count(1)"]}))
    assert not forked(query_plan(), other).compatible
    assert any(i.name == "windows/daily" and i.verdict == "refused" for i in forked(query_plan(), other).items)
