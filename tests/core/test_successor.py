"""Whether the deployment that was handed over to is dead."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.coordination import watched
from airflow_provider_streamupdate.core.coordination.successor import Successor
from airflow_provider_streamupdate.core.errors import NotRunningError
from airflow_provider_streamupdate.core.processes.process_identity import ProcessIdentity
from airflow_provider_streamupdate.core.registry.deployment import Launch
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry

from .builders import deploy, set_status, status


@pytest.fixture
def app(tmp_path: Path) -> AppRegistry:
    registry = Registry(str(tmp_path)).app("flights")
    deploy(registry, "v2", epoch=2)
    return registry


def ended() -> ProcessIdentity:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        found = ProcessIdentity.of(process.pid)
    assert found.exact
    return found


def note(app: AppRegistry, jvm: ProcessIdentity, python: ProcessIdentity, **changes: Any) -> None:
    launch = Launch(epoch=2, host=jvm.host, pid=jvm.pid, pid_started=None, log="", launched_at=clock.now(), process=jvm)
    app.set_launch("v2", launch)
    found = status("standby", epoch=2, host=python.host, pid=python.pid, process=python)
    set_status(app, "v2", attrs.evolve(found, **changes))


@pytest.mark.parametrize(("jvm_lives", "dead"), [(True, False), (False, True)])
def test_a_driver_is_dead_when_its_jvm_is_dead_too(app: AppRegistry, jvm_lives: bool, dead: bool) -> None:
    """Until then a batch may be under way in it."""
    note(app, ProcessIdentity.own() if jvm_lives else ended(), ended())
    assert (Successor(app, "v2", 2).death() is not None) is dead


def test_one_that_stands_by_is_ready_whatever_the_clocks_say(app: AppRegistry) -> None:
    """Its clock is an hour behind; its next heartbeat shows that it lives."""
    elsewhere, old = ProcessIdentity(host="elsewhere", pid=1), "2020-01-01T00:00:0%d+00:00"
    note(app, elsewhere, elsewhere, heartbeat_at=old % 1)
    beat = threading.Timer(0.5, note, (app, elsewhere, elsewhere), {"heartbeat_at": old % 2})
    beat.start()
    Successor(app, "v2", 2).check_ready()
    beat.join()


def test_one_that_gives_no_sign_of_life_is_not_ready(app: AppRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "SILENT_SECONDS", 0.5)
    elsewhere = ProcessIdentity(host="elsewhere", pid=1)
    note(app, elsewhere, elsewhere, heartbeat_at="2020-01-01T00:00:00+00:00")
    with pytest.raises(NotRunningError, match="it has given no sign of life"):
        Successor(app, "v2", 2).check_ready()
