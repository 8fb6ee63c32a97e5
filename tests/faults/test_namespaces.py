"""Two containers with one host name: what a pid means in one, it does not mean in the other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_streamupdate.control import app_lease as holding_module
from airflow_provider_streamupdate.control.app_lease import holding
from airflow_provider_streamupdate.control.drivers import drivers as drivers_module
from airflow_provider_streamupdate.control.drivers import process
from airflow_provider_streamupdate.control.drivers.clusters import Living
from airflow_provider_streamupdate.control.drivers.drivers import Drivers
from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core.coordination import lease
from airflow_provider_streamupdate.core.errors import DriverError, LeaseHeldError
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from tests.core.builders import deploy

from .conftest import Stranger

# What runs in the other container: a driver that beats, and an update that holds the app.
INSIDE = """
    import os, sys, time
    from pathlib import Path
    from airflow_provider_streamupdate.control import app_lease as holding
    from airflow_provider_streamupdate.core.coordination import lease
    from airflow_provider_streamupdate.control.drivers import process
    from airflow_provider_streamupdate.core.processes.process_identity import ProcessIdentity
    from airflow_provider_streamupdate.core.registry.registry import Registry
    from tests.core.builders import set_status, status
    root = Path(sys.argv[1])
    app = Registry(str(root)).app("flights")
    lease.RENEW_SECONDS = 0.3
    launch = process.start(["sleep", "600"], os.environ, root / "log", 1, lambda made: app.set_launch("v1", made))
    beat = 0
    with holding.holding(app, "v2"):
        while True:
            beat += 1
            own = ProcessIdentity.own()
            set_status(app, "v1", status(beat=beat, host=own.host, pid=own.pid, process=own))
            print(launch.pid, flush=True)
            time.sleep(0.3)
"""


@pytest.fixture
def app(tmp_path: Path) -> AppRegistry:
    app = Registry(str(tmp_path)).app("flights")
    deploy(app, state=None)
    return app


@pytest.fixture
def container(tmp_path: Path, app: AppRegistry) -> Iterator[subprocess.Popen[str]]:
    """A pid namespace beside this one, of the same host name; it ends with its first process."""
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("a pid namespace takes root on Linux, and unshare of util-linux")
    command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-c"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    child = subprocess.Popen(
        [*command, textwrap.dedent(INSIDE), str(tmp_path)], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert child.stdout is not None
    if not child.stdout.readline():
        pytest.skip("this machine lets no pid namespace be made")
    yield child
    child.kill()
    child.communicate()


def test_a_driver_and_a_holder_in_another_container_live_as_long_as_they_show_it(
    app: AppRegistry,
    container: subprocess.Popen[str],
    tmp_path: Path,
    stranger: Stranger,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    launch, held = app.launch("v1"), lease.read(app.folder)
    assert launch is not None and launch.host == os.uname().nodename and held is not None
    other = stranger()
    drivers = Drivers(app, None, str(tmp_path), {})

    assert process.alive(launch) is None is Living()(launch)
    assert drivers.state("v1") == "running" and not drivers.has_ended("v1")
    with pytest.raises(DriverError, match="on another machine or in another container"):
        drivers.kill("v1")
    assert other.poll() is None and drivers.state("v1") == "running"
    for owner in ("v2", "v3"):
        with pytest.raises(LeaseHeldError, match="v2"), holding(app, owner):
            pass

    monkeypatch.setattr(drivers_module, "SILENT_SECONDS", 2.0)
    monkeypatch.setattr(holding_module, "WATCH_SECONDS", 2.0)
    container.kill()
    container.wait()
    with holding(app, "v2"):
        assert lease.held(app.folder, lease.read(app.folder))
    wait_for(lambda: drivers.state("v1") == "lost" or None, "the driver to be lost", 60)
    assert drivers.has_ended("v1")
