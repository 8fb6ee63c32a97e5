"""What nothing needs is freed, what something may need is not; and what is said of both."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import attrs
import pytest

from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.coordination import lease
from airflow_provider_streamupdate.core.errors import StorageError
from airflow_provider_streamupdate.core.processes.process_identity import ProcessIdentity
from airflow_provider_streamupdate.core.registry import scratch
from airflow_provider_streamupdate.core.registry.registry import AppRegistry
from airflow_provider_streamupdate.core.registry.update import RollbackRecord, UpdateRecord
from airflow_provider_streamupdate.core.serde import to_json
from airflow_provider_streamupdate.core.snapshots import pending_exports as exports
from airflow_provider_streamupdate.core.snapshots import superseded
from airflow_provider_streamupdate.core.snapshots.superseded import is_freed
from tests.core.builders import app_plan, app_with_snapshots, set_status, spec, status

from .conftest import Run, Site, document, table


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "WATCH_SECONDS", 0.6)
    monkeypatch.setattr("airflow_provider_streamupdate.control.drivers.drivers.SILENT_SECONDS", 1.0)


@pytest.fixture
def app(root: object) -> AppRegistry:
    """v5 is current and has one snapshot; v1 to v4 ran before it, each 1000 bytes of state and a log."""
    app = app_with_snapshots(root, ["s1"])
    for number in (2, 3, 4, 5):
        app.create_deployment(spec(f"v{number}", parent=f"v{number - 1}"))
    for number in (1, 2, 3, 4, 5):
        app.checkpoint(f"v{number}", "windows").write("state/0/0/9.delta", b"x" * 1000)
        app.folder.write(f"deployments/v{number}/driver-{number}.log", b"y" * 10)
        beat = clock.from_epoch_ms((time.time() - (6 - number) * 86400) * 1000)
        set_status(app, f"v{number}", status("cancelled" if number < 5 else "running", heartbeat_at=beat))
    app.set_current(attrs.evolve(app.current(), deployment="v5", epoch=5))
    app.set_launch("v5", attrs.evolve(app.launch("v1"), epoch=1))
    set_status(app, "v5", status("running"))
    return app


def rows(found: dict, which: str) -> dict[tuple[str, str], int]:  # type: ignore[type-arg]
    return {(t["kind"], t["name"]): t["bytes"] for each in found["apps"] for t in each[which]}


def test_superseded_checkpoints_and_their_logs_are_freed_but_the_newest_and_the_ways_back(
    run: Run, app: AppRegistry
) -> None:
    looked = document(run("gc", "flights", "--dry-run", "--keep-deployments", "1", "--json"))
    header, first, *_ = table(told := run("gc", "flights", "--keep-deployments", "1", "--dry-run"))
    assert " ".join(header) == "APP KIND NAME BYTES WOULD BE FREED WHY"
    assert first[:6] == ["flights", "checkpoint", "v1", "1.0", "kB", "yes"]
    assert told.stdout.splitlines()[-1].endswith("would be freed")
    assert all(app.checkpoint(f"v{n}", "windows").exists("state/0/0/9.delta") for n in range(1, 6))
    done = document(run("gc", "flights", "--keep-deployments", "1", "--json"))
    assert done["apps"][0]["freed"] == looked["apps"][0]["freed"] and (looked["dry_run"], done["dry_run"]) == (1, 0)
    freed = rows(done, "freed")
    assert set(freed) == {("checkpoint", "v1"), ("log", "v1"), ("checkpoint", "v2"), ("log", "v2")}
    # v1's other files are hard links to the snapshot's objects, which stay; the 1000 bytes are its own.
    assert freed["checkpoint", "v1"] == freed["checkpoint", "v2"] == 1000 and freed["log", "v2"] == 10
    assert done["bytes"] == sum(freed.values()) and run("verify-snapshot", "flights", "s1").exit_code == 0
    assert {t["name"]: t["reason"] for t in done["apps"][0]["kept"]} == {
        "v3": "it is among the 1 newest superseded ones",
        "v4": "a rollback of v5 goes back to it",
        "v5": "it is current",
    }
    assert [n for n in range(1, 6) if is_freed(app, f"v{n}")] == [1, 2]
    assert not app.folder.exists("deployments/v1/checkpoint") and app.spec("v1").deployment == "v1"
    assert document(run("gc", "--keep-deployments", "1", "--json"))["bytes"] == 0


def updates(**fields: object) -> Callable[[AppRegistry], None]:
    return lambda app: app.set_update(UpdateRecord(app="flights", started_at=clock.now(), **fields))  # type: ignore[arg-type]


def goes_back(ended: str | None) -> Callable[[AppRegistry], None]:
    record = RollbackRecord(number=1, app="flights", left="v5", back_to="v2", started_at=clock.now(), ended_at=ended)
    return lambda app: app.set_rollback(record)


def beat(silent: float) -> Callable[[AppRegistry], None]:
    """The last heartbeat of v1 was so many seconds ago, by its clock and by the storage's, on another machine."""

    def set_beat(app: AppRegistry) -> None:
        at = time.time() - silent
        set_status(app, "v1", status("running", heartbeat_at=clock.from_epoch_ms(at * 1000)))
        os.utime(app.folder.path("deployments/v1/status.json"), (at, at))

    return set_beat


