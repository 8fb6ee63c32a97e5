"""The update's process, or a supervisor, dies, or a storage call of it fails, at each boundary that it gets to itself,
with a stand-in for Spark: what `make crash` does with real drivers, at a fraction of its time."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs
import pytest

from airflow_provider_streamupdate.control.app_lease import holding
from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.drivers.launcher import SparkSubmit
from airflow_provider_streamupdate.control.supervision.backoff import Backoff
from airflow_provider_streamupdate.control.update.options import UpdateOptions
from airflow_provider_streamupdate.control.update.strategies import strategy_named
from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core import boundaries
from airflow_provider_streamupdate.core.boundaries import FAIL, KILL, WAIT
from airflow_provider_streamupdate.core.errors import StreamUpdateError
from airflow_provider_streamupdate.core.registry import supervision
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.deployment import RUNNING
from airflow_provider_streamupdate.core.registry.update import PROMOTED

from .conftest import Site

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from crashlib.cases import NEW, OLD, STORAGE, SUPERVISOR, TASK, WAYS, Case, cases

pytestmark = pytest.mark.boundary
# Drivers get to no boundary here, so what comes after one of theirs is left out.
OF_DRIVERS = {boundary for way in WAYS.values() for part in way if part.process != TASK for boundary in part.each()}
CASES = [
    case
    for case in cases()
    if case.process == TASK
    and case.victims in ((TASK,), (STORAGE,))
    and not case.supervised
    and case.after not in OF_DRIVERS
]
SUPERVISED = [case for case in cases() if case.process == SUPERVISOR and case.victims in ((SUPERVISOR,), (STORAGE,))]
SUPERVISED = [case for case in SUPERVISED if not case.pair]


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


@attrs.frozen(kw_only=True)
class Versions:
    """How an update brings v2 in, in place of v1; in flight, with another parameter. sinks: theirs; params: of v2"""

    strategy: str
    reloadable: tuple[str, ...] = ()
    sinks: tuple[str, str] = ("old", "old")
    params: Mapping[str, str] = attrs.field(factory=dict)

    def old(self, site: Site) -> Path:
        return site.application("v1", RELOADABLE=self.reloadable, SINK=self._sink(0))

    def new(self, site: Site, fails: bool) -> Application:
        if strategy_named(self.strategy).in_place:
            params = {"threshold": "bad" if fails else "7"}
            return Application(file=str(self.old(site)), params=params)
        constants = {"FAIL": "run"} if fails else {}
        return Application(file=str(site.application("v2", SINK=self._sink(1), **constants)))

    def _sink(self, version: int) -> dict[str, object]:
        return {"format": "kafka", "options": {"topic": self.sinks[version]}}


VERSIONS = {
    "parallel": Versions(strategy="parallel", sinks=("old", "new")),
    "in_flight": Versions(strategy="in_flight", reloadable=("threshold",)),
}


class Marks:
    """The folder that tells what happens at a boundary."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for part in ("armed", "reached", "go"):
            (folder / part).mkdir(parents=True)

    def arm(self, boundary: str, action: str) -> None:
        (self.folder / "armed" / boundary).write_text(action)

    def reached(self, boundary: str) -> bool:
        return any((self.folder / "reached").glob(f"{boundary}.*"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_update_is_struck_and_run_again(site: Site, tmp_path: Path, case: Case) -> None:
    versions = VERSIONS.get(case.strategy, Versions(strategy=case.strategy))
    in_place = strategy_named(case.strategy).in_place
    assert site.run("submit", versions.old(site), "--deployment", "v1").exit_code == 0
    marks, version = Marks(tmp_path / "boundaries"), versions.new(site, case.fails)
    action = KILL if case.victims == (TASK,) else FAIL
    marks.arm(case.after or case.boundary, WAIT if case.after else action)

    def update() -> None:
        boundaries._folder = str(marks.folder)  # of this process only: the drivers are not struck
        client = StreamUpdateClient(site.client.root, SparkSubmit())
        client.update(
            UpdateOptions(
                application=version, deployment="v2", strategy=case.strategy, submit_timeout=60, drain_timeout=60
            )
        )

    process = forked(update)
    if case.after:
        wait_for(lambda: marks.reached(str(case.after)) or None, case.after, 200, 0.01)
        for victim in case.fallen:
            site.crash({OLD: "v1", NEW: "v2"}[victim])
        marks.arm(case.boundary, action)
        (marks.folder / "go" / case.after).touch()
    code = ended(process)
    assert (code == -signal.SIGKILL) is (action == KILL)
    assert marks.reached(case.boundary), "it never got there"
    registry = site.client.registry.app("alarm")
    for _ in range(3):
        record = registry.update("v2")
        if record is not None and record.outcome is not None:
            break
        assert ended(forked(update)) in (0, 1)
    assert record is not None
    promoted = record.outcome == PROMOTED
    runs = "v2" if promoted and not in_place else "v1"
    assert site.alive() == [runs] == [registry.current_id()]
    assert promoted or case.fails or case.fallen or action == FAIL
    assert all(rollback.ended_at for rollback in registry.rollbacks()), "a rollback is said to be under way"
    if in_place:
        assert registry.spec("v1").application.params == (version.params if promoted else {})
    check_batches(site, case.strategy, promoted)
    assert site.run("save-snapshot", "alarm", "afterwards").exit_code == 0  # it obeys
    with holding(registry, "another"):  # nobody else holds the lease
        pass


def check_batches(site: Site, strategy: str, promoted: bool) -> None:
    """None is missing, and none that counts was committed by both versions."""
    registry = site.client.registry.app("alarm")
    old, new = (
        sorted(int(name) for name in registry.checkpoint(version, "events").names("commits"))
        for version in ("v1", "v2")
    )
    assert old == list(range(len(old)))
    assert not new or new == list(range(new[0], new[-1] + 1))
    if promoted and not strategy_named(strategy).in_place:
        cut = site.client.snapshot("alarm", "before-v2").queries["events"].batch
        assert new[0] <= cut < new[-1]
        assert old[-1] >= cut if strategy_named(strategy).runs_beside else old[-1] == cut


@pytest.mark.parametrize("case", SUPERVISED, ids=lambda case: case.name)
def test_a_supervisor_is_struck_and_started_again(site: Site, tmp_path: Path, case: Case) -> None:
    assert site.run("submit", site.application(), "--deployment", "v1").exit_code == 0
    registry, marks = site.client.registry.app("alarm"), Marks(tmp_path / "boundaries")
    hurry = Backoff(initial=0.1, most=0.1, attempts=100, reset_after=0.2)
    action = KILL if case.victims == (SUPERVISOR,) else FAIL
    marks.arm(case.boundary, action)

    def supervise() -> None:
        boundaries._folder = str(marks.folder)
        end = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: end.set())
        client = StreamUpdateClient(site.client.root, SparkSubmit())
        client.supervise(("alarm",), hurry, interval=0.1, timeout=60.0, end=end)

    def recovered() -> bool | None:
        current, status = registry.current(), site.client.status("alarm")
        again = current is not None and current.epoch > 1 and status.state == RUNNING
        known = supervision.read(registry.folder)
        return True if again and known.attempts == 0 and marks.reached(case.boundary) else None

    site.crash("v1")
    process = forked(supervise)
    if action == KILL:
        assert ended(process) == -signal.SIGKILL
        process = forked(supervise)
    wait_for(recovered, "a recovery", 100, 0.05)
    os.kill(process, signal.SIGTERM)
    assert ended(process) == 0
    assert site.alive() == ["v1"]
    check_batches(site, "restart", promoted=False)
    with holding(registry, "another"):  # nobody else holds the lease
        pass
