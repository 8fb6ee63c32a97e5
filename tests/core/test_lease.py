"""The lease of an app: one owner at a time, and one process that works for it; processes that hold it or were handed
over to, living ones, dead ones, ones on another machine."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.control import app_lease as module
from airflow_provider_streamupdate.control.app_lease import holding
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.coordination import lease, watched_driver
from airflow_provider_streamupdate.core.coordination.lease import Judge, Lease
from airflow_provider_streamupdate.core.coordination.successor import Successor
from airflow_provider_streamupdate.core.errors import LeaseHeldError, NotRunningError, StorageError
from airflow_provider_streamupdate.core.processes.kernel import this_kernel
from airflow_provider_streamupdate.core.processes.process_identity import ProcessIdentity
from airflow_provider_streamupdate.core.processes.pulse import Pulse
from airflow_provider_streamupdate.core.registry.deployment import SILENT_SECONDS, Current, Launch
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.registry.update import UpdateRecord
from airflow_provider_streamupdate.core.storage import Folder
from airflow_provider_streamupdate.streaming.agent.roles.hot_standby import HotStandby

from .builders import deploy, set_status, status


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder.open(str(tmp_path / "flights"))


def test_another_owner_is_told_who_holds_it_and_the_owner_renews_it(folder: Folder) -> None:
    held = lease.acquire(folder, "v2")
    with pytest.raises(LeaseHeldError, match=rf"an update of flights is under way: v2 holds .* {held.expires_at[:10]}"):
        lease.acquire(folder, "v3")
    assert lease.read(folder) == held
    first = lease.acquire(folder, "v2", seconds=60)
    again = lease.acquire(folder, "v2", seconds=6000)
    assert (again.number, again.token) == (first.number, first.token)
    assert again.expires_at > first.expires_at
    assert lease.read(folder) == again


def test_a_released_one_can_be_taken(folder: Folder) -> None:
    held = lease.acquire(folder, "v2")
    lease.release(folder, attrs.evolve(held, token="another's"))
    with pytest.raises(LeaseHeldError):
        lease.acquire(folder, "v3")
    lease.release(folder, held)
    assert lease.acquire(folder, "v3").number == 2
    assert folder.names("lease") == ["2.json"]


def test_an_expired_one_can_be_taken_and_is_lost_to_its_owner(folder: Folder) -> None:
    lost = lease.acquire(folder, "v2", seconds=-1)
    taken = lease.acquire(folder, "v3")
    with pytest.raises(LeaseHeldError, match="v3 holds"):
        lease.acquire(folder, "v2")
    assert lease.renew(folder, lost) is None
    lease.leave(folder, lost)
    lease.release(folder, lost)
    assert lease.read(folder) == taken and lease.held(folder, taken)
    assert folder.names("lease") == ["2.json"]


ME, OTHER = ProcessIdentity(host="here", pid=1), ProcessIdentity(host="here", pid=2)


def living(*holders: ProcessIdentity) -> Judge:
    return lambda held: held.holder in holders


def idle(_held: Lease) -> bool:
    return False


def test_a_second_process_of_the_same_owner_is_told_who_works(folder: Folder) -> None:
    held = lease.acquire(folder, "v2", ME)
    with pytest.raises(LeaseHeldError, match="process 1 on here works on v2 and holds the lease; wait for it"):
        lease.acquire(folder, "v2", OTHER, alive=living(ME))
    assert lease.read(folder) == held


def test_the_same_owner_goes_on_when_the_process_is_gone(folder: Folder) -> None:
    lost = lease.acquire(folder, "v2", ME)
    taken = lease.acquire(folder, "v2", OTHER, alive=living(OTHER))
    assert (taken.owner, taken.holder, taken.number) == ("v2", OTHER, 2)
    assert lease.renew(folder, lost) is None
    with pytest.raises(LeaseHeldError, match="process 2 on here works on v2"):
        lease.acquire(folder, "v2", ME, alive=living(OTHER))
    assert lease.read(folder) == taken


def test_a_sign_of_life_during_the_wait_counts(folder: Folder) -> None:
    held, asked = lease.acquire(folder, "v2", ME), []

    def alive(_held: Lease) -> bool:
        asked.append(lease.renew(folder, held))
        return len(asked) > 1

    with pytest.raises(LeaseHeldError, match="process 1 on here works on v2"):
        lease.acquire(folder, "v2", OTHER, alive=alive)


def test_the_same_owner_goes_on_when_the_process_has_left(folder: Folder) -> None:
    lease.leave(folder, lease.acquire(folder, "v2", ME))
    with pytest.raises(LeaseHeldError, match="v2 holds the lease until"):  # it is the owner's all the same
        lease.acquire(folder, "v3", OTHER)
    assert lease.acquire(folder, "v2", OTHER, alive=living(ME, OTHER)).holder == OTHER


def test_a_rollback_is_offered_after_the_process_that_it_would_be_refused_for(folder: Folder) -> None:
    ways = "run that update again to complete it, or streamupdate rollback"
    lease.acquire(folder, "v2", ProcessIdentity.own())
    with pytest.raises(LeaseHeldError, match=f"wait for it, or end that process; then {ways}"):
        lease.acquire(folder, "v3", OTHER)
    lease.acquire(folder, "v2", ME, alive=living())
    with pytest.raises(LeaseHeldError, match=f"wait for it, or {ways}"):
        lease.acquire(folder, "v3", OTHER)


def test_what_a_dead_process_left_can_be_taken_at_once_unless_it_is_needed(folder: Folder) -> None:
    lease.acquire(folder, "delete s1", ME)
    with pytest.raises(LeaseHeldError, match=r"delete s1 holds the lease until .* \(process 1 on here\)"):
        lease.acquire(folder, "v3", OTHER, alive=living(), needed=lambda held: held.owner == "delete s1")
    with pytest.raises(LeaseHeldError, match="delete s1 holds"):
        lease.acquire(folder, "v3", OTHER, alive=living(ME), needed=idle)
    assert lease.acquire(folder, "v3", OTHER, alive=living(), needed=idle).owner == "v3"


def takes(*owners: str) -> Callable[[Folder], None]:
    """Each takes the lease, and all but the last one release it."""

    def take(folder: Folder) -> None:
        *released, last = owners
        for owner in released:
            lease.release(folder, lease.acquire(folder, owner))
        lease.acquire(folder, last)  # removes the file of the number before

    return take


@pytest.mark.parametrize(
    ("method", "path", "meanwhile", "holds"),
    [
        ("read", "lease/1.json", takes("faster"), "faster"),  # between listing and reading
        ("create", "lease/2.json", takes("faster"), "faster"),
        ("create", "lease/2.json", takes("second", "third"), "third"),  # its number was used and removed
    ],
)
def test_of_two_takers_the_faster_wins(
    folder: Folder,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    path: str,
    meanwhile: Callable[[Folder], None],
    holds: str,
) -> None:
    lease.acquire(folder, "old", seconds=-1)
    real, interrupted = getattr(Folder, method), []

    def slow(self: Folder, relative: str, *arguments: Any, **options: Any) -> Any:
        if relative == path and not interrupted:
            interrupted.append(path)
            meanwhile(folder)
        return real(self, relative, *arguments, **options)

    monkeypatch.setattr(Folder, method, slow)
    with pytest.raises(LeaseHeldError, match=f"{holds} holds"):
        lease.acquire(folder, "slower")
    assert interrupted and len(folder.names("lease")) == 1


@pytest.fixture
def other() -> Iterator[ProcessIdentity]:
    """A living process on this machine."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield ProcessIdentity.of(process.pid)
        process.kill()


