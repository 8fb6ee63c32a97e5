"""An update by strategy `follow`, with drivers of the stand-in: the new version runs the old one's batches along."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import Result

from airflow_provider_streamupdate.control.update.strategies import follow as follow_strategy
from airflow_provider_streamupdate.core.difference.limits import Limits
from airflow_provider_streamupdate.core.difference.report import DifferenceReport
from airflow_provider_streamupdate.core.errors import InvalidInputError
from airflow_provider_streamupdate.core.serde import from_json
from tests.core.builders import app_plan, query_plan, stage_plan

from .conftest import Site, document, until


def follow(site: Site, *options: str, **constants: Any) -> Result:
    file = site.application("v2", **constants)
    return site.run("update", file, "--deployment", "v2", "--strategy", "follow", *options)


def untouched(site: Site) -> bool:
    return site.alive() == ["v1"] and (site.current.deployment, site.current.epoch) == ("v1", 1)


def report(site: Site) -> DifferenceReport:
    folder = site.app.folder
    text = folder.read("differences/v2.json")
    assert text is not None and (folder.read("differences/v2.md") or b"").startswith(b"The new version of")
    return from_json(text, DifferenceReport, "report")


def test_it_takes_over_after_the_old_version_s_last_batch(running: Site) -> None:
    result = follow(running)
    assert result.exit_code == 0, result.stderr
    assert "deployment v2 of alarm stands by" in result.stderr and "v1 hands over to v2" in result.stderr
    old, new = running.commits("v1"), running.commits("v2")
    assert new == list(range(new[0], new[-1] + 1)) and new[0] <= old[-1] < new[-1]
    record = running.record("v2")
    assert (record.strategy, record.outcome) == ("follow", "promoted")
    assert record.pause_seconds is not None and running.client.snapshot("alarm", "before-v2").queries
    assert running.run("rollback", "alarm").exit_code == 0 and running.alive() == ["v1"]


@pytest.mark.parametrize(
    ("option", "value", "constant", "told"),
    [
        ("--max-rows-changed", "5%", {"ROWS_OUT": 11}, "10% more; 5% is allowed"),
        ("--max-state-changed", "0.05", {"STATE_ROWS": 0}, "10 before, 0 now, 100% less"),
        ("--max-slower", "1.5", {"BATCH_TIME": 0.1}, "100% more; 50% more is allowed"),
    ],
)
def test_a_limit_that_is_passed_stops_the_update(
    running: Site, option: str, value: str, constant: dict[str, Any], told: str
) -> None:
    result = follow(running, option, value, **constant)
    text = " ".join(result.stderr.split())
    assert result.exit_code == 1 and told in text and "nothing was stopped or changed, and v1 keeps running" in text
    assert untouched(running) and not report(running).passed
    running.ok("update", running.application("v3"), "--strategy", "follow", option, value)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--max-slower", "fast"), "max_slower='fast' is no number"),
        (("--diff", "events=a,,b"), "has an empty column"),
        (("--diff", "other"), "the rows of query 'other' cannot be compared (--diff)"),
        (("--max-slower", "2", "--strategy", "restart"), "or use strategy follow"),
        (("--diff", "events", "--strategy", "in_flight"), "or use strategy follow"),
        (("--run-beside", "1h"), "with strategy follow the versions do not run side by side"),
        (("--catch-up-timeout", "1h", "--strategy", "standby"), "the new version has nothing to catch up with"),
    ],
)
def test_a_limit_that_cannot_be_used_stops_nothing(running: Site, options: tuple[str, str], told: str) -> None:
    result = follow(running, *options)
    assert result.exit_code == 2 and told in result.stderr and untouched(running)


def test_one_that_does_not_keep_up_is_not_brought_in(running: Site) -> None:
    result = follow(running, "--catch-up-timeout", "12", FAIL="lag")
    text = " ".join(result.stderr.split())
    assert result.exit_code == 1 and "v2 of alarm has not caught up with v1 within 12 s: it is" in text
    assert "v2 catches up: it is " in text
    assert "batches behind; v1 runs" in text and "v2 0" in text
    assert untouched(running)


def test_fewer_batches_than_are_wanted_are_compared_as_they_are(site: Site) -> None:
    site.ok("submit", site.application(INPUT=3), "--deployment", "v1")
    until(lambda: len(site.commits("v1")) == 3, "its last batch")
    result = follow(site, "--max-slower", "2", "--timeout", "3", INPUT=3)
    assert result.exit_code == 0 and site.alive() == ["v2"]
    assert "fewer than 5 batches could be compared" in result.stderr and "events, 3 batches" in result.stderr


def test_one_whose_followed_batch_fails_is_not_brought_in(running: Site) -> None:
    result = follow(running, FAIL="follow")
    assert result.exit_code == 1 and "a followed batch fails" in result.stderr
    assert untouched(running)


def test_what_cannot_be_followed_is_refused_by_the_plan(running: Site) -> None:
    result = follow(running, STAGES={"rooms": ["room", "floor"]})
    assert result.exit_code == 1 and untouched(running)
    sink = {"SINK": {"format": "socket"}}
    result = running.run("update", running.application("v3", **sink), "--strategy", "follow", "--json")
    message = document(result)["error"]["message"]
    assert "strategy follow cannot be used" in message and "of format socket, which was not tried" in message
    assert message.endswith("use strategy standby") and untouched(running)


def diffs(site: Site) -> dict[str, Any]:
    rows = report(site).rows
    return {r.query: (r.equal, r.only_old, r.only_new) for r in rows}


def test_rows_are_compared_by_a_third_driver(running: Site) -> None:
    result = follow(running, "--diff", "events=room")
    assert result.exit_code == 0, result.stderr
    assert "v2-witness: driver started, to compare the rows of v2 with those of v1" in result.stderr
    equal, only_old, only_new = diffs(running)["events"]
    assert equal >= 10 and (only_old, only_new) == (0, 0)
    assert running.alive() == ["v2"], "it has ended"
    assert not running.app.deployment_folder("v2").names("diff/rows"), "and its rows are gone"


def test_rows_that_differ_stop_the_update(running: Site) -> None:
    result = follow(running, "--diff", "events", ROWS=[1, 3])
    text = " ".join(result.stderr.split())
    assert result.exit_code == 1 and "v2 of alarm differs too much from v1; nothing was stopped" in text
    assert "only old" in text and "only new" in text
    equal, only_old, only_new = diffs(running)["events"]
    assert equal == only_old == only_new >= 5
    running.client.wait_healthy("alarm")
    assert untouched(running), "the driver that compares has ended, too"
    assert not running.app.deployment_folder("v2").names("diff/rows")


def test_other_rows_are_compared_after_a_rerun(running: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found from outside: what was compared before is gone, and nobody recorded it again."""

    def die(*_: object) -> None:
        raise SystemExit(143)

    with monkeypatch.context() as dying:
        dying.setattr(follow_strategy.Standby, "stop_old", die)
        assert follow(running, "--diff", "events").exit_code == 143
    before = running.client.drivers("alarm").status("v2")
    result = follow(running, "--diff", "events=room")
    assert result.exit_code == 0, result.stderr
    assert "other rows are to be compared than before: v2 starts again" in result.stderr
    after = running.client.drivers("alarm").status("v2")
    assert before and after and before.pid != after.pid
    equal, only_old, only_new = diffs(running)["events"]
    assert equal >= 10 and (only_old, only_new) == (0, 0) and running.alive() == ["v2"]


