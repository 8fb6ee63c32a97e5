"""Whether the deployment that was handed over to is dead."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_streamupdate.state import clock
from airflow_provider_streamupdate.state.deployment import Launch
from airflow_provider_streamupdate.state.registry import AppRegistry, Registry
from airflow_provider_streamupdate.state.successor import Successor, lives

from .builders import deploy, set_status, status


@pytest.fixture
def app(tmp_path: Path) -> AppRegistry:
    registry = Registry(str(tmp_path)).app("flights")
    deploy(registry, "v2", epoch=2)
    return registry


def ended() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.mark.parametrize(("jvm_lives", "dead"), [(True, False), (False, True)])
def test_a_driver_is_dead_when_its_jvm_is_dead_too(app: AppRegistry, jvm_lives: bool, dead: bool) -> None:
    """Until then a batch may be under way in it."""
    pid = os.getpid() if jvm_lives else ended()
    host, now = socket.gethostname(), clock.now()
    app.set_launch("v2", Launch(epoch=2, host=host, pid=pid, pid_started=None, log="", launched_at=now))
    set_status(app, "v2", status(epoch=2, host=host, pid=ended()))
    assert (Successor(app, "v2", 2).death() is not None) is dead


def test_a_process_that_nobody_has_waited_for_does_not_live() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.read() == b""  # it has ended, and is a zombie
    while lives(process.pid):
        pass
    process.wait()
