"""What is shown of a driver's log: its end, and no secret of its application's."""

from __future__ import annotations

import ast
import errno
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import attrs
import pytest

import airflow_provider_streamupdate
from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.drivers import driver_log, launcher, log_tail, process
from airflow_provider_streamupdate.control.drivers.driver_log import follow_log
from airflow_provider_streamupdate.control.drivers.launch_files import local_folder
from airflow_provider_streamupdate.control.drivers.launcher import SparkSubmit
from airflow_provider_streamupdate.control.drivers.runtime import private_folder
from airflow_provider_streamupdate.control.operations import plan as planning
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.errors import DriverError, NotFoundError
from airflow_provider_streamupdate.core.processes.process_identity import ProcessIdentity
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.deployment import Current, Launch, Submitted
from airflow_provider_streamupdate.core.registry.driver_settings import DriverSettings
from airflow_provider_streamupdate.core.registry.output_log import OutputLog, own_log
from airflow_provider_streamupdate.core.storage import Folder
from tests.core.builders import set_status, spec, status

SAID = "first\nconnecting with hunter2 and /in\nRuntimeError: hunter2 was refused\n"
SHOWN = ("connecting with (hidden) and /in", "RuntimeError: (hidden) was refused")
APPLICATION = Application(file="a.py", params={"input": "/in"}, env_vars={"API_TOKEN": "hunter2"})


class Logged:
    """An app with a driver on this machine, and the file of its log."""

    def __init__(self, root: Path, text: str, **changes: Any) -> None:
        self.client = StreamUpdateClient(str(root))
        self.app = self.client.registry.app("flights")
        self.app.create_deployment(spec("v1", application=APPLICATION))
        self.path = root / "flights" / "deployments" / "v1" / "driver-1.log"
        self.path.write_text(text)
        self.launched(self.path, **changes)

    def launched(self, log: Path, **changes: Any) -> None:
        self.app.set_launch("v1", attrs.evolve(launch(log), host=os.uname().nodename, **changes))


def launch(log: Path) -> Launch:
    return Launch(epoch=1, host="h", pid=1, log=str(log), launched_at=clock.now())


def test_the_end_of_a_log_and_the_text_of_a_death_hide_secrets(tmp_path: Path) -> None:
    logged = Logged(tmp_path, SAID)
    client, log = logged.client, logged.path
    found = client.driver_log("flights", "v1", 2)
    assert (found.path, found.lines) == (str(log), SHOWN)
    told = client.drivers("flights").death("v1", "lost")
    assert told.endswith("\n".join((f"last lines of {log}:", "first", *SHOWN))) and "hunter2" not in told
    log.unlink()
    assert client.drivers("flights").last_lines("v1") == f"(there is no log at {log})"
    logged.app.folder.remove("deployments/v1/launch.json")
    assert client.drivers("flights").last_lines("v1") == "(no driver was started)"


def test_the_text_of_a_plan_that_failed_hides_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "app.py"
    file.write_text("")

    def run(_command: list[str], _environment: dict[str, str], _folder: Path, output: IO[bytes], _seconds: Any) -> int:
        output.write(SAID.encode())
        return 3

    monkeypatch.setattr(process, "run", run)
    monkeypatch.setattr(launcher, "check_environment", lambda *_: None)
    with pytest.raises(DriverError) as caught:
        planning.plan_application(SparkSubmit("spark-submit"), attrs.evolve(APPLICATION, file=str(file)))
    assert str(caught.value).endswith("\n".join(SHOWN)) and "hunter2" not in str(caught.value)


def test_nobody_else_reads_a_log() -> None:
    """Who reads one by another way shows its secrets."""
    package = Path(airflow_provider_streamupdate.__file__).parent
    readers = {
        file.name
        for file in package.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("log_tail")
    }
    assert readers == {"driver_log.py"}


