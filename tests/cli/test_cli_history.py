"""The command history, of updates that really ran (over the stand-in for Spark)."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from airflow_provider_streamupdate.cli.commands.history import _print_code
from airflow_provider_streamupdate.control.review.code import CodeDiff, FileDiff
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.users import user_and_host

from .conftest import Site, document, table


@pytest.fixture
def updated(site: Site) -> Site:
    """v1, then v2 with another parameter and conf, then an update that dies and is rolled back."""
    first = ("--set", "input=/in", "--set", "api_token=t0k3n-1", "--set", "threshold=1")
    site.ok("submit", site.application(), "--deployment", "v1", *first)
    second = ("--set", "input=/in", "--set", "api_token=t0k3n-2", "--set", "threshold=7", "--conf", "spark.x=1")
    site.ok("update", site.application("v2"), "--deployment", "v2", *second)
    site.ok("rollback", "alarm")
    return site


def test_history_lists_updates_and_rollbacks_the_newest_first(updated: Site) -> None:
    rows = table(updated.run("history", "alarm"))
    assert rows[0] == ["STARTED", "FROM", "TO", "STRATEGY", "OUTCOME", "PAUSE", "REQUESTED", "BY", "REASON"]
    assert [row[1:4] for row in rows[1:]] == [["v2", "v1", "rollback"], ["v1", "v2", "standby"]]
    assert user_and_host() in updated.run("history", "alarm").stdout
    found = document(updated.run("history", "alarm", "--json"))
    [update] = found["updates"]
    assert (update["asked_by"], update["outcome"], update["runs"]) == (user_and_host(), "rolled-back", "v2")
    assert [r["left"] for r in found["rollbacks"]] == ["v2"]


@pytest.mark.processes
def test_history_of_one_update_tells_what_it_changed(updated: Site) -> None:
    result = updated.ok("history", "alarm", "v2", "--diff")
    words = " ".join(result.stdout.split())
    for told in (
        "update from v1 to v2, standby",
        f"requested by {user_and_host()}",
        "parameters threshold 1 7",
        "parameters api_token (hidden) (hidden), another",
        "conf spark.x - 1",
        "v2.py (was v1.py), +1 -1",
        "-VERSION = 'v1'",
        "+VERSION = 'v2'",
        "rolled back",
    ):
        assert told in words, told
    assert "t0k3n" not in result.stdout
    found = document(updated.run("history", "alarm", "v2", "--diff", "--json"))
    assert "t0k3n" not in json.dumps(found)
    assert [step["step"] for step in found["update"]["steps"]][-1] == "promote"
    assert found["rollback"]["back_to"] == "v1" and found["code"]["files"][0]["removed"] == 1
    # the pause lies between the commits of the two
    record = found["update"]
    begin, end = clock.parse(record["paused_at"]), clock.parse(record["step_times"]["promote"])
    assert begin < begin + timedelta(seconds=record["pause_seconds"]) < end
    assert "code" not in document(updated.run("history", "alarm", "v2", "--json"))


def test_the_name_of_a_file_adds_no_line_to_the_difference(capsys: pytest.CaptureFixture[str]) -> None:
    """An entry of a zip may be called anything."""
    forged = FileDiff(name="l.zip/a.py\n+ forged", added=1, removed=1, lines=("-x", "+y"))
    _print_code(CodeDiff(old="v1", new="v2", files=(forged,)))
    assert "l.zip/a.py\\n+ forged, +1 -1\n" in (said := capsys.readouterr().out) and "\n+ forged" not in said


def test_history_of_what_is_not_there(updated: Site) -> None:
    assert "no update 'v9'" in updated.run("history", "alarm", "v9").stderr
    assert updated.run("history", "alarm", "--diff").exit_code == 2
    updated.ok("submit", updated.application("w", APP="young"), "--deployment", "w")
    result = updated.ok("history", "young")
    assert result.stderr == "young has not been updated yet\n"
