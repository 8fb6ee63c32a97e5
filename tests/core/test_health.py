"""When a new version counts as healthy, and what is told of what holds and of what does not."""

from __future__ import annotations

import time
from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.control.operations.verification.health import assess
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.checkpoint.snapshot import Snapshot
from airflow_provider_streamupdate.core.registry.deployment import FINAL_STATES, FINISHED, QueryStatus

from .builders import app_plan, live_snapshot, query_plan, status

GOOD = QueryStatus(batch=11, first_batch=10, state_rows={"daily": 100}, source_lag={"clicks": 10.0})
# counted from the batch it went on from
COUNTED = attrs.evolve(GOOD, rows_batch=11, removed_rows={"daily": 0}, removed_since=9)


def baseline(**changes: Any) -> Snapshot:
    return live_snapshot(**{"state_rows": {"daily": 100}, "source_lag": {"clicks": 10.0}, **changes})


def reasons(query: QueryStatus, before: Snapshot | None = None, batches: int = 2) -> tuple[str, ...]:
    health = assess("v2", "running", status(queries={"windows": query}), before, batches)
    assert health.healthy == (not health.reasons) and not health.failed
    return health.reasons


def test_it_must_run_for_a_while() -> None:
    # Since its first commit, or since the driver's start when there was nothing to commit.
    for query in (attrs.evolve(GOOD, first_commit_at=_ago(30)), QueryStatus(idle=True)):
        at = status(queries={"windows": query}, started_at=_ago(30))
        assert assess("v2", "running", at, run_for=20).healthy
        health = assess("v2", "running", at, run_for=40)
        assert health.reasons == ("it must run for 40 s",) and not health.failed
    # A new version without input was promoted a second after the hand-over, for the minutes it had stood by.
    stood_by = status(queries={"windows": QueryStatus(idle=True)}, started_at=_ago(300))
    at = attrs.evolve(stood_by, first_idle_at={"windows": _ago(5)})
    assert assess("v2", "running", at, run_for=20).reasons == ("it must run for 20 s",)
    assert assess("v2", "running", at, run_for=4).healthy


def _ago(seconds: float) -> str:
    return clock.from_epoch_ms((time.time() - seconds) * 1000)


@pytest.mark.parametrize("state", sorted(FINAL_STATES - {FINISHED}))
def test_what_has_ended_can_never_become_healthy(state: str) -> None:
    health = assess("v2", state, status(state, error="ValueError: boom"))
    assert health.failed and not health.healthy
    assert health.reasons == (f"deployment v2 is {state}: ValueError: boom",)


def test_what_has_finished_is_held_to_its_lag_and_state_alone() -> None:
    """It ran with the trigger availableNow, and may have had one batch, or none. It was taken for failed."""
    ended = attrs.evolve(GOOD, active=False, batch=10)
    at = status(FINISHED, queries={"windows": ended})
    found = assess("v2", FINISHED, at, baseline(), run_for=60.0)
    assert found.healthy
    assert "query windows has committed 1 batches since its start, and has ended by itself" in found.holds
    lost = status(FINISHED, queries={"windows": attrs.evolve(ended, state_rows={"daily": 0})})
    found = assess("v2", FINISHED, lost, baseline())
    assert found.reasons == ("stage windows/daily holds 0 rows; it held about 100",)


@pytest.mark.parametrize("state", ["starting", "restoring", "suspended", "new"])
def test_what_does_not_run_yet_may_become_healthy(state: str) -> None:
    health = assess("v2", state, None)
    assert not health.healthy and not health.failed and health.reasons == (f"deployment v2 is {state}",)
    assert assess("v2", "running", status(queries={})).reasons == ("no query has reported yet",)


@pytest.mark.parametrize(
    ("first", "batch", "idle", "well"),
    [
        (None, 9, False, False),
        (None, 9, True, True),  # nothing to read: an update at a quiet hour must not be rolled back for that
        (10, 10, False, False),
        (10, 10, True, True),
        (10, 11, False, True),
    ],
)
def test_batches_count_from_the_start_of_this_driver(first: int | None, batch: int, idle: bool, well: bool) -> None:
    found = reasons(attrs.evolve(GOOD, first_batch=first, batch=batch, idle=idle))
    assert (found == ()) is well
    assert well or "of 2 batches since its start" in found[0]


def test_lag_must_come_back_to_where_it_was() -> None:
    assert reasons(attrs.evolve(GOOD, source_lag={"clicks": 15.0}), baseline()) == ()
    assert reasons(attrs.evolve(GOOD, source_lag={"clicks": 16.0}), baseline()) == (
        "query windows is 16 rows behind; it was 10",
    )
    busy = attrs.evolve(GOOD, source_lag={"clicks": 60.0}, input_rows_per_second=100.0, batch_seconds=0.5)
    assert reasons(busy, baseline()) == (), "one batch's worth of rows is always on its way"
    assert reasons(attrs.evolve(GOOD, source_lag={}), baseline()) == ()
    # what a new source has to read does not count
    added = attrs.evolve(GOOD, source_lag={"clicks": 10.0, "orders": 1_000_000.0})
    assert reasons(added, baseline()) == ()
    slow = attrs.evolve(GOOD, source_lag={"clicks": 16.0, "orders": 0.0})
    assert reasons(slow, baseline()) == ("query windows is 16 rows behind; it was 10",)
    # an idle query hides neither one that has stopped nor one that leaves input unread
    idle = QueryStatus(batch=9, idle=True)
    stopped = attrs.evolve(GOOD, active=False, error="boom")
    assert assess("v2", "running", status(queries={"a": idle, "b": stopped})).reasons == ("query b has stopped",)
    unread = attrs.evolve(idle, source_lag={"clicks": 16.0})
    assert reasons(unread, baseline()) == ("query windows is 16 rows behind; it was 10",)