def newest(app: AppRegistry) -> Lease:
    held = lease.read(app.folder)
    return held


def begin(app: AppRegistry, deployment: str, outcome: str | None = None) -> None:
    app.set_current(Current(deployment="v1", epoch=1))
    app.set_update(UpdateRecord(app="flights", old="v1", new=deployment, started_at=clock.now(), outcome=outcome))


def test_it_is_held_inside_the_block_and_given_back_whatever_happens(app: AppRegistry) -> None:
    with holding(app, "v2"):
        assert lease.held(app.folder, newest(app)) and newest(app).holder == ProcessIdentity.own()
        with pytest.raises(LeaseHeldError, match=r"v2 (holds|was interrupted)"), holding(app, "v3"):
            pass
    assert not lease.held(app.folder, newest(app))
    for error in (ValueError, KeyboardInterrupt, SystemExit):
        with pytest.raises(error), holding(app, "v2"):
            raise error
        assert not lease.held(app.folder, newest(app))


def test_an_update_s_is_left_to_whoever_goes_on_with_it(app: AppRegistry) -> None:
    with holding(app, "v2"):
        begin(app, "v2")
    assert lease.held(app.folder, newest(app)) and (newest(app).owner, newest(app).holder) == ("v2", None)
    with holding(app, "v2"):
        begin(app, "v2", "promoted")
    assert not lease.held(app.folder, newest(app))


