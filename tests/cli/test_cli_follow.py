"""An update by strategy `follow`: the new version runs the old one's batches along, and is compared with it; and what
any strategy compares with the batches before (SLO). Drivers of the stand-in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_streamupdate.control.update.strategies import follow as follow_strategy
from airflow_provider_streamupdate.core.difference.figures import KEPT
from airflow_provider_streamupdate.core.difference.limits import Limits
from airflow_provider_streamupdate.core.difference.report import DifferenceReport
from airflow_provider_streamupdate.core.errors import InvalidInputError
from airflow_provider_streamupdate.core.serde import from_json
from airflow_provider_streamupdate.core.slo import rules
from airflow_provider_streamupdate.core.slo.limits import NAMES
from tests.core.builders import app_plan, query_plan, stage_plan

from .conftest import Site, until


def follow(site: Site, *options: str, code: int = 0, **constants: Any) -> str:
    """Update to v2, and return what is said, in one line."""
    return " ".join(site.update("v2", "--strategy", "follow", *options, code=code, **constants).stderr.split())


def untouched(site: Site) -> bool:
    return site.alive() == ["v1"] and (site.current.deployment, site.current.epoch) == ("v1", 1)


def report(site: Site) -> DifferenceReport:
    folder = site.app.folder
    text = folder.read("differences/v2.json")
    assert text is not None and (folder.read("differences/v2.md") or b"").startswith(b"The new version of")
    return from_json(text, DifferenceReport, "report")


def test_it_takes_over_after_the_old_version_s_last_batch(running: Site) -> None:
    told = follow(running)
    assert "deployment v2 of alarm stands by" in told and "v1 hands over to v2" in told
    old, new = running.commits("v1"), running.commits("v2")
    assert new == list(range(new[0], new[-1] + 1)) and new[0] <= old[-1] < new[-1]
    record = running.record("v2")
    assert (record.strategy, record.outcome) == ("follow", "promoted")
    assert record.pause_seconds is not None and running.client.snapshot("alarm", "before-v2").queries
    running.ok("rollback", "alarm")
    assert running.alive() == ["v1"]


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
    text = follow(running, option, value, code=1, **constant)
    assert told in text and "nothing was stopped or changed, and v1 keeps running" in text
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
        *(
            (("--snapshot", "s1", *option), "with strategy restart the")
            for option in (("--catch-up-timeout", "1h"), ("--max-slower", "2"), ("--diff", "events"))
        ),
    ],
)
def test_a_limit_that_cannot_be_used_stops_nothing(running: Site, options: tuple[str, ...], told: str) -> None:
    """Nor does one of an update from a snapshot, which is compared with nothing."""
    running.ok("save-snapshot", "alarm", "s1")
    assert told in follow(running, *options, code=2) and untouched(running)


def test_one_that_does_not_keep_up_is_not_brought_in(running: Site) -> None:
    text = follow(running, "--catch-up-timeout", "12", code=1, FAIL="lag")
    assert "v2 of alarm has not caught up with v1 within 12 s: it is" in text
    assert "v2 catches up: it is " in text
    assert "batches behind; v1 runs" in text and "v2 0" in text
    assert untouched(running)


def test_fewer_batches_than_are_wanted_are_compared_as_they_are(site: Site) -> None:
    site.submit(INPUT=3)
    until(lambda: len(site.commits("v1")) == 3, "its last batch")
    told = follow(site, "--max-slower", "2", "--timeout", "3", INPUT=3)
    assert "fewer than 5 batches could be compared" in told and "events, 3 batches" in told and site.alive() == ["v2"]


def test_what_cannot_be_followed_is_not_brought_in(running: Site) -> None:
    assert "a followed batch fails" in follow(running, code=1, FAIL="follow") and untouched(running)
    follow(running, code=1, STAGES={"rooms": ["room", "floor"]})
    socket = running.application("v3", SINK={"format": "socket"})
    message = running.error("update", socket, "--strategy", "follow")["message"]
    assert "strategy follow cannot be used" in message and "of format socket, which was not tried" in message
    assert message.endswith("use strategy standby") and untouched(running)


def diffs(site: Site) -> dict[str, Any]:
    rows = report(site).rows
    return {r.query: (r.equal, r.only_old, r.only_new) for r in rows}


def test_rows_are_compared_by_a_third_driver(running: Site) -> None:
    told = follow(running, "--diff", "events=room")
    assert "v2-witness: driver started, to compare the rows of v2 with those of v1" in told
    equal, only_old, only_new = diffs(running)["events"]
    assert equal >= 10 and (only_old, only_new) == (0, 0)
    assert running.alive() == ["v2"], "it has ended"
    assert not running.app.deployment_folder("v2").names("diff/rows"), "and its rows are gone"


def test_rows_that_differ_stop_the_update(running: Site) -> None:
    text = follow(running, "--diff", "events", code=1, ROWS=[1, 3])
    assert "v2 of alarm differs too much from v1; nothing was stopped" in text
    assert "only old" in text and "only new" in text
    equal, only_old, only_new = diffs(running)["events"]
    assert equal == only_old == only_new >= 5
    running.client.wait_healthy("alarm")
    assert untouched(running), "the driver that compares has ended, too"
    assert not running.app.deployment_folder("v2").names("diff/rows")


@pytest.mark.parametrize(
    ("at", "options"), [(follow_strategy.Standby, ("--diff", "events=room")), (follow_strategy.Follow, ())]
)
def test_a_rerun_compares_what_it_is_told_to(
    running: Site, monkeypatch: pytest.MonkeyPatch, at: type, options: tuple[str, ...]
) -> None:
    """Found from outside: what was compared before is gone, and nobody recorded other rows; without a comparison both
    drivers went on recording, and the one that compares ran through the hand-over."""

    def die(*_: object) -> None:
        raise SystemExit(143)

    with monkeypatch.context() as dying:
        dying.setattr(at, "stop_old", die)
        follow(running, "--diff", "events", code=143)
    before = running.client.drivers("alarm").status("v2")
    assert "other rows are to be compared than before: v2 starts again" in follow(running, *options)
    after, folder = running.client.drivers("alarm").status("v2"), running.app.deployment_folder("v2")
    assert before and after and before.pid != after.pid and running.alive() == ["v2"]
    if options:
        equal, only_old, only_new = diffs(running)["events"]
        assert equal >= 10 and (only_old, only_new) == (0, 0)
    else:
        assert diffs(running) == {} and not folder.exists("diff/asked.json") and not folder.names("diff/rows")


def test_what_is_not_compared_any_more_is_told(running: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough was compared, and then the driver that compares died."""
    real = follow_strategy.wait_caught_up

    def witness_dies(update: Any) -> None:
        real(update)
        if running.record("v2").step_times.get("prepare"):
            running.crash("v2-witness")

    monkeypatch.setattr(follow_strategy, "wait_caught_up", witness_dies)
    told = follow(running, "--diff", "events=room")
    assert "later batches' rows were not compared: v2-witness, which compares them, has ended" in told
    assert "rows of query events, " in told and not running.app.deployment_folder("v2").names("diff/rows")


