"""The commands that submit, check, plan, update and roll back, with a stand-in for Spark."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import click
import psutil
import pytest

from airflow_provider_streamupdate.cli import acceptance
from airflow_provider_streamupdate.control.operations.check import CheckOptions
from airflow_provider_streamupdate.core.compatibility.report import CompatibilityReport
from airflow_provider_streamupdate.core.compatibility.verdict import IGNORED, REFUSED, ReportItem, rename_way
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.storage.options import VARIABLE, from_environment
from tests.begun_updates import begin_update
from tests.standin import REPOSITORY

from .conftest import Site, document, table

FLOORS, MORE = {"rooms": ["floor"]}, {"extra": ["x"], "rooms": ["room"]}  # refused beside v1, and carried


def test_submit_starts_a_driver_that_outlives_the_command(site: Site) -> None:
    result = site.ok("submit", site.application(), "--set", "input=/in", "--conf", "spark.x=1")
    [spec] = site.client.deployments("alarm")
    assert result.stdout == f"alarm runs as deployment {spec.deployment} (epoch 1)\n"
    assert spec.application.params == {"input": "/in"} and spec.application.conf == {"spark.x": "1"}
    assert spec.deployment == spec.digest[:8] and site.alive() == [spec.deployment]
    steps = [line.partition("] ")[2] for line in result.stderr.splitlines()]
    assert [step.split()[0] for step in steps[:2]] == ["submitting", "planning"] and steps[-1].endswith("is running")
    assert "driver started" in result.stderr


def test_a_python_error_is_told_by_its_last_line_and_whole_when_asked_for(site: Site) -> None:
    application = site.application(FAIL="in Spark")
    short = site.ok("plan", application, code=1).stderr
    [told] = [line for line in short.splitlines() if line.startswith("Error: ")]
    assert told.endswith(
        "RuntimeError: KeyError: 'vat' (`streamupdate plan FILE --traceback` shows the whole traceback)"
    )
    whole = site.run("plan", application, "--traceback").stderr
    assert told in whole.splitlines() and "Traceback" not in short
    frame = re.search(r"Traceback \(most recent call last\):\n  File \"[^\"]+\", line \d+, in in_spark\n", whole)
    assert frame is not None and "\nKeyError: 'vat'\n" in whole[frame.end() :]


@pytest.mark.processes
def test_storage_options_reach_the_driver_out_of_sight(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, '{"secret": "s3cr3t", "region": "eu"}')
    result = site.submit("v1", "--storage-option", "region=us")
    driver = psutil.Process(site.launch("v1").pid)
    assert from_environment(driver.environ()) == {"secret": "s3cr3t", "region": "us"}
    assert "s3cr3t" not in " ".join(driver.cmdline()) and "s3cr3t" not in result.output
    kept = [path for path in (site.folder / "root").rglob("*") if path.is_file() and b"s3cr3t" in path.read_bytes()]
    assert kept == []


def test_check_compares_with_what_runs_a_snapshot_or_a_plan_alone(running: Site, tmp_path: Path) -> None:
    running.ok("save-snapshot", "alarm", "s1")
    printed, good = tmp_path / "old.json", running.application("v2", STAGES=MORE)
    printed.write_text(running.run("plan", running.application("v1"), "--json").stdout)
    for args, source in (((), "deployment v1"), (("--snapshot", "s1"), "snapshot s1")):
        rows = table(running.ok("check", good, *args))
        assert ["against", *source.split()] in rows and ["verdict", "compatible"] in rows
        assert any(row[:3] == ["stage", "events/extra", "empty"] for row in rows)
    bad = running.application("v3", STAGES=FLOORS)
    result = running.ok("check", bad, code=1)
    assert "Problems:\n  stage events/rooms: keys changed: room -> floor" in result.stdout
    as_json = document(running.ok("check", bad, "--json", code=1))
    assert as_json["compatible"] is False and len(as_json["problems"]) == 1
    assert "| stage | events/rooms | refused |" in running.ok("check", bad, "--markdown", code=1).stdout
    for plan in (printed, Path(running.app.folder.base) / "snapshots" / "s1" / "snapshot.json"):  # without a root
        for file, code in ((good, 0), (bad, 1)):
            running.ok("check", file, "--plan", plan, "--root", tmp_path / "nowhere", code=code)
    assert running.alive() == ["v1"]


def test_check_without_a_verdict_is_2(running: Site, tmp_path: Path) -> None:
    good = running.application("v2")
    for args, kind in (
        (("--snapshot", "nosuch"), "NotFoundError"),
        (("--snapshot", "a/b"), "InvalidInputError"),
        (("--markdown",), "UsageError"),
    ):
        assert running.error("check", good, *args, code=2)["type"] == kind
    running.ok("save-snapshot", "alarm", "s1")
    running.app.folder.write("snapshots/s1/snapshot.json", b"{")
    plan = tmp_path / "old.json"
    plan.write_text(running.run("plan", good, "--json").stdout)
    for args in (
        ("--agree", "events/nosuch"),
        ("--snapshot", "s1"),
        ("--plan", str(tmp_path / "nosuch.json")),
        ("--plan", str(plan), "--snapshot", "s1"),
        ("--rename", "nosuch=places"),
    ):
        running.ok("check", good, *args, code=2)
    running.ok("check", running.application("v2", APP="unknown"), code=2)


def test_a_renamed_stage_is_carried_by_a_rename(running: Site) -> None:
    renamed = running.application("v2", STAGES={"places": ["room"]})
    told = "carry it: --rename events/rooms=places carries its state"
    assert told in running.ok("check", renamed, code=1).stdout
    assert f"- {told}" in running.ok("check", renamed, "--markdown", code=1).stdout
    [item] = [i for i in document(running.ok("check", renamed, "--json", code=1))["items"] if i["verdict"] == "ignored"]
    assert [(way["fate"], way["option"], way["value"]) for way in item["ways"]] == [
        ("put it back", None, None),
        ("carry it", "--rename", "events/rooms=places"),
        ("lose it", "--agree", "events/rooms"),
    ]
    result = running.ok("check", renamed, "--rename", "rooms=places")
    assert any(row[:3] == ["stage", "events/places", "carried"] for row in table(result))
    running.ok("update", renamed, "--rename", "rooms=places")
    deployed = running.client.status("alarm").spec
    assert deployed is not None and deployed.renames == {"rooms": "places"}


@pytest.mark.parametrize("command", ["check", "update"])
def test_the_suggested_renames_are_taken_and_losses_are_not(running: Site, command: str) -> None:
    renamed = running.application("v2", STAGES={"places": ["room"]})
    result = running.ok(command, renamed, "--accept", "SUGGESTED", "--set", "a=b c")
    said = result.stderr.splitlines()
    assert "taken: --rename events/rooms=places" in said
    same = f"the same without asking: streamupdate {command} {renamed} --set 'a=b c' --rename events/rooms=places"
    assert same in said
    gone = running.application("v3", STAGES={"others": ["room", "floor"]})
    told = running.ok(command, gone, "--accept", "suggested", code=1)
    assert "taken" not in told.stderr and "--agree events/" in told.output and running.alive() != ["v3"]


def test_of_two_renames_to_one_name_none_is_taken() -> None:
    """Which of the two it continues is not known."""
    ways = [rename_way(f"q/{old}", new, "carries its state", evident=True) for old, new in (("a", "c"), ("b", "c"))]
    alone = rename_way("q/x", "y", "carries its state", evident=True)
    items = tuple(
        ReportItem(thing="stage", name=str(n), verdict=IGNORED, reason="gone", needs_agreement=True, ways=(way,))
        for n, way in enumerate([*ways, alone])
    )
    report = CompatibilityReport(app="a", source="s", items=items)
    assert [way.value for way in acceptance.Acceptance(suggested=True)._choose(report)] == ["q/x=y"]


def test_a_person_is_asked_for_each_problem_at_a_terminal_only(running: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = running.application("v2", STAGES={"others": ["room", "floor"]})
    assert "needs a terminal" in running.refused("check", bad, "--interactive", code=2)
    assert "exclude" in running.refused("check", bad, "--interactive", "--accept", "suggested", code=2)
    monkeypatch.setattr(acceptance, "at_terminal", lambda: True)
    assert "needs a terminal" in running.error("check", bad, "--interactive", code=2)["message"]
    asked: list[str] = []

    def confirm(text: str, **more: object) -> bool:
        asked.append(text)
        return text.startswith("lose it")

    monkeypatch.setattr(acceptance.click, "confirm", confirm)
    told = running.ok("check", bad, "--interactive")
    assert [text.partition(": ")[0] for text in asked] == ["put it back", "carry it", "lose it"]
    assert told.stderr.splitlines()[-1].endswith(f"streamupdate check {bad} --agree events/rooms")
    monkeypatch.setattr(acceptance.click, "confirm", lambda text, **more: False)
    assert "taken" not in running.ok("check", bad, "--interactive", code=1).stderr


def test_an_agreement_that_it_means_the_same_is_given_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter((True,))
    monkeypatch.setattr(acceptance.click, "confirm", lambda text, **more: "REASON" in text and next(answers))
    monkeypatch.setattr(acceptance.click, "prompt", lambda text, **more: "it is 'one'")
    item = ReportItem(thing="stage", name="q/s", verdict=REFUSED, reason="other keys", offer="q/s:same")

    def check(options: CheckOptions) -> CompatibilityReport:
        return CompatibilityReport(app="a", source="s", items=() if options.agree else (item,))

    with click.Context(click.Command("check"), info_name="streamupdate") as context:
        context.meta[acceptance.ARGUMENTS] = ["check", "v2.py", "--interactive"]
        asking = acceptance.Acceptance(interactive=True)
        options, report = asking.check(CheckOptions(Application(file="v2.py"), renames={"a": "b"}), check)
    assert options.agree == ("q/s:same=it is 'one'",) and options.renames == {"a": "b"} and report.compatible


def test_plan_shows_queries_and_stages(site: Site) -> None:
    application = site.application(STAGES={"rooms": ["room", "floor"]})
    assert ["rooms", "aggregate", "0", "keys:", "room,", "floor"] in table(site.ok("plan", application))
    assert document(site.run("plan", application, "--json"))["queries"][0]["name"] == "events"
    assert site.client.apps() == []


UNREAD = "parameter 'limt' was set, but no query function reads it; did you mean 'limit'?"


@pytest.mark.parametrize("command", ["plan", "check", "update"])
def test_a_parameter_that_nothing_reads_is_a_warning_and_with_strict_an_error(running: Site, command: str) -> None:
    """The stand-in says what a driver would; who reads what is in tests/spark/test_app.py."""
    args = (command, running.application("v2", WARNINGS=[UNREAD]))
    assert f"{UNREAD}; nothing was started (--strict)" in running.refused(*args, "--strict")
    assert running.current.deployment == "v1"
    assert f"warning: {UNREAD}" in running.ok(*args).stderr


def test_update_takes_the_state_to_the_next_version_and_rollback_goes_back(running: Site) -> None:
    other = running.client.registry.app("other").folder  # another app, whose damage is no hindrance
    for file in ("updates/v2.json", "deployments/v1/spec.json"):
        other.write(file, b"{")
    result = running.update("v2", "--verify-for", "2")
    assert result.stdout.startswith("alarm runs as deployment v2, in place of v1; the pause was ")
    assert "alarm runs as v2; the pause was " in result.stderr and running.alive() == ["v2"]
    other.remove("")
    verified = running.record("v2").verified
    assert "it has run for 2 s" in verified
    assert any("stage events/rooms holds " in text and "it held" in text for text in verified)
    assert running.first_batch() == running.client.snapshot("alarm", "before-v2").queries["events"].batch + 1
    assert table(running.run("status", "alarm"))[-1][-1] == "promoted"

    result = running.ok("rollback", "alarm")
    assert result.stdout == "alarm runs as deployment v1 again (epoch 3)\n"
    assert "downstream has seen its batches events" in result.stderr and running.alive() == ["v1"]
    again = running.run("rollback", "alarm", "--deployment", "v2").stdout
    assert again.startswith("the previous deployment of alarm is")
    [record] = running.app.rollbacks()
    assert (record.left, record.back_to, record.epoch, record.reason) == ("v2", "v1", 3, None)
    assert record.started_at < str(record.ended_at) and "@" in record.asked_by


@pytest.mark.parametrize("named", [False, True])
def test_an_incompatible_update_leaves_the_old_version_alone(running: Site, named: bool) -> None:
    """named: its own driver plans it, for a deployment that is taken back"""
    result = running.ok("update", running.application("v2", named, STAGES=FLOORS), "--json", code=1)
    found = document(result)
    assert found["error"]["type"] == "IncompatibleError" and found["report"]["app"] == "alarm"
    assert running.alive() == running.app.deployment_ids() == ["v1"] and running.lease_is_free()
    assert running.client.status("alarm").state == "running" and "v1 was not touched" in result.stderr


@pytest.mark.parametrize(("strategy", "ends"), [("standby", "v1 hands over"), ("restart", "asking alarm for snapshot")])
def test_an_update_prints_what_does_not_simply_continue_before_the_old_version_ends(
    running: Site, strategy: str, ends: str
) -> None:
    """And its driver, which compares once more, knows what was agreed to and renamed."""
    agreed = ("--agree", "events/rooms=it is counted elsewhere", "--strategy", strategy)
    before, _, _ = running.update("v2", *agreed, STAGES={"other": ["room"]}).stderr.partition(ends)
    assert "stage events/rooms: ignored, agreed (it is counted elsewhere)" in before
    assert "stage events/other: empty: new stage" in before
    renamed = ("--rename", "events/other=places", "--strategy", strategy)
    result = running.update("v3", *renamed, STAGES={"places": ["room"]})
    assert "verifying snapshot" not in result.stderr, result.stderr


@pytest.mark.parametrize("strategy", ["restart", "standby", "parallel"])
def test_the_snapshot_of_an_update_does_not_share_what_was_damaged(site: Site, strategy: str) -> None:
    def sink(topic: str) -> dict[str, object]:
        return {"STATE": True, "SINK": {"format": "kafka", "options": {"topic": topic}}}

    site.submit(**sink("old"))
    site.client.wait_healthy("alarm", batches=1)  # before its first batch it has no state file
    site.ok("save-snapshot", "alarm", "s1")
    [shared] = [f.object for f in site.client.snapshot("alarm", "s1").queries["events"].files if "/SSTs/" in f.path]
    path = Path(site.app.folder.path(shared))
    whole = path.read_bytes()
    path.unlink()  # it was a link to the checkpoint's
    path.write_bytes(b"x" * len(whole))
    result = site.update("v2", "--strategy", strategy, **sink("new" if strategy == "parallel" else "old"))
    assert f"{path} was damaged; it was stored again from " in result.stderr, result.stderr
    taken = site.client.snapshot("alarm", "before-v2").queries["events"].files
    assert path.read_bytes() == whole and path.name in {Path(f.object).name for f in taken}, "shared again"


def test_an_id_that_another_application_is_brought_in_under_is_refused(running: Site) -> None:
    begin_update(running.client, "alarm", "v2", "0" * 64)
    assert "'v2' with another application is under way" in running.update("v2", code=1).stderr
    assert running.alive() == ["v1"]


@pytest.mark.parametrize(("strategy", "used"), [("restart",) * 2, ("standby", "restart"), ("parallel",) * 2])
def test_an_update_from_a_given_snapshot(running: Site, strategy: str, used: str) -> None:
    """Not by a standby, which continues from the old version's end. Damaged, it stops nothing."""
    running.ok("save-snapshot", "alarm", "s1")
    saved = running.client.snapshot("alarm", "s1").queries["events"]
    file, data = running.app.folder, running.app.folder.read(saved.files[0].object)
    assert data is not None
    args = ("--strategy", strategy, "--snapshot", "s1")
    file.write(saved.files[0].object, bytes([data[0] ^ 1]) + data[1:])
    error = running.error("update", running.application("v2"), *args)
    assert error["type"] == "CorruptError" and "another checksum" in error["message"]
    assert running.alive() == ["v1"] and running.current.epoch == 1
    file.write(saved.files[0].object, data)
    assert "verifying snapshot" not in running.update("v3", *args).stderr, "it was, before the stop"
    record = running.record("v3")
    assert (record.strategy, record.snapshot) == (used, "s1")
    assert running.alive() == ["v3"] and [s.name for s in running.client.snapshots("alarm")] == ["s1"]
    assert running.first_batch() == saved.batch + 1


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
    running.ok("rollback", "alarm")
    assert running.alive() == ["v1"]
