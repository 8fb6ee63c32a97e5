"""The trace of an update: what its record and the drivers' events make of it, as a pure function."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as some

from airflow_provider_streamupdate.control.update.trace.driver_parts import parts
from airflow_provider_streamupdate.control.update.trace.span import Span, Trace, context_of
from airflow_provider_streamupdate.control.update.trace.spans import NOT_ENDED, asker, trace_of
from airflow_provider_streamupdate.core.registry.rollback import RollbackRecord
from airflow_provider_streamupdate.core.registry.update import (
    PROMOTED,
    REFUSED,
    ROLLED_BACK,
    SUPERSEDED,
    Attempt,
    UpdateRecord,
)

START = datetime(2026, 11, 27, 7, 0, tzinfo=timezone.utc)
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TASK = "airflow:update_flights/manual__2026-11-27T07:00:00+00:00/update.plan/-1"


def at(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).isoformat()


def attempt(step: str, begin: float, end: float | None, **more: Any) -> Attempt:
    return Attempt(step=step, began_at=at(begin), ended_at=None if end is None else at(end), **more)


def record(*attempts: Attempt, **more: Any) -> UpdateRecord:
    return UpdateRecord(
        **{
            "app": "flights",
            "old": "v1",
            "new": "v2",
            "strategy": "standby",
            "started_at": at(1),
            "attempts": attempts,
            "step_times": {"planned": at(1)},
            **more,
        }
    )


def promoted(*attempts: Attempt, end: float = 10, **more: Any) -> UpdateRecord:
    times = {"planned": at(1), "promoted": at(end)}
    return record(*attempts, step_times=times, outcome=PROMOTED, ended_at=at(end), **more)


def event(name: str, seconds: float, epoch: int = 2, **more: Any) -> dict[str, Any]:
    return {"event": name, "at": at(seconds), "epoch": epoch, **more}


def state(name: str, seconds: float, epoch: int = 2, **more: Any) -> dict[str, Any]:
    return event("state", seconds, epoch, state=name, **more)


def shape(trace: Trace) -> list[tuple[str, str | None, float, float]]:
    """The spans by name: the one around, and the seconds since the update began."""
    names = {span.span_id: span.name for span in trace.spans}
    return [
        (
            s.name,
            s.parent_id and names[s.parent_id],
            *((t - trace.root.begin).total_seconds() for t in (s.begin, s.end)),
        )
        for s in trace.spans
    ]


def named(trace: Trace, name: str) -> Span:
    (found,) = [span for span in trace.spans if span.name == name]
    return found


STEPS = (attempt("plan", 0, 3, by="kim@host"), attempt("snapshot", 4, 8, by="kim@host"), attempt("promote", 9, 10))
EVENTS = {
    "v1": [
        state("running", -50, 1, since=at(-60)),
        event("command", 4.1, 1, kind="snapshot"),
        state("draining", 4.2, 1),
        event("handed over", 4.5, 1),
        state("cancelled", 7.0, 1),
    ],
    "v2": [
        event("launched", 0.5),
        event("planned", 2, since=at(1)),
        state("standby", 3.5, since=at(1)),
        state("restoring", 4.6),
        event("restored", 5.0),
        state("running", 5.5),
        event("first batch", 6.5, queries={"a": at(6.0), "b": at(5.8)}),
        state("draining", 90),
        state("cancelled", 91),
    ],
}


def test_the_steps_and_what_the_drivers_did_in_them() -> None:
    trace = trace_of(promoted(*STEPS, pause_seconds=1.75, paused_at=at(4.25), snapshot="before-v2"), (), EVENTS)
    assert shape(trace) == [
        ("update flights", None, 0.0, 10.0),
        ("plan", "update flights", 0.0, 3.0),
        ("driver: launch", "plan", 0.5, 1.0),
        ("driver: start", "plan", 1.0, 2.0),
        ("driver: get ready", "update flights", 2.0, 3.5),
        ("snapshot", "update flights", 4.0, 8.0),
        ("driver: drain", "snapshot", 4.2, 4.5),
        ("pause", "snapshot", 4.25, 6.0),
        ("driver: wait for successor", "snapshot", 4.5, 7.0),
        ("driver: restore", "snapshot", 4.6, 5.0),
        ("driver: start queries", "snapshot", 5.0, 5.5),
        ("driver: first batch", "snapshot", 5.5, 6.0),
        ("promote", "update flights", 9.0, 10.0),
    ]
    assert trace.root.error is None and trace.parent is None
    assert trace.root.attributes == {
        "streamupdate.app": "flights",
        "streamupdate.deployment.from": "v1",
        "streamupdate.deployment.to": "v2",
        "streamupdate.update.id": "v2",
        "streamupdate.strategy": "standby",
        "streamupdate.outcome": "promoted",
        "streamupdate.pause_seconds": 1.75,
        "streamupdate.snapshot": "before-v2",
        "streamupdate.asked_by": "kim@host",
    }
    assert named(trace, "driver: drain").attributes == {"streamupdate.deployment": "v1", "streamupdate.epoch": 1}


def test_a_trace_is_the_same_each_time_and_another_for_another_update() -> None:
    one, again = (trace_of(promoted(*STEPS), (), EVENTS) for _ in range(2))
    assert one == again and len({span.span_id for span in one.spans}) == len(one.spans)
    others = [{"app": "other"}, {"new": "v3"}, {"started_at": at(1.000001)}]
    ids = {trace_of(promoted(*STEPS, **other)).trace_id for other in others}
    assert len(ids | {one.trace_id}) == 4


def test_a_later_end_of_the_driver_and_a_later_rollback_are_not_in_it() -> None:
    """What is sent later than the update's end is what was sent then."""
    later = RollbackRecord(number=1, app="flights", left="v2", back_to="v1", started_at=at(500), ended_at=at(501))
    then = trace_of(promoted(*STEPS), (), {name: told[:7] for name, told in EVENTS.items()})
    now = trace_of(attrs.evolve(promoted(*STEPS), outcome=ROLLED_BACK, reason="by hand"), [later], EVENTS)
    assert now == then and now.root.error is None


