"""What the SLO gate takes for the hours before: which minutes, of which versions, and what an update changed."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.control.operations.verification import slo
from airflow_provider_streamupdate.control.operations.verification.health import Health
from airflow_provider_streamupdate.control.operations.verification.slo import Gate
from airflow_provider_streamupdate.core.compatibility.report import CARRIED, EMPTY, CompatibilityReport, ReportItem
from airflow_provider_streamupdate.core.difference.figures import BatchFigures
from airflow_provider_streamupdate.core.errors import StorageError
from airflow_provider_streamupdate.core.history.history import minute_of
from airflow_provider_streamupdate.core.plan.plan import SourcePlan
from airflow_provider_streamupdate.core.registry.deployment import QueryStatus, Status
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.registry.update import PROMOTED, ROLLED_BACK, UpdateRecord
from airflow_provider_streamupdate.core.slo.before import Before
from airflow_provider_streamupdate.core.slo.hours_before import hours_before
from airflow_provider_streamupdate.core.slo.limits import SloLimits

from .builders import app_plan, deploy, query_plan, set_status, stage_plan, status, write_json
from .test_history_shown import minutes, span

NOW = minute_of(datetime.now(timezone.utc))  # when each test begins, for what is looked at asks the clock
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
    times = {"planned": began.isoformat(), "snapshotted": cut.isoformat()}
    return UpdateRecord(app="a", old=old, new=new, started_at=began.isoformat(), step_times=times, **more)


def before(app: AppRegistry, record: UpdateRecord | None = None) -> Before:
    return hours_before(app, record or update(), [Q], ())[Q]


def at(found: Before) -> list[str]:
    return [s.at for s in found.spans]


def test_the_minutes_of_the_old_version_but_its_first_one_until_the_cut_over(app: AppRegistry) -> None:
    minutes(app, *(span(ago(n)) for n in range(9, -1, -1)), query=Q)
    minutes(app, *(span(ago(n)) for n in (1, 0)), deployment="v2", epoch=2, query=Q)
    assert at(before(app)) == [ago(n).isoformat() for n in range(8, 2, -1)]


def test_a_gap_and_another_driver_begin_a_run(app: AppRegistry) -> None:
    minutes(app, *(span(ago(n)) for n in (60, 59, 58, 30, 29)), query=Q)
    minutes(app, *(span(ago(n)) for n in (28, 27, 26)), epoch=3, query=Q)
    runs = before(app).runs
    assert [[s.at for s in run] for run in runs] == [
        [ago(n).isoformat() for n in numbers] for numbers in ((59, 58), (30, 29), (27, 26))
    ]


def test_versions_that_did_not_stay_do_not_count_and_those_that_did_count_since_they_took_over(
    app: AppRegistry,
) -> None:
    for new, outcome in (("bad", ROLLED_BACK), ("good", PROMOTED), ("left", None)):
        app.set_update(update(new, "v0", began=ago(100), cut=ago(50), outcome=outcome))
        minutes(app, *(span(ago(n)) for n in (60, 59, 45, 44)), deployment=new, epoch=1, query=Q)
    assert at(before(app)) == [ago(45).isoformat(), ago(44).isoformat()]


def test_the_old_version_counts_whatever_became_of_its_update(app: AppRegistry) -> None:
    app.set_update(update("v1", "v0", began=ago(100), cut=ago(50), outcome="superseded"))
    minutes(app, *(span(ago(n)) for n in (45, 44, 43)), query=Q)
    assert len(before(app).spans) == 2


def test_renames_are_those_of_the_query(tmp_path: Path) -> None:
    app = Registry(str(tmp_path)).app("a")
    deploy(app)
    deploy(app, "v2", 2, renames={f"{Q}/daily": f"{Q}/per_day", "other/daily": "other/wrong"})
    set_status(app, "v1", running(0, 5))
    set_status(app, "v2", running(5, 5))
    minutes(app, *(span(ago(n), state_rows={"daily": 7}) for n in (9, 8)), query=Q)
    found = before(app)
    assert found.batches[0].state_rows == {"per_day": 42} and found.spans[0].state_rows == {"per_day": 7}


@pytest.mark.parametrize(
    ("item", "why"),
    [
        (
            ReportItem(thing="stage", name=f"{Q}/daily", verdict=EMPTY, reason="new", agreed=True),
            "changed stage windows/daily",
        ),
        (ReportItem(thing="query", name=f"{Q}:watermark", verdict=CARRIED, reason="", agreed=True), "changed query"),
        (ReportItem(thing="stage", name=f"{Q}/daily", verdict=CARRIED, reason="as it was"), ""),
        (ReportItem(thing="stage", name="other/daily", verdict=EMPTY, reason="new"), ""),
    ],
)
def test_what_the_update_was_said_to_change_is_not_compared(app: AppRegistry, item: ReportItem, why: str) -> None:
    write_json(app, "updates/v2.report.json", CompatibilityReport(app="a", source="deployment v1", items=(item,)))
    assert app.report("v2") is not None
    assert (why in before(app).changed) if why else before(app).changed == ""


def test_other_sources_stages_and_output_modes_are_not_compared(app: AppRegistry) -> None:
    def changed(**changes: Any) -> str:
        stages = changes.pop("stages", query_plan().stages)
        write_json(app, "deployments/v2/plan.json", app_plan(query_plan(*stages, **changes), app="a"))
        return before(app).changed

    assert changed() == ""
    assert changed(output_mode="complete") == "its output mode changed"
    other = SourcePlan(name="other", named=True, format="kafka", location="topic")
    assert changed(sources=(other,)) == "its sources changed"
    assert changed(stages=(stage_plan(kind="dedupe"),)) == "its stages changed"


def test_windows_that_are_known_for_less_than_a_day_may_burst(app: AppRegistry) -> None:
    write_json(app, "deployments/v2/plan.json", app_plan(query_plan(watermarks=("at 1 hour",)), app="a"))
    minutes(app, *(span(ago(n)) for n in (600, 599, 5)), query=Q)
    assert "less than a day" in before(app).rare
    minutes(app, *(span(ago(n)) for n in (25 * 60, 25 * 60 - 1)), epoch=0, query=Q)
    assert "less than a day" in before(app).rare, "between them, nothing is known"
    minutes(app, *(span(ago(n)) for n in range(25 * 60, 3, -20)), epoch=0, query=Q)
    assert before(app).rare == ""


def test_one_that_waits_for_input_is_not_done_and_not_slow(app: AppRegistry) -> None:
    """Without a trigger, Spark says that it is idle only in the 10 ms between two looks for data."""
    busy(app)
    assert "has 1 of 5 batches" in held(app, running(40, 4, ran=20), run_for=10.0).reasons[0]
    assert held(app, running(40, 4, ran=75, commits_ago=70), run_for=10.0).healthy


def test_a_batch_that_does_not_end_is_waited_for_and_is_a_fault_at_last(app: AppRegistry) -> None:
    """Five warm batches were enough to be promoted, whatever came after."""
    busy(app)
    waits, failed, healthy = (False, False), (False, True), (True, False)

    def found(works: float, batches: int = 20, ran: float = 75.0, **gate: float) -> tuple[bool, bool]:
        state = held(app, running(40, batches, ran=ran, works=works), **{"run_for": 10.0, **gate})
        return state.healthy, state.failed

    assert [found(s) for s in (1, 4.9, 5.1, 299, 300, 3000)] == [healthy, healthy, waits, waits, failed, failed]
    assert [found(s, batches=2) for s in (1, 4.9, 5.1, 299, 300)] == [healthy, healthy, waits, waits, failed], "few"
    assert [found(s, run_for=0.0) for s in (4.9, 5.1, 299, 300)] == [healthy, waits, waits, failed]
    assert [found(s, longest=150.0) for s in (149, 150)] == [waits, failed]
    assert found(299, ran=9000) == waits, "it is first looked at when it has run for hours"
    assert found(6, batches=1, ran=20) == waits, "more are to come anyway"
    state = held(app, running(40, 20, ran=75.0, works=89), run_for=10.0)
    assert "batch-time: a batch has not ended for 60 s; before, one took 1.00 s when it was slow" in state.reasons[0]


def test_a_batch_that_hangs_is_a_fault_where_too_few_come_to_be_compared(app: AppRegistry) -> None:
    minutes(app, *(span(ago(n), batches=1, timed=1) for n in range(40, 2, -1)), query=Q)
    waits = held(app, running(40, 4, ran=700, works=200), run_for=600.0)
    assert (waits.healthy, waits.failed) == (False, False)
    assert held(app, running(40, 4, ran=700, works=300), run_for=600.0).failed
    assert held(app, running(40, 4, ran=700), run_for=600.0).healthy


def test_one_batch_is_a_sign_only_where_it_took_very_long(app: AppRegistry) -> None:
    """The second one may be slow as the first one is."""
    busy(app)
    quick = held(app, running(40, 2, ran=75, seconds=6.0), run_for=10.0)
    assert quick.healthy and any("not compared: 0 batches with rows are known" in text for text in quick.holds)
    assert held(app, running(40, 1, ran=75, works=0.05), run_for=10.0).healthy, "nor is the first one compared"
    early = held(app, running(40, 2, ran=75, seconds=60.0), run_for=10.0)
    assert (early.healthy, early.failed) == (False, False)
    assert held(app, running(40, 2, ran=311, seconds=60.0), run_for=10.0).failed


def test_nothing_is_waited_for_where_nothing_arrives(app: AppRegistry) -> None:
    """It was for a minute, and longer where batches came seldom."""
    busy(app)  # a batch a second
    told = "query windows was not compared with the hours before: nothing has arrived since 30 s before the update"

    def idle(**changes: Any) -> Health:
        state = running(40, 0, ran=20)
        query = attrs.evolve(state.queries[Q], **{"first_batch": None, "idle": True, "lag": 0.0, **changes})
        return held(app, attrs.evolve(state, queries={Q: query}), run_for=10.0)

    set_status(app, "v1", running(0, 40, commits_ago=30.0))
    assert idle().healthy and idle().holds == (told,)
    assert idle(lag=None).healthy, "most sources do not tell"
    assert idle(batch=41, first_batch=40, figures=figures(40, 2)).reasons, "something arrives"
    assert "has 0 of 5 batches" in idle(lag=7.0).reasons[0], "there is input"
    assert "has 0 of 5 batches" in idle(idle=False).reasons[0], "it has not found out yet"
    set_status(app, "v1", running(0, 40, commits_ago=2.0))
    assert "has 0 of 5 batches" in idle().reasons[0], "the old version had input until the end"
    late = idle(first_commit_at=(datetime.now(timezone.utc) - timedelta(seconds=90)).isoformat())
    assert late.healthy and "query windows has read nothing since the update, although" in late.holds[0]


def held(app: AppRegistry, state: Status, **gate: Any) -> Health:
    set_status(app, "v2", state)
    healthy = Health(healthy=True, failed=False, reasons=(), status=state)
    return Gate(registry=app, limits=SloLimits(), **gate).hold("v2", healthy, ())


def busy(app: AppRegistry) -> None:
    """Sixty batches a minute before."""
    spans = (span(ago(n), batches=60, timed=60, rows_in=6000, rows_out=6000, seconds=54.0) for n in range(40, 2, -1))
    minutes(app, *spans, query=Q)


def test_one_that_does_as_well_is_healthy_and_one_that_does_not_has_a_while(app: AppRegistry) -> None:
    busy(app)
    assert held(app, running(40, 20)).healthy
    early = held(app, running(40, 20, ran=30, seconds=9.0), run_for=10.0)
    assert (early.healthy, early.failed) == (False, False) and "batch-time" in early.reasons[0]
    late = held(app, running(40, 20, ran=75, seconds=9.0), run_for=10.0)
    assert (late.healthy, late.failed) == (False, True)
    impatient = held(app, running(40, 20, ran=30, seconds=9.0), run_for=10.0, longest=5.0)
    assert impatient.failed


def test_batches_are_waited_for_where_they_came_before_and_their_absence_is_no_success(app: AppRegistry) -> None:
    busy(app)
    assert "has 0 of 5 batches" in held(app, running(40, 2, ran=20), run_for=10.0).reasons[0]
    slow = held(app, running(40, 3, ran=75, seconds=30.0), run_for=10.0)
    assert slow.failed and "a batch takes 30.00 s; before, 1.00 s" in slow.reasons[0]
    stuck = held(app, running(40, 1, ran=311, commits_ago=311, works=310), run_for=10.0)
    assert stuck.failed and "a batch has not ended for 300 s" in stuck.reasons[0]
    assert held(app, running(40, 3, ran=75), run_for=10.0).healthy, "it has less to do"


def test_of_an_app_that_ran_for_a_minute_only_its_last_driver_says_what_came(app: AppRegistry) -> None:
    """Measured: one that was five times slower was promoted, because none of its batches was waited for."""
    assert "has 0 of 5 batches" in held(app, running(40, 2, ran=20), run_for=10.0).reasons[0]
    assert held(app, running(40, 3, ran=75, seconds=30.0), run_for=10.0).failed
    set_status(app, "v1", running(0, 40, ran=600.0))
    assert not held(app, running(40, 2, ran=100), run_for=10.0).healthy, "four a minute: they come in two"
    set_status(app, "v1", running(0, 40, ran=2400.0))
    assert held(app, running(40, 2, ran=20), run_for=10.0).healthy, "one a minute: they would take too long"
    set_status(app, "v1", running(0, 9, ran=20.0))
    assert held(app, running(40, 2, ran=20), run_for=10.0).healthy, "there is too little to compare with"


def test_more_rows_are_waited_for_where_too_few_came_to_say_what_looks_like_a_fault(app: AppRegistry) -> None:
    """Measured: a version whose filter let no row pass was promoted after eight batches, for windows tell few rows."""
    set_status(app, "v1", running(0, 40, rows_out=1))
    early = held(app, running(40, 10, ran=20, rows_out=0), run_for=10.0)
    assert (early.healthy, early.failed) == (False, False)
    assert "rows-out: not compared: 0 rows out for 600 in are too few to tell" in early.reasons[0]
    late = held(app, running(40, 60, ran=75, rows_out=0), run_for=10.0)
    assert late.failed and "rows-out: 0 rows out for" in late.reasons[0]
    assert held(app, running(40, 10, ran=20, rows_out=1), run_for=10.0).healthy, "it does as well"
    assert held(app, running(40, 10, ran=75, rows_out=0), run_for=10.0).healthy, "no more came"
    assert held(app, running(40, 10, ran=20, rows_out=0)).healthy, "nobody wants it to run for a time"


@pytest.mark.parametrize("damage", ["plan", "status", "update", "folder"])
def test_damaged_files_of_before_are_told_and_are_no_reason_to_roll_back(app: AppRegistry, damage: str) -> None:
    busy(app)
    if damage == "folder":
        [path, *_] = app.folder.names("history/minutes")
        app.folder.remove(f"history/minutes/{path}")
        app.folder.write(f"history/minutes/{path}/x", b"")
    else:
        app.folder.write({"plan": "deployments/v1/plan.json", "status": "deployments/v1/status.json",
                          "update": "updates/v0.json"}[damage], b"{")  # fmt: skip
    told = "cannot be read" if damage == "folder" else "the hours before were not compared"
    found = held(app, running(40, 20))
    assert found.healthy and any(told in text for text in found.holds)


def test_who_rolls_back_is_told_that_a_part_of_the_hours_before_is_missing(app: AppRegistry) -> None:
    busy(app)
    app.folder.write("history/minutes/20240101T00-x.json", b"{")
    app.folder.write(f"history/minutes/{ago(30):%Y%m%dT%H}-x.json", b"{")
    found = held(app, running(40, 20, ran=75, seconds=9.0), run_for=10.0)
    assert found.failed and found.reasons[-1].startswith(
        "a part of the hours before is missing, because history/minutes/"
    )
    assert "20240101" not in found.reasons[-1], "it is older than what is compared"


def test_what_the_version_before_the_old_one_gave_for_a_row_does_not_count(app: AppRegistry) -> None:
    """A reviewer's: v0 gave ten rows for one, v1 one on purpose, and v2 ten again by mistake."""
    was = UpdateRecord(app="a", old="v0", new="v1", started_at=ago(31).isoformat(), outcome=PROMOTED)
    app.set_update(attrs.evolve(was, step_times={"snapshotted": ago(31).isoformat()}))
    for deployment, first, rows in (("v0", 90, 60_000), ("v1", 30, 6_000)):
        spans = (
            span(ago(n), batches=60, timed=60, rows_in=6000, rows_out=rows, seconds=54.0)
            for n in range(first, first - 28, -1)
        )
        minutes(app, *spans, query=Q, deployment=deployment)
    found = held(app, running(40, 20, ran=75, rows_out=1000), run_for=10.0)
    assert found.failed and "rows-out: " in found.reasons[0]
    assert held(app, running(40, 20, ran=75), run_for=10.0).healthy


def test_a_storage_that_fails_for_a_moment_promotes_nothing(app: AppRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    busy(app)

    def fails(*_: Any) -> None:
        raise StorageError("no answer")

    monkeypatch.setattr(slo, "hours_before", fails)
    early = held(app, running(40, 20, ran=30, seconds=9.0), run_for=10.0)
    assert (early.healthy, early.failed) == (False, False) and "no answer" in early.reasons[0]
    late = held(app, running(40, 20, ran=75, seconds=9.0), run_for=10.0)
    assert late.healthy and any("no answer" in text for text in late.holds), "it is no reason to roll back"


def test_nothing_is_compared_of_what_no_update_brought_in(app: AppRegistry) -> None:
    busy(app)
    app.remove_update("v2")
    assert held(app, running(40, 20, seconds=60.0)).healthy
    app.set_update(attrs.evolve(update(), in_place=True))
    assert held(app, running(40, 20, seconds=60.0)).healthy