def test_a_log_is_followed_to_its_end_through_a_rotation(tmp_path: Path) -> None:
    """What was there, what comes, what comes after it was emptied, and a last line without an end; no secret."""
    logged = Logged(tmp_path, "old\n" + SAID + "half a ")
    app, log = logged.app, logged.path

    def onward(text: str, rotate: bool = False) -> None:
        with log.open("a") as file:
            if rotate:
                os.truncate(log, 0)
            file.write(text)

    writes = [("line\n", False), ("more of hunt", False), ("er2\n", False), ("new\n", True), ("end", False)]

    def ended() -> bool:
        onward(*writes.pop(0))
        return not writes

    found = list(follow_log(app, "v1", 3, ended))
    assert found == [*SHOWN, "half a line", "more of (hidden)", "new", "end"]
    app.create_deployment(spec("v2"))
    with pytest.raises(NotFoundError, match="no driver of deployment v2"):
        list(follow_log(app, "v2", 2, lambda: True))


class Elsewhere:
    """Has the driver, and its log, after a few looks."""

    def __init__(self, looks: int) -> None:
        self.left = looks

    def follow_log(self, launch: Launch, lines: int, over: Callable[[], bool]) -> Iterator[str] | None:
        self.left -= 1
        return None if self.left >= 0 else iter(("of the driver",))


@pytest.mark.parametrize("looks", [0, 1, 3])
def test_what_is_submitted_is_followed_from_spark_submit_to_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks: int
) -> None:
    """Its pod is made while the log is followed already."""
    monkeypatch.setattr(log_tail, "FOLLOW_SECONDS", 0.01)
    cluster = Elsewhere(looks)
    monkeypatch.setattr(driver_log, "cluster_of", lambda _launch: cluster)
    app = Logged(tmp_path, "of spark-submit\n", submitted=Submitted(name="tag")).app
    found = list(follow_log(app, "v1", 10, lambda: False))
    assert found == [*(["of spark-submit"] if looks else []), "of the driver"]


@pytest.mark.parametrize("begun", [b"password=hun", "password=\u00e9".encode()[:-1]])
def test_from_now_on_begins_with_a_whole_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: bytes) -> None:
    """The rest of one could hold the rest of a secret."""
    monkeypatch.setattr(log_tail, "FOLLOW_SECONDS", 0.01)
    log = tmp_path / "log"
    log.write_bytes(b"before\n" + begun)
    looks = itertools.count()

    def ended() -> bool:
        look = next(looks)
        if look == 1:
            with log.open("ab") as more:
                more.write(b"\xa9ter2\nafter\n")
        return look > 3

    assert list(log_tail.follow(log, 0, ended)) == ["after"]


@pytest.mark.parametrize("kind", ["named", "of another deployment", "link", "link to a folder"])
def test_launch_json_names_no_other_file_of_this_machine(tmp_path: Path, kind: str) -> None:
    """Whoever may write to the root could have the API server show any file, and a driver empty it."""
    logged = Logged(tmp_path / "root", "")
    app, folder = logged.app, logged.path.parent
    logged.path.unlink()
    app.create_deployment(spec("v2", application=APPLICATION))
    (tmp_path / "etc").mkdir()
    secret, log = tmp_path / "etc/driver-1.log", logged.path
    secret.write_text("fernet_key = hunter2")
    if kind == "link":
        log.symlink_to(secret)
    elif kind == "link to a folder":
        (folder / "sub").symlink_to(secret.parent)
        log = folder / "sub/driver-1.log"
    else:
        log = secret if kind == "named" else tmp_path / "root/flights/deployments/v2/spec.json"
    logged.launched(log, process=ProcessIdentity.own())
    found = logged.client.driver_log("flights", "v1")
    assert found.lines == () and found.note is not None and "is not the log of a driver of v1" in found.note
    with pytest.raises(NotFoundError, match="is not the log of a driver of v1"):
        list(follow_log(app, "v1", 3, lambda: True))
    assert OutputLog.of(app.launch("v1"), app.deployment_folder("v1"), DriverSettings(log_bytes=1)) is None


