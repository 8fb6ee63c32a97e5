"""What a sink gets of rows that somebody wrote before: of a fork, of a start from an older snapshot, of a start without
state. An example of each rule is in test_rules.py."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.compatibility.report import CompatibilityReport
from airflow_provider_streamupdate.core.errors import InvalidInputError
from airflow_provider_streamupdate.core.plan.plan import AppPlan, QueryPlan, SinkPlan
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.serde import to_json
from airflow_provider_streamupdate.core.snapshots.fresh_start import (
    check_agreed,
    committed,
    compare_fresh,
    plans_before,
)
from airflow_provider_streamupdate.core.snapshots.repeated_batches import (
    add_replayed_batches,
    batches_again,
    other_losses,
)

from .builders import app_plan, live_snapshot, query_plan, spec


def writing(format: str, **options: str) -> QueryPlan:
    return query_plan(sink=SinkPlan(format=format, options=options))


def function(seen_batch: str) -> QueryPlan:
    return query_plan(sink=SinkPlan(format="foreachBatch", seen_batch=seen_batch))


def forked(old: QueryPlan, new: QueryPlan, *agree: str, beside: tuple[AppPlan, ...] = ()) -> CompatibilityReport:
    return compare(app_plan(old), app_plan(new, app="trial"), "snapshot s1", agree, beside=beside)


def verdict(report: CompatibilityReport) -> str:
    [item] = [i for i in report.items if i.name == "windows:fork"]
    return item.verdict


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


# What runs again when a version starts from an older snapshot, in the place of the current one


BATCHES = {"windows": "batches 10 to 14"}


def judged(old: QueryPlan, new: QueryPlan, *agree: str) -> CompatibilityReport:
    report = CompatibilityReport(app="flights", source="snapshot s1", items=())
    return add_replayed_batches(report, app_plan(old), app_plan(new), BATCHES, agree)


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


def test_agreement_is_to_a_query_s_batches_by_name() -> None:
    both = writing("foreachBatch"), writing("foreachBatch")
    assert "agree to it with --agree windows:again" in judged(*both).problems[0]
    assert judged(*both, "windows:again", "windows/daily").compatible
    assert other_losses(("windows:again", "windows/daily")) == ("windows/daily",)
    with pytest.raises(InvalidInputError, match="windows:again are not losses"):
        judged(writing("noop"), writing("noop"), "windows:again")
    # the command that agrees can be copied where the query's name has spaces
    query = attrs.evolve(writing("foreachBatch"), name="per hour")
    report = CompatibilityReport(app="flights", source="snapshot s1", items=())
    report = add_replayed_batches(report, app_plan(query), app_plan(query), {"per hour": "batches 1 to 2"}, ())
    assert "agree to it with --agree 'per hour:again'" in report.problems[0]


@pytest.fixture
def later(tmp_path: Path) -> AppRegistry:
    """Version v1 has committed batches 0 to 9, v2, which goes on under the same query id, up to 14."""
    made = Registry(str(tmp_path)).app("flights")
    for deployment, query_id, batches in (("v1", "id", 10), ("v2", "id", 15), ("v3", "other", 99)):
        made.create_deployment(spec(app="flights", deployment=deployment))
        checkpoint = made.checkpoint(deployment, "windows")
        checkpoint.write("metadata", f'{{"id":"{query_id}"}}'.encode())
        checkpoint.write(f"commits/{batches - 1}", b"v1\n{}")
    return made


def test_batches_again_are_those_since_the_snapshot_under_its_query_id(later: AppRegistry) -> None:
    assert batches_again(later, live_snapshot(), running=False) == BATCHES
    assert batches_again(later, live_snapshot(), running=True) == {"windows": "all batches from 10 on"}
    assert batches_again(later, live_snapshot(batch=14), running=False) == {}
    assert batches_again(later, live_snapshot(batch=14), running=True) == {"windows": "all batches from 15 on"}
    assert batches_again(later, live_snapshot(query_id="c"), running=True) == {}
    assert batches_again(later, live_snapshot(batch=-1), running=True) == {}


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


def test_agreement_to_a_fresh_start_is_by_the_query_s_name(app: AppRegistry) -> None:
    deploy(app, "v1", writing("foreachBatch"), 4)
    new = app_plan(writing("foreachBatch"))
    report = compare_fresh(plans_before(app), new, {})
    assert not report.compatible and "agree to it with --agree windows:fresh" in report.problems[0]
    report = compare_fresh(plans_before(app), new, {}, ["windows:fresh", "windows/daily"])
    assert report.compatible
    check_agreed(report, ["windows:fresh", "windows/daily"])
    with pytest.raises(InvalidInputError, match="other:fresh are not losses"):
        check_agreed(report, ["windows:fresh", "other:fresh"])