def used_ids(query_id: str, batch: int) -> Callable[[AppRegistry], None]:
    """v2 was left by a rollback; whoever goes on from v5 with a sink that skips ids has to know v2's."""

    def use(app: AppRegistry) -> None:
        for deployment, last, named in (("v2", batch, query_id), ("v5", 9, "one")):
            checkpoint = app.checkpoint(deployment, "windows")
            checkpoint.write("metadata", b'{"id": "%s"}' % named.encode())
            checkpoint.write(f"offsets/{last}", b"v1\n{}\n0")
        app.deployment_folder("v2").write("plan.json", to_json(app_plan()))

    return use


IDS = "it has used batch ids of query windows that v5 has not reached yet"


@pytest.mark.parametrize(
    ("before", "freed", "kept"),
    [
        (updates(old="v2", new="v3"), "v1", dict.fromkeys(("v2", "v3"), "the update to v3 is under way")),
        (updates(old="v2", new="v5", outcome="promoted"), "v1 v3", {"v2": "a rollback of v5 goes back to it"}),
        # The same command goes on with an interrupted rollback, and needs its checkpoint.
        (goes_back(None), "v1 v3", {"v2": "the rollback of v5 to it is under way"}),
        (goes_back("2026-01-01T00:00:00+00:00"), "v1 v2 v3", {}),
        (beat(0), "v2 v3", {"v1": "its driver may be alive (it is running)"}),
        (beat(3600), "v2 v3", {"v1": "its driver may be alive (it is lost)"}),
        (beat(90_000), "v1 v2 v3", {}),  # after a day of silence it is over
        (used_ids("one", 12), "v1 v3", {"v2": IDS}),
        (used_ids("one", 9), "v1 v2 v3", {}),
        (used_ids("another", 12), "v1 v2 v3", {}),
        (lambda app: app.folder.remove("current.json"), "", {}),
    ],
)  # fmt: skip
def test_what_may_be_needed_keeps_its_checkpoint(
    run: Run, app: AppRegistry, before: Callable[[AppRegistry], None], freed: str, kept: dict[str, str]
) -> None:
    before(app)
    done = document(run("gc", "flights", "--keep-deployments", "0", "--json"))
    assert [name for kind, name in rows(done, "freed") if kind == "checkpoint"] == freed.split()
    reasons = {t["name"]: t["reason"] for t in done["apps"][0]["kept"]}
    assert kept.items() <= reasons.items()
    assert len(reasons) == 5 - len(freed.split())