def test_a_step_that_died_ends_when_somebody_went_on() -> None:
    trace = trace_of(
        promoted(
            attempt("plan", 0, 1),
            attempt("snapshot", 2, None, by="kim@host"),
            attempt("plan", 5, 5.5),
            attempt("snapshot", 6, 7, by=TASK, traceparent=PARENT),
            attempt("snapshot", 7.5, 8, error="DriverError: it died"),
            attempt("promote", 9, 10),
        )
    )
    first, second, third = (span for span in trace.spans if span.name == "snapshot")
    assert (first.seconds, first.error, first.attributes["streamupdate.attempt"]) == (3.0, NOT_ENDED, 1)
    assert (second.seconds, second.error, second.attributes["streamupdate.attempt"]) == (1.0, None, 2)
    assert second.links == (PARENT,) and second.attributes["airflow.task_id"] == "update.plan"
    assert (third.seconds, third.error) == (0.5, "DriverError: it died")
    assert trace.root.error is None and trace.parent is None  # joined to what it was begun by


def test_a_rolled_back_update() -> None:
    back = RollbackRecord(
        number=3, app="flights", left="v2", back_to="v1", started_at=at(6), ended_at=at(9), asked_by="kim@host"
    )
    others = [attrs.evolve(back, number=1, left="v1"), attrs.evolve(back, number=2, started_at=at(-5), ended_at=at(-4))]
    failed = attempt("verify", 4, 5.5, error="flights is not healthy")
    trace = trace_of(
        record(attempt("plan", 0, 1), failed, outcome=ROLLED_BACK, reason="flights is not healthy", ended_at=at(9.5)),
        [*others, back],
        {"v1": [state("restoring", 7, 3, since=at(6.5)), event("restored", 8, 3), state("running", 8.5, 3)]},
    )
    assert shape(trace) == [
        ("update flights", None, 0.0, 9.5),
        ("plan", "update flights", 0.0, 1.0),
        ("verify", "update flights", 4.0, 5.5),
        ("rollback", "update flights", 6.0, 9.0),
        ("driver: start", "rollback", 6.5, 7.0),
        ("driver: restore", "rollback", 7.0, 8.0),
        ("driver: start queries", "rollback", 8.0, 8.5),
    ]
    assert trace.root.error == "rolled-back: flights is not healthy"
    assert named(trace, "verify").error == "flights is not healthy"
    assert named(trace, "rollback").error is None


@pytest.mark.parametrize("outcome", [REFUSED, SUPERSEDED, ROLLED_BACK])
def test_every_way_an_update_fails_is_an_error_with_the_reason(outcome: Any) -> None:
    open_one = record(attempt("check", 0, None), outcome=outcome, reason="no\ud800pe", ended_at=at(4))
    trace = trace_of(open_one)
    assert trace.root.error == f"{outcome}: no?pe"
    assert (named(trace, "check").seconds, named(trace, "check").error) == (4.0, "no?pe")


def test_one_under_way_lasts_until_now_and_has_no_error() -> None:
    trace = trace_of(record(attempt("plan", 0, 1), attempt("standby", 2, None)), now=START + timedelta(seconds=30))
    assert trace.root.seconds == 30 and named(trace, "standby").seconds == 28
    assert [span.error for span in trace.spans] == [None] * 3
    assert trace.root.attributes["streamupdate.outcome"] == "under way"


def test_a_driver_that_failed_says_in_what() -> None:
    told = [state("restoring", 4.6, since=at(4)), state("failed", 5, reason="PythonException")]
    trace = trace_of(promoted(*STEPS), (), {"v2": told})
    assert named(trace, "driver: restore").error == "PythonException"


