"""The driver's own log: put aside when it is full, while others write to it, and read from its end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import IO

import attrs
import pytest

from airflow_provider_streamupdate.control.drivers.log_tail import MOST, tail
from airflow_provider_streamupdate.core.errors import InvalidInputError
from airflow_provider_streamupdate.core.processes.process_identity import ProcessIdentity
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.deployment import Launch
from airflow_provider_streamupdate.core.registry.driver_settings import LOG_BYTES, LOG_FILES, PATIENCE, DriverSettings
from airflow_provider_streamupdate.core.registry.output_log import OutputLog, kept_short
from airflow_provider_streamupdate.core.storage import Folder

# Writes as a driver does: at the end of a file that was opened once.
WRITER = "import sys\nfor n in range(int(sys.argv[1])): print(f'line {n:06d}', flush=True)"


def numbered(log: Path, first: int, last: int) -> None:
    with open(log, "a") as file:
        file.writelines(f"line {n}\n" for n in range(first, last))


def launch(log: Path) -> Launch:
    process = ProcessIdentity.own()
    return Launch(epoch=1, host=process.host, pid=process.pid, log=str(log), launched_at="2026-11-24", process=process)


def test_what_is_full_is_put_aside_and_the_oldest_goes(tmp_path: Path) -> None:
    log = OutputLog(tmp_path / "driver-1.log", limit=100, kept=2)
    for turn in range(4):
        log.path.write_text(f"{turn}" * 100)
        assert log.rotate()
    log.path.write_text("the rest")
    assert not log.rotate()
    assert {p.name: p.read_text()[:8] for p in tmp_path.iterdir()} == {
        "driver-1.log": "the rest",
        "driver-1.log.1": "33333333",
        "driver-1.log.2": "22222222",
    }


def test_what_a_killed_driver_was_putting_aside_is_not_lost(tmp_path: Path) -> None:
    log = OutputLog(tmp_path / "driver-1.log", limit=10, kept=3)
    (tmp_path / "driver-1.log.new").write_text("before the kill\n")
    log.path.write_text("after the kill\n")
    assert log.rotate() and tail(log.path, 9) == "before the kill\nafter the kill"


def test_none_is_kept_when_none_is_to_be(tmp_path: Path) -> None:
    log = OutputLog(tmp_path / "driver-1.log", limit=100, kept=0)
    log.path.write_text("x" * 100)
    assert log.rotate() and [p.name for p in tmp_path.iterdir()] == ["driver-1.log"]


def test_a_process_goes_on_writing_to_it(tmp_path: Path) -> None:
    """It writes to what is emptied, at its end, and little is lost."""
    log = OutputLog(tmp_path / "driver-1.log", limit=5000, kept=1000)
    with open(log.path, "ab") as output:
        writer = subprocess.Popen([sys.executable, "-c", WRITER, "50000"], stdout=output)
    turns = 0
    while writer.poll() is None:
        turns += log.rotate()
    assert turns and writer.returncode == 0
    found = tail(log.path, 10**6).splitlines()
    lines = [int(line[5:]) for line in found if re.fullmatch(r"line \d{6}", line)]
    assert lines == sorted(set(lines))
    assert len(found) - len(lines) <= turns  # one that was being written may be torn
    assert len(lines) > 25_000  # of those written without a pause, on a machine that does other things, too


def test_a_full_disk_gives_up_the_oldest_and_keeps_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = OutputLog(tmp_path / "driver-1.log", limit=10, kept=3)
    for name in ("driver-1.log", "driver-1.log.1", "driver-1.log.2"):
        (tmp_path / name).write_text("x" * 10)

    def full(source: IO[bytes], target: IO[bytes]) -> None:
        target.write(b"a part")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("shutil.copyfileobj", full)
        with pytest.raises(OSError, match="No space left"):
            log.rotate()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["driver-1.log", "driver-1.log.1"]
    assert log.rotate() and sorted(os.listdir(tmp_path)) == ["driver-1.log", "driver-1.log.1", "driver-1.log.2"]


def test_settings_are_numbers_and_looked_at_before_anything_is_started(tmp_path: Path) -> None:
    log, deployment = tmp_path / "driver-1.log", Folder.open(str(tmp_path))
    assert OutputLog.of(launch(log), deployment, DriverSettings.of({})) == OutputLog(log, 10_000_000, 5)
    settings = DriverSettings.of({LOG_BYTES: "1000", LOG_FILES: "0"})
    assert OutputLog.of(launch(log), deployment, settings) == OutputLog(log, 1000, 0)
    # an application's settings are looked at before anything is started
    file = tmp_path / "v1.py"
    file.write_text("")
    with pytest.raises(InvalidInputError, match=LOG_BYTES):
        Application(file=str(file), env_vars={LOG_BYTES: "10 MB"}).check()


@pytest.mark.parametrize(
    ("name", "value"), [(LOG_BYTES, "10 MB"), (LOG_BYTES, "0"), (LOG_FILES, "-1"), (PATIENCE, "1.5"), (PATIENCE, "²")]
)
def test_a_setting_that_is_no_number_is_named(name: str, value: str) -> None:
    with pytest.raises(InvalidInputError, match=f"{name}='{value}' .* is not a whole number"):
        DriverSettings.of({name: value})


def test_what_is_another_machine_s_or_no_log_is_left_alone(tmp_path: Path) -> None:
    mine, deployment = launch(tmp_path / "driver-1.log"), Folder.open(str(tmp_path))
    other = attrs.evolve(mine, process=attrs.evolve(mine.process, boot="another"))
    for found in (None, other, attrs.evolve(mine, process=None), launch(tmp_path / "cron.log")):
        assert OutputLog.of(found, deployment, DriverSettings()) is None
        with kept_short(OutputLog.of(found, deployment, DriverSettings())):
            pass


def test_the_end_is_read_without_the_rest(tmp_path: Path) -> None:
    log = tmp_path / "driver-1.log"
    with open(log, "wb") as file:
        file.seek(3_000_000_000)  # a hole: such a log takes no room here
        file.write(b"\n" + b"".join(b"line %d\n" % n for n in range(100)))
    tracemalloc.start()
    assert tail(log, 2) == "line 98\nline 99"
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 1_000_000
    assert len(tail(log, 1000)) <= MOST + 100_000


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 200_000])
def test_a_line_of_any_length(tmp_path: Path, size: int) -> None:
    log = tmp_path / "driver-1.log"
    log.write_text("first\n" + "x" * size + "\nlast\n")
    assert tail(log, 2).splitlines() == ["x" * size, "last"]
    assert tail(log, 3).splitlines() == ["first", "x" * size, "last"]


def test_what_was_put_aside_is_read_on(tmp_path: Path) -> None:
    log = tmp_path / "driver-1.log"
    numbered(tmp_path / "driver-1.log.2", 0, 5)
    numbered(tmp_path / "driver-1.log.1", 5, 10)
    numbered(log, 10, 12)
    assert tail(log, 4).splitlines() == [f"line {n}" for n in range(8, 12)]
    assert tail(log, 100).splitlines() == [f"line {n}" for n in range(12)]
    log.write_text("")
    assert tail(log, 1) == "line 9"