@pytest.mark.parametrize("error", [errno.EACCES, errno.ENAMETOOLONG, errno.EINVAL])
@pytest.mark.parametrize("where", ["driver_log.Path.is_file", "driver_log.own_log", "driver_log.os.access"])
def test_a_log_that_cannot_be_looked_at_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, error: int
) -> None:
    """In another user's private folder, with a name that is too long, or while a link becomes a file."""
    logged = Logged(tmp_path, SAID)

    def fail(*_: object) -> bool:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(f"airflow_provider_streamupdate.control.drivers.{where}", fail)
    note = logged.client.driver_log("flights", "v1").note
    with pytest.raises(NotFoundError, match=rf"cannot be read: {os.strerror(error)}"):
        list(follow_log(logged.app, "v1", 3, lambda: True))
    monkeypatch.undo()
    assert note is not None and f"cannot be read: {os.strerror(error)}; {logged.path} belongs to " in note


def test_a_log_that_others_cannot_open_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logged = Logged(tmp_path, SAID)

    def fail(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(log_tail, "_opener", fail)
    with pytest.raises(NotFoundError, match="cannot be read any more: Permission denied"):
        list(follow_log(logged.app, "v1", 3, lambda: True))


def test_a_rotated_log_is_no_link_and_no_pipe(tmp_path: Path) -> None:
    log = tmp_path / "driver-1.log"
    log.write_text("mine\n")
    (tmp_path / "secret").write_text("hunter2")
    (tmp_path / "driver-1.log.1").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "driver-1.log.2")
    assert log_tail.tail(log, 10) == "mine"


def test_the_log_of_a_root_elsewhere_is_in_this_user_s_private_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    deployment = Folder.open("memory://elsewhere/flights/deployments/v1")
    private = private_folder("deployments")
    log = local_folder(deployment, spec("v1")) / "driver-1.log"
    log.parent.mkdir()
    assert own_log(launch(log), deployment) == log and log.parent.parent == private
    other = local_folder(Folder.open("memory://elsewhere/trains/deployments/v1"), spec("v1", app="trains"))
    longer = local_folder(Folder.open("memory://elsewhere/flights/deployments/v1_2"), spec("v1_2"))
    any_name = tmp_path / f"{private.name}-of-mine" / log.parent.name
    for foreign in (other, longer, private / "any", any_name):
        assert own_log(launch(foreign / "driver-1.log"), deployment) is None, foreign
    log.parent.parent.chmod(0o777)
    assert own_log(launch(log), deployment) is None, "somebody else may have put it there"
    assert own_log(launch(tmp_path / "driver-1.log"), deployment) is None


FAILED_LOG = [
    *(f"26/11/28 22:00:00 INFO MicroBatchExecution: batch {n}" for n in range(50)),
    "Traceback (most recent call last):",
    '  File "/app/v2.py", line 40, in main',
    "pyspark.errors.exceptions.captured.StreamingQueryException: [STREAM_FAILED] Query [id = 1, runId = 2] terminated",
    "Traceback (most recent call last):",
    *(f'  File "/app/v2.py", line {n}, in price' for n in range(40)),
    "KeyError: 'EUR'",
    "",
    *(f"\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:{n})" for n in range(80)),
    "\t... 12 more",
    "=== Streaming Query ===",
    *(f"+- Project [price#{n}]" for n in range(60)),
]


def test_log_shows_the_error_of_a_failed_driver(tmp_path: Path) -> None:
    logged = Logged(tmp_path, "\n".join(FAILED_LOG))
    client, app = logged.client, logged.app
    app.set_current(Current(deployment="v1", epoch=1))
    assert "KeyError: 'EUR'" not in client.driver_log("flights", "v1", 30).lines
    set_status(app, "v1", status("failed", error="KeyError: 'EUR'"))
    assert "KeyError: 'EUR'" in client.driver_log("flights", "v1", 30).lines
    assert client.driver_log("flights", "v1", 30, end=True).lines == tuple(FAILED_LOG[-30:])
    death = client.drivers("flights").death("v1", "failed")
    assert "update FIXED.py --strategy restart" in death and "streamupdate restart flights" in death
    assert "KeyError: 'EUR'" in death.splitlines()