def test_a_record_of_an_earlier_release_has_its_steps() -> None:
    times = {"planned": at(1), "checked": at(2), "standby": at(5), "snapshotted": at(7), "promoted": at(10)}
    trace = trace_of(record(step_times=times, outcome=PROMOTED, pause_seconds=0.5))
    assert shape(trace) == [
        ("update flights", None, 0.0, 9.0),
        ("plan", "update flights", 0.0, 0.0),
        ("check", "update flights", 0.0, 1.0),
        ("standby", "update flights", 1.0, 4.0),
        ("snapshot", "update flights", 4.0, 6.0),
        ("promote", "update flights", 6.0, 9.0),
    ]


def test_it_is_part_of_the_trace_of_the_task_that_began_it() -> None:
    trace = trace_of(promoted(attempt("plan", 0, 1, by=TASK, traceparent=PARENT), *STEPS[1:]))
    assert f"{trace.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert trace.parent == PARENT and trace.root.parent_id is None
    assert trace.root.attributes["airflow.dag_id"] == "update_flights"
    assert trace.root.attributes["airflow.dag_run.run_id"] == "manual__2026-11-27T07:00:00+00:00"


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "garbage",
        PARENT[:-2] + "00",  # not sampled: nobody keeps that trace
        PARENT.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32),
        PARENT.replace("b7ad6b7169203331", "0" * 16),
        "ff" + PARENT[2:],
        PARENT + "-more",  # version 00 has no more
        PARENT.replace("b7", "zz"),
    ],
)
def test_what_is_no_trace_to_be_part_of(text: str | None) -> None:
    assert context_of(text) is None
    trace = trace_of(promoted(attempt("plan", 0, 1, traceparent=text), *STEPS[1:]))
    assert trace.parent is None and trace.trace_id == trace_of(promoted(*STEPS)).trace_id


def test_a_later_version_of_the_header_is_understood() -> None:
    assert context_of("01" + PARENT[2:] + "-more") == context_of(PARENT) is not None


def test_who_asked() -> None:
    assert asker("") == {} and asker("kim@host") == {"streamupdate.asked_by": "kim@host"}
    odd = asker("airflow:dag/a/run/with/slashes/task/3")
    assert (odd["airflow.dag_id"], odd["airflow.dag_run.run_id"], odd["airflow.task_id"]) == (
        "dag",
        "a/run/with/slashes",
        "task",
    )
    assert asker("airflow:x") == {"streamupdate.asked_by": "airflow:x"}


names = some.sampled_from(["state", "planned", "restored", "first batch", "handed over", "changed", "taken over", "?"])
odd = (
    some.none() | some.integers() | some.text() | some.lists(some.text()) | some.dictionaries(some.text(), some.text())
)
moments = some.floats(-5, 15).map(at) | odd
told = some.fixed_dictionaries(
    {"event": names | odd, "at": moments, "epoch": some.none() | some.integers(0, 3)},
    optional={
        "state": some.sampled_from(["standby", "restoring", "running", "draining", "failed"]) | odd,
        "since": moments,
        "queries": some.dictionaries(some.text(), moments) | odd,
        "reason": odd,
    },
)
tries = some.builds(
    attempt,
    some.sampled_from(["plan", "check", "verify", "odd\ud800"]),
    some.floats(-5, 15),
    some.none() | some.floats(-5, 15),
    error=some.none() | some.text(),
    traceparent=some.none() | some.just(PARENT) | some.text(),
)


@given(
    some.lists(tries, max_size=6),
    some.lists(told, max_size=12),
    some.none() | some.floats(-5, 15),
    some.sampled_from([None, PROMOTED, ROLLED_BACK, REFUSED]),
    some.none() | some.floats(-1, 20),
    some.floats(-5, 20),
)
def test_whatever_is_recorded_each_span_is_inside_the_one_around_it(
    attempts: list[Attempt],
    events: list[Mapping[str, Any]],
    ended: float | None,
    outcome: Any,
    pause: float | None,
    paused: float,
) -> None:
    ends = None if ended is None else at(ended)
    made = record(*attempts, outcome=outcome, ended_at=ends, pause_seconds=pause, paused_at=at(paused))
    back = RollbackRecord(number=1, app="flights", left="v2", back_to="v1", started_at=at(3))
    trace = trace_of(made, [back], {"v2": events, "v1": events}, START)
    spans = {span.span_id: span for span in trace.spans}
    assert len(spans) == len(trace.spans) and trace.root.parent_id is None
    for span in trace.spans[1:]:
        assert span.parent_id is not None
        around = spans[span.parent_id]
        assert span.begin <= span.end
        if not span.name.startswith("driver: ") or around is not trace.root:  # one may outlast the update
            assert around.begin <= span.begin and span.end <= around.end, span
    assert parts("v2", events) == sorted(parts("v2", events), key=lambda part: (part.begin, part.end))
