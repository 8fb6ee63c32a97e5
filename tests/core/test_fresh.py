"""A start without state: what it means for what the queries write to."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_streamupdate.core.errors import InvalidInputError
from airflow_provider_streamupdate.core.plan.plan import QueryPlan, SinkPlan
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.serde import to_json
from airflow_provider_streamupdate.core.snapshots.fresh_start import (
    check_agreed,
    committed,
    compare_fresh,
    plans_before,
)

from .builders import app_plan, query_plan, spec


def writing(format: str, **options: str) -> QueryPlan:
    return query_plan(sink=SinkPlan(format=format, options=options))


@pytest.fixture
def app(tmp_path: Path) -> AppRegistry:
    return Registry(str(tmp_path)).app("flights")


def function(seen_batch: str) -> QueryPlan:
    return query_plan(sink=SinkPlan(format="foreachBatch", seen_batch=seen_batch))


def deploy(app: AppRegistry, deployment: str, query: QueryPlan, last: int | None, at: str = "2026-01-01") -> None:
    """A deployment that has committed batches up to `last`."""
    app.create_deployment(spec(app="flights", deployment=deployment, submitted_at=f"{at}T00:00:00+00:00"))
    app.deployment_folder(deployment).write("plan.json", to_json(app_plan(query)))
    if last is not None:
        app.checkpoint(deployment, query.name).write(f"commits/{last}", b"v1\n{}")


@pytest.mark.parametrize(
    ("old", "new", "logged", "expected"),
    [
        (None, writing("json", path="/x"), {}, "empty"),
        (None, writing("json", path="/x"), {"windows": 3}, "refused"),  # of a query that nothing here manages
        (writing("json", path="/x"), writing("json", path="/x"), {}, "empty"),  # the folder was emptied
        (writing("json", path="/x"), writing("json", path="/x"), {"windows": 0}, "refused"),
        (writing("json", path="/x"), writing("json", path="/x"), {"others": 3}, "empty"),
        (None, writing("foreachBatch"), {}, "empty"),
        (writing("kafka", topic="x"), writing("foreachBatch"), {}, "carried with loss"),
        (None, function("skips"), {}, "empty"),
        (writing("kafka", topic="x"), function("skips"), {}, "carried with loss"),
        (writing("foreachBatch"), function("skips"), {}, "refused"),
        (writing("foreachBatch"), function("replaces"), {}, "carried with loss"),
        (writing("foreachBatch"), function("upserts"), {}, "carried with loss"),
        (writing("noop"), writing("noop"), {}, "empty"),
        (writing("kafka", topic="x"), writing("kafka", topic="x"), {}, "carried with loss"),
        (writing("kafka", topic="x"), writing("kafka", topic="y"), {}, "empty"),
        (writing("delta", path="/t"), writing("delta", path="/t"), {}, "carried with loss"),
        (writing("hudi", path="/t"), writing("hudi", path="/t"), {}, "refused"),
        (writing("org.apache.hudi", path="/t"), writing("hudi", path="/u"), {}, "empty"),
    ],
)
def test_what_a_sink_does_with_a_start_from_batch_0(
    app: AppRegistry, old: QueryPlan | None, new: QueryPlan, logged: dict[str, int], expected: str
) -> None:
    if old is not None:
        deploy(app, "v1", old, last=4)
    [item] = compare_fresh(plans_before(app), app_plan(new), logged).items
    assert (item.name, item.verdict) == ("windows:fresh", expected)


def test_a_deployment_that_committed_nothing_and_one_that_came_later_wrote_nothing_before(app: AppRegistry) -> None:
    """The driver of v2 may be started again: what v3 has written since was judged when that started."""
    sink = writing("foreachBatch")
    deploy(app, "v1", sink, None, "2026-01-01")
    deploy(app, "v2", sink, None, "2026-01-02")
    deploy(app, "v3", sink, 7, "2026-01-03")
    assert committed(app, "v1") == {} and committed(app, "v3") == {"windows": 7}
    [item] = compare_fresh(plans_before(app, "v2"), app_plan(sink), {}).items
    assert item.verdict == "empty"
    [item] = compare_fresh(plans_before(app), app_plan(sink), {}).items
    assert item.verdict == "carried with loss"


def test_agreement_is_by_the_query_s_name(app: AppRegistry) -> None:
    deploy(app, "v1", writing("foreachBatch"), 4)
    new = app_plan(writing("foreachBatch"))
    report = compare_fresh(plans_before(app), new, {})
    assert not report.compatible and "agree to it with --agree windows:fresh" in report.problems[0]
    report = compare_fresh(plans_before(app), new, {}, ["windows:fresh", "windows/daily"])
    assert report.compatible
    check_agreed(report, ["windows:fresh", "windows/daily"])
    with pytest.raises(InvalidInputError, match="other:fresh are not losses"):
        check_agreed(report, ["windows:fresh", "other:fresh"])
