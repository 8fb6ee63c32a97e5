"""The operator that supervises, against a real root and the stand-in for Spark; the rules: tests/cli."""

from __future__ import annotations

from typing import Any

import pytest
from airflow_site import Site

from airflow_provider_streamupdate.assets import CRASH_LOOP, app_asset
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.operators import supervise
from airflow_provider_streamupdate.operators.supervise import StreamSuperviseOperator

Context = dict[str, Any]


class OutletEvents(dict[Any, Any]):
    """What a task has of them."""

    def __init__(self) -> None:
        super().__init__()
        self.added: list[tuple[Any, dict[str, Any]]] = []

    def __getitem__(self, alias: Any) -> OutletEvents:
        assert alias == CRASH_LOOP
        return self

    def add(self, asset: Any, extra: dict[str, Any]) -> None:
        self.added.append((asset, extra))


@pytest.mark.processes
def test_a_killed_driver_runs_again_when_the_task_ends(site: Site, context: Context) -> None:
    site.submit()
    site.client.wait_healthy("alarm")
    site.crash("v1")
    operator = StreamSuperviseOperator(task_id="t", run_for=2, interval=0.1)
    assert operator.execute(context) == [], "it ends by itself, and waits for what it has started"
    status = site.client.status("alarm")
    assert (status.state, status.status.epoch) == ("running", 2)
    assert site.drivers_alive() == ["v1"]


@pytest.mark.processes
def test_a_crash_loop_is_told(site: Site, context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    site.submit()
    file = site.root / "alarm" / "deployments" / "v1" / "application" / "v1.py"
    file.write_text(file.read_text() + "\nFAIL = 'start'\n")
    site.crash("v1")
    counted: list[tuple[str, dict[str, str]]] = []
    monkeypatch.setattr(supervise, "count", lambda name, **tags: counted.append((name, tags)))
    events = context["outlet_events"] = OutletEvents()
    began = clock.monotonic()
    operator = StreamSuperviseOperator(
        task_id="t", apps=["alarm"], run_for=300, interval=0.1, attempts="2", initial_backoff=0.1, max_backoff=0.1
    )
    assert operator.execute(context) == ["alarm"]
    assert clock.monotonic() - began < 290, "it ends early"
    [(asset, extra)] = events.added
    assert asset == app_asset("alarm") and "after 2 starts in a row" in extra["reason"]
    assert counted == [("crash_loop", {"app": "alarm"})]
    assert operator.outlets == [CRASH_LOOP]
