"""A pid, and the id of a session or a group with it, is given again: no stranger is signalled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from airflow_provider_streamupdate.control.drivers import process
from airflow_provider_streamupdate.control.drivers.clusters import Living
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.processes import process_identity
from airflow_provider_streamupdate.core.processes.kernel import Linux, ProcessInfo, this_kernel
from airflow_provider_streamupdate.core.processes.process_identity import ProcessIdentity
from airflow_provider_streamupdate.core.registry.deployment import Launch

from .conftest import NextPid, Stranger

ATTEMPTS = 20
SIGNALS = (signal.SIGTERM, signal.SIGKILL)


def eventually(true: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def driver(folder: Path, command: str = "exec sleep 600") -> Launch:
    """A process that is started as drivers are."""
    return process.start(["/bin/sh", "-c", command], os.environ, folder / "driver.log", 1, lambda _: None)


def next_tick(launch: Launch) -> None:
    """Wait until a process that starts now starts later than this one by the kernel's clock (10 ms a tick). Only this
    test is faster than that: a kernel gives a pid again when all others have been given."""
    assert launch.process is not None and launch.process.start is not None
    tick = launch.process.start / os.sysconf("SC_CLK_TCK")
    eventually(lambda: time.clock_gettime(time.CLOCK_BOOTTIME) >= tick + 0.02, "the next tick")


def later(launch: Launch, pid: int) -> Launch:
    """A launch of which the pid is another process's by now. What was launched began a tick earlier, no more."""
    found = ProcessIdentity.of(pid)
    assert found.start is not None
    return attrs.evolve(launch, pid=pid, process=attrs.evolve(found, start=found.start - 1), mark="m")


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    log = str(tmp_path / "driver.log")
    return Launch(epoch=1, host=os.uname().nodename, pid=None, log=log, launched_at=clock.now())


def test_a_stranger_who_has_a_driver_s_pid_is_not_signalled(launch: Launch, stranger: Stranger) -> None:
    other = stranger()
    reused = later(launch, other.pid)
    assert process.alive(reused) is False is Living()(reused)
    assert process.end(reused, 0.2)
    assert other.poll() is None


def test_a_pid_that_the_kernel_gives_again_is_not_signalled(
    tmp_path: Path, next_pid: NextPid, stranger: Stranger
) -> None:
    """For real: a driver starts and ends, and a stranger gets its pid."""
    met = 0
    for attempt in range(ATTEMPTS):
        launch = driver(tmp_path / str(attempt))
        assert launch.pid is not None and process.alive(launch) is True
        assert process.end(launch, 30)
        process._children.pop(launch.pid).wait()
        next_tick(launch)
        next_pid(launch.pid)
        other = stranger()
        met += other.pid == launch.pid
        assert process.alive(launch) is False
        assert process.end(launch, 0.2)
        assert other.poll() is None
    assert met, "the machine is too busy: other processes got the pids"
    print(f"{met} pids were given again, 0 strangers signalled")


def test_a_pid_that_is_given_again_between_the_look_and_the_signal_is_not_signalled(
    next_pid: NextPid, stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The smallest window there is: the process that was looked at was the right one, and ends before the signal."""
    met = 0
    for _ in range(ATTEMPTS):
        ours, others = stranger(), []
        identity = ProcessIdentity.of(ours.pid)

        class Swapping(Linux):
            def inspect(self, pid: int, ours: subprocess.Popen = ours, others: list = others) -> ProcessInfo | None:
                seen = super().inspect(pid)
                ours.kill()
                ours.wait()
                next_pid(pid)
                others.append(stranger())
                return seen

        with monkeypatch.context() as patched:
            patched.setattr(process_identity, "this_kernel", Swapping)
            identity.signal(signal.SIGKILL)
        [other] = others
        met += other.pid == ours.pid
        time.sleep(0.05)
        assert other.poll() is None
    assert met, "the machine is too busy: other processes got the pids"
    print(f"{met} pids were given again in between, 0 strangers signalled")


def test_the_processes_of_a_session_whose_id_was_given_again_are_not_signalled(
    launch: Launch, stranger: Stranger
) -> None:
    """Its leader, who had the driver's pid, has ended too; what is left of it began later than the driver."""
    leader = stranger("/bin/sh", "-c", "sleep 600 >/dev/null & echo $!")
    reused = later(launch, leader.pid)
    assert leader.stdout is not None
    left = int(leader.stdout.readline())
    leader.wait()
    try:
        assert os.getsid(left) == leader.pid
        assert process.alive(reused) is False is Living()(reused)
        assert process.end(reused, 0.2)
        seen = this_kernel().inspect(left)
        assert seen is not None and not seen.zombie
    finally:
        os.kill(left, signal.SIGKILL)


def test_what_a_driver_left_behind_is_ended_though_its_leader_has_ended(tmp_path: Path) -> None:
    """As a JVM that died leaves its Python processes."""
    launch = driver(tmp_path, "sleep 600 & echo $!")
    log = tmp_path / "driver.log"
    eventually(lambda: log.read_text().endswith("\n"), "the driver's last word")
    assert launch.process is not None
    eventually(lambda: launch.process and launch.process.lives() is False, "the leader's end")
    left = ProcessIdentity.of(int(log.read_text()))
    assert left.lives() and process.alive(launch) is True is Living()(launch)
    assert process.end(launch, 30)
    assert left.lives() is False and process.alive(launch) is False


def test_a_group_is_killed_before_its_leader_is_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Until then no other group can get its id."""
    killed, real = [], os.killpg

    def killpg(group: int, number: int) -> None:
        killed.append(this_kernel().inspect(group))
        real(group, number)

    monkeypatch.setattr(os, "killpg", killpg)
    with open(tmp_path / "log", "wb") as log:
        code = process.run(["/bin/sh", "-c", "exit 7"], os.environ, tmp_path, log, 60)
        assert code == 7 and [seen and seen.zombie for seen in killed] == [True]
        with pytest.raises(subprocess.TimeoutExpired):
            process.run(["sleep", "600"], os.environ, tmp_path, log, 0.5)


def test_where_no_process_can_be_told_from_another_none_is_signalled(
    monkeypatch: pytest.MonkeyPatch, stranger: Stranger, launch: Launch
) -> None:
    """As in a container that sees another one's /proc."""
    monkeypatch.setattr(type(this_kernel()), "namespace", lambda self: None)
    other = stranger()
    unknown = attrs.evolve(launch, pid=other.pid, process=ProcessIdentity.of(other.pid))
    assert process.alive(unknown) is None and not process.end(unknown, 0.2)
    assert unknown.process is not None and not any(unknown.process.signal(number) for number in SIGNALS)
    assert other.poll() is None


@pytest.mark.skipif(sys.platform != "linux", reason="pidfd_open is Linux's")
def test_without_descriptors_of_processes_it_is_looked_at_first(
    monkeypatch: pytest.MonkeyPatch, stranger: Stranger
) -> None:
    def forbidden(_pid: int, _flags: int = 0) -> int:
        raise PermissionError("seccomp")

    monkeypatch.setattr(os, "pidfd_open", forbidden)
    other = stranger()
    found = ProcessIdentity.of(other.pid)
    assert found.start is not None
    assert not attrs.evolve(found, start=found.start - 1).signal(signal.SIGKILL) and other.poll() is None
    assert found.signal(signal.SIGKILL) and other.wait(60) == -signal.SIGKILL
