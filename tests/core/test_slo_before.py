"""What the SLO gate takes for the hours before, and how long it waits for a new version that does worse."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.control.operations.verification import slo
from airflow_provider_streamupdate.control.operations.verification.health import Health
from airflow_provider_streamupdate.control.operations.verification.slo import Gate
from airflow_provider_streamupdate.core.compatibility.report import CompatibilityReport
from airflow_provider_streamupdate.core.compatibility.verdict import CARRIED, EMPTY, ReportItem
from airflow_provider_streamupdate.core.difference.figures import BatchFigures
from airflow_provider_streamupdate.core.errors import StorageError
from airflow_provider_streamupdate.core.history.history import minute_of
from airflow_provider_streamupdate.core.registry.deployment import QueryStatus, Status
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.registry.update import UpdateRecord
from airflow_provider_streamupdate.core.slo.baseline import Baseline, read_baselines
from airflow_provider_streamupdate.core.slo.limits import SloLimits

from .builders import app_plan, deploy, query_plan, set_status, status, write_json, write_spans
from .test_history_shown import span

NOW = minute_of(datetime.now(timezone.utc))  # when each test begins, for what is judged asks the clock
Q = "windows"  # of builders


@pytest.fixture(autouse=True)
def it_is_now() -> None:
    global NOW
    NOW = minute_of(datetime.now(timezone.utc))


def ago(count: float) -> datetime:
    """So many minutes ago."""
    return NOW - timedelta(minutes=count)


def figures(first: int, count: int, seconds: float = 1.0, rows_out: int = 100) -> tuple[BatchFigures, ...]:
    return tuple(
        BatchFigures(batch=first + n, rows_in=100, rows_out=rows_out, state_rows={"daily": 42}, seconds=seconds)
        for n in range(count)
    )


def running(
    first: int, count: int, commits_ago: float = 1.0, ran: float = 90.0, works: float = 0.0, **more: Any
) -> Status:
    """A driver that committed its first batch `ran` seconds ago, by its own clock, and works at a batch for `works`."""
    now = datetime.now(timezone.utc)
    query = QueryStatus(
        batch=first + count - 1,
        first_batch=first,
        first_commit_at=(now - timedelta(seconds=ran)).isoformat(),
        last_commit_at=(now - timedelta(seconds=commits_ago)).isoformat(),
        figures=figures(first, count, **more),
        batch_running=works,
    )
    return status(queries={Q: query}, heartbeat_at=now.isoformat())


@pytest.fixture
def app(tmp_path: Path) -> AppRegistry:
    """v1 ran before, and v2 runs since a minute and a half."""
    made = Registry(str(tmp_path)).app("a")
    deploy(made)
    deploy(made, "v2", 2)
    set_status(made, "v1", running(0, 40))
    set_status(made, "v2", running(40, 20))
    made.set_update(update())
    return made


def update(new: str = "v2", old: str = "v1", **more: Any) -> UpdateRecord:
    began = more.pop("began", ago(3))
    cut = more.pop("cut", ago(2))
    times = {"plan": began.isoformat(), "snapshot_and_cancel": cut.isoformat()}
    return UpdateRecord(app="a", old=old, new=new, started_at=began.isoformat(), step_times=times, **more)


def before(app: AppRegistry) -> Baseline:
    return read_baselines(app, update())[Q]


def at(found: Baseline) -> list[str]:
    return [minute.at for minute in found.minutes]


def changed(app: AppRegistry, *items: ReportItem) -> str:
    write_json(app, "updates/v2.report.json", CompatibilityReport(app="a", source="deployment v1", items=items))
    return before(app).changed


def test_the_minutes_of_the_old_version_but_each_drivers_first_one_until_the_cut_over(app: AppRegistry) -> None:
    write_spans(app, *(span(ago(n)) for n in range(9, -1, -1)), query=Q)
    write_spans(app, *(span(ago(n)) for n in (30, 29, 28)), epoch=3, query=Q)
    write_spans(app, *(span(ago(n)) for n in (20, 19, 18)), deployment="v0", query=Q)
    write_spans(app, *(span(ago(n)) for n in (1, 0)), deployment="v2", epoch=2, query=Q)
    assert at(before(app)) == [ago(n).isoformat() for n in (29, 28, 8, 7, 6, 5, 4, 3)]


def test_batches_are_those_of_the_last_driver_but_its_first_ones(app: AppRegistry) -> None:
    set_status(app, "v1", running(10, 8, commits_ago=5.0, ran=35.0))
    found = before(app)
    assert len(found.batches) == 5 and found.batches[0].seconds == 1.0
    assert found.pace == pytest.approx(14.0) and found.quiet == pytest.approx(5.0)


def test_batches_without_rows_are_a_quiet_time(app: AppRegistry) -> None:
    """Spark makes them where a state function has a timeout by processing time. (Measured: an update of such an app,
    21 s after its last row, waited in verify for 70 s, as `the old version nothing for 0.1 s`.)"""
    ran = running(10, 8, commits_ago=5.0, ran=35.0)
    query = ran.queries[Q]
    figures = (*query.figures[:-2], *(attrs.evolve(figure, rows_in=0) for figure in query.figures[-2:]))
    set_status(app, "v1", attrs.evolve(ran, queries={Q: attrs.evolve(query, figures=figures)}))
    assert before(app).quiet == pytest.approx(5.0 + 2 * 60 / 14)


@pytest.mark.parametrize(
    ("thing", "name", "verdict", "more", "why"),
    [
        ("stage", f"{Q}/daily", EMPTY, {"agreed": True}, "the update changed stage windows/daily"),
        ("query", f"{Q}:watermark", CARRIED, {"agreed": True}, "the update changed query windows:watermark"),
        ("sink", Q, CARRIED, {"rules": ("sink.mode-harmless",)}, "the update changed sink windows"),
        ("sink", Q, CARRIED, {"rules": ("sink.same",)}, ""),
        ("stage", f"{Q}/daily", CARRIED, {"rules": ("stage.filter",)}, ""),
        ("stage", "other/daily", EMPTY, {}, ""),
    ],
)
def test_what_the_update_was_said_to_change_is_not_compared(
    app: AppRegistry, thing: str, name: str, verdict: Any, more: dict[str, Any], why: str
) -> None:
    assert changed(app, ReportItem(thing=thing, name=name, verdict=verdict, reason="", **more)) == why
    app.folder.remove("updates/v2.report.json")
    assert before(app).changed == "what the update changed is not known"


def test_windows_that_are_known_for_less_than_a_day_may_burst(app: AppRegistry) -> None:
    write_spans(app, *(span(ago(n)) for n in range(1000, 3, -1)), query=Q)
    write_json(
        app, "deployments/v2/plan.json", app_plan(query_plan(watermarks=("a.t delayed by 3600000 ms",)), app="a")
    )
    assert not before(app).windows_known
    write_spans(app, *(span(ago(n)) for n in range(1300, 1000, -1)), epoch=0, query=Q)
    assert before(app).windows_known


def held(app: AppRegistry, state: Status, **gate: Any) -> Health:
    set_status(app, "v2", state)
    healthy = Health(healthy=True, failed=False, reasons=(), status=state)
    return Gate(registry=app, limits=SloLimits(), **gate).hold("v2", healthy)


def verdict(app: AppRegistry, state: Status, **gate: Any) -> str:
    found = held(app, state, **{"run_for": 10.0, **gate})
    return "failed" if found.failed else "healthy" if found.healthy else "waits"


@pytest.fixture
def busy(app: AppRegistry) -> AppRegistry:
    """Sixty batches a minute before, and an update that changed nothing on purpose."""
    set_status(app, "v1", running(0, 40, ran=40.0))
    spans = (span(ago(n), batches=60, timed=60, rows_in=6000, rows_out=6000, seconds=54.0) for n in range(40, 2, -1))
    write_spans(app, *spans, query=Q)
    assert not changed(app)
    return app


def test_one_that_does_as_well_is_healthy_and_one_that_does_not_has_a_minute(busy: AppRegistry) -> None:
    assert verdict(busy, running(40, 20)) == "healthy"
    slow = [verdict(busy, running(40, 20, ran=ran, seconds=9.0)) for ran in (30.0, 69.0, 75.0)]
    assert slow == ["waits", "waits", "failed"]
    assert verdict(busy, running(40, 20, ran=30.0, seconds=9.0), longest=5.0) == "failed"
    [reason] = held(busy, running(40, 20, seconds=9.0), run_for=10.0).reasons
    assert reason.startswith(
        "query windows, batch-time: a batch takes 9.00 s; before, 1.00 s when it was slow (at most"
    )
    assert reason.endswith("; to allow it, give option slo: batch-time=LIMIT, or batch-time=off")


def test_ten_batches_are_waited_for_where_they_came_before(busy: AppRegistry) -> None:
    few = [verdict(busy, running(40, 12, ran=ran)) for ran in (20.0, 69.0, 75.0)]
    assert few == ["waits", "waits", "healthy"]
    told = "query windows, every limit: not compared: 9 batches with rows, and 10 are needed"
    nulls = "query windows, nulls: not compared: nulls in a sink of format noop are not counted"
    assert held(busy, running(40, 12, ran=75.0), run_for=10.0).holds == (told, nulls)
    assert verdict(busy, running(40, 12, ran=20.0), run_for=0.0) == "healthy", "nobody wants it to run for a time"
    assert verdict(busy, attrs.evolve(running(40, 12, ran=20.0), state="finished")) == "healthy", "no more will come"
    slow = [verdict(busy, running(40, 3, ran=ran, seconds=30.0)) for ran in (75.0, 311.0)]
    assert slow == ["waits", "failed"], "it works at them all the time"


def test_a_batch_that_hangs_is_waited_for_until_it_is_a_fault(busy: AppRegistry) -> None:
    def found(seconds: float, **gate: float) -> str:
        return verdict(busy, running(40, 20, ran=9000.0, works=seconds), **gate)

    assert [found(seconds) for seconds in (4.9, 5.1, 299.0, 300.0)] == ["healthy", "waits", "waits", "failed"]
    assert [found(seconds, longest=150.0) for seconds in (149.0, 150.0)] == ["waits", "failed"]
    assert [found(seconds, run_for=0.0) for seconds in (4.9, 5.1, 300.0)] == ["healthy", "waits", "failed"]


def test_nothing_is_waited_for_where_nothing_arrives(busy: AppRegistry) -> None:
    state = running(40, 0, ran=20)
    query = attrs.evolve(state.queries[Q], first_batch=None, first_commit_at=None, idle=True, lag=0.0)
    state = attrs.evolve(state, queries={Q: query}, started_at=query.last_commit_at)
    set_status(busy, "v1", running(0, 40, commits_ago=30.0, ran=70.0))
    assert verdict(busy, attrs.evolve(state, started_at=ago(1).isoformat())) == "healthy"
    set_status(busy, "v1", running(0, 40, commits_ago=1.0, ran=41.0))
    assert verdict(busy, state) == "waits", "rows came until the end"


@pytest.mark.parametrize("damage", ["plan", "status", "update", "folder"])
def test_damaged_files_of_before_are_told_and_are_no_reason_to_roll_back(busy: AppRegistry, damage: str) -> None:
    if damage == "folder":
        [path, *_] = busy.folder.names("history/minutes")
        busy.folder.remove(f"history/minutes/{path}")
        busy.folder.write(f"history/minutes/{path}/x", b"")
    else:
        path = {"plan": "deployments/v2/plan.json", "status": "deployments/v1/status.json", "update": "updates/v2.json"}
        busy.folder.write(path[damage], b"{")
    told = "cannot be read" if damage == "folder" else "the hours before were not compared"
    found = held(busy, running(40, 20))
    assert found.healthy and any(told in text for text in found.holds)


@pytest.mark.parametrize(("kind", "waits"), [(StorageError, True), (ValueError, False)])
def test_a_storage_that_fails_for_a_moment_promotes_nothing(
    busy: AppRegistry, monkeypatch: pytest.MonkeyPatch, kind: type[Exception], waits: bool
) -> None:
    def fails(*_: Any) -> None:
        raise kind("no answer")

    monkeypatch.setattr(slo, "read_baselines", fails)
    early = held(busy, running(40, 20, ran=30, seconds=9.0), run_for=10.0)
    assert (early.healthy, early.failed) == (not waits, False)
    assert "no answer" in str(early.reasons if waits else early.holds)
    late = held(busy, running(40, 20, ran=75, seconds=9.0), run_for=10.0)
    assert late.healthy and any("no answer" in text for text in late.holds), "it is no reason to roll back"


def test_nothing_is_compared_of_what_no_update_brought_in(busy: AppRegistry) -> None:
    assert verdict(busy, running(40, 20, seconds=60.0)) == "failed"
    busy.remove_update("v2")
    assert verdict(busy, running(40, 20, seconds=60.0)) == "healthy"
    busy.set_update(attrs.evolve(update(), in_place=True))
    assert verdict(busy, running(40, 20, seconds=60.0)) == "healthy"