def test_a_deployment_with_the_name_of_the_witness_is_no_witness(running: Site) -> None:
    running.ok("update", running.application("v2"), "--deployment", "v3-witness")
    result = running.run(
        "update", running.application("v3"), "--deployment", "v3", "--strategy", "follow", "--diff", "events=room"
    )
    assert result.exit_code and "alarm has a deployment of that name; give the new version another id" in result.stderr
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


@pytest.fixture
def compared(running: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """What the old version's last batches took and wrote is compared with the new one's, whatever the strategy."""
    monkeypatch.setattr(rules, "PATIENCE_SECONDS", 2.0)
    until(lambda: len(running.commits("v1")) > KEPT // 2 or None, "batches to compare with")
    return running


@pytest.mark.parametrize(
    ("limit", "constants", "told"),
    [
        ("rows-out", {"ROWS_OUT": 40}, "rows out for"),
        (
            "batch-time",
            {"BATCH_TIME": 3.0},
            "a batch takes 3.00 s; before, 0.05 s when it was slow (at most 0.65 s are allowed)",
        ),
    ],
)
def test_one_that_does_worse_is_rolled_back(compared: Site, limit: str, constants: dict[str, Any], told: str) -> None:
    result = compared.update("v2", "--strategy", "restart", "--verify-for", "1", code=1, **constants)
    text = " ".join(result.stderr.split())
    assert f"query events, {limit}: " in text and told in text, text
    assert f"to allow it, give option slo: {limit}=LIMIT, or {limit}=off" in text
    record = compared.record("v2")
    assert record.outcome == "rolled-back" and limit in str(record.reason)
    assert compared.alive() == ["v1"]


def test_one_that_does_as_well_is_promoted_and_says_so(compared: Site) -> None:
    compared.update("v2", "--verify-for", "1")
    record = compared.record("v2")
    assert record.outcome == "promoted"
    found = {text.split(": ")[0]: text for text in record.verified if text.startswith("query events, ")}
    assert set(found) == {f"query events, {name}" for name in NAMES}
    assert "not compared" not in found["query events, batch-time"] + found["query events, rows-out"]
