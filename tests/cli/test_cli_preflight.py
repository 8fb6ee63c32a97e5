"""What is said of an update before a driver is started for it, and what is left where that driver cannot plan it."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_streamupdate.control.operations.plan import app_named_in
from airflow_provider_streamupdate.control.update.engine import UpdateEngine
from airflow_provider_streamupdate.control.update.strategies import own_driver
from airflow_provider_streamupdate.core.coordination import lease
from airflow_provider_streamupdate.core.processes.process_identity import ProcessIdentity
from airflow_provider_streamupdate.core.registry.application import Application, Script
from tests.begun_updates import begin_update

from .conftest import Site, document


@pytest.fixture
def running(site: Site) -> Site:
    """App alarm runs as deployment v1."""
    site.ok("submit", site.application(named=True), "--deployment", "v1")
    return site


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def planned(*_: object) -> None:
        raise AssertionError("a driver was started")

    monkeypatch.setattr(UpdateEngine, "_plan_and_check", planned)
    monkeypatch.setattr(UpdateEngine, "_planned_by", planned)


@pytest.mark.usefixtures("no_driver")
def test_a_lease_that_another_update_holds(running: Site) -> None:
    lease.acquire(running.app.folder, "other", ProcessIdentity.own())
    told = running.refused("update", running.application("v2", named=True))
    assert "an update of alarm is under way: other holds the lease" in told


def test_what_was_cancelled(running: Site, request: pytest.FixtureRequest) -> None:
    running.ok("cancel", "alarm")
    request.getfixturevalue("no_driver")
    for strategy in ("restart", "standby"):
        told = running.refused("update", running.application("v2", named=True), "--strategy", strategy)
        assert "alarm was cancelled by" in told and "streamupdate restart alarm starts it again" in told


def test_the_same_version_again_is_nothing_to_do(running: Site, request: pytest.FixtureRequest) -> None:
    v2 = running.application("v2", named=True)
    running.ok("update", v2, "--deployment", "v2")
    epoch = running.app.current()
    request.getfixturevalue("no_driver")
    for args in ((), ("--deployment", "v2"), ("--strategy", "restart")):
        again = running.ok("update", v2, *args)
        assert "alarm: v2 was promoted by this update at " in again.stdout and "nothing to do" in again.stdout
    told = document(running.run("update", v2, "--json"))
    assert (told["app"], told["deployment"], told["record"]["outcome"]) == ("alarm", "v2", "promoted")
    assert running.app.current() == epoch and running.alive() == ["v2"]


@pytest.mark.usefixtures("no_driver")
@pytest.mark.parametrize("more", [("--deployment", "v2"), ("--set", "limit=3"), ("--snapshot", "s1")])
def test_what_was_submitted_so_is_nothing_to_do_and_anything_that_differs_is_an_update(
    running: Site, more: tuple[str, ...]
) -> None:
    running.ok("save-snapshot", "alarm", "s1")
    again = running.ok("update", running.application(named=True)).stdout
    assert "alarm: v1 was submitted with this application and runs; nothing to do" in again
    with pytest.raises(AssertionError, match="a driver was started"):
        running.run("update", running.application(named=True), *more)


WHY = {
    "plan": "no such column",
    "start": "nothing was stopped or changed: the driver of deployment v2",
    "never": "took more than 2 s; nothing was stopped or changed, and v1 keeps running",
}


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(("strategy", "fails"), [("standby", "plan"), ("parallel", "start"), ("follow", "never")])
def test_a_version_that_its_driver_cannot_plan_leaves_nothing(
    running: Site, monkeypatch: pytest.MonkeyPatch, strategy: str, fails: str, known: bool
) -> None:
    """known: an earlier try has begun the update; then its record stays, until somebody ends it."""
    monkeypatch.setattr(own_driver, "TIMEOUT_SECONDS", 2.0)
    if known:
        begin_update(running.client, "alarm", "v2", strategy=strategy)
    running.client.wait_healthy("alarm")
    file = running.application("v2", named=True, FAIL=fails)
    assert WHY[fails] in running.refused("update", file, "--deployment", "v2", "--strategy", strategy)
    assert running.app.deployment_ids() == running.alive() == ["v1"]
    assert [update.new for update in running.app.updates()] == (["v2"] if known else [])
    assert running.world is not None
    living = [process for process in running.world.processes.values() if process.alive]
    assert len(living) == 2, "the test, and the driver of v1"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("app = StreamingApp('a')", "a"),
        ("app = streaming.StreamingApp(name='a')", "a"),
        ("NAME = 'a'\napp = StreamingApp(NAME)", None),
        ("one, two = StreamingApp('a'), StreamingApp('b')", None),
        ("app = StreamingApp('a')\nif x: app = StreamingApp(y)", None),
        ("app = StreamingApp()", None),
        ("from there import app", None),
        ("app = (", None),
    ],
)
def test_the_name_that_a_file_says_in_so_many_words(tmp_path: Path, text: str, name: str | None) -> None:
    (tmp_path / "app.py").write_text(text)
    assert app_named_in(Application(file=str(tmp_path / "app.py"))) == name
    assert app_named_in(Application(file=str(tmp_path / "missing.py"))) is None
    assert app_named_in(Application(file="job.py", script=Script(app="clicks"))) == "clicks"