def test_another_living_process_of_the_same_update_is_told(app: AppRegistry, other: ProcessIdentity) -> None:
    begin(app, "v2")
    lease.acquire(app.folder, "v2", other)
    with pytest.raises(LeaseHeldError, match=f"process {other.pid} on .* works on v2"), holding(app, "v2"):
        pass
    assert newest(app).holder == other


def dead(other: ProcessIdentity) -> dict[str, ProcessIdentity]:
    """ProcessIdentitys that are gone, though a process may have their pid."""
    return {
        "reused pid": attrs.evolve(other, start=other.start - 1),
        "no such process": attrs.evolve(other, pid=2**22 + 1),
    }


def test_nobody_waits_for_an_update_that_was_left_behind(app: AppRegistry) -> None:
    with holding(app, "v2"):
        begin(app, "v2")
    app.set_current(Current(deployment="v1-standby-1", epoch=2))  # a hot standby has taken over
    with holding(app, "restart"):
        assert newest(app).owner == "restart"


@pytest.mark.parametrize("kind", ["reused pid", "no such process"])
def test_a_dead_process_s_update_is_continued_at_once_but_stays_its_owner_s(
    app: AppRegistry, other: ProcessIdentity, kind: str
) -> None:
    begin(app, "v2")
    lease.acquire(app.folder, "v2", dead(other)[kind])
    with pytest.raises(LeaseHeldError, match=r"v2 (holds|was interrupted)"), holding(app, "v3"):
        pass
    with holding(app, "v2"):
        assert newest(app).holder == ProcessIdentity.own()


@pytest.mark.parametrize("kind", ["reused pid", "no such process"])
@pytest.mark.parametrize("outcome", [None, "promoted"])
def test_what_a_dead_process_held_for_no_update_under_way_is_free(
    app: AppRegistry, other: ProcessIdentity, kind: str, outcome: str | None
) -> None:
    """A killed submit or delete-snapshot, a rollback after the update's end."""
    if outcome:
        begin(app, "v2", outcome)
    lease.acquire(app.folder, "v2", dead(other)[kind])
    with holding(app, "v3"):
        assert newest(app).owner == "v3"


def test_a_zombie_is_dead(app: AppRegistry) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        while not (seen := this_kernel().inspect(process.pid)) or not seen.zombie:
            time.sleep(0.01)
        assert not module.alive(app.folder, _held(ProcessIdentity.of(process.pid)))


def test_a_long_block_shows_signs_of_life(app: AppRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.02)
    with holding(app, "v2"):
        first = newest(app).renewed_at
        deadline = time.monotonic() + 5
        while newest(app).renewed_at == first and time.monotonic() < deadline:
            time.sleep(0.01)
        assert newest(app).renewed_at > first
    assert not lease.held(app.folder, newest(app))


