"""What runs again when a version starts from an older snapshot, in the place of the current one."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from airflow_provider_streamupdate.core.compatibility.report import CompatibilityReport
from airflow_provider_streamupdate.core.errors import InvalidInputError
from airflow_provider_streamupdate.core.plan.plan import QueryPlan, SinkPlan
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.snapshots.repeated_batches import batches_again, other_losses, with_again

from .builders import app_plan, live_snapshot, query_plan, spec

BATCHES = {"windows": "batches 10 to 14"}


def writing(format: str, **options: str) -> QueryPlan:
    return query_plan(sink=SinkPlan(format=format, options=options))


def function(seen_batch: str) -> QueryPlan:
    return query_plan(sink=SinkPlan(format="foreachBatch", seen_batch=seen_batch))


def judged(old: QueryPlan, new: QueryPlan, *agree: str) -> CompatibilityReport:
    report = CompatibilityReport(app="flights", source="snapshot s1", items=())
    return with_again(report, app_plan(old), app_plan(new), BATCHES, agree)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (writing("json", path="/x"), writing("json", path="/x"), "refused"),
        (writing("delta", path="/t"), writing("delta", path="/t"), "refused"),
        (writing("iceberg", path="t"), writing("iceberg", path="t"), "refused"),
        (writing("delta", path="/t"), writing("delta", path="/u"), "carried"),
        (writing("kafka", topic="x"), writing("kafka", topic="x"), "carried with loss"),
        (writing("kafka", topic="x"), writing("kafka", topic="y"), "carried"),
        (writing("foreachBatch"), writing("foreachBatch"), "carried with loss"),
        (writing("foreachBatch"), function("replaces"), "carried with loss"),
        (writing("foreachBatch"), function("upserts"), "carried with loss"),
        (writing("foreachBatch"), function("skips"), "refused"),
        (writing("kafka", topic="x"), writing("foreachBatch"), "carried with loss"),
        (writing("kafka", topic="x"), function("skips"), "carried with loss"),  # it has had none of them
        (writing("noop"), writing("noop"), "carried"),
    ],
)
def test_what_a_sink_does_with_batches_it_had(old: QueryPlan, new: QueryPlan, expected: str) -> None:
    [item] = judged(old, new).items
    assert (item.name, item.verdict) == ("windows:again", expected)
    assert item.reason.startswith("batches 10 to 14 run again, maybe with other rows in each: ")


def test_the_command_that_agrees_can_be_copied_where_the_query_s_name_has_spaces() -> None:
    query = attrs.evolve(writing("foreachBatch"), name="per hour")
    report = CompatibilityReport(app="flights", source="snapshot s1", items=())
    report = with_again(report, app_plan(query), app_plan(query), {"per hour": "batches 1 to 2"}, ())
    assert "agree to it with --agree 'per hour:again'" in report.problems[0]


def test_agreement_is_to_a_query_s_batches_by_name() -> None:
    both = writing("foreachBatch"), writing("foreachBatch")
    assert "agree to it with --agree windows:again" in judged(*both).problems[0]
    assert judged(*both, "windows:again", "windows/daily").compatible
    assert other_losses(("windows:again", "windows/daily")) == ("windows/daily",)
    with pytest.raises(InvalidInputError, match="windows:again are not losses"):
        judged(writing("noop"), writing("noop"), "windows:again")


@pytest.fixture
def app(tmp_path: Path) -> AppRegistry:
    """Version v1 has committed batches 0 to 9, v2, which goes on under the same query id, up to 14."""
    made = Registry(str(tmp_path)).app("flights")
    for deployment, query_id, batches in (("v1", "id", 10), ("v2", "id", 15), ("v3", "other", 99)):
        made.create_deployment(spec(app="flights", deployment=deployment))
        checkpoint = made.checkpoint(deployment, "windows")
        checkpoint.write("metadata", f'{{"id":"{query_id}"}}'.encode())
        checkpoint.write(f"commits/{batches - 1}", b"v1\n{}")
    return made


def test_batches_again_are_those_since_the_snapshot_under_its_query_id(app: AppRegistry) -> None:
    assert batches_again(app, live_snapshot(), running=False) == BATCHES
    assert batches_again(app, live_snapshot(), running=True) == {"windows": "all batches from 10 on"}
    assert batches_again(app, live_snapshot(batch=14), running=False) == {}
    assert batches_again(app, live_snapshot(batch=14), running=True) == {"windows": "all batches from 15 on"}
    assert batches_again(app, live_snapshot(query_id="c"), running=True) == {}
    assert batches_again(app, live_snapshot(batch=-1), running=True) == {}
