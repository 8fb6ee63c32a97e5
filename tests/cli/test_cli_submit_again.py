"""`submit` once more, and what is refused: neither waits for a plan where the answer is known without one."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_streamupdate.control.operations import check, rehearse, submit
from airflow_provider_streamupdate.core.registry.application import Application

from .another import killed_at
from .conftest import Site, document


def no_plan(*_: Any, **__: Any) -> Any:
    raise AssertionError("a plan was made")


@pytest.fixture
def running(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """An app that runs; no plan can be made from here on."""
    site.ok("submit", site.application("v1", named=True), "--deployment", "v1")
    site.client.wait_healthy("alarm")
    for module in (check, submit):
        monkeypatch.setattr(module, "plan_application", no_plan)
    return site


@pytest.mark.parametrize("named", [(), ("--deployment", "v1")])
def test_the_same_again_waits_for_what_runs(running: Site, named: tuple[str, ...]) -> None:
    result = running.run("submit", running.application("v1", named=True), *named, "--json")
    expected = {"app": "alarm", "deployment": "v1", "epoch": 1, "reattached": True}
    assert (result.exit_code, document(result)) == (0, expected), result.stderr
    assert running.alive() == ["v1"]


@pytest.mark.parametrize("named", [(), ("--deployment", "mine")])
@pytest.mark.parametrize(
    "place", ["code-stored", "deployment-made", "epoch-claimed", "current-replaced", "driver-noted"]
)
def test_after_its_process_died_it_goes_on(site: Site, place: str, named: tuple[str, ...]) -> None:
    """The id counted as used: "ids are never reused", and without one a second deployment was made."""
    file = site.application("v1", named=True)
    killed_at(site, place, lambda client: client.submit(Application(file=str(file)), *named[1:]))
    if named and place != "code-stored":
        other = site.run("submit", site.application("v2", named=True), *named)
        assert other.exit_code == 1 and "already has a deployment 'mine'" in other.stderr
    result = site.ok("submit", file, *named, "--json")
    assert document(result)["reattached"] is (place == "driver-noted")
    [spec] = site.client.deployments("alarm")
    assert spec.deployment == document(result)["deployment"] and (not named or spec.deployment == "mine")
    assert site.client.status("alarm").state == "running" and site.alive() == [spec.deployment]


@pytest.mark.parametrize("command", ["check", "rehearse"])
def test_what_there_is_nothing_of_is_refused_at_once(site: Site, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    for module in (check, rehearse):
        monkeypatch.setattr(module, "plan_application", no_plan)
    result = site.run(command, site.application("v1", named=True))
    assert result.exit_code == 2 and "no app 'alarm' under" in result.stderr, result.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "already runs as deployment v1"),
        (("--deployment", "v1"), "already has a deployment 'v1'"),
        (("--fresh",), "already runs as deployment v1"),
    ],
)
def test_another_version_beside_it_is_refused_at_once(running: Site, arguments: tuple[str, ...], told: str) -> None:
    result = running.run("submit", running.application("v2", named=True), *arguments)
    assert result.exit_code == 1 and told in result.stderr
