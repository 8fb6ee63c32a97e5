"""Which apps need somebody: the rule by itself, and what a look at an app reads for it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.control import attention as rule
from airflow_provider_streamupdate.control.attention import (
    Evidence,
    Kind,
    Need,
    Outlook,
    Severity,
    needs,
    rank,
    unreadable,
    with_approval,
)
from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.overview import needs_of, summary
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.checkpoint.snapshot import Verified
from airflow_provider_streamupdate.core.coordination import lease
from airflow_provider_streamupdate.core.history.history import Minutes, hour_of, minute_of, write_minutes
from airflow_provider_streamupdate.core.history.span import Span
from airflow_provider_streamupdate.core.registry.deployment import Current, DriverState, QueryStatus
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.registry.update import Step, UpdateRecord
from airflow_provider_streamupdate.core.serde import to_json

from .builders import app_with_snapshots, deploy, set_status, status, write_spans

NOW = datetime(2026, 11, 24, 20, 0, 30, tzinfo=timezone.utc)
SOUND = [("s1", Verified(at="2026-11-24T20:00:00+00:00", files=1))]
V1 = Current(deployment="v1", epoch=1, promoted=True)
REPOSITORY = Path(__file__).resolve().parents[2]


def ago(seconds: float, now: datetime = NOW) -> str:
    return (now - timedelta(seconds=seconds)).isoformat()


def query(**changes: Any) -> QueryStatus:
    return attrs.evolve(QueryStatus(batch=7, last_commit_at=ago(1), processed_rows_per_second=10.0), **changes)


def found(state: str = "running", **changes: Any) -> Evidence:
    """An app that has run for a day and needs nobody."""
    queries = changes.pop("queries", {"q": query()})
    said = {"heartbeat_at": ago(1), "started_at": ago(86_400), **changes.pop("status", {})}
    heard = status(state, queries=queries, **said)
    values = {"app": "flights", "state": DriverState(state), "current": V1, "status": heard}
    read = {name: changes.pop(name, None) for name in ("minutes", "snapshots")}
    snapshots = read["snapshots"] if read["snapshots"] is not None else SOUND
    facts = {**read, "minutes": read["minutes"] or {}, "snapshots": snapshots}
    readers = {name: lambda value=value: value for name, value in facts.items()}
    return Evidence(**values, **readers, **changes)


def minutes(count: int = 60, **of: Any) -> tuple[Span, ...]:
    """A value, or one for each minute as it comes to NOW."""
    at = minute_of(NOW) - timedelta(minutes=count)
    return tuple(
        Span(
            at=(at + timedelta(minutes=n)).isoformat(),
            **{name: value(n) if callable(value) else value for name, value in of.items()},
        )
        for n in range(count)
    )


def update(**changes: Any) -> UpdateRecord:
    values = {"app": "flights", "old": "v1", "new": "v2", "started_at": ago(60), "step": "check"}
    return UpdateRecord(**{**values, **changes})


def stopped(killed: bool) -> Need:
    kind = Kind.INTERRUPTED if killed else Kind.WAITS
    return Need(kind, Severity.WARNING, "no process works on it", "run it again", since=ago(300))


GAVE_UP = Outlook(forecast="it is in a crash loop", gave_up_at=ago(9))
BEHIND = {"q": query(lag=9_000.0)}  # of 10 rows a second: it takes 15 minutes
LATE = {"q": query(lag=1.0, last_commit_at=ago(7200))}
RAN_LONG = {"state_since": ago(7200)}
STANDS = {"q": query(watermark=ago(7200))}


def older(minute: int) -> float:
    """The age of a watermark that stands."""
    return 60.0 * minute


@pytest.mark.parametrize(
    ("app", "kinds"),
    [
        (found(), []),
        (found("starting"), []),
        (found("cancelled"), []),
        (found("finished"), []),
        (found("suspended"), ["suspended"]),
        (found("failed", status={"error": "ValueError: no\nmore"}), ["failed"]),
        (found("lost"), ["lost"]),
        (found("lost", supervision=GAVE_UP), ["crash-loop"]),
        (found("silent"), ["silent"]),
        (found(status={"heartbeat_at": ago(500)}), ["silent"]),
        (found(update=update()), []),
        (found(update=update(started_at=ago(3700))), ["update-stuck"]),
        (found(update=update(started_at=ago(3700), outcome="promoted")), []),
        (found(update=update(started_at=ago(3700), old="v0")), []),  # of what does not run
        (found(update=update(), abandoned=stopped(killed=True)), ["update-interrupted"]),
        (found(update=update(started_at=ago(9999)), abandoned=stopped(killed=False)), ["update-waits"]),
        (found("lost", update=update(), abandoned=stopped(killed=True)), ["update-interrupted"]),
        (found(queries={"q": query(lag=9e9, active=False)}), []),
        (found(queries=BEHIND), ["behind"]),  # nothing was written down: whether it grows is not known
        (found(queries={"q": query(lag=9_000.0, processed_rows_per_second=None)}), ["behind"]),
        (found(queries={"q": query(lag=2_000.0)}), []),  # caught up with in minutes
        (found(queries=BEHIND, minutes={"q": minutes(lag=lambda n: 5_000.0 + 60 * n)}), ["behind"]),
        (found(queries=BEHIND, minutes={"q": minutes(lag=lambda n: 20_000.0 - 60 * n)}), []),
        (found(queries=BEHIND, minutes={"q": minutes(lag=lambda n: 100.0 if n == 55 else 9000.0 + n)}), []),
        (found(queries=BEHIND, minutes={"q": minutes(2, lag=5.0)}), ["behind"]),  # too little was written down
        (found(queries=BEHIND, status={"started_at": ago(60)}), []),
        (found(queries={"q": query(lag=1.0, last_commit_at=ago(2000))}), ["no-progress"]),
        (found(queries={"q": query(lag=1.0, last_commit_at=None)}), ["no-progress"]),  # nothing since its start
        (found(queries=LATE, status={"state_since": ago(60)}), []),  # it was suspended
        (found(queries=LATE, status={"state_since": ago(2000)}), ["no-progress"]),
        (found(queries={"q": query(lag=1.0, last_commit_at=ago(2000))}, status=RAN_LONG), ["no-progress"]),
        (found(queries={"q": query(lag=0.0, last_commit_at=ago(2000))}), []),
        (found(queries={"q": query(last_commit_at=ago(2000))}), []),  # how far it is behind is not known
        (found(queries=STANDS, minutes={"q": minutes(rows_in=5, watermark_age=older)}), ["watermark-stands"]),
        (found(queries=STANDS, minutes={"q": minutes(rows_in=0, watermark_age=older)}), []),
        (found(queries=STANDS, minutes={"q": minutes(rows_in=5, watermark_age=7200.0)}), []),  # behind, and moving
        (found(queries=STANDS), []),
        (found(snapshots=[]), ["no-verified-snapshot"]),
        (found("lost", snapshots=[]), ["lost"]),
        (found(snapshots=[], status={"started_at": ago(60)}), []),
    ],
)  # fmt: skip
def test_what_an_app_needs_somebody_for(app: Evidence, kinds: list[str]) -> None:
    made = needs(app, NOW)
    assert [str(each.kind) for each in made] == kinds
    for each in made:
        assert each.reason and each.help and not str(each).endswith("."), each
        assert "\n" not in each.reason


def test_the_most_urgent_need_comes_first_and_so_does_its_app() -> None:
    many = needs(
        found(queries={"a": query(lag=1.0, last_commit_at=ago(4000)), "q": query(lag=9000.0)}, snapshots=[]), NOW
    )
    assert [each.kind for each in many] == [Kind.NO_PROGRESS, Kind.BEHIND, Kind.NO_SNAPSHOT]
    apps = {
        "a-calm": (),
        "b-suspended": needs(found("suspended"), NOW),
        "c-snapshot": needs(found(snapshots=[]), NOW),
        "d-lost": needs(found("lost"), NOW),
        "e-lost-for-longer": needs(found("lost", status={"heartbeat_at": ago(9999)}), NOW),
        "f-unreadable": (unreadable("f-unreadable", "it is not valid JSON"),),
        "calm-too": (),
    }
    order = ["f-unreadable", "e-lost-for-longer", "d-lost", "c-snapshot", "b-suspended", "a-calm", "calm-too"]
    assert sorted(apps, key=lambda name: rank(name, apps[name])) == order


def test_an_update_that_waits_for_a_person_is_neither_stuck_nor_left() -> None:
    for app in (found(update=update(started_at=ago(9999))), found(update=update(), abandoned=stopped(False))):
        app = attrs.evolve(app, snapshots=list)
        made = with_approval(needs(app, NOW), "v2", ago(259_200))
        assert [each.kind for each in made] == [Kind.WAITS, Kind.NO_SNAPSHOT] and "an approval" in made[0].reason
    killed = found("lost", update=update(), abandoned=stopped(True))
    assert [each.kind for each in with_approval(needs(killed, NOW), "v2", None)] == [Kind.INTERRUPTED, Kind.WAITS]


def test_a_need_says_since_when_and_what_helps() -> None:
    [lost] = needs(found("lost"), NOW)
    assert (lost.since, lost.button) == (ago(1), "restart")
    assert "streamupdate restart flights continues from its own checkpoint" in lost.help
    [watched] = needs(
        found("lost", supervision=Outlook(forecast="a supervisor starts it again", starts_again=True)), NOW
    )
    assert watched.severity == "warning" and "a supervisor starts it again" not in watched.reason
    [failed] = needs(found("failed", status={"error": f"ValueError: {'x' * 500}\nat line 2"}), NOW)
    assert "ValueError: xxx" in failed.reason and len(failed.reason) < 300
    for advice in ("streamupdate update FIXED.py --strategy restart", "streamupdate restart flights", "log flights"):
        assert advice in failed.help and "rollback" not in failed.help, "there is no version before"
    [worse] = needs(found("failed", update=update(new="v1", old="v0", outcome="promoted")), NOW)
    assert "streamupdate rollback flights goes back to the version before" in worse.help
    [dies] = needs(found("lost", update=update()), NOW)
    assert dies.button is None and "streamupdate rollback flights" in dies.help
    [behind] = needs(found(queries=BEHIND, minutes={"q": minutes(lag=lambda n: 1000.0 + 100 * n)}), NOW)
    assert behind.since == (minute_of(NOW) - timedelta(minutes=39)).isoformat(), "the lag was 3100 for the first time"
    [bare] = needs(found(snapshots=[]), NOW)
    assert (bare.button, bare.about) == ("snapshot", None)
    [there] = needs(found(snapshots=[("nightly", None)]), NOW)
    assert (there.button, there.about) == ("verify", "nightly")
    assert there.help.startswith("streamupdate verify-snapshot flights nightly ")
    [broken] = needs(found(snapshots=[("nightly", Verified(at=ago(9), files=0, problem="a file is gone"))]), NOW)
    assert broken.button == "snapshot" and "nightly failed its verification (a file is gone)" in broken.reason


def test_a_command_that_is_offered_is_one_command_to_a_shell() -> None:
    """A folder under the root may be called anything."""
    odd = "x; rm -rf ~"
    [there] = needs(found(snapshots=[(odd, None)]), NOW)
    assert shlex.split(there.help)[:4] == ["streamupdate", "verify-snapshot", "flights", odd]


def test_the_thresholds_are_those_of_the_alerts() -> None:
    alerts = (REPOSITORY / "docs/monitoring/alerts.yaml").read_text()
    expressions = dict(re.findall(r"- alert: (\w+)\n(?:\s*#.*\n)*\s*expr: (\|(?:\n {10,}.*)+|.*)", alerts))
    for alert, threshold in {
        "StreamAppNoHeartbeat": f"> {rule.NO_HEARTBEAT:.0f} ",
        "StreamAppLagGrows": f"> {rule.CATCH_UP:.0f} *",
        "StreamAppNoVerifiedSnapshot": f"< {rule.SNAPSHOT_AGE:.0f}",
        "StreamUpdateStuck": f"> {rule.UPDATE_STUCK:.0f}",
    }.items():
        assert threshold in expressions[alert], alert
    assert "[15m]" in expressions["StreamAppLagGrows"] and rule.GROWING == 15 * 60


@pytest.fixture
def app(tmp_path: Path) -> AppRegistry:
    made = app_with_snapshots(tmp_path, ("s1", "s2"))
    old = datetime.now(timezone.utc)
    set_status(made, "v1", status(started_at=ago(7200, old)))
    return made


def kinds(tmp_path: Path) -> list[str]:
    """As all who show it tell it."""
    client = StreamUpdateClient(str(tmp_path))
    [(name, glance)] = client.glances()
    listed = summary(name, glance)["needs"]
    assert listed == client.app_document(name)["needs"]
    assert [str(each.kind) for each in client.status(name, watch=False).needs] == [each["kind"] for each in listed]
    return [each["kind"] for each in listed]


def verify(app: AppRegistry, name: str, problem: str | None = None) -> None:
    app.folder.write(f"snapshots/{name}/verified.json", to_json(Verified(at=ago(0), files=1, problem=problem)))


def test_a_verified_snapshot_of_the_last_day_is_enough(tmp_path: Path, app: AppRegistry) -> None:
    assert kinds(tmp_path) == ["no-verified-snapshot"]
    verify(app, "s1")
    assert kinds(tmp_path) == []
    verify(app, "s1", problem="a file is gone")
    assert kinds(tmp_path) == ["no-verified-snapshot"]
    verify(app, "s2")
    assert kinds(tmp_path) == []
    path = app.folder.path("snapshots/s2/snapshot.json")
    os.utime(path, (os.path.getmtime(path) - 90_000,) * 2)
    assert kinds(tmp_path) == ["no-verified-snapshot"]
    app.folder.write("snapshots/s1/verified.json", b"{")
    app.folder.write("snapshots/s3-under-way/partly", b"")
    assert kinds(tmp_path) == ["no-verified-snapshot"], "what cannot be read proves nothing"
    shutil.copytree(app.folder.path("snapshots/s1"), app.folder.path("snapshots/s1 (copy)"))
    verify(app, "s1 (copy)")
    assert kinds(tmp_path) == ["no-verified-snapshot"], "a copy made by hand is no snapshot"


def test_an_update_that_waits_for_a_task_is_not_called_interrupted(tmp_path: Path, app: AppRegistry) -> None:
    verify(app, "s2")
    app.set_update(UpdateRecord(app="flights", old="v1", new="v2", started_at=clock.now(), step=Step.CHECK))
    held = lease.acquire(app.folder, "v2")
    assert kinds(tmp_path) == []
    quiet = attrs.evolve(held, renewed_at=ago(100, datetime.now(timezone.utc)), uptime=None)
    app.folder.write("lease/1.json", to_json(quiet))
    assert kinds(tmp_path) == ["update-waits"]
    outage = StreamUpdateClient(str(tmp_path)).status("flights", watch=False).outage
    assert outage is not None and (outage.severity, outage.button, outage.about) == ("warning", "rollback", "v2")
    assert "has been waiting since" in outage.reason and "after step 'check', and no process works" in outage.reason
    assert outage.help == "run the same update again to continue it, or streamupdate rollback flights"


def test_a_lag_is_judged_by_the_minutes_of_the_driver_that_runs(tmp_path: Path, app: AppRegistry) -> None:
    verify(app, "s2")
    now = datetime.now(timezone.utc)
    behind = QueryStatus(batch=7, last_commit_at=ago(1, now), lag=1e6, processed_rows_per_second=1.0)
    set_status(app, "v1", status(queries={"windows": behind}, started_at=ago(7200, now)))
    assert kinds(tmp_path) == ["behind"]

    def write(epoch: int, lags: list[float], deployment: str = "v1") -> None:
        moments = [minute_of(now) - timedelta(minutes=len(lags) - n) for n in range(len(lags))]
        spans = [Span(at=at.isoformat(), lag=lag) for at, lag in zip(moments, lags, strict=True)]
        write_spans(app, *spans, deployment=deployment, epoch=epoch, query="windows")

    write(1, [2e6 - 1000 * n for n in range(30)])
    assert kinds(tmp_path) == [], "it catches up"
    write(2, [1e6 + 1000 * n for n in range(30)], "v2")
    assert kinds(tmp_path) == [], "what runs beside it is another's lag"
    write(1, [1e6 + 1000 * n for n in range(30)])
    assert kinds(tmp_path) == ["behind"]
    ahead = minute_of(now) + timedelta(days=30)
    noted = tuple(Span(at=(ahead + timedelta(minutes=n)).isoformat(), lag=20.0 - n) for n in range(20))
    write_minutes(app.folder, hour_of(ahead), Minutes(deployment="v1", epoch=1, spans={"windows": noted}))
    assert kinds(tmp_path) == ["behind"], "a clock that was ahead says nothing of now"
    os.mkdir(app.folder.path(f"history/minutes/{hour_of(now).strftime('%Y%m%dT%H')}-1-folder.json"))
    assert kinds(tmp_path) == ["behind"]
    for path in app.folder.files("history/minutes"):
        app.folder.write(f"history/minutes/{path}", b"{")
    assert kinds(tmp_path) == ["behind"], "it cannot be read, so it is not known"


def test_an_app_that_cannot_be_read_comes_first(tmp_path: Path, app: AppRegistry) -> None:
    verify(app, "s2")
    lost = Registry(str(tmp_path)).app("alarm")
    deploy(lost, state="failed")
    broken = Registry(str(tmp_path)).app("zebra")
    deploy(broken)
    broken.folder.write("current.json", b"{")
    glances = StreamUpdateClient(str(tmp_path)).glances()
    assert [name for name, _ in glances] == ["zebra", "alarm", "flights"]
    [need] = summary(*glances[0])["needs"]
    assert (need["kind"], need["severity"]) == ("unreadable", "critical") and "not valid JSON" in need["reason"]
    assert [str(each.kind) for each in needs_of(*glances[1])] == ["failed"]


def test_a_list_reads_one_file_more_of_an_app_that_needs_nobody(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, app: AppRegistry
) -> None:
    from airflow_provider_streamupdate.core.storage.folder import Folder

    read: list[str] = []
    was = Folder.read

    def noted(self: Folder, relative: str, first: int | None = None) -> bytes | None:
        read.append(self.path(relative).rpartition("/flights/")[2])
        return was(self, relative, first)

    verify(app, "s2")
    monkeypatch.setattr(Folder, "read", noted)
    StreamUpdateClient(str(tmp_path)).glances()
    assert [path for path in read if path.startswith(("snapshots", "history"))] == ["snapshots/s2/verified.json"]
