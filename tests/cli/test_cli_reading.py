"""list, status and log, on files written through the state library."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import attrs
import pytest

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.coordination import lease
from airflow_provider_streamupdate.core.errors import LeaseHeldError
from airflow_provider_streamupdate.core.processes.process_identity import ProcessIdentity
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.deployment import Launch, QueryStatus
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.registry.update import UpdateRecord
from tests.core.builders import deploy, set_status, spec, status, write_json

from .conftest import Run, document, next_steps, table


@pytest.fixture
def app(root: Path) -> AppRegistry:
    """A running app whose driver is on another machine."""
    registry = Registry(str(root)).app("flights")
    deploy(registry)
    return registry


# list


def test_list_shows_an_app_a_line(run: Run, root: Path, app: AppRegistry) -> None:
    second = Registry(str(root)).app("alarm")
    deploy(second, "r7", epoch=12, state="suspended")
    two = {"a": QueryStatus(batch=3), "b": QueryStatus(batch=4, processed_rows_per_second=1.25, state_rows={"x": 1})}
    set_status(second, "r7", status("suspended", 12, queries=two))
    result = run("list")
    assert result.exit_code == 0 and result.stderr == ""
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert lines[0].split() == [
        *("NAME", "STATE", "DEPLOYMENT", "EPOCH", "BATCH", "ROWS/S", "STATE", "ROWS", "HEARTBEAT", "NEEDS")
    ]
    assert lines[1].split()[:-4] == ["alarm", "suspended", "r7", "12", "a", "3,", "b", "4", "1.2", "1"]
    assert lines[2].split()[:-4] == ["flights", "running", "v1", "1", "7", "120", "42"]
    assert lines[1].endswith(" s ago  suspended") and re.search(r" s ago +-$", lines[2])


def test_a_list_of_an_app_with_ten_queries_fits_120_columns(run: Run, root: Path, app: AppRegistry) -> None:
    """It was as wide as all names and batches: 240 columns."""
    queries = {f"orders_by_vendor_{n}": QueryStatus(batch=n - 1) for n in range(10)}
    set_status(app, "v1", status(queries=queries))
    young = Registry(str(root)).app("young")
    deploy(young, "r7", epoch=12, state="suspended")
    set_status(young, "r7", status("suspended", 12, queries={name: QueryStatus() for name in queries}))
    result = run("list")
    assert max(map(len, result.stdout.splitlines())) <= 120
    assert "  -1 to 8 in 10 queries  " not in result.stdout and "  0 to 8 in 10 queries  " in result.stdout
    assert "  none yet in 10 queries  " in result.stdout


def test_list_as_json(run: Run, app: AppRegistry) -> None:
    [found] = document(run("list", "--json"))
    heartbeat = found.pop("heartbeat_at")
    assert clock.age(heartbeat) < 60
    assert found == {
        "app": "flights", "state": "running", "deployment": "v1", "epoch": 1, "batches": {"windows": 7},
        "rows_in_per_second": None, "rows_per_second": 120.5, "lag": None, "batch_seconds": None, "state_rows": 42,
        "updating_to": None, "beside": None, "needs": [],
        "last_update": None,
    }  # fmt: skip


def test_list_shows_a_silent_driver_as_silent_and_a_deployment_that_never_started_as_new(
    run: Run, root: Path, app: AppRegistry
) -> None:
    silent, drivers = "2020-01-01T00:00:00+00:00", StreamUpdateClient(str(root)).drivers("flights")
    assert drivers.silence("v1") is None
    set_status(app, "v1", status(heartbeat_at=clock.later(-12)))
    assert "has given no sign of life for 1" in str(drivers.silence("v1"))  # a wait may be shorter than 30 s
    set_status(app, "v1", status(heartbeat_at=silent))
    assert "has given no sign of life for " in str(drivers.silence("v1"))
    deploy(Registry(str(root)).app("young"), state=None)
    listed = run("list")
    assert {row[0]: row[1] for row in table(listed)[1:]} == {"flights": "silent", "young": "new"}
    assert "silent for " in listed.stdout and " ago" not in listed.stdout
    assert "silent for " in run("status", "flights").stdout
    assert ["state", "new"] in table(run("status", "young"))
    assert document(run("status", "young", "--json"))["status"] is None


@pytest.mark.parametrize("path", ["current.json", "deployments/v1/spec.json", "deployments/v1/status.json"])
def test_an_app_with_a_truncated_file_does_not_hide_the_others(
    run: Run, root: Path, app: AppRegistry, path: str
) -> None:
    deploy(Registry(str(root)).app("other"))
    app.folder.write(path, (app.folder.read(path) or b"")[:-10])
    result = run("list")
    assert result.exit_code == 1
    assert {row[0]: row[1] for row in table(result)[1:]} == {"flights": "unreadable", "other": "running"}
    assert f"Error: flights: {app.folder.path(path)} is not valid JSON" in result.stderr
    as_json = run("list", "--json")
    assert as_json.exit_code == 1
    assert document(as_json)[0]["error"]["type"] == "CorruptError"


# status


def test_status_shows_an_update_under_way_how_others_ended_and_an_error_as_it_is(run: Run, app: AppRegistry) -> None:
    now = clock.now()
    app.create_deployment(spec("v0", submitted_at="2020-01-01T00:00:00+00:00"))
    app.set_update(UpdateRecord(app="flights", old="v0", new="v1", started_at=now, outcome="promoted"))
    under_way = UpdateRecord(
        app="flights", old="v1", new="v2", started_at=now, step="snapshot_and_cancel", snapshot="before-v2"
    )
    app.set_update(under_way)
    lease.acquire(app.folder, "v2", ProcessIdentity.own())
    set_status(app, "v1", status("failed", error="no [bold]column[/bold] [/nope]"))
    result = run("status", "flights")
    assert "to v2, begun 2" in result.stdout and "snapshot_and_cancel, snapshot before-v2" in result.stdout
    assert [row[0] for row in table(result)[-2:]] == ["v0", "v1"] and table(result)[-1][-1] == "promoted"
    assert "failed" in table(result)[1] and "no [bold]column[/bold] [/nope]" in result.stdout, "it is no markup"


def test_status_shows_deployment_queries_stages_and_links(run: Run, app: AppRegistry) -> None:
    result = run("status", "flights")
    assert result.exit_code == 0
    for words in (
        "v1 (epoch 1, promoted)",
        "process 4711 on elsewhere",
        "http://elsewhere:4040",
        "/nowhere.log",
        "input=/in",
    ):
        assert words in result.stdout
    rows = table(result)
    assert ["windows/daily", "aggregate", "0", "42"] in rows
    query = next(row for row in rows if row[0] == "windows")
    assert query[1] == "7" and "120" in query
    assert rows[-1][:2] == ["v1", "running"]


def interrupted(app: AppRegistry) -> str:
    """An update whose process was killed; when it gave its last sign of life, as it is shown."""
    with subprocess.Popen(["sleep", "600"]) as process:
        holder = ProcessIdentity.of(process.pid)
        process.kill()
    times = {"plan": clock.now(), "check": clock.now()}
    record = UpdateRecord(app=app.name, old="v1", new="v2", started_at=clock.now(), step="check", step_times=times)
    app.set_update(record)
    held = lease.acquire(app.folder, "v2", holder)
    return clock.parse(held.renewed_at).strftime("%Y-%m-%d %H:%M:%S UTC")


def test_everybody_is_told_that_an_update_was_interrupted(run: Run, app: AppRegistry) -> None:
    at = interrupted(app)
    told = f"the update to v2 was interrupted at {at} after step 'check', and no process works on it"
    ways = "run the same update again to continue it, or streamupdate rollback flights"
    for name, text in next_steps(run, "flights").items():
        assert told in text and ways in text, name
    assert run("doctor").exit_code == 1
    with pytest.raises(LeaseHeldError, match=r"the update of flights to v2 was interrupted: .* rollback flights"):
        lease.acquire(app.folder, "v3", ProcessIdentity.own())


def test_status_as_json_holds_everything_and_no_secrets(run: Run, app: AppRegistry) -> None:
    secret = Application(file="a.py", conf={"spark.hadoop.fs.s3a.secret.key": "hunter2"}, env_vars={"API_TOKEN": "x"})
    write_json(app, "deployments/v1/spec.json", attrs.evolve(app.spec("v1"), application=secret))
    result = run("status", "flights", "--json")
    found = document(result)
    assert set(found) == {
        *("app", "state", "current", "spec", "status", "launch", "update", "beside"),
        *("plan", "deployments", "hot_standby", "cluster", "needs"),
    }
    assert found["status"]["queries"]["windows"]["state_rows"] == {"daily": 42}
    assert found["plan"]["queries"][0]["stages"][0]["name"] == "daily"
    assert found["deployments"][0]["state"] == "running"
    assert found["launch"]["log"] == "/nowhere.log"
    assert "hunter2" not in result.stdout and found["spec"]["application"]["env_vars"] == {"API_TOKEN": "(hidden)"}
    assert "hunter2" not in run("status", "flights").stdout


# log


def test_log_shows_the_last_lines(run: Run, app: AppRegistry, tmp_path: Path) -> None:
    log = Path(app.folder.path("deployments/v1/driver-1.log"))
    log.write_text("".join(f"line {n}\n" for n in range(100)))
    here = os.uname().nodename
    app.set_launch("v1", attrs.evolve(_launch(app), log=str(log), host=here))
    assert run("log", "flights", "-n", "2").stdout == "line 98\nline 99\n"
    found = document(run("log", "flights", "--lines", "1", "--json"))
    known = {"app": "flights", "deployment": "v1", "host": here, "path": str(log)}
    assert found == {**known, "lines": ["line 99"], "note": None}
    log.unlink()
    result = run("log", "flights")
    assert (result.stdout, result.stderr) == ("", f"{log}: there is no log at {log}\n")
    app.set_launch("v1", attrs.evolve(_launch(app), log="/nowhere.log", host="elsewhere"))
    assert run("log", "flights").stderr == "/nowhere.log: the log is on elsewhere at /nowhere.log\n"
    unknown = run("log", "flights", "--deployment", "v9")
    assert unknown.exit_code == 1 and "app flights has no deployment 'v9' (known: v1)" in unknown.stderr


def _launch(app: AppRegistry) -> Launch:
    launch = app.launch("v1")
    assert launch is not None
    return launch
