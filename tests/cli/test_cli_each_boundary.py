"""The update's process dies, or a storage call of it fails, at each boundary that it gets to itself, with a stand-in
for Spark: what `make crash` does with real drivers, at a fraction of its time."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_streamupdate.control.app_lease import holding
from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.drivers.launcher import SparkSubmit
from airflow_provider_streamupdate.control.update.options import UpdateOptions
from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core import boundaries
from airflow_provider_streamupdate.core.boundaries import FAIL, KILL, WAIT
from airflow_provider_streamupdate.core.errors import StreamUpdateError
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.update import PROMOTED

from .conftest import Site

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from crashlib.cases import STORAGE, TASK, Case, cases

pytestmark = pytest.mark.boundary
CASES = [case for case in cases() if case.process == TASK and case.victims in ((TASK,), (STORAGE,))]


def forked(work: Callable[[], None]) -> int:
    """Do it in a process of its own; the process's id."""
    if pid := os.fork():
        return pid
    try:
        work()
        os._exit(0)
    except StreamUpdateError as error:
        print(error, file=sys.stderr)
        os._exit(1)
    except BaseException:
        traceback.print_exc()
    os._exit(2)


def ended(pid: int) -> int:
    """The exit code of a process, negative for a signal, once it has ended."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_update_is_struck_and_run_again(site: Site, tmp_path: Path, case: Case) -> None:
    assert site.run("submit", site.application(), "--deployment", "v1").exit_code == 0
    marks = tmp_path / "boundaries"
    for part in ("armed", "reached", "go"):
        (marks / part).mkdir(parents=True)
    action = KILL if case.victims == (TASK,) else FAIL
    (marks / "armed" / (case.after or case.boundary)).write_text(WAIT if case.after else action)
    version = Application(file=str(site.application("v2", **({"FAIL": "run"} if case.fails else {}))))

    def update() -> None:
        boundaries._folder = str(marks)  # of this process only: the drivers are not struck
        client = StreamUpdateClient(site.client.root, SparkSubmit())
        client.update(
            UpdateOptions(
                application=version, deployment="v2", strategy=case.strategy, submit_timeout=60, drain_timeout=60
            )
        )

    process = forked(update)
    if case.after:
        wait_for(lambda: any((marks / "reached").iterdir()) or None, case.after, 200, 0.01)
        (marks / "armed" / case.boundary).write_text(action)
        (marks / "go" / case.after).touch()
    code = ended(process)
    assert (code == -signal.SIGKILL) is (action == KILL)
    assert any((marks / "reached").glob(f"{case.boundary}.*")), "it never got there"
    registry = site.client.registry.app("alarm")
    for _ in range(3):
        record = registry.update("v2")
        if record is not None and record.outcome is not None:
            break
        assert ended(forked(update)) in (0, 1)
    assert record is not None
    runs = "v2" if record.outcome == PROMOTED else "v1"
    assert site.alive() == [runs] == [registry.current_id()]
    assert (record.outcome == PROMOTED) or case.fails or action == FAIL
    check_batches(site, record.outcome == PROMOTED)
    assert site.run("save-snapshot", "alarm", "afterwards").exit_code == 0  # it obeys
    with holding(registry, "another"):  # nobody else holds the lease
        pass


def check_batches(site: Site, promoted: bool) -> None:
    """None is missing, and none that counts was committed by both versions."""
    registry = site.client.registry.app("alarm")
    old, new = (
        sorted(int(name) for name in registry.checkpoint(version, "events").names("commits"))
        for version in ("v1", "v2")
    )
    assert old == list(range(len(old)))
    assert not new or new == list(range(new[0], new[-1] + 1))
    if promoted:
        assert old[-1] == site.client.snapshot("alarm", "before-v2").queries["events"].batch
        assert new[0] <= old[-1] < new[-1]
