"""The commands that start and end drivers, with a stand-in for Spark (tests/airflow/standin_spark_submit.py)."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from airflow_provider_streamupdate.core.storage.options import VARIABLE, from_environment
from tests.begun_updates import begin_update
from tests.standin import REPOSITORY

from .conftest import Site, document, table

# submit


def test_submit_starts_a_driver_that_outlives_the_command(site: Site) -> None:
    result = site.ok("submit", site.application(), "--set", "input=/in", "--conf", "spark.x=1")
    [spec] = site.client.deployments("alarm")
    assert (
        result.stdout == f"alarm runs as deployment {spec.deployment} (epoch 1)\n" and "driver started" in result.stderr
    )
    assert spec.application.params == {"input": "/in"} and spec.application.conf == {"spark.x": "1"}
    assert spec.deployment == spec.digest[:8]
    steps = [line.partition("] ")[2] for line in result.stderr.splitlines()]
    assert [step.split()[0] for step in steps[:2]] == ["submitting", "planning"] and steps[-1].endswith("is running")
    assert site.alive() == [spec.deployment]


def test_a_driver_that_dies_at_start_ends_with_its_last_lines(site: Site) -> None:
    result = site.run("submit", site.application(FAIL="start"))
    assert result.exit_code == 1
    assert "the last words of a driver that dies at start" in result.stderr
    assert site.alive() == []


def test_a_python_error_is_told_by_its_last_line_and_whole_when_asked_for(site: Site) -> None:
    application = site.application(FAIL="in Spark")
    short = site.run("plan", application)
    assert short.exit_code == 1 and "Traceback" not in short.stderr
    [told] = [line for line in short.stderr.splitlines() if line.startswith("Error: ")]
    assert told.endswith(
        "RuntimeError: KeyError: 'vat' (`streamupdate plan FILE --traceback` shows the whole traceback)"
    )
    whole = site.run("plan", application, "--traceback").stderr
    assert told in whole.splitlines()
    frame = re.search(r"Traceback \(most recent call last\):\n  File \"[^\"]+\", line \d+, in in_spark\n", whole)
    assert frame is not None and "\nKeyError: 'vat'\n" in whole[frame.end() :]


@pytest.mark.processes
def test_storage_options_reach_the_driver_out_of_sight(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, '{"secret": "s3cr3t", "region": "eu"}')
    result = site.ok("submit", site.application(), "--deployment", "v1", "--storage-option", "region=us")
    launch = site.app.launch("v1")
    assert launch is not None and launch.pid is not None
    driver = psutil.Process(launch.pid)
    assert from_environment(driver.environ()) == {"secret": "s3cr3t", "region": "us"}
    assert "s3cr3t" not in " ".join(driver.cmdline()) and "s3cr3t" not in result.output
    kept = [path for path in (site.folder / "root").rglob("*") if path.is_file() and b"s3cr3t" in path.read_bytes()]
    assert kept == []


# check and plan


def test_check_against_the_running_deployment_and_a_snapshot(running: Site) -> None:
    running.run("save-snapshot", "alarm", "s1")
    good = running.application("v2", STAGES={"extra": ["x"], "rooms": ["room"]})
    for args, source in (((), "deployment v1"), (("--snapshot", "s1"), "snapshot s1")):
        result = running.ok("check", good, *args)
        rows = table(result)
        assert ["against", *source.split()] in rows and ["verdict", "compatible"] in rows
        assert any(row[:3] == ["stage", "events/extra", "empty"] for row in rows)
    assert running.alive() == ["v1"]


def test_check_of_what_does_not_fit_is_1(running: Site) -> None:
    bad = running.application("v2", STAGES={"rooms": ["floor"]})
    result = running.run("check", bad)
    assert result.exit_code == 1
    assert "Problems:\n  stage events/rooms: keys changed from [room] to [floor]" in result.stdout
    as_json = running.run("check", bad, "--json")
    assert as_json.exit_code == 1
    assert document(as_json)["compatible"] is False and len(document(as_json)["problems"]) == 1
    markdown = running.run("check", bad, "--markdown")
    assert markdown.exit_code == 1 and "| stage | events/rooms | refused |" in markdown.stdout
    assert running.alive() == ["v1"]


def test_a_renamed_stage_is_carried_by_a_rename(running: Site) -> None:
    renamed = running.application("v2", STAGES={"places": ["room"]})
    without = running.run("check", renamed)
    assert without.exit_code == 1 and "--rename events/rooms=places carries its state" in without.stdout
    result = running.ok("check", renamed, "--rename", "rooms=places")
    assert any(row[:3] == ["stage", "events/places", "carried"] for row in table(result))
    assert running.run("check", renamed, "--rename", "nosuch=places").exit_code == 2
    running.ok("update", renamed, "--rename", "rooms=places")
    deployed = running.client.status("alarm").spec
    assert deployed is not None and deployed.renames == {"rooms": "places"}


def test_check_against_a_plan_alone_needs_no_root(running: Site, tmp_path: Path) -> None:
    running.run("save-snapshot", "alarm", "s1")
    printed = tmp_path / "old.json"
    printed.write_text(running.run("plan", running.application("v1"), "--json").stdout)
    root = Path(running.app.folder.base)
    for plan in (printed, root / "snapshots" / "s1" / "snapshot.json"):
        good = running.application("v2", STAGES={"extra": ["x"], "rooms": ["room"]})
        running.ok("check", good, "--plan", plan, "--root", tmp_path / "nowhere")
        bad = running.application("v2", STAGES={"rooms": ["floor"]})
        assert running.run("check", bad, "--plan", plan, "--root", tmp_path / "nowhere").exit_code == 1
    assert running.run("check", good, "--plan", tmp_path / "nosuch.json").exit_code == 2
    assert running.run("check", good, "--plan", printed, "--snapshot", "s1").exit_code == 2


def test_check_without_a_verdict_is_2(running: Site) -> None:
    good = running.application("v2")
    for args, kind in (
        (("--snapshot", "nosuch"), "NotFoundError"),
        (("--snapshot", "a/b"), "InvalidInputError"),
        (("--markdown",), "UsageError"),
    ):
        result = running.run("check", good, *args, "--json")
        assert (result.exit_code, document(result)["error"]["type"]) == (2, kind)
    assert running.run("check", good, "--agree", "events/nosuch").exit_code == 2
    running.run("save-snapshot", "alarm", "s1")
    running.app.folder.write("snapshots/s1/snapshot.json", b"{")
    assert running.run("check", good, "--snapshot", "s1").exit_code == 2
    assert running.run("check", running.application("v2", APP="unknown")).exit_code == 2


def test_plan_shows_queries_and_stages(site: Site) -> None:
    application = site.application(STAGES={"rooms": ["room", "floor"]})
    result = site.ok("plan", application)
    assert ["rooms", "aggregate", "0", "keys:", "room,", "floor"] in table(result)
    assert document(site.run("plan", application, "--json"))["queries"][0]["name"] == "events"
    assert site.client.apps() == []


# update and rollback


UNREAD = "parameter 'limt' was set, but no query function reads it; did you mean 'limit'?"


@pytest.mark.parametrize("command", ["plan", "check", "update"])
def test_a_parameter_that_nothing_reads_is_a_warning_and_with_strict_an_error(running: Site, command: str) -> None:
    """The stand-in says what a driver would; who reads what is in tests/spark/test_app.py."""
    file = running.application("v2", WARNINGS=[UNREAD])
    args = (command, file, *(("--deployment", "v2") if command == "update" else ()))
    refused = running.run(*args, "--strict")
    assert refused.exit_code == 1 and f"{UNREAD}; nothing was started (--strict)" in refused.stderr
    assert running.current.deployment == "v1"
    warned = running.ok(*args)
    assert f"warning: {UNREAD}" in warned.stderr


def test_update_takes_the_state_to_the_next_version(running: Site) -> None:
    result = running.ok("update", running.application("v2"), "--deployment", "v2", "--verify-for", "2")
    assert result.stdout.startswith("alarm runs as deployment v2, in place of v1; the pause was ")
    assert "alarm runs as v2; the pause was " in result.stderr and running.alive() == ["v2"]
    record = running.record("v2")
    assert "it has run for 2 s" in record.verified
    assert any("stage events/rooms holds " in text and "it held" in text for text in record.verified)
    client = running.client
    snapshot = client.snapshot("alarm", "before-v2").queries["events"]
    assert running.first_batch() == snapshot.batch + 1
    assert table(running.run("status", "alarm"))[-1][-1] == "promoted"


@pytest.mark.parametrize("named", [False, True])
def test_an_incompatible_update_leaves_the_old_version_alone(running: Site, named: bool) -> None:
    """named: its own driver plans it, for a deployment that is taken back"""
    result = running.run("update", running.application("v2", named, STAGES={"rooms": ["floor"]}), "--json")
    assert result.exit_code == 1
    found = document(result)
    assert found["error"]["type"] == "IncompatibleError" and found["report"]["app"] == "alarm"
    assert running.alive() == running.app.deployment_ids() == ["v1"]
    assert running.client.status("alarm").state == "running" and "v1 was not touched" in result.stderr
    assert running.lease_is_free()


@pytest.mark.parametrize(("strategy", "ends"), [("standby", "v1 hands over"), ("restart", "asking alarm for snapshot")])
def test_an_update_prints_what_does_not_simply_continue_before_the_old_version_ends(
    running: Site, strategy: str, ends: str
) -> None:
    """And its driver, which compares once more, knows what was agreed to and renamed."""
    less = running.application("v2", STAGES={"other": ["room"]})
    agreed = ("--agree", "events/rooms=it is counted elsewhere", "--strategy", strategy)
    result = running.ok("update", less, "--deployment", "v2", *agreed)
    before, _, _ = result.stderr.partition(ends)
    assert "stage events/rooms: ignored, agreed (it is counted elsewhere)" in before
    assert "stage events/other: empty: new stage" in before
    renamed = running.application("v3", STAGES={"places": ["room"]})
    result = running.ok("update", renamed, "--rename", "events/other=places", "--strategy", strategy)
    assert "verifying snapshot" not in result.stderr, result.stderr


def test_the_damaged_record_of_another_app_is_no_hindrance(running: Site) -> None:
    other = running.client.registry.app("other").folder
    for file in ("updates/v2.json", "deployments/v1/spec.json"):
        other.write(file, b"{")
    running.ok("update", running.application("v2"), "--deployment", "v2")
    other.remove("")


@pytest.mark.parametrize("strategy", ["restart", "standby", "parallel"])
def test_the_snapshot_of_an_update_does_not_share_what_was_damaged(site: Site, strategy: str) -> None:
    sinks = ({"SINK": {"format": "kafka", "options": {"topic": topic}}} for topic in ("old", "new"))
    site.ok("submit", site.application(STATE=True, **next(sinks)), "--deployment", "v1")
    site.client.wait_healthy("alarm", batches=1)  # before its first batch it has no state file
    site.ok("save-snapshot", "alarm", "s1")
    [shared] = [f.object for f in site.client.snapshot("alarm", "s1").queries["events"].files if "/SSTs/" in f.path]
    path = Path(site.app.folder.path(shared))
    whole = path.read_bytes()
    path.unlink()  # it was a link to the checkpoint's
    path.write_bytes(b"x" * len(whole))
    beside = next(sinks) if strategy == "parallel" else {"SINK": {"format": "kafka", "options": {"topic": "old"}}}
    file = site.application("v2", STATE=True, **beside)
    result = site.ok("update", file, "--deployment", "v2", "--strategy", strategy)
    assert f"{path} was damaged; it was stored again from " in result.stderr, result.stderr
    taken = site.client.snapshot("alarm", "before-v2").queries["events"].files
    assert path.read_bytes() == whole and path.name in {Path(f.object).name for f in taken}, "shared again"


def test_an_id_that_another_application_is_brought_in_under_is_refused(running: Site) -> None:
    begin_update(running.client, "alarm", "v2", "0" * 64)
    result = running.run("update", running.application("v2"), "--deployment", "v2")
    assert result.exit_code == 1 and "'v2' with another application is under way" in result.stderr
    assert running.alive() == ["v1"]


@pytest.mark.parametrize(("strategy", "used"), [("restart",) * 2, ("standby", "restart"), ("parallel",) * 2])
def test_an_update_from_a_given_snapshot(running: Site, strategy: str, used: str) -> None:
    """Not by a standby, which continues from the old version's end. Damaged, it stops nothing."""
    running.ok("save-snapshot", "alarm", "s1")
    saved = running.client.snapshot("alarm", "s1").queries["events"]
    file, data = running.app.folder, running.app.folder.read(saved.files[0].object)
    assert data is not None
    args = ("update", running.application("v2"), "--deployment", "v2", "--strategy", strategy, "--snapshot", "s1")
    file.write(saved.files[0].object, bytes([data[0] ^ 1]) + data[1:])
    refused = running.run(*args, "--json")
    assert document(refused)["error"]["type"] == "CorruptError" and "another checksum" in refused.stdout
    assert running.alive() == ["v1"] and running.current.epoch == 1
    file.write(saved.files[0].object, data)
    result = running.ok(*args[:3], "v3", *args[4:])
    assert "verifying snapshot" not in result.stderr, "it was, before the stop"
    record = running.record("v3")
    assert (record.strategy, record.snapshot) == (used, "s1")
    assert running.alive() == ["v3"] and [s.name for s in running.client.snapshots("alarm")] == ["s1"]
    assert running.first_batch() == saved.batch + 1


