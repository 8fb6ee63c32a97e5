"""A check as annotations of a pull request: GitHub's commands, SARIF and JUnit say the same as the report."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from airflow_provider_streamupdate.control.annotations import AppFile, github, junit, sarif
from airflow_provider_streamupdate.core.compatibility.report import CompatibilityReport
from airflow_provider_streamupdate.core.compatibility.rules import TABLE
from airflow_provider_streamupdate.core.compatibility.verdict import CARRIED, LOSS, MIGRATED, REFUSED, ReportItem

from .conftest import Site

REPOSITORY = Path(__file__).parents[2]
FILE = AppFile.of(
    "apps/v2, new.py",
    b'@app.query("orders")\ndef orders(spark, params):\n    events = source("events", read())\n'
    b'    return streaming.stage("daily", events)\n',
)


def item(thing: str, name: str, verdict: str, rule: str, **more: object) -> ReportItem:
    return ReportItem(thing=thing, name=name, verdict=verdict, rules=(rule,), **{"reason": "why", **more})


REPORT = CompatibilityReport(
    app="shop",
    source="snapshot s1",
    items=(
        item("stage", "orders/daily", REFUSED, "stage.keys", reason="50% of keys:\nb, \x1b[31m\x00c"),
        item("source", "orders/events", MIGRATED, "source.schema"),
        item("watermark", "orders:watermark", LOSS, "watermark.delay", needs_agreement=True, agreed=True),
        item("sink", "orders/noop", CARRIED, "sink.same"),
        item("query", "other", REFUSED, "query.new-not-understood"),
    ),
)


def test_github_s_commands_have_the_place_and_are_escaped() -> None:
    *commands, last = github(REPORT, FILE).split("\n")
    assert commands == [
        "::error file=apps/v2%2C new.py,line=4,title=stage orders/daily%3A refused::"
        "stage orders/daily: 50%25 of keys:%0Ab, \x1b[31m\x00c",
        "::notice file=apps/v2%2C new.py,line=3,title=source orders/events%3A migrated::source orders/events: why",
        "::warning file=apps/v2%2C new.py,line=1,title=watermark orders%3Awatermark%3A carried with loss::"
        "watermark orders:watermark: why",
        "::error file=apps/v2%2C new.py,title=query other%3A refused::query other: why",
    ]
    assert last == "shop: not compatible with snapshot s1"


def test_sarif_has_every_rule_and_a_result_for_what_changed() -> None:
    log = json.loads(sarif(REPORT, FILE))
    assert log["version"] == "2.1.0" and "sarif-2.1.0" in log["$schema"]
    [run] = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] and [r["id"] for r in driver["rules"]] == [r.id for rules in TABLE.values() for r in rules]
    assert all(rule["shortDescription"]["text"] and rule["help"]["text"] for rule in driver["rules"])
    assert [result["level"] for result in run["results"]] == ["error", "note", "warning", "error"]
    for result in run["results"]:
        assert result["message"]["text"]
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"] == {"uri": "apps/v2%2C%20new.py", "uriBaseId": "%SRCROOT%"}
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"] if "ruleId" in result else True
    lines = [r["locations"][0]["physicalLocation"].get("region", {}).get("startLine") for r in run["results"]]
    assert lines == [4, 3, 1, None]
    elsewhere = json.loads(sarif(REPORT, AppFile("/srv/v2.py")))["runs"][0]["results"][0]
    assert elsewhere["locations"][0]["physicalLocation"] == {"artifactLocation": {"uri": "file:///srv/v2.py"}}


def test_junit_has_a_suite_for_each_query_and_a_failure_for_each_problem() -> None:
    suites = ElementTree.fromstring(junit(REPORT, FILE))
    counts = [(s.get("name"), s.get("tests"), s.get("failures")) for s in suites]
    assert suites.tag == "testsuites" and counts == [("orders", "4", "1"), ("other", "1", "1")]
    failed = {case.get("name"): case.find("failure") for case in suites.iter("testcase")}
    assert [name for name, failure in failed.items() if failure is not None] == ["stage orders/daily", "query other"]
    failure = failed["stage orders/daily"]
    assert failure is not None and "50% of keys:\nb, ?[31m?c" in str(failure.text)


def test_check_prints_them_and_ends_with_the_verdict(running: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(running.folder)
    bad = running.application("v2", STAGES={"rooms": ["floor"]})
    *_, problem, last = running.ok("check", bad, "--format", "github", code=1).stdout.splitlines()
    assert problem.startswith(
        "::error file=v2.py,title=stage events/rooms%3A refused::stage events/rooms: keys changed"
    )
    assert last == "alarm: not compatible with deployment v1"
    log = json.loads(running.ok("check", bad, "--format", "sarif", code=1).stdout)
    assert [r["level"] for r in log["runs"][0]["results"]].count("error") == 1
    assert ElementTree.fromstring(running.ok("check", bad, "--format", "junit", code=1).stdout).tag == "testsuites"
    assert json.loads(running.ok("check", bad, "--format", "json", code=1).stdout)["compatible"] is False
    assert "excludes" in running.refused("check", bad, "--format", "sarif", "--markdown", code=2)
    missing = running.ok("check", bad, "--format", "json", "--snapshot", "nosuch", code=2)
    assert json.loads(missing.stdout)["error"]["type"] == "NotFoundError"


def test_the_action_runs_the_check_and_uploads_nothing(tmp_path: Path) -> None:
    action = yaml.safe_load((REPOSITORY / "action.yml").read_text())
    steps = action["runs"]["steps"]
    assert action["runs"]["using"] == "composite" and [s["uses"] for s in steps if "uses" in s] == [
        "actions/setup-python@v5"
    ]
    assert all("${{" not in step.get("run", "") for step in steps)  # what is given is no part of a script
    stub = tmp_path / "streamupdate"
    stub.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    stub.chmod(0o755)
    given = {"FILE": "a b.py", "PLAN": "$(reboot).json", "ARGS": "--set x=1"}
    ran = subprocess.run(
        ["bash", "-c", steps[-1]["run"]], env={"PATH": f"{tmp_path}:/bin", **given}, capture_output=True, text=True
    )
    assert ran.stdout.splitlines() == [
        *("check", "a b.py", "--plan", "$(reboot).json", "--set", "x=1", "--format", "github")
    ]