def test_failed_exports_rehearsals_and_temporary_files_are_freed(run: Run, app: AppRegistry) -> None:
    with exports.begun(app.folder, "s2", "v5") as export:
        app.folder.write(f"objects/{export.export}/abc", b"12345")
    app.folder.write("objects/crashed/abc", b"123")
    scratch.take(app, "mine").write("windows/metadata", b"12")
    scratch.take(app, "killed").write("windows/metadata", b"12")
    gone = attrs.evolve(ProcessIdentity.own(), start=1)
    user = scratch.UsedBy(host=gone.host, pid=gone.pid, at=clock.now(), process=gone)
    app.folder.write("rehearsals/killed/used-by.json", to_json(user))
    old = ["deployments/v2/.status.json." + "a" * 32, "deployments/v4/checkpoint/windows/state/0/0/.7.zip.1-2.TID3.tmp"]
    new = ["deployments/v2/.status.json." + "b" * 32]
    live = ["deployments/v5/checkpoint/windows/state/0/0/.7.zip.1-2.TID3.tmp"]
    for path in (*old, *new, *live):
        app.folder.write(path, b"1234567")
    for path in (*old, *live):
        os.utime(app.folder.path(path), (1, 1))
    freed = rows(document(run("gc", "flights", "--json")), "freed")
    assert freed["failed export", "s2"] == 5 and freed["unneeded objects", "1 files"] == 3
    assert {name for kind, name in freed if kind == "rehearsal"} == {"killed"}
    assert {name for kind, name in freed if kind == "temporary file"} == set(old)
    assert all(freed["temporary file", path] == 7 for path in old)
    assert all(app.folder.exists(path) for path in (*new, *live, "rehearsals/mine"))
    assert not any(app.folder.exists(path) for path in (*old, "rehearsals/killed", "objects/crashed"))


def test_days_are_kept_too_and_a_bad_retention_is_2(run: Run, app: AppRegistry) -> None:
    for options in (("--keep-deployments", "-1"), ("--keep-days", "-1"), ("--keep-days", "nan")):
        assert run("gc", "flights", *options).exit_code == 2
    done = document(run("gc", "flights", "--keep-deployments", "0", "--keep-days", "4.5", "--json"))
    assert [name for kind, name in rows(done, "freed") if kind == "checkpoint"] == ["v1"]
    kept = {t["name"]: t["reason"] for t in done["apps"][0]["kept"]}
    assert kept["v2"] == "it was superseded 4.0 days ago, and deployments are kept for 4.5 days"


def test_what_was_freed_cannot_be_gone_back_to_and_nothing_is_stopped(site: Site) -> None:
    site.submit()
    for version in ("v2", "v3"):
        site.update(version, "--strategy", "restart")
    done = document(site.run("gc", "alarm", "--keep-deployments", "0", "--json"))
    assert [name for kind, name in rows(done, "freed") if kind == "checkpoint"] == ["v1"]
    site.ok("rollback", "alarm")  # the way back is there
    assert site.alive() == ["v2"]
    error = site.error("rollback", "alarm")
    assert error["type"] == "RefusedError" and "deployment v1 of alarm cannot run again" in error["message"]
    assert site.alive() == ["v2"]


def test_an_app_that_is_updated_is_left_alone_and_so_is_what_cannot_be_freed(
    run: Run, app: AppRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = lease.acquire(app.folder, "v6", ProcessIdentity.own())
    one = run("gc", "flights", "--json")
    assert one.exit_code == 1 and document(one)["error"]["type"] == "LeaseHeldError"
    every = document(run("gc", "--json"))
    assert rows(every, "freed") == {} and [t["kind"] for t in every["apps"][0]["kept"]] == ["app"]
    assert "an update of flights is under way" in every["apps"][0]["kept"][0]["reason"]
    lease.release(app.folder, held)

    def refuse(_: AppRegistry, deployment: str) -> None:
        raise StorageError(f"{deployment} is read-only")

    monkeypatch.setattr(superseded, "free", refuse)
    done = document(run("gc", "flights", "--keep-deployments", "2", "--json"))
    assert [kind for kind, _ in rows(done, "freed")] == ["log"]
    assert {t["name"]: t["reason"] for t in done["apps"][0]["kept"]}["v1"] == "v1 is read-only"


def test_a_dry_run_does_not_wait_for_silent_drivers(
    run: Run, app: AppRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would take half a minute, one after the other."""
    silent = clock.later(-300)
    for number in (1, 2, 3, 4):
        launch = attrs.evolve(app.launch("v1"), host="elsewhere", process=None, epoch=1)
        app.set_launch(f"v{number}", launch)
        set_status(app, f"v{number}", status("running", host="elsewhere", heartbeat_at=silent))
    monkeypatch.setattr(clock, "sleep", lambda seconds: pytest.fail("it waited"))
    assert run("gc", "flights", "--dry-run", "--json").exit_code == 0