@pytest.mark.parametrize(
    ("now", "left", "well"),
    [(100, 0, True), (60, 40, True), (0, 100, True), (140, 10, True), (99, 0, False), (60, 39, False), (9, 0, False)],
)
def test_with_those_that_have_left_a_stage_holds_all_rows_that_were_saved(now: int, left: int, well: bool) -> None:
    query = attrs.evolve(COUNTED, state_rows={"daily": now}, removed_rows={"daily": left})
    told = f"stage windows/daily holds {now} rows; it held 100, of which {left} have left"
    assert reasons(query, baseline(rows_batch=9)) == (() if well else (told,))
    assert (told in assess("v2", "running", status(queries={"windows": query}), baseline(rows_batch=9)).holds) is well


@pytest.mark.parametrize(
    ("changes", "batch"),
    [
        pytest.param({"removed_rows": None}, 9, id="reports are lost"),
        pytest.param({}, 8, id="the snapshot's rows are of an earlier batch"),
        pytest.param({}, None, id="the snapshot's rows may be counted twice"),
        pytest.param({"rows_batch": None}, 9, id="its own may be counted twice"),
        pytest.param({"removed_since": 10}, 9, id="its driver was restarted since"),
        pytest.param({"removed_since": None}, 9, id="of a version before this"),
    ],
)
def test_where_it_is_not_known_what_has_left_a_tenth_must_be_there(changes: dict[str, Any], batch: int) -> None:
    lost = attrs.evolve(COUNTED, **{"state_rows": {"daily": 9}, "removed_rows": {"daily": 0}, **changes})
    assert reasons(lost, baseline(rows_batch=batch)) == ("stage windows/daily holds 9 rows; it held about 100",)
    assert reasons(attrs.evolve(lost, state_rows={"daily": 10}), baseline(rows_batch=batch)) == ()


def test_what_is_not_compared_is_told() -> None:
    gone = status(queries={"windows": attrs.evolve(GOOD, state_rows={"hourly": 0})})
    health = assess("v2", "running", gone, baseline(rows_batch=9))
    assert health.healthy
    assert "stage windows/daily was not compared: the new version has none of this name" in health.holds
    health = assess("v2", "running", status(queries={"windows": GOOD}), baseline(state_rows={}))
    assert health.healthy
    assert "the state of query windows was not compared: the snapshot has no counts of its rows" in health.holds
    # of a query without state nothing is said of it
    before = baseline(state_rows={})
    plan = app_plan(attrs.evolve(query_plan(), stages=()))
    at = status(queries={"windows": attrs.evolve(GOOD, state_rows={})})
    health = assess("v2", "running", at, attrs.evolve(before, plan=plan))
    assert health.healthy and not [text for text in health.holds if "state" in text]
    # rows that say nothing are told and not compared
    at = status(queries={"windows": attrs.evolve(COUNTED, state_rows={"daily": 3}, removed_rows={"daily": 0})})
    health = assess("v2", "running", at, baseline(rows_batch=9), uncounted={"windows/daily"})
    assert health.healthy
    assert "stage windows/daily holds 3 rows, which are not compared with the 100 it held" in health.holds


def test_a_healthy_app_is_told_with_a_line_for_each_condition() -> None:
    idle = QueryStatus(batch=3, idle=True, first_commit_at=_ago(30))
    at = status(queries={"windows": attrs.evolve(GOOD, first_commit_at=_ago(30)), "raw": idle})
    assert assess("v2", "running", at, baseline(), run_for=20).lines("flights").splitlines() == [
        "flights is healthy",
        "  query raw is idle: it has committed 0 batches, and there is no more input",
        "  query windows has committed 2 batches since its start (at least 2)",
        "  query windows is 10 rows behind; it was 10",
        "  stage windows/daily holds 100 rows; it held about 100",
        "  it has run for 20 s",
    ]
    # a state of which nothing is reported is not taken for well
    silent = attrs.evolve(GOOD, state_rows={})
    assert reasons(silent, baseline()) == ("query windows has not reported what its stages hold",)
    at = status(queries={"windows": silent})
    assert assess("v2", "running", at, baseline(), uncounted={"windows/daily"}).healthy, "Spark keeps no reports"
    assert reasons(attrs.evolve(silent, idle=True), baseline()) == (), "its sink did not ask for the batch's rows"
    idle = QueryStatus(batch=9, idle=True)
    health = assess("v2", "running", status(queries={"windows": idle}), baseline(source_lag={}))
    assert health.healthy
    assert health.holds == (
        "query windows is idle: it has committed 0 batches, and there is no more input",
        "the state of query windows was not compared: query windows has not reported what its stages hold",
    )