@pytest.mark.parametrize("option", [("--catch-up-timeout", "1h"), ("--max-slower", "2"), ("--diff", "events")])
def test_a_given_snapshot_is_compared_with_nothing(running: Site, option: tuple[str, str]) -> None:
    running.ok("save-snapshot", "alarm", "s1")
    args = ("update", running.application("v2"), "--strategy", "follow", "--snapshot", "s1", *option)
    refused = running.run(*args)
    assert refused.exit_code == 2 and "with strategy restart the" in refused.stderr


def test_rollback_goes_back_to_the_deployment_before(running: Site) -> None:
    running.run("update", running.application("v2"), "--deployment", "v2")
    result = running.ok("rollback", "alarm")
    assert result.stdout == "alarm runs as deployment v1 again (epoch 3)\n"
    assert "downstream has seen its batches events" in result.stderr
    assert running.alive() == ["v1"]
    [record] = running.app.rollbacks()
    assert (record.left, record.back_to, record.epoch, record.reason) == ("v2", "v1", 3, None)
    assert record.started_at < str(record.ended_at) and "@" in record.asked_by
    assert running.run("rollback", "alarm", "--deployment", "v2").stdout.startswith(
        "the previous deployment of alarm is"
    )
    assert len(running.app.rollbacks()) == 1


@pytest.mark.processes
def test_ctrl_c_during_an_update_says_how_to_continue_and_the_same_command_does(running: Site) -> None:
    args = ("update", running.application("v2", FAIL="stuck"), "--strategy", "restart", "--timeout", "60")
    code = f"from airflow_provider_streamupdate.cli import main; main({[str(a) for a in args]!r})"
    # A shell's background jobs, and so these tests if they are one, ignore Ctrl-C and hand that on.
    code = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {code}"
    with subprocess.Popen([sys.executable, "-c", code], cwd=REPOSITORY, stderr=subprocess.PIPE, text=True) as update:
        watchdog = threading.Timer(150, update.kill)  # a busy machine takes its time
        watchdog.start()
        assert update.stderr is not None and any("verifying" in line for line in update.stderr)
        os.kill(update.pid, signal.SIGINT)
        rest = update.stderr.read()
        assert update.wait() == 130, rest
        watchdog.cancel()
    assert "run the same command again to continue it" in rest and "Traceback" not in rest
    status = running.client.status("alarm")
    assert status.update is not None and running.alive() == [status.update.new]
    rolled_back = running.ok("rollback", "alarm")
    assert running.alive() == ["v1"], rolled_back.stderr