def _held(holder: ProcessIdentity) -> Lease:
    return Lease(number=1, owner="v2", token="t", expires_at=clock.now(), holder=holder)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many more writes of a lease fail."""
    left, write = [0], Folder.write
    monkeypatch.setattr(clock.SystemClock, "sleep", lambda *_: None)

    def fails(folder: Folder, relative: str, data: bytes, lasting: bool = True) -> None:
        if left[0] and relative.startswith("lease/"):
            left[0] -= 1
            raise StorageError("the disk is gone")
        write(folder, relative, data, lasting)

    monkeypatch.setattr(Folder, "write", fails)
    return left


def _fail(failing: list[int], times: int) -> None:
    failing[0] = times
    raise KeyError("its own")


def test_a_lease_is_given_back_when_the_storage_is_there_again(app: AppRegistry, failing: list[int]) -> None:
    with holding(app, "v2"):
        failing[0] = 5
    assert not lease.held(app.folder, newest(app))
    # the block's own error is what is told
    with pytest.raises(KeyError, match="its own"), holding(app, "v2"):
        _fail(failing, 5)
    assert not lease.held(app.folder, newest(app))


def test_a_lease_that_cannot_be_given_back_is_told_of(
    app: AppRegistry, failing: list[int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "GIVE_BACK_SECONDS", 0.0)
    with pytest.raises(KeyError, match="its own"), holding(app, "v2"):
        _fail(failing, 10**9)
    assert "the lease of app flights for v2 could not be released: the disk is gone" in caplog.text
    failing[0] = 0
    with holding(app, "v2"):  # the same process goes on with it
        pass
    assert not lease.held(app.folder, newest(app))


# A hot standby and a holder that it cannot look at


HERE = ProcessIdentity.own()
ELSEWHERE = attrs.evolve(HERE, boot="another machine's", host="another")


@pytest.mark.parametrize("seconds", [0.0, 1800.0])
def test_a_holder_elsewhere_is_gone_once_it_is_silent_and_its_lease_is_over(tmp_path, seconds: float) -> None:
    """Found from outside: it was waited for for good, so that an app stayed down whose machine had died."""
    folder, now = Folder.open(str(tmp_path)), [0.0]
    app: Any = SimpleNamespace(folder=folder)
    driver: Any = SimpleNamespace(app=app, spec=None, epoch=SimpleNamespace(wait_for_turn=lambda: None))
    role = HotStandby(driver)
    role._holder = Pulse(seconds=lambda: now[0])
    held = lease.acquire(folder, "v1", ELSEWHERE, seconds=seconds, work="a restart")
    held = attrs.evolve(held, uptime=None)
    assert ELSEWHERE.lives() is None and role._works(held)
    now[0] = SILENT_SECONDS - 1
    assert role._works(held)
    moment = "2026-11-01T00:00:00+00:00"
    renewed = attrs.evolve(held, renewed_at=moment, expires_at=moment if not seconds else held.expires_at)
    assert role._works(renewed), "a sign of life"
    now[0] += SILENT_SECONDS - 1
    assert role._works(renewed)
    now[0] += 1
    assert role._works(renewed) == (seconds > 0)
    assert role._works(attrs.evolve(held, holder=HERE)) and role._works(attrs.evolve(held, holder=None))
    assert not role._works(attrs.evolve(held, holder=attrs.evolve(HERE, start=HERE.start + 1)))


# Whether the deployment that was handed over to is dead


@pytest.fixture
def handed_over(tmp_path: Path) -> AppRegistry:
    registry = Registry(str(tmp_path)).app("flights")
    deploy(registry, "v2", epoch=2)
    return registry


def ended() -> ProcessIdentity:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        found = ProcessIdentity.of(process.pid)
    assert found.exact
    return found


def note(handed_over: AppRegistry, jvm: ProcessIdentity, python: ProcessIdentity, **changes: Any) -> None:
    launch = Launch(epoch=2, host=jvm.host, pid=jvm.pid, log="", launched_at=clock.now(), process=jvm)
    handed_over.set_launch("v2", launch)
    found = status("standby", epoch=2, host=python.host, pid=python.pid, process=python)
    set_status(handed_over, "v2", attrs.evolve(found, **changes))


@pytest.mark.parametrize(("jvm_lives", "dead"), [(True, False), (False, True)])
def test_a_driver_is_dead_when_its_jvm_is_dead_too(handed_over: AppRegistry, jvm_lives: bool, dead: bool) -> None:
    """Until then a batch may be under way in it."""
    note(handed_over, ProcessIdentity.own() if jvm_lives else ended(), ended())
    assert (Successor(handed_over, "v2", 2).death() is not None) is dead


def test_one_that_gives_no_sign_of_life_is_not_ready(handed_over: AppRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_driver, "SILENT_SECONDS", 0.5)
    elsewhere = ProcessIdentity(host="elsewhere", pid=1)
    note(handed_over, elsewhere, elsewhere, heartbeat_at="2020-01-01T00:00:00+00:00")
    with pytest.raises(NotRunningError, match="it has given no sign of life"):
        Successor(handed_over, "v2", 2).check_ready()