def test_a_rerun_without_a_comparison_records_nothing(running: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found from outside: both drivers went on recording, and the one that compares ran through the hand-over."""

    def die(*_: object) -> None:
        raise SystemExit(143)

    with monkeypatch.context() as dying:
        dying.setattr(follow_strategy.Follow, "stop_old", die)
        assert follow(running, "--diff", "events").exit_code == 143
    assert running.alive() == ["v1", "v2", "v2-witness"]
    result = follow(running)
    assert result.exit_code == 0, result.stderr
    assert "other rows are to be compared than before: v2 starts again" in result.stderr
    folder = running.app.deployment_folder("v2")
    assert running.alive() == ["v2"] and not folder.exists("diff/asked.json") and not folder.names("diff/rows")
    assert diffs(running) == {}


def test_what_is_not_compared_any_more_is_told(running: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough was compared, and then the driver that compares died."""
    real = follow_strategy.wait_caught_up

    def witness_dies(update: Any) -> None:
        real(update)
        if running.app.update("v2").step_times.get("prepare"):  # type: ignore[union-attr]
            running.crash("v2-witness")

    monkeypatch.setattr(follow_strategy, "wait_caught_up", witness_dies)
    result = follow(running, "--diff", "events=room")
    assert result.exit_code == 0, result.stderr
    assert "later batches' rows were not compared: v2-witness, which compares them, has ended" in result.stderr
    assert "rows of query events, " in result.stderr
    assert not running.app.deployment_folder("v2").names("diff/rows")


def test_a_deployment_with_the_name_of_the_witness_is_no_witness(running: Site) -> None:
    running.ok("update", running.application("v2"), "--deployment", "v3-witness")
    result = running.run(
        "update", running.application("v3"), "--deployment", "v3", "--strategy", "follow", "--diff", "events=room"
    )
    assert result.exit_code != 0
    assert "alarm has a deployment of that name; give the new version another id (--deployment)" in result.stderr
    assert running.alive() == ["v3-witness"]


@pytest.mark.parametrize(("keys", "limit", "refused"), [(("q",), None, True), ((), 0.1, True), ((), None, False)])
def test_rows_of_a_query_with_a_new_stage_are_not_compared(
    keys: tuple[str, ...], limit: float | None, refused: bool
) -> None:
    """Found from outside: the stage gets no rows before the takeover, so that all would count as gone."""
    old = app_plan(query_plan(stage_plan("a"), name="q"))
    new = app_plan(query_plan(stage_plan("a"), stage_plan("b", 1), name="q"))
    options: Any = SimpleNamespace(diff_keys=dict.fromkeys(keys, ()), limits=Limits(max_rows_changed=limit))
    update: Any = SimpleNamespace(options=options)
    follow_strategy._check_comparable(update, old, old)
    if refused:
        with pytest.raises(InvalidInputError, match="stage b is new"):
            follow_strategy._check_comparable(update, new, old)
    else:
        follow_strategy._check_comparable(update, new, old)
